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

/** Milliseconds that go to getting ready. */
const PATIENCE = 2000;

/**
 * Lets the device compile what a text needs, so that none of it is in what is measured: writes until the text or the patience
 * ends.
 */
export async function warmUp(engine, prompt, options) {
  const began = performance.now();
  for (const speculation of ["off", "auto"]) {
    for await (const _ of engine.generate(prompt, { ...options, speculation })) {
      if (performance.now() - began > PATIENCE / (speculation === "off" ? 2 : 1)) break;
    }
  }
}
