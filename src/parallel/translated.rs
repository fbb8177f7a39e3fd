//! An adapter for a draft model with another tokenizer: translates orders and drafts as text.

use super::crew::{Crew, Order, Report, Role};
use crate::backend::server::Later;
use crate::error::Result;
use crate::sample::Sampling;
use crate::speculate::dsi::{Feed, TaskId};
use crate::target::Translate;
use std::collections::VecDeque;
use web_time::Instant;

/// Maximum consecutive draft-model tokens that add nothing to a draft. A character has at most 4 bytes, and each may be a token. After
/// more, the draft model is writing text for which the target has no tokens.
const SILENT: usize = 4;

/// Instances whose draft model seems to have the target's tokenizer.
pub struct Translated {
    crew: Box<dyn Crew>,
    translate: Box<dyn Translate>,
    draft: Draft,
}

/// A text and its latest draft, in the tokens of both models.
#[derive(Default)]
struct Draft {
    task: TaskId,
    /// Target tokens that the task still needs.
    wanted: usize,
    /// Text in target tokens. The last `told` of them are reported draft tokens.
    text: Vec<u32>,
    told: usize,
    /// Text in draft-model tokens. The draft model wrote those from `begin` on.
    own: Vec<u32>,
    begin: usize,
    /// Tokens ordered from the draft model and not written yet.
    ordered: usize,
    /// Target tokens in the translated draft (`count`), and draft-model tokens since the last one that added to it (`silent`).
    count: usize,
    silent: usize,
    /// Seconds of draft steps that are not reported yet.
    seconds: f64,
    reports: VecDeque<Report>,
}

impl Translated {
    /// Wraps instances. `translate` has seen no text.
    pub fn new(crew: Box<dyn Crew>, translate: Box<dyn Translate>) -> Self {
        Self { crew, translate, draft: Draft::default() }
    }

    fn begin_draft(&mut self, task: TaskId, feed: Feed, wanted: usize) -> Result<()> {
        let draft = &mut self.draft;
        draft.text.truncate(feed.keep);
        draft.text.extend(feed.tokens);
        (draft.task, draft.wanted, draft.told, draft.count, draft.silent) = (task, wanted, 0, 0, 0);
        let own = self.translate.for_draft(&draft.text)?;
        if own.is_empty() {
            self.end_draft();
            return Ok(());
        }
        draft.begin = own.len();
        // Tokens that the draft model wrote after this exact text are already a draft.
        let keep = if draft.own.starts_with(&own) {
            draft.own.len()
        } else {
            let keep = own.iter().zip(&draft.own).take_while(|(own, known)| own == known).count();
            draft.own = own;
            keep
        };
        if draft.own.len() > draft.begin {
            self.tell(false)?;
        }
        self.order_more(keep);
        Ok(())
    }

    /// Orders the missing tokens. The draft model has the first `keep` of its tokens; the order contains the others.
    fn order_more(&mut self, keep: usize) {
        let Draft { task, wanted, own, ordered, .. } = &mut self.draft;
        if *wanted > 0 {
            // The last token is only reported after the next one.
            *ordered = *wanted + 1;
            let feed = Feed { keep, tokens: own[keep..].to_vec() };
            self.crew.order(Role::Drafter, Order::Draft { task: *task, feed, most: *ordered });
        }
    }

    /// Reports the draft's new tokens. The last one is held back, because the next one may change it, unless the draft `ends` here.
    fn tell(&mut self, mut ends: bool) -> Result<()> {
        let Draft { task, wanted, text, told, own, begin, count, silent, seconds, reports, .. } = &mut self.draft;
        let translated = self.translate.for_target(&own[*begin..])?;
        *silent = if translated.len() == *count { *silent + 1 } else { 0 };
        *count = translated.len();
        let rest = translated.strip_prefix(&text[text.len() - *told..]);
        // A reported token has changed: it was wrong, and so are all tokens after it.
        ends |= *silent > SILENT || rest.is_none();
        let rest = rest.unwrap_or_default();
        let open = usize::from(!ends && *silent == 0);
        let fresh = &rest[..rest.len().saturating_sub(open).min(*wanted)];
        if !fresh.is_empty() {
            let seconds = std::mem::take(seconds) / fresh.len() as f64;
            reports.extend(fresh.iter().map(|&id| Report::Drafted { task: *task, ids: vec![id], seconds }));
            text.extend_from_slice(fresh);
            *told += fresh.len();
            *wanted -= fresh.len();
        }
        if *wanted == 0 {
            self.crew.order(Role::Drafter, Order::Cancel { task: *task });
        } else if ends {
            self.end_draft();
        }
        Ok(())
    }

    /// Ends the draft: there are no more tokens.
    fn end_draft(&mut self) {
        let Draft { task, wanted, reports, .. } = &mut self.draft;
        *wanted = 0;
        reports.push_back(Report::Drafted { task: *task, ids: Vec::new(), seconds: 0.0 });
        self.crew.order(Role::Drafter, Order::Cancel { task: *task });
    }

    /// Gives up the draft model if its tokens cannot be translated.
    fn check(&mut self, done: Result<()>) {
        if let Err(error) = done {
            self.end_draft();
            self.draft.reports.push_back(Report::NoDrafter { error });
        }
    }
}

impl Crew for Translated {
    fn sp_degree(&self) -> usize {
        self.crew.sp_degree()
    }

    fn has_drafter(&self) -> bool {
        self.crew.has_drafter()
    }

    fn begin(&mut self, sampling: &Sampling, _: &Sampling) {
        self.draft = Draft::default();
        // Noise and biases apply to the target's ids only.
        self.crew.begin(sampling, &Sampling::default());
    }

    fn order(&mut self, to: Role, order: Order) {
        if let Order::Draft { task, feed, most } = order {
            let done = self.begin_draft(task, feed, most);
            return self.check(done);
        }
        if matches!(order, Order::Cancel { task } if task == self.draft.task) {
            self.draft.wanted = 0;
        }
        self.crew.order(to, order);
    }

    fn report(&mut self, within: Option<f64>) -> Later<'_, Result<Option<Report>>> {
        Box::pin(async move {
            let began = Instant::now();
            loop {
                if let Some(report) = self.draft.reports.pop_front() {
                    return Ok(Some(report));
                }
                let left = within.map(|seconds| (seconds - began.elapsed().as_secs_f64()).max(0.0));
                match self.crew.report(left).await? {
                    Some(Report::Drafted { task, ids, seconds }) => {
                        // A finished task needs no more tokens.
                        if task == self.draft.task && self.draft.wanted > 0 {
                            self.draft.own.extend_from_slice(&ids);
                            self.draft.ordered = self.draft.ordered.saturating_sub(ids.len());
                            self.draft.seconds += seconds;
                            let done = self.tell(ids.is_empty());
                            self.check(done);
                            if self.draft.ordered == 0 {
                                self.order_more(self.draft.own.len());
                            }
                        }
                    }
                    report => return Ok(report),
                }
            }
        })
    }
}
