// The demo page's models and its conversation.
import { Skipped, browserName, check, equal, faults, url } from "./harness.mjs";
import { closeBrowser, idle, inspect, openBrowser, repo, report, said, text, type, until, visit, write } from "./visitor.mjs";

/** While it holds, big files stop behind their first part. */
let held = null;
faults.slowly = async (request) => {
  const [, start] = /bytes=(\d+)/.exec(request.headers.range ?? "") ?? [];
  // Headers pass, so that the download is under way.
  if (held && request.url.endsWith(".safetensors") && Number(start) >= 8 << 20) await held;
};

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
    const rows = await page.$$eval("#models li", (all) => all.map(({ textContent }) => textContent));
    equal(rows.length, 10, "models");
    for (const row of rows) check(/about [\d.]+ (MB|GB)/.test(row) && /Apache|Gemma|Llama/.test(row), row);
    const [small] = await page.$$eval("[data-model='smollm2-360m'] .facts", (all) => all.map(({ textContent }) => textContent));
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
      before: (page) =>
        page.route("**/engine-worker.js", async (route) => {
          const response = await route.fetch();
          await route.fulfill({ response, body: `${await response.text()}\n${small}` });
        }),
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
    await page.evaluate(() => (document.getElementById("shelf").open = document.getElementById("kept").open = true));
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
    check(/^\d+ tokens \u00b7 [\d.]+ a second .* guesses kept per round/.test(numbers), numbers);
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
    equal([await page.inputValue("#message"), (await messages()).length], [asked, 0], "the question is in the field again");
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
      const { markdown } = await import("./markdown.js");
      const place = document.querySelector("#messages");
      place.replaceChildren(
        ...markdown(`<think>hm <b>x</b></think>
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
`),
      );
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
};
