//! `foretoken simulate cluster`: many users of a few servers.

use super::super::{Failure, count, print_json};
use super::draw::{report_file, write};
use foretoken_simulate::cluster::{Cluster, Curve, Outcome, Point, Schedule};
use foretoken_simulate::picture;
use std::io::{self, Write};
use std::path::PathBuf;

/// Explanation of the output, for `--help`.
pub(super) const ABOUT: &str = "A column is a schedule: plain is continuous batching without drafts; SI in the server drafts \
    and verifies there; SI from devices drafts at the user's and waits for each verification; DSI from devices goes on drafting \
    meanwhile. Of each: tokens per second of all servers, milliseconds per token of a text (the median text, and the one that \
    95 % are no slower than), the lookahead, and rows of the target per token. By default the server is Llama 2 70B on four A100 \
    (docs/cluster.md).";

#[derive(clap::Args)]
pub(super) struct ClusterArgs {
    /// Numbers of users
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', value_parser = count, default_value = "1,4,16,32,64,128,256,512")]
    users: Vec<usize>,
    /// Number of servers
    #[arg(long, value_name = "N", value_parser = count, default_value_t = 1)]
    servers: usize,
    /// Time of a forward of the target, by its rows
    #[arg(long, value_name = "ROWS:MS,...", default_value = "1:29,16:30,32:32,64:37,128:42,2048:371")]
    curve: String,
    /// Time added for each text in a forward, to read its keys and values
    #[arg(long, value_name = "MS", default_value_t = 0.09)]
    kv_latency: f64,
    /// Most texts in a forward
    #[arg(long, value_name = "N", value_parser = count, default_value_t = 256)]
    max_num_seqs: usize,
    /// Time of a draft token on a user's device
    #[arg(long, value_name = "MS", default_value_t = 8.0)]
    drafter_latency: f64,
    /// Time of a draft token in the server, as a share of the target's forward
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    server_drafter: f64,
    /// Probability that a draft token is accepted
    #[arg(long, value_name = "P", default_value_t = 0.8)]
    acceptance: f64,
    /// Draft tokens of a round, or of a verify task [default: the best for each schedule]
    #[arg(long, value_name = "N", value_parser = count)]
    lookahead: Option<usize>,
    /// Requests that a user of DSI has in flight
    #[arg(long, value_name = "N", value_parser = count, default_value_t = 2)]
    sp_degree: usize,
    /// Time to a server and back
    #[arg(long, value_name = "MS", default_value_t = 40.0)]
    round_trip: f64,
    /// Share by which times on devices and times from a server vary at random
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    jitter: f64,
    /// Mean time from the end of a text to the user's next text
    #[arg(long, value_name = "MS", default_value_t = 0.0)]
    think: f64,
    /// Tokens of a text
    #[arg(long, value_name = "N", value_parser = count, default_value_t = 100)]
    tokens: usize,
    /// Texts of each user
    #[arg(long, value_name = "N", value_parser = count, default_value_t = 3)]
    texts: usize,
    /// Seed of all random draws
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Also draw the result in this SVG file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl ClusterArgs {
    fn cluster(&self) -> foretoken::Result<Cluster> {
        Ok(Cluster {
            users: 1,
            servers: self.servers,
            curve: self.curve.parse::<Curve>()?,
            kv_latency: self.kv_latency,
            max_num_seqs: self.max_num_seqs,
            drafter_latency: self.drafter_latency,
            server_drafter: self.server_drafter,
            acceptance: self.acceptance,
            lookahead: self.lookahead,
            sp_degree: self.sp_degree,
            round_trip: self.round_trip,
            jitter: self.jitter,
            think: self.think,
            tokens: self.tokens,
            texts: self.texts,
            seed: self.seed,
        })
    }
}

pub(super) fn run(args: &ClusterArgs, json: bool) -> Result<(), Failure> {
    let cluster = args.cluster()?;
    let points = cluster.sweep(&args.users)?;
    if let Some(out) = &args.out {
        write(out, &picture::cluster(&cluster, &points))?;
        report_file(out)?;
    }
    if json {
        return print_json(&serde_json::json!({ "points": points, "cluster": cluster }));
    }
    print(&points, &mut io::stdout().lock())?;
    Ok(())
}

fn print(points: &[Point], out: &mut impl Write) -> io::Result<()> {
    write!(out, "{:>6}", "")?;
    for schedule in Schedule::ALL {
        write!(out, "  {:<31}", schedule.title())?;
    }
    write!(out, "\n{:>6}", "users")?;
    for _ in Schedule::ALL {
        write!(out, "{:>8}{:>8}{:>7}{:>4}{:>6}", "tok/s", "median", "p95", "k", "rows")?;
    }
    writeln!(out)?;
    for point in points {
        write!(out, "{:>6}", point.users)?;
        for schedule in Schedule::ALL {
            let Outcome { lookahead, tokens_per_second, latency_median, latency_p95, rows_per_token, .. } =
                point.outcome_of(schedule);
            write!(
                out,
                "{tokens_per_second:>8.0}{latency_median:>8.1}{latency_p95:>7.1}{lookahead:>4}{rows_per_token:>6.2}"
            )?;
        }
        writeln!(out)?;
    }
    Ok(())
}
