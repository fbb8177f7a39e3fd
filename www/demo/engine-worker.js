/** The engine's worker at an address within the scope of the service worker, which serves it without a network. */
import "../worker.js";
