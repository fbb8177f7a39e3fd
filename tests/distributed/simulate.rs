//! Simulations of speculation, compared with reference cells, with theory, and with each other.

use foretoken_simulate::heatmap::{self, GridOptions, Ratio, grid};
use foretoken_simulate::offline::{Lookaheads, SimulatedDrafter, Watch, best_means, dsi, dsi_of, means};
use foretoken_simulate::online::measure;
use foretoken_simulate::{
    Cell, Draws, Latency, Trace, Traces, acceptance_from_matches, best_lookahead, bound, expected_si, lookahead_for,
    picture, si, si_of_authors,
};
use serde_json::Value;

fn cell(drafter: f64, acceptance: f64, lookahead: usize, sp_degree: usize) -> Cell {
    let (target, drafter) = (Latency::even(1.0), Latency::even(drafter));
    Cell { target, drafter, acceptance, lookahead, sp_degree, tokens: 50 }
}

fn draws(repeats: usize) -> Draws {
    Draws::new(50, repeats, 1).unwrap()
}

/// Returns drafter latencies and acceptances, from very good to useless.
fn cells() -> impl Iterator<Item = (f64, f64)> {
    let drafters = [0.01, 0.02, 0.05, 0.1, 0.14, 0.2, 0.35, 0.5, 0.67, 0.8, 0.9, 1.0];
    let acceptances = [0.0, 0.1, 0.25, 0.5, 0.6, 0.75, 0.8, 0.9, 0.95, 0.99, 1.0];
    drafters.into_iter().flat_map(move |drafter| acceptances.map(|acceptance| (drafter, acceptance)))
}

#[test]
fn reference_cells_are_met() {
    let golden: Value = serde_json::from_str(include_str!("../golden/dsi_offline.json")).unwrap();
    let draws = draws(1000);
    for row in golden["rows"].as_array().unwrap() {
        let of = |key: &str| row[key].as_f64().unwrap();
        let lookahead = of("lookahead") as usize;
        let cell = cell(of("drafter_latency"), of("acceptance"), lookahead, 7);
        let means = means(&cell, Lookaheads::all(lookahead), &draws).unwrap();
        assert!((means.si / of("si") - 1.0).abs() < 0.02, "SI {} in {row}", means.si);
        // The reference charges the last block of a stretch between two rejections as a whole.
        if let Some(dsi) = row["dsi"].as_f64() {
            assert!((0.8..1.01).contains(&(means.dsi / dsi)), "DSI {} in {row}", means.dsi);
        }
    }
}

#[test]
fn the_mean_of_sequential_speculation_is_the_expected_one() {
    let draws = draws(2000);
    for (drafter, acceptance, lookahead) in
        [(0.1, 0.8, 5), (0.3, 0.5, 1), (0.02, 0.95, 60), (0.5, 1.0, 3), (1.0, 0.0, 4)]
    {
        let cell = cell(drafter, acceptance, lookahead, 1);
        let means = means(&cell, Lookaheads::all(lookahead), &draws).unwrap();
        assert!((means.si / expected_si(&cell) - 1.0).abs() < 0.01, "{} and {}", means.si, expected_si(&cell));
    }
}

#[test]
fn the_bound_of_proposition_1_holds_in_every_cell() {
    let draws = draws(400);
    for (drafter, acceptance) in cells() {
        // The theorem's conditions: a lookahead of 1 and the number of servers that it needs.
        let cell_of_1 = cell(drafter, acceptance, 1, lookahead_for(1.0, drafter, 1));
        // Its extension: the smallest lookahead that seven servers keep up with.
        for cell in [cell_of_1, cell(drafter, acceptance, 1, 7).with_least_lookahead()] {
            let means = means(&cell, Lookaheads::all(cell.lookahead), &draws).unwrap();
            assert!(means.dsi <= cell.bound() * (1.0 + 1e-9), "{} > {} in {cell:?}", means.dsi, cell.bound());
        }
    }
}

/// Returns the mean latency with drafters given as latency and acceptance.
fn with_drafters(drafters: &[(f64, f64)], instances: usize, lookahead: usize, sp_degree: usize, texts: usize) -> f64 {
    let seeds = drafters.iter().zip(1..);
    let draws = seeds.map(|(drafter, seed)| Draws::new(50, texts, seed).unwrap().agreements(drafter.1).collect());
    let draws: Vec<Vec<Vec<bool>>> = draws.collect();
    let latency = |text: usize| {
        let of = drafters.iter().zip(&draws).map(|(drafter, draws)| SimulatedDrafter {
            latency: Latency::even(drafter.0),
            instances,
            agreements: &draws[text],
        });
        dsi_of(&cell(1.0, 0.0, lookahead, sp_degree), 0, &of.collect::<Vec<_>>(), &mut ()).unwrap()
    };
    (0..texts).map(latency).sum::<f64>() / texts as f64
}

#[test]
fn several_drafters_in_branches_meet_proposition_1() {
    let (lookup, model) = ((0.01, 0.4), (0.15, 0.75));
    // Enough instances for every branch.
    for (drafters, expected) in [(&[lookup][..], 30.6), (&[model], 18.8), (&[lookup, model], 11.9)] {
        let (found, bound) = (with_drafters(drafters, 100, 1, 300, 20), bound(1.0, drafters, 50));
        assert!((bound - expected).abs() < 0.05, "{bound} is not {expected}");
        assert!((found / bound - 1.0).abs() < 0.015, "{found} is not {bound}");
    }
    // One instance of each drafter, and few servers.
    for sp_degree in [3, 4, 7] {
        for lookahead in [3, 5, 10] {
            let [alone, both] =
                [&[model][..], &[lookup, model]].map(|drafters| with_drafters(drafters, 1, lookahead, sp_degree, 100));
            assert!(
                both < alone,
                "SP degree {sp_degree}, lookahead {lookahead}: {both} with both, {alone} with the model"
            );
        }
    }
}

#[test]
fn distributed_speculation_is_never_slower_than_plain_or_sequential() {
    let draws = draws(200);
    let mut slower = 0;
    for (drafter, acceptance) in cells() {
        for sp_degree in [2, 3, 7] {
            let cell = cell(drafter, acceptance, 1, sp_degree);
            let (lookaheads, best) = best_means(&cell, &draws).unwrap();
            assert!(best.dsi <= best.plain * (1.0 + 1e-9), "{best:?} in {cell:?}, {lookaheads:?}");
            assert!(best.dsi <= best.si * (1.0 + 1e-9), "{best:?} in {cell:?}, {lookaheads:?}");
            slower += usize::from(best.si > best.plain);
        }
    }
    assert!(slower > 90, "sequential speculation is slower than plain decoding where drafts are slow or bad: {slower}");
}

#[test]
fn the_chosen_patience_is_nearly_the_best() {
    let draws = draws(200);
    for (drafter, acceptance) in cells().step_by(3) {
        for lookahead in [2, 10] {
            let cell = cell(drafter, acceptance, lookahead, 1);
            let mean = |patience| {
                let times = draws.agreements(acceptance).map(|text| dsi(&cell, patience, &text, &mut ()).unwrap());
                times.sum::<f64>() / 200.0
            };
            let best = (0..=lookahead).map(mean).fold(f64::INFINITY, f64::min);
            let chosen = mean(cell.patience());
            assert!(chosen <= best * 1.01, "{chosen} > {best}, patience {} in {cell:?}", cell.patience());
        }
    }
}

/// With equation 1's lookahead and no patience, two servers and a fast drafter took longer than sequential speculation on one.
#[test]
fn two_servers_with_a_fast_drafter_gain() {
    let (_, best) = best_means(&cell(0.02, 0.8, 1, 2), &draws(3000)).unwrap();
    assert!((12.0..12.9).contains(&best.dsi) && (13.5..13.7).contains(&best.si), "{best:?}");
}

/// Records the times at which tokens were emitted.
#[derive(Default)]
struct Emissions(Vec<f64>);

impl Watch for Emissions {
    fn emitted(&mut self, now: f64, _accepted: bool) {
        self.0.push(now);
    }
}

/// The promises in the state machine's documentation hold for every single text, not only for the mean.
#[test]
fn no_text_takes_longer_than_promised() {
    let draws = Draws::new(50, 8, 7).unwrap();
    for (drafter, acceptance) in cells().chain([(1.7, 0.5), (2.5, 0.9), (0.31, 0.7)]) {
        for lookahead in [1, 2, 3, 5, 10, 25] {
            for sp_degree in [1, 2, 3, 7] {
                let cell = cell(drafter, acceptance, lookahead, sp_degree);
                for agreements in draws.agreements(acceptance) {
                    let mut sequential = 0.0;
                    si(&cell, &agreements, &mut |pass| sequential += pass.total());
                    let run = |patience| {
                        let mut emissions = Emissions::default();
                        let total = dsi(&cell, patience, &agreements, &mut emissions).unwrap();
                        assert_eq!(emissions.0.len(), 50);
                        (total, emissions.0)
                    };
                    let (total, emissions) = run(0);
                    for (emitted, plain) in emissions.into_iter().zip(1..) {
                        assert!(emitted <= f64::from(plain) + 1e-9, "token {plain} came at {emitted} in {cell:?}");
                    }
                    let total = if sp_degree == 1 { run(lookahead).0 } else { total };
                    assert!(total <= sequential + 1e-9, "{total} > {sequential} in {cell:?}");
                }
            }
        }
    }
}

#[test]
fn one_server_with_patience_is_on_average_no_slower_than_either() {
    let draws = draws(300);
    for (drafter, acceptance) in cells() {
        for lookahead in [1, 3, 5, 10] {
            let cell = cell(drafter, acceptance, lookahead, 1);
            let means = means(&cell, Lookaheads::all(lookahead), &draws).unwrap();
            // The patience is the best one for a long text; the end of a short one may cost a little.
            let allowed = 1.0 + 0.01;
            assert!(means.dsi <= means.plain * allowed, "{means:?} in {cell:?}");
            assert!(means.dsi <= means.si * allowed, "{means:?} in {cell:?}");
        }
    }
}

#[test]
fn the_best_lookahead_is_found() {
    assert_eq!(best_lookahead(&cell(0.1, 0.0, 1, 1)).0, 1);
    assert_eq!(best_lookahead(&cell(0.001, 1.0, 1, 1)).0, 49);
    let (best, latency) = best_lookahead(&cell(0.1, 0.8, 1, 1));
    for lookahead in 1..=200 {
        assert!(expected_si(&cell(0.1, 0.8, lookahead, 1)) >= latency, "{lookahead} is better than {best}");
    }
}

/// With a lookahead of 10, a match of 9 and its ending token are one round. Matches of 0 and 18 take three rounds for 20 tokens.
#[test]
fn texts_are_put_together_of_matches() {
    let rounds = |tokens: usize, lengths: &[usize]| {
        let cell = Cell {
            target: Latency::even(1.0),
            drafter: Latency::even(1e-4),
            acceptance: 0.0,
            lookahead: 10,
            sp_degree: 1,
            tokens,
        };
        let draws = Draws::new(cell.tokens, 100, 1).unwrap().with_matches(lengths);
        means(&cell, Lookaheads::all(10), &draws).unwrap().si
    };
    for (tokens, lengths, expected) in
        [(20, &[9][..], 2.0), (2000, &[9], 200.0), (20, &[0, 18], 3.0), (2000, &[0, 18], 300.0)]
    {
        let found = rounds(tokens, lengths);
        assert!((found - expected).abs() < 0.01 * expected, "{lengths:?}, {tokens} tokens: {found}");
    }
}

/// The first of two requests takes a whole block, so both are back after one forward.
#[test]
fn several_targets_wait_for_drafts_that_take_no_time() {
    let copies = Cell { tokens: 20, ..cell(2e-4, 1.0, 10, 2) };
    let found = means(&copies, Lookaheads::all(10), &Draws::new(20, 1, 1).unwrap()).unwrap().dsi;
    assert!((1.0..1.1).contains(&found), "{found}");
}

#[test]
fn acceptance_is_estimated_from_match_lengths() {
    assert_eq!(acceptance_from_matches(&[4, 4, 4]), 0.8);
    assert_eq!(acceptance_from_matches(&[0]), 0.0);
    assert_eq!(acceptance_from_matches(&[]), 0.0);
}

#[test]
fn the_same_seed_gives_the_same_numbers() {
    let cell = cell(0.1, 0.8, 5, 7);
    let run = |seed| means(&cell, Lookaheads::all(5), &Draws::new(50, 20, seed).unwrap()).unwrap();
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

/// A verification of 2 draft tokens, of which the second is wrong, yields one token; the forward after it one more.
#[test]
fn the_authors_count_a_forward_after_each_rejection() {
    let (mut total, cell) = (0.0, Cell { tokens: 4, ..cell(0.25, 0.5, 2, 1) });
    si_of_authors(&cell, &[true, false, true, true], &mut |pass| total += pass.total());
    assert_eq!(total, 1.5 + 1.0 + 1.5);
}

#[test]
fn impossible_parameters_are_refused() {
    type Change = fn(&mut Cell);
    let changes: [(&str, Change); 9] = [
        ("acceptance", |cell| cell.acceptance = 1.1),
        ("acceptance", |cell| cell.acceptance = f64::NAN),
        ("target_latency", |cell| cell.target.tpot = 0.0),
        ("target_ttft", |cell| cell.target.ttft = f64::INFINITY),
        ("drafter_latency", |cell| cell.drafter.tpot = -1.0),
        ("drafter_ttft", |cell| cell.drafter.ttft = f64::NAN),
        ("lookahead", |cell| cell.lookahead = 0),
        ("sp_degree", |cell| cell.sp_degree = 0),
        ("tokens", |cell| cell.tokens = 0),
    ];
    for (option, change) in changes {
        let mut cell = cell(0.1, 0.8, 5, 7);
        change(&mut cell);
        let error = cell.validate().unwrap_err().to_string();
        assert!(error.contains(option), "{error}");
        assert!(dsi(&cell, 0, &[true; 50], &mut ()).is_err());
    }
    assert!(Draws::new(50, 0, 1).is_err() && Draws::new(100_000, 100_000, 1).is_err());
    assert!(grid(GridOptions { columns: 1, ..GridOptions::default() }).is_err());
}

#[test]
fn a_single_token_takes_one_forward() {
    for sp_degree in [1, 3] {
        let cell = Cell { tokens: 1, ..cell(0.1, 0.8, 5, sp_degree) };
        let means = means(&cell, Lookaheads::all(5), &Draws::new(1, 10, 1).unwrap()).unwrap();
        assert_eq!([means.plain, means.si, means.dsi, means.pearl], [1.0; 4]);
    }
}

#[test]
fn a_long_prompt_is_read_once_by_each_model() {
    let (target, drafter) = (Latency { ttft: 5.0, tpot: 1.0 }, Latency { ttft: 2.0, tpot: 0.25 });
    let cell = Cell { target, drafter, ..cell(0.25, 1.0, 1, 4) };
    let means = means(&cell, Lookaheads::all(1), &draws(3)).unwrap();
    assert_eq!(means.plain, 5.0 + 49.0);
    assert_eq!(means.si, 25.0 + 4.0 + 25.0 * 0.25 + 1.75);
    // All drafts are right, so nothing is faster than prefill, drafting 49 tokens and verifying the last one.
    let least = 1.75 + 49.0 * 0.25 + 1.0;
    assert!((least..means.si).contains(&means.dsi), "{}", means.dsi);
}

#[test]
fn waiting_threads_agree_with_the_sum_of_latencies() {
    let (target, drafter) = (Latency { ttft: 40.0, tpot: 20.0 }, Latency { ttft: 8.0, tpot: 4.0 });
    let cell = Cell { target, drafter, tokens: 12, ..cell(4.0, 0.8, 2, 3) };
    let draws = Draws::new(12, 2, 3).unwrap();
    let added = means(&cell, Lookaheads::all(2), &draws).unwrap();
    let waited = measure(&cell, Lookaheads::all(2), &draws).unwrap();
    for (name, waited, added) in [
        ("plain", waited.plain, added.plain),
        ("SI", waited.si, added.si),
        ("DSI", waited.dsi, added.dsi),
        ("PEARL", waited.pearl, added.pearl),
    ] {
        // Threads may be late, on a busy machine by a lot, but never early.
        let late = waited.total / added;
        assert!((0.98..3.0).contains(&late), "{name}: {waited:?}, {added}");
        assert!((waited.ttft + waited.tpot * 11.0 - waited.total).abs() < 1e-6);
    }
}

/// Asserts that every element is closed and every text escaped.
fn assert_svg(picture: &str) {
    assert!(picture.starts_with("<svg ") && picture.trim_end().ends_with("</svg>"));
    assert!(!picture.contains("NaN") && !picture.contains("inf"), "numbers are finite");
    let opened = picture.matches('<').count() - picture.matches("</").count();
    assert_eq!(opened, picture.matches("/>").count() + picture.matches("</").count());
    assert!(picture.contains("prefers-color-scheme:dark"));
}

#[test]
fn pictures_are_drawn() {
    let grid = grid(GridOptions { columns: 10, rows: 11, repeats: 5, ..GridOptions::default() }).unwrap();
    let all = picture::heatmaps(&grid, &Ratio::ALL, 2);
    assert_svg(&all);
    assert_svg(&picture::heatmaps(&grid, &[Ratio::DsiSi], 2));
    for ratio in Ratio::ALL {
        assert!(all.contains(ratio.title()));
    }
    // Seven servers with a lookahead of 1 need a drafter latency of 1/7 or more.
    let fixed = GridOptions { lookahead: Some(1), columns: 10, rows: 2, repeats: 5, ..GridOptions::default() };
    let fixed = heatmap::grid(fixed).unwrap();
    assert_eq!((0..10).filter(|&column| fixed.keeps_up(column)).count(), 9);
    assert!(!all.contains("equation 1") && picture::heatmaps(&fixed, &Ratio::ALL, 2).contains("equation 1"));
    for sp_degree in [1, 3, 12] {
        let cell = Cell { sp_degree, ..cell(0.2, 0.8, lookahead_for(1.0, 0.2, sp_degree), 1) };
        let timeline = picture::timeline(&Traces::new(&cell, &draws(1)).unwrap(), "ms");
        assert_svg(&timeline);
        assert!(timeline.contains(&format!("server {sp_degree}")) && timeline.contains("emitted"));
    }
}

/// The example of the paper's figure 1: a drafter that takes 14 % of the target's time, with a lookahead of 1.
#[test]
fn tokens_are_counted_over_time_with_one_lookahead() {
    for (acceptance, latencies, counts) in [
        (1.0, [8.0, 4.56, 1.98], [[1, 2, 3, 4, 5, 6, 7, 8], [0, 2, 4, 6, 8, 8, 8, 8], [1, 8, 8, 8, 8, 8, 8, 8]]),
        (0.0, [8.0, 8.98, 8.0], [[1, 2, 3, 4, 5, 6, 7, 8], [0, 1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 6, 7, 8]]),
    ] {
        let cell = Cell { tokens: 8, ..cell(0.14, acceptance, 1, 8) };
        let traces = Traces::new(&cell, &Draws::new(8, 1, 1).unwrap()).unwrap();
        let ticks = traces.ticks();
        assert_eq!(ticks[..9], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        for ((trace, latency), counts) in
            [&traces.plain, &traces.si, &traces.dsi].into_iter().zip(latencies).zip(counts)
        {
            assert!((trace.latency() - latency).abs() < 1e-9, "{} instead of {latency}", trace.latency());
            assert_eq!(ticks[1..9].iter().map(|&tick| trace.tokens_at(tick)).collect::<Vec<_>>(), counts);
        }
    }
}

#[test]
fn traces_add_up() {
    for (drafter, acceptance, lookahead, sp_degree) in
        [(0.1, 0.8, 2, 5), (0.3, 0.5, 4, 1), (1.5, 0.9, 3, 2), (0.02, 1.0, 20, 3)]
    {
        let cell = Cell { target: Latency { ttft: 3.0, tpot: 1.0 }, ..cell(drafter, acceptance, lookahead, sp_degree) };
        let (texts, all) = (draws(1), |trace: &Trace| trace.emitted.iter().map(|&(time, _)| time).collect::<Vec<_>>());
        let traces = Traces::new(&cell, &texts).unwrap();
        let means = means(&cell, Lookaheads::all(lookahead), &texts).unwrap();
        for (trace, latency) in [(&traces.plain, means.plain), (&traces.si, means.si), (&traces.dsi, means.dsi)] {
            assert!((trace.latency() - latency).abs() < 1e-9, "{} instead of {latency} in {cell:?}", trace.latency());
            let times = all(trace);
            assert!(times.len() == 50 && times.is_sorted(), "{times:?}");
            assert!(trace.spans.iter().all(|span| span.from <= span.to && span.to <= latency + 1e-9));
        }
        let ticks = traces.ticks();
        assert!((5..=13).contains(&ticks.len()) && *ticks.last().unwrap() <= traces.end() + 1e-9, "{ticks:?}");
        assert!(traces.end() <= 2.0 * traces.plain.latency());
    }
}
