/** The stage: two lanes, which replay a race together, and its result. */
import { at, say } from "./dom.js";
import { Lane } from "./lane.js";
import { figure, headline } from "./outcome.js";
import { SKIP, pace, paceInWords, replay } from "./replay.js";

export const lanes = { plain: new Lane("plain"), speculative: new Lane("speculative") };
/** Matches if the visitor prefers less motion. */
export const calm = matchMedia("(prefers-reduced-motion: reduce)");

/**
 * @typedef {object} Race
 * @property {import("./outcome.js").Outcome} outcome
 * @property {import("./record.js").Recording} plain
 * @property {import("./record.js").Recording} speculative
 * @property {(string[] | null)[]} rejected texts of rejected guesses by round; null: unknown
 */

/**
 * Returns a race with its outcome.
 * @param {Omit<import("./outcome.js").Outcome, "plain" | "speculative" | "tokens">} facts @param {Omit<Race, "outcome">} recordings
 * @returns {Race}
 */
export function raceOf(facts, recordings) {
  const { plain, speculative } = recordings;
  const tokens = speculative.rounds.flatMap((round) => round.tokens);
  return { outcome: { ...facts, plain: plain.generation, speculative: speculative.generation, tokens }, ...recordings };
}

/** The race on the stage. @type {Race | null} */
let race = null;
/** Controls the running replay. */
let show = new AbortController();
/** Fulfils when no replay runs. @type {Promise<unknown>} */
let playing = Promise.resolve();

/** Returns the race on the stage. */
export const raceShown = () => race;

/** Waits until no replay runs. An abort ends the wait. @param {AbortSignal} signal */
export const replayed = (signal) => Promise.race([playing, new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }))]);

/** Returns the text of the lanes at first. */
const opening = ({ kind, prompt }) => (kind === "text" ? prompt : "");

/** Shows the buttons of a state. @param {"" | "playing" | "done"} state */
function setState(state) {
  at("outcome").dataset.state = state;
  at("skip").hidden = state !== "playing";
  // The device's own race will replace a recording.
  const isOwn = state === "done" && !race.outcome.recorded;
  at("again").hidden = !isOwn || calm.matches;
  at("share").hidden = !isOwn;
}

/** Clears the stage. @param {{ kind: string, prompt: string }} begun */
export function clearStage(begun) {
  show.abort();
  race = null;
  for (const lane of Object.values(lanes)) {
    lane.clear(opening(begun));
    lane.state = "";
  }
  for (const id of ["why-cpu", "source"]) at(id).hidden = true;
  setState("");
  for (const id of ["ratio", "claim", "measured-on"]) at(id).textContent = "";
}

/** Describes when and where a race was measured. @param {import("./outcome.js").Outcome} outcome */
function originOf({ recorded, device, lacksGpu }) {
  if (recorded) return `Recorded on ${device}: the task \u201c${recorded}\u201d below.`;
  return `Measured just now on ${device}${lacksGpu ? ", because this page gets no GPU here: the same text, slower" : ""}.`;
}

/** Shows a race: the replay, or the texts if the visitor prefers less motion; then the number. @param {Race} next */
export function playRace(next) {
  const { outcome, plain, speculative, rejected } = next;
  clearStage(outcome);
  race = next;
  show = new AbortController();
  at("source").hidden = !outcome.recorded;
  at("measured-on").textContent = outcome.recorded ? originOf(outcome) : "";
  if (calm.matches) {
    for (const [id, { rounds }] of Object.entries({ plain, speculative })) {
      const tokens = rounds.flatMap((round) => round.tokens);
      lanes[id].write(tokens);
      lanes[id].count(tokens.length, null, tokens.length);
    }
    if (!outcome.recorded) say("Measured one after the other.", true);
    conclude();
    return;
  }
  const speed = pace(Math.max(...[plain, speculative].map(({ rounds }) => rounds.at(-1)?.seconds ?? 0)));
  if (!outcome.recorded) say(paceInWords(speed));
  setState("playing");
  const parts = [
    { lane: lanes.plain, recording: plain, rejected: [] },
    { lane: lanes.speculative, recording: speculative, rejected },
  ];
  playing = replay(parts, opening(outcome), speed, show.signal).then((ended) => ended && conclude());
}

function conclude() {
  const { outcome, ...recordings } = race;
  for (const [id, lane] of Object.entries(lanes)) {
    lane.state = "done";
    lane.speed(recordings[id].generation.stats.times.tokens_per_second);
  }
  const shown = headline(outcome);
  const { number, words, note = "" } = shown;
  at("ratio").textContent = figure(shown);
  at("claim").textContent = number ? words.replace(/^times /, "") : words;
  at("measured-on").textContent = `${note} ${originOf(outcome)}`.trim();
  at("why-cpu").hidden = !outcome.lacksGpu;
  setState("done");
}

at("skip").addEventListener("click", () => show.abort(SKIP));
at("again").addEventListener("click", () => playRace(race));
