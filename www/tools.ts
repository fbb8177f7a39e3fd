/** Tool calls: formats of models, and grammars of calls that a request requires. */
import { badOption } from "./error.js";
import type { Engine } from "./engine.js";

/**
 * How the model's chat template writes calls:
 * `hermes` (Qwen, SmolLM, Hermes) `<tool_call>{"name", "arguments"}</tool_call>`; `xml` (Qwen3.5, Qwen3-Coder)
 * `<tool_call><function=name><parameter=key>value</parameter></function></tool_call>`; `llama` `{"name", "parameters"}`, with or without
 * `<|python_tag|>`; `mistral` `[TOOL_CALLS][{"name", "arguments"}]`; `mistral_args`, of its later models, `[TOOL_CALLS]name[ARGS]{}`;
 * `gemma` (FunctionGemma) `<start_function_call>call:name{key:<escape>text<escape>}<end_function_call>`; `gemma4` the same with other marks,
 * `<|tool_call>call:name{key:<|"|>text<|"|>}<tool_call|>`; `lfm2` `<|tool_call_start|>[name(key="text")]<|tool_call_end|>`, or JSON in it;
 * `harmony` (gpt-oss) a message `<|channel|>commentary to=functions.name <|constrain|>json<|message|>{}`.
 */
export type ToolFormat = "hermes" | "xml" | "llama" | "mistral" | "mistral_args" | "gemma" | "gemma4" | "lfm2" | "harmony";

/** `arguments` are JSON */
export type ToolCall = { id: string; type: "function"; function: { name: string; arguments: string } };

export type ToolCallDelta = { index: number; id?: string; type?: "function"; function: { name?: string; arguments: string } };

/** `type`: `function` */
export type Tool = { type: string; function: { name: string; description?: string; parameters?: object; strict?: boolean | null } };

export type ToolChoice = "none" | "auto" | "required" | { type: "function"; function: { name: string } };

/** A call that may be incomplete. */
export type Call = {
  name?: string;
  /** JSON, or its beginning */
  arguments: string;
  /** Position after the call; -1 if the call is incomplete. */
  end: number;
};

/** Tools that may be called: their names, and schemas of their parameters. */
export type Callable = Record<string, any>;

type Format = { open: string; close: string; isBare?: true; read: (text: string, from: number, tools: Callable) => Call | null };

/** Formats whose calls are between marks in a text. */
export const FORMATS: Record<Exclude<ToolFormat, "harmony">, Format> = {
  hermes: { open: "<tool_call>", close: "</tool_call>", read: readJson },
  xml: { open: "<tool_call>", close: "</tool_call>", read: readXml },
  llama: { open: "<|python_tag|>", close: "", isBare: true, read: readJson },
  mistral: { open: "[TOOL_CALLS]", close: "]", read: (text, from) => readJson(text, skip(text, from, /\s*\[?/y)) },
  mistral_args: { open: "[TOOL_CALLS]", close: "", read: readNamed },
  gemma: { open: "<start_function_call>", close: "<end_function_call>", read: (text, from) => readGemma(text, from, "gemma") },
  gemma4: { open: "<|tool_call>", close: "<tool_call|>", read: (text, from) => readGemma(text, from, "gemma4") },
  lfm2: { open: "<|tool_call_start|>", close: "]<|tool_call_end|>", read: readLfm },
};

/** Marks around texts in the formats of Gemma. */
const QUOTES = { gemma: "<escape>", gemma4: '<|"|>' };

/** Returns the position after a match of a sticky pattern. */
export function skip(text: string, from: number, pattern: RegExp): number {
  pattern.lastIndex = from;
  return from + (pattern.exec(text)?.[0].length ?? 0);
}

/** Returns the end of the JSON value that begins there; -1 if it is cut off. */
function endOfValue(text: string, from: number) {
  let depth = 0;
  const pattern = /"(?:[^"\\]|\\.)*"|[[{]|[\]}]|[^\s"[\]{},:]+|[\s,:]+|"/gsy;
  pattern.lastIndex = from;
  for (let token: RegExpExecArray | null; (token = pattern.exec(text)); ) {
    const [piece] = token;
    if (piece === '"') return -1;
    if (/[[{]/.test(piece) && piece.length === 1) depth += 1;
    else if (/[\]}]/.test(piece) && piece.length === 1) depth -= 1;
    // A number at the end may continue.
    if (depth <= 0 && !/^[\s,:]/.test(piece)) return pattern.lastIndex < text.length || /["\]}]$/.test(piece) ? pattern.lastIndex : -1;
  }
  return -1;
}

/** `{"name": ..., "arguments": ...}`, or `"parameters"`. */
function readJson(text: string, from: number): Call | null {
  let at = skip(text, from, /\s*/y);
  if (at === text.length) return { arguments: "", end: -1 };
  if (text[at] !== "{") return null;
  const call: Call = { arguments: "", end: -1 };
  at += 1;
  for (;;) {
    const start = skip(text, at, /[\s,]*/y);
    if (text[start] === "}") return { ...call, arguments: call.arguments || "{}", end: start + 1 };
    const key = endOfValue(text, start);
    if (key < 0) return call;
    const value = skip(text, key, /\s*:\s*/y);
    if (value === key && skip(text, key, /\s*/y) < text.length) return call.arguments ? { ...call, end: start } : null;
    const end = endOfValue(text, value);
    const name = text.slice(start + 1, key - 1);
    const json = text.slice(value, end < 0 ? text.length : end);
    if (name === "arguments" || name === "parameters") {
      if (json.startsWith("{")) call.arguments = json;
      // Some models write arguments as a string of JSON.
      else if (end > 0) call.arguments = json.startsWith('"') ? (parsed(json) ?? "") : "";
    }
    if (end < 0) return call;
    if (name === "name") call.name = parsed(json);
    at = end;
  }
}

/** Escapes control characters in the strings of JSON, or of its beginning: small models write plain line breaks. */
export const escaped = (json: string) =>
  json.replace(/"(?:[^"\\]|\\.)*\\?(?:"|$)/gs, (string) =>
    // A backslash before one becomes part of its escape, because it may have been streamed already.
    string.replace(/\\?./gs, (one) => (one.slice(-1) < " " ? JSON.stringify(one.slice(-1)).slice(1, -1) : one)),
  );

function parsed(json: string) {
  try {
    return JSON.parse(escaped(json));
  } catch {
    return undefined;
  }
}

/** `<function=name><parameter=key>value</parameter></function>`. */
function readXml(text: string, from: number, tools: Callable): Call | null {
  let at = skip(text, from, /\s*/y);
  if (text[at] === "{") return readJson(text, at);
  const head = /<function=([\w.-]+)>\s*/y;
  head.lastIndex = at;
  const name = head.exec(text)?.[1];
  const begin = text.slice(at);
  if (!name) return "<function=".startsWith(begin) || /^<function=[\w.-]*$/.test(begin) ? { arguments: "", end: -1 } : null;
  const call: Call = { name, arguments: "", end: -1 };
  const parameter = /<parameter=([^<>]+)>\n?(.*?)\n?<\/parameter>\s*/sy;
  at = head.lastIndex;
  for (;;) {
    parameter.lastIndex = at;
    const found = parameter.exec(text);
    if (!found) break;
    const [all, key = "", value = ""] = found;
    call.arguments += `${call.arguments ? ", " : "{"}${JSON.stringify(key)}: ${jsonOf(value, tools[name]?.properties?.[key])}`;
    at += all.length;
  }
  const end = skip(text, at, /<\/function>/y);
  const rest = text.slice(at);
  const isCut = ["</function>", "<parameter="].some((mark) => mark.startsWith(rest)) || rest.startsWith("<parameter=");
  // Only what was begun is a call, and the next text may continue it.
  if (end === at && isCut) return call;
  return end > at || call.arguments ? { ...call, arguments: `${call.arguments || "{"}}`, end } : null;
}

/** Returns the JSON of a value that is written without quotes. The schema decides whether it is a text. */
function jsonOf(value: string, schema: any): string {
  const json = LITERALS[value] ?? value;
  const isText = !schema || schema.type === "string" || schema.enum?.includes(value) || schema.const === value;
  return isText || parsed(json) === undefined ? JSON.stringify(value) : json;
}

/** `name[ARGS]{...}`, with or without a `[CALL_ID]`. */
function readNamed(text: string, from: number): Call | null {
  const head = /\s*([\w.-]+)(?:\[CALL_ID\]\w*)?(?:\[ARGS\])?\s*(?=\{)/y;
  head.lastIndex = from;
  const found = head.exec(text);
  if (!found) return /^\s*[\w.-]*(?:\[[\w[\]]*)?\s*$/.test(text.slice(from)) ? { arguments: "", end: -1 } : null;
  const end = endOfValue(text, head.lastIndex);
  return { name: found[1], arguments: text.slice(head.lastIndex, end < 0 ? text.length : end), end };
}

/** `call:name{key:<escape>text<escape>,other:1}`. */
function readGemma(text: string, from: number, format: keyof typeof QUOTES): Call | null {
  const head = /\s*call:\s*([\w.-]+)(?=\{)/y;
  head.lastIndex = from;
  const found = head.exec(text);
  if (!found) return /^\s*(?:c|ca|cal|call|call:\s*[\w.-]*)?$/.test(text.slice(from)) ? { arguments: "", end: -1 } : null;
  const close = text.indexOf(FORMATS[format].close, head.lastIndex);
  const raw = text.slice(head.lastIndex, close < 0 ? text.length : close).trimEnd();
  // Texts are between marks. The rest is JSON without quotes around keys.
  const json = raw
    .split(QUOTES[format])
    .map((part, i) => (i % 2 ? JSON.stringify(part) : part.replace(/([{,]\s*)([^\s:{}[\],"]+)\s*:/g, '$1"$2":')))
    .join("");
  if (parsed(json) === undefined) return close < 0 ? { name: found[1], arguments: "", end: -1 } : null;
  return { name: found[1], arguments: json, end: close < 0 ? -1 : close };
}

/** Literals of Python and their JSON. */
const LITERALS: Record<string, string> = { True: "true", False: "false", None: "null" };

/** `[name(key="text", other=1)`, or JSON. */
function readLfm(text: string, from: number): Call | null {
  const at = skip(text, from, /\s*\[?\s*/y);
  const incomplete = { arguments: "", end: -1 };
  if (at === text.length) return incomplete;
  if (text[at] === "{") return readJson(text, at);
  const open = skip(text, at, /[\w.-]+/y);
  if (open === at || (open < text.length && text[open] !== "(")) return null;
  const token = /\s*(?:("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|([\w.+-]+)\s*(=)?|([[\]{}(),:]))/gsy;
  token.lastIndex = open + 1;
  let [json, depth] = ["{", 0];
  const close = (sign: string) => (json = json.replace(/,$/, "") + sign);
  for (let piece: RegExpExecArray | null; (piece = token.exec(text)); ) {
    const [, string, word, isKey, sign] = piece;
    if (string) json += JSON.stringify(unquoted(string));
    else if (word) json += isKey ? `${JSON.stringify(word)}:` : (LITERALS[word] ?? word);
    else if (sign === "," || sign === ":") json += sign;
    else if ("[{(".includes(sign)) {
      json += sign === "{" ? sign : "[";
      depth += 1;
    } else if (depth > 0) {
      close(sign === "}" ? sign : "]");
      depth -= 1;
    } else {
      close("}");
      return sign === ")" && parsed(json) !== undefined ? { name: text.slice(at, open), arguments: json, end: token.lastIndex } : null;
    }
  }
  // Arguments are JSON only when they are complete.
  return incomplete;
}

/** Returns the text of a string literal of Python. */
const unquoted = (literal: string) => literal.slice(1, -1).replace(/\\(.)/gs, (_, one: string) => ({ n: "\n", t: "\t", r: "\r" })[one] ?? one);

/** Marks around calls, which are special tokens of many models. */
const MARKS: Record<ToolFormat, string[]> = {
  hermes: ["<tool_call>", "</tool_call>"],
  xml: ["<tool_call>", "</tool_call>"],
  llama: [],
  mistral: ["[TOOL_CALLS]"],
  mistral_args: ["[TOOL_CALLS]", "[ARGS]"],
  gemma: ["<start_function_call>", "<escape>", "<end_function_call>"],
  gemma4: ["<|tool_call>", '<|"|>', "<tool_call|>"],
  lfm2: ["<|tool_call_start|>", "<|tool_call_end|>"],
  harmony: ["<|channel|>", "<|constrain|>", "<|message|>"],
};

/** Marks as a grammar of this model has them: special tokens by their ids, others by their characters. */
type Marks = Record<string, string>;

export async function marksOf(engine: Pick<Engine, "toolFormat" | "tokenize" | "detokenize">): Promise<Marks> {
  const entries = (engine.toolFormat ? MARKS[engine.toolFormat] : []).map(async (text) => {
    const id = (await engine.tokenize(text)).at(-1) ?? -1;
    const [told, hidden] = id < 0 ? [] : await Promise.all([engine.detokenize([id], { skip_special_tokens: false }), engine.detokenize([id])]);
    return [text, told === text && hidden === "" ? `<[${id}]>` : JSON.stringify(text)];
  });
  return Object.fromEntries(await Promise.all(entries));
}

/** Returns how answers to a request are read and constrained; null if no tool may be called. @param marks for a required call */
export function calling(
  { tools, tool_choice: choice = "auto", parallel_tool_calls: isParallel = true }: { tools?: any; tool_choice?: any; parallel_tool_calls?: any },
  format: ToolFormat | null,
  marks: Marks = {},
) {
  const named = choice?.type === "function" ? choice.function?.name : undefined;
  if (!["none", "auto", "required"].includes(choice) && typeof named !== "string")
    throw badOption("tool_choice", choice, 'none, auto, required, or { type: "function", function: { name } }');
  if (tools === undefined || tools?.length === 0) {
    if (choice === "required" || named) throw badOption("tool_choice", choice, "none or auto without tools");
    return null;
  }
  const isTool = (tool: any) => tool?.type === "function" && typeof tool.function?.name === "string";
  if (!Array.isArray(tools) || !tools.every(isTool))
    throw badOption("tools", tools, 'a list of { type: "function", function: { name, description, parameters } }');
  const known: Callable = Object.fromEntries(tools.map(({ function: { name, parameters } }) => [name, parameters]));
  if (named && !Object.hasOwn(known, named)) throw badOption("tool_choice", named, Object.keys(known).join(", "));
  if (choice === "none") return null;
  if (choice === "auto") return format && { format, tools: known, most: isParallel ? Infinity : 1 };
  if (!format) throw badOption("tool_choice", choice, "auto: the model writes calls in an unknown way");
  const callable = tools.filter(({ function: { name } }) => !named || name === named);
  // A message of Harmony has one call.
  const grammar = mustCall(format, callable, isParallel && !named && format !== "harmony", (text) => marks[text] ?? JSON.stringify(text));
  return { format, tools: known, most: Infinity, response_format: { type: "grammar" as const, grammar } };
}

/** Usual spaces in JSON. */
const SPACING = { item_separator: ", ", key_separator: ": ", whitespace_flexible: false };
const json = (schema: object) => `%json ${JSON.stringify({ ...schema, "x-guidance": SPACING })}`;

/** Moves the references of a schema to another root. @param isMap the keys are names, not keywords */
function below(root: string, schema: any, isMap: boolean = false): any {
  if (Array.isArray(schema)) return schema.map((each) => below(root, each));
  if (typeof schema !== "object" || schema === null) return schema;
  const entries = Object.entries(schema).map(([key, value]) => {
    if (!isMap && key === "$ref" && typeof value === "string") return [key, value.replace(/^#(?=\/|$)/, root)];
    if (!isMap && ["const", "enum", "default", "examples"].includes(key)) return [key, value];
    return [key, below(root, value, !isMap && ["properties", "patternProperties", "$defs", "definitions"].includes(key))];
  });
  return Object.fromEntries(entries);
}

/** Returns the grammar of one call or several, in llguidance's Lark. */
function mustCall(format: ToolFormat, tools: readonly Tool[], several: boolean, mark: (text: string) => string) {
  const key = format === "llama" ? "parameters" : "arguments";
  const rules: string[] = [];
  const calls = tools.map(({ function: { name, parameters = {} } }) => {
    if (format === "mistral_args") return `${JSON.stringify(name)} ${mark("[ARGS]")} ${json({ type: "object", ...parameters })}`;
    if (format === "harmony") {
      const head = [mark("<|channel|>"), JSON.stringify(`commentary to=functions.${name} `), mark("<|constrain|>"), '"json"', mark("<|message|>")];
      return [...head, json({ type: "object", ...parameters })].join(" ");
    }
    if (format === "gemma" || format === "gemma4")
      return `${JSON.stringify(`call:${name}`)} ${gemmaValue({ type: "object", ...parameters }, mark(QUOTES[format]), rules)}`;
    if (format === "xml") return xmlCall(name, parameters, rules);
    const properties = { name: { const: name }, [key]: below(`#/properties/${key}`, { type: "object", ...parameters }) };
    return json({ type: "object", properties, required: ["name", key], additionalProperties: false });
  });
  const any = `(${calls.map((_, i) => `call_${i}`).join(" | ")})`;
  const [before, one, between, after] = {
    hermes: ["", `${mark("<tool_call>")} "\\n" ${any} "\\n" ${mark("</tool_call>")}`, '"\\n"', ""],
    xml: ["", `${mark("<tool_call>")} "\\n" ${any} "\\n" ${mark("</tool_call>")}`, '"\\n"', ""],
    llama: ["", any, '"; "', ""],
    mistral: [`${mark("[TOOL_CALLS]")} "["`, any, '", "', '"]"'],
    mistral_args: ["", `${mark("[TOOL_CALLS]")} ${any}`, "", ""],
    gemma: ["", `${mark("<start_function_call>")} ${any} ${mark("<end_function_call>")}`, "", ""],
    gemma4: ["", `${mark("<|tool_call>")} ${any} ${mark("<tool_call|>")}`, "", ""],
    lfm2: [`${mark("<|tool_call_start|>")} "["`, any, '", "', `"]" ${mark("<|tool_call_end|>")}`],
    harmony: ["", any, "", ""],
  }[format];
  return [`start: ${before} one ${several ? `(${between} one)*` : ""} ${after}`, `one: ${one}`, ...calls.map((call, i) => `call_${i}: ${call}`), ...rules].join(
    "\n",
  );
}

/** Returns the grammar of a call in XML. Texts are written as they are, other values as JSON. @param rules of the grammar, to which more are added */
function xmlCall(name: string, { properties = {}, required = [], $defs, definitions }: any, rules: string[]): string {
  const fields = Object.entries<any>(properties).map(([key, schema]) => {
    const isText = schema?.type === "string" || schema?.const !== undefined || schema?.enum;
    const value = isText ? gemmaValue(schema, "", rules) : json({ ...schema, $defs, definitions });
    const rule = `field_${rules.length}`;
    rules.push(`${rule}: ${JSON.stringify(`<parameter=${key}>\n`)} ${value} ${JSON.stringify("\n</parameter>\n")}`);
    return required.includes(key) ? rule : `${rule}?`;
  });
  return [JSON.stringify(`<function=${name}>\n`), ...fields, '"</function>"'].join(" ");
}

/** Keywords of JSON Schema that do not restrict a value. */
const ANNOTATIONS = ["type", "title", "description", "default", "examples", "$schema", "additionalProperties"];
/** Keywords that are supported for values in another notation than JSON. */
const COVERED: Record<string, string[]> = { string: ["minLength", "maxLength"], array: ["items"], object: ["properties", "required"] };

/**
 * Returns the grammar of a value in Gemma's notation: texts between marks, keys without quotes and in alphabetical order.
 * @param rules of the grammar, to which more are added
 */
function gemmaValue(schema: any, mark: string, rules: string[]): string {
  if (typeof schema !== "object" || schema === null) throw badOption("tools", schema, "schemas that are objects");
  const either = (parts: string[]) => `(${parts.join(" | ")})`;
  const text = (value: any) => (typeof value === "string" ? `${mark} ${JSON.stringify(value)} ${mark}` : JSON.stringify(JSON.stringify(value)));
  if ("const" in schema) return text(schema.const);
  if (schema.enum) return either(schema.enum.map(text));
  if (Array.isArray(schema.type)) return either(schema.type.map((type: string) => gemmaValue({ ...schema, type }, mark, rules)));
  const { type, minLength = 0, maxLength = "", items, properties = {}, required = [] } = schema;
  if (["number", "integer", "boolean", "null"].includes(type)) return json(schema);
  const unknown = Object.keys(schema).find((key) => ![...ANNOTATIONS, ...(COVERED[type] ?? [])].includes(key));
  if (unknown || !(type in COVERED))
    throw badOption(
      "tools",
      `JSON Schema's ${unknown ?? "type"}`,
      "what this model can be made to write: types, enum, const, minLength, maxLength, items, properties, required",
    );
  if (type === "string") return `${mark} /[^<]{${Math.max(1, minLength)},${maxLength}}/${minLength ? "" : "?"} ${mark}`;
  if (type === "array") {
    const item = gemmaValue(items ?? { type: "string" }, mark, rules);
    return `"[" (${item} ("," ${item})*)? "]"`;
  }
  const fields = Object.keys(properties)
    .sort()
    .map((name) => {
      const value = gemmaValue(properties[name], mark, rules);
      const rule = `field_${rules.length}`;
      rules.push(`${rule}: ${JSON.stringify(`${name}:`)} ${value}`);
      return { rule, isRequired: required.includes(name) };
    });
  // No comma before the first key.
  const last = fields.findIndex(({ isRequired }) => isRequired);
  const lists = (last < 0 ? fields : fields.slice(0, last + 1)).map(({ rule }, i) =>
    [rule, ...fields.slice(i + 1).map(({ rule, isRequired }) => `("," ${rule})${isRequired ? "" : "?"}`)].join(" "),
  );
  return lists.length ? `"{" ${either(lists)}${last < 0 ? "?" : ""} "}"` : '"{}"';
}
