//! The state machine of distributed speculative inference, under schedules generated from a seed: latencies, acceptances, servers that
//! come, go and answer late.

use foretoken::dsi::{Action, Dsi, DsiOptions, Event, Feed, TaskId};
use foretoken_simulate::lookahead_for;
use std::collections::HashMap;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    fn below(&mut self, most: usize) -> usize {
        (self.next() % most as u64) as usize
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Models of a language in which every token depends on all tokens before it. Token 0 ends a text.
struct Models {
    seed: u64,
    /// Percentage of tokens on which each drafter agrees with the target.
    agreements: Vec<u64>,
}

impl Models {
    fn hash(&self, text: &[u32]) -> u64 {
        text.iter().fold(self.seed, |hash, &id| mix(hash ^ u64::from(id)))
    }

    /// Returns the target's next token.
    fn next(&self, text: &[u32]) -> u32 {
        (self.hash(text) % 40) as u32
    }

    /// Returns a drafter's next token.
    fn draft(&self, drafter: usize, text: &[u32]) -> u32 {
        let luck = mix(self.hash(text) ^ (1 + drafter as u64)) % 100;
        let target = self.next(text);
        if luck < self.agreements[drafter] { target } else { (target + 1 + (luck % 39) as u32) % 40 }
    }

    /// Returns the text of the target alone.
    fn text(&self, prompt: &[u32], room: usize) -> Vec<u32> {
        let mut text = prompt.to_vec();
        for _ in 0..room {
            text.push(self.next(&text));
            if text.last() == Some(&0) {
                break;
            }
        }
        text.split_off(prompt.len())
    }
}

fn update(copy: &mut Vec<u32>, feed: &Feed) {
    assert!(feed.keep <= copy.len(), "it keeps what it was given");
    copy.truncate(feed.keep);
    copy.extend(&feed.tokens);
}

const DRAFTER: usize = 0;
const TARGET: usize = 1;

enum Coming {
    Draft { task: TaskId, instance: usize, left: usize },
    Verified { task: TaskId, server: usize, ids: Vec<u32> },
    Here { server: usize },
}

/// The environment of the state machine.
struct World {
    random: Random,
    models: Models,
    machine: Dsi,
    servers: Vec<Vec<u32>>,
    /// The drafter of each instance, and the instance's copy of the text.
    instances: Vec<(usize, Vec<u32>)>,
    coming: Vec<(u64, Coming)>,
    now: u64,
    /// Latencies of drafter and target.
    latencies: [u64; 2],
    /// Cancelled tasks of servers that have not answered yet.
    cancelled: HashMap<TaskId, usize>,
    running: HashMap<TaskId, usize>,
    drafting: HashMap<TaskId, usize>,
    emitted: Vec<u32>,
    prompt: Vec<u32>,
    lookahead: usize,
}

impl World {
    fn latency(&mut self, model: usize) -> u64 {
        let usual = self.latencies[model];
        1 + usual + self.random.below(usual as usize / 2 + 1) as u64
    }

    fn handle(&mut self, event: Event<'_>) {
        let mut actions = Vec::new();
        self.machine.handle(event, &mut actions);
        for action in actions {
            match action {
                Action::Draft { task, drafter, instance, feed, most } => {
                    let is_busy = self.drafting.values().any(|&busy| busy == instance);
                    assert!(!is_busy, "the earlier task ended or was cancelled");
                    assert!(most > 0);
                    assert_eq!(self.instances[instance].0, drafter);
                    update(&mut self.instances[instance].1, &feed);
                    self.drafting.insert(task, instance);
                    let at = self.now + self.latency(DRAFTER);
                    self.coming.push((at, Coming::Draft { task, instance, left: most }));
                }
                Action::Verify { task, server, feed, rows } => {
                    let copy = &mut self.servers[server];
                    update(copy, &feed);
                    assert!((1..=self.lookahead + 1).contains(&rows) && rows <= feed.tokens.len());
                    let copy = copy.clone();
                    let ids = (copy.len() - rows + 1..=copy.len()).map(|end| self.models.next(&copy[..end]));
                    let ids = ids.collect();
                    self.running.insert(task, server);
                    let held = self.running.values().filter(|&&other| other == server).count();
                    assert_eq!(held, 1, "tasks on one server");
                    let at = self.now + self.latency(TARGET);
                    self.coming.push((at, Coming::Verified { task, server, ids }));
                }
                Action::Cancel { task } => match self.running.remove(&task) {
                    Some(server) => {
                        self.cancelled.insert(task, server);
                        // Some servers stop at once, some only when they are done.
                        if self.random.below(2) == 0 {
                            let at = self.now + self.random.below(3) as u64;
                            self.cancelled.remove(&task);
                            self.coming
                                .retain(|(_, what)| !matches!(what, Coming::Verified { task: t, .. } if *t == task));
                            self.coming.push((at, Coming::Here { server }));
                        }
                    }
                    None => assert!(self.drafting.remove(&task).is_some(), "only what runs is cancelled"),
                },
                Action::Emit { id, .. } => self.emitted.push(id),
            }
        }
    }

    /// Runs the next event; `false` if none is left.
    fn step(&mut self) -> bool {
        let times = self.coming.iter().map(|(at, _)| *at).enumerate();
        let Some((next, _)) = times.min_by_key(|&(_, at)| at) else {
            return false;
        };
        let (at, what) = self.coming.remove(next);
        self.now = at;
        match what {
            Coming::Here { server } => self.handle(Event::Free { server }),
            Coming::Draft { task, instance, left } => {
                if !self.drafting.contains_key(&task) {
                    return true;
                }
                // One token, several, or none proposed.
                let count = if self.random.below(12) == 0 { 0 } else { (1 + self.random.below(3)).min(left) };
                let (drafter, copy) = &mut self.instances[instance];
                let before = copy.len();
                for _ in 0..count {
                    copy.push(self.models.draft(*drafter, copy));
                }
                let ids = copy[before..].to_vec();
                if count == 0 || count == left {
                    self.drafting.remove(&task);
                } else {
                    let at = self.now + self.latency(DRAFTER);
                    self.coming.push((at, Coming::Draft { task, instance, left: left - count }));
                }
                self.handle(Event::Drafted { task, ids: &ids });
            }
            Coming::Verified { task, server, ids } => {
                let was_cancelled = self.cancelled.remove(&task).is_some();
                if self.running.remove(&task).is_none() && !was_cancelled {
                    return true;
                }
                if self.random.below(60) == 0 {
                    self.lose(server);
                } else if was_cancelled && self.random.below(2) == 0 {
                    self.handle(Event::Free { server });
                } else {
                    // Now and then an answer is truncated.
                    let cut = if self.random.below(40) == 0 { self.random.below(ids.len() + 1) } else { ids.len() };
                    self.handle(Event::Verified { server, task, ids: &ids[..cut] });
                }
            }
        }
        true
    }

    /// Loses a server with its state. It returns with an empty cache.
    fn lose(&mut self, server: usize) {
        self.running.retain(|_, other| *other != server);
        self.cancelled.retain(|_, other| *other != server);
        self.coming.retain(|(_, what)| !matches!(what, Coming::Verified { server: s, .. } | Coming::Here { server: s } if *s == server));
        self.servers[server].clear();
        self.handle(Event::Lost { server });
        let at = self.now + self.random.below(30) as u64;
        self.coming.push((at, Coming::Here { server }));
    }
}

/// Runs one schedule and checks it at every step.
fn schedule(seed: u64) {
    let mut random = Random(seed);
    let lookahead = 1 + random.below(7);
    let (sp_degree, patience) = (1 + random.below(4), random.below(lookahead + 1));
    // Half of the schedules have one drafter with one instance.
    let drafters: Vec<usize> = match random.below(2) {
        0 => vec![1],
        _ => (0..random.below(4)).map(|_| 1 + random.below(2)).collect(),
    };
    let agreements = drafters.iter().map(|_| [0, 30, 60, 90, 98, 100][random.below(6)]).collect();
    let latencies = [(); 2].map(|()| 1 + random.below(40) as u64);
    let prompt: Vec<u32> = (0..1 + random.below(4)).map(|_| random.below(40) as u32).collect();
    let models = Models { seed: random.next(), agreements };
    let options = DsiOptions {
        lookahead,
        sp_degree,
        patience,
        room: 60,
        ends: vec![0],
        drafters: drafters.clone(),
        can_cancel: !seed.is_multiple_of(3),
    };
    let machine = Dsi::new(&prompt, options).unwrap();
    let expected = models.text(&prompt, 60);
    let here = |server| (random.below(20) as u64, Coming::Here { server });
    let coming = (0..sp_degree).map(here).collect();
    let mut world = World {
        random,
        models,
        machine,
        servers: vec![Vec::new(); sp_degree],
        instances: (0..).zip(&drafters).flat_map(|(drafter, &count)| vec![(drafter, Vec::new()); count]).collect(),
        coming,
        now: 0,
        latencies,
        cancelled: HashMap::new(),
        running: HashMap::new(),
        drafting: HashMap::new(),
        emitted: Vec::new(),
        prompt,
        lookahead,
    };
    let most = (sp_degree + 1) * (lookahead + 1);
    let mut steps = 0;
    while !world.machine.is_done() {
        assert!(world.step(), "seed {seed}: a deadlock after {:?}", world.emitted);
        assert!(expected.starts_with(&world.emitted), "seed {seed}: {:?} is not {expected:?}", world.emitted);
        for (_, copy) in &world.instances {
            let ahead = copy.len().saturating_sub(world.prompt.len() + world.emitted.len());
            assert!(ahead <= most, "seed {seed}: {ahead} tokens are drafted and not settled, {most} are allowed");
        }
        steps += 1;
        assert!(steps < 20_000, "seed {seed}: no end");
    }
    assert_eq!(world.emitted, expected, "seed {seed}");
    assert_eq!(world.machine.in_flight(), 0, "seed {seed}");
    assert!(world.running.is_empty() && world.drafting.is_empty(), "seed {seed}: everything was cancelled");
    let counts = world.machine.counts();
    assert_eq!(counts.emitted, expected.len());
    // With several drafters, a right token may also remove the branches of others.
    let removals = if drafters == [1] { counts.rejected } else { expected.len() };
    let each = expected.len() + (removals + 1) * most;
    assert!(counts.drafted <= drafters.iter().sum::<usize>() * each, "seed {seed}: {counts:?}, {most}");
    // Late events have no effect.
    while world.step() {}
    assert_eq!(world.emitted, expected, "seed {seed}");
    assert!(world.running.is_empty() && world.drafting.is_empty(), "seed {seed}: nothing begins after the end");
}

#[test]
fn ten_thousand_schedules_write_what_the_target_alone_writes() {
    (0..10_000).for_each(schedule);
}

#[test]
fn the_lookahead_is_the_smallest_that_the_servers_keep_up_with() {
    for target in [0.5, 1.0, 3.0, 20.6, 37.7] {
        for drafter in [0.01, 0.05, 0.1, 0.35, 1.0, 2.5, 6.8] {
            for sp_degree in 1..10 {
                let needed = |lookahead: usize| (target / (lookahead as f64 * drafter) * (1.0 - 1e-12)).ceil() as usize;
                let lookahead = lookahead_for(target, drafter, sp_degree);
                assert!(needed(lookahead) <= sp_degree);
                assert!(lookahead == 1 || needed(lookahead - 1) > sp_degree);
                assert_eq!(lookahead_for(target, drafter, lookahead), needed(lookahead).max(1));
            }
        }
    }
    assert_eq!([lookahead_for(1.0, 0.1, 5), lookahead_for(1.0, 0.1, 7), lookahead_for(1.0, 0.01, 7)], [2, 2, 15]);
}

#[test]
fn options_are_checked() {
    let options = || DsiOptions {
        lookahead: 5,
        sp_degree: 2,
        patience: 0,
        room: 10,
        ends: Vec::new(),
        drafters: vec![1],
        can_cancel: false,
    };
    let refused = |prompt: &[u32], change: fn(&mut DsiOptions)| {
        let mut options = options();
        change(&mut options);
        Dsi::new(prompt, options).unwrap_err().to_string()
    };
    for (says, error) in [
        ("prompt", refused(&[], |_| ())),
        ("lookahead", refused(&[1], |options| options.lookahead = 0)),
        ("sp_degree", refused(&[1], |options| options.sp_degree = 0)),
        ("patience", refused(&[1], |options| options.patience = 6)),
        ("drafters", refused(&[1], |options| options.drafters = vec![1; 33])),
        ("drafters", refused(&[1], |options| options.drafters = vec![1, 0])),
    ] {
        assert!(error.contains(says), "{error}");
    }
    assert!(Dsi::new(&[1], DsiOptions { room: 0, ..options() }).unwrap().is_done(), "no room, nothing to do");
}
