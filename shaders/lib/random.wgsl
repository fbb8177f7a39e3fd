const UNIT = 1.0 / 4294967296.0;

fn turn(x: vec2u, by: u32) -> vec2u {
    let sum = x.x + x.y;
    return vec2u(sum, ((x.y << by) | (x.y >> (32u - by))) ^ sum);
}

fn threefry(key: vec2u, counter: vec2u) -> vec2u {
    let third = 0x1bd11bdau ^ key.x ^ key.y;
    var x = counter + key;
    x = turn(turn(turn(turn(x, 13u), 15u), 26u), 6u) + vec2u(key.y, third + 1u);
    x = turn(turn(turn(turn(x, 17u), 29u), 16u), 24u) + vec2u(third, key.x + 2u);
    x = turn(turn(turn(turn(x, 13u), 15u), 26u), 6u) + vec2u(key.x, key.y + 3u);
    x = turn(turn(turn(turn(x, 17u), 29u), 16u), 24u) + vec2u(key.y, third + 4u);
    return turn(turn(turn(turn(x, 13u), 15u), 26u), 6u) + vec2u(third, key.x + 5u);
}

fn random(stream: u32, position: u32, token: u32) -> vec2u {
    return threefry(vec2u(sampling.seed_low, sampling.seed_high), vec2u(position | (stream << 28u), token));
}

// Returns E = -ln(1 - v), which is exponentially distributed; v is a number in (0, 1) made from the words. For v < 1/2, uses the
// series of 2 artanh(v / (2 - v)), so that small v keep their precision.
fn exponential(words: vec2u) -> f32 {
    if (words.x >= 0x80000000u) {
        return -log((f32(~words.x) + (f32(~words.y) + 0.5) * UNIT) * UNIT);
    }
    let small = (f32(words.x) + (f32(words.y) + 0.5) * UNIT) * UNIT;
    let v = select(f32(words.x) * UNIT, small, words.x < 0x1000000u);
    let s = v / (2.0 - v);
    let t = s * s;
    let tail = 1.0 / 9.0 + t * (1.0 / 11.0 + t * (1.0 / 13.0 + t * (1.0 / 15.0 + t / 17.0)));
    return 2.0 * s * (1.0 + t * (1.0 / 3.0 + t * (1.0 / 5.0 + t * (1.0 / 7.0 + t * tail))));
}
