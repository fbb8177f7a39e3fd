import { Engine } from "foretoken";
import file from "foretoken/foretoken_bg.wasm";

const [worker, wasm] = ["./engine-worker.js", file].map((path) => new URL(path, import.meta.url));
const text = document.getElementById("text");
const engine = await Engine.load("HuggingFaceTB/SmolLM2-360M-Instruct", {
  assistant_model: "HuggingFaceTB/SmolLM2-135M-Instruct",
  worker,
  wasm,
  onProgress: ({ phase, file, loaded, total }) => (text.textContent = `${phase} ${file} ${Math.floor((100 * loaded) / total)} %`),
});
text.textContent = "";
for await (const piece of engine.generate("Once upon a time", { max_new_tokens: 200 })) text.append(piece.text);
