import { Engine } from "foretoken";

const [model = "HuggingFaceTB/SmolLM2-360M-Instruct"] = process.argv.slice(2);
const engine = await Engine.load(model, {
  onProgress: ({ phase, file, loaded, total }) => console.error(`${phase} ${file} ${Math.floor((100 * loaded) / total)} %`),
});
for await (const piece of engine.generate("Once upon a time", { max_new_tokens: 200 })) process.stdout.write(piece.text);
engine.close();
