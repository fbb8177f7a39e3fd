// npm test, the browsers' part: the published files in headless Chromium or, with BROWSER=firefox, in Firefox. Without an adapter
// everything fails. `node tests/browser/run.mjs WORDS` runs the tests whose suite or name contains WORDS.
import { readFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { Skipped, browser, browserName, codes, equal, lane, newLane, report, server, violations } from "./harness.mjs";

/**
 * Lanes of suites in the order in which they begin, the longest first; the suites of a lane share a browser window. Two lanes run at a time,
 * because compiling kernels keeps only one core busy.
 */
const LANES = [["page", "chat", "arrival"], ["engine"], ["life"], ["downloads"], ["cpu"], ["recovery"], ["servers"], ["parallel"]];
// What WebKit stores and what bundlers make of the package does not depend on the browser.
if (browserName === "chromium") LANES.push(["webkit"], ["package"]);
LANES.push(["places"], ["sampling"], ["candidates"], ["tools"], ["published"], ["conversation"], ["patterns"]);
const TOGETHER = 2;
/** Milliseconds after which a test, or the start of a suite, counts as hanging: far more than it takes on a busy machine. */
const TIMEOUT = 600_000;
/** A longer timeout, for suites that build examples or read hundreds of megabytes. */
const LONG = 1_800_000;

const only = process.argv[2] ?? "";
const unhandled = [];
process.on("unhandledRejection", (error) => unhandled.push(String(error?.stack ?? error)));

/** Returns a function for node:test that runs `work` in a lane: it also fails by the lane's `fail(error)`. A timeout prints a report. */
const within = (store, work) => async (context) => {
  const failure = new Promise((_, reject) => (store.fail = reject));
  let ended = false;
  context.signal.addEventListener("abort", () => ended || report(store));
  try {
    await lane.run(store, () => Promise.race([work(), failure]));
  } catch (error) {
    if (!(error instanceof Skipped)) throw error;
    context.skip(error.message);
  } finally {
    ended = true;
  }
};

/** Registers a suite's chosen tests. */
function register(store, name, suite) {
  const chosen = Object.entries(suite.tests).filter(([test]) => `${name}: ${test}`.includes(only));
  if (!chosen.length) return;
  describe(name, () => {
    const options = { timeout: suite.long ? LONG : TIMEOUT };
    if (suite.before) before(within(store, suite.before), options);
    if (suite.after) after(within(store, suite.after), options);
    for (const [name, work] of chosen) test(name, options, within(store, work));
  });
}

const suites = new Map();
for (const name of LANES.flat()) suites.set(name, await import(`./${name}.mjs`));
describe(browserName, { concurrency: TOGETHER }, () => {
  for (const names of LANES) {
    const store = newLane();
    describe(names.join(", "), { concurrency: 1 }, () => names.forEach((name) => register(store, name, suites.get(name))));
  }
});
test("nothing broke the content security policy", () => equal(violations, [], "violations"));
test("no promise was rejected without a handler", () => equal(unhandled, [], "rejections"));
// Chromium fails by its DevTools in ways that Firefox has not.
if (!only && browserName === "chromium") {
  test("every code of the engine's errors has reached a page", () => {
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
after(async () => {
  await browser.close();
  server.close();
  // A test that hangs may keep something open.
  setTimeout(() => process.exit(), 10_000).unref();
});
