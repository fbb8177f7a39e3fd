// npm test: checks format and lints (JavaScript, Rust for both targets) and runs all tests: native, packages, both browsers.
// A missing adapter fails the run.
import { tmpdir } from "node:os";
import { needNpm } from "./build.mjs";
import { needChromium, needFirefox, needPython, needRust, needVulkan, needWebKit, run, start } from "./system.mjs";

needRust();
needNpm();
needVulkan();
needChromium();
needFirefox();
needWebKit();
needPython();
// For all of cargo's calls, also those of other scripts: it saves time to compile, and no test measures speed.
process.env.CARGO_PROFILE_RELEASE_LTO ??= "off";
// Without a desktop session the folder is unset, and Mesa warns at every start. Two tests run at a time, so that lavapipe needs no threads.
const env = { XDG_RUNTIME_DIR: tmpdir(), LP_NUM_THREADS: "0", ...process.env };
const cargo = (...args) => run("cargo", args, { env });
run(process.execPath, ["node_modules/@biomejs/biome/bin/biome", "ci", "--error-on-warnings"]);
run(process.execPath, ["scripts/style.mjs"]);
cargo("fmt", "--all", "--check");
// In parallel with everything native: its longest steps use one core.
const built = start(process.execPath, ["scripts/build.mjs", "--like-tests"]);
// With the same profile as the tests, so that build scripts and macros are built once.
const strict = ["--", "--deny", "warnings"];
cargo("clippy", "--release", "--all-targets", ...strict);
run("cargo", ["doc", "--release", "--no-deps"], { env: { ...env, RUSTDOCFLAGS: "--deny warnings" } });
// The library alone, with fewer features.
cargo("clippy", "--release", "--package", "foretoken", "--lib", "--no-default-features", ...strict);
cargo("test", "--release");
run(process.execPath, ["tests/serve.mjs"]);
await built();
const browser = ["--manifest-path", "browser/Cargo.toml", "--workspace", "--exclude", "glue"];
cargo("fmt", "--check", "--manifest-path", "browser/Cargo.toml", "--all");
const wasm = ["--all-features", "--profile", "wasm", "--target", "wasm32-unknown-unknown", "--target-dir", "target"];
// `cargo clippy` would lint the workspace in browser/ alone. This also lints the library, which has code for pages only.
const lint = { RUSTC_WRAPPER: "clippy-driver", RUSTFLAGS: "--deny warnings -Ctarget-feature=+simd128,+relaxed-simd" };
run("cargo", ["check", ...browser, ...wasm], { env: { ...env, ...lint } });
run(process.execPath, ["tests/crate.mjs"], { env });
run(process.execPath, ["tests/package.mjs"]);
run(process.execPath, ["tests/docs.mjs"]);
// In parallel: neither keeps two cores busy.
const suitesOf = (BROWSER) => [process.execPath, ["tests/browser/run.mjs"], { env: { ...process.env, BROWSER } }];
const firefox = start(...suitesOf("firefox"));
run(...suitesOf("chromium"));
await firefox();
