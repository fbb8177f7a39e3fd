/** Decides if the page may begin by itself, and when. */
import { at } from "./dom.js";

/** Why a visitor should be asked first; empty where nothing speaks against it. */
function reluctance() {
  const { saveData, type, effectiveType } = /** @type {any} */ (navigator).connection ?? {};
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return "You prefer less motion, so nothing moves before you press Start.";
  if (saveData || type === "cellular" || /2g/.test(effectiveType ?? ""))
    return "You seem to pay for data or to be short of it, so nothing is loaded before you press Start: 8 MB.";
  return "";
}

/** Fulfils when the page is seen. */
function seen() {
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

/**
 * Begins on arrival, unless there is a reason to wait for the visitor.
 * @param {{ waits: string }} address why what somebody sent should wait; empty: it need not
 * @param {() => void} begin
 */
export async function welcome({ waits }, begin) {
  at("start").addEventListener("click", begin);
  const reason = waits || reluctance();
  if (reason) {
    // Start is there, whichever tab is open.
    at("race").querySelector(".status").textContent = reason;
    at("start").hidden = false;
    return;
  }
  await seen();
  // Visitors of another part of the page, or who already began, are not interrupted.
  if (document.body.dataset.state === "idle" && !at("race").hidden) begin();
}
