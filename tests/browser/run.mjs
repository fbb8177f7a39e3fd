// npm test, the browsers' part: the published files in headless Chromium or, with BROWSER=firefox, in Firefox. No adapter:
// everything fails. `node tests/browser/run.mjs WORDS` runs the tests whose suite or name holds WORDS.
import { readFileSync, readdirSync } from "node:fs";
import { Skipped, browser, browserName, codes, equal, lane, server, violations } from "./harness.mjs";

/** Suites that share no browser page run side by side, because compiling kernels keeps only one core busy. */
const LANES = [
  ["engine", "sampling", "page", "chat", "arrival", "parallel", "patterns"],
  ["tools", "conversation", "places", "candidates", "servers", "recovery", "life", "cpu", "published", "downloads"],
];
// What WebKit keeps and what bundlers make of the package does not depend on the browser.
if (browserName === "chromium") LANES[1].push("webkit", "package");
/** Seconds after which a test is reported as slow, again and again. */
const SLOW = 120;
/** Share of a processor core below which the browsers count as idle. */
const IDLE = 0.02;
/** Units of processor time in a second, in Linux' /proc. */
const TICKS = 100;
/** Seconds after which a test fails. It is reported long before, and fails after `SLOW` if no browser computes any more. */
const LIMIT = 1_800;

const only = process.argv[2] ?? "";
const failures = [];
let [passed, skipped] = [0, 0];

function failed(name, error) {
  failures.push(name);
  console.log(
    `FAIL  ${name}\n      ${String(error?.message ?? error)
      .split("\n")
      .join("\n      ")}`,
  );
}
// A promise that no test waits for fails the run, and does not end it.
process.on("unhandledRejection", (error) => failed("a promise without a handler was rejected", error));

/** Processor time of the browsers, which are this process's descendants, in ticks by process number. Empty if the system does not say. */
function processorTimes() {
  const processes = new Map();
  for (const pid of process.platform === "linux" ? readdirSync("/proc").filter(Number) : []) {
    try {
      // The second field, a name in brackets, may hold anything; the others follow.
      const fields = readFileSync(`/proc/${pid}/stat`, "latin1").split(") ").at(-1).split(" ");
      const [parent, user, system] = [1, 11, 12].map((i) => Number(fields[i]));
      processes.set(Number(pid), { parent, ticks: user + system });
    } catch {
      // It has just ended.
    }
  }
  const isDescendant = (pid) => pid > 1 && (pid === process.pid || isDescendant(processes.get(pid)?.parent ?? 0));
  return new Map([...processes].filter(([pid]) => pid !== process.pid && isDescendant(pid)).map(([pid, { ticks }]) => [pid, ticks]));
}

/** Watches a test: reports that it is slow, and fails it if it hangs. Returns a function that ends the watch. */
function watch(name, fail) {
  let [seconds, before] = [0, processorTimes()];
  const timer = setInterval(() => {
    seconds += SLOW;
    const now = processorTimes();
    const ticks = [...now].reduce((sum, [pid, ticks]) => sum + ticks - (before.get(pid) ?? 0), 0);
    before = now;
    const idle = now.size > 0 && ticks < SLOW * TICKS * IDLE;
    console.log(`slow  ${name} (${seconds} s, the browsers computed ${ticks / TICKS} of the last ${SLOW})`);
    if (idle || seconds >= LIMIT) fail(new Error(idle ? `hangs: for ${SLOW} s no browser computed` : `took longer than ${LIMIT} s`));
  }, SLOW * 1000);
  return () => clearInterval(timer);
}

/** Runs a test; returns whether it failed. */
async function run(name, test) {
  const began = performance.now();
  let stop;
  const failure = new Promise((_, reject) => {
    Object.assign(lane.getStore() ?? {}, { fail: reject });
    stop = watch(name, reject);
  });
  try {
    await Promise.race([test(), failure]);
    passed++;
    console.log(`ok    ${name} (${((performance.now() - began) / 1000).toFixed(1)} s)`);
    return false;
  } catch (error) {
    if (error instanceof Skipped) {
      skipped++;
      console.log(`skip  ${name} (${error.message})`);
      return false;
    }
    failed(name, error);
    return true;
  } finally {
    stop();
  }
}

async function runLane(suites) {
  for (const suite of suites) {
    const { tests, before, after } = await import(`./${suite}.mjs`);
    const chosen = Object.entries(tests).filter(([name]) => `${suite}: ${name}`.includes(only));
    if (!chosen.length) continue;
    if (await run(`${suite}: it begins`, async () => before?.())) continue;
    for (const [name, test] of chosen) await run(`${suite}: ${name}`, test);
    await after?.();
  }
}

await Promise.all(LANES.map((suites) => lane.run({}, () => runLane(suites))));
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
