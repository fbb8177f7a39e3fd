// The demo page's models and its conversation.
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Skipped, browserName, check, devtools, equal, faults, rewrite, url } from "./harness.mjs";
import { closeBrowser, drawn, idle, inspect, openBrowser, repo, report, said, text, type, until, visit, write } from "./visitor.mjs";

/** While it holds, big files stop after their first part. */
let held = null;
faults.slowly = async (request) => {
  const [, start] = /bytes=(\d+)/.exec(request.headers.range ?? "") ?? [];
  // Headers pass, so that the download is under way.
  if (held && request.url.endsWith(".safetensors") && Number(start) >= 8 << 20) await held;
};

/** In place of engine.js: it writes what the test sets, `more(text)`, until `end()`. */
const STUB = `
export class ForetokenError extends Error {}
export class Engine {
  static cache = { list: async () => [] };
  static async load() { return new Engine(); }
  device = { name: "stub", backend: "Cpu" };
  memory = {};
  warnings = [];
  close() {}
  generate(messages, options) {
    const { signal } = options;
    globalThis.asked = messages;
    globalThis.options = options;
    const parts = new ReadableStream({
      start(control) {
        globalThis.more = (text) => control.enqueue({ tokens: [{ id: 1, text, origin: "target" }] });
        globalThis.end = () => control.close();
        signal.addEventListener("abort", () => control.error(Object.assign(new ForetokenError("stopped"), { code: "aborted" })));
      },
    });
    const stats = { num_emitted_tokens: 1, num_spec_steps: 1, num_accepted_draft_tokens: 0, times: { first_token: 0 }, warnings: [] };
    return {
      result: Promise.resolve({ stats }),
      async *[Symbol.asyncIterator]() {
        const reader = parts.getReader();
        for (let part; !(part = await reader.read()).done; ) yield part.value;
      },
    };
  }
}`;
/** Serves the stub to a page, or to all pages of a context. */
const putStub = (within) => within.route(`${url}/engine.js`, (route) => route.fulfill({ contentType: "text/javascript", body: STUB }));
/** A conversation with the stub. */
const stubbed = (options = {}) =>
  visit({
    path: "/demo/#chat",
    before: putStub,
    ...options,
  });
/** Sends a message, and waits until the stub is asked. */
const ask = async (page, message) => {
  await page.evaluate(() => delete globalThis.asked);
  await page.fill("#message", message);
  await page.click("#send");
  await page.waitForFunction(() => globalThis.asked);
};
const more = async (page, words) => {
  await page.evaluate((words) => globalThis.more(words), words);
  await drawn(page);
};
const finish = async (page) => {
  await page.evaluate(() => globalThis.end());
  await idle(page);
};
const bodies = (page) => page.$$eval(".message .body", (all) => all.map(({ textContent }) => textContent));

let page;
export const before = async () => {
  await openBrowser();
  page = await visit({ path: "/demo/#chat" });
};
export const after = closeBrowser;

const other = async (model) => {
  await page.evaluate(() => {
    for (const fold of document.querySelectorAll("#shelf, #shelf details")) fold.open = true;
  });
  await page.fill("#other-model", model);
};
const send = async (message) => {
  await page.fill("#message", message);
  await page.keyboard.press("Enter");
  await idle(page);
};
const messages = () => page.$$eval(".message .body", (all) => all.map(({ textContent }) => textContent));

export const tests = {
  async "the shelf names size, licence and use of each model, and the page is sound"() {
    const rows = await page.$$eval(".models li", (all) => all.map(({ textContent }) => textContent));
    equal(rows.length, 16, "models");
    for (const row of rows) check(/about [\d.]+ (MB|GB)/.test(row) && /Apache|Gemma|Llama|LFM/.test(row), row);
    equal(await page.$$eval("#recommended li", (all) => all.filter((each) => each.checkVisibility()).length), 1, "the recommended model");
    equal(await page.$$eval("#models li", (all) => all.filter((each) => each.checkVisibility()).length), 0, "the others, before a click");
    const [small] = await page.$$eval("[data-model='smollm2-360m'] .facts", (all) => all.map(({ textContent }) => textContent));
    await page.evaluate(() => (document.getElementById("more").open = true));
    await page.uncheck("#with-draft");
    check(small.includes("369 MB") && (await page.textContent("[data-model='smollm2-360m'] .facts")).includes("271 MB"), "without the draft model it is less");
    await page.check("#with-draft");
    await page.evaluate(() => document.querySelectorAll("#shelf details").forEach((fold) => (fold.open = true)));
    await inspect(page, "shelf");
  },

  async "a model that is not there gives a typed message, and the token is not shown"() {
    await type(page, { endpoint: `${url}/nowhere`, token: "secret-of-mine", max_context: "128" });
    for (const [model, code] of [
      ["owner/none", "not-found"],
      ["no model", "bad-option"],
      ["/models/none", "not-found"],
    ]) {
      await other(model);
      await page.click("#other-load");
      await idle(page);
      const problem = await text(page, "problem");
      check(problem.includes(model) && problem.endsWith(`(${code})`), `${model}: ${problem}`);
    }
    check(!(await page.content()).includes("secret-of-mine"), "the token is shown");
    await other("");
    await page.click("#other-load");
    await idle(page);
    check((await text(page, "problem")).startsWith("Name a model"), await text(page, "problem"));
  },

  async "headers say whether a model fits, before it is loaded"() {
    await type(page, { max_context: "128" });
    await other("/models/tales/target");
    await page.click("#other-check");
    await idle(page);
    const fit = await text(page, "other-fit");
    check(/^14 MB to download, [\d.]+ MB of memory for 128 tokens: within this device's limits\.$/.test(fit), `${fit} ${await text(page, "problem")}`);
    equal(await text(page, "model-state"), "not loaded yet", "state");
    // On a GPU whose buffers hold a megabyte.
    const small =
      "for (const name of ['maxBufferSize', 'maxStorageBufferBindingSize']) Object.defineProperty(GPUSupportedLimits.prototype, name, { get: () => 1 << 20 });";
    const cramped = await visit({
      path: "/demo/#chat",
      before: (page) => rewrite(page, "**/engine-worker.js", (text) => `${text}\n${small}`),
    });
    await type(cramped, { prefill_chunk: "1024", device: "webgpu" });
    await cramped.evaluate(() => document.querySelectorAll("#shelf details").forEach((fold) => (fold.open = true)));
    await cramped.fill("#other-model", "/models/tales/target");
    await cramped.click("#other-check");
    await idle(cramped);
    check((await text(cramped, "other-fit")).startsWith("Does not fit: "), `${await text(cramped, "other-fit")} ${await text(cramped, "problem")}`);
    await cramped.close();
  },

  async "a download pauses, goes on where it was, and what is kept can be deleted"() {
    let open;
    held = new Promise((resolve) => (open = resolve));
    await other("/slowly/models/tales/target");
    await page.click("#other-load");
    await until(page, "the download is under way", () => !document.getElementById("pause").hidden);
    await page.click("#pause");
    await until(page, "it is paused", () => document.getElementById("doing").textContent.includes("paused at"));
    equal([await text(page, "pause"), await page.evaluate(() => document.body.dataset.state)], ["Resume", "busy"], "paused");
    held = null;
    open();
    await page.click("#pause");
    await idle(page);
    check(await page.isHidden("#problem"), await text(page, "problem"));
    equal([await text(page, "model-state"), await page.isHidden("#download")], ["loaded", true], "loaded");
    await page.evaluate(() => ["shelf", "more", "kept"].forEach((id) => (document.getElementById(id).open = true)));
    await until(page, "what is kept", () => /slowly\/models\/tales\/target, 14 MB/.test(document.getElementById("kept-list").textContent));
    await page.click("[aria-label='Delete /slowly/models/tales/target']");
    await until(page, "it is gone", () => !document.getElementById("kept-list").textContent.includes("slowly"));
    equal(await text(page, "model-state"), "not loaded yet", "what was deleted is not loaded");
  },

  async "a folder that the visitor picks is a model, for the race too"() {
    if (browserName === "firefox") throw new Skipped("WebDriver BiDi picks no folders");
    await other("");
    await page.setInputFiles("#folder", repo("models/tales/draft"));
    await page.click("#other-load");
    await idle(page);
    check(await page.isHidden("#problem"), await text(page, "problem"));
    await page.click("#tab-race");
    equal(await text(page, "race-model"), "draft", "the model's name");
    await type(page, { max_new_tokens: "4" });
    await write(page);
    const { model, plain } = await report(page);
    equal([model, plain.num_emitted_tokens], ["draft", 4], "the folder's text");
    // No address leads to somebody's folder.
    equal(await page.evaluate(() => location.hash), "#race", "the address");
    await page.click("#tab-chat");
  },

  async "a conversation: an answer, edited, written again, coloured, stopped"() {
    // It is there only after another model was chosen.
    await page.evaluate(() => document.getElementById("back-to-tales").click());
    await page.evaluate(() => (document.getElementById("shelf").open = false));
    await type(page, { max_context: "", max_new_tokens: "", min_new_tokens: "8", endpoint: "" });
    await page.evaluate(() => (document.getElementById("option-max_new_tokens").value = "8"));
    const asked = "Tell this again: One day her parents sat by the fire.";
    await send(asked);
    check(await page.isHidden("#problem"), await text(page, "problem"));
    const [question, answer] = await messages();
    check(question === asked && answer.length > 10, answer);
    const numbers = await page.textContent(".message:last-child .numbers");
    check(/^\d+ tokens \u00b7 [\d.]+ a second( \u00b7 first after \d+\.\d s)?( \u00b7 \d+\.\d guesses kept per round)?$/.test(numbers), numbers);
    await inspect(page, "chat");
    await page.click("text=Who guessed");
    equal(
      [await page.textContent(".message:last-child .raw"), await page.getAttribute("text=Who guessed", "aria-pressed")],
      [answer, "true"],
      "the same text, coloured",
    );
    check((await page.$$(".message:last-child .token[data-origin]")).length > 3, "tokens by who guessed them");
    await page.click("text=Write again");
    await idle(page);
    equal((await messages()).length, 2, "another answer takes the first one's place");
    await page.click("text=Edit");
    equal([await page.inputValue("#message"), (await messages()).length], [asked, 2], "the question is in the field again, and nothing is gone");
    await page.fill("#message", `${asked} They talked.`);
    await page.click("#send");
    await until(page, "a beginning", () => document.querySelector(".message:last-child[data-role=assistant] .body")?.textContent);
    await page.keyboard.press("Escape");
    await idle(page);
    check(["Stopped.", "Done."].includes(await said(page)), await said(page));
    check((await messages())[1].length > 0, "what was written stays");
    await page.click("#new-chat");
    equal(await messages(), [], "a new conversation");
  },

  async "JSON mode: a form is chosen, held to, and refused where it is none"() {
    await type(page, { max_new_tokens: "", min_new_tokens: "" });
    await page.evaluate(() => (document.getElementById("option-max_new_tokens").value = "120"));
    await page.evaluate(() => (document.getElementById("json-mode").open = true));
    await page.selectOption("#schema-preset", "person");
    const schema = JSON.parse(await page.inputValue("#schema"));
    equal(schema.required, ["name", "age", "likes"], "the preset");
    schema.properties.name.maxLength = 12;
    schema.properties.likes = { type: "array", items: { type: "string", maxLength: 9 }, maxItems: 2 };
    await page.fill("#schema", JSON.stringify(schema));
    equal(await page.inputValue("#schema-preset"), "own", "it is the visitor's own now");
    await inspect(page, "json");
    await send("Who is the king?");
    check(await page.isHidden("#problem"), await text(page, "problem"));
    const [, answer] = await messages();
    const { name, age, likes } = JSON.parse(answer);
    check(name.length <= 12 && age <= 150 && likes.length <= 2, answer);
    await page.click("text=Who guessed");
    check((await page.$$(".message:last-child .token[data-origin=grammar]")).length > 5, "what the form left no choice about");
    for (const [wrong, words] of [
      ["{", "not JSON"],
      ['{ "not": {} }', '"not"'],
    ]) {
      await page.fill("#schema", wrong);
      await send("And the queen?");
      check((await text(page, "problem")).includes(words), await text(page, "problem"));
      equal([await page.getAttribute("#schema", "aria-invalid"), await page.inputValue("#message")], ["true", "And the queen?"], "nothing is lost");
    }
    await page.selectOption("#schema-preset", "none");
    equal([await page.inputValue("#schema"), await page.getAttribute("#schema", "aria-invalid")], ["", null], "free text again");
    await page.fill("#message", "");
    await page.click("#new-chat");
  },

  async "Markdown becomes elements of a short list, and nothing hostile passes"() {
    const found = await page.evaluate(async () => {
      const { Markdown } = await import("./markdown.js");
      const place = document.querySelector("#messages");
      place.replaceChildren();
      new Markdown(place).draw(`<think>hm <b>x</b></think>
# A title
*a* **b** \`c\` [d](https://example.org/x) [e](javascript:globalThis.hacked=1) ![f](https://example.org/p.png) <img src=x onerror="globalThis.hacked=1">
5 &lt; 6

- one
  - two

\`\`\`js
"<script>globalThis.hacked = 1</script>"
\`\`\`

| g | h |
|---|---|
| 1 | <iframe src="https://example.org"></iframe> |

<script>globalThis.hacked = 1</script>
`);
      const tags = new Set([...place.querySelectorAll("*")].map(({ localName }) => localName));
      return {
        tags: [...tags].sort(),
        links: [...place.querySelectorAll("a")].map(({ href, rel }) => [href, rel]),
        code: place.querySelector("pre").textContent,
        said: ["hm <b>x</b>", "5 < 6", "<img src=x", "<iframe", "<script>"].filter((words) => place.textContent.includes(words)).length,
        attributes: [...place.querySelectorAll("*")]
          .flatMap(({ attributes }) => [...attributes].map(({ name }) => name))
          .filter((name) => name.startsWith("on") || name === "src"),
        hacked: globalThis.hacked,
      };
    });
    equal(
      found,
      {
        tags: [
          "a",
          "button",
          "code",
          "details",
          "div",
          "em",
          "h4",
          "li",
          "p",
          "pre",
          "span",
          "strong",
          "summary",
          "table",
          "tbody",
          "td",
          "th",
          "thead",
          "tr",
          "ul",
        ],
        links: [["https://example.org/x", "noreferrer nofollow"]],
        code: '"<script>globalThis.hacked = 1</script>"',
        said: 5,
        attributes: [],
      },
      "the elements",
    );
  },

  async "the page follows an answer longer than the screen, unless the visitor scrolled up; Stop stays in view"() {
    for (const viewport of [
      { width: 1280, height: 800 },
      { width: 390, height: 844 },
    ]) {
      const page = await stubbed({ viewport });
      equal(await page.evaluate(() => scrollY), 0, "the tabs are in view on arrival");
      await ask(page, "Tell me more");
      const seen = () =>
        page.evaluate(() => {
          const [stop, composer] = ["#composer [data-stops]", "#composer"].map((name) => document.querySelector(name).getBoundingClientRect());
          const end = document.getElementById("messages").getBoundingClientRect().bottom;
          return { stop: stop.top > 0 && stop.bottom <= innerHeight, end: end <= composer.top + 1 && end > 0 };
        });
      for (let i = 0; i < 40; i++) {
        await more(page, `Paragraph ${i} with a few words.\n\n`);
        equal(await seen(), { stop: true, end: true }, `paragraph ${i} at ${viewport.width}`);
      }
      await page.screenshot({ path: join(tmpdir(), `foretoken-following-${viewport.width}.png`) });
      await page.evaluate(() => scrollBy({ top: -400, behavior: "instant" }));
      const before = await page.evaluate(() => scrollY);
      await more(page, "And more.\n\n".repeat(9));
      equal([await page.evaluate(() => scrollY), (await seen()).stop], [before, true], "after scrolling up");
      await page.click("#composer [data-stops]");
      await idle(page);
      equal(await said(page), "Stopped.", "stopped");
      await page.close();
    }
  },

  async "an answer that grows keeps its blocks, its selection and the thoughts that the visitor opened"() {
    const page = await stubbed();
    await ask(page, "Think");
    await more(page, "<think>First");
    const fold = () => page.$eval(".thought", ({ open, textContent }) => [open, textContent]);
    equal(await fold(), [true, "ThinkingFirst"], "thoughts are shown while they come");
    await page.click(".thought summary");
    await more(page, " second");
    equal(await fold(), [false, "ThinkingFirst second"], "a fold that the visitor closed");
    await page.click(".thought summary");
    await more(page, "</think>\n\nOne paragraph.\n\nAnother");
    await page.evaluate(() => {
      globalThis.first = document.querySelector(".message:last-child .body > p");
      getSelection().selectAllChildren(globalThis.first);
    });
    await more(page, " one\n\n\u05e9\u05dc\u05d5\u05dd.");
    equal(
      await page.evaluate(() => [
        document.querySelector(".message:last-child .body > p") === globalThis.first,
        getSelection().toString(),
        [...document.querySelectorAll(".message:last-child .body > p")].map((each) => getComputedStyle(each).direction),
      ]),
      [true, "One paragraph.", ["ltr", "ltr", "rtl"]],
      "blocks",
    );
    equal(await text(page, "answered"), "", "not announced before it is complete");
    await finish(page);
    equal(await fold(), [true, "What it thoughtFirst second"], "a fold that the visitor opened");
    check((await text(page, "answered")).startsWith("One paragraph."), await text(page, "answered"));
    equal(await page.textContent(".message:last-child .numbers"), "1 token", "numbers that say something");
    await page.close();
  },

  async "a conversation survives a reload and another tab's address, and an edit replaces nothing before it is sent"() {
    const page = await stubbed();
    await ask(page, "One");
    await more(page, "First answer");
    await finish(page);
    await page.reload();
    equal(await bodies(page), ["One", "First answer"], "after a reload");
    await page.evaluate(() => (location.hash = "#race"));
    await page.waitForSelector("#race", { state: "visible" });
    await page.evaluate(() => (location.hash = "#chat"));
    await page.waitForSelector("#chat", { state: "visible" });
    await page.fill("#message", "typed before");
    await page.click("text=Edit");
    equal([await page.inputValue("#message"), await bodies(page)], ["One", ["One", "First answer"]], "while it is edited");
    await page.click("#cancel-edit");
    equal([await page.inputValue("#message"), await bodies(page)], ["typed before", ["One", "First answer"]], "an edit that was cancelled");
    await page.click("text=Edit");
    await ask(page, "Two");
    await page.keyboard.press("Escape");
    await idle(page);
    equal([await page.inputValue("#message"), await bodies(page)], ["Two", ["One", "First answer"]], "an edit that was not answered");
    await ask(page, "Two");
    await more(page, "Second answer");
    await finish(page);
    equal([await page.inputValue("#message"), await bodies(page)], ["typed before", ["Two", "Second answer"]], "an edit that was sent");
    await page.click("#new-chat");
    await page.reload();
    equal(await bodies(page), [], "a new conversation is new after a reload too");
    await page.close();
  },

  async "while an answer is written, nothing else can be begun: no Edit, no other answer, no new conversation"() {
    const page = await stubbed();
    const disabled = () => page.$$eval("#conversation [data-starts]:not(#send)", (all) => all.map((each) => `${each.textContent}: ${each.ariaDisabled}`));
    await ask(page, "One");
    await more(page, "First answer");
    const all = (state) => ["New conversation", "Edit", "Write again"].map((name) => `${name}: ${state}`);
    equal(await disabled(), all(true), "while it is written");
    for (const name of ["New conversation", "Edit", "Write again"])
      await page.evaluate((name) => [...document.querySelectorAll("#conversation button")].find((each) => each.textContent === name).click(), name);
    equal([await bodies(page), await page.inputValue("#message"), await page.isHidden("#editing")], [["One", "First answer"], "", true], "clicks do nothing");
    await finish(page);
    equal(await disabled(), all(false), "after it");
    await page.click("text=Edit");
    equal(await page.inputValue("#message"), "One", "the field");
    await page.close();
  },

  async "each tab keeps its own conversation; a new tab begins with the one that was changed last"() {
    const context = await page.context().browser().newContext({ serviceWorkers: "block" });
    await putStub(context);
    const openTab = async () => {
      const tab = await context.newPage();
      await tab.goto(`${url}/demo/#chat`);
      return tab;
    };
    const talk = async (tab, question, answer) => {
      await ask(tab, question);
      await more(tab, answer);
      await finish(tab);
    };
    const first = await openTab();
    await talk(first, "One", "Answer one");
    const second = await openTab();
    equal(await bodies(second), ["One", "Answer one"], "a new tab");
    await talk(second, "Two", "Answer two");
    await talk(first, "Three", "Answer three");
    await Promise.all([first.reload(), second.reload()]);
    equal(await bodies(first), ["One", "Answer one", "Three", "Answer three"], "the first tab after a reload");
    equal(await bodies(second), ["One", "Answer one", "Two", "Answer two"], "the second tab after a reload");
    equal(await bodies(await openTab()), ["One", "Answer one", "Three", "Answer three"], "reloads change nothing");
    await second.click("#new-chat");
    await Promise.all([first.reload(), second.reload()]);
    equal([(await bodies(first)).length, await bodies(second), await bodies(await openTab())], [4, [], []], "a new conversation");
    await context.close();
  },

  async "a reload restores the tab and the conversation; a message without an answer goes back into the field"() {
    const page = await stubbed({ path: "/demo/" });
    await page.click("#tab-chat");
    await ask(page, "One");
    await page.reload();
    equal([await page.isVisible("#chat"), await bodies(page), await page.inputValue("#message")], [true, [], "One"], "before its answer began");
    await ask(page, "One");
    await more(page, "Half an");
    await page.reload();
    equal(
      [await page.isVisible("#chat"), await bodies(page), await page.inputValue("#message")],
      [true, ["One", "Half an"], ""],
      "in the middle of its answer",
    );
    // Nothing of what another answer would take the place of is lost before that answer begins.
    await page.click("text=Write again");
    await page.waitForFunction(() => globalThis.asked);
    await page.reload();
    equal([await bodies(page), await page.inputValue("#message")], [["One", "Half an"], ""], "before another answer began");
    await page.click("text=Edit");
    await ask(page, "Two");
    await page.reload();
    equal([await bodies(page), await page.inputValue("#message")], [["One", "Half an"], "Two"], "before the answer to an edit began");
    await page.fill("#message", "");
    await page.click("text=Edit");
    await ask(page, "Two");
    await more(page, "Second answer");
    await page.reload();
    equal([await bodies(page), await page.inputValue("#message")], [["Two", "Second answer"], ""], "after the answer to an edit began");
    await page.close();
  },

  async "a conversation draws as the model's makers advise, or as the visitor says"() {
    const page = await stubbed();
    const asked = async (values) => {
      await type(page, { do_sample: "", temperature: "", seed: "", ...values });
      await ask(page, "One");
      await finish(page);
      const { do_sample, temperature, seed } = await page.evaluate(() => globalThis.options);
      return { do_sample, temperature, seed };
    };
    equal(await asked({}), { do_sample: "model" }, "without a choice");
    equal(await asked({ temperature: "0.8" }), { do_sample: "auto", temperature: 0.8 }, "a temperature has an effect");
    equal(await asked({ temperature: "0" }), { do_sample: "auto", temperature: 0 }, "the most likely tokens");
    equal(await asked({ do_sample: "model", seed: "7" }), { do_sample: "model", seed: 7 }, "the visitor's choice");
    await page.close();
  },

  async "text fields take the direction of what is typed, and so does an answer that is coloured"() {
    const page = await stubbed();
    const fields = await page.$$eval("textarea, input:is([type=text], [type=password])", (all) => all.map(({ id, dir }) => `${id}: ${dir}`));
    check(fields.length > 30, `${fields.length} fields`);
    equal(
      fields.filter((field) => !field.endsWith(": auto")),
      [],
      "fields",
    );
    await ask(page, "\u05e9\u05dc\u05d5\u05dd");
    await more(page, "\u05e9\u05dc\u05d5\u05dd.");
    await finish(page);
    await page.click("text=Who guessed");
    equal(await page.$eval(".message:last-child .raw", (each) => getComputedStyle(each).direction), "rtl", "the coloured answer");
    await page.close();
  },

  async "what lies at the lower edge stays above the home indicator of a phone"() {
    const page = await stubbed({ viewport: { width: 390, height: 844 } });
    const session = await devtools(page.context(), page);
    const paddings = () => page.evaluate(() => ["composer", "download"].map((id) => getComputedStyle(document.getElementById(id)).paddingBottom));
    equal(await paddings(), ["12px", "16px"], "without one");
    await session.send("Emulation.setSafeAreaInsetsOverride", { insets: { bottom: 34, left: 47, right: 47 } });
    equal(await paddings(), ["34px", "34px"], "with one");
    equal(await page.evaluate(() => ["Left", "Right"].map((side) => getComputedStyle(document.body)[`padding${side}`])), ["47px", "47px"], "beside a notch");
    await page.close();
  },

  async "the Enter and the Escape of an input method neither send nor stop"() {
    const page = await stubbed();
    const press = (key) =>
      page.evaluate((key) => document.getElementById("message").dispatchEvent(new KeyboardEvent("keydown", { key, keyCode: 229, bubbles: true })), key);
    await page.fill("#message", "\u306b\u307b\u3093");
    await press("Enter");
    equal([await bodies(page), await page.inputValue("#message")], [[], "\u306b\u307b\u3093"], "Safari's Enter after a composition");
    await ask(page, "One");
    await press("Escape");
    await more(page, "still writing");
    equal(await page.evaluate(() => document.body.dataset.state), "busy", "an Escape that closes a list of candidates");
    await finish(page);
    await page.close();
  },
};
