/** The race: the chosen model generates one text with and without speculation. */
import { AcceptanceChart, SpeedChart } from "./charts.js";
import { at, button, copy, make, say } from "./dom.js";
import { about, chosen, need } from "./model.js";
import { describeRace, measure } from "./measure.js";
import { meaning, readable, sameAs } from "./outcome.js";
import { PRESETS } from "./presets.js";
import { recorded } from "./recorded.js";
import { readSettings, typedSettings, writeSettings } from "./settings.js";
import { clearStage, playRace, raceShown } from "./stage.js";

const charts = { speed: new SpeedChart(at("chart-speed")), acceptance: new AcceptanceChart(at("chart-acceptance")) };
/** The latest run. */
let report = {};
/** Called with the outcome. @type {((outcome: import("./outcome.js").Outcome) => void)[]} */
const listeners = [];
/** Fingerprint of the text in a shared address, and the device that wrote it. */
let link = { digest: "", from: "" };

/** Drafting options of a task: the engine's choice. */
export const DRAFTING = { drafter: "", num_assistant_tokens: "", num_assistant_tokens_schedule: "" };

export const onOutcome = (listener) => listeners.push(listener);

/** Returns the typed prompt, its kind, the options and their typed values. */
export const request = () => ({
  text: at("prompt").value,
  kind: at("kind").value,
  options: readSettings("quick", "generation"),
  typed: typedSettings("quick", "generation", "loading"),
});

/** Fills in a shared address. */
export function fill({ prompt, kind, options = {}, digest = "", from = "" }) {
  at("prompt").value = prompt;
  at("kind").value = kind;
  writeSettings(options);
  showDrafting();
  link = { digest, from };
  markPreset();
}

function clearCharts() {
  for (const chart of Object.values(charts)) chart.clear();
}

/**
 * Measures the race of the form. `forced`: options in place of those of the form; `quiet`: the stage stays as it is
 * @param {{ forced?: Record<string, unknown>, quiet?: boolean }} [how]
 */
async function measureForm(signal, { forced, quiet = false } = {}) {
  await recorded;
  at("start").hidden = true;
  const { text, kind, typed, ...said } = request();
  const options = { ...said.options, ...forced };
  if (!quiet) clearStage({ kind, prompt: text });
  clearCharts();
  for (const id of ["meaning", "reason"]) at(id).textContent = "";
  at("same").replaceChildren();
  say("Loading the model.");
  const engine = await need(signal);
  // On a phone the stage is above the button.
  if (!quiet && at("stage").getBoundingClientRect().top < 0) at("stage").scrollIntoView();
  const prompt = kind === "chat" ? [{ role: "user", content: text }] : text;
  const asked = { engine, spec: chosen(), text, kind, prompt, options, typed, quiet };
  report = { ...about, prompt, options };
  try {
    const recordings = await measure(asked, signal, {
      onRound(lane, { seconds, tokens }, total) {
        charts.speed.add(lane.id, lane.name, seconds, total);
        if (lane.id === "speculative") charts.acceptance.add(tokens.filter(({ origin }) => origin !== "target").length);
      },
      onLane: keep,
      onAgain: clearCharts,
    });
    return await describeRace(asked, recordings, signal);
  } finally {
    for (const chart of Object.values(charts)) chart.describe();
  }
}

/** Shows a measured race. @param {import("./stage.js").Race} race */
function show(race) {
  playRace(race);
  const { outcome } = race;
  at("meaning").textContent = meaning(outcome);
  at("same").replaceChildren(...(link.digest ? fingerprints(outcome, link) : []));
  for (const listener of listeners) listener(outcome);
}

/** Runs the race. @param {AbortSignal} signal */
export const run = async (signal) => show(await measureForm(signal));

/**
 * Runs the first race of a visit; a recording stays on the stage until then. If the story has few guesses, as on a CPU, a passage is
 * retold with lookups at any cost.
 */
export async function arrive(signal) {
  await recorded;
  const quiet = Boolean(raceShown()?.outcome.recorded);
  let race = await measureForm(signal, { quiet });
  const { speculative, options } = race.outcome;
  const { num_draft_tokens, num_spec_steps } = speculative.stats;
  const hasGuesses = num_draft_tokens > num_spec_steps / 2;
  if (!hasGuesses && !link.digest && !options.speculation && !options.num_assistant_tokens_schedule) {
    fill(PRESETS.retell);
    race = await measureForm(signal, { forced: { drafter: "lookup", num_assistant_tokens_schedule: "constant" }, quiet });
  }
  show(race);
}

/** Returns both fingerprints as elements. @param {import("./outcome.js").Outcome} outcome @param {{ digest: string, from: string }} link */
function fingerprints({ digest, device }, { digest: theirs, from }) {
  const row = (who, value) => make("div", {}, make("dt", { textContent: who }), make("dd", {}, make("code", { textContent: readable(value) })));
  return [
    make("p", { textContent: sameAs(digest, theirs) }),
    make("dl", {}, row(`Fingerprint in the link${from && `, from ${from}`}`, theirs), row(`Fingerprint here, on ${device}`, digest)),
    make("p", { className: "hint", textContent: "A fingerprint is computed from all tokens of a text: one other token changes it." }),
  ];
}

/** Stores the statistics of a lane. */
function keep(lane, stats) {
  report[lane] = stats;
  if (lane === "speculative") {
    charts.acceptance.set(stats.per_step_accepted, stats.per_step_drafted);
    at("reason").textContent = stats.speculating ? `At the end: ${stats.speculating.reason}.` : "";
  }
  const warnings = [report, report.speculative, report.plain].flatMap((each) => each?.warnings ?? []);
  at("warnings").replaceChildren(...[...new Set(warnings)].map((textContent) => make("li", { textContent })));
  // Lists of numbers on one line. Texts in JSON have no line breaks.
  at("report").textContent = JSON.stringify(report, null, 2).replace(/\[\n[\s\d,]+\]/g, (list) => list.replace(/\s+/g, " "));
  at("copy-report").disabled = false;
}

/** Marks the task that the form has. */
function markPreset() {
  at("preset-hint").textContent = "";
  for (const each of document.querySelectorAll("[data-preset]")) {
    const { kind, prompt, hint } = PRESETS[each.dataset.preset];
    const held = prompt === at("prompt").value && kind === at("kind").value;
    each.setAttribute("aria-pressed", String(held));
    if (held) at("preset-hint").textContent = hint;
  }
}

/** Lookahead 0: the adaptive schedule. */
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

export function startRace(attempt) {
  for (const [name, { title, kind, prompt }] of Object.entries(PRESETS)) {
    const begin = () => {
      fill({ prompt, kind, options: DRAFTING });
      attempt(run);
    };
    at("presets").append(button(title, begin, { dataset: { preset: name, starts: "" } }));
  }
  fill(PRESETS.open);
  if (!raceShown()) clearStage(PRESETS.open);
  for (const id of ["prompt", "kind"]) at(id).addEventListener("input", () => ((link = { digest: "", from: "" }), markPreset()));
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
