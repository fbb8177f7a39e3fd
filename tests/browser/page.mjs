// The demo page's race, the documents and the simulator, as a visitor uses them.
import { readFileSync } from "node:fs";
import { browserName, check, equal, faults, rewrite, teach, url } from "./harness.mjs";
import { HEIGHT, busy, closeBrowser, idle, inspect, openBrowser, repo, report, said, text, type, until, visit, write } from "./visitor.mjs";

/** A host of plain files, which sends no policy. */
faults.static = (_, response) => {
  const { writeHead } = response;
  response.writeHead = (status, { "Content-Security-Policy": policy, ...headers }) => writeHead.call(response, status, headers);
};

/** While there is one, the tales pair waits for it. */
let gate;
faults.demo = async (_, response, rest) => {
  if (rest[0] === "tales") await gate;
  rest.unshift("demo");
};

/** In a worker: readbacks wait for an abort. */
function hold() {
  const { mapAsync } = GPUBuffer.prototype;
  const aborted = new Promise((resolve) => addEventListener("message", ({ data }) => data.type === "abort" && resolve()));
  GPUBuffer.prototype.mapAsync = async function (...range) {
    await aborted;
    return mapAsync.apply(this, range);
  };
}

let page;
export const before = async () => {
  await openBrowser();
  page = await visit({ before: (page) => teach(page, { hold }, "engine-worker.js") });
  if (browserName === "chromium") await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
};
export const after = closeBrowser;

/** A stand-in for engine.js whose model, GPU and errors all say hostile things. */
const hostile = `
  const HOSTILE = ["<img src=x onerror='globalThis.hacked = 1'>", "</script><script>globalThis.hacked = 1</script>", "[x](javascript:alert(1))",
    "<a href='javascript:alert(1)'>x</a>", "\\u202e\\u2066\\u202b reversed", "{{constructor.constructor('alert(1)')()}}", "y".repeat(1 << 20)];
  export class ForetokenError extends Error {}
  export class Engine {
    static cache = { list: async () => [] };
    static async load() { return new Engine(); }
    warnings = [];
    device = { name: HOSTILE.join(" ").slice(0, 5000) };
    memory = { target: { weights: 1, kv: 1, scratch: 1 }, draft: null };
    close() {}
    generate(prompt, { max_new_tokens }) {
      if (max_new_tokens === 1) return { result: Promise.reject(new Error(HOSTILE.join(" "))), async *[Symbol.asyncIterator]() { await this.result; } };
      const ids = HOSTILE.map((_, id) => id);
      const stats = { times: { tokens_per_second: 1 }, num_emitted_tokens: 7, num_spec_steps: 7, num_draft_tokens: 7, mean_acceptance_length: 1,
        draft_acceptance_rate: 1, per_step_accepted: ids, per_step_drafted: ids, warnings: HOSTILE };
      return {
        result: Promise.resolve({ token_ids: ids, stats }),
        async *[Symbol.asyncIterator]() { for (const text of HOSTILE) yield { text, tokens: [{ id: 0, text, origin: text === HOSTILE[0] ? text : "lookup" }] }; },
      };
    }
  }`;

export const tests = {
  async "before a run the page is sound, and loading can be cancelled"() {
    await inspect(page, "before");
    check((await said(page)).includes("less motion"), await said(page));
    let open;
    gate = new Promise((resolve) => (open = resolve));
    try {
      await page.click("#start");
      await page.click("#cancel");
      await idle(page);
    } finally {
      open();
    }
    equal(await said(page), "Stopped.", "status");
    check(await page.isHidden("#download"), "the progress bar stays");
  },

  async "a race runs to its end, fills the charts, and model text stays text"() {
    await page.evaluate(() => {
      globalThis.announced = 0;
      const spoken = document.querySelectorAll("[role=status], [aria-live], output");
      for (const each of spoken) new MutationObserver(() => globalThis.announced++).observe(each, { childList: true, characterData: true, subtree: true });
    });
    await type(page, { max_new_tokens: "8" });
    await write(page);
    const claim = await text(page, "claim");
    check(/the same 8 tokens/i.test(claim), claim);
    const { texts, markup, announced, charts } = await page.evaluate(async () => {
      // Charts are drawn in the next frame.
      await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
      const count = (selector) => document.querySelectorAll(selector).length;
      // A text of one round has no speed.
      const points = (lane) => document.querySelector(`polyline.${lane}`)?.getAttribute("points").split(" ").length ?? 0;
      return {
        texts: [...document.querySelectorAll(".text")].map(({ textContent }) => textContent),
        markup: [...document.querySelectorAll(".text *")].every(({ tagName, childElementCount }) => tagName === "SPAN" && !childElementCount),
        announced: globalThis.announced,
        charts: {
          fast: points("speculative"),
          plain: points("plain"),
          accepted: count("rect.accepted"),
          proposed: count("rect.proposed"),
          told: [...document.querySelectorAll(".chart")].map((chart) => chart.getAttribute("aria-label")),
        },
      };
    });
    check(texts[0].includes("king who had a daughter who was called"), texts[0]);
    equal(texts[0], texts[1], "texts");
    check(markup, "spans only");
    check(announced > 0 && announced < 12, `${announced} announcements`);
    const { speculative, plain, device, memory } = await report(page);
    equal([speculative.num_emitted_tokens, plain.num_emitted_tokens], [8, 8], "the option's way to the engine");
    // Of 6.95 and 0.6 million parameters.
    check(memory.target.weights < 9e6 && memory.draft.weights < 0.8e6, `not 8 bits: ${JSON.stringify(memory)}`);
    const { num_spec_steps: rounds, num_accepted_draft_tokens: kept } = speculative;
    const { told, ...counts } = charts;
    // A speed lies between two rounds.
    equal(counts, { fast: rounds - 1, plain: plain.num_spec_steps - 1, accepted: rounds, proposed: rounds }, "marks");
    check(told[0].includes(`${rounds} rounds accepted ${kept},`), told[0]);
    check(told[1].includes("Guessing ahead: between") && told[1].includes("One token at a time: between"), told[1]);
    const ratio = speculative.times.tokens_per_second / plain.times.tokens_per_second;
    const shown = parseFloat(await text(page, "ratio"));
    // On a busy machine guesses may save no time: then the page counts passes and shows no ratio.
    const faster = ratio >= 1.05 ? Number(ratio.toFixed(ratio < 9.95 ? 1 : 0)) : null;
    const passes = rounds < plain.num_spec_steps ? rounds : null;
    equal(shown, speculative.num_draft_tokens ? (faster ?? passes) : null, `the number for a ratio of ${ratio}`);
    const where = await text(page, "measured-on");
    check(ratio >= 0.95 || /cost more time than they saved/.test(where) || /No guess was made/.test(claim), `slower, and it is not said: ${claim} ${where}`);
    check((await text(page, "measured-on")).includes(device.name || device.driver), "the device");
    await page.evaluate(() => (document.getElementById("settings").open = document.getElementById("statistics").open = true));
    await inspect(page, "after");
    await page.click("#copy-report");
    await page.waitForFunction(() => document.getElementById("copied-report").textContent === "Copied.");
    equal(JSON.parse(await page.evaluate(() => navigator.clipboard.readText())), await report(page), "clipboard");
  },

  async "short texts are written several times, in turns, and the one of middle speed counts"() {
    const [short, long] = await page.evaluate(async () => {
      const { repeat } = await import("/demo/record.js");
      const recording = (tokens_per_second, total) => ({ rounds: [], generation: { stats: { times: { total, tokens_per_second } } } });
      const run = async (total, speeds) => {
        const asked = [];
        const first = { plain: recording(speeds.plain.shift(), total), speculative: recording(speeds.speculative.shift(), total) };
        const counted = await repeat(first, async (way) => {
          asked.push(way);
          return recording(speeds[way].shift(), total);
        });
        return [asked, Object.values(counted).map(({ generation }) => generation.stats.times.tokens_per_second)];
      };
      return [await run(0.02, { plain: [9, 100, 101, 99, 500], speculative: [20, 200, 201, 7, 199] }), await run(0.6, { plain: [9], speculative: [20] })];
    });
    equal(short, [Array(4).fill(["plain", "speculative"]).flat(), [100, 199]], "of 20 ms each");
    equal(long, [[], [9, 20]], "of 600 ms each");
  },

  async "a task is one click, and one's own lookahead and drafter reach the engine"() {
    await type(page, { max_new_tokens: "6" });
    await page.click("[data-preset=rename]");
    await idle(page);
    equal((await report(page)).options, { max_new_tokens: 6 }, "a task's options");
    await page.selectOption("#drafter", "draft_model");
    await page.focus("#lookahead");
    for (const key of ["Home", "ArrowRight", "ArrowRight"]) await page.keyboard.press(key);
    equal(await text(page, "lookahead-value"), "2 a round", "the slider");
    await write(page);
    const { options, prompt, speculative } = await report(page);
    equal(options, { max_new_tokens: 6, drafter: "draft_model", num_assistant_tokens: 2, num_assistant_tokens_schedule: "constant" }, "options");
    check(prompt[0].content.startsWith("Put") && Math.max(...speculative.per_step_drafted) === 2, "the task");
    check((await text(page, "meaning")).includes(`${speculative.num_draft_tokens} guesses were made`), await text(page, "meaning"));
    await page.evaluate(() => (document.getElementById("settings").open = true));
    await page.click("#reset");
    equal([await text(page, "lookahead-value"), await page.inputValue("#drafter")], ["as many as pay", ""], "the defaults again");
  },

  async "no task carries an option that has no effect, as a seed has where nothing is drawn"() {
    for (const preset of ["open", "retell"]) {
      await type(page, { max_new_tokens: "4", do_sample: "model" });
      await page.click(`[data-preset=${preset}]`);
      await idle(page);
      const { options, plain, speculative } = await report(page);
      equal(options, { max_new_tokens: 4, do_sample: "model" }, "options");
      equal([plain.seed, speculative.seed], [null, null], "the tales pair's makers advise no draws");
      check(!(await text(page, "warnings")).includes("had no effect"), await text(page, "warnings"));
    }
    await type(page, { do_sample: "true" });
    await write(page);
    const { options, plain, speculative } = await report(page);
    check(plain.seed !== null && plain.seed === options.seed && plain.seed === speculative.seed, `seeds: ${[options.seed, plain.seed, speculative.seed]}`);
    await type(page, { do_sample: "" });
  },

  async "a keyboard is enough: Tab and Enter start, Escape stops, and what was done is told"() {
    // Readbacks are held so that the text can be stopped, and only the GPU has them.
    await type(page, { max_new_tokens: "2", device: "webgpu" });
    await write(page);
    await type(page, { max_new_tokens: "300" });
    await page.evaluate(() => {
      for (const fold of document.querySelectorAll("details")) fold.open = false;
      document.activeElement.blur();
    });
    await page.click("#stage-title");
    const visited = [];
    while (visited.at(-1) !== "write" && visited.length < 40) {
      await page.keyboard.press("Tab");
      visited.push(
        await page.evaluate(() => {
          const { id, dataset, className, outlineWidth = getComputedStyle(document.activeElement).outlineWidth } = document.activeElement;
          return parseFloat(outlineWidth) >= 2 ? id || dataset.preset || dataset.tab || className : "no visible focus";
        }),
      );
    }
    equal(
      visited,
      [
        "copy-install",
        "share",
        "text",
        "text",
        "run-real",
        "open",
        "retell",
        "rename",
        "continue",
        "prompt",
        "kind",
        "drafter",
        "lookahead",
        "option-max_new_tokens",
        "tab-chat",
        "write",
      ],
      "the order of Tab",
    );
    await page.evaluate(() => {
      const observer = new MutationObserver(() => {
        if (document.querySelectorAll("#speculative .token").length <= 2) return;
        observer.disconnect();
        workers.at(-1).postMessage("hold");
      });
      observer.observe(document.getElementById("speculative"), { childList: true, subtree: true });
    });
    await page.keyboard.press("Enter");
    await busy(page);
    await until(page, "three tokens", () => document.querySelectorAll("#speculative .token").length > 2);
    await page.keyboard.press("Escape");
    await idle(page);
    equal(await said(page), "Stopped.", "status");
    equal(await page.evaluate(() => document.activeElement.id), "write", "focus");
    const { speculative, plain } = await report(page);
    check(speculative.num_emitted_tokens > 2 && plain.num_emitted_tokens >= speculative.num_emitted_tokens, "the statistics of what was written");
  },

  async "what the engine refuses is shown in its words, at the field"() {
    await page.evaluate(() => (document.getElementById("settings").open = true));
    for (const [name, value] of [
      ["max_new_tokens", "0"],
      ["num_assistant_tokens", "many"],
      ["max_matching_ngram_size", "65"],
    ]) {
      await type(page, { [name]: value });
      await page.click("#write");
      await idle(page);
      const problem = await text(page, "problem");
      check(problem.includes(name) && problem.endsWith("(bad-option)"), problem);
      equal(await page.evaluate(() => [document.activeElement.id, document.activeElement.ariaInvalid]), [`option-${name}`, "true"], "the field");
      check(problem.startsWith(await page.getAttribute(`#hint-${name}`, "data-refused")), "the words beside it");
      await page.click("#reset");
      check((await page.inputValue(`#option-${name}`)) === (name === "max_new_tokens" ? "96" : ""), "the default again");
    }
  },

  async "hostile model text, names and errors stay text"() {
    const heard = [];
    const other = await visit({ before: (page) => page.route("**/engine.js", (route) => route.fulfill({ contentType: "text/javascript", body: hostile })) });
    other.on("dialog", (dialog) => heard.push(dialog.message()) && dialog.dismiss());
    const run = async () => {
      await other.click("#write");
      await idle(other);
    };
    await other.setViewportSize({ width: 360, height: HEIGHT });
    await run();
    check((await text(other, "claim")).toLowerCase().includes("the same 7 tokens"), await text(other, "problem"));
    equal((await other.textContent("#plain .text")).length > 1 << 20, true, "all of the text");
    await other.fill("#option-max_new_tokens", "1");
    await run();
    check((await text(other, "problem")).includes("onerror"), "the error");
    const found = await other.evaluate(() => ({
      hacked: globalThis.hacked,
      active: document.querySelectorAll("main :is(img, script, iframe, object, embed), .text a, #report a").length,
      tokens: [...document.querySelectorAll(".text *")].every((each) => each.matches("span") && !each.childElementCount),
      names: document.querySelectorAll("#measured-on *, #problem *, #warnings li *, #report *").length,
      warnings: document.querySelectorAll("#warnings li").length,
      over: Math.max(0, document.documentElement.scrollWidth - innerWidth),
    }));
    equal(found, { active: 0, tokens: true, names: 0, warnings: 7, over: 0 }, "the page");
    equal(heard, [], "dialogs");
    // Without the clipboard the text is selected for the visitor.
    await other.evaluate(() => Object.defineProperty(navigator, "clipboard", { value: undefined }));
    await other.click("#statistics summary");
    await other.click("#copy-report");
    await other.waitForFunction(() => document.getElementById("copied-report").textContent.startsWith("Selected"));
    check((await other.evaluate(() => getSelection().toString())).includes("num_emitted_tokens"), "the selection");
    await other.close();
  },

  async "an engine that is of no more use is let go, and no other"() {
    const body = `
      export class ForetokenError extends Error {}
      export class Engine {
        static cache = { list: async () => [] };
        static load = async () => new Engine();
        warnings = [];
        device = { name: "GPU" };
        memory = { target: { weights: 1, kv: 1, scratch: 1 }, draft: null };
        close() {}
        generate(code) { return { result: new Promise(() => {}), async *[Symbol.asyncIterator]() { throw Object.assign(new ForetokenError(code), { code }); } }; }
      }`;
    const other = await visit({ before: (page) => page.route("**/engine.js", (route) => route.fulfill({ contentType: "text/javascript", body })) });
    for (const [code, state] of [
      ["context-full", "loaded"],
      ...["device-lost", "gpu-blocked", "internal", "out-of-gpu-memory"].map((code) => [code, "not loaded yet"]),
    ]) {
      await other.fill("#prompt", code);
      await other.click("#write");
      await idle(other);
      equal(await text(other, "problem"), `${code} (${code})`, "the problem");
      equal(await text(other, "model-state"), state, code);
    }
    await other.close();
  },

  async "on a host that sends no policy the page has its own: it works, and what was injected does not"() {
    const refused = [];
    const other = await visit({
      path: "/static/demo/#race?model=%2Fmodels%2Ftales%2Fdraft&max_new_tokens=4&max_context=64",
      errors: refused,
      before: (page) =>
        page.addInitScript(() => {
          globalThis.broken = [];
          document.addEventListener("securitypolicyviolation", ({ effectiveDirective }) => globalThis.broken.push(effectiveDirective));
        }),
    });
    const [answer] = await other.evaluate(async () => [(await fetch(location.href)).headers.get("content-security-policy")]);
    equal(answer, null, "the host's policy");
    await write(other);
    await other.goto(`${url}/static/demo/docs/simulator.html`);
    await other.waitForSelector("#heatmaps svg");
    equal(refused, [], "errors");
    const injected = "<script>globalThis.injected = 1</script><img src='icon.svg' onload='globalThis.injected = 1'>";
    await rewrite(other, "**/static/demo/", (text) => text.replace("</body>", `${injected}</body>`));
    await other.goto(`${url}/static/demo/`);
    // What a debugger evaluates may evaluate more; code that it leaves in the page may not.
    const evaluated = await other.evaluate(
      () =>
        new Promise((done) =>
          setTimeout(() => {
            const outcome = (code) => {
              try {
                return code();
              } catch ({ name }) {
                return name;
              }
            };
            const script = document.createElement("script");
            const text = () => document.body.append(Object.assign(script, { textContent: "globalThis.injected = 2" }));
            done([outcome(() => (0, eval)("1")), outcome(text), globalThis.injected]);
          }),
        ),
    );
    equal(evaluated, ["EvalError", "TypeError", undefined], "eval; a script's text, by trusted types; what ran");
    const broken = await other.evaluate(() => globalThis.broken);
    for (const what of ["script-src-elem", "script-src-attr"]) check(broken.includes(what), `${what}: ${broken}`);
    await other.close();
  },

  async "without WebGPU the page runs on the CPU, says so, and says what to do"() {
    for (const [userAgent, own] of [
      [undefined, browserName === "firefox" ? "Firefox" : "Chrome"],
      ["Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox"],
    ]) {
      const without = () => Object.defineProperty(Navigator.prototype, "gpu", { value: undefined });
      const other = await visit({ path: "/demo/#race?max_new_tokens=4", userAgent, before: (page) => page.addInitScript(without) });
      await other.click("#start");
      await idle(other);
      check(
        /on the CPU with \d+ threads?, because this page gets no GPU here/.test(await text(other, "measured-on")),
        `${await text(other, "measured-on")} ${await text(other, "problem")}`,
      );
      await other.click("#why-cpu");
      const names = await other.$$eval("#help h3", (all) => all.map(({ textContent }) => textContent));
      equal(names.length, 4, "browsers");
      check(names[0].startsWith(`${own}, which`), names[0]);
      if (own === "Firefox") await inspect(other, "help");
      await type(other, { device: "webgpu" });
      await other.click("#write");
      await idle(other);
      check((await text(other, "problem")).endsWith("(webgpu-unavailable)"), await text(other, "problem"));
      await other.close();
    }
  },

  async "the simulator follows its sliders, and asks for no GPU"() {
    const other = await visit({
      path: "/demo/docs/simulator.html",
      before: (page) =>
        page.addInitScript(() => {
          globalThis.asked = 0;
          if (globalThis.GPU) GPU.prototype.requestAdapter = async () => (globalThis.asked++, null);
          globalThis.Worker = class {
            constructor() {
              globalThis.asked++;
            }
          };
        }),
    });
    await other.waitForSelector("#heatmaps svg");
    const shows = (id, words) => other.waitForFunction(([id, words]) => document.getElementById(id).textContent.includes(words), [id, words]);
    const told = await other.textContent("#simulated");
    check(/^Plain decoding takes 600 ms, SI .* ms, DSI .* ms: DSI wins/.test(told), told);
    check(!(await other.textContent("#timeline")).includes("acceptance 0,"), "the timeline at first");
    await other.focus("#sim-acceptance");
    await other.keyboard.press("Home");
    await shows("timeline", "acceptance 0,");
    check((await other.textContent("#simulated")) !== told, "the words of the timeline");
    equal(await other.textContent("#sim-acceptance-value"), "0", "the value");
    await other.focus("#sim-sp");
    await other.keyboard.press("End");
    await shows("heatmaps", "SP degree 8");
    await shows("timeline", "server 8");
    await other.selectOption("#sim-pair", { label: "StarCoder 15B / 168M, HumanEval" });
    await shows("timeline", "target 20.6 ms, drafter 6.8 ms, acceptance 0.93");
    await inspect(other, "simulator");
    equal(await other.evaluate(() => globalThis.asked), 0, "GPUs and workers");
    await other.close();
  },

  async "the simulator takes what the pair measures on this device"() {
    const other = await visit({ path: "/demo/docs/simulator.html" });
    await other.waitForSelector("#heatmaps svg");
    const status = (words) => other.waitForFunction((words) => document.getElementById("sim-status").textContent.includes(words), words);
    await other.click("#sim-here");
    await status("Measuring");
    equal(await text(other, "sim-here"), "Stop", "the button during a measurement");
    await status("Measured here");
    const said = await text(other, "sim-status");
    check(/^Measured here: target [\d.]+ ms, drafter [\d.]+ ms, acceptance 0\.\d\d\.$/.test(said), said);
    const [, target] = /target ([\d.]+) ms/.exec(said);
    check(Math.abs((await other.inputValue("#sim-target")) - target) <= Math.max(0.1, target / 100), "the slider");
    await other.click("#sim-here");
    await other.click("#sim-here");
    await status("Stopped.");
    equal(await text(other, "sim-here"), "Measure this device", "the button after it");
    await other.close();
  },

  async "the documents are pages, and their links lead somewhere"() {
    const other = await visit({ path: "/demo/" });
    const documents = await other.$$eval("footer a[href^=docs]", (links) => links.map(({ href }) => href));
    check(documents.length > 1 && documents.some((address) => address.endsWith("simulator.html")), `${documents}`);
    const known = new Map();
    const open = async (address) => {
      if (known.has(address)) return;
      equal((await other.goto(address)).status(), 200, address);
      const { ids, links } = await other.evaluate(() => ({
        ids: [...document.querySelectorAll("[id]")].map(({ id }) => id),
        links: [...document.links].map(({ href }) => href),
      }));
      known.set(address, { ids, links });
      if (address.endsWith("index.html")) await inspect(other, "guide");
      for (const [inside] of links.map((link) => link.split("#"))) if (inside.startsWith(`${url}/demo/docs/`)) await open(inside);
    };
    for (const address of documents) await open(address);
    for (const [address, { links }] of known) {
      for (const link of links) {
        const [inside, hash] = link.split("#");
        if (hash && known.has(inside)) check(known.get(inside).ids.includes(decodeURIComponent(hash)), `${address}: ${link} leads nowhere`);
      }
    }
    await other.close();
  },

  async "a document has a sidebar, colours, and a button that copies each block of code"() {
    const other = await visit({ path: "/demo/docs/chat.html" });
    if (browserName === "chromium") await other.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await other.waitForSelector(".copying button");
    const counts = await other.evaluate(() => ["pre", ".copying", "pre .hljs-keyword"].map((name) => document.querySelectorAll(name).length));
    check(counts[0] > 0 && counts[1] === counts[0] && counts[2] > 0, `blocks, buttons, keywords: ${counts}`);
    const code = await other.textContent(".code pre");
    await other.click(".code button");
    await other.waitForFunction(() => document.querySelector(".copying .hint").textContent === "Copied.");
    equal(await other.evaluate(() => navigator.clipboard.readText()), code.trimEnd(), "clipboard");
    const sidebar = () => other.evaluate(() => [document.querySelector(".contents").open, document.querySelector(".contents [aria-current]").textContent]);
    equal(await sidebar(), [true, "Chat"], "on a wide screen");
    await other.setViewportSize({ width: 390, height: HEIGHT });
    await other.waitForFunction(() => !document.querySelector(".contents").open);
    await other.click(".contents summary");
    equal(await other.isVisible(".contents a[href='tools.html']"), true, "on a phone, after a click");
    await inspect(other, "document");
    await other.close();
  },

  async "the paper's pairs are those of the benchmark"() {
    const pairs = JSON.parse(readFileSync(repo("benches/dsi_pairs.json"), "utf8"));
    const { PAIRS } = await import("../../www/demo/guide/paper.js");
    equal(
      PAIRS,
      pairs.map(({ name, target_latency_ms, drafter_latency_ms, acceptance }) => ({
        name,
        target: target_latency_ms,
        drafter: drafter_latency_ms,
        acceptance,
      })),
      "pairs",
    );
  },
};
