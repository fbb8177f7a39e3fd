// The native program, for measurements: built when this file is imported.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fail } from "../scripts/system.mjs";

const built = spawnSync("cargo", ["build", "--release"], { stdio: "inherit" });
if (built.status !== 0) fail("the native program was not built");

/** Runs a command of the program and returns its JSON output. @param {string[]} command @param {Record<string, unknown>} options */
export function foretoken(command, options = {}) {
  const flags = Object.entries(options).flatMap(([name, value]) => (value === undefined ? [] : [`--${name}`, String(value)]));
  const { status, stdout, stderr } = spawnSync("target/release/foretoken", [...command, ...flags, "--json"], { encoding: "utf8", maxBuffer: 1 << 28 });
  if (status !== 0) fail(stderr || stdout);
  return JSON.parse(stdout);
}

/** Reads prompts: a JSON list, or JSON lines. @param {string} file */
export function readPrompts(file) {
  const text = readFileSync(file, "utf8").trim();
  return text.startsWith("[") ? JSON.parse(text) : text.split("\n").map((line) => JSON.parse(line));
}

export const mean = (/** @type {number[]} */ numbers) => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
