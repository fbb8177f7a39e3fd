// Keeps the app for visits without a network. The build puts the list FILES before this line.
/** A name for each release: a worker starts only with the WASM of its own release. */
const RELEASE = FILES.join();
const ADDRESSES = FILES.map((file) => new URL(file, location.href).href);

self.addEventListener("install", (event) => event.waitUntil(caches.open(RELEASE).then((kept) => kept.addAll(FILES))));

self.addEventListener("activate", (event) => {
  const old = caches.keys().then((names) => names.filter((name) => name !== RELEASE));
  event.waitUntil(old.then((names) => Promise.all(names.map((name) => caches.delete(name)))));
});

self.addEventListener("fetch", (event) => {
  const { request } = event;
  // Requests for models are left to the browser: they ask for parts of files, and the engine keeps what comes.
  if (!ADDRESSES.includes(request.url)) return;
  event.respondWith(caches.match(request, { cacheName: RELEASE }).then((response) => response ?? fetch(request)));
});
