// Who serves: a model on this device or a server with OpenAI's API, which here is a stub of another origin.
import { CSP, listen } from "../../scripts/serve.mjs";
import { check, equal, faults, launchWithoutWebGpu, open, until } from "./harness.mjs";

const KEY = "sk-secret-of-mine";
/** Requests to the stub: `{ method, path, key, body }`. */
let asked = [];
/** Answers whose connection was closed before their end. */
let left = 0;

const chunk = (choice, more = {}) => ({
  id: "chatcmpl-1",
  object: "chat.completion.chunk",
  created: 1,
  model: "big",
  choices: choice ? [choice] : [],
  ...more,
});
const usage = { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10, prompt_tokens_details: null };
const pieces = (isChat) =>
  ["Once ", "upon ", "a time"].map((text) => chunk({ index: 0, ...(isChat ? { delta: { content: text } } : { text }), finish_reason: null }));

/** Faults, by the first part of the path. */
const FAULTS = {
  refuses: (response) => response.writeHead(401).end(JSON.stringify({ error: { message: `Incorrect API key provided: ${KEY}`, code: "invalid_api_key" } })),
  nowhere: (response) => response.writeHead(404).end("<h1>not here</h1>"),
  busy: (response) => response.writeHead(429, { "Retry-After": "7" }).end(JSON.stringify({ error: { message: "slow down" } })),
  later: (response) => response.writeHead(503, { "Retry-After": new Date(Date.now() + 60_000).toUTCString() }).end(),
  breaks: (response) => response.writeHead(500).end("oops"),
  full: (response) => response.writeHead(400).end(JSON.stringify({ error: { message: "too long", code: "context_length_exceeded" } })),
  picky: (response) => response.writeHead(400).end(JSON.stringify({ error: { message: "no such thing", param: "tools" } })),
  cuts: (response, events) => response.write(events[0], () => response.destroy()),
  ends: (response, events) => response.end(events.slice(0, 2).join("")),
  babbles: (response) => response.end("data: {once upon\n\n"),
  foreign: (response) => response.end('data: {"story": []}\n\n'),
  regrets: (response, events) => response.end(`${events[0]}data: ${JSON.stringify({ error: { message: "out of memory", code: 500 } })}\n\n`),
  hangs: (response, events) => response.write(events.slice(0, 2).join("")),
};

async function stub(request, response) {
  const origin = request.headers.origin ?? "*";
  const [, fault] = request.url.split("/");
  if (fault !== "closed") {
    response.setHeader("Access-Control-Allow-Origin", origin);
    response.setHeader("Access-Control-Allow-Headers", "authorization, content-type");
    response.setHeader("Access-Control-Expose-Headers", "retry-after");
  }
  if (request.method === "OPTIONS") return response.writeHead(204).end();
  let text = "";
  for await (const part of request) text += part;
  const body = text && JSON.parse(text);
  asked.push({ method: request.method, path: request.url, key: request.headers.authorization, body });
  response.on("close", () => (left += Number(!response.writableFinished)));
  if (fault === "silent") return;
  const isList = request.url.endsWith("/models");
  if (isList && fault !== "refuses") return response.end(JSON.stringify({ object: "list", data: [{ id: "big" }] }));
  const isChat = request.url.endsWith("/chat/completions");
  const call = { index: 0, id: "call_1", type: "function", function: { name: "weather", arguments: "" } };
  const deltas = body.tools
    ? [{ role: "assistant", content: null, tool_calls: [call] }, { tool_calls: [{ index: 0, function: { arguments: '{"city":"Rome"}' } }] }].map((delta) =>
        chunk({ index: 0, delta, finish_reason: null }),
      )
    : pieces(isChat);
  deltas.push(chunk({ index: 0, ...(isChat && { delta: {} }), finish_reason: body.tools ? "tool_calls" : body.max_tokens === 3 ? "length" : "stop" }));
  if (body.stream_options?.include_usage) deltas.push(chunk(null, { usage }));
  // As some servers write it: comments, no space after the colon, lines that end as on the wire.
  const events = deltas.map((delta, i) => (i % 2 ? `data: ${JSON.stringify(delta)}\n\n` : `: alive\r\ndata:${JSON.stringify(delta)}\r\n\r\n`));
  if (FAULTS[fault]) return FAULTS[fault](response, events);
  if (body.stream) {
    response.setHeader("Content-Type", "text/event-stream");
    // In parts that end anywhere, inside of characters and lines.
    const bytes = Buffer.from(`${events.join("")}data: [DONE]\n\n`);
    for (let at = 0; at < bytes.length; at += 61) await new Promise((resolve) => response.write(bytes.subarray(at, at + 61), resolve));
    return response.end();
  }
  const message = { role: "assistant", content: "Once upon a time" };
  response.end(
    JSON.stringify({ id: "chatcmpl-1", object: "chat.completion", created: 1, model: "big", choices: [{ index: 0, message, finish_reason: "stop" }], usage }),
  );
}

/** A Hub that has one model under every revision. */
faults.revisions = (_, response, rest) => {
  const file = rest.at(-1);
  if (rest[0] === "api") return response.end(JSON.stringify({ siblings: [{ rfilename: "config.json" }, { rfilename: "model.safetensors" }] }));
  rest.splice(0, rest.length, "models", "tales", "draft", file);
};

let page, elsewhere, server;
/** A page that may ask the stub. */
faults.reaching = (_, response) =>
  response
    .writeHead(200, { "Content-Type": "text/html", "Content-Security-Policy": CSP.replace("connect-src", `connect-src ${elsewhere} http://localhost:9`) })
    .end('<!doctype html><title>reaching</title><script type="module" src="/demo/policy.js"></script>');

/** As an app has it, the same for a device and for a server. */
const prepare = (page) =>
  page.evaluate(
    ({ elsewhere, KEY }) => {
      globalThis.at = (fault = "ok", more) => ({ url: `${elsewhere}/${fault}/v1`, model: "big", api_key: KEY, ...more });
      globalThis.app = async (engine) => {
        const stream = engine.generate([{ role: "user", content: "A story" }], { max_new_tokens: 3 });
        let text = "";
        for await (const piece of stream) text += piece.text;
        const { finish_reason, stats } = await stream.result;
        const { usage, choices } = await engine.chat.completions.create({ messages: [{ role: "user", content: "A story" }], max_tokens: 3 });
        const { backend } = engine.device;
        engine.close();
        return { text, finish_reason, stats, usage, choices, backend, skipped: engine.skipped };
      };
    },
    { elsewhere, KEY },
  );

export const before = async () => {
  ({ server, url: elsewhere } = await listen(stub, 0));
  page = await open(undefined, "/reaching/");
  await prepare(page);
};
export const after = () => {
  server.closeAllConnections();
  server.close();
  return page.context().close();
};

/** Returns the error of a page in which nothing can serve, or a text fails. */
const failure = (what, argument) => page.evaluate(what, argument);

export const tests = {
  async "the first candidate that fits serves, and the others are not asked"() {
    asked = [];
    const { text, usage, backend, skipped } = await page.evaluate(async () => app(await Engine.load([{ model: DRAFT, device: "cpu" }, at()])));
    check(text.length > 0 && usage.completion_tokens === 3 && backend !== "server", `${text} by ${backend}`);
    equal([skipped, asked], [[], []], "skipped, asked");
  },

  async "a server serves where the device cannot, and the app does not change"() {
    asked = [];
    const found = await page.evaluate(async () =>
      app(await Engine.load(["/models/none", { model: DRAFT, max_download: 1000, cache: false }, { url: "http://localhost:9", model: "big" }, at()])),
    );
    equal([found.text, found.finish_reason, found.backend], ["Once upon a time", "length", "server"], "text");
    equal([found.stats.num_emitted_tokens, found.stats.num_prompt_tokens, found.stats.num_draft_tokens], [3, 7, 0], "statistics");
    equal([found.choices[0].message.content, found.usage.completion_tokens], ["Once upon a time", 3], "chat.completions");
    equal(
      found.skipped.map(({ code }) => code),
      ["not-found", "download-too-large", "network"],
      "skipped",
    );
    check(
      found.skipped[1].model.endsWith("/models/tales/draft") && / bytes to download, 1000 are allowed/.test(found.skipped[1].message),
      found.skipped[1].message,
    );
    equal(found.skipped[2].url, "http://localhost:9", "the address of the one that cannot be reached");
    equal(
      asked.map(({ method, path }) => `${method} ${path}`),
      ["GET /ok/v1/models", "POST /ok/v1/chat/completions", "POST /ok/v1/chat/completions"],
      "asked",
    );
    check(
      asked.every(({ key }) => key === `Bearer ${KEY}`),
      "the key is in each request's header",
    );
    const { body } = asked[1];
    equal([body.model, body.temperature, body.max_tokens, body.stream], ["big", 0, 3, true], "what was asked for");
  },

  async "what the browser has kept need not be downloaded"() {
    const found = await page.evaluate(async () => {
      const here = { model: DRAFT, device: "cpu", max_download: 0 };
      (await Engine.load(DRAFT, { device: "cpu" })).close();
      const engine = await Engine.load([here, at()]);
      engine.close();
      return [engine.device.backend, engine.skipped];
    });
    check(found[0] !== "server" && found[1].length === 0, JSON.stringify(found));
  },

  async "what is kept counts by file: another revision of the same model has to be downloaded"() {
    const found = await page.evaluate(async () => {
      const hub = { model: "owner/tales", endpoint: `${location.origin}/revisions`, device: "cpu" };
      (await Engine.load(hub.model, { endpoint: hub.endpoint, device: "cpu", revision: "v1" })).close();
      const engine = await Engine.load([{ ...hub, revision: "v2", max_download: 0 }, { ...hub, revision: "v1", max_download: 0 }, at()]);
      engine.close();
      const { missing_bytes, download_bytes } = await Engine.inspect(hub.model, { endpoint: hub.endpoint, revision: "v3", cache: false });
      return { backend: engine.device.backend, skipped: engine.skipped.map(({ code }) => code), bytes: [missing_bytes, download_bytes] };
    });
    check(found.backend !== "server", found.backend);
    equal(found.skipped, ["download-too-large"], "skipped");
    equal(found.bytes[0], found.bytes[1], "bytes that are missing of a model that is not kept");
  },

  async "without WebGPU a candidate that wants it is skipped"() {
    const without = await launchWithoutWebGpu();
    const page = await open(without, "/reaching/");
    await prepare(page);
    const { text, skipped } = await page.evaluate(async () => app(await Engine.load([{ model: TALES, device: "webgpu" }, at()], {})));
    equal(text, "Once upon a time", "text");
    check(["webgpu-unavailable", "gpu-blocked"].includes(skipped[0].code), JSON.stringify(skipped));
    await without.close();
  },

  async "where none can serve, the error has all reasons, and never the key"() {
    const failed = await failure(() => globalThis.failed(Engine.load(["/models/none", at("refuses")])));
    check(failed.is && failed.code === "unauthorized", JSON.stringify(failed));
    check(/no candidate can serve.*\/models\/none.*; big at .*401: Incorrect API key provided: \.\.\./.test(failed.message), failed.message);
    check(!JSON.stringify(failed).includes(KEY), "the key is shown");
    equal(
      failed.detail.skipped.map(({ code }) => code),
      ["not-found", "unauthorized"],
      "skipped",
    );
    const alone = await failure(() => globalThis.failed(Engine.load({ url: "http://localhost:9", model: "big" })));
    check(alone.code === "network" && /localhost:9\/v1: .*CORS/.test(alone.message), alone.message);
    equal(await failure(() => globalThis.failed(Engine.load(at("closed"))).then(({ code }) => code)), "network", "a server that allows no other origin");
  },

  async "a server that says nothing is not waited for"() {
    const failed = await page.evaluate(async () => {
      const { timeout } = AbortSignal;
      AbortSignal.timeout = () => timeout.call(AbortSignal, 20);
      const failed = await globalThis.failed(Engine.load(at("silent")));
      AbortSignal.timeout = timeout;
      return failed;
    });
    check(failed.code === "network" && /no answer within 20 seconds/.test(failed.message), JSON.stringify(failed));
  },

  async "an app's mistake is no reason to go on"() {
    const codes = await failure(() =>
      Promise.all(
        [
          [],
          [{}],
          [{ url: "http://", model: "big" }, at()],
          [{ url: "http://localhost:9" }],
          [{ url: ["http://localhost:9", "http://localhost:10"], model: "big" }, at()],
          [{ url: "http://localhost:9", model: "big", api_key: 5 }],
          [{ url: "http://localhost:9", model: "big", apiKey: "key" }, at()],
          [{ model: TALES, max_download: -1 }, at()],
          [{ model: TALES, dtype: "q5" }, at()],
        ].map((candidates) => globalThis.failed(Engine.load(candidates)).then((error) => error?.code)),
      ),
    );
    equal(codes, Array(9).fill("bad-option"), "codes");
    const aborted = await failure(() =>
      globalThis.failed(Engine.load([at("refuses"), { model: TALES }], { signal: AbortSignal.abort() })).then(({ code }) => code),
    );
    equal(aborted, "aborted", "a signal");
  },

  async "what a server answers with an error has a code, and what to do"() {
    const found = await page.evaluate(
      async (faults) => {
        const messages = [{ role: "user", content: "A story" }];
        const all = {};
        for (const fault of faults) {
          const engine = await Engine.load(at(fault));
          const whole = fault === "hangs" ? null : await failed(engine.generate("Once").result);
          const chat = await failed(engine.chat.completions.create({ messages, stream: true }).then((chunks) => Array.fromAsync(chunks)));
          engine.close();
          all[fault] = [whole, chat];
        }
        return all;
      },
      Object.keys(FAULTS).filter((fault) => !["refuses", "hangs"].includes(fault)),
    );
    const codes = Object.fromEntries(
      Object.entries(found).map(([fault, [whole, chat]]) => [fault, whole.code === chat.code ? whole.code : [whole.code, chat.code]]),
    );
    equal(
      codes,
      {
        nowhere: "not-found",
        busy: "overloaded",
        later: "overloaded",
        breaks: "network",
        full: "context-full",
        picky: "bad-option",
        cuts: "network",
        ends: "network",
        babbles: "network",
        foreign: "network",
        regrets: "network",
      },
      "codes",
    );
    equal([found.busy[0].detail.retry_after, found.busy[0].detail.status], [7, 429], "when to come back");
    check(found.later[0].detail.retry_after > 30 && found.later[0].detail.retry_after <= 60, `${found.later[0].detail.retry_after} seconds`);
    check(/429: slow down/.test(found.busy[0].message) && /500: out of memory/.test(found.regrets[0].message), found.busy[0].message);
    equal(found.picky[0].detail.option, "tools", "the option");
    check(/broke off/.test(found.ends[0].message) && /not that of such an API/.test(found.babbles[0].message), found.ends[0].message);
  },

  async "chat completions pass through: tools, forms, streams and usage"() {
    asked = [];
    const { text, calls, finish, used, answer } = await page.evaluate(async () => {
      const engine = await Engine.load(at());
      const messages = [{ role: "user", content: "Weather in Rome?" }];
      const { create } = engine.chat.completions;
      let [text, calls, finish, used] = ["", "", "", null];
      const tools = [{ type: "function", function: { name: "weather", parameters: { type: "object" } } }];
      for await (const { choices, usage } of await create({ messages, tools, tool_choice: "auto", stream: true, stream_options: { include_usage: true } })) {
        calls += choices[0]?.delta.tool_calls?.[0].function.arguments ?? "";
        finish = choices[0]?.finish_reason ?? finish;
        used = usage ?? used;
      }
      const json_schema = { schema: { type: "object" } };
      const form = { response_format: { type: "json_schema", json_schema }, temperature: 0.7, seed: 3, top_p: 0.9, drafter: "lookup", n: null };
      for await (const { choices } of await create({ messages, ...form, stream: true, model: "whatever" })) text += choices[0]?.delta.content ?? "";
      const answer = await create({ messages, prediction: "Once upon" });
      engine.close();
      return { text, calls, finish, used, answer };
    });
    equal([text, calls, finish], ["Once upon a time", '{"city":"Rome"}', "tool_calls"], "answers");
    equal([used.prompt_tokens_details.cached_tokens, used.total_tokens], [0, 10], "usage");
    equal(answer.choices[0].message.content, "Once upon a time", "an answer as a whole");
    const [, first, second, third] = asked.map(({ body }) => body);
    equal([first.tools[0].function.name, first.tool_choice, first.temperature], ["weather", "auto", 0], "tools");
    const { response_format, temperature, seed, top_p, model } = second;
    equal([temperature, seed, top_p, model, "drafter" in second, "n" in second], [0.7, 3, 0.9, "big", false, false], "options");
    equal(response_format.json_schema, { name: "answer", strict: true, schema: { type: "object" } }, "a form");
    equal(third.prediction, { type: "content", content: "Once upon" }, "a prediction");
  },

  async "conversations and plain prompts are written by the server, what it cannot do is refused"() {
    asked = [];
    const { messages, completed, refused } = await page.evaluate(async () => {
      const engine = await Engine.load(at());
      const chat = engine.chat({ messages: [{ role: "system", content: "Be brief." }] });
      await chat.send("A story").result;
      const completed = await engine.generate("Once", { do_sample: true, temperature: 0.5, top_k: 5, min_new_tokens: 2 }).result;
      for (const more of [{ temperature: 0.5 }, {}, { do_sample: false }]) await engine.generate("Upon", { top_k: 5, ...more }).result;
      const attempts = [
        engine.tokenize("Once"),
        engine.embed("Once"),
        engine.score("Once", ["upon"]),
        engine.generate("Once", { no_repeat_ngram_size: 2 }).result,
        engine.generate("Once", { logprobs: true }).result,
        engine.generate("Once", { response_format: { type: "regex", regex: "a" } }).result,
      ];
      const refused = await Promise.all(attempts.map((attempt) => failed(attempt).then(({ code }) => code)));
      engine.close();
      return { messages: chat.messages, completed, refused };
    });
    equal(messages.at(-1), { role: "assistant", content: "Once upon a time" }, "the answer");
    equal([completed.text, completed.finish_reason, completed.stats.sampling.temperature], ["Once upon a time", "stop", 0.5], "a text");
    equal(refused, Array(6).fill("bad-option"), "what it cannot do");
    const drawn = asked.slice(-3).map(({ body }) => [body.prompt, body.temperature, body.top_k, "do_sample" in body]);
    equal(
      drawn,
      [
        ["Upon", 0.5, 5, false],
        ["Upon", undefined, 5, false],
        ["Upon", 0, undefined, false],
      ],
      "without do_sample",
    );
    const { path, body } = asked.at(-4);
    equal([path, body.prompt, body.temperature, body.top_k, body.min_tokens], ["/ok/v1/completions", "Once", 0.5, 5, 2], "what was asked for");
  },

  async "a text that is broken off ends at the server, too"() {
    left = 0;
    const closed = (count) => until(`${count} requests that were broken off`, () => left >= count);
    const { aborted, whole, streamed } = await page.evaluate(async () => {
      globalThis.engine = await Engine.load(at("hangs"));
      const controller = new AbortController();
      const stream = engine.generate("Once", { signal: controller.signal });
      const reading = (async () => {
        for await (const { text } of stream) if (text === "upon ") controller.abort("enough");
      })();
      await failed(reading);
      const aborted = await failed(stream.result);
      const left = engine.generate("Once");
      for await (const { text } of left) if (text === "upon ") break;
      const whole = await left.result;
      let streamed = "";
      for await (const { choices } of await engine.chat.completions.create({ messages: [{ role: "user", content: "A story" }], stream: true })) {
        streamed += choices[0].delta.content;
        if (streamed === "Once upon ") break;
      }
      return { aborted, whole, streamed };
    });
    await closed(3);
    const { ended, late } = await page.evaluate(async () => {
      const messages = [{ role: "user", content: "A story" }];
      const waiting = engine.chat.completions.create({ messages, stream: true }).then(async (chunks) => {
        for await (const { choices } of chunks) if (choices[0].delta.content === "upon ") engine.close();
      });
      return { ended: await failed(waiting), late: await failed(engine.chat.completions.create({ messages })) };
    });
    await closed(4);
    equal([aborted.code, aborted.detail.text], ["aborted", "Once upon "], "aborted");
    equal([whole.finish_reason, whole.text, streamed], ["aborted", "Once upon ", "Once upon "], "left");
    equal([ended.code, late.code], ["aborted", "aborted"], "closed");
  },
};
