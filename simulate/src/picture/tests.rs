//! Tests of `picture`.

use super::*;

#[test]
fn text_is_escaped() {
    assert_eq!(escape("a<b> & \"c\"\u{1}"), "a&lt;b&gt; &amp; &quot;c&quot; ");
}

#[test]
fn numbers_are_short() {
    assert_eq!([0.0, -0.001, 1.5, 2.0, 10.0, 0.126].map(short), ["0", "0", "1.5", "2", "10", "0.13"]);
}
