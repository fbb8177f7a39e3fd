/** The page's policy for trusted types: allows the addresses of its workers, and parsed documents for the simulator's pictures. */
const WORKERS = ["../worker.js", "engine-worker.js", "offline.js"].map((path) => new URL(path, import.meta.url).href);

globalThis.trustedTypes?.createPolicy("default", {
  createScriptURL: (url) => (WORKERS.includes(new URL(url, import.meta.url).href) ? url : null),
  createHTML: (text, type, sink) => (sink === "DOMParser parseFromString" ? text : null),
});
