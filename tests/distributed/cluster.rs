//! Simulations of many users and few servers, compared with sums, with the offline simulation and with queueing theory.

use foretoken_simulate::cluster::{Cluster, Curve, Outcome, Schedule};
use foretoken_simulate::offline::dsi;
use foretoken_simulate::{Cell, Draws, Latency, picture, plain, si};

/// Returns a server that is bound by memory up to 32 rows and by arithmetic beyond, with devices nearby.
fn cluster(users: usize) -> Cluster {
    Cluster {
        users,
        servers: 1,
        curve: curve("1:10,32:10,64:20"),
        kv_latency: 0.0,
        max_num_seqs: 64,
        drafter_latency: 2.0,
        server_drafter: 0.2,
        acceptance: 0.7,
        lookahead: Some(4),
        sp_degree: 2,
        round_trip: 0.0,
        jitter: 0.0,
        think: 0.0,
        tokens: 40,
        texts: 5,
        seed: 1,
    }
}

fn curve(points: &str) -> Curve {
    points.parse().unwrap()
}

fn simulate(cluster: &Cluster, schedule: Schedule) -> Outcome {
    cluster.simulate(schedule).unwrap()
}

fn assert_near(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((found / expected - 1.0).abs() <= tolerance, "{what}: {found}, not {expected}");
}

/// Returns the measured texts of a single user: `true` for each right draft token.
fn measured(cluster: &Cluster) -> Vec<Vec<bool>> {
    let draws = Draws::new(cluster.tokens, cluster.texts + 2, cluster.seed).unwrap();
    draws.agreements(cluster.acceptance).skip(1).take(cluster.texts).collect()
}

#[test]
fn a_lone_user_without_a_network_sees_the_offline_simulation() {
    for (acceptance, lookahead) in [(0.0, 3), (0.5, 1), (0.7, 4), (0.95, 8), (1.0, 5)] {
        let alone =
            Cluster { acceptance, lookahead: Some(lookahead), curve: curve("1:10"), sp_degree: 1, ..cluster(1) };
        let (target, drafter) = (Latency::even(10.0), Latency::even(2.0));
        let cell = Cell { target, drafter, acceptance, lookahead, sp_degree: 1, tokens: alone.tokens };
        let mut totals = [0.0; 4];
        for agreements in measured(&alone) {
            plain(&cell, &mut |pass| totals[0] += pass.total());
            let mut sequential = 0.0;
            si(&cell, &agreements, &mut |pass| sequential += pass.total());
            totals[1] += sequential;
            totals[2] += sequential;
            totals[3] += dsi(&cell, cell.patience(), &agreements, &mut ()).unwrap();
        }
        for (schedule, total) in Schedule::ALL.into_iter().zip(totals) {
            let outcome = simulate(&alone, schedule);
            let tokens = (alone.texts * alone.tokens) as f64;
            let what = format!("{schedule:?} at {acceptance} with {lookahead}");
            assert_near(outcome.latency_mean, total / tokens, 1e-9, &what);
            assert_near(outcome.tokens_per_second, tokens / total * 1000.0, 1e-9, &what);
        }
    }
}

/// The network costs a device one round trip per round, and the servers' own schedules one per text.
#[test]
fn the_network_costs_a_round_trip_per_round_or_per_text() {
    let near = Cluster { acceptance: 0.9, sp_degree: 5, ..cluster(1) };
    let far = Cluster { round_trip: 30.0, ..near.clone() };
    let more = |schedule| {
        let text = near.tokens as f64;
        (simulate(&far, schedule).latency_mean - simulate(&near, schedule).latency_mean) * text / 30.0
    };
    let mut rounds = 0;
    for agreements in measured(&near) {
        let cell = Cell {
            target: Latency::even(10.0),
            drafter: Latency::even(2.0),
            acceptance: near.acceptance,
            lookahead: 4,
            sp_degree: 1,
            tokens: near.tokens,
        };
        si(&cell, &agreements, &mut |_| rounds += 1);
    }
    assert_near(more(Schedule::Plain), 1.0, 1e-9, "plain");
    assert_near(more(Schedule::Server), 1.0, 1e-9, "in the server");
    assert_near(more(Schedule::Device), f64::from(rounds) / near.texts as f64, 1e-9, "from devices");
    let distributed = more(Schedule::Distributed);
    assert!(distributed < more(Schedule::Device) * 0.8, "drafting goes on meanwhile: {distributed} round trips");
}

/// Without jitter and without accepted tokens all users progress equally, so that every round is known.
#[test]
fn drafts_that_are_never_right_cost_exactly_what_they_take() {
    let users = 12;
    let hopeless = Cluster { acceptance: 0.0, kv_latency: 0.25, round_trip: 7.0, ..cluster(users) };
    let (mut of_device, mut of_server, mut rows) = (0.0, hopeless.round_trip, 0);
    for left in (1..=hopeless.tokens).rev() {
        let drafts = 4.min(left - 1);
        rows += drafts + 1;
        let forward = hopeless.curve.at(users * (drafts + 1)) + hopeless.kv_latency * users as f64;
        of_device += drafts as f64 * hopeless.drafter_latency + hopeless.round_trip + forward;
        of_server += drafts as f64 * hopeless.server_drafter * hopeless.curve.at(users) + forward;
    }
    for (schedule, total) in [(Schedule::Device, of_device), (Schedule::Server, of_server)] {
        let outcome = simulate(&hopeless, schedule);
        assert_near(outcome.latency_mean, total / hopeless.tokens as f64, 1e-9, &format!("{schedule:?}"));
        assert_near(outcome.rows_per_token, rows as f64 / hopeless.tokens as f64, 1e-9, &format!("{schedule:?}"));
    }
}

#[test]
fn saturated_servers_give_what_their_largest_batch_gives() {
    for (servers, max_num_seqs, points) in
        [(1, 64, "1:10,32:10,64:20"), (3, 16, "1:5,16:9"), (2, 100, "1:4,8:4,100:60")]
    {
        let most = curve(points);
        let best = (1..=max_num_seqs).map(|rows| rows as f64 / most.at(rows)).fold(0.0, f64::max);
        let most = servers as f64 * best * 1000.0;
        for users in [1, 7, 40, 200, servers * max_num_seqs * 2] {
            let some = Cluster { servers, max_num_seqs, curve: curve(points), round_trip: 3.0, ..cluster(users) };
            let found = simulate(&some, Schedule::Plain);
            assert!(found.tokens_per_second <= most * (1.0 + 1e-9), "{found:?} of {most}");
        }
        let full = Cluster { servers, max_num_seqs, curve: curve(points), ..cluster(servers * max_num_seqs * 2) };
        let found = simulate(&full, Schedule::Plain);
        let full_batch = servers as f64 * max_num_seqs as f64 / full.curve.at(max_num_seqs) * 1000.0;
        assert_near(found.tokens_per_second, full_batch, 0.01, points);
        assert_near(found.busy, 1.0, 0.01, points);
    }
}

/// If every row costs as much as the first, each rejected draft token is lost, and drafting never helps.
#[test]
fn a_server_bound_by_arithmetic_loses_the_rows_that_are_wasted() {
    let bound = Cluster { curve: curve("1:1,1000:1000"), ..cluster(64) };
    let plain = simulate(&bound, Schedule::Plain);
    assert_near(plain.tokens_per_second, 1000.0, 1e-9, "a row each millisecond");
    for schedule in [Schedule::Device, Schedule::Distributed] {
        let found = simulate(&bound, schedule);
        assert!(found.rows_per_token > 1.2, "{found:?}");
        assert_near(found.tokens_per_second * found.rows_per_token, 1000.0, 0.01, &format!("{schedule:?}"));
    }
}

#[test]
fn littles_law_holds() {
    for (users, think, jitter) in [(1, 0.0, 0.0), (5, 0.0, 0.2), (40, 0.0, 0.1), (40, 900.0, 0.1), (150, 2000.0, 0.1)] {
        let some = Cluster { think, jitter, round_trip: 20.0, kv_latency: 0.1, texts: 40, ..cluster(users) };
        for schedule in Schedule::ALL {
            let found = simulate(&some, schedule);
            let per_ms = found.tokens_per_second / 1000.0;
            let there = per_ms * (found.latency_mean + think / some.tokens as f64);
            assert_near(there, users as f64, 0.05, &format!("{schedule:?} of {users} who think {think} ms"));
        }
    }
}

#[test]
fn better_conditions_make_nothing_worse() {
    type Change = fn(&mut Cluster, usize);
    let changes: [(&str, Change); 5] = [
        ("servers", |cluster, step| cluster.servers = 1 + step),
        ("a shorter way", |cluster, step| cluster.round_trip = 60.0 - 15.0 * step as f64),
        ("faster drafters", |cluster, step| cluster.drafter_latency = 8.0 - 2.0 * step as f64),
        ("acceptance", |cluster, step| cluster.acceptance = 0.3 * step as f64),
        ("fewer users", |cluster, step| cluster.users = 120 - 30 * step),
    ];
    for (what, change) in changes {
        for schedule in Schedule::ALL {
            let mut last = f64::INFINITY;
            for step in 0..4 {
                let mut cluster = Cluster { round_trip: 20.0, jitter: 0.1, texts: 10, ..cluster(60) };
                change(&mut cluster, step);
                let latency = simulate(&cluster, schedule).latency_mean;
                assert!(latency <= last * 1.02, "{what}, step {step}, {schedule:?}: {latency} after {last}");
                last = latency;
            }
        }
    }
}

#[test]
fn the_lookahead_that_suits_best_is_found() {
    for schedule in [Schedule::Server, Schedule::Device] {
        let best = simulate(&Cluster { lookahead: None, ..cluster(30) }, schedule);
        for lookahead in [1, 2, 3, 4, 6, 8, 12] {
            let other = simulate(&Cluster { lookahead: Some(lookahead), ..cluster(30) }, schedule);
            assert!(best.latency_mean <= other.latency_mean, "{lookahead} is better than {best:?}");
        }
    }
    // With (10 + 50) / (2 * 2) = 15 draft tokens both requests would be in flight all the time.
    let far = |lookahead| simulate(&Cluster { lookahead, round_trip: 50.0, ..cluster(1) }, Schedule::Distributed);
    let (best, busy) = (far(None), far(Some(15)));
    assert!(best.latency_mean < busy.latency_mean, "{best:?} and {busy:?}");
}

#[test]
fn the_same_seed_gives_the_same_cluster() {
    let run = |seed| {
        let some = Cluster { seed, jitter: 0.1, think: 50.0, round_trip: 10.0, ..cluster(9) };
        some.sweep(&[3, 9]).unwrap()
    };
    assert_eq!(run(1), run(1));
    let (one, two) = (run(1), run(2));
    assert!(Schedule::ALL.iter().all(|&schedule| one[1].outcome_of(schedule) != two[1].outcome_of(schedule)));
}

#[test]
fn impossible_clusters_are_refused() {
    type Change = fn(&mut Cluster);
    let changes: [(&str, Change); 15] = [
        ("users", |cluster| cluster.users = 0),
        ("servers", |cluster| cluster.servers = 0),
        ("max_num_seqs", |cluster| cluster.max_num_seqs = 0),
        ("lookahead", |cluster| cluster.lookahead = Some(0)),
        ("sp_degree", |cluster| cluster.sp_degree = 0),
        ("tokens", |cluster| cluster.tokens = 0),
        ("texts", |cluster| cluster.texts = 0),
        ("drafter_latency", |cluster| cluster.drafter_latency = 0.0),
        ("kv_latency", |cluster| cluster.kv_latency = -1.0),
        ("server_drafter", |cluster| cluster.server_drafter = 1.5),
        ("acceptance", |cluster| cluster.acceptance = f64::NAN),
        ("round_trip", |cluster| cluster.round_trip = f64::INFINITY),
        ("jitter", |cluster| cluster.jitter = 2.0),
        ("think", |cluster| cluster.think = -1.0),
        ("repeats", |cluster| (cluster.users, cluster.tokens, cluster.texts) = (10_000, 100_000, 100_000)),
    ];
    for (option, change) in changes {
        let mut cluster = cluster(3);
        change(&mut cluster);
        let error = cluster.simulate(Schedule::Plain).unwrap_err();
        assert!(error.code() == "bad-option" && error.to_string().contains(option), "{option}: {error}");
    }
}

#[test]
fn a_sweep_is_drawn() {
    for users in [&[1, 8, 64][..], &[5]] {
        let points = cluster(1).sweep(users).unwrap();
        let picture = picture::cluster(&cluster(1), &points);
        assert!(picture.starts_with("<svg ") && picture.trim_end().ends_with("</svg>"));
        assert!(!picture.contains("NaN") && !picture.contains("inf"), "numbers are finite");
        assert!(Schedule::ALL.iter().all(|schedule| picture.contains(schedule.title())));
        assert_eq!(picture.matches("<path").count(), Schedule::ALL.len() * 3);
    }
}
