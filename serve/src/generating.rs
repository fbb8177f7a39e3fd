//! Generation of the choices of a request, whole or as a stream.

use crate::api_error::{ApiError, bad_option};
use crate::choices::{ChoiceReader, usage};
use crate::ids::{answer_id, unix_time};
use crate::models::ModelUse;
use crate::reply::{self, ApiResponse, ClientGone, EventSender};
use crate::request::Wanted;
use foretoken::internals::options::MAX_SEED;
use foretoken::{Answer, GenerateOptions, Prompt, Result, Token, Writing};
use hyper::StatusCode;
use serde_json::{Value, json};
use std::time::Duration;

/// A request for texts.
pub(crate) struct TextRequest {
    pub wanted: Wanted,
    pub prompts: Vec<Prompt>,
    pub options: GenerateOptions,
    /// Names of the answer: the prefix of its id, its object, and the object of its chunks.
    pub names: [&'static str; 3],
    /// Id of the model in the answer.
    pub model_id: String,
}

/// Makes the reader of a choice. The flag is true if the prompt ends within a thought.
pub(crate) type NewReader = Box<dyn Fn(bool) -> ChoiceReader + Send + Sync>;

/// Generations of a request that have begun.
struct TextRuns {
    runs: Vec<Writing<'static>>,
    new_reader: NewReader,
    is_open: bool,
    /// Choices for each prompt.
    choices: usize,
    /// Fields of the answer or of each chunk.
    head: Value,
    /// Dropped last, because the generations use the model.
    using: ModelUse,
}

/// Returns the options of a choice of one prompt.
fn options_of_choice(options: &GenerateOptions, index: usize) -> GenerateOptions {
    let seed = options.sampling.seed.map(|seed| seed + index as u64);
    options.clone().seed(seed)
}

fn check_count(wanted: &Wanted, options: &GenerateOptions, using: &ModelUse) -> Result<()> {
    let others = wanted.n as u64 - 1;
    if others > 0 && !options.sampling.draws(&using.model.sampling) {
        let allowed = "1, if no tokens are drawn at random: the most likely text is only one";
        return Err(bad_option("n", wanted.n, allowed));
    }
    match options.sampling.seed {
        Some(seed) if others > MAX_SEED.saturating_sub(seed) => {
            Err(bad_option("seed", seed, "seeds that leave n up to 2^53 - 1, one for each choice"))
        }
        _ => Ok(()),
    }
}

/// Answers a request. `open`: whether the prompt ends within a thought, if the reader needs that.
pub(crate) async fn answer(
    request: TextRequest,
    open: Option<Answer<bool>>,
    new_reader: NewReader,
    using: ModelUse,
    patience: Duration,
) -> Result<ApiResponse, ApiError> {
    let TextRequest { wanted, prompts, options, names: [prefix, object, chunk], model_id } = request;
    check_count(&wanted, &options, &using)?;
    let engine = &using.model.engine;
    // All at once, so that no other prompt is read between them.
    let choices = prompts.iter().flat_map(|prompt| (0..wanted.n).map(move |index| (prompt, index)));
    let runs = choices.map(|(prompt, index)| engine.generate(prompt.clone(), options_of_choice(&options, index)));
    let runs = runs.collect();
    let object = if wanted.stream { chunk } else { object };
    let head = json!({ "id": answer_id(prefix), "object": object, "created": unix_time(), "model": model_id });
    let mut runs = TextRuns { runs, new_reader, is_open: false, choices: wanted.n, head, using };
    if let Some(open) = open {
        runs.is_open = open.await.map_err(|error| runs.using.failed(error))?;
    }
    if !wanted.stream {
        return runs.whole().await;
    }
    // An error before the first token has its own status.
    match runs.runs[0].next_token().await {
        Some(Err(error)) => Err(runs.using.failed(error)),
        first => Ok(reply::stream(patience, move |events| runs.stream(Some(first), events, wanted.include_usage))),
    }
}

impl TextRuns {
    async fn whole(mut self) -> Result<ApiResponse, ApiError> {
        let (mut choices, mut all) = (Vec::new(), Vec::new());
        for (index, run) in std::mem::take(&mut self.runs).into_iter().enumerate() {
            let generation = run.complete().await.map_err(|error| self.using.failed(error))?;
            choices.push((self.new_reader)(self.is_open).whole(index, &generation));
            all.push(generation.stats);
        }
        let mut answer = with_field(&self.head, "choices", choices.into());
        answer["usage"] = usage(&all, self.choices);
        Ok(reply::json(StatusCode::OK, &answer))
    }

    /// Streams all choices. `first`: first event of the first run.
    async fn stream(
        self,
        mut first: Option<Option<Result<Token>>>,
        events: EventSender,
        include_usage: bool,
    ) -> Result<(), ClientGone> {
        // The generations are dropped before the model.
        let Self { using, mut runs, new_reader, is_open, choices, head } = self;
        let mut all = Vec::new();
        for (index, run) in runs.iter_mut().enumerate() {
            let mut reader = new_reader(is_open);
            send(&head, reader.begin(index), &events).await?;
            loop {
                let next = match first.take() {
                    Some(first) => first,
                    None => run.next_token().await,
                };
                match next {
                    None => break,
                    Some(Ok(token)) => send(&head, reader.push(index, &token), &events).await?,
                    Some(Err(error)) => return events.send(&using.failed(error).to_json()).await,
                }
            }
            let Some((reason, stats)) = run.generation().map(|end| (end.finish_reason, end.stats.clone())) else {
                return Ok(());
            };
            send(&head, reader.finish(index, reason), &events).await?;
            all.push(stats);
        }
        if include_usage {
            let mut last = with_field(&head, "choices", json!([]));
            last["usage"] = usage(&all, choices);
            events.send(&last).await?;
        }
        events.finish().await
    }
}

/// Returns the fields of all chunks, and one more.
fn with_field(head: &Value, name: &str, value: Value) -> Value {
    let mut answer = head.clone();
    answer[name] = value;
    answer
}

/// Sends pieces of a choice as chunks.
async fn send(
    head: &Value,
    pieces: impl IntoIterator<Item = Value, IntoIter: Send>,
    events: &EventSender,
) -> Result<(), ClientGone> {
    for piece in pieces {
        events.send(&with_field(head, "choices", json!([piece]))).await?;
    }
    Ok(())
}
