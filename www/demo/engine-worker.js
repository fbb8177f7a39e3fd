/** The engine's worker, at an address that the page's service worker covers: so that it is there without a network too. */
import "../worker.js";
