// npm test: format, lints for both targets, every test, natively and in a browser. A missing adapter fails the run.
import { needChromium, needRust, needVulkan, run } from "./system.mjs";

needRust();
needVulkan();
needChromium();
const cargo = (...args) => run("cargo", args);
cargo("fmt", "--check");
cargo("clippy", "--features", "cli", "--all-targets", "--", "--deny", "warnings");
cargo("clippy", "--lib", "--target", "wasm32-unknown-unknown", "--", "--deny", "warnings");
cargo("test", "--release", "--features", "cli");
run(process.execPath, ["scripts/build.mjs"]);
run(process.execPath, ["tests/browser/run.mjs"]);
