// npm test, the browsers' part: the published files in headless Chromium or, with BROWSER=firefox, in Firefox. No adapter:
// everything fails. `node tests/browser/run.mjs WORDS` runs the tests whose suite or name holds WORDS.
import { readFileSync } from "node:fs";
import { Skipped, browser, browserName, codes, equal, server, violations } from "./harness.mjs";

/** Suites that share no browser page run side by side, because compiling kernels keeps only one core busy. */
const LANES = [
  ["engine", "sampling", "page", "chat", "arrival", "parallel", "patterns"],
  ["tools", "conversation", "candidates", "servers", "recovery", "life", "cpu", "published", "downloads"],
];
// What WebKit keeps and what bundlers make of the package does not depend on the browser.
if (browserName === "chromium") LANES[1].push("webkit", "package");
/** Against tests that hang; a busy machine may take long. */
const LIMIT = 1_800_000;

const only = process.argv[2] ?? "";
const failures = [];
let [passed, skipped] = [0, 0];

async function run(name, test) {
  const began = performance.now();
  const timer = new Promise((_, reject) => setTimeout(reject, LIMIT, new Error(`took longer than ${LIMIT / 1000} s`)).unref());
  try {
    await Promise.race([test(), timer]);
    passed++;
    console.log(`ok    ${name} (${((performance.now() - began) / 1000).toFixed(1)} s)`);
  } catch (error) {
    if (error instanceof Skipped) {
      skipped++;
      return console.log(`skip  ${name} (${error.message})`);
    }
    failures.push(name);
    console.log(`FAIL  ${name}\n      ${String(error.message).split("\n").join("\n      ")}`);
  }
}

async function lane(suites) {
  for (const suite of suites) {
    const { tests, before, after } = await import(`./${suite}.mjs`);
    const chosen = Object.entries(tests).filter(([name]) => `${suite}: ${name}`.includes(only));
    if (chosen.length) await before?.();
    for (const [name, test] of chosen) await run(`${suite}: ${name}`, test);
    if (chosen.length) await after?.();
  }
}

await Promise.all(LANES.map(lane));
await run("nothing broke the content security policy", () => equal(violations, [], "violations"));
// What Chromium is made to fail by its DevTools, Firefox is not.
if (!only && browserName === "chromium") {
  await run("every code of the engine's errors has reached a page", () => {
    const source = readFileSync(new URL("../../src/error.rs", import.meta.url), "utf8");
    const all = [...source.matchAll(/Self::\w+(?: \{ \.\. \})? => "([a-z-]+)"/g)].map(([, code]) => code);
    equal(all.length, source.match(/^ {4}#\[error\(/gm).length, "codes in error.rs, one for each variant");
    equal(
      [...all, "aborted"].filter((code) => !codes.has(code)),
      [],
      "codes that were not seen",
    );
  });
}
await browser.close();
server.close();
console.log(`${browserName} ${browser.version()}: ${passed} passed, ${failures.length} failed, ${skipped} skipped`);
process.exit(failures.length || passed < 2 ? 1 : 0);
