use super::{Panel, Panels};

#[test]
fn panels_cover_a_matrix_once_and_stay_inside() {
    let mut data = [0u8; 3 * 10];
    let panels = Panels::columns(&mut data, 3, 4);
    let mut widths = [0; 3];
    while let Some((index, mut panel)) = panels.claim() {
        widths[index] = panel.width();
        for row in 0..panel.rows() {
            for x in panel.row(row) {
                *x += 1;
            }
        }
        assert!(panel.row(3).is_empty());
    }
    assert!(panels.claim().is_none());
    assert_eq!(widths, [4, 4, 2]);
    assert_eq!(data, [1u8; 30]);
}

#[test]
fn workers_begin_apart_and_leave_nothing() {
    for (columns, workers) in [(10, 3), (2, 3), (1, 1), (40, 8), (40, 100), (7, 2)] {
        let mut data = [0u8; 40];
        let panels = Panels::columns(&mut data[..columns], 1, 1).shared_by(workers);
        let mut taken = [false; 40];
        // The second worker stops early, the last one does what is left.
        let firsts = [0, 1].map(|worker| panels.claim_by(worker).map(|(index, _)| index));
        for index in firsts.into_iter().flatten() {
            assert!(!core::mem::replace(&mut taken[index], true));
        }
        if columns > workers {
            assert_eq!(firsts, [Some(0), Some(if workers == 1 { 1 } else { columns / workers.min(8) })]);
        }
        while let Some((index, panel)) = panels.claim_by(workers - 1) {
            assert!(!core::mem::replace(&mut taken[index], true));
            assert_eq!(panel.width(), 1);
        }
        assert_eq!(taken.iter().filter(|&&taken| taken).count(), columns);
        assert!((0..workers).all(|worker| panels.claim_by(worker).is_none()));
    }
}

#[test]
fn degenerate_shapes_give_nothing() {
    assert!(Panels::<u8>::pieces(&mut [], 4).claim().is_none());
    assert!(Panels::columns(&mut [1u8, 2], 0, 4).claim().is_none());
    let mut one = [1u8, 2, 3];
    let mut whole = Panel::whole(&mut one, 0);
    assert!(whole.row(0).is_empty());
    let pieces = Panels::pieces(&mut one, 0);
    assert_eq!(pieces.claim().map(|(i, p)| (i, p.into_row().len())), Some((0, 1)));
}
