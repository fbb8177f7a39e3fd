const MOST_CHOSEN = 32u;
const TILE = 8u;  // rows that a matmul computes at a time

// An expert of a row. A row's experts are adjacent, in the order of their scores.
struct Choice {
    expert: u32,
    weight: f32,
}

// Rows that use the same expert.
struct ExpertTile {
    expert: u32,
    rows: u32,
    places: array<u32, TILE>,  // their choices
}

struct ExpertTiles {
    count: u32,
    tiles: array<ExpertTile>,
}
