// npm test: checks format and lints (JavaScript, Rust for both targets) and runs all tests: native, packages, both browsers.
// A missing adapter fails the run.
import { tmpdir } from "node:os";
import { needNpm } from "./build.mjs";
import { needChromium, needFirefox, needPython, needRust, needVulkan, needWebKit, run, runBeside, start } from "./system.mjs";

needRust();
needNpm();
needVulkan();
needChromium();
needFirefox();
needWebKit();
needPython();
// For all of cargo's calls, also those of other scripts: it saves time to compile, and no test measures speed.
process.env.CARGO_PROFILE_RELEASE_LTO ??= "off";
// Without a desktop session this is unset, and Mesa warns at every start.
const env = { XDG_RUNTIME_DIR: tmpdir(), ...process.env };
const browserCrate = ["--manifest-path", "browser/Cargo.toml"];
run(process.execPath, ["node_modules/@biomejs/biome/bin/biome", "ci", "--error-on-warnings"]);
run(process.execPath, ["scripts/style.mjs"]);
run("cargo", ["fmt", "--all", "--check"]);
run("cargo", ["fmt", "--check", ...browserCrate, "--all"]);

// Two sequences run at a time, because most of their steps keep only one core busy: `native`, whose output is shown as it comes, and `web`.
const strict = ["--", "--deny", "warnings"];
const cargo = (...args) => runBeside("cargo", args, { env });

async function native() {
  // With the same profile as the tests, so that build scripts and macros are built once.
  await cargo("clippy", "--release", "--all-targets", ...strict);
  await runBeside("cargo", ["doc", "--release", "--no-deps"], { env: { ...env, RUSTDOCFLAGS: "--deny warnings" } });
  // The library alone, with fewer features.
  await cargo("clippy", "--release", "--package", "foretoken", "--lib", "--no-default-features", ...strict);
  await cargo("test", "--release");
}

/** Runs a script of the tests and shows its output when it has ended. */
const script = (file, more) => start(process.execPath, [file], { env: { ...process.env, ...more } })();

/** Steps that need the web build, except the browsers. They share `dist/` and the examples' packages, so they run one after the other. */
async function web() {
  await start(process.execPath, ["scripts/build.mjs", "--like-tests"])();
  const wasm = ["--all-features", "--profile", "wasm", "--target", "wasm32-unknown-unknown", "--target-dir", "target"];
  await start("cargo", ["clippy", ...browserCrate, "--workspace", ...wasm, ...strict], { env })();
  await script("tests/serve.mjs");
  await script("tests/package.mjs");
  await script("tests/docs.mjs");
}

const nativeTests = native();
const webTests = web();
// It replaces the program, which both sequences use.
const crates = Promise.all([nativeTests, webTests]).then(() => script("tests/crate.mjs", env));
await webTests;
const chromium = script("tests/browser/run.mjs", { BROWSER: "chromium" });
// Three at a time would make single tests slow.
await Promise.race([chromium, crates]);
const firefox = script("tests/browser/run.mjs", { BROWSER: "firefox" });
await Promise.all([crates, chromium, firefox]);
