// The crate as it is published: its contents, its build, and the program's messages outside a checkout.
import { deepEqual, equal, match, ok } from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
/** Maximum size of the packed crate in bytes; crates.io accepts 10 MB. */
const MOST = 529_000;

/** Runs a command and returns its output. */
function run(command, args, cwd = root) {
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd, encoding: "utf8" });
  equal(status, 0, `${command} ${args.join(" ")}\n${error ?? stdout + stderr}`);
  return stdout;
}

const metadata = JSON.parse(run("cargo", ["metadata", "--no-deps", "--offline", "--format-version", "1"]));
const [{ name, version }] = metadata.packages;
const packages = join(metadata.target_directory, "package");
const packed = join(packages, `${name}-${version}`);
run("cargo", ["package", "--no-verify", "--allow-dirty", "--offline", "--quiet"]);
const scratch = mkdtempSync(join(tmpdir(), "foretoken-crate-"));
after(() => rmSync(scratch, { recursive: true }));

test("the crate is small, and has no weights, no measurements and no tests", () => {
  const { size } = statSync(`${packed}.crate`);
  console.log(`the crate has ${size} bytes`);
  ok(size <= MOST, `${size} bytes`);
  const files = run("tar", ["-tzf", basename(`${packed}.crate`)], packages)
    .trim()
    .split("\n");
  const tops = new Set(files.map((file) => file.split("/")[1]).filter((top) => !/^(Cargo\.|\.cargo|LICENSE-)/.test(top)));
  deepEqual([...tops].sort(), ["README.md", "build.rs", "examples", "shaders", "src"]);
});

test("the packed crate builds, examples and documentation with it; its program says how to get a model", () => {
  rmSync(packed, { recursive: true, force: true });
  // With current modification times: the archive's never change, and cargo compares them.
  run("tar", ["-xmzf", basename(`${packed}.crate`)], packages);
  const unoptimised = ["--config", "profile.release.package.foretoken.opt-level=0"];
  const common = ["--release", "--locked", "--offline", "--target-dir", metadata.target_directory, ...unoptimised];
  // Compiled but not run: they run in the checkout, which has the models.
  run("cargo", ["test", "--doc", ...common, "--config", 'build.rustdocflags=["--test-runtool", "true"]'], packed);
  // With examples cargo reuses the dependencies built for the tests, instead of building them again for the program.
  run("cargo", ["build", "--bin", name, "--examples", ...common], packed);
  const program = `${name}${process.platform === "win32" ? ".exe" : ""}`;
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
