//! The program, as users run it.

mod convert;
mod hub;
mod models;
mod options;
mod program;
mod remote;
#[cfg(unix)]
mod serve;

/// The program itself is not compiled with its unit tests.
#[path = "../src/chat"]
mod chat {
    mod commands;
}

use serde_json::Value;
use std::process::{Command, Output, Stdio};

/// Returns a run of the program in the repository.
fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foretoken"));
    // Without this variable some drivers print warnings to stderr.
    command.current_dir(common::path(".")).env("XDG_RUNTIME_DIR", std::env::temp_dir()).args(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Returns what a run with `--json` printed.
fn parsed(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}
