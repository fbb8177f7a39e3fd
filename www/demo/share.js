/** The state of the page in its address, and what can be sent to somebody else: the address, words, a picture. */
import { drawCard } from "./card.js";
import { at, copy, size } from "./dom.js";
import { choose } from "./model.js";
import { headline } from "./outcome.js";
import { TALES, spec } from "./pairs.js";
import { fill, onOutcome, request } from "./race.js";
import { writeSettings } from "./settings.js";

/** Names in the address that are no options. */
const OWN = ["model", "file", "assistant", "assistant_file", "prompt", "kind", "text"];

/** @type {import("./outcome.js").Outcome | null} */
let shown = null;

/** The model in the address: a name of the shelf, or the visitor's own name. */
function modelIn(values) {
  const model = values.get("model");
  if (!model || model === TALES.id) return TALES;
  const known = spec(model.replace(/!$/, ""), !model.endsWith("!"));
  if (known) return known;
  const [file, assistant_model, assistant_file] = ["file", "assistant", "assistant_file"].map((name) => values.get(name) ?? undefined);
  return { id: "other", name: model, model, file, assistant_model, assistant_file };
}

/** @param {import("./model.js").Spec} one @returns {Record<string, any>} */
function modelOut({ id, model, file, assistant_model, assistant_file }) {
  if (id === TALES.id) return {};
  if (id !== "other") return { model: assistant_model || !spec(id).assistant_model ? id : `${id}!` };
  return { model, file, assistant: assistant_model, assistant_file };
}

/** Fills in what the address says. @returns {{ waits: string }} why it should not begin by itself; empty where it may */
export function readAddress() {
  const [tab, query] = location.hash.slice(1).split("?");
  if (tab !== "race" || !query) return { waits: "" };
  const values = new URLSearchParams(query);
  const one = modelIn(values);
  choose(one);
  const options = Object.fromEntries([...values].filter(([name]) => !OWN.includes(name)));
  const kind = values.get("kind") === "chat" ? "chat" : "text";
  fill({ prompt: values.get("prompt") ?? request().text, kind, digest: values.get("text") ?? "" });
  try {
    writeSettings(options);
  } catch {
    return { waits: "The address names an option that this page does not know; the rest of it is filled in." };
  }
  const comes = one.bytes ? `, about ${size(one.bytes)},` : "";
  return { waits: one === TALES ? "" : `You were sent a text of ${one.name}. Press Start to load that model${comes} and write the text here.` };
}

/** The address of an outcome; empty where the model is only on this device. @param {import("./outcome.js").Outcome} outcome */
function addressOf({ spec: one, prompt, kind, options, typed, speculative, digest }) {
  if (one.id === "files") return "";
  // What was drawn, and what this device chose to round, would be other choices elsewhere: then the text would be another one too.
  const { arithmetic } = speculative.stats;
  const values = { ...modelOut(one), prompt, kind, ...typed, seed: options.seed, arithmetic, text: digest };
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== undefined && value !== ""));
  return `${location.origin}${location.pathname}#race?${query}`;
}

/** A card in words. @param {import("./outcome.js").Outcome} outcome */
export function words(outcome) {
  const { number, words } = headline(outcome);
  const address = addressOf(outcome);
  return [
    `${number} ${words}`.trim(),
    `${outcome.spec.name}, ${outcome.device}`,
    `\u201c${outcome.prompt}\u201d`,
    outcome.speculative.text.trim(),
    address && `Same text on your device? ${address}`,
  ]
    .filter(Boolean)
    .join("\n\n");
}

/** Puts the outcome into the page's address while the race's tab is open. */
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
    drawCard(at("card"), shown);
    at("card").setAttribute("aria-label", words(shown));
    at("card-words").textContent = words(shown);
    at("shared").textContent = shown.spec.id === "files" ? "The model is only on this device, so there is no address to send." : "";
    at("copy-address").disabled = !addressOf(shown);
    at("card-dialog").showModal();
  });
  at("copy-address").addEventListener("click", () => copy(addressOf(shown), at("card-words"), at("shared")));
  at("copy-words").addEventListener("click", () => copy(words(shown), at("card-words"), at("shared")));
  at("save-card").addEventListener("click", () =>
    at("card").toBlob((/** @type {Blob} */ blob) => {
      const href = URL.createObjectURL(blob);
      Object.assign(document.createElement("a"), { href, download: "foretoken.png" }).click();
      // Not at once: the browser reads it after the click.
      setTimeout(() => URL.revokeObjectURL(href), 60_000);
    }),
  );
  at("close-card").addEventListener("click", () => at("card-dialog").close());
}
