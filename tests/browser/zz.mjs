import { readFileSync } from "node:fs";
import { open, browser, browserName, server } from "./harness.mjs";
const tales = JSON.parse(readFileSync("tests/golden/tales.json", "utf8")).cases;
const context = await browser.newContext();
const prefix = `
{ const began = performance.now(); const list = []; globalThis.__list = list;
  const codes = new WeakMap();
  const m = GPUDevice.prototype.createShaderModule;
  GPUDevice.prototype.createShaderModule = function (d) { const r = m.call(this, d); codes.set(r, d.code); return r; };
  const c = GPUDevice.prototype.createComputePipeline;
  GPUDevice.prototype.createComputePipeline = function (d) { const t = performance.now(); const r = c.call(this, d); console.log("PIPE " + d.label + " at " + (t - began).toFixed(0) + " took " + (performance.now() - t).toFixed(1));  return r; };
}
`;
const page = await open(context);
const seen = [];
page.on("console", (m) => { const t = m.text(); if (t.startsWith("PIPE")) console.log(t); if (t.startsWith("CODE")) seen.push(JSON.parse(t.slice(5))); });
if (browserName==="none") page.on("worker", (w) => w.on?.("console", (m) => { const t = m.text(); if (t.startsWith("PIPE")) console.log(t); if (t.startsWith("CODE")) seen.push(JSON.parse(t.slice(5))); }));
await page.route("**/worker.js", async (route) => {
  const response = await route.fetch();
  await route.fulfill({ response, body: (await response.text()) + prefix });
});
await page.exposeFunction("say", (...a) => console.log(...a));
const out = await page.evaluate(async (prompt) => {
  const t = performance.now();
  const engine = await Engine.load("/demo/tales/target", { assistant_model: "/demo/tales/draft", max_context: 512 });
  await say("LOADED", performance.now() - t);
  const r = [];
  for (let i = 0; i < 8; i++) {
    await say("TEXT", i);
    const g = await engine.generate(prompt, { max_new_tokens: 40, speculation: i % 2 == 0 ? "off" : "auto" }).result;
    const s = g.stats;
    r.push([+s.times.tokens_per_second.toFixed(1), s.times.first_token, s.num_spec_steps, s.num_emitted_tokens, s.per_step_drafted.join(), s.per_step_accepted.join(), s.speculating?.reason, +(s.times.total).toFixed(2), s.warnings]);
  }
  return r;
}, tales[12].prompt);
console.log(browserName); for (const l of out) console.log(JSON.stringify(l));
await browser.close(); server.close(); process.exit(0);
