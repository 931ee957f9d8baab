//! Writes what the fuzzers begin with: `cargo run --profile test -p pocket-host-test --example seeds -- FOLDER`.
//!
//! A fuzzer that begins with nothing finds the magic number after hours. These are whole images, sections, model files
//! and texts, each as small as it can be and still have everything, in one folder for each target.

use std::fs;
use std::path::{Path, PathBuf};

use pocket_host_test::model_file::{Model, pack_bytes};
use pocket_host_test::models::{self, TINY, fixture};
use pocket_host_test::session::{self, saved, with};
use pocket_pack::gguf::{TensorType, Value};
use pocket_pack::golden::{Golden, Way};
use pocket_pack::isa::Isa;
use pocket_pack::pack::Quant;
use pocket_pack::synth;
use pocket_runtime::image::SectionKind;
use pocket_runtime::text::layout::{BLOCK, TokenizerHeader};
use pocket_runtime::{CacheType, Config, Group, Groups, Image};
use serde_json::{Value as Json, json};

/// The smallest model that has every tensor and every table.
const SMALLEST: Config = Config {
    layers: 1,
    hidden: 64,
    heads: 2,
    kv_heads: 1,
    head_dim: 32,
    ffn: 64,
    vocabulary: 280,
    context: 64,
    rms_eps: 1e-6,
    qk_norm: true,
    tied: true,
    groups: Groups {
        qkv: Group::G64,
        attention_output: Group::G64,
        gate_up: Group::G64,
        down: Group::G64,
        head: Group::G64,
    },
};

/// Where seeds go.
struct Seeds(PathBuf);

impl Seeds {
    fn put(&self, target: &str, name: &str, bytes: &[u8]) {
        let folder = self.0.join(target);
        fs::create_dir_all(&folder).expect("a folder for seeds");
        fs::write(folder.join(name), bytes).expect("room for a seed");
    }
}

fn main() {
    let folder = std::env::args_os().nth(1).expect("usage: seeds FOLDER");
    let seeds = Seeds(folder.into());
    for (name, model) in small_models() {
        let (image, _) = pack_bytes(&model.write(3), Quant::Q8).expect("a model that can be packed");
        put_image(&seeds, &name, &image);
        // Finding out what a template writes takes longer than all the rest, and has a target of its own.
        let mut plain = model;
        plain.unset("tokenizer.chat_template");
        seeds.put("gguf", &name, &plain.write(3));
    }
    for json in tokenizers() {
        seeds.put("tokenizer", &format!("{}.json", json["pre_tokenizer"]["type"]), json.to_string().as_bytes());
    }
    for jinja in folder_of("../tests/template/jinja") {
        let name = jinja.file_name().expect("a file").to_string_lossy().into_owned();
        seeds.put("template", &name, &models::read(&jinja));
    }
    let lines = String::from_utf8(models::read(&fixture("tokenize/tokenize-tiny-qwen3.jsonl"))).expect("text");
    for (index, line) in lines.lines().enumerate() {
        let line: Json = serde_json::from_str(line).expect("JSON");
        seeds.put("text", &index.to_string(), line["text"].as_str().expect("a text").as_bytes());
    }
    let image = Image::open(pocket_host_test::images::image(TINY[4])).expect("an image that was just packed");
    for cache in [CacheType::F16, CacheType::I8] {
        let state = with(&image, session::Way { cache, ..session::Way::new(32) }, |session| {
            session.prefill(&[1, 2, 3]).expect("three tokens");
            saved(session)
        });
        seeds.put("state", &format!("{cache:?}"), &state);
        let way = Way { isa: Isa::best(), workers: 1, batch: 1 };
        let golden = Golden::record(&image, "tiny", (&[1, 2, 3], cache), way).expect("logits of three tokens");
        let json = serde_json::to_vec(&golden).expect("strings and numbers");
        seeds.put("golden", &format!("{cache:?}.json"), &json);
    }
}

/// Files in a folder beside the fixtures.
fn folder_of(path: &str) -> impl Iterator<Item = PathBuf> {
    let folder: &Path = &fixture(path);
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.expect("an entry").path())
}

/// Both families, both kinds of head, and every type of tensor.
fn small_models() -> Vec<(String, Model)> {
    let model = |config: &Config| Model::read(&synth::gguf("seed", config, 1).expect("a shape that can be made"));
    let mut models = vec![
        ("qwen3".to_owned(), model(&SMALLEST)),
        ("llama".to_owned(), model(&Config { qk_norm: false, ..SMALLEST })),
        ("untied".to_owned(), model(&Config { tied: false, layers: 2, ..SMALLEST })),
    ];
    for kind in TensorType::ALL {
        // Rows of whole blocks, of zeros: every type has a code for them.
        let ffn = SMALLEST.ffn.max(kind.block_elements() as u32);
        let mut model = model(&Config { ffn, ..SMALLEST });
        let down = model.tensor("blk.0.ffn_down.weight");
        let elements = down.dims.iter().product();
        down.kind = kind.code();
        down.data = vec![0; kind.bytes_of(elements).expect("whole blocks")];
        models.push((kind.name().to_owned(), model));
    }
    let mut scaled = model(&SMALLEST);
    scaled.set("qwen3.rope.scaling.type", Value::Str("linear"));
    scaled.set("qwen3.rope.scaling.factor", Value::F32(4.0));
    scaled.set("general.sampling.temp", Value::F32(0.7));
    scaled.set("general.sampling.top_k", Value::I32(40));
    scaled.set("tokenizer.ggml.pre", Value::Str("smollm"));
    models.push(("settings".to_owned(), scaled));
    models
}

/// An image and its sections.
fn put_image(seeds: &Seeds, name: &str, bytes: &[u8]) {
    seeds.put("image", name, bytes);
    let image = Image::open(bytes).expect("an image that was just packed");
    let section = |kind: SectionKind| {
        let record = image.sections().iter().find(|record| record.kind == kind as u32)?;
        Some(&bytes[record.offset as usize..][..record.len as usize])
    };
    let tokenizer = section(SectionKind::Tokenizer).expect("every model has one");
    seeds.put("tokenizer", name, tokenizer);
    seeds.put("tokenizer", &format!("{name}-ascii"), &ascii(tokenizer));
    if let Some(template) = section(SectionKind::Template) {
        seeds.put("template", name, template);
    }
}

/// A tokenizer whose classes of characters end behind ASCII: a fifth of the size, and no less to go wrong.
fn ascii(section: &[u8]) -> Vec<u8> {
    const BLOCKS: usize = 128 / BLOCK;
    let (header, tables) = section.split_at(size_of::<TokenizerHeader>());
    let mut header: TokenizerHeader = bytemuck::pod_read_unaligned(header);
    let words = header.vocabulary + 256 + 3 * header.merges + header.merge_slots + 2 * header.specials;
    let (before, rest) = tables.split_at(4 * words as usize);
    let (index, rest) = rest.split_at((2 * header.block_index as usize).next_multiple_of(4));
    let (classes, behind) = rest.split_at(header.class_blocks as usize * BLOCK);
    let blocks = index[..2 * BLOCKS].as_chunks::<2>().0.iter().map(|bytes| usize::from(u16::from_le_bytes(*bytes)));
    let kept: Vec<u8> = blocks.flat_map(|block| classes[block * BLOCK..][..BLOCK].to_vec()).collect();
    (header.block_index, header.class_blocks) = (BLOCKS as u32, BLOCKS as u32);
    let index = (0..BLOCKS as u16).flat_map(u16::to_le_bytes).collect();
    [bytemuck::bytes_of(&header).to_vec(), before.to_vec(), index, kept, behind.to_vec()].concat()
}

/// A `tokenizer.json` for each way of cutting text that is known.
fn tokenizers() -> Vec<Json> {
    let bytes = |regex: bool| json!({"type": "ByteLevel", "add_prefix_space": false, "use_regex": regex});
    let digits = json!({"type": "Digits", "individual_digits": true});
    [bytes(true), json!({"type": "Sequence", "pretokenizers": [digits, bytes(true)]})]
        .map(|pre_tokenizer| {
            json!({
                "added_tokens": [
                    {"id": 3, "content": "<x>", "single_word": false, "lstrip": false, "rstrip": false, "special": true}
                ],
                "normalizer": {"type": "NFC"},
                "pre_tokenizer": pre_tokenizer,
                "model": {
                    "type": "BPE", "unk_token": null,
                    "vocab": {"a": 0, "Ġ": 1, "Ġa": 2, "b": 4, "Ġab": 5},
                    "merges": ["Ġ a", ["Ġa", "b"]]
                }
            })
        })
        .to_vec()
}
