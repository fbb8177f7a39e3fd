import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import resolve from "@rollup/plugin-node-resolve";

/** Copies the modules into the worker's folder, where the worker looks for them. */
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
