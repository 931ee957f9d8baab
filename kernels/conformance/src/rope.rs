//! Rotations and what is done to query heads.

use crate::cases::Draw;
use crate::report::{Record, Shape};
use crate::scratch::Shelf;
use pocket_kernels::Kernels;
use pocket_kernels::norm::Norm;
use pocket_kernels::panel::Panels;
use pocket_kernels::rope::{HeadTurn, TurnQueries};

/// Elements of a head.
pub(crate) const HEAD_DIMS: [usize; 5] = [32, 64, 96, 128, 256];

/// The rotation of a position is computed in software, so a comparison on one chip would compare it with itself: the
/// hash tells whether two chips agree.
pub(crate) fn rotation(mut draw: Draw, mut shelf: Shelf<'_>, record: &mut Record<'_>) -> Shape {
    let head_dim = draw.axis(&HEAD_DIMS);
    let position = draw.axis(&[0, 1, 4095, 131_071]);
    let frequencies: &mut [f64] = shelf.take(head_dim / 2);
    frequencies.iter_mut().enumerate().for_each(|(i, frequency)| *frequency = 1.0 / (1 + i * i) as f64);
    let out = shelf.take(head_dim);
    pocket_kernels::rope::rotation(position, frequencies, out);
    record.floats(out);
    Shape::default().number("head_dim", head_dim).number("position", position)
}

/// What is done to the heads of a batch, with a norm in every other case.
pub(crate) fn turn<'a>(
    draw: &mut Draw,
    shelf: &mut Shelf<'a>,
    head_dim: usize,
    tokens: usize,
) -> (HeadTurn<'a>, &'static str) {
    let rotations: &mut [f32] = shelf.take(tokens * head_dim);
    let frequencies: &mut [f64] = shelf.take(head_dim / 2);
    frequencies.iter_mut().enumerate().for_each(|(i, frequency)| *frequency = 1.0 / (1 + i) as f64);
    let first = draw.random.below(5000);
    for (token, out) in rotations.chunks_exact_mut(head_dim).enumerate() {
        pocket_kernels::rope::rotation(first + token, frequencies, out);
    }
    let with_norm = draw.axis(&[true, false]);
    let weight: &mut [f32] = shelf.take(head_dim);
    draw.kind().floats(&mut draw.random, weight);
    let norm = with_norm.then_some(Norm { weight, eps: 1e-6 });
    (HeadTurn { norm, rotations, head_dim }, if with_norm { "with" } else { "without" })
}

pub(crate) fn turn_queries<K: Kernels>(k: K, mut draw: Draw, mut shelf: Shelf<'_>, record: &mut Record<'_>) -> Shape {
    let head_dim = draw.axis(&HEAD_DIMS);
    let heads = draw.axis(&[1, 2, 3, 8]);
    let tokens = draw.axis(&[1, 2, 5]);
    let (turn, norm) = turn(&mut draw, &mut shelf, head_dim, tokens);
    let kind = draw.kind();
    let queries = shelf.take(tokens * heads * head_dim);
    kind.floats(&mut draw.random, queries);
    // Panels of one head up to all of them.
    let panel_heads = 1 + draw.random.below(heads);
    let panels = Panels::columns(queries, tokens, panel_heads * head_dim);
    while let Some((_, queries)) = panels.claim() {
        k.enter(TurnQueries { turn, queries });
    }
    record.floats(queries);
    Shape::default()
        .number("head_dim", head_dim)
        .number("heads", heads)
        .number("tokens", tokens)
        .number("heads a panel", panel_heads)
        .word("norm", norm)
        .word("data", kind.name())
}
