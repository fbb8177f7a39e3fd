/** Helpers: elements, numbers in words, the line for screen readers. */

export const at = (id) => document.getElementById(id);

/** Creates an element. Strings become text, never markup. */
export function make(tag, properties = {}, ...children) {
  const { dataset = {}, ...rest } = /** @type {any} */ (properties);
  const element = Object.assign(document.createElement(tag), rest);
  Object.assign(element.dataset, dataset);
  element.append(...children);
  return element;
}

/** Creates a button. With `data-starts`, it is disabled while something runs. */
export function button(text, act, more = {}) {
  const element = make("button", { type: "button", textContent: text, ...more });
  if ("starts" in element.dataset) element.setAttribute("aria-disabled", String(document.body.dataset.state === "busy"));
  element.addEventListener("click", act);
  return element;
}

export function size(bytes) {
  if (bytes >= 1e9) return `${(bytes / 1e9).toFixed(2)} GB`;
  return `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;
}

export function duration(seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

/** Writes a ratio with its reliable digits: 2.3, 11. */
export const times = (ratio) => ratio.toFixed(ratio < 9.95 ? 1 : 0);

/** Announces a beginning or an end to screen readers. */
export function say(words, done = false) {
  const place = document.querySelector("[role=tabpanel]:not([hidden]) .status");
  if (!place) return;
  place.textContent = words;
  place.classList.toggle("done", done);
}

/** Copies text to the clipboard or, if that is not allowed, selects `element`. */
export async function copy(text, element, told) {
  try {
    await navigator.clipboard.writeText(text);
    told.textContent = "Copied.";
  } catch {
    getSelection().selectAllChildren(element);
    told.textContent = "Selected: copy it with your keyboard or menu.";
  }
}
