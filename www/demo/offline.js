/**
 * The page without a network. A service worker keeps the page's own files as the server sent them last, asks the server first, and
 * answers from what it keeps when there is none. Models it leaves alone: the engine keeps those.
 */
const KEPT = "foretoken-page";
const at = (/** @type {string} */ path) => new URL(path, self.location.href).href;

/** All that the page is made of. A test holds this list against the folders. */
const FILES = [
  ...["./", "icon.svg", "style.css", "simulate_bg.wasm", "simulate.js", "marked.js", "engine-worker.js"],
  ...["app", "card", "charts", "chat", "dom", "download", "guesses", "lane", "latencies", "markdown", "message", "model", "outcome", "pairs"].map(
    (name) => `${name}.js`,
  ),
  ...[
    "paper",
    "policy",
    "presets",
    "race",
    "record",
    "replay",
    "schema",
    "settings",
    "share",
    "shelf",
    "simulator",
    "stage",
    "support",
    "tabs",
    "turn",
    "welcome",
  ].map((name) => `${name}.js`),
  ...[
    "cache",
    "chat",
    "chunks",
    "conversation",
    "crew",
    "engine",
    "error",
    "foretoken",
    "grammar",
    "hub",
    "options",
    "queue",
    "remote",
    "saved",
    "sealed",
    "spawn",
    "tools",
    "transfer",
    "worker",
  ].map((name) => `../${name}.js`),
  "../foretoken_bg.wasm",
  "../grammar_bg.wasm",
].map(at);

self.addEventListener("install", (event) => {
  // What the page has just loaded comes from the browser's own cache.
  event.waitUntil(
    caches
      .open(KEPT)
      .then((kept) => kept.addAll(FILES))
      .then(() => self.skipWaiting()),
  );
});

self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const [address] = request.url.split(/[?#]/);
  if (request.method === "GET" && FILES.includes(address)) event.respondWith(answer(request, address));
});

/** @param {Request} request @param {string} address */
async function answer(request, address) {
  const kept = await caches.open(KEPT);
  try {
    const response = await fetch(request);
    if (response.ok) await kept.put(address, response.clone());
    return response;
  } catch (error) {
    const stored = await kept.match(address);
    if (stored) return stored;
    throw error;
  }
}
