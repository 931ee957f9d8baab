//! The suite on every instruction set of this machine.

use crate::for_each_isa;
use pocket_kernels::{Kernels, Lanes};
use pocket_kernels_conformance::{Case, HASH, Scratch, hash_only, replay, run};
use pocket_pack::isa::{Isa, WithKernels};
use std::time::Instant;

/// Every name that `POCKET_REQUIRE_ISA` may hold.
const KNOWN: [&str; 8] = ["scalar", "avx2", "avxvnni", "avx512vnni", "amx", "neon", "neon-dot", "neon-i8mm"];

fn name<L: Lanes>(_: L) -> &'static str {
    L::NAME
}

/// The names in a requirement that are not met by `ran`.
fn missing<'a>(required: &'a str, ran: &[&str]) -> Vec<&'a str> {
    required.split(',').map(str::trim).filter(|name| !name.is_empty() && !ran.contains(name)).collect()
}

/// Runs one case if the setting asks this instruction set to; whether it did.
fn replayed<K: Kernels>(kernels: K, asked: &str, scratch: &mut Scratch) -> bool {
    let Some(case) = asked.strip_prefix(K::NAME).and_then(|rest| rest.strip_prefix('/')) else { return false };
    let case: Case = case.parse().unwrap_or_else(|e| panic!("POCKET_REPLAY={asked}: {e}"));
    let mut report = String::new();
    let outcome = replay(kernels, case, scratch, &mut report).expect("a string takes any report");
    println!("{report}");
    assert_eq!(outcome.failures, 0, "see the report above");
    true
}

#[test]
fn every_isa_gives_the_bits_of_scalar() {
    let mut scratch = Box::new(Scratch::new());
    let mut ran = Vec::new();
    let mut failures = 0;
    let asked = std::env::var("POCKET_REPLAY").ok();
    macro_rules! check {
        ($lanes:expr) => {
            if let Some(asked) = &asked {
                if replayed($lanes, asked, &mut scratch) {
                    return;
                }
            } else {
                let start = Instant::now();
                let mut report = String::new();
                let outcome = run($lanes, &mut scratch, &mut report).expect("a string takes any report");
                print!("{report}");
                println!("{}: {:.1} s", name($lanes), start.elapsed().as_secs_f64());
                assert_eq!(outcome.cases as usize, Case::all().count());
                if outcome.hash != HASH {
                    println!("{}: hash {:#018x} is not the checked-in {HASH:#018x}", name($lanes), outcome.hash);
                }
                failures += outcome.failures + u32::from(outcome.hash != HASH);
                ran.push(name($lanes));
            }
        };
    }
    for_each_isa!(check);
    assert_eq!(asked, None, "no instruction set of that name here");
    println!("ran on {}: {}", std::env::consts::ARCH, ran.join(", "));
    assert_eq!(failures, 0, "see the report above");

    let required = std::env::var("POCKET_REQUIRE_ISA").unwrap_or_default();
    let unknown = missing(&required, &KNOWN);
    assert!(unknown.is_empty(), "POCKET_REQUIRE_ISA names unknown instruction sets: {unknown:?}");
    let absent = missing(&required, &ran);
    assert!(absent.is_empty(), "POCKET_REQUIRE_ISA names instruction sets that did not run: {absent:?}");
}

/// Runs on no kernels: only whether it may is of interest.
struct Nothing;

impl WithKernels for Nothing {
    type Out = ();
    fn with<K: Kernels>(self, _: K) {}
}

/// `POCKET_ABSENT_ISA=neon-dot` says what the processor is known to lack: then asking for it must say so.
#[test]
fn an_absent_isa_is_an_error_that_names_it() {
    let absent = std::env::var("POCKET_ABSENT_ISA").unwrap_or_default();
    for name in missing(&absent, &[]) {
        let isa = Isa::from_name(name).unwrap_or_else(|| panic!("POCKET_ABSENT_ISA names {name}, which is unknown"));
        let error = isa.run(Nothing).expect_err("the processor is known to lack it");
        let said = error.to_string();
        println!("{said}");
        assert!(said.starts_with(&format!("this machine has no {name}; it has scalar")), "{said}");
        assert!(!Isa::available().any(|available| available == isa));
    }
}

#[test]
fn a_requirement_that_is_not_met_is_noticed() {
    assert!(missing("", &["scalar"]).is_empty());
    assert!(missing("scalar, avx2", &["scalar", "avx2"]).is_empty());
    assert_eq!(missing("avx2,avx512vnni", &["scalar", "avx2"]), ["avx512vnni"]);
    assert_eq!(missing("avx9", &KNOWN), ["avx9"]);
}

#[test]
fn a_chip_without_time_for_scalar_gets_the_same_hash() {
    let mut scratch = Box::new(Scratch::new());
    macro_rules! check {
        ($lanes:expr) => {
            let outcome = hash_only($lanes, &mut scratch, &mut String::new()).expect("a string takes any report");
            assert_eq!((outcome.hash, outcome.failures), (HASH, 0), "{}", name($lanes));
        };
    }
    for_each_isa!(check);
}

#[test]
fn every_case_can_be_named_and_replayed() {
    let mut scratch = Box::new(Scratch::new());
    for case in Case::all().step_by(97) {
        let mut report = String::new();
        assert_eq!(case.to_string().parse(), Ok(case));
        let outcome = replay(pocket_kernels::Scalar, case, &mut scratch, &mut report).expect("a string");
        assert_eq!((outcome.cases, outcome.failures), (1, 0), "{report}");
    }
    for text in ["", "matmul_q4a64", "matmul_q4a64:", "matmul_q4a64:999999", "nothing:0", "fma:-1"] {
        assert!(text.parse::<Case>().is_err(), "{text}");
    }
}
