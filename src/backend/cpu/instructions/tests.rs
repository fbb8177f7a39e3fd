//! The code for VNNI with a substitute for its instruction, for processors without it.

use super::*;
use bytemuck::cast;

vnni!(
    /// As [`AvxVnni`].
    Substitute, dot, "avx2"
);

/// Adds the products of four neighbours, unsigned codes and signed activations, to each sum.
#[target_feature(enable = "avx2")]
fn dot(sum: __m256i, codes: __m256i, x: __m256i) -> __m256i {
    let (mut sums, codes, x): ([i32; 8], [u8; 32], [i8; 32]) = (cast(sum), cast(codes), cast(x));
    for i in 0..32 {
        sums[i / 4] += i32::from(codes[i]) * i32::from(x[i]);
    }
    cast(sums)
}

/// Checks the substitute, and the instructions that this processor has.
#[test]
fn products_of_four_neighbours_are_added() {
    /// Multiplies codes with activations that differ in the second half of a block.
    fn sums(products: impl Products) -> [[i32; 8]; 2] {
        let x = [-127i8, -127, 1, 1].map(|x| cast([x; 32]));
        products.sums::<2, 16>([cast([200u8; 32]); 4], x).map(cast)
    }
    let found = [Substitute::find().map(sums), Avx512Vnni::find().map(sums), AvxVnni::find().map(sums)];
    for sums in found.into_iter().flatten() {
        assert_eq!(sums, [[-4 * 2 * 200 * 127; 8], [4 * 2 * 200; 8]]);
    }
}
