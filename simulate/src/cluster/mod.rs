//! A discrete-event simulation of many users on a few servers, reproducible by seed. It compares no drafts, drafts on the servers, and
//! drafts on the users' devices.
//!
//! docs/cluster.md states what is assumed.
//!
//! Times are in milliseconds.

mod curve;
mod run;

pub use curve::Curve;

use super::{Draws, LATENCIES, MOST, check, check_count};
use foretoken::Result;
use foretoken::dsi::DsiCosts;
use serde::Serialize;

/// Lookaheads searched for the best one of sequential speculation.
const LOOKAHEADS: [usize; 7] = [1, 2, 3, 4, 6, 8, 12];

/// Maximum users, and maximum servers.
const MOST_USERS: usize = 10_000;

/// Place of the drafter, and whether it overlaps with verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schedule {
    /// No drafts: continuous batching, one token per forward and text, streamed to the user.
    Plain,
    /// Drafts on the servers: for all texts of a batch, then verified. Tokens are streamed to the user.
    Server,
    /// Drafts on the users' devices: draft, send, wait for the verification, repeat.
    Device,
    /// Drafts on the users' devices, without waiting: distributed speculation with [`Cluster::sp_degree`] requests in flight.
    Distributed,
}

impl Schedule {
    /// All schedules, in display order.
    pub const ALL: [Self; 4] = [Self::Plain, Self::Server, Self::Device, Self::Distributed];

    /// Returns the name in tables and figures.
    pub fn title(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Server => "SI in the server",
            Self::Device => "SI from devices",
            Self::Distributed => "DSI from devices",
        }
    }
}

/// Servers, users, and the connections between them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cluster {
    /// Users.
    pub users: usize,
    /// Servers, each with the target.
    pub servers: usize,
    /// Duration of a target forward, by rows.
    pub curve: Curve,
    /// Time added to a forward for each text in it, for reading its keys and values; independent of its rows.
    pub kv_latency: f64,
    /// Maximum texts in a forward (vLLM's name).
    pub max_num_seqs: usize,
    /// Time of a draft token on a user's device.
    pub drafter_latency: f64,
    /// Time of one draft token for each text of a batch on the server, as a share of a target forward with as many rows.
    pub server_drafter: f64,
    /// Probability that a draft token is accepted.
    pub acceptance: f64,
    /// Draft tokens of a round or a verify task. `None`: the best number for each schedule.
    pub lookahead: Option<usize>,
    /// Requests that a user has in flight in distributed speculation.
    pub sp_degree: usize,
    /// Time from a user to the server and back.
    pub round_trip: f64,
    /// Random variation of times on devices and of ways back from the server, as a share.
    pub jitter: f64,
    /// Mean time from the end of a text to the user's next request (exponential).
    pub think: f64,
    /// Tokens of a text.
    pub tokens: usize,
    /// Measured texts per user, after one unmeasured text.
    pub texts: usize,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Measurements of users and servers, after all users have started.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Outcome {
    /// Draft tokens of a round or a verify task; 0 without drafts.
    pub lookahead: usize,
    /// Tokens per second of all servers.
    pub tokens_per_second: f64,
    /// Mean time of a text per token, from the user's request to the last token.
    pub latency_mean: f64,
    /// Median over texts.
    pub latency_median: f64,
    /// 95th percentile over texts.
    pub latency_p95: f64,
    /// Target rows computed per token.
    pub rows_per_token: f64,
    /// Share of the time in which the servers compute.
    pub busy: f64,
}

/// Outcomes of all schedules for a number of users.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// Users.
    pub users: usize,
    /// [`Schedule::Plain`].
    pub plain: Outcome,
    /// [`Schedule::Server`].
    pub server: Outcome,
    /// [`Schedule::Device`].
    pub device: Outcome,
    /// [`Schedule::Distributed`].
    pub distributed: Outcome,
}

impl Point {
    /// Returns the outcome of a schedule.
    pub fn outcome_of(&self, schedule: Schedule) -> Outcome {
        match schedule {
            Schedule::Plain => self.plain,
            Schedule::Server => self.server,
            Schedule::Device => self.device,
            Schedule::Distributed => self.distributed,
        }
    }
}

impl Cluster {
    /// # Errors
    /// [`Error::BadOption`](foretoken::Error::BadOption), with the option names of the program.
    pub fn validate(&self) -> Result<()> {
        check("drafter_latency", self.drafter_latency, LATENCIES)?;
        let most = *LATENCIES.end();
        for (option, value, most) in [
            ("kv_latency", self.kv_latency, most),
            ("server_drafter", self.server_drafter, 1.0),
            ("acceptance", self.acceptance, 1.0),
            ("round_trip", self.round_trip, most),
            ("jitter", self.jitter, 1.0),
            ("think", self.think, most),
        ] {
            check(option, value, 0.0..=most)?;
        }
        for (option, value, most) in [
            ("users", self.users, MOST_USERS),
            ("servers", self.servers, MOST_USERS),
            ("max_num_seqs", self.max_num_seqs, MOST),
            ("lookahead", self.lookahead.unwrap_or(1), 1000),
            ("sp_degree", self.sp_degree, 100),
            ("tokens", self.tokens, MOST),
            ("texts", self.texts, MOST),
        ] {
            check_count(option, value, most)?;
        }
        Ok(())
    }

    /// Simulates a schedule with the given lookahead, or else the best one. For sequential speculation that is the fastest of a few. For
    /// distributed speculation it is the smallest with which `sp_degree` requests keep up with the drafter (equation 1, including the round
    /// trip).
    ///
    /// # Errors
    /// [`Error::BadOption`](foretoken::Error::BadOption).
    pub fn simulate(&self, schedule: Schedule) -> Result<Outcome> {
        Ok(self.all(&[schedule])?[0])
    }

    /// Simulates all schedules for each number of users.
    ///
    /// # Errors
    /// [`Error::BadOption`](foretoken::Error::BadOption).
    pub fn sweep(&self, users: &[usize]) -> Result<Vec<Point>> {
        let point = |&users: &usize| {
            let outcomes = Self { users, ..self.clone() }.all(&Schedule::ALL)?;
            let [plain, server, device, distributed] = [0, 1, 2, 3].map(|at| outcomes[at]);
            Ok(Point { users, plain, server, device, distributed })
        };
        users.iter().map(point).collect()
    }

    /// Returns the costs of a request to an idle server.
    fn costs(&self) -> DsiCosts<impl Fn(usize) -> f64, impl Fn(usize) -> f64> {
        let Self { kv_latency, round_trip, acceptance, sp_degree, tokens, .. } = *self;
        let forward = move |rows| self.curve.at(rows) + kv_latency + round_trip;
        DsiCosts { forward, step: self.drafter_latency, acceptance: move |_| acceptance, sp_degree, tokens }
    }

    /// Simulates schedules on the same draws.
    fn all(&self, schedules: &[Schedule]) -> Result<Vec<Outcome>> {
        self.validate()?;
        // Some users begin another text before others have finished, so there are spare texts.
        let draws = Draws::new(self.tokens, self.users.saturating_mul(self.texts + 2), self.seed)?;
        let texts: Vec<Vec<bool>> = draws.agreements(self.acceptance).collect();
        let with = |schedule, lookahead| run::run(self, schedule, lookahead, &texts);
        let best = |&schedule: &Schedule| {
            let lookaheads = match (schedule, self.lookahead) {
                (Schedule::Plain, _) => vec![0],
                (_, Some(lookahead)) => vec![lookahead],
                (Schedule::Distributed, None) => {
                    vec![self.costs().best(*crate::LOOKAHEADS.start(), *crate::LOOKAHEADS.end()).0]
                }
                _ => LOOKAHEADS.to_vec(),
            };
            let outcomes: Result<Vec<Outcome>> =
                lookaheads.into_iter().map(|lookahead| with(schedule, lookahead)).collect();
            let mut outcomes = outcomes?;
            outcomes.sort_by(|a, b| a.latency_mean.total_cmp(&b.latency_mean));
            Ok(outcomes[0])
        };
        schedules.iter().map(best).collect()
    }
}
