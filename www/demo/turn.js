/** One thing at a time: what runs now, how it is ended, and what is said when it fails. */
import { ForetokenError } from "../engine.js";
import { at, say } from "./dom.js";
import { forget } from "./model.js";
import { markRefused } from "./settings.js";
import { showHelp } from "./support.js";

/** After these the engine is of no more use. */
const FATAL = ["device-lost", "gpu-blocked", "internal", "out-of-gpu-memory"];
/** Buttons that begin something. They are not disabled while another runs: that would take the focus from under a keyboard. */
const STARTERS = "[data-starts]";

/** @type {AbortController | null} */
let control = null;

/** Ends what runs. */
export const stop = () => control?.abort();

/** Shows an error where everybody sees it; null takes the last one away. */
function showProblem(error) {
  at("problem").hidden = !error;
  at("problem").textContent = error ? `${error.message}${error instanceof ForetokenError ? ` (${error.code})` : ""}` : "";
  if (!error) return;
  at("problem").scrollIntoView({ block: "nearest" });
  error.field?.focus();
  if (error.code === "bad-option") markRefused(error.message, error.detail);
  if (error.code === "webgpu-unavailable") showHelp();
}

function setBusy(busy) {
  document.body.dataset.state = busy ? "busy" : "idle";
  for (const each of document.querySelectorAll(STARTERS)) each.setAttribute("aria-disabled", String(busy));
  for (const each of document.querySelectorAll("[data-stops]")) each.hidden = !busy;
}

/**
 * Does one thing, which Stop, Cancel and Escape end. While another runs, nothing happens.
 * @param {(signal: AbortSignal) => Promise<unknown>} work
 */
export async function attempt(work) {
  if (control) return;
  control = new AbortController();
  const { activeElement } = document;
  showProblem(null);
  setBusy(true);
  try {
    await work(control.signal);
  } catch (error) {
    const stopped = error.code === "aborted";
    say(stopped ? "Stopped." : "");
    if (FATAL.includes(error.code)) forget();
    if (!stopped) showProblem(error);
  }
  control = null;
  // Hiding what has the focus would lose it.
  const lost = document.activeElement?.closest("[data-stops]");
  setBusy(false);
  if (lost) /** @type {HTMLElement} */ (activeElement)?.focus();
}

setBusy(false);
/** An Escape that closes a candidate list of an input method, a select or a dialog ends nothing. @param {KeyboardEvent} event */
function escapes({ key, isComposing, keyCode, target }) {
  return key === "Escape" && !isComposing && keyCode !== 229 && !(/** @type {Element} */ (target).closest("select, dialog[open]"));
}
document.addEventListener("keydown", (event) => escapes(event) && stop());
/** A click on a disabled starter does nothing. @param {Event} event */
function refuse(event) {
  if (!(/** @type {Element} */ (event.target).closest("[aria-disabled=true]"))) return;
  event.preventDefault();
  event.stopPropagation();
}
document.addEventListener("click", refuse, true);
document.addEventListener("click", ({ target }) => /** @type {Element} */ (target).closest("[data-stops]") && stop());
