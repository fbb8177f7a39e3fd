const THREADS = 64u;
const MOST = 512u;  // experts

struct RouteDims {
    experts: u32,     // experts to choose from
    chosen: u32,      // experts chosen for a row
    always: u32,      // experts that each row uses, after the others
    sigmoid: u32,     // 1: scores are sigmoids; 0: a softmax
    normalised: u32,  // 1: weights are divided by their sum
    one: f32,
}

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> dims: RouteDims;
@group(0) @binding(2) var<storage, read> results: array<f32>;           // (rows, experts + always): of the router
@group(0) @binding(3) var<storage, read> bias: array<f32>;              // (experts): of the results, or of sigmoids for the choice alone
@group(0) @binding(4) var<storage, read_write> choices: array<Choice>;  // (rows, chosen + always)
@group(0) @binding(5) var<storage, read> factors: array<f32>;           // (experts): of the weights

// Experts to choose from: no uniform, as a loop bound must not be one.
fn experts() -> u32 {
    return min(dims.experts, arrayLength(&factors));
}

var<workgroup> keys: array<f32, MOST>;
var<workgroup> chosen: array<u32, MOST_CHOSEN>;

fn sigmoid(x: f32) -> f32 {
    return 1.0 / (1.0 + exp(-x));
}

fn result_of(first: u32, expert: u32) -> f32 {
    return results[first + expert] + select(bias[expert], 0.0, dims.sigmoid == 1u);
}

fn score(result: f32, largest: f32) -> f32 {
    if (dims.sigmoid == 1u) {
        return sigmoid(result);
    }
    return exp(result - largest);
}

fn divisor(first: u32, largest: f32) -> f32 {
    var sum = 0.0;
    if (dims.normalised == 1u) {
        for (var i = 0u; i < min(dims.chosen, arrayLength(&choices)); i++) {
            sum = fma(score(result_of(first, chosen[i]), largest), dims.one, sum);
        }
        return sum + f32(dims.sigmoid) * 1e-6;
    }
    if (dims.sigmoid == 1u) {
        return 1.0;
    }
    for (var expert = 0u; expert < experts(); expert++) {
        sum = fma(score(result_of(first, expert), largest), dims.one, sum);
    }
    return sum;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let row = id.x;
    if (row >= step.rows) {
        return;
    }
    if (thread < MOST_CHOSEN) {
        // If results are not numbers, some stay unchosen.
        chosen[thread] = 0u;
    }
    let first = row * (dims.experts + dims.always);
    for (var expert = thread; expert < dims.experts; expert += THREADS) {
        let result = result_of(first, expert);
        keys[expert] = select(result, sigmoid(result) + bias[expert], dims.sigmoid == 1u);
    }
    workgroupBarrier();
    for (var expert = thread; expert < dims.experts; expert += THREADS) {
        let key = keys[expert];
        var rank = 0u;
        for (var other = 0u; other < experts(); other++) {
            let is_before = keys[other] > key || (keys[other] == key && other < expert);
            rank += u32(is_before);
        }
        if (rank < dims.chosen) {
            chosen[rank] = expert;
        }
    }
    workgroupBarrier();
    let at = row * (dims.chosen + dims.always) + thread;
    if (thread < dims.chosen) {
        let largest = keys[chosen[0]];
        let expert = chosen[thread];
        let weight = score(result_of(first, expert), largest) / divisor(first, largest);
        choices[at] = Choice(expert, weight * factors[expert]);
    } else if (thread < dims.chosen + dims.always) {
        let expert = dims.experts + thread - dims.chosen;
        choices[at] = Choice(expert, sigmoid(results[first + expert]));
    }
}
