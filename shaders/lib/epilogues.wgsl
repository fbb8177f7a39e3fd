fn store_pair(row: u32, out: u32, a: f32, b: f32) -> f32 {
    var has_both = out + 1u < dims.first_out + dims.outs;
    var pair = vec2f(a, b);
    // The first row of logits goes to step.draft_row.
    var at = (y_row(row) + dims.head * step.draft_row) * dims.y_stride + out;
    var square = 0.0;
    if (dims.epilogue != STORE) {
        let at = first_bias() + out;
        pair += vec2f(bias[at], bias[at + 1u]);
    }
    switch dims.epilogue {
        case RESIDUAL: {
            // The residual stream, or logits: y += (result + bias) scale.
            pair = fma(pair, vec2f(dims.scale), vec2f(y[at], y[at + 1u]));
            if (!has_both) {
                pair.y = 0.0;
            }
            square = fma(pair.y, pair.y, pair.x * pair.x);
            if (dims.leaves > 0u) {
                // The binding of the rotary table holds the gain here.
                let product = pair * table[out / 2u];
                gained[row * dims.leaves + out] = product.x;
                if (has_both) {
                    gained[row * dims.leaves + out + 1u] = product.y;
                }
            }
        }
        case ROTARY: {
            // Fused q, k, v projection: adds the bias, rotates q and k, appends k and v to the cache.
            let head = out / heads.head_dim;
            let i = out % heads.head_dim;
            pair = rotate(head, step.position + row, i, pair);
            if (head >= heads.heads) {
                kv_store(kv_index(head - heads.heads, step.position + row, i), pair);
                return 0.0;
            }
        }
        case GATE, ACTIVATE: {
            if (dims.epilogue == GATE) {
                // Gated MLP; rows of W alternate gate and up: y = activation(gate + bias) * (up + bias).
                pair.x = gated(pair.x, pair.y);
                at -= out - out / 2u;
                has_both = false;
            } else {
                // Plain MLP: y = activation(result + bias); or a layer's input times a gate.
                pair = times_factors(vec2f(activate(pair.x), activate(pair.y)), row, out);
            }
        }
        default: {
            // y = result, or the logits.
            if (dims.epilogue == HEAD) {
                pair = scaled_logits(pair);
            }
        }
    }
    y[at] = pair.x;
    if (has_both) {
        y[at + 1u] = pair.y;
    }
    return square;
}
