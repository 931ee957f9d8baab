//! Products in batches that are larger than those of the suite: whole blocks of 64 tokens, several of them, and every rest;
//! on each instruction set, and on a unit for squares of 16 tokens and 16 rows in plain code.

use crate::contract::{Numbers, assert_bits};
use crate::mutations::{Mistake, Wrong};
use crate::properties::{Product, pairs};
use pocket_kernels::weights::Format;
use pocket_kernels::{Kernels, Scalar};

/// A product of ordinary numbers.
fn product((format, up): (Format, Format), rows: usize, groups: usize, tokens: usize, then: u8) -> Product {
    let mut numbers = Numbers((rows * groups * tokens) as u64);
    let data = (0..rows.div_ceil(16))
        .flat_map(|_| [format, up].map(|format| numbers.tiles(format, groups * format.group(), 16)))
        .flatten()
        .collect();
    let codes = |numbers: &mut Numbers| (0..format.group()).map(|_| (numbers.bits() as i8).max(-127)).collect();
    let x = (0..tokens * groups).map(|_| (codes(&mut numbers), numbers.float())).collect();
    let before = numbers.floats(tokens * rows);
    Product { format, up, rows, groups, tokens, then, data, x, before }
}

fn agrees<K: Kernels>(k: K) {
    for formats in pairs() {
        for (tokens, rows, groups) in [(16, 16, 1), (31, 40, 5), (48, 17, 4), (64, 96, 14), (79, 64, 9), (130, 33, 7)] {
            for then in 0..3 {
                let product = product(formats, rows, groups, tokens, then);
                let what = (K::NAME, formats, tokens, rows, groups, then);
                assert_bits(&product.run(k), &product.run(Scalar), &what);
            }
        }
    }
}

#[test]
fn a_unit_in_plain_code_gives_the_bits_of_scalar() {
    agrees(Wrong(Mistake::NoneOnGrid));
}

#[test]
fn every_isa_gives_the_bits_of_scalar_in_large_batches() {
    macro_rules! check {
        ($lanes:expr) => {
            agrees($lanes);
        };
    }
    crate::for_each_isa!(check);
}
