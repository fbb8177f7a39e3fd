// Conversations: turns, other answers, edits and branches, and what is not read again.
import { check, equal, open } from "./harness.mjs";

let page;
export const before = async () => {
  page = await open();
  await page.evaluate(async () => {
    globalThis.engine = await Engine.load("/models/tales/draft", { device: "cpu", max_context: 512 });
    globalThis.contents = ({ messages }) => messages.map(({ role, content }) => [role, content]);
  });
};
export const after = () => page.close();

const ASKED = "Tell me a long tale about a fox and a wolf in the wood.";

export const tests = {
  async "turns, other answers, edits and branches go on from what was said"() {
    const told = await page.evaluate(async (asked) => {
      const chat = engine.chat({ max_new_tokens: 6 });
      const pieces = [];
      for await (const { text } of chat.send(asked)) pieces.push(text);
      const first = contents(chat);
      const other = chat.branch();
      await other.send("And then?").result;
      const again = await chat.regenerate({ max_new_tokens: 3 }).result;
      const shorter = contents(chat);
      await other.edit(0, "Another tale.").result;
      const earlier = engine.chat({ messages: chat.messages }).branch(1);
      return {
        pieces,
        first,
        again: again.text,
        shorter,
        other: contents(other),
        earlier: contents(earlier),
        alone: (await engine.generate([{ role: "user", content: asked }], { max_new_tokens: 6 }).result).text,
      };
    }, ASKED);
    equal(
      told.first,
      [
        ["user", ASKED],
        ["assistant", told.alone],
      ],
      "a first turn",
    );
    equal(told.pieces.join(""), told.alone, "pieces");
    equal(
      told.shorter,
      [
        ["user", ASKED],
        ["assistant", told.again],
      ],
      "another answer",
    );
    check(told.alone.startsWith(told.again) && told.again.length < told.alone.length, told.again);
    equal([told.other.length, told.other[0]], [2, ["user", "Another tale."]], "what came behind an edited message is gone");
    equal(told.earlier, [["user", ASKED]], "a branch of one message");
  },

  async "what comes to nothing is taken back, what was written stays, and one turn comes after the other"() {
    const told = await page.evaluate(async (asked) => {
      const failed = (attempt) =>
        Promise.resolve()
          .then(attempt)
          .then(
            () => null,
            ({ code, detail }) => [code, detail?.option],
          );
      const chat = engine.chat({ max_new_tokens: 200 });
      const none = await failed(() => chat.regenerate().result);
      const bad = await failed(() => chat.send(asked, { max_new_tokens: 0 }).result);
      const empty = contents(chat);
      const control = new AbortController();
      const stream = chat.send(asked, { signal: control.signal });
      const more = chat.send("More");
      const second = await failed(() => more.result);
      for await (const { text } of stream) if (text) break;
      const { text } = await stream.result;
      const begun = contents(chat);
      const gone = await failed(() => chat.edit(5, "x").result);
      control.abort();
      const unanswered = await failed(() => chat.send("And?", { signal: control.signal }).result);
      return { none, bad, empty, second, text, begun, gone, unanswered, end: contents(chat) };
    }, ASKED);
    equal(
      [told.none, told.bad, told.second, told.gone],
      [
        ["bad-option", "messages"],
        ["bad-option", "max_new_tokens"],
        ["bad-option", "messages"],
        ["bad-option", "index"],
      ],
      "errors",
    );
    equal(told.unanswered[0], "aborted", "aborted");
    equal(told.empty, [], "nothing was said");
    equal(
      told.begun,
      [
        ["user", ASKED],
        ["assistant", told.text],
      ],
      "an answer that was left early",
    );
    equal(told.end, told.begun, "a message without an answer");
  },

  async "what Vue wraps in proxies works like the objects themselves, and two readers of one text each get a part"() {
    const told = await page.evaluate(async (asked) => {
      // As Vue's \`reactive\`: every object that is read through a proxy is a proxy too, but for those with its mark.
      const wrap = (object) =>
        object?.__v_skip || object === null || typeof object !== "object"
          ? object
          : new Proxy(object, { get: (target, name, self) => wrap(Reflect.get(target, name, self)) });
      const options = wrap({ stop: ["king"], max_new_tokens: 8 });
      const messages = wrap([{ role: "user", content: asked }]);
      const plain = await engine.generate([{ role: "user", content: asked }], { stop: ["king"], max_new_tokens: 8 }).result;
      const component = wrap({ engine, chat: engine.chat({ messages, max_new_tokens: 8 }) });
      const wrapped = await component.engine.generate(messages, options).result;
      const answer = await component.chat.send(wrap({ role: "user", content: asked })).result;
      const stream = engine.generate("Once upon a time", { max_new_tokens: 8 });
      const reader = stream[Symbol.asyncIterator]();
      const pieces = await Promise.all(Array.from({ length: 12 }, () => reader.next()));
      const { text } = await stream.result;
      return { texts: [plain.text, wrapped.text], said: answer.text.length, text, read: pieces.map(({ value }) => value?.text ?? "").join("") };
    }, ASKED);
    equal(told.texts[1], told.texts[0], "the text of wrapped messages");
    check(told.said > 0, "an answer in a wrapped conversation");
    check(told.text.startsWith(told.read) && told.read, `${told.read} of ${told.text}`);
  },

  async "conversations that take turns are not read again, with the same text"() {
    const [kept, alone] = await page.evaluate(async (asked) => {
      const turns = async (options) => {
        const engine = await Engine.load("/models/tales/draft", { device: "cpu", max_context: 512, ...options });
        const chats = ["fox", "king", "miller"].map((who) =>
          engine.chat({
            messages: [
              { role: "user", content: `${asked} With a ${who}.` },
              { role: "assistant", content: "Once upon a time there was one." },
            ],
            max_new_tokens: 8,
          }),
        );
        for (const chat of chats) await chat.send("Go on.").result;
        const told = [];
        for (const chat of chats) {
          const { text, stats } = await chat.send("And then?").result;
          told.push({ text, cached: stats.num_cached_tokens });
        }
        engine.close();
        return told;
      };
      return [await turns({}), await turns({ prompt_cache_bytes: 0 })];
    }, ASKED);
    equal(
      kept.map(({ text }) => text),
      alone.map(({ text }) => text),
      "texts",
    );
    check(
      kept.every(({ cached }, i) => cached > alone[i].cached + 16),
      JSON.stringify([kept, alone]),
    );
  },

  async "a saved conversation goes on after a reload without being read again; what is damaged is read"() {
    const told = await page.evaluate(async (asked) => {
      const chat = engine.chat({ max_new_tokens: 6 });
      await chat.send(asked).result;
      const kept = await chat.save("fox & wolf");
      await chat.save("fox & wolf");
      const next = (await chat.branch().send("And then?").result).text;
      const none = await engine.chat.restore("nobody").then(
        () => "",
        ({ code }) => code,
      );
      return { kept, next, none, said: contents(chat), list: await engine.chat.list() };
    }, ASKED);
    check(told.kept > 20, `${told.kept} tokens were kept`);
    equal([told.list.map(({ name, messages }) => [name, messages]), told.none], [[["fox & wolf", 2]], "not-found"], "what is saved");
    check(told.list[0].bytes > 10_000, "bytes");
    const again = async () =>
      page.evaluate(async () => {
        const other = await Engine.load("/models/tales/draft", { device: "cpu", max_context: 512 });
        const chat = await other.chat.restore("fox & wolf");
        const said = chat.messages.map(({ role, content }) => [role, content]);
        const { text, stats } = await chat.send("And then?").result;
        other.close();
        return { said, text, cached: stats.num_cached_tokens, tokens: stats.num_emitted_tokens };
      });
    const restored = await again();
    equal([restored.said, restored.text, restored.tokens], [told.said, told.next, 6], "it goes on, with its options");
    check(restored.cached >= told.kept, `${restored.cached} of ${told.kept} tokens were cached`);
    await page.evaluate(async () => {
      const root = await navigator.storage.getDirectory();
      const [folder] = await Array.fromAsync((await root.getDirectoryHandle("foretoken-chats")).values());
      for await (const [name, file] of folder.entries()) {
        if (!name.startsWith("0-")) continue;
        const writable = await file.createWritable({ keepExistingData: true });
        await writable.write({ type: "write", position: 100, data: new Uint8Array([1, 2, 3, 4]) });
        await writable.close();
      }
    });
    const damaged = await again();
    equal([damaged.said, damaged.text], [told.said, told.next], "it is read again");
    check(damaged.cached < 16, `${damaged.cached} tokens were cached`);
    equal(
      await page.evaluate(async () => [await engine.chat.delete("fox & wolf"), await engine.chat.delete("fox & wolf"), await engine.chat.list()]),
      [true, false, []],
      "deleted",
    );
  },
};
