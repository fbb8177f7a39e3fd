// All of the public API, as a TypeScript user writes it. It only has to compile.
import {
  Engine,
  ForetokenError,
  type Candidate,
  type ChatCompletion,
  type ChatCompletionChunk,
  type ErrorCode,
  type GenerateOptions,
  type Generation,
  type LoadOptions,
  type Message,
  type Model,
  type Piece,
  type Progress,
  type Prompt,
  type Score,
  type Skipped,
  type Stats,
  type Token,
  type TextPart,
} from "foretoken";
import "foretoken/worker";

declare const files: FileList;
declare const folder: FileSystemDirectoryHandle;
declare const handle: FileSystemFileHandle;
const models: Model[] = ["owner/name", new URL("https://example.com/model/"), files, [...files], files[0]!, folder, handle];

const loading: LoadOptions = {
  assistant_model: "./draft",
  onProgress: ({ phase, model, file, loaded, total }: Progress) => console.log(phase, model, file, loaded / total),
  signal: AbortSignal.timeout(1000),
  endpoint: "https://hub.example.com",
  revision: "main",
  token: "secret",
  cache: true,
  persist: true,
  max_context: 64,
  dtype: "q8",
  kv_dtype: "f16",
  prefill_chunk: 32,
  shared: true,
  worker: new URL("https://example.com/worker.js"),
  wasm: "/foretoken_bg.wasm",
};
const started: LoadOptions[] = [{ worker: () => new Worker("/worker.js") }, { worker: (name) => new SharedWorker("/worker.js", { name }) }];
const generating: GenerateOptions = {
  max_new_tokens: 4,
  num_assistant_tokens: 3,
  num_assistant_tokens_schedule: "heuristic_transient",
  prompt_lookup_num_tokens: 10,
  max_matching_ngram_size: 3,
  prompt_lookup_rule: "most_recent",
  assistant_confidence_threshold: 0.4,
  prediction: "text",
  drafter: "chain",
  do_sample: true,
  temperature: 0.7,
  top_k: 40,
  top_p: 0.9,
  min_p: 0.05,
  repetition_penalty: 1.1,
  presence_penalty: 0.5,
  frequency_penalty: -0.5,
  no_repeat_ngram_size: 3,
  logprobs: true,
  top_logprobs: 5,
  seed: 1,
  acceptance: "rejection",
  logit_bias: { 17: -2.5 },
  bad_words_ids: [[1, 2], [3]],
  min_new_tokens: 2,
  stop: ["."],
  response_format: { type: "json_schema", json_schema: { name: "fox", schema: { type: "object" }, strict: true } },
  context: "shift",
  speculation: "off",
  overlap: false,
};
const messages = [{ role: "user", content: "Why?" }] as const satisfies readonly Message[];
const part: TextPart = { type: "text", text: "Why?" };
/** Messages as another library may declare them. */
interface Assistant {
  role: "assistant";
  content?: string | null;
  tool_calls?: { id: string }[];
}
const answer: Assistant = { role: "assistant", content: null, tool_calls: [{ id: "1" }] };
const conversation: Message[] = [{ role: "user", name: "Ann", content: [part] }, answer, { role: "tool", tool_call_id: "1", content: "Because." }];

/** The remedy for an error; the compiler knows that no code was forgotten. */
function advice(code: ErrorCode): string {
  switch (code) {
    case "webgpu-unavailable":
    case "out-of-gpu-memory":
    case "device-lost":
    case "gpu-blocked":
      return "GPU";
    case "not-found":
    case "network":
    case "integrity":
    case "download-too-large":
      return "download";
    case "unauthorized":
    case "overloaded":
    case "tokenizer-mismatch":
      return "server";
    case "bad-config":
    case "bad-weights":
    case "bad-tokenizer":
    case "bad-template":
    case "unsupported-architecture":
    case "non-finite-logits":
      return "model";
    case "bad-option":
    case "context-full":
      return "call";
    case "storage":
      return "browser";
    case "aborted":
    case "internal":
      return "none";
  }
}

export async function main(): Promise<void> {
  const engine: Engine = await Engine.load(models[0]!, loading);
  await Engine.load(models[1]!, started[0]);
  const candidates: Candidate[] = [
    "owner/name",
    { model: models[0]!, max_download: 1e9, device: "webgpu" },
    { url: "https://host/v1", model: "name", api_key: "key" },
    { url: ["https://a", "https://b"], model: "name", tokenizer: "owner/name", assistant_model: "owner/small", sp_degree: 2, max_download: 1e9 },
  ];
  const { skipped } = await Engine.load(candidates, loading);
  console.log(skipped.map(({ model, url, code, message }: Skipped) => `${model} ${url ?? ""} ${code}: ${message}`));
  const prompts: Prompt[] = ["text", messages, [1, 2], Uint32Array.of(1, 2)];
  const stream = engine.generate(prompts[0]!, { ...generating, signal: new AbortController().signal });
  for await (const { text, tokens } of stream satisfies AsyncIterable<Piece>) {
    const first: Token | undefined = tokens[0];
    const origin: "draft_model" | "mtp" | "dflash" | "dspark" | "gemma4_assistant" | "lookup" | "suffix" | "prediction" | "grammar" | "target" | undefined =
      first?.origin;
    console.log(text, first?.id.toFixed(), origin);
  }
  const { text, token_ids, finish_reason, stats }: Generation = await stream.result;
  const reason: "stop" | "length" | "aborted" = finish_reason;
  const last: Stats | null = engine.stats;
  const rounds: number = stats.num_spec_steps;
  console.log(text.length, token_ids.length, reason, last?.times.tokens_per_second, rounds, stats.warnings.join());

  const whole: ChatCompletion = await engine.chat.completions.create({
    messages,
    max_tokens: 4,
    stop: ".",
    temperature: 0,
    top_p: 1,
    seed: 3,
    prediction: { type: "content", content: "text" },
  });
  console.log(whole.choices[0]?.message.content?.length, whole.usage.completion_tokens_details.accepted_prediction_tokens);
  const body = { messages, stream: true, stream_options: { include_usage: true }, speculation: "off" } as const;
  const chunks: AsyncIterable<ChatCompletionChunk> = await engine.chat.completions.create(body, { signal: AbortSignal.timeout(1) });
  for await (const chunk of chunks) console.log(chunk.choices[0]?.delta.content, chunk.usage?.total_tokens);
  await engine.chat.completions.create({
    messages: conversation,
    frequency_penalty: 0,
    presence_penalty: null,
    n: 1,
    tools: [],
    tool_choice: "auto",
    response_format: { type: "regex", regex: "[a-z]+" },
    store: false,
    metadata: { a: "b" },
  });
  const either = await engine.chat.completions.create({ messages, stream: Math.random() < 0.5 });
  if ("usage" in either) console.log(either.usage);

  const several = await engine.chat.completions.create({ messages, n: 2, temperature: 1, logprobs: true, top_logprobs: 1, presence_penalty: 0.5 });
  for (const { index, logprobs } of several.choices) console.log(index, logprobs?.content[0]?.top_logprobs[0]?.logprob);
  const vectors: Float32Array[] = await engine.embed(["text", "other"], { pooling: "last", normalize: false });
  const [score]: Score[] = await engine.score(messages, ["text", [1, 2]], { signal: AbortSignal.timeout(1) });
  const { data, usage } = await engine.embeddings.create({ input: ["text"], encoding_format: "float" });
  console.log(vectors[0]?.length, score?.logprob, score?.num_tokens, data[0]?.embedding.length, usage.prompt_tokens);

  const ids: number[] = await engine.tokenize(messages);
  const back: string = await engine.detokenize(ids, { skip_special_tokens: false });
  const { submits, ahead } = await engine.counters();
  console.log(back, submits, ahead, engine.device.name, engine.memory.target.weights, engine.memory.draft?.kv);
  engine.close();
}

main().catch((error: unknown) => {
  if (error instanceof ForetokenError) console.log(advice(error.code), error.message, error.detail, error.cause);
});
