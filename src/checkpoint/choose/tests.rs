//! Tests of `choose`.

use super::*;

#[test]
fn a_star_stands_for_any_characters() {
    for (pattern, name) in
        [("*", ""), ("*", "a"), ("a*c", "abc"), ("a*c", "ac"), ("*b*", "abc"), ("*b*b", "abbb"), ("a", "a")]
    {
        assert!(matches(pattern, name), "{pattern} {name}");
    }
    for (pattern, name) in [("a", "ab"), ("a*b", "a"), ("ab*b", "ab"), ("*b*b", "ab"), ("*c*b*", "abc"), ("", "a")] {
        assert!(!matches(pattern, name), "{pattern} {name}");
    }
}
