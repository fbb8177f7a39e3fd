// Simulates a remote or busy device: its readbacks come some milliseconds later.

/** @param {import("playwright-core").BrowserContext} context whose workers are delayed @param {number} delay in ms */
export async function answerLate(context, delay) {
  if (delay === 0) return;
  await context.route("**/worker.js", async (route) => {
    const response = await route.fetch();
    const late = `const soon = GPUBuffer.prototype.mapAsync;
      GPUBuffer.prototype.mapAsync = function (...given) {
        return soon.apply(this, given).then(() => new Promise((done) => setTimeout(done, ${delay})));
      };`;
    await route.fulfill({ response, body: `${late}\n${await response.text()}` });
  });
}
