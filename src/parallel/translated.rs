//! A crew whose draft model has another tokenizer: what it is told, and what it drafts, goes through text.

use super::crew::{Crew, Order, Report, Role};
use crate::error::Result;
use crate::remote::Later;
use crate::sample::Sampling;
use crate::speculate::dsi::{Feed, TaskId};
use crate::target::Translate;
use std::collections::VecDeque;
use web_time::Instant;

/// So many of the draft model's tokens in a row may add nothing to a draft: a character has at most 4 bytes, and each may be a token.
/// After more it writes what the target has no tokens for.
const SILENT: usize = 4;

/// To those who give orders it is as if the draft model had the target's tokenizer.
pub struct Translated {
    crew: Box<dyn Crew>,
    translate: Box<dyn Translate>,
    draft: Draft,
}

/// A text and its latest draft, in the tokens of both.
#[derive(Default)]
struct Draft {
    task: TaskId,
    /// Tokens of the target that the task still wants.
    wanted: usize,
    /// In tokens of the target. The last `told` of them are of the draft.
    text: Vec<u32>,
    told: usize,
    /// As the draft model has it; from `begin` on it wrote that itself.
    own: Vec<u32>,
    begin: usize,
    /// Tokens that it was ordered to write and has not written yet.
    ordered: usize,
    /// Tokens of the target that this came to, and how many tokens of the draft model added nothing since.
    count: usize,
    silent: usize,
    /// Seconds of its steps of which nothing was told yet.
    seconds: f64,
    reports: VecDeque<Report>,
}

impl Translated {
    /// `translate` has seen no text.
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
        // What it wrote behind the very same text is a draft already.
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

    /// Orders tokens for those that are still wanted. The draft model has the first `keep` of its text; the order brings the others.
    fn order_more(&mut self, keep: usize) {
        let Draft { task, wanted, own, ordered, .. } = &mut self.draft;
        if *wanted > 0 {
            // The last one is told when the one behind it has come.
            *ordered = *wanted + 1;
            let feed = Feed { keep, tokens: own[keep..].to_vec() };
            self.crew.order(Role::Drafter, Order::Draft { task: *task, feed, most: *ordered });
        }
    }

    /// Tells what is new of the draft. The last token may become another one with what follows, unless it `ends` here.
    fn tell(&mut self, mut ends: bool) -> Result<()> {
        let Draft { task, wanted, text, told, own, begin, count, silent, seconds, reports, .. } = &mut self.draft;
        let translated = self.translate.for_target(&own[*begin..])?;
        *silent = if translated.len() == *count { *silent + 1 } else { 0 };
        *count = translated.len();
        let rest = translated.strip_prefix(&text[text.len() - *told..]);
        // What was told has become something else: that was wrong, and so is all behind it.
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

    /// There is no more to the draft.
    fn end_draft(&mut self) {
        let Draft { task, wanted, reports, .. } = &mut self.draft;
        *wanted = 0;
        reports.push_back(Report::Drafted { task: *task, ids: Vec::new(), seconds: 0.0 });
        self.crew.order(Role::Drafter, Order::Cancel { task: *task });
    }

    /// A draft model that cannot be understood is none.
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
        // Noise and biases belong to the target's ids.
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
                        // Of a task that is over nobody wants more.
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
