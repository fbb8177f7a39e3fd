/** Decides if and when the page begins without a click. */
import { at } from "./dom.js";

/** Returns the reason to ask the visitor first; empty if there is none. */
function reluctance() {
  const { saveData, type, effectiveType } = /** @type {any} */ (navigator).connection ?? {};
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return "You prefer less motion, so nothing moves before you press Start.";
  if (saveData || type === "cellular" || /2g/.test(effectiveType ?? ""))
    return "You seem to pay for data or to be short of it, so nothing is loaded before you press Start: 8 MB.";
  return "";
}

/** Fulfils when the page is visible. */
export function seen() {
  return /** @type {Promise<void>} */ (
    new Promise((resolve) => {
      const look = () => {
        if (document.visibilityState !== "visible") return;
        document.removeEventListener("visibilitychange", look);
        resolve();
      };
      document.addEventListener("visibilitychange", look);
      look();
    })
  );
}

/** Begins on arrival, unless there is a reason to wait. @param {{ waits: string }} address with the reason to wait, if any */
export async function welcome({ waits }, begin) {
  at("start").addEventListener("click", begin);
  const reason = waits || reluctance();
  if (!reason) await seen();
  if (reason || at("race").hidden) {
    // The button is visible in every tab.
    at("race").querySelector(".status").textContent = reason;
    at("start").hidden = false;
  } else if (document.body.dataset.state === "idle") begin();
}
