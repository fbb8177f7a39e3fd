//! Opens draft models.

use super::{ModelFiles, not_used};
use crate::checkpoint;
use crate::error::{Error, Result};
use crate::model::Blueprint;
use crate::options::LoadOptions;
use crate::session::Prompts;
use crate::text::Tokenizer;
use crate::weights::Source;
use std::fmt::Display;
use std::rc::Rc;

/// The assistant model, in warnings.
pub(super) const ASSISTANT: &str = "assistant model";

/// Returns the warning that the assistant model is not used.
pub(crate) fn without_assistant(reason: impl Display) -> String {
    not_used(ASSISTANT, reason)
}

/// Returns the error of a drafter that is opened without its target.
pub(super) fn alone(place: &str) -> Error {
    let reason =
        "this drafter reads hidden states of its target: load the target, with this as assistant_model, on one device";
    Error::BadConfig { file: format!("{place}/config.json"), key: "architectures".into(), reason: reason.into() }
}

/// Opens a draft model. Its context is the target's, or its own maximum if that is less. Without `target`, which is then on another device,
/// it must not need it.
pub(super) async fn open_alone(
    source: Box<dyn Source>,
    options: &LoadOptions,
    context: usize,
    target: Option<&Blueprint>,
) -> Result<ModelFiles> {
    let own = options.clone().max_context(None).file(options.assistant_file.clone()).sp_degree(1);
    let mut assistant = ModelFiles::open_for(source, &own, target).await.map_err(checkpoint::of_assistant)?;
    let most = assistant.blueprint.spec.max_position_embeddings;
    assistant.blueprint.capacity.max_context = context.min(most);
    Ok(assistant)
}

/// Opens a draft model as [`open_alone`]. Also returns the tokenizers of target and draft model if they differ, and adds a warning.
pub(crate) async fn open_assistant(
    source: Box<dyn Source>,
    options: &LoadOptions,
    prompts: &Prompts,
    target: Option<&Blueprint>,
    warnings: &mut Vec<String>,
) -> Result<(ModelFiles, Option<[Rc<Tokenizer>; 2]>)> {
    let assistant = open_alone(source, options, prompts.context, target).await?;
    if assistant.blueprint.spec.needs_target() {
        return Ok((assistant, None));
    }
    let other = assistant.tokenizer().await?;
    let tokenizers = prompts.tokenizer.difference(&other).map(|difference| {
        warnings.push(format!(
            "the assistant model has another tokenizer ({difference}): its drafts go through text, which costs speed"
        ));
        [prompts.tokenizer.clone(), Rc::new(other)]
    });
    Ok((assistant, tokenizers))
}
