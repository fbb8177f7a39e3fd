//! The program; all of it is in `foretoken::cli`.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    foretoken::cli::run()
}
