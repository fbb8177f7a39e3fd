//! The command-line program; its code is in `foretoken::cli`.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    foretoken::cli::run()
}
