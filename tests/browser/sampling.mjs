// Choice of tokens and what is reported about them, in a page: penalties, log-probabilities, several choices, embeddings, scores.
import { readFileSync } from "node:fs";
import { check, equal, open } from "./harness.mjs";

const [{ prompt }] = JSON.parse(readFileSync(new URL("../golden/tales.json", import.meta.url), "utf8")).cases;
const DRAFTED = { drafter: "draft_model", num_assistant_tokens_schedule: "heuristic_transient" };
const LOOKUP = { drafter: "lookup", num_assistant_tokens_schedule: "constant", prompt_lookup_num_tokens: 5 };

let page;
export const before = async () => {
  page = await open();
  await page.evaluate(async () => {
    const load = (device) => Engine.load(TALES, { assistant_model: DRAFT, max_context: 512, kv_dtype: "f32", arithmetic: "f32", device });
    globalThis.engines = { auto: await load("webgpu"), cpu: await load("cpu") };
  });
};
export const after = () => page.close();

/** A text by one of the engines. */
const write = (device, options, text = prompt) =>
  page.evaluate(([device, prompt, options]) => engines[device].generate(prompt, options).result, [device, text, options]);
const devices = ["auto", "cpu"];

export const tests = {
  async "penalties and n-grams give the same text whoever drafts, on both devices"() {
    for (const device of devices) {
      const plain = await write(device, { max_new_tokens: 16 });
      for (const way of [{ presence_penalty: -2 }, { frequency_penalty: -2 }, { no_repeat_ngram_size: 1 }]) {
        const alone = await write(device, { max_new_tokens: 16, speculation: "off", ...way });
        for (const drafts of [DRAFTED, LOOKUP]) {
          const { token_ids } = await write(device, { max_new_tokens: 16, ...way, ...drafts });
          equal(token_ids, alone.token_ids, `${device} ${JSON.stringify(way)}`);
        }
        check(alone.token_ids.join() !== plain.token_ids.join(), `${device}: ${JSON.stringify(way)} changes nothing`);
        equal(alone.stats.sampling[Object.keys(way)[0]], Object.values(way)[0], "what was used");
      }
      const { token_ids } = await write(device, { max_new_tokens: 16, no_repeat_ngram_size: 1 });
      const known = new Set(await page.evaluate((text) => engines.auto.tokenize(text), prompt));
      check(
        token_ids.every((id) => known.size < known.add(id).size),
        "a token comes twice",
      );
    }
  },

  async "log-probabilities come with tokens, the same bits whoever drafts"() {
    for (const device of devices) {
      const asked = { max_new_tokens: 20, logprobs: true, top_logprobs: 3, presence_penalty: 1 };
      const alone = await write(device, { ...asked, speculation: "off" });
      const { logprobs } = await write(device, { ...asked, ...DRAFTED });
      equal(logprobs, alone.logprobs, device);
      equal(
        logprobs.map(({ id }) => id),
        alone.token_ids,
        "ids",
      );
      check(
        logprobs.every(
          ({ logprob, top_logprobs: [first, second, third] }) => logprob <= first.logprob && first.logprob >= second.logprob && second.logprob >= third.logprob,
        ),
        "order",
      );
      const bytes = Uint8Array.from(logprobs.flatMap(({ bytes }) => bytes));
      check(new TextDecoder().decode(bytes).startsWith(alone.text), "bytes");
      equal((await write(device, { max_new_tokens: 4 })).logprobs, undefined, "nobody asked");
    }
  },

  async "chat completions tell logprobs, whole and streamed, and have several choices behind one prompt"() {
    const { whole, read, parts, ids, refused } = await page.evaluate(async () => {
      const engine = engines.auto;
      const messages = [{ role: "user", content: "Tell me a tale about a fox." }];
      const create = (more) => engine.chat.completions.create({ messages, max_tokens: 8, ...more });
      const asked = { n: 3, temperature: 1, seed: 5, logprobs: true, top_logprobs: 2 };
      const whole = await create(asked);
      const read = engine.stats.num_prompt_tokens - engine.stats.num_cached_tokens;
      const parts = [];
      for await (const part of await create({ ...asked, stream: true, stream_options: { include_usage: true } })) parts.push(part);
      const ids = [];
      for (const seed of [5, 6, 7]) ids.push((await create({ temperature: 1, seed })).choices[0].message.content);
      const refused = await failed(create({ n: 2 }));
      for await (const part of await create({ n: 4, temperature: 1, max_tokens: 400, stream: true })) if (part.choices[0].delta.content) break;
      await engine.generate("Once", { max_new_tokens: 1 }).result;
      return { whole, read, parts, ids, refused };
    });
    equal(read, 1, "the last choice read only the pending token");
    equal(
      whole.choices.map(({ index }) => index),
      [0, 1, 2],
      "indices",
    );
    equal(
      whole.choices.map(({ message }) => message.content),
      ids,
      "choice i has seed + i",
    );
    equal(
      whole.usage.completion_tokens,
      whole.choices.reduce((sum, { logprobs }) => sum + logprobs.content.length, 0),
      "usage",
    );
    for (const { index, logprobs } of whole.choices) {
      const streamed = parts.filter(({ choices: [choice] }) => choice?.index === index).map(({ choices: [choice] }) => choice);
      equal(streamed.map(({ delta }) => delta.content ?? "").join(""), ids[index], "streamed text");
      equal(
        streamed.flatMap(({ logprobs }) => logprobs?.content ?? []),
        logprobs.content,
        "streamed logprobs",
      );
      equal([streamed[0].delta.role, streamed.at(-1).finish_reason], ["assistant", whole.choices[index].finish_reason], "first and last");
      check(
        logprobs.content.every(({ token, bytes, top_logprobs }) => typeof token === "string" && bytes.length && top_logprobs.length === 2),
        "shape",
      );
    }
    equal(parts.at(-1).usage.completion_tokens, whole.usage.completion_tokens, "usage of the stream");
    equal([refused.code, refused.detail.option], ["bad-option", "n"], refused.message);
  },

  async "embed, score and detokenize refuse unknown options, and take one text as a list of one"() {
    const told = await page.evaluate(async () => {
      const [engine] = Object.values(engines);
      const errors = [];
      for (const call of [
        engine.embed(["a"], { poolin: "last" }),
        engine.embed(["a"], () => {}),
        engine.embed(5),
        engine.score("a", ["b"], { normalize: true }),
        engine.score("a"),
        engine.detokenize([5], { skipSpecialTokens: false }),
        engine.detokenize([5], { skip_special_tokens: "no" }),
      ])
        errors.push(await failed(call).then((error) => [error?.is, error?.code, error?.detail.option]));
      return { errors, one: await engine.score("a", " bc"), list: await engine.score("a", [" bc"]), embedded: (await engine.embed("ab")).length };
    });
    const options = ["options", "options", "texts", "options", "continuations", "options", "skip_special_tokens"];
    equal(
      told.errors,
      options.map((option) => [true, "bad-option", option]),
      "errors",
    );
    equal([told.one, told.embedded], [told.list, 1], "one text");
  },

  async "embeddings and scores are alike on both devices, and the chat goes on"() {
    const readings = await page.evaluate(async (prompt) => {
      const readings = [];
      for (const engine of Object.values(engines)) {
        const [king, queen] = (await engine.embed(["The king lived in a castle.", "A queen lives in the castle."])).map((vector) => [...vector]);
        const [[last]] = [await engine.embed("The king lived in a castle.", { pooling: "last", normalize: false })].map((list) =>
          list.map((vector) => [...vector]),
        );
        const { data, usage } = await engine.embeddings.create({ input: "The king lived in a castle.", encoding_format: "base64" });
        const bytes = Uint8Array.from(atob(data[0].embedding), (character) => character.charCodeAt(0));
        const { token_ids, logprobs } = await engine.generate(prompt, { max_new_tokens: 12, logprobs: true }).result;
        const scores = await engine.score(prompt, [token_ids, " xq zzz"]);
        const after = await engine.generate(prompt, { max_new_tokens: 12 }).result;
        const errors = [];
        for (const call of [
          engine.embed(["a"], { pooling: "max" }),
          engine.embed(["a"], { normalize: "yes" }),
          engine.embed(["a", 5]),
          engine.score("a", [[-1]]),
          engine.embed(["a"], { signal: AbortSignal.abort("now") }),
        ])
          errors.push(await failed(call).then(({ code, detail }) => [code, detail?.option ?? null]));
        readings.push({
          king,
          queen,
          last,
          base64: [...new Float32Array(bytes.buffer)],
          tokens: usage.prompt_tokens,
          scores,
          errors,
          summed: logprobs.reduce((sum, { logprob }) => sum + logprob, 0),
          same: after.token_ids.join() === token_ids.join(),
          cached: after.stats.num_cached_tokens === after.stats.num_prompt_tokens - 1,
        });
      }
      return readings;
    }, prompt);
    const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
    for (const { king, queen, last, base64, tokens, scores, errors, summed, same, cached } of readings) {
      equal([king.length, last.length, base64], [queen.length, king.length, king], "lengths");
      check(Math.abs(dot(king, king) - 1) < 1e-5 && dot(king, queen) < 1 && dot(last, last) > 1.01, "unit vectors, where they are wanted");
      check(tokens > 3 && same && cached, "the chat goes on");
      check(Math.abs(scores[0].logprob - summed) < 1e-4 && scores[0].num_tokens === 12, `${scores[0].logprob} and ${summed}`);
      check(scores[1].logprob < scores[0].logprob, "nonsense is less likely");
      equal(
        errors,
        [
          ["bad-option", "pooling"],
          ["bad-option", "normalize"],
          ["bad-option", "prompt"],
          ["bad-option", "prompt"],
          ["aborted", null],
        ],
        "errors",
      );
    }
    const [gpu, cpu] = readings;
    check(dot(gpu.king, cpu.king) > 0.9999 && Math.abs(gpu.scores[1].logprob - cpu.scores[1].logprob) < 0.01, "devices");
  },
};
