//! An adapter for a draft model with another tokenizer: translates commands and drafts as text.

use super::instances::{Command, Instances, Report, Role};
use crate::backend::server::Later;
use crate::error::Result;
use crate::sample::Sampling;
use crate::target::Translate;
use foretoken_dsi::{Feed, TaskId};
use std::collections::VecDeque;
use web_time::Instant;

/// Maximum consecutive draft-model tokens that add nothing to a draft. A character has at most 4 bytes, and each may be a token. After
/// more, the draft model is writing text for which the target has no tokens.
const SILENT: usize = 4;

/// Instances whose draft model seems to have the target's tokenizer.
pub struct Translated {
    instances: Box<dyn Instances>,
    translate: Box<dyn Translate>,
    draft: TranslatedDraft,
}

/// A text and its latest draft, in the tokens of both models.
#[derive(Default)]
struct TranslatedDraft {
    task: TaskId,
    /// Target tokens that the task still needs.
    wanted: usize,
    /// Text in target tokens. The last `reported` of them are reported draft tokens.
    text: Vec<u32>,
    reported: usize,
    /// Text in draft-model tokens. The draft model wrote those from `begin` on.
    own: Vec<u32>,
    begin: usize,
    /// Tokens requested from the draft model and not written yet.
    requested: usize,
    /// Target tokens in the translated draft (`count`), and draft-model tokens since the last one that added to it (`silent`).
    count: usize,
    silent: usize,
    /// Seconds of draft steps that are not reported yet.
    seconds: f64,
    reports: VecDeque<Report>,
}

impl Translated {
    /// Wraps instances. `translate` has seen no text.
    pub fn new(instances: Box<dyn Instances>, translate: Box<dyn Translate>) -> Self {
        Self { instances, translate, draft: TranslatedDraft::default() }
    }

    fn begin_draft(&mut self, task: TaskId, feed: Feed, wanted: usize) -> Result<()> {
        let draft = &mut self.draft;
        draft.text.truncate(feed.keep);
        draft.text.extend(feed.tokens);
        (draft.task, draft.wanted, draft.reported, draft.count, draft.silent) = (task, wanted, 0, 0, 0);
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
            self.report_new(false)?;
        }
        self.request_more(keep);
        Ok(())
    }

    /// Requests the missing tokens. The draft model has the first `keep` of its tokens; the command contains the others.
    fn request_more(&mut self, keep: usize) {
        let TranslatedDraft { task, wanted, own, requested, .. } = &mut self.draft;
        if *wanted > 0 {
            // The last token is only reported after the next one.
            *requested = *wanted + 1;
            let feed = Feed { keep, tokens: own[keep..].to_vec() };
            self.instances.send(Role::Drafter, Command::Draft { task: *task, feed, most: *requested });
        }
    }

    /// Reports the draft's new tokens. The last one is held back, because the next one may change it, unless the draft `ends` here.
    fn report_new(&mut self, mut ends: bool) -> Result<()> {
        let TranslatedDraft { task, wanted, text, reported, own, begin, count, silent, seconds, reports, .. } =
            &mut self.draft;
        let translated = self.translate.for_target(&own[*begin..])?;
        *silent = if translated.len() == *count { *silent + 1 } else { 0 };
        *count = translated.len();
        let rest = translated.strip_prefix(&text[text.len() - *reported..]);
        // A reported token has changed: it was wrong, and so are all tokens after it.
        ends |= *silent > SILENT || rest.is_none();
        let rest = rest.unwrap_or_default();
        let open = usize::from(!ends && *silent == 0);
        let fresh = &rest[..rest.len().saturating_sub(open).min(*wanted)];
        if !fresh.is_empty() {
            let seconds = std::mem::take(seconds) / fresh.len() as f64;
            reports.extend(fresh.iter().map(|&id| Report::Drafted { task: *task, ids: vec![id], seconds }));
            text.extend_from_slice(fresh);
            *reported += fresh.len();
            *wanted -= fresh.len();
        }
        if *wanted == 0 {
            self.instances.send(Role::Drafter, Command::Cancel { task: *task });
        } else if ends {
            self.end_draft();
        }
        Ok(())
    }

    fn end_draft(&mut self) {
        let TranslatedDraft { task, wanted, reports, .. } = &mut self.draft;
        *wanted = 0;
        reports.push_back(Report::Drafted { task: *task, ids: Vec::new(), seconds: 0.0 });
        self.instances.send(Role::Drafter, Command::Cancel { task: *task });
    }

    /// Gives up the draft model if its tokens cannot be translated.
    fn check(&mut self, done: Result<()>) {
        if let Err(error) = done {
            self.end_draft();
            self.draft.reports.push_back(Report::NoDrafter { error });
        }
    }
}

impl Instances for Translated {
    fn sp_degree(&self) -> usize {
        self.instances.sp_degree()
    }

    fn has_drafter(&self) -> bool {
        self.instances.has_drafter()
    }

    fn can_cancel(&self) -> bool {
        self.instances.can_cancel()
    }

    fn begin(&mut self, sampling: &Sampling, _: &Sampling) {
        self.draft = TranslatedDraft::default();
        // Noise and biases apply to the target's ids only.
        self.instances.begin(sampling, &Sampling::default());
    }

    fn send(&mut self, to: Role, command: Command) {
        if let Command::Draft { task, feed, most } = command {
            let done = self.begin_draft(task, feed, most);
            return self.check(done);
        }
        if matches!(command, Command::Cancel { task } if task == self.draft.task) {
            self.draft.wanted = 0;
        }
        self.instances.send(to, command);
    }

    fn report(&mut self, within: Option<f64>) -> Later<'_, Result<Option<Report>>> {
        Box::pin(async move {
            let began = Instant::now();
            loop {
                if let Some(report) = self.draft.reports.pop_front() {
                    return Ok(Some(report));
                }
                let left = within.map(|seconds| (seconds - began.elapsed().as_secs_f64()).max(0.0));
                match self.instances.report(left).await? {
                    Some(Report::Drafted { task, ids, seconds }) => {
                        // A finished task needs no more tokens.
                        if task == self.draft.task && self.draft.wanted > 0 {
                            self.draft.own.extend_from_slice(&ids);
                            self.draft.requested = self.draft.requested.saturating_sub(ids.len());
                            self.draft.seconds += seconds;
                            let done = self.report_new(ids.is_empty());
                            self.check(done);
                            if self.draft.requested == 0 {
                                self.request_more(self.draft.own.len());
                            }
                        }
                    }
                    report => return Ok(report),
                }
            }
        })
    }
}
