// What a page and its workers say to each other: plain objects, whose `type` says which they are.
import type { InstanceLoad } from "./instance-workers.js";
import type { ErrorCode } from "./error.js";
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

/** an error, before the page makes a `ForetokenError` of it: a cloned `Error` loses its fields */
export type Failure = { code: ErrorCode; message: string; detail: unknown };

/** a model as a message can carry it */
export type Source = string | readonly File[] | FileSystemDirectoryHandle;

export type Loading = {
  /** of a target on a server: what has its tokenizer and configuration */
  model: Source;
  /** where the target is, if it is on servers */
  server?: { urls: string[]; model: string; api_key?: string };
  assistant?: Source;
  /** the address of the module, if it is not in the folder of the worker */
  wasm?: string;
  hub: { endpoint?: string; revision?: string; token?: string; cache: boolean };
  /** what relative addresses start from */
  base?: string;
  /** about the loading, for a person to read */
  warnings: string[];
  /** what the engine's module reads itself */
  options: Record<string, any>;
};

export type Loaded = { device: DeviceInfo; memory: Memory; warnings: string[]; toolFormat: ToolFormat | null };

/** The calls of a page, one after the other: arguments, result, and events meanwhile. */
export type Methods = {
  load: { args: Loading; result: Loaded; event: Progress };
  inspect: { args: Loading; result: Inspection; event: Progress };
  generate: { args: { prompt: Prompt; options: Partial<GenerateOptions> }; result: Generation; event: { tokens: Token[] } | PrefillProgress };
  embed: { args: { texts: Prompt[]; pooling: string; normalize: boolean }; result: Float32Array[]; event: never };
  score: { args: { prompt: Prompt; continuations: (string | readonly number[])[] }; result: Score[]; event: never };
  encode: { args: { prompt: string | readonly Message[]; options: Pick<GenerateOptions, TemplateOption> }; result: number[]; event: never };
  decode: { args: { ids: number[]; skip_special: boolean }; result: string; event: never };
  /** gives the tokens that are not read again */
  save: { args: { name: string; messages: readonly Message[]; options: object }; result: number; event: never };
  restore: { args: { name: string }; result: { messages: Message[]; options: object; cached: number }; event: never };
  counters: { args: Record<string, never>; result: Counters; event: never };
};
export type Method = keyof Methods;

export type ToWorker =
  | { [M in Method]: { type: "call"; id: number; method: M; args: Methods[M]["args"] } }[Method]
  /** ends a call, which is still answered */
  | { type: "abort"; id: number }
  /** of a worker that several pages share: the page is there for as long as it holds this lock */
  | { type: "join"; lock: string }
  | { type: "worker_started"; id: number; port: MessagePort }
  | { type: "worker_failed"; id: number; reason: string }
  /** the worker has a target from now on, and gets the rest through this port */
  | { type: "serve"; port: MessagePort };

export type FromWorker =
  | { type: "event"; id: number; event: any }
  | { type: "result"; id: number; result: any }
  | { type: "error"; id: number; error: Failure }
  /** nothing works in there any more */
  | { type: "fatal"; error: Failure }
  /** asks for another worker */
  | { type: "start_worker"; id: number }
  | { type: "end_worker"; id: number };

/** of a worker that pages share: it is there for as long as it holds this lock */
export type FromShared = FromWorker | { type: "joined"; lock: string };

/** what the worker that writes a text says to those that have a target, or the draft model, each */
export type ToInstance =
  | { type: "load"; load: InstanceLoad & { lock: string } }
  | { type: "order"; order: object }
  | { type: "counters" }
  /** has rows of matrices from now on, and answers in this memory alone */
  | { type: "share"; buffer: SharedArrayBuffer; module: WebAssembly.Module };

export type FromInstance =
  /** it reads messages; sent first */
  | { type: "listening" }
  /** it holds its lock now */
  | { type: "started" }
  | { type: "progress"; progress: Progress }
  | { type: "ready"; device: DeviceInfo; memory: object }
  | { type: "report"; text: number | null; report: any }
  | { type: "counters"; counters: Counters }
  | { type: "error"; error: Failure }
  | { type: "fatal"; error: Failure };
