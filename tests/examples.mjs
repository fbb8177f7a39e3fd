// The folder examples/ as its readers use it: each example with the packages that it names, and foretoken as npm packs it.
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { output, root, unpack } from "./consumer.mjs";

/** The packages of all examples, in the versions of a lock: one installation for all. */
const LISTED = join(root, "tests", "examples");
const folder = join(root, "target", "examples");
const read = (...path) => readFileSync(join(...path), "utf8");

/** Returns each example's name and package.json or `{}`. */
export const manifests = () =>
  readdirSync(join(root, "examples")).map((name) => {
    const file = join(root, "examples", name, "package.json");
    return [name, existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : {}];
  });

/** Installs the npm packages of all examples, unless they are installed for the same lock. Returns their folder. */
export function installed() {
  mkdirSync(folder, { recursive: true });
  const lock = join(folder, "package-lock.json");
  const done = join(folder, "node_modules", ".package-lock.json");
  if (!existsSync(done) || !existsSync(lock) || read(lock) !== read(LISTED, "package-lock.json")) {
    for (const file of ["package.json", "package-lock.json"]) cpSync(join(LISTED, file), join(folder, file));
    output("npm", ["ci", "--no-audit", "--no-fund", "--ignore-scripts"], { cwd: folder, shell: process.platform === "win32" });
  }
  return folder;
}

/** Copies the examples again into a folder that keeps the installed npm packages. */
export function examples() {
  unpack(installed());
  for (const [name] of manifests()) {
    rmSync(join(folder, name), { recursive: true, force: true });
    cpSync(join(root, "examples", name), join(folder, name), { recursive: true });
  }
  return folder;
}
