/** An engine as a language model of the AI SDK (https://ai-sdk.dev), after version 4 of its specification. */
import { badOption } from "./error.js";
import type {
  JSONObject,
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4Content,
  LanguageModelV4Message,
  LanguageModelV4StreamPart,
  LanguageModelV4ToolResultOutput,
  LanguageModelV4Usage,
  SharedV4Warning,
} from "@ai-sdk/provider";
import type { Message } from "./api.js";
import type { ChatCompletionChunk, ChatRequest, CompletionUsage } from "./chat.js";
import type { Engine } from "./engine.js";

/**
 * Returns a model for `generateText`, `streamText` and others. Options of the engine are in
 * `providerOptions: { foretoken: { drafter: "lookup" } }`. Unsupported options are omitted, with a warning of the call.
 * @param modelId name of the model in telemetry
 */
export function languageModel(engine: Engine | PromiseLike<Engine>, modelId: string = "foretoken"): LanguageModelV4 {
  return {
    specificationVersion: "v4",
    provider: "foretoken",
    modelId,
    supportedUrls: {},

    async doGenerate(options) {
      const content: LanguageModelV4Content[] = [];
      let finish: any;
      let text = "";
      const { warnings, parts } = await begin(await engine, options);
      for await (const part of parts) {
        if (part.type === "text-delta" || part.type === "reasoning-delta") text += part.delta;
        const ended = part.type === "text-end" ? "text" : part.type === "reasoning-end" ? "reasoning" : undefined;
        if (ended) content.push({ type: ended, text });
        if (ended) text = "";
        if (part.type === "tool-call") content.push(part);
        if (part.type === "finish") finish = part;
      }
      const { finishReason, usage } = finish;
      return { content, finishReason, usage, warnings };
    },

    async doStream(options) {
      const { warnings, parts, stop } = await begin(await engine, options);
      const stream = new ReadableStream({
        start: (controller) => controller.enqueue({ type: "stream-start", warnings }),
        async pull(controller) {
          try {
            const { done, value } = await parts.next();
            if (done) controller.close();
            else controller.enqueue(value);
          } catch (error) {
            if (options.abortSignal?.aborted) throw error;
            controller.enqueue({ type: "error", error });
            controller.close();
          }
        },
        // An unread generator ends without its `finally`.
        cancel: () => parts.return().then(stop),
      });
      return { stream };
    },
  };
}

/** Options that may be unsupported: the engine's names and the SDK's. */
const OPTIONAL: Record<string, string> = {
  response_format: "responseFormat",
  presence_penalty: "presencePenalty",
  frequency_penalty: "frequencyPenalty",
  tools: "tools",
  tool_choice: "toolChoice",
};

/** Begins an answer. Omits refused options, as the specification requires. */
async function begin(engine: Engine, options: LanguageModelV4CallOptions) {
  const { abortSignal: signal } = options;
  const { body, warnings } = asked(options);
  for (;;) {
    try {
      const request = body as ChatRequest & { stream: true };
      const chunks = (await engine.chat.completions.create(request, { signal }))[Symbol.asyncIterator]();
      // The second chunk shows that the engine has begun.
      await chunks.next();
      return { warnings, parts: answer(chunks, await chunks.next(), signal), stop: async () => void (await chunks.return?.()) };
    } catch (error) {
      const option = String(error.detail?.option);
      if (error.code !== "bad-option" || !OPTIONAL[option] || !(option in body)) throw reason(error, signal);
      delete body[option];
      if (option === "tools") delete body.tool_choice;
      warnings.push({ type: "unsupported", feature: OPTIONAL[option], details: error.message });
    }
  }
}

function asked(options: LanguageModelV4CallOptions) {
  const { prompt, tools, toolChoice, reasoning = "provider-default", responseFormat, providerOptions } = options;
  const warnings: SharedV4Warning[] = [];
  const unsupported = (feature: string, details: string) => warnings.push({ type: "unsupported", feature, details });
  const functions = tools?.flatMap((tool) => {
    if (tool.type === "function")
      return [{ type: "function", function: given({ name: tool.name, description: tool.description, parameters: tool.inputSchema, strict: tool.strict }) }];
    unsupported(`tool ${tool.id}`, "only functions of the app can be called");
    return [];
  });
  if (reasoning !== "provider-default") unsupported("reasoning", "give the chat template's own variable as providerOptions.foretoken.chat_template_kwargs");
  const { name = "answer", description, schema } = responseFormat?.type === "json" ? responseFormat : {};
  const json = schema ? { type: "json_schema", json_schema: given({ name, description, schema, strict: true }) } : { type: "json_object" };
  const body = given({
    messages: prompt.flatMap(messages),
    max_tokens: options.maxOutputTokens,
    temperature: options.temperature,
    top_p: options.topP,
    top_k: options.topK,
    seed: options.seed,
    stop: options.stopSequences,
    presence_penalty: options.presencePenalty,
    frequency_penalty: options.frequencyPenalty,
    response_format: responseFormat?.type === "json" ? json : undefined,
    ...(functions?.length && {
      tools: functions,
      tool_choice: toolChoice?.type === "tool" ? { type: "function", function: { name: toolChoice.toolName } } : toolChoice?.type,
    }),
    ...providerOptions?.foretoken,
    stream: true,
    stream_options: { include_usage: true },
  });
  return { body, warnings };
}

/** Removes undefined fields. */
const given = (object: object): Record<string, any> => Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));

function textOf(parts: readonly { type: string; text?: string }[]) {
  for (const { type } of parts) if (type !== "text") throw badOption("prompt", type, "text");
  return parts.map(({ text }) => text).join("");
}

/** Returns the messages for the chat template: each tool result is a message of its own. */
function messages(message: LanguageModelV4Message): Message[] {
  const { role, content } = message;
  if (role === "system") return [{ role, content }];
  if (role === "user") return [{ role, content: textOf(content) }];
  if (role === "tool") {
    return content.flatMap((part) =>
      part.type === "tool-result" ? [{ role, tool_call_id: part.toolCallId, name: part.toolName, content: inText(part.output) }] : [],
    );
  }
  // The chat template omits earlier thoughts that the model should not see again.
  const reasoning_content = content.flatMap((part) => (part.type === "reasoning" ? part.text : [])).join("");
  const said = content.filter(({ type }) => type !== "reasoning" && type !== "tool-call");
  const tool_calls = content.flatMap((part) =>
    part.type === "tool-call" ? [{ id: part.toolCallId, type: "function", function: { name: part.toolName, arguments: part.input } }] : [],
  );
  return [{ role, content: textOf(said as any), ...(reasoning_content && { reasoning_content }), ...(tool_calls.length && { tool_calls }) }];
}

function inText(output: LanguageModelV4ToolResultOutput) {
  if (output.type === "content") return textOf(output.value);
  if (output.type === "execution-denied") return output.reason ?? "execution denied";
  return typeof output.value === "string" ? output.value : JSON.stringify(output.value);
}

async function* answer(
  chunks: AsyncIterator<ChatCompletionChunk>,
  first: IteratorResult<ChatCompletionChunk>,
  signal: AbortSignal | undefined,
): AsyncGenerator<LanguageModelV4StreamPart, void> {
  let block: Block | null = null;
  let [raw, texts] = ["other", 0];
  let used: CompletionUsage | undefined;
  try {
    for (let next = first; !next.done; next = await chunks.next()) {
      const {
        choices: [choice],
        usage,
      } = next.value;
      const { content, reasoning_content, tool_calls = [] }: Partial<ChatCompletionChunk["choices"][number]["delta"]> = choice?.delta ?? {};
      const words = [
        ["reasoning", reasoning_content],
        ["text", content],
      ] as const;
      for (const [kind, more] of words) {
        if (!more) continue;
        if (block?.kind !== kind) {
          yield* block?.end() ?? [];
          yield (block = new Block(kind, String(texts++))).begin();
        }
        yield block.write(more);
      }
      for (const { id, function: called } of tool_calls) {
        if (id !== undefined) {
          yield* block?.end() ?? [];
          yield (block = new Block("tool-input", id, called.name ?? "")).begin();
        }
        if (block && called.arguments) yield block.write(called.arguments);
      }
      raw = choice?.finish_reason ?? raw;
      used = usage;
    }
    yield* block?.end() ?? [];
    const unified = raw.replace("_", "-") as "stop" | "length" | "tool-calls";
    yield { type: "finish", finishReason: { unified, raw }, usage: tokens(used) };
  } catch (error) {
    throw reason(error, signal);
  } finally {
    await chunks.return?.();
  }
}

/** A text, a thought, or a call of a tool, while it is written. */
class Block {
  #written = "";

  declare id: string;
  declare toolName: string | undefined;
  declare kind: "text" | "reasoning" | "tool-input";

  constructor(kind: "text" | "reasoning" | "tool-input", id: string, toolName?: string) {
    this.id = id;
    this.toolName = toolName;
    this.kind = kind;
  }

  begin() {
    return this.#part("start", this.toolName === undefined ? {} : { toolName: this.toolName });
  }

  write(delta: string) {
    this.#written += delta;
    return this.#part("delta", { delta });
  }

  end(): LanguageModelV4StreamPart[] {
    const { id, toolName } = this;
    const end = this.#part("end", {});
    return toolName === undefined ? [end] : [end, { type: "tool-call", toolCallId: id, toolName, input: this.#written }];
  }

  #part(what: string, more: object): LanguageModelV4StreamPart {
    return { type: `${this.kind}-${what}`, id: this.id, ...more } as any;
  }
}

/** Returns the signal's reason after an abort, because the SDK recognises an abort by it. */
const reason = (error: any, signal: AbortSignal | undefined) => (error.code === "aborted" && signal?.aborted ? signal.reason : error);

function tokens(usage: CompletionUsage | undefined): LanguageModelV4Usage {
  const { prompt_tokens: total, completion_tokens: written } = usage ?? {};
  const cacheRead = usage?.prompt_tokens_details.cached_tokens;
  return {
    inputTokens: { total, noCache: total === undefined ? undefined : total - (cacheRead ?? 0), cacheRead, cacheWrite: undefined },
    outputTokens: { total: written, text: written, reasoning: undefined },
    raw: usage as unknown as JSONObject | undefined,
  };
}
