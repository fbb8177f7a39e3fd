// Models that nobody has on disk: a server that makes up the weights while it sends them.
import { readFileSync } from "node:fs";

const tokenizer = readFileSync(new URL("../../models/tales/draft/tokenizer.json", import.meta.url));

/**
 * A Llama whose f32 weights are all the same number.
 * @param {{ hidden_size: number, vocab_size: number, num_hidden_layers: number, heads: number, head_dim: number, intermediate_size: number, max_position_embeddings?: number }} shape
 * @param {number} [value] that number
 * @returns {{ answer: Function, served: Map<string, number> }} a fault for the harness, and the bytes served by file
 */
export function synthetic(shape, value = 0.01) {
  const { hidden_size, vocab_size, num_hidden_layers, heads, head_dim, intermediate_size, max_position_embeddings = 256 } = shape;
  const config = {
    architectures: ["LlamaForCausalLM"],
    model_type: "llama",
    hidden_size,
    vocab_size,
    num_hidden_layers,
    num_attention_heads: heads,
    num_key_value_heads: heads,
    head_dim,
    intermediate_size,
    max_position_embeddings,
    hidden_act: "silu",
    rms_norm_eps: 1e-5,
    rope_theta: 10000,
    tie_word_embeddings: false,
    eos_token_id: 0,
  };
  const q = heads * head_dim;
  const tensors = [
    ["model.embed_tokens.weight", [vocab_size, hidden_size]],
    ["lm_head.weight", [vocab_size, hidden_size]],
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
  let end = 0;
  const places = tensors.map(([name, shape]) => {
    const begin = end;
    end += 4 * shape.reduce((a, b) => a * b);
    return [name, { dtype: "F32", shape, data_offsets: [begin, end] }];
  });
  let header = JSON.stringify(Object.fromEntries(places));
  header = header.padEnd(Math.ceil(header.length / 8) * 8);
  const head = Buffer.concat([Buffer.alloc(8), Buffer.from(header)]);
  head.writeBigUInt64LE(BigInt(header.length));
  const block = Buffer.from(new Float32Array(1 << 18).fill(value).buffer);
  const files = {
    "config.json": Buffer.from(JSON.stringify(config)),
    "tokenizer.json": tokenizer,
    "model.safetensors": { length: head.length + end },
  };
  /** @type {Map<string, number>} */
  const served = new Map();

  function* bytes(file, start, end) {
    if (file !== "model.safetensors") return yield files[file].subarray(start, end);
    if (start < head.length) yield head.subarray(start, Math.min(end, head.length));
    for (let at = Math.max(start, head.length); at < end; ) {
      // The header is a multiple of 8, so whole floats follow each other from it on.
      const offset = (at - head.length) % 4;
      const part = block.subarray(offset, Math.min(block.length, offset + end - at));
      yield part;
      at += part.length;
    }
  }

  async function answer(request, response, rest) {
    const file = rest.at(-1);
    const found = Object.hasOwn(files, file) && files[file];
    if (!found) return response.writeHead(404).end();
    const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "");
    const start = range ? Number(range[1]) : 0;
    const end = range ? Math.min(Number(range[2]) + 1, found.length) : found.length;
    served.set(file, (served.get(file) ?? 0) + end - start);
    response.writeHead(range ? 206 : 200, {
      "Content-Type": "application/octet-stream",
      "Content-Length": end - start,
      ETag: '"synthetic"',
      ...(range && { "Content-Range": `bytes ${start}-${end - 1}/${found.length}` }),
    });
    for (const part of bytes(file, start, end)) {
      if (!response.write(part)) await new Promise((resolve) => response.once("drain", resolve).once("close", resolve));
      if (response.destroyed) return;
    }
    response.end();
  }
  return { answer, served };
}
