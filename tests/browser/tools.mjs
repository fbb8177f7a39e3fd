// Calls of tools and thoughts: what models write, apart, whole and piece by piece.
import { readFileSync } from "node:fs";
import { check, equal, faults, open } from "./harness.mjs";
import { AnswerReader, readAnswer } from "../../dist/answers.js";
import { calling } from "../../dist/tools.js";

/**
 * Shared with serve/src/tests.rs: `tools` are schemas of the parameters of each tool. `answers` are, by format, a text that a model writes, the
 * content in it, its calls as `[name, arguments]`, its thoughts, and whether the prompt began them. `thoughts` are answers of models that call
 * no tool here, by the format of their thoughts. `pieces` make broken answers.
 */
const {
  tools: TOOLS,
  answers: ANSWERS,
  thoughts: THOUGHTS,
  pieces: PIECES,
  grammars: GRAMMARS,
  refused: REFUSED,
} = JSON.parse(readFileSync(new URL("../golden/answers.json", import.meta.url), "utf8"));
/** The draft model with a template that has words for calls, and wants their arguments as objects. */
const TEMPLATE =
  "{{ tools | tojson if tools }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for call in m.tool_calls or [] %}<tool_call>{{ raise_exception('a text') if call.function.arguments is string }}{{ call.function.arguments | tojson }}</tool_call>{% endfor %}{% endfor %}";
/** Texts of other templates instead of `<tool_call>`; a special token of this model, in place of one that it has, is Mistral's. */
const WORDS = {
  hermes: "<tool_call>",
  mistral: "[TOOL_CALLS]",
  mistral_args: "[TOOL_CALLS][ARGS]",
  gemma: "<start_function_call>",
  gemma4: "<|tool_call>",
  lfm2: "<|tool_call_start|>",
  xml: "<tool_call><function=><parameter=",
  harmony: "<|channel|>",
  think: "{{ 'Once upon a time there was <think>' if add_generation_prompt }}",
};
faults.calling = (_, response, rest) => {
  const format = rest.shift();
  if (!/^tokenizer(_config)?\.json$/.test(rest.at(-1))) return;
  const text = readFileSync(new URL(`../../models/tales/draft/${rest.at(-1)}`, import.meta.url), "utf8").replaceAll('"<|im_start|>"', '"[TOOL_CALLS]"');
  const template = format === "think" ? TEMPLATE + WORDS.think : TEMPLATE.replace("<tool_call>", WORDS[format]);
  const effort = format === "harmony" ? 'Reasoning: {{ reasoning_effort or "medium" }}\n' : "";
  const changed = rest.at(-1) === "tokenizer.json" ? {} : { chat_template: effort + template };
  response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify({ ...JSON.parse(text), ...changed }));
};
let page;
export const after = () => page?.close();

const reading = (toolFormat) => ({ tools: TOOLS, toolFormat, reasoningFormat: toolFormat === "harmony" ? toolFormat : null });

const apart = (calls) => calls.map(({ name, arguments: json }) => [name, json]);

export const tests = {
  "answers in every format are told apart from calls, whole and piece by piece"() {
    const thinking = Object.entries(THOUGHTS).map(([format, answers]) => [format, answers, { ...reading(null), reasoningFormat: format }]);
    for (const [format, answers, how] of [...Object.entries(ANSWERS).map(([format, answers]) => [format, answers, reading(format)]), ...thinking]) {
      for (const [text, content, calls, reasoning = "", isOpen = false] of answers) {
        const whole = readAnswer(text, { ...how, isOpen }, true);
        equal([whole.reasoning, whole.content, apart(whole.calls)], [reasoning, content, calls], `${format}: ${text}`);
        for (const size of [1, 2, 3, 7]) {
          const reader = new AnswerReader({ ...how, isOpen });
          const deltas = [];
          for (let at = 0; at < text.length; at += size) deltas.push(...reader.read(text.slice(at, at + size)));
          deltas.push(...reader.read("", true));
          const written = { reasoning: "", content: "", calls: [] };
          for (const { reasoning_content = "", content = "", tool_calls = [] } of deltas) {
            written.reasoning += reasoning_content;
            written.content += content;
            for (const {
              index,
              id,
              type,
              function: { name, arguments: json },
            } of tool_calls) {
              equal(
                [index === written.calls.length, !!name, !!id, type],
                index < written.calls.length ? [false, false, false, undefined] : [true, true, true, "function"],
                "a call's head comes once",
              );
              if (id) check(/^[a-z0-9]{9}$/.test(id), id);
              (written.calls[index] ??= [name, ""])[1] += json;
            }
          }
          equal([written.reasoning, written.content, written.calls], [reasoning, content, calls], `${format}, by ${size}: ${text}`);
          equal(
            reader.calls.map(({ function: { name, arguments: json } }) => [name, json]),
            calls,
            "what the reader has",
          );
        }
      }
    }
  },

  "no answer, however broken, throws, loops or takes back what it gave"() {
    let seed = 7;
    const random = (below) => (seed = (seed * 48271) % 2147483647) % below;
    for (let round = 0; round < 4000; round += 1) {
      const text = Array.from({ length: 1 + random(14) }, () => PIECES[random(PIECES.length)]).join("");
      for (const format of Object.keys(ANSWERS)) {
        const how = { ...reading(format), isOpen: random(2) === 1 };
        const reader = new AnswerReader(how);
        let [reasoning, content] = ["", ""];
        const deltas = text.match(/.{1,5}/gs).flatMap((piece) => reader.read(piece));
        for (const delta of [...deltas, ...reader.read("", true)]) {
          reasoning += delta.reasoning_content ?? "";
          content += delta.content ?? "";
        }
        const whole = readAnswer(text, how, true);
        equal(
          [reasoning, content, reader.calls.map(({ function: { name, arguments: json } }) => [name, json])],
          [whole.reasoning, whole.content, apart(whole.calls)],
          `${format}: ${JSON.stringify(text)}`,
        );
      }
    }
  },

  "a request's tools are checked, and required ones make a grammar"() {
    for (const { body, format, option, words } of REFUSED) {
      try {
        calling(body, format);
      } catch (error) {
        equal([error.code, error.detail.option, error.message.includes(words)], ["bad-option", option, true], error.message);
        continue;
      }
      throw new Error(`${JSON.stringify(body)} was taken`);
    }
    for (const { body, format, grammar } of GRAMMARS) equal(calling(body, format).response_format.grammar.split("\n"), grammar, format);
    const [{ body }] = GRAMMARS;
    equal(
      [calling({ ...body, tool_choice: "none" }, "hermes"), calling({ tools: [] }, "hermes"), calling({ tools: body.tools }, null)],
      [null, null, null],
      "nothing to read",
    );
    equal(calling({ tools: body.tools, parallel_tool_calls: false }, "llama").most, 1, "one call");
  },

  async "a model calls: when it must the arguments fulfil their schema, streamed and whole, with drafts and without"() {
    page = await open();
    const told = await page.evaluate(async () => {
      const engine = await Engine.load("/calling/hermes/models/tales/draft", { device: "cpu", max_context: 1024 });
      const tool = (name, properties) => ({
        type: "function",
        function: { name, description: name, parameters: { type: "object", properties, required: Object.keys(properties), additionalProperties: false } },
      });
      const tools = [tool("get_weather", { place: { enum: ["Bern", "Basel"] }, days: { type: "integer", minimum: 1, maximum: 9 } }), tool("clock", {})];
      const messages = [{ role: "user", content: "The weather?" }];
      const create = (more) =>
        engine.chat.completions.create({ messages, tools, max_tokens: 80, parallel_tool_calls: false, tool_choice: "required", ...more });
      const whole = await create({});
      const plain = await create({ speculation: "off" });
      const deltas = [];
      for await (const {
        choices: [{ delta, finish_reason }],
      } of await create({ stream: true }))
        deltas.push({ delta, finish_reason });
      const named = await create({ tool_choice: { type: "function", function: { name: "clock" } } });
      const { message } = whole.choices[0];
      const behind = [...messages, message, { role: "tool", content: "rain", tool_call_id: message.tool_calls[0].id }];
      const goesOn = await create({ messages: behind, tool_choice: "auto", max_tokens: 4 });
      const cut = await create({ max_tokens: 5 });
      const format = engine.toolFormat;
      engine.close();
      return { whole, plain, deltas, named, goesOn, cut, format };
    });
    equal(told.format, "hermes", "format");
    const { message, finish_reason } = told.whole.choices[0];
    equal([finish_reason, message.content, message.tool_calls.length], ["tool_calls", null, 1], "a call and nothing else");
    const [
      {
        id,
        type,
        function: { name, arguments: json },
      },
    ] = message.tool_calls;
    check(/^[a-z0-9]{9}$/.test(id) && type === "function", id);
    const given = JSON.parse(json);
    check(name === "clock" ? Object.keys(given).length === 0 : ["Bern", "Basel"].includes(given.place) && given.days >= 1 && given.days <= 9, json);
    equal(told.plain.choices[0].message.tool_calls[0].function, { name, arguments: json }, "without drafts");
    const streamed = told.deltas.flatMap(({ delta }) => delta.tool_calls ?? []);
    equal([streamed[0].function.name, streamed.map(({ function: { arguments: part } }) => part).join("")], [name, json], "streamed");
    equal(told.deltas.at(-1).finish_reason, "tool_calls", "streamed finish_reason");
    equal(
      told.named.choices[0].message.tool_calls.map(({ function: called }) => called),
      [{ name: "clock", arguments: "{}" }],
      "the one that was named",
    );
    check(["stop", "length"].includes(told.goesOn.choices[0].finish_reason), "goes on behind the tool's answer");
    equal(told.cut.choices[0].finish_reason, "length", "cut off");
  },

  async "a call must come in every format, with Mistral's mark as the special token that it is"() {
    const properties = {
      city: { type: "string", maxLength: 6 },
      days: { type: "integer", minimum: 1, maximum: 9 },
      kinds: { type: "array", items: { enum: ["rain", "wind"] } },
      more: { type: "object", properties: { now: { type: "boolean" } }, required: ["now"], additionalProperties: false },
      units: { enum: ["C", 1] },
    };
    const parameters = { type: "object", properties, required: ["city", "more"], additionalProperties: false };
    for (const format of ["mistral", "mistral_args", "gemma", "gemma4", "lfm2", "xml", "harmony"]) {
      const { whole, plain, found } = await page.evaluate(
        async ([format, parameters]) => {
          const engine = await Engine.load(`/calling/${format}/models/tales/draft`, { device: "cpu", max_context: 1024 });
          const tools = [{ type: "function", function: { name: "get_weather", parameters } }];
          const body = {
            messages: [{ role: "user", content: "The weather?" }],
            tools,
            tool_choice: "required",
            parallel_tool_calls: false,
            max_tokens: 400,
            logprobs: true,
          };
          const [whole, plain] = [await engine.chat.completions.create(body), await engine.chat.completions.create({ ...body, speculation: "off" })];
          const found = engine.toolFormat;
          engine.close();
          return { whole, plain, found };
        },
        [format, parameters],
      );
      equal(found, format, "format");
      const [{ message, finish_reason, logprobs }] = whole.choices;
      equal([message.content, finish_reason, message.tool_calls?.length], [null, "tool_calls", 1], `${format}: a call and nothing else`);
      const [{ function: called }] = message.tool_calls;
      equal(plain.choices[0].message.tool_calls[0].function, called, `${format}: without drafts`);
      const given = JSON.parse(called.arguments);
      check(given.city.length <= 6 && typeof given.more.now === "boolean", called.arguments);
      check(given.days === undefined || (given.days >= 1 && given.days <= 9), called.arguments);
      check((given.kinds ?? []).every((kind) => ["rain", "wind"].includes(kind)) && ["C", 1, undefined].includes(given.units), called.arguments);
      check(
        Object.keys(given).every((key) => key in properties),
        called.arguments,
      );
      if (format.startsWith("mistral")) equal(logprobs.content[0].token, "[TOOL_CALLS]", "the first token");
    }
  },

  async "the effort of gpt-oss is a variable of its template; other models have none"() {
    page ??= await open();
    const { texts, refused, unknown } = await page.evaluate(async () => {
      const body = { messages: [{ role: "user", content: "The weather?" }], max_tokens: 12 };
      const engine = await Engine.load("/calling/harmony/models/tales/draft", { device: "cpu", max_context: 1024 });
      const write = async (more) => (await engine.chat.completions.create({ ...body, ...more })).choices[0].message;
      const high = { reasoning_effort: "high" };
      const texts = [await write(high), await write({ chat_template_kwargs: high }), await write({ reasoning_effort: "low" }), await write({})];
      const refused = await failed(write({ reasoning_effort: "none" }));
      engine.close();
      const other = await Engine.load("/calling/think/models/tales/draft", { device: "cpu", max_context: 1024 });
      const unknown = await failed(other.chat.completions.create({ ...body, ...high }));
      other.close();
      return { texts: texts.map((text) => JSON.stringify(text)), refused, unknown };
    });
    equal(texts[0], texts[1], "as a variable");
    check(new Set(texts).size === 3, texts.join("\n"));
    for (const { code, detail } of [refused, unknown]) equal([code, detail.option], ["bad-option", "reasoning_effort"]);
  },

  async "thoughts are apart from content, also where the prompt begins them, but not where a grammar leaves no room"() {
    page ??= await open();
    const told = await page.evaluate(async () => {
      const engine = await Engine.load("/calling/think/models/tales/draft", { device: "cpu", max_context: 1024 });
      const messages = [{ role: "user", content: "The weather?" }];
      const create = (more) => engine.chat.completions.create({ messages, max_tokens: 12, ...more });
      const { text } = await engine.generate(messages, { max_new_tokens: 12 }).result;
      const whole = await create({});
      const deltas = [];
      for await (const { choices } of await create({ stream: true })) deltas.push(choices[0].delta);
      const schema = { enum: ["rain", "sun"] };
      const forced = await create({ response_format: { type: "json_schema", json_schema: { name: "sky", schema } } });
      const asIs = await create({ skip_special_tokens: true });
      const next = await create({ messages: [...messages, whole.choices[0].message, ...messages], max_tokens: 1 });
      const format = engine.reasoningFormat;
      engine.close();
      return { text, deltas, messages: [whole, forced, asIs, next].map(({ choices: [{ message }] }) => message), format };
    });
    const [whole, forced, asIs, next] = told.messages;
    const thought = told.text.trim();
    equal([told.format, whole.content, whole.reasoning_content], ["think", "", thought], "all of it is a thought");
    check(thought.length > 0, "the model thought");
    const joined = (key) => told.deltas.map(({ [key]: part = "" }) => part).join("");
    equal([joined("content"), joined("reasoning_content")], ["", thought], "streamed");
    check(["rain", "sun"].includes(JSON.parse(forced.content)) && !("reasoning_content" in forced), JSON.stringify(forced));
    equal([asIs.content, asIs.reasoning_content], [told.text, undefined], "what the request reads itself is as it is");
    check(next.reasoning_content !== undefined, "an answer can be a message");
  },
};
