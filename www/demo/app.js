/** The demo page: one prompt, written with guesses and plainly. */
import { ForetokenError } from "../engine.js";
import { AcceptanceChart, SpeedChart } from "./charts.js";
import { Lane } from "./lane.js";
import { about, forget, need, showChoice, showWarnings } from "./model.js";
import { PRESETS } from "./presets.js";
import { buildSettings, markRefused, readSettings, resetSettings, writeSettings } from "./settings.js";
import { openSimulator } from "./simulator.js";
import { showHelp } from "./support.js";
import { startTabs } from "./tabs.js";

// The page's policy lets no string become code; the one address that it lets pass is that of the engine's worker. A parser's
// document runs nothing, and the simulator's pictures come from there.
globalThis.trustedTypes?.createPolicy("default", {
  createScriptURL: (url) => (url === new URL("../worker.js", import.meta.url).href ? url : null),
  createHTML: (text, type, sink) => (sink === "DOMParser parseFromString" ? text : null),
});

const at = (id) => /** @type {any} */ (document.getElementById(id));
const speed = new SpeedChart(at("chart-speed"));
const acceptance = new AcceptanceChart(at("chart-acceptance"));
const lanes = [new Lane("speculative"), new Lane("plain")];

/** After these the engine is of no more use. */
const FATAL = ["device-lost", "gpu-blocked", "internal", "out-of-gpu-memory"];

/** What runs now; a page does one thing at a time. */
let control = null;
/** What the last run did, for people who report or compare. */
let report = null;

/** The one place that screen readers hear: beginnings and ends, never single tokens. */
const say = (words, done = false) => {
  at("verdict").textContent = words;
  at("verdict").classList.toggle("done", done);
};

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
  // Not disabled: that would take the focus from under a keyboard.
  for (const id of ["write", "load"]) at(id).setAttribute("aria-disabled", String(busy));
  if (!busy && [at("stop"), at("cancel")].includes(document.activeElement)) at("write").focus();
  at("stop").disabled = !busy;
}

/** Does one thing, which Stop, Cancel and Escape end. */
async function attempt(work) {
  if (control) return;
  control = new AbortController();
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
  setBusy(false);
}

async function load(signal) {
  say("Loading the model.");
  await need(signal);
  say("The model is ready.", true);
}

function verdict({ speculative: fast, plain }) {
  const { token_ids, stats } = fast ?? plain;
  const silent = fast && !fast.stats.num_draft_tokens;
  const hint = silent ? ` No guesses were made: ${stats.speculating?.reason ?? "speculation is off, or there is no one to guess"}.` : "";
  if (!fast || !plain) {
    const rate = stats.times.tokens_per_second;
    return `${token_ids.length} tokens${rate ? `, ${rate.toFixed(1)} a second` : ""}.${hint}`;
  }
  if (report.options.acceptance === "rejection" && report.options.do_sample) return "Drawn at random by rejection sampling: the two texts are each as likely as the model says.";
  if (fast.token_ids.join() !== plain.token_ids.join()) return "The two texts differ: please report this, with your GPU's name.";
  const ratio = fast.stats.times.tokens_per_second / plain.stats.times.tokens_per_second;
  const same = `The same ${token_ids.length} tokens`;
  if (!Number.isFinite(ratio) || silent) return `${same}.${hint}`;
  if (ratio >= 1) return `${same}, ${ratio.toFixed(2)} times as fast with guesses.`;
  return `${same}, at ${ratio.toFixed(2)} of the speed with guesses: on this GPU they cost more than they save here.`;
}

async function race(signal) {
  for (const lane of lanes) lane.clear();
  speed.clear();
  acceptance.clear();
  say("Loading the model.");
  const engine = await need(signal);
  // On a phone the lanes lie below the fold.
  if (at("speculative").getBoundingClientRect().top > innerHeight * 0.8) at("result").scrollIntoView();
  const content = at("prompt").value;
  const prompt = at("kind").value === "chat" ? [{ role: "user", content }] : content;
  const options = readSettings("quick", "generation");
  // Both ways draw with the same noise.
  if (options.do_sample) options.seed ??= crypto.getRandomValues(new Uint32Array(1))[0];
  const done = {};
  report = { ...about, prompt, options };
  try {
    for (const lane of lanes.filter(({ id }) => ["both", id].includes(at("lanes").value))) {
      const guessing = lane.id === "speculative";
      say(`Writing: ${lane.name.toLowerCase()}.`);
      speed.begin(lane.id, lane.name);
      const laneOptions = { ...options, ...(!guessing && { speculation: "off" }), signal };
      const generation = await lane.run(engine, prompt, laneOptions, ({ seconds, total, accepted }) => {
        speed.add(lane.id, seconds, total);
        if (guessing) acceptance.add(accepted);
      }).catch((error) => {
        keep(lane.id, error.detail?.stats);
        throw error;
      });
      done[lane.id] = generation;
      keep(lane.id, generation.stats);
    }
    say(verdict(done), true);
  } finally {
    speed.describe();
    acceptance.describe();
  }
}

/** What is known of a lane at its end, complete or not. */
function keep(lane, stats) {
  if (!stats) return;
  report[lane] = stats;
  if (lane === "speculative") {
    acceptance.set(stats.per_step_accepted, stats.per_step_drafted);
    at("reason").textContent = stats.speculating?.reason ?? "";
  }
  showWarnings([report, report.speculative, report.plain].flatMap((each) => each?.warnings ?? []));
  // Lists of numbers take one line; a text holds no line break of its own in JSON, so none is touched.
  at("report").textContent = JSON.stringify(report, null, 2).replace(/\[\n[\s\d,]+\]/g, (list) => list.replace(/\s+/g, " "));
  at("copy").disabled = false;
  at("copied").textContent = "";
}

async function copy() {
  try {
    await navigator.clipboard.writeText(at("report").textContent);
    at("copied").textContent = "Copied.";
  } catch {
    getSelection().selectAllChildren(at("report"));
    at("copied").textContent = "Selected: copy it with your keyboard or menu.";
  }
}

function choose(name) {
  const { kind, prompt } = PRESETS[name];
  Object.assign(at("kind"), { value: kind });
  Object.assign(at("prompt"), { value: prompt });
  for (const button of document.querySelectorAll("[data-preset]")) {
    button.setAttribute("aria-pressed", String(button.dataset.preset === name));
  }
}

buildSettings();
choose("open");
showChoice();
setBusy(false);
startTabs({ "tab-simulate": openSimulator });

for (const button of document.querySelectorAll("[data-preset]")) {
  button.addEventListener("click", () => choose(button.dataset.preset));
}
at("drafter").addEventListener("change", () => writeSettings({ drafter: at("drafter").value }));
at("options-generation").addEventListener("input", () => {
  at("drafter").value = readSettings("generation").drafter ?? "";
});
for (const id of ["model", "options-loading"]) at(id).addEventListener("input", showChoice);
at("reset").addEventListener("click", () => {
  resetSettings();
  at("drafter").value = "";
  showChoice();
});
at("model").addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(load);
});
at("form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (at("prompt").reportValidity()) attempt(race);
});
for (const id of ["stop", "cancel"]) at(id).addEventListener("click", () => control?.abort());
document.addEventListener("keydown", ({ key }) => key === "Escape" && control?.abort());
at("copy").addEventListener("click", copy);

if (!navigator.gpu) {
  showHelp();
  at("write").disabled = at("load").disabled = true;
}
