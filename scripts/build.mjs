// npm run build: the Rust library -> www/foretoken.js and www/foretoken_bg.wasm, small enough for a web page.
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { fail, needRust, run } from "./system.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const target = process.env.CARGO_TARGET_DIR ?? join(root, "target");
const www = join(root, "www");
const wasm = join(www, "foretoken_bg.wasm");
/** Promised: JS and WASM together, gzipped. */
const LIMIT = 1_200_000;

/** The program that writes the glue; its version must be exactly the library's. */
function needBindgen() {
  const version = /^wasm-bindgen = "=(.+)"$/m.exec(readFileSync(join(root, "Cargo.toml"), "utf8"))[1];
  const tools = join(root, "target", "tools");
  const program = join(tools, "bin", process.platform === "win32" ? "wasm-bindgen.exe" : "wasm-bindgen");
  const there = existsSync(program) && spawnSync(program, ["--version"], { encoding: "utf8" }).stdout;
  if (there !== `wasm-bindgen ${version}\n`) {
    const install = ["install", "wasm-bindgen-cli", "--version", version, "--root", tools, "--bin", "wasm-bindgen", "--force"];
    // A registry mirror may lack one of the locked versions of its dependencies.
    const locked = spawnSync("cargo", [...install, "--locked"], { stdio: "inherit" });
    if (locked.status !== 0) run("cargo", install);
  }
  return program;
}

/** Development dependencies, as package-lock.json says. */
export function needNpm() {
  const lock = join(root, "package-lock.json");
  const installed = join(root, "node_modules", ".package-lock.json");
  if (existsSync(installed) && statSync(installed).mtimeMs >= statSync(lock).mtimeMs) return;
  run("npm", ["ci", "--no-audit", "--no-fund"], { cwd: root, shell: process.platform === "win32" });
}

/** Panic messages name source files: without the folders of this machine, so that every machine builds the same bytes. */
function withoutPaths() {
  const home = process.env.CARGO_HOME ?? join(homedir(), ".cargo");
  const registries = join(home, "registry", "src");
  const folders = existsSync(registries) ? readdirSync(registries).map((name) => join(registries, name)) : [];
  const flags = [...folders.map((folder) => [folder, "/crates"]), [root, "/foretoken"]];
  return flags.map(([from, to]) => `--remap-path-prefix=${from}=${to}`).join("\x1f");
}

/** Builds both files. */
export function build() {
  needRust();
  needNpm();
  const bindgen = needBindgen();
  const cwd = { cwd: root };
  const target32 = ["--target", "wasm32-unknown-unknown"];
  // Fetched first, so that the folders whose names are left out are there.
  run("cargo", ["fetch", ...target32], cwd);
  const env = { ...process.env, CARGO_ENCODED_RUSTFLAGS: withoutPaths() };
  run("cargo", ["build", "--lib", "--profile", "wasm", ...target32], { ...cwd, env });
  const raw = join(target, "wasm32-unknown-unknown", "wasm", "foretoken.wasm");
  const glue = join(target, "glue");
  rmSync(glue, { recursive: true, force: true });
  mkdirSync(glue, { recursive: true });
  run(bindgen, [raw, "--target", "web", "--out-dir", glue, "--out-name", "foretoken", "--remove-name-section", "--remove-producers-section"], cwd);
  const optimise = join(root, "node_modules", "binaryen", "bin", "wasm-opt");
  const small = join(glue, "small.wasm");
  run(process.execPath, [optimise, "-Oz", "--strip-debug", "--strip-producers", join(glue, "foretoken_bg.wasm"), "-o", small], cwd);
  // Last, so that an interrupted build leaves the old pair, not a mixed one.
  copyFileSync(small, wasm);
  copyFileSync(join(glue, "foretoken.js"), join(www, "foretoken.js"));
  copyFileSync(join(glue, "foretoken.d.ts"), join(www, "foretoken.d.ts"));
}

/** Prints what a page downloads; fails above the limit. */
function weigh() {
  let sum = 0;
  for (const file of ["engine.js", "worker.js", "hub.js", "remote.js", "transfer.js", "cache.js", "sealed.js", "foretoken.js", "foretoken_bg.wasm"]) {
    const bytes = readFileSync(join(www, file));
    const packed = gzipSync(bytes, { level: 9 }).length;
    sum += packed;
    console.log(`${file.padEnd(18)} ${String(bytes.length).padStart(9)} bytes  ${String(packed).padStart(9)} gzipped`);
  }
  console.log(`together ${sum} bytes gzipped; the limit is ${LIMIT}`);
  if (sum > LIMIT) fail(`JS and WASM have ${sum} bytes gzipped, more than ${LIMIT}`);
}

/** Whether the built files are missing, or older than what they are built from. */
export function outdated() {
  const built = [wasm, join(www, "foretoken.js")];
  if (!built.every(existsSync)) return true;
  const age = (file) => statSync(file).mtimeMs;
  const sources = ["src", "shaders"].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true }).map((file) => join(root, folder, file)),
  );
  const newest = Math.max(...[...sources, join(root, "Cargo.toml"), join(root, "Cargo.lock")].map(age));
  return newest > Math.min(...built.map(age));
}

/** Builds what is missing or outdated. */
export function needBuild() {
  if (outdated()) build();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  build();
  weigh();
}
