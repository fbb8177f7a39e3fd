const THREADS = 64u;

struct GroupDims {
    experts: u32,  // all experts
    used: u32,     // experts of a row
}

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<uniform> dims: GroupDims;
@group(0) @binding(2) var<storage, read> choices: array<Choice>;  // (rows, used)
@group(0) @binding(3) var<storage, read_write> list: ExpertTiles;

var<workgroup> count: atomic<u32>;

@compute @workgroup_size(THREADS)
fn main(@builtin(local_invocation_index) thread: u32) {
    if (thread == 0u) {
        atomicStore(&count, 0u);
    }
    workgroupBarrier();
    let all = step.rows * dims.used;
    for (var expert = thread; expert < dims.experts; expert += THREADS) {
        var rows = 0u;
        for (var place = 0u; place < all; place++) {
            rows += u32(choices[place].expert == expert);
        }
        if (rows > 0u) {
            let first = atomicAdd(&count, (rows + TILE - 1u) / TILE);
            var row = 0u;
            for (var place = 0u; place < all; place++) {
                if (choices[place].expert == expert) {
                    let tile = first + row / TILE;
                    list.tiles[tile].expert = expert;
                    list.tiles[tile].rows = min(rows - row / TILE * TILE, TILE);
                    list.tiles[tile].places[row % TILE] = place;
                    row++;
                }
            }
        }
    }
    workgroupBarrier();
    if (thread == 0u) {
        list.count = atomicLoad(&count);
    }
}
