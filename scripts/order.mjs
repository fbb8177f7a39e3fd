// Orders a module's functions so that similar ones are close together, because gzip finds repetitions only in the last 32 KiB.
// The compiler generates a function for each type that it is used with, so there are many repetitions.
import { CUSTOM, FUNCTION_NAMES, bodies, importedFunctions } from "./wasm.mjs";

/** Distance in bytes within which functions are compared. */
const WINDOW = 28_000;
/** Bytes of a run, the unit of comparison. */
const RUN = 6;
/** Maximum number of functions that share a run. More common runs do not indicate similarity. */
const COMMON = 60;

/** Returns for each body the runs that it shares with others. All owners of a run share one object. */
function runsOf(bodies) {
  const all = new Map();
  bodies.forEach((body, index) => {
    for (let at = 0; at + RUN <= body.length; at++) {
      let key = 0;
      for (let byte = at; byte < at + RUN; byte++) key = key * 256 + body[byte];
      if (!all.has(key)) all.set(key, { owners: [], seen: 0 });
      const { owners } = all.get(key);
      if (owners.at(-1) !== index) owners.push(index);
    }
  });
  const runs = bodies.map(() => []);
  for (const run of all.values()) {
    if (run.owners.length > 1 && run.owners.length <= COMMON) run.owners.forEach((index) => runs[index].push(run));
  }
  return runs;
}

/** Orders the bodies' indices: the next body is the one that shares most runs with the window, relative to its length. */
function similarTogether(bodies) {
  const runs = runsOf(bodies);
  // The weight is between 1, which would put long bodies first, and the length, which would put short ones first. It is a product of
  // square roots, which are the same on every machine; powers need not be.
  const root = (length, times) => (times ? root(Math.sqrt(length), times - 1) : length);
  const weights = bodies.map(({ length }) => root(length, 1) * root(length, 3) * root(length, 4) + 10);
  const shared = new Uint32Array(bodies.length);
  const count = (index, step) => {
    for (const run of runs[index]) {
      run.seen += step;
      // Counts a run when its first body enters the window and when its last one leaves.
      if (run.seen === Math.max(step, 0)) run.owners.forEach((owner) => (shared[owner] += step));
    }
  };
  const left = new Set(bodies.keys());
  const order = [];
  for (let first = 0, bytes = 0; left.size > 0; ) {
    let [next] = left;
    for (const index of left) if (shared[index] / weights[index] > shared[next] / weights[next]) next = index;
    left.delete(next);
    order.push(next);
    count(next, 1);
    bytes += bodies[next].length;
    for (; bytes > WINDOW && order[first] !== next; first++) {
      count(order[first], -1);
      bytes -= bodies[order[first]].length;
    }
  }
  return order;
}

/** Encodes a number as LEB128. */
function leb(value) {
  return value < 128 ? [value] : [(value & 127) | 128, ...leb(value >>> 7)];
}

/** Returns bytes after their count. */
const sized = (bytes) => leb(bytes.length).concat(bytes);

/** Names a module's functions so that sorting by name gives the new order, for `wasm-opt --reorder-functions-by-name`. */
export function nameInOrder(wasm) {
  const imported = importedFunctions(wasm);
  const order = similarTogether(bodies(wasm));
  const names = [];
  order.forEach((index, place) => (names[index] = String(place).padStart(6, "0")));
  const entries = names.flatMap((name, index) => [...leb(imported + index), ...sized([...Buffer.from(name)])]);
  const list = [...leb(names.length), ...entries];
  const content = [...sized([...Buffer.from("name")]), FUNCTION_NAMES, ...leb(list.length)].concat(list);
  return Buffer.concat([wasm, Buffer.from([CUSTOM, ...leb(content.length)]), Buffer.from(content)]);
}
