/** Details of rare errors. Loaded on demand. */
import { failure } from "./error.js";
import { TYPES } from "./options.js";
import type { ForetokenError } from "./error.js";
import type { Method } from "./protocol.js";

const bare = (name: string) => name.toLowerCase().replace(/[^a-z0-9]/g, "");

/** Returns the edit distance: inserted, deleted and replaced letters. */
function distance(a: string, b: string) {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (const [i, letter] of [...a].entries()) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j++) next.push(Math.min(row[j] + Number(letter !== b[j]), row[j + 1] + 1, next[j] + 1));
    row = next;
  }
  return row[b.length];
}

/** Returns the error with all allowed names and the nearest one. The engine's module lists only the names that it reads itself. */
export function suggest(error: ForetokenError, method: Method) {
  const { value, allowed } = error.detail as { value: string; allowed: string };
  if (!/^\w+(, \w+)+$/.test(allowed)) return error;
  const own = method === "load" || method === "inspect" ? Object.keys(TYPES) : ["onProgress", "signal"];
  const names = [...new Set([...allowed.split(", "), ...own])].sort();
  const distances = names.map((name) => distance(bare(value), bare(name)));
  const least = Math.min(...distances);
  const nearest = least <= value.length / 3 ? names[distances.indexOf(least)] : null;
  const all = names.join(", ");
  const message = `options: ${value} is not allowed; ${nearest ? `did you mean ${nearest}? Allowed` : "allowed"}: ${all}`;
  return failure("bad-option", message, { option: "options", value, allowed: all, nearest });
}

/** Returns the probable reason why a worker could not be started. @param address of its script, or a function that started it */
export function unreachable(address: unknown) {
  const { origin } = typeof address === "string" ? new URL(address) : globalThis;
  if (origin !== globalThis.origin) {
    const scheme = globalThis.origin === "null" ? "data:" : "blob:";
    return (
      `the worker could not be started from ${origin}: that server must allow other origins (CORS), and a Content-Security-Policy of this page ` +
      `\`worker-src ${scheme} ${origin}\` and \`script-src ${origin}\`; or serve the package from this page's origin`
    );
  }
  return "the worker could not be started: are worker.js, foretoken.js and foretoken_bg.wasm beside engine.js, or where the option `worker` says? docs/deploy.md says what bundlers need";
}

/** Returns the error of a page that requires WebGPU without having it. */
export function noGpu() {
  const reason = globalThis.isSecureContext
    ? "this browser has no WebGPU, or it is switched off. Chrome and Edge 113 or later have it, Safari 26 and Firefox 141 on Windows; " +
      "on Linux start Chrome with --enable-unsafe-webgpu --enable-features=Vulkan"
    : "WebGPU needs a secure page: https, or localhost";
  return failure("webgpu-unavailable", `no usable GPU: ${reason}`, { reason });
}
