// npm run build: builds everything for web pages in dist/: the files for npm, and the demo page. Writes to www/:
// - the engine, from browser/: foretoken.js, foretoken_bg.wasm, relaxed_bg.wasm
// - grammars, which a page loads for constrained output: grammar.js, grammar_bg.wasm
// - two libraries: demo/marked.js, oniguruma.js
// - for the demo page: its simulator (demo/guide/simulate.js, demo/guide/simulate_bg.wasm), models (demo/tales/) and documents (demo/docs/)
import { spawnSync } from "node:child_process";
import { copyFileSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { makeDocs } from "./docs.mjs";
import { nameInOrder } from "./order.mjs";
import { fail, needRust, run } from "./system.mjs";
import { weighCrates } from "./wasm.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const target = process.env.CARGO_TARGET_DIR ?? join(root, "target");
const www = join(root, "www");
const dist = join(root, "dist");
const browser = join(root, "browser");
/** Limit for JS and WASM together, in bytes, gzipped: a page loads less than 1.0 MB at first. */
const LIMIT = 1_000_000;
/** Files loaded on demand or outside pages, with their limit in bytes, gzipped. */
const LATER = {
  files: [
    "ai-sdk.js",
    "candidates.js",
    "chat.js",
    "error-hints.js",
    "grammar_bg.wasm",
    "node-worker.js",
    "node.js",
    "openai.js",
    "shared-name.js",
    "storage.js",
    "answers.js",
    "tools.js",
  ],
  limit: 480_000,
};
/** Engine modules; a page downloads one of them. */
const ENGINES = ["foretoken_bg.wasm", "relaxed_bg.wasm"];

/** Builds the program that writes the glue. Optimising it takes longer than it saves. Returns its path. */
function needGlue(manifest) {
  run("cargo", ["build", ...manifest, "--package", "glue"], { cwd: root, env: { ...process.env, CARGO_TARGET_DIR: target } });
  return join(target, "debug", process.platform === "win32" ? "glue.exe" : "glue");
}

/** Installs the development dependencies of package-lock.json. */
export function needNpm() {
  const lock = join(root, "package-lock.json");
  const installed = join(root, "node_modules", ".package-lock.json");
  if (existsSync(installed) && statSync(installed).mtimeMs >= statSync(lock).mtimeMs) return;
  run("npm", ["ci", "--no-audit", "--no-fund"], { cwd: root, shell: process.platform === "win32" });
}

/** Flags that remove this machine's folders from the file names in panic messages, so that every machine builds the same bytes. */
function withoutPaths() {
  const home = process.env.CARGO_HOME ?? join(homedir(), ".cargo");
  const registries = join(home, "registry", "src");
  const folders = existsSync(registries) ? readdirSync(registries).map((name) => join(registries, name)) : [];
  const flags = [...folders.map((folder) => [folder, "/crates"]), [root, "/foretoken"]];
  return flags.map(([from, to]) => `--remap-path-prefix=${from}=${to}`);
}

/** Replaces the hashes in the names of glue imports by numbers of the same length, because hashes do not compress. */
function numberImports(numbers, ...texts) {
  const number = (hash) => {
    if (!numbers.has(hash)) numbers.set(hash, String(numbers.size).padStart(16, "0"));
    return numbers.get(hash);
  };
  return texts.map((text) => text.replace(/(?<=__wbg_\w+_)[0-9a-f]{16}(?![0-9a-f])/g, number));
}

/** Returns the script that works for both modules: the one that has all lines of the other and may import more. */
function larger(...scripts) {
  const [less, more] = scripts.map((script) => script.split("\n")).sort((a, b) => a.length - b.length);
  let found = 0;
  for (const line of more) found += line === less[found] ? 1 : 0;
  if (found < less.length) fail(`two modules of one script import different things: ${less[found]}`);
  return more.join("\n");
}

/** Copies the lock file to the browser build, for equal versions; cargo adds the stand-in crates. */
const needLock = () => copyFileSync(join(root, "Cargo.lock"), join(browser, "Cargo.lock"));

/**
 * WASM modules of the crate in browser/: the published engine and grammars, and the simulator of the demo page. A second engine is for
 * browsers with relaxed SIMD, which makes the CPU loops faster. Both engines share a script.
 */
const MODULES = [
  { name: "foretoken", folder: www, features: "engine" },
  { name: "grammar", folder: www, features: "grammar" },
  { name: "simulate", folder: join(www, "demo", "guide"), features: "simulator" },
  // Last, because other instructions compile all dependencies again.
  { name: "relaxed", script: "foretoken", folder: www, features: "engine", instructions: "+simd128,+relaxed-simd" },
];

/** The tales pair. The page serves it in 8 bits, half the size of f16. */
const PAIR = ["target", "draft"];
const served = join(www, "demo", "tales");

/** Quantizes the page's models with the native program. `likeTests`: builds dependencies as for tests and examples. */
function quantise(likeTests) {
  rmSync(served, { recursive: true, force: true });
  mkdirSync(served, { recursive: true });
  run("cargo", ["build", "--release", "--bin", "foretoken", ...(likeTests ? ["--examples"] : [])], { cwd: root });
  const program = join(target, "release", process.platform === "win32" ? "foretoken.exe" : "foretoken");
  for (const model of PAIR) {
    const [from, to] = [join(root, "models", "tales", model), join(served, model)];
    run(program, ["quantize", from, `${to}.part`, "--type", "mlx8"], { cwd: root });
    // Renamed last, so that an interrupted run leaves no partial model.
    renameSync(`${to}.part`, to);
  }
}

/** Libraries bundled into one file each: the page's Markdown parser and the engine's translator of regular expressions. */
const LIBRARIES = [
  { name: "marked", exported: "lexer", file: join(www, "demo", "marked.js") },
  { name: "oniguruma-to-es", exported: "toRegExp", file: join(www, "oniguruma.js") },
];

/** Bundles a library with its licence. @param {typeof LIBRARIES[number]} library */
function bundle({ name, exported, file }) {
  const { buildSync } = createRequire(import.meta.url)("esbuild");
  const stdin = { contents: `export { ${exported} } from "${name}";`, resolveDir: root };
  const licence = readFileSync(join(root, "node_modules", name, "LICENSE"), "utf8").trim();
  buildSync({ stdin, banner: { js: `/*!\n${licence}\n*/` }, bundle: true, minify: true, format: "esm", outfile: file, logLevel: "warning" });
}

/** Builds the modules, the page's models, types and documents. */
export async function build({ likeTests = false } = {}) {
  needRust();
  needNpm();
  const cwd = { cwd: root };
  const target32 = ["--target", "wasm32-unknown-unknown"];
  needLock();
  const manifest = ["--manifest-path", join(browser, "Cargo.toml")];
  // Fetched first, so that the folders exist whose names `withoutPaths` removes.
  run("cargo", ["fetch", ...target32, ...manifest], cwd);
  const writeGlue = needGlue(manifest);
  const raw = join(target, "wasm32-unknown-unknown", "wasm", "browser.wasm");
  // Imported here, because it may just have been installed.
  const { transformSync } = createRequire(import.meta.url)("esbuild");
  const optimise = join(root, "node_modules", "binaryen", "bin", "wasm-opt");
  const scripts = new Map();
  // All browsers with WebGPU, and other browsers of recent years, have vector instructions.
  for (const { name, script: scriptName = name, folder, features, instructions = "+simd128" } of MODULES) {
    // All modules have one output. Cargo would take another module's output for one whose sources did not change.
    rmSync(join(dirname(raw), "deps", "browser.wasm"), { force: true });
    const rustflags = [`-Ctarget-feature=${instructions}`, ...withoutPaths()].join("\x1f");
    const env = { ...process.env, CARGO_ENCODED_RUSTFLAGS: rustflags, CARGO_TARGET_DIR: target };
    run("cargo", ["build", ...manifest, "--features", features, "--profile", "wasm", ...target32], { ...cwd, env });
    const glue = join(target, "glue", name);
    rmSync(glue, { recursive: true, force: true });
    mkdirSync(glue, { recursive: true });
    run(writeGlue, [raw, glue, scriptName], cwd);
    const named = join(glue, `${scriptName}_bg.wasm`);
    weighCrates(readFileSync(named));
    const small = join(glue, "small.wasm");
    const passes = ["--flatten", "--rereloop", "-Os", "-Oz", "--strip-debug", "--strip-producers"];
    // The lowest KiB is the end of the stack, which Rust's linker places first. No computed address is near it.
    passes.push("--low-memory-unused");
    // Zeros compress better than the segments that would omit them.
    passes.push("--skip-pass=memory-packing");
    run(process.execPath, [optimise, ...passes, named, "-o", small], cwd);
    const before = scripts.get(scriptName) ?? { numbers: new Map(), code: "" };
    const [script, module] = numberImports(before.numbers, readFileSync(join(glue, `${scriptName}.js`), "utf8"), readFileSync(small, "latin1"));
    writeFileSync(small, nameInOrder(Buffer.from(module, "latin1")));
    run(process.execPath, [optimise, "--reorder-functions-by-name", "--strip-debug", small, "-o", small], cwd);
    // Copied last, so that an interrupted build does not mix old and new files.
    copyFileSync(small, join(folder, `${name}_bg.wasm`));
    // Reprinted, so that comments do not count.
    const code = larger(before.code, transformSync(script).code);
    scripts.set(scriptName, { ...before, code });
    writeFileSync(join(folder, `${scriptName}.js`), transformSync(code, { minify: true }).code);
    copyFileSync(join(glue, `${scriptName}.d.ts`), join(folder, `${scriptName}.d.ts`));
  }
  quantise(likeTests);
  LIBRARIES.forEach(bundle);
  makePackage();
  await makeDocs();
  cpSync(join(www, "demo"), join(dist, "demo"), { recursive: true });
}

/** Sources without code. */
const TYPES_ONLY = ["api.ts", "protocol.ts"];

/** Options of esbuild with which types are removed and nothing else changes. @param {string} file */
const language = (file) => ({
  charset: "utf8",
  format: "esm",
  loader: file.endsWith(".ts") ? "ts" : "js",
  tsconfigRaw: { compilerOptions: { target: "esnext", verbatimModuleSyntax: true } },
});

/** Returns the JavaScript of a TypeScript file, not minified. @param {string} file */
export const printed = (file) => createRequire(import.meta.url)("esbuild").transformSync(readFileSync(file, "utf8"), language(file)).code;

/** Checks types and fills dist/: declarations with comments, minified modules with source maps. */
export function makePackage() {
  const { transformSync } = createRequire(import.meta.url)("esbuild");
  rmSync(dist, { recursive: true, force: true });
  for (const project of ["tsconfig.json", "tsconfig.node.json"])
    run(process.execPath, [join(root, "node_modules", "typescript", "bin", "tsc"), "--project", join(root, project)]);
  for (const file of readdirSync(www).filter((name) => /(?<!\.d)\.(js|ts|wasm)$/.test(name) && !TYPES_ONLY.includes(name))) {
    const source = join(www, file);
    const isBuilt = MODULES.some(({ name }) => file.startsWith(`${name}.`)) || LIBRARIES.some((library) => library.file === source);
    if (file.endsWith(".wasm") || isBuilt) {
      copyFileSync(source, join(dist, file));
      continue;
    }
    const text = readFileSync(source, "utf8");
    const script = file.replace(/\.ts$/, ".js");
    // Minifying removes comments that bundlers read.
    if (text.includes("webpackIgnore")) {
      writeFileSync(join(dist, script), printed(source));
      continue;
    }
    const { code, map } = transformSync(text, { ...language(file), minify: true, sourcemap: "external", sourcefile: file });
    writeFileSync(join(dist, script), `${code}//# sourceMappingURL=${script}.map\n`);
    writeFileSync(join(dist, `${script}.map`), map);
  }
}

/** Size after `gzip -9`, as on servers. Node's own zlib differs and needs 2 % more. @param {Uint8Array} bytes */
function gzipped(bytes) {
  const { status, stdout } = spawnSync("gzip", ["-9", "-c"], { input: bytes, maxBuffer: 1 << 28 });
  return (status === 0 ? stdout : gzipSync(bytes, { level: 9 })).length;
}

/** Prints download sizes of a page, initial and on demand. Fails above the limits. */
function weigh() {
  const sums = { "at first": 0, "at first, with relaxed SIMD,": 0, "on demand": 0 };
  const [first, relaxed, later] = Object.keys(sums);
  for (const file of readdirSync(dist).filter((name) => /\.(js|wasm)$/.test(name))) {
    const bytes = readFileSync(join(dist, file));
    const packed = gzipped(bytes);
    if (LATER.files.includes(file)) sums[later] += packed;
    else [first, relaxed].filter((_, i) => file === ENGINES[i] || !ENGINES.includes(file)).forEach((when) => (sums[when] += packed));
    console.log(`${file.padEnd(18)} ${String(bytes.length).padStart(9)} bytes  ${String(packed).padStart(9)} gzipped`);
  }
  for (const [when, limit] of [
    [first, LIMIT],
    [relaxed, LIMIT],
    [later, LATER.limit],
  ]) {
    console.log(`${when} ${sums[when]} bytes gzipped; the limit is ${limit}`);
    if (sums[when] > limit) fail(`what is loaded ${when} has ${sums[when]} bytes gzipped, more than ${limit}`);
  }
}

/** True if built files are missing or older than their sources. */
export function outdated() {
  const modules = MODULES.flatMap(({ name, script, folder }) => [join(folder, `${script ?? name}.js`), join(folder, `${name}_bg.wasm`)]);
  const built = modules.concat(PAIR.map((model) => join(served, model, "model.safetensors")));
  if (!built.every(existsSync)) return true;
  const age = (file) => statSync(file).mtimeMs;
  const sources = ["src", "shaders", "dsi", "simulate", "models", "browser"].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true }).map((file) => join(root, folder, file)),
  );
  const newest = Math.max(...[...sources, join(root, "Cargo.toml"), join(root, "Cargo.lock")].map(age));
  return newest > Math.min(...built.map(age));
}

/** Builds what is missing or outdated. */
export async function needBuild() {
  if (outdated()) return build();
  needNpm();
  LIBRARIES.filter(({ file }) => !existsSync(file)).forEach(bundle);
  makePackage();
  await makeDocs();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await build({ likeTests: process.argv.includes("--like-tests") });
  weigh();
}
