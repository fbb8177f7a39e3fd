//! Proposals of drafters without a model, reading of draft models, changes of lookahead, and the draft tokens that a round keeps.

mod lookup {
    use foretoken::LookupRule;
    use foretoken::internals::speculate::{Drafter, PromptLookup};
    use foretoken::internals::target::Draft;

    fn tokens(draft: Draft) -> Vec<u32> {
        match draft {
            Draft::Tokens(tokens) => tokens,
            Draft::Model(_) => panic!("a lookup has no model"),
        }
    }

    fn lookup(text: &[u32], num_tokens: usize, max_ngram: usize) -> Vec<u32> {
        by_rule(LookupRule::Leftmost, text, num_tokens, max_ngram)
    }

    fn by_rule(rule: LookupRule, text: &[u32], num_tokens: usize, max_ngram: usize) -> Vec<u32> {
        tokens(PromptLookup::new(num_tokens, max_ngram, rule, &[0]).draft(text, 100))
    }

    /// Implements the documented rules directly, without an index.
    fn told(rule: LookupRule, text: &[u32], num_tokens: usize, max_ngram: usize) -> Vec<u32> {
        for n in (1..=max_ngram.min(text.len().saturating_sub(1))).rev() {
            let last = &text[text.len() - n..];
            let mut starts = (0..text.len() - n).filter(|&start| &text[start..start + n] == last);
            let start = match rule {
                LookupRule::Leftmost => starts.next(),
                LookupRule::MostRecent => starts.next_back(),
                LookupRule::Whole => {
                    starts.find(|start| start + n + num_tokens <= text.len() && start + n < text.len() - n)
                }
                rule => panic!("no test of {rule:?}"),
            };
            if let Some(start) = start {
                let followers = text[start + n..].iter().copied().take(num_tokens);
                return followers.take_while(|&id| id != 0).collect();
            }
        }
        Vec::new()
    }

    #[test]
    fn the_index_finds_what_the_rules_tell_while_a_text_grows_and_shrinks() {
        let mut state = 1u32;
        let mut random = |most: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % most
        };
        for rule in [LookupRule::Leftmost, LookupRule::Whole, LookupRule::MostRecent] {
            for (kinds, max_ngram) in [(2, 1), (3, 2), (3, 5), (8, 3)] {
                let mut text = vec![1];
                let mut grown = PromptLookup::new(4, max_ngram, rule, &[0]);
                while text.len() < 150 {
                    let expected = told(rule, &text, 4, max_ngram);
                    assert_eq!(tokens(grown.draft(&text, 100)), expected, "{rule:?} {max_ngram} {text:?}");
                    assert_eq!(by_rule(rule, &text, 4, max_ngram), expected, "read at once");
                    if random(8) == 0 {
                        text.truncate(text.len().saturating_sub(random(8) as usize).max(1));
                    } else {
                        (0..=random(3)).for_each(|_| text.push(random(kinds)));
                    }
                }
            }
        }
    }

    #[test]
    fn many_tokens_can_be_taken_back() {
        let mut lookup = PromptLookup::new(2, 2, LookupRule::MostRecent, &[]);
        let text: Vec<u32> = [1, 2, 3, 1, 2].into_iter().chain((0..2000).map(|at| at % 7)).collect();
        assert_eq!(tokens(lookup.draft(&text, 100)), [5, 6]);
        assert_eq!(tokens(lookup.draft(&text[..5], 100)), [3, 1]);
    }

    #[test]
    fn the_most_recent_match_wins_where_it_should() {
        assert_eq!(by_rule(LookupRule::MostRecent, &[2, 7, 2, 8, 2], 1, 3), [8]);
    }

    #[test]
    fn a_whole_continuation_is_wanted_where_it_should() {
        assert_eq!(by_rule(LookupRule::Whole, &[4, 5, 9, 1, 4, 5], 3, 2), [9, 1, 4]);
        assert_eq!(by_rule(LookupRule::Whole, &[4, 5, 9, 1, 4, 5], 5, 2), [0u32; 0]);
    }

    #[test]
    fn the_longest_ngram_comes_first() {
        assert_eq!(lookup(&[3, 9, 1, 2, 3, 4, 2, 3], 3, 2), [4, 2, 3]);
    }

    #[test]
    fn the_leftmost_match_wins() {
        assert_eq!(lookup(&[2, 7, 2, 8, 2], 1, 3), [7]);
    }

    #[test]
    fn a_proposal_may_run_into_the_last_tokens() {
        assert_eq!(lookup(&[5, 5, 5], 10, 2), [5]);
    }

    #[test]
    fn a_proposal_stops_before_the_end_of_text() {
        assert_eq!(lookup(&[1, 2, 0, 3, 1], 10, 2), [2]);
        assert_eq!(lookup(&[1, 0, 3, 1], 10, 2), [0u32; 0]);
    }

    #[test]
    fn new_tokens_have_no_followers() {
        assert_eq!(lookup(&[1, 2, 3], 10, 3), [0u32; 0]);
        assert_eq!(lookup(&[1], 10, 3), [0u32; 0]);
    }
}

mod prediction {
    use foretoken::internals::speculate::{Drafter, Prediction};
    use foretoken::internals::target::Draft;

    /// Counts the rounds until `output` is written, with `most` draft tokens each.
    fn rounds(expected: &[u32], output: &[u32], most: usize) -> usize {
        let prompt = [900, 901, 902];
        let mut prediction = Prediction::new(expected.to_vec(), prompt.len());
        let mut tokens = prompt.to_vec();
        let whole = [&prompt, output].concat();
        for round in 0.. {
            if tokens == whole {
                return round;
            }
            let Draft::Tokens(draft) = prediction.draft(&tokens, 100) else { panic!("a prediction has no model") };
            let rest = &whole[tokens.len()..];
            let accepted = draft.iter().take(most.min(rest.len() - 1)).zip(rest).take_while(|(a, b)| a == b).count();
            tokens.extend_from_slice(&rest[..=accepted]);
        }
        unreachable!("a round emits a token")
    }

    /// Returns twelve lines of ten tokens: an indentation, words (some of them frequent), a line end.
    fn text() -> Vec<u32> {
        let line = |i: u32| [1, 2, 100 + i, 3, 200 + i, 4, 300 + i % 3, 5, 400 + i % 2, 6];
        (0..12).flat_map(line).collect()
    }

    fn optimal(tokens: usize, most: usize) -> usize {
        tokens.div_ceil(most + 1)
    }

    #[test]
    fn an_exact_prediction_takes_the_fewest_rounds() {
        for most in [1, 4, 10, 31] {
            assert_eq!(rounds(&text(), &text(), most), optimal(text().len(), most));
        }
    }

    #[test]
    fn a_renamed_word_costs_one_round_each_time() {
        let renamed: Vec<u32> = text().into_iter().map(|id| if id == 300 { 77 } else { id }).collect();
        let places = text().iter().filter(|&&id| id == 300).count();
        assert!(rounds(&text(), &renamed, 31) <= optimal(120, 31) + places);
    }

    #[test]
    fn a_word_renamed_to_more_or_fewer_tokens_costs_a_few_rounds() {
        for (from, to) in
            [(&[300][..], &[77, 78][..]), (&[300, 5], &[77]), (&[300, 5], &[77, 78]), (&[300], &[77, 78, 79])]
        {
            let text = text();
            let at = text.windows(from.len()).position(|window| window == from).unwrap();
            let renamed = [&text[..at], to, &text[at + from.len()..]].concat();
            let rounds = rounds(&text, &renamed, 31);
            assert!(rounds <= optimal(120, 31) + 1 + to.len(), "{from:?} to {to:?}: {rounds}");
        }
    }

    #[test]
    fn an_inserted_line_costs_its_tokens_and_two_rounds() {
        for line in [[1, 2, 50, 51, 52, 53, 54, 55, 56, 6], [1, 2, 50, 3, 51, 4, 300, 5, 52, 6]] {
            let inserted = [&text()[..40], &line, &text()[40..]].concat();
            let rounds = rounds(&text(), &inserted, 31);
            assert!(rounds <= optimal(120, 31) + line.len() + 2, "{rounds}");
        }
    }

    #[test]
    fn a_deleted_line_costs_two_rounds() {
        for lines in [1, 3] {
            let deleted = [&text()[..40], &text()[40 + 10 * lines..]].concat();
            let rounds = rounds(&text(), &deleted, 31);
            assert!(rounds <= optimal(120 - 10 * lines, 31) + 2, "{rounds}");
        }
    }

    #[test]
    fn a_prediction_of_another_text_costs_nothing_but_its_rows() {
        let output: Vec<u32> = (500..560).collect();
        assert_eq!(rounds(&text(), &output, 31), 60);
        assert_eq!(rounds(&[], &output, 31), 60);
    }

    #[test]
    fn an_output_that_begins_with_words_of_its_own_is_found() {
        let output = [&[70, 71, 72, 73, 74, 75][..], &text()].concat();
        assert!(rounds(&text(), &output, 31) <= 6 + 2 + optimal(120, 31));
    }

    #[test]
    fn tokens_can_be_taken_back() {
        let expected = text();
        let drafted = |prediction: &mut Prediction, output: &[u32]| match prediction.draft(output, 100) {
            Draft::Tokens(ids) => ids,
            Draft::Model(_) => panic!("it has no model"),
        };
        let mut prediction = Prediction::new(expected.clone(), 0);
        let mut output = expected[..20].to_vec();
        output.extend([9000, 9001, 9002]);
        drafted(&mut prediction, &output);
        output.truncate(15);
        assert_eq!(drafted(&mut prediction, &output)[..10], expected[15..25]);
    }

    #[test]
    fn chance_matches_do_not_lose_the_place() {
        // A word of the inserted text appears again at the very end of the expected one.
        let expected = [&text()[..], &[60, 61]].concat();
        let output = [&text()[..30], &[60, 80], &text()[30..], &[60, 61]].concat();
        assert!(rounds(&expected, &output, 31) <= optimal(124, 31) + 4);
    }
}

mod chain {
    use foretoken::internals::speculate::{Chain, DraftModel, Drafter, Lookahead, PromptLookup, Round};
    use foretoken::internals::target::Draft;
    use foretoken::{LookupRule, Origin, Schedule};

    fn round(drafted: usize, accepted: usize) -> Round {
        Round { drafted, accepted, ..Round::default() }
    }

    #[test]
    fn the_next_drafts_and_learns_only_when_the_first_has_nothing() {
        let mut lookahead = Lookahead::new(Schedule::Heuristic, 5);
        let lookup = PromptLookup::new(3, 2, LookupRule::Leftmost, &[]);
        let mut chain = Chain::new(lookup, DraftModel { lookahead: &mut lookahead, origin: Origin::DraftModel });
        assert_eq!(chain.draft(&[1, 2, 3, 1, 2], 100), Draft::Tokens(vec![3, 1, 2]));
        assert_eq!(chain.origin(), Origin::Lookup);
        chain.learn(&round(3, 0));
        assert_eq!(chain.draft(&[1, 2, 3, 1, 2, 9], 100), Draft::Model(5));
        assert_eq!(chain.origin(), Origin::DraftModel);
        chain.learn(&round(5, 5));
        assert_eq!(chain.draft(&[1, 2, 3, 1, 2, 9, 8], 100), Draft::Model(7));
    }
}

mod lookahead {
    use foretoken::Schedule;
    use foretoken::internals::speculate::Lookahead;
    use foretoken::internals::target::MAX_DRAFT;

    fn course(schedule: Schedule, rounds: &[(usize, usize)]) -> Vec<usize> {
        let mut lookahead = Lookahead::new(schedule, 5);
        rounds
            .iter()
            .map(|&(drafted, accepted)| {
                lookahead.learn(drafted, accepted);
                lookahead.tokens()
            })
            .collect()
    }

    #[test]
    fn constant_stays() {
        assert_eq!(course(Schedule::Constant, &[(5, 5), (5, 0)]), [5, 5]);
    }

    #[test]
    fn heuristic_gains_two_and_loses_one_but_never_the_last() {
        let rounds = [(5, 5), (7, 6), (6, 0), (5, 0), (4, 0), (3, 0), (2, 0), (1, 0), (1, 1)];
        assert_eq!(course(Schedule::Heuristic, &rounds), [7, 6, 5, 4, 3, 2, 1, 1, 3]);
    }

    #[test]
    fn rounds_without_a_draft_teach_nothing_and_a_draft_has_an_upper_bound() {
        assert_eq!(course(Schedule::Heuristic, &[(0, 0); 40]), [5; 40]);
        assert_eq!(course(Schedule::Heuristic, &[(5, 5); 40]).last(), Some(&MAX_DRAFT));
        let mut lookahead = Lookahead::new(Schedule::Heuristic, 1000);
        lookahead.learn(MAX_DRAFT, 3);
        assert_eq!(lookahead.tokens(), MAX_DRAFT - 1);
    }

    #[test]
    fn only_the_transient_one_starts_again() {
        for (schedule, after) in [(Schedule::Heuristic, 7), (Schedule::HeuristicTransient, 5)] {
            let mut lookahead = Lookahead::new(schedule, 5);
            lookahead.learn(5, 5);
            lookahead.begin();
            assert_eq!(lookahead.tokens(), after);
        }
    }
}

mod accept {
    use foretoken::internals::speculate::{Accepted, accept};

    fn round(draft: &[u32], ids: &[u32], room: usize) -> (usize, usize, bool) {
        let Accepted { drafted, accepted, ended } = accept(draft, ids, room, |id| id == 0);
        (drafted, accepted, ended)
    }

    #[test]
    fn a_disagreement_recovers_the_target_token() {
        assert_eq!(round(&[5, 6, 7], &[5, 9, 8, 4], 100), (3, 1, false));
    }

    #[test]
    fn full_agreement_brings_a_bonus() {
        assert_eq!(round(&[5, 6], &[5, 6, 7], 100), (2, 2, false));
    }

    #[test]
    fn no_draft_is_a_plain_step() {
        assert_eq!(round(&[], &[5], 100), (0, 0, false));
    }

    #[test]
    fn an_agreed_end_of_text_counts_as_the_targets_own() {
        assert_eq!(round(&[5, 0, 6], &[5, 0, 6, 7], 100), (2, 1, true));
    }

    #[test]
    fn tokens_after_an_end_that_only_the_draft_saw_are_not_verified() {
        assert_eq!(round(&[5, 0, 6], &[5, 6, 6, 7], 100), (2, 1, false));
    }

    #[test]
    fn an_end_recovered_by_the_target_ends() {
        assert_eq!(round(&[5, 6], &[5, 0, 9], 100), (2, 1, true));
    }

    #[test]
    fn room_cuts_inside_the_draft() {
        assert_eq!(round(&[5, 6, 7], &[5, 6, 7, 8], 2), (3, 1, false));
    }
}

mod tuner {
    use foretoken::internals::speculate::Tuner;
    use foretoken_simulate::lookahead_for;

    fn tuner(forward: impl Fn(usize) -> f64, step: f64, accepted: usize) -> Tuner {
        let mut tuner = Tuner::default();
        for round in 0..300 {
            let rows = 1 + round % 8;
            tuner.forward(rows, forward(rows));
            tuner.step(step);
            tuner.round(15, accepted);
        }
        tuner
    }

    #[test]
    fn nothing_is_said_before_anything_is_measured() {
        let mut tuner = Tuner::default();
        assert_eq!(tuner.best(1, 1, 15), None);
        tuner.forward(1, 1.0);
        assert_eq!(tuner.best(1, 1, 15), None);
        tuner.step(0.1);
        assert!(tuner.best(1, 1, 15).is_some());
    }

    #[test]
    fn one_server_weighs_what_rows_and_steps_cost_against_what_is_accepted() {
        let best = |tuner: &Tuner| tuner.best(1, 1, 15).unwrap();
        let always = tuner(|_| 1.0, 0.01, 15);
        assert!(best(&always).0 == 15 && best(&always).1 > 4, "{:?}", best(&always));
        // While the target verifies, a drafter of this speed proposes the next block.
        assert!(best(&tuner(|_| 1.0, 0.1, 15)).0 >= 10);
        assert_eq!(best(&tuner(|_| 1.0, 0.1, 0)).1, 0);
        // Places after the first are never reached.
        assert_eq!(best(&tuner(|_| 1.0, 0.1, 1)).1, 1);
        assert_eq!(best(&tuner(|_| 1.0, 1.1, 15)).1, 0);
        assert_eq!(best(&tuner(|rows| rows as f64, 0.01, 15)).1, 0);
        let (flat, steep) = (tuner(|_| 1.0, 0.01, 3), tuner(|rows| 1.0 + 0.5 * rows as f64, 0.01, 3));
        assert!(best(&steep).0 <= best(&flat).0 && best(&steep).1 > 0, "{steep:?}");
        // A lookahead that was chosen stays, and the patience with it.
        assert_eq!(always.best(1, 4, 4).unwrap().0, 4);
    }

    #[test]
    fn several_servers_verify_blocks_as_fast_as_they_are_drafted() {
        let (right, often_wrong) = (tuner(|_| 1.0, 0.1, 15), tuner(|_| 1.0, 0.02, 4));
        for sp_degree in [2, 5] {
            assert!(right.best(sp_degree, 1, 15).unwrap().0 >= lookahead_for(1.0, 0.1, sp_degree));
        }
        // If drafts are often wrong, the target waits for some of them.
        let (lookahead, patience) = often_wrong.best(2, 1, 31).unwrap();
        assert!(lookahead < 25 && patience > 0, "{lookahead}, {patience}");
    }

    #[test]
    fn what_is_new_counts() {
        let mut tuner = tuner(|_| 1.0, 0.01, 15);
        for _ in 0..300 {
            tuner.round(15, 0);
        }
        assert_eq!(tuner.best(1, 1, 15).unwrap().1, 0);
    }
}

mod drafting {
    use foretoken::internals::target::{DraftPlan, Drafting, Rollback, StatePass, Translate};

    /// Translates to a draft model that has each target token twice. A text that ends in 9 ends inside a character.
    struct Twice;

    impl Translate for Twice {
        fn for_draft(&mut self, text: &[u32]) -> foretoken::Result<Vec<u32>> {
            let inside = text.last() == Some(&9);
            Ok(if inside { Vec::new() } else { text.iter().flat_map(|&id| [id, id]).collect() })
        }

        fn for_target(&self, drafted: &[u32]) -> foretoken::Result<Vec<u32>> {
            Ok(drafted.iter().step_by(2).copied().collect())
        }
    }

    fn text(len: usize) -> Vec<u32> {
        (100..100 + len as u32).collect()
    }

    #[test]
    fn a_draft_reads_what_was_missed() {
        let mut drafting = Drafting::new(8, 64, Rollback::default());
        let cached = text(30);
        // Two chunks, then the tokens that a round reads.
        assert_eq!(drafting.plan(&cached, 1, [4, 10]).unwrap(), None);
        assert_eq!(drafting.missed(&cached, 1).unwrap(), (0, cached[..8].to_vec()));
        drafting.chunk(0, 8);
        assert_eq!(drafting.missed(&cached, 1).unwrap(), (8, cached[8..15].to_vec()));
        drafting.chunk(8, 7);
        assert_eq!(drafting.missed(&cached, 1).unwrap(), (15, vec![]));
        let tokens = [&cached[15..], &[1]].concat();
        assert_eq!(
            drafting.plan(&cached, 1, [4, 10]).unwrap(),
            Some(DraftPlan { tokens, position: 30, steps: 4, states: StatePass::default() })
        );
        // The draft model wrote four tokens and read three of them.
        assert_eq!(drafting.wrote([30, 15], None, vec![2, 3, 4, 5], 10).unwrap(), [2, 3, 4, 5]);
        assert_eq!(drafting.num_read(), 34);
        // Two tokens were accepted.
        drafting.truncate(33);
        let cached = [&cached[..], &[1, 2, 3]].concat();
        let plan = drafting.plan(&cached, 7, [4, 10]).unwrap().unwrap();
        assert_eq!((plan.tokens, plan.position), (vec![7], 33));
    }

    #[test]
    fn a_draft_fits_both_contexts() {
        let steps = |context, [count, room]: [usize; 2]| {
            let mut drafting = Drafting::new(8, context, Rollback::default());
            drafting.set_read(10);
            drafting.plan(&text(10), 1, [count, room]).unwrap().map(|plan| plan.steps)
        };
        assert_eq!(steps(64, [4, 3]), Some(3));
        assert_eq!(steps(64, [4, 0]), None);
        assert_eq!(steps(64, [0, 9]), None);
        assert_eq!(steps(12, [4, 9]), Some(2));
        assert_eq!(steps(10, [4, 9]), None);
        // A text longer than the draft model's context is not read.
        assert_eq!(Drafting::new(8, 64, Rollback::default()).missed(&text(64), 1).unwrap(), (0, vec![]));
    }

    #[test]
    fn another_tokenizer_has_positions_of_its_own() {
        let mut drafting = Drafting::new(8, 64, Rollback::default());
        drafting.translate_by(Box::new(Twice));
        let plan = drafting.plan(&[1, 2], 3, [6, 2]).unwrap().unwrap();
        assert_eq!(
            plan,
            DraftPlan { tokens: vec![1, 1, 2, 2, 3, 3], position: 5, steps: 6, states: StatePass::default() }
        );
        // Tokens without room in the target are cut. The draft model has not read its last token.
        assert_eq!(drafting.wrote([5, 5], None, vec![4, 4, 5, 5, 6, 6], 2).unwrap(), [4, 5]);
        let plan = drafting.plan(&[1, 2, 3, 4, 5], 6, [1, 2]).unwrap().unwrap();
        assert_eq!((plan.tokens, plan.position), (vec![6], 11));
        // Inside a character the draft model writes nothing, and keeps what it has read.
        assert_eq!(drafting.plan(&[1, 2, 3, 4], 9, [1, 2]).unwrap(), None);
        assert_eq!(drafting.missed(&[1, 2, 3, 4], 9).unwrap(), (0, vec![]));
        // Another text shares only the beginning.
        let plan = drafting.plan(&[1, 2, 3], 8, [1, 2]).unwrap().unwrap();
        assert_eq!((plan.tokens, plan.position), (vec![8, 8], 7));
        // Without room for a token of the target nothing is written.
        assert_eq!(drafting.plan(&[1, 2, 3], 8, [1, 0]).unwrap(), None);
    }
    /// A draft model with recurrent state of 2 positions, which reaches back 10 positions, with checkpoints every 16.
    #[test]
    fn recurrent_state_is_cut_where_it_is_kept() {
        let mut rollback = Rollback::of_inputs(2, 10, 16);
        // From 50 tokens the state of 40 to 49 is kept, and that of 14, 15, 30, 31, 46 and 47.
        assert_eq!(rollback.cut(50, 60), 50);
        assert_eq!(rollback.cut(50, 42), 42);
        assert_eq!(rollback.cut(42, 41), 32);
        // The state before 32 is that of the checkpoint alone.
        assert_eq!(rollback.cut(40, 33), 33);
        assert_eq!(rollback.cut(33, 32), 32);
        assert_eq!(rollback.cut(40, 31), 16);
        assert_eq!(rollback.cut(16, 15), 0);
        assert_eq!(rollback.cut(5, 3), 3);
        // A copy has what its length needs.
        rollback.restored(40);
        assert_eq!(rollback.cut(40, 40), 40);
        assert_eq!(rollback.cut(40, 39), 32);
        // Keys and values are cut anywhere.
        assert_eq!(Rollback::default().cut(50, 7), 7);
    }

    /// Five states; rounds save three of them in turn. Inputs of 20 positions lead from a state to later ones.
    #[test]
    fn states_are_cut_where_inputs_lead_from_one() {
        let mut rollback = Rollback::of_states(5, 3, 20);
        let states = |slot, base, save_slot, save_at| StatePass { slot, base, save_slot, save_at: Some(save_at) };
        // A prompt in three chunks. Each saves the state before its last token, the third in place of the first.
        assert_eq!(rollback.chunk(0, 10), states(0, 0, 3, 9));
        assert_eq!(rollback.chunk(10, 20), states(3, 9, 4, 29));
        assert_eq!(rollback.chunk(30, 20), states(4, 29, 3, 49));
        assert_eq!(rollback.cut(50, 50), 50);
        // A round near a state saves none; the next one does.
        assert_eq!(rollback.round(50), StatePass { slot: 3, base: 49, save_slot: 3, save_at: None });
        rollback.computed(None, 50, 4);
        assert_eq!(rollback.round(53), states(3, 49, 1, 53));
        // A round that the device begins, at a position that is known later. Then another one.
        assert_eq!(rollback.repeat(), Some(2));
        rollback.computed(Some(1), 53, 8);
        assert_eq!(rollback.cut(61, 57), 57);
        rollback.computed(Some(2), 57, 8);
        assert_eq!(rollback.cut(65, 62), 62);
        assert_eq!(rollback.round(62), states(2, 57, 0, 62));
        rollback.computed(Some(0), 62, 8);
        // Back into the round before the last two: the state before it is still there.
        assert_eq!(rollback.cut(70, 56), 56);
        assert_eq!(rollback.round(56), StatePass { slot: 1, base: 53, save_slot: 1, save_at: None });
        rollback.computed(None, 56, 2);
        assert_eq!(rollback.round(58), states(1, 53, 2, 58));
        rollback.computed(Some(2), 58, 2);
        // A round never saves the state that it starts from.
        assert_eq!([rollback.repeat(), rollback.repeat()], [Some(0), Some(1)]);
        rollback.computed(None, 60, 4);
        assert_eq!(rollback.round(64), states(2, 58, 0, 64));
        rollback.computed(Some(0), 64, 20);
        // No inputs lead to 63 any more, nor from the states of the prompt.
        assert_eq!(rollback.cut(84, 63), 58);
        assert_eq!(rollback.cut(58, 57), 49);
        assert_eq!(rollback.cut(49, 40), 29);
        assert_eq!(rollback.cut(29, 28), 0);
        assert_eq!(rollback.round(0).base, 0);
    }

    /// A drafter on another device writes a token per round, and all but the first may be rejected.
    #[test]
    fn states_lead_back_to_the_start_of_a_draft_by_rounds() {
        let mut rollback = Rollback::of_states(5, 3, 64);
        rollback.chunk(0, 40);
        let mut len = 40;
        for round in 0..20 {
            for _ in 0..8 {
                let states = rollback.round(len);
                rollback.computed(states.saved(), len, 1);
                len += 1;
            }
            let kept = len - 7 + round % 7;
            assert_eq!(rollback.cut(len, kept), kept, "{round}");
            len = kept;
        }
    }

    #[test]
    fn a_copy_has_the_state_before_its_last_token() {
        let mut rollback = Rollback::of_states(5, 3, 20);
        rollback.chunk(0, 30);
        let round = rollback.round(30);
        rollback.computed(round.saved(), 30, 5);
        assert_eq!(rollback.cut(35, 33), 33);
        let settled = StatePass { slot: 3, base: 29, save_slot: 0, save_at: Some(32) };
        assert_eq!((rollback.settle(33), rollback.settle(33)), (Some(settled), None));
        rollback.restored(33);
        assert_eq!((rollback.cut(33, 33), rollback.cut(33, 32)), (33, 32));
        // Nothing leads to the state before the last of 32 tokens.
        assert!(!rollback.can_settle(32));
        assert_eq!(rollback.round(32), StatePass { slot: 0, base: 32, save_slot: 0, save_at: None });
        assert_eq!(rollback.cut(32, 31), 0);
        // Later passes of a draft save nothing, and start from the state of the first.
        let next = settled.next_of_draft();
        assert_eq!(next, StatePass { slot: 0, base: 32, save_slot: 0, save_at: None });
        assert_eq!(next.next_of_draft(), next);
        assert_eq!(Rollback::default().settle(33), None);
    }

    #[test]
    fn a_draft_reads_again_what_recurrent_state_does_not_keep() {
        let mut drafting = Drafting::new(8, 64, Rollback::of_inputs(2, 10, 16));
        drafting.set_read(30);
        drafting.truncate(25);
        assert_eq!(drafting.num_read(), 16);
        let cached = text(25);
        let plan = drafting.plan(&cached, 1, [4, 10]).unwrap().unwrap();
        assert_eq!((plan.tokens, plan.position), ([&cached[16..], &[1]].concat(), 25));
    }
}
