// Where models come from: servers that misbehave, the Hub, files that the user picked; and what is kept of them.
import { readFileSync, readdirSync, statSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { Skipped, browser, browserName, check, devtools, equal, faults, launch, open, until, url } from "./harness.mjs";
import { ALL, CHUNK, LARGE, QUESTIONS, RIGHT, SMALL, WEIGHTS, fresh, model, noise, openBare, sha256 } from "./synthetic.mjs";

faults.hub = (request, response, rest) => {
  const [owner, name, resolve, revision, file] = rest;
  const wanted = `${owner}/${name}/${resolve}/${revision}` === "owner/tales/resolve/v1";
  if (!wanted || request.headers.authorization !== "Bearer secret") response.writeHead(401).end();
  rest.splice(0, rest.length, "models", "tales", "draft", file);
};
/** A Hub whose repositories have a config and no weights that are read at once: the names of their files. */
const UNUSABLE = {
  "owner/pickled": ["config.json", "pytorch_model.bin"],
  "owner/quantised": ["config.json", "m-Q4_K_M.gguf", "m-Q8_0.gguf"],
};
faults.unusable = (request, response, rest) => {
  const [kind, , owner, name] = rest;
  if (kind === "api") return response.end(JSON.stringify({ siblings: UNUSABLE[`${owner}/${name}`].map((rfilename) => ({ rfilename })) }));
  if (rest.at(-1) !== "config.json") return response.writeHead(404).end();
  rest.splice(0, rest.length, "models", "tales", "draft", "config.json");
};
faults["no-tokenizer"] = (_, response, rest) => rest.at(-1) === "tokenizer.json" && response.writeHead(404).end();

/** A file of equal chunks. */
function repeated(chunks) {
  const bytes = noise(2 * CHUNK, 4);
  bytes.copyWithin(CHUNK, 0, CHUNK);
  return { length: chunks * CHUNK, subarray: (start, end) => bytes.subarray(start % CHUNK, (start % CHUNK) + end - start) };
}

/** Bytes that the processes of a browser use, each page of memory counted once; 0 where the system does not say. */
async function memory(client) {
  if (process.platform !== "linux") return 0;
  const { processInfo } = await client.send("SystemInfo.getProcessInfo");
  const kilobytes = processInfo.map(({ id }) => Number(/^Pss: *(\d+) kB/m.exec(readFileSync(`/proc/${id}/smaps_rollup`, "utf8"))[1]));
  return 1024 * kilobytes.reduce((sum, kilobytes) => sum + kilobytes, 0);
}

/** Sends commands of the DevTools protocol to the worker that a page started last. */
async function newestWorker(client) {
  const answers = new Map();
  let sessionId;
  client.on("Target.attachedToTarget", (worker) => ({ sessionId } = worker));
  client.on("Target.receivedMessageFromTarget", ({ message }) => {
    const { id, result } = JSON.parse(message);
    answers.get(id)?.(result);
  });
  await client.send("Target.setAutoAttach", { autoAttach: true, waitForDebuggerOnStart: false, flatten: false });
  return (method) =>
    new Promise((answer) => {
      answers.set(answers.size, answer);
      client.send("Target.sendMessageToTarget", { sessionId, message: JSON.stringify({ id: answers.size - 1, method }) });
    });
}

/** Tests of files for any browser. */
export const files = {
  async "the second load fetches no chunk again; with cache: false each does, and nothing is kept"({ right, run }) {
    const served = model("twice");
    await right(served, ALL, { cache: false });
    equal(await run({ job: "tree" }), [], "kept");
    await right(served, ALL);
    await right(served, QUESTIONS);
    await right(served, QUESTIONS, { step: 30_000_000 });
    await right(served, ALL, { cache: false });
  },

  async "a chunk that was damaged, cut or deleted is fetched again, and no other"({ right, run }) {
    const served = model("damaged");
    await right(served, ALL);
    for (const [how, index] of [
      ["flip", 0],
      ["flip", 3],
      ["cut", 1],
      ["drop", 2],
    ]) {
      equal(await run({ job: "damage", how, path: `model.safetensors/${index}-[^/]*$` }), 1, `${how}: chunks`);
      await right(served, [String(index), ...QUESTIONS.split(", ")].sort().join(", "));
      await right(served, QUESTIONS);
    }
    equal(await run({ job: "damage", how: "flip", path: String.raw`model\.safetensors/meta$` }), 1, "meta");
    await right(served, "0, 1, 2, 3, absent.json -, config.json ?");
  },

  async "a changed file is fetched anew, and what the server does not name a version of, each time"({ read, right, run }) {
    const served = model("changed");
    await right(served, ALL);
    served.etag = '"2"';
    await right(served, "0, 1, 2, 3, ?, absent.json -, config.json 0, config.json ?");
    await right(served, QUESTIONS);
    // Another length under the same name counts as a change too.
    served.files = { ...served.files, [WEIGHTS]: noise(100, 3) };
    const { hashes } = await read(served);
    equal(hashes[WEIGHTS], sha256(served.files[WEIGHTS]), "the shorter file");
    equal((await run({ job: "tree" })).length, 5, "two files with one chunk each, and one that is absent");
    served.files = { ...served.files, [WEIGHTS]: LARGE };
    served.etag = null;
    await right(served);
    served.sent();
    await right(served, "0, 1, 2, 3, ?, absent.json -, config.json 0, config.json ?");
    // What comes and goes.
    delete served.files["config.json"];
    equal((await read(served)).hashes["config.json"], null, "a file that is gone");
    served.files = { "config.json": SMALL, "absent.json": SMALL, [WEIGHTS]: LARGE };
    equal((await read(served)).hashes, { ...RIGHT, "absent.json": sha256(SMALL) }, "files that came");
  },

  async "without the server, what is kept is enough: unreachable, broken, silent, a page in its place"({ read, right, run }) {
    const served = model("away");
    await right(served, ALL);
    for (const misbehave of [
      (_, request) => request.destroy(),
      (_, request, response) => response.writeHead(503).end(),
      () => new Promise(() => {}),
      (_, request, response) => response.writeHead(200, { "Content-Type": "text/html" }).end("<!doctype html>Log in first"),
    ]) {
      const asked = new Set();
      served.misbehave = (part, ...of) => asked.add(part.file) && (misbehave(part, ...of) || true);
      await right(served);
      equal([...asked], ["config.json"], "asked for");
    }
    await run({ job: "damage", how: "flip", path: String.raw`model\.safetensors/2-[^/]*$` });
    served.misbehave = (_, request, response) => response.writeHead(503).end();
    const { code } = await read(served);
    equal(code, "network", "with a damaged chunk");
    served.misbehave = (_, request, response) => response.writeHead(403).end();
    equal((await read(served)).code, "not-found", "no longer allowed");
  },

  async "a commit of the Hub is not asked about again"({ right }) {
    const served = model("pinned");
    const commit = "0123456789abcdef0123456789abcdef01234567";
    const hub = (revision) => ({ model: `owner/${served.name}`, endpoint: `${url}/synthetic`, revision });
    await right(served, ALL, hub(commit));
    await right(served, "", hub(commit));
    await right(served, ALL, hub("main"));
    await right(served, QUESTIONS, hub("main"));
  },

  async "the Hub redirects to another host: the token does not go along, and what that host does not let a page see is done without"({ right }) {
    const seen = [];
    let exposed = "Content-Range, ETag";
    const served = model("elsewhere", {
      misbehave(_, request, response) {
        const { host, authorization } = request.headers;
        if (host.startsWith("localhost")) {
          seen.push(`hub ${authorization}`);
          response.writeHead(302, { Location: `http://127.0.0.1:${new URL(url).port}${request.url}?signature` }).end();
          return true;
        }
        for (const [name, value] of [
          ["Allow-Origin", "*"],
          ["Allow-Headers", "*"],
          ["Expose-Headers", exposed],
        ]) {
          response.setHeader(`Access-Control-${name}`, value);
        }
        if (request.method !== "OPTIONS") seen.push(`other ${authorization}`);
        return request.method === "OPTIONS" && response.writeHead(204).end();
      },
    });
    const hub = (revision) => ({ model: `owner/${served.name}`, endpoint: `${url}/synthetic`, token: "secret", revision });
    await right(served, ALL, hub("main"));
    await right(served, QUESTIONS, hub("main"));
    equal([...new Set(seen)].sort(), ["hub Bearer secret", "other undefined"], "tokens");
    exposed = "";
    const commit = "0123456789abcdef0123456789abcdef01234567";
    await right(served, undefined, hub(commit));
    served.sent();
    await right(served, "", hub(commit));
  },

  async "the Hub's refusals say what to do"({ read }) {
    const refuse = (status, code) =>
      model("refused", {
        misbehave: (_, request, response) => response.writeHead(status, code && { "X-Error-Code": code }).end(),
      });
    for (const [status, code, says] of [
      [403, "GatedRepo", "accept its conditions"],
      [401, "GatedRepo", "accept its conditions"],
      [404, "RepoNotFound", "check the name"],
      [404, "RevisionNotFound", "no such `revision`"],
      [401, undefined, "needs a token"],
    ]) {
      const { code: found, message } = await read(refuse(status, code));
      equal(found, "not-found", message);
      check(message.includes(says), message);
    }
    const { hashes } = await read(refuse(404, "EntryNotFound"), { files: [WEIGHTS] });
    equal(hashes, { [WEIGHTS]: null }, "a file that is not there");
  },

  async "a Hub is asked for the names of files; without it, what is kept is named; a plain server is not asked"({ read, run }) {
    let away = false;
    let silences = 0;
    const served = model("listed", {
      misbehave({ file }, request, response) {
        if (away === "silent") return new Promise(() => silences++);
        if (away) return request.destroy();
        if (!request.url.endsWith(`/api/models/owner/${served.name}/revision/main`)) return false;
        if (request.headers.authorization !== "Bearer secret") return response.writeHead(401).end();
        return response.end(JSON.stringify({ siblings: [{ rfilename: "a.gguf" }, { rfilename: "b/c.gguf" }] }));
      },
    });
    const hub = { model: `owner/${served.name}`, endpoint: `${url}/synthetic`, token: "secret" };
    const names = (more) => run({ job: "names", ...hub, ...more });
    equal(await names(), ["a.gguf", "b/c.gguf"], "names");
    equal((await names({ token: undefined })).code, "not-found", "without the token");
    await read(served, hub);
    away = true;
    equal((await names()).sort(), ["config.json", WEIGHTS], "what is kept");
    equal((await names({ cache: false })).code, "network", "without a cache");
    away = "silent";
    equal((await names()).sort(), ["config.json", WEIGHTS], "what is kept, while the Hub is silent");
    equal(silences, 1, "requests to a silent Hub");
    away = true;
    equal(await names({ model: served.url }), [], "a plain server's");
  },

  async "the URL of a GGUF file is a model of that file and its other parts alone"({ run }) {
    const [first, second] = ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"];
    const served = model("single", { files: { "config.json": SMALL, [first]: SMALL, [second]: SMALL } });
    const from = { model: `${served.url}/${first}` };
    equal(await run({ job: "names", ...from }), [first], "names");
    const { hashes } = await run({ job: "read", files: ["config.json", first, second], ...from });
    equal(hashes, { "config.json": null, [first]: sha256(SMALL), [second]: sha256(SMALL) }, "hashes");
    equal(served.sent(), `${first} 0, ${second} 0`, "what was asked for");
  },

  async "servers that cut, lie about lengths, or know no Range"({ read, right }) {
    const after = (length, more) => (part, request, response) => {
      if (part.what !== "1" || (served.times = (served.times ?? 0) + 1) > more) return false;
      const range = `bytes ${CHUNK}-${2 * CHUNK - 1}/${LARGE.length}`;
      response.writeHead(206, { ETag: '"1"', "Content-Range": range, "Content-Length": CHUNK });
      // The response has no socket yet while the one before it ends.
      const cut = () => request.socket.destroySoon();
      response.write(LARGE.subarray(CHUNK, CHUNK + length), cut);
      return true;
    };
    let served = model("cut", { misbehave: after(CHUNK / 2, 2) });
    await right(served, ALL);
    // Three cuts are an error; what came before them stays.
    served = model("cut-often", { misbehave: after(CHUNK / 2, 3) });
    const { code, message } = await read(served);
    equal(code, "network", message);
    served.sent();
    await right(served, "1, ?, absent.json -, config.json ?");

    const lie = (start, total, body) => (part, request, response) => {
      if (part.what !== "1") return false;
      response.writeHead(206, { ETag: '"1"', "Content-Range": `bytes ${start}-${start + CHUNK - 1}/${total}` });
      response.end(body);
      return true;
    };
    const good = LARGE.subarray(CHUNK, 2 * CHUNK);
    for (const [what, misbehave, wanted] of [
      ["short", lie(CHUNK, LARGE.length, good.subarray(1)), "network"],
      ["long", lie(CHUNK, LARGE.length, Buffer.concat([good, SMALL])), "network"],
      ["elsewhere", lie(0, LARGE.length, good), "network"],
      ["other-total", lie(CHUNK, LARGE.length + 1, good), "integrity"],
    ]) {
      const lying = model(`lying-${what}`, { misbehave });
      const { code, message } = await read(lying);
      equal(code, wanted, `${what}: ${message}`);
    }
    // A total that is too large asks for bytes that are not there.
    const large = model("lying-large");
    large.misbehave = (part, request, response) => {
      const { writeHead } = response;
      response.writeHead = (status, headers) => {
        if (headers?.["Content-Range"]) headers["Content-Range"] = headers["Content-Range"].replace(/\d+$/, String(5 * CHUNK));
        return writeHead.call(response, status, headers);
      };
    };
    equal((await read(large)).code, "network", "large");

    const { code: outside, message: said } = await read(served, { files: ["../twice/config.json"] });
    equal(outside, "not-found", said);
  },

  async "a server that sends parts of compressed files is asked for the whole file"({ right, read }) {
    const packed = { [WEIGHTS]: gzipSync(LARGE), "config.json": gzipSync(SMALL) };
    const served = model("packed", {
      misbehave({ file }, request, response) {
        const bytes = packed[file];
        if (!bytes) return false;
        const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "") ?? [];
        const [start, end] = from === undefined ? [0, bytes.length] : [Number(from), Math.min(Number(to) + 1, bytes.length)];
        const head = { ETag: '"1"', "Content-Encoding": "gzip", "Content-Length": end - start };
        response.writeHead(from === undefined ? 200 : 206, {
          ...head,
          ...(from !== undefined && { "Content-Range": `bytes ${start}-${end - 1}/${bytes.length}` }),
        });
        response.end(bytes.subarray(start, end));
        return true;
      },
    });
    equal((await read(served)).hashes, RIGHT, "bytes");
    equal((await read(served)).hashes, RIGHT, "what is kept");
  },

  async "a server without Range gives whole files: kept or not, damaged, read again, or no longer with Range"({ read, right, run }) {
    const whole = model("wholly", { wholly: true });
    const once = "0, absent.json -, config.json 0";
    await right(whole, once);
    await right(whole, QUESTIONS);
    await right(whole, once, { cache: false });
    equal(await run({ job: "damage", how: "flip", path: "model.safetensors/2-" }), 1, "chunks");
    await right(whole, "2, ?, absent.json -, all, config.json ?");
    await right(whole, QUESTIONS);
    const ends = [
      [0, 10],
      [LARGE.length - 10, LARGE.length],
    ];
    for (const cache of [true, false]) {
      const { hashes } = await run({ job: "pass", model: whole.url, file: WEIGHTS, pieces: ends, again: ends, cache });
      equal(
        hashes,
        [...ends, ...ends].map(([start, end]) => sha256(LARGE.subarray(start, end))),
        "pieces",
      );
      equal(whole.sent(), cache ? "?" : "0, all", "sent");
    }
    whole.etag = '"2"';
    await right(whole, "0, ?, absent.json -, config.json 0, config.json ?");
    // A Range that goes away in the middle.
    const fickle = model("fickle", {
      misbehave: (part) => {
        fickle.wholly = part.what === "1";
      },
    });
    equal((await read(fickle, { files: [WEIGHTS] })).hashes, { [WEIGHTS]: RIGHT[WEIGHTS] }, "bytes");
    const changing = model("changing-whole", { wholly: true });
    changing.misbehave = ({ what }) => {
      if (what === "all") changing.etag = '"2"';
    };
    const { code, message } = await run({ job: "pass", model: changing.url, file: WEIGHTS, pieces: ends, again: ends, cache: false });
    equal(code, "integrity", message);
  },

  async "a chunk that is on its way when a server is found to know no Range any more counts once"({ right, run }) {
    const leaving = model("leaving");
    await right(leaving, ALL);
    equal(await run({ job: "damage", how: "flip", path: "model.safetensors/[23]-" }), 2, "chunks");
    leaving.wholly = true;
    let gone;
    const left = new Promise((resolve) => {
      gone = resolve;
    });
    leaving.misbehave = ({ what }, request, response) => {
      if (what === "2") response.on("close", gone);
      if (what !== "3") return false;
      const begin = 3 * CHUNK;
      response.writeHead(206, { ETag: '"1"', "Content-Range": `bytes ${begin}-${LARGE.length - 1}/${LARGE.length}` });
      response.write(LARGE.subarray(begin, begin + 1000));
      left.then(() => response.end(LARGE.subarray(begin + 1000)));
      return true;
    };
    await right(leaving, "2, ?, absent.json -, all, config.json ?");
  },

  async "a server that falls silent, before its answer or within it, is asked again, three times"({ read, right }) {
    const silent = (most) => {
      let times = 0;
      return (part, request, response) => {
        if (part.what !== "1" || ++times > most) return false;
        if (times % 2 === 0) return new Promise(() => {});
        const range = `bytes ${CHUNK}-${2 * CHUNK - 1}/${LARGE.length}`;
        response.writeHead(206, { ETag: '"1"', "Content-Range": range, "Content-Length": CHUNK });
        response.write(LARGE.subarray(CHUNK, CHUNK + 1000));
        return true;
      };
    };
    await right(model("silent", { misbehave: silent(2) }), ALL, { patience: { silence: 700 } });
    const { code, message } = await read(model("silent-for-ever", { misbehave: silent(9) }), { patience: { silence: 500 } });
    equal(code, "network", message);
    check(message.includes("nothing came for 0.5 s"), message);
  },

  async "a server in trouble is asked again for about a minute, with growing pauses, or when it wants to be"({ read, right, run }) {
    const trouble = (times, status, headers) => {
      const served = model(`trouble-${status}-${times}`, {
        misbehave(part, request, response) {
          if (part.what !== "1" || ++served.times > times) return false;
          response.writeHead(status, headers?.()).end();
          return true;
        },
        times: 0,
      });
      return served;
    };
    const { pauses } = await run({ job: "patience" });
    const total = pauses.reduce((sum, pause) => sum + pause, 0);
    check(total > 50_000 && total < 70_000, `${total} ms`);
    const clock = true;
    const late = trouble(pauses.length, 503);
    const { hashes, skipped } = await read(late, { clock });
    equal(hashes, RIGHT, "bytes");
    equal(skipped.length, pauses.length, `pauses: ${skipped}`);
    for (const [i, pause] of skipped.entries()) {
      check(Math.abs(pause / pauses[i] - 1) <= 0.25 && pause > (skipped[i - 1] ?? 0), `pauses: ${skipped}`);
    }
    const never = trouble(99, 502);
    const { code, message } = await read(never, { clock, files: [WEIGHTS] });
    equal([code, never.times], ["network", pauses.length + 1], message);
    check(message.endsWith(`/${WEIGHTS}: the server answered 502, 7 times in a row`), message);

    const seconds = await read(
      trouble(1, 429, () => ({ "Retry-After": "120" })),
      { clock },
    );
    equal([seconds.hashes, seconds.skipped], [RIGHT, [120_000]], "seconds");
    const date = await read(
      trouble(1, 503, () => ({ "Retry-After": new Date(Date.now() + 200_000).toUTCString() })),
      { clock },
    );
    equal(date.hashes, RIGHT, "bytes");
    check(date.skipped.length === 1 && date.skipped[0] > 100_000 && date.skipped[0] <= 200_000, `date: ${date.skipped}`);
    const past = await read(
      trouble(2, 500, () => ({ "Retry-After": new Date(0).toUTCString() })),
      { clock },
    );
    check(past.skipped.length === 2 && past.skipped[1] < 3000, `past: ${past.skipped}`);
    const busy = await read(
      trouble(99, 504, () => ({ "Retry-After": "3600" })),
      { clock, files: [WEIGHTS] },
    );
    equal([busy.code, busy.skipped], ["network", []], busy.message);
    check(busy.message.endsWith("the next request in 3600 s"), busy.message);

    for (const [status, wanted] of [
      [401, "not-found"],
      [403, "not-found"],
      [501, "network"],
      [410, "network"],
    ]) {
      const served = trouble(99, status);
      const { code, skipped } = await read(served, { clock, files: [WEIGHTS] });
      equal([code, skipped, served.times], [wanted, [], 1], String(status));
    }
    late.sent();
    await right(late, QUESTIONS);
  },

  async "a download that was cut off waits for the connection; one that has not begun does not"({ read, tell }) {
    let cuts, then;
    const cut = (part, request) => {
      if (part.what !== "1" || cuts <= 0) return false;
      cuts--;
      request.destroy();
      then();
      return true;
    };
    const served = model("offline", { misbehave: cut });
    const lost = async (times, after, pauses) => {
      [cuts, then] = [times, after];
      const { code, message, hashes } = await read(served, { files: [WEIGHTS], cache: false, offline: true, patience: { pauses } });
      return code ?? (equal(hashes, { [WEIGHTS]: RIGHT[WEIGHTS] }, message ?? "bytes"), "right");
    };
    // The second pause would be too long to wait for.
    const long = [10, 3_600_000];
    // More than there are tries; a browser itself tries twice.
    const always = 12;
    equal(await lost(always, () => tell({ abort: true }), long), "aborted", "an abort while it waits");
    equal(await lost(1, () => tell({ online: true }), long), "right", "a connection that comes back");
    equal(await lost(always, () => {}, [10, 20]), "right", "tries without a connection");

    const away = model("away-at-first", { misbehave: (part, request) => request.destroy() && true });
    const first = await read(away, { clock: true });
    equal([first.code, first.skipped.length], ["network", 2], `without an answer: ${first.message}`);
    const none = await read(away, { clock: true, onLine: false });
    equal([none.code, none.skipped], ["network", []], `without a connection: ${none.message}`);
    check(none.message.endsWith("the browser is offline"), none.message);
  },

  async "a signature in the address goes along with every file, and is neither kept nor shown"({ read, right, run }) {
    let valid = "?one=secret/1&two";
    const served = model("signed", {
      misbehave: (_, request, response) => !request.url.endsWith(valid) && response.writeHead(403).end(),
    });
    await right(served, ALL, { model: served.url + valid });
    const list = () => run({ job: "list" });
    equal(
      (await list()).map(({ model, url, complete }) => [model, url, complete]),
      [[served.url, `${url}${served.url}/`, true]],
      "list",
    );
    const outdated = await read(served, { model: served.url + valid.replace("1", "0") });
    equal(outdated.code, "not-found", outdated.message);
    check(!JSON.stringify(outdated).includes("secret"), JSON.stringify(outdated));
    valid = "?one=secret/2";
    await right(served, QUESTIONS, { model: `${served.url}/${valid}#part` });
    served.misbehave = (_, request, response) => response.writeHead(500).end();
    const broken = await read(served, { model: served.url + valid, cache: false });
    equal(broken.code, "network", broken.message);
    check(!JSON.stringify(broken).includes("secret"), JSON.stringify(broken));
    equal(await run({ job: "remove", model: served.url + valid }), true, "removed");
    equal(await list(), [], "list");
  },

  async "a model for which there is no room is told of before it comes"({ read }) {
    const served = model("roomless");
    const estimate = { quota: 30e6, usage: 5e6 };
    const { hashes, warnings } = await read(served, { estimate });
    equal([hashes, warnings.length], [RIGHT, 1], `warnings: ${warnings}`);
    check(warnings[0].startsWith("quota: ") && warnings[0].includes("(30 MB are needed, 25 MB are free)"), warnings[0]);
    equal((await read(served, { estimate })).warnings, [], "once it is there");
    // Shards count together.
    const shards = model("shards", { files: { a: LARGE, b: LARGE } });
    const sharded = await read(shards, { estimate: { quota: 50e6, usage: 0 }, files: ["a", "b"], sizesFirst: true });
    equal(sharded.warnings.length, 1, `warnings: ${sharded.warnings}`);
    check(sharded.warnings[0].includes("(51 MB are needed, 50 MB are free)"), sharded.warnings[0]);
  },

  async "what is not kept is forgotten when it was read, and fetched once, whatever the order"({ run }) {
    const chunks = 40;
    const served = model("passing", { files: { [WEIGHTS]: repeated(chunks) } });
    const pass = (pieces, again = []) => run({ job: "pass", model: served.url, file: WEIGHTS, cache: false, pieces, again });
    // As tensors are read: several at the same time, in pieces that end anywhere, and what is small at the end.
    const small = Array.from({ length: chunks }, (_, index) => [index * CHUNK + 5000, index * CHUNK + 9000]);
    const large = [];
    const middle = (chunks / 2) * CHUNK;
    for (let at = 0; at < middle; at += 3_000_000) {
      for (const from of [0, middle]) {
        const [start, end] = [from + at, from + Math.min(at + 3_000_000, middle)];
        const hole = small.find(([a, b]) => a < end && b > start);
        if (!hole) large.push([start, end]);
        else large.push([start, Math.max(start, hole[0])], [Math.min(end, hole[1]), end]);
      }
    }
    const pieces = [...large.filter(([start, end]) => start < end), ...small];
    const { hashes, message } = await pass(pieces);
    equal(
      hashes,
      pieces.map(([start, end]) => sha256(served.files[WEIGHTS].subarray(start, end))),
      message ?? "bytes",
    );
    const each = Array.from({ length: chunks }, (_, index) => String(index))
      .sort()
      .join(", ");
    equal(served.sent(), each, "sent");
    // More waits than may: the little that is left of many chunks is not worth forgetting.
    const begun = small.slice(chunks / 2).map(([start]) => [start, start + 10]);
    await pass([...large.filter(([start, end]) => start < end && end <= middle), ...begun, ...small.slice(0, chunks / 2)]);
    equal(served.sent(), each, "sent");
    // Twice, within a load and after it.
    const [first, second] = [
      [0, CHUNK],
      [CHUNK, 2 * CHUNK],
    ];
    await pass([first, second, first], [second]);
    equal(
      served
        .sent()
        .split(", ")
        .filter((index) => index < 2)
        .join(", "),
      "0, 0, 1, 1",
      "sent",
    );
  },

  async "an abort ends a slow download at once, and the next load goes on from there"({ read, run, tell }) {
    // Only the abort can end the load: this chunk is answered after the test.
    let answer;
    const later = new Promise((resolve) => (answer = resolve));
    const served = model("slow", { misbehave: (part) => part.what === "2" && later });
    const aborted = read(served, { files: [WEIGHTS] });
    await until("the other chunks are stored", async () => (await run({ job: "tree" })).filter((path) => /\/[013]-[^/.]*$/.test(path)).length === 3);
    await tell({ abort: true });
    equal((await aborted).code, "aborted", "code");
    served.misbehave = null;
    served.sent();
    const { hashes } = await read(served, { files: [WEIGHTS] });
    equal(hashes[WEIGHTS], RIGHT[WEIGHTS], "bytes");
    equal(served.sent(), "2, ?", "sent");
    answer();
  },

  async "a worker that is killed at any moment leaves nothing that harms"({ parts, read, right, run }) {
    const served = model("killed");
    let state = 7;
    await read(served, { files: [WEIGHTS] });
    for (let i = 0; i < 20; i++) {
      state = (state * 1103515245 + 12345) % 2147483648;
      const killAt = Math.ceil((state / 2147483648) * LARGE.length);
      const fromNothing = i % 5 === 0;
      if (fromNothing) await run({ job: "damage", how: "drop", path: String.raw`model\.safetensors/[0-3]-[^/.]*$` });
      await read(served, { files: [WEIGHTS], killAt, ...(fromNothing && { holdAt: killAt }) });
      const whole = (await run({ job: "tree" })).filter((path) => /\/[0-3]-[^/.]*$/.test(path));
      // The others may end before they are killed.
      if (fromNothing) check(whole.length < 4, `killed at byte ${killAt}: ${whole}`);
    }
    await right(served);
    equal(await parts(), [], "parts");
    served.sent();
    await right(served, QUESTIONS);
  },

  async "two workers at once share one download"({ parts, read }) {
    const served = model("shared");
    const both = await Promise.all([read(served), read(served)]);
    for (const { hashes, warnings } of both) equal([hashes, warnings], [RIGHT, []], "both");
    const sent = served
      .sent()
      .split(", ")
      .filter((what) => !/absent|\?/.test(what))
      .join(", ");
    equal(sent, "0, 1, 2, 3, config.json 0", "sent");
    equal(await parts(), [], "parts");
  },

  async "a file system that is forbidden costs the cache, not the load, and one warning"({ read }) {
    const { hashes, warnings } = await read(model("forbidden"), { forbid: true });
    equal(hashes, RIGHT, "bytes where nothing is kept");
    equal(warnings.length, 1, `warnings: ${warnings}`);
    check(/^cache: .*SecurityError/.test(warnings[0]), warnings[0]);
  },
};

/** Tests that need a browser whose quota can be set. */
const limited = {
  async "a full disk costs the cache, not the load, and one warning"({ context, page, parts, read, run }) {
    const served = model("full");
    const client = await devtools(context, page);
    const quota = (more) => client.send("Storage.overrideQuotaForOrigin", { origin: url, ...more });
    await quota({ quotaSize: CHUNK });
    const { hashes, warnings, message } = await read(served);
    equal(hashes, RIGHT, message ?? "bytes");
    equal(warnings.length, 1, `warnings: ${warnings}`);
    check(/^quota: .*space/.test(warnings[0]), warnings[0]);
    equal(await parts(), [], "parts");
    await quota({});
    equal((await read(served)).warnings, [], "warnings with space");
    served.sent();
    equal((await read(served)).hashes, RIGHT, "bytes");
    equal(served.sent(), QUESTIONS, "sent");
    // Once a load is over, what did not fit is nowhere.
    const larger = model("larger", { files: { [WEIGHTS]: repeated(6) } });
    await quota({ quotaSize: 7 * CHUNK });
    const last = [[5 * CHUNK, 6 * CHUNK]];
    await run({ job: "pass", model: larger.url, file: WEIGHTS, pieces: [[0, 6 * CHUNK]], again: last });
    equal(larger.sent(), "0, 1, 2, 3, 4, 5, 5", "sent");
  },

  async "600 MB pass through little memory, with a full quota and without a cache"() {
    if (browserName === "firefox") throw new Skipped("its memory cannot be measured from outside");
    const own = await launch();
    const { context, page, run } = await openBare(own);
    const client = await devtools(context, page);
    const worker = await newestWorker(client);
    const processes = await devtools(own);
    const chunks = 75;
    // Whole chunks, or a little of each: then what was not read must not pile up either.
    for (const [cache, length, most] of [
      [false, CHUNK, 100e6],
      [false, 10, 200e6],
      [true, CHUNK, 100e6],
    ]) {
      const pieces = Array.from({ length: chunks }, (_, index) => [index * CHUNK, index * CHUNK + length]);
      const [heaps, totals] = [[], []];
      const served = model(`stream-${cache}-${length}`, {
        files: { [WEIGHTS]: repeated(chunks) },
        async misbehave({ what }) {
          if (what % 10 !== 0) return;
          await worker("HeapProfiler.collectGarbage");
          const { usedSize, backingStorageSize } = await worker("Runtime.getHeapUsage");
          heaps.push(usedSize + backingStorageSize);
          totals.push(await memory(processes));
        },
      });
      if (cache) await client.send("Storage.overrideQuotaForOrigin", { origin: url, quotaSize: 2 * CHUNK });
      const { hashes, message } = await run({ job: "pass", model: served.url, file: WEIGHTS, pieces, cache });
      equal([hashes?.length, new Set(hashes).size], [chunks, 1], message ?? "chunks");
      equal(heaps.length, 8, "measurements");
      const millions = (bytes) => bytes.map((bytes) => Math.round(bytes / 1e6)).join(", ");
      check(Math.max(...heaps) < most, `MB in the worker: ${millions(heaps)}`);
      // Blobs are in the browser's own process, next to what its network keeps for a moment.
      check(Math.max(...totals) - totals[0] < 500e6, `MB in all: ${millions(totals)}`);
    }
    await own.close();
  },
};

export const tests = {
  ...fresh({ ...files, ...limited }, openBare),

  async "the engine reads the Hub, its cache and picked files alike; it lists what is kept, and deletes it"() {
    const context = await browser.newContext();
    const page = await open(context);
    const fetched = [];
    const requests = [];
    page.on("response", (response) => {
      if (response.url().includes("/hub/") && response.status() === 206) fetched.push(Number(response.headers()["content-length"]));
      if (response.url().includes("/hub/")) requests.push(`${response.url()} ${response.request().headers().range}`);
    });
    const load = (options = {}) =>
      page.evaluate(async (options) => {
        const names = ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"];
        const picked = () => Promise.all(names.map(async (name) => new File([await (await fetch(`${DRAFT}/${name}`)).blob()], name)));
        const assistant_model = options.assisted ? await picked() : undefined;
        const hub = { endpoint: `${location.origin}/hub`, revision: "v1", token: "secret" };
        const engine = await Engine.load("owner/tales", { max_context: 64, assistant_model, cache: options.cache, ...hub });
        const { text, stats } = await engine.generate("Once upon a time", { max_new_tokens: 4 }).result;
        engine.close();
        return { text, warnings: [stats.warnings, engine.warnings], models: await Engine.cache.list() };
      }, options);
    const first = await load();
    check(first.text, "text");
    check(
      fetched.some((length) => length > 1e6),
      "weights were fetched",
    );
    equal(first.warnings, [[], []], "warnings");
    equal(
      first.models.map(({ bytes, ...model }) => [model, bytes > 1e6]),
      [[{ model: "owner/tales", url: `${url}/hub/owner/tales/resolve/v1/`, complete: true }, true]],
      "list",
    );

    // Without the cache, each part comes once.
    requests.splice(0);
    equal((await load({ cache: false })).text, first.text, "text without a cache");
    check(requests.length >= 5, `requests: ${requests}`);
    equal(
      requests.filter((request, i) => requests.indexOf(request) !== i),
      [],
      "fetched twice",
    );

    // Once more, with one file gone and no space for it.
    await page.evaluate(async () => {
      const root = await (await navigator.storage.getDirectory()).getDirectoryHandle("foretoken");
      for await (const model of root.values()) await model.removeEntry("config.json", { recursive: true });
    });
    const client = await devtools(context, page);
    await client.send("Storage.overrideQuotaForOrigin", { origin: url, quotaSize: 1000 });
    fetched.splice(0);
    const second = await load({ assisted: true });
    await client.send("Storage.overrideQuotaForOrigin", { origin: url });
    equal(second.text, first.text, "text of the second load");
    const config = (await (await fetch(`${url}/models/tales/draft/config.json`)).arrayBuffer()).byteLength;
    equal(
      fetched.filter((length) => length !== 1),
      [config],
      "fetched again",
    );
    const [told, shown] = second.warnings;
    check(told.length === 1 && told[0].startsWith("quota: "), `warnings: ${told}`);
    equal(shown, told, "warnings of the engine");

    const gone = await page.evaluate(async () => {
      const root = await (await navigator.storage.getDirectory()).getDirectoryHandle("foretoken");
      const { value: key } = await root.keys().next();
      let loaded;
      // As a page does that is loading.
      await new Promise((locked) =>
        navigator.locks.request(`foretoken/${key}`, { mode: "shared" }, () => new Promise((release) => locked((loaded = release)))),
      );
      const during = [await Engine.cache.delete("someone/else"), await Engine.cache.delete("owner/tales")];
      loaded();
      return [...during, await Engine.cache.delete("owner/tales"), await Engine.cache.delete(), await Engine.cache.list()];
    });
    equal(gone, [false, false, true, false, []], "another model; while it is loaded; after; again; what is left");

    const kept = await page.evaluate(async () => {
      const kept = [];
      for (const cache of [false, true]) {
        const { code } = await failed(Engine.load("/no-tokenizer/models/tales/draft", { cache }));
        kept.push(code, ...(await Engine.cache.list()).map(({ model }) => model));
      }
      return kept;
    });
    equal(kept, ["not-found", "not-found", "/no-tokenizer/models/tales/draft"], "what a load without and with a cache leaves");

    const headers = await page.evaluate(async () => {
      const hub = { endpoint: `${location.origin}/hub`, revision: "v1", token: "secret", cache: false };
      const { device, unfit, ...inspection } = await Engine.inspect("owner/tales", { max_context: 64, kv_dtype: "f32", ...hub });
      const { memory, total } = inspection;
      const small = await Engine.inspect(DRAFT, { max_context: 64, kv_dtype: "f16", cache: false });
      const failures = [];
      for (const model of ["owner/pickled", "owner/quantised"]) {
        failures.push(await failed(Engine.inspect(model, { endpoint: `${location.origin}/unusable`, cache: false })));
      }
      return { device, unfit, inspection, parts: memory.weights + memory.kv + memory.scratch - total, less: memory.kv / small.memory.kv, failures };
    });
    const { inspection } = headers;
    const folder = new URL("../../models/tales/draft/", import.meta.url);
    const sizes = readdirSync(folder).filter((file) => /^(config|generation_config|tokenizer|tokenizer_config)\.json$|safetensors$/.test(file));
    equal(
      inspection.download_bytes,
      sizes.reduce((sum, file) => sum + statSync(new URL(file, folder)).size, 0),
      "bytes of the files",
    );
    equal([inspection.model, inspection.architecture, headers.unfit, headers.parts, headers.less], ["owner/tales", "llama", null, 0, 2], "inspection");
    equal(Object.keys(inspection.tensors.dtypes), ["F16"], "types");
    check(headers.device.max_binding_size > 1e6, JSON.stringify(headers.device));
    const [pickled, quantised] = headers.failures;
    check(pickled.code === "not-found" && pickled.message.includes("pickled"), pickled.message);
    check(quantised.code === "bad-option" && quantised.message.includes("m-Q4_K_M.gguf, m-Q8_0.gguf"), quantised.message);

    const asked = await page.evaluate(async () => {
      const asked = [];
      for (const options of [{}, { persist: false }, { persist: true, cache: false }, { persist: true }]) {
        navigator.storage.persist = async () => asked.push(options);
        await failed(Engine.load("/no-tokenizer/models/tales/draft", options));
      }
      return asked;
    });
    equal(asked, [{ persist: true }], "loads that asked the browser to keep what it stores");
    await context.close();
  },
};
