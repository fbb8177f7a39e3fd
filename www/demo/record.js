/** Recordings of texts: tokens with their times. */

/**
 * @typedef {object} Round
 * @property {number} seconds since the first round, which waits for the prompt
 * @property {import("../engine.js").Token[]} tokens
 */

/** @typedef {{ rounds: Round[], generation: import("../engine.js").Generation }} Recording */

/** Generates a text and records it. @returns {Promise<Recording>} */
export async function record(engine, prompt, options, onRound) {
  const stream = engine.generate(prompt, options);
  /** @type {Round[]} */
  const rounds = [];
  let began = 0;
  for await (const { tokens } of stream) {
    const now = performance.now();
    began ||= now;
    const round = { seconds: (now - began) / 1000, tokens };
    rounds.push(round);
    onRound(round);
  }
  return { rounds, generation: await stream.result };
}

/** Maximum and minimum milliseconds of a warm-up. */
const [PATIENCE, LEAST] = [2000, 600];

/** Compiles what a text needs before it is measured. Short texts are repeated, because browsers optimise code that runs often. */
export async function warmUp(engine, prompt, options) {
  const began = performance.now();
  for (const [speculation, share] of [
    ["off", 0.5],
    ["auto", 1],
  ]) {
    do {
      for await (const _ of engine.generate(prompt, { ...options, speculation })) {
        if (performance.now() - began > PATIENCE * share) break;
      }
    } while (performance.now() - began < LEAST * share);
  }
}

/** Number of turns, of which the middle one counts, if they take at most this many seconds. */
const [TURNS, ENOUGH] = [5, 1];

/**
 * Repeats short texts in turns, to reduce the noise of other work of the machine.
 * @template {string} Way
 * @param {Record<Way, Recording>} recordings of the first turn
 * @param {(way: Way) => Promise<Recording>} again
 * @returns {Promise<Record<Way, Recording>>} of each way the one of middle speed
 */
export async function repeat(recordings, again) {
  const ways = /** @type {[Way, Recording[]][]} */ (Object.entries(recordings).map(([way, recording]) => [way, [recording]]));
  const seconds = ways.reduce((sum, [, [{ generation }]]) => sum + generation.stats.times.total, 0);
  const turns = TURNS * seconds <= ENOUGH ? TURNS : 1;
  for (let turn = 1; turn < turns; turn += 1) for (const [way, all] of ways) all.push(await again(way));
  const speed = (/** @type {Recording} */ { generation }) => generation.stats.times.tokens_per_second;
  const middle = ways.map(([way, all]) => [way, all.sort((a, b) => speed(a) - speed(b))[all.length >> 1]]);
  return /** @type {Record<Way, Recording>} */ (Object.fromEntries(middle));
}
