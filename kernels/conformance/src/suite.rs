//! Running cases on a port and comparing them with the definition.

use crate::cases::{Case, OPERATIONS};
use crate::report::{Hash, Record};
use crate::scratch::{Scratch, Shelf};
use core::fmt;
use pocket_kernels::{Kernels, Lanes, Scalar};

/// The hash over the results of every case, as [`Scalar`] gives them. Changes with the list of cases; a port for
/// which [`hash_only`] gives another number does not conform.
pub const HASH: u64 = 0x1b2d_ec8d_79ed_abf6;

/// Failed cases of one operation that are printed; further ones are counted.
const PRINTED: u32 = 3;
/// Wrong elements that a replay prints.
const ELEMENTS: usize = 64;

/// What a run found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Cases that ran.
    pub cases: u32,
    /// Cases whose result differs from that of [`Scalar`].
    pub failures: u32,
    /// Hash over the results of the tested kernels.
    pub hash: u64,
}

/// Runs every case on `kernels` and on [`Scalar`] and compares the bits.
///
/// Prints one line per operation, `isa/operation`, its cases and its hash; for a case that fails its name (to
/// [`replay`] it), its shape, its seed and the first wrong element.
///
/// # Errors
/// The report could not be written.
pub fn run<K: Kernels>(kernels: K, scratch: &mut Scratch, report: &mut impl fmt::Write) -> Result<Outcome, fmt::Error> {
    every_case(kernels, true, scratch, report)
}

/// Runs every case on `kernels` alone. The result's hash must be [`HASH`]; the lines of two chips show where they part.
///
/// # Errors
/// The report could not be written.
pub fn hash_only<K: Kernels>(
    kernels: K,
    scratch: &mut Scratch,
    report: &mut impl fmt::Write,
) -> Result<Outcome, fmt::Error> {
    every_case(kernels, false, scratch, report)
}

/// Runs one case on `kernels` and on [`Scalar`] and prints its shape and its wrong elements, up to 64.
///
/// # Errors
/// The report could not be written.
pub fn replay<K: Kernels>(
    kernels: K,
    case: Case,
    scratch: &mut Scratch,
    report: &mut impl fmt::Write,
) -> Result<Outcome, fmt::Error> {
    let mut hash = Hash::new();
    let failed = one_case(kernels, case, true, scratch, &mut hash, report, ELEMENTS)?;
    if !failed {
        writeln!(report, "ok   {}/{case}", K::NAME)?;
    }
    Ok(Outcome { cases: 1, failures: u32::from(failed), hash: hash.0 })
}

fn every_case<K: Kernels>(
    kernels: K,
    compare: bool,
    scratch: &mut Scratch,
    report: &mut impl fmt::Write,
) -> Result<Outcome, fmt::Error> {
    let against = if compare { Scalar::NAME } else { "a hash" };
    writeln!(report, "{} against {against}: {} operations", K::NAME, OPERATIONS.len())?;
    let (mut cases, mut failures, mut total) = (0, 0, Hash::new());
    for (index, operation) in OPERATIONS.iter().enumerate() {
        let (mut failed, mut hash) = (0, Hash::new());
        for case in Case::of(index) {
            let elements = usize::from(failed < PRINTED);
            let compare = compare && !operation.portless();
            failed += u32::from(one_case(kernels, case, compare, scratch, &mut hash, report, elements)?);
        }
        let result = if failed == 0 { "ok  " } else { "FAIL" };
        let (name, count, hash) = (operation.name, operation.cases, hash.0);
        writeln!(report, "{result} {}/{name}: {count} cases, {failed} failed, hash {hash:016x}", K::NAME)?;
        cases += operation.cases;
        failures += failed;
        total.add(hash as u32);
        total.add((hash >> 32) as u32);
    }
    let hash = total.0;
    writeln!(report, "{}: {cases} cases, {failures} failed, hash {hash:016x}", K::NAME)?;
    Ok(Outcome { cases, failures, hash })
}

/// Whether the case failed.
fn one_case<K: Kernels>(
    kernels: K,
    case: Case,
    compare: bool,
    scratch: &mut Scratch,
    hash: &mut Hash,
    report: &mut impl fmt::Write,
    elements: usize,
) -> Result<bool, fmt::Error> {
    let mut got = Record::new(&mut scratch.got);
    let shape = case.run(kernels, Shelf::new(&mut scratch.operands), &mut got);
    got.hash(hash);
    if !compare {
        return Ok(false);
    }
    let mut want = Record::new(&mut scratch.want);
    case.run_scalar(Shelf::new(&mut scratch.operands), &mut want);
    let mut failed = false;
    for difference in got.differences(&want).take(elements.max(1)) {
        if !failed && elements > 0 {
            writeln!(report, "     {}/{case} ({shape}; seed {:#018x})", K::NAME, case.seed())?;
        }
        if elements > 0 {
            writeln!(report, "       {difference}")?;
        }
        failed = true;
    }
    Ok(failed)
}
