// The packed package in the projects of examples/, built as their readers build them; other origins, pages that share.
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { extname, join } from "node:path";
import { promisify } from "node:util";
import { chromium } from "playwright-core";
import { createServer } from "vite";
import { CSP, listen } from "../../scripts/serve.mjs";
import { needChromium } from "../../scripts/system.mjs";
import { codeOf, root } from "../consumer.mjs";
import { examples } from "../examples.mjs";
import { FLAGS, browser, check, equal, until, watch } from "./harness.mjs";

const TYPES = { ".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".json": "application/json", ".wasm": "application/wasm" };
/** The policy of the demo, but with only the engine's own policy for trusted types. */
const TRUSTING = CSP.replace(/trusted-types [^;]*/, "trusted-types foretoken");
/** For an address of the worker that the page gives, it writes a policy itself. */
const STRICT = CSP.replace(/; require-trusted-types-for.*/, "");

/** npm and bundlers take minutes. */
export const long = true;
let folder, installed, context, written;
const ours = join(root, "node_modules", ".bin");
const servers = [];
const inside = (...path) => join(folder, ...path);
/** The programs of an installed Vite. Several versions have one name in `installed`. */
const vite = (version) => inside("node_modules", version, "bin");

export const before = async () => {
  folder = examples();
  installed = inside("node_modules", ".bin");
  // A model that lies here, a shorter text, and a word when it is written.
  for (const [name, file = "main.js", engine = file] of [
    ["plain"],
    ["cdn", "index.html"],
    ["vite"],
    ["webpack"],
    ["esbuild"],
    ["rollup"],
    ["extension"],
    ["next", "app/page.js"],
    ["ai-sdk-react", "main.jsx"],
    ["vue", "App.vue"],
    ["sveltekit", "src/routes/+page.svelte"],
    ["nuxt", "app/app.vue"],
    ["angular", "src/main.ts"],
    ["service-worker"],
    ["hot-reload", "main.js", "engine.js"],
  ]) {
    change(inside(name, engine), /"(HuggingFaceTB|QuantFactory)\/[^"]*"/g, '"/draft/"');
    change(inside(name, file), /(max_new_tokens|max_tokens|maxOutputTokens): \d+/, "$1: 24");
    if (name !== "ai-sdk-react") change(inside(name, file), /^( *)for await .*$/m, '$&\n$1document.title = "written";');
  }
  context = await browser.newContext();
};
export const after = async () => {
  await context.close();
  for (const server of servers) await server.close();
};

/** Serves folders, the first that has the file; pages with a policy, if one is given. Weights are served when `arrived` fulfils. */
async function serve(folders, { policy, ...headers } = {}, arrived) {
  const from = [...folders, join(root, "models", "tales")];
  const { server, url } = await listen(async (request, response) => {
    let { pathname } = new URL(request.url, "http://localhost");
    if (pathname.endsWith("/")) pathname += "index.html";
    if (pathname.endsWith(".safetensors")) await arrived;
    const file = from.map((each) => join(each, pathname)).find((file) => existsSync(file) && statSync(file).isFile());
    const all = { ...headers, ...(policy && { "Content-Security-Policy": policy }) };
    // A page that does nothing.
    if (!file && pathname.endsWith("/index.html")) return response.writeHead(200, { "Content-Type": "text/html", ...all }).end("<!doctype html>");
    if (!file) return response.writeHead(404, all).end();
    response.writeHead(200, { "Content-Type": TYPES[extname(file)] ?? "application/octet-stream", ...all }).end(readFileSync(file));
  }, 0);
  servers.push(server);
  return url;
}

/** Replaces text of a file. */
function change(file, from, to) {
  const text = readFileSync(file, "utf8");
  const changed = text.replace(from, to);
  check(changed !== text, `${file} has no ${from}`);
  writeFileSync(file, changed);
}

/** Starts Vite's development server for an example, and returns its address. */
async function develop(name) {
  const server = await createServer({
    root: inside(name),
    configFile: false,
    logLevel: "warn",
    publicDir: join(root, "models", "tales"),
    server: { host: "localhost", fs: { strict: false } },
  });
  servers.push(server);
  await server.listen();
  return server.resolvedUrls.local[0];
}

/** Runs a program of an installed package in an example's folder. */
async function run(name, bin, program, ...args) {
  // Builds for production must not see the environment of the tests.
  const { NODE_ENV, ...env } = process.env;
  await promisify(execFile)(join(bin, program), args, {
    cwd: inside(name),
    env: { ...env, NEXT_TELEMETRY_DISABLED: "1", NUXT_TELEMETRY_DISABLED: "1", NG_CLI_ANALYTICS: "false" },
  }).catch(({ stdout, stderr }) => {
    throw new Error(stdout + stderr);
  });
}

/** @param {Function} [first] what the page does before its own scripts */
async function visit(address, within = context, first = () => {}) {
  const page = await within.newPage();
  await watch(page);
  await page.addInitScript(first);
  page.setDefaultTimeout(240_000);
  page.errors = [];
  page.on("pageerror", ({ message }) => page.errors.push(message));
  await page.goto(address);
  return page;
}

/** The text that an example writes at an address: the same everywhere. @param {Function} [look] what to do before the page is closed */
async function write(address, within, look) {
  const page = await visit(address, within);
  const broken = page.waitForEvent("pageerror", { timeout: 0 }).then((error) => Promise.reject(error));
  broken.catch(() => {});
  await Promise.race([
    page.waitForFunction(() => document.title === "written"),
    broken,
    page.errors.length ? Promise.reject(new Error(page.errors[0])) : broken,
  ]);
  // Frameworks show the last piece in a frame after it came.
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve))));
  const text = await page.textContent("#text");
  check(text, "no text");
  equal(text, (written ??= text), "text");
  await look?.(page);
  await page.close();
}

/** Checks that a page was rendered, and that no model wrote into it. */
const empty = (name, ...built) => check(readFileSync(inside(name, ...built, "index.html"), "utf8").includes('<pre id="text"></pre>'), `${name}: no empty text`);

/** Why an engine does not come to be, in a page of this address. */
async function refusal(address, module, options) {
  const page = await visit(address);
  const said = await page.evaluate(
    async ([module, options]) => {
      const { Engine } = await import(module);
      return Engine.load("/draft/", options).then(
        () => "it was loaded",
        ({ code, message }) => `${code}: ${message}`,
      );
    },
    [module, options],
  );
  await page.close();
  return said;
}
const like = (said, wanted) => check(wanted.test(said), `${said} instead of ${wanted}`);

/**
 * In a shared worker: counts the tokens that are sent to pages, and the pages that have joined and left. Once it is closed, no timer ends
 * before a page has left. It answers each question with the counts.
 */
function gate() {
  const { setTimeout, clearTimeout } = globalThis;
  const { postMessage } = MessagePort.prototype;
  const request = navigator.locks.request.bind(navigator.locks);
  const channel = new BroadcastChannel("gate");
  let [tokens, closed, joined, left] = [0, false, 0, 0];
  // Callbacks that wait, and later their timers.
  const held = new Map();
  // On a fast machine too a text lets messages in while it is written.
  const now = performance.now.bind(performance);
  performance.now = () => 1000 * now();
  MessagePort.prototype.postMessage = function (message) {
    tokens += message.event?.tokens?.length ?? 0;
    postMessage.call(this, message);
  };
  globalThis.setTimeout = (callback, ...rest) => {
    if (!closed || !tokens) return setTimeout(callback, ...rest);
    held.set(callback, undefined);
    return callback;
  };
  globalThis.clearTimeout = (timer) => {
    clearTimeout(held.has(timer) ? held.get(timer) : timer);
    held.delete(timer);
  };
  const open = () => {
    closed = false;
    for (const [callback, timer] of held) held.set(callback, timer ?? setTimeout(callback));
  };
  navigator.locks.request = (name, ...rest) => {
    const isPage = name.startsWith("foretoken/page/");
    joined += Number(isPage);
    return request(name, ...rest.slice(0, -1), async (lock) => {
      const result = await rest.at(-1)(lock);
      if (!isPage) return result;
      left++;
      open();
    });
  };
  channel.onmessage = ({ data }) => {
    // Answers of other workers are no questions.
    if (typeof data !== "string") return;
    channel.postMessage({ tokens, joined, left });
    if (data === "close") [tokens, closed] = [0, true];
    if (data === "open") open();
    if (data === "end") close();
    if (data === "break")
      setTimeout(() => {
        throw new Error("it broke");
      });
  };
}

/** In a page: while `holding`, what a text's worker sends after its first pieces waits for the abort. */
function holdTexts() {
  globalThis.Worker = class extends Worker {
    #held = [];
    set onmessage(hear) {
      let pieces = 0;
      super.onmessage = (message) => {
        if (globalThis.holding && message.data.event?.tokens) pieces++;
        if (pieces > 2 && globalThis.holding) this.#held.push(() => hear(message));
        else hear(message);
      };
    }

    postMessage(message, transfer) {
      super.postMessage(message, transfer);
      if (message.type !== "abort") return;
      globalThis.holding = false;
      for (const release of this.#held.splice(0)) release();
    }
  };
}

/** How many workers pages of an origin share. */
async function sharedWorkers(within, address) {
  const client = await within.browser().newBrowserCDPSession();
  const { targetInfos } = await client.send("Target.getTargets");
  await client.detach();
  return targetInfos.filter(({ type, url }) => type === "shared_worker" && new URL(url).host === new URL(address).host).length;
}

export const tests = {
  async "a plain page imports the package by an import map"() {
    await write(`${await serve([inside("plain"), folder])}/`);
  },

  async "a page that enforces trusted types lets the engine's own policy name the worker"() {
    const bare = inside("plain", "bare.html");
    const main = readFileSync(inside("plain", "main.js"), "utf8");
    writeFileSync(inside("plain", "bare.js"), main.replace('"foretoken"', '"/node_modules/foretoken/dist/engine.js"'));
    writeFileSync(
      bare,
      readFileSync(inside("plain", "index.html"), "utf8")
        .replace(/ *<script type="importmap">.*\n/, "")
        .replace("main.js", "bare.js"),
    );
    await write(`${await serve([inside("plain"), folder], { policy: TRUSTING })}/bare.html`);
    like(await refusal(`${await serve([folder], { policy: CSP })}/`, "/node_modules/foretoken/dist/engine.js"), /^internal: .*TrustedScriptURL/);
  },

  async "a page imports the package from another origin"() {
    const cdn = await serve([folder], { "Access-Control-Allow-Origin": "*" });
    const away = `${cdn}/node_modules/foretoken/dist/engine.js`;
    const code = readFileSync(inside("cdn", "index.html"), "utf8");
    const written = code.replace(/"https:\/\/cdn\.[^"]*"/, `"${away}"`);
    check(written !== code, "the example names no CDN");
    writeFileSync(inside("cdn", "here.html"), written);
    await write(`${await serve([inside("cdn")])}/here.html`);

    // The same with a policy, which may forbid the worker of our own that imports the one over there.
    const policy = (workers) => `default-src 'self' ${cdn}; script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval' ${cdn}; worker-src ${workers}`;
    await write(`${await serve([inside("cdn")], { policy: policy(`blob: ${cdn}`) })}/here.html`);
    const strict = `${await serve([folder], { policy: policy("'self'") })}/`;
    like(await refusal(strict, away), /^internal: .*worker-src blob:/);
    const page = `${await serve([folder])}/`;
    like(await refusal(page, away, { shared: true }), /^internal: .*of their own origin/);
    const silent = `${await serve([folder])}/node_modules/foretoken/dist/worker.js`;
    like(await refusal(page, away, { worker: silent }), /^internal: .*\(CORS\)/);
  },

  async "an app starts the worker itself"() {
    const page = await visit(`${await serve([folder])}/`);
    const started = await page.evaluate(async () => {
      const { Engine } = await import("/node_modules/foretoken/dist/engine.js");
      let started = 0;
      const worker = () => {
        started++;
        return new Worker("/node_modules/foretoken/dist/worker.js", { type: "module" });
      };
      const engine = await Engine.load("/draft/", { worker });
      const { text } = await engine.generate("Once upon a time", { max_new_tokens: 4 }).result;
      engine.close();
      const failed = await Engine.load("/draft/", {
        worker: () => {
          throw new DOMException("another origin", "SecurityError");
        },
      }).catch(({ code, message }) => `${code}: ${message}`);
      return { started, text, failed };
    });
    equal(started.started, 1, "workers");
    check(started.text, "no text");
    like(started.failed, /^internal: .*another origin/);
    await page.close();
  },

  async "pages share one engine; an abort belongs to its page, and a page that closes gives up its texts"() {
    writeFileSync(inside("gated.js"), `(${gate})();\nimport "/node_modules/foretoken/dist/worker.js";\n`);
    // The models arrive when both pages wait for them, so that both get the progress.
    let arrive;
    const arrived = new Promise((resolve) => (arrive = resolve));
    const address = `${await serve([folder], {}, arrived)}/`;
    const workers = () => sharedWorkers(context, address);
    const [a, b, c] = await Promise.all([visit(address), visit(`${address}elsewhere/`), visit(address)]);
    const load = (page, options) =>
      page.evaluate(async (options) => {
        const { Engine } = await import("/node_modules/foretoken/dist/engine.js");
        const phases = new Set();
        globalThis.engine = await Engine.load("/draft/", { shared: true, worker: "/gated.js", onProgress: ({ phase }) => phases.add(phase), ...options });
        return { phases: [...phases], warnings: engine.warnings.join() };
      }, options);
    const ask = (question) =>
      b.evaluate(
        (question) =>
          new Promise((answer) => {
            const channel = new BroadcastChannel("gate");
            channel.onmessage = ({ data }) => answer(data);
            channel.postMessage(question);
          }),
        question,
      );
    // A question is lost if the worker has not begun yet, so it is repeated.
    const counted = (what, holds) =>
      until(what, async () => {
        const counts = await b.evaluate(() => {
          globalThis.channel ??= Object.assign(new BroadcastChannel("gate"), { onmessage: ({ data }) => (globalThis.counts = data) });
          channel.postMessage("pages");
          return globalThis.counts;
        });
        return counts && holds(counts);
      });
    const loads = Promise.all([load(a), load(b)]);
    await counted("both pages have joined", ({ joined }) => joined === 2);
    arrive();
    for (const { phases, warnings } of await loads) {
      check(phases.includes("download"), `progress: ${phases}`);
      check(!warnings.includes("cache"), warnings);
    }
    equal(await workers(), 1, "workers");
    const count = (page, tokens) =>
      page.evaluate(
        async (tokens) => (await engine.generate("Once upon a time", { max_new_tokens: tokens, min_new_tokens: tokens }).result).token_ids.length,
        tokens,
      );
    equal(await Promise.all([count(a, 8), count(b, 8)]), [8, 8], "tokens");

    // One page's call waits for the other's, which has the same number and does not continue.
    const begin = async (page, tokens) => {
      await ask("close");
      await page.evaluate((tokens) => {
        globalThis.text = engine.generate("Once upon a time", { max_new_tokens: tokens, min_new_tokens: tokens });
        return text[Symbol.asyncIterator]().next();
      }, tokens);
    };
    // Were the calls not in this order, the closed gate would keep the abort from its text.
    await begin(a, 60);
    const aborted = await b.evaluate(async () => {
      const control = new AbortController();
      const { result } = engine.generate("Once upon a time", { max_new_tokens: 900, min_new_tokens: 900, signal: control.signal });
      control.abort(new Error("mine"));
      return result.catch(({ code, cause }) => [code, cause.message]);
    });
    equal(aborted, ["aborted", "mine"], "a text that was taken back");
    await ask("open");
    equal(await a.evaluate(() => text.result.then(({ token_ids }) => token_ids.length)), 60, "tokens of the other page's text");

    // A text that stands still until its page is gone.
    const end = (page) =>
      page.evaluate(() =>
        text.result.then(
          () => "it was written",
          ({ code, message }) => `${code}: ${message}`,
        ),
      );
    await begin(a, 900);
    const behind = count(b, 8);
    await a.close();
    equal(await behind, 8, "tokens behind a page that closed");
    const { tokens } = await ask("tokens");
    check(tokens < 900, `${tokens} tokens were written for nobody`);

    // It breaks down: waiting calls are rejected, and the next call gets another worker.
    await load(c);
    for (const [how, said] of [
      ["break", /^internal: .*it broke/],
      ["end", /^internal: .*without a word/],
    ]) {
      await begin(c, 900);
      await b.evaluate(() => {
        globalThis.text = engine.generate("Once upon a time", { max_new_tokens: 8 });
      });
      const watching = () => b.evaluate(async () => (await navigator.locks.query()).pending.filter(({ name }) => name.startsWith("foretoken/shared/")).length);
      await until("both pages watch the worker", async () => (await watching()) === 2);
      await ask(how);
      for (const page of [b, c]) like(await end(page), said);
      equal(await Promise.all([count(b, 8), count(c, 8)]), [8, 8], "tokens after a breakdown");
    }
    // Browsers take their time to end those that broke down.
    await until("one worker is left", async () => (await workers()) === 1);

    // A page that loads again at once, another model, and the same model after all pages have left it.
    await c.evaluate(() => engine.close());
    await load(c);
    equal(await count(c, 8), 8, "tokens of an engine that was loaded again");
    await c.evaluate(() => engine.close());
    await load(c, { max_context: 128 });
    equal(await workers(), 2, "workers of different models");
    equal(await c.evaluate(() => engine.constructor.load([new File([], "x")], { shared: true }).catch(({ code }) => code)), "bad-option", "files");
    await c.evaluate(() => engine.close());
    await b.evaluate(() => engine.close());
    await c.close();
    await until("one worker is left again", async () => (await workers()) === 1);
    await b.evaluate(() => (globalThis.counts = undefined));
    await counted("all pages have left it", ({ joined, left }) => joined === left);
    check((await load(b)).phases.includes("upload"), "the models are still loaded");
    equal(await count(b, 8), 8, "tokens of the next engine");
    await b.close();
  },

  async "the pages of an extension share the model that it brings"() {
    const path = inside("extension");
    // As its build does.
    const [, from, to] = /^cp -r (\S+) (\S+)$/.exec(JSON.parse(readFileSync(join(path, "package.json"), "utf8")).scripts.build);
    cpSync(join(folder, from), join(path, to), { recursive: true });
    cpSync(join(root, "models", "tales", "draft"), join(path, "draft"), { recursive: true });
    const args = [...FLAGS.filter((flag) => flag !== "--headless"), "--headless=new", `--disable-extensions-except=${path}`, `--load-extension=${path}`];
    const extended = await chromium.launchPersistentContext("", {
      executablePath: needChromium(),
      headless: false,
      ignoreDefaultArgs: ["--disable-extensions"],
      args,
    });
    try {
      // Chromium names it after its folder.
      const id = createHash("sha256")
        .update(path)
        .digest("hex")
        .slice(0, 32)
        .replace(/./g, (digit) => "abcdefghijklmnop"[parseInt(digit, 16)]);
      const address = `chrome-extension://${id}/page.html`;
      await write(address, extended, async () => {
        await write(address, extended);
        equal(await sharedWorkers(extended, address), 1, "workers");
      });
    } finally {
      await extended.close();
    }
  },

  async "Vite 8 builds it without configuration, and the build runs under a strict content security policy"() {
    await run("vite", ours, "vite", "build");
    await write(`${await serve([inside("vite", "dist")], { policy: STRICT })}/`);
  },

  async "Vite's development server runs it without configuration"() {
    await write(await develop("vite"));
  },

  async "a hot update keeps the engine; an update of the engine's own file closes it"() {
    const page = await visit(await develop("hot-reload"));
    const written = () => page.waitForFunction(() => document.title === "written");
    const update = async (file, from, to) => {
      await page.evaluate(() => (document.title = "an update"));
      change(inside("hot-reload", file), from, to);
      await written();
    };
    await written();
    // Kept unless the page is reloaded.
    await page.evaluate(() => (globalThis.first = workers[0]));
    await update("main.js", "France", "Spain");
    check((await page.textContent("#text")).startsWith("What is the capital of Spain?\n"), "the update was not shown");
    equal(await page.evaluate(() => [workers.length, workers[0] === first]), [1, true], "workers, and whether the first is left");
    await update("engine.js", "{ signal", "{ max_context: 512, signal");
    equal(await page.evaluate(() => [workers.length, workers[0] === first]), [1, false], "workers, and whether the first is left");
    equal(page.errors, [], "errors");
    await page.close();
  },

  async "Vite 7 builds it"() {
    await run("vite", vite("vite7"), "vite.js", "build", "--outDir", "dist7");
    await write(`${await serve([inside("vite", "dist7")], { policy: STRICT })}/`);
  },

  async "webpack builds it"() {
    await run("webpack", installed, "webpack");
    await write(`${await serve([inside("webpack")], { policy: STRICT })}/`);
  },

  async "esbuild bundles it by the guide's command"() {
    const { build } = JSON.parse(readFileSync(inside("esbuild", "package.json"), "utf8")).scripts;
    check(
      codeOf("docs/deploy.md", "sh").some((code) => code.includes(`npx ${build}\n`)),
      "the guide has another command",
    );
    await run("esbuild", ours, ...build.split(" "));
    await write(`${await serve([inside("esbuild")], { policy: STRICT })}/`);
  },

  async "Rollup bundles it"() {
    await run("rollup", installed, "rollup", "--config", "--silent");
    await write(`${await serve([inside("rollup")], { policy: STRICT })}/`);
  },

  async "Next builds it with Turbopack and with webpack"() {
    for (const bundler of ["--turbopack", "--webpack"]) {
      await run("next", installed, "next", "build", bundler);
      await write(`${await serve([inside("next", "out")])}/`);
    }
  },

  async "Vite builds a Vue app"() {
    await run("vue", vite("vite"), "vite.js", "build");
    await write(`${await serve([inside("vue", "dist")], { policy: STRICT })}/`);
  },

  async "SvelteKit renders the page without the engine, which then runs under SvelteKit's own policy"() {
    await run("sveltekit", vite("vite"), "vite.js", "build");
    empty("sveltekit", "build");
    check(readFileSync(inside("sveltekit", "build", "index.html"), "utf8").includes("'wasm-unsafe-eval' 'sha256-"), "no policy");
    await write(`${await serve([inside("sveltekit", "build")])}/`);
  },

  async "Nuxt renders the page without the engine"() {
    await run("nuxt", installed, "nuxt", "generate");
    empty("nuxt", ".output", "public");
    await write(`${await serve([inside("nuxt", ".output", "public")])}/`);
  },

  async "Angular builds it"() {
    mkdirSync(inside("angular", "node_modules"));
    symlinkSync(inside("node_modules", "foretoken"), inside("angular", "node_modules", "foretoken"), "junction");
    await run("angular", installed, "architect", "app:build");
    await write(`${await serve([inside("angular", "dist", "browser")], { policy: STRICT })}/`);
  },

  async "a service worker keeps the app, and the engine the model: both work without the server"() {
    await run("service-worker", vite("vite"), "vite.js", "build");
    // Such a worker answers for its address as long as its context lasts.
    const own = await browser.newContext();
    const address = `${await serve([inside("service-worker", "dist")], { policy: STRICT })}/`;
    await write(address, own, async (page) => {
      const kept = await page.evaluate(async () => {
        await navigator.serviceWorker.ready;
        const all = [];
        for (const name of await caches.keys()) all.push(...(await (await caches.open(name)).keys()).map(({ url }) => url));
        return all;
      });
      equal(kept.filter((url) => url.includes("foretoken_bg")).length, 1, "kept modules of the engine");
      equal(kept.filter((url) => url.includes("/draft/")).length, 0, "kept files of the model");
    });
    const server = servers.pop();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await write(address, own);
    await own.close();
  },

  async "a chat of the AI SDK in React answers"() {
    await run("ai-sdk-react", ours, "vite", "build");
    const page = await visit(`${await serve([inside("ai-sdk-react", "dist")], { policy: STRICT })}/`, context, holdTexts);
    const send = async (text) => {
      await page.locator("input").pressSequentially(text);
      await page.click("text=Send");
    };
    const answered = (count) =>
      page.waitForFunction(
        (count) => document.querySelector("[role=status]").textContent === "ready" && document.querySelectorAll(".assistant").length === count,
        count,
      );
    const answers = () => page.$$eval(".assistant", (all) => all.map(({ textContent }) => textContent));
    await send("Tell me a tale about a fox.");
    await answered(1);
    equal(await page.textContent(".user"), "Tell me a tale about a fox.", "the question");
    // The next one is stopped in its middle, and the one after it is answered again.
    await page.evaluate(() => (globalThis.holding = true));
    await send("And about a wolf.");
    await page.waitForFunction(() => document.querySelectorAll(".assistant")[1]?.textContent);
    await page.click("text=Stop");
    await answered(2);
    equal(await page.evaluate(() => globalThis.holding), false, "whether texts are held: the engine heard no abort");
    await send("And about a bear.");
    await answered(3);
    const [whole, stopped, next] = (await answers()).map((text) => text.length);
    check(whole > 20 && next > 20 && stopped > 0 && stopped < whole, `lengths of the answers: ${[whole, stopped, next]}`);
    equal(page.errors, [], "errors");
    await page.close();
  },
};
