/** Measures a race: one text with and without guesses, and then the words of rejected guesses. */
import { say } from "./dom.js";
import { findRejected } from "./guesses.js";
import { about, deviceName, lacksGpu } from "./model.js";
import { digest } from "./outcome.js";
import { record, repeat, warmUp } from "./record.js";
import { calm, lanes, raceOf, replayed } from "./stage.js";

/** Engines after their warm-up. @type {WeakSet<import("../engine.js").Engine>} */
const warm = new WeakSet();
/** Maximum milliseconds of the search for the texts of rejected guesses. */
const SEARCH = 2500;

/**
 * Measures both lanes. `quiet`: the stage stays as it is, and its replay ends first, so that drawing does not slow the measurement.
 * `onRound` is called for each round, `onLane` with a lane's statistics, `onAgain` before a lane is repeated.
 */
export async function measure({ engine, prompt, options, quiet }, signal, { onRound, onLane, onAgain }) {
  if (!warm.has(engine)) {
    say("Getting ready: the first text is not measured, because the device still compiles.");
    await warmUp(engine, prompt, { ...options, signal });
    warm.add(engine);
  }
  if (quiet) await replayed(signal);
  /** @type {Record<string, import("./record.js").Recording>} */
  const recordings = {};
  const by = (id) => ({ ...options, ...(id === "plain" && { speculation: "off" }), signal });
  for (const [id, lane] of Object.entries(lanes)) {
    say(id === "speculative" ? "Measuring the second: guessing ahead." : "Measuring the first: one token at a time.");
    if (!quiet) lane.state = "measuring";
    let written = 0;
    try {
      recordings[id] = await record(engine, prompt, by(id), (round) => {
        written += round.tokens.length;
        if (!quiet) {
          lane.write(round.tokens);
          lane.count(written, round.seconds, options.max_new_tokens ?? 256);
        }
        onRound(lane, round, written);
      });
      // Both lanes sample with the seed of the first one.
      options.seed ??= recordings[id].generation.stats.seed ?? undefined;
      onLane(id, recordings[id].generation.stats);
    } catch (error) {
      if (error.detail?.stats) onLane(id, error.detail.stats);
      throw error;
    } finally {
      if (!quiet) lane.state = "";
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

/** Finds the texts of rejected guesses, as many as are found in this time. The search ends before the replay begins. */
async function findWithin(milliseconds, rejected, asked, recording, signal) {
  say("Measured. Finding the words of the wrong guesses.");
  const search = new AbortController();
  const finding = findRejected(rejected, asked, recording, AbortSignal.any([signal, search.signal])).catch(() => {});
  await Promise.race([finding, new Promise((resolve) => setTimeout(resolve, milliseconds))]);
  search.abort();
}

/** Returns the measured race for the stage. */
export async function describeRace(asked, { plain, speculative }, signal) {
  const { spec, text, kind, options, typed } = asked;
  const rejected = speculative.rounds.map(() => null);
  // Only a replay shows them.
  if (!calm.matches) await findWithin(SEARCH, rejected, asked, speculative, signal);
  const device = { device: deviceName(about.device), lacksGpu: lacksGpu() };
  const facts = { spec, prompt: text, kind, options, typed, ...device, digest: digest(speculative.generation.token_ids) };
  return raceOf(facts, { plain, speculative, rejected });
}
