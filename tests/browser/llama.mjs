// Models that are not on disk: a server generates the weights while it sends them.
import { readFileSync } from "node:fs";
import { header, renamed, sizes } from "./gguf.mjs";

const tokenizer = readFileSync(new URL("../../models/tales/draft/tokenizer.json", import.meta.url));
/** Bytes that are repeated. */
const BLOCK = 1 << 20;

/**
 * @typedef {{ hidden_size: number, vocab_size: number, num_hidden_layers: number, heads: number, head_dim: number, intermediate_size: number, max_position_embeddings?: number }} Shape
 * @typedef {{ answer: Function, served: Map<string, number> }} Served a fault for the harness, and the bytes served by file
 */

/** The `config.json` of a Llama. @param {Shape} shape */
function configured({ heads, max_position_embeddings = 256, ...shape }) {
  return {
    architectures: ["LlamaForCausalLM"],
    model_type: "llama",
    ...shape,
    num_attention_heads: heads,
    num_key_value_heads: heads,
    max_position_embeddings,
    hidden_act: "silu",
    rms_norm_eps: 1e-5,
    rope_theta: 10000,
    tie_word_embeddings: false,
    eos_token_id: 0,
  };
}

/** The tensors of a model without its head. @param {Shape} shape @returns {[name: string, shape: number[]][]} */
function listed({ hidden_size, vocab_size, num_hidden_layers, heads, head_dim, intermediate_size }) {
  const q = heads * head_dim;
  const tensors = [
    ["model.embed_tokens.weight", [vocab_size, hidden_size]],
    ["model.norm.weight", [hidden_size]],
  ];
  for (let layer = 0; layer < num_hidden_layers; layer++) {
    const add = (name, shape) => tensors.push([`model.layers.${layer}.${name}.weight`, shape]);
    add("input_layernorm", [hidden_size]);
    add("post_attention_layernorm", [hidden_size]);
    add("self_attn.q_proj", [q, hidden_size]);
    add("self_attn.k_proj", [q, hidden_size]);
    add("self_attn.v_proj", [q, hidden_size]);
    add("self_attn.o_proj", [hidden_size, q]);
    add("mlp.gate_proj", [intermediate_size, hidden_size]);
    add("mlp.up_proj", [intermediate_size, hidden_size]);
    add("mlp.down_proj", [hidden_size, intermediate_size]);
  }
  return tensors;
}

/** A folder whose f32 weights are all the same number. @param {Shape} shape @param {number} [value] that number */
export function synthetic(shape, value = 0.01) {
  let end = 0;
  const tensors = [...listed(shape), ["lm_head.weight", [shape.vocab_size, shape.hidden_size]]];
  const places = tensors.map(([name, shape]) => {
    const begin = end;
    end += 4 * shape.reduce((a, b) => a * b);
    return [name, { dtype: "F32", shape, data_offsets: [begin, end] }];
  });
  let json = JSON.stringify(Object.fromEntries(places));
  // A multiple of 8, so that whole floats follow each other from it on.
  json = json.padEnd(Math.ceil(json.length / 8) * 8);
  const head = Buffer.concat([Buffer.alloc(8), Buffer.from(json)]);
  head.writeBigUInt64LE(BigInt(json.length));
  const block = Buffer.from(new Float32Array(BLOCK / 4).fill(value).buffer);
  return serve({
    "config.json": { head: Buffer.from(JSON.stringify(configured(shape))) },
    "tokenizer.json": { head: tokenizer },
    "model.safetensors": { head, block, end },
  });
}

/** A GGUF file in the types that llama.cpp mixes as Q4_K_M, whose weights are zero. @param {Shape} shape */
export function quantised(shape) {
  const layers = shape.num_hidden_layers;
  const eighth = Math.floor(layers / 8);
  // The first and the last eighth, and each third between them.
  const finer = (layer) => layer < eighth || layer >= layers - eighth || (layer - eighth) % 3 === 2;
  const type = (name, { length }) => {
    const [, layer, part] = /^(?:blk\.(\d+)\.)?(\w+)/.exec(name);
    if (length === 1) return "F32";
    return part === "token_embd" || (["attn_v", "ffn_down"].includes(part) && finer(Number(layer))) ? "Q6_K" : "Q4_K";
  };
  const tensors = listed(shape).map(([name, shape]) => [renamed(name), shape, type(renamed(name), shape)]);
  const { vocab, merges } = JSON.parse(tokenizer).model;
  const metadata = {
    ...sizes(configured(shape)),
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "gpt-2",
    "tokenizer.ggml.tokens": Object.keys(vocab).sort((a, b) => vocab[a] - vocab[b]),
    "tokenizer.ggml.merges": merges.map((pair) => pair.join(" ")),
    "tokenizer.ggml.eos_token_id": 0,
  };
  const { head, end } = header(metadata, tensors);
  return serve({ "model-Q4_K_M.gguf": { head, block: Buffer.alloc(BLOCK), end } });
}

/**
 * Serves files: each a head, and then `end` bytes of a block that is repeated.
 * @param {Record<string, { head: Buffer, block?: Buffer, end?: number }>} files
 * @returns {Served}
 */
function serve(files) {
  /** @type {Map<string, number>} */
  const served = new Map();

  function* bytes({ head, block }, start, end) {
    if (start < head.length) yield head.subarray(start, Math.min(end, head.length));
    for (let at = Math.max(start, head.length); at < end; ) {
      const offset = (at - head.length) % block.length;
      const part = block.subarray(offset, Math.min(block.length, offset + end - at));
      yield part;
      at += part.length;
    }
  }

  async function answer(request, response, rest) {
    const file = rest.at(-1);
    const found = Object.hasOwn(files, file) && files[file];
    if (!found) return response.writeHead(404).end();
    const length = found.head.length + (found.end ?? 0);
    const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "");
    const start = range ? Number(range[1]) : 0;
    const end = range ? Math.min(Number(range[2]) + 1, length) : length;
    served.set(file, (served.get(file) ?? 0) + end - start);
    response.writeHead(range ? 206 : 200, {
      "Content-Type": "application/octet-stream",
      "Content-Length": end - start,
      ETag: '"synthetic"',
      ...(range && { "Content-Range": `bytes ${start}-${end - 1}/${length}` }),
    });
    for (const part of bytes(found, start, end)) {
      if (!response.write(part)) await new Promise((resolve) => response.once("drain", resolve).once("close", resolve));
      if (response.destroyed) return;
    }
    response.end();
  }
  return { answer, served };
}
