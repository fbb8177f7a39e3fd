// Messages between a page and its workers: plain objects with a `type`.
import type { InstanceLoad } from "./instance-workers.js";
import type { ErrorCode } from "./error.js";
import type { ReasoningFormat } from "./answers.js";
import type { ToolFormat } from "./tools.js";
import type {
  Counters,
  DeviceInfo,
  GenerateOptions,
  Generation,
  Inspection,
  Memory,
  Message,
  PrefillProgress,
  Progress,
  Prompt,
  Score,
  TemplateOption,
  Token,
} from "./api.js";

/** The fields of a `ForetokenError`, which a cloned `Error` would lose. */
export type Failure = { code: ErrorCode; message: string; detail: unknown };

/** A model, in a form that can be cloned. */
export type Source = string | readonly File[] | FileSystemDirectoryHandle;

export type Loading = {
  /** For a target on a server: files with its tokenizer and configuration. */
  model: Source;
  /** Set if the target is on servers. */
  server?: { urls: string[]; model: string; api_key?: string };
  assistant?: Source;
  /** Address of the engine's module, if it is not in the folder of the worker. */
  wasm?: string;
  hub: { endpoint?: string; revision?: string; token?: string; cache: boolean };
  /** Base of relative addresses. */
  base?: string;
  warnings: string[];
  /** Options that the engine's module reads. */
  options: Record<string, any>;
};

export type Loaded = { device: DeviceInfo; memory: Memory; warnings: string[]; toolFormat: ToolFormat | null; reasoningFormat: ReasoningFormat | null };

/** Calls of a page: arguments, result, and events before the result. */
export type Methods = {
  load: { args: Loading; result: Loaded; event: Progress };
  inspect: { args: Loading; result: Inspection; event: Progress };
  generate: { args: { prompt: Prompt; options: Partial<GenerateOptions> }; result: Generation; event: { tokens: Token[] } | PrefillProgress };
  embed: { args: { texts: Prompt[]; pooling: string; normalize: boolean }; result: Float32Array[]; event: never };
  score: { args: { prompt: Prompt; continuations: (string | readonly number[])[] }; result: Score[]; event: never };
  encode: { args: { prompt: string | readonly Message[]; options: Pick<GenerateOptions, TemplateOption> }; result: number[]; event: never };
  decode: { args: { ids: number[]; skip_special: boolean }; result: string; event: never };
  /** The result is the number of saved tokens. */
  save: { args: { name: string; messages: readonly Message[]; options: object }; result: number; event: never };
  restore: { args: { name: string }; result: { messages: Message[]; options: object; cached: number }; event: never };
  counters: { args: Record<string, never>; result: Counters; event: never };
};
export type Method = keyof Methods;

export type ToWorker =
  | { [M in Method]: { type: "call"; id: number; method: M; args: Methods[M]["args"] } }[Method]
  /** Ends a call, which is still answered. */
  | { type: "abort"; id: number }
  /** To a shared worker: the page holds this lock until it ends. */
  | { type: "join"; lock: string }
  | { type: "worker_started"; id: number; port: MessagePort }
  | { type: "worker_failed"; id: number; reason: string }
  /** Makes the worker an instance or a thread, which gets its messages through this port. */
  | { type: "serve"; port: MessagePort };

export type FromWorker =
  | { type: "event"; id: number; event: any }
  | { type: "result"; id: number; result: any }
  | { type: "error"; id: number; error: Failure }
  /** The worker is broken. */
  | { type: "fatal"; error: Failure }
  /** Requests another worker. */
  | { type: "start_worker"; id: number }
  | { type: "end_worker"; id: number };

/** Messages of a shared worker, which holds `lock` until it ends. */
export type FromShared = FromWorker | { type: "joined"; lock: string };

/** Messages from the engine's worker to instances and threads. */
export type ToInstance =
  | { type: "load"; load: InstanceLoad & { lock: string } }
  | { type: "order"; order: object }
  | { type: "counters" }
  /** Makes the worker a thread, which answers in this memory and reads no more messages. */
  | { type: "share"; buffer: SharedArrayBuffer; module: WebAssembly.Module };

export type FromInstance =
  /** The first message: the worker can receive. */
  | { type: "listening" }
  /** The instance holds its lock, or the thread is ready. */
  | { type: "started" }
  | { type: "progress"; progress: Progress }
  | { type: "ready"; device: DeviceInfo; memory: object }
  | { type: "report"; text: number | null; report: any }
  | { type: "counters"; counters: Counters }
  | { type: "error"; error: Failure }
  | { type: "fatal"; error: Failure };
