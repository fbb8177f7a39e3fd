//! Work in parts: on all cores where there are threads.

/// Runs `run` over parts of so many numbers: on all cores, where there are threads.
pub fn for_each_part(all: &mut [f32], size: usize, run: impl Fn(usize, &mut [f32]) + Sync) {
    #[cfg(not(target_arch = "wasm32"))]
    {
        use rayon::prelude::*;
        if all.len() > size {
            return all.par_chunks_mut(size).enumerate().for_each(|(part, products)| run(part, products));
        }
    }
    all.chunks_mut(size).enumerate().for_each(|(part, products)| run(part, products));
}
