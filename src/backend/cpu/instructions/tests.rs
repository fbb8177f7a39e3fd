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
    let (sum, codes, x) = (cast([7i32; 8]), cast([200u8; 32]), cast([-127i8; 32]));
    let sums = [
        Substitute::find().map(|vnni| vnni.dot(sum, codes, x)),
        Avx512Vnni::find().map(|vnni| vnni.dot(sum, codes, x)),
        AvxVnni::find().map(|vnni| vnni.dot(sum, codes, x)),
    ];
    for sums in sums.into_iter().flatten() {
        assert_eq!(cast::<_, [i32; 8]>(sums), [7 - 4 * 200 * 127; 8]);
    }
}
