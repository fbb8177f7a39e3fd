/** Shows two recordings at the same time, slower or faster by one factor. */

/** Seconds of the longer replay. */
const [SHORTEST, LONGEST] = [4, 9];
/** Share of a round's time after which its guesses are shown. */
const GUESSED = 0.35;
/** Number of rejected guesses that are shown without text. */
const MOST = 3;
/** Maximum milliseconds of a frame: the replay pauses in the background. */
const FRAME = 250;

/** Returns the speed of the replay relative to the recording. @param {number} seconds */
export function pace(seconds) {
  if (seconds < SHORTEST) return Math.max(seconds, 0.01) / SHORTEST;
  return seconds > LONGEST ? seconds / LONGEST : 1;
}

/** Describes the speed. */
export function paceInWords(speed) {
  if (speed === 1) return "Replayed as it was measured.";
  return `Replayed ${speed < 1 ? "slowly" : "faster"}. The clocks show measured times.`;
}

/** Returns the events of a lane with their times. @param {import("./lane.js").Lane} lane @param {import("./record.js").Recording} recording @param {(string[] | null)[]} rejected */
function script(lane, { rounds, generation }, rejected) {
  const { per_step_drafted: drafted, per_step_accepted: accepted } = generation.stats;
  const total = rounds.reduce((sum, { tokens }) => sum + tokens.length, 0);
  let written = 0;
  let before = 0;
  return rounds.flatMap(({ seconds, tokens }, i) => {
    const right = tokens.slice(0, accepted[i] ?? 0);
    const wrong = Math.max(0, (drafted[i] ?? 0) - (accepted[i] ?? 0));
    const words = rejected[i] ?? Array(Math.min(wrong, MOST)).fill("");
    const so = (written += tokens.length);
    const from = before + GUESSED * (seconds - before);
    before = seconds;
    const steps = [{ seconds, act: () => (lane.settle(tokens.slice(right.length)), lane.count(so, seconds, total)) }];
    if (right.length || wrong) steps.unshift({ seconds: from, act: () => lane.guess(right, words) });
    return steps;
  });
}

/** Reason of a signal that skips to the end. Other reasons stop the replay. */
export const SKIP = "skip";

/**
 * Plays recordings together. Returns false if it was stopped.
 * @param {{ lane: import("./lane.js").Lane, recording: import("./record.js").Recording, rejected: (string[] | null)[] }[]} parts
 * @param {string} prompt shown before the texts
 */
export function replay(parts, prompt, speed, signal) {
  for (const { lane } of parts) {
    lane.clear(prompt);
    lane.state = "replaying";
  }
  const scripts = parts.map(({ lane, recording, rejected }) => ({ lane, steps: script(lane, recording, rejected), next: 0 }));
  // The measured speeds decide, not the frames.
  const speedOf = ({ recording }) => recording.generation.stats.times.tokens_per_second;
  const fastest = parts.reduce((best, each) => (speedOf(each) > speedOf(best) ? each : best)).lane;
  let [seconds, last] = [0, 0];
  return /** @type {Promise<boolean>} */ (
    new Promise((resolve) => {
      const frame = (/** @type {number} */ now) => {
        if (last) seconds += (Math.min(now - last, FRAME) / 1000) * speed;
        last = now;
        if (signal.aborted && signal.reason !== SKIP) return resolve(false);
        const end = signal.aborted ? Infinity : seconds;
        for (const each of scripts) {
          const { lane, steps } = each;
          if (each.next === steps.length) continue;
          while (each.next < steps.length && steps[each.next].seconds <= end) steps[each.next++].act();
          if (each.next < steps.length) continue;
          lane.state = "done";
          if (lane === fastest && parts.length > 1) lane.section.classList.add("first");
        }
        if (scripts.every(({ next, steps }) => next === steps.length)) resolve(true);
        else requestAnimationFrame(frame);
      };
      requestAnimationFrame(frame);
    })
  );
}
