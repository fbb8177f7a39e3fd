// The crates as they are published: their contents, their build, and the program's messages outside a checkout.
import { deepEqual, equal, match, ok } from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Runs a command and returns its output. */
function run(command, args, cwd = root) {
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd, encoding: "utf8" });
  equal(status, 0, `${command} ${args.join(" ")}\n${error ?? stdout + stderr}`);
  return stdout;
}

const metadata = JSON.parse(run("cargo", ["metadata", "--no-deps", "--offline", "--format-version", "1"]));
const packages = join(metadata.target_directory, "package");
/** The published crates: maximum packed size in bytes, and contents. crates.io accepts 10 MB. */
const CRATES = [
  { name: "foretoken", most: 471_000, contents: ["build.rs", "docs", "shaders", "src"] },
  { name: "foretoken-measure", most: 41_000, contents: ["src"] },
  { name: "foretoken-quantize", most: 32_500, contents: ["src"] },
  { name: "foretoken-serve", most: 52_000, contents: ["src"] },
  { name: "foretoken-simulate", most: 40_000, contents: ["src"] },
  { name: "foretoken-cli", most: 80_000, contents: ["program.md", "src"] },
];
const version = Object.fromEntries(metadata.packages.map(({ name, version }) => [name, version]));
const packed = (name) => join(packages, `${name}-${version[name]}`);
run("cargo", ["package", "--no-verify", "--allow-dirty", "--offline", "--quiet", ...CRATES.flatMap(({ name }) => ["--package", name])]);
const scratch = mkdtempSync(join(tmpdir(), "foretoken-crate-"));
after(() => rmSync(scratch, { recursive: true }));

for (const { name, most, contents } of CRATES)
  test(`the crate ${name} is small, and has no weights, no measurements and no tests`, () => {
    const { size } = statSync(`${packed(name)}.crate`);
    console.log(`the crate ${name} has ${size} bytes`);
    ok(size <= most, `${size} bytes`);
    const files = run("tar", ["-tzf", basename(`${packed(name)}.crate`)], packages)
      .trim()
      .split("\n");
    const tops = new Set(files.map((file) => file.split("/")[1]).filter((top) => !/^(Cargo\.|\.cargo|LICENSE-)/.test(top)));
    deepEqual([...tops].sort(), contents);
  });

test("the packed crates build, documentation with them; the program says how to get a model", () => {
  for (const { name } of CRATES) {
    rmSync(packed(name), { recursive: true, force: true });
    // With current modification times: the archive's never change, and cargo compares them.
    run("tar", ["-xmzf", basename(`${packed(name)}.crate`)], packages);
  }
  const unoptimised = ["--config", "profile.release.package.foretoken.opt-level=0"];
  const common = ["--release", "--offline", "--target-dir", metadata.target_directory, ...unoptimised];
  const library = packed("foretoken");
  // Compiled but not run: they run in the checkout, which has the models.
  run("cargo", ["test", "--doc", "--locked", ...common, "--config", 'build.rustdocflags=["--test-runtool", "true"]'], library);
  run("cargo", ["build", "--locked", ...common], library);
  // The crates that were just packed, in place of those that are published.
  const patches = ["foretoken", "foretoken-measure", "foretoken-quantize", "foretoken-serve", "foretoken-simulate"].flatMap((name) => [
    "--config",
    `patch.crates-io.${name}.path=${JSON.stringify(packed(name))}`,
  ]);
  run("cargo", ["build", ...common, ...patches], packed("foretoken-cli"));
  const program = `foretoken${process.platform === "win32" ? ".exe" : ""}`;
  const built = join(metadata.target_directory, "release", program);
  const installed = join(scratch, program);
  copyFileSync(built, installed);
  // Removes it from the checkout's target folder.
  rmSync(built);
  const { status, stderr } = spawnSync(installed, ["generate", "Once"], { cwd: scratch, encoding: "utf8" });
  equal(status, 1);
  match(stderr, /^error: models\/tales: .* --model HuggingFaceTB/);
  match(run(installed, ["inspect", "--json"]), /tales/, "in a checkout it finds the pair");
  const draft = join(root, "models", "tales", "draft");
  match(run(installed, ["inspect", "--json", "--model", draft], scratch), /tales/);
});
