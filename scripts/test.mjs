// npm test: format, lints for both targets, and every test. A missing adapter fails the run.
import { needRust, needVulkan, run } from "./system.mjs";

needRust();
needVulkan();
const cargo = (...args) => run("cargo", args);
cargo("fmt", "--check");
cargo("clippy", "--features", "cli", "--all-targets", "--", "--deny", "warnings");
cargo("clippy", "--lib", "--target", "wasm32-unknown-unknown", "--", "--deny", "warnings");
cargo("test", "--release", "--features", "cli");
