//! Input lines of the user: edited on a terminal, or read from a pipe or file.

use super::bad_prompt;
use foretoken::Result;
use rustyline::error::ReadlineError;
use rustyline::{Behavior, Config, DefaultEditor};
use std::io::{self, IsTerminal, StdinLock};

/// Source of lines.
pub(super) enum Lines {
    /// A terminal, with a history.
    Typed(Box<DefaultEditor>),
    /// Anything else.
    Piped(io::Lines<StdinLock<'static>>),
}

impl Lines {
    /// Opens standard input.
    pub fn open() -> Result<Self> {
        if !io::stdin().is_terminal() {
            return Ok(Self::Piped(io::stdin().lines()));
        }
        // Prints the prompt to the terminal, since stdout may be a file.
        let config = Config::builder().behavior(Behavior::PreferTerm).auto_add_history(true).build();
        match DefaultEditor::with_config(config) {
            Ok(editor) => Ok(Self::Typed(Box::new(editor))),
            Err(error) => unreadable(&error),
        }
    }

    /// Returns true if input comes from a terminal.
    pub fn typed(&self) -> bool {
        matches!(self, Self::Typed(_))
    }

    /// Returns the next line without its end; `None` at the end of the input. Ctrl-C discards the current line.
    pub fn read_line(&mut self) -> Result<Option<String>> {
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
