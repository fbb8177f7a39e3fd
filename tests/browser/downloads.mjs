// Where models come from: servers that misbehave, the Hub, files that the user picked; and what is kept of them.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { browser, check, equal, faults, open, url } from "./harness.mjs";

const CHUNK = 8 << 20;
const WEIGHTS = "model.safetensors";

faults.hub = (request, response, rest) => {
  const [owner, name, resolve, revision, file] = rest;
  const wanted = `${owner}/${name}/${resolve}/${revision}` === "owner/tales/resolve/v1";
  if (!wanted || request.headers.authorization !== "Bearer secret") response.writeHead(401).end();
  rest.splice(0, rest.length, "models", "tales", "draft", file);
};
faults["no-range"] = (request) => delete request.headers.range;

const cuts = new Set();
faults["cut-once"] = (_, response, rest) => {
  const path = rest.join("/");
  if (cuts.has(path) || !path.endsWith(WEIGHTS)) return;
  cuts.add(path);
  response.writeHead(206, { "Content-Length": 1000, "Content-Range": "bytes 0-999/100000" });
  response.write("x".repeat(500));
  setTimeout(() => response.destroy(), 50);
};

// A page without a policy, and a worker that reads files without the engine.
faults.bare = (_, response, [file]) => {
  if (file) response.writeHead(200, { "Content-Type": "text/javascript" }).end(readFileSync(new URL(file, import.meta.url)));
  else response.writeHead(200, { "Content-Type": "text/html" }).end("<!doctype html><title>files</title>");
};

/** Bytes that look like nothing else, and are the same every time. */
function noise(length, seed) {
  const words = new Uint32Array(Math.ceil(length / 4));
  let state = seed;
  for (let i = 0; i < words.length; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    words[i] = state ^= state << 5;
  }
  return Buffer.from(words.buffer, 0, length);
}
const LARGE = noise(3.5 * CHUNK, 1);
const SMALL = noise(700, 2);
const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");
const RIGHT = { "config.json": sha256(SMALL), "absent.json": null, [WEIGHTS]: sha256(LARGE) };

/** Models by name, as `model()` makes them. */
const models = new Map();
/** A server's folder: its files, how it behaves, and what was asked of it. */
function model(name, behaviour = {}) {
  const made = {
    url: `/synthetic/${name}`,
    files: { "config.json": SMALL, [WEIGHTS]: LARGE },
    etag: '"1"',
    asked: [],
    /** Which chunks went out whole since the last call, in order; `?` is a question of one byte, `-` one for what is not there. */
    sent() {
      return made.asked.splice(0).map(({ file, what }) => (file === WEIGHTS ? what : `${file} ${what}`)).sort().join(", ");
    },
    ...behaviour,
  };
  models.set(name, made);
  return made;
}
const ALL = "0, 1, 2, 3, absent.json -, config.json 0";
const QUESTIONS = "?, absent.json -, config.json ?";

faults.synthetic = async (request, response, [name, ...rest]) => {
  // The Hub's paths have owner, name, resolve, revision.
  const served = models.get(name) ?? models.get(rest.shift());
  const file = rest.at(-1);
  const bytes = served.files[file];
  const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "") ?? [];
  const part = { file, what: !bytes ? "-" : from === undefined ? "all" : from === to ? "?" : String(from / CHUNK) };
  if (await served.misbehave?.(part, request, response)) return;
  served.asked.push(part);
  if (!bytes) return response.writeHead(404).end();
  const range = from !== undefined && !served.wholly;
  const [start, end] = range ? [Number(from), Math.min(Number(to) + 1, bytes.length)] : [0, bytes.length];
  response.writeHead(range ? 206 : 200, {
    ...(served.etag && { ETag: served.etag }),
    "Content-Length": end - start,
    ...(range && { "Content-Range": `bytes ${start}-${end - 1}/${bytes.length}` }),
  });
  response.end(bytes.subarray(start, end));
};

let page, bare;
export const before = async () => {
  page = await open();
  bare = await openBare();
};
export const after = () => Promise.all([page.close(), bare.close()]);

/** A page that can `run(job)` in a worker of its own. */
async function openBare(within = browser) {
  const page = await within.newPage();
  page.on("console", (message) => process.env.VERBOSE && console.log("  page:", message.text()));
  await page.goto(`${url}/bare/`);
  await page.evaluate(() => {
    /** `abortAfter` and `killAfter`: milliseconds after the first byte; `killAfter` resolves to null. */
    globalThis.run = ({ abortAfter, killAfter, ...job }) => new Promise((resolve, reject) => {
      const worker = new Worker("/bare/files-worker.js", { type: "module" });
      const end = (settle, value) => {
        worker.terminate();
        settle(value);
      };
      worker.onerror = (event) => end(reject, new Error(event.message));
      worker.onmessage = ({ data: { begun, result, error } }) => {
        if (!begun) end(resolve, result ?? error);
        else if (abortAfter !== undefined) setTimeout(() => worker.postMessage({ abort: true }), abortAfter);
        else if (killAfter !== undefined) setTimeout(() => end(resolve, null), killAfter);
      };
      worker.postMessage(job);
    });
  });
  return page;
}
const run = (job, within = bare) => within.evaluate((job) => run(job), job);
const read = (served, more = {}, within = bare) => run({ job: "read", model: served.url, files: Object.keys(RIGHT), ...more }, within);
const parts = async (within = bare) => (await run({ job: "tree" }, within)).filter((path) => path.endsWith(".part"));

/** Reads a model, and checks what came, how, and what was asked for. */
async function right(served, sent, more) {
  const { hashes, progress, warnings, message } = await read(served, more);
  equal(hashes, RIGHT, message ?? "bytes");
  const loaded = {};
  for (const at of progress) {
    check(at.loaded > (loaded[at.file]?.loaded ?? 0) && at.loaded <= at.total, `progress: ${JSON.stringify(at)}`);
    loaded[at.file] = at;
  }
  for (const [file, bytes] of Object.entries(served.files)) {
    equal([loaded[file].loaded, loaded[file].total], [bytes.length, bytes.length], `progress of ${file} at the end`);
  }
  equal(warnings, [], "warnings");
  if (sent) equal(served.sent(), sent, "sent");
}

export const tests = {
  async "files come whole from a server without Range, again after a cut, from the Hub, and from what the user picked"() {
    const texts = await page.evaluate(async () => {
      const draft = (base) => `${base}/models/tales/draft`;
      const names = ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"];
      const files = await Promise.all(names.map(async (name) => new File([await (await fetch(`${DRAFT}/${name}`)).blob()], name)));
      const texts = [];
      const hub = { endpoint: `${location.origin}/hub`, revision: "v1", token: "secret" };
      for (const model of [draft(""), draft("/no-range"), draft("/cut-once"), files, "owner/tales"]) {
        const engine = await Engine.load(model, { max_context: 64, ...hub });
        texts.push((await engine.generate("Once upon a time", { max_new_tokens: 4 }).result).text);
        engine.dispose();
      }
      return texts;
    });
    check(texts[0], "text");
    equal([...new Set(texts)], [texts[0]], "texts");
  },

  async "the second load fetches no chunk again; with cache: false each does, and nothing is kept"() {
    const served = model("twice");
    await right(served, ALL, { cache: false });
    equal(await run({ job: "tree" }), [], "kept");
    await right(served, ALL);
    await right(served, QUESTIONS);
    await right(served, QUESTIONS, { step: 30_000_000 });
    await right(served, ALL, { cache: false });
  },

  async "a chunk that was damaged, cut or deleted is fetched again, and no other"() {
    const served = model("damaged");
    await right(served, ALL);
    for (const [how, index] of [["flip", 0], ["flip", 3], ["cut", 1], ["drop", 2]]) {
      equal(await run({ job: "damage", how, end: new RegExp(`model\\.safetensors/${index}-[^/]*$`) }), 1, `${how}: chunks`);
      await right(served, [`${index}, ${QUESTIONS}`.split(", ").sort().join(", ")].join());
      await right(served, QUESTIONS);
    }
    equal(await run({ job: "damage", how: "flip", end: /model\.safetensors\/meta$/ }), 1, "meta");
    await right(served, "0, 1, 2, 3, absent.json -, config.json ?");
  },
};
