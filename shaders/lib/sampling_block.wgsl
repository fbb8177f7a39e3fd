struct SamplingBlock {
    seed_low: u32,
    seed_high: u32,
    temperature: f32,
    top_k: u32,                 // 0: all
    top_p: f32,                 // 1: all
    min_p: f32,                 // 0: all
    repetition_penalty: f32,    // 1: none
    presence_penalty: f32,      // 0: none
    frequency_penalty: f32,     // 0: none
    no_repeat_ngram_size: u32,  // 0: n-grams may repeat
    confidence: f32,            // drafting ends after a token less likely than this; 0: never
}
