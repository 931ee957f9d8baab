//! The list of operations, and how a case of one is named and run.

use crate::data::{Kind, Random};
use crate::floats::Float;
use crate::integers::Integer;
use crate::products::Product;
use crate::report::{Record, Shape};
use crate::scratch::Shelf;
use crate::{attention, cache, elementary, floats, integers, matmul, products, rope, rows};
use core::fmt;
use core::str::FromStr;
use pocket_kernels::cache::CacheType;
use pocket_kernels::weights::Format;
use pocket_kernels::{Kernels, Scalar};

/// One primitive or kernel on operands that are a function of the case alone.
///
/// Written `operation:index`, for example `matmul_q4a64:17`, and parsed from that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    operation: usize,
    index: u32,
}

/// The text names no case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownCase;

/// What is tested, with its parameter.
#[derive(Clone, Copy)]
enum Family {
    Float(Float),
    Integer(Integer),
    Product(Product),
    Exp,
    Silu,
    Quantize(usize),
    NormQuantize(usize),
    Rotation,
    TurnQueries,
    Store(CacheType),
    Attend(CacheType),
    Join,
    ArgMax,
    Embed(Format),
    Matmul(Format),
}

pub(crate) struct Operation {
    pub(crate) name: &'static str,
    pub(crate) cases: u32,
    family: Family,
}

const fn operation(name: &'static str, cases: u32, family: Family) -> Operation {
    Operation { name, cases, family }
}

/// Primitives first, the ones that others are observed with before those: the first failure is the one to look at.
#[rustfmt::skip]
pub(crate) const OPERATIONS: [Operation; 51] = [
    operation("splat", 8, Family::Float(Float::Splat)),
    operation("load_store", 8, Family::Float(Float::LoadStore)),
    operation("add", 64, Family::Float(Float::Add)),
    operation("sub", 64, Family::Float(Float::Sub)),
    operation("mul", 64, Family::Float(Float::Mul)),
    operation("div", 64, Family::Float(Float::Div)),
    operation("fma", 256, Family::Float(Float::Fma)),
    operation("max", 64, Family::Float(Float::Max)),
    operation("min", 64, Family::Float(Float::Min)),
    operation("keep_at_least", 64, Family::Float(Float::KeepAtLeast)),
    operation("load_f16", 64, Family::Float(Float::LoadF16)),
    operation("store_f16", 64, Family::Float(Float::StoreF16)),
    operation("reduce_add_i", 16, Family::Integer(Integer::ReduceAdd)),
    operation("reduce_max_i", 16, Family::Integer(Integer::ReduceMax)),
    operation("splat_i", 8, Family::Integer(Integer::Splat)),
    operation("add_i", 16, Family::Integer(Integer::Add)),
    operation("sub_i", 16, Family::Integer(Integer::Sub)),
    operation("max_i", 16, Family::Integer(Integer::Max)),
    operation("abs_bits", 16, Family::Integer(Integer::AbsBits)),
    operation("round_i", 16, Family::Integer(Integer::Round)),
    operation("to_f", 16, Family::Integer(Integer::ToFloat)),
    operation("shift_exponent", 16, Family::Integer(Integer::ShiftExponent)),
    operation("load_i8", 16, Family::Integer(Integer::LoadI8)),
    operation("store_i8", 16, Family::Integer(Integer::StoreI8)),
    operation("unpack", 16, Family::Product(Product::Unpack)),
    operation("dot_codes", 128, Family::Product(Product::DotCodes)),
    operation("dot_bytes", 128, Family::Product(Product::DotBytes)),
    operation("exp", 128, Family::Exp),
    operation("silu", 128, Family::Silu),
    operation("arg_max", 150, Family::ArgMax),
    operation("quantize_g32", 240, Family::Quantize(32)),
    operation("quantize_g64", 240, Family::Quantize(64)),
    operation("norm_quantize_g32", 240, Family::NormQuantize(32)),
    operation("norm_quantize_g64", 240, Family::NormQuantize(64)),
    operation("rotation", 20, Family::Rotation),
    operation("turn_queries", 200, Family::TurnQueries),
    operation("store_head_f16", 200, Family::Store(CacheType::F16)),
    operation("store_head_i8", 200, Family::Store(CacheType::I8)),
    operation("attend_f16", 320, Family::Attend(CacheType::F16)),
    operation("attend_i8", 320, Family::Attend(CacheType::I8)),
    operation("join", 160, Family::Join),
    operation("embed_q4a64", 100, Family::Embed(Format::Q4A64)),
    operation("embed_q4a32", 100, Family::Embed(Format::Q4A32)),
    operation("embed_q4s64", 100, Family::Embed(Format::Q4S64)),
    operation("embed_q4s32", 100, Family::Embed(Format::Q4S32)),
    operation("embed_q8", 100, Family::Embed(Format::Q8)),
    operation("matmul_q4a64", matmul::CASES, Family::Matmul(Format::Q4A64)),
    operation("matmul_q4a32", matmul::CASES, Family::Matmul(Format::Q4A32)),
    operation("matmul_q4s64", matmul::CASES, Family::Matmul(Format::Q4S64)),
    operation("matmul_q4s32", matmul::CASES, Family::Matmul(Format::Q4S32)),
    operation("matmul_q8", matmul::CASES, Family::Matmul(Format::Q8)),
];

/// What a family starts from: where in its list of shapes it is, and a generator for everything else.
pub(crate) struct Draw {
    rest: usize,
    pub(crate) random: Random,
}

impl Draw {
    /// The next axis of a full cross product of shapes: the index is read as a number of mixed radix.
    pub(crate) fn axis<T: Copy>(&mut self, choices: &[T]) -> T {
        let choice = choices[self.rest % choices.len()];
        self.rest /= choices.len();
        choice
    }

    pub(crate) fn kind(&mut self) -> Kind {
        self.random.of(&Kind::ALL)
    }
}

impl Operation {
    /// Whether the operation calls none of a port's code: its hash is all that can be compared.
    pub(crate) const fn portless(&self) -> bool {
        matches!(self.family, Family::Rotation)
    }
}

impl Case {
    /// Every case of the suite.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..OPERATIONS.len()).flat_map(Self::of)
    }

    pub(crate) fn of(operation: usize) -> impl Iterator<Item = Self> {
        let count = OPERATIONS.get(operation).map_or(0, |o| o.cases);
        (0..count).map(move |index| Self { operation, index })
    }

    /// The primitive or kernel that the case tests, as in reports.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        OPERATIONS[self.operation].name
    }

    /// What the operands are made from.
    pub(crate) fn seed(&self) -> u64 {
        ((self.operation as u64) << 32 | u64::from(self.index)).wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Runs the case on `k`: operands from the shelf, result into the record.
    pub(crate) fn run<K: Kernels>(&self, k: K, shelf: Shelf<'_>, out: &mut Record<'_>) -> Shape {
        let draw = Draw { rest: self.index as usize, random: Random::new(self.seed()) };
        match OPERATIONS[self.operation].family {
            Family::Float(op) => floats::run(op, k, draw, shelf, out),
            Family::Integer(op) => integers::run(op, k, draw, out),
            Family::Product(op) => products::run(op, k, draw, out),
            Family::Exp => elementary::run(elementary::Function::Exp, k, draw, shelf, out),
            Family::Silu => elementary::run(elementary::Function::Silu, k, draw, shelf, out),
            Family::Quantize(group) => rows::quantize(group, k, draw, shelf, out),
            Family::NormQuantize(group) => rows::norm_quantize(group, k, draw, shelf, out),
            Family::Rotation => rope::rotation(draw, shelf, out),
            Family::TurnQueries => rope::turn_queries(k, draw, shelf, out),
            Family::Store(kind) => cache::store_head(kind, k, draw, shelf, out),
            Family::Attend(kind) => attention::attend(kind, k, draw, shelf, out),
            Family::Join => attention::join(k, draw, shelf, out),
            Family::ArgMax => rows::arg_max(k, draw, shelf, out),
            Family::Embed(format) => matmul::embed(format, k, draw, shelf, out),
            Family::Matmul(format) => matmul::matmul(format, k, draw, shelf, out),
        }
    }

    /// Runs the case on the definition.
    pub(crate) fn run_scalar(&self, shelf: Shelf<'_>, out: &mut Record<'_>) {
        self.run(Scalar, shelf, out);
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.operation(), self.index)
    }
}

impl FromStr for Case {
    type Err = UnknownCase;

    fn from_str(text: &str) -> Result<Self, UnknownCase> {
        let (name, index) = text.split_once(':').ok_or(UnknownCase)?;
        let operation = OPERATIONS.iter().position(|o| o.name == name).ok_or(UnknownCase)?;
        let index = index.parse().map_err(|_| UnknownCase)?;
        if index < OPERATIONS[operation].cases { Ok(Self { operation, index }) } else { Err(UnknownCase) }
    }
}

impl fmt::Display for UnknownCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such case; expected operation:index as in a report")
    }
}

impl core::error::Error for UnknownCase {}
