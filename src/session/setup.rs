//! From a call's options to sampling parameters and a drafter.

use super::Run;
use super::timing::time_rounds;
use crate::backend::Backend;
use crate::backend::gpu::MAX_AFTER;
use crate::error::{Error, Result};
use crate::gpu::DeviceInfo;
use crate::model::{HiddenStates, TokenSpec};
use crate::options::{
    Acceptance, DrafterChoice, DraftingOptions, GenerateOptions, SamplingValues, Schedule, Speculation,
};
use crate::sample::{Bias, Draw, Processors, Sampling, threefry2x32};
use crate::speculate::{
    Adaptive, Chain, DraftModel, Drafter, Lookahead, NoDrafter, Origin, Prediction, PromptLookup, Speculating,
    SuffixLookup, TokenLog,
};
use crate::target::{MAX_DRAFT, Timings};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use web_time::{SystemTime, UNIX_EPOCH};

/// Returns how target and draft model choose tokens after a prompt of `prompt_len` tokens.
///
/// # Errors
/// [`Error::BadOption`] for token ids out of range, and for sequences that are too long.
pub(crate) fn sampling(
    options: &GenerateOptions,
    values: &SamplingValues,
    spec: &TokenSpec,
    prompt_len: usize,
) -> Result<Sampling> {
    let bad = |option: &'static str, value: String, allowed: String| {
        Err(Error::BadOption { option: option.into(), value, allowed })
    };
    let vocab = spec.vocab_size;
    let unknown = |id: &&u32| **id as usize >= vocab;
    if let Some(id) = options.sampling.logit_bias.keys().find(unknown) {
        return bad("logit_bias", format!("token {id}"), format!("token ids below {vocab}"));
    }
    let mut biases: Vec<Bias> =
        options.sampling.logit_bias.iter().map(|(&token, &bias)| Bias::always(token, bias)).collect();
    for sequence in &options.sampling.bad_words_ids {
        if let Some(id) = sequence.iter().find(unknown) {
            return bad("bad_words_ids", format!("token {id}"), format!("token ids below {vocab}"));
        }
        let Some((&token, after)) = sequence.split_last() else { continue };
        if after.len() > MAX_AFTER {
            let value = format!("a sequence of {} tokens", sequence.len());
            return bad("bad_words_ids", value, format!("sequences of 1 to {} tokens", MAX_AFTER + 1));
        }
        biases.push(Bias { after: after.to_vec(), ..Bias::ban(token) });
    }
    if options.min_new_tokens > 0 {
        let until = u32::try_from(prompt_len.saturating_add(options.min_new_tokens)).unwrap_or(u32::MAX);
        biases.extend(spec.eos_token_id.iter().map(|&id| Bias { until, ..Bias::ban(id) }));
    }
    let processors = Processors {
        biases,
        repetition_penalty: values.repetition_penalty,
        presence_penalty: values.presence_penalty,
        frequency_penalty: values.frequency_penalty,
        no_repeat_ngram_size: values.no_repeat_ngram_size,
        prompt_len,
        temperature: values.temperature,
        top_k: values.top_k,
        top_p: values.top_p,
        min_p: values.min_p,
    };
    let draw = match (values.do_sample, options.drafting.acceptance) {
        (false, _) => Draw::Greedy,
        (true, Acceptance::Coupled) => Draw::Coupled,
        (true, Acceptance::Rejection) => Draw::Rejection,
    };
    let seed = options.sampling.seed.unwrap_or_else(fresh_seed);
    let logprobs = options.logprobs.then_some(options.top_logprobs);
    Ok(Sampling { processors, draw, seed, confidence: options.drafting.assistant_confidence_threshold, logprobs })
}

/// Returns a warning that names the given options without effect, if any.
pub(crate) fn idle(options: &GenerateOptions, values: &SamplingValues) -> Option<String> {
    let sampling = &options.sampling;
    let given = [
        ("temperature", sampling.temperature.is_some_and(|temperature| temperature != 0.0)),
        ("top_k", sampling.top_k.is_some()),
        ("top_p", sampling.top_p.is_some()),
        ("min_p", sampling.min_p.is_some()),
        ("seed", sampling.seed.is_some()),
        ("acceptance", options.drafting.acceptance != Acceptance::Coupled),
    ];
    let names: Vec<&str> = given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect();
    (!values.do_sample && !names.is_empty())
        .then(|| format!("no tokens were drawn at random (do_sample): {} had no effect", names.join(", ")))
}

/// Returns a warning if the options request longer drafts than there are.
pub(crate) fn cut(options: &DraftingOptions) -> Option<String> {
    let lookup = options.prompt_lookup_num_tokens.unwrap_or(0);
    [("num_assistant_tokens", options.num_assistant_tokens), ("prompt_lookup_num_tokens", lookup)]
        .into_iter()
        .find(|(_, tokens)| *tokens > MAX_DRAFT)
        .map(|(name, tokens)| format!("{name}: a draft has {MAX_DRAFT} tokens at most, not {tokens}"))
}

/// Returns a warning if a text continued on another device, because it may then differ.
pub fn other_device(lost: &DeviceInfo, found: &DeviceInfo) -> Option<String> {
    let name = |info: &DeviceInfo| format!("{}, {}", info.name, info.backend);
    (lost != found).then(|| {
        let (lost, found) = (name(lost), name(found));
        format!("the text went on another device ({found}, before {lost}): it may differ from one that had no loss")
    })
}

/// Default number of tokens that a lookup drafts, as usual for users of transformers.
pub(crate) const LOOKUP_TOKENS: usize = 10;

/// Assumed cost of a draft step if the target is on a server, in plain rounds.
const FAR_STEP: f64 = 0.1;

/// Drafting state that is kept between calls.
pub(crate) struct Learned {
    lookahead: Option<Lookahead>,
    adaptive: Adaptive,
    /// Drafter on the device.
    on_device: Origin,
    /// Texts of earlier calls.
    log: Rc<RefCell<TokenLog>>,
}

impl Learned {
    /// Measures the cost of rounds. If that fails, estimates it from the model sizes. Up to `lookup_memory` tokens are remembered.
    pub async fn new(engine: &mut dyn Backend, lookup_memory: usize) -> Self {
        let target = engine.memory().read_per_token as f64;
        let draft = engine.draft_memory();
        let step = draft.map_or(1.0, |draft| (draft.read_per_token as f64 / target).clamp(0.01, 1.0));
        // The size of a target on a server is unknown.
        let step = if target > 0.0 { step } else { FAR_STEP };
        // Errors are ignored here: the first generation would report them.
        let vocab = engine.spec().map_or(1, |spec| spec.vocab_size);
        let mut timings = time_rounds(engine, draft.is_some(), step, vocab).await.unwrap_or(Timings::guess(step));
        engine.truncate(0);
        let [_, drafter] = engine.models();
        let spec = drafter.as_ref().map(|model| model.spec);
        timings.at_once = spec.is_some_and(|spec| spec.at_once.is_some());
        let has_markov = spec.is_some_and(|spec| spec.markov.is_some());
        let on_device = match spec.map(|spec| &spec.hidden_states) {
            Some(HiddenStates::Read { .. }) => Origin::Mtp,
            Some(HiddenStates::Latest { .. }) => Origin::Gemma4Assistant,
            Some(HiddenStates::Context { .. }) if has_markov => Origin::Dspark,
            Some(HiddenStates::Context { .. }) => Origin::Dflash,
            _ => Origin::DraftModel,
        };
        let log = Rc::new(RefCell::new(TokenLog::new(lookup_memory)));
        Self { lookahead: None, adaptive: Adaptive::new(timings).on_device(on_device), on_device, log }
    }

    /// Returns the drafter of a call. `draft_model`: prompt tokens that the draft model has read; `None`: no draft model.
    pub fn drafter(
        &mut self,
        options: &DraftingOptions,
        prediction: &[u32],
        run: &Run,
        ends: &[u32],
        draft_model: Option<usize>,
    ) -> Box<dyn Drafter + '_> {
        let draft_model = draft_model.filter(|_| options.num_assistant_tokens > 0);
        let lookup = |most| {
            let count = options.prompt_lookup_num_tokens.unwrap_or(most);
            PromptLookup::new(count, options.max_matching_ngram_size, options.prompt_lookup_rule, ends)
        };
        let log = self.log.clone();
        let suffix = || SuffixLookup::new(log, options.prompt_lookup_num_tokens.unwrap_or(MAX_DRAFT), ends);
        let prediction = || Prediction::new(prediction.to_vec(), run.stats.num_prompt_tokens);
        if is_adaptive(options) {
            let (mut known, mut model): (Vec<Box<dyn Drafter>>, _) = (Vec::new(), None);
            let drafts = |who| [DrafterChoice::Auto, DrafterChoice::Chain, who].contains(&options.drafter);
            if drafts(DrafterChoice::Prediction) && options.prediction.is_some() {
                known.push(Box::new(prediction()));
            }
            if drafts(DrafterChoice::Lookup) {
                known.push(Box::new(lookup(MAX_DRAFT)));
            }
            if [DrafterChoice::Auto, DrafterChoice::Suffix].contains(&options.drafter) {
                known.push(Box::new(suffix()));
            }
            if drafts(DrafterChoice::DraftModel) {
                model = draft_model;
            }
            self.adaptive.begin(known, model);
            return Box::new(&mut self.adaptive);
        }
        let origin = self.on_device;
        let (schedule, start) = (options.num_assistant_tokens_schedule, options.num_assistant_tokens);
        let kept = self.lookahead.take().filter(|kept| kept.is(schedule, start));
        let lookahead = self.lookahead.insert(kept.unwrap_or_else(|| Lookahead::new(schedule, start)));
        if run.stats.num_spec_steps == 0 {
            lookahead.begin();
        }
        match options.drafter {
            _ if options.speculation == Speculation::Off => Box::new(NoDrafter),
            DrafterChoice::Prediction => Box::new(prediction()),
            DrafterChoice::Auto if options.prediction.is_some() => Box::new(prediction()),
            DrafterChoice::Lookup => Box::new(lookup(LOOKUP_TOKENS)),
            DrafterChoice::Suffix => Box::new(suffix()),
            DrafterChoice::Auto if options.prompt_lookup_num_tokens.is_some() => Box::new(lookup(LOOKUP_TOKENS)),
            DrafterChoice::Chain if draft_model.is_some() => {
                Box::new(Chain::new(prediction(), Chain::new(lookup(LOOKUP_TOKENS), DraftModel { lookahead, origin })))
            }
            DrafterChoice::Chain => Box::new(Chain::new(prediction(), lookup(LOOKUP_TOKENS))),
            DrafterChoice::Auto | DrafterChoice::DraftModel if draft_model.is_some() => {
                Box::new(DraftModel { lookahead, origin })
            }
            DrafterChoice::Auto | DrafterChoice::DraftModel => Box::new(NoDrafter),
        }
    }

    /// Remembers the tokens of a call: prompt and text.
    pub fn remember(&self, text: &[u32]) {
        self.log.borrow_mut().remember(text);
    }

    /// Returns the choices of the adaptive schedule with their reasons, if the call used it. It was not asked in `forced` rounds.
    pub fn speculating(&self, options: &DraftingOptions, forced: usize) -> Option<Speculating> {
        is_adaptive(options).then(|| {
            let mut speculating = self.adaptive.speculating();
            speculating.rounds.grammar = forced;
            speculating
        })
    }
}

fn is_adaptive(options: &DraftingOptions) -> bool {
    options.speculation == Speculation::Auto && options.num_assistant_tokens_schedule == Schedule::Adaptive
}

/// Returns a warning if the requested drafter is missing.
pub(crate) fn missing(options: &DraftingOptions, has_draft_model: bool) -> Option<String> {
    let wanted = options.speculation == Speculation::Auto && options.drafter == DrafterChoice::DraftModel;
    (wanted && !has_draft_model).then(|| "there is no draft model (assistant_model): plain decoding".into())
}

/// Returns a new seed of 32 bits, short enough to be reported and reused.
fn fresh_seed() -> u64 {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let [seed, _] = threefry2x32([nanos as u32, (nanos >> 32) as u32], [call, 0]);
    u64::from(seed)
}
