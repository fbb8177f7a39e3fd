// npm run picture: makes the demo page's preview for links, www/demo/preview.png: the page after a race. Measured numbers are left out,
// because they hold for one machine only.
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { needBuild } from "./build.mjs";
import { answer, listen } from "./serve.mjs";
import { needChromium } from "./system.mjs";

await needBuild();
const { server, url } = await listen(answer, 0);
const args = ["--headless", "--no-sandbox", "--enable-unsafe-webgpu", ...process.argv.slice(2)];
const browser = await chromium.launch({ executablePath: needChromium(), args });
const page = await browser.newPage({ viewport: { width: 1200, height: 630 } });
await page.goto(`${url}/demo/#race?drafter=draft_model&num_assistant_tokens=3&num_assistant_tokens_schedule=constant`);
await page.waitForFunction(() => document.getElementById("outcome").dataset.state === "done", null, { timeout: 300_000 });
await page.evaluate(() => {
  const measured = ".lane .count, .lane progress, #outcome, #stage > .bar";
  for (const each of document.querySelectorAll(`${measured}, .tabs, .top nav, #offline, #copy-install, #stage ~ section, #settings, footer, .text .wrong`))
    each.remove();
  for (const lane of document.querySelectorAll(".lane")) {
    lane.classList.remove("first");
    lane.querySelector(".text").scrollTop = 0;
  }
});
await page.screenshot({ path: fileURLToPath(new URL("../www/demo/preview.png", import.meta.url)) });
await browser.close();
server.close();
