// Where models come from: servers that misbehave, the Hub, files that the user picked; and what is kept of them.
import { browser, check, devtools, equal, faults, open, url } from "./harness.mjs";
import { ALL, CHUNK, LARGE, QUESTIONS, RIGHT, SMALL, WEIGHTS, fresh, model, noise, parts, read, right, run, sha256 } from "./synthetic.mjs";

faults.hub = (request, response, rest) => {
  const [owner, name, resolve, revision, file] = rest;
  const wanted = `${owner}/${name}/${resolve}/${revision}` === "owner/tales/resolve/v1";
  if (!wanted || request.headers.authorization !== "Bearer secret") response.writeHead(401).end();
  rest.splice(0, rest.length, "models", "tales", "draft", file);
};
faults["no-weights"] = (_, response, rest) => rest.at(-1).includes(WEIGHTS) && response.writeHead(404).end();

const files = fresh({
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
      await right(served, [String(index), ...QUESTIONS.split(", ")].sort().join(", "));
      await right(served, QUESTIONS);
    }
    equal(await run({ job: "damage", how: "flip", end: /model\.safetensors\/meta$/ }), 1, "meta");
    await right(served, "0, 1, 2, 3, absent.json -, config.json ?");
  },

  async "a changed file is fetched anew, and what the server does not name a version of, each time"() {
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

  async "without the server, what is kept is enough: unreachable, broken, silent, a page in its place"() {
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
    await run({ job: "damage", how: "flip", end: /model\.safetensors\/2-[^/]*$/ });
    served.misbehave = (_, request, response) => response.writeHead(503).end();
    const { code } = await read(served);
    equal(code, "network", "with a damaged chunk");
    served.misbehave = (_, request, response) => response.writeHead(403).end();
    equal((await read(served)).code, "not-found", "no longer allowed");
  },

  async "a commit of the Hub is not asked about again"() {
    const served = model("pinned");
    const commit = "0123456789abcdef0123456789abcdef01234567";
    const hub = (revision) => ({ model: "owner/pinned", endpoint: `${url}/synthetic`, revision });
    await right(served, ALL, hub(commit));
    await right(served, "", hub(commit));
    await right(served, ALL, hub("main"));
    await right(served, QUESTIONS, hub("main"));
  },

  async "servers that cut, lie about lengths, or know no Range"() {
    const after = (length, more) => (part, request, response) => {
      if (part.what !== "1" || (served.times = (served.times ?? 0) + 1) > more) return false;
      const range = `bytes ${CHUNK}-${2 * CHUNK - 1}/${LARGE.length}`;
      response.writeHead(206, { ETag: '"1"', "Content-Range": range, "Content-Length": CHUNK });
      response.write(LARGE.subarray(CHUNK, CHUNK + length));
      setTimeout(() => response.destroy(), 50);
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
      ["whole-now", (part, request) => part.what === "1" && !delete request.headers.range, "integrity"],
    ]) {
      const lying = model(`lying-${what}`, { misbehave });
      if (what === "whole-now") lying.misbehave = (part) => { lying.wholly = part.what === "1"; };
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

    const whole = model("wholly", { wholly: true });
    await right(whole, "0, absent.json -, config.json 0");
    await right(whole, QUESTIONS);
  },

  async "a server that falls silent, before its answer or within it, is asked again, three times"() {
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
    await right(model("silent", { misbehave: silent(2) }), ALL, { silence: 700 });
    const { code, message } = await read(model("silent-for-ever", { misbehave: silent(9) }), { silence: 500 });
    equal(code, "network", message);
    check(message.includes("nothing came for 0.5 s"), message);
  },

  async "an abort ends a slow download at once, and the next load goes on from there"() {
    const served = model("slow", { misbehave: (part) => part.what === "2" && new Promise((resolve) => setTimeout(resolve, 30_000).unref()) });
    const began = Date.now();
    const { code } = await read(served, { files: [WEIGHTS], abortAfter: 1000 });
    equal(code, "aborted", "code");
    check(Date.now() - began < 8000, "it took long");
    served.misbehave = null;
    served.sent();
    const { hashes } = await read(served, { files: [WEIGHTS] });
    equal(hashes[WEIGHTS], RIGHT[WEIGHTS], "bytes");
    equal(served.sent(), "2, ?", "sent");
  },

  async "a worker that is killed at any moment leaves nothing that harms"() {
    const served = model("killed");
    let state = 7;
    let unfinished = 0;
    for (let i = 0; i < 20; i++) {
      state = (state * 1103515245 + 12345) % 2147483648;
      if (i % 5 === 0) await run({ job: "damage", how: "drop", end: /model\.safetensors\/[0-3]-[^/.]*$/ });
      await read(served, { files: [WEIGHTS], killAfter: Math.floor((state / 2147483648) * 200) });
      const whole = (await run({ job: "tree" })).filter((path) => /\/[0-3]-[^/.]*$/.test(path));
      if (whole.length < 4) unfinished++;
    }
    check(unfinished > 3, `only ${unfinished} were killed before they had finished`);
    await right(served);
    equal(await parts(), [], "parts");
    served.sent();
    await right(served, QUESTIONS);
  },

  async "two workers at once share one download"() {
    const served = model("shared");
    const both = await Promise.all([read(served), read(served)]);
    for (const { hashes, warnings } of both) equal([hashes, warnings], [RIGHT, []], "both");
    const sent = served.sent().split(", ").filter((what) => !/absent|\?/.test(what)).join(", ");
    equal(sent, "0, 1, 2, 3, config.json 0", "sent");
    equal(await parts(), [], "parts");
  },

  async "a full disk and a forbidden one cost the cache, not the load, and one warning"(context, page) {
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
    const forbidden = await read(served, { forbid: true });
    equal(forbidden.hashes, RIGHT, "bytes where nothing is kept");
    equal(forbidden.warnings.length, 1, `warnings: ${forbidden.warnings}`);
    check(/^cache: .*SecurityError/.test(forbidden.warnings[0]), forbidden.warnings[0]);
  },
});

export const tests = {
  ...files,

  async "the engine reads the Hub, its cache and picked files alike; it lists what is kept, and deletes it"() {
    const context = await browser.newContext();
    const page = await open(context);
    const fetched = [];
    page.on("response", (response) => {
      if (response.url().includes("/hub/") && response.status() === 206) fetched.push(Number(response.headers()["content-length"]));
    });
    const load = (options = {}) => page.evaluate(async (options) => {
      const names = ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"];
      const picked = () => Promise.all(names.map(async (name) => new File([await (await fetch(`${DRAFT}/${name}`)).blob()], name)));
      const assistant_model = options.assisted ? await picked() : undefined;
      const hub = { endpoint: `${location.origin}/hub`, revision: "v1", token: "secret" };
      const engine = await Engine.load("owner/tales", { max_context: 64, assistant_model, ...hub });
      const { text, stats } = await engine.generate("Once upon a time", { max_new_tokens: 4 }).result;
      engine.dispose();
      return { text, warnings: [stats.warnings, engine.warnings], models: await Engine.cache.list() };
    }, options);
    const first = await load();
    check(first.text, "text");
    check(fetched.some((length) => length > 1e6), "weights were fetched");
    equal(first.warnings, [[], []], "warnings");
    equal(first.models.map(({ bytes, ...model }) => [model, bytes > 1e6]), [[{ model: "owner/tales", url: `${url}/hub/owner/tales/resolve/v1/`, complete: true }, true]], "list");

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
    equal(fetched.filter((length) => length !== 1), [config], "fetched again");
    const [told, shown] = second.warnings;
    check(told.length === 1 && told[0].startsWith("quota: "), `warnings: ${told}`);
    equal(shown, told, "warnings of the engine");

    const gone = await page.evaluate(async () => {
      const root = await (await navigator.storage.getDirectory()).getDirectoryHandle("foretoken");
      const { value: key } = await root.keys().next();
      let loaded;
      // As a page does that is loading.
      await new Promise((locked) => navigator.locks.request(`foretoken/${key}`, { mode: "shared" }, () => new Promise((release) => locked((loaded = release)))));
      const during = [await Engine.cache.delete("someone/else"), await Engine.cache.delete("owner/tales")];
      loaded();
      return [...during, await Engine.cache.delete("owner/tales"), await Engine.cache.delete(), await Engine.cache.list()];
    });
    equal(gone, [false, false, true, false, []], "another model; while it is loaded; after; again; what is left");

    const kept = await page.evaluate(async () => {
      const kept = [];
      for (const cache of [false, true]) {
        const { code } = await failed(Engine.load("/no-weights/models/tales/draft", { cache }));
        kept.push(code, ...(await Engine.cache.list()).map(({ model }) => model));
      }
      return kept;
    });
    equal(kept, ["not-found", "not-found", "/no-weights/models/tales/draft"], "what a load without and with a cache leaves");
    await context.close();
  },
};
