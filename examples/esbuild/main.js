import { Engine } from "foretoken";

const text = document.getElementById("text");
const engine = await Engine.load("HuggingFaceTB/SmolLM2-360M-Instruct", {
  assistant_model: "HuggingFaceTB/SmolLM2-135M-Instruct",
  worker: new URL("engine-worker.js", import.meta.url),
  onProgress: ({ phase, file, loaded, total }) => (text.textContent = `${phase} ${file} ${Math.floor((100 * loaded) / total)} %`),
});
text.textContent = "";
for await (const piece of engine.generate("Once upon a time", { max_new_tokens: 200 })) text.append(piece.text);
