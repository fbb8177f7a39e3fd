// What the scripts read of a module in WebAssembly's binary format (https://webassembly.github.io/spec/core/binary/).

/** Sections, and a part of that of names. */
export const CUSTOM = 0;
const IMPORTS = 2;
const CODE = 10;
const DATA = 11;
const LAST = 13;
export const FUNCTION_NAMES = 1;

/** What is read from front to back. */
class Reader {
  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  /** An unsigned LEB128. */
  number() {
    for (let value = 0, unit = 1; ; unit *= 128) {
      const byte = this.bytes[this.at++];
      value += (byte & 127) * unit;
      if (byte < 128) return value;
    }
  }

  take(length) {
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at);
  }

  text() {
    return Buffer.from(this.take(this.number())).toString();
  }

  /** Readers of the sections with this number; the parts of a section are written like sections. */
  *sections(wanted) {
    while (this.at < this.bytes.length) {
      const id = this.number();
      const content = this.take(this.number());
      if (id === wanted) yield new Reader(content);
    }
  }
}

/** The first section with this number. */
function section(wasm, wanted) {
  for (const found of new Reader(wasm.subarray(8)).sections(wanted)) return found;
  throw new Error(`the module has no section ${wanted}`);
}

/** How many functions come from outside: they are numbered first. */
export function importedFunctions(wasm) {
  const imports = section(wasm, IMPORTS);
  const count = imports.number();
  for (let index = 0; index < count; index++) {
    imports.take(imports.number());
    imports.take(imports.number());
    if (imports.number() !== 0) throw new Error("the module imports more than functions");
    imports.number();
  }
  return count;
}

/** @returns {Uint8Array[]} */
export function bodies(wasm) {
  const code = section(wasm, CODE);
  return Array.from({ length: code.number() }, () => code.take(code.number()));
}

/** The functions' names, by their bodies. */
function functionNames(wasm) {
  const imported = importedFunctions(wasm);
  const names = [];
  for (const custom of new Reader(wasm.subarray(8)).sections(CUSTOM)) {
    if (custom.text() !== "name") continue;
    for (const list of custom.sections(FUNCTION_NAMES)) {
      for (let left = list.number(); left > 0; left--) names[list.number() - imported] = list.text();
    }
  }
  return names;
}

/** Prints the bytes of a module by crate, from the names of functions: generic code is its author's, not its user's. */
export function weighCrates(wasm) {
  const names = functionNames(wasm);
  const crates = new Map();
  const add = (name, bytes) => crates.set(name, (crates.get(name) ?? 0) + bytes);
  // The first name that something follows: `<&T as core::fmt::Debug>::fmt`, `core[c5930c85a12de822]::fmt::write`.
  const crateOf = (name) => /\b([a-z]\w*)(\[\w+\])?::/.exec(name)?.[1] ?? "(no crate)";
  bodies(wasm).forEach(({ length }, index) => add(crateOf(names[index]), length));
  add("(data)", section(wasm, DATA).bytes.length);
  for (let id = 1; id <= LAST; id++) {
    if (id === CODE || id === DATA) continue;
    for (const { bytes } of new Reader(wasm.subarray(8)).sections(id)) add("(types, tables, imports)", bytes.length);
  }
  for (const [name, bytes] of [...crates].sort((a, b) => b[1] - a[1])) console.log(`${String(bytes).padStart(9)} ${name}`);
}
