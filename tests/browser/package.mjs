// The packed package in an empty project, with the README's own example: a plain page, Vite's build and its development server.
import { cpSync, existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
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

export const before = async () => {
  ({ folder, remove } = consumer());
  cpSync(join(root, "models", "tales", "draft"), join(folder, "public", "draft"), { recursive: true });
  const [markup] = blocks("html");
  writeFileSync(join(folder, "plain.html"), markup);
  writeFileSync(join(folder, "index.html"), markup.replace(/<script type="importmap">.*\n/, ""));
  // Less of a model and of a text than a reader would want.
  const shorter = [[/"[^"]*360M[^"]*"/, '"/draft"'], [/assistant_model: .*,/, "max_context: 64,"], [/(max_new_tokens:) \d+/, "$1 4"]];
  let [code] = blocks("js");
  for (const [long, short] of shorter) {
    check(long.test(code), `the README's example has no ${long}`);
    code = code.replace(long, short);
  }
  writeFileSync(join(folder, "main.js"), `${code}document.title = "written";\n`);
  page = await browser.newPage();
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
  await Promise.race([page.waitForFunction(() => document.title === "written", null, { timeout: 240_000 }), broken]);
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

  async "Vite's development server runs it without configuration"() {
    const server = await createServer(vite({ server: { host: "localhost" } }));
    servers.push(server);
    await server.listen();
    await write(server.resolvedUrls.local[0]);
  },
};
