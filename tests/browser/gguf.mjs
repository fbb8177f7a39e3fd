// GGUF files without llama.cpp: their headers, and a folder's model as its converter writes it.
import { readFileSync } from "node:fs";

const U32 = 4;
const I32 = 5;
const F32 = 6;
const BOOL = 7;
const TEXT = 8;
const ARRAY = 9;
const ALIGNMENT = 32;
/** Types of tensors: number, elements and bytes of a block. */
const TYPES = { F32: [0, 1, 4], F16: [1, 1, 2], Q4_K: [12, 256, 144], Q6_K: [14, 256, 210] };

const number = (method, size, value) => {
  const bytes = Buffer.alloc(size);
  bytes[method](value);
  return bytes;
};
const u32 = (value) => number("writeUInt32LE", 4, value);
const u64 = (value) => number("writeBigUInt64LE", 8, BigInt(value));
const text = (value) => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)]);

/** A value and its type in front; lists are of texts or of whole numbers. */
function typed(value) {
  if (typeof value === "boolean") return Buffer.from([BOOL, 0, 0, 0, value ? 1 : 0]);
  if (typeof value === "string") return Buffer.concat([u32(TEXT), text(value)]);
  if (typeof value === "number") {
    return Number.isInteger(value) ? Buffer.concat([u32(U32), u32(value)]) : Buffer.concat([u32(F32), number("writeFloatLE", 4, value)]);
  }
  const of = typeof value[0] === "string" ? [TEXT, text] : [I32, u32];
  return Buffer.concat([u32(ARRAY), u32(of[0]), u64(value.length), ...value.map(of[1])]);
}

/**
 * All of a file in front of its data, the bytes of each tensor's data, and how many follow until the next.
 * @param {Record<string, unknown>} metadata
 * @param {[name: string, shape: number[], type: keyof typeof TYPES][]} tensors with their rows first
 */
export function header(metadata, tensors) {
  let end = 0;
  const places = tensors.map(([name, shape, type]) => {
    const [kind, elements, bytes] = TYPES[type];
    const start = end;
    const length = (shape.reduce((a, b) => a * b) / elements) * bytes;
    end += Math.ceil(length / ALIGNMENT) * ALIGNMENT;
    return {
      length,
      padding: end - start - length,
      entry: Buffer.concat([text(name), u32(shape.length), ...shape.toReversed().map(u64), u32(kind), u64(start)]),
    };
  });
  const keys = Object.entries(metadata).map(([key, value]) => Buffer.concat([text(key), typed(value)]));
  const head = Buffer.concat([Buffer.from("GGUF"), u32(3), u64(tensors.length), u64(keys.length), ...keys, ...places.map(({ entry }) => entry)]);
  return { head: Buffer.concat([head, Buffer.alloc(-head.length & (ALIGNMENT - 1))]), places, end };
}

/** The sizes of a Llama in llama.cpp's words. @param {any} config its `config.json` */
export const sizes = (config) => ({
  "general.architecture": "llama",
  "llama.context_length": config.max_position_embeddings,
  "llama.block_count": config.num_hidden_layers,
  "llama.embedding_length": config.hidden_size,
  "llama.feed_forward_length": config.intermediate_size,
  "llama.attention.head_count": config.num_attention_heads,
  "llama.attention.head_count_kv": config.num_key_value_heads,
  "llama.attention.key_length": config.head_dim,
  "llama.attention.value_length": config.head_dim,
  "llama.attention.layer_norm_rms_epsilon": config.rms_norm_eps,
});

/** Names of a Llama's tensors in llama.cpp. */
const PARTS = {
  "model.embed_tokens": "token_embd",
  "model.norm": "output_norm",
  lm_head: "output",
  input_layernorm: "attn_norm",
  post_attention_layernorm: "ffn_norm",
  "self_attn.q_proj": "attn_q",
  "self_attn.k_proj": "attn_k",
  "self_attn.v_proj": "attn_v",
  "self_attn.o_proj": "attn_output",
  "mlp.gate_proj": "ffn_gate",
  "mlp.up_proj": "ffn_up",
  "mlp.down_proj": "ffn_down",
};
/** @param {string} name of a tensor, as Hugging Face calls it */
export function renamed(name) {
  const [, layer, part] = /^(?:model\.layers\.(\d+)\.)?(.*)\.weight$/.exec(name);
  return `${layer === undefined ? "" : `blk.${layer}.`}${PARTS[part]}.weight`;
}

/** Rows of q or k in llama.cpp's order: what rotates together stands together. */
function interleaved(bytes, rows, heads) {
  const [size, head] = [bytes.length / rows, rows / heads];
  const from = (row) => row - (row % head) + (row % 2) * (head / 2) + Math.floor((row % head) / 2);
  return Buffer.concat(Array.from({ length: rows }, (_, row) => bytes.subarray(from(row) * size, (from(row) + 1) * size)));
}

/** A folder's Llama in f16 with GPT-2's kind of tokenizer, as one file. @param {URL} folder */
export function converted(folder) {
  const read = (file) => readFileSync(new URL(file, folder));
  const [config, { model, added_tokens }, { chat_template }] = ["config.json", "tokenizer.json", "tokenizer_config.json"].map((file) => JSON.parse(read(file)));
  const tokens = Object.keys(model.vocab).sort((a, b) => model.vocab[a] - model.vocab[b]);
  const types = tokens.map(() => 1);
  for (const { id, special } of added_tokens) types[id] = special ? 3 : 4;
  const bytes = read("model.safetensors");
  const start = 8 + Number(bytes.readBigUInt64LE());
  const { __metadata__, ...entries } = JSON.parse(bytes.subarray(8, start));
  const tensors = Object.entries(entries).map(([name, { dtype, shape, data_offsets }]) => {
    const heads = { q: config.num_attention_heads, k: config.num_key_value_heads }[/\.([qk])_proj/.exec(name)?.[1]];
    const data = bytes.subarray(...data_offsets.map((at) => start + at));
    return { entry: [renamed(name), shape, dtype], data: heads ? interleaved(data, shape[0], heads) : data };
  });
  const metadata = {
    ...sizes(config),
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "gpt-2",
    "tokenizer.ggml.tokens": tokens,
    "tokenizer.ggml.token_type": types,
    "tokenizer.ggml.merges": model.merges.map((pair) => pair.join(" ")),
    "tokenizer.ggml.eos_token_id": added_tokens.find(({ content }) => content === "<|im_end|>").id,
    "tokenizer.chat_template": chat_template,
  };
  const { head, places } = header(
    metadata,
    tensors.map(({ entry }) => entry),
  );
  return Buffer.concat([head, ...tensors.flatMap(({ data }, i) => [data, Buffer.alloc(places[i].padding)])]);
}
