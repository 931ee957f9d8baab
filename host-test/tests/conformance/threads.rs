//! Panels claimed by real threads.

use crate::contract::Numbers;
use pocket_kernels::matmul::{Matmul, Then};
use pocket_kernels::panel::{Panel, Panels};
use pocket_kernels::quantize::Activations;
use pocket_kernels::tile::Block32;
use pocket_kernels::weights::{Format, Weights};
use pocket_kernels::{Kernels, Scalar};
use std::sync::Barrier;
use std::thread;

/// Two threads claim panels until none is left; the indices that each got. Neither goes on before both hold a panel, so
/// there must be two, and they are lent at the same time whatever the scheduler does.
fn two_workers<T: Send>(panels: &Panels<'_, T>, work: impl Fn(usize, Panel<'_, T>) + Sync) -> [Vec<usize>; 2] {
    let both = Barrier::new(2);
    let worker = || {
        let mut claimed = Vec::new();
        while let Some((index, panel)) = panels.claim() {
            if claimed.is_empty() {
                both.wait();
            }
            work(index, panel);
            claimed.push(index);
            thread::yield_now();
        }
        claimed
    };
    thread::scope(|scope| {
        let other = scope.spawn(worker);
        [worker(), other.join().expect("the other worker does not panic")]
    })
}

#[test]
fn two_threads_fill_an_output_once() {
    for round in 0..100 {
        let (rows, width, chunk) = (1 + round % 5, 997, 1 + round % 16);
        let mut data = vec![0u32; rows * width];
        let panels = Panels::columns(&mut data, rows, chunk);
        let claimed = two_workers(&panels, |index, mut panel| {
            for row in 0..panel.rows() {
                for (i, x) in panel.row(row).iter_mut().enumerate() {
                    // A second visit, or one of the wrong panel, shows.
                    *x += (row * width + index * chunk + i + 1) as u32;
                }
            }
        });
        assert!(panels.claim().is_none());
        let mut indices = claimed.concat();
        indices.sort_unstable();
        assert_eq!(indices, (0..width.div_ceil(chunk)).collect::<Vec<_>>());
        assert!(data.iter().enumerate().all(|(i, &x)| x == i as u32 + 1));
        assert!(claimed.iter().all(|c| !c.is_empty()));
    }
}

#[test]
fn a_product_does_not_show_who_computed_it() {
    let mut numbers = Numbers(6);
    let (rows, columns, tokens) = (500usize, 64, 3);
    let stride = Format::Q4S32.row_group_bytes(columns);
    // Random bytes; scales with the upper exponent bit cleared are finite.
    let mut data: Vec<u8> = (0..rows.div_ceil(16) * stride).map(|_| numbers.bits() as u8).collect();
    for tile in data.chunks_mut(Format::Q4S32.tile_bytes()) {
        tile[256..].chunks_mut(2).for_each(|scale| scale[1] &= 0xbf);
    }
    let blocks: Vec<Block32> = (0..tokens * 2)
        .map(|_| {
            let q: [i8; 32] = std::array::from_fn(|_| (numbers.bits() as i8).max(-127));
            let sum = q.iter().map(|&q| i32::from(q)).sum();
            Block32 { q, d: 0.01, s: 0.01 * sum as f32, sum, reserved: 0 }
        })
        .collect();
    let weights = Weights::new(Format::Q4S32, rows, columns, stride, &data).expect("tiles of that size");
    let x = Activations::G32(&blocks);
    let mut alone = vec![f32::NAN; rows * tokens];
    Scalar.matmul(Matmul { weights, x, row_group: 0, then: Then::Store, out: Panel::whole(&mut alone, rows) });
    for groups in 1..=4 {
        let mut together = vec![f32::NAN; rows * tokens];
        let panels = Panels::columns(&mut together, tokens, groups * 16);
        two_workers(&panels, |index, out| {
            Scalar.matmul(Matmul { weights, x, row_group: index * groups, then: Then::Store, out });
        });
        assert!(alone.iter().zip(&together).all(|(a, b)| a.to_bits() == b.to_bits()), "{groups} row groups a panel");
    }
    assert!(alone.iter().all(|x| x.is_finite()));
}
