import { readFileSync } from "node:fs";

/** Adds the service worker with the names of all files of this build, which contain hashes. */
const serviceWorker = {
  name: "service-worker",
  // After the plugins that add the worker and the WASM.
  enforce: "post",
  generateBundle(_, bundle) {
    const files = JSON.stringify(["./", ...Object.keys(bundle)]);
    const code = readFileSync(new URL("service-worker.js", import.meta.url), "utf8");
    this.emitFile({ type: "asset", fileName: "service-worker.js", source: `const FILES = ${files};\n${code}` });
  },
};

export default { plugins: [serviceWorker] };
