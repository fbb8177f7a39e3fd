// The types of the package.
export { Engine } from "./engine.js";
export { Conversation, type ConversationOptions } from "./conversation.js";
import type { ErrorCode } from "./error.js";
export { ForetokenError, type ErrorCode } from "./error.js";
export type { CachedModelInfo, SavedChatInfo } from "./storage.js";
export type { ReasoningFormat } from "./answers.js";
export type { Tool, ToolCall, ToolCallDelta, ToolChoice, ToolFormat } from "./tools.js";
export type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatOptions,
  ChatRequest,
  ChoiceLogprobs,
  CompletionUsage,
  CreateCompletion,
  CreateEmbeddingResponse,
  EmbeddingRequest,
  RequestOptions,
  TopLogprob,
} from "./chat.js";

export type Phase = "download" | "upload" | "compile";

export type Progress = {
  phase: Phase;
  /** which model; empty but for downloads */
  model: "target" | "assistant" | "";
  /** its name in the model's folder; empty but for downloads */
  file: string;
  /** bytes so far (of a compilation: 0, then 1); it never falls */
  loaded: number;
  /** bytes in all (of a compilation: 1) */
  total: number;
};

/** Reported after each chunk of a prompt except the last. */
export type PrefillProgress = {
  phase: "prefill";
  /** prompt tokens read so far, cached ones included */
  loaded: number;
  /** prompt tokens to read */
  total: number;
};

declare global {
  // For the types of projects without `esnext.disposable`, as in @types/node.
  interface SymbolConstructor {
    readonly dispose: unique symbol;
  }
}

/**
 * A model of the Hub (`owner/name[@revision][:file]`, or the address of its page or of a file's page there), the URL of a folder or of a GGUF
 * file (starts with `/`, `./` or a scheme), or what the user picked: files, one file, a file's or a folder's handle.
 */
export type Model = string | URL | File | readonly File[] | FileList | FileSystemFileHandle | FileSystemDirectoryHandle;

/**
 * A server with OpenAI's API: vLLM, SGLang, llama.cpp, Ollama, OpenAI, ... It serves `chat.completions`, `chat` and `generate`. Other calls
 * require a model on this device.
 */
export type Server = {
  /**
   * Base URL, as in OpenAI's libraries; `/v1` is the default path. With a `tokenizer`, several servers with the same model: if one fails,
   * another one takes over.
   */
  url: string | URL | readonly (string | URL)[];
  /** Name of the model on the server. */
  model: string;
  /** Sent to this server only. Visitors of the page can read it: use a key per user, or a proxy of your own. */
  api_key?: string;
  /**
   * The server's model, of which only the tokenizer and the configuration are read. The server (vLLM or SGLang) then verifies drafts of this
   * device, by lookup, prediction or an `assistant_model`.
   */
  tokenizer?: Model;
};

/** A model on this device or on a server, and its options. */
export type Candidate =
  | Model
  | (({ model: Model } | Server) & {
      /** Maximum bytes to download, including the draft model; 0: stored files only. The check downloads up to 8 MB of each file. */
      max_download?: number;
    } & LoadOptions);

/** A candidate that was not loaded, and the reason. */
export type Skipped = { model: string; url?: string; code: ErrorCode; message: string };

export type TextPart = { type: "text"; text: string };

/**
 * `role`: `system`, `user`, `assistant`, or another one of the model's chat template. The template also gets the other fields (`name`,
 * `tool_calls`, `tool_call_id`, ...). Text parts are joined.
 */
export type Message = { role: string; content?: string | readonly TextPart[] | null; [field: string]: any };

/** A text, messages for the model's chat template, or token ids. */
export type Prompt = string | readonly Message[] | readonly number[] | Uint32Array;

/** Source of a token that the target accepted; `target`: not drafted. */
export type Origin = "draft_model" | "mtp" | "dflash" | "dspark" | "gemma4_assistant" | "lookup" | "suffix" | "prediction" | "grammar" | "target";

export type Token = {
  /** -1 if a server generated it. */
  id: number;
  /** Completed text: empty in the middle of a character, or while a stop string may begin. */
  text: string;
  origin: Origin;
  /** Only with the option `logprobs`. */
  logprobs?: TokenLogprob;
};

/** Log-probability of a token, from the logits before penalties, temperature and filters. */
export type TokenLogprob = {
  id: number;
  /** Text of this token alone; U+FFFD replaces parts of characters. */
  token: string;
  bytes: number[];
  /** Natural logarithm of the probability. */
  logprob: number;
  /** The `top_logprobs` most likely tokens at this position. */
  top_logprobs?: TokenLogprob[];
};

/** The tokens of one round: accepted draft tokens, and one of the target. */
export type Piece = {
  text: string;
  tokens: Token[];
};

export type LoadOptions = {
  // Written by: GENERATE=1 cargo test --release --test program options
  /**
   * Device of the models; in a page, `sp_degree` above 1 requires GPUs. `auto`: The GPU; the CPU if there is no GPU, or only a slower
   * software adapter. `webgpu`: Any GPU adapter, including software adapters. `cpu`: The CPU. Default: auto.
   */
  device?: "auto" | "webgpu" | "cpu";
  /** Device of the draft model. `auto`: the target's device. `cpu`: the CPU, at the same time as the target. Default: auto. */
  draft_device?: "auto" | "cpu";
  /** GGUF file to load if there are several; `*` matches any characters, as in `*Q4_K_M.gguf`. Default: the only one. */
  file?: string;
  /** GGUF file of the draft model, same syntax. Default: the only one. */
  assistant_file?: string;
  /**
   * Draft with the MTP layer of the checkpoint (multi-token prediction). `auto`: Use it if the checkpoint has one and there is no
   * assistant model. `true`: Use it; loading fails without one. `false`: Ignore it. Default: auto.
   */
  use_mtp?: boolean | "auto";
  /**
   * Number of tokens of earlier prompts and texts that the suffix lookup remembers, at 40 bytes each; 0: none. They are never stored on
   * disk. Default: 65536. Allowed: 0 to 1048576.
   */
  lookup_memory?: number;
  /**
   * Storage format of the weights on the GPU. `auto`: As in the checkpoint. `f32`: 4 bytes, exact. `f16`: 2 bytes, rounded to nearest.
   * `q8`: 8 bits, and a scale per 32 weights (Q8_0). The loss is hardly measurable. `q4`: 4 bits, and a scale and a minimum per 32
   * weights (Q4_1). Default: auto.
   */
  dtype?: "auto" | "f32" | "f16" | "q8" | "q4";
  /**
   * Arithmetic for products of quantised weights. `auto`: `int8` if clearly faster on this device, so another device may produce
   * another text. `f32` if several instances compute in parallel. `f32`: Weights are widened to 32-bit floats. `int8`: Activations are
   * rounded to 8-bit integers. Default: auto.
   */
  arithmetic?: "auto" | "f32" | "int8";
  /**
   * Number of threads for models on the CPU. A page can use several only if it is cross-origin isolated. Default: one per core; in a
   * page at most 4. Allowed: 1 to 64.
   */
  threads?: number;
  /**
   * Number of target instances that verify in parallel (distributed speculative inference), each with its own device, weights and KV
   * cache. For a target on servers: number of concurrent requests. Default: 1. Allowed: 1 to 8.
   */
  sp_degree?: number;
  /**
   * Maximum positions of the KV cache: tokens of prompt and text together. Default: the model's maximum, at most 4096. Allowed: 2 to
   * 1048576.
   */
  max_context?: number;
  /**
   * Element type of the KV cache. `f32`: 4 bytes, exact. `f16`: 2 bytes, rounded to nearest. Default: f16; f32 if the checkpoint has
   * matrices in f32 or bf16.
   */
  kv_dtype?: "f32" | "f16";
  /** Number of prompt tokens that are read at a time. The text is always the same. Default: 64. Allowed: 1 to 4096. */
  prefill_chunk?: number;
  /**
   * Maximum bytes of cached keys and values of earlier texts, so that alternating conversations need no new prefill; 0: none. Texts are
   * not kept if there is no memory for them. Default: 256 MiB.
   */
  prompt_cache_bytes?: number;
  // End of what is written
  /** Draft model; fastest with the target's tokenizer. */
  assistant_model?: Model;
  /** Called as files are downloaded and uploaded to the GPU, and as kernels are compiled. */
  onProgress?: (progress: Progress) => void;
  /** Ends loading, which rejects with `aborted`; the signal's `reason` becomes the error's `cause`. */
  signal?: AbortSignal;
  /** Address of the Hub. Default: https://huggingface.co. */
  endpoint?: string;
  /** Branch, tag or commit on the Hub. Default: main. */
  revision?: string;
  /** Access token for private and gated models; sent to the Hub only. */
  token?: string;
  /** Keep downloads in the browser for the next time. Default: true. */
  cache?: boolean;
  /**
   * Ask the browser to keep downloads even if space runs low (Firefox then asks the user). `navigator.storage.persisted()` returns
   * its decision. Default: false.
   */
  persist?: boolean;
  /**
   * Share one engine between all pages of this origin that load the same models, in a `SharedWorker`, instead of loading it in each.
   * It is freed with the last page. Calls are answered in order of arrival, from all pages. Without `SharedWorker`, each page loads
   * its own engine, with a warning. Default: false.
   */
  shared?: boolean;
  /**
   * Address of `foretoken/worker`, if a bundler does not find it, or a function that starts a worker which runs it. With `shared`,
   * the function gets the required name of the `SharedWorker`. Default: worker.js in the folder of this file.
   */
  worker?: string | URL | ((name?: string) => Worker | SharedWorker);
  /** Address of `foretoken/foretoken_bg.wasm`. Default: that file or `relaxed_bg.wasm`, in the folder of the worker. */
  wasm?: string | URL;
};

/** Form of a text: OpenAI's notation, and two more kinds. The first text with a form loads another 0.5 MB */
export type ResponseFormat =
  | { type: "text" }
  /** any JSON object */
  | { type: "json_object" }
  /**
   * what a JSON schema describes, always strictly. It is written with one space behind commas and colons; a key `x-guidance` of the
   * schema can ask for other whitespace
   */
  | { type: "json_schema"; json_schema: { schema: object | boolean; name?: string; description?: string; strict?: boolean | null } }
  /** what a regular expression matches as a whole, in Rust's syntax */
  | { type: "regex"; regex: string }
  /** what a grammar derives from its rule `start`, in llguidance's variant of Lark */
  | { type: "grammar"; grammar: string };

export type GenerateOptions = {
  // Written by: GENERATE=1 cargo test --release --test program options
  /** Maximum number of tokens to generate. Default: 256. Allowed: 1 or more. */
  max_new_tokens?: number;
  /**
   * Forbid end-of-text tokens before this many tokens. Stop strings and a complete `response_format` can still end the text. Default:
   * 0.
   */
  min_new_tokens?: number;
  /** Strings that end the text; they are not part of the result. */
  stop?: readonly string[];
  /** Omit special tokens from the text. The token that ends it is always omitted. Default: true. */
  skip_special_tokens?: boolean;
  /**
   * Required form of the text: only tokens that it allows are chosen, and the text ends if nothing can follow. Tokens that the form
   * leaves no choice about are drafted. A text cut by `max_new_tokens` is incomplete.
   */
  response_format?: ResponseFormat;
  /** Return the log-probability of each token, from the model's logits before penalties, temperature and filters. Default: false. */
  logprobs?: boolean;
  /** Also return the N most likely tokens at each position; requires `logprobs`. Default: 0. Allowed: 0 to 20. */
  top_logprobs?: number;
  /**
   * Sample tokens at random, or take the most likely one. `auto`: Sample if `temperature` is above 0; or, without a `temperature`, if
   * `top_k`, `top_p`, `min_p` or `seed` is given. `true`: Sample. `false`: Take the most likely token. `model`: As in the model's
   * `generation_config.json`, which also gives the values that the options omit. Default: auto.
   */
  do_sample?: boolean | "auto" | "model";
  /**
   * Divisor of the logits: lower values make the text more predictable. 0: take the most likely token. Default: 1. Allowed: 0.001 to
   * 100; 0, unless do_sample is true or model.
   */
  temperature?: number;
  /** Keep only the N most likely tokens; 0: all. Default: 0. */
  top_k?: number;
  /** Keep only the most likely tokens whose probabilities sum to this; 1: all. Default: 1. Allowed: more than 0, up to 1. */
  top_p?: number;
  /** Keep only tokens with at least this fraction of the highest probability; 0: all. Default: 0. Allowed: 0 to 1. */
  min_p?: number;
  /**
   * Penalty for tokens of the prompt and the text: divides positive logits, multiplies negative ones. Default: 1. Allowed: 0.01 to 100;
   * 1: none.
   */
  repetition_penalty?: number;
  /**
   * Value subtracted from the logits of generated tokens; negative values make them more likely. The prompt does not count. Default: 0.
   * Allowed: -2 to 2; 0: none.
   */
  presence_penalty?: number;
  /** Like `presence_penalty`, multiplied by how often the token was generated. Default: 0. Allowed: -2 to 2; 0: none. */
  frequency_penalty?: number;
  /** Never repeat an n-gram of N tokens, counting the prompt; 0: no limit. Default: 0. */
  no_repeat_ngram_size?: number;
  /** Values added to the logits of tokens, by token id. Allowed: -100 to 100. */
  logit_bias?: Readonly<Record<number, number>>;
  /** Sequences of token ids that must not be generated. */
  bad_words_ids?: readonly (readonly number[])[];
  /**
   * Seed of the random choices: the same seed gives the same text. Default: a new seed each time, returned in the statistics. Allowed:
   * 0 to 9007199254740991.
   */
  seed?: number;
  /** Use speculation. `auto`: Use the drafter that `drafter` selects. `off`: One token per forward pass of the target. Default: auto. */
  speculation?: "auto" | "off";
  /**
   * Source of drafts. `auto`: With the schedule `adaptive`: the fastest drafter. Otherwise the prediction if given, else the lookup if
   * `prompt_lookup_num_tokens` is given, else the draft model. `draft_model`: The draft model, or the MTP layer of the model. `lookup`:
   * Prompt lookup: the tokens that followed the latest n-gram earlier in the text. `suffix`: Suffix lookup: the tokens that most often
   * followed the last ones, earlier in the text or in earlier texts. `prediction`: The expected text of `prediction`. `chain`: The
   * prediction; if it has no draft, the lookup; if that has none either, the draft model. Default: auto.
   */
  drafter?: "auto" | "draft_model" | "lookup" | "suffix" | "prediction" | "chain";
  /**
   * Initial number of draft tokens of the draft model per round, at most 31; 0: no draft model. The adaptive schedule chooses the
   * number itself. Default: 5.
   */
  num_assistant_tokens?: number;
  /**
   * Rule that changes the number of draft tokens from round to round. `adaptive`: Choose drafter and number by expected speed, from
   * measurements; no draft if none helps. `constant`: Never change the number. `heuristic`: Add 2 if all were accepted, else subtract
   * 1, down to 1. Keep the number between calls. `heuristic_transient`: As `heuristic`, but restart with every call. Default: adaptive.
   */
  num_assistant_tokens_schedule?: "adaptive" | "constant" | "heuristic" | "heuristic_transient";
  /** End a draft after a token whose probability in the draft model is below this; 0: never. Default: 0. Allowed: 0 to 1. */
  assistant_confidence_threshold?: number;
  /**
   * Maximum number of tokens per draft of the prompt lookup and the suffix lookup. With a schedule other than `adaptive` and the
   * drafter `auto`, it also selects the prompt lookup as drafter. Default: chosen by the schedule. Allowed: 1 or more; leave it out for
   * no lookup.
   */
  prompt_lookup_num_tokens?: number;
  /** Length of the longest n-gram that the lookup tries to match; shorter ones follow. Default: 2. Allowed: 1 to 64. */
  max_matching_ngram_size?: number;
  /**
   * Match that the lookup uses if there are several. `leftmost`: The first match, as in transformers. `whole`: The first match, if as
   * many tokens as requested follow it: the original rule (Saxena 2023). `most_recent`: The last match. Default: leftmost.
   */
  prompt_lookup_rule?: "leftmost" | "whole" | "most_recent";
  /** Expected text, used as a source of drafts. */
  prediction?: string;
  /**
   * Rule that accepts draft tokens when sampling. `coupled`: Accept if the target draws the same token with the same noise. The text
   * depends on the seed only. `rejection`: Rejection sampling, which accepts slightly more. The text follows the target's distribution,
   * but depends on the drafter. Default: coupled.
   */
  acceptance?: "coupled" | "rejection";
  /** Decode text and prepare the next round while the device computes. The text is the same without it. Default: true. */
  overlap?: boolean;
  /** Chats: functions that the model may call, in the form that its chat template expects. */
  tools?: readonly object[];
  /** Chats: documents for the model to base its answer on. */
  documents?: readonly object[];
  /** Chats: further template variables, such as `enable_thinking` or `date_string`. */
  chat_template_kwargs?: Readonly<Record<string, unknown>>;
  /** Chats: continue the last message, which is the beginning of the assistant's answer. Default: false. */
  continue_final_message?: boolean;
  /** Chats: end the prompt where an answer begins. Default: true, unless the last message is continued. */
  add_generation_prompt?: boolean;
  /**
   * Chats: policy for messages that are longer than the context. `error`: Return an error. `shift`: Drop the oldest turns after the
   * system message. Default: error.
   */
  context?: "error" | "shift";
  // End of what is written
  /** OpenAI's name of `max_new_tokens`. */
  max_tokens?: number;
  /** Called as the chunks of a long prompt are read. */
  onProgress?: (progress: PrefillProgress) => void;
  /**
   * Ends the generation, or cancels it while it waits for another: the result rejects with `aborted`. The error's `detail` has
   * what was generated so far, its `cause` is the signal's `reason`.
   */
  signal?: AbortSignal;
};

export type EmbedOptions = {
  /** Hidden states that form the vector: `mean` of all tokens, or that of the `last` token. Default: mean. */
  pooling?: "mean" | "last";
  /** Divide vectors by their length. Default: true. */
  normalize?: boolean;
  /** Ends embedding between two texts: the call rejects with `aborted`. */
  signal?: AbortSignal;
};

export type Score = {
  /** the sum of the continuation's log-probabilities, natural logarithms */
  logprob: number;
  /** its tokens */
  num_tokens: number;
};

export type TemplateOption = "tools" | "documents" | "chat_template_kwargs" | "continue_final_message" | "add_generation_prompt";

/** seconds, but for the last */
export type Times = {
  /** reading the prompt; the GPU may still compute its last chunk afterwards */
  prefill: number;
  /** from the call to the first token */
  first_token: number;
  /** proposing draft tokens on the CPU */
  draft: number;
  /** finding out which tokens may come, where `response_format` says so; mostly while the GPU computes */
  masks: number;
  /** recording, submitting and waiting for rounds */
  verify: number;
  /** accepting, decoding text, calling back */
  emit: number;
  /** work of rounds outside the GPU: drafting, recording, submitting, accepting, decoding text, calling back */
  host: number;
  /** of this, what was done while the GPU computed; a browser does not say when the GPU is done, so here it may be less */
  hidden: number;
  total: number;
  /** generated tokens after the first round */
  tokens_per_second: number;
};

export type Speculating = {
  /** who drafted in the latest round; null: plain decoding */
  drafter: Exclude<Origin, "grammar" | "target"> | null;
  /** draft tokens of that round */
  lookahead: number;
  /** 0 before anything was measured */
  expected_tokens_per_second: number;
  /** of plain decoding, as measured; 0 before that */
  plain_tokens_per_second: number;
  /** in words */
  reason: string;
  /** by who drafted; `draft_model` counts those of an MTP layer too */
  rounds: { plain: number; prediction: number; lookup: number; suffix: number; draft_model: number; grammar: number };
};

/** what several targets did */
export type Distributed = {
  /** targets */
  sp_degree: number;
  /** draft tokens of a verify task */
  lookahead: number;
  /** verify tasks that were given out */
  num_verify_tasks: number;
  /** target forwards that were waited for */
  num_forwards: number;
  /** tasks taken back, drafting included */
  num_cancelled_tasks: number;
  /** draft tokens that the target replaced */
  num_rejected_tokens: number;
  /** times that a target, or its device, was lost */
  num_lost: number;
  /** mean seconds of a target forward, reading the prompt left out */
  target_latency: number;
  /** mean seconds of a step of the draft model; 0 without one */
  drafter_latency: number;
};

/** under the names of the options; those of drawing change nothing where nothing is drawn */
export type SamplingValues = {
  do_sample: boolean;
  temperature: number;
  top_k: number;
  top_p: number;
  min_p: number;
  repetition_penalty: number;
  presence_penalty: number;
  frequency_penalty: number;
  no_repeat_ngram_size: number;
};

/** what a generation did, under vLLM's names */
export type Stats = {
  /** rounds, which are the target forwards after prefill */
  num_spec_steps: number;
  /** draft tokens proposed */
  num_draft_tokens: number;
  /** draft tokens accepted */
  num_accepted_draft_tokens: number;
  /** tokens generated: the accepted ones, and one more per round */
  num_emitted_tokens: number;
  /** tokens per target forward: 1 + accepted / rounds */
  mean_acceptance_length: number;
  /** accepted / proposed; 0 without proposals */
  draft_acceptance_rate: number;
  /** entry a counts the rounds that accepted a draft tokens */
  acceptance_histogram: number[];
  /** draft tokens proposed, by round */
  per_step_drafted: number[];
  /** draft tokens accepted, by round */
  per_step_accepted: number[];
  num_prompt_tokens: number;
  /** prompt tokens whose keys and values were still cached */
  num_cached_tokens: number;
  /** of these, those that the draft model's cache still held as well; 0 for one with another tokenizer */
  num_cached_draft_tokens: number;
  /** messages of the chat that were dropped because it had outgrown the context */
  num_dropped_messages: number;
  /** what products of quantised weights were computed with */
  arithmetic: "f32" | "int8";
  /** how tokens were chosen; with `do_sample: "model"` partly by the model's files */
  sampling: SamplingValues;
  /** key of the random choices; null where there were none */
  seed: number | null;
  /** what the adaptive schedule chose last, and why; null with another schedule */
  speculating: Speculating | null;
  /** what several targets did (`sp_degree`); null with one */
  distributed: Distributed | null;
  /** what was asked of servers; only where the target is on one */
  traffic?: Traffic;
  times: Times;
  /** what the user should know about this device or model, in words */
  warnings: string[];
  /** bytes of the engine outside the GPU */
  wasm_memory: number;
};

/** what was asked of servers that have the target */
export type Traffic = {
  num_requests: number;
  /** requests that were sent again because one before failed */
  num_retries: number;
  /** requests that were broken off */
  num_aborted: number;
  /** tokens in requests that were answered, each time they were sent */
  num_prompt_tokens: number;
  /** of these, those that servers had in their prefix caches, as far as they tell */
  num_cached_tokens: number;
};

export type Generation = {
  /** without the prompt, stop strings and special tokens */
  text: string;
  token_ids: number[];
  /** of each token; only with the option `logprobs` */
  logprobs?: TokenLogprob[];
  /**
   * `stop`: an end token or a stop string; `length`: `max_new_tokens`, or the context is full; `aborted`: the reader left the
   * loop
   */
  finish_reason: "stop" | "length" | "aborted";
  stats: Stats;
};

export type GenerationStream = AsyncIterable<Piece> & { result: Promise<Generation> };

export type DeviceInfo = {
  name: string;
  backend: string;
  driver: string;
  /** bytes */
  max_buffer_size: number;
  /** bytes */
  max_binding_size: number;
  /** whether it computes on the CPU */
  software: boolean;
};

/** bytes on the GPU */
export type ModelMemory = {
  weights: number;
  /** the KV cache, once a text fills it */
  kv: number;
  /** activations, logits, tables */
  scratch: number;
  /** what a step of one token reads of the weights */
  read_per_token: number;
};

export type Memory = { target: ModelMemory; draft: ModelMemory | null };

export type Counters = {
  /** queue submissions */
  submits: number;
  /** of those, the ones whose commands were recorded while the GPU computed another */
  prepared: number;
  /** of those, the ones behind a round whose tokens were not read yet */
  ahead: number;
  /** times that the engine waited for bytes from the GPU */
  blocking_readbacks: number;
  readback_bytes: number;
  /** buffers, bind groups and pipelines created */
  creates: number;
  /** of those, the pipelines: kernel variants compiled */
  pipelines: number;
  /** kernel calls */
  dispatches: number;
  /** bytes of all buffers that there are */
  allocated: number;
};

export type Inspection = {
  model: string;
  architecture: string;
  /** of all files that loading it reads */
  download_bytes: number;
  /** of these, those that the browser had not kept */
  missing_bytes: number;
  /** the weights, in all and by their type, such as `F16` or `Q4_K` */
  tensors: { count: number; bytes: number; dtypes: Record<string, { count: number; bytes: number }> };
  /** the room that it would get */
  capacity: { max_context: number; prefill_chunk: number; kv_dtype: string };
  memory: ModelMemory;
  /** bytes on the GPU, without those of a draft model */
  total: number;
  /** where it would run; null where `webgpu` is wanted and there is none */
  device: DeviceInfo | null;
  /**
   * why it would not fit that device's limits; null where it would. How much memory is free, no browser tells before it is asked for
   */
  unfit: string | null;
};
