//! Tests of `variants`.

use super::*;

/// Returns the rows per pass of the variant chosen for `rows` rows; 0: the tile.
fn chosen(variants: Variants, rows: usize) -> u32 {
    Kernel::ROWS.get(variants.choose(rows)).copied().unwrap_or(0)
}

#[test]
fn what_differs_is_not_used() {
    let all = Variants::ALL;
    let expected = [(1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (16, 16), (17, 16), (32, 16), (33, 0), (500, 0)];
    assert_eq!(expected.map(|(rows, _)| (rows, chosen(all, rows))), expected);
    let mut known = Variants::default();
    assert_eq!((known.missing(1), known.missing(4), known.missing(64)), (None, Some(2), Some(TILE)));
    known.learn(2, false);
    assert_eq!((known.missing(4), known.warning()), (None, None));
    // A differing variant is replaced by larger ones, then by smaller ones.
    known.learn(3, true);
    assert_eq!((chosen(known, 4), chosen(known, 7), known.missing(7)), (4, 4, Some(4)));
    known.learn(4, true);
    assert_eq!((chosen(known, 7), chosen(known, 20), known.missing(7)), (4, 4, None));
    assert_eq!((chosen(known, 64), known.missing(64)), (4, Some(TILE)));
    known.learn(TILE, true);
    assert_eq!((chosen(known, 64), known.missing(64)), (4, None));
    assert_eq!((chosen(Variants::NO_TILES, 64), chosen(Variants::NO_TILES, 3)), (16, 4));
    assert_eq!((chosen(Variants::ONE, 64), chosen(Variants::ONE, 3)), (1, 1));
    assert!(Variants::NO_TILES.warning() != known.warning() && known.warning().is_some());
}
