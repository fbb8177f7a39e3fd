//! What the user types, line by line: edited on a terminal, read as it is from a pipe or a file.

use super::bad_prompt;
use crate::error::Result;
use rustyline::error::ReadlineError;
use rustyline::{Behavior, Config, DefaultEditor};
use std::io::{self, IsTerminal, StdinLock};

/// Where lines come from.
pub(super) enum Lines {
    /// A terminal, with a history of what was typed.
    Typed(Box<DefaultEditor>),
    /// Anything else.
    Piped(io::Lines<StdinLock<'static>>),
}

impl Lines {
    /// From standard input.
    pub fn open() -> Result<Self> {
        if !io::stdin().is_terminal() {
            return Ok(Self::Piped(io::stdin().lines()));
        }
        // The prompt goes to the terminal, not into the file that stdout may be.
        let config = Config::builder().behavior(Behavior::PreferTerm).auto_add_history(true).build();
        match DefaultEditor::with_config(config) {
            Ok(editor) => Ok(Self::Typed(Box::new(editor))),
            Err(error) => unreadable(&error),
        }
    }

    /// Whether someone sits at a terminal.
    pub fn typed(&self) -> bool {
        matches!(self, Self::Typed(_))
    }

    /// The next line, without its end; none at the end of the input. Ctrl-C drops what was typed of a line.
    pub fn read(&mut self) -> Result<Option<String>> {
        match self {
            Self::Typed(editor) => loop {
                match editor.readline("> ") {
                    Ok(line) => return Ok(Some(line)),
                    Err(ReadlineError::Eof) => return Ok(None),
                    Err(ReadlineError::Interrupted | ReadlineError::Signal(_)) => {}
                    Err(error) => return unreadable(&error),
                }
            },
            Self::Piped(lines) => lines.next().transpose().or_else(|error| unreadable(&error)),
        }
    }
}

fn unreadable<T>(error: &impl ToString) -> Result<T> {
    bad_prompt(&format!("standard input ({})", error.to_string()), "text in UTF-8")
}
