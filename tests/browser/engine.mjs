// The engine in a page: what it writes, what it counts, what it says when something is wrong.
import { readFileSync } from "node:fs";
import { browserName, check, equal, faults, open, rewrite, url } from "./harness.mjs";
import { synthetic } from "./llama.mjs";

const golden = JSON.parse(readFileSync(new URL("../golden/tales.json", import.meta.url), "utf8")).cases;
const FEW = 24;
/** More tokens than are written before an abort takes effect, on any machine. */
const MANY = 400;
/** Ways to draft that depend on no clock. */
const MODEL = { drafter: "draft_model", num_assistant_tokens_schedule: "heuristic_transient" };
const LOOKUP = { drafter: "lookup", num_assistant_tokens_schedule: "constant", prompt_lookup_num_tokens: 10, max_matching_ngram_size: 3 };

faults["is-html"] = (_, response) => response.writeHead(200, { "Content-Type": "text/html" }).end("<!doctype html><title>app</title>");
faults.forbidden = (_, response) => response.writeHead(403).end();
let versions = 0;
faults.changing = (_, response, rest) => {
  const { writeHead } = response;
  response.writeHead = (status, headers) =>
    writeHead.call(response, status, { ...headers, ...(rest.at(-1).endsWith(".safetensors") && { ETag: `"${versions++}"` }) });
};
faults.broken = (_, response) => response.writeHead(501).end();

const draft = (file) => readFileSync(new URL(`../../models/tales/draft/${file}`, import.meta.url));
const json = (file, change) => () => {
  const value = JSON.parse(draft(file));
  change(value);
  return JSON.stringify(value);
};
/** A template that shows all that a message may have. */
const ECHO = "{% for m in messages %}{{ m | tojson }}\n{% endfor %}";
/** Shows what a template gets in addition to the messages. */
const VARIABLES =
  "{{ [tools, documents, enable_thinking is defined and enable_thinking] | tojson }}{% for m in messages %}<{{ m.content }}>{% endfor %}{{ '...' if add_generation_prompt }}";
/** Copies of the draft model, by kind: the file that differs and what it holds. All but the last five are broken. */
const altered = {
  weights: ["model.safetensors", () => "abcd"],
  config: ["config.json", json("config.json", (config) => (config.hidden_size = 0))],
  architecture: ["config.json", json("config.json", (config) => Object.assign(config, { architectures: ["MambaForCausalLM"], model_type: "mamba" }))],
  tokenizer: ["tokenizer.json", () => "{}"],
  template: ["tokenizer_config.json", json("tokenizer_config.json", (config) => (config.chat_template = "{% if"))],
  echo: ["tokenizer_config.json", json("tokenizer_config.json", (config) => (config.chat_template = ECHO))],
  variables: ["tokenizer_config.json", json("tokenizer_config.json", (config) => (config.chat_template = VARIABLES))],
  recommended: ["generation_config.json", () => JSON.stringify({ do_sample: true, temperature: 0.5, top_k: 7, eos_token_id: [0, 2] })],
  dated: [
    "tokenizer_config.json",
    json("tokenizer_config.json", (config) => (config.chat_template = "{{ strftime_now('%A, %d %B %Y') }}: {{ messages[0].content }}")),
  ],
  tools: [
    "tokenizer_config.json",
    json(
      "tokenizer_config.json",
      (config) =>
        (config.chat_template = "{% for m in messages %}{{ m.role }} {{ m.name }}: {{ m.content }} {{ m.tool_calls | tojson if m.tool_calls }}\n{% endfor %}"),
    ),
  ],
};
faults.unbounded = synthetic({ hidden_size: 64, vocab_size: 4096, num_hidden_layers: 1, heads: 2, head_dim: 32, intermediate_size: 64 }, 1e18).answer;
faults.altered = (_, response, rest) => {
  const kind = rest.shift();
  const [file, content] = altered[kind];
  if (rest.at(-1) === file) response.writeHead(200, { "Content-Type": "application/octet-stream" }).end(content());
};

let page;
export const before = async () => {
  page = await open();
  await loaded();
};
export const after = () => page.close();

/** Loads the tales pair where `engine` is not loaded yet. */
const loaded = () =>
  page.evaluate(async () => {
    globalThis.reports ??= [];
    globalThis.engine ??= await Engine.load(TALES, { assistant_model: DRAFT, max_context: 512, kv_dtype: "f32", onProgress: (at) => reports.push(at) });
    return reports;
  });
/** Generates in the page and returns {ids, pieces, result}. */
const generate = (prompt, options) =>
  page.evaluate(
    async ([prompt, options]) => {
      const stream = engine.generate(prompt, options);
      const pieces = [];
      for await (const piece of stream) pieces.push(piece);
      return { pieces, ...(await stream.result) };
    },
    [prompt, options],
  );

/** Loads a copy of the draft model, and returns the prompts that its template makes of messages. */
const prompts = (kind, chats) =>
  page.evaluate(
    async ([kind, chats]) => {
      const other = await Engine.load(`/altered/${kind}/models/tales/draft`, { max_context: 64 });
      const texts = [];
      for (const chat of chats) texts.push(await other.detokenize(await other.tokenize(chat)));
      other.close();
      return texts;
    },
    [kind, chats],
  );

export const tests = {
  async "an adapter is there, and the tales pair loads with growing progress"() {
    const progress = await loaded();
    const phases = [...new Set(progress.map(({ phase }) => phase))];
    equal(phases, ["download", "upload", "compile"], "phases");
    const last = new Map();
    for (const { phase, model, file, loaded, total } of progress) {
      const what = `${phase} ${model} ${file}`;
      check(loaded <= total && loaded >= (last.get(what)?.loaded ?? 0), `${what}: ${loaded} of ${total}`);
      last.set(what, { loaded, total });
    }
    for (const [what, { loaded, total }] of last) equal(loaded, total, `${what} at the end`);
  },

  async "with integers a text is the same with drafts and without, and the statistics say what computed it"() {
    const [plain, drafted, floats] = await page.evaluate(
      async ([options, LOOKUP]) => {
        const texts = [];
        for (const arithmetic of ["int8", "f32"]) {
          const other = await Engine.load(DRAFT, { max_context: 128, dtype: "q4", arithmetic });
          for (const way of arithmetic === "int8" ? [{ speculation: "off" }, LOOKUP] : [LOOKUP]) {
            const { token_ids, stats } = await other.generate("Once upon a time, upon a time, upon", { ...options, ...way }).result;
            texts.push({ token_ids, arithmetic: stats.arithmetic, drafts: stats.num_draft_tokens });
          }
          other.close();
        }
        return texts;
      },
      [{ max_new_tokens: FEW }, LOOKUP],
    );
    equal(drafted.token_ids, plain.token_ids, "ids");
    equal(
      [plain, drafted, floats].map(({ arithmetic }) => arithmetic),
      ["int8", "int8", "f32"],
      "arithmetic",
    );
    check(drafted.drafts > 0, "nothing was drafted");
  },

  ...Object.fromEntries(
    [0, 3, 12].map((index) => [
      `greedy ids of golden ${index} (${golden[index].kind}) are those of transformers: plain, draft model, lookup`,
      async () => {
        const { prompt, prompt_ids, greedy_ids } = golden[index];
        equal(await page.evaluate((text) => engine.tokenize(text), prompt), prompt_ids, "prompt");
        const ways = [{ speculation: "off" }, MODEL, LOOKUP];
        for (const [i, way] of ways.entries()) {
          const { token_ids, stats, pieces, text } = await generate(prompt, { max_new_tokens: FEW, ...way });
          equal(token_ids, greedy_ids.slice(0, FEW), `way ${i}`);
          equal(stats.warnings, [], "warnings");
          equal(stats.num_emitted_tokens, stats.num_accepted_draft_tokens + stats.num_spec_steps, "emitted");
          equal(
            pieces.flatMap(({ tokens }) => tokens.map(({ id }) => id)),
            token_ids,
            "streamed ids",
          );
          equal(pieces.map(({ text }) => text).join(""), text, "streamed text");
          const drafted = pieces.flatMap(({ tokens }) => tokens).filter(({ origin }) => origin !== "target").length;
          equal(drafted, stats.num_accepted_draft_tokens, "origins");
        }
      },
    ]),
  ),

  async "a steady round is 1 submission, 1 readback of at most 256 bytes, and creates nothing"() {
    const prompt = golden[0].prompt;
    for (const way of [
      { speculation: "off" },
      MODEL,
      { ...LOOKUP, prompt_lookup_num_tokens: 5 },
      { ...MODEL, do_sample: true, top_p: 0.9, repetition_penalty: 1.1 },
    ]) {
      const options = { max_new_tokens: 12, ...way };
      await generate(prompt, options);
      const before = await page.evaluate(() => engine.counters());
      const { stats } = await generate(prompt, options);
      const after = await page.evaluate(() => engine.counters());
      const rounds = stats.num_spec_steps;
      equal(after.creates - before.creates, 0, "creates");
      equal(after.submits - before.submits, rounds, "submissions");
      equal(after.blocking_readbacks - before.blocking_readbacks, rounds, "readbacks");
      check(after.readback_bytes - before.readback_bytes <= 256 * rounds, "readback bytes");
      equal(after.allocated, before.allocated, "allocated");
    }
  },

  async "no round compiles: on a processor all is there at load, else drafts wait until their kernels are"() {
    const { prompt } = golden[0];
    const looked = (count) => ({ ...LOOKUP, prompt_lookup_num_tokens: count });
    const options = { max_new_tokens: 24, speculation: "off" };
    const plain = await generate(prompt, options);
    const { pipelines } = await page.evaluate(() => engine.counters());
    for (const way of [looked(1), looked(3), looked(7), looked(15), MODEL]) {
      equal((await generate(prompt, { ...options, speculation: "auto", ...way })).token_ids, plain.token_ids, JSON.stringify(way));
    }
    equal((await page.evaluate(() => engine.counters())).pipelines, pipelines, "kernels compiled");
    // This browser's adapter computes on a processor, and says that it does not; compilation during rounds has to wait.
    const other = await open();
    const changes = `
        Object.defineProperty(GPUAdapterInfo.prototype, "isFallbackAdapter", { get: () => false });
        const told = new Promise((resolve) => addEventListener("message", ({ data }) => data === "go on" && resolve()));
        const { createComputePipelineAsync } = GPUDevice.prototype;
        GPUDevice.prototype.createComputePipelineAsync = async function (descriptor) {
          await told;
          return createComputePipelineAsync.call(this, descriptor);
        };`;
    await rewrite(other, "**/worker.js", (text) => text + changes);
    const texts = await other.evaluate(
      async ([prompt, way]) => {
        const small = await Engine.load(DRAFT, { max_context: 256 });
        const text = async (options) => {
          const { token_ids, stats } = await small.generate(prompt, { max_new_tokens: 24, ...options }).result;
          return { token_ids, drafted: stats.num_draft_tokens };
        };
        const all = [await text({ speculation: "off" }), await text(way)];
        workers.at(-1).postMessage("go on");
        for (let i = 0; i < 100 && !all.at(-1).drafted; i++) all.push(await text(way));
        small.close();
        return all;
      },
      [prompt, looked(7)],
    );
    for (const { token_ids } of texts) equal(token_ids, texts[0].token_ids, "with and without drafts");
    equal(texts[1].drafted, 0, "draft tokens before kernels are there");
    check(texts.at(-1).drafted > 0, "drafts are verified once their kernels are there");
    await other.close();
  },

  async "abort ends a generation, and the next one equals an undisturbed one"() {
    const prompt = golden[4].prompt;
    const undisturbed = await generate(prompt, { max_new_tokens: 16 });
    for (const after of [1, 3]) {
      const error = await page.evaluate(
        async ([prompt, after, max_new_tokens]) => {
          const control = new AbortController();
          const stream = engine.generate(prompt, { max_new_tokens, signal: control.signal });
          let seen = 0;
          const read = (async () => {
            for await (const { tokens } of stream) if ((seen += tokens.length) >= after) control.abort();
          })();
          return failed(read);
        },
        [prompt, after, MANY],
      );
      equal(error.code, "aborted", "code");
      equal(error.detail.finish_reason, "aborted", "what was generated comes with the error");
      const again = await generate(prompt, { max_new_tokens: 16 });
      equal(again.token_ids, undisturbed.token_ids, "ids after an abort");
    }
  },

  async "a call that waits is taken back at once, and the signal's reason is the cause: of calls, of loading"() {
    const found = await page.evaluate(
      async ([prompt, max_new_tokens]) => {
        const why = (promise) => promise.catch(({ code, cause, detail }) => ({ code, cause, detail }));
        const [first, second] = [new AbortController(), new AbortController()];
        const running = engine.generate(prompt, { max_new_tokens, signal: first.signal }).result;
        const waiting = engine.generate(prompt, { max_new_tokens, signal: second.signal });
        const before = why(engine.generate(prompt, { signal: AbortSignal.abort("before") }).result);
        const left = engine.generate(prompt, { max_new_tokens })[Symbol.asyncIterator]();
        second.abort("waiting");
        const taken = [await before, await why(waiting.result), await why(waiting[Symbol.asyncIterator]().next()), await left.return()];
        first.abort("running");
        const { code, cause, detail } = await why(running);
        const chat = new AbortController();
        const messages = [{ role: "user", content: prompt }];
        const talking = why(engine.chat.completions.create({ messages, max_tokens: max_new_tokens }, { signal: chat.signal }));
        chat.abort("chat");
        const loading = new AbortController();
        const loaded = why(Engine.load(DRAFT, { signal: loading.signal, onProgress: () => loading.abort("loading") }));
        return {
          taken,
          running: [code, cause, detail.finish_reason],
          chat: (await talking).cause,
          loading: [await why(Engine.load(DRAFT, { signal: AbortSignal.abort("before") })), await loaded],
        };
      },
      [golden[4].prompt, MANY],
    );
    const aborted = (cause) => ({ code: "aborted", cause, detail: null });
    equal(found.taken, [aborted("before"), aborted("waiting"), aborted("waiting"), { done: true }], "while another was written");
    equal(found.running, ["aborted", "running", "aborted"], "the one that ran");
    equal(found.chat, "chat", "of a chat");
    equal(found.loading, [aborted("before"), aborted("loading")], "loading");
  },

  async "a reader may leave at any time: after a piece, before the first one came, before it asked"() {
    const found = await page.evaluate(
      async ([prompt, max_new_tokens]) => {
        const write = () => engine.generate(prompt, { max_new_tokens });
        const streams = [write(), write(), write()];
        for await (const _ of streams[0]) break;
        const reasons = [(await streams[0].result).finish_reason];
        const reader = streams[1][Symbol.asyncIterator]();
        const pending = reader.next();
        await reader.return();
        reasons.push((await pending).done, (await reader.next()).done, (await streams[1].result.catch(({ code }) => ({ finish_reason: code }))).finish_reason);
        await streams[2][Symbol.asyncIterator]().return();
        reasons.push((await streams[2].result.catch(({ code }) => ({ finish_reason: code }))).finish_reason);
        return reasons;
      },
      [golden[4].prompt, MANY],
    );
    equal(found, ["aborted", true, true, "aborted", "aborted"], "reasons");
  },

  async "a chat stream is written for its reader: not before one comes, not after it has left"() {
    const found = await page.evaluate(async (max_tokens) => {
      const messages = [{ role: "user", content: "Tell me a tale about a fox." }];
      const create = (more) => engine.chat.completions.create({ messages, max_tokens, min_new_tokens: max_tokens, stream: true, ...more });
      const { submits } = await engine.counters();
      const unread = await create({ max_tokens: 8, min_new_tokens: 0 });
      for await (const _ of await create()) break;
      const after = await engine.counters();
      for await (const { choices } of await create()) if (choices[0].delta.content) break;
      // Answered when the worker is done with it.
      await engine.counters();
      const written = engine.stats.num_emitted_tokens;
      // A page puts the answer into its list before it comes.
      messages.push({ role: "assistant", content: "" });
      let text = "";
      for await (const { choices } of unread) text += choices[0].delta.content ?? "";
      const { choices } = await engine.chat.completions.create({ messages: messages.slice(0, 1), max_tokens: 8 });
      return { submitted: after.submits - submits, written, text, whole: choices[0].message.content };
    }, MANY);
    equal(found.submitted, 0, "submissions for streams that were not read, or left at the first chunk");
    check(found.written > 0 && found.written < MANY, `${found.written} tokens of one that was left in the middle`);
    equal(found.text, found.whole, "the text of a stream that is read later");
  },

  async "a long prompt is told as it is read, and an abort ends that within a chunk"() {
    const { seen, error, cause, again } = await page.evaluate(async () => {
      const chunk = 64;
      const prompt = Array.from({ length: 6 * chunk }, (_, i) => 5 + (i % 200));
      const seen = [];
      await engine.generate(prompt, { max_new_tokens: 1, speculation: "off", onProgress: (progress) => seen.push(progress) }).result;
      // Something else, of which nothing is cached.
      const other = prompt.toReversed();
      const control = new AbortController();
      const { result } = engine.generate(other, { max_new_tokens: 1, speculation: "off", signal: control.signal });
      // It arrives before the first chunk is read.
      control.abort("enough");
      const error = await failed(result);
      const { cause } = await result.catch((error) => error);
      const again = await engine.generate(other, { max_new_tokens: 1 }).result;
      return { seen, error, cause, again: again.stats.num_cached_tokens / chunk };
    });
    equal(
      seen.map(({ phase, loaded, total }) => [phase, loaded / 64, total]),
      [1, 2, 3, 4, 5].map((chunks) => ["prefill", chunks, 383]),
      "progress",
    );
    equal([error.code, error.detail.finish_reason, error.detail.text, error.detail.token_ids, cause], ["aborted", "aborted", "", [], "enough"], "the error");
    check(again > 0 && again <= 2, `${again} chunks were read before the abort took effect`);
  },

  async "wrong calls give errors with code and detail, and the engine stays usable"() {
    for (const [prompt, options, code, said] of [
      ["a", { max_new_token: 3 }, "bad-option", "max_new_tokens"],
      ["a", { onProgress: 3 }, "bad-option", "onProgress"],
      ["a", { max_new_tokens: "3" }, "bad-option", "max_new_tokens"],
      ["a", { max_new_tokens: 0 }, "bad-option", "1 or more"],
      ["a", { speculation: "on" }, "bad-option", "off"],
      ["a", { temperature: -1 }, "bad-option", "0.001 to 100"],
      ["a", { top_p: 0 }, "bad-option", "more than 0, up to 1"],
      ["a", { num_assistant_tokens: -1 }, "bad-option", "0 or more"],
      ["a", { num_assistant_tokens_schedule: "fast" }, "bad-option", "adaptive"],
      ["a", { logit_bias: { 1000000: 1 } }, "bad-option", "token ids below"],
      ["a", { seed: 1.5 }, "bad-option", "whole number"],
      [7, {}, "bad-option", "messages"],
      [[1_000_000], {}, "bad-option", "1000000"],
      [Array(600).fill(5), {}, "context-full", "512"],
      [[], {}, "bad-option", "an empty list"],
    ]) {
      const error = await page.evaluate(([prompt, options]) => failed(engine.generate(prompt, options).result), [prompt, options]);
      check(error?.is, `${JSON.stringify(options)}: ${JSON.stringify(error)}`);
      equal(error.code, code, "code");
      check(error.message.includes(said), error.message);
      check(error.detail, "detail");
    }
    for (const [call, option] of [
      ["engine.generate('a', { signal: new AbortController() }).result", "signal"],
      ["engine.generate([null]).result", "messages"],
      ["engine.generate(null).result", "prompt"],
      ["engine.tokenize(null)", "prompt"],
      ["engine.detokenize(null)", "ids"],
      ["engine.detokenize(['a'])", "ids"],
      ["engine.detokenize([-1])", "ids"],
      ["engine.chat.completions.create(null)", "messages"],
      ...["undefined", "null", "'Why?'", "[]", "[null]", "['Why?']"].map((messages) => [
        `engine.chat.completions.create({ messages: ${messages} })`,
        "messages",
      ]),
    ]) {
      const error = await page.evaluate((call) => failed(eval(call)), call);
      equal([error?.is, error?.code, error?.detail?.option], [true, "bad-option", option], call);
    }
    equal((await page.evaluate((prompt) => engine.generate(prompt, null).result, golden[0].prompt)).token_ids, golden[0].greedy_ids, "null as options");
    equal((await generate(golden[0].prompt, { max_new_tokens: 4 })).token_ids, golden[0].greedy_ids.slice(0, 4), "afterwards");
  },

  async "what cannot be loaded gives errors with code and detail"() {
    for (const [model, options, code] of [
      ["no model", {}, "bad-option"],
      ["https://", {}, "bad-option"],
      ["/models/tales/nothing", {}, "not-found"],
      ["/is-html/models/tales/target", {}, "not-found"],
      ["/forbidden/models/tales/target", {}, "not-found"],
      ["/broken/models/tales/draft", {}, "network"],
      ["/changing/models/tales/target", { max_context: 64 }, "integrity"],
      ["owner/name", { endpoint: `${url}/nowhere` }, "not-found"],
      ["/models/tales/draft", { max_contexts: 8 }, "bad-option"],
      ["/models/tales/draft", { max_context: 1 }, "bad-option"],
      ["/altered/weights/models/tales/draft", {}, "bad-weights"],
      ["/altered/config/models/tales/draft", {}, "bad-config"],
      ["/altered/architecture/models/tales/draft", {}, "unsupported-architecture"],
      ["/altered/tokenizer/models/tales/draft", {}, "bad-tokenizer"],
      ["/altered/template/models/tales/draft", {}, "bad-template"],
    ]) {
      const error = await page.evaluate(([model, options]) => failed(Engine.load(model, options)), [model, options]);
      check(error?.is, `${model}: ${JSON.stringify(error)}`);
      equal(error.code, code, `${model}: ${error.message}`);
      check(error.detail, "detail");
    }
    for (const [model, options, option] of [
      [null, {}, "model"],
      [7, {}, "model"],
      [[7], {}, "model"],
      ["/models/tales/draft", { assistant_model: 7 }, "assistant_model"],
      ["/models/tales/draft", { signal: {} }, "signal"],
      ["/models/tales/draft", { onProgress: 7 }, "onProgress"],
      ["/models/tales/draft", { cache: "no" }, "cache"],
      ["/models/tales/draft", { revision: 7 }, "revision"],
      ["/models/tales/draft", { worker: "http://" }, "worker"],
      ["/models/tales/draft", { wasm: "http://" }, "wasm"],
    ]) {
      const error = await page.evaluate(([model, options]) => failed(Engine.load(model, options)), [model, options]);
      equal([error?.is, error?.code, error?.detail?.option], [true, "bad-option", option], JSON.stringify([model, options]));
    }
    const picked = await page.evaluate(() => failed(Engine.load([new File(["{}"], "config.json")])));
    equal(picked.code, "not-found", picked.message);
  },

  async "an assistant with another tokenizer changes nothing but the speed"() {
    const { prompt, greedy_ids } = golden[0];
    const { token_ids, stats } = await page.evaluate(
      async ([prompt, options]) => {
        const other = await Engine.load(TALES, { assistant_model: "/vocabulary/models/tales/draft", max_context: 256, kv_dtype: "f32" });
        const result = await other.generate(prompt, options).result;
        other.close();
        return result;
      },
      [prompt, { max_new_tokens: FEW, ...MODEL }],
    );
    equal(token_ids, greedy_ids.slice(0, FEW), "ids");
    check(stats.num_draft_tokens > 0, "drafts");
    check(stats.warnings[0].includes("tokenizer"), `warnings: ${stats.warnings}`);
  },

  async "numbers that outgrow f32 give non-finite-logits, not nonsense"() {
    const error = await page.evaluate(async () => {
      const bad = await Engine.load("/unbounded/model", { max_context: 64 });
      const error = await failed(bad.generate("Once", { max_new_tokens: 4 }).result);
      bad.close();
      return error;
    });
    equal(error?.code, "non-finite-logits", JSON.stringify(error));
    equal(error.detail.model, "target", "detail");
  },

  async "abort at 20 random tokens, and a fresh run after each equals an undisturbed one"() {
    const { greedy_ids, prompt } = golden[4];
    // The same numbers in every run: a linear congruential generator.
    let state = 7;
    const random = (most) => 1 + (((state = (state * 1103515245 + 12345) % 2 ** 31) >> 8) % most);
    for (let i = 0; i < 20; i++) {
      const after = random(12);
      const { code, ids } = await page.evaluate(
        async ([prompt, after, max_new_tokens]) => {
          const control = new AbortController();
          const stream = engine.generate(prompt, { max_new_tokens, signal: control.signal });
          const ids = [];
          const read = (async () => {
            for await (const { tokens } of stream) if (ids.push(...tokens.map(({ id }) => id)) >= after) control.abort();
          })();
          return { code: (await failed(read))?.code, ids };
        },
        [prompt, after, MANY],
      );
      equal(code, "aborted", `after ${after}`);
      equal(ids.slice(0, greedy_ids.length), greedy_ids.slice(0, ids.length), `ids before the abort after ${after}`);
      const fresh = await generate(prompt, { max_new_tokens: 3 });
      equal(fresh.token_ids, greedy_ids.slice(0, 3), `ids after the abort after ${after}`);
    }
  },

  async "a second turn reuses what the first one computed"() {
    const messages = [{ role: "user", content: "Continue the tale: There was once a fox." }];
    const turns = await page.evaluate(async (messages) => {
      const create = (messages) => engine.chat.completions.create({ messages, max_tokens: 8 });
      const first = await create(messages);
      const second = [...messages, first.choices[0].message, { role: "user", content: "And then?" }];
      const again = await create(second);
      const usages = [first.usage, again.usage].map(({ prompt_tokens, prompt_tokens_details }) => [prompt_tokens, prompt_tokens_details.cached_tokens]);
      return { usages, content: again.choices[0].message.content, second };
    }, messages);
    const [[prompt], [, cached]] = turns.usages;
    check(cached >= prompt - 1, `${cached} tokens were cached, the first prompt had ${prompt}`);
    const fresh = await page.evaluate(async (messages) => {
      await engine.generate("Something else altogether", { max_new_tokens: 1 }).result;
      const { choices, usage } = await engine.chat.completions.create({ messages, max_tokens: 8 });
      return { content: choices[0].message.content, cached: usage.prompt_tokens_details.cached_tokens };
    }, turns.second);
    check(fresh.cached >= cached, `behind another text ${fresh.cached} tokens are cached, before ${cached}`);
    equal(fresh.content, turns.content, "the text does not depend on it");
  },

  async "chat completions have OpenAI's shapes, whole and streamed"() {
    const { whole, parts } = await page.evaluate(async () => {
      const messages = [{ role: "user", content: "Tell me a tale about a fox." }];
      const create = (more) =>
        engine.chat.completions.create({ messages, max_tokens: 12, drafter: "draft_model", num_assistant_tokens_schedule: "constant", ...more });
      const parts = [];
      for await (const part of await create({ stream: true, stream_options: { include_usage: true } })) parts.push(part);
      return { whole: await create({}), parts };
    });
    const { id, object, created, model, choices, usage } = whole;
    check(id.startsWith("chatcmpl-") && object === "chat.completion" && created > 1e9 && model, "head");
    equal(choices[0].message.role, "assistant", "role");
    equal(choices[0].finish_reason, "length", "finish_reason");
    equal(usage.completion_tokens, 12, "completion_tokens");
    equal(usage.total_tokens, usage.prompt_tokens + 12, "total_tokens");
    const { accepted_prediction_tokens, rejected_prediction_tokens } = usage.completion_tokens_details;
    check(accepted_prediction_tokens >= 0 && accepted_prediction_tokens + rejected_prediction_tokens > 0, "prediction tokens");
    equal(parts[0].choices[0].delta.role, "assistant", "first delta");
    check(
      parts.every(({ object }) => object === "chat.completion.chunk"),
      "object",
    );
    equal(parts.map(({ choices }) => choices[0]?.delta.content ?? "").join(""), choices[0].message.content, "streamed text");
    equal(parts.at(-2).choices[0].finish_reason, "length", "last finish_reason");
    equal(parts.at(-1).usage.completion_tokens, 12, "usage chunk");
  },

  async "a text of a given form is the same with every drafter, and takes fewer rounds"() {
    const { texts, requests, refused, chunks, hard } = await page.evaluate(
      async ([MODEL, LOOKUP, max_new_tokens]) => {
        const schema = {
          type: "object",
          properties: { title: { type: "string", maxLength: 20 }, kind: { enum: ["tale", "song"] }, length: { type: "integer", minimum: 1, maximum: 99 } },
          required: ["title", "kind", "length"],
          additionalProperties: false,
        };
        const response_format = { type: "json_schema", json_schema: { name: "tale", strict: true, schema } };
        const messages = [{ role: "user", content: "Tell me a tale about a fox." }];
        const fetched = () => performance.getEntriesByType("resource").filter(({ name }) => name.endsWith("grammar_bg.wasm")).length;
        const write = async (options) => {
          const tokens = [];
          const stream = engine.generate(messages, { max_new_tokens, response_format, ...options });
          for await (const piece of stream) tokens.push(...piece.tokens);
          const { text, token_ids, finish_reason, stats } = await stream.result;
          return {
            text,
            ids: token_ids.join(),
            finish_reason,
            rounds: stats.num_spec_steps,
            forced: tokens.filter(({ origin }) => origin === "grammar").length,
            masks: stats.times.masks,
          };
        };
        const texts = [];
        for (const more of [{}, { do_sample: true, seed: 7 }]) {
          for (const options of [{ speculation: "off" }, MODEL, LOOKUP, {}]) texts.push(await write({ ...options, ...more }));
        }
        const refused = [];
        for (const bad of [{ type: "json_schema", json_schema: { schema: { not: {} } } }, { type: "yaml" }, { type: "regex", regex: "(" }]) {
          refused.push(await write({ response_format: bad }).catch(({ code, message, detail }) => ({ code, message, option: detail?.option })));
        }
        const hard = await write({ response_format: { type: "regex", regex: "(the fox|the wolf)" } });
        const chunks = [];
        for await (const { choices } of await engine.chat.completions.create({ messages, response_format, max_tokens: max_new_tokens, stream: true }))
          chunks.push(choices[0]);
        return { texts, requests: fetched(), refused, chunks, hard };
      },
      [MODEL, LOOKUP, 80],
    );
    // Firefox's clock has whole milliseconds, which nine masks need not fill.
    const isCoarse = browserName === "firefox";
    for (const each of [texts.slice(0, 4), texts.slice(4)]) {
      const [plain, ...others] = each;
      equal([plain.finish_reason, plain.forced], ["stop", 0], plain.text);
      const { title, kind, length } = JSON.parse(plain.text);
      check(title.length <= 20 && ["tale", "song"].includes(kind) && length >= 1 && length <= 99, plain.text);
      for (const other of others) {
        equal([other.text, other.ids, other.finish_reason], [plain.text, plain.ids, "stop"], "the same text");
        check(other.forced > 5 && other.rounds < 0.8 * plain.rounds && (other.masks > 0 || isCoarse), JSON.stringify(other));
      }
    }
    equal(
      refused.map(({ code, option }) => [code, option]),
      Array(3).fill(["bad-option", "response_format"]),
      JSON.stringify(refused),
    );
    check(refused[0].message.includes('"not"'), refused[0].message);
    check(["the fox", "the wolf"].includes(hard.text) && hard.finish_reason === "stop", hard.text);
    equal(chunks.map(({ delta }) => delta.content ?? "").join(""), texts[3].text, "as OpenAI streams it");
    equal(chunks.at(-1).finish_reason, "stop", "the last chunk");
    check(requests === 0, "the page itself fetches nothing");
  },

  async "chats take what asks for nothing, and refuse what cannot be honoured"() {
    const body = { messages: [{ role: "user", content: "Tell me a tale about a fox." }], max_tokens: 4 };
    const neutral = {
      audio: null,
      frequency_penalty: 0,
      function_call: "none",
      functions: [],
      logit_bias: null,
      logprobs: false,
      metadata: { a: "b" },
      modalities: ["text"],
      n: 1,
      parallel_tool_calls: true,
      prediction: null,
      presence_penalty: 0,
      prompt_cache_key: "a",
      response_format: { type: "text" },
      safety_identifier: "a",
      seed: null,
      service_tier: "auto",
      stop: null,
      store: false,
      stream: false,
      stream_options: null,
      temperature: 0,
      tool_choice: "auto",
      tools: [],
      top_logprobs: 0,
      top_p: null,
      user: "a",
      verbosity: "medium",
    };
    const create = (more) =>
      page.evaluate(
        async (body) => {
          try {
            return (await engine.chat.completions.create(body)).choices[0].message.content;
          } catch ({ code, message, detail }) {
            return { code, message, option: detail?.option };
          }
        },
        { ...body, ...more },
      );
    const plain = await create({});
    check(typeof plain === "string" && plain, JSON.stringify(plain));
    equal(await create(neutral), plain, "neutral values");
    equal(await create(Object.fromEntries(Object.keys(neutral).map((name) => [name, null]))), plain, "null");
    for (const [name, value] of Object.entries({
      audio: { voice: "alloy" },
      frequency_penalty: 2.5,
      logprobs: "yes",
      n: 2,
      presence_penalty: NaN,
      reasoning_effort: "high",
      response_format: { type: "yaml" },
      tool_choice: "required",
      tools: [{ type: "function", function: { name: "f" } }],
      top_logprobs: 3,
      prediction: { type: "content", content: [{ type: "image_url" }] },
    })) {
      const { code, option, message } = await create({ [name]: value });
      equal([code, option], ["bad-option", name], message);
      check(message.startsWith(`${name}: `) && message.includes("allowed: "), message);
    }
  },

  async "a chat template sees all of a message, text parts are joined, and other parts are refused"() {
    const { shown, joined, refused } = await page.evaluate(async () => {
      const other = await Engine.load("/altered/echo/models/tales/draft", { max_context: 512 });
      const calls = [{ id: "c", type: "function", function: { name: "weather", arguments: "{}" } }];
      const parts = [
        { type: "text", text: "one " },
        { type: "text", text: "two" },
      ];
      const show = async (message) => JSON.parse(await other.detokenize(await other.tokenize([message])));
      const image = [
        { type: "text", text: "What is it?" },
        { type: "image_url", image_url: { url: "data:image/png;base64," } },
      ];
      const answers = {
        shown: [
          await show({ role: "user", content: "no", name: "Ann" }),
          await show({ role: "assistant", content: null, tool_calls: calls }),
          await show({ role: "tool", content: "sun", tool_call_id: "c" }),
        ],
        joined: await show({ role: "user", content: parts }),
        refused: await failed(other.chat.completions.create({ messages: [{ role: "user", content: image }], max_tokens: 1 })),
      };
      other.close();
      return answers;
    });
    equal(
      shown.map(({ name, tool_calls, tool_call_id }) => [name, tool_calls?.[0].function.name, tool_call_id]),
      [
        ["Ann", null, null],
        [null, "weather", null],
        [null, null, "c"],
      ],
      "fields",
    );
    equal(joined.content, "one two", "text parts");
    equal([refused?.code, refused?.is], ["bad-option", true], JSON.stringify(refused));
  },

  async "the same seed gives the same text, whoever drafts, and another seed another text"() {
    const { prompt } = golden[0];
    const drawn = { max_new_tokens: 16, do_sample: true, temperature: 0.9, top_k: 40, top_p: 0.95, repetition_penalty: 1.1, logit_bias: { 300: -5 }, seed: 7 };
    const plain = await generate(prompt, { ...drawn, speculation: "off" });
    equal(plain.stats.seed, 7, "the seed is told");
    for (const way of [MODEL, LOOKUP, { prediction: plain.text }, { ...MODEL, assistant_confidence_threshold: 0.5 }]) {
      const { token_ids, stats } = await generate(prompt, { ...drawn, ...way });
      equal(token_ids, plain.token_ids, JSON.stringify(way));
      equal(stats.num_emitted_tokens, stats.num_accepted_draft_tokens + stats.num_spec_steps, "emitted");
    }
    // How many draft tokens pay depends on what rounds take here, so only a constant schedule has a bound that does not.
    const fixed = { drafter: "prediction", num_assistant_tokens_schedule: "constant" };
    const expected = await generate(prompt, { ...drawn, ...fixed, prediction: plain.text });
    equal(expected.token_ids, plain.token_ids, "prediction");
    check(expected.stats.num_spec_steps < plain.stats.num_spec_steps / 2, "what was expected is accepted");
    check(
      expected.pieces.some(({ tokens }) => tokens.some(({ origin }) => origin === "prediction")),
      "its origin is told",
    );
    // The adaptive schedule drafts what pays here, and writes the same text.
    const longer = { ...drawn, max_new_tokens: 48 };
    const { text, token_ids } = await generate(prompt, { ...longer, speculation: "off" });
    for (let i = 0; i < 3; i++) {
      const measured = await generate(prompt, { ...longer, drafter: "prediction", prediction: text });
      equal(measured.token_ids, token_ids, "prediction, adaptive");
    }
    check((await generate(prompt, { ...drawn, seed: 8 })).token_ids.join() !== plain.token_ids.join(), "another seed");
    const rejection = await generate(prompt, { ...drawn, ...MODEL, acceptance: "rejection" });
    equal(rejection.token_ids.length, 16, "rejection sampling");
    const chat = await page.evaluate(async () => {
      const messages = [{ role: "user", content: "Tell me a tale about a fox." }];
      const { choices } = await engine.chat.completions.create({ messages, max_tokens: 8, temperature: 1.2, seed: 5 });
      const same = await engine.generate(messages, { max_new_tokens: 8, do_sample: true, temperature: 1.2, seed: 5, speculation: "off" }).result;
      return [choices[0].message.content, same.text];
    });
    equal(chat[0], chat[1], "OpenAI's names");
  },

  async "tokens become text again, and numbers say what the engine holds"() {
    const { text, device, memory, stats } = await page.evaluate(async () => {
      const text = await engine.detokenize(await engine.tokenize("The fox said: “no”."));
      return { text, device: engine.device, memory: engine.memory, stats: engine.stats };
    });
    equal(text, "The fox said: “no”.", "round trip");
    equal(device.backend, "BrowserWebGpu", "backend");
    check(memory.target.weights > 13e6 && memory.draft.weights > 1e6, "memory");
    check(stats.num_spec_steps > 0 && stats.wasm_memory < 256e6, "statistics");
  },

  async "close ends what runs, and what is asked later"() {
    const codes = await page.evaluate(async () => {
      const other = await Engine.load(DRAFT, { max_context: 64 });
      const running = failed(other.generate("Once", { max_new_tokens: 60 }).result);
      other.close();
      return [(await running).code, (await failed(other.tokenize("a"))).code];
    });
    equal(codes, ["aborted", "aborted"], "codes");
  },

  async "BigInt, undefined and null are taken for what they are"() {
    const { same, ids, stats, wide, banned } = await page.evaluate(async () => {
      const run = async (options, prompt = "Once upon a time") => await engine.generate(prompt, { max_new_tokens: 4, ...options }).result;
      const plain = await run({});
      const same = [
        await run({ max_new_tokens: 4n, num_assistant_tokens: undefined, prediction: null, temperature: undefined }),
        await run({}, (await engine.tokenize("Once upon a time")).map(BigInt)),
        await run({ stop: [], logit_bias: {}, bad_words_ids: [[5n, 6n]] }),
      ];
      const drawn = { do_sample: true, temperature: 1, seed: 7 };
      const wide = [await run(drawn), await run({ ...drawn, temperature: 1n, seed: 7n })];
      const banned = await run({ logit_bias: { [plain.token_ids[0]]: -100 } });
      return { same: same.map(({ token_ids }) => token_ids), ids: plain.token_ids, stats: plain.stats, wide, banned: banned.token_ids };
    });
    for (const other of same) equal(other, ids, "ids");
    equal(wide[1].token_ids, wide[0].token_ids, "ids with a BigInt as seed");
    equal(wide[1].stats.seed, 7, "the seed is told as a number");
    check(banned[0] !== ids[0], "logit_bias");
    equal([stats.seed, stats.distributed], [null, null], "what is not there is null");
    equal(Object.keys(stats.speculating.rounds).sort(), ["draft_model", "grammar", "lookup", "plain", "prediction", "suffix"], "a plain object");
  },

  async "what an option cannot be is bad-option, with its name"() {
    const errors = await page.evaluate(async () => {
      const errors = [];
      const hear = async (name, promise) => errors.push([name, await failed(promise)]);
      for (const [name, value] of [
        ["temperature", NaN],
        ["temperature", "hot"],
        ["temperature", Infinity],
        ["top_p", NaN],
        ["max_new_tokens", NaN],
        ["max_new_tokens", "7"],
        ["max_new_tokens", 1.5],
        ["max_new_tokens", -1],
        ["max_new_tokens", -1n],
        ["seed", 2n ** 64n],
        ["seed", 2 ** 53],
        ["stop", "."],
        ["stop", [1]],
        ["do_sample", 1],
        ["speculation", "on"],
        ["drafter", 5],
        ["logit_bias", { 300: NaN }],
        ["tools", [{ parameters: { default: NaN } }]],
        ["stop", JSON.parse("[".repeat(1000) + "]".repeat(1000))],
        ["chat_template_kwargs", JSON.parse(`${'{"a":'.repeat(1000)}0${"}".repeat(1000)}`)],
        ["logit_bias", [1]],
        ["logit_bias", { a: 1 }],
        ["bad_words_ids", [["x"]]],
        ["prediction", new Set()],
        ["prediction", {}],
      ])
        await hear(name, engine.generate("Once", { [name]: value }).result);
      await hear("options", engine.generate("Once", { max_new_token: 7 }).result);
      for (const [name, value] of [
        ["max_context", NaN],
        ["max_context", "64"],
        ["kv_dtype", 5],
        ["sp_degree", 1.5],
        ["prefill_chunk", 2n ** 70n],
      ])
        await hear(name, Engine.load(DRAFT, { [name]: value }));
      for (const prompt of [5, {}, [1, NaN], [1, -1n]]) await hear("prompt", engine.generate(prompt).result);
      return errors;
    });
    for (const [name, error] of errors) {
      equal([error?.code, error?.detail?.option], ["bad-option", name], `${name}: ${error?.message}`);
      check(error.message.startsWith(`${name}: `) && error.detail.allowed, error.message);
    }
  },

  async "an option that does not exist is answered with all names and the nearest one, a function as options is refused"() {
    for (const [call, said, option = "options"] of [
      [
        "Engine.load(DRAFT, { assistantModel: DRAFT })",
        /did you mean assistant_model\? Allowed: .*\bassistant_model, .*\bmax_context, .*\bonProgress, .*\bwasm/,
      ],
      ["Engine.load(DRAFT, { maxContext: 64 })", /did you mean max_context\?/],
      ["Engine.load(DRAFT, { onprogress: null, cached: true })", /did you mean cache\?/],
      ["Engine.load(DRAFT, { quantization: 4 })", /^options: quantization is not allowed; allowed: /],
      ["Engine.inspect(DRAFT, { endPoint: '/' })", /did you mean endpoint\?/],
      ["engine.generate('a', { max_new_token: 3 }).result", /did you mean max_new_tokens\? Allowed: .*\bonProgress, .*\bsignal, /],
      ["engine.generate('a', { topP: 0.5 }).result", /did you mean top_p\?/],
      ["engine.chat({ numAssistantTokens: 3 }).send('a').result", /did you mean num_assistant_tokens\?/],
      ["engine.tokenize('a', { tool: [] })", /did you mean tools\?/],
      ["Engine.load(DRAFT, () => {})", /an object/],
      ["Engine.load([DRAFT], () => {})", /an object/],
      ["Engine.inspect(DRAFT, () => {})", /an object/],
      ["Engine.load(DRAFT, 'q4')", /an object/],
      ["engine.generate('a', () => {}).result", /an object/],
      ["engine.tokenize('a', () => {})", /an object/],
      ["engine.chat().send('a', () => {}).result", /an object/],
      ["(async () => engine.chat('You are a pirate.'))()", /an object/],
      ["(async () => engine.chat(() => {}))()", /an object/],
      ["Engine.load(DRAFT, { initProgressCallback: () => {} })", /onProgress/, "initProgressCallback"],
      ["Engine.load(DRAFT, { progress_callback: () => {} })", /onProgress/, "progress_callback"],
      ["engine.generate('a', { callback_function: () => {} }).result", /onProgress/, "callback_function"],
    ]) {
      const error = await page.evaluate((call) => failed(eval(call)), call);
      equal([error?.is, error?.code, error?.detail.option], [true, "bad-option", option], `${call}: ${error?.message}`);
      check(said.test(error.message), `${call}: ${error.message}`);
    }
  },

  async "what messages hold reaches the template, or is bad-option"() {
    const call = { type: "function", function: { name: "sail", arguments: { to: "Ithaca", at: 7 } } };
    const texts = await prompts("tools", [
      [
        {
          role: "user",
          name: "Ann",
          content: [
            { type: "text", text: "Sail " },
            { type: "text", text: "on" },
          ],
        },
      ],
      [{ role: "assistant", content: null, tool_calls: [call], refusal: null }],
    ]);
    equal(
      texts,
      ["user Ann: Sail on \n", 'assistant : None [{"type": "function", "function": {"name": "sail", "arguments": {"to": "Ithaca", "at": 7}}}]\n'],
      "prompts",
    );
    const errors = await page.evaluate(async () => {
      const errors = [];
      for (const [message, value] of [
        [null, "message 0: null"],
        [{ content: "hi" }, "message 0: one without a role"],
        [{ role: "user" }, "message 0: one without content"],
        [{ role: "user", content: 5n }, "message 0: a number as content"],
        [{ role: "user", content: [{ type: "image_url", image_url: { url: "data:" } }] }, "message 0: a content part of the type image_url"],
        [{ role: "user", content: "hi", name: "Ann" }, "the field name"],
      ])
        errors.push([value, await failed(engine.generate([message]).result)]);
      return errors;
    });
    for (const [value, error] of errors) {
      equal([error?.code, error?.detail?.option, error?.detail?.value], ["bad-option", "messages", value], error?.message);
    }
  },

  async "a template is given tools, documents, variables and the beginning of an answer, or it is bad-option"() {
    const { texts, errors, completion } = await page.evaluate(async () => {
      const other = await Engine.load("/altered/variables/models/tales/draft", { max_context: 512 });
      const [hi, begun] = [
        { role: "user", content: "hi" },
        { role: "assistant", content: "Once " },
      ];
      const tools = [{ type: "function", function: { name: "clock" } }];
      const texts = [];
      for (const [messages, options] of [
        [[hi]],
        [[hi], { tools }],
        [[hi], { documents: [{ title: "Sky" }] }],
        [[hi], { chat_template_kwargs: { enable_thinking: true } }],
        [[hi, begun], { continue_final_message: true }],
        [[hi], { add_generation_prompt: false }],
        [[hi], { tools: [], chat_template_kwargs: null }],
      ])
        texts.push(await other.detokenize(await other.tokenize(messages, options)));
      const errors = [];
      for (const [name, value, prompt = [hi]] of [
        ["chat_template_kwargs", { enable_thought: true }],
        ["chat_template_kwargs", { tools }],
        ["chat_template_kwargs", 5],
        ["tools", {}],
        ["tools", [5]],
        ["continue_final_message", true],
        ["continue_final_message", "yes"],
        ["tools", tools, "Once"],
        ["add_generation_prompt", true, [1, 2]],
      ])
        errors.push([name, await failed(other.generate(prompt, { [name]: value }).result)]);
      const usage = async (more) => (await other.chat.completions.create({ messages: [hi], max_tokens: 1, ...more })).usage.prompt_tokens;
      const completion = [await usage({}), await usage({ tools }), await usage({ tools, tool_choice: "none" })];
      other.close();
      return { texts, errors, completion };
    });
    equal(
      texts,
      [
        "[null, null, false]<hi>...",
        '[[{"type": "function", "function": {"name": "clock"}}], null, false]<hi>...',
        '[null, [{"title": "Sky"}], false]<hi>...',
        "[null, null, true]<hi>...",
        "[null, null, false]<hi><Once ",
        "[null, null, false]<hi>",
        "[null, null, false]<hi>...",
      ],
      "prompts",
    );
    for (const [name, error] of errors) equal([error?.code, error?.detail?.option], ["bad-option", name], `${name}: ${error?.message}`);
    check(completion[1] > completion[0] && completion[2] === completion[0], `prompt tokens: ${completion}`);
  },

  async "do_sample model draws as the model's files say, and the statistics tell"() {
    const { theirs, same, plain, ...more } = await page.evaluate(async () => {
      const other = await Engine.load("/altered/recommended/models/tales/draft", { max_context: 128 });
      const write = (more) => other.generate("Once", { max_new_tokens: 8, seed: 3, top_k: 9, ...more }).result;
      const answers = {
        theirs: await write({ do_sample: "model" }),
        same: await write({ do_sample: true, temperature: 0.5 }),
        plain: await write({ do_sample: false }),
        chat: await other.chat({ max_tokens: 3 }).send("Once").result,
        chosen: await other.chat({ max_tokens: 3, do_sample: false }).send("Once").result,
        two: await failed(other.generate("Once", { max_tokens: 3, max_new_tokens: 4 }).result),
        text: await failed((async () => (await other.generate("Once", { max_new_tokens: 1 })).text)()),
        said: await failed((async () => (await other.chat({ max_tokens: 1 }).send("Once")).text)()),
      };
      // At the end of a `using` block.
      other[Symbol.dispose]?.();
      return { ...answers, closed: globalThis.Symbol.dispose ? await failed(other.generate("Once").result) : { code: "aborted" } };
    });
    equal(
      theirs.stats.sampling,
      {
        do_sample: true,
        temperature: 0.5,
        top_k: 9,
        top_p: 1,
        min_p: 0,
        repetition_penalty: 1,
        presence_penalty: 0,
        frequency_penalty: 0,
        no_repeat_ngram_size: 0,
      },
      "what was used",
    );
    equal(theirs.token_ids, same.token_ids, "ids");
    equal(plain.stats.sampling.do_sample, false, "greedy");
    const { do_sample, temperature, top_k } = more.chat.stats.sampling;
    equal([do_sample, temperature, top_k, more.chat.token_ids.length], [true, 0.5, 7, 3], "a conversation");
    equal(more.chosen.stats.sampling.do_sample, false, "a conversation that chose");
    equal([more.two.code, more.two.detail.option, more.closed.code], ["bad-option", "max_tokens", "aborted"], "two values; a closed engine");
    for (const { message } of [more.text, more.said]) check(message.includes("(await engine.generate(prompt).result).text"), message);
  },

  async "a template knows the date, in UTC as natively"() {
    const today = () => {
      const of = (options) => new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", ...options }).format();
      return `${of({ weekday: "long" })}, ${of({ day: "2-digit" })} ${of({ month: "long" })} ${of({ year: "numeric" })}: hi`;
    };
    const before = today();
    const [text] = await prompts("dated", [[{ role: "user", content: "hi" }]]);
    check([before, today()].includes(text), `${text}, not ${before}`);
  },
};
