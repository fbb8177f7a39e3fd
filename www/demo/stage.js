/** The stage: two lanes, measured one after the other and replayed together, and the result. */
import { at, say } from "./dom.js";
import { findRejected } from "./guesses.js";
import { Lane } from "./lane.js";
import { about, deviceName, lacksGpu } from "./model.js";
import { digest, figure, headline } from "./outcome.js";
import { record, repeat, warmUp } from "./record.js";
import { SKIP, pace, paceInWords, replay } from "./replay.js";
import { showHelp } from "./support.js";

const lanes = { plain: new Lane("plain"), speculative: new Lane("speculative") };
const calm = matchMedia("(prefers-reduced-motion: reduce)");
/** Engines after their warm-up. @type {WeakSet<import("../engine.js").Engine>} */
const warm = new WeakSet();
/** Milliseconds for which the replay waits for the texts of rejected guesses. */
const SEARCH = 2500;
/** Recordings on the stage. */
let parts = [];
/** @type {import("./outcome.js").Outcome} */
let outcome;
/** Controls the running replay. */
let show = new AbortController();
/** Controls the search for rejected guesses. */
let search = new AbortController();

/** The initial text of the lanes. */
const opening = ({ kind, prompt }) => (kind === "text" ? prompt : "");

/** Shows the buttons of a state. @param {"" | "playing" | "done"} state */
function setState(state) {
  at("outcome").dataset.state = state;
  at("skip").hidden = state !== "playing";
  at("again").hidden = state !== "done" || calm.matches;
  at("share").hidden = state !== "done";
}

/** Clears the stage. @param {{ kind: string, prompt: string }} begun */
export function clearStage(begun) {
  show.abort();
  search.abort();
  for (const lane of Object.values(lanes)) {
    lane.clear(opening(begun));
    lane.state = "";
  }
  for (const id of ["start", "why-cpu"]) at(id).hidden = true;
  setState("");
  for (const id of ["ratio", "claim", "measured-on"]) at(id).textContent = "";
}

/** Measures both lanes. `onRound` is called for each round, `onLane` with a lane's statistics, `onAgain` before a lane is repeated. */
export async function measure({ engine, prompt, options }, signal, { onRound, onLane, onAgain }) {
  if (!warm.has(engine)) {
    say("Getting ready: the first text is not measured, because the device still compiles.");
    await warmUp(engine, prompt, { ...options, signal });
    warm.add(engine);
  }
  /** @type {Record<string, import("./record.js").Recording>} */
  const recordings = {};
  const by = (id) => ({ ...options, ...(id === "plain" && { speculation: "off" }), signal });
  for (const [id, lane] of Object.entries(lanes)) {
    say(id === "speculative" ? "Measuring the second: guessing ahead." : "Measuring the first: one token at a time.");
    lane.state = "measuring";
    let written = 0;
    try {
      recordings[id] = await record(engine, prompt, by(id), (round) => {
        lane.write(round.tokens);
        lane.count((written += round.tokens.length), round.seconds, options.max_new_tokens ?? 256);
        onRound(lane, round, written);
      });
      // Both lanes sample with the seed of the first one.
      options.seed ??= recordings[id].generation.stats.seed ?? undefined;
      onLane(id, recordings[id].generation.stats);
    } catch (error) {
      if (error.detail?.stats) onLane(id, error.detail.stats);
      throw error;
    } finally {
      lane.state = "";
    }
  }
  const counted = await repeat(recordings, (id) => record(engine, prompt, by(id), () => {}));
  onAgain();
  for (const [id, { rounds, generation }] of Object.entries(counted)) {
    let written = 0;
    for (const round of rounds) onRound(lanes[id], round, (written += round.tokens.length));
    onLane(id, generation.stats);
  }
  return counted;
}

/** Shows what was measured: the replay, which is not waited for, then the number. @returns {Promise<import("./outcome.js").Outcome>} */
export async function present(race, { plain, speculative }, signal) {
  const { spec, text, kind, options, typed } = race;
  const rejected = speculative.rounds.map(() => null);
  parts = [
    { lane: lanes.plain, recording: plain, rejected: [] },
    { lane: lanes.speculative, recording: speculative, rejected },
  ];
  outcome = {
    spec,
    prompt: text,
    kind,
    options,
    typed,
    device: deviceName(about.device),
    plain: plain.generation,
    speculative: speculative.generation,
    tokens: speculative.rounds.flatMap(({ tokens }) => tokens),
    digest: digest(speculative.generation.token_ids),
  };
  if (calm.matches) {
    say("Measured one after the other.", true);
    conclude();
  } else {
    search = new AbortController();
    const finding = findRejected(rejected, race, speculative, AbortSignal.any([signal, search.signal])).catch(() => {});
    say("Measured. Finding the words of the wrong guesses.");
    await Promise.race([finding, new Promise((resolve) => setTimeout(resolve, SEARCH))]);
    // The search ends before the replay begins.
    search.abort();
    play();
  }
  return outcome;
}

/** Plays the recordings on the stage. */
async function play() {
  show.abort();
  show = new AbortController();
  const speed = pace(Math.max(...parts.map(({ recording }) => recording.rounds.at(-1)?.seconds ?? 0)));
  say(paceInWords(speed));
  setState("playing");
  if (await replay(parts, opening(outcome), speed, show.signal)) conclude();
}

function conclude() {
  for (const { lane, recording } of parts) {
    lane.state = "done";
    lane.speed(recording.generation.stats.times.tokens_per_second);
  }
  const shown = headline(outcome);
  const { number, words } = shown;
  at("ratio").textContent = figure(shown);
  at("claim").textContent = number ? words.replace(/^times /, "") : words;
  at("measured-on").textContent = `Measured just now on ${outcome.device}${lacksGpu() ? ", because this page gets no GPU here: the same text, slower" : ""}.`;
  at("why-cpu").hidden = !lacksGpu();
  setState("done");
}

at("skip").addEventListener("click", () => show.abort(SKIP));
at("again").addEventListener("click", () => play());
at("why-cpu").addEventListener("click", showHelp);
