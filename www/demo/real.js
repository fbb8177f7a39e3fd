/** One click from the toy model to a real one. */
import { at, size } from "./dom.js";
import { choose } from "./model.js";
import { spec } from "./pairs.js";
import { REAL } from "./presets.js";
import { DRAFTING, fill, run } from "./race.js";

/** Offers a race of this model. @param {string} id of pairs.js @param {(work: (signal: AbortSignal) => Promise<unknown>) => void} attempt */
export function offerReal(id, attempt) {
  const one = spec(id);
  at("real-about").textContent = `The first race is that of a toy model, 8 MB. ${one.name}: ${size(one.bytes)}, downloaded once and kept in this browser.`;
  at("run-real").onclick = () =>
    attempt((signal) => {
      choose(one);
      fill({ ...REAL, options: DRAFTING });
      return run(signal);
    });
}
