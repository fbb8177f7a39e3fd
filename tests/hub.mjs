// A Hub for the documents' code. Every repository contains the tales draft model: as GGUF files if its name contains GGUF, with Qwen's
// chat template if it is one of Qwen's.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { converted } from "./browser/gguf.mjs";

const root = new URL("..", import.meta.url);
const draft = new URL("models/tales/draft/", root);
const FOLDER = Object.fromEntries(
  ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"].map((name) => [
    name,
    readFileSync(new URL(name, draft)),
  ]),
);
const GGUF = Object.fromEntries(["Q4_1", "Q8_0"].map((type) => [`model-${type}.gguf`, converted(draft)]));
const QWEN = { ...FOLDER, "chat_template.jinja": readFileSync(new URL("tests/golden/templates/qwen3.jinja", root)) };
const filesOf = (repository) => (repository.includes("GGUF") ? GGUF : repository.startsWith("Qwen/") ? QWEN : FOLDER);

const digest = (algorithm, ...parts) => parts.reduce((hash, part) => hash.update(part), createHash(algorithm)).digest("hex");

/** Returns the Hub's listing, with `blobId` as git names files. */
const listing = (files) => ({
  sha: "0".repeat(40),
  siblings: Object.entries(files).map(([rfilename, bytes]) => ({
    rfilename,
    size: bytes.length,
    blobId: digest("sha1", `blob ${bytes.length}\0`, bytes),
    lfs: /\.(safetensors|gguf)$/.test(rfilename) ? { sha256: digest("sha256", bytes) } : null,
  })),
});

/** Answers a request to a Hub; `false` if the request is none. */
export function answerAsHub(request, response) {
  const { pathname } = new URL(request.url, "http://localhost");
  const [, listed, repository = listed, file] =
    /^\/(?:api\/models\/([^/]+\/[^/]+)\/revision\/[^/]+|([^/]+\/[^/]+)\/resolve\/[^/]+\/(.+))$/.exec(pathname) ?? [];
  if (!repository) return false;
  const files = filesOf(repository);
  const bytes = listed ? Buffer.from(JSON.stringify(listing(files))) : files[file];
  if (!bytes) {
    response.writeHead(404).end();
    return true;
  }
  const [, from = 0, to = bytes.length - 1] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "") ?? [];
  const [start, end] = [Number(from), Math.min(Number(to || Infinity), bytes.length - 1)];
  const range = request.headers.range && { "Content-Range": `bytes ${start}-${end}/${bytes.length}` };
  response.writeHead(range ? 206 : 200, { ETag: '"1"', "Content-Length": end - start + 1, ...range }).end(bytes.subarray(start, end + 1));
  return true;
}
