/** Small helpers of every module: elements, numbers for people, and the one line for screen readers. */

/** @param {string} id @returns {any} */
export const at = (id) => document.getElementById(id);

/**
 * An element with properties and children; strings become text, never markup.
 * @param {string} tag
 * @param {Record<string, unknown>} [properties]
 * @param {...(Node | string)} children
 * @returns {any}
 */
export function make(tag, properties = {}, ...children) {
  const { dataset = {}, ...rest } = /** @type {any} */ (properties);
  const element = Object.assign(document.createElement(tag), rest);
  Object.assign(element.dataset, dataset);
  element.append(...children);
  return element;
}

/**
 * A button that does something. One with `data-starts` is disabled while something else runs.
 * @param {string} text @param {() => void} act @param {Record<string, unknown>} [more]
 */
export function button(text, act, more = {}) {
  const element = make("button", { type: "button", textContent: text, ...more });
  if ("starts" in element.dataset) element.setAttribute("aria-disabled", String(document.body.dataset.state === "busy"));
  element.addEventListener("click", act);
  return element;
}

/** @param {number} bytes */
export function size(bytes) {
  if (bytes >= 1e9) return `${(bytes / 1e9).toFixed(2)} GB`;
  return `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;
}

/** @param {number} seconds */
export function duration(seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

/** A ratio with as many digits as can be trusted: 2.3, 11. @param {number} ratio */
export const times = (ratio) => ratio.toFixed(ratio < 9.95 ? 1 : 0);

/** Announces a beginning or an end to screen readers, never single tokens. */
export function say(words, done = false) {
  const place = document.querySelector("[role=tabpanel]:not([hidden]) .status");
  if (!place) return;
  place.textContent = words;
  place.classList.toggle("done", done);
}

/** Puts text on the clipboard; where that is not allowed, selects `element` for the visitor. */
export async function copy(text, element, told) {
  try {
    await navigator.clipboard.writeText(text);
    told.textContent = "Copied.";
  } catch {
    getSelection().selectAllChildren(element);
    told.textContent = "Selected: copy it with your keyboard or menu.";
  }
}
