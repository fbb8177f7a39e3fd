// A target on a server that speaks as vLLM does, here a stub of another origin that knows the target's text: drafts come from the page.
import { CSP, listen } from "../../scripts/serve.mjs";
import { browser, check, equal, faults, open } from "./harness.mjs";

const KEY = "sk-secret-of-mine";
const TARGET = "/models/tales/target";
const PROMPT = "Once upon a time there was a little fox who lived in a wood. The fox said";
/** Requests to the stub: `{ path, key, body }`. */
let asked = [];
/** Number of tokens after which a text stands still until it is closed. */
let silentAfter = Infinity;
/** Is called when a connection is closed before its request was answered. */
let onLeft = () => {};
/** The prompt's tokens, then those that the target writes. */
let text = [];
/** Requests about texts until one fails. */
let failsAfter = Infinity;
/** Number of requests about texts that are answered together. */
let meeting = 0;
/** @type {(() => void)[]} */
let met = [];
/** Number of requests that a server answers before it is gone, if the path says `dies`. */
let lives = Infinity;

/** Waits for this many requests about texts. */
const meet = (count) =>
  new Promise((resolve) => {
    meeting = count;
    met = [resolve];
  });

/** The target's most likely token after this many tokens of a text; after another text it is another token. */
const next = (ids, count) => (ids.slice(0, count).every((id, at) => id === text[at]) ? (text[count] ?? 0) : 7);

/** `true` for requests about the prompt's text: what rounds cost is measured at load, with others. */
const isText = (ids) => ids.length > 10 && ids[0] === text[0] && ids[1] === text[1];

const FAULTS = {
  locked: (response) => response.writeHead(401).end(JSON.stringify({ error: `Unauthorized: ${KEY}` })),
  busy: (response) => response.writeHead(429, { "Retry-After": "1000" }).end(JSON.stringify({ error: { message: "slow down" } })),
};

async function stub(request, response) {
  const [, fault, ...rest] = request.url.split("/");
  const path = rest.join("/");
  if (fault !== "closed") {
    response.setHeader("Access-Control-Allow-Origin", request.headers.origin ?? "*");
    response.setHeader("Access-Control-Allow-Headers", "authorization, content-type");
    response.setHeader("Access-Control-Expose-Headers", "retry-after");
  }
  if (request.method === "OPTIONS") return response.writeHead(204).end();
  let sent = "";
  for await (const part of request) sent += part;
  const body = sent && JSON.parse(sent);
  asked.push({ path, key: request.headers.authorization, body });
  response.on("close", () => response.writableFinished || onLeft());
  if (FAULTS[fault]) return FAULTS[fault](response);
  if (path === "v1/models") return response.end(JSON.stringify({ data: [{ id: "tales", owned_by: "vllm", max_model_len: 1024 }] }));
  if (path === "tokenize" && fault === "other") return response.end(JSON.stringify({ tokens: [5, 6, 7] }));
  if (path !== "inference/v1/generate") return response.writeHead(404).end();
  const { token_ids: ids, sampling_params: wanted, stream } = body;
  if (isText(ids) && met.length) {
    const all = new Promise((resolve) => met.push(resolve));
    if (met.length > meeting) met.splice(0).forEach((resolve) => resolve());
    await all;
    if (silentAfter === 0) return;
  }
  if (fault === "dies" && isText(ids) && lives-- <= 0) return response.destroy();
  if (isText(ids) && failsAfter-- <= 0) {
    failsAfter = Infinity;
    return response.writeHead(500).end("oops");
  }
  if (stream) {
    for (let at = ids.length; at < ids.length + wanted.max_tokens; at++) {
      // A client that wants no more hangs up.
      if (response.destroyed || (isText(ids) && at === ids.length + silentAfter)) return;
      await new Promise((resolve) => response.write(`data: ${JSON.stringify({ choices: [{ index: 0, token_ids: [next(text, at)] }] })}\n\n`, resolve));
    }
    return response.end("data: [DONE]\n\n");
  }
  const place = (count) => ({ [ids[count] ?? 0]: { logprob: -9, rank: 50 }, [next(ids, count)]: { logprob: -0.5, rank: 1 } });
  const prompt_logprobs = wanted.prompt_logprobs ? [null, ...ids.slice(1).map((_, at) => place(at + 1))] : null;
  const usage = { prompt_tokens: ids.length, prompt_tokens_details: { cached_tokens: 0 } };
  response.end(JSON.stringify({ choices: [{ index: 0, token_ids: [next(ids, ids.length)] }], prompt_logprobs, usage }));
}

let page, elsewhere, server;
/** A page that may ask the stub, and so may its worker. */
faults.served = (_, response, rest) => {
  // The demo's policy of trusted types knows one worker only.
  const policy = CSP.replace("connect-src", `connect-src ${elsewhere}`).replace(/require-trusted-types-for[^;]*;/, "");
  const writeHead = response.writeHead.bind(response);
  response.writeHead = (status, headers) => writeHead(status, { ...headers, "Content-Security-Policy": policy });
  if (rest.join("")) return;
  response.writeHead(200, { "Content-Type": "text/html" }).end('<!doctype html><title>served</title><script type="module" src="/demo/policy.js"></script>');
};

export const before = async () => {
  ({ server, url: elsewhere } = await listen(stub, 0));
  page = await open(await browser.newContext(), "/served/");
  text = await page.evaluate(
    async ({ elsewhere, KEY, TARGET, PROMPT }) => {
      globalThis.PROMPT = PROMPT;
      globalThis.at = (fault = "ok", more) => ({ url: `${elsewhere}/${fault}/v1`, model: "tales", api_key: KEY, tokenizer: TARGET, ...more });
      const engine = await Engine.load(TARGET, { device: "cpu" });
      const { token_ids } = await engine.generate(PROMPT, { max_new_tokens: 40 }).result;
      const prompt = await engine.tokenize(PROMPT);
      engine.close();
      globalThis.written = token_ids;
      return [...prompt, ...token_ids];
    },
    { elsewhere, KEY, TARGET, PROMPT },
  );
};
export const after = () => {
  server.closeAllConnections();
  server.close();
  return page.context().close();
};

const write = (more, options) =>
  page.evaluate(
    async ([more, options]) => {
      const { load, ...target } = more;
      const engine = await Engine.load(at("ok", target), { device: "cpu", worker: "/served/worker.js", ...load });
      const { token_ids, stats } = await engine.generate(PROMPT, { max_new_tokens: 36, ...options }).result;
      const { device, memory, warnings } = engine;
      const counters = await engine.counters();
      engine.close();
      return { same: token_ids.join() === written.slice(0, 36).join(), stats, device, memory, counters, warnings };
    },
    [more, options],
  );

/** Load options for a text of two requests at a time. */
const TWO = { assistant_model: "/models/tales/draft", sp_degree: 2 };

export const tests = {
  async "a target on a server writes its own text, whoever drafts"() {
    for (const [name, load, options] of [
      ["nobody", {}, { speculation: "off" }],
      ["lookup", {}, { drafter: "lookup", num_assistant_tokens_schedule: "constant" }],
      ["draft model", { assistant_model: "/models/tales/draft" }, { num_assistant_tokens_schedule: "constant" }],
      ["whoever is fastest", { assistant_model: "/models/tales/draft" }, {}],
    ]) {
      asked = [];
      const { same, stats, device, warnings } = await write({ load }, options);
      check(same, `${name}: another text`);
      equal([device.backend, stats.traffic.num_retries], ["vLLM", 0], name);
      check(
        warnings.some((warning) => warning.includes("vocabulary")),
        `${name}: ${warnings}`,
      );
      const texts = asked.filter(({ path, body }) => path === "inference/v1/generate" && isText(body.token_ids));
      if (name === "nobody") equal(texts.length, 1, "requests of the server's own decoding");
      if (name === "draft model") check(texts.length < 36 && stats.num_accepted_draft_tokens > 10, `${texts.length} requests`);
      check(
        asked.every(({ key, path, body }) => key === `Bearer ${KEY}` && !`${path}${JSON.stringify(body)}`.includes(KEY)),
        "the key is in headers only",
      );
    }
  },

  async "several requests are under way at the same time"() {
    for (const [name, load, options] of [
      ["draft model", TWO, {}],
      ["draft model beside it", { assistant_model: "/models/tales/draft", draft_device: "cpu" }, {}],
      ["draft model with another tokenizer", { ...TWO, assistant_model: "/vocabulary/models/tales/draft" }, {}],
      ["draft model on the GPU", { ...TWO, device: "webgpu" }, {}],
      ["a constant lookahead", { ...TWO, sp_degree: 4 }, { num_assistant_tokens_schedule: "constant" }],
      ["lookup", { sp_degree: 2 }, { drafter: "lookup" }],
      ["nobody", { sp_degree: 2 }, { speculation: "off" }],
    ]) {
      asked = [];
      // A request that is sent after the answer to the other would never come.
      if (load.assistant_model && load.sp_degree) meet(2);
      const { same, stats, device, memory, counters } = await write({ load }, options);
      check(same, `${name}: another text`);
      equal([stats.distributed.sp_degree, device.backend, stats.traffic.num_retries, met], [load.sp_degree ?? 1, "vLLM", 0, []], name);
      equal([memory.target.weights, memory.draft?.weights > 0], [0, !!load.assistant_model], `${name}: memory`);
      equal(counters.submits > 0, load.device === "webgpu", `${name}: counters`);
      // That GPU is a processor, and slower than the stub. How many drafts are in time depends on the machine.
      if (load.assistant_model && !load.device) check(stats.num_accepted_draft_tokens > 0, `${name}: ${JSON.stringify(stats)}`);
      check(asked.filter(({ path }) => path === "tokenize").length === 1, `${name}: a server is met once`);
    }
  },

  async "a server that dies in a text leaves it to another"() {
    for (const [sp_degree, ...faults] of [
      [1, "dies", "ok"],
      [2, "dies", "ok"],
      [2, "ok", "dies"],
    ]) {
      // Of several requests, both servers have one.
      if (sp_degree > 1) meet(2);
      lives = sp_degree > 1 ? 0 : 2;
      const url = faults.map((fault) => `${elsewhere}/${fault}/v1`);
      const { same, stats } = await write({ url, load: { ...TWO, sp_degree } }, { num_assistant_tokens_schedule: "constant", overlap: false });
      check(same, `${sp_degree}, ${faults}: another text`);
      check(lives < 0 && stats.traffic.num_retries > 0, `${sp_degree}, ${faults}: ${JSON.stringify(stats.traffic)}`);
    }
    lives = Infinity;
  },

  async "a text is left at once while its servers are silent"() {
    for (const load of [TWO, { ...TWO, sp_degree: 1 }]) {
      const count = load.sp_degree;
      const gone = new Promise((resolve) => {
        let left = 0;
        onLeft = () => ++left === count && resolve();
      });
      silentAfter = 0;
      const there = meet(count);
      await page.evaluate(async (load) => {
        globalThis.engine = await Engine.load(at(), { device: "cpu", worker: "/served/worker.js", ...load });
        globalThis.control = new AbortController();
        globalThis.left = failed(engine.generate(PROMPT, { max_new_tokens: 30, signal: control.signal }).result);
      }, load);
      await there;
      equal(await page.evaluate(() => (control.abort(), left.then(({ code }) => code))), "aborted", `${count} requests`);
      await gone;
      silentAfter = Infinity;
      onLeft = () => {};
      const goesOn = await page.evaluate(async () => {
        const { token_ids } = await engine.generate(PROMPT, { max_new_tokens: 12 }).result;
        engine.close();
        return token_ids.join() === written.slice(0, 12).join();
      });
      check(goesOn, `${count} requests: another text`);
    }
  },

  async "one of several candidates, which says for itself what drafts"() {
    const found = await page.evaluate(async (load) => {
      const here = { model: "/models/none" };
      const costly = at("ok", { ...load, max_download: 1000, cache: false });
      const engine = await Engine.load([here, at("locked"), costly, at("ok", load)], { device: "cpu", worker: "/served/worker.js" });
      const { token_ids, stats } = await engine.generate(PROMPT, { max_new_tokens: 36 }).result;
      const { skipped, device } = engine;
      engine.close();
      return { same: token_ids.join() === written.slice(0, 36).join(), sp_degree: stats.distributed?.sp_degree, skipped, backend: device.backend };
    }, TWO);
    equal([found.same, found.sp_degree, found.backend], [true, 2, "vLLM"], "who serves");
    equal(
      found.skipped.map(({ code, model }) => `${code} ${model}`),
      ["not-found /models/none", "unauthorized tales", "download-too-large tales"],
      "skipped",
    );
    check(!JSON.stringify(found).includes(KEY), "it shows the key");
  },

  async "pages share one engine, whose key is theirs"() {
    const other = await open(page.context(), "/served/");
    const written = text.slice(-40, -4).join();
    const load = (page, api_key) =>
      page.evaluate(
        async ([server, PROMPT, load]) => {
          const names = [];
          const worker = (name) => {
            names.push(name);
            return new SharedWorker("/served/worker.js", { type: "module", name });
          };
          globalThis.engine = await Engine.load(server, { device: "cpu", worker, shared: true, ...load });
          const { token_ids, stats } = await engine.generate(PROMPT, { max_new_tokens: 36 }).result;
          return { names, written: token_ids.join(), sp_degree: stats.distributed.sp_degree };
        },
        [{ url: `${elsewhere}/ok/v1`, model: "tales", api_key, tokenizer: TARGET }, PROMPT, TWO],
      );
    const met = () => asked.filter(({ path }) => path === "tokenize").map(({ key }) => key);
    asked = [];
    const both = await Promise.all([load(page, KEY), load(other, KEY)]);
    equal(
      both.map(({ written, sp_degree }) => [written, sp_degree]),
      [
        [written, 2],
        [written, 2],
      ],
      "texts",
    );
    equal(met(), [`Bearer ${KEY}`], "a server is met once");
    check(both[0].names[0].startsWith("foretoken ") && !JSON.stringify(both).includes(KEY), `names: ${both[0].names}`);
    await other.evaluate(() => engine.close());
    equal((await load(other, "another")).written, written, "with another key");
    equal(met(), [`Bearer ${KEY}`, "Bearer another"], "keys");
    await Promise.all([page, other].map((page) => page.evaluate(() => engine.close())));
    await other.close();
  },

  async "a failure that passes costs time and nothing else"() {
    failsAfter = 6;
    const { same, stats } = await write({ load: { assistant_model: "/models/tales/draft" } }, { num_assistant_tokens_schedule: "constant", overlap: false });
    check(same, "another text");
    equal([stats.traffic.num_retries, failsAfter], [1, Infinity], "retries");
  },

  async "what is not wanted any more is broken off"() {
    const left = new Promise((resolve) => {
      onLeft = resolve;
    });
    silentAfter = 8;
    const heard = await page.evaluate(async () => {
      const engine = await Engine.load(at(), { device: "cpu", worker: "/served/worker.js" });
      let heard = 0;
      // Tokens that came together are one piece.
      for await (const { tokens } of engine.generate(PROMPT, { max_new_tokens: 30, speculation: "off" })) {
        heard += tokens.length;
        break;
      }
      // The engine goes on with the next call.
      const { token_ids } = await engine.generate(PROMPT, { max_new_tokens: 4 }).result;
      engine.close();
      return [heard, token_ids.join() === written.slice(0, 4).join()];
    });
    check(heard[0] >= 1 && heard[1], `${heard}`);
    // Only an end from this side ends such a stream.
    await left;
    silentAfter = Infinity;
  },

  async "errors say what to do, and never the key"() {
    const failure = (fault, options, more, sp_degree) =>
      page.evaluate(
        ([fault, options, more, sp_degree]) => {
          const fail = async () => {
            const engine = await Engine.load(at(fault, more), { device: "cpu", worker: "/served/worker.js", sp_degree });
            await engine.generate(PROMPT, options).result.finally(() => engine.close());
          };
          return failed(fail());
        },
        [fault, options, more, sp_degree],
      );
    for (const [fault, options, more, code, says] of [
      ["locked", {}, {}, "unauthorized", "refuses the key"],
      ["busy", {}, {}, "overloaded", "slow down"],
      ["other", {}, {}, "tokenizer-mismatch", "another tokenizer"],
      ["ok", {}, { model: "novels" }, "not-found", "tales"],
      ["closed", {}, {}, "network", "CORS"],
      ["ok", { do_sample: true }, {}, "bad-option", "approximated"],
      ["ok", { logprobs: true }, {}, "bad-option", "approximated"],
      ["ok", {}, { url: "ftp://a" }, "bad-option", "http://"],
    ]) {
      for (const sp_degree of [1, 2]) {
        const found = await failure(fault, options, more, sp_degree);
        equal(found?.code, code, `${fault}: ${found?.message}`);
        check(found.message.includes(says), found.message);
        check(!JSON.stringify(found).includes(KEY), "it shows the key");
      }
    }
    const many = await failure("ok", {}, {}, 9);
    check(many.code === "bad-option" && many.message.includes("1 to 8"), many.message);
  },
};
