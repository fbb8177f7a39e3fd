// What the browser tests share: a server that can misbehave, a headless browser on a software adapter, pages with the engine.
import { AsyncLocalStorage } from "node:async_hooks";
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { chromium, firefox } from "playwright-core";
import { CSP, ISOLATED, answer, listen } from "../../scripts/serve.mjs";
import { needChromium, needFirefox, needVulkan } from "../../scripts/system.mjs";

/** A host of this machine that browsers do not trust over http, as they trust localhost. */
const INSECURE = "lan.test";
const WEBGPU = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"];
export const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  `--host-resolver-rules=MAP ${INSECURE} 127.0.0.1`,
];

/**
 * Faults by the first part of a path, `/fault/rest`: each may answer by itself, or change the request, and then the rest of
 * the path is served as usual. Suites add faults.
 * @type {Record<string, (request: import("node:http").IncomingMessage, response: import("node:http").ServerResponse, rest: string[]) => unknown>}
 */
export const faults = {
  /** A page that does nothing, under the demo's policies. */
  blank(_, response) {
    response
      .writeHead(200, { "Content-Type": "text/html", "Content-Security-Policy": CSP })
      .end('<!doctype html><title>blank</title><script type="module" src="/demo/policy.js"></script>');
  },
  /** Another tokenizer: two tokens change places. */
  vocabulary(_, response, rest) {
    if (rest.at(-1) !== "tokenizer.json") return;
    const tokenizer = JSON.parse(readFileSync(new URL(`../../${rest.join("/")}`, import.meta.url), "utf8"));
    const { vocab } = tokenizer.model;
    [vocab.a, vocab.b] = [vocab.b, vocab.a];
    response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(tokenizer));
  },
  /** One that is cross-origin isolated, under no policy. */
  isolated(_, response) {
    response.writeHead(200, { ...ISOLATED, "Content-Type": "text/html" }).end("<!doctype html><title>isolated</title>");
  },
};

async function handler(request, response) {
  const [, fault, ...rest] = new URL(request.url, "http://localhost").pathname.split("/");
  if (Object.hasOwn(faults, fault)) {
    await faults[fault](request, response, rest);
    if (response.headersSent) return;
    request.url = `/${rest.join("/")}`;
  }
  answer(request, response);
}

export const { server, url } = await listen(handler, 0);

/** Browsers as the tests start them, and as they come: without WebGPU on this machine. */
const BROWSERS = {
  chromium: (webgpu, ...more) => chromium.launch({ executablePath: needChromium(), args: [...FLAGS, ...(webgpu ? WEBGPU : []), ...more] }),
  firefox(webgpu) {
    needVulkan();
    // Firefox as it is published, by WebDriver BiDi, and not Playwright's own.
    const channel = "moz-firefox";
    const firefoxUserPrefs = {
      ...(webgpu && { "dom.webgpu.enabled": true, "dom.webgpu.workers.enabled": true, "gfx.webgpu.ignore-blocklist": true }),
      // A page may read the clipboard without asking.
      "dom.events.testing.asyncClipboard": true,
      "network.dns.localDomains": INSECURE,
    };
    // Mesa complains where no desktop session has set it.
    const env = { XDG_RUNTIME_DIR: tmpdir(), ...process.env };
    return firefox.launch({ channel, executablePath: needFirefox(), firefoxUserPrefs, env });
  },
};
/** Which browser the tests run in: `BROWSER=firefox`, or Chromium. */
export const browserName = process.env.BROWSER ?? "chromium";
if (!Object.hasOwn(BROWSERS, browserName)) throw new Error(`BROWSER: ${browserName} is not allowed; allowed: ${Object.keys(BROWSERS).join(", ")}`);

/** The address of the tests' server on the host that browsers do not trust. */
export const insecureUrl = url.replace("localhost", INSECURE);

/** A browser of its own, for tests that break it. */
export const launch = () => BROWSERS[browserName](true);
/** One that has no WebGPU. */
export const launchWithoutWebGpu = () => BROWSERS[browserName](false);
/** One whose JavaScript engine is started with flags of Chromium's. */
export function launchWithFlags(flags) {
  if (browserName !== "chromium") throw new Skipped("needs Chromium's flags");
  return BROWSERS.chromium(false, `--js-flags=${flags}`);
}
/** The browser that the suites share. */
export const browser = await launch();
/** Codes of errors that reached a page. */
export const codes = new Set();
/** Violations of the content security policy, on any page. */
export const violations = [];

/** Thrown by a test that needs what this browser has not. */
export class Skipped extends Error {}

/** Chromium's own protocol, for a page of a context or for the browser. */
export function devtools(context, page) {
  if (browserName !== "chromium") throw new Skipped("needs Chromium's DevTools");
  return page ? context.newCDPSession(page) : context.newBrowserCDPSession();
}

/** In a page: keeps its workers, the oldest first, and logs the kinds of messages from workers and shared workers. */
function keepWorkers() {
  globalThis.workers = [];
  let last = "";
  const log = ({ data }) => {
    const { type = data, id = "", event, error } = data ?? {};
    const line = `from a worker: ${type} ${id} ${error?.message ?? Object.keys(event ?? {})}`;
    if (line !== last) console.debug(line);
    last = line;
  };
  globalThis.Worker = class extends Worker {
    constructor(...given) {
      super(...given);
      globalThis.workers.push(this);
      this.addEventListener("message", log);
    }

    terminate() {
      super.terminate();
      globalThis.workers.splice(globalThis.workers.indexOf(this), 1);
    }
  };
  if (globalThis.SharedWorker)
    globalThis.SharedWorker = class extends SharedWorker {
      constructor(...given) {
        super(...given);
        this.port.addEventListener("message", log);
      }
    };
}

/**
 * The lane of suites that this code belongs to, as `newLane` makes it. Its `fail(error)`, set by `run.mjs`, fails the present test of the
 * lane.
 */
export const lane = new AsyncLocalStorage();
/** `waiting`: descriptions of what is awaited; `log`: the last events of the pages. */
export const newLane = () => ({ waiting: new Set(), log: [] });

/** Awaits `work` and names it in the report of a test that hangs, with the line of the test. */
async function awaited(what, work) {
  const place = new Error().stack.match(/[\w-]+\.mjs:\d+/g)?.find((place) => !place.startsWith("harness")) ?? "";
  const waiting = lane.getStore()?.waiting;
  const entry = { what: `${what} ${place}` };
  waiting?.add(entry);
  try {
    return await work();
  } finally {
    waiting?.delete(entry);
  }
}

/** Waits until `holds()` is true. The test's timeout ends this. @param {string} what is waited for */
export const until = (what, holds) =>
  awaited(what, async () => {
    while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 20));
  });

/** Methods of a page that may wait. */
const METHODS = ["click", "close", "evaluate", "goto", "textContent", "waitForFunction", "waitForSelector"];

/** Keeps what a page and its workers do, for the report of a test that hangs. @param {import("playwright-core").Page} page */
export async function watch(page) {
  const { log } = lane.getStore();
  const add = (line) => {
    log.push(`${page.url()}: ${line}`);
    log.splice(0, log.length - 50);
    if (process.env.VERBOSE) console.log("  page:", line);
  };
  page.on("console", (message) => add(`${message.type()}: ${message.text()}`));
  page.on("pageerror", ({ message }) => add(`uncaught: ${message}`));
  page.on("crash", () => add("the page crashed"));
  page.on("worker", (worker) => {
    add(`a worker began: ${worker.url()}`);
    worker.on("close", () => add(`a worker ended: ${worker.url()}`));
  });
  for (const name of METHODS) {
    const call = page[name].bind(page);
    page[name] = (...given) => awaited(`page.${name}`, () => call(...given));
  }
  await page.addInitScript(keepWorkers);
}

/** Prints what a test that hangs waits for, and what its pages and their workers did. @param {ReturnType<typeof newLane>} store */
export const report = ({ waiting, log }) =>
  console.error([...[...waiting].map(({ what }) => `    waits for ${what}`), ...log.map((line) => `    ${line}`)].join("\n"));

/**
 * Answers the page's requests for `pattern` with `handler`. Playwright calls handlers outside of any test and drops their promises, so an
 * error is given to the present test of the lane that asked for the route.
 */
export const intercept = (page, pattern, handler) => {
  const present = lane.getStore();
  return page.route(pattern, (route) => handler(route).catch((error) => page.isClosed() || present.fail(error)));
};

/** Serves the page's files of `pattern` with their text changed by `change`. A connection that the server resets is retried. */
export const rewrite = (page, pattern, change) =>
  intercept(page, pattern, async (route) => {
    const response = await route.fetch({ maxRetries: 5 });
    await route.fulfill({ response, body: change(await response.text()) });
  });

/** Adds to the page's workers of this script functions that run when a message names them: a browser may have no other way into workers. */
export const teach = (page, lessons, script = "worker.js") =>
  rewrite(page, `**/${script}`, (text) => {
    const lines = Object.entries(lessons).map(([name, lesson]) => `addEventListener("message", ({ data }) => data === "${name}" && ${name}());\n${lesson}`);
    return [text, ...lines].join("\n");
  });

/** How many workers a page has; to WebDriver BiDi they do not show. */
export const countWorkers = async (page) => (browserName === "chromium" ? page.workers().length : page.evaluate(() => globalThis.workers.length));

/**
 * A page that has imported the engine: `Engine`, `ForetokenError`, `failed(promise)`, the addresses `TALES`, `DRAFT`.
 * Pages of one context share what is stored; a context by default has one page.
 * @param {import("playwright-core").BrowserContext | import("playwright-core").Browser} [within]
 * @param {string} [path] of the page
 */
export async function open(within = browser, path = "/blank/") {
  const page = await within.newPage();
  page.setDefaultTimeout(240_000);
  await watch(page);
  page.on("console", (message) => {
    if (/Content.Security.Policy|TrustedScript/i.test(message.text())) violations.push(message.text());
  });
  await page.exposeFunction("sawCode", (code) => codes.add(code));
  await page.goto(path.startsWith("/") ? url + path : path);
  await page.evaluate(async () => {
    Object.assign(globalThis, await import("/engine.js"));
    // Here every adapter computes on the CPU, which auto would not take.
    const { load } = Engine;
    Engine.load = (model, options) =>
      load.call(Engine, model, options === undefined || options?.constructor === Object ? { device: "webgpu", ...options } : options);
    globalThis.failed = (promise) =>
      promise.then(
        () => null,
        ({ constructor, code, message, detail }) => {
          sawCode(code);
          return { is: constructor === ForetokenError, code, message, detail };
        },
      );
    globalThis.TALES = "/models/tales/target";
    globalThis.DRAFT = "/models/tales/draft";
  });
  return page;
}

export const equal = (found, wanted, what) => {
  const [a, b] = [found, wanted].map((value) => JSON.stringify(value));
  if (a !== b) throw new Error(`${what}: ${a} instead of ${b}`);
};
export const check = (holds, what) => {
  if (!holds) throw new Error(what);
};
