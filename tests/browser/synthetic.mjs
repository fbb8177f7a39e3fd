// A server of made-up models that misbehaves on demand, and pages that read from it in a worker without the engine.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { browser, check, equal, faults, url, watch } from "./harness.mjs";

export const CHUNK = 8 << 20;
export const WEIGHTS = "model.safetensors";

// A page without a policy, and a worker that reads files without the engine.
faults.bare = (_, response, [file]) => {
  if (file) response.writeHead(200, { "Content-Type": "text/javascript" }).end(readFileSync(new URL(file, import.meta.url)));
  else response.writeHead(200, { "Content-Type": "text/html" }).end("<!doctype html><title>files</title>");
};

/** Bytes that look like nothing else, and are the same every time. */
export function noise(length, seed) {
  const words = new Uint32Array(Math.ceil(length / 4));
  let state = seed;
  for (let i = 0; i < words.length; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    words[i] = state ^= state << 5;
  }
  return Buffer.from(words.buffer, 0, length);
}
export const LARGE = noise(3.5 * CHUNK, 1);
export const SMALL = noise(700, 2);
export const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");
export const RIGHT = { "config.json": sha256(SMALL), "absent.json": null, [WEIGHTS]: sha256(LARGE) };

/** Models by name, as `model()` makes them. */
const models = new Map();

/** A server's folder: its files, how it behaves, and what was asked of it. Suites of several browsers run the same tests at the same time. */
export function model(what, behaviour = {}) {
  const name = `${what}-${models.size}`;
  const made = {
    name,
    url: `/synthetic/${name}`,
    files: { "config.json": SMALL, [WEIGHTS]: LARGE },
    etag: '"1"',
    asked: [],
    /** Which chunks went out whole since the last call, in order; `?` is a question of one byte, `-` one for what is not there. */
    sent() {
      return made.asked
        .splice(0)
        .map(({ file, what }) => (file === WEIGHTS ? what : `${file} ${what}`))
        .sort()
        .join(", ");
    },
    ...behaviour,
  };
  models.set(name, made);
  return made;
}
/** Requests of a first load, and of a load that finds everything stored. */
export const ALL = "0, 1, 2, 3, absent.json -, config.json 0";
export const QUESTIONS = "?, absent.json -, config.json ?";

faults.synthetic = async (request, response, [name, ...rest]) => {
  // The Hub's paths have more before the model's name.
  const served = models.get([name, ...rest].find((part) => models.has(part)));
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

/**
 * Tests without the engine: each has a browser's page of its own, where nothing is kept yet.
 * @param {Record<string, (reader: object) => Promise<void>>} tests
 * @param {() => Promise<{ run: (job: object) => Promise<any>, close: () => Promise<void> }>} open
 */
export const fresh = (tests, open) =>
  Object.fromEntries(
    Object.entries(tests).map(([name, test]) => [
      name,
      async () => {
        const page = await open();
        try {
          await test(reader(page));
        } finally {
          await page.close();
        }
      },
    ]),
  );

/** Code of a bare page: `run(job)` in a worker of its own, which is killed when it has reported `killAt` bytes. */
export const RUN = `
  globalThis.running = new Set();
  globalThis.run = ({ killAt, ...job }) => new Promise((resolve, reject) => {
    const worker = new Worker("/bare/files-worker.js", { type: "module" });
    running.add(worker);
    const end = (settle, value) => {
      worker.terminate();
      running.delete(worker);
      settle(value);
    };
    worker.onerror = (event) => end(reject, new Error(event.message));
    worker.onmessage = ({ data: { loaded, result, error } }) => {
      if (loaded === undefined) end(resolve, result ?? error);
      else if (loaded >= killAt) end(resolve, null);
    };
    worker.postMessage(job);
  });
`;

/** A page that can `run(job)`; `tell(message)` reaches the workers that run. */
export async function openBare(within = browser) {
  const context = await within.newContext();
  const page = await context.newPage();
  await watch(page);
  await page.goto(`${url}/bare/`);
  await page.evaluate(RUN);
  return {
    context,
    page,
    run: (job) => page.evaluate((job) => run(job), job),
    tell: (message) => page.evaluate((message) => running.forEach((worker) => worker.postMessage(message)), message),
    close: () => context.close(),
  };
}

/** A page, and what tests do with it. */
function reader(page) {
  const { run } = page;
  const read = (served, more = {}) => run({ job: "read", model: served.url, files: Object.keys(RIGHT), ...more });
  const parts = async () => (await run({ job: "tree" })).filter((path) => path.endsWith(".part"));

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
    if (sent !== undefined) equal(served.sent(), sent, "sent");
  }
  return { ...page, read, parts, right };
}
