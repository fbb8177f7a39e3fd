//! A cancelled task ends within its forward, on the CPU, and leaves no trace.

use common::{Tales, path, yielding_engine};
use foretoken::dsi::{Feed, TaskId};
use foretoken::internals::backend::server::Later;
use foretoken::internals::parallel::{Command, Inbox, ModelInstance, Report, Role, run_instance};
use foretoken::internals::sample::Sampling;
use futures_channel::mpsc::{UnboundedSender, unbounded};
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::task::{Context, Waker};

/// An instance whose forwards yield after each step.
struct Instance {
    commands: UnboundedSender<Command>,
    reports: Rc<RefCell<Vec<Report>>>,
    work: Later<'static, ()>,
}

fn folder(role: Role) -> PathBuf {
    path("models/tales").join(if role == Role::Drafter { "draft" } else { "target" })
}

impl Instance {
    fn new(role: Role) -> Self {
        let engine = yielding_engine(&folder(role), None, Tales::capacity());
        let again = || -> Later<'static, _> { panic!("a CPU is never lost") };
        let instance = ModelInstance::new(Box::new(engine), Box::new(again));
        let ((commands, inbox), reports) = (unbounded(), Rc::<RefCell<Vec<Report>>>::default());
        let to = reports.clone();
        let on_report = Box::new(move |_, report| to.borrow_mut().push(report));
        let work = Box::pin(run_instance(role, instance, Inbox::new(inbox), on_report));
        let mut instance = Self { commands, reports, work };
        instance.send(Command::Begin { text: 1, sampling: Sampling::default() });
        if role != Role::Drafter {
            assert_eq!(instance.report(2).1, Some(Report::Free { server: 0 }));
        }
        instance
    }

    fn send(&self, command: Command) {
        self.commands.unbounded_send(command).unwrap();
    }

    /// Polls until a report that is not about a prompt, at most `most` times. Returns the number of polls, and the report.
    fn report(&mut self, most: usize) -> (usize, Option<Report>) {
        for polls in 1..=most {
            assert!(self.work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            let mut reports = self.reports.borrow_mut();
            reports.retain(|report| !matches!(report, Report::Prefilled { .. }));
            if !reports.is_empty() {
                return (polls, Some(reports.remove(0)));
            }
        }
        (most, None)
    }
}

/// Returns the model's own tokens after a text.
fn plain(role: Role, text: &[u32], count: usize) -> Vec<u32> {
    common::plain(&mut yielding_engine(&folder(role), None, Tales::capacity()), text, count)
}

fn verify(task: TaskId, keep: usize, tokens: &[u32], rows: usize) -> Command {
    Command::Verify { task, feed: Feed { keep, tokens: tokens.to_vec() }, rows }
}

#[test]
fn a_forward_of_a_target_does_not_complete_if_its_task_is_cancelled() {
    let prompt: Vec<u32> = (0..150).map(|at| 5 + at * 37 % 3000).collect();
    let next = plain(Role::Target(0), &prompt, 4);
    let verified = |report: Option<Report>| match report {
        Some(Report::Verified { task, ids, reused, .. }) => (task, ids, reused),
        other => panic!("{other:?}"),
    };
    let mut undisturbed = Instance::new(Role::Target(0));
    undisturbed.send(verify(1, 0, &prompt, 1));
    let (whole, report) = undisturbed.report(usize::MAX);
    assert_eq!(verified(report), (1, vec![next[0]], 0));
    assert!(whole > 3 * 4 * 8, "{whole} steps of two chunks and a round");

    for at in (1..whole).step_by(whole / 7) {
        let mut instance = Instance::new(Role::Target(0));
        instance.send(verify(1, 0, &prompt, 1));
        assert_eq!(instance.report(at), (at, None));
        instance.send(Command::Cancel { task: 1 });
        // The step that had begun is the last one.
        assert_eq!(instance.report(2), (1, Some(Report::Free { server: 0 })), "after {at} of {whole} steps");
        // Another draft after the same text.
        instance.send(verify(2, 150, &[next[0], next[1], 7], 4));
        let (polls, report) = instance.report(usize::MAX);
        let (task, ids, reused) = verified(report);
        assert_eq!((task, &ids[..3]), (2, &next[..3]), "after {at} of {whole} steps");
        // Whole chunks stay cached. The last 32 tokens are rows of the round.
        assert!([0, 64, 150 - 32].contains(&reused), "{reused}");
        assert!(polls < whole || reused == 0);
        // Another text ends a forward, too.
        instance.send(verify(3, 150, &[9; 6], 7));
        assert_eq!(instance.report(9), (9, None));
        instance.send(Command::Begin { text: 2, sampling: Sampling::default() });
        assert_eq!(instance.report(2).1, Some(Report::Free { server: 0 }));
        assert_eq!(instance.report(3).1, Some(Report::Free { server: 0 }));
        instance.send(verify(1, 0, &prompt, 1));
        assert_eq!(verified(instance.report(usize::MAX).1).1, [next[0]]);
    }
}

#[test]
fn a_forward_of_a_drafter_does_not_complete_after_another_command() {
    let prompt: Vec<u32> = (0..100).map(|at| 5 + at * 37 % 3000).collect();
    let draft =
        |task, keep, tokens: &[u32]| Command::Draft { task, feed: Feed { keep, tokens: tokens.to_vec() }, most: 4 };
    let other = [&prompt[..], &[8]].concat();
    let next = plain(Role::Drafter, &other, 4);
    let mut undisturbed = Instance::new(Role::Drafter);
    undisturbed.send(draft(1, 0, &prompt));
    let (whole, _) = undisturbed.report(usize::MAX);
    assert!(whole > 3 * 2 * 8, "{whole} steps of two chunks and a round");
    for at in (1..whole).step_by(whole / 7) {
        let mut instance = Instance::new(Role::Drafter);
        instance.send(draft(1, 0, &prompt));
        assert_eq!(instance.report(at), (at, None));
        instance.send(Command::Cancel { task: 1 });
        instance.send(draft(2, 100, &[8]));
        for expected in &next {
            match instance.report(usize::MAX).1 {
                Some(Report::Drafted { task: 2, ids, .. }) => assert_eq!(ids, [*expected]),
                other => panic!("{other:?} after {at} steps"),
            }
        }
    }
}
