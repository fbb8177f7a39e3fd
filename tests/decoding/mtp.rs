//! MTP layers as drafters: their drafts are those of vLLM's arithmetic, on every device.

use super::trained::{Case, MTP};
use common::altered::{overflowing, without};
use common::{gpu, path, run, tempfile};
use foretoken::internals::backend::Device;
use foretoken::internals::session::{Progress, Session};
use foretoken::internals::weights::{Folder, InMemory};
use foretoken::{DrafterChoice, GenerateOptions, LoadOptions, Origin, Prompt, ResponseFormat, Schedule, UseMtp};
use serde_json::json;
use std::ops::ControlFlow;

const FOLDER: &str = "tests/golden/drafters/qwen35-mtp";

fn cases() -> Vec<Case> {
    MTP.cases()
}

/// Returns a folder of the target with the tokenizer of the tales.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for from in [path(FOLDER), path("models/tales/target")] {
        for name in ["config.json", "model.safetensors", "tokenizer.json"] {
            let (from, to) = (from.join(name), folder.path().join(name));
            if from.is_file() && !to.exists() {
                std::fs::copy(from, to).unwrap();
            }
        }
    }
    folder
}

#[test]
fn a_session_uses_the_layer_unless_it_is_told_not_to() {
    let (folder, gpu) = (folder(), gpu());
    let files = || Folder::open(folder.path()).unwrap();
    let load = |device: Device, options: &LoadOptions| {
        run(Session::load(device, files(), None::<Folder>, options, &mut |_, _| ()))
    };
    let drafts = GenerateOptions::new()
        .max_new_tokens(40)
        .drafter(DrafterChoice::DraftModel)
        .num_assistant_tokens_schedule(Schedule::Constant);
    let format = json!({ "type": "regex", "regex": "[a-z ,]*" });
    let formed = drafts.clone().response_format(ResponseFormat(format.as_object().unwrap().clone()));
    let prompt = Prompt::Tokens(cases()[2].prompt.clone());
    for device in [Device::from(&gpu), Device::cpu()] {
        let mut plain = load(device.clone(), &LoadOptions::new().use_mtp(UseMtp::No)).unwrap();
        let mut session = load(device, &LoadOptions::new()).unwrap();
        for options in [&drafts, &formed] {
            let mut origins = Vec::new();
            let mut write = |session: &mut Session| {
                let mut on_token = |progress: Progress<'_>| {
                    if let Progress::Token(token) = progress {
                        origins.push(token.origin);
                    }
                    ControlFlow::Continue(())
                };
                run(session.generate(&prompt, options, &mut on_token)).unwrap()
            };
            let found = write(&mut session);
            let expected = write(&mut plain);
            assert_eq!(found.token_ids, expected.token_ids);
            assert!(found.stats.num_accepted_draft_tokens > 0);
            assert!(origins.contains(&Origin::Mtp), "{origins:?}");
        }
    }
    let tales = Folder::open(path("models/tales/target")).unwrap();
    let must = LoadOptions::new().use_mtp(UseMtp::Yes);
    let missing = run(Session::load(&gpu, tales.clone(), None::<Folder>, &must, &mut |_, _| ())).err().unwrap();
    assert!(missing.to_string().contains("has no MTP layer"), "{missing}");
    let both = run(Session::load(&gpu, files(), Some(tales), &must, &mut |_, _| ())).err().unwrap();
    assert!(both.to_string().contains("with an assistant model"), "{both}");
}

/// A layer whose guesses are no numbers, or that is incomplete, costs its drafts and a warning, never the text.
#[test]
fn a_broken_layer_costs_a_warning_and_never_the_text() {
    let folder = folder();
    let options = GenerateOptions::new()
        .max_new_tokens(30)
        .drafter(DrafterChoice::DraftModel)
        .num_assistant_tokens_schedule(Schedule::Constant);
    let prompt = Prompt::Tokens(cases()[2].prompt.clone());
    let overflowing = overflowing(folder.path(), "mtp.layers.0.mlp.down_proj.weight");
    let incomplete = without(folder.path(), "mtp.norm.weight");
    for (source, warning) in [(overflowing, "without the draft model"), (incomplete, "the MTP layer is not used")] {
        for device in [Device::from(&gpu()), Device::cpu()] {
            let load = LoadOptions::new();
            let mut session =
                run(Session::load(device, source.clone(), None::<InMemory>, &load, &mut |_, _| ())).unwrap();
            let found = run(session.generate(&prompt, &options, &mut |_| ControlFlow::Continue(()))).unwrap();
            assert_eq!(found.token_ids, cases()[2].text[..30]);
            let warnings = &found.stats.warnings;
            assert!(warnings.iter().any(|found| found.contains(warning)), "{warnings:?}");
        }
    }
}
