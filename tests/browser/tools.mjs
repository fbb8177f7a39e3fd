// Calls of tools and thoughts: what models write, apart, whole and piece by piece.
import { readFileSync } from "node:fs";
import { check, equal, faults, open } from "./harness.mjs";
import { AnswerReader, readAnswer } from "../../dist/answers.js";
import { calling } from "../../dist/tools.js";

/** Schemas of the parameters of each tool. */
const TOOLS = {
  get_weather: { properties: { place: { type: "string" }, days: { type: "integer" }, zip: { type: ["string", "null"] }, unit: { enum: ["1", 2] }, more: {} } },
  clock: undefined,
};
/** By format: what a model writes, the content in it, its calls as `[name, arguments]`, its thoughts, and whether the prompt began them. */
const ANSWERS = {
  hermes: [
    ["It is sunny. ", "It is sunny. ", []],
    ['<tool_call>\n{"name": "get_weather", "arguments": {"place": "Bern", "days": 2}}\n</tool_call>', "", [["get_weather", '{"place": "Bern", "days": 2}']]],
    [
      'Let me look.\n<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>\n<tool_call>\n{"arguments": {"place": "a \\"b\\" </tool_call> {"}, "name": "get_weather"}\n</tool_call>',
      "Let me look.",
      [
        ["clock", "{}"],
        ["get_weather", '{"place": "a \\"b\\" </tool_call> {"}'],
      ],
    ],
    ['<tool_call>\n{"name": "clock"}\n</tool_call> Done.', "Done.", [["clock", "{}"]]],
    ['<tool_call>\n{"name": "clock", "arguments": "{\\"a\\": 1}"}\n</tool_call>', "", [["clock", '{"a": 1}']]],
    // No tool, no JSON, nothing that was begun: it is what the model said.
    ['<tool_call>\n{"name": "other", "arguments": {}}\n</tool_call>', '<tool_call>\n{"name": "other", "arguments": {}}\n</tool_call>', []],
    ["<tool_call> is how one calls, 1 < 2 <tool", "<tool_call> is how one calls, 1 < 2 <tool", []],
    // A call drafted in a thought is no call, also in a thought that the prompt opened; a mark in arguments is no thought.
    [
      '<think>\nPerhaps <tool_call>{"name": "clock", "arguments": {}}</tool_call>\n</think>\nNo.',
      "No.",
      [],
      'Perhaps <tool_call>{"name": "clock", "arguments": {}}</tool_call>',
    ],
    ['<think>\nSo <tool_call>{"name": "clock", "arguments": {}}</tool_call>', "", [], 'So <tool_call>{"name": "clock", "arguments": {}}</tool_call>'],
    [
      'So <tool_call>{"name": "clock", "arguments": {}}</tool_call>\n</think>\n\n<tool_call>{"name": "clock", "arguments": {"a": 1}}</tool_call>',
      "",
      [["clock", '{"a": 1}']],
      'So <tool_call>{"name": "clock", "arguments": {}}</tool_call>',
      true,
    ],
    ["\n</think>\n\nFine.", "Fine.", [], "", true],
    ["Not yet <", "", [], "Not yet <", true],
    ["<think>", "", []],
    ["<thin ice", "<thin ice", []],
    ['<tool_call>{"name": "clock", "arguments": {"a": "</think>"}}</tool_call>', "", [["clock", '{"a": "</think>"}']]],
    // Control characters in strings, after a backslash too; those between values are JSON.
    ['<tool_call>\n{"name": "clock", "arguments": {\n"a": "1\n\t2\r\n\\\\\n\\\n"}}\n</tool_call>', "", [["clock", '{\n"a": "1\\n\\t2\\r\\n\\\\\\n\\n"}']]],
    // Cut off.
    ['<tool_call>\n{"name": "get_weather", "arguments": {"place": "Be', "", [["get_weather", '{"place": "Be']]],
    ['<tool_call>\n{"na', '<tool_call>\n{"na', []],
  ],
  llama: [
    ['{"name": "get_weather", "parameters": {"place": "Bern"}}', "", [["get_weather", '{"place": "Bern"}']]],
    [
      '<|python_tag|>{"name": "clock", "parameters": {}}; {"name": "clock", "parameters": {"a": [1, {"b": 2}]}}',
      "",
      [
        ["clock", "{}"],
        ["clock", '{"a": [1, {"b": 2}]}'],
      ],
    ],
    ['{"a": 1} is an object', '{"a": 1} is an object', []],
    ["Nothing to call {here}.", "Nothing to call {here}.", []],
  ],
  mistral: [
    [
      '[TOOL_CALLS][{"name": "clock", "arguments": {}}, {"name": "get_weather", "arguments": {"place": "x]"}, "id": "abcdefghi"}]',
      "",
      [
        ["clock", "{}"],
        ["get_weather", '{"place": "x]"}'],
      ],
    ],
    ['I call. [TOOL_CALLS] [{"name": "clock", "arguments": {"a": -1.5e3}}]', "I call.", [["clock", '{"a": -1.5e3}']]],
  ],
  mistral_args: [
    [
      '[TOOL_CALLS]get_weather[ARGS]{"place": "Bern"}[TOOL_CALLS]clock[CALL_ID]abc[ARGS]{}',
      "",
      [
        ["get_weather", '{"place": "Bern"}'],
        ["clock", "{}"],
      ],
    ],
  ],
  gemma: [
    [
      '<start_function_call>call:get_weather{place:<escape>St. "Gallen", {1}: <escape>,days:3,tags:[<escape>a<escape>,<escape>b<escape>],now:true}<end_function_call><start_function_call>call:clock{}<end_function_call>',
      "",
      [
        ["get_weather", '{"place":"St. \\"Gallen\\", {1}: ","days":3,"tags":["a","b"],"now":true}'],
        ["clock", "{}"],
      ],
    ],
    ["call:clock{}", "call:clock{}", []],
  ],
  gemma4: [
    [
      'I look.<|tool_call>call:get_weather{place:<|"|>St. "Gallen", {1}: <|"|>,days:3,now:true}<tool_call|><|tool_call>call:clock{}<tool_call|>',
      "I look.",
      [
        ["get_weather", '{"place":"St. \\"Gallen\\", {1}: ","days":3,"now":true}'],
        ["clock", "{}"],
      ],
    ],
    ["<start_function_call>call:clock{}<end_function_call>", "<start_function_call>call:clock{}<end_function_call>", []],
  ],
  xml: [
    [
      'I look.\n\n<tool_call>\n<function=get_weather>\n<parameter=place>\nSt. "Gallen"\n<b>\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=more>\n{"now": True}\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=clock>\n</function>\n</tool_call>',
      "I look.",
      [
        ["get_weather", '{"place": "St. \\"Gallen\\"\\n<b>", "days": 3, "more": "{\\"now\\": True}"}'],
        ["clock", "{}"],
      ],
    ],
    // The schema decides whether a value is a text; without one it is.
    [
      "<tool_call><function=get_weather><parameter=place>8001</parameter><parameter=unit>1</parameter><parameter=more>True</parameter></function></tool_call>",
      "",
      [["get_weather", '{"place": "8001", "unit": "1", "more": true}']],
    ],
    ["<tool_call><function=get_weather><parameter=unit>2</parameter></function></tool_call>", "", [["get_weather", '{"unit": 2}']]],
    ["<tool_call><function=clock><parameter=a>1</parameter></function></tool_call>", "", [["clock", '{"a": "1"}']]],
    // JSON between the marks, a call without its end, no name of a tool, nothing that was begun.
    ['<tool_call>{"name": "clock", "arguments": {}}</tool_call>', "", [["clock", "{}"]]],
    ["<tool_call><function=clock><parameter=a>1</parameter></tool_call> Done.", "Done.", [["clock", '{"a": "1"}']]],
    ["<tool_call><function=other></function></tool_call>", "<tool_call><function=other></function></tool_call>", []],
    ["<tool_call><function=clock> now", "<tool_call><function=clock> now", []],
    ["Think.\n</think>\n\n<tool_call><function=clock></function></tool_call>", "", [["clock", "{}"]], "Think.", true],
  ],
  lfm2: [
    [
      "<|tool_call_start|>[get_weather(place=\"St. \\\"Gallen\\\")\", days=3, tags=['a', 'it\\'s'], more={'now': True, 'at': (1, 2.5,)}), clock()]<|tool_call_end|>I look.",
      "I look.",
      [
        ["get_weather", '{"place":"St. \\"Gallen\\")","days":3,"tags":["a","it\'s"],"more":{"now":true,"at":[1,2.5]}}'],
        ["clock", "{}"],
      ],
    ],
    [
      '<|tool_call_start|>[{"name": "clock", "arguments": {}}, {"name": "get_weather", "arguments": {"place": "x]"}}]<|tool_call_end|>',
      "",
      [
        ["clock", "{}"],
        ["get_weather", '{"place": "x]"}'],
      ],
    ],
    // No name of a tool, no literal, nothing that was begun; words after the calls are no calls.
    ["<|tool_call_start|>[other(a=1)]<|tool_call_end|>", "<|tool_call_start|>[other(a=1)]<|tool_call_end|>", []],
    ["<|tool_call_start|>[clock(a=b)]<|tool_call_end|>", "<|tool_call_start|>[clock(a=b)]<|tool_call_end|>", []],
    ["<|tool_call_start|>[clock()]<|tool_call_end|>clock() it is", "clock() it is", [["clock", "{}"]]],
    ['<|tool_call_start|>[clock(a="b', '<|tool_call_start|>[clock(a="b', []],
  ],
  harmony: [
    ["<|channel|>analysis<|message|>Hm.\n<|end|><|start|>assistant<|channel|>final<|message|>Fine.", "Fine.", [], "Hm."],
    [
      '<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"place": "Bern"}',
      "",
      [["get_weather", '{"place": "Bern"}']],
      "Hm.",
    ],
    // A preamble, the recipient before the channel, and arguments that are missing.
    [
      "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant to=functions.clock<|channel|>commentary json<|message|><|call|>",
      "I look.",
      [["clock", "{}"]],
    ],
    // No tool of this request, no head, a head that is cut off.
    ["<|channel|>commentary to=browser.open<|message|>{}<|call|>", "", [], "{}"],
    ['{"a": 1}', '{"a": 1}', []],
    ["Fine.<|end|><|start|>assistant<|channel|>fin", "Fine.", []],
  ],
};
/** Answers of models that call no tool here, by the format of their thoughts. */
const THOUGHTS = {
  think: [["<think>\nHm, <b>.\n</think>\n\n Fine. ", "Fine. ", [], "Hm, <b>."]],
  brackets: [
    ["[THINK]Hm.[/THINK]Fine.", "Fine.", [], "Hm."],
    ["[THIN] is fine.", "[THIN] is fine.", []],
  ],
  channel: [
    ["<|channel>thought\nHm.\n<channel|>Fine.", "Fine.", [], "Hm."],
    ["<|channel>thought\n<channel|>Fine.", "Fine.", []],
  ],
};
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
    const parts = [
      "<tool_call>",
      "</tool_call>",
      "[TOOL_CALLS]",
      "[ARGS]",
      "<|python_tag|>",
      "<think>",
      "</think>",
      "<|channel|>",
      "analysis",
      "to=functions.clock",
      "<|message|>",
      "<|end|>",
      "<|start|>assistant",
      "<start_function_call>",
      "<end_function_call>",
      "<|tool_call>",
      "<tool_call|>",
      '<|"|>',
      "<|tool_call_start|>",
      "<|tool_call_end|>",
      "(",
      ")",
      "=",
      "call:",
      "clock",
      "<escape>",
      "<function=clock>",
      "<parameter=a>",
      "</parameter>",
      "</function>",
      '{"name"',
      ': "clock"',
      ', "arguments": ',
      "{",
      "}",
      "[",
      "]",
      '"',
      "\\",
      ":",
      ",",
      " ",
      "\n",
      "1",
      "-",
      "text",
    ];
    for (let round = 0; round < 4000; round += 1) {
      const text = Array.from({ length: 1 + random(14) }, () => parts[random(parts.length)]).join("");
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

  "references to the root of parameters lead there in a call's schema"() {
    const parameters = {
      properties: { $ref: { $ref: "#" }, b: { $ref: "#/properties/a~1b" }, c: { items: { $ref: "https://x/y#" } }, d: { const: { $ref: "#" } } },
    };
    const { response_format } = calling({ tools: [{ type: "function", function: { name: "clock", parameters } }], tool_choice: "required" }, "llama");
    const at = "#/properties/parameters";
    const moved = { $ref: { $ref: at }, b: { $ref: `${at}/properties/a~1b` }, c: parameters.properties.c, d: parameters.properties.d };
    check(response_format.grammar.includes(JSON.stringify(moved)), response_format.grammar);
  },

  "a request's tools are checked, and required ones make a grammar"() {
    const tools = Object.keys(TOOLS).map((name) => ({
      type: "function",
      function: { name, parameters: { type: "object", properties: { a: { $ref: "#/$defs/A" } }, $defs: { A: { type: "integer" } } } },
    }));
    const refused = (body, format, option) => {
      try {
        calling(body, format);
      } catch (error) {
        equal([error.code, error.detail.option], ["bad-option", option], JSON.stringify(body));
        return;
      }
      throw new Error(`${JSON.stringify(body)} was taken`);
    };
    refused({ tools: [{}] }, "hermes", "tools");
    refused({ tools, tool_choice: "always" }, "hermes", "tool_choice");
    refused({ tools, tool_choice: { type: "function", function: { name: "none" } } }, "hermes", "tool_choice");
    refused({ tool_choice: "required" }, "hermes", "tool_choice");
    refused({ tools, tool_choice: "required" }, null, "tool_choice");
    equal(
      [calling({ tools, tool_choice: "none" }, "hermes"), calling({ tools: [] }, "hermes"), calling({ tools }, null)],
      [null, null, null],
      "nothing to read",
    );
    equal(calling({ tools, parallel_tool_calls: false }, "llama").most, 1, "one call");
    const {
      response_format: { grammar },
    } = calling({ tools, tool_choice: "required" }, "hermes");
    check(/^start: +one \("\\n" one\)\* +\none: "<tool_call>" "\\n" \(call_0 \| call_1\) /.test(grammar), grammar);
    check(grammar.includes('"const":"clock"') && grammar.includes('"$ref":"#/properties/arguments/$defs/A"'), "references lead below the call");
    const {
      response_format: { grammar: one },
    } = calling({ tools, tool_choice: { type: "function", function: { name: "clock" } } }, "llama");
    check(/^start: +one +\none: \(call_0\)\ncall_0: %json/.test(one) && one.includes('"parameters"') && !one.includes("get_weather"), one);
    const odd = (schema) => [{ type: "function", function: { name: "odd", parameters: { properties: { a: schema } } } }];
    for (const [schema, keyword] of [
      [{ type: "string", pattern: "a" }, "pattern"],
      [{ type: "array", minItems: 1 }, "minItems"],
      [{ $ref: "#/$defs/A" }, "$ref"],
      [{}, "type"],
      [true, "objects"],
    ]) {
      try {
        calling({ tools: odd(schema), tool_choice: "required" }, "gemma");
        check(false, `${keyword} was taken`);
      } catch ({ code, message }) {
        check(code === "bad-option" && message.includes(keyword), message);
      }
    }
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
