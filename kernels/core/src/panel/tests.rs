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
fn degenerate_shapes_give_nothing() {
    assert!(Panels::<u8>::pieces(&mut [], 4).claim().is_none());
    assert!(Panels::columns(&mut [1u8, 2], 0, 4).claim().is_none());
    let mut one = [1u8, 2, 3];
    let mut whole = Panel::whole(&mut one, 0);
    assert!(whole.row(0).is_empty());
    let pieces = Panels::pieces(&mut one, 0);
    assert_eq!(pieces.claim().map(|(i, p)| (i, p.into_row().len())), Some((0, 1)));
}
