// Where models come from: servers that misbehave, the Hub, files that the user picked.
import { check, equal, faults, open } from "./harness.mjs";

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
  if (cuts.has(path) || !path.endsWith("model.safetensors")) return;
  cuts.add(path);
  response.writeHead(206, { "Content-Length": 1000, "Content-Range": "bytes 0-999/100000" });
  response.write("x".repeat(500));
  setTimeout(() => response.destroy(), 50);
};

let page;
export const before = async () => {
  page = await open();
};
export const after = () => page.close();

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
};
