// The npm package without a browser: its contents, and its use from TypeScript, Node and React.
import { equal, match, ok } from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { build as esbuild } from "esbuild";
import { build as vite, transformWithOxc } from "vite";
import { makePackage } from "../scripts/build.mjs";
import { answer, listen } from "../scripts/serve.mjs";
import { codeOf, compile, consumer, contents, root } from "./consumer.mjs";
import { examples, manifests } from "./examples.mjs";

/** All published modules. */
const MODULES = [
  "ai-sdk",
  "answers",
  "cache",
  "candidates",
  "chat",
  "chunks",
  "conversation",
  "downloader",
  "engine",
  "error",
  "error-hints",
  "http",
  "instance",
  "instance-workers",
  "loading",
  "model-files",
  "normalization",
  "openai",
  "opfs",
  "options",
  "patterns",
  "queue",
  "saved-chats",
  "server-files",
  "shared-name",
  "start-worker",
  "storage",
  "threads",
  "tools",
  "worker",
];
const FILES = [
  "LICENSE-APACHE",
  "LICENSE-MIT",
  "README.md",
  "package.json",
  "dist/foretoken.js",
  "dist/foretoken_bg.wasm",
  "dist/relaxed_bg.wasm",
  "dist/grammar.js",
  "dist/grammar_bg.wasm",
  ...MODULES.flatMap((name) => [`dist/${name}.js`, `dist/${name}.js.map`, `dist/types/${name}.d.ts`]),
  "dist/types/api.d.ts",
  "dist/types/protocol.d.ts",
  "dist/node.js",
  "dist/node.js.map",
  "dist/node-worker.js",
  "dist/oniguruma.js",
];

makePackage();
const { folder, remove } = consumer();
after(remove);
const read = (...path) => readFileSync(join(...path), "utf8");
const declared = (module) => read(folder, "node_modules", "foretoken", "dist", "types", `${module}.d.ts`);

test("npm packs the files of the list, and no others", () => {
  const { files, size, unpackedSize } = contents();
  console.log(`the package has ${size} bytes, ${unpackedSize} unpacked`);
  equal(
    files
      .map(({ path }) => path)
      .sort()
      .join("\n"),
    FILES.sort().join("\n"),
  );
  const { dependencies, optionalDependencies, peerDependencies, peerDependenciesMeta } = JSON.parse(read(root, "package.json"));
  equal(dependencies ?? optionalDependencies, undefined, "dependencies");
  const published = (file) => read(folder, "node_modules", "foretoken", "dist", file);
  const { sources, sourcesContent } = JSON.parse(published("engine.js.map"));
  equal(sources.join(), "engine.ts", "what the source map names");
  equal(sourcesContent.join(), read(root, "www", "engine.ts"), "the source, with its comments, in the source map");
  ok(published("engine.js").length < sourcesContent[0].length / 2, "a minified module");
  ok(published("types/engine.d.ts").includes("/**"), "declarations with comments");
  match(published("node-worker.js"), /import\(\s*\/\* webpackIgnore: true \*\/[^)]*"webgpu"/, "what bundlers read");
  for (const name of Object.keys(peerDependencies)) ok(peerDependenciesMeta[name].optional, name);
});

test("TypeScript takes the whole API, and no mistake", () => {
  for (const file of ["right.ts", "wrong.ts"]) copyFileSync(join(root, "tests", "consumer", file), join(folder, file));
  for (const options of [{}, { module: "nodenext", moduleResolution: "nodenext" }]) {
    equal(compile(["right.ts", "wrong.ts"], { strict: true, ...options }, folder), "");
  }
});

test("the guide lists the codes that the types have, and the types have those of the engine", () => {
  const codes = (text) => [...new Set([...text.matchAll(/["`]([a-z0-9]+(?:-[a-z0-9]+)*)["`]/g)].map(([, code]) => code))].sort();
  const typed = codes(/type ErrorCode = (.*?);/s.exec(declared("error"))[1]);
  const table = /\| code \|.*?\n\n/s.exec(read(root, "docs", "troubleshoot.md"))[0];
  const told = codes(table.replace(/^(\|[^|]*\|).*$/gm, "$1"));
  equal(told.join(), typed.join());
  const rust = [.../fn code\(.*?\n {4}}\n/s.exec(read(root, "src", "error.rs"))[0].matchAll(/"(.+?)"/g)].map(([, code]) => code);
  ok(rust.length > 10);
  for (const code of rust) ok(typed.includes(code), code);
});

test("statistics are typed as the engine names them", () => {
  const typed = (type) =>
    [...new RegExp(`export type ${type} = \\{(.*?)\\n\\};`, "s").exec(declared("api"))[1].matchAll(/^ {4}(\w+)\??:/gm)].map(([, field]) => field);
  for (const [file, name, type, more] of [
    ["session.rs", "Token", "Token", []],
    ["session.rs", "Generation", "Generation", []],
    ["speculate/stats.rs", "Stats", "Stats", ["wasm_memory"]],
    ["speculate/stats.rs", "Times", "Times", []],
    ["speculate/stats.rs", "Distributed", "Distributed", []],
    ["speculate/choice.rs", "Speculating", "Speculating", []],
    ["gpu/counters.rs", "Counters", "Counters", []],
    ["gpu/device.rs", "DeviceInfo", "DeviceInfo", []],
    ["model/blueprint.rs", "Memory", "ModelMemory", []],
  ]) {
    const fields = new RegExp(`pub struct ${name} \\{(.*?)\\n\\}`, "s").exec(read(root, "src", file))[1];
    const rust = [...fields.matchAll(/^ {4}pub (\w+):/gm)].map(([, field]) => field);
    equal(typed(type).sort().join(), [...rust, ...more].sort().join(), type);
  }
});

test("bundlers find the worker and the WASM by their names in the package", async () => {
  const wasm = readFileSync(join(folder, "node_modules", "foretoken", "dist", "foretoken_bg.wasm"));
  const outputs = {};
  writeFileSync(join(folder, "entry.js"), 'import wasm from "foretoken/foretoken_bg.wasm"; console.log(wasm);');
  const common = { absWorkingDir: folder, bundle: true, format: "esm", outdir: "out", write: false, loader: { ".wasm": "file" } };
  const { outputFiles } = await esbuild({ ...common, entryPoints: { entry: "./entry.js", worker: "foretoken/worker" } });
  outputs.esbuild = outputFiles.map(({ path, contents }) => [path, contents]);
  writeFileSync(
    join(folder, "entry.js"),
    'import wasm from "foretoken/foretoken_bg.wasm?url"; import worker from "foretoken/worker?worker&url"; console.log(wasm, worker);',
  );
  const { output } = await vite({
    root: folder,
    configFile: false,
    logLevel: "warn",
    build: { write: false, rollupOptions: { input: join(folder, "entry.js") } },
  });
  outputs.vite = output.map((each) => [each.fileName, Buffer.from(each.type === "asset" ? each.source : each.code)]);
  for (const [name, files] of Object.entries(outputs)) {
    ok(
      files.some(([path, bytes]) => path.endsWith(".wasm") && wasm.equals(bytes)),
      `${name}: the WASM`,
    );
    ok(
      files.some(([path, bytes]) => /worker.*js$/.test(path) && String(Buffer.from(bytes)).includes("onmessage")),
      `${name}: the worker`,
    );
  }
});

const draft = join(root, "models", "tales", "draft");

/** Runs a script of the consumer's in Node and returns its output. */
function node(...args) {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: folder, encoding: "utf8" });
  equal(status, 0, stderr);
  return stdout;
}

test("Node runs it on the CPU, with models from a folder, a file's address and a server, and ends", async () => {
  copyFileSync(join(root, "examples", "node", "main.js"), join(folder, "main.js"));
  const told = node("main.js", draft);
  ok(told.length > 40, told);
  equal(node("main.js", relative(folder, draft).replace(/^(?!\.)/, "./")), told);
  equal(node("main.js", pathToFileURL(draft).href), told);
  const { server, url } = await listen(answer, 0);
  const served = await promisify(execFile)(process.execPath, ["main.js", `${url}/models/tales/draft`], { cwd: folder });
  server.close();
  equal(served.stdout, told);
});

test("in Node, what cannot be there is an error that says so", () => {
  const load = (model, options) =>
    `await Engine.load(${JSON.stringify(model)}, ${options}).catch((error) => console.log(error instanceof ForetokenError && error.code, error.message));`;
  ok(
    node("--input-type=module", "--eval", 'import * as all from "foretoken"; console.log(Object.keys(all).sort().join())').includes(
      "Conversation,Engine,ForetokenError",
    ),
  );
  const cases = [
    ["/nowhere", "{}"],
    [draft, '{ device: "webgpu" }'],
    [draft, "{ shared: true }"],
    [draft, '{ worker: "worker.js" }'],
  ];
  const script = `import { Engine, ForetokenError } from "foretoken"; ${cases.map(([model, options]) => load(model, options)).join("\n")}`;
  const codes = node("--input-type=module", "--eval", script)
    .trim()
    .split("\n")
    .map((line) => line.split(" ")[0]);
  equal(codes.join(), "not-found,webgpu-unavailable,bad-option,bad-option");
});

test("Deno runs it too, and Node on the GPU that the package webgpu finds", (t) => {
  const inside = examples();
  const load = `import { Engine } from "foretoken"; const engine = await Engine.load(${JSON.stringify(draft)}, { device: process.argv.at(-1) });`;
  writeFileSync(
    join(inside, "device.mjs"),
    `${load} console.log(engine.device.backend, (await engine.generate("Once upon a time", { max_new_tokens: 24 }).result).text); engine.close();`,
  );
  const run = (program, args, env) => {
    const { status, stdout, stderr } = spawnSync(program, args, { cwd: inside, encoding: "utf8", env: { ...process.env, ...env } });
    equal(status, 0, stderr);
    return stdout.trim();
  };
  const [first, ...told] = run(join(inside, "node_modules", ".bin", "deno"), ["run", "--allow-all", "device.mjs", "cpu"]).split(" ");
  equal(first, "Cpu");
  ok(told.length > 10, told.join(" "));
  // Chromium's own driver has what Dawn requires; Mesa's may not.
  const driver = ["/usr/lib/chromium", "/opt/google/chrome"].map((folder) => join(folder, "vk_swiftshader_icd.json")).find(existsSync);
  if (!driver) return t.skip("no SwiftShader beside Chromium");
  match(run(process.execPath, ["device.mjs", "webgpu"], { VK_ICD_FILENAMES: driver }), /^BrowserWebGpu .{20}/);
});

test("the AI SDK's functions take an engine", () => {
  const inside = examples();
  for (const file of ["ai-sdk.mjs", "ai-sdk.ts"]) copyFileSync(join(root, "tests", "consumer", file), join(inside, file));
  equal(compile(["ai-sdk.ts"], { strict: true, skipLibCheck: true }, inside), "");
  const { status, stdout } = spawnSync(process.execPath, ["--test", "ai-sdk.mjs"], { cwd: inside, encoding: "utf8", env: { ...process.env, MODEL: draft } });
  equal(status, 0, stdout);
});

test("the README shows the plain page of the examples", () => {
  const [code] = codeOf("README.md", "js");
  equal(read(root, "examples", "plain", "main.js"), code);
  for (const element of ['<pre id="text"></pre>', "importmap", '<script type="module" src="main.js">'])
    ok(read(root, "examples", "plain", "index.html").includes(element), element);
  ok(read(root, "README.md").includes("(examples/plain)"));
});

test("the examples name the packages that are tested", () => {
  const { dependencies } = JSON.parse(read(root, "tests", "examples", "package.json"));
  const { version, devDependencies } = JSON.parse(read(root, "package.json"));
  const tested = { ...devDependencies, ...dependencies, foretoken: version };
  for (const [example, manifest] of manifests()) {
    for (const [name, range] of Object.entries({ ...manifest.dependencies, ...manifest.devDependencies }))
      equal(range, `^${tested[name]}`, `${example}: ${name}`);
  }
});

/** The part of React that the hook needs: cells by call order, effects that StrictMode runs twice. */
const REACT = `
const cells = [];
let at = 0;
const cell = (make) => (cells[at] ??= make(), cells[at++]);
export function useState(first) {
  const it = cell(() => ({ value: first }));
  return [it.value, (next) => { it.value = typeof next === "function" ? next(it.value) : next; }];
}
export const useRef = (current) => cell(() => ({ current }));
export function useEffect(effect, inputs) {
  const it = cell(() => ({}));
  if (it.inputs && it.inputs.every((input, i) => input === inputs[i])) return;
  it.end?.();
  const twice = !it.inputs && effect();
  if (twice) twice();
  Object.assign(it, { inputs, end: effect() });
}
export const render = (hook, ...args) => { at = 0; return hook(...args); };
export const unmount = () => cells.forEach(({ end }) => end?.());
`;
const ENGINE = `
export const engines = [];
export class Engine {
  static load(model, { signal }) {
    const engine = Object.assign(new Engine(), { model });
    engines.push(engine);
    return new Promise((resolve, reject) => {
      engine.loaded = () => resolve(engine);
      signal.addEventListener("abort", () => reject(Object.assign(new Error("aborted"), { code: "aborted" })));
    });
  }
  async *generate(prompt, { signal }) {
    for (const text of prompt) {
      await null;
      if (this.closed || signal.aborted) throw Object.assign(new Error("aborted"), { code: "aborted" });
      yield { text };
    }
  }
  close() { this.closed = true; }
}
`;

test("the React hook loads once under StrictMode, streams, stops, and leaves no engine behind", async () => {
  const write = (name, code) => {
    const where = join(folder, "hook", name);
    mkdirSync(join(where, ".."), { recursive: true });
    writeFileSync(where, code);
    return pathToFileURL(where).href;
  };
  for (const name of ["react", "foretoken"]) write(`node_modules/${name}/package.json`, '{ "type": "module", "exports": "./index.js" }');
  const { render, unmount } = await import(write("node_modules/react/index.js", REACT));
  const { engines } = await import(write("node_modules/foretoken/index.js", ENGINE));
  const { useForetoken } = await import(write("hook.mjs", (await transformWithOxc(codeOf("docs/chat.md", "jsx")[0], "hook.jsx")).code));
  /** Lets all promises settle that wait for nothing else. */
  const settled = () => new Promise(setImmediate);
  const use = (model) => render(useForetoken, model);

  use("a");
  equal(engines.length, 2, "mounted, unmounted, mounted");
  engines.forEach(({ loaded }) => loaded());
  await settled();
  equal(use("a").engine, engines[1], "the second mount's engine");
  equal(use("a").error, undefined, "the first mount's end is no error");
  equal(engines.length, 2, "rendering loads nothing");

  await use("a").write(["x", "y"]);
  equal(use("a").text, "xy");
  const stopped = use("a").write(["p", "q", "r"]);
  const next = use("a").write(["s", "t"]);
  await Promise.all([stopped, next]);
  equal(use("a").text, "st", "a new text ends the old one");
  const halted = use("a").write(["u", "v"]);
  use("a").stop();
  await halted;
  match(use("a").text, /^u?$/);
  equal(use("a").error, null, "what was stopped is no error");

  const running = use("a").write(["w", "x"]);
  use("b");
  await Promise.all([running, settled()]);
  ok(engines[1].closed, "another model: the old engine goes");
  equal(use("b").engine, undefined);
  equal(use("b").error, undefined);
  engines[2].loaded();
  await settled();
  equal(use("b").engine, engines[2]);
  unmount();
  await settled();
  ok(engines[2].closed, "unmounted");
});
