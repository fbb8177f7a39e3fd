//! The program; all of it is in `foretoken::cli`.

fn main() -> std::process::ExitCode {
    foretoken::cli::run()
}
