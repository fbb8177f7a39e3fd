// Several targets, each in a worker of its own: the text of one, whatever becomes of the workers.
import { check, countWorkers, equal, faults, open, teach, until } from "./harness.mjs";

const PROMPT = "Once upon a time there was a king. Once upon a time";
const OPTIONS = { max_new_tokens: 12 };
const SAMPLED = { ...OPTIONS, do_sample: true, temperature: 0.8, seed: 5, bad_words_ids: [[7]] };

faults.gone = (_, response) => response.writeHead(501).end();

let page;
const load = (name, model, options) =>
  page.evaluate(
    async ([name, model, options]) => {
      globalThis[name]?.close();
      globalThis[name] = await Engine.load(model, options);
    },
    [name, model, options],
  );
const generate = (name, options = OPTIONS) =>
  page.evaluate(
    async ([name, prompt, options]) => {
      const stream = globalThis[name].generate(prompt, options);
      let text = "";
      for await (const piece of stream) text += piece.text;
      return { streamed: text, ...(await stream.result) };
    },
    [name, PROMPT, options],
  );

let greedy, sampled, reports;
export const before = async () => {
  page = await open();
  await teach(page, { crash });
  await load("one", "/models/tales/target", { max_context: 256 });
  [greedy, sampled] = [await generate("one"), await generate("one", SAMPLED)];
  reports = await page.evaluate(async () => {
    one.close();
    const reports = [];
    globalThis.two = await Engine.load(TALES, { assistant_model: DRAFT, max_context: 256, sp_degree: 2, onProgress: (at) => reports.push(at) });
    return reports;
  });
};
export const after = () => page.close();

/** Drafts of one token, so that a text takes a while. */
const ONE_BY_ONE = { max_new_tokens: 48, num_assistant_tokens: 1, num_assistant_tokens_schedule: "constant" };
/** Ends a worker in the middle of a text as a crash does: without a word. The oldest writes it, the next has the draft model at first. */
const killInText = (at) => page.evaluate((at) => workers[at].postMessage("crash"), at);
function crash() {
  const { mapAsync } = GPUBuffer.prototype;
  let readbacks = 0;
  GPUBuffer.prototype.mapAsync = function (...range) {
    if (++readbacks === 2) close();
    return mapAsync.apply(this, range);
  };
}
/** Waits for this many workers: ended workers are gone a little later. */
const workers = (count, what) => until(`${count} workers: ${what}`, async () => (await countWorkers(page)) === count);
const same = ({ text, token_ids, streamed }, expected, what) => {
  equal(token_ids, expected.token_ids, `${what}: ids`);
  equal([text, streamed], [expected.text, expected.text], `${what}: text`);
};

export const tests = {
  async "two targets and a draft model write the text of one, greedy and sampled, by model, by lookup and by both"() {
    await workers(4, "the text, two targets, the draft model");
    const most = {};
    for (const { phase, model, file, loaded, total } of reports) {
      const key = [phase, model, file].join();
      check(loaded >= (most[key] ?? 0) && loaded <= total, `${key}: ${loaded} of ${total} after ${most[key]}`);
      most[key] = loaded;
    }
    equal(reports.at(-1), { phase: "compile", model: "", file: "", loaded: 1, total: 1 }, "the last report");
    let accepted = 0;
    for (const [way, expected] of [
      [OPTIONS, greedy],
      [{ ...SAMPLED, num_assistant_tokens: 3, num_assistant_tokens_schedule: "constant" }, sampled],
      [{ ...OPTIONS, drafter: "lookup" }, greedy],
      [{ ...OPTIONS, drafter: "chain" }, greedy],
      [{ ...SAMPLED, speculation: "off" }, sampled],
    ]) {
      const what = JSON.stringify(way);
      const found = await generate("two", way);
      same(found, expected, what);
      const { distributed, num_emitted_tokens, num_spec_steps, num_accepted_draft_tokens } = found.stats;
      equal(num_emitted_tokens, num_spec_steps + num_accepted_draft_tokens, `${what}: the sum`);
      check(distributed.sp_degree === 2 && distributed.num_forwards > 0 && distributed.target_latency > 0, JSON.stringify(distributed));
      accepted += num_accepted_draft_tokens;
    }
    check(accepted > 0, "drafts were accepted");
    const { device, memory, counters } = await page.evaluate(async () => ({ device: two.device, memory: two.memory, counters: await two.counters() }));
    check(device.backend && memory.target.weights > memory.draft.weights && memory.draft.weights > 0, JSON.stringify({ device, memory }));
    check(counters.submits > 20 && counters.dispatches > 1000, JSON.stringify(counters));
  },

  async "with the draft model on the CPU beside it one target writes the same text"() {
    await load("beside", "/models/tales/target", { assistant_model: "/models/tales/draft", max_context: 256, draft_device: "cpu" });
    await workers(7, "also the text, a target, the draft model on the CPU");
    let accepted = 0;
    for (const [way, expected] of [
      [OPTIONS, greedy],
      [SAMPLED, sampled],
      [{ ...OPTIONS, drafter: "lookup" }, greedy],
    ]) {
      const found = await generate("beside", way);
      same(found, expected, JSON.stringify(way));
      const { distributed, warnings, num_accepted_draft_tokens } = found.stats;
      equal([distributed.sp_degree, warnings], [1, []], "targets, and what to know");
      accepted += num_accepted_draft_tokens;
    }
    check(accepted > 0, "drafts were accepted");
    const device = await page.evaluate(() => {
      const { device } = beside;
      beside.close();
      return device;
    });
    equal(device.backend, "BrowserWebGpu", "where the target runs");
    await workers(4, "those before");
    await load("foreign", "/models/tales/target", { assistant_model: "/vocabulary/models/tales/draft", max_context: 256, draft_device: "cpu" });
    const { stats, ...found } = await generate("foreign");
    await page.evaluate(() => foreign.close());
    same(found, greedy, "drafts go through text");
    check(stats.num_accepted_draft_tokens > 0 && stats.warnings[0].includes("tokenizer"), JSON.stringify(stats));
    await workers(4, "those before");
    const refused = await page.evaluate(() => failed(Engine.load(TALES, { draft_device: "webgpu" })));
    equal(refused?.code, "bad-option", "a draft model elsewhere");
  },

  async "a stop string, a reader that leaves and an abort end it there, and the next text is whole"() {
    const stop = greedy.text.slice(10, 14);
    const stopped = await generate("two", { ...OPTIONS, stop: [stop] });
    equal([stopped.text, stopped.finish_reason], [greedy.text.slice(0, greedy.text.indexOf(stop)), "stop"], "stopped");
    const left = await page.evaluate(
      async ([prompt, options]) => {
        const stream = two.generate(prompt, options);
        for await (const _ of stream) break;
        return stream.result;
      },
      [PROMPT, { max_new_tokens: 200 }],
    );
    equal(left.finish_reason, "aborted", "left");
    const aborted = await page.evaluate(
      async ([prompt, options]) => {
        const control = new AbortController();
        const stream = two.generate(prompt, { ...options, signal: control.signal });
        const read = (async () => {
          for await (const _ of stream) control.abort();
        })();
        return failed(read);
      },
      [PROMPT, { max_new_tokens: 200 }],
    );
    equal(aborted.code, "aborted", "aborted");
    same(await generate("two"), greedy, "the next text");
  },

  async "what is wrong is said under its name, and costs nothing"() {
    const errors = await page.evaluate(
      async (prompt) => [
        await failed(two.generate(prompt, { do_sample: true, acceptance: "rejection" }).result),
        await failed(two.generate(prompt, { drafter: "suffix" }).result),
        await failed(two.generate([1e6]).result),
        await failed(two.generate(Array(300).fill(5)).result),
        await failed(Engine.load(TALES, { sp_degree: 9 })),
        await failed(Engine.load("/gone/models/tales/target", { sp_degree: 2 })),
        await failed(Engine.load(TALES, { sp_degree: 2, max_context: 1 })),
      ],
      PROMPT,
    );
    equal(
      errors.map((error) => error?.code),
      ["bad-option", "bad-option", "bad-option", "context-full", "bad-option", "network", "bad-option"],
      JSON.stringify(errors),
    );
    await workers(4, "those of engines that were not loaded are gone");
    same(await generate("two"), greedy, "the text after the errors");
  },

  async "a worker that dies is replaced, and the text is unharmed: the draft model's, then a target's"() {
    const begins = (ids, what) => equal(ids.slice(0, greedy.token_ids.length), greedy.token_ids, what);
    await killInText(1);
    const { token_ids: without, stats: before } = await generate("two", ONE_BY_ONE);
    begins(without, "ids of a text that loses its draft model");
    check(
      before.warnings.some((warning) => warning.includes("without the draft model")),
      JSON.stringify(before.warnings),
    );
    // Only with a draft model both targets have work; the next text brings it back.
    const drafts = async () => (await generate("two", ONE_BY_ONE)).stats.num_draft_tokens > 0;
    for (let i = 0; i < 20 && !(await drafts()); i++);
    // Now the oldest of the targets.
    await killInText(1);
    const { token_ids: after, stats } = await generate("two", ONE_BY_ONE);
    begins(after, "ids of a text that loses a target");
    equal(after, without, "the texts");
    check(stats.distributed.num_lost === 1 && stats.warnings.some((warning) => warning.includes("is set up again")), JSON.stringify(stats));
    same(await generate("two"), greedy, "the text after it");
    await workers(4, "after two deaths");
  },

  async "close ends all workers"() {
    await page.evaluate(() => two.close());
    await workers(0, "after close");
  },
};
