//! A chat that is longer than the context loses its oldest turns, and no more than needed.

use foretoken::Message;
use foretoken::internals::session::shift::{goal, most, shift};

fn chat(messages: &[(&str, &str)]) -> Vec<Message> {
    messages.iter().map(|(role, content)| Message::new(*role, *content)).collect()
}

/// Returns the kept text and the number of dropped messages, with one token per character.
fn kept(messages: &[(&str, &str)], most: usize) -> Option<(String, usize)> {
    let text = |ids: Vec<u32>| ids.into_iter().filter_map(char::from_u32).collect();
    let letters = |kept: Vec<Message>| {
        Ok(kept.iter().flat_map(|message| message.content().chars().map(u32::from)).collect::<Vec<_>>())
    };
    shift(&chat(messages), most, letters).unwrap().map(|(ids, dropped)| (text(ids), dropped))
}

#[test]
fn the_oldest_turns_go_and_no_more_than_needed() {
    let turns = [("user", "aa"), ("assistant", "bb"), ("user", "cc"), ("assistant", "dd"), ("user", "ee")];
    let system = [&[("system", "ss")], &turns[..]].concat();
    for (most, without, with) in
        [(9, ("ccddee", 2), ("ssccddee", 2)), (6, ("ccddee", 2), ("ssee", 4)), (1, ("ee", 4), ("ssee", 4))]
    {
        assert_eq!(kept(&turns, most), Some((without.0.into(), without.1)), "{most}");
        assert_eq!(kept(&system, most), Some((with.0.into(), with.1)), "{most} with a system message");
    }
    let long: Vec<_> = (0..101).map(|at| (["user", "assistant"][at % 2], "x")).collect();
    for most in 1..101 {
        let (text, dropped) = kept(&long, most).unwrap();
        // The last message alone, or with whole pairs before it.
        assert_eq!((text.len(), dropped % 2), (most - (most + 1) % 2, 0), "{most}");
    }
}

#[test]
fn one_turn_is_never_dropped() {
    assert_eq!(kept(&[], 1), None);
    assert_eq!(kept(&[("user", "aa")], 1), None);
    assert_eq!(kept(&[("system", "ss"), ("user", "aa")], 1), None);
    assert_eq!(kept(&[("system", "ss"), ("assistant", "aa"), ("user", "bb")], 1), Some(("ssbb".into(), 1)));
    assert_eq!(kept(&[("user", "aa"), ("user", "bb"), ("tool", "cc")], 1), Some(("bbcc".into(), 1)));
}

#[test]
fn an_answer_of_any_length_has_room() {
    assert_eq!([most(1024, 100), most(1024, 256), most(1024, 100_000)], [924, 768, 768]);
    assert_eq!([most(2, 5), most(3, 1), most(8, 8)], [1, 2, 6]);
    // A server may report such a context.
    assert_eq!([most(0, 8), most(1, 8)], [0, 0]);
}

#[test]
fn a_chat_that_grows_loses_half_of_the_room_at_a_time() {
    let goals = |most| (most + 1..=most + 6).map(|whole| goal(whole, most)).collect::<Vec<_>>();
    assert_eq!(goals(8), [5, 6, 7, 8, 5, 6]);
    assert_eq!(goals(1), [1; 6]);
    assert_eq!(goals(0), [0; 6]);
}
