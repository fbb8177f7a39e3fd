//! Many users, a few servers of the target, and the question who drafts: nobody, the servers themselves, or the users'
//! devices. A discrete-event simulation, the same for the same seed.
//!
//! - A user has one text written at a time, and thinks before the next. A user stays with one server, so that its prefix cache
//!   holds the text.
//! - A server batches continuously: whoever waits when a forward ends, takes part in the next one. What a forward takes depends
//!   on the rows of all texts in it ([`Curve`]) and on the number of these texts, whose keys and values are read.
//! - Reading prompts is left out: it takes the same from all schedules.
//! - A draft token is accepted with the same probability at every position, whoever drafts.
//!
//! Times are in milliseconds.

mod curve;
mod run;

pub use curve::Curve;

use super::{Draws, LATENCIES, MOST, check, check_count};
use crate::error::Result;
use crate::speculate::dsi::lookahead_for;
use serde::Serialize;

/// Lookaheads among which sequential speculation has its best one here.
const LOOKAHEADS: [usize; 7] = [1, 2, 3, 4, 6, 8, 12];

/// Most users, and most servers.
const MOST_USERS: usize = 10_000;

/// Who drafts, and whether anybody waits for the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schedule {
    /// Nobody: continuous batching, a token per forward and text, streamed to the user.
    Plain,
    /// The servers: all texts of a batch are drafted for, then verified; tokens are streamed to the user.
    Server,
    /// The users' devices: draft, send, wait for the verification, and so on.
    Device,
    /// The users' devices, without waiting: distributed speculation with [`Cluster::sp_degree`] requests in flight.
    Distributed,
}

impl Schedule {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 4] = [Self::Plain, Self::Server, Self::Device, Self::Distributed];

    /// How it is called in tables and pictures.
    pub fn title(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Server => "SI in the server",
            Self::Device => "SI from devices",
            Self::Distributed => "DSI from devices",
        }
    }
}

/// Servers, users, and what is between them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cluster {
    /// Users.
    pub users: usize,
    /// Servers, each with the target.
    pub servers: usize,
    /// A forward of the target, by rows.
    pub curve: Curve,
    /// Added to a forward for each text in it: reading its keys and values, for however many rows.
    pub kv_latency: f64,
    /// Most texts in a forward (vLLM's name).
    pub max_num_seqs: usize,
    /// A draft token on a user's device.
    pub drafter_latency: f64,
    /// A draft token of each text of a batch in the server, as a share of the target's forward with as many rows.
    pub server_drafter: f64,
    /// Probability that a draft token is accepted.
    pub acceptance: f64,
    /// Draft tokens of a round or a verify task; none: the best one of each schedule.
    pub lookahead: Option<usize>,
    /// Requests that a user has in flight in distributed speculation.
    pub sp_degree: usize,
    /// From a user to the server and back.
    pub round_trip: f64,
    /// Share by which times on devices, and ways back from the server, differ at random.
    pub jitter: f64,
    /// Mean of the time from the end of a text to the user's next one (exponential).
    pub think: f64,
    /// Tokens of a text.
    pub tokens: usize,
    /// Texts per user to measure, after one that is not.
    pub texts: usize,
    /// Of all that is drawn.
    pub seed: u64,
}

/// What users and servers see, once all have begun.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Outcome {
    /// Draft tokens of a round or a verify task; 0 without.
    pub lookahead: usize,
    /// Of all servers.
    pub tokens_per_second: f64,
    /// Time of a text by its tokens, from the user's request to the last one: the mean of texts.
    pub latency_mean: f64,
    /// The same: half of the texts take no longer.
    pub latency_median: f64,
    /// The same: 95 % of the texts take no longer.
    pub latency_p95: f64,
    /// Rows that went through the target for each token.
    pub rows_per_token: f64,
    /// Share of the time in which the servers compute.
    pub busy: f64,
}

/// All schedules with so many users.
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
    /// What one of them does.
    pub fn of(&self, schedule: Schedule) -> Outcome {
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
    /// [`crate::Error::BadOption`], under the names that the program uses.
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

    /// One schedule, with the lookahead that is wanted or the one with which texts come fastest: for sequential speculation
    /// the best of a few, for distributed speculation the least with which `sp_degree` requests keep up with the drafter
    /// (equation 1, the way to the server included).
    ///
    /// # Errors
    /// [`crate::Error::BadOption`].
    pub fn simulate(&self, schedule: Schedule) -> Result<Outcome> {
        Ok(self.all(&[schedule])?[0])
    }

    /// All schedules, for each number of users.
    ///
    /// # Errors
    /// [`crate::Error::BadOption`].
    pub fn sweep(&self, users: &[usize]) -> Result<Vec<Point>> {
        let point = |&users: &usize| {
            let outcomes = Self { users, ..self.clone() }.all(&Schedule::ALL)?;
            let [plain, server, device, distributed] = [0, 1, 2, 3].map(|at| outcomes[at]);
            Ok(Point { users, plain, server, device, distributed })
        };
        users.iter().map(point).collect()
    }

    /// On the same draws.
    fn all(&self, schedules: &[Schedule]) -> Result<Vec<Outcome>> {
        self.validate()?;
        // Some users begin another text before the others have finished theirs.
        let draws = Draws::new(self.tokens, self.users.saturating_mul(self.texts + 2), self.seed)?;
        let texts: Vec<Vec<bool>> = draws.agreements(self.acceptance).collect();
        let with = |schedule, lookahead| run::run(self, schedule, lookahead, &texts);
        let best = |&schedule: &Schedule| {
            let lookaheads = match (schedule, self.lookahead) {
                (Schedule::Plain, _) => vec![0],
                (_, Some(lookahead)) => vec![lookahead],
                (Schedule::Distributed, None) => {
                    let latency = self.curve.at(1) + self.kv_latency + self.round_trip;
                    vec![lookahead_for(latency, self.drafter_latency, self.sp_degree)]
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
