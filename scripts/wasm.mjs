// Reads WebAssembly modules in the binary format (https://webassembly.github.io/spec/core/binary/).

/** Section numbers, and the number of the function names in the name section. */
export const CUSTOM = 0;
const IMPORTS = 2;
const CODE = 10;
const DATA = 11;
const LAST = 13;
export const FUNCTION_NAMES = 1;

/** Sequential reader. */
class Reader {
  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  /** Reads an unsigned LEB128. */
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

  /** Yields readers of the sections with this number. Parts of a section have the same encoding. */
  *sections(wanted) {
    while (this.at < this.bytes.length) {
      const id = this.number();
      const content = this.take(this.number());
      if (id === wanted) yield new Reader(content);
    }
  }
}

/** Returns the first section with this number. */
function section(wasm, wanted) {
  for (const found of new Reader(wasm.subarray(8)).sections(wanted)) return found;
  throw new Error(`the module has no section ${wanted}`);
}

/** Returns the number of imported functions, which are numbered first. */
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

/** Returns the functions' names, in the order of the bodies. */
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

/** Prints a module's bytes per crate, by function names. Generic code counts for the crate that defines it. */
export function weighCrates(wasm) {
  const names = functionNames(wasm);
  const crates = new Map();
  const add = (name, bytes) => crates.set(name, (crates.get(name) ?? 0) + bytes);
  // The first name that is followed by `::`: `<&T as core::fmt::Debug>::fmt`, `core[c5930c85a12de822]::fmt::write`.
  const crateOf = (name) => /\b([a-z]\w*)(\[\w+\])?::/.exec(name)?.[1] ?? "(no crate)";
  bodies(wasm).forEach(({ length }, index) => add(crateOf(names[index]), length));
  add("(data)", section(wasm, DATA).bytes.length);
  for (let id = 1; id <= LAST; id++) {
    if (id === CODE || id === DATA) continue;
    for (const { bytes } of new Reader(wasm.subarray(8)).sections(id)) add("(types, tables, imports)", bytes.length);
  }
  for (const [name, bytes] of [...crates].sort((a, b) => b[1] - a[1])) console.log(`${String(bytes).padStart(9)} ${name}`);
}
