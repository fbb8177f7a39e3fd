/** The page's state in its address, and sharing of a result: as an address, a text or a picture. */
import { drawCard } from "./card.js";
import { at, copy, size } from "./dom.js";
import { choose } from "./model.js";
import { headline, readable } from "./outcome.js";
import { TALES, spec } from "./pairs.js";
import { fill, onOutcome, request } from "./race.js";
import { writeSettings } from "./settings.js";

/** Names in the address that are not options. */
const OWN = ["model", "file", "assistant", "assistant_file", "prompt", "kind", "text", "from"];

/** @type {import("./outcome.js").Outcome | null} */
let shown = null;

/** Returns the model in the address: an id of the shelf or a typed name. */
function modelIn(values) {
  const model = values.get("model");
  if (!model || model === TALES.id) return TALES;
  const known = spec(model.replace(/!$/, ""), !model.endsWith("!"));
  if (known) return known;
  const [file, assistant_model, assistant_file] = ["file", "assistant", "assistant_file"].map((name) => values.get(name) ?? undefined);
  return { id: "other", name: model, model, file, assistant_model, assistant_file };
}

function modelOut({ id, model, file, assistant_model, assistant_file }) {
  if (id === TALES.id) return {};
  if (id !== "other") return { model: assistant_model || !spec(id).assistant_model ? id : `${id}!` };
  return { model, file, assistant: assistant_model, assistant_file };
}

/** Fills in the values of the address. @returns {{ waits: string }} reason not to begin at once; empty if there is none */
export function readAddress() {
  const [tab, query] = location.hash.slice(1).split("?");
  if (tab !== "race" || !query) return { waits: "" };
  const values = new URLSearchParams(query);
  const one = modelIn(values);
  choose(one);
  const options = Object.fromEntries([...values].filter(([name]) => !OWN.includes(name)));
  const kind = values.get("kind") === "chat" ? "chat" : "text";
  fill({ prompt: values.get("prompt") ?? request().text, kind, digest: values.get("text") ?? "", from: values.get("from") ?? "" });
  try {
    writeSettings(options);
  } catch {
    return { waits: "The address names an option that this page does not know; the rest of it is filled in." };
  }
  const comes = one.bytes ? `, about ${size(one.bytes)},` : "";
  return { waits: one === TALES ? "" : `You were sent a text of ${one.name}. Press Start to load that model${comes} and write the text here.` };
}

/** Returns the address of an outcome; empty for picked files. @param {import("./outcome.js").Outcome} outcome */
function addressOf({ spec: one, prompt, kind, options, typed, speculative, digest, device }) {
  if (one.id === "files") return "";
  // The seed and the arithmetic, which `auto` may choose differently on another device.
  const { arithmetic } = speculative.stats;
  const values = { ...modelOut(one), prompt, kind, ...typed, seed: options.seed, arithmetic, text: digest, from: device };
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== undefined && value !== ""));
  return `${location.origin}${location.pathname}#race?${query}`;
}

/** Describes an outcome as a text. @param {import("./outcome.js").Outcome} outcome */
export function words(outcome) {
  const { number, words, note } = headline(outcome);
  const address = addressOf(outcome);
  return [
    `${number} ${words}`.trim(),
    note,
    `${outcome.spec.name}, ${outcome.device}`,
    `\u201c${outcome.prompt}\u201d`,
    outcome.speculative.text.trim(),
    `Fingerprint of the text: ${readable(outcome.digest)}`,
    address && `Does your device write the same text? ${address}`,
  ]
    .filter(Boolean)
    .join("\n\n");
}

/** Returns the card as a file. @returns {Promise<File>} */
const picture = () =>
  new Promise((resolve) => at("card").toBlob((/** @type {Blob} */ blob) => resolve(new File([blob], "foretoken.png", { type: "image/png" }))));

/** Opens the device's own dialog, with the picture if it takes one. */
async function send() {
  const files = [await picture()];
  const message = { title: document.title, text: words(shown) };
  try {
    await navigator.share(navigator.canShare?.({ files }) ? { ...message, files } : message);
  } catch (error) {
    if (error.name !== "AbortError") at("shared").textContent = `It could not be sent: ${error.message}`;
  }
}

/** Puts the outcome into the page's address if the race's tab is open. */
export function showAddress() {
  if (!shown || at("race").hidden) return;
  const address = addressOf(shown);
  history.replaceState(null, "", address ? new URL(address).hash : "#race");
}

export function startSharing() {
  onOutcome((outcome) => {
    shown = outcome;
    showAddress();
  });
  at("share").addEventListener("click", () => {
    if (!shown) return;
    drawCard(at("card"), shown, `${location.host}${location.pathname}`);
    at("card").setAttribute("aria-label", words(shown));
    at("card-words").textContent = words(shown);
    at("shared").textContent = shown.spec.id === "files" ? "The model is only on this device, so there is no address to send." : "";
    at("copy-address").disabled = !addressOf(shown);
    at("card-dialog").showModal();
  });
  at("copy-address").addEventListener("click", () => copy(addressOf(shown), at("card-words"), at("shared")));
  at("copy-words").addEventListener("click", () => copy(words(shown), at("card-words"), at("shared")));
  // Only some browsers can send to other applications.
  at("send-card").hidden = !navigator.share;
  at("copy-address").classList.toggle("primary", !navigator.share);
  at("send-card").addEventListener("click", send);
  at("save-card").addEventListener("click", async () => {
    const href = URL.createObjectURL(await picture());
    Object.assign(document.createElement("a"), { href, download: "foretoken.png" }).click();
    // The browser reads it after the click.
    setTimeout(() => URL.revokeObjectURL(href), 60_000);
  });
  at("close-card").addEventListener("click", () => at("card-dialog").close());
}
