// What the suites about the demo page share: a visitor's window, and what a visitor waits for.
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { browserName, check, equal, launch, url, violations, watch } from "./harness.mjs";

export const repo = (path) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const axe = readFileSync(repo("node_modules/axe-core/axe.min.js"), "utf8");
export const HEIGHT = 850;

/** Requests of the pages to other origins. */
export const strangers = [];
/** Firefox takes its colours from the desktop. */
const COLOURS = /** @type {const} */ (browserName === "chromium" ? ["light", "dark"] : ["light"]);

let browser;
/** A browser of the page's own, because a key goes to the window that was opened last, and other suites open windows too. */
export const openBrowser = async () => (browser = await launch());
export const closeBrowser = () => browser.close();

/** In a page: it starts only on request, and shows results without a replay. */
function calm() {
  const { matchMedia } = globalThis;
  globalThis.matchMedia = (query) => (query.includes("reduced-motion") ? { matches: true, addEventListener() {} } : matchMedia.call(globalThis, query));
}

/**
 * A window of the demo page: calm unless `lively`, without a service worker unless `offline`.
 * @param {{ path?: string, lively?: boolean, offline?: boolean, errors?: string[], before?: (page: any) => unknown, [option: string]: unknown }} [how]
 *   `errors`: where what the console calls an error goes; `before`: done before the page is opened
 */
export async function visit({ path = "/demo/", lively = false, offline = false, errors = violations, before, ...options } = {}) {
  const page = await browser.newPage({ serviceWorkers: offline ? "allow" : "block", ...options });
  page.setDefaultTimeout(240_000);
  page.on("console", (message) => {
    if (message.type() === "error" && /Content.Security.Policy|Trusted/i.test(message.text())) errors.push(message.text());
  });
  // Playwright's pictures hide the caret by an inline style, which Firefox reports here.
  page.on("pageerror", ({ message }) => /blocked an inline style/.test(message) || errors.push(message));
  page.on("request", (request) => {
    const asked = request.url();
    if (!asked.startsWith(`${url}/`) && !asked.startsWith("http://localhost:") && !/^(data|blob):/.test(asked)) strangers.push(asked);
  });
  if (!lively) await page.addInitScript(calm);
  await watch(page);
  await before?.(page);
  await page.goto(path.startsWith("http") ? path : `${url}${path}`);
  return page;
}

/** Waits until something holds in the page; if it never does, the error says what. */
export const until = (page, what, holds, argument) =>
  page.waitForFunction(holds, argument).catch(async ({ message }) => {
    const state = await page.evaluate(() =>
      ["verdict", "problem", "doing", "report"].map((id) => document.getElementById(id).textContent.slice(0, 500)).join(" | "),
    );
    throw new Error(`${what}: ${message} ${state}`);
  });
export const idle = (page) => until(page, "idle", () => document.body.dataset.state === "idle");
export const busy = (page) => until(page, "busy", () => document.body.dataset.state === "busy");
export const text = (page, id) => page.textContent(`#${id}`);
export const report = async (page) => JSON.parse(await text(page, "report"));
/** The status of the part of the page that is open. */
export const said = (page) => page.textContent("[role=tabpanel]:not([hidden]) .status");

/** Types options, by name. */
export async function type(page, values) {
  for (const [name, value] of Object.entries(values))
    await page.evaluate(
      ([name, value]) => {
        const field = document.getElementById(`option-${name}`);
        field.value = value;
        field.dispatchEvent(new Event("input", { bubbles: true }));
      },
      [name, value],
    );
}

/** Runs to the end, which is not a problem, and until the charts show it. */
export async function write(page) {
  await page.click("#write");
  await idle(page);
  check(await page.isHidden("#problem"), await text(page, "problem"));
  await drawn(page);
}

/** A change of size is reported in one frame, and drawn in the next. */
export const drawn = (page) =>
  page.evaluate(async () => {
    for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame);
  });

/** Nothing serious by axe, in light and in dark, nothing wider than the window, and a picture that shows something. */
export async function inspect(page, name) {
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(axe);
  for (const [device, width] of [
    ["desktop", 1280],
    ["phone", 360],
  ]) {
    await page.setViewportSize({ width, height: HEIGHT });
    for (const colorScheme of COLOURS) {
      await page.emulateMedia({ colorScheme });
      await drawn(page);
      const where = `${name}, ${device}, ${colorScheme}`;
      const [whole, visible] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
      check(whole <= visible, `${where}: ${whole - visible} pixels too wide`);
      const picture = await page.screenshot({ path: join(tmpdir(), `foretoken-${name}-${device}-${colorScheme}.png`), fullPage: true });
      check(picture.readUInt32BE(16) >= visible && picture.length > 30_000, `${where}: a blank picture of ${picture.length} bytes`);
      if ((device === "phone") !== (colorScheme === "dark")) continue;
      const found = await page.evaluate(async () =>
        (await globalThis.axe.run(document, { resultTypes: ["violations"] })).violations
          .filter(({ impact }) => impact === "serious" || impact === "critical")
          .map(
            ({ id, nodes }) =>
              `${id}: ${nodes
                .map(({ target, failureSummary }) => `${target} ${failureSummary}`)
                .slice(0, 3)
                .join("; ")}`,
          ),
      );
      equal(found, [], where);
    }
  }
  const order = await page.evaluate(() =>
    [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].filter((each) => each.checkVisibility()).map(({ tagName }) => Number(tagName[1])),
  );
  check(order[0] === 1 && order.every((level, i) => !i || level <= order[i - 1] + 1), `headings: ${order}`);
}
