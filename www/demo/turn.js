/** Runs one task at a time, ends it on request and shows its errors. */
import { ForetokenError } from "../engine.js";
import { at, say } from "./dom.js";
import { forget } from "./model.js";
import { markRefused } from "./settings.js";
import { showHelp } from "./support.js";

/** Errors after which the engine must be loaded again. */
const FATAL = ["device-lost", "gpu-blocked", "internal", "out-of-gpu-memory"];
/** Buttons that begin a task. They get `aria-disabled`, because `disabled` would remove the focus. */
const STARTERS = "[data-starts]";

/** @type {AbortController | null} */
let control = null;

/** Ends the running task. */
export const stop = () => control?.abort();

/** Shows an error; null removes it. */
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

/** Runs a task unless another one runs. Stop, Cancel and Escape end it. @param {(signal: AbortSignal) => Promise<unknown>} work */
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
  // A hidden element would lose the focus.
  const lost = document.activeElement?.closest("[data-stops]");
  setBusy(false);
  if (lost) /** @type {HTMLElement} */ (activeElement)?.focus();
}

setBusy(false);
/** Returns true for an Escape that closes no input method's list, select or dialog. @param {KeyboardEvent} event */
function escapes({ key, isComposing, keyCode, target }) {
  return key === "Escape" && !isComposing && keyCode !== 229 && !(/** @type {Element} */ (target).closest("select, dialog[open]"));
}
document.addEventListener("keydown", (event) => escapes(event) && stop());
/** Drops clicks on buttons that are marked as disabled. @param {Event} event */
function refuse(event) {
  if (!(/** @type {Element} */ (event.target).closest("[aria-disabled=true]"))) return;
  event.preventDefault();
  event.stopPropagation();
}
document.addEventListener("click", refuse, true);
document.addEventListener("click", ({ target }) => /** @type {Element} */ (target).closest("[data-stops]") && stop());
