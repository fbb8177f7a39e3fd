//! A target on a server, and a draft model with another tokenizer.

use crate::{command, parsed};
use common::foreign::Foreign;
use common::served::{Served, honest};
use foretoken::internals::backend::server::Dialect;

#[test]
fn the_text_is_that_of_the_target_alone() {
    let (served, foreign) = (Served::new(Dialect::Vllm, honest()), Foreign::new(1_500));
    let prompt = "Once upon a time there was a little fox who lived in a wood. The fox said";
    let generate = |flags: &[&str]| {
        let args = ["generate", prompt, "--json", "--device", "cpu", "--max-new-tokens", "40"];
        parsed(&command(&args).args(flags).output().unwrap())
    };
    let plain = generate(&["--no-assistant", "--speculation", "off"]);
    let assistant = foreign.folder().to_str().unwrap();
    let remote = [
        ["--target-url", &served.address],
        ["--target-model", "tales"],
        ["--model", "models/tales/target"],
        ["--assistant-model", assistant],
        ["--num-assistant-tokens-schedule", "constant"],
    ];
    for sp_degree in ["1", "2"] {
        let report = generate(&[remote.as_flattened(), &["--sp-degree", sp_degree]].concat());
        assert_eq!(report["token_ids"], plain["token_ids"], "{report}");
        assert!(report["stats"]["num_accepted_draft_tokens"].as_u64().unwrap() > 5, "{report}");
    }
}
