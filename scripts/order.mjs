// The order of a module's functions: similar ones close together, because gzip finds again only what stood in the last
// 32 KiB. The compiler writes a function anew for each type that it is used with, so there is much to find.
import { CUSTOM, FUNCTION_NAMES, bodies, importedFunctions } from "./wasm.mjs";

/** A function is compared with those in the last so many bytes. */
const WINDOW = 28_000;
/** Bytes in a row that are compared as one: a run. */
const RUN = 6;
/** What more functions have in common says nothing about which of them are alike. */
const COMMON = 60;

/** For each body the runs that some others have too; a run is one object for all its owners. */
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

/** The bodies' indices: next is always the body that, for its length, shares most runs with those in the window. */
function similarTogether(bodies) {
  const runs = runsOf(bodies);
  // Between all that is shared, which puts the long ones first, and the share, which puts the short ones first. Roots, because
  // they are the same on every machine, as powers need not be.
  const root = (length, times) => (times ? root(Math.sqrt(length), times - 1) : length);
  const weights = bodies.map(({ length }) => root(length, 1) * root(length, 3) * root(length, 4) + 10);
  const shared = new Uint32Array(bodies.length);
  const count = (index, step) => {
    for (const run of runs[index]) {
      run.seen += step;
      // The first that shows a run, and the last.
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

/** A number as LEB128. */
function leb(value) {
  return value < 128 ? [value] : [(value & 127) | 128, ...leb(value >>> 7)];
}

/** Bytes behind their number. */
const sized = (bytes) => leb(bytes.length).concat(bytes);

/** The module with names for its functions that sort as these should stand, for `wasm-opt --reorder-functions-by-name`. */
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
