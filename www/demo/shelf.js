/** Choice of a model: from the shelf, by name, or picked files. Lists stored models. */
import { Engine } from "../engine.js";
import { at, button, make, say, size } from "./dom.js";
import { choose, chosen, forget, inspect, need, onModel, ready } from "./model.js";
import { SHELF, TALES, bytesOf, spec } from "./pairs.js";

/** @type {(work: (signal: AbortSignal) => Promise<void>) => Promise<void>} */
let attempt;

const drafting = () => at("with-draft").checked;

/** Describes the headers. @param {import("../engine.js").Inspection} found */
function fit({ download_bytes, total, capacity, unfit, device }) {
  const needs = `${size(download_bytes)} to download, ${size(total)} of memory for ${capacity.max_context} tokens`;
  if (unfit) return `Does not fit: ${unfit}`;
  return device ? `${needs}: within this device's limits.` : `${needs}.`;
}

/** Reads the headers and shows if the model fits. */
const check = (one, place) => async (signal) => {
  say(`Reading the headers of ${one.name}.`);
  place.textContent = "Reading its headers.";
  try {
    place.textContent = fit(await inspect(one, signal));
    say(`${one.name}: ${place.textContent}`, true);
  } catch (error) {
    place.textContent = "";
    throw error;
  }
};

/** Loads a model and opens the conversation. */
const load = (one) => async (signal) => {
  choose(one);
  say(`Loading ${one.name}.`);
  const engine = await need(signal);
  at("shelf").open = false;
  at("message").focus();
  say([`${one.name} is ready.`, ...engine.warnings].join(" "), true);
};

function row(known) {
  const { id, name, licence, good } = known;
  const place = make("p", { className: "hint state" });
  const facts = make("p", { className: "hint facts" });
  const loading = button("Load", () => attempt(load(spec(id, drafting()))), { dataset: { starts: "" }, ariaLabel: `Load ${name}` });
  const checking = button("Does it fit?", () => attempt(check(spec(id, false), place)), {
    className: "quiet",
    dataset: { starts: "" },
    ariaLabel: `Does it fit? ${name}`,
  });
  const item = make(
    "li",
    { dataset: { model: id } },
    make("h3", { textContent: name }),
    make("p", { className: "good", textContent: good }),
    facts,
    place,
    make("p", { className: "tools" }, loading, checking),
  );
  const showFacts = () => {
    const draft = drafting() && known.draft ? `, with ${SHELF.find((each) => each.id === known.draft).name} to guess` : "";
    facts.textContent = `about ${size(bytesOf(known, drafting()))}${draft} \u00b7 ${licence}`;
  };
  at("with-draft").addEventListener("change", showFacts);
  showFacts();
  return item;
}

/** Shows one model first, the others on request. @param {string} id of pairs.js @param {string} why */
export function showRecommended(id, why) {
  at("models").append(...at("recommended").children);
  const item = /** @type {HTMLElement} */ (document.querySelector(`[data-model="${id}"]`));
  at("recommended").append(item);
  at("recommended-why").textContent = why;
}

/** Returns the input for other models: a name, a URL or files. */
function other() {
  const files = [...at("files").files, ...at("folder").files].filter(({ webkitRelativePath }) => webkitRelativePath.split("/").length <= 2);
  const model = at("other-model").value.trim();
  if (files.length) return { id: "files", name: files[0].webkitRelativePath.split("/")[0] || files[0].name, model: files };
  if (!model) throw Object.assign(new Error("Name a model, or pick its file or folder."), { field: at("other-model") });
  const [name, file] = pattern(model);
  const [assistant, assistantFile] = pattern(at("other-assistant").value.trim());
  return { id: "other", name, model: name, file, ...(assistant && { assistant_model: assistant, assistant_file: assistantFile }) };
}

/** `owner/name:*Q4_K_M.gguf` names a file of several. @param {string} text @returns {[string, string | undefined]} */
function pattern(text) {
  const [, name, file] = /^([\w.-]+\/[\w.-]+):(.+)$/.exec(text) ?? [null, text, undefined];
  return [name, file];
}

/** Shows stored models with buttons to delete them. */
async function showKept() {
  const kept = (await Engine.cache.list().catch(() => [])).filter(({ bytes }) => bytes);
  const all = kept.reduce((sum, { bytes }) => sum + bytes, 0);
  at("kept-title").textContent = kept.length ? `Kept on this device: ${size(all)}` : "Kept on this device: nothing yet";
  at("kept-list").replaceChildren(
    ...kept.map(({ model, url, bytes, complete }) => {
      const name = model.startsWith(location.origin) ? new URL(model).pathname : model;
      const place = make("span", { className: "hint" });
      const remove = button(
        "Delete",
        async () => {
          // A loaded model is in use.
          if (String(chosen().model) === model || String(chosen().assistant_model) === model) forget();
          if (await Engine.cache.delete(url)) return showKept();
          place.textContent = "It is being loaded just now.";
        },
        { className: "quiet", dataset: { starts: "" }, ariaLabel: `Delete ${name}` },
      );
      return make(
        "li",
        { className: "row" },
        make("span", { textContent: `${name}, ${size(bytes)}${complete ? "" : ", not all of it: a load goes on from here"}` }),
        place,
        remove,
      );
    }),
  );
  for (const item of document.querySelectorAll("[data-model]")) {
    const one = SHELF.find(({ id }) => id === /** @type {HTMLElement} */ (item).dataset.model);
    /** @type {HTMLElement} */ (item).dataset.kept = String(kept.some(({ model, complete }) => model === one.model && complete));
  }
}

function showModel() {
  const { id, name } = chosen();
  at("shelf-title").textContent = id === TALES.id ? "Choose a model" : `Model: ${name}`;
  at("race-model").textContent = name;
  at("back-to-tales").hidden = id === TALES.id;
  at("model-state").textContent = ready() ? "loaded" : "not loaded yet";
  at("model-state").hidden = id === TALES.id;
}

export function startShelf(begin) {
  attempt = begin;
  at("models").append(...SHELF.map(row));
  at("other").addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(async (signal) => load(other())(signal));
  });
  at("other-check").addEventListener("click", () => attempt(async (signal) => check(other(), at("other-fit"))(signal)));
  for (const [one, rest] of [
    ["files", "folder"],
    ["folder", "files"],
  ])
    at(one).addEventListener("change", () => (at(rest).value = ""));
  at("back-to-tales").addEventListener("click", () => choose(TALES));
  at("settings").addEventListener("input", showModel);
  at("kept").addEventListener("toggle", showKept);
  onModel(showModel);
  onModel(showKept);
  showModel();
  showKept();
}
