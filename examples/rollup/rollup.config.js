import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import resolve from "@rollup/plugin-node-resolve";

/** Lays the module beside the worker, which looks for it there. */
const wasm = {
  name: "wasm",
  generateBundle() {
    const source = readFileSync(createRequire(import.meta.url).resolve("foretoken/foretoken_bg.wasm"));
    this.emitFile({ type: "asset", fileName: "foretoken_bg.wasm", source });
  },
};

export default {
  input: { main: "main.js", "engine-worker": "foretoken/worker" },
  output: { dir: "dist" },
  plugins: [resolve(), wasm],
};
