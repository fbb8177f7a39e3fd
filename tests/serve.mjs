// `foretoken serve` as its clients use it: the npm packages openai and ai, and the Python package openai.
import { deepEqual, equal, match, ok, rejects } from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { root } from "./consumer.mjs";
import { installed } from "./examples.mjs";
import { NO_PYTHON, python, startServer } from "./serving.mjs";

const KEY = "secret-1";
const models = ["target", "draft"].map((name) => join(root, "models", "tales", name));
const flags = ["--model", models[0], "--assistant-model", models[1], "--model", models[1]];
const { server, line, url } = await startServer(flags, { ...process.env, FORETOKEN_API_KEY: KEY });
const ended = once(server, "exit");
after(() => server.kill("SIGKILL"));

const packages = createRequire(join(installed(), "package.json"));
/** Imports a package as a module of the examples' folder does. */
const load = (name) => import(pathToFileURL(packages.resolve(name)).href);
const { default: OpenAI } = await load("openai");
const client = new OpenAI({ baseURL: url, apiKey: KEY, maxRetries: 0 });
const messages = [{ role: "user", content: "Continue the tale: The fox went into the wood." }];

test("openai: models, answers, streams, texts and embeddings", async () => {
  deepEqual(
    (await client.models.list()).data.map(({ id }) => id),
    ["target", "draft"],
  );
  equal((await client.models.retrieve("draft")).id, "draft");
  const body = { model: "target", messages, max_completion_tokens: 20 };
  const { choices, usage } = await client.chat.completions.create(body);
  equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
  let text = "";
  for await (const { choices } of await client.chat.completions.create({ ...body, stream: true })) text += choices[0].delta.content ?? "";
  equal(text, choices[0].message.content);
  const predicted = await client.chat.completions.create({ ...body, prediction: { type: "content", content: text } });
  equal(predicted.choices[0].message.content, text);
  const completion = await client.completions.create({ model: "draft", prompt: "Once upon a", max_tokens: 4, logprobs: 2 });
  equal(completion.choices[0].logprobs.tokens.length, 4);
  // This client asks for base64.
  const { data } = await client.embeddings.create({ model: "draft", input: ["The fox", "A stone"] });
  ok(data.length === 2 && data[0].embedding.length > 10 && data[0].embedding.every(Number.isFinite));
  const schema = { type: "object", properties: { animal: { enum: ["fox", "wolf"] } }, required: ["animal"], additionalProperties: false };
  const response_format = { type: "json_schema", json_schema: { name: "tale", strict: true, schema } };
  const parsed = await client.chat.completions.parse({ ...body, response_format });
  ok(["fox", "wolf"].includes(parsed.choices[0].message.parsed.animal));
});

test("openai: errors have their classes", async () => {
  const create = (more) => client.chat.completions.create({ model: "draft", messages, max_tokens: 2, ...more });
  await rejects(create({ model: "none" }), (error) => error instanceof OpenAI.NotFoundError && error.code === "model_not_found");
  await rejects(create({ temperature: -1 }), (error) => error instanceof OpenAI.BadRequestError && error.param === "temperature");
  await rejects(new OpenAI({ baseURL: url, apiKey: "other", maxRetries: 0 }).models.list(), OpenAI.AuthenticationError);
});

test("openai: a stream that is left makes room for the next request", async () => {
  for await (const _ of await client.completions.create({ model: "draft", prompt: "Once", max_tokens: 900, stream: true })) break;
  equal((await client.completions.create({ model: "draft", prompt: "Once", max_tokens: 2 })).usage.completion_tokens, 2);
});

test("ai: texts and streams", async () => {
  const [{ generateText, streamText }, { createOpenAICompatible }] = await Promise.all([load("ai"), load("@ai-sdk/openai-compatible")]);
  const model = createOpenAICompatible({ name: "foretoken", baseURL: url, apiKey: KEY, includeUsage: true })("target");
  const { text, usage } = await generateText({ model, messages, maxOutputTokens: 20 });
  ok(text.length > 0 && usage.outputTokens > 0);
  const { textStream, usage: used } = streamText({ model, messages, maxOutputTokens: 20 });
  let streamed = "";
  for await (const piece of textStream) streamed += piece;
  deepEqual([streamed, (await used).outputTokens], [text, usage.outputTokens]);
});

const PYTHON = `
import sys
from openai import OpenAI, BadRequestError
client = OpenAI(base_url=sys.argv[1], api_key=sys.argv[2], max_retries=0)
messages = [{"role": "user", "content": "Continue the tale: The fox went into the wood."}]
body = dict(model="target", messages=messages, max_tokens=20)
text = client.chat.completions.create(**body).choices[0].message.content
assert text
assert "".join(chunk.choices[0].delta.content or "" for chunk in client.chat.completions.create(stream=True, **body)) == text
assert client.chat.completions.create(extra_body={"speculation": "off"}, **body).choices[0].message.content == text
assert len(client.embeddings.create(model="draft", input="The fox").data[0].embedding) > 10
try:
    client.chat.completions.create(top_p=2, **body)
except BadRequestError as error:
    assert error.param == "top_p"
else:
    raise AssertionError("taken")
print("done")
`;

const interpreter = python();
test("openai of Python", { skip: interpreter ? false : NO_PYTHON }, async () => {
  const { stdout } = await promisify(execFile)(interpreter, ["-c", PYTHON, url, KEY]);
  equal(stdout.trim(), "done");
});

test("Ctrl-C ends the server", async () => {
  server.kill("SIGINT");
  deepEqual(await ended, [0, null]);
  match(line, /^\{"url":"http:\/\/127\.0\.0\.1:\d+\/v1"\}$/);
});
