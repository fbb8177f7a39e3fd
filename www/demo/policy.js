/**
 * The page's policy for trusted types: no string becomes code, and the only addresses that pass are those of the page's own
 * workers. A parser's document runs nothing, and the simulator's pictures come from there.
 */
const WORKERS = ["../worker.js", "engine-worker.js", "offline.js"].map((path) => new URL(path, import.meta.url).href);

globalThis.trustedTypes?.createPolicy("default", {
  createScriptURL: (url) => (WORKERS.includes(new URL(url, import.meta.url).href) ? url : null),
  createHTML: (text, type, sink) => (sink === "DOMParser parseFromString" ? text : null),
});
