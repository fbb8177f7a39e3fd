/** The line about visits without a network, and the service worker that stores the page. */
import { at } from "./dom.js";

const WORDS = {
  "": "Works offline after the first visit.",
  stored: "\u2713 Works offline now: try flight mode.",
  offline: "\u2713 You are offline, and it still runs.",
};

/** True if the service worker has stored all files. */
let isStored = false;

function show() {
  const state = navigator.onLine ? (isStored ? "stored" : "") : "offline";
  at("offline").textContent = WORDS[state];
}

/** Stores the page for visits without a network. */
export const storePage = () => navigator.serviceWorker?.register(new URL("offline.js", import.meta.url)).catch(() => {});

/** Shows if the page works without a network, now and after each change. */
export function showOffline() {
  show();
  for (const change of ["online", "offline"]) addEventListener(change, show);
  navigator.serviceWorker?.ready.then(() => {
    isStored = true;
    show();
  });
}
