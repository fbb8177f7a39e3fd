//! Tests of `commands`.

use super::*;

#[test]
fn a_line_is_a_command_or_a_message() {
    for (line, meant) in [
        ("", Line::Nothing),
        ("  \t", Line::Nothing),
        ("hi", Line::Message("hi")),
        (" /etc/hosts", Line::Message(" /etc/hosts")),
        ("/reset", Line::Reset),
        ("/stats ", Line::Stats),
        ("/system", Line::System("")),
        ("/system  Be brief. ", Line::System("Be brief.")),
        ("/help", Line::Help),
        ("/exit", Line::Exit),
    ] {
        assert_eq!(parse(line), Ok(meant), "{line:?}");
    }
    for line in ["/", "/stat", "/resetting", "/reset now", "/System x", "//"] {
        let error = parse(line).unwrap_err().to_string();
        assert!(error.contains(line) && error.contains("/reset, /stats, /system TEXT, /help, /exit"), "{error}");
    }
}
