/** The race: a task, written plainly and with guesses, by the chosen model. */
import { AcceptanceChart, SpeedChart } from "./charts.js";
import { at, button, copy, make, say } from "./dom.js";
import { about, chosen, need } from "./model.js";
import { meaning, sameAs } from "./outcome.js";
import { PRESETS } from "./presets.js";
import { readSettings, typedSettings, writeSettings } from "./settings.js";
import { clearStage, measure, present } from "./stage.js";

const charts = { speed: new SpeedChart(at("chart-speed")), acceptance: new AcceptanceChart(at("chart-acceptance")) };
/** The last run, for people who report or compare. */
let report = {};
/** Callbacks for the outcome. @type {((outcome: import("./outcome.js").Outcome) => void)[]} */
const listeners = [];
/** The digest of a text that somebody else got, and sent here. */
let expected = "";

/** Drafting options that a task sets: the engine chooses. */
const DRAFTING = { drafter: "", num_assistant_tokens: "", num_assistant_tokens_schedule: "" };

/** @param {(outcome: import("./outcome.js").Outcome) => void} listener */
export const onOutcome = (listener) => listeners.push(listener);

/** The prompt as it was typed, how it is sent, the options that were set, and what was typed for them. */
export const request = () => ({
  text: at("prompt").value,
  kind: at("kind").value,
  options: readSettings("quick", "generation"),
  typed: typedSettings("quick", "generation", "loading"),
});

/** Fills in what somebody sent; `digest` names the text that came out there. */
export function fill({ prompt, kind, options = {}, digest = "" }) {
  at("prompt").value = prompt;
  at("kind").value = kind;
  writeSettings(options);
  showDrafting();
  expected = digest;
  markPreset();
}

function clearCharts() {
  for (const chart of Object.values(charts)) chart.clear();
}

/**
 * Writes what the form says, both ways.
 * @param {AbortSignal} signal
 * @param {Record<string, unknown>} [forced] options in place of those of the form
 * @returns {Promise<import("./outcome.js").Outcome>}
 */
export async function run(signal, forced) {
  const { text, kind, typed, ...said } = request();
  const options = { ...said.options, ...forced };
  clearStage({ kind, prompt: text });
  clearCharts();
  for (const id of ["meaning", "reason", "same"]) at(id).textContent = "";
  say("Loading the model.");
  const engine = await need(signal);
  // On a phone the stage lies above what was pressed.
  if (at("stage").getBoundingClientRect().top < 0) at("stage").scrollIntoView();
  const prompt = kind === "chat" ? [{ role: "user", content: text }] : text;
  const race = { engine, spec: chosen(), text, kind, prompt, options, typed };
  report = { ...about, prompt, options };
  try {
    const recordings = await measure(race, signal, {
      onRound(lane, { seconds, tokens }, total) {
        charts.speed.add(lane.id, lane.name, seconds, total);
        if (lane.id === "speculative") charts.acceptance.add(tokens.filter(({ origin }) => origin !== "target").length);
      },
      onLane: keep,
      onAgain: clearCharts,
    });
    const outcome = await present(race, recordings, signal);
    at("meaning").textContent = meaning(outcome);
    at("same").textContent = expected ? sameAs(outcome, expected) : "";
    for (const listener of listeners) listener(outcome);
    return outcome;
  } finally {
    for (const chart of Object.values(charts)) chart.describe();
  }
}

/**
 * The first run of a visit: where no guess pays in a story, as on a CPU, a passage is retold, and guesses are looked up whether that
 * pays or not, so that there is something to see; the number says what they cost.
 * @param {AbortSignal} signal
 */
export async function arrive(signal) {
  const { speculative, options } = await run(signal);
  const { num_draft_tokens, num_spec_steps } = speculative.stats;
  if (expected || num_draft_tokens > num_spec_steps / 2 || options.speculation || options.num_assistant_tokens_schedule) return;
  fill(PRESETS.retell);
  await run(signal, { drafter: "lookup", num_assistant_tokens_schedule: "constant" });
}

/** Statistics of a lane at its end, complete or not. */
function keep(lane, stats) {
  report[lane] = stats;
  if (lane === "speculative") {
    charts.acceptance.set(stats.per_step_accepted, stats.per_step_drafted);
    at("reason").textContent = stats.speculating ? `At the end: ${stats.speculating.reason}.` : "";
  }
  const warnings = [report, report.speculative, report.plain].flatMap((each) => each?.warnings ?? []);
  at("warnings").replaceChildren(...[...new Set(warnings)].map((textContent) => make("li", { textContent })));
  // Lists of numbers take one line; a text holds no line break of its own in JSON, so none is touched.
  at("report").textContent = JSON.stringify(report, null, 2).replace(/\[\n[\s\d,]+\]/g, (list) => list.replace(/\s+/g, " "));
  at("copy-report").disabled = false;
}

/** Shows which of the tasks the form holds, if it is one. */
function markPreset() {
  at("preset-hint").textContent = "";
  for (const each of document.querySelectorAll("[data-preset]")) {
    const { kind, prompt, hint } = PRESETS[each.dataset.preset];
    const held = prompt === at("prompt").value && kind === at("kind").value;
    each.setAttribute("aria-pressed", String(held));
    if (held) at("preset-hint").textContent = hint;
  }
}

/** Lookahead 0 stands for the adaptive schedule. */
function showDrafting() {
  const { num_assistant_tokens: count, num_assistant_tokens_schedule: schedule, drafter } = readSettings("generation");
  at("lookahead").value = schedule === "constant" ? String(count ?? 5) : "0";
  at("drafter").value = drafter ?? "";
  showLookahead();
}

function showLookahead() {
  const { value } = at("lookahead");
  at("lookahead-value").textContent = value === "0" ? "as many as pay" : `${value} a round`;
  at("lookahead").setAttribute("aria-valuetext", at("lookahead-value").textContent);
}

/** @param {(work: (signal: AbortSignal) => Promise<unknown>) => void} attempt */
export function startRace(attempt) {
  for (const [name, { title, kind, prompt }] of Object.entries(PRESETS)) {
    const begin = () => {
      fill({ prompt, kind, options: DRAFTING });
      attempt(run);
    };
    at("presets").append(button(title, begin, { dataset: { preset: name, starts: "" } }));
  }
  fill(PRESETS.open);
  clearStage(PRESETS.open);
  for (const id of ["prompt", "kind"]) at(id).addEventListener("input", () => ((expected = ""), markPreset()));
  at("drafter").addEventListener("change", () => writeSettings({ drafter: at("drafter").value }));
  at("lookahead").addEventListener("input", () => {
    const count = at("lookahead").value;
    const adaptive = count === "0";
    writeSettings({ num_assistant_tokens: adaptive ? "" : count, num_assistant_tokens_schedule: adaptive ? "" : "constant" });
    showLookahead();
  });
  at("options-generation").addEventListener("input", showDrafting);
  at("form").addEventListener("submit", (event) => {
    event.preventDefault();
    if (at("prompt").reportValidity()) attempt(run);
  });
  at("copy-report").addEventListener("click", () => copy(at("report").textContent, at("report"), at("copied-report")));
}
