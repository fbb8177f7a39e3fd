/** The recorded race that visitors see while their own device gets ready. scripts/recording.mjs makes it. */
import { playRace, raceOf } from "./stage.js";
import { seen } from "./welcome.js";

/** Maximum milliseconds to wait for the recording. */
const PATIENCE = 3000;

/** Fulfils when the recording is on the stage, or cannot be. An address with a text of its own has no recording. */
export const recorded = location.hash.includes("?") ? Promise.resolve() : begin();

async function begin() {
  try {
    const answer = fetch(new URL("recording.json", import.meta.url), { signal: AbortSignal.timeout(PATIENCE) });
    const { outcome, ...recordings } = await (await answer).json();
    await seen();
    playRace(raceOf(outcome, recordings));
  } catch {
    // The page works without it.
  }
}
