// Checks that the code in README.md and docs/ does what it says, with the packed package and the program. A block's language selects
// how it is run:
//   js        in a page of Chromium
//   html      the page of the js blocks after it, http its headers; by itself if it contains its script
//   mjs       in Node
//   sh        by bash, if its commands are foretoken's; commands of npm, npx, cargo and pip set up a project. `foretoken serve` starts a
//             server, which later blocks use: commands of curl, mjs and py
//   rust      by cargo test --doc
//   ts, jsx   is only compiled; a block without a language is a picture
// A block with a file name after its language (json person.json) becomes that file for the following blocks; one that names a file of
// examples/ must be a part of it, and is run by the tests of the examples. Text after → in a comment
// must be printed, in that order. Models come from a Hub that has the tales draft model under every name.
import { deepEqual, equal, ok } from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, extname, join } from "node:path";
import { after, describe, test } from "node:test";
import { promisify } from "node:util";
import { transformWithOxc } from "vite";
import { makePackage } from "../scripts/build.mjs";
import { reference } from "../scripts/reference.mjs";
import { ISOLATED, listen } from "../scripts/serve.mjs";
import { run } from "../scripts/system.mjs";
import { browser, server as unused } from "./browser/harness.mjs";
import { blocks, compile, root } from "./consumer.mjs";
import { examples } from "./examples.mjs";
import { answerAsHub } from "./hub.mjs";
import { python, startServer } from "./serving.mjs";

const DOCUMENTS = [
  "README.md",
  ...readdirSync(join(root, "docs"))
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`),
];
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".wasm": "application/wasm" };
/** An import map that finds the package, and the page of blocks that have none. */
const PAGE = '<!doctype html><script type="importmap">{ "imports": { "foretoken": "/node_modules/foretoken/dist/engine.js" } }</script><pre id="text"></pre>';
const CDN = "https://cdn.jsdelivr.net/npm/foretoken@0.1/";

makePackage();
const folder = examples();
/** A folder that looks like a checkout to the program. */
const scratch = mkdtempSync(join(tmpdir(), "foretoken-docs-"));
for (const name of ["models", "benches"]) symlinkSync(join(root, name), join(scratch, name), "junction");
mkdirSync(join(scratch, "docs"));
/** Served pages by path: text and headers. @type {Map<string, { text: string, headers?: Record<string, string> }>} */
const pages = new Map();
const { server, url } = await listen((request, response) => {
  if (answerAsHub(request, response)) return;
  const { pathname } = new URL(request.url, "http://localhost");
  const page = pages.get(pathname);
  const file = join(folder, pathname);
  const found = page || (existsSync(file) && statSync(file).isFile());
  const headers = { "Content-Type": TYPES[extname(pathname)] ?? TYPES[".html"], "Access-Control-Allow-Origin": "*", ...(page ? page.headers : ISOLATED) };
  response.writeHead(found ? 200 : 404, headers).end(found ? (page?.text ?? readFileSync(file)) : "");
}, 0);
after(async () => {
  rmSync(scratch, { recursive: true });
  server.close();
  unused.close();
  await browser.close();
});

// Replaces the default Hub.
const hub = join(folder, "node_modules", "foretoken", "dist", "model-files.js");
const named = readFileSync(hub, "utf8");
ok(named.includes('"https://huggingface.co"'));
writeFileSync(hub, named.replace('"https://huggingface.co"', JSON.stringify(url)));
// With examples, cargo reuses the dependencies built for the tests.
run("cargo", ["build", "--release", "--bin", "foretoken", "--examples"], { cwd: root });
const program = join(process.env.CARGO_TARGET_DIR ?? join(root, "target"), "release");
const env = { ...process.env, XDG_RUNTIME_DIR: tmpdir(), HF_ENDPOINT: url, HF_HOME: scratch, PATH: `${program}${delimiter}${process.env.PATH}` };

/** True for a block that shows a part of an example. */
const isPart = ({ file }) => file?.startsWith("examples/");

/** Checks that a block printed what its comments say. */
function printed(code, text) {
  let at = 0;
  for (const [, wanted] of code.matchAll(/(?:\/\/|#) → (.*)/g)) {
    at = text.indexOf(wanted, at);
    ok(at >= 0, `${wanted} is not printed:\n${text}`);
    at += wanted.length;
  }
}

/** Runs a program in the examples' folder, or in `cwd`, and returns its output. */
async function output(command, args, cwd) {
  const running = promisify(execFile)(command, args, { cwd, env, maxBuffer: 1 << 28 });
  running.child.stdin.end();
  const { stdout } = await running.catch(({ stdout, stderr }) => {
    throw new Error(`${stderr}${stdout}`);
  });
  return stdout;
}

/** Address of a server in the documents. */
const SERVED = "http://127.0.0.1:8080/v1";
/** Returns the code of a block with the address of the document's server. */
const served = (code, own) => (own.served ? code.replaceAll(SERVED, own.served.url) : code);

/** Opens a page and runs `module` in it; without a module, waits for words in the page. Returns the printed text. */
async function visit(context, path, { text, headers }, module) {
  // The CDN gets another origin than the page.
  pages.set(path, { text: text.replace(CDN, `${url.replace("localhost", "127.0.0.1")}/node_modules/foretoken/`), headers });
  const page = await context.newPage();
  // Native tests run at the same time.
  page.setDefaultTimeout(240_000);
  const lines = [];
  const failures = [];
  page.on("pageerror", (error) => failures.push(error));
  page.on("console", (message) => /Content.Security.Policy|TrustedScript/i.test(message.text()) && failures.push(new Error(message.text())));
  await page.exposeFunction("print", (line) => lines.push(line));
  await page.addInitScript(() => {
    console.log = (...values) => globalThis.print(values.map((value) => (typeof value === "string" ? value : JSON.stringify(value))).join(" "));
  });
  await page.goto(`${url}${path}`);
  if (module) await page.evaluate((module) => import(module).then(() => {}), module);
  else await page.waitForFunction(() => document.getElementById("text").textContent.length > 20);
  deepEqual(failures, []);
  await page.close();
  return lines.join("\n");
}

/** How blocks of each language are run. `own` keeps what later blocks of the document need. */
const RUN = {
  http: ({ code }, own) =>
    (own.headers = Object.fromEntries(
      code
        .trim()
        .split("\n")
        .map((line) => line.split(/: (.*)/s)),
    )),
  async html({ code }, own) {
    if (code.includes("import ")) await visit(own.context, `${own.path}/inside.html`, { text: code, headers: own.headers });
    else own.page = code;
  },
  async js({ code, index, file = `${index}.js` }, own) {
    const module = `${own.path}/${file}`;
    pages.set(module, { text: code });
    const text = own.page?.replace(/<script type="module".*<\/script>/, "") ?? PAGE;
    printed(code, await visit(own.context, `${own.path}/${index}.html`, { text, headers: own.headers }, module));
  },
  async mjs({ code, index }, own) {
    const file = join(folder, `${own.name}${index}.mjs`);
    writeFileSync(file, served(code, own));
    const text = await output(process.execPath, [file], folder);
    ok(text.length > 20, text);
    printed(code, text);
  },
  async sh({ code }, own) {
    const lines = code.replace(/\\\n/g, " ").trim().split("\n");
    const [, flags] = /^foretoken serve (.*)/.exec(lines[0]) ?? [];
    if (flags) {
      equal(lines.length, 1, "a server has a block of its own");
      own.served?.server.kill();
      own.served = await startServer(flags.trim().split(/\s+/), env);
      return;
    }
    if (lines.every((line) => line.startsWith("curl "))) return printed(code, await output("bash", ["-euc", served(code, own)], scratch));
    const others = lines.filter((line) => !line.startsWith("foretoken "));
    if (!others.length) return printed(code, await output("bash", ["-euc", code], scratch));
    deepEqual(
      lines.filter((line) => !/^(npm|npx|cargo|pip) /.test(line)),
      [],
    );
  },
  async py({ code }, own) {
    const interpreter = python();
    if (interpreter) printed(code, await output(interpreter, ["-c", served(code, own)], scratch));
  },
  json: ({ code }) => JSON.parse(code),
  jsx: ({ code }) => transformWithOxc(code, "block.jsx"),
  "": () => {},
  ts() {},
  rust() {},
};

test("the documents' code compiles", () => {
  const files = [];
  for (const [i, document] of DOCUMENTS.entries()) {
    for (const block of blocks(document)) {
      const { language, code, index } = block;
      if (!["js", "ts"].includes(language) || isPart(block)) continue;
      const file = `docs-${i}-${index}.${language}`;
      // The compiler cannot resolve the page's address.
      writeFileSync(join(folder, file), code.replace('"/node_modules/foretoken/dist/engine.js"', '"foretoken"'));
      files.push(file);
    }
  }
  ok(files.length > 20);
  equal(compile(files, { allowJs: true, checkJs: true, strict: false, skipLibCheck: true }, folder), "");
});

test("the reference tells of all that the types declare, and its links lead somewhere", () => {
  const html = reference();
  const ids = new Set([...html.matchAll(/ id="([^"]*)"/g)].map(([, id]) => id));
  for (const [, to] of html.matchAll(/href="#([^"]*)"/g)) ok(ids.has(to), to);
  const declared = readFileSync(join(root, "dist", "types", "api.d.ts"), "utf8");
  const names = [...declared.matchAll(/^export (?:declare )?(?:type|class) (\w+)|^ {4}(\w+)\??:/gm)];
  ok(names.length > 100);
  for (const [, exported, field] of names) ok(exported ? ids.has(exported.toLowerCase()) : new RegExp(`\\b${field}\\??:`).test(html), exported ?? field);
  ok(ids.has("engine.generate") && ids.has("conversation.send") && ids.has("languagemodel"));
});

describe("the documents' code runs", { concurrency: 2 }, () => {
  for (const document of DOCUMENTS) {
    test(document, async () => {
      const name = document.replace(/\W/g, "");
      const own = { name, path: `/pages/${name}`, context: await browser.newContext() };
      after(() => own.served?.server.kill());
      for (const block of blocks(document)) {
        if (isPart(block)) {
          ok(readFileSync(join(root, block.file), "utf8").includes(block.code), `${block.file} has no\n${block.code}`);
          continue;
        }
        const run = RUN[block.language];
        ok(run, `nobody knows how to run ${block.language}`);
        if (block.file) writeFileSync(join(scratch, block.file), block.code);
        await Promise.resolve(run(block, own)).catch((error) => {
          throw new Error(`block ${block.index + 1}, ${block.language}:\n${block.code}\n${error.stack}`);
        });
      }
      await own.context.close();
    });
  }
});
