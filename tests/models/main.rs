//! Models: logits and tokens equal those of transformers and llama.cpp, with the same bits in every batch.

mod cpu;
mod experts;
mod invariance;
mod model;
mod naming;
mod perplexity;
mod published;
mod quantised;
mod readings;
mod recurrent;
