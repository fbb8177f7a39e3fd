import { loading } from "./engine.js";

const text = document.getElementById("text");
const control = new AbortController();
write(control.signal).catch((error) => control.signal.aborted || (text.textContent = error.message));

/** Shows what the model writes, until the signal. */
async function write(signal) {
  text.textContent = "loading";
  const engine = await loading;
  signal.throwIfAborted();
  text.textContent = "What is the capital of France?\n";
  const messages = [{ role: "user", content: text.textContent }];
  for await (const piece of engine.generate(messages, { max_tokens: 100, signal })) text.append(piece.text);
}

if (import.meta.hot) {
  import.meta.hot.dispose(() => control.abort());
  import.meta.hot.accept();
}
