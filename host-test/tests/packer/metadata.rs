//! What the metadata say beside the shape: rotary embedding, sampling, stop tokens, template; and that packing is a
//! function of the file.

use pocket_host_test::images::AlignedBytes;
use pocket_host_test::model_file::{Model, Tensor, pack_bytes};
use pocket_host_test::session::{Way, logits};
use pocket_pack::gguf::Value;
use pocket_pack::pack::{Options, Progress, Quant, pack_file};
use pocket_runtime::image::SectionKind;
use pocket_runtime::{Image, ImageError, Part, Sampling};

const MODEL: &str = "tiny-qwen3-q4_1-ffn160";

fn changed(change: impl Fn(&mut Model)) -> (AlignedBytes, Vec<String>) {
    let mut model = Model::tiny(MODEL);
    change(&mut model);
    let (bytes, report) = model.pack();
    (bytes, report.notes)
}

#[test]
fn packing_twice_gives_the_same_bytes() {
    for model in [Model::tiny(MODEL), Model::tiny("tiny-qwen3-f16-untied"), Model::llama("tiny-qwen3-q8_0")] {
        for quant in [Quant::Q8, Quant::Q4] {
            assert!(*model.try_pack(quant).unwrap().0 == *model.try_pack(quant).unwrap().0);
        }
    }
}

/// The sections of an image with their bytes, but for where it came from.
fn sections(bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let image = Image::open(bytes).unwrap();
    let kept = image.sections().iter().filter(|record| record.kind != SectionKind::Provenance as u32);
    kept.map(|record| (record.kind, bytes[record.offset as usize..][..record.len as usize].to_vec())).collect()
}

#[test]
fn version_2_is_packed_as_version_3() {
    let model = Model::tiny(MODEL);
    let (v2, _) = pack_bytes(&model.write(2), Quant::Q8).unwrap();
    let (v3, _) = pack_bytes(&model.write(3), Quant::Q8).unwrap();
    assert_eq!(sections(&v2), sections(&v3));
    assert_eq!(Image::open(&v2).unwrap().config(), Image::open(&v3).unwrap().config());
}

#[test]
fn an_image_replaces_an_older_one_and_says_how_far_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("a.gguf"), folder.path().join("a.pocket"));
    std::fs::write(&input, Model::tiny(MODEL).write(3)).unwrap();
    std::fs::write(&output, vec![7; 1 << 20]).unwrap();
    let mut seen: Vec<Progress> = Vec::new();
    let report = pack_file(&input, &output, &Options::default(), &mut |progress| seen.push(progress)).unwrap();
    assert_eq!(std::fs::metadata(&output).unwrap().len(), report.image_bytes, "nothing of the older one is left");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "no temporary file is left");
    assert!(seen.len() > 10 && seen.is_sorted_by_key(|progress| progress.done));
    assert!(seen.iter().all(|progress| progress.total == report.weight_bytes && progress.done <= progress.total));
    let last = seen.last().unwrap();
    assert!(last.total - last.done < 64, "{last:?}");
    let bytes = AlignedBytes::copy_of(&std::fs::read(&output).unwrap());
    let image = Image::open(&bytes).unwrap();
    let provenance: serde_json::Value = serde_json::from_str(image.provenance()).unwrap();
    assert_eq!(provenance["source"], "a.gguf");
    assert_eq!(provenance["architecture"], "qwen3");
    use sha2::Digest as _;
    let hash = sha2::Sha256::digest(std::fs::read(&input).unwrap());
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(provenance["source_sha256"], hash);
}

#[test]
fn rotary_frequencies_are_computed_divided_and_scaled() {
    let plain = |base: f64, i: usize| base.powf(-2.0 * i as f64 / 32.0);
    let check = |change: &dyn Fn(&mut Model), want: &dyn Fn(usize) -> f64| {
        let (bytes, _) = changed(change);
        let image = Image::open(&bytes).unwrap();
        assert_eq!(image.inverse_frequencies().len(), 16);
        for (i, &found) in image.inverse_frequencies().iter().enumerate() {
            // Two computations in f64, each off by a few ulp.
            assert!((found - want(i)).abs() <= 1e-14 * want(i), "{i}: {found}, not {}", want(i));
        }
        logits(&image, &[1, 2, 3, 4], Way::new(8)).pop().unwrap()
    };
    let unscaled = check(&|_| {}, &|i| plain(1_000_000.0, i));
    check(&|m| m.set("qwen3.rope.freq_base", Value::F32(5000.0)), &|i| plain(5000.0, i));
    // The format's default.
    check(&|m| m.unset("qwen3.rope.freq_base"), &|i| plain(10_000.0, i));
    let factor = |i: usize| 1.0 + i as f32 / 4.0;
    let factors: Vec<f32> = (0..16).map(factor).collect();
    let divided = Tensor::f32("rope_freqs.weight", &[16], &factors);
    let linear = |m: &mut Model| {
        m.set("qwen3.rope.scaling.type", Value::Str("linear"));
        m.set("qwen3.rope.scaling.factor", Value::F32(4.0));
    };
    let stretched = check(&linear, &|i| plain(1_000_000.0, i) / 4.0);
    assert_ne!(stretched, unscaled, "the runtime turns by the packed frequencies");
    check(&|m| m.tensors.push(divided.clone()), &|i| plain(1_000_000.0, i) / f64::from(factor(i)));
    let both = |m: &mut Model| {
        linear(m);
        m.tensors.push(divided.clone());
    };
    check(&both, &|i| plain(1_000_000.0, i) / f64::from(factor(i)) / 4.0);
}

#[test]
fn the_authors_sampling_is_the_default() {
    let sampling = |values: &[(&str, Value<'_>)]| {
        let (bytes, notes) =
            changed(|m| values.iter().for_each(|(key, v)| m.set(&format!("general.sampling.{key}"), *v)));
        (Image::open(&bytes).unwrap().sampling(), notes.iter().any(|note| note.contains("sampling settings")))
    };
    let greedy = Sampling::GREEDY;
    assert_eq!(sampling(&[]), (greedy, false));
    let all = [
        ("temp", Value::F32(0.6)),
        ("top_k", Value::I32(20)),
        ("top_p", Value::F32(0.95)),
        ("min_p", Value::F32(0.05)),
        ("penalty_repeat", Value::F32(1.1)),
        ("penalty_last_n", Value::I32(64)),
    ];
    let want =
        Sampling { temperature: 0.6, top_k: 20, top_p: 0.95, min_p: 0.05, repetition_penalty: 1.1, penalty_window: 64 };
    assert_eq!(sampling(&all), (want, false));
    assert_eq!(sampling(&[("temp", Value::F32(0.7))]), (Sampling { temperature: 0.7, ..greedy }, false));
    assert_eq!(sampling(&[("top_k", Value::U64(7))]), (Sampling { top_k: 7, ..greedy }, false));
    // Negative counts are all; a window of none is no penalty.
    let penalty = ("penalty_repeat", Value::F32(1.2));
    let penalised = Sampling { repetition_penalty: 1.2, ..greedy };
    assert_eq!(sampling(&[penalty, ("penalty_last_n", Value::I32(-1))]), (penalised, false));
    assert_eq!(sampling(&[penalty, ("penalty_last_n", Value::I32(0))]), (greedy, false));
    assert_eq!(sampling(&[("top_k", Value::I32(-1))]), (greedy, false));
    // Settings that cannot be are left out, all of them, and that is said.
    for bad in [
        ("temp", Value::F32(-1.0)),
        ("top_p", Value::F32(0.0)),
        ("top_p", Value::F32(1.5)),
        ("min_p", Value::F32(2.0)),
        ("penalty_repeat", Value::F32(0.0)),
    ] {
        assert_eq!(sampling(&[("top_k", Value::I32(5)), bad]), (greedy, true), "{bad:?}");
    }
}

#[test]
fn what_ends_a_reply_is_found() {
    let stop = |change: &dyn Fn(&mut Model)| {
        let (bytes, notes) = changed(change);
        let image = Image::open(&bytes).unwrap();
        let stop = image.stop_tokens().to_vec();
        let names: Vec<String> = stop
            .iter()
            .map(|&id| String::from_utf8(image.tokenizer().unwrap().token_bytes(id).unwrap().to_vec()).unwrap())
            .collect();
        (names, notes.iter().any(|note| note.contains("no token is known to end a reply")))
    };
    let id = |name: &str| {
        let (bytes, _) = Model::tiny(MODEL).pack();
        let tokenizer = Image::open(&bytes).unwrap().tokenizer().unwrap();
        (0..1024).find(|&id| tokenizer.token_bytes(id) == Some(name.as_bytes())).unwrap()
    };
    let (end, turn) = (id("<|endoftext|>"), id("<|im_end|>"));
    let eos = |m: &mut Model, id| m.set("tokenizer.ggml.eos_token_id", Value::U32(id));
    let bare = |m: &mut Model| {
        for key in ["tokenizer.chat_template", "tokenizer.ggml.padding_token_id", "tokenizer.ggml.eot_token_id"] {
            m.metadata.retain(|(other, ..)| other != key);
        }
    };
    let alone = |m: &mut Model| {
        bare(m);
        eos(m, end);
    };
    assert_eq!(stop(&alone), (vec!["<|endoftext|>".to_owned()], false));
    let with_turn = |m: &mut Model| {
        alone(m);
        m.set("tokenizer.ggml.eot_token_id", Value::U32(turn));
        m.set("tokenizer.ggml.padding_token_id", Value::U32(end));
    };
    assert_eq!(stop(&with_turn), (vec!["<|endoftext|>".to_owned(), "<|im_end|>".to_owned()], false));
    let none = |m: &mut Model| {
        bare(m);
        m.metadata.retain(|(key, ..)| key != "tokenizer.ggml.eos_token_id");
    };
    assert_eq!(stop(&none), (vec![], true));
}

#[test]
fn a_template_that_cannot_be_is_left_out_with_a_reason() {
    let template = |jinja: Option<&str>| {
        let (bytes, notes) = changed(|m| {
            m.metadata.retain(|(key, ..)| key != "tokenizer.chat_template");
            if let Some(jinja) = jinja {
                m.set("tokenizer.chat_template", Value::Str(jinja));
            }
        });
        let image = Image::open(&bytes).unwrap();
        image.verify().unwrap();
        let provenance: serde_json::Value = serde_json::from_str(image.provenance()).unwrap();
        let in_image: Vec<String> = serde_json::from_value(provenance["notes"].clone()).unwrap();
        assert_eq!(in_image, notes, "the image says what the packer said");
        (image.template().map(|_| ()).err(), notes)
    };
    let chatml = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}\
                  {% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
    assert_eq!(template(Some(chatml)), (None, vec![]));
    let missing = Some(ImageError::Missing { part: Part::Template });
    let (error, notes) = template(None);
    assert_eq!(error, missing);
    assert_eq!(notes, ["the file has no chat template; the image answers raw prompts only"]);
    for jinja in [
        // Numbers the turns.
        "{% for m in messages %}{{ loop.index ~ ':' ~ m.content ~ '<|im_end|>' }}{% endfor %}",
        // Cannot be read.
        "{% for m in messages %}{{ m.content",
        // Refuses everything.
        "{{ raise_exception('no') }}",
    ] {
        let (error, notes) = template(Some(jinja));
        assert_eq!(error, missing, "{jinja}");
        let reason = notes.iter().find_map(|note| note.strip_prefix("packed without a chat template"));
        assert!(reason.is_some_and(|reason| reason.contains("raw prompts only: the chat template")), "{notes:?}");
    }
}
