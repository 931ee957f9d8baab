//! The independent reference against another engine's logits.
//!
//! Both compute in f32 with other orders of summation, so they differ by rounding only:
//! some 1e-5 in practice. 1e-3 is far below what quantised activations change (0.1 and
//! more) and far above rounding.

use pocket_host_test::divergence::{Divergence, argmax, compare, margin};
use pocket_host_test::models::{self, SMOLLM2, TINY};
use pocket_host_test::npy;
use pocket_host_test::reference::Reference;

/// Largest absolute difference of a logit.
const MAX_ABS: f64 = 1e-3;

fn divergence(model: &[u8], oracle: &str) -> Divergence {
    let oracle = models::oracle(oracle);
    let reference = Reference::open(model).unwrap();
    compare(&oracle.logits, &reference.logits(&oracle.ids).unwrap())
}

#[test]
fn reproduces_every_tiny_model() {
    for name in TINY {
        let found = divergence(&models::read(&models::tiny(name)), name);
        println!("{name}: {found:?}");
        assert!(found.max_abs <= MAX_ABS, "{name}: {found:?}");
        assert!(found.mean_kl.abs() < 1e-6, "{name}: {found:?}");
    }
}

#[test]
fn reproduces_smollm2() {
    let found = divergence(&models::read(&models::smollm2()), SMOLLM2);
    println!("{SMOLLM2}: {found:?}");
    assert!(found.max_abs <= MAX_ABS, "{found:?}");
    assert_eq!(found.top1_agreement, 1.0, "{found:?}");
}

#[test]
fn oracles_tell_models_apart() {
    // If the comparison were blind, one model's oracle would pass for another's.
    let found = divergence(&models::read(&models::tiny("tiny-qwen3-q4_0")), "tiny-qwen3-f32");
    assert!(found.max_abs > 10.0 * MAX_ABS, "{found:?}");
    assert!(found.mean_kl > 1e-5, "{found:?}");
}

#[test]
fn divergence_of_known_distributions() {
    // p = (1/2, 1/2), q = (1/4, 3/4): KL = ln 2 / 2 + ln(2/3) / 2 = ln(4/3) / 2.
    let p = [vec![0.0, 0.0]];
    let q = [vec![0.0, 3.0_f32.ln()]];
    let found = compare(&p, &q);
    assert!((found.mean_kl - (4.0_f64 / 3.0).ln() / 2.0).abs() < 1e-7);
    assert_eq!(found.max_kl, found.mean_kl);
    assert_eq!(found.top1_agreement, 0.0);
    assert!((found.max_abs - 3.0_f64.ln()).abs() < 1e-6);
    assert_eq!(compare(&q, &q).mean_kl, 0.0);
    assert_eq!(argmax(&[1.0, 3.0, 3.0]), Some(1));
    assert_eq!(margin(&[1.0, 3.0, 2.5]), 0.5);
}

#[test]
fn refuses_tokens_outside_the_vocabulary() {
    let reference = Reference::open(&models::read(&models::tiny("tiny-qwen3-q4_0"))).unwrap();
    assert_eq!(reference.vocabulary(), 1024);
    assert!(reference.logits(&[1023, 1024]).is_err());
}

#[test]
fn npy_says_what_it_cannot_read() {
    let file = |header: &str, data: &[u8]| {
        let len = u16::try_from(header.len()).unwrap().to_le_bytes();
        [b"\x93NUMPY\x01\0", &len[..], header.as_bytes(), data].concat()
    };
    let good = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }\n";
    let data = [0, 0, 128, 63, 0, 0, 0, 192];
    assert_eq!(npy::read_rows(&file(good, &data)).unwrap(), [vec![1.0, -2.0]]);
    for (from, to) in [
        ("<f4", "<f8"),
        ("<f4", ">f4"),
        ("False", "True"),
        ("(1, 2)", "(2,)"),
        ("(1, 2)", "(1, 1, 2)"),
        ("(1, 2)", "(1, 3)"),
        ("(1, 2)", "(1, 4611686018427387905)"),
        ("shape", "form"),
    ] {
        let header = good.replace(from, to);
        assert!(npy::read_rows(&file(&header, &data)).is_err(), "{header}");
    }
    let whole = file(good, &data);
    for cut in 0..whole.len() {
        assert!(npy::read_rows(&whole[..cut]).is_err(), "cut at {cut}");
    }
}
