// Position of a thread's results.
struct Place {
    row: u32,    // first row
    rows: u32,
    out: u32,    // first output in the whole W
    pairs: u32,  // pairs of neighbouring outputs
    end: u32,    // end of this piece of W
}

// Returns two neighbouring results of a row.
fn pair_of(row: Eight, pair: u32) -> vec2f {
    let first = select(row.a.zw, row.a.xy, pair == 0u);
    let second = select(row.b.zw, row.b.xy, pair == 2u);
    return select(second, first, pair < 2u);
}

fn biased(row: Eight, pair: u32, out: u32) -> vec2f {
    let at = first_bias() + out;
    return pair_of(row, pair) + vec2f(bias[at], bias[at + 1u]);
}

fn keep(at: u32, pair: vec2f, has_both: bool) {
    y[at] = pair.x;
    if (has_both) {
        y[at + 1u] = pair.y;
    }
}

fn store(sums: Sums, place: Place) {
    for (var i = 0u; i < place.rows; i++) {
        let row = results(sums, i);
        let to = y_row(place.row + i) + dims.head * step.draft_row;
        for (var pair = 0u; pair < place.pairs; pair++) {
            let out = place.out + pair * 2u;
            keep(to * dims.y_stride + out, pair_of(row, pair), out + 1u < place.end);
        }
    }
}

fn store_logits(sums: Sums, place: Place) {
    let first = place.row + dims.head * step.draft_row;
    for (var i = 0u; i < place.rows; i++) {
        let row = results(sums, i);
        for (var pair = 0u; pair < place.pairs; pair++) {
            let out = place.out + pair * 2u;
            keep((first + i) * dims.y_stride + out, scaled_logits(biased(row, pair, out)), out + 1u < place.end);
        }
    }
}

fn add_to_stream(sums: Sums, place: Place, thread: u32) {
    for (var i = 0u; i < place.rows; i++) {
        let row = results(sums, i);
        var square = 0.0;
        for (var pair = 0u; pair < place.pairs; pair++) {
            let out = place.out + pair * 2u;
            let has_both = out + 1u < place.end;
            let at = (place.row + i + dims.head * step.draft_row) * dims.y_stride + out;
            var stream = fma(biased(row, pair, out), vec2f(dims.scale), vec2f(y[at], y[at + 1u]));
            if (!has_both) {
                stream.y = 0.0;
            }
            keep(at, stream, has_both);
            if (dims.leaves > 0u) {
                // The binding of the rotary table holds the gain here.
                let product = stream * table[out / 2u];
                let at = (place.row + i) * dims.leaves + out;
                gained[at] = product.x;
                if (has_both) {
                    gained[at + 1u] = product.y;
                }
            }
            square = fma(stream.x, stream.x, square);
            square = fma(stream.y, stream.y, square);
        }
        squares[thread * ROWS + i] = square;
    }
}

fn gate(sums: Sums, place: Place) {
    for (var i = 0u; i < place.rows; i++) {
        let row = results(sums, i);
        for (var pair = 0u; pair < place.pairs; pair++) {
            let out = place.out + pair * 2u;
            let two = biased(row, pair, out);
            y[y_row(place.row + i) * dims.y_stride + out / 2u] = gated(two.x, two.y);
        }
    }
}

fn activate_all(sums: Sums, place: Place) {
    for (var i = 0u; i < place.rows; i++) {
        let row = results(sums, i);
        for (var pair = 0u; pair < place.pairs; pair++) {
            let out = place.out + pair * 2u;
            let two = biased(row, pair, out);
            let activated = times_factors(vec2f(activate(two.x), activate(two.y)), place.row + i, out);
            keep((place.row + i) * dims.y_stride + out, activated, out + 1u < place.end);
        }
    }
}

fn append(sums: Sums, place: Place) {
    for (var i = 0u; i < place.rows; i++) {
        let row = results(sums, i);
        let position = step.position + place.row + i;
        for (var pair = 0u; pair < place.pairs; pair++) {
            let out = place.out + pair * 2u;
            let head = out / heads.head_dim;
            let element = out % heads.head_dim;
            let two = rotate(head, position, element, biased(row, pair, out));
            if (head < heads.heads) {
                keep((place.row + i) * dims.y_stride + out, two, out + 1u < place.end);
            } else {
                kv_store(kv_index(head - heads.heads, position, element), two);
            }
        }
    }
}

fn finish(sums: Sums, place: Place, thread: u32) {
    switch dims.epilogue {
        case RESIDUAL: { add_to_stream(sums, place, thread); }
        case GATE: { gate(sums, place); }
        case ACTIVATE: { activate_all(sums, place); }
        case ROTARY: { append(sums, place); }
        case HEAD: { store_logits(sums, place); }
        default: { store(sums, place); }
    }
}
