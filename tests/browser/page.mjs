// The demo page, as a visitor uses it.
import { browser, check, equal, open, url } from "./harness.mjs";

let page;
export const before = async () => {
  page = await open();
};
export const after = () => page.close();

export const tests = {
  async "the page runs a race to its end, and model text stays text"() {
    await page.fill("#length", "8");
    await page.click("#write");
    await page.waitForFunction(() => document.getElementById("verdict").textContent);
    const [verdict, texts, markup] = await page.evaluate(() => [
      document.getElementById("verdict").textContent,
      [...document.querySelectorAll(".text")].map(({ textContent }) => textContent),
      [...document.querySelectorAll(".text *")].every(({ tagName, childElementCount }) => tagName === "SPAN" && !childElementCount),
    ]);
    check(verdict.startsWith("The same 8 tokens"), verdict);
    check(texts[0], "text");
    equal(texts[0], texts[1], "texts");
    check(markup, "spans only");
    for (const [name, width] of [["desktop", 1280], ["phone", 390]]) {
      await page.setViewportSize({ width, height: 800 });
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      check(over <= 0, `${name}: ${over} pixels too wide`);
    }
  },

  async "without WebGPU the page says what to do, and the engine gives webgpu-unavailable"() {
    const other = await browser.newPage();
    await other.addInitScript(() => Object.defineProperty(Navigator.prototype, "gpu", { value: undefined }));
    await other.goto(`${url}/demo/`);
    check((await other.textContent("#problem")).includes("Chrome"), "the page's words");
    check(await other.isDisabled("#write"), "the button");
    const code = await other.evaluate(async () => {
      const { Engine } = await import("/engine.js");
      return Engine.load("/models/tales/draft").catch(({ code }) => code);
    });
    equal(code, "webgpu-unavailable", "code");
    await other.close();
  },
};
