/** Service worker for visits without a network: stores the page's files and serves them if the server does not answer. */
const KEPT = "foretoken-page";
/** Milliseconds to wait for the server if a file is stored. */
const PATIENCE = 2000;
/** True after a late answer: then stored files are served at once. */
let silent = false;
const at = (/** @type {string} */ path) => new URL(path, self.location.href).href;

/** True if worker.js loads the module for relaxed SIMD. */
const isRelaxed = WebAssembly.validate(
  Uint8Array.from([0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 15, 1, 13, 0, 65, 1, 253, 15, 65, 2, 253, 15, 253, 128, 2, 11]),
);

const names = (/** @type {string} */ text) => text.trim().split(/\s+/);
/** All files of the page. A test compares this list with the folders. */
const FILES = [
  ...["./", "icon.svg", "base.css", "race.css", "chat.css", "recording.json", "marked.js", "engine-worker.js"],
  ...names(`
    app card charts chat dom download guesses lane markdown measure message model network options outcome pairs policy presets race real
    recommend record recorded replay schema settings share shelf stage support tabs turn welcome
  `).map((name) => `${name}.js`),
  ...names(`
    answers cache chat chunks conversation downloader engine error error-hints foretoken grammar http instance instance-workers loading
    model-files normalization oniguruma opfs options patterns queue saved-chats server-files shared-name start-worker storage threads tools worker
  `).map((name) => `../${name}.js`),
  isRelaxed ? "../relaxed_bg.wasm" : "../foretoken_bg.wasm",
  "../grammar_bg.wasm",
].map(at);

self.addEventListener("install", (event) => {
  // The browser's cache has files that the page has just loaded.
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

async function answer(request, address) {
  const kept = await caches.open(KEPT);
  let answered = false;
  const fetched = fetch(request).then(async (response) => {
    if (response.ok) await kept.put(address, response.clone());
    answered = true;
    silent = false;
    return response;
  });
  const late = new Promise((resolve) => setTimeout(resolve, silent ? 0 : PATIENCE)).then(async () => {
    silent = !answered;
    return (await kept.match(address)) ?? fetched;
  });
  try {
    return await Promise.race([fetched, late]);
  } catch (error) {
    const stored = await kept.match(address);
    if (stored) return stored;
    throw error;
  }
}
