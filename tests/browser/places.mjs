// Where a page lacks something: shared workers, an origin, workers at all.
import { Skipped, browser, browserName, check, equal, faults, open, url } from "./harness.mjs";

/** What every origin may read, under no policy. */
faults.shared = (_, response) => {
  const { writeHead } = response;
  response.writeHead = (status, { "Content-Security-Policy": policy, ...headers }) =>
    writeHead.call(response, status, { ...headers, "Access-Control-Allow-Origin": "*", "Cross-Origin-Resource-Policy": "cross-origin" });
};
/** A page with a sandboxed frame, whose origin is opaque. */
faults.sandbox = (_, response) => {
  const code = `
    import("${url}/shared/engine.js").then(async ({ Engine }) => {
      const engine = await Engine.load("${url}/shared/models/tales/draft/", { device: "cpu", shared: true });
      const { text } = await engine.generate("Once upon a time", { max_new_tokens: 4 }).result;
      return { text, warnings: engine.warnings, cached: await Engine.cache.list() };
    }).catch(({ code, message }) => ({ code, message })).then((told) => parent.postMessage(told, "*"));`;
  const frame = `<script type="module">${code}</script>`.replaceAll("&", "&amp;").replaceAll('"', "&quot;");
  response
    .writeHead(200, { "Content-Type": "text/html" })
    .end(`<!doctype html><title>sandbox</title><iframe sandbox="allow-scripts" srcdoc="${frame}"></iframe>`);
};
/** A service worker that loads the engine, and says what comes of it. */
faults["service.js"] = (_, response) => {
  const code = `
    import { Engine } from "${url}/engine.js";
    addEventListener("message", ({ source }) =>
      Engine.load("/models/tales/draft").then(() => ({}), ({ code, message }) => ({ code, message })).then((told) => source.postMessage(told)));`;
  response.writeHead(200, { "Content-Type": "text/javascript" }).end(code);
};

export const tests = {
  async "without SharedWorker each page has an engine of its own, and one warning says so"() {
    const page = await open();
    const told = await page.evaluate(async () => {
      delete globalThis.SharedWorker;
      const engine = await Engine.load(DRAFT, { device: "cpu", shared: true });
      const { text } = await engine.generate("Once upon a time", { max_new_tokens: 4 }).result;
      engine.dispose();
      return { text, shared: engine.warnings.filter((text) => text.includes("shared")) };
    });
    check(told.text, "no text");
    equal(told.shared.length, 1, "warnings");
    await page.close();
  },

  async "a sandboxed frame, which has no origin, runs the engine"() {
    const page = await browser.newPage();
    await page.addInitScript(() => {
      if (globalThis.parent === globalThis) globalThis.told = new Promise((resolve) => addEventListener("message", ({ data }) => resolve(data)));
    });
    await page.goto(`${url}/sandbox/`);
    const told = await page.evaluate(() => globalThis.told);
    check(told.text, JSON.stringify(told));
    equal([told.warnings.filter((text) => text.startsWith("shared: ")).length, told.cached], [1, []], "warnings, what is kept");
    await page.close();
  },

  async "a service worker, which can start no worker, is told what to do"() {
    if (browserName !== "chromium") throw new Skipped("needs service workers that are modules");
    const page = await open(browser, "/isolated/");
    const told = await page.evaluate(async () => {
      const registration = await navigator.serviceWorker.register("/service.js", { type: "module" });
      await navigator.serviceWorker.ready;
      const told = new Promise((resolve) => (navigator.serviceWorker.onmessage = ({ data }) => resolve(data)));
      registration.active.postMessage("load");
      const answer = await told;
      await registration.unregister();
      return answer;
    });
    equal(told.code, "internal", told.message);
    check(told.message.includes("a page, or an offscreen document"), told.message);
    await page.close();
  },
};
