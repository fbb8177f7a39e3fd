// The packed package in an empty project, with the README's own examples: a plain page, Vite's build and its development
// server, esbuild.
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { extname, join } from "node:path";
import { build, createServer } from "vite";
import { CSP, listen } from "../../scripts/serve.mjs";
import { blocks, consumer, root } from "../consumer.mjs";
import { browser, check, equal } from "./harness.mjs";

const TYPES = { ".html": "text/html", ".js": "text/javascript", ".wasm": "application/wasm" };
/** That of the demo, but for trusted types: a page that wants those writes a policy. */
const STRICT = CSP.replace(/; require-trusted-types-for.*/, "");

let folder, remove, page, written;
const servers = [];

/** An example with less of a model and of a text than a reader would want. */
function shorter(code, changes) {
  for (const [long, short] of changes) {
    check(long.test(code), `the README's example has no ${long}`);
    code = code.replace(long, short);
  }
  return code;
}

export const before = async () => {
  ({ folder, remove } = consumer());
  cpSync(join(root, "models", "tales", "draft"), join(folder, "public", "draft"), { recursive: true });
  const [markup] = blocks("html");
  writeFileSync(join(folder, "plain.html"), markup);
  writeFileSync(join(folder, "index.html"), markup.replace(/<script type="importmap">.*\n/, ""));
  const code = shorter(blocks("js")[0], [[/"[^"]*360M[^"]*"/, '"/draft"'], [/assistant_model: .*,/, "max_context: 64,"], [/(max_new_tokens:) \d+/, "$1 4"]]);
  writeFileSync(join(folder, "main.js"), `${code}document.title = "written";\n`);
  page = await browser.newPage();
  page.setDefaultTimeout(240_000);
};
export const after = async () => {
  await page.close();
  for (const server of servers) await server.close();
  remove();
};

/** Serves folders, the first that has the file. */
async function serve(folders, headers) {
  const { server, url } = await listen((request, response) => {
    const path = new URL(request.url, "http://localhost").pathname;
    const file = folders.map((from) => join(from, path)).find((file) => existsSync(file) && statSync(file).isFile());
    if (!file) return response.writeHead(404).end();
    response.writeHead(200, { "Content-Type": TYPES[extname(file)] ?? "application/octet-stream", ...headers }).end(readFileSync(file));
  }, 0);
  servers.push(server);
  return url;
}

/** What the example writes at an address: the same everywhere. */
async function write(address) {
  const broken = page.waitForEvent("pageerror", { timeout: 0 }).then((error) => Promise.reject(error));
  broken.catch(() => {});
  await page.goto(address);
  await Promise.race([page.waitForFunction(() => document.title === "written"), broken]);
  const text = await page.textContent("#text");
  check(text, "no text");
  equal(text, (written ??= text), "text");
}

function vite(more) {
  // Vite sets it where nobody did, and the build's would make a production of the development server.
  delete process.env.NODE_ENV;
  return { root: folder, configFile: false, logLevel: "warn", ...more };
}

export const tests = {
  async "a plain page imports the package by an import map"() {
    await write(`${await serve([folder, join(folder, "public")])}/plain.html`);
    const code = await page.evaluate(async () => {
      const { Engine } = await import("foretoken");
      globalThis.Worker = class {
        constructor() {
          throw new DOMException("another origin", "SecurityError");
        }
      };
      return Engine.load("/draft").catch(({ code }) => code);
    });
    equal(code, "internal", "code without a worker");
  },

  async "Vite builds it without configuration, and the build runs under a strict content security policy"() {
    await build(vite());
    await write(`${await serve([join(folder, "dist")], { "Content-Security-Policy": STRICT })}/index.html`);
  },

  async "esbuild bundles it by the README's command, and the bundle runs under a strict content security policy"() {
    const inside = join(folder, "esbuild");
    mkdirSync(inside);
    const code = shorter(blocks("javascript")[0], [[/"[^"]*360M[^"]*"/, '"/draft"'], [/worker, wasm }/, "worker, wasm, max_context: 64 }"]]);
    const write4 = /^text.textContent = "";\n.*/ms.exec(readFileSync(join(folder, "main.js"), "utf8"))[0];
    writeFileSync(join(inside, "main.js"), `${code}const text = document.getElementById("text");\n${write4}`);
    const [, command] = /^npx (esbuild .*)$/m.exec(readFileSync(join(root, "README.md"), "utf8"));
    const { status, stderr } = spawnSync(join(root, "node_modules", ".bin", command.split(" ")[0]), command.split(" ").slice(1), { cwd: inside, encoding: "utf8" });
    equal(status, 0, stderr);
    await write(`${await serve([join(inside, "dist"), folder, join(folder, "public")], { "Content-Security-Policy": STRICT })}/index.html`);
  },

  async "Vite's development server runs it without configuration"() {
    const server = await createServer(vite({ server: { host: "localhost" } }));
    servers.push(server);
    await server.listen();
    await write(server.resolvedUrls.local[0]);
  },
};
