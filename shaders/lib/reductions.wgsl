// Fragment sum_threads
var<workgroup> summands: array<f32, THREADS>;
fn sum_threads(value: f32, one: f32, thread: u32) -> f32 {
    summands[thread] = value;
    workgroupBarrier();
    for (var half = THREADS / 2u; half > 0u; half /= 2u) {
        if (thread < half) {
            summands[thread] = fma(summands[thread + half], one, summands[thread]);
        }
        workgroupBarrier();
    }
    return summands[0];
}

// Fragment max_threads
var<workgroup> maxima: array<f32, THREADS>;
fn max_threads(value: f32, thread: u32) -> f32 {
    maxima[thread] = value;
    workgroupBarrier();
    for (var half = THREADS / 2u; half > 0u; half /= 2u) {
        if (thread < half) {
            maxima[thread] = max(maxima[thread], maxima[thread + half]);
        }
        workgroupBarrier();
    }
    return maxima[0];
}

// Fragment find
const SEGMENTS = THREADS / 16u;

struct Element {
    key: u32,
    weight: f32,
}

struct Found {
    key: u32,
    missing: f32,  // wanted weight minus the weight of larger keys
}

var<workgroup> heaps: array<vec4f, 4u * THREADS>;  // (THREADS, 16): a thread's weight at or above each pivot
var<workgroup> sums: array<f32, THREADS>;          // (SEGMENTS, 16)

fn gather(a: vec4f, b: vec4f, c: vec4f, d: vec4f, thread: u32) {
    heaps[thread * 4u] = a;
    heaps[thread * 4u + 1u] = b;
    heaps[thread * 4u + 2u] = c;
    heaps[thread * 4u + 3u] = d;
    workgroupBarrier();
    let column = thread % 16u;
    let segment = thread / 16u;
    var sum = 0.0;
    for (var i = 0u; i < 16u; i++) {
        sum += heaps[(segment * 16u + i) * 4u + column / 4u][column % 4u];
    }
    sums[segment * 16u + column] = sum;
    workgroupBarrier();
}

fn column_sum(column: u32) -> f32 {
    var sum = 0.0;
    for (var segment = 0u; segment < SEGMENTS; segment++) {
        sum += sums[segment * 16u + column];
    }
    return sum;
}

fn find(row: Row, kind: u32, share: f32, wanted: f32, thread: u32) -> Found {
    var key = 0u;
    var above = 0.0;
    var least = wanted;
    for (var level = 0u; level < 8u; level++) {
        let shift = 28u - 4u * level;
        let pivots = vec4u(key) + (vec4u(0u, 1u, 2u, 3u) << vec4u(shift));
        let four = 4u << shift;
        var a = vec4f();
        var b = vec4f();
        var c = vec4f();
        var d = vec4f();
        for (var i = thread; i < row.count; i += THREADS) {
            let element = weigh(row, kind, i);
            let at = vec4u(element.key);
            let weight = vec4f(element.weight);
            a += select(vec4f(), weight, at >= pivots);
            b += select(vec4f(), weight, at >= pivots + four);
            c += select(vec4f(), weight, at >= pivots + 2u * four);
            d += select(vec4f(), weight, at >= pivots + 3u * four);
        }
        gather(a, b, c, d, thread);
        if (level == 0u) {
            least = max(max(wanted, share * column_sum(0u)), 1e-30);
        }
        var column = 0u;
        for (var next = 1u; next < 16u; next++) {
            let sum = column_sum(next);
            if (sum < least) {
                above = sum;
                break;
            }
            column = next;
        }
        key += column << shift;
        workgroupBarrier();
    }
    return Found(key, least - above);
}
