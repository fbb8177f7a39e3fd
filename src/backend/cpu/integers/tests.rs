//! Tests of `integers`.

use super::super::instructions::PLAIN;
use super::*;

/// Always these four rows.
impl IntegerRows for IntegerWeights<'_> {
    fn four<'a, I: Integers>(&'a self, _: I, _: usize, _: &'a mut [Vec<[f32; 4]>; 2]) -> IntegerWeights<'a> {
        *self
    }
}

/// Does work with instructions of an older processor, which give the same bits.
fn with_older_integers(work: impl WithIntegers) {
    #[cfg(target_arch = "aarch64")]
    {
        use super::super::instructions::arm::Arm;
        if let (Some(_), Some(arm)) = (Arm::<true>::find(), Arm::<false>::find()) {
            return arm.vectorize(work);
        }
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V3::try_new() {
        return super::super::instructions::pairs(simd, work);
    }
    work.with_integers(PLAIN);
}

/// Does work with the code for VNNI, on any processor with AVX2.
#[cfg(target_arch = "x86_64")]
fn with_vnni(work: impl WithIntegers) {
    use super::super::instructions::vnni::tests::Substitute;
    match (Substitute::find(), pulp::x86::V3::try_new()) {
        (Some(vnni), Some(simd)) => vnni.vectorize(simd, work),
        _ => with_older_integers(work),
    }
}

/// Returns reproducible, disordered numbers.
fn codes(count: usize, seed: usize) -> Vec<u8> {
    (0..count).map(|i| (((i + seed) * (i + 7 * seed + 3)) >> 3) as u8).collect()
}

/// Checks that this processor's instruction sets give the same products, and that a row's bits do not depend on other rows.
#[test]
fn all_instructions_agree() {
    let (blocks, rows, fours) = (5, 15, 2);
    let bytes = codes(4 * blocks * BLOCK, 1);
    let values: Vec<f32> = codes(rows * blocks * BLOCK, 2).iter().map(|code| f32::from(*code) - 127.0).collect();
    let of_fours = |seed| -> Vec<[f32; 4]> {
        let numbers: Vec<f32> = codes(8 * blocks, seed).iter().map(|code| f32::from(*code) / 256.0).collect();
        numbers.as_chunks::<4>().0.to_vec()
    };
    let (scales, offsets) = (of_fours(3), of_fours(4));
    let eights: Vec<u64> = bytes.as_chunks().0.iter().map(|eight| u64::from_le_bytes(*eight)).collect();
    for (layout, center, groups, has_offsets) in [
        (CodeLayout::Four, 0.0, 1, true),
        (CodeLayout::Four, 8.0, 2, false),
        (CodeLayout::Five, 16.0, 1, false),
        (CodeLayout::Six, 32.0, 2, true),
        (CodeLayout::Eight, 0.0, 1, false),
        (CodeLayout::Eight, -128.0, 1, true),
    ] {
        let codes = &eights[..layout.words() * blocks];
        let scales = &scales[..groups * blocks];
        let offsets = has_offsets.then_some(&offsets[..groups * blocks]);
        let weights = &IntegerWeights { codes, layout, center, scales, offsets };
        let product = |run: &dyn Fn(&Coded, &mut [[f32; 4]])| {
            let x = Rows::from_flat(&values, blocks * BLOCK);
            let mut all = vec![[0f32; 4]; fours * rows];
            run(&Coded::new(&x), &mut all);
            for row in 0..rows {
                let mut alone = vec![[0f32; 4]; fours];
                run(&Coded::new(&x.part(row..row + 1)), &mut alone);
                let in_company = all.iter().skip(row).step_by(rows);
                assert!(
                    alone.iter().zip(in_company).all(|(a, b)| a.map(f32::to_bits) == b.map(f32::to_bits)),
                    "row {row}"
                );
            }
            all.as_flattened().to_vec()
        };
        let plain = product(&|x, products| IntegerProducts { weights, x, products }.with_integers(PLAIN));
        let largest = plain.iter().fold(0f32, |most, x| most.max(x.abs()));
        let best = product(&|x, products| super::products(weights, x, products));
        let older = product(&|x, products| with_older_integers(IntegerProducts { weights, x, products }));
        let bits = |products: &[f32]| products.iter().map(|product| product.to_bits()).collect::<Vec<u32>>();
        assert_eq!(bits(&older), bits(&best), "instructions of older and of this processor");
        #[cfg(target_arch = "x86_64")]
        {
            let vnni = product(&|x, products| with_vnni(IntegerProducts { weights, x, products }));
            assert_eq!(bits(&vnni), bits(&best), "instructions of this processor and code for VNNI");
        }
        let worst = plain.iter().zip(&best).fold(0f32, |worst, (a, b)| worst.max((a - b).abs()));
        assert!(worst <= 1e-6 * largest, "{worst} of {largest}");
    }
}
