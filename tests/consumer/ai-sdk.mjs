// Tests foretoken/ai-sdk with the SDK's own functions: on a real engine, and on a fake one that records its requests.
import { deepEqual, equal, match, ok, rejects } from "node:assert/strict";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { Output, generateText, isStepCount, jsonSchema, streamText, tool } from "ai";
import { Engine, ForetokenError } from "foretoken";
import { languageModel } from "foretoken/ai-sdk";

const engine = await Engine.load(process.env.MODEL, { device: "cpu" });
after(() => engine.close());
const model = languageModel(engine, "tales");
const prompt = "Tell me a tale about a fox.";
const messages = [{ role: "user", content: prompt }];
const { text: told, stats } = await engine.generate(messages, { max_new_tokens: 24 }).result;

const schema = { type: "object", properties: { name: { type: "string" } }, required: ["name"], additionalProperties: false };
const described = jsonSchema(schema);
const weather = tool({ description: "The weather", inputSchema: described });

/** Returns a fake engine that generates these pieces, or one of these answers per call, and refuses the options `refused`. */
function spoken(said, refused = []) {
  const bodies = [];
  const answers = Array.isArray(said[0]) ? [...said] : null;
  async function* chunks() {
    const chunk = (delta, finish_reason = null) => ({ choices: [{ delta, finish_reason }] });
    yield chunk({ role: "assistant", content: "" });
    const deltas = (answers?.shift() ?? said).map((piece) =>
      typeof piece === "string" ? { content: piece } : piece.reasoning_content ? piece : { tool_calls: [piece] },
    );
    for (const delta of deltas) {
      if (delta.tool_calls?.[0] instanceof Error) throw delta.tool_calls[0];
      yield chunk(delta);
    }
    yield chunk({}, deltas.some(({ tool_calls }) => tool_calls) ? "tool_calls" : "stop");
    const usage = { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10, prompt_tokens_details: { cached_tokens: 5 } };
    yield { choices: [], usage };
  }
  const create = async (body) => {
    bodies.push({ ...body });
    const option = refused.find((name) => name in body);
    if (option) throw new ForetokenError({ code: "bad-option", message: `${option} is not allowed`, detail: { option } });
    return chunks();
  };
  return { model: languageModel({ chat: { completions: { create } } }), bodies };
}

test("generateText writes what the engine writes", async () => {
  const { text, finishReason, usage, warnings } = await generateText({ model, prompt, maxOutputTokens: 24 });
  equal(text, told);
  equal(finishReason, "length");
  equal(usage.inputTokens, stats.num_prompt_tokens);
  equal(usage.outputTokens, 24);
  deepEqual(warnings ?? [], []);
});

test("streamText streams it, with options of the engine's own", async () => {
  const options = { model, prompt, maxOutputTokens: 24, providerOptions: { foretoken: { speculation: "off" } } };
  const { textStream, finishReason, usage } = streamText(options);
  const pieces = [];
  for await (const piece of textStream) pieces.push(piece);
  ok(pieces.length > 5);
  equal(pieces.join(""), told);
  equal(await finishReason, "length");
  equal((await usage).outputTokens, 24);
  equal(engine.stats.num_draft_tokens, 0);
});

test("an object fulfils its schema, and comes piece by piece", async () => {
  const person = { ...schema, properties: { name: { type: "string", minLength: 3, maxLength: 12 } } };
  const { partialOutputStream, output, warnings } = streamText({ model, prompt, maxOutputTokens: 60, output: Output.object({ schema: jsonSchema(person) }) });
  const lengths = [];
  for await (const { name = "" } of partialOutputStream) lengths.push(name.length);
  const { name, ...rest } = await output;
  ok(name.length >= 3 && name.length <= 12, name);
  deepEqual(rest, {});
  ok(new Set(lengths).size > 2, lengths.join());
  deepEqual((await warnings) ?? [], []);
});

test("tools of which the chat template knows nothing are a warning", async () => {
  const { text, warnings } = await generateText({ model, prompt, maxOutputTokens: 24, tools: { weather } });
  equal(text, told);
  deepEqual(
    warnings.map(({ type, feature }) => `${type} ${feature}`),
    ["unsupported tools"],
  );
});

test("a model whose template knows tools calls one, which is executed and answered", async () => {
  const folder = mkdtempSync(join(tmpdir(), "foretoken-tools-"));
  cpSync(process.env.MODEL, folder, { recursive: true });
  const file = join(folder, "tokenizer_config.json");
  const chat_template =
    "{{ tools | tojson if tools }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for call in m.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}{% endfor %}";
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, "utf8")), chat_template }));
  const engine = await Engine.load(folder, { device: "cpu" });
  try {
    const heating = {
      type: "object",
      properties: { celsius: { type: "integer", minimum: 5, maximum: 30 } },
      required: ["celsius"],
      additionalProperties: false,
    };
    const set_heating = tool({ description: "Sets the heating", inputSchema: jsonSchema(heating), execute: ({ celsius }) => `now at ${celsius}` });
    const { fullStream, steps } = streamText({
      model: languageModel(engine),
      prompt: "It is cold.",
      tools: { set_heating },
      toolChoice: "required",
      maxOutputTokens: 80,
      providerOptions: { foretoken: { parallel_tool_calls: false } },
      prepareStep: ({ stepNumber }) => (stepNumber ? { toolChoice: "none" } : {}),
      stopWhen: isStepCount(2),
    });
    const input = [];
    for await (const { type, delta } of fullStream) if (type === "tool-input-delta") input.push(delta);
    const [called, answered] = await steps;
    const [{ toolName, input: given }] = called.toolCalls;
    equal(toolName, "set_heating");
    ok(given.celsius >= 5 && given.celsius <= 30, given.celsius);
    deepEqual(JSON.parse(input.join("")), given);
    equal(called.toolResults[0].output, `now at ${given.celsius}`);
    deepEqual([called.finishReason, answered.toolCalls.length], ["tool-calls", 0]);
  } finally {
    engine.close();
    rmSync(folder, { recursive: true });
  }
});

test("a signal ends a text, and the SDK sees an abort", async () => {
  const control = new AbortController();
  const { fullStream } = streamText({ model, prompt, maxOutputTokens: 200, abortSignal: control.signal });
  const seen = new Set();
  for await (const { type } of fullStream) {
    seen.add(type);
    if (type === "text-delta") control.abort();
  }
  ok(seen.has("abort") && !seen.has("error"), [...seen].join());
  const gone = new AbortController();
  async function* abortedInText(chunks) {
    for await (const chunk of chunks) {
      yield chunk;
      if (chunk.choices[0]?.delta.content) gone.abort();
    }
  }
  const create = async (...given) => abortedInText(await engine.chat.completions.create(...given));
  const long = { maxOutputTokens: 400, providerOptions: { foretoken: { min_new_tokens: 400 } } };
  const interrupted = languageModel({ chat: { completions: { create } } }, "tales");
  await rejects(generateText({ model: interrupted, prompt, ...long, abortSignal: gone.signal }), { name: "AbortError" });
  equal((await generateText({ model, prompt, maxOutputTokens: 24 })).text, told, "the engine goes on");
});

test("an error of the engine reaches the caller", async () => {
  await rejects(generateText({ model, prompt, topP: 7, maxRetries: 0 }), { code: "bad-option", message: /top_p/ });
  const codes = async (model, options) => {
    const seen = [];
    const { fullStream } = streamText({ model, prompt, maxRetries: 0, onError() {}, ...options });
    for await (const part of fullStream) if (part.type === "error" || part.type === "text-delta") seen.push(part.text ?? part.error.code);
    return seen.join();
  };
  equal(await codes(model, { topP: 7 }), "bad-option");
  equal(await codes(spoken(["a", new ForetokenError({ code: "device-lost", message: "gone" })]).model), "a,device-lost");
});

test("settings arrive under the engine's names", async () => {
  const { model, bodies } = spoken(["a"]);
  await generateText({
    model,
    prompt,
    maxOutputTokens: 5,
    temperature: 0.5,
    topP: 0.9,
    topK: 3,
    seed: 4,
    stopSequences: ["."],
    presencePenalty: 0.1,
    frequencyPenalty: 0.2,
    providerOptions: { foretoken: { drafter: "lookup" } },
  });
  deepEqual(bodies, [
    {
      messages,
      max_tokens: 5,
      temperature: 0.5,
      top_p: 0.9,
      top_k: 3,
      seed: 4,
      stop: ["."],
      presence_penalty: 0.1,
      frequency_penalty: 0.2,
      drafter: "lookup",
      stream: true,
      stream_options: { include_usage: true },
    },
  ]);
});

test("a conversation with tools arrives as chat templates know it", async () => {
  const { model, bodies } = spoken(["a"]);
  const call = { toolCallId: "1", toolName: "weather" };
  await generateText({
    model,
    instructions: "Be brief.",
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text: "How is " },
          { type: "text", text: "it?" },
        ],
      },
      {
        role: "assistant",
        content: [
          { type: "reasoning", text: "Hm." },
          { type: "text", text: "Wait." },
          { type: "tool-call", ...call, input: { name: "Rome" } },
        ],
      },
      { role: "tool", content: [{ type: "tool-result", ...call, output: { type: "json", value: { sun: true } } }] },
    ],
  });
  deepEqual(bodies[0].messages, [
    { role: "system", content: "Be brief." },
    { role: "user", content: "How is it?" },
    {
      role: "assistant",
      content: "Wait.",
      reasoning_content: "Hm.",
      tool_calls: [{ id: "1", type: "function", function: { name: "weather", arguments: { name: "Rome" } } }],
    },
    { role: "tool", tool_call_id: "1", name: "weather", content: '{"sun":true}' },
  ]);
  const picture = { role: "user", content: [{ type: "file", mediaType: "image/png", data: "AAAA" }] };
  await rejects(generateText({ model, messages: [picture], maxRetries: 0 }), { code: "bad-option" });
});

test("thoughts are apart from the text, whole and streamed", async () => {
  const answer = [{ reasoning_content: "Hm, " }, { reasoning_content: "sun." }, "Sun", "ny."];
  const { text, reasoningText } = await generateText({ model: spoken(answer).model, prompt });
  deepEqual([text, reasoningText], ["Sunny.", "Hm, sun."]);
  const { fullStream } = streamText({ model: spoken(answer).model, prompt });
  const parts = [];
  for await (const part of fullStream) if (/^(text|reasoning)-/.test(part.type)) parts.push([part.type, part.text ?? ""]);
  deepEqual(parts, [
    ["reasoning-start", ""],
    ["reasoning-delta", "Hm, "],
    ["reasoning-delta", "sun."],
    ["reasoning-end", ""],
    ["text-start", ""],
    ["text-delta", "Sun"],
    ["text-delta", "ny."],
    ["text-end", ""],
  ]);
});

test("structured output asks the engine for the schema, and streams partial objects", async () => {
  const { model, bodies } = spoken(['{"na', 'me":"Reynard', '"}']);
  const { partialOutputStream, output, usage, warnings } = streamText({ model, prompt, output: Output.object({ schema: described }) });
  const partial = [];
  for await (const object of partialOutputStream) partial.push(object);
  deepEqual(await output, { name: "Reynard" });
  deepEqual(partial.at(-1), { name: "Reynard" });
  deepEqual((await warnings) ?? [], []);
  const { type, json_schema } = bodies[0].response_format;
  equal(type, "json_schema");
  deepEqual(json_schema, { name: "answer", schema, strict: true });
  const { inputTokens, inputTokenDetails, outputTokens } = await usage;
  deepEqual([inputTokens, inputTokenDetails.cacheReadTokens, outputTokens], [7, 5, 3]);
});

test("calls of tools are streamed, executed and answered", async () => {
  const first = [
    "Let me see.",
    { index: 0, id: "a", type: "function", function: { name: "weather", arguments: "" } },
    { index: 0, function: { arguments: '{"name":' } },
    { index: 0, function: { arguments: '"Rome"}' } },
  ];
  const { model, bodies } = spoken([first, ["Sunny."]]);
  const working = tool({ description: "The weather", inputSchema: described, execute: ({ name }) => `sun in ${name}` });
  const { fullStream, text, steps } = streamText({ model, prompt, tools: { weather: working }, stopWhen: isStepCount(2) });
  const types = [];
  for await (const { type } of fullStream) if (/^(text|tool)/.test(type) && type !== types.at(-1)) types.push(type);
  deepEqual(types, [
    "text-start",
    "text-delta",
    "text-end",
    "tool-input-start",
    "tool-input-delta",
    "tool-input-end",
    "tool-call",
    "tool-result",
    "text-start",
    "text-delta",
    "text-end",
  ]);
  equal(await text, "Sunny.");
  deepEqual(
    (await steps).map(({ finishReason }) => finishReason),
    ["tool-calls", "stop"],
  );
  deepEqual(bodies[0].tools, [{ type: "function", function: { name: "weather", description: "The weather", parameters: schema } }]);
  equal(bodies[0].tool_choice, "auto");
  deepEqual(bodies[1].messages.slice(1), [
    { role: "assistant", content: "Let me see.", tool_calls: [{ id: "a", type: "function", function: { name: "weather", arguments: { name: "Rome" } } }] },
    { role: "tool", tool_call_id: "a", name: "weather", content: "sun in Rome" },
  ]);
  const named = spoken([first]);
  const { toolCalls } = await generateText({ model: named.model, prompt, tools: { weather }, toolChoice: { type: "tool", toolName: "weather" } });
  deepEqual(named.bodies[0].tool_choice, { type: "function", function: { name: "weather" } });
  deepEqual(
    toolCalls.map(({ toolName, input }) => [toolName, input]),
    [["weather", { name: "Rome" }]],
  );
});

test("what the engine refuses is a warning, and the text comes without it", async () => {
  const { model, bodies } = spoken(["a", "b"], ["response_format", "presence_penalty", "tools"]);
  const { text, warnings: told } = await generateText({ model, prompt, presencePenalty: 1, tools: { weather } });
  equal(text, "ab");
  deepEqual(told.map(({ feature }) => feature).sort(), ["presencePenalty", "tools"]);
  ok("presence_penalty" in bodies[0] && !("presence_penalty" in bodies.at(-1)));
  const { warnings } = await model.doGenerate({
    prompt: [{ role: "user", content: [{ type: "text", text: prompt }] }],
    presencePenalty: 1,
    responseFormat: { type: "json" },
    tools: [
      { type: "function", name: "weather", inputSchema: schema },
      { type: "provider", id: "other.search", name: "search", args: {} },
    ],
    toolChoice: { type: "required" },
    reasoning: "high",
  });
  const features = ["presencePenalty", "reasoning", "responseFormat", "tool other.search", "tools"];
  deepEqual(
    warnings.map(({ type, feature }) => `${type} ${feature}`).sort(),
    features.map((feature) => `unsupported ${feature}`),
  );
  match(warnings.find(({ feature }) => feature === "responseFormat").details, /response_format/);
});
