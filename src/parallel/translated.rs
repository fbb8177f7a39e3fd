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
        let feed = Feed { keep, tokens: draft.own[keep..].to_vec() };
        // How many tokens of its own that takes is known when they are there.
        self.crew.order(Role::Drafter, Order::Draft { task, feed, most: usize::MAX });
        if self.draft.own.len() > self.draft.begin { self.tell(false) } else { Ok(()) }
    }

    /// Tells what is new of the draft. The last token may become another one with what follows, unless it `ends` here.
    fn tell(&mut self, mut ends: bool) -> Result<()> {
        let Draft { task, wanted, text, told, own, begin, count, silent, seconds, reports } = &mut self.draft;
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
                            self.draft.seconds += seconds;
                            let done = self.tell(ids.is_empty());
                            self.check(done);
                        }
                    }
                    report => return Ok(report),
                }
            }
        })
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// The draft model's tokens are digits, the target's are two of them.
    struct Digits;

    impl Translate for Digits {
        fn for_draft(&mut self, text: &[u32]) -> Result<Vec<u32>> {
            Ok(text.iter().flat_map(|id| [id / 10, id % 10]).collect())
        }

        fn for_target(&self, drafted: &[u32]) -> Result<Vec<u32>> {
            let digits = drafted.iter().position(|&id| id > 9).unwrap_or(drafted.len());
            Ok(drafted[..digits].chunks_exact(2).map(|pair| 10 * pair[0] + pair[1]).collect())
        }
    }

    /// Says what it is told to, and remembers its orders.
    #[derive(Clone, Default)]
    struct Script(Rc<RefCell<(Vec<Order>, VecDeque<Report>)>>);

    impl Crew for Script {
        fn sp_degree(&self) -> usize {
            1
        }
        fn has_drafter(&self) -> bool {
            true
        }
        fn begin(&mut self, sampling: &Sampling, drafting: &Sampling) {
            assert_eq!((sampling.seed, drafting.seed), (7, 0));
        }
        fn order(&mut self, to: Role, order: Order) {
            assert_eq!(to, Role::Drafter);
            self.0.borrow_mut().0.push(order);
        }
        fn report(&mut self, _: Option<f64>) -> Later<'_, Result<Option<Report>>> {
            Box::pin(std::future::ready(Ok(self.0.borrow_mut().1.pop_front())))
        }
    }

    /// What is told where the drafter drafts this, a second for each, and what was ordered meanwhile.
    fn told(
        crew: &mut Translated,
        script: &Script,
        task: TaskId,
        drafted: &[u32],
    ) -> (Vec<(Vec<u32>, f64)>, Vec<Order>) {
        let report = |&id| Report::Drafted { task, ids: vec![id], seconds: 1.0 };
        script.0.borrow_mut().1.extend(drafted.iter().map(report));
        let mut told = Vec::new();
        while let Some(report) = pollster::block_on(crew.report(Some(60.0))).unwrap() {
            match report {
                Report::Drafted { task: found, ids, seconds } if found == task => told.push((ids, seconds)),
                other => panic!("{other:?}"),
            }
        }
        (told, std::mem::take(&mut script.0.borrow_mut().0))
    }

    fn draft(task: TaskId, keep: usize, tokens: &[u32], most: usize) -> Order {
        Order::Draft { task, feed: Feed { keep, tokens: tokens.to_vec() }, most }
    }

    #[test]
    fn a_token_is_told_when_what_follows_cannot_change_it() {
        let script = Script::default();
        let mut crew = Translated::new(Box::new(script.clone()), Box::new(Digits));
        let sampling = Sampling { seed: 7, ..Sampling::default() };
        crew.begin(&sampling, &sampling);
        crew.order(Role::Drafter, draft(1, 0, &[12], 2));
        let all = usize::MAX;
        let (found, orders) = told(&mut crew, &script, 1, &[3, 4]);
        assert_eq!((found, orders), (vec![], vec![draft(1, 0, &[1, 2], all)]));
        let (found, orders) = told(&mut crew, &script, 1, &[5]);
        assert_eq!((found, orders), (vec![(vec![34], 3.0)], vec![]));
        // When all that was wanted is there, it stops.
        let (found, orders) = told(&mut crew, &script, 1, &[6, 7, 8]);
        assert_eq!((found, orders), (vec![(vec![56], 2.0)], vec![Order::Cancel { task: 1 }]));

        // It goes on where it was, and a word that was not told before counts.
        crew.order(Role::Drafter, draft(2, 3, &[], 5));
        let (found, orders) = told(&mut crew, &script, 2, &[8, 9, 10]);
        assert_eq!((found, orders), (vec![(vec![78], 2.0)], vec![draft(2, 7, &[], all)]));
        // What the target has no tokens for ends a draft.
        let (found, orders) = told(&mut crew, &script, 2, &[10; 6]);
        assert_eq!((found, orders), (vec![(vec![], 0.0)], vec![Order::Cancel { task: 2 }]));

        // Where the target writes something else, it is told what is different.
        crew.order(Role::Drafter, draft(3, 2, &[51], 5));
        let (found, orders) = told(&mut crew, &script, 3, &[]);
        assert_eq!((found, orders), (vec![], vec![draft(3, 5, &[1], all)]));
    }
}
