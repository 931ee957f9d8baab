//! Weights: opening does not read them, and a weight that is no number never becomes a token.

use pocket_host_test::images::AlignedBytes;
use pocket_host_test::session::{Steps, Way, with};
use pocket_kernels::weights::Format;
use pocket_runtime::image::{
    FORMAT_F32, GenerationRecord, HEADER_BYTES, Header, Role, SectionKind, SectionRecord, SignatureRecord,
    TABLE_OFFSET, TensorRecord, checksum, roles, sha256,
};
use pocket_runtime::{CacheType, Config, Group, Groups, Image, ImageError, Part, Sampler, Sampling, StepError};

use super::build::{Draft, MODEL, UNTIED, range};

/// Header, table and small sections of an image with this configuration and 8-bit weights, and how long all of it is.
/// The weights, which come last, are not there.
fn without_weights(config: &Config) -> (Vec<u8>, u64) {
    let mut tensors = Vec::new();
    let mut end = 0;
    let mut place = |layer, role| {
        let wanted = config.wanted(role);
        let matrix = wanted.group.is_some();
        let record = TensorRecord {
            role: role as u32,
            layer,
            format: if matrix { Format::Q8 as u32 } else { FORMAT_F32 },
            rows: wanted.rows,
            columns: wanted.columns,
            reserved: 0,
            offset: end,
            stride: if matrix { Format::Q8.row_group_bytes(wanted.columns as usize) as u64 } else { 0 },
        };
        end = (end + record.data_bytes()).next_multiple_of(64);
        tensors.push(record);
    };
    for layer in 0..config.layers {
        roles(config).0.for_each(|role| place(layer, role));
    }
    roles(config).1.for_each(|role| place(0, role));

    let frequencies: Vec<f64> = (0..config.head_dim / 2).map(|i| 1.0 / f64::from(i + 1)).collect();
    let generation = GenerationRecord::new(&Sampling::GREEDY, &[0]);
    let sections: [(SectionKind, &[u8]); 3] = [
        (SectionKind::Tensors, bytemuck::cast_slice(&tensors)),
        (SectionKind::RopeFrequencies, bytemuck::cast_slice(&frequencies)),
        (SectionKind::Generation, bytemuck::bytes_of(&generation)),
    ];
    let mut bytes = vec![0; (TABLE_OFFSET + 4 * size_of::<SectionRecord>()).next_multiple_of(64)];
    let mut table = Vec::new();
    for (kind, body) in sections {
        let (offset, len) = (bytes.len() as u64, body.len() as u64);
        table.push(SectionRecord {
            kind: kind as u32,
            crc: checksum(body),
            offset,
            len,
            reserved: 0,
            sha256: sha256(body),
        });
        bytes.extend_from_slice(body);
        bytes.resize(bytes.len().next_multiple_of(64), 0);
    }
    let offset = bytes.len() as u64;
    // Nobody reads them here, so their hashes may be anything.
    let (kind, sha256_of_weights) = (SectionKind::Weights as u32, [0xba; 32]);
    table.push(SectionRecord { kind, crc: 0xbad, offset, len: end, reserved: 0, sha256: sha256_of_weights });
    let table: &[u8] = bytemuck::cast_slice(&table);
    let mut header = Header::of(config);
    header.section_count = 4;
    header.total_len = offset + end;
    header.table_sha256 = sha256(table);
    header.header_crc = header.checksum();
    bytes[..HEADER_BYTES].copy_from_slice(bytemuck::bytes_of(&header));
    bytes[HEADER_BYTES..TABLE_OFFSET].copy_from_slice(bytemuck::bytes_of(&SignatureRecord::unsigned()));
    bytes[TABLE_OFFSET..][..table.len()].copy_from_slice(table);
    (bytes, offset + end)
}

const LARGE: Config = Config {
    layers: 200,
    hidden: 8192,
    heads: 64,
    kv_heads: 8,
    head_dim: 128,
    ffn: 32768,
    vocabulary: 1 << 20,
    context: 4096,
    rms_eps: 1e-6,
    qk_norm: true,
    tied: true,
    groups: Groups {
        qkv: Group::G32,
        attention_output: Group::G32,
        gate_up: Group::G32,
        down: Group::G32,
        head: Group::G32,
    },
};

/// An image of 200 GB that is all hole but for its first pages: reading a part of its weights that counts would take
/// minutes or bring pages into memory, and the system says which are there.
#[test]
#[cfg(target_os = "linux")]
#[cfg_attr(target_pointer_width = "32", ignore = "200 GB have no addresses of 32 bits")]
fn opening_does_not_read_weights() {
    use std::io::Write;
    let (front, len) = without_weights(&LARGE);
    assert!(len > 200_000_000_000, "{len}");
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&front).unwrap();
    file.set_len(len).expect("a file system with holes");
    // SAFETY: the file has no name, so nobody else can change it while it is mapped.
    let map = unsafe { memmap2::Mmap::map(&file) }.unwrap();
    let image = Image::open(&map).unwrap();
    assert_eq!(image.config(), &LARGE);
    assert_eq!(image.bytes().len() as u64, len);
    for layer in 0..200 {
        assert_eq!(image.layer(layer).unwrap().down.rows(), 8192);
    }
    // An emulator of user programs gives no figures for them.
    if pocket_host_test::EMULATED {
        return;
    }
    let resident = resident_bytes(map.as_ptr() as usize);
    // The front has some 130 KB. Linux maps the neighbours of a page that is touched, 64 KB at a time.
    assert!(resident >= 4096 && resident <= front.len() as u64 + (1 << 20), "{resident} bytes were read");
}

/// Bytes in memory of the mapping that begins at this address.
#[cfg(target_os = "linux")]
fn resident_bytes(start: usize) -> u64 {
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("a proc file system");
    let mut lines = maps.lines().skip_while(|line| !line.starts_with(&format!("{start:x}-")));
    let line = lines.find(|line| line.starts_with("Rss:")).expect("the mapping");
    let kilobytes: u64 = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number");
    kilobytes * 1024
}

#[test]
fn an_image_without_sound_weights_opens_and_says_so_when_used() {
    let mut draft = Draft::of(MODEL);
    let weights = range(draft.section(SectionKind::Weights));
    // As f16 and f32 this is a NaN wherever it is read.
    draft.bytes[weights].fill(0xff);
    let image = Image::open(&draft.bytes).unwrap();
    assert_eq!(image.verify(), Err(ImageError::Checksum { part: Part::Weights }));
    with(&image, Way::new(16), |session| {
        assert_eq!(session.prefill(&[1, 2, 3]), Err(StepError::NonFinite { position: 0 }));
        assert_eq!((session.position(), session.logits()), (0, None));
        let sampled = session.sample(&mut Sampler::new(Sampling::GREEDY, 0).unwrap());
        assert_eq!(sampled, Err(StepError::NoLogits));
    });
}

/// Where the first scale and minimum (or the first number) of a row of a tensor lie in the image.
fn places(draft: &mut Draft, index: usize, row: usize) -> Vec<usize> {
    let base = draft.section(SectionKind::Weights).offset as usize;
    let record = draft.tensors()[index];
    let start = base + record.offset as usize;
    let Some(format) = record.quantisation() else { return vec![start + 4 * row] };
    let codes = match format {
        Format::Q8 => 32 * 16,
        other => other.group() * 16 / 2,
    };
    let scale = start + row / 16 * record.stride as usize + codes + row % 16 * 2;
    let minimum = matches!(format, Format::Q4A32 | Format::Q4A64).then_some(scale + 32);
    [Some(scale), minimum].into_iter().flatten().collect()
}

/// Whether every way of sampling refuses the logits that are there.
fn nothing_is_sampled(session: &mut dyn Steps) -> bool {
    let plain = Sampling { temperature: 1.0, ..Sampling::GREEDY };
    let position = session.position() as u32;
    [
        Sampling::GREEDY,
        plain,
        Sampling { top_k: 5, ..plain },
        Sampling { top_p: 0.9, min_p: 0.1, ..plain },
        Sampling { repetition_penalty: 1.2, ..Sampling::GREEDY },
    ]
    .into_iter()
    .all(|sampling| session.sample(&mut Sampler::new(sampling, 1).unwrap()) == Err(StepError::NonFinite { position }))
}

#[test]
fn one_weight_that_is_no_number_anywhere_is_an_error() {
    let ways = [(1, CacheType::F16), (4, CacheType::I8)].map(|(batch, cache)| Way { batch, cache, ..Way::new(8) });
    for name in [MODEL, UNTIED] {
        let mut draft = Draft::of(name);
        let tensors = draft.tensors().to_vec();
        for (index, record) in tensors.iter().enumerate() {
            // Row 5 of the embedding is that of token 5.
            for place in places(&mut draft, index, 5) {
                for (half, single) in [(0x7e00_u16, f32::NAN), (0x7c00, f32::INFINITY), (0xfc00, f32::NEG_INFINITY)] {
                    let before = draft.bytes.to_vec();
                    if record.format == FORMAT_F32 {
                        draft.bytes[place..place + 4].copy_from_slice(&single.to_le_bytes());
                    } else {
                        draft.bytes[place..place + 2].copy_from_slice(&half.to_le_bytes());
                    }
                    let image = Image::open(&draft.bytes).expect("opening reads no weights");
                    for way in ways {
                        with(&image, way, |session| {
                            let refused = match session.prefill(&[5, 1, 7]) {
                                // What the last layer makes of a token is looked at with its logits.
                                Err(error) => matches!(error, StepError::NonFinite { position: 0..3 }),
                                // Logits come last, so only what is made of them can refuse them.
                                Ok(()) => record.role == Role::Head as u32 && nothing_is_sampled(session),
                            };
                            assert!(refused, "{name}, {way:?}: {single} in {record:?}");
                        });
                    }
                    draft.bytes.copy_from_slice(&before);
                }
            }
        }
    }
}

#[test]
fn a_logit_that_is_no_number_stops_every_sampler() {
    // Token 5's row is also that of its logit, and no token 5 is read.
    let mut draft = Draft::of(MODEL);
    let embedding = draft.tensors().len() - 1;
    let place = places(&mut draft, embedding, 5)[0];
    draft.bytes[place..place + 2].copy_from_slice(&0x7e00_u16.to_le_bytes());
    let image = Image::open(&draft.bytes).unwrap();
    with(&image, Way::new(8), |session| {
        session.prefill(&[1, 2]).unwrap();
        assert!(session.logits().unwrap()[5].is_nan());
        assert!(nothing_is_sampled(session));
        assert_eq!(session.decode(5), Err(StepError::NonFinite { position: 2 }));
    });
}

#[test]
fn a_session_goes_on_after_a_bad_token() {
    let mut draft = Draft::of(UNTIED);
    let clean: AlignedBytes = draft.bytes.clone();
    let embedding = draft.tensors().iter().position(|record| record.role == Role::Embedding as u32).unwrap();
    let place = places(&mut draft, embedding, 5)[0];
    draft.bytes[place..place + 2].copy_from_slice(&0x7c00_u16.to_le_bytes());
    let expected = with(&Image::open(&clean).unwrap(), Way::new(8), |session| {
        session.prefill(&[1, 2, 6]).unwrap();
        session.logits().unwrap().to_vec()
    });
    with(&Image::open(&draft.bytes).unwrap(), Way::new(8), |session| {
        session.prefill(&[1, 2]).unwrap();
        assert_eq!(session.prefill(&[6, 5, 6]), Err(StepError::NonFinite { position: 2 }));
        assert_eq!((session.tokens(), session.logits()), (&[1, 2][..], None));
        session.decode(6).unwrap();
        assert_eq!(session.logits().unwrap(), expected, "the failed batch leaves no trace");
    });
}
