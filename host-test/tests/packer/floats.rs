//! What cannot be kept is quantised anew: how far that is from the file, and that the report says so.

use pocket_host_test::model_file::{Model, Tensor, kind, normal};
use pocket_host_test::models;
use pocket_pack::pack::{PackError, Quant};
use pocket_runtime::Image;

use super::tiles::{Tiles, matrices};

/// The smallest relative step of binary16: a scale or minimum is that far from what was computed, at most.
const HALF: f64 = 1.0 / 2048.0;

/// `√(Σ(x − y)² / Σx²)` of a packed matrix, and the same for each block of 32 columns with its values.
fn errors(tiles: &Tiles<'_>, at: (u32, pocket_runtime::image::Role), values: &[f32]) -> (f64, Vec<(Vec<f64>, f64)>) {
    let record = tiles.record(at.0, at.1);
    let columns = record.columns as usize;
    let (mut squares, mut wrong, mut blocks) = (0.0, 0.0, Vec::new());
    for (index, block) in values.chunks_exact(32).enumerate() {
        let (row, first) = (index * 32 / columns, index * 32 % columns);
        let block: Vec<f64> = block.iter().map(|&x| f64::from(x)).collect();
        let error: f64 = block.iter().enumerate().map(|(i, x)| (x - tiles.value(record, row, first + i)).powi(2)).sum();
        wrong += error;
        squares += block.iter().map(|x| x * x).sum::<f64>();
        blocks.push((block, error));
    }
    ((wrong / squares).sqrt(), blocks)
}

/// Packs a model of floats and checks every conversion's figure against the packed tiles. Gives the figures.
fn check(model: &Model, quant: Quant, (from, to): (&str, &str), bound: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let (bytes, report) = model.try_pack(quant).unwrap();
    let image = Image::open(&bytes).unwrap();
    let tiles = Tiles::of(&image);
    let mut model = model.clone();
    let matrices = matrices(image.config().layers, image.config().tied);
    assert_eq!(report.conversions.len(), matrices.len(), "every matrix is named once");
    for (layer, role, name) in matrices {
        let said = report.conversions.iter().find(|conversion| conversion.tensor == name);
        let said = said.unwrap_or_else(|| panic!("{name} is not in the report"));
        assert_eq!((said.from.as_str(), said.to.as_str()), (from, to), "{name}");
        let (found, blocks) = errors(&tiles, (layer, role), &model.tensor(&name).floats());
        assert!((found - said.relative_error).abs() <= 1e-4 * found, "{name}: {found}, said {}", said.relative_error);
        for (block, error) in blocks {
            assert!(error <= bound(&block), "{name}: {error} > {} for {block:?}", bound(&block));
        }
    }
    // People can read it in the image as well.
    let provenance: serde_json::Value = serde_json::from_str(image.provenance()).unwrap();
    assert_eq!(provenance["conversions"].as_array().unwrap().len(), report.conversions.len());
    report.conversions.iter().map(|conversion| conversion.relative_error).collect()
}

/// 8 bits: the step is the largest magnitude / 127, and each value is at most half a step away, the step's own rounding
/// included.
fn bound_8(block: &[f64]) -> f64 {
    let most = block.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
    32.0 * (most / 254.0 * (1.0 + HALF)).powi(2)
}

/// 4 bits: at least as good as steps of a fifteenth of the range, whose values are half a step away at most; the
/// roundings of minimum and step add theirs.
fn bound_4(block: &[f64]) -> f64 {
    let least = block.iter().copied().fold(f64::INFINITY, f64::min);
    let range = block.iter().copied().fold(f64::NEG_INFINITY, f64::max) - least;
    32.0 * (range / 30.0 + HALF * (least.abs() + range)).powi(2)
}

fn converted(model: &Model, to: u32) -> Model {
    let mut model = model.clone();
    for tensor in model.tensors.iter_mut().filter(|tensor| tensor.dims.len() == 2) {
        let halves = tensor.floats().into_iter().map(|x| match to {
            kind::F16 => half::f16::from_f32(x).to_bits(),
            _ => half::bf16::from_f32(x).to_bits(),
        });
        tensor.data = halves.flat_map(u16::to_le_bytes).collect();
        tensor.kind = to;
    }
    model
}

#[test]
fn floats_become_8_bits_within_half_a_step() {
    let f32 = Model::tiny("tiny-qwen3-f32");
    let (f16, bf16) = (converted(&f32, kind::F16), converted(&f32, kind::BF16));
    for (model, from) in [(&f32, "F32"), (&f16, "F16"), (&bf16, "BF16")] {
        for error in check(model, Quant::Q8, (from, "q8"), bound_8) {
            // Errors are spread evenly over a step: step / √12. The largest of 32 normal values is about 2.1 σ (1.6 to
            // 3.5 nearly always), so the step is 0.017 σ and the error 0.0048.
            assert!((0.0035..0.0065).contains(&error), "{from}: {error}");
        }
    }
}

#[test]
fn floats_become_4_bits_within_half_a_step() {
    let f32 = Model::tiny("tiny-qwen3-f32");
    for (model, from) in
        [(f32.clone(), "F32"), (converted(&f32, kind::F16), "F16"), (converted(&f32, kind::BF16), "BF16")]
    {
        for error in check(&model, Quant::Q4, (from, "q4a32"), bound_4) {
            // The range of 32 normal values is about 4.1 σ, a step 0.27 σ, the error 0.079; fitting takes some of it.
            assert!((0.055..0.085).contains(&error), "{from}: {error}");
        }
    }
    // 5 bits a weight instead of 8.5.
    let size = |quant| f32.try_pack(quant).unwrap().1.weight_bytes as f64;
    let ratio = size(Quant::Q4) / size(Quant::Q8);
    assert!((0.585..0.605).contains(&ratio), "{ratio}");
}

#[test]
fn only_floats_follow_the_chosen_type() {
    for name in ["tiny-qwen3-q4_0", "tiny-qwen3-q8_0"] {
        let model = Model::tiny(name);
        let (q4, q8) = (model.try_pack(Quant::Q4).unwrap(), model.try_pack(Quant::Q8).unwrap());
        assert!(*q4.0 == *q8.0, "{name}: nothing to choose");
    }
}

#[test]
fn blocks_of_one_value_and_of_zeros() {
    let mut model = Model::wide();
    let mut values = model.tensor("blk.0.ffn_down.weight").floats();
    values[..32].fill(0.0);
    values[32..64].fill(0.75);
    values[64..96].fill(-3.0);
    // Far below what a step of binary16 can say, but not what it must come out as: nothing.
    values[96..128].fill(1e-30);
    *model.tensor("blk.0.ffn_down.weight") = Tensor::f32("blk.0.ffn_down.weight", &[256, 256], &values);
    for (quant, close) in [(Quant::Q8, 1.0 / 254.0), (Quant::Q4, HALF)] {
        let (bytes, _) = model.try_pack(quant).unwrap();
        let image = Image::open(&bytes).unwrap();
        let tiles = Tiles::of(&image);
        let record = tiles.record(0, pocket_runtime::image::Role::Down);
        for (column, value) in values.iter().enumerate().take(128) {
            let found = tiles.value(record, 0, column);
            assert!((found - f64::from(*value)).abs() <= close * f64::from(value.abs()) + 1e-20, "{quant:?}: {found}");
        }
    }
}

/// A tensor made of the blocks of a fixture, again and again, with the values that another program gives them.
fn k_quant(name: &str, code: u32, file: &str) -> (Tensor, Vec<f32>) {
    let blocks = models::read(&models::fixture(&format!("quant/{file}.blocks")));
    let values = models::read(&models::fixture(&format!("quant/{file}.f32")));
    let values: Vec<f32> = values.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    let times = 256 * 256 / values.len();
    (
        Tensor { name: name.to_owned(), dims: vec![256, 256], kind: code, data: blocks.repeat(times) },
        values.repeat(times),
    )
}

#[test]
fn k_quants_become_8_bits_with_a_figure() {
    let mut model = Model::wide();
    let (down, down_values) = k_quant("blk.0.ffn_down.weight", kind::Q4_K, "Q4_K");
    let (value, value_values) = k_quant("blk.0.attn_v.weight", kind::Q6_K, "Q6_K");
    *model.tensor("blk.0.ffn_down.weight") = down;
    *model.tensor("blk.0.attn_v.weight") = value;
    // `--quant q4` is for floats; what has been quantised once is not made worse than 8 bits.
    for quant in [Quant::Q8, Quant::Q4] {
        let (bytes, report) = model.try_pack(quant).unwrap();
        let image = Image::open(&bytes).unwrap();
        let tiles = Tiles::of(&image);
        for (name, role, from, values) in [
            ("blk.0.ffn_down.weight", pocket_runtime::image::Role::Down, "Q4_K", &down_values),
            ("blk.0.attn_v.weight", pocket_runtime::image::Role::Value, "Q6_K", &value_values),
        ] {
            let said = report.conversions.iter().find(|conversion| conversion.tensor == name).unwrap();
            assert_eq!((said.from.as_str(), said.to.as_str()), (from, "q8"));
            let (found, blocks) = errors(&tiles, (0, role), values);
            assert!((found - said.relative_error).abs() <= 1e-4 * found, "{name}: {found}, {}", said.relative_error);
            assert!((0.001..0.007).contains(&found), "{name}: {found}");
            assert!(blocks.iter().all(|(block, error)| *error <= bound_8(block)), "{name}");
        }
    }
}

#[test]
fn every_type_of_tensor_packs() {
    for file in [
        "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL",
        "IQ4_XS",
    ] {
        let code = pocket_pack::gguf::TensorType::ALL.into_iter().find(|kind| kind.name() == file).unwrap().code();
        // Fixtures of floats have values that are not numbers or do not fill rows; make these.
        let (tensor, _) = if file.ends_with("F16") {
            let values: Vec<f32> = normal(3, 256 * 256).collect();
            let one = Tensor::f32("blk.0.attn_q.weight", &[256, 256], &values);
            let model = converted(&Model { metadata: Vec::new(), tensors: vec![one] }, code);
            (model.tensors[0].clone(), values)
        } else {
            k_quant("blk.0.attn_q.weight", code, file)
        };
        let mut model = Model::wide();
        *model.tensor("blk.0.attn_q.weight") = tensor;
        let (bytes, report) = model.pack();
        Image::open(&bytes).unwrap().verify().unwrap();
        let said = report.conversions.iter().find(|conversion| conversion.tensor == "blk.0.attn_q.weight");
        let kept = ["Q4_0", "Q4_1", "Q8_0"].contains(&file);
        assert_eq!(said.is_none(), kept, "{file}");
        assert!(said.is_none_or(|said| said.from == file && said.relative_error < 0.01), "{file}: {said:?}");
    }
}

#[test]
fn values_beyond_a_scale_are_refused() {
    // 127 · 65504 is the largest value that 8 bits can say with a scale of binary16.
    for (value, fits) in [(8.3e6, true), (-8.3e6, true), (8.4e6, false), (f32::MAX, false), (f32::MIN, false)] {
        let mut model = Model::wide();
        let mut values = model.tensor("blk.0.ffn_up.weight").floats();
        values[256 * 7 + 3] = value;
        *model.tensor("blk.0.ffn_up.weight") = Tensor::f32("blk.0.ffn_up.weight", &[256, 256], &values);
        match model.try_pack(Quant::Q8) {
            Ok(_) => assert!(fits, "{value}"),
            Err(PackError::OutOfRange { name, row: 7 }) => assert!(!fits && name == "blk.0.ffn_up.weight", "{value}"),
            Err(error) => panic!("{value}: {error}"),
        }
    }
}
