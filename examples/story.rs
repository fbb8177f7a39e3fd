//! A story, written as it comes, drafted by a small model: `cargo run --release --example story`.

use foretoken::{Engine, GenerateOptions};
use std::io::{self, Write};

fn main() -> foretoken::Result<()> {
    let engine = Engine::builder("models/tales/target").assistant_model("models/tales/draft").load()?;
    let mut story = engine.generate("Once upon a time", GenerateOptions::new().max_new_tokens(60));
    for token in story.by_ref() {
        print!("{}", token?.text);
        let _ = io::stdout().flush();
    }
    if let Some(story) = story.generation() {
        let stats = &story.stats;
        println!("\n\n{} tokens in {} rounds on {}", story.token_ids.len(), stats.num_spec_steps, engine.device().name);
    }
    Ok(())
}
