/** A text as it was written: which tokens came when. */

/**
 * @typedef {object} Round What one pass of the target wrote.
 * @property {number} seconds since the first round, which waits for the prompt
 * @property {import("../engine.js").Token[]} tokens
 */

/** @typedef {{ rounds: Round[], generation: import("../engine.js").Generation }} Recording */

/**
 * Writes a prompt to its end.
 * @param {import("../engine.js").Engine} engine
 * @param {import("../engine.js").Prompt} prompt
 * @param {import("../engine.js").GenerateOptions} options
 * @param {(round: Round) => void} onRound
 * @returns {Promise<Recording>}
 */
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

/** Milliseconds that go to getting ready, at most and, where texts are short, at least. */
const [PATIENCE, LEAST] = [2000, 600];

/**
 * Lets the device compile what a text needs, so that none of it is in what is measured: writes until the text or the patience
 * ends, and a short text again, because browsers compile once more what runs often.
 */
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

/** Turns of which the middle one counts, if together they take at most this many seconds. */
const [TURNS, ENOUGH] = [5, 1];

/**
 * A text of some milliseconds says little once: whatever else the machine did is in it. So short texts are written again by each of the
 * ways, in turns.
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
