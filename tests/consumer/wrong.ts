// Mistakes. It compiles only as long as the types catch every one of them.
import { Engine, ForetokenError, type GenerateOptions } from "foretoken";

declare const engine: Engine;
const messages = [{ role: "user", content: "Why?" }];

// @ts-expect-error: engines are loaded
new Engine();
// @ts-expect-error: a model is no number
void Engine.load(7);
// @ts-expect-error: no such option
void Engine.load("owner/name", { max_contexts: 64 });
// @ts-expect-error: a worker, not its name
void Engine.load("owner/name", { worker: () => "worker.js" });
// @ts-expect-error: no such element type
void Engine.load("owner/name", { kv_dtype: "q4" });
// @ts-expect-error: no such phase
void Engine.load("owner/name", { onProgress: ({ phase }) => phase === "done" });
// @ts-expect-error: a server's model has a name
void Engine.load([{ url: "https://host/v1" }]);
// @ts-expect-error: bytes, not a text
void Engine.load([{ model: "owner/name", max_download: "1 GB" }]);
// @ts-expect-error: no such option
engine.generate("text", { max_new_token: 4 });
// @ts-expect-error: a number, not a text
engine.generate("text", { max_new_tokens: "4" });
// @ts-expect-error: a list, not a text
export const options: GenerateOptions = { stop: "." };
// @ts-expect-error: a message has a role
engine.generate([{ content: "Why?" }]);
// @ts-expect-error: a stream is no promise
engine.generate("text").then();
// @ts-expect-error: no such number
void engine.generate("text").result.then(({ stats }) => stats.num_rounds);
// @ts-expect-error: no such reason
void engine.generate("text").result.then(({ finish_reason }) => finish_reason === "done");
// @ts-expect-error: there may be none yet
void engine.stats.num_spec_steps;
// @ts-expect-error: there may be no draft model
void engine.memory.draft.weights;
// @ts-expect-error: a whole completion is no stream
for await (const chunk of await engine.chat.completions.create({ messages })) void chunk;
// @ts-expect-error: a stream has no choices
void (await engine.chat.completions.create({ messages, stream: true })).choices;
// @ts-expect-error: no such option
void engine.chat.completions.create({ messages, max_token: 4 });
// @ts-expect-error: a number
void engine.chat.completions.create({ messages, n: "2" });
// @ts-expect-error: not asked for, perhaps
void (await engine.generate("text").result).logprobs.length;
// @ts-expect-error: no such pooling
void engine.embed(["text"], { pooling: "max" });
// @ts-expect-error: no such encoding
void engine.embeddings.create({ input: "text", encoding_format: "f16" });
// @ts-expect-error: no other format
void engine.chat.completions.create({ messages, response_format: { type: "yaml" } });
// @ts-expect-error: texts only
void engine.chat.completions.create({ messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "data:," } }] }] });
// @ts-expect-error: no such code
if (new ForetokenError({ code: "internal", message: "" }).code === "timeout") engine.close();
// @ts-expect-error: read only
engine.stats = null;
