// The demo page, as a visitor uses it.
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import { join } from "node:path";
import { Skipped, browserName, check, equal, faults, launch, open, teach, url, violations } from "./harness.mjs";

const repo = (path) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const axe = readFileSync(repo("node_modules/axe-core/axe.min.js"), "utf8");
const HEIGHT = 850;

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

/** What the pages asked of other origins. */
const strangers = [];
let page;
/** Its own, because a key goes to the window that was opened last, and other suites open theirs. */
let browser;

const watch = (page) => {
  page.on("request", (request) => {
    const asked = request.url();
    if (!asked.startsWith(`${url}/`) && !/^(data|blob):/.test(asked)) strangers.push(asked);
  });
  return page;
};

/** Another page, in which every error is pushed to `errors`. */
async function openAnother(errors = violations, options = {}) {
  const other = watch(await browser.newPage(options));
  other.setDefaultTimeout(240_000);
  other.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  return other;
}

/** In a worker: the next rounds take a tenth of a second longer, so that a text lasts until a test has looked at it. */
function slow() {
  const { mapAsync } = GPUBuffer.prototype;
  let rounds = 50;
  GPUBuffer.prototype.mapAsync = async function (...range) {
    if (rounds-- > 0) await new Promise((done) => setTimeout(done, 100));
    return mapAsync.apply(this, range);
  };
}

export const before = async () => {
  browser = await launch();
  page = watch(await open(browser));
  await teach(page, { slow });
  if (browserName === "chromium") await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
};
export const after = () => browser.close();

/** Waits until something holds in the page; if it never does, the error says what. */
const until = (page, what, holds) => page.waitForFunction(holds).catch(async ({ message }) => {
  const state = await page.evaluate(() => ["verdict", "problem", "report"].map((id) => document.getElementById(id).textContent.slice(0, 500)).join(" | "));
  throw new Error(`${what}: ${message} ${state}`);
});
const idle = (page) => until(page, "idle", () => document.body.dataset.state === "idle");
const busy = (page) => until(page, "busy", () => document.body.dataset.state === "busy");
const text = (id) => page.textContent(`#${id}`);
const report = async () => JSON.parse(await text("report"));
const fill = async (values, within = page) => {
  for (const [name, value] of Object.entries(values)) await within.evaluate(([name, value]) => {
    const field = document.getElementById(`option-${name}`);
    field.value = value;
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }, [name, value]);
};
/** Runs to the end, which is not a problem, and until the charts show it. */
async function write(within = page) {
  await within.click("#write");
  await idle(within);
  check(await within.isHidden("#problem"), await within.textContent("#problem"));
  await drawn(within);
}
/** A change of size is heard of in one frame, and what hears of it draws in the next. */
const drawn = (page) => page.evaluate(async () => {
  for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame);
});

/** Firefox takes its colours from the desktop. */
const COLOURS = /** @type {const} */ (browserName === "chromium" ? ["light", "dark"] : ["light"]);

/** Nothing serious by axe, in light and in dark, nothing wider than the window, and a picture that shows something. */
async function inspect(page, name) {
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(axe);
  for (const [device, width] of [["desktop", 1280], ["phone", 360]]) {
    await page.setViewportSize({ width, height: HEIGHT });
    for (const colorScheme of COLOURS) {
      await page.emulateMedia({ colorScheme });
      await drawn(page);
      const where = `${name}, ${device}, ${colorScheme}`;
      const [whole, visible] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
      check(whole <= visible, `${where}: ${whole - visible} pixels too wide`);
      const picture = await page.screenshot({ path: join(tmpdir(), `foretoken-${name}-${device}-${colorScheme}.png`), fullPage: true });
      check(picture.readUInt32BE(16) === visible && picture.length > 40_000, `${where}: a blank picture of ${picture.length} bytes`);
      if ((device === "phone") !== (colorScheme === "dark")) continue;
      const found = await page.evaluate(async () => (await globalThis.axe.run(document, { resultTypes: ["violations"] })).violations
        .filter(({ impact }) => impact === "serious" || impact === "critical")
        .map(({ id, nodes }) => `${id}: ${nodes.map(({ target, failureSummary }) => `${target} ${failureSummary}`).slice(0, 3).join("; ")}`));
      equal(found, [], where);
    }
  }
  const order = await page.evaluate(() => [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].filter((each) => each.checkVisibility()).map(({ tagName }) => Number(tagName[1])));
  check(order[0] === 1 && order.every((level, i) => !i || level <= order[i - 1] + 1), `headings: ${order}`);
}

/** A stand-in for engine.js whose model, GPU and errors all say hostile things. */
const hostile = `
  const HOSTILE = ["<img src=x onerror='globalThis.hacked = 1'>", "</script><script>globalThis.hacked = 1</script>", "[x](javascript:alert(1))",
    "<a href='javascript:alert(1)'>x</a>", "\\u202e\\u2066\\u202b reversed", "{{constructor.constructor('alert(1)')()}}", "y".repeat(1 << 20)];
  export class ForetokenError extends Error {}
  export class Engine {
    static async load() { return new Engine(); }
    device = { name: HOSTILE.join(" ").slice(0, 5000) };
    memory = { target: { weights: 1, kv: 1, scratch: 1 }, draft: null };
    dispose() {}
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
    let open;
    gate = new Promise((resolve) => (open = resolve));
    try {
      await page.click("#load");
      await page.click("#cancel");
      await idle(page);
    } finally {
      open();
    }
    equal(await text("verdict"), "Stopped.", "verdict");
    check(await page.isHidden("#progress"), "the progress bar stays");
    check((await text("model-state")).startsWith("Not loaded"), await text("model-state"));
  },

  async "a race runs to its end, fills the charts, and model text stays text"() {
    await page.evaluate(() => {
      globalThis.announced = 0;
      const spoken = document.querySelectorAll("[role=status], [aria-live], output");
      for (const each of spoken) new MutationObserver(() => announced++).observe(each, { childList: true, characterData: true, subtree: true });
    });
    await fill({ max_new_tokens: "8" });
    await write();
    const verdict = await text("verdict");
    check(verdict.startsWith("The same 8 tokens"), verdict);
    const { texts, markup, announced, charts } = await page.evaluate(() => {
      const count = (selector) => document.querySelectorAll(selector).length;
      const points = (lane) => document.querySelector(`polyline.${lane}`).getAttribute("points").split(" ").length;
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
    check(texts[0].includes("a daughter who was called"), texts[0]);
    equal(texts[0], texts[1], "texts");
    check(markup, "spans only");
    check(announced > 0 && announced < 8, `${announced} announcements`);
    const { speculative, plain, device, memory } = await report();
    equal([speculative.num_emitted_tokens, plain.num_emitted_tokens], [8, 8], "the option's way to the engine");
    // Of 6.95 and 0.6 million parameters.
    check(memory.target.weights < 7.6e6 && memory.draft.weights < 0.7e6, `not 8 bits: ${JSON.stringify(memory)}`);
    const { num_spec_steps: rounds } = speculative;
    const { told, ...counts } = charts;
    // A speed lies between two rounds.
    equal(counts, { fast: rounds - 1, plain: plain.num_spec_steps - 1, accepted: rounds, proposed: rounds }, "marks");
    check(told[0].includes("With guesses: between") && told[0].includes("Plainly: between"), told[0]);
    check(told[1].includes(`${rounds} rounds accepted ${speculative.num_accepted_draft_tokens},`), told[1]);
    check((await text("device")).includes(device.name) && (await text("memory-draft")).includes("MB") && memory.draft, "facts");
    await page.evaluate(() => (document.getElementById("settings").open = document.getElementById("statistics").open = true));
    await inspect(page, "after");
    await page.click("#copy");
    await page.waitForFunction(() => document.getElementById("copied").textContent === "Copied.");
    equal(JSON.parse(await page.evaluate(() => navigator.clipboard.readText())), await report(), "clipboard");
  },

  async "a keyboard is enough: Tab and Enter start, Escape stops, and what was done is told"() {
    await fill({ max_new_tokens: "300" });
    if ((await text("model-state")).startsWith("Not loaded")) await page.click("#load");
    await idle(page);
    await page.evaluate(() => document.activeElement.blur());
    await page.click("h1");
    const visited = [];
    while (visited.at(-1) !== "write" && visited.length < 40) {
      await page.keyboard.press("Tab");
      visited.push(await page.evaluate(() => {
        const { id, dataset, name, outlineWidth = getComputedStyle(document.activeElement).outlineWidth } = document.activeElement;
        return parseFloat(outlineWidth) >= 2 ? id || dataset.preset || name : "no visible focus";
      }));
    }
    equal(visited, ["tab-write", "source", "load", "open", "retell", "rename", "continue", "prompt", "kind", "drafter", "lanes", "option-max_new_tokens", "write"]
      .map((each) => (each === "source" ? visited[1] : each)), "the order of Tab");
    await page.evaluate(() => workers.at(-1)?.postMessage("slow"));
    await page.keyboard.press("Enter");
    await busy(page);
    await until(page, "three tokens", () => document.querySelectorAll("#speculative .token").length > 2);
    await page.keyboard.press("Escape");
    await idle(page);
    equal(await text("verdict"), "Stopped.", "verdict");
    equal(await page.evaluate(() => document.activeElement.id), "write", "focus");
    const { speculative, plain } = await report();
    check(speculative.num_emitted_tokens > 2 && !plain, "the statistics of what was written");
  },

  async "what the engine refuses is shown in its words, at the field"() {
    await page.evaluate(() => (document.getElementById("settings").open = true));
    for (const [name, value] of [["max_new_tokens", "0"], ["num_assistant_tokens", "many"], ["max_matching_ngram_size", "65"]]) {
      await fill({ [name]: value });
      await page.click("#write");
      await idle(page);
      const problem = await text("problem");
      check(problem.includes(name) && problem.endsWith("(bad-option)"), problem);
      equal(await page.evaluate(() => [document.activeElement.id, document.activeElement.ariaInvalid]), [`option-${name}`, "true"], "the field");
      check(problem.startsWith(await page.getAttribute(`#hint-${name}`, "data-refused")), "the words beside it");
      await page.click("#reset");
      check((await page.inputValue(`#option-${name}`)) === (name === "max_new_tokens" ? "96" : ""), "the default again");
    }
  },

  async "a model that is not there gives a typed message, and one at a URL takes the old one's place"() {
    await page.check("[name=source][value=hub]");
    await fill({ endpoint: `${url}/nowhere`, token: "secret-of-mine", max_new_tokens: "4", max_context: "64" });
    for (const [model, code] of [["owner/none", "not-found"], ["no model", "bad-option"], ["/models/none", "not-found"]]) {
      await page.fill("#hub-model", model);
      await page.click("#write");
      await idle(page);
      const problem = await text("problem");
      check(problem.includes(model) && problem.endsWith(`(${code})`), `${model}: ${problem}`);
    }
    await page.fill("#hub-model", "/models/tales/draft");
    await page.selectOption("#drafter", "lookup");
    await page.selectOption("#lanes", "speculative");
    await write();
    const found = await report();
    equal([found.model, found.assistant_model, found.memory.draft], ["/models/tales/draft", null, null], "model");
    equal(found.load_options, { max_context: 64, endpoint: `${url}/nowhere` }, "options");
    equal(found.options, { max_new_tokens: 4, drafter: "lookup" }, "options");
    check(found.speculative.num_emitted_tokens === 4 && !found.plain && !(await text("plain")).includes("miller"), "one lane");
    equal(await page.evaluate(() => document.querySelectorAll("#plain .token").length), 0, "tokens of the other lane");
    check(!(await page.content()).includes("secret-of-mine"), "the token is shown");
  },

  async "a folder that the visitor picks is a model"() {
    if (browserName === "firefox") throw new Skipped("WebDriver BiDi picks no folders");
    await page.check("[name=source][value=folder]");
    await page.click("#write");
    await idle(page);
    check((await text("problem")).includes("folder"), "nothing picked");
    await page.setInputFiles("#folder-model", repo("models/tales/draft"));
    check((await text("model-state")).startsWith("Changed"), await text("model-state"));
    await fill({ max_new_tokens: "4", max_context: "64" });
    await page.selectOption("#lanes", "plain");
    await write();
    const found = await report();
    equal([found.model, found.plain.num_emitted_tokens, found.speculative], ["draft", 4, undefined], "the folder's text");
  },

  async "hostile model text, names and errors stay text"() {
    const other = await openAnother();
    const heard = [];
    other.on("dialog", (dialog) => heard.push(dialog.message()) && dialog.dismiss());
    await other.route("**/engine.js", (route) => route.fulfill({ contentType: "text/javascript", body: hostile }));
    await other.goto(`${url}/demo/`);
    const run = async () => {
      await other.click("#write");
      await idle(other);
    };
    await other.setViewportSize({ width: 360, height: HEIGHT });
    await run();
    check((await other.textContent("#verdict")).startsWith("The same 7 tokens"), await other.textContent("#problem"));
    equal((await other.textContent("#plain .text")).length > 1 << 20, true, "all of the text");
    await other.fill("#option-max_new_tokens", "1");
    await run();
    check((await other.textContent("#problem")).includes("onerror"), "the error");
    const found = await other.evaluate(() => ({
      hacked: globalThis.hacked,
      active: document.querySelectorAll("body :is(img, script, a:not(.about > a), iframe, object, embed)").length,
      tokens: [...document.querySelectorAll(".text *")].every((each) => each.matches("span.token") && !each.childElementCount),
      names: document.querySelectorAll("#device *, #problem *, #warnings li *, #report *").length,
      warnings: document.querySelectorAll("#warnings li").length,
      over: Math.max(0, document.documentElement.scrollWidth - innerWidth),
    }));
    equal(found, { active: 0, tokens: true, names: 0, warnings: 7, over: 0 }, "the page");
    equal(heard, [], "dialogs");
    // Without the clipboard the text is selected for the visitor.
    await other.evaluate(() => Object.defineProperty(navigator, "clipboard", { value: undefined }));
    await other.click("#statistics summary");
    await other.click("#copy");
    await other.waitForFunction(() => document.getElementById("copied").textContent.startsWith("Selected"));
    check((await other.evaluate(() => getSelection().toString())).includes("num_emitted_tokens"), "the selection");
    await other.close();
  },

  async "an engine that is of no more use is let go, and no other"() {
    const other = await openAnother();
    const body = `
      export class ForetokenError extends Error {}
      export class Engine {
        static load = async () => new Engine();
        device = { name: "GPU" };
        memory = { target: { weights: 1, kv: 1, scratch: 1 }, draft: null };
        dispose() {}
        generate(code) { return { async *[Symbol.asyncIterator]() { throw Object.assign(new ForetokenError(code), { code }); } }; }
      }`;
    await other.route("**/engine.js", (route) => route.fulfill({ contentType: "text/javascript", body }));
    await other.goto(`${url}/demo/`);
    for (const [code, state] of [
      ["context-full", "Loaded"],
      ...["device-lost", "gpu-blocked", "internal", "out-of-gpu-memory"].map((code) => [code, "Not loaded yet"]),
    ]) {
      await other.fill("#prompt", code);
      await other.click("#write");
      await idle(other);
      equal(await other.textContent("#problem"), `${code} (${code})`, "the problem");
      check((await other.textContent("#model-state")).startsWith(state), `${code}: ${await other.textContent("#model-state")}`);
    }
    await other.close();
  },

  async "on a host that sends no policy the page has its own: it works, and what was injected does not"() {
    const refused = [];
    const other = await openAnother(refused);
    await other.addInitScript(() => {
      globalThis.broken = [];
      document.addEventListener("securitypolicyviolation", ({ effectiveDirective }) => globalThis.broken.push(effectiveDirective));
    });
    const answer = await other.goto(`${url}/static/demo/`);
    equal(answer.headers()["content-security-policy"], undefined, "the host's policy");
    await other.check("[name=source][value=hub]");
    await other.fill("#hub-model", "/models/tales/draft");
    await other.selectOption("#lanes", "plain");
    await fill({ max_new_tokens: "4", max_context: "64" }, other);
    await write(other);
    await other.click("#tab-simulate");
    await other.waitForSelector("#heatmaps svg");
    equal(refused, [], "errors");
    await other.route("**/static/demo/", async (route) => {
      const response = await route.fetch();
      const injected = "<script>globalThis.injected = 1</script><img src='icon.svg' onload='globalThis.injected = 1'>";
      await route.fulfill({ response, body: (await response.text()).replace("</body>", `${injected}</body>`) });
    });
    await other.goto(`${url}/static/demo/`);
    // What a debugger evaluates may evaluate more; what it leaves behind may not.
    const evaluated = await other.evaluate(() => new Promise((done) => setTimeout(() => {
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
    })));
    equal(evaluated, ["EvalError", "TypeError", undefined], "eval; a script's text, by trusted types; what ran");
    const broken = await other.evaluate(() => globalThis.broken);
    for (const what of ["script-src-elem", "script-src-attr"]) check(broken.includes(what), `${what}: ${broken}`);
    await other.close();
  },

  async "without WebGPU the page says what to do, and the engine gives webgpu-unavailable"() {
    for (const [userAgent, own] of [[undefined, browserName === "firefox" ? "Firefox" : "Chrome"], ["Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox"]]) {
      const other = await openAnother(violations, { userAgent });
      await other.addInitScript(() => Object.defineProperty(Navigator.prototype, "gpu", { value: undefined }));
      await other.goto(`${url}/demo/`);
      const names = await other.$$eval("#help h3", (all) => all.map(({ textContent }) => textContent));
      equal(names.length, 4, "browsers");
      check(names[0].startsWith(`${own}, which`), names[0]);
      check((await other.isDisabled("#write")) && (await other.isDisabled("#load")), "the buttons");
      check(await other.isVisible("#prompt"), "the rest of the page");
      if (own === "Firefox") await inspect(other, "help");
      const code = await other.evaluate(async () => {
        const { Engine } = await import("/engine.js");
        return Engine.load("/models/tales/draft").catch(({ code }) => code);
      });
      equal(code, "webgpu-unavailable", "code");
      await other.close();
    }
  },

  async "the simulator opens by keyboard, follows its sliders, and asks for no GPU"() {
    const other = await openAnother();
    await other.addInitScript(() => {
      globalThis.asked = 0;
      GPU.prototype.requestAdapter = async () => (globalThis.asked++, null);
      globalThis.Worker = class { constructor() { globalThis.asked++; } };
    });
    await other.goto(`${url}/demo/`);
    await other.focus("#tab-write");
    await other.keyboard.press("ArrowRight");
    await other.waitForSelector("#heatmaps svg");
    equal(await other.evaluate(() => [document.activeElement.id, document.activeElement.ariaSelected]), ["tab-simulate", "true"], "the tab");
    check(await other.isHidden("#writer"), "the other panel");
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
    await inspect(other, "simulator");
    equal(await other.evaluate(() => globalThis.asked), 0, "GPUs and workers");
    await other.close();
  },

  async "nothing was asked of another origin"() {
    equal(strangers, [], "requests");
  },
};
