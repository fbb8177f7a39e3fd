// npm start: builds missing or outdated files, and serves the page and the tales pair on localhost.
import { createReadStream, existsSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, extname, join, normalize, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { needBuild, printed } from "./build.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const TYPES = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json",
  ".png": "image/png",
  ".safetensors": "application/octet-stream",
  ".svg": "image/svg+xml",
  ".wasm": "application/wasm",
};
const page = readFileSync(join(root, "www", "demo", "index.html"), "utf8");
const [, policy] = /http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(page);
/** The page's policy, which then also applies to workers, and `frame-ancestors`, which only a header can set. */
export const CSP = `${policy.trim().replace(/\s+/g, " ")}; frame-ancestors 'none'`;

/** Headers of pages and scripts with which the engine may use several CPU threads. */
export const ISOLATED = { "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp" };

/** Returns the file for a URL path; null if it is outside the served folders. */
function locate(path) {
  const parts = decodeURIComponent(path).split("/").filter(Boolean);
  const [folder, inside] = parts[0] === "models" ? ["models", parts.slice(1)] : ["www", parts];
  const file = normalize(join(root, folder, ...inside));
  return file.startsWith(join(root, folder) + sep) ? file : null;
}

/** Parses `bytes=a-b` for a file of this size; null without a range, false for a range outside the file. */
function range(header, size) {
  const match = /^bytes=(\d+)-(\d*)$/.exec(header ?? "");
  if (!match) return null;
  const start = Number(match[1]);
  const end = Math.min(match[2] ? Number(match[2]) : size - 1, size - 1);
  return start <= end && { start, end };
}

/** Answers a request with a file of the project. */
export function answer(request, response) {
  const path = new URL(request.url, "http://localhost").pathname;
  const headers = { "Content-Security-Policy": CSP, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache" };
  const refuse = (status, more = {}) => response.writeHead(status, { ...headers, "Content-Type": "text/plain", ...more }).end(`${status}\n`);
  if (request.method !== "GET" && request.method !== "HEAD") return refuse(405);
  if (path === "/") return refuse(302, { Location: "/demo/" });
  let file, found;
  try {
    file = locate(path.endsWith("/") ? `${path}index.html` : path);
    const source = file?.replace(/\.js$/, ".ts");
    if (file && !existsSync(file) && existsSync(source)) {
      const code = printed(source);
      response.writeHead(200, { ...headers, ...ISOLATED, "Content-Type": TYPES[".js"], "Content-Length": Buffer.byteLength(code) });
      return response.end(request.method === "HEAD" ? undefined : code);
    }
    found = file && statSync(file);
  } catch {
    return refuse(404);
  }
  if (!found?.isFile()) return refuse(404);
  const { size, mtimeMs } = found;
  const part = range(request.headers.range, size);
  if (part === false) return refuse(416, { "Content-Range": `bytes */${size}` });
  const { start, end } = part ?? { start: 0, end: size - 1 };
  response.writeHead(part ? 206 : 200, {
    ...headers,
    // Firefox fails to reload an isolated page that a service worker serves, so only scripts are isolated, not the demo.
    ...(extname(file) === ".js" && ISOLATED),
    "Content-Type": TYPES[extname(file)] ?? "application/octet-stream",
    "Content-Length": end - start + 1,
    "Accept-Ranges": "bytes",
    ETag: `"${size.toString(36)}-${Math.round(mtimeMs).toString(36)}"`,
    ...(part && { "Content-Range": `bytes ${start}-${end}/${size}` }),
  });
  if (request.method === "HEAD" || size === 0) return response.end();
  createReadStream(file, { start, end })
    .on("error", () => response.destroy())
    .pipe(response);
}

/** Listens on the port, or on the next free port; 0: any port. */
export function listen(handler, port) {
  const server = createServer(handler);
  return new Promise((resolve, reject) => {
    server.on("error", (error) => (error.code === "EADDRINUSE" ? server.listen(++port, "127.0.0.1") : reject(error)));
    server.on("listening", () => resolve({ server, url: `http://localhost:${server.address().port}` }));
    server.listen(port, "127.0.0.1");
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await needBuild();
  const { url } = await listen(answer, Number(process.env.PORT ?? 8080));
  console.log(`\nforetoken: ${url}/demo/   (end with Ctrl-C)`);
}
