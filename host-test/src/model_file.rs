//! GGUF files to be changed and written again.
//!
//! A [`Model`] is a file taken apart: change a number, cut a tensor, add what no model has, and write it. Tests of the
//! packer refuse or pack what comes out; the fuzzers begin with the smallest of them.

use pocket_pack::gguf::{Gguf, Value, ValueType};
use pocket_pack::pack::{Options, PackError, Quant, Report, pack_file};

use crate::images::AlignedBytes;
use crate::models;

/// Type numbers of tensors.
#[expect(missing_docs, reason = "the names are the format's own")]
pub mod kind {
    pub const F32: u32 = 0;
    pub const F16: u32 = 1;
    pub const Q4_0: u32 = 2;
    pub const Q4_1: u32 = 3;
    pub const Q8_0: u32 = 8;
    pub const Q4_K: u32 = 12;
    pub const Q6_K: u32 = 14;
    pub const BF16: u32 = 30;
}

/// A tensor with its bytes.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// Columns, then rows.
    pub dims: Vec<usize>,
    /// Its type, one of [`kind`].
    pub kind: u32,
    /// Its rows, one after the other.
    pub data: Vec<u8>,
}

impl Tensor {
    /// A tensor of floats.
    pub fn f32(name: &str, dims: &[usize], values: &[f32]) -> Self {
        let data = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        Self { name: name.to_owned(), dims: dims.to_vec(), kind: kind::F32, data }
    }

    /// Its rows.
    pub fn rows(&self) -> usize {
        self.dims[1..].iter().product()
    }

    /// The bytes of a row.
    pub fn row(&self, row: usize) -> &[u8] {
        let bytes = self.data.len() / self.rows();
        &self.data[row * bytes..][..bytes]
    }

    /// The numbers of a tensor of floats.
    ///
    /// # Panics
    /// If its type is another.
    pub fn floats(&self) -> Vec<f32> {
        let halves = || self.data.as_chunks::<2>().0.iter().map(|b| u16::from_le_bytes(*b));
        match self.kind {
            kind::F32 => self.data.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
            kind::F16 => halves().map(|bits| half::f16::from_bits(bits).to_f32()).collect(),
            kind::BF16 => halves().map(|bits| f32::from_bits(u32::from(bits) << 16)).collect(),
            other => panic!("type {other} has no floats"),
        }
    }
}

/// A model file in pieces: metadata values as they are written, with their type numbers, and tensors.
#[derive(Clone, Debug)]
pub struct Model {
    /// Keys with type numbers and bytes.
    pub metadata: Vec<(String, u32, Vec<u8>)>,
    /// The tensors, in the order of the file.
    pub tensors: Vec<Tensor>,
}

const TYPES: [ValueType; 13] = [
    ValueType::U8,
    ValueType::I8,
    ValueType::U16,
    ValueType::I16,
    ValueType::U32,
    ValueType::I32,
    ValueType::F32,
    ValueType::Bool,
    ValueType::Str,
    ValueType::Array,
    ValueType::U64,
    ValueType::I64,
    ValueType::F64,
];

fn type_number(kind: ValueType) -> u32 {
    TYPES.iter().position(|other| *other == kind).expect("all are there") as u32
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

/// A value's type number and bytes.
pub fn encode(value: Value<'_>) -> (u32, Vec<u8>) {
    match value {
        Value::U8(v) => (0, vec![v]),
        Value::I8(v) => (1, v.to_le_bytes().to_vec()),
        Value::U16(v) => (2, v.to_le_bytes().to_vec()),
        Value::I16(v) => (3, v.to_le_bytes().to_vec()),
        Value::U32(v) => (4, v.to_le_bytes().to_vec()),
        Value::I32(v) => (5, v.to_le_bytes().to_vec()),
        Value::F32(v) => (6, v.to_le_bytes().to_vec()),
        Value::Bool(v) => (7, vec![v.into()]),
        Value::Str(v) => (8, text(v)),
        Value::Array(v) => {
            let mut bytes = [&type_number(v.kind()).to_le_bytes()[..], &(v.len() as u64).to_le_bytes()].concat();
            v.iter().for_each(|element| bytes.extend(encode(element).1));
            (9, bytes)
        }
        Value::U64(v) => (10, v.to_le_bytes().to_vec()),
        Value::I64(v) => (11, v.to_le_bytes().to_vec()),
        Value::F64(v) => (12, v.to_le_bytes().to_vec()),
    }
}

impl Model {
    /// One of [`models::TINY`].
    ///
    /// # Panics
    /// If the checkout is not whole.
    pub fn tiny(name: &str) -> Self {
        Self::read(&models::read(&models::tiny(name)))
    }

    /// The model of a file.
    ///
    /// # Panics
    /// If it is no GGUF file.
    pub fn read(file: &[u8]) -> Self {
        let gguf = Gguf::parse(file).expect("a GGUF file");
        let metadata = gguf.metadata().iter().map(|(key, value)| {
            let (kind, bytes) = encode(*value);
            ((*key).to_owned(), kind, bytes)
        });
        let tensors = gguf.tensors().iter().map(|tensor| Tensor {
            name: tensor.name.to_owned(),
            dims: tensor.dims().to_vec(),
            kind: tensor.kind.code(),
            data: tensor.data.to_vec(),
        });
        Self { metadata: metadata.collect(), tensors: tensors.collect() }
    }

    /// A small model as it would be as a llama: no norms of query and key heads.
    pub fn llama(name: &str) -> Self {
        let mut model = Self::tiny(name);
        for (key, ..) in &mut model.metadata {
            *key = key.replace("qwen3.", "llama.");
        }
        model.set("general.architecture", Value::Str("llama"));
        model.tensors.retain(|tensor| !tensor.name.contains("_norm") || !tensor.name.contains("attn_q_"));
        model.tensors.retain(|tensor| !tensor.name.contains("attn_k_norm"));
        model
    }

    /// A llama of one layer with widths of 256 and random weights: F32.
    pub fn wide() -> Self {
        let mut model = Self::llama("tiny-qwen3-f32");
        let width = Value::U32(256);
        model.set("llama.embedding_length", width);
        model.set("llama.feed_forward_length", width);
        model.set("llama.block_count", Value::U32(1));
        model.set("llama.attention.head_count", Value::U32(8));
        model.set("llama.attention.head_count_kv", Value::U32(8));
        model.tensors.retain(|tensor| !tensor.name.starts_with("blk.") || tensor.name.starts_with("blk.0."));
        for (seed, tensor) in model.tensors.iter_mut().enumerate() {
            let rows = if tensor.name == "token_embd.weight" { 1024 } else { 256 };
            let dims: &[usize] = if tensor.dims.len() == 1 { &[256] } else { &[256, rows] };
            let norm = if tensor.dims.len() == 1 { 1.0 } else { 0.0 };
            let values: Vec<f32> = normal(seed as u64, dims.iter().product()).map(|x| norm + 0.05 * x).collect();
            *tensor = Tensor::f32(&tensor.name, dims, &values);
        }
        model
    }

    /// Sets or adds a metadata value.
    pub fn set(&mut self, key: &str, value: Value<'_>) {
        let (kind, bytes) = encode(value);
        match self.metadata.iter_mut().find(|(other, ..)| other == key) {
            Some(entry) => (entry.1, entry.2) = (kind, bytes),
            None => self.metadata.push((key.to_owned(), kind, bytes)),
        }
    }

    /// Removes a metadata value.
    ///
    /// # Panics
    /// If it is not there.
    pub fn unset(&mut self, key: &str) {
        let before = self.metadata.len();
        self.metadata.retain(|(other, ..)| other != key);
        assert_eq!(self.metadata.len() + 1, before, "{key} was there");
    }

    /// The tensor of this name.
    ///
    /// # Panics
    /// If it is not there.
    pub fn tensor(&mut self, name: &str) -> &mut Tensor {
        let found = self.tensors.iter_mut().find(|tensor| tensor.name == name);
        found.unwrap_or_else(|| panic!("the model has a tensor {name}"))
    }

    /// The file, in this version of the format.
    pub fn write(&self, version: u32) -> Vec<u8> {
        let mut file = b"GGUF".to_vec();
        file.extend(version.to_le_bytes());
        file.extend((self.tensors.len() as u64).to_le_bytes());
        file.extend((self.metadata.len() as u64).to_le_bytes());
        for (key, kind, bytes) in &self.metadata {
            file.extend(text(key));
            file.extend(kind.to_le_bytes());
            file.extend(bytes);
        }
        let mut offset = 0;
        for tensor in &self.tensors {
            file.extend(text(&tensor.name));
            file.extend((tensor.dims.len() as u32).to_le_bytes());
            tensor.dims.iter().for_each(|dim| file.extend((*dim as u64).to_le_bytes()));
            file.extend(tensor.kind.to_le_bytes());
            file.extend((offset as u64).to_le_bytes());
            offset += tensor.data.len().next_multiple_of(32);
        }
        for tensor in &self.tensors {
            file.resize(file.len().next_multiple_of(32), 0);
            file.extend(&tensor.data);
        }
        file
    }

    /// Packs the model.
    ///
    /// # Errors
    /// What the packer says.
    pub fn try_pack(&self, quant: Quant) -> Result<(AlignedBytes, Report), PackError> {
        pack_bytes(&self.write(3), quant)
    }

    /// Packs the model, floats as 8 bits.
    ///
    /// # Panics
    /// If it cannot be packed.
    pub fn pack(&self) -> (AlignedBytes, Report) {
        self.try_pack(Quant::Q8).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// Packs the bytes of a file.
///
/// # Errors
/// What the packer says.
///
/// # Panics
/// If there is no room for temporary files.
pub fn pack_bytes(file: &[u8], quant: Quant) -> Result<(AlignedBytes, Report), PackError> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (input, output) = (folder.path().join("model.gguf"), folder.path().join("model.pocket"));
    std::fs::write(&input, file).expect("room for a small file");
    let report = pack_file(&input, &output, &Options { quant, ..Options::default() }, &mut |_| {})?;
    Ok((AlignedBytes::copy_of(&std::fs::read(&output).expect("the image")), report))
}

/// Numbers of about a normal distribution: sums of twelve uniform ones.
pub fn normal(seed: u64, count: usize) -> impl Iterator<Item = f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut uniform = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    (0..count).map(move |_| (0..12).map(|_| uniform()).sum::<f32>() - 6.0)
}
