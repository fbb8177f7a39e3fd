// The types of the package: what engine.js takes and what it gives.
export { Engine } from "./engine.js";
export { Conversation, type ConversationOptions } from "./conversation.js";
import type { ErrorCode } from "./error.js";
export { ForetokenError, type ErrorCode } from "./error.js";
export type { CachedModelInfo, SavedChatInfo } from "./kept.js";
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

/** after each chunk of a prompt but the last, behind which the first token comes */
export type PrefillProgress = {
  phase: "prefill";
  /** prompt tokens read so far, cached ones included */
  loaded: number;
  /** prompt tokens to read */
  total: number;
};

/** a Hub id (`owner/name`), a base URL or that of a GGUF file (starts with `/`, `./` or a scheme), or what the user picked */
export type Model = string | URL | readonly File[] | FileList | FileSystemDirectoryHandle;

/**
 * a server with OpenAI's API: vLLM, SGLang, llama.cpp, Ollama, OpenAI, ... It writes the texts of `chat.completions`, `chat` and
 * `generate`; what else an engine does needs a model on this device
 */
export type Server = {
  /**
   * its API, as OpenAI's libraries take it, `https://host/v1`; of a host alone, `/v1` is meant. With a `tokenizer`, several servers
   * that have the same: one takes over where another fails
   */
  url: string | URL | readonly (string | URL)[];
  /** the model's name there */
  model: string;
  /** sent to that server only. Who opens the page can read it: give users their own, or have a server of yours in between */
  api_key?: string;
  /**
   * the model that runs there, as {@link Model} says, of which only tokenizer and configuration are read. With it the server (vLLM or
   * SGLang) verifies what is drafted here, by the text so far, by a prediction or by an `assistant_model`
   */
  tokenizer?: Model;
};

/** a model on this device, or on a server, and how to load it, if there is not more to download than that */
export type Candidate =
  | Model
  | (({ model: Model } | Server) & {
      /**
       * bytes, the draft model's included, those of the files left out that the browser has kept; 0: only what it has kept. To find
       * out, up to 8 MB of each file are downloaded
       */
      max_download?: number;
    } & LoadOptions);

/** a candidate that does not serve, and why */
export type Skipped = { model: string; url?: string; code: ErrorCode; message: string };

export type TextPart = { type: "text"; text: string };

/**
 * `role`: `system`, `user` or `assistant`; what else there is depends on the model's chat template, which also sees the other
 * fields (`name`, `tool_calls`, `tool_call_id`, ...). Text parts are joined
 */
export type Message = { role: string; content?: string | readonly TextPart[] | null; [field: string]: any };

/** a text, messages for the model's chat template, or token ids */
export type Prompt = string | readonly Message[] | readonly number[] | Uint32Array;

/** who proposed a token; the target approved every one */
export type Origin = "draft_model" | "lookup" | "prediction" | "grammar" | "target";

export type Token = {
  /** -1 where a server wrote it, which does not say */
  id: number;
  /** what it completes: empty in the middle of a character, or while a stop string may be beginning */
  text: string;
  origin: Origin;
  /** how likely the model finds it; only with the option `logprobs` */
  logprobs?: TokenLogprob;
};

/** a token and how likely the model finds it, by its logits before penalties, temperature and filters */
export type TokenLogprob = {
  id: number;
  /** its text by itself; U+FFFD stands for parts of characters */
  token: string;
  /** the bytes of that text */
  bytes: number[];
  /** natural logarithm of its probability */
  logprob: number;
  /** the most likely tokens in its place, as many as `top_logprobs` asks for */
  top_logprobs?: TokenLogprob[];
};

/** what one round wrote: the draft tokens that it accepted, and one of the target's own */
export type Piece = {
  /** that of all its tokens */
  text: string;
  tokens: Token[];
};

export type LoadOptions = {
  /** the draft model; fastest with the target's tokenizer */
  assistant_model?: Model;
  /** the GGUF file that is meant, in a folder with several: `*` stands for any characters, as in `*Q4_K_M.gguf` */
  file?: string;
  /** the same for the draft model */
  assistant_file?: string;
  onProgress?: (progress: Progress) => void;
  /** ends the loading, which rejects with `aborted`; its `reason` is the error's `cause` */
  signal?: AbortSignal;
  /** the Hub; https://huggingface.co by default */
  endpoint?: string;
  /** a branch, tag or commit on the Hub; `main` by default */
  revision?: string;
  /** for private and gated models; sent to the Hub only */
  token?: string;
  /** whether downloads are kept in the browser for the next time; true by default */
  cache?: boolean;
  /**
   * whether the browser is asked to spare them when space runs low (Firefox then asks the user); false by default.
   * `navigator.storage.persisted()` tells what it decided
   */
  persist?: boolean;
  /**
   * where the models run: `webgpu`; `cpu`, in the engine's worker; `auto`, the default: on the GPU, or on the CPU where there is
   * none, or only an adapter that itself computes on the CPU. `engine.device` says which it is, `engine.warnings` why
   */
  device?: "auto" | "webgpu" | "cpu";
  /**
   * where the draft model runs: `auto`, the default, where the target runs, in turn with it; `cpu`, in a worker of its own, at the
   * same time as the target, which pays where the GPU is busy verifying; of a target on servers, while a request is under way
   */
  draft_device?: "auto" | "cpu";
  /** positions that the KV cache can grow to, 2 to 1048576; by default what the model was made for, at most 4096 */
  max_context?: number;
  /**
   * how weights are stored on the GPU: `auto`, as the checkpoint has them, by default; `q8` and `q4` quantise those that it has
   * as floats
   */
  dtype?: "auto" | "f32" | "f16" | "q8" | "q4";
  /**
   * what products of quantised weights are computed with: `f32`; `int8`, with activations rounded to 8 bits; or `auto`, the default:
   * `int8` where this device is measured to be clearly faster with it, so that another device may write another text
   */
  arithmetic?: "auto" | "f32" | "int8";
  /**
   * elements of the KV cache: `f32`, exact, or `f16`, half the memory; by default `f16`, or `f32` for a model with matrices in
   * f32 or bf16
   */
  kv_dtype?: "f32" | "f16";
  /** prompt tokens per forward pass, 1 to 4096; 64 by default. The text is always the same */
  prefill_chunk?: number;
  /**
   * most bytes that keys and values of earlier texts take besides the KV cache, so that conversations which take turns are not
   * read again; 256 MB by default, 0: none. What there is no memory for is not kept
   */
  prompt_cache_bytes?: number;
  /**
   * instances of the target that verify at the same time (distributed speculative inference), 1 to 8, each in a worker with its
   * own GPU device, weights and KV cache; 1 by default. Pays only where they really run at the same time. Of a target on servers: requests
   * that are under way at the same time
   */
  sp_degree?: number;
  /**
   * threads that compute where the models run on the CPU; one for each core by default, at most 4. Several where the page is cross-origin
   * isolated, in Node always; one beside a GPU (`draft_device`) and where pages share the engine
   */
  threads?: number;
  /**
   * whether all pages of this origin that load the same share one engine, in a `SharedWorker`, instead of loading it each; false by
   * default. It is freed with the last of them. Calls are answered in the order in which they come, whosever they are. Without
   * `SharedWorker` each page loads its own engine, with a warning
   */
  shared?: boolean;
  /**
   * the address of `foretoken/worker`, where a bundler does not find it, or a function that starts a worker which runs it; by
   * default worker.js beside this file. With `shared`, the function gets the name that a `SharedWorker` has to have
   */
  worker?: string | URL | ((name?: string) => Worker | SharedWorker);
  /** the address of `foretoken/foretoken_bg.wasm`; by default that or `relaxed_bg.wasm`, beside the worker's files */
  wasm?: string | URL;
};

/** OpenAI's shapes, and two more */
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
  /** tokens, 1 or more; 256 by default */
  max_new_tokens?: number;
  /** draft tokens that a round begins with; 5 by default, 0 for no draft model, at most 31 in any round */
  num_assistant_tokens?: number;
  /**
   * how that number changes. `adaptive`, the default: number and drafter are what was measured to be fastest, none where nothing
   * helps; `heuristic`, as in transformers: 2 more when all were accepted, else 1 fewer, kept from call to call
   */
  num_assistant_tokens_schedule?: "adaptive" | "constant" | "heuristic" | "heuristic_transient";
  /** most tokens that the lookup drafts at a time; unless the schedule is adaptive, it also makes the lookup the drafter */
  prompt_lookup_num_tokens?: number;
  /** tokens that the lookup tries to match first, 1 to 64; 2 by default */
  max_matching_ngram_size?: number;
  /**
   * which of several matches the lookup takes: the first, as transformers does (the default); the first, if all tokens asked for
   * follow it; the last
   */
  prompt_lookup_rule?: "leftmost" | "whole" | "most_recent";
  /** a draft ends behind a token that the draft model finds less likely than this, 0 to 1; 0 by default: never */
  assistant_confidence_threshold?: number;
  /** the text that is expected, to draft from */
  prediction?: string;
  /**
   * who drafts; `auto` by default: whoever is fastest (`adaptive`), or else the prediction, the lookup or the draft model, by
   * what is given; `chain`: the prediction, else the lookup, else the draft model
   */
  drafter?: "auto" | "draft_model" | "lookup" | "prediction" | "chain";
  /**
   * whether tokens are drawn at random; if not, the most likely one is taken. `auto`, the default: if `temperature` is above 0 or,
   * without a `temperature`, if `top_k`, `top_p`, `min_p` or `seed` is given. `model`: as the model's generation_config.json says,
   * which then also sets what the next six options leave out
   */
  do_sample?: boolean | "auto" | "model";
  /** logits are divided by it, 0.001 to 100; 0: the most likely token is taken; 1 by default */
  temperature?: number;
  /** so many most likely tokens remain; 0, the default: all */
  top_k?: number;
  /** the most likely tokens whose probabilities sum up to this remain; 1, the default: all */
  top_p?: number;
  /** tokens remain that have at least this times the highest probability; 0, the default: all */
  min_p?: number;
  /** logits of tokens that the text has are divided by it where positive, else multiplied; 1, the default: none */
  repetition_penalty?: number;
  /** n-grams of this length do not come twice, those of the prompt included; 0, the default: they may */
  no_repeat_ngram_size?: number;
  /** subtracted from the logits of tokens that were generated, -2 to 2; 0 by default. The prompt does not count */
  presence_penalty?: number;
  /** the same, as many times as they were generated */
  frequency_penalty?: number;
  /**
   * key of the random choices, 0 to 2^53 - 1: the same seed gives the same text; by default another one each time, which the
   * statistics tell
   */
  seed?: number;
  /**
   * how draft tokens are accepted when tokens are drawn at random. `coupled`, the default: the text depends on the seed alone;
   * `rejection`: a little more are accepted, the text follows the same distribution, but depends on who drafted
   */
  acceptance?: "coupled" | "rejection";
  /** added to the logits of tokens, by id; -100 to 100 */
  logit_bias?: Readonly<Record<number, number>>;
  /** token sequences that may not come */
  bad_words_ids?: readonly (readonly number[])[];
  /** no end-of-text token before this many tokens; 0 by default. `stop`, or a complete `response_format`, ends the text all the same */
  min_new_tokens?: number;
  /** whether tokens come with their log-probabilities, by the logits before all of the above; false by default */
  logprobs?: boolean;
  /** of how many of the most likely tokens in each place besides, 0 to 20; 0 by default */
  top_logprobs?: number;
  /** texts that end the generation; they are not part of the result */
  stop?: readonly string[];
  /** whether the text leaves special tokens out; true by default. The one that ends it is never in it */
  skip_special_tokens?: boolean;
  /**
   * which form the text is to have: only tokens that it allows are chosen, and the text ends where nothing can follow. What the form
   * leaves no choice about is drafted from it (`origin: "grammar"`). The first such text loads another 0.5 MB
   */
  response_format?: ResponseFormat;
  /**
   * what to do with messages that are longer than the context: `error`, the default, or drop the oldest turns after the system
   * message
   */
  context?: "error" | "shift";
  /**
   * of messages: the functions that the model may call, as its chat template wants them described, mostly `{ type: "function",
   * function: { name, description, parameters } }`. A call that it writes is text
   */
  tools?: readonly object[];
  /** of messages: what they are about, mostly `{ title, text }` */
  documents?: readonly object[];
  /**
   * of messages: other variables of the chat template, such as `{ enable_thinking: false }` or `{ date_string: "26 Jul 2024" }`
   */
  chat_template_kwargs?: Readonly<Record<string, unknown>>;
  /** of messages: the last one, the assistant's, is the beginning of the answer; false by default */
  continue_final_message?: boolean;
  /** of messages: whether the prompt ends where an answer begins; true by default, unless the last message is continued */
  add_generation_prompt?: boolean;
  /** `off`: the same text, one token per forward pass */
  speculation?: "auto" | "off";
  /** hears how much of a long prompt is read */
  onProgress?: (progress: PrefillProgress) => void;
  /**
   * whether the engine decodes text, records commands and, where it can, submits the next round while the GPU computes one; true
   * by default, and the text is the same
   */
  overlap?: boolean;
  /**
   * ends the generation, or takes it back while it waits for another: its result rejects with `aborted`; what was written is the
   * error's `detail`, and the signal's `reason` its `cause`
   */
  signal?: AbortSignal;
};

export type EmbedOptions = {
  /** which hidden states count: `mean`, the default, those of all tokens; `last`, that of the last token */
  pooling?: "mean" | "last";
  /** whether vectors are divided by their length; true by default */
  normalize?: boolean;
  /** ends it between two texts: it rejects with `aborted` */
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
  drafter: "draft_model" | "lookup" | "prediction" | null;
  /** draft tokens of that round */
  lookahead: number;
  /** 0 before anything was measured */
  expected_tokens_per_second: number;
  /** of plain decoding, as measured; 0 before that */
  plain_tokens_per_second: number;
  /** in words */
  reason: string;
  /** by who drafted */
  rounds: { plain: number; prediction: number; lookup: number; draft_model: number; grammar: number };
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
