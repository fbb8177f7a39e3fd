//! Two conversations with one model that take turns, awaited, each with its own end: `cargo run --release --example chats [MODEL]`.

use foretoken::{Engine, GenerateOptions};

fn main() -> foretoken::Result<()> {
    let model = std::env::args().nth(1).unwrap_or_else(|| "models/tales/target".into());
    // On any executor.
    pollster::block_on(async {
        let engine = Engine::builder(model).load_async().await?;
        let options = GenerateOptions::new().max_new_tokens(24);
        let (mut fox, mut king) = (engine.chat(options.clone()), engine.chat(options));
        for (chat, message) in [
            (&mut fox, "Continue the tale: The fox went into the wood."),
            (&mut king, "Continue the tale: The king had a daughter."),
        ] {
            println!("{}", chat.send(message).complete().await?.text);
        }
        for chat in [&mut fox, &mut king] {
            let answer = chat.send("And then?").complete().await?;
            println!("{} ({} tokens were not read again)", answer.text, answer.stats.num_cached_tokens);
        }
        // Long enough for anybody else to say when it is enough.
        let mut long = fox.send("Go on.");
        let enough = long.cancel_token();
        let mut count = 0;
        while let Some(token) = long.next_token().await {
            print!("{}", token?.text);
            count += 1;
            if count == 8 {
                enough.cancel();
            }
        }
        println!();
        Ok(())
    })
}
