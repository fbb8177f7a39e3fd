//! One run of the simulation: events in order of time.

use super::{Cluster, Outcome, Schedule};
use crate::draws::SplitMix;
use crate::offline::{PROMPT, id, ids, position};
use crate::rounds::accepted;
use foretoken::dsi::{Action, Dsi, DsiOptions, Event, TaskId};
use foretoken::{Error, Result};
use std::collections::{BTreeMap, VecDeque};

/// Rows of a text for the target: a known token, then draft tokens.
#[derive(Debug, Clone, Copy)]
struct ClusterRequest {
    user: usize,
    text: usize,
    /// Task of distributed speculation.
    task: TaskId,
    /// Position of the token that follows the known one.
    position: usize,
    rows: usize,
}

enum Happens {
    /// A user requests a text.
    Begins { user: usize },
    /// A request arrives at its server.
    Arrives(ClusterRequest),
    /// An idle server starts a forward with all requests that arrived at that moment.
    Wakes { server: usize },
    /// A forward ends.
    Computed { server: usize },
    /// An answer arrives at its user.
    Heard(ClusterRequest),
    /// Distributed speculation has drafted a token.
    Drafted { user: usize, text: usize, task: TaskId },
    /// The cancellation of a request arrives at its server.
    Cancels { user: usize, text: usize, task: TaskId },
}

/// State of distributed speculation of a user.
struct DistributedUser {
    machine: Dsi,
    /// Task of the drafter, position of its next token, and tokens left.
    drafting: Option<(TaskId, usize, usize)>,
    /// Requests not cancelled: task, and server number within the SP degree.
    in_flight: Vec<(TaskId, usize)>,
}

#[derive(Default)]
struct User {
    /// Index of the text.
    text: usize,
    begun: f64,
    /// Known tokens of the text.
    known: usize,
    distributed: Option<DistributedUser>,
}

#[derive(Default)]
struct ClusterServer {
    waiting: VecDeque<ClusterRequest>,
    running: Vec<ClusterRequest>,
    since: f64,
}

/// Measurements, from the moment when as many texts are finished as there are users.
#[derive(Default)]
struct Tally {
    texts: usize,
    from: Option<f64>,
    tokens: usize,
    rows: usize,
    busy: f64,
    latencies: Vec<f64>,
}

struct ClusterRun<'a> {
    cluster: &'a Cluster,
    schedule: Schedule,
    lookahead: usize,
    /// Texts: by position, whether the drafter's token is right.
    texts: &'a [Vec<bool>],
    begun: usize,
    now: f64,
    /// Events by time (its bits sort like the number), then in the order of planning.
    agenda: BTreeMap<(u64, u64), Happens>,
    planned: u64,
    random: SplitMix,
    users: Vec<User>,
    servers: Vec<ClusterServer>,
    tally: Tally,
}

/// # Errors
/// [`Error::BadOption`].
pub(super) fn run(cluster: &Cluster, schedule: Schedule, lookahead: usize, texts: &[Vec<bool>]) -> Result<Outcome> {
    let users = (0..cluster.users).map(|_| User::default()).collect();
    let servers = (0..cluster.servers).map(|_| ClusterServer::default()).collect();
    let (agenda, random, tally) = (BTreeMap::new(), SplitMix(cluster.seed), Tally::default());
    let (begun, now, planned) = (0, 0.0, 0);
    let mut run =
        ClusterRun { cluster, schedule, lookahead, texts, begun, now, agenda, planned, random, users, servers, tally };
    for user in 0..cluster.users {
        run.rest(user);
    }
    while run.tally.texts < cluster.users * (cluster.texts + 1) {
        let Some(((at, _), happens)) = run.agenda.pop_first() else { break };
        run.now = f64::from_bits(at);
        run.happen(happens)?;
    }
    Ok(run.outcome())
}

impl ClusterRun<'_> {
    fn plan(&mut self, after: f64, happens: Happens) {
        self.agenda.insert(((self.now + after).to_bits(), self.planned), happens);
        self.planned += 1;
    }

    fn happen(&mut self, happens: Happens) -> Result<()> {
        match happens {
            Happens::Begins { user } => self.begin(user)?,
            Happens::Arrives(request) => {
                let server = self.server_of(request.user);
                self.servers[server].waiting.push_back(request);
                self.plan(0.0, Happens::Wakes { server });
            }
            Happens::Wakes { server } if self.servers[server].running.is_empty() => self.compute(server),
            Happens::Wakes { .. } => {}
            Happens::Computed { server } => self.computed(server),
            Happens::Heard(request) => self.heard(request),
            Happens::Drafted { user, text, task } => self.drafted(user, text, task),
            Happens::Cancels { user, text, task } => {
                let server = self.server_of(user);
                let cancelled =
                    |request: &ClusterRequest| (request.user, request.text, request.task) == (user, text, task);
                self.servers[server].waiting.retain(|request| !cancelled(request));
            }
        }
        Ok(())
    }

    fn server_of(&self, user: usize) -> usize {
        user % self.cluster.servers
    }

    /// Returns a time with random variation.
    fn about(&mut self, time: f64) -> f64 {
        time * (1.0 + self.cluster.jitter * (2.0 * self.random.uniform() - 1.0))
    }

    /// Plans the user's next text.
    fn rest(&mut self, user: usize) {
        let think = -(1.0 - self.random.uniform()).ln() * self.cluster.think;
        self.plan(think, Happens::Begins { user });
    }

    fn begin(&mut self, user: usize) -> Result<()> {
        let text = self.begun % self.texts.len();
        self.begun += 1;
        let mut distributed = None;
        let Cluster { tokens, sp_degree, .. } = *self.cluster;
        let is_distributed = self.schedule == Schedule::Distributed;
        if is_distributed {
            let lookahead = self.lookahead;
            let patience = self.cluster.costs().best_patience(lookahead);
            let options = DsiOptions {
                lookahead,
                sp_degree,
                patience,
                room: tokens,
                ends: Vec::new(),
                drafters: vec![1],
                can_cancel: true,
            };
            let machine = Dsi::new(&PROMPT, options).map_err(Error::refused)?;
            distributed = Some(DistributedUser { machine, drafting: None, in_flight: Vec::new() });
        }
        self.users[user] = User { text, begun: self.now, known: 0, distributed };
        if is_distributed {
            (0..sp_degree).for_each(|server| self.handle(user, Event::Free { server }));
        } else {
            let request = self.next(user);
            self.send(request);
        }
        Ok(())
    }

    /// Returns the next request of schedules with rounds.
    fn next(&self, user: usize) -> ClusterRequest {
        let User { text, known, .. } = self.users[user];
        let drafts = self.lookahead.min(self.cluster.tokens - known - 1);
        ClusterRequest { user, text, task: 0, position: known, rows: drafts + 1 }
    }

    fn send(&mut self, request: ClusterRequest) {
        let drafts = if self.schedule == Schedule::Device { request.rows - 1 } else { 0 };
        let drafting = self.about(drafts as f64 * self.cluster.drafter_latency);
        self.plan(drafting + self.cluster.round_trip / 2.0, Happens::Arrives(request));
    }

    /// Starts a forward with all waiting requests that fit.
    fn compute(&mut self, server: usize) {
        let Cluster { curve, kv_latency, max_num_seqs, server_drafter, .. } = self.cluster;
        let ClusterServer { waiting, running, since } = &mut self.servers[server];
        let room = (max_num_seqs - running.len()).min(waiting.len());
        running.extend(waiting.drain(..room));
        let texts = running.len();
        if texts == 0 {
            return;
        }
        *since = self.now;
        let rows = running.iter().map(|request| request.rows).sum();
        let mut latency = curve.at(rows) + kv_latency * texts as f64;
        if self.schedule == Schedule::Server {
            let steps = running.iter().map(|request| request.rows - 1).max().unwrap_or(0);
            latency += steps as f64 * server_drafter * curve.at(texts);
        }
        self.plan(latency, Happens::Computed { server });
    }

    fn computed(&mut self, server: usize) {
        let ClusterServer { running, since, .. } = &mut self.servers[server];
        let done = std::mem::take(running);
        if let Some(from) = self.tally.from {
            self.tally.busy += self.now - since.max(from);
            self.tally.rows += done.iter().map(|request| request.rows).sum::<usize>();
        }
        for request in done {
            let ClusterRequest { user, text, position, rows, .. } = request;
            if self.schedule != Schedule::Distributed {
                let right = accepted(&self.texts[text], position, rows - 1);
                self.write_tokens(user, right + 1);
            }
            let in_server = matches!(self.schedule, Schedule::Plain | Schedule::Server);
            if in_server && self.users[user].known < self.cluster.tokens {
                let next = self.next(user);
                self.servers[server].running.push(next);
            } else {
                let way = self.about(self.cluster.round_trip / 2.0);
                self.plan(way, Happens::Heard(request));
            }
        }
        self.compute(server);
    }

    fn write_tokens(&mut self, user: usize, tokens: usize) {
        self.users[user].known += tokens;
        if self.tally.from.is_some() {
            self.tally.tokens += tokens;
        }
    }

    fn heard(&mut self, request: ClusterRequest) {
        let ClusterRequest { user, text, task, position, rows } = request;
        if self.schedule == Schedule::Distributed {
            // Answers to cancelled requests are ignored.
            let wanted = self.distributed_user(user, text).and_then(|distributed| {
                let at = distributed.in_flight.iter().position(|flying| flying.0 == task)?;
                Some(distributed.in_flight.remove(at).1)
            });
            let Some(server) = wanted else { return };
            self.handle(user, Event::Verified { server, task, ids: &ids(position, rows) });
        }
        let User { known, begun, .. } = self.users[user];
        if known == self.cluster.tokens {
            self.finish(user, begun);
        } else if self.schedule == Schedule::Device {
            let next = self.next(user);
            self.send(next);
        }
    }

    fn finish(&mut self, user: usize, begun: f64) {
        // Late answers and draft tokens of the text are ignored.
        self.users[user].distributed = None;
        self.tally.texts += 1;
        if self.tally.from.is_some() {
            self.tally.latencies.push((self.now - begun) / self.cluster.tokens as f64);
        } else if self.tally.texts == self.cluster.users {
            self.tally.from = Some(self.now);
        }
        self.rest(user);
    }

    /// Returns the user's distributed speculation, if that text is still being written.
    fn distributed_user(&mut self, user: usize, text: usize) -> Option<&mut DistributedUser> {
        let user = &mut self.users[user];
        user.distributed.as_mut().filter(|_| user.text == text)
    }

    fn drafted(&mut self, user: usize, text: usize, task: TaskId) {
        let latency = self.about(self.cluster.drafter_latency);
        let Some(distributed) = self.distributed_user(user, text) else { return };
        let Some((_, position, left)) = distributed.drafting.take_if(|drafting| drafting.0 == task) else { return };
        if left > 1 {
            distributed.drafting = Some((task, position + 1, left - 1));
            self.plan(latency, Happens::Drafted { user, text, task });
        }
        let right = self.texts[text][position];
        self.handle(user, Event::Drafted { task, ids: &[id(position, 0, right)] });
    }

    fn handle(&mut self, user: usize, event: Event<'_>) {
        let text = self.users[user].text;
        let Some(distributed) = self.distributed_user(user, text) else { return };
        let (mut actions, mut free) = (Vec::new(), Vec::new());
        distributed.machine.handle(event, &mut actions);
        for action in actions {
            let Some(distributed) = self.distributed_user(user, text) else { return };
            match action {
                Action::Draft { task, feed, most, .. } => {
                    distributed.drafting = Some((task, position(&feed, 1), most));
                    let latency = self.about(self.cluster.drafter_latency);
                    self.plan(latency, Happens::Drafted { user, text, task });
                }
                Action::Verify { task, server, feed, rows } => {
                    distributed.in_flight.push((task, server));
                    self.send(ClusterRequest { user, text, task, position: position(&feed, rows), rows });
                }
                Action::Cancel { task } => {
                    distributed.drafting.take_if(|drafting| drafting.0 == task);
                    let flying = distributed.in_flight.iter().position(|flying| flying.0 == task);
                    if let Some(at) = flying {
                        free.push(distributed.in_flight.remove(at).1);
                        self.plan(self.cluster.round_trip / 2.0, Happens::Cancels { user, text, task });
                    }
                }
                Action::Emit { .. } => self.write_tokens(user, 1),
            }
        }
        for server in free {
            self.handle(user, Event::Free { server });
        }
    }

    fn outcome(self) -> Outcome {
        let Self { cluster, lookahead, now, tally, .. } = self;
        let Tally { from, tokens, rows, busy, mut latencies, .. } = tally;
        latencies.sort_by(f64::total_cmp);
        let of_100 = |percent: usize| latencies[(latencies.len() * percent).div_ceil(100) - 1];
        let time = now - from.unwrap_or(0.0);
        Outcome {
            lookahead,
            tokens_per_second: tokens as f64 / time * 1000.0,
            latency_mean: latencies.iter().sum::<f64>() / latencies.len() as f64,
            latency_median: of_100(50),
            latency_p95: of_100(95),
            rows_per_token: rows as f64 / tokens as f64,
            busy: busy / time / cluster.servers as f64,
        }
    }
}
