//! Codes, scales and minima that tiles know are kept to the bit.

use pocket_host_test::divergence::compare;
use pocket_host_test::model_file::{Model, kind};
use pocket_host_test::reference::Reference;
use pocket_host_test::session::{Way, logits};
use pocket_pack::gguf::Value;
use pocket_runtime::image::Role;
use pocket_runtime::{Group, Image};

use super::tiles::{Element, Tiles, matrices};

/// The row of a llama file that becomes row `row`: such files have the two halves of a head interleaved.
fn llama_row(row: usize, head_dim: usize) -> usize {
    let (head, i) = (row / head_dim, row % head_dim);
    head * head_dim + if i < head_dim / 2 { 2 * i } else { 2 * (i - head_dim / 2) + 1 }
}

/// An element of a row of blocks, from the format's definition.
fn block_element(kind: u32, row: &[u8], column: usize) -> Element {
    let bytes = match kind {
        kind::Q4_0 => 18,
        kind::Q4_1 => 20,
        kind::Q8_0 => 34,
        other => panic!("type {other} is not kept"),
    };
    let (block, i) = (&row[column / 32 * bytes..][..bytes], column % 32);
    let half = |at: usize| u16::from_le_bytes([block[at], block[at + 1]]);
    let nibble = |from: usize| if i < 16 { block[from + i] % 16 } else { block[from + i - 16] / 16 };
    match kind {
        kind::Q4_0 => Element { code: nibble(2), scale: half(0), minimum: None },
        kind::Q4_1 => Element { code: nibble(4), scale: half(0), minimum: Some(half(2)) },
        _ => Element { code: block[2 + i], scale: half(0), minimum: None },
    }
}

/// Checks every element of every matrix and norm of an image against the model's file, padding included.
fn check_kept(model: &Model, image: &Image<'_>) {
    let tiles = Tiles::of(image);
    let config = *image.config();
    let mut model = model.clone();
    let llama = model.metadata.iter().any(|(key, ..)| key.starts_with("llama."));
    for (layer, role, name) in matrices(config.layers, config.tied) {
        let record = tiles.record(layer, role);
        let tensor = model.tensor(&name);
        assert_eq!([record.columns as usize, record.rows as usize], tensor.dims[..], "{name}");
        let (rows, columns) = tiles.padded(record);
        for row in 0..rows {
            let permuted = llama && matches!(role, Role::Query | Role::Key);
            let source = if permuted { llama_row(row, config.head_dim as usize) } else { row };
            for column in 0..columns {
                let found = tiles.element(record, row, column);
                if row >= record.rows as usize {
                    assert_eq!((found.code, found.scale, found.minimum.unwrap_or(0)), (0, 0, 0), "{name}: padding");
                } else if column >= record.columns as usize {
                    assert_eq!(found.code, 0, "{name}: padding");
                } else {
                    let kept = block_element(tensor.kind, tensor.row(source), column);
                    assert_eq!(found, kept, "{name}: row {row}, column {column}");
                }
            }
        }
    }
    let mut norms = vec![(0, Role::OutputNorm, "output_norm.weight".to_owned())];
    for layer in 0..config.layers {
        norms.push((layer, Role::AttentionNorm, format!("blk.{layer}.attn_norm.weight")));
        norms.push((layer, Role::FfnNorm, format!("blk.{layer}.ffn_norm.weight")));
        if config.qk_norm {
            norms.push((layer, Role::QueryNorm, format!("blk.{layer}.attn_q_norm.weight")));
            norms.push((layer, Role::KeyNorm, format!("blk.{layer}.attn_k_norm.weight")));
        }
    }
    for (layer, role, name) in norms {
        assert_eq!(tiles.vector(tiles.record(layer, role)), model.tensor(&name).floats(), "{name}");
    }
}

fn formats(image: &Image<'_>) -> Vec<u32> {
    let mut formats: Vec<u32> = image.tensors().iter().map(|record| record.format).filter(|&f| f > 0).collect();
    formats.sort_unstable();
    formats.dedup();
    formats
}

/// Files whose types are known, and the number of the format that they become.
const KEPT: [(&str, u32); 5] = [
    ("tiny-qwen3-q4_0", 4),
    ("tiny-qwen3-q4_1", 2),
    ("tiny-qwen3-q8_0", 5),
    ("tiny-qwen3-q4_1-g64", 1),
    ("tiny-qwen3-q4_1-ffn160", 2),
];

#[test]
fn codes_and_scales_are_kept() {
    for (name, format) in KEPT {
        let model = Model::tiny(name);
        let (bytes, report) = model.pack();
        let image = Image::open(&bytes).unwrap();
        assert_eq!(formats(&image), [format], "{name}");
        check_kept(&model, &image);
        assert!(report.conversions.is_empty(), "{name}: nothing was converted");
        let elements: usize = model.tensors.iter().map(|tensor| tensor.dims.iter().product::<usize>()).sum();
        assert_eq!(report.parameters, elements as u64);
        assert_eq!(report.image_bytes, bytes.len() as u64);
    }
}

#[test]
fn llamas_rows_are_permuted_and_nothing_else() {
    for (name, _) in KEPT {
        let model = Model::llama(name);
        check_kept(&model, &Image::open(&model.pack().0).unwrap());
    }
    // The permutation is not its own inverse, nor nothing: row 1 of the file is the first of the second half.
    assert_eq!([0, 1, 2, 16, 17, 31, 32].map(|row| llama_row(row, 32)), [0, 2, 4, 1, 3, 31, 32]);
}

#[test]
fn gate_and_up_alternate() {
    for (name, _) in KEPT {
        let model = Model::tiny(name);
        let (bytes, _) = model.pack();
        let image = Image::open(&bytes).unwrap();
        let tiles = Tiles::of(&image);
        for layer in 0..image.config().layers {
            let (gate, up) = (tiles.record(layer, Role::Gate), tiles.record(layer, Role::Up));
            let row_group = gate.data_bytes() / u64::from(gate.rows.div_ceil(16));
            assert_eq!((gate.stride, up.stride), (2 * row_group, 2 * row_group));
            assert_eq!(up.offset, gate.offset + row_group);
        }
    }
}

#[test]
fn weights_come_in_the_order_of_reading_without_gaps() {
    for (name, _) in KEPT {
        let (bytes, report) = Model::tiny(name).pack();
        let image = Image::open(&bytes).unwrap();
        let mut end = 0;
        for record in image.tensors().iter().filter(|record| record.role != Role::Up as u32) {
            assert!(record.offset >= end && record.offset - end < 64, "{name}: {record:?} at {end}");
            let both = if record.role == Role::Gate as u32 { 2 } else { 1 };
            end = record.offset + both * record.data_bytes();
        }
        assert!(report.weight_bytes >= end && report.weight_bytes - end < 64);
    }
}

/// Gives the second of two neighbouring blocks the scale and minimum of the first.
fn pair(row: &mut [u8], first: usize, bytes: usize) {
    let head = if bytes == 18 { 2 } else { 4 };
    let (a, b) = row.split_at_mut((first + 1) * bytes);
    b[..head].copy_from_slice(&a[first * bytes..][..head]);
}

#[test]
fn pairs_of_blocks_become_groups_of_64() {
    let model = Model::tiny("tiny-qwen3-q4_1-g64");
    let (bytes, report) = model.pack();
    let groups = Image::open(&bytes).unwrap().config().groups;
    let all = [groups.qkv, groups.attention_output, groups.gate_up, groups.down, groups.head];
    assert_eq!(all, [Group::G64; 5]);
    // 4.5 bits a weight instead of 5, and the norms.
    let (_, plain) = Model::tiny("tiny-qwen3-q4_1").pack();
    let ratio = report.weight_bytes as f64 / plain.weight_bytes as f64;
    assert!(report.image_bytes < plain.image_bytes && (0.9..0.91).contains(&ratio), "{ratio}");

    // One pair that differs in one place takes 64 from all matrices of its kind, and from no others.
    for (name, changed) in [
        ("blk.1.attn_k.weight", 0),
        ("blk.2.attn_output.weight", 1),
        ("blk.0.ffn_up.weight", 2),
        ("blk.2.ffn_down.weight", 3),
        ("token_embd.weight", 4),
    ] {
        for byte in [0, 2] {
            let mut model = model.clone();
            let data = &mut model.tensor(name).data;
            let last = data.len() - 20;
            data[last + byte] ^= 1;
            let (bytes, _) = model.pack();
            let image = Image::open(&bytes).unwrap();
            let groups = image.config().groups;
            let all = [groups.qkv, groups.attention_output, groups.gate_up, groups.down, groups.head];
            for (index, group) in all.into_iter().enumerate() {
                assert_eq!(group, if index == changed { Group::G32 } else { Group::G64 }, "{name}, kind {index}");
            }
            check_kept(&model, &image);
        }
    }
}

#[test]
fn symmetric_pairs_become_groups_of_64() {
    let mut model = Model::tiny("tiny-qwen3-q4_0");
    for tensor in model.tensors.iter_mut().filter(|tensor| tensor.kind == kind::Q4_0) {
        for row in tensor.data.chunks_exact_mut(tensor.dims[0] / 32 * 18) {
            (0..row.len() / 18 - 1).step_by(2).for_each(|first| pair(row, first, 18));
        }
    }
    let (bytes, _) = model.pack();
    let image = Image::open(&bytes).unwrap();
    assert_eq!(formats(&image), [3]);
    check_kept(&model, &image);
    check_close(&model, &image);
}

#[test]
fn a_last_block_without_a_partner_is_padded() {
    // 160 columns are two pairs and a half: the third tile's second half is zero.
    let mut model = Model::tiny("tiny-qwen3-q4_1-ffn160");
    for tensor in model.tensors.iter_mut().filter(|tensor| tensor.name.contains("ffn_down")) {
        assert_eq!(tensor.dims[0], 160);
        for row in tensor.data.chunks_exact_mut(5 * 20) {
            pair(row, 0, 20);
            pair(row, 2, 20);
        }
    }
    let (bytes, _) = model.pack();
    let image = Image::open(&bytes).unwrap();
    assert_eq!(image.config().groups.down, Group::G64);
    assert_eq!(image.config().groups.gate_up, Group::G32);
    check_kept(&model, &image);
    check_close(&model, &image);
}

#[test]
fn a_vocabulary_may_be_padded() {
    // Seven rows more than tokens, so that the last row group is not full.
    let mut model = Model::tiny("tiny-qwen3-q4_1");
    let embedding = model.tensor("token_embd.weight");
    let more = embedding.data[..7 * embedding.row(0).len()].to_vec();
    embedding.data.extend(more);
    embedding.dims[1] += 7;
    let (bytes, _) = model.pack();
    let image = Image::open(&bytes).unwrap();
    assert_eq!((image.config().vocabulary, image.tokenizer().unwrap().vocabulary()), (1031, 1024));
    check_kept(&model, &image);
    let rows = logits(&image, &[3, 1030, 6], Way::new(8));
    // Rows 1024 to 1030 are copies of rows 0 to 6.
    assert!(rows.iter().all(|row| row.len() == 1031 && row[..7] == row[1024..]));
    assert_eq!(rows, logits(&image, &[3, 6, 1030], Way::new(8)), "a row and its copy");
}

#[test]
fn mixed_types_are_kept_each_in_its_own_format() {
    // As real files do it: gate and up of different types, another one for the embedding.
    let (mut model, other) = (Model::tiny("tiny-qwen3-q4_1"), Model::tiny("tiny-qwen3-q8_0"));
    for name in ["blk.0.ffn_up.weight", "blk.1.attn_v.weight", "blk.2.ffn_down.weight", "token_embd.weight"] {
        let tensor = other.tensors.iter().find(|tensor| tensor.name == name).unwrap();
        *model.tensor(name) = tensor.clone();
    }
    let (bytes, report) = model.pack();
    let image = Image::open(&bytes).unwrap();
    assert_eq!(formats(&image), [2, 5]);
    assert!(report.conversions.is_empty());
    check_kept(&model, &image);
    check_close(&model, &image);
}

const IDS: [u32; 24] =
    [17, 4, 300, 1000, 5, 5, 81, 640, 2, 99, 512, 7, 23, 900, 1, 0, 444, 31, 77, 610, 300, 12, 8, 250];

/// Checks an image's logits against the float reference of the model's file. 0.02 is what int8 activations may change.
fn check_close(model: &Model, image: &Image<'_>) {
    let reference = Reference::open(&model.write(3)).unwrap().logits(&IDS).unwrap();
    let found = compare(&reference, &logits(image, &IDS, Way::new(32)));
    assert!(found.mean_kl <= 0.02, "{found:?}");
}

#[test]
fn llama_and_qwen3_rotate_alike() {
    // Random weights as they are, and with stronger queries and keys, so that attention tells positions apart.
    for name in ["tiny-qwen3-f32", "tiny-qwen3-q8_0", "tiny-qwen3-q4_0", "tiny-qwen3-f16-untied"] {
        for base in [10_000.0, 1_000_000.0] {
            let mut model = Model::llama(name);
            model.set("llama.rope.freq_base", Value::F32(base));
            let (bytes, _) = model.pack();
            let image = Image::open(&bytes).unwrap();
            check_close(&model, &image);

            // The comparison is not blind: with the file's rows taken for halves it fails.
            let mut wrong = model.clone();
            for tensor in &mut wrong.tensors {
                if tensor.name.contains("attn_q.") || tensor.name.contains("attn_k.") {
                    let rows: Vec<u8> =
                        (0..tensor.rows()).flat_map(|r| tensor.row(llama_row(r, 32)).to_vec()).collect();
                    tensor.data = rows;
                }
            }
            let reference = Reference::open(&wrong.write(3)).unwrap().logits(&IDS).unwrap();
            let found = compare(&reference, &logits(&image, &IDS, Way::new(32)));
            assert!(found.mean_kl > 0.1, "{name}: {found:?}");
        }
    }
}
