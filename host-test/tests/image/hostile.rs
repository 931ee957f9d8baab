//! Malice: images whose checksums are good and whose numbers are not.

use pocket_runtime::image::{FORMAT_F32, GenerationRecord, Role, SectionKind, SectionRecord, TensorRecord};
use pocket_runtime::{ConfigError, Image, ImageError, Part};

use super::build::{Draft, MODEL, UNTIED, exercise, opened};

const TABLE: ImageError = ImageError::Field { part: Part::SectionTable };
const HEADER: ImageError = ImageError::Field { part: Part::Header };

/// Checks that changing the table entry of a section gives this error.
#[track_caller]
fn section(kind: SectionKind, want: ImageError, change: impl Fn(&mut SectionRecord)) {
    assert_eq!(opened(MODEL, |draft| change(draft.section(kind))), Err(want));
}

#[test]
fn sections_lie_inside_apart_and_in_order() {
    use SectionKind::{Generation, Provenance, RopeFrequencies, Tensors, Weights};
    for offset in [u64::MAX, u64::MAX - 63, 1 << 63, 1 << 32, 0, 64, 256, 384, 384 + 6 * 64] {
        section(Tensors, TABLE, |record| record.offset = offset);
        section(Weights, TABLE, |record| record.offset = offset);
    }
    for kind in [Tensors, Weights, Provenance] {
        for len in [u64::MAX, u64::MAX - 1, 1 << 63, 1 << 32] {
            section(kind, TABLE, |record| record.len = len);
        }
        for remainder in [1, 2, 8, 32, 63] {
            section(kind, TABLE, |record| record.offset += remainder);
        }
        section(kind, TABLE, |record| record.reserved = 1);
        section(kind, TABLE, |record| record.reserved = 1 << 63);
        // The sum of both is 0.
        section(kind, TABLE, |record| record.len = record.offset.wrapping_neg());
    }
    // One byte more than there is.
    section(Provenance, TABLE, |record| record.len += 1);
    // Into the next, by a byte or wholly.
    assert_eq!(
        opened(MODEL, |draft| {
            let next = draft.section(RopeFrequencies).offset;
            let tensors = draft.section(Tensors);
            tensors.len = next - tensors.offset + 1;
        }),
        Err(TABLE)
    );
    assert_eq!(opened(MODEL, |draft| draft.section(Generation).offset -= 64), Err(TABLE));
    // The same place twice, or another order.
    assert_eq!(opened(MODEL, |draft| draft.sections().swap(0, 1)), Err(TABLE));
    assert_eq!(
        opened(MODEL, |draft| draft.sections()[1] = SectionRecord { kind: 3, ..draft.sections()[0] }),
        Err(TABLE)
    );
}

#[test]
fn each_kind_is_there_once() {
    for (kind, again) in
        [(SectionKind::Provenance, SectionKind::Generation), (SectionKind::Template, SectionKind::Weights)]
    {
        section(kind, TABLE, |record| record.kind = again as u32);
    }
    for again in [1024, u32::MAX] {
        let both = |draft: &mut Draft| {
            draft.section(SectionKind::Provenance).kind = again;
            draft.section(SectionKind::Template).kind = again;
        };
        assert_eq!(opened(MODEL, both), Err(TABLE), "unknown kinds too");
    }
}

#[test]
fn unknown_kinds_matter_below_1024_only() {
    for kind in [0, 10, 11, 1000, 1023] {
        section(SectionKind::Provenance, ImageError::UnknownSection { kind }, |record| record.kind = kind);
    }
    for kind in [1024, 1025, u32::MAX] {
        let mut draft = Draft::of(MODEL);
        draft.section(SectionKind::Provenance).kind = kind;
        let bytes = draft.seal();
        let image = Image::open(&bytes).unwrap();
        image.verify().unwrap();
        assert_eq!(image.provenance(), "");
        assert!(exercise(&bytes).iter().all(Result::is_ok));
    }
    // Ignored does not mean unverified.
    let mut draft = Draft::of(MODEL);
    draft.section(SectionKind::Provenance).kind = 5000;
    let mut bytes = draft.seal();
    *bytes.last_mut().unwrap() ^= 1;
    assert_eq!(Image::open(&bytes).unwrap().verify(), Err(ImageError::Checksum { part: Part::Other }));
}

#[test]
fn missing_sections_are_named() {
    for (kind, part) in [
        (SectionKind::Tensors, Part::Tensors),
        (SectionKind::Weights, Part::Weights),
        (SectionKind::RopeFrequencies, Part::RopeFrequencies),
        (SectionKind::Generation, Part::Generation),
    ] {
        section(kind, ImageError::Missing { part }, |record| record.kind = 3000);
    }
    let mut draft = Draft::of(MODEL);
    draft.section(SectionKind::Tokenizer).kind = 3000;
    draft.section(SectionKind::Template).kind = 3001;
    let bytes = draft.seal();
    let image = Image::open(&bytes).unwrap();
    assert_eq!(image.tokenizer().err(), Some(ImageError::Missing { part: Part::Tokenizer }));
    assert_eq!(image.template().err(), Some(ImageError::Missing { part: Part::Template }));
    assert!(exercise(&bytes).iter().all(Result::is_ok), "token ids need no tokenizer");
}

#[test]
fn a_header_says_what_can_be() {
    for total_len in [u64::MAX, 1 << 63, 1 << 40] {
        let error = opened(MODEL, |draft| draft.header().total_len = total_len).unwrap_err();
        assert!(matches!(error, ImageError::Truncated { need, .. } if need == total_len), "{error}");
    }
    // Shorter than its own sections.
    for less in [0, 256, 1000] {
        assert_eq!(opened(MODEL, |draft| draft.header().total_len = less), Err(TABLE));
    }
    for count in [65, 1 << 27, u32::MAX] {
        assert_eq!(opened_with_count(count), Err(HEADER), "{count}");
    }
    assert_eq!(opened_with_count(0), Err(ImageError::Missing { part: Part::Tensors }));
    for flag in [2, 255] {
        assert_eq!(opened(MODEL, |draft| draft.header().qk_norm = flag), Err(HEADER));
        assert_eq!(opened(MODEL, |draft| draft.header().tied = flag), Err(HEADER));
    }
    for (at, group) in (0..5).flat_map(|at| [0, 1, 16, 31, 33, 96, 128, 255].map(|group| (at, group))) {
        assert_eq!(opened(MODEL, |draft| draft.header().groups[at] = group), Err(HEADER));
    }
    for at in [0, 90, 152] {
        assert_eq!(opened(MODEL, |draft| draft.header().reserved[at] = 1), Err(HEADER));
    }
}

/// As [`opened`], with a table of another length. The draft cannot find its sections then.
fn opened_with_count(count: u32) -> Result<(), ImageError> {
    let mut draft = Draft::of(MODEL);
    let header = draft.header();
    header.section_count = count;
    header.table_sha256 = pocket_runtime::image::sha256(&[]);
    header.header_crc = header.checksum();
    Image::open(&draft.bytes).map(|_| ())
}

#[test]
fn a_header_has_a_shape_that_can_be() {
    let config = |want: ConfigError, change: &dyn Fn(&mut Draft)| {
        assert_eq!(opened(MODEL, change), Err(ImageError::Config { reason: want }));
    };
    for n in [0, u32::MAX, 1 << 31] {
        config(ConfigError::Layers { layers: n }, &|draft| draft.header().layers = n);
        config(ConfigError::Hidden { hidden: n }, &|draft| draft.header().hidden = n);
        config(ConfigError::Ffn { ffn: n }, &|draft| draft.header().ffn = n);
        config(ConfigError::HeadDim { head_dim: n }, &|draft| draft.header().head_dim = n);
        config(ConfigError::Vocabulary { vocabulary: n }, &|draft| draft.header().vocabulary = n);
        config(ConfigError::Context { context: n }, &|draft| draft.header().context = n);
    }
    let heads = {
        let mut draft = Draft::of(MODEL);
        (draft.header().heads, draft.header().kv_heads)
    };
    config(ConfigError::Heads { heads: heads.0, kv_heads: 0 }, &|draft| draft.header().kv_heads = 0);
    config(ConfigError::Heads { heads: 0, kv_heads: heads.1 }, &|draft| draft.header().heads = 0);
    for eps in [f32::NAN, -1.0, f32::INFINITY, 1.0] {
        config(ConfigError::RmsEps, &|draft| draft.header().rms_eps = eps);
    }
}

#[test]
fn a_shape_that_the_tensors_do_not_have_is_noticed() {
    let changes: [&dyn Fn(&mut Draft); 11] = [
        &|draft| draft.header().layers += 1,
        &|draft| draft.header().layers -= 1,
        &|draft| draft.header().layers = 1024,
        &|draft| draft.header().hidden += 32,
        &|draft| draft.header().heads *= 2,
        &|draft| draft.header().kv_heads = draft.header().heads,
        &|draft| draft.header().head_dim = 64,
        &|draft| draft.header().ffn = 1 << 20,
        &|draft| draft.header().vocabulary += 1,
        &|draft| draft.header().tied ^= 1,
        &|draft| draft.header().qk_norm ^= 1,
    ];
    for (name, (index, change)) in
        [MODEL, UNTIED].into_iter().flat_map(|name| changes.iter().enumerate().map(move |c| (name, c)))
    {
        let error = opened(name, change).expect_err("another shape");
        assert!(matches!(error, ImageError::Tensor { .. }), "{name}, change {index}: {error:?}");
    }
    for (at, other) in (0..5).map(|at| (at, 64)) {
        let error = opened(UNTIED, |draft| draft.header().groups[at] = other).expect_err("another group");
        assert!(matches!(error, ImageError::Tensor { .. }), "{error:?}");
    }
}

/// The tensors with this role in the model's first layer or outside the layers.
fn index_of(draft: &mut Draft, role: Role) -> usize {
    draft.tensors().iter().position(|record| record.role == role as u32).expect("every model has it")
}

#[test]
fn a_tensor_is_what_and_where_it_has_to_be() {
    type Change = (&'static str, fn(&mut TensorRecord));
    const ANY: [Change; 16] = [
        ("another role", |r| r.role = r.role % 14 + 1),
        ("no role", |r| r.role = 0),
        ("a role beyond all", |r| r.role = u32::MAX),
        ("another layer", |r| r.layer += 1),
        ("a layer beyond all", |r| r.layer = u32::MAX),
        ("something reserved", |r| r.reserved = 1),
        ("no rows", |r| r.rows = 0),
        ("a row more", |r| r.rows += 1),
        ("too many rows", |r| r.rows = u32::MAX),
        ("no columns", |r| r.columns = 0),
        ("other columns", |r| r.columns += 32),
        ("too many columns", |r| r.columns = u32::MAX),
        ("a format beyond all", |r| r.format = 6),
        ("a format that is one if cut to a byte", |r| r.format += 256),
        ("an offset beyond u64", |r| r.offset = u64::MAX),
        ("an offset beyond the section", |r| r.offset = 1 << 40),
    ];
    const MATRIX: [Change; 12] = [
        ("f32", |r| r.format = FORMAT_F32),
        ("an odd offset", |r| r.offset += 1),
        ("an offset between tiles' steps", |r| r.offset += 16),
        ("an offset that is aligned and beyond u64", |r| r.offset = u64::MAX - 31),
        ("no stride", |r| r.stride = 0),
        ("a stride less than a row group", |r| r.stride = r.data_bytes() / u64::from(r.rows.div_ceil(16)) - 32),
        ("an odd stride", |r| r.stride += 1),
        ("a stride between tiles' steps", |r| r.stride += 16),
        ("a stride beyond the section", |r| r.stride = 1 << 40),
        ("a stride whose product wraps", |r| r.stride = 1 << 63),
        ("a stride whose product wraps to little", |r| r.stride = (u64::MAX / 3) & !31),
        ("a stride beyond u64", |r| r.stride = u64::MAX),
    ];
    const VECTOR: [Change; 5] = [
        ("4 bits", |r| r.format = 2),
        ("8 bits", |r| r.format = 5),
        ("an offset by one float", |r| r.offset += 4),
        ("an offset by half a line", |r| r.offset += 32),
        ("a stride", |r| r.stride = 64),
    ];
    for name in [MODEL, UNTIED] {
        let tensors = Draft::of(name).tensors().to_vec();
        for (index, record) in tensors.iter().enumerate() {
            let own: &[Change] = if record.format == FORMAT_F32 { &VECTOR } else { &MATRIX };
            for (what, change) in ANY.iter().chain(own) {
                let found = opened(name, |draft| change(&mut draft.tensors()[index]));
                assert_eq!(found, Err(ImageError::Tensor { index: index as u32 }), "{name}: {what} for {record:?}");
            }
        }
    }
}

#[test]
fn formats_belong_to_groups() {
    // Groups of 64 where the header says 32, though they would fit into the same bytes.
    for role in [Role::Query, Role::AttentionOutput, Role::Up, Role::Down, Role::Embedding] {
        for format in [1, 3] {
            let mut draft = Draft::of(MODEL);
            let index = index_of(&mut draft, role);
            let found = opened(MODEL, |draft| draft.tensors()[index].format = format);
            assert_eq!(found, Err(ImageError::Tensor { index: index as u32 }), "{role:?}");
        }
    }
    // Another format of the same group is the packer's choice, and so is any group of an embedding apart from the head.
    for (name, role, format) in [(MODEL, Role::Query, 4), (UNTIED, Role::Embedding, 3), (UNTIED, Role::Embedding, 2)] {
        let mut draft = Draft::of(name);
        let index = index_of(&mut draft, role);
        draft.tensors()[index].format = format;
        assert!(exercise(&draft.seal()).len() > 1);
    }
}

#[test]
fn tensors_may_share_bytes_and_still_run() {
    // Nonsense, but within bounds: everything at the start of the section, or row groups farther apart.
    for name in [MODEL, UNTIED] {
        let mut draft = Draft::of(name);
        draft.tensors().iter_mut().for_each(|record| record.offset = 0);
        exercise(&draft.seal());
        let mut draft = Draft::of(name);
        draft.tensors().iter_mut().for_each(|record| record.offset = 64 * (record.offset % 97));
        exercise(&draft.seal());
    }
    let mut draft = Draft::of(MODEL);
    let query = index_of(&mut draft, Role::Query);
    draft.tensors()[query].stride += 4096;
    assert!(exercise(&draft.seal()).len() > 1);
}

#[test]
fn directories_have_whole_records() {
    let tensors = ImageError::Field { part: Part::Tensors };
    for less in [1, 20, 39] {
        section(SectionKind::Tensors, tensors, |record| record.len -= less);
    }
    let count = Draft::of(MODEL).tensors().len() as u32;
    section(SectionKind::Tensors, ImageError::Tensor { index: count - 1 }, |record| record.len -= 40);
    section(SectionKind::Tensors, ImageError::Tensor { index: 0 }, |record| record.len = 0);
    // Weights cut off under the last tensor, or all of them.
    let cut = |less: u64| opened(MODEL, |draft| draft.section(SectionKind::Weights).len -= less);
    assert!(matches!(cut(4096), Err(ImageError::Tensor { .. })));
    section(SectionKind::Weights, ImageError::Tensor { index: 0 }, |record| record.len = 0);
}

#[test]
fn generation_defaults_are_in_range() {
    let generation = |change: &dyn Fn(&mut GenerationRecord)| {
        opened(MODEL, |draft| change(&mut draft.records::<GenerationRecord>(SectionKind::Generation)[0]))
    };
    assert_eq!(generation(&|_| {}), Ok(()));
    let changes: [&dyn Fn(&mut GenerationRecord); 14] = [
        &|r| (r.stop_count, r.stop[0]) = (1, 1024),
        &|r| (r.stop_count, r.stop[8]) = (9, u32::MAX),
        &|r| r.stop_count = 10,
        &|r| r.stop_count = u32::MAX,
        &|r| r.temperature = -1.0,
        &|r| r.temperature = f32::NAN,
        &|r| r.temperature = f32::INFINITY,
        &|r| r.top_p = 0.0,
        &|r| r.top_p = 1.5,
        &|r| r.top_p = f32::NAN,
        &|r| r.min_p = -0.5,
        &|r| r.min_p = f32::NAN,
        &|r| r.repetition_penalty = 0.0,
        &|r| r.repetition_penalty = f32::NAN,
    ];
    for (index, change) in changes.iter().enumerate() {
        assert_eq!(generation(change), Err(ImageError::Field { part: Part::Generation }), "change {index}");
    }
    for less in [1, 32, 64] {
        let part = Part::Generation;
        section(SectionKind::Generation, ImageError::Field { part }, |record| record.len -= less);
    }
    // Numbers beyond those that count are nobody's.
    assert_eq!(generation(&|r| (r.stop_count, r.stop[8]) = (8, 0)), Ok(()));
}

#[test]
fn a_tokenizer_has_no_more_tokens_than_the_model() {
    let mut draft = Draft::of(MODEL);
    draft.header().vocabulary -= 16;
    let embedding = index_of(&mut draft, Role::Embedding);
    draft.tensors()[embedding].rows -= 16;
    let bytes = draft.seal();
    let error = Image::open(&bytes).unwrap().tokenizer().err();
    assert_eq!(error, Some(ImageError::Field { part: Part::Tokenizer }));
    assert!(exercise(&bytes).iter().all(Result::is_ok), "the model itself is whole");
}

#[test]
fn rotary_frequencies_are_numbers() {
    let rope = |x: f64| {
        let mut draft = Draft::of(MODEL);
        draft.records::<f64>(SectionKind::RopeFrequencies)[3] = x;
        draft.seal()
    };
    let part = Part::RopeFrequencies;
    for x in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(Image::open(&rope(x)).err(), Some(ImageError::Field { part }), "{x}");
    }
    for less in [1, 4, 8, 64, 128] {
        section(SectionKind::RopeFrequencies, ImageError::Field { part }, |record| record.len -= less);
    }
    // Whatever is a number turns heads somehow.
    for x in [0.0, -0.0, -1.0, 1e300, f64::MAX, f64::MIN, 5e-324] {
        exercise(&rope(x));
    }
}
