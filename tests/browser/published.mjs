// A published model in 4 bits, from its GGUF file, where `node scripts/models.mjs` put it.
import { closeSync, existsSync, openSync, readFileSync, readSync, statSync } from "node:fs";
import { Skipped, browser, equal, faults, open } from "./harness.mjs";

const NAME = "SmolLM2-135M-Instruct.Q4_1.gguf";
const file = new URL(`../../target/models/${NAME}`, import.meta.url);
const golden = JSON.parse(readFileSync(new URL("../golden/published.json", import.meta.url), "utf8")).models[NAME].generations[0];

faults.published = (request, response) => {
  const size = statSync(file).size;
  const [, from = 0, to = size - 1] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "") ?? [];
  const [start, end] = [Number(from), Math.min(Number(to) + 1, size)];
  const bytes = Buffer.alloc(end - start);
  const opened = openSync(file, "r");
  readSync(opened, bytes, 0, bytes.length, start);
  closeSync(opened);
  response.writeHead(206, { ETag: '"1"', "Content-Length": bytes.length, "Content-Range": `bytes ${start}-${end - 1}/${size}` }).end(bytes);
};

let page;
export const before = async () => (page = await open(browser));
export const after = () => page.close();

export const tests = {
  async "SmolLM2 in 4 bits answers as transformers does, plainly and with a lookup"() {
    if (!existsSync(file)) throw new Skipped("it is not there; `node scripts/models.mjs` fetches it");
    const texts = await page.evaluate(async ([model, prompt, max_new_tokens]) => {
      const engine = await Engine.load(model, { max_context: 512, cache: false });
      const texts = [];
      for (const more of [{ speculation: "off" }, { drafter: "lookup", prompt_lookup_num_tokens: 10 }]) {
        texts.push((await engine.generate(prompt, { max_new_tokens, ...more }).result).token_ids);
      }
      engine.dispose();
      return texts;
    }, [`/published/${NAME}`, golden.prompt, golden.ids.length]);
    equal(texts, [golden.ids, golden.ids], "ids");
  },
};
