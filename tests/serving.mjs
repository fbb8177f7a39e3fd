// Servers of `foretoken serve`, and Python with its package openai.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { output, root } from "./consumer.mjs";

const target = process.env.CARGO_TARGET_DIR ?? join(root, "target");
const program = join(target, "release", process.platform === "win32" ? "foretoken.exe" : "foretoken");

/** Starts a server at a free port. Returns its process, the line that it printed, and its URL, such as `http://127.0.0.1:8080/v1`. */
export async function startServer(flags, env = process.env) {
  const server = spawn(program, ["serve", "--json", "--device", "cpu", "--port", "0", ...flags], { env, stdio: ["ignore", "pipe", "inherit"] });
  const [line] = await Promise.race([once(createInterface({ input: server.stdout }), "line"), once(server, "exit")]);
  return { server, line, url: JSON.parse(line).url };
}

/** Returns the path of a Python with the package openai; null if Python has no venv. */
export function python() {
  if (spawnSync("python3", ["-c", "import ensurepip, venv"]).status !== 0) return null;
  const folder = join(target, "python");
  const path = join(folder, "bin", "python");
  if (!existsSync(path)) output("python3", ["-m", "venv", folder]);
  output(path, ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "openai==3.57.0"]);
  return path;
}

export const NO_PYTHON = "Python has no venv: on Debian, apt-get install python3-venv";
