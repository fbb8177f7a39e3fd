// Finds programs that the machine must have. Installs missing ones on Debian as root, and otherwise reports how to install them.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, openSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";

/** Runs a command with its output shown; ends the process with its exit code if it fails. */
export function run(command, args, options = {}) {
  console.log(`\n> ${[command, ...args].join(" ")}`);
  const began = performance.now();
  const { status, error } = spawnSync(command, args, { stdio: "inherit", ...options });
  if (error) fail(`${command} could not be started: ${error.message}`);
  if (status !== 0) process.exit(status ?? 1);
  const took = (performance.now() - began) / 1000;
  if (took > 10) console.log(`(${took.toFixed(0)} s)`);
}

/** Starts a command. The returned function waits for it, shows its output, and ends the process with its exit code if it fails. */
export function start(command, args, options = {}) {
  const folder = mkdtempSync(join(tmpdir(), "foretoken-"));
  const output = join(folder, "output");
  const file = openSync(output, "w");
  const child = spawn(command, args, { stdio: ["ignore", file, file], ...options });
  const ended = once(child, "close");
  process.once("exit", () => {
    child.kill();
    rmSync(folder, { recursive: true });
  });
  return async () => {
    const [status] = await ended;
    console.log(`\n> ${[command, ...args].join(" ")}\n${readFileSync(output, "utf8")}`);
    if (status !== 0) process.exit(status ?? 1);
  };
}

/** Ends the process with a message. */
export function fail(message) {
  console.error(`\nforetoken: ${message}`);
  process.exit(1);
}

function onPath(program) {
  const extensions = process.platform === "win32" ? [".exe", ".cmd"] : [""];
  return (process.env.PATH ?? "").split(delimiter).some((folder) => extensions.some((extension) => existsSync(join(folder, program + extension))));
}

/** Installs a Debian package if possible; otherwise fails. */
function install(what, debianPackage) {
  if (existsSync("/etc/debian_version") && process.getuid?.() === 0) {
    const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
    run("apt-get", ["update"], { env });
    run("apt-get", ["install", "--yes", "--no-install-recommends", debianPackage], { env });
  } else {
    fail(`${what} is missing. On Debian or Ubuntu: sudo apt-get install ${debianPackage}`);
  }
}

/** Requires cargo and adds the WASM target if it is missing. The toolchain comes from rust-toolchain.toml. */
export function needRust() {
  if (!onPath("cargo")) fail("Rust is missing. Install it from https://rustup.rs, then run this again.");
  const target = "wasm32-unknown-unknown";
  const { stdout } = spawnSync("rustc", ["--print", "target-libdir", "--target", target], { encoding: "utf8" });
  if (stdout && existsSync(stdout.trim())) return;
  if (!onPath("rustup")) fail(`Rust lacks the target ${target}: install it with your package manager, or Rust by https://rustup.rs.`);
  run("rustup", ["target", "add", target]);
}

/** Requires a Vulkan driver on Linux. Metal and Direct3D 12 are part of their systems. */
export function needVulkan() {
  if (process.platform !== "linux" || process.env.VK_DRIVER_FILES || process.env.VK_ICD_FILENAMES) return;
  const folders = ["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d"];
  const found = folders.some((folder) => existsSync(folder) && readdirSync(folder).some((file) => file.endsWith(".json")));
  if (!found) install("A Vulkan driver", "mesa-vulkan-drivers");
}

/** Requires Python with its module venv on Linux. */
export function needPython() {
  if (process.platform === "linux" && spawnSync("python3", ["-c", "import ensurepip, venv"]).status !== 0) install("Python's module venv", "python3-venv");
}

/** Returns the path of a browser; an environment variable takes precedence. */
function needBrowser(name, variable, places, debianPackage) {
  const find = () => [process.env[variable], ...places].find((place) => place && existsSync(place));
  if (!find()) install(name, debianPackage);
  return find() ?? fail(`${name} is missing: set ${variable} to its path.`);
}

/** Returns the path of Chromium for the browser tests; CHROMIUM overrides it. */
export const needChromium = () => needBrowser("Chromium", "CHROMIUM", ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"], "chromium");

/** Returns the path of Firefox for the browser tests; FIREFOX overrides it. */
export const needFirefox = () => needBrowser("Firefox", "FIREFOX", ["/usr/bin/firefox-esr", "/usr/bin/firefox"], "firefox-esr");

/** Returns the path of WebKitGTK's MiniBrowser, for a virtual screen of Xvfb; MINIBROWSER overrides it. Null outside Linux. */
export function needWebKit() {
  if (process.platform !== "linux") return null;
  if (!onPath("Xvfb")) install("Xvfb", "xvfb");
  const folders = [`/usr/lib/${{ x64: "x86_64", arm64: "aarch64" }[process.arch]}-linux-gnu`, "/usr/libexec", "/usr/lib", "/usr/lib64"];
  const places = folders.map((folder) => join(folder, "webkit2gtk-4.1", "MiniBrowser"));
  return needBrowser("WebKitGTK", "MINIBROWSER", places, "libwebkit2gtk-4.1-0");
}
