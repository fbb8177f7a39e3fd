// npm run picture: the page's picture for those who link to it, www/demo/preview.png: the page itself after its first race.
import { chromium } from "playwright-core";
import { fileURLToPath } from "node:url";
import { answer, listen } from "./serve.mjs";
import { needBuild } from "./build.mjs";
import { needChromium } from "./system.mjs";

needBuild();
const { server, url } = await listen(answer, 0);
const args = ["--headless", "--no-sandbox", "--enable-unsafe-webgpu", ...process.argv.slice(2)];
const browser = await chromium.launch({ executablePath: needChromium(), args });
const page = await browser.newPage({ viewport: { width: 1200, height: 630 } });
await page.goto(`${url}/demo/`);
await page.waitForFunction(() => document.getElementById("outcome").dataset.state === "done", null, { timeout: 300_000 });
// The stage alone, where it stands, without what can be pressed.
await page.evaluate(() => {
  for (const each of document.querySelectorAll(".tabs, #stage .bar")) /** @type {HTMLElement} */ (each).style.visibility = "hidden";
  scrollTo(0, document.querySelector(".top").getBoundingClientRect().top + scrollY);
  document.getElementById("stage").getAnimations({ subtree: true }).forEach((each) => each.finish());
});
await page.screenshot({ path: fileURLToPath(new URL("../www/demo/preview.png", import.meta.url)) });
await browser.close();
server.close();
