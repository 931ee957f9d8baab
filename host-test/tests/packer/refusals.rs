//! What an image cannot hold is refused in one sentence, and nothing is written or left behind.

use std::path::Path;

use pocket_host_test::model_file::{Model, Tensor};
use pocket_host_test::models::{self, tiny};
use pocket_pack::gguf::Value;
use pocket_pack::pack::{Options, Quant, pack_file};

const OLD: &[u8] = b"an image that was here before";

/// Packs a file over an existing one, which must fail with a sentence that has `words`; nothing may change.
#[track_caller]
fn refused(file: &[u8], words: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("model.gguf"), folder.path().join("model.pocket"));
    std::fs::write(&input, file).unwrap();
    std::fs::write(&output, OLD).unwrap();
    let error =
        pack_file(&input, &output, &Options { quant: Quant::Q8, ..Options::default() }, &mut |_| {}).expect_err(words);
    let sentence = error.to_string();
    assert!(sentence.contains(words), "{sentence:?} does not say {words:?}");
    assert!(!sentence.contains('\n') && sentence.len() < 300, "{sentence:?}");
    assert!(!sentence.contains("report this"), "{sentence:?} blames the packer");
    assert_eq!(std::fs::read(&output).unwrap(), OLD);
    assert_eq!(std::fs::read(&input).unwrap(), file);
    assert_eq!(names(folder.path()), ["model.gguf", "model.pocket"]);
    std::fs::remove_file(&output).unwrap();
    assert!(pack_file(&input, &output, &Options::default(), &mut |_| {}).is_err());
    assert_eq!(names(folder.path()), ["model.gguf"], "where nothing was, nothing is");
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A changed model must be refused.
#[track_caller]
fn refuses(words: &str, change: impl Fn(&mut Model)) {
    let mut model = Model::tiny("tiny-qwen3-q4_1-ffn160");
    change(&mut model);
    refused(&model.write(3), words);
}

#[test]
fn files_that_are_no_whole_gguf() {
    refused(b"", "this is not a GGUF file");
    refused(b"GGML\x03\0\0\0", "this is not a GGUF file");
    refused(b"GGUF\x01\0\0\0", "version 1");
    refused(b"GGUF\0\0\0\x03", "big-endian");
    let whole = Model::tiny("tiny-qwen3-q4_1-ffn160").write(3);
    for (cut, words) in [(7, "the file ends inside"), (1000, "the file ends inside"), (whole.len() - 1, "past the end")]
    {
        refused(&whole[..cut], words);
    }
}

#[test]
fn models_of_other_kinds() {
    refuses("the architecture \"mamba\" is not supported", |m| m.set("general.architecture", Value::Str("mamba")));
    refuses("general.architecture is missing", |m| m.unset("general.architecture"));
    refuses("a mixture of experts, which is not supported", |m| m.set("qwen3.expert_count", Value::U32(8)));
    for scaling in ["yarn", "longrope", ""] {
        let words = format!("rotary scaling of type {scaling:?}");
        refuses(&words, |m| m.set("qwen3.rope.scaling.type", Value::Str(scaling)));
    }
    refuses("rope.dimension_count 16 beside heads of 32", |m| m.set("qwen3.rope.dimension_count", Value::U32(16)));
    refuses("attention.value_length 64 beside heads of 32", |m| m.set("qwen3.attention.value_length", Value::U32(64)));
    // No experts is no mixture, and no scaling no scaling.
    let mut model = Model::tiny("tiny-qwen3-q4_1-ffn160");
    model.set("qwen3.expert_count", Value::U32(0));
    model.set("qwen3.rope.scaling.type", Value::Str("none"));
    model.pack();
}

#[test]
fn shapes_that_kernels_lack() {
    refuses("the hidden size 80 is not a multiple of 32", |m| m.set("qwen3.embedding_length", Value::U32(80)));
    refuses("the feed-forward size 100", |m| m.set("qwen3.feed_forward_length", Value::U32(100)));
    refuses("0 layers", |m| m.set("qwen3.block_count", Value::U32(0)));
    refuses("cannot be shared by 2 KV heads", |m| m.set("qwen3.attention.head_count_kv", Value::U32(2)));
    refuses("0 query heads", |m| m.set("qwen3.attention.head_count", Value::U32(0)));
    refuses("epsilon", |m| m.set("qwen3.attention.layer_norm_rms_epsilon", Value::F32(2.0)));
    refuses("context of 0", |m| m.set("qwen3.context_length", Value::U32(0)));
    for key in ["embedding_length", "block_count", "feed_forward_length", "context_length", "attention.head_count"] {
        let key = format!("qwen3.{key}");
        refuses(&format!("the metadata key {key} is missing"), |m| m.unset(&key));
        refuses(&format!("the metadata key {key} must hold"), |m| m.set(&key, Value::Str("many")));
    }
}

#[test]
fn tensors_missing_unknown_or_misshapen() {
    let names: Vec<String> = Model::tiny("tiny-qwen3-q4_1-ffn160").tensors.into_iter().map(|t| t.name).collect();
    for name in &names {
        let words = format!("the tensor {name} is missing; the file is incomplete");
        refuses(&words, |m| m.tensors.retain(|tensor| tensor.name != *name));
    }
    for name in ["blk.0.attn_q.bias", "blk.1.attn_qkv.weight", "blk.2.attn_q.weight", "blk.0.attn_q", "extra"] {
        let words = format!("the tensor {name} has no place in a qwen3 model");
        refuses(&words, |m| m.tensors.push(Tensor::f32(name, &[32], &[0.0; 32])));
    }
    refuses("the tensor \\u{1b}[2J has no place", |m| m.tensors.push(Tensor::f32("\u{1b}[2J", &[32], &[0.0; 32])));
    // One row less, transposed, a norm of another length.
    refuses("the tensor blk.0.attn_k.weight is [31, 96], the metadata ask for [32, 96]", |m| {
        let tensor = m.tensor("blk.0.attn_k.weight");
        tensor.data.truncate(31 * 96 / 32 * 20);
        tensor.dims[1] = 31;
    });
    refuses("the tensor blk.1.ffn_up.weight is [96, 160], the metadata ask for [160, 96]", |m| {
        m.tensor("blk.1.ffn_up.weight").dims.swap(0, 1);
    });
    refuses("the tensor blk.1.ffn_norm.weight is [1, 64], the metadata ask for [1, 96]", |m| {
        *m.tensor("blk.1.ffn_norm.weight") = Tensor::f32("blk.1.ffn_norm.weight", &[64], &[1.0; 64]);
    });
    refuses("is [1, 96], the metadata ask for [1, 128]", |m| m.set("qwen3.embedding_length", Value::U32(96 + 32)));
    refuses("the tensor output.weight is", |m| {
        let mut head = m.tensor("token_embd.weight").clone();
        head.name = "output.weight".to_owned();
        head.dims[1] -= 1;
        m.tensors.push(head);
    });
}

#[test]
fn numbers_that_are_not_finite() {
    const BAD: [u16; 4] = [0x7c00, 0xfc00, 0x7e00, 0xffff];
    for (name, bytes) in [("tiny-qwen3-q4_0", 18), ("tiny-qwen3-q4_1", 20), ("tiny-qwen3-q8_0", 34)] {
        for bad in BAD {
            // Scales, and the minima of those that have them.
            for place in if bytes == 20 { vec![0, 2] } else { vec![0] } {
                let mut model = Model::tiny(name);
                let row = model.tensor("blk.1.attn_v.weight").row(0).len();
                let at = 9 * row + bytes + place;
                model.tensor("blk.1.attn_v.weight").data[at..at + 2].copy_from_slice(&bad.to_le_bytes());
                refused(
                    &model.write(3),
                    "the tensor blk.1.attn_v.weight has a value that is not a finite number in row 9",
                );
            }
        }
    }
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for name in ["blk.1.attn_v.weight", "token_embd.weight", "output_norm.weight", "blk.0.attn_q_norm.weight"] {
            let mut model = Model::tiny("tiny-qwen3-f32");
            model.tensor(name).data[8..12].copy_from_slice(&bad.to_le_bytes());
            refused(&model.write(3), &format!("the tensor {name} has a value that is not a finite number in row 0"));
        }
    }
}

#[test]
fn tokenizers_that_are_not_known_or_do_not_belong() {
    refuses("the kind \"llama\"; only byte-level BPE", |m| m.set("tokenizer.ggml.model", Value::Str("llama")));
    refuses("the pre-tokenizer \"exotic\" is not known", |m| m.set("tokenizer.ggml.pre", Value::Str("exotic")));
    for key in ["model", "pre", "tokens", "merges", "token_type"] {
        let key = format!("tokenizer.ggml.{key}");
        refuses(&format!("the metadata key {key} is missing"), |m| m.unset(&key));
    }
    refuses("the tokenizer has 1024 tokens, the embedding has rows for 1000", |m| {
        let embedding = m.tensor("token_embd.weight");
        let row = embedding.row(0).len();
        embedding.data.truncate(1000 * row);
        embedding.dims[1] = 1000;
    });
    refuses("token is 1024, but the vocabulary has 1024", |m| m.set("tokenizer.ggml.eos_token_id", Value::U32(1024)));
}

#[test]
fn rotary_factors_that_are_none() {
    let factors = |values: &[f32]| {
        let tensor = Tensor::f32("rope_freqs.weight", &[values.len()], values);
        move |m: &mut Model| m.tensors.push(tensor.clone())
    };
    refuses("the tensor rope_freqs.weight is [1, 15], the metadata ask for [1, 16]", factors(&[1.0; 15]));
    for bad in [0.0, f32::NAN] {
        refuses("rotary frequencies that are not finite", factors(&[bad; 16]));
    }
    refuses("rotary frequencies that are not finite", |m| {
        m.set("qwen3.rope.scaling.type", Value::Str("linear"));
        m.set("qwen3.rope.scaling.factor", Value::F32(0.0));
    });
}

#[test]
fn an_image_does_not_replace_its_own_model() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model.gguf");
    let file = models::read(&tiny("tiny-qwen3-q4_0"));
    std::fs::write(&model, &file).unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&model, &link).unwrap();
    for output in
        [model.clone(), folder.path().join("../").join(folder.path().file_name().unwrap()).join("model.gguf"), link]
    {
        let error = pack_file(&model, &output, &Options::default(), &mut |_| {}).expect_err("the same file");
        assert!(error.to_string().ends_with("is both input and output; choose another name for the image"), "{error}");
        assert_eq!(std::fs::read(&model).unwrap(), file);
    }
}

#[test]
fn files_that_cannot_be_read_or_written_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny("tiny-qwen3-q4_0");
    std::fs::write(folder.path().join("file"), b"").unwrap();
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    for (input, output, named) in [
        (folder.path().join("nothing.gguf"), folder.path().join("out"), "nothing.gguf"),
        (model.clone(), folder.path().join("nowhere/out"), "nowhere"),
        (model.clone(), folder.path().join("file/out"), "file"),
        (model.clone(), folder.path().join("folder"), "folder"),
    ] {
        let error = pack_file(&input, &output, &Options::default(), &mut |_| {}).expect_err(named);
        assert!(error.to_string().contains(named), "{error}");
        assert_eq!(names(folder.path()), ["file", "folder"], "{named}");
    }
    // As root one may write everywhere but there.
    if Path::new("/proc/self").exists() {
        let error = pack_file(&model, Path::new("/proc/out.pocket"), &Options::default(), &mut |_| {}).unwrap_err();
        assert!(error.to_string().starts_with("/proc"), "{error}");
    }
}
