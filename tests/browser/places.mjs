// Where a page lacks something: shared workers, an origin, workers at all, a secure connection, storage, a file of the package.
import { Skipped, browser, browserName, check, equal, faults, insecureUrl, intercept, open, rewrite, teach, url } from "./harness.mjs";

/** Serves files that every origin may read, without a policy. */
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
    }).catch(({ code, message }) => ({ code, message })).then((found) => parent.postMessage(found, "*"));`;
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
      Engine.load("/models/tales/draft").then(() => ({}), ({ code, message }) => ({ code, message })).then((found) => source.postMessage(found)));`;
  response.writeHead(200, { "Content-Type": "text/javascript" }).end(code);
};

/** In the engine's worker: the browser forbids storage, or has no space for a layer's keys and values. */
function forbid() {
  navigator.storage.getDirectory = async () => {
    throw new DOMException("the user said no", "SecurityError");
  };
}
function fill() {
  const { prototype } = FileSystemSyncAccessHandle;
  let writes = 0;
  prototype.write = new Proxy(prototype.write, { apply: (write, handle, given) => (writes++ > 2 ? 0 : Reflect.apply(write, handle, given)) });
}

export const tests = {
  async "a .wasm file that is not served is an error with its address"() {
    const page = await open();
    for (const wasm of [`${url}/models/nothing.wasm`, `${url}/blank/page.wasm`]) {
      const error = await page.evaluate((wasm) => failed(Engine.load(DRAFT, { device: "cpu", wasm: `${wasm}?secret` })), wasm);
      equal([error?.is, error?.code, error?.detail.url], [true, "network", wasm], error?.message);
      check(error.message.startsWith(wasm) && error.message.includes("beside worker.js") && !error.message.includes("secret"), error.message);
    }
    await rewrite(page, "**/worker.js", (text) => text.replaceAll("grammar_bg.wasm", "nowhere.wasm"));
    const error = await page.evaluate(async () => {
      const engine = await Engine.load(DRAFT, { device: "cpu" });
      const error = await failed(engine.generate("A", { response_format: { type: "json_object" } }).result);
      engine.close();
      return error;
    });
    equal([error?.is, error?.code, error?.detail.url], [true, "network", `${url}/nowhere.wasm`], error?.message);
    await page.close();
  },

  async "a file of the package that is gone after a deploy is an error of the network"() {
    for (const [file, call] of [
      ["candidates.js", "Engine.load([DRAFT])"],
      ["chat.js", "engine.chat.completions.create({ messages: [{ role: 'user', content: 'A' }] })"],
      ["chat.js", "engine.embeddings.create({ input: 'A' })"],
      ["tools.js", "engine.chat.completions.create({ messages: [{ role: 'user', content: 'A' }], tools: [] })"],
      ["storage.js", "Engine.cache.list()"],
      ["storage.js", "engine.chat.list()"],
    ]) {
      const page = await open(browser, "/isolated/");
      await intercept(page, `**/${file}`, (route) => route.fulfill({ status: 404 }));
      const error = await page.evaluate(async (call) => {
        const engine = call.includes("engine") && (await Engine.load(DRAFT, { device: "cpu" }));
        const error = await failed(eval(call));
        if (engine) engine.close();
        return error;
      }, call);
      equal([error?.is, error?.code], [true, "network"], `${call}: ${error?.message}`);
      check(error.message.includes("Reload the page"), error.message);
      await page.close();
    }
  },

  async "on a page that is not secure conversations are not kept, and the error says why"() {
    const page = await open(browser, `${insecureUrl}/isolated/`);
    const found = await page.evaluate(async () => {
      const engine = await Engine.load(DRAFT, { device: "cpu" });
      const chat = engine.chat({ max_new_tokens: 4 });
      await chat.send("Hello.").result;
      const calls = [chat.save("x"), engine.chat.restore("x"), engine.chat.list(), engine.chat.delete("x")];
      const errors = await Promise.all(calls.map(failed));
      return { isSecureContext, errors, warnings: engine.warnings.filter((text) => text.startsWith("cache: ")), cached: await Engine.cache.list() };
    });
    await page.close();
    equal([found.isSecureContext, found.cached], [false, []], "the page");
    for (const error of found.errors) {
      equal([error?.is, error?.code], [true, "storage"], error?.message);
      check(error.message.includes("a secure page, https or localhost"), error.message);
    }
    equal(found.warnings.length, 1, "warnings");
    check(found.warnings[0].includes("secure pages"), found.warnings[0]);
  },

  async "a conversation that cannot be saved is an error of storage, and leaves the one that was"() {
    const page = await open(await browser.newContext());
    await teach(page, { forbid, fill });
    const found = await page.evaluate(async () => {
      const engine = await Engine.load(DRAFT, { device: "cpu" });
      const chat = engine.chat({ max_new_tokens: 4 });
      await chat.send("Hello.").result;
      await chat.save("kept");
      const before = await engine.chat.list();
      workers[0].postMessage("fill");
      await chat.send("More.").result;
      const full = [await failed(chat.save("kept")), await failed(chat.save("new"))];
      const after = await engine.chat.list();
      const restored = (await engine.chat.restore("kept")).messages.length;
      workers[0].postMessage("forbid");
      const refused = [await failed(chat.save("kept")), await failed(engine.chat.restore("kept"))];
      const { getDirectory } = StorageManager.prototype;
      StorageManager.prototype.getDirectory = async () => {
        throw new DOMException("the user said no", "SecurityError");
      };
      refused.push(await failed(engine.chat.list()), await failed(engine.chat.delete("kept")));
      StorageManager.prototype.getDirectory = getDirectory;
      return { before, full, after, restored, refused };
    });
    for (const [errors, said] of [
      [found.full, "no space"],
      [found.refused, "SecurityError"],
    ])
      for (const error of errors) {
        equal([error?.is, error?.code], [true, "storage"], error?.message);
        check(error.message.includes(said), error.message);
      }
    equal([found.after, found.restored], [found.before, 2], "what was saved before");
    await page.context().close();
  },

  async "conversations are saved under any name, and what a cut save left goes"() {
    const page = await open(await browser.newContext());
    const names = [".", "..", "a/b", "fox & wolf", "x".repeat(1000), "\ud800", "\ud801"].map((name) => JSON.stringify(name));
    const found = await page.evaluate(async (names) => {
      const engine = await Engine.load(DRAFT, { device: "cpu" });
      const all = names.map((name) => JSON.parse(name));
      const saves = [];
      for (const [index, name] of all.entries()) {
        const chat = engine.chat({ messages: Array.from({ length: index + 1 }, () => ({ role: "user", content: "Hello." })) });
        saves.push((await failed(chat.save(name)))?.message);
      }
      // As a worker leaves it that is killed while it saves.
      const root = await (await navigator.storage.getDirectory()).getDirectoryHandle("foretoken-chats");
      await (await root.getDirectoryHandle("cut", { create: true })).getFileHandle("0-abc", { create: true });
      const listed = (await engine.chat.list()).map(({ name, messages }) => [JSON.stringify(name), messages]);
      const lengths = [];
      for (const name of all) lengths.push((await engine.chat.restore(name)).messages.length);
      const deleted = await Promise.all(all.map((name) => engine.chat.delete(name)));
      const left = [];
      for await (const name of root.keys()) left.push(name);
      return { saves: saves.filter(Boolean), listed, lengths, deleted, left };
    }, names);
    equal(found.saves, [], "errors");
    equal(found.listed.sort(), names.map((name, index) => [name, index + 1]).sort(), "the list");
    equal(found.lengths, [1, 2, 3, 4, 5, 6, 7], "messages");
    check(found.deleted.every(Boolean) && !found.left.length, `left: ${found.left}`);
    await page.context().close();
  },

  async "without SharedWorker each page has an engine of its own, and one warning says so"() {
    const page = await open();
    const found = await page.evaluate(async () => {
      delete globalThis.SharedWorker;
      const engine = await Engine.load(DRAFT, { device: "cpu", shared: true });
      const { text } = await engine.generate("Once upon a time", { max_new_tokens: 4 }).result;
      engine.close();
      return { text, shared: engine.warnings.filter((text) => text.includes("shared")) };
    });
    check(found.text, "no text");
    equal(found.shared.length, 1, "warnings");
    await page.close();
  },

  async "a sandboxed frame, which has no origin, runs the engine"() {
    const page = await browser.newPage();
    await page.addInitScript(() => {
      if (globalThis.parent === globalThis) globalThis.found = new Promise((resolve) => addEventListener("message", ({ data }) => resolve(data)));
    });
    await page.goto(`${url}/sandbox/`);
    const found = await page.evaluate(() => globalThis.found);
    check(found.text, JSON.stringify(found));
    equal([found.warnings.filter((text) => text.startsWith("shared: ")).length, found.cached], [1, []], "warnings, what is kept");
    await page.close();
  },

  async "a service worker, which can start no worker, gets an error that says what to do"() {
    if (browserName !== "chromium") throw new Skipped("needs service workers that are modules");
    const page = await open(browser, "/isolated/");
    const found = await page.evaluate(async () => {
      const registration = await navigator.serviceWorker.register("/service.js", { type: "module" });
      await navigator.serviceWorker.ready;
      const found = new Promise((resolve) => (navigator.serviceWorker.onmessage = ({ data }) => resolve(data)));
      registration.active.postMessage("load");
      const answer = await found;
      await registration.unregister();
      return answer;
    });
    equal(found.code, "internal", found.message);
    check(found.message.includes("a page, or an offscreen document"), found.message);
    await page.close();
  },
};
