/** Parts of an answer: thoughts, content, and calls of tools. */
import type { GenerateOptions, Message } from "./api.js";
import type { Engine } from "./engine.js";
import { type Call, type Callable, escaped, FORMATS, skip, type ToolCall, type ToolCallDelta, type ToolFormat } from "./tools.js";

/**
 * How the model's chat template marks thoughts before the answer: `think` `<think>...</think>`; `brackets` (Ministral 3)
 * `[THINK]...[/THINK]`; `channel` (Gemma 4) `<|channel>thought ... <channel|>`; `harmony` (gpt-oss) messages, each with a channel.
 */
export type ReasoningFormat = "think" | "brackets" | "channel" | "harmony";

const MARKS: Record<Exclude<ReasoningFormat, "harmony">, [open: string, close: string]> = {
  think: ["<think>", "</think>"],
  brackets: ["[THINK]", "[/THINK]"],
  channel: ["<|channel>thought", "<channel|>"],
};

/** The parts of an answer. If it continues, they are beginnings, and no later answer takes a part of them back. */
type Parts = { reasoning: string; content: string; calls: (Call & { name: string })[] };

/** How an answer is read. */
export type Reading = {
  tools: Callable;
  /** null: it has no calls. */
  toolFormat: ToolFormat | null;
  /** null: as `think` */
  reasoningFormat: ReasoningFormat | null;
  /** `true`: the prompt ends within a thought. */
  isOpen?: boolean;
  /** Maximum number of calls. */
  most?: number;
};

/** Returns the number of characters at the end of a text that may be the beginning of `mark`. */
function begun(text: string, mark: string) {
  const most = Math.min(mark.length - 1, text.length);
  for (let length = most; length > 0; length -= 1) if (text.endsWith(mark.slice(0, length))) return length;
  return 0;
}

/** Splits a text into the thought that it begins with, and the rest. */
function splitThought(text: string, format: Exclude<ReasoningFormat, "harmony">, isOpen: boolean, isWhole: boolean): [reasoning: string, rest: string] {
  const [open, close] = MARKS[format];
  const start = skip(text, 0, /\s*/y);
  const isMarked = text.startsWith(open, start);
  if (!isMarked && !isWhole && open.startsWith(text.slice(start))) return ["", ""];
  if (!isMarked && !isOpen) return ["", text];
  const from = isMarked ? start + open.length : start;
  const end = text.indexOf(close, from);
  const thought = text.slice(from, end < 0 ? text.length - (isWhole ? 0 : begun(text.slice(from), close)) : end);
  return [thought.trim(), end < 0 ? "" : text.slice(end + close.length).trimStart()];
}

/** Splits a text into its content and the calls of the named tools. */
function readCalls(text: string, format: Exclude<ToolFormat, "harmony">, tools: Callable, isWhole: boolean): Omit<Parts, "reasoning"> {
  const { open, close, isBare, read } = FORMATS[format];
  const calls: Parts["calls"] = [];
  let [content, at] = ["", 0];
  // Between the marks around several calls.
  let isListed = false;
  for (;;) {
    const isCallNext = calls.length > 0 && (text[at] === "{" || (isListed && format === "lfm2" && /\w/.test(text[at] ?? "")));
    // At the beginning calls may have no mark.
    const bare = isBare && at === 0 ? skip(text, at, /\s*/y) : -1;
    const start = isCallNext ? at : text[bare] === "{" ? bare : text.indexOf(open, at);
    if (start < 0) break;
    const call = read(text, text.startsWith(open, start) ? start + open.length : start, tools);
    // A call is never taken back, so its arguments must have begun.
    const isCall = call?.name !== undefined && Object.hasOwn(tools, call.name) && (call.arguments !== "" || call.end >= 0);
    if (!isCall) {
      // The next text decides.
      if (call && call.end < 0 && !isWhole) return { content: (content + text.slice(at, start)).trimEnd(), calls };
      content += text.slice(at, start + 1);
      at = start + 1;
      continue;
    }
    content += text.slice(at, start);
    calls.push({ ...call, arguments: escaped(call.arguments) } as Call & { name: string });
    if (call.end < 0) return { content: content.trimEnd(), calls };
    at = skip(text, call.end, /[\s;,]*/y);
    isListed = !text.startsWith(close, at);
    if (close && !isListed) at = skip(text, at + close.length, /\s*/y);
    else if (!isWhole && close.startsWith(text.slice(at))) return { content: content.trimEnd(), calls };
  }
  const rest = text.slice(at);
  content += isWhole ? rest : rest.slice(0, rest.length - begun(rest, open));
  // Whitespace before a call is part of neither.
  return { content: isWhole && calls.length === 0 ? content : content.trimEnd(), calls };
}

/** Marks of Harmony that begin or end a message. */
const HARMONY = ["<|channel|>", "<|start|>", "<|end|>", "<|call|>", "<|return|>"];

/** Reads messages `<|start|>assistant<|channel|>name to=recipient<|message|>text<|end|>`; the prompt has begun the first. */
function readHarmony(text: string, tools: Callable, isWhole: boolean): Parts {
  const parts: Parts = { reasoning: "", content: "", calls: [] };
  const add = (key: "reasoning" | "content", more: string) => {
    if (more) parts[key] += (parts[key] && "\n\n") + more;
  };
  // What has no head is content.
  const first = text.search(/<\|(?:channel|start)\|>/);
  const plain = first < 0 ? text : text.slice(0, first);
  /** Returns a text without the mark that ends it, or the beginning of one. */
  const words = (text: string, isComplete: boolean) => {
    const [said = ""] = text.split(/<\|(?:end|call|return)\|>/);
    return (isComplete ? said : said.slice(0, said.length - Math.max(...HARMONY.map((mark) => begun(said, mark))))).trim();
  };
  add("content", words(plain, isWhole || first >= 0));
  const message = /(.*?)<\|message\|>(.*?)(<\|(?:end|call|return|start)\|>|$)/sy;
  message.lastIndex = first < 0 ? text.length : first;
  for (let found: RegExpExecArray | null; message.lastIndex < text.length && (found = message.exec(text)); ) {
    const [, head = "", body = "", end = ""] = found;
    const isComplete = end !== "" || isWhole;
    const said = words(body, isComplete);
    const name = /\bto=functions\.([\w.-]+)/.exec(head)?.[1];
    const channel = /<\|channel\|>\s*(\w*)/.exec(head)?.[1];
    if (name !== undefined && Object.hasOwn(tools, name)) {
      if (said || isComplete) parts.calls.push({ name, arguments: escaped(said) || "{}", end: isComplete ? message.lastIndex : -1 });
    } else add(channel === "analysis" || /\bto=/.test(head) ? "reasoning" : "content", said);
    if (end === "") break;
  }
  return parts;
}

/** @param text with special tokens */
export function readAnswer(text: string, { tools, toolFormat, reasoningFormat, isOpen = false }: Reading, isWhole: boolean): Parts {
  if (reasoningFormat === "harmony") return readHarmony(text, tools, isWhole);
  const [reasoning, rest] = splitThought(text, reasoningFormat ?? "think", isOpen, isWhole);
  const isCalling = toolFormat && toolFormat !== "harmony";
  return { reasoning, ...(isCalling ? readCalls(rest, toolFormat, tools, isWhole) : { content: rest, calls: [] }) };
}

/** Returns true if the chat template begins a thought, in which the answer goes on. */
export async function endsInThought(engine: Engine, messages: readonly Message[], options: GenerateOptions) {
  const { tools, documents, chat_template_kwargs, continue_final_message, add_generation_prompt } = options;
  const ids = await engine.tokenize(messages, { tools, documents, chat_template_kwargs, continue_final_message, add_generation_prompt });
  return /<think>\s*$/.test(await engine.detokenize(ids.slice(-8), { skip_special_tokens: false }));
}

/** Returns an id in the form that Mistral's templates require. */
const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(9)), (byte) => (byte % 36).toString(36)).join("");

/** Reads an answer piece by piece, and returns the changes. */
export class AnswerReader {
  #text = "";
  #lengths = { reasoning: 0, content: 0 };
  calls: ToolCall[] = [];

  declare reading;

  constructor(reading: Reading) {
    this.reading = reading;
  }

  read(piece: string, isWhole: boolean = false): { reasoning_content?: string; content?: string; tool_calls?: ToolCallDelta[] }[] {
    const { calls, ...texts } = readAnswer((this.#text += piece), this.reading, isWhole);
    const deltas = [];
    for (const key of ["reasoning", "content"] as const) {
      const more = texts[key].slice(this.#lengths[key]);
      if (more) deltas.push({ [key === "content" ? key : "reasoning_content"]: more });
      this.#lengths[key] += more.length;
    }
    for (const [index, { name, arguments: now }] of calls.slice(0, this.reading.most).entries()) {
      const known = this.calls[index];
      if (!known) {
        const call = { id: newId(), type: "function" as const, function: { name, arguments: now } };
        this.calls.push(call);
        deltas.push({ tool_calls: [{ index, ...call, function: { ...call.function } }] });
      } else if (now.length > known.function.arguments.length) {
        const more = now.slice(known.function.arguments.length);
        known.function.arguments = now;
        deltas.push({ tool_calls: [{ index, function: { arguments: more } }] });
      }
    }
    return deltas;
  }
}
