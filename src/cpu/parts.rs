//! Work in parts: on all cores where there are threads.

/// How many cores work.
pub fn threads() -> usize {
    #[cfg(not(target_arch = "wasm32"))]
    return rayon::current_num_threads();
    #[cfg(target_arch = "wasm32")]
    1
}

/// Runs `run` on one of the threads, so that the others take parts of it without being woken each time.
pub fn among_threads<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    #[cfg(not(target_arch = "wasm32"))]
    return rayon::scope(|_| run());
    #[cfg(target_arch = "wasm32")]
    run()
}

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
