// The crates as they are published: their contents, their build, and the program's messages outside a checkout.
import { deepEqual, equal, match, ok } from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
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
  { name: "foretoken-dsi", most: 15_000, contents: ["src"] },
  { name: "foretoken-measure", most: 41_000, contents: ["src"] },
  { name: "foretoken-quantize", most: 32_500, contents: ["src"] },
  { name: "foretoken-serve", most: 52_000, contents: ["src"] },
  { name: "foretoken-simulate", most: 40_000, contents: ["src"] },
  { name: "foretoken-cli", most: 80_000, contents: ["program.md", "src"] },
];
const version = Object.fromEntries(metadata.packages.map(({ name, version }) => [name, version]));
const folder = (name) => `${name}-${version[name]}`;
run("cargo", ["package", "--no-verify", "--allow-dirty", "--offline", "--quiet", ...CRATES.flatMap(({ name }) => ["--package", name])]);
const scratch = mkdtempSync(join(tmpdir(), "foretoken-crate-"));
after(() => rmSync(scratch, { recursive: true }));

for (const { name, most, contents } of CRATES)
  test(`the crate ${name} is small, and has no weights, no measurements and no tests`, () => {
    const archive = join(packages, `${folder(name)}.crate`);
    const { size } = statSync(archive);
    console.log(`the crate ${name} has ${size} bytes`);
    ok(size <= most, `${size} bytes`);
    const files = run("tar", ["-tzf", basename(archive)], packages)
      .trim()
      .split("\n");
    const tops = new Set(files.map((file) => file.split("/")[1]).filter((top) => !/^(Cargo\.|\.cargo|LICENSE-)/.test(top)));
    deepEqual([...tops].sort(), contents);
  });

/**
 * Returns the manifest of a package that has all dependencies of the checkout on other crates. In a workspace with it, dependencies have the
 * features that they have in the tests, and are not compiled again.
 */
function manifestOfDependencies() {
  const all = metadata.packages.flatMap(({ dependencies }) => dependencies);
  const native = all.filter(({ source, target }) => source && target !== 'cfg(target_arch = "wasm32")');
  const lines = [...new Set(native.map(({ name }) => name))].map((wanted) => {
    const uses = native.filter(({ name }) => name === wanted);
    const features = JSON.stringify(uses.flatMap(({ features }) => features));
    const isDefault = uses.some(({ uses_default_features }) => uses_default_features);
    return `${wanted} = { version = "${uses.map(({ req }) => req)}", default-features = ${isDefault}, features = ${features} }`;
  });
  return `[package]\nname = "dependencies"\nversion = "0.0.0"\nedition = "2024"\n\n[dependencies]\n${lines.join("\n")}\n`;
}

test("the packed crates build, documentation with them; the program says how to get a model", () => {
  const workspace = join(packages, "workspace");
  rmSync(workspace, { recursive: true, force: true });
  mkdirSync(join(workspace, "dependencies", "src"), { recursive: true });
  const unoptimised = CRATES.flatMap(({ name }) => ["--config", `profile.release.package.${name}.opt-level=0`]);
  const common = ["--release", "--offline", "--target-dir", metadata.target_directory];
  // With current modification times: the archive's never change, and cargo compares them.
  for (const { name } of CRATES) run("tar", ["-xmzf", join(packages, `${folder(name)}.crate`), "-C", workspace]);
  // With the versions and the features that users of the library get.
  const machine = ["--config", `patch.crates-io.foretoken-dsi.path=${JSON.stringify(join(workspace, folder("foretoken-dsi")))}`];
  run("cargo", ["check", ...common, ...machine], join(workspace, folder("foretoken")));
  // The crates that were just packed, in place of those that are published.
  const published = CRATES.map(({ name }) => `${name} = { path = "${folder(name)}" }`);
  const members = JSON.stringify([...CRATES.map(({ name }) => folder(name)), "dependencies"]);
  writeFileSync(join(workspace, "Cargo.toml"), `[workspace]\nresolver = "3"\nmembers = ${members}\n\n[patch.crates-io]\n${published.join("\n")}\n`);
  copyFileSync(join(root, "Cargo.lock"), join(workspace, "Cargo.lock"));
  writeFileSync(join(workspace, "dependencies", "Cargo.toml"), manifestOfDependencies());
  writeFileSync(join(workspace, "dependencies", "src", "lib.rs"), "");
  // Compiled but not run: they run in the checkout, which has the models.
  const documents = ["--doc", "--package", "foretoken", "--package", "dependencies", "--config", 'build.rustdocflags=["--test-runtool", "true"]'];
  run("cargo", ["test", ...documents, ...common, ...unoptimised], workspace);
  run("cargo", ["build", "--workspace", ...common, ...unoptimised], workspace);
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
