// Counts words and openings that docs/style.md advises against, in comments and guides. `node scripts/style.mjs [PATH...]` lists them.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));

/** What is counted, by name. Openings are those of documentation comments. */
const RULES = {
  behind: /\bbehind\b/gi,
  quantities: /\bso (many|much|long)\b/gi,
  nobody: /\b(nobody|no one)\b/gi,
  whoever: /\bwho(so)?ever\b/gi,
  speech: /\b(hears?|heard|tells?|told)\b/gi,
  beside: /\bbesides?\b/gi,
  likewise: /\b(likewise|theirs)\b/gi,
};
const OPENING = /^(What|Whether|Whose|Who|Of|Its|Theirs|Those|The same|Likewise|Where|That)\b/;
/** At most so many of each: this may only fall. */
const LIMITS = { behind: 4, quantities: 0, nobody: 0, whoever: 0, speech: 4, beside: 1, likewise: 0, openings: 2 };

/** The comments of a file with their line numbers and whether a documentation comment begins there. @param {string} file @param {string} text */
function prose(file, text) {
  const lines = text.split("\n");
  if (file.endsWith(".md")) {
    let isCode = false;
    return lines.flatMap((line, at) => {
      if (/^\s*```/.test(line)) isCode = !isCode;
      return isCode ? [] : [{ at: at + 1, text: line.replace(/`[^`]*`/g, "``"), opens: false }];
    });
  }
  const found = [];
  let inBlock = false;
  let before = "";
  for (const [at, line] of lines.entries()) {
    const comment = /^\s*(\/\/\/|\/\/!|\/\/|\/\*\*?|\*(?!\/))\s?(.*)$/.exec(line);
    const trailing = comment ? null : /(?<=\s)\/\/ (.*)$/.exec(line);
    if (comment && (inBlock || comment[1] !== "*")) {
      const [, mark, words] = comment;
      const isDoc = /^(\/\/\/|\/\/!|\/\*\*)$/.test(mark);
      const body = words.replace(/\*\/\s*$/, "").trim();
      const opens = (isDoc && before !== mark) || (mark === "*" && before === "/**" && !found.at(-1)?.text.trim());
      found.push({ at: at + 1, text: body.replace(/`[^`]*`/g, "``"), opens });
      if (mark.startsWith("/*")) inBlock = !line.includes("*/");
      before = inBlock && mark !== "/**" && mark !== "/*" ? "*" : mark;
    } else {
      if (trailing) found.push({ at: at + 1, text: trailing[1].replace(/`[^`]*`/g, "``"), opens: false });
      before = "";
    }
    if (inBlock && line.includes("*/")) {
      inBlock = false;
      before = "";
    }
  }
  return found;
}

const given = process.argv.slice(2);
const files = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", ...given], { cwd: root, encoding: "utf8" })
  .split("\n")
  .filter((file) => /\.(rs|wgsl|js|mjs|ts|md|toml|py)$/.test(file) && !/^(browser\/[a-z]|docs\/(style|notes)|scripts\/style|models\/)/.test(file));
/** @type {Record<string, number>} */
const counts = Object.fromEntries(Object.keys(LIMITS).map((name) => [name, 0]));
let docs = 0;
for (const file of files) {
  for (const { at, text, opens } of prose(file, readFileSync(join(root, file), "utf8"))) {
    const say = (/** @type {string} */ name) => given.length && console.log(`${file}:${at}: ${name}: ${text}`);
    if (opens) docs++;
    if (opens && OPENING.test(text)) {
      counts.openings++;
      say("openings");
    }
    for (const [name, pattern] of Object.entries(RULES)) {
      const many = text.match(pattern)?.length ?? 0;
      counts[name] += many;
      if (many) say(name);
    }
  }
}
/** Most lines of documents that are read from beginning to end. @type {Record<string, number>} */
const LENGTHS = { "README.md": 120, "ARCHITECTURE.md": 130, "benches/README.md": 120 };

console.log(`${files.length} files, ${docs} documentation comments: ${JSON.stringify(counts)}`);
if (!given.length) {
  for (const [file, most] of Object.entries(LENGTHS)) {
    const lines = readFileSync(join(root, file), "utf8").split("\n").length - 1;
    if (lines > most) {
      console.error(`${file} has ${lines} lines, at most ${most} are allowed`);
      process.exitCode = 1;
    }
  }
  const over = Object.entries(counts).filter(([name, count]) => count > LIMITS[name]);
  if (over.length) {
    console.error(`more than before: ${over.map(([name, count]) => `${name} ${count} (at most ${LIMITS[name]})`).join(", ")}`);
    process.exit(1);
  }
}
