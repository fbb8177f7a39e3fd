struct EmbedDims {
    chunks: u32,    // 16-byte chunks of weights per row of the table
    scales: u32,    // first unit of scales in a row, in 16 bytes
    stride: u32,    // 16-byte units per row
    first_id: u32,  // first token or position of this piece of the table
    ids: u32,       // tokens or positions in this piece
    x_stride: u32,  // vec4s per row of x
    scale: f32,
    factor: f32,
    adds: u32,      // 1: rows are added to x
    positions: u32, // 1: the table is of positions, not of tokens
    mask: u32,      // token of the last step.masks rows, or NO_MASK
}

const NO_MASK = 0xffffffffu;

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> dims: EmbedDims;
@group(0) @binding(2) var<storage, read> weights: array<vec4u>;   // (ids / 16, stride, 16): see units
@group(0) @binding(3) var<storage, read> round: array<u32>;       // token ids of the round
@group(0) @binding(4) var<storage, read_write> x: array<vec4f>;   // (rows, x_stride)

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let chunk = id.x * 64u + thread;
    let token = select(round[step.token + id.y], dims.mask, dims.mask != NO_MASK && id.y + step.masks >= step.rows);
    let wanted = select(token, step.position + id.y, dims.positions == 1u);
    if (step.rows == 0u || chunk >= dims.chunks || wanted < dims.first_id || wanted - dims.first_id >= dims.ids) {
        return;
    }
    let raw = load_raw(First(first_unit(wanted - dims.first_id), 0u), planes(chunk), chunk);
    for (var i = 0u; i < CHUNK4; i++) {
        let at = id.y * dims.x_stride + chunk * CHUNK4 + i;
        let value = weight4(raw, i) * (WEIGHT_SCALE * dims.scale);
        x[at] = select(value, (x[at] + value) * dims.factor, dims.adds == 1u);
    }
}
