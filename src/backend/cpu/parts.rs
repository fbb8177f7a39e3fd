//! Work in parts: on all cores if there are threads.

/// Returns the number of threads that compute.
pub fn threads() -> usize {
    #[cfg(not(target_arch = "wasm32"))]
    return rayon::current_num_threads();
    #[cfg(target_arch = "wasm32")]
    1
}

/// Calls `run` for each part of `size` elements, on all cores if there are threads.
pub fn for_each_part<T: Send>(all: &mut [T], size: usize, run: impl Fn(usize, &mut [T]) + Sync) {
    #[cfg(not(target_arch = "wasm32"))]
    {
        use rayon::prelude::*;
        if all.len() > size {
            return all.par_chunks_mut(size).enumerate().for_each(|(part, products)| run(part, products));
        }
    }
    all.chunks_mut(size).enumerate().for_each(|(part, products)| run(part, products));
}
