import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import resolve from "@rollup/plugin-node-resolve";

/** Lays the modules beside the worker, which looks for them there. */
const wasm = {
  name: "wasm",
  generateBundle() {
    const require = createRequire(import.meta.url);
    for (const fileName of ["foretoken_bg.wasm", "relaxed_bg.wasm", "grammar_bg.wasm"]) {
      this.emitFile({ type: "asset", fileName, source: readFileSync(require.resolve(`foretoken/${fileName}`)) });
    }
  },
};

export default {
  input: { main: "main.js", "engine-worker": "foretoken/worker" },
  output: { dir: "dist" },
  plugins: [resolve(), wasm],
};
