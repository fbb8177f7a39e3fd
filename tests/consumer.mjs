// Installs the package as its users do: packed by npm, unpacked into the node_modules of an empty project.
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Marked } from "marked";

export const root = join(dirname(fileURLToPath(import.meta.url)), "..");

export function output(command, args, options) {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: "utf8", ...options });
  if (status !== 0) throw new Error(`${command} ${args.join(" ")}: ${error ?? stdout + stderr}`);
  return stdout;
}

/** Runs `npm pack` without its build. */
function pack(...args) {
  const options = { cwd: root, shell: process.platform === "win32" };
  return JSON.parse(output("npm", ["pack", "--json", "--ignore-scripts", ...args], options))[0];
}

/** Returns the contents of the package: `{ size, unpackedSize, files: [{ path, size }] }`, in bytes. */
export const contents = () => pack("--dry-run");

/** Installs the packed package in a project. */
export function unpack(folder) {
  const { filename } = pack("--pack-destination", folder);
  const installed = join(folder, "node_modules", "foretoken");
  rmSync(installed, { recursive: true, force: true });
  mkdirSync(installed, { recursive: true });
  output("tar", ["-xzf", join(folder, filename), "-C", installed, "--strip-components=1"]);
}

/** Creates a project that has installed the package; `remove` deletes it. */
export function consumer() {
  const folder = mkdtempSync(join(tmpdir(), "foretoken-"));
  unpack(folder);
  writeFileSync(join(folder, "package.json"), '{ "private": true, "type": "module" }\n');
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** Compiles files of a project and returns the compiler's messages. */
export function compile(files, options, within) {
  const common = { noEmit: true, target: "es2022", module: "esnext", moduleResolution: "bundler", types: [] };
  writeFileSync(join(within, "tsconfig.json"), JSON.stringify({ compilerOptions: { ...common, ...options }, files }));
  const tsc = join(root, "node_modules", "typescript", "bin", "tsc");
  const { status, stdout, stderr } = spawnSync(process.execPath, [tsc, "--project", within], { encoding: "utf8" });
  return status === 0 ? "" : stdout + stderr;
}

/** Returns the code blocks of a document: `language`, the `file` that the fence names, `code`, `index`. */
export function blocks(document) {
  const tokens = new Marked().lexer(readFileSync(join(root, document), "utf8"));
  return tokens
    .filter(({ type }) => type === "code")
    .map(({ lang = "", text }, index) => {
      const [language, file] = lang.split(" ");
      return { language: language.split(",")[0], file, code: `${text}\n`, index };
    });
}

export const codeOf = (document, wanted) => blocks(document).flatMap(({ language, code }) => (language === wanted ? [code] : []));
