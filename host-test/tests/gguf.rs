//! The GGUF reader on good files, and on every kind of bad one.
//!
//! A model file is a download; length fields that lie have crashed other readers or made
//! them allocate gigabytes. Each test below damages a file in one way and wants an error
//! that names the damage. Where any outcome is allowed it must still be no panic, and
//! whatever was accepted must be readable to its end.

use pocket_host_test::models::{self, TINY};
use pocket_pack::gguf::{Array, Gguf, GgufError, TensorType, Value, ValueType};
use pocket_pack::quant::dequantize;
use proptest::prelude::*;

/// The smallest fixture, so that thousands of damaged copies are quick to read.
const SMALL: &str = "tiny-qwen3-q4_1-ffn160";

fn fixture(name: &str) -> Vec<u8> {
    models::read(&models::tiny(name))
}

/// Writes GGUF files, lies included.
#[derive(Clone, Default)]
struct Builder(Vec<u8>);

impl Builder {
    fn header(tensors: u64, metadata: u64) -> Self {
        Self(b"GGUF".to_vec()).u32(3).u64(tensors).u64(metadata)
    }
    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }
    fn u32(self, n: u32) -> Self {
        self.bytes(&n.to_le_bytes())
    }
    fn u64(self, n: u64) -> Self {
        self.bytes(&n.to_le_bytes())
    }
    fn str(self, text: &str) -> Self {
        self.u64(text.len() as u64).bytes(text.as_bytes())
    }
    fn tensor(self, name: &str, dims: &[u64], kind: u32, offset: u64) -> Self {
        let start = self.str(name).u32(dims.len() as u32);
        dims.iter().fold(start, |b, dim| b.u64(*dim)).u32(kind).u64(offset)
    }
    fn data(mut self, len: usize) -> Vec<u8> {
        self.0.resize(self.0.len().next_multiple_of(32) + len, 0);
        self.0
    }
    fn error(self) -> GgufError {
        parse_error(&self.0)
    }
}

fn parse_error(file: &[u8]) -> GgufError {
    let error = Gguf::parse(file).expect_err("the file should be refused");
    let sentence = error.to_string();
    assert!(sentence.len() < 400 && !sentence.contains('\n'), "{sentence}");
    error
}

/// Reads everything that an accepted file offers.
fn read_all(gguf: &Gguf<'_>) {
    fn walk(value: Value<'_>) {
        if let Value::Array(array) = value {
            let mut count = 0;
            for element in array.iter() {
                walk(element);
                count += 1;
            }
            assert_eq!(count, array.len(), "an accepted array must decode wholly");
        }
    }
    for (key, value) in gguf.metadata() {
        walk(*value);
        // Written only once, so looking up must find the same (bits, as NaN is unequal).
        assert_eq!(format!("{:?}", gguf.get(key)), format!("{:?}", Some(value)));
    }
    for tensor in gguf.tensors() {
        assert_eq!(gguf.tensor(tensor.name).as_ref(), Some(tensor));
        assert_eq!(tensor.elements(), tensor.rows() * tensor.cols());
        let row = tensor.row(tensor.rows() - 1).expect("the last row");
        assert!(tensor.row(tensor.rows()).is_none());
        let mut out = vec![0.0; tensor.cols()];
        dequantize(tensor.kind, row, &mut out).expect("a row decodes");
    }
}

#[test]
fn reads_every_fixture() {
    for name in TINY {
        let file = fixture(name);
        let gguf = Gguf::parse(&file).unwrap_or_else(|e| panic!("{name}: {e}"));
        read_all(&gguf);
        assert_eq!(gguf.version(), 3);
        assert_eq!(gguf.require("general.architecture"), Ok("qwen3"));
        let tokens: Array<'_> = gguf.require("tokenizer.ggml.tokens").unwrap();
        assert_eq!(tokens.kind(), ValueType::Str);
        assert_eq!(tokens.strs().unwrap().count(), 1024);
        assert_eq!(tokens.strs().unwrap().next(), Some("!"));
    }
}

#[test]
fn reads_what_the_file_says() {
    let file = fixture("tiny-qwen3-f16-untied");
    let gguf = Gguf::parse(&file).unwrap();
    assert_eq!(gguf.require("qwen3.block_count"), Ok(3_u32));
    assert_eq!(gguf.require("qwen3.rope.freq_base"), Ok(1_000_000.0_f32));
    assert_eq!(gguf.require("tokenizer.ggml.add_bos_token"), Ok(false));
    assert_eq!(gguf.optional::<u32>("qwen3.absent"), Ok(None));
    assert!(matches!(gguf.require::<u32>("qwen3.absent"), Err(GgufError::MissingKey { .. })));
    assert!(matches!(gguf.optional::<u32>("general.architecture"), Err(GgufError::WrongType { .. })));
    let gate = gguf.tensor("blk.1.ffn_gate.weight").unwrap();
    assert_eq!(gate.kind, TensorType::F16);
    assert_eq!((gate.cols(), gate.rows()), (128, 192));
    assert_eq!(gate.dims(), [128, 192]);
    assert_eq!(gate.data.len(), 128 * 192 * 2);
    assert!(gguf.tensor("blk.3.ffn_gate.weight").is_none());
    assert_eq!(gguf.tensors().len(), 36);
}

#[test]
fn reads_smollm2() {
    let file = models::read(&models::smollm2());
    let gguf = Gguf::parse(&file).unwrap();
    read_all(&gguf);
    assert_eq!(gguf.tensors().len(), 272);
    assert_eq!(gguf.require("llama.embedding_length"), Ok(576_u32));
    assert_eq!(gguf.tensor("token_embd.weight").unwrap().kind, TensorType::Q8_0);
}

#[test]
fn version_2_reads_as_version_3() {
    let mut file = fixture(SMALL);
    file[4] = 2;
    let gguf = Gguf::parse(&file).unwrap();
    assert_eq!(gguf.version(), 2);
    read_all(&gguf);
}

#[test]
fn refuses_other_formats_and_versions() {
    assert_eq!(parse_error(b""), GgufError::NotGguf);
    assert_eq!(parse_error(b"GGU"), GgufError::NotGguf);
    assert_eq!(parse_error(b"GGJT\x03\0\0\0"), GgufError::NotGguf);
    let version = |n: u32| Builder(b"GGUF".to_vec()).u32(n).u64(0).u64(0).error();
    assert_eq!(version(1), GgufError::Version { version: 1 });
    assert_eq!(version(4), GgufError::Version { version: 4 });
    assert_eq!(version(3_u32.swap_bytes()), GgufError::BigEndian);
}

#[test]
fn every_truncation_is_an_error() {
    let file = fixture(SMALL);
    // Some kilobytes of header and metadata byte by byte, then the rest in strides.
    let cuts = (0..8192).chain((8192..file.len()).step_by(97));
    for cut in cuts.chain(file.len() - 64..file.len()) {
        parse_error(&file[..cut]);
    }
}

/// Of these bytes, one is damaged.
const STEP: usize = if pocket_host_test::EMULATED { 7 } else { 1 };

#[test]
fn every_bit_flip_in_the_first_bytes_is_survived() {
    let mut file = fixture(SMALL);
    for at in (0..2048).step_by(STEP) {
        for bit in 0..8 {
            file[at] ^= 1 << bit;
            if let Ok(gguf) = Gguf::parse(&file) {
                read_all(&gguf);
            }
            file[at] ^= 1 << bit;
        }
    }
}

#[test]
fn bit_flips_in_the_tensor_table_are_survived() {
    let mut file = fixture(SMALL);
    let table = file.windows(17).position(|w| w == b"token_embd.weight").expect("the table names the embedding") - 8;
    for at in (table..table + 600).step_by(STEP) {
        for bit in 0..8 {
            file[at] ^= 1 << bit;
            if let Ok(gguf) = Gguf::parse(&file) {
                read_all(&gguf);
            }
            file[at] ^= 1 << bit;
        }
    }
}

#[test]
fn huge_counts_are_refused_before_they_cost_anything() {
    let truncated = |e: GgufError| assert!(matches!(e, GgufError::Truncated { .. }), "{e}");
    let too_many = |e: GgufError| assert!(matches!(e, GgufError::TooMany { .. }), "{e}");
    for count in [1 << 17, 1 << 40, u64::MAX] {
        too_many(Builder::header(count, 0).error());
        too_many(Builder::header(0, count).error());
    }
    truncated(Builder::header(1000, 0).error());
    truncated(Builder::header(0, 1000).error());
    for len in [100, 1 << 31, 1 << 62, u64::MAX - 7, u64::MAX] {
        // A key, a string and arrays of every element type that are said to be that long.
        truncated(Builder::header(0, 1).u64(len).bytes(&[b'k'; 40]).error());
        truncated(Builder::header(0, 1).str("k").u32(8).u64(len).u64(0).error());
        for element in 0..13 {
            truncated(Builder::header(0, 1).str("k").u32(9).u32(element).u64(len).bytes(&[0; 16]).error());
        }
    }
}

#[test]
fn metadata_must_be_well_formed() {
    let one = || Builder::header(0, 1);
    assert!(matches!(one().str("k").u32(13).u64(0).error(), GgufError::ValueType { code: 13, .. }));
    assert!(matches!(one().str("k").u32(7).bytes(&[2]).error(), GgufError::Bool { .. }));
    assert!(matches!(one().u64(2).bytes(&[0xff, 0xfe]).u32(4).u32(1).error(), GgufError::NotUtf8 { .. }));
    assert!(matches!(one().str("").u32(4).u32(1).error(), GgufError::NoName { .. }));
    let twice = Builder::header(0, 2).str("k").u32(4).u32(1).str("k").u32(4).u32(1);
    assert!(matches!(twice.error(), GgufError::Duplicate { .. }));
    // Arrays in arrays, as deep as the file has bytes for: no stack may run out.
    let deep = (0..10_000).fold(one().str("k").u32(9), |b, _| b.u32(9).u64(1));
    assert!(matches!(deep.error(), GgufError::Nesting { .. }));
    let nested = one().str("k").u32(9).u32(9).u64(2).u32(4).u64(1).u32(7).u32(8).u64(1).str("x");
    read_all(&Gguf::parse(&nested.0).unwrap());
}

#[test]
fn alignment_must_be_a_sane_power_of_two() {
    let with = |alignment: u32| Builder::header(0, 1).str("general.alignment").u32(4).u32(alignment);
    for alignment in [0, 1, 4, 24, 33, 1 << 17, u32::MAX] {
        assert_eq!(with(alignment).error(), GgufError::Alignment, "{alignment}");
    }
    assert!(Gguf::parse(&with(64).0).is_ok());
    let text = Builder::header(0, 1).str("general.alignment").u32(8).str("32");
    assert_eq!(text.error(), GgufError::Alignment);
}

#[test]
fn tensors_must_have_a_possible_shape() {
    let with = |dims: &[u64], kind| parse_error(&Builder::header(1, 0).tensor("t", dims, kind, 0).data(1 << 12));
    for dims in [&[][..], &[0], &[32, 0], &[1, 1, 1, 1, 1]] {
        assert!(matches!(with(dims, 0), GgufError::Dimensions { .. }));
    }
    for dims in [&[1 << 62][..], &[1 << 32, 1 << 32], &[u64::MAX], &[1 << 63, 2], &[1 << 16, 1 << 16, 1 << 16, 1 << 16]]
    {
        assert!(matches!(with(dims, 0), GgufError::TooLarge { .. }));
    }
    assert!(matches!(with(&[1 << 60], 1), GgufError::PastEnd { .. }));
    assert!(matches!(with(&[33], 2), GgufError::RowLength { .. }));
    assert!(matches!(with(&[32], 12), GgufError::RowLength { .. }));
    for kind in [4, 16, 99, u32::MAX] {
        assert!(matches!(with(&[32], kind), GgufError::TensorType { .. }));
    }
    let long = "n".repeat(300);
    let long = Builder::header(1, 0).tensor(&long, &[32], 0, 0).data(128);
    assert!(matches!(parse_error(&long), GgufError::TooMany { .. }));
}

#[test]
fn tensors_must_lie_in_the_file_and_apart() {
    let two = |first: u64, second: u64| {
        Builder::header(2, 0).tensor("a", &[32], 0, first).tensor("b", &[32], 0, second).data(256)
    };
    let good = two(0, 128);
    read_all(&Gguf::parse(&good).unwrap());
    read_all(&Gguf::parse(&two(128, 0)).unwrap());
    for (first, second) in [(0, 0), (0, 96), (96, 0)] {
        let error = parse_error(&two(first, second));
        assert!(matches!(error, GgufError::Overlap { .. }), "{error}");
    }
    for second in [160, 256, 1 << 40, u64::MAX - 31] {
        let error = parse_error(&two(0, second));
        assert!(matches!(error, GgufError::PastEnd { .. }), "{error}");
    }
    for second in [129, 132, u64::MAX] {
        let error = parse_error(&two(0, second));
        assert!(matches!(error, GgufError::Misaligned { .. }), "{error}");
    }
    let same_name = Builder::header(2, 0).tensor("a", &[32], 0, 0).tensor("a", &[32], 0, 128).data(256);
    assert!(matches!(parse_error(&same_name), GgufError::Duplicate { .. }));
}

#[test]
fn names_are_made_fit_to_print() {
    let name = format!("\u{1b}[2J\n{}", "x".repeat(200));
    let file = Builder::header(1, 0).tensor(&name, &[32], 99, 0).data(128);
    let sentence = parse_error(&file).to_string();
    assert!(sentence.contains("\\u{1b}[2J\\nxxx"), "{sentence}");
    assert!(sentence.contains("…") && !sentence.contains('\u{1b}'));
}

proptest! {
    /// Any few bytes overwritten anywhere in header, metadata or table.
    #[test]
    fn mutations_are_survived(
        edits in prop::collection::vec((0..40_000_usize, any::<u8>()), 1..8),
        eights in prop::collection::vec((0..40_000_usize, prop_oneof![
            any::<u64>(),
            Just(u64::MAX),
            Just(1 << 63),
            0..64_u64,
        ]), 0..3),
    ) {
        let mut file = fixture(SMALL);
        for (at, byte) in edits {
            if let Some(place) = file.get_mut(at) {
                *place = byte;
            }
        }
        for (at, number) in eights {
            if let Some(place) = file.get_mut(at..at + 8) {
                place.copy_from_slice(&number.to_le_bytes());
            }
        }
        if let Ok(gguf) = Gguf::parse(&file) {
            read_all(&gguf);
        }
    }

    /// Noise behind a good magic and version.
    #[test]
    fn noise_is_survived(noise in prop::collection::vec(any::<u8>(), 0..512)) {
        let file = [b"GGUF\x03\0\0\0".as_slice(), &noise].concat();
        if let Ok(gguf) = Gguf::parse(&file) {
            read_all(&gguf);
        }
    }
}
