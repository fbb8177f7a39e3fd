//! Tests of `tries`.

use super::*;

#[test]
fn pauses_grow_and_come_when_all_servers_were_asked() {
    let mut tries = Tries::new(2, 60.0);
    let mut last = 0.0;
    for pause in PAUSES {
        assert_eq!(tries.next(None), None);
        let Some(Ok(found)) = tries.next(None) else { panic!("patience ends early") };
        assert!((pause..=1.25 * pause).contains(&found) && found >= last, "{found} for {pause}");
        last = found;
    }
    // A server may request a longer pause, up to the patience.
    let mut tries = Tries::new(1, 60.0);
    assert!(matches!(tries.next(Some(9.0)), Some(Ok(pause)) if (9.0..=11.25).contains(&pause)));
    assert_eq!(tries.next(Some(100.0)), Some(Err(2)));
}
