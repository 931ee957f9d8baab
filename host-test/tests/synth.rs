//! Models of a shape and random weights: they are what they say, the same every time, and run.

use pocket_host_test::images::AlignedBytes;
use pocket_host_test::session::{Way, with};
use pocket_pack::pack::{Options, Report, pack_bytes};
use pocket_pack::synth::{SHAPES, Shape, SynthError, gguf, weights};
use pocket_runtime::text::Specials;
use pocket_runtime::{Config, Image};

/// A small shape of the family of this one.
fn small(name: &str) -> Config {
    let config = Shape::named(name).expect("a shape").config;
    Config { layers: 2, hidden: 128, heads: 2 * config.kv_heads, ffn: 192, vocabulary: 600, ..config }
}

fn packed(config: &Config, seed: u64) -> (AlignedBytes, Report) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.pocket");
    let file = gguf("small", config, seed).unwrap();
    let report = pack_bytes(&file, "synth", &path, &Options::default(), &mut |_| ()).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let mut aligned = AlignedBytes::filled(0, bytes.len());
    aligned.copy_from_slice(&bytes);
    (aligned, report)
}

#[test]
fn an_image_has_the_shape_and_the_size_that_was_counted() {
    for shape in SHAPES {
        let config = small(shape.name);
        let (bytes, report) = packed(&config, 0);
        let image = Image::open(&bytes).unwrap();
        assert_eq!(image.config(), &config, "{}", shape.name);
        let counted = weights(&config);
        assert_eq!(counted.parameters, report.parameters);
        let data: u64 = image.tensors().iter().map(|tensor| tensor.data_bytes()).sum();
        assert_eq!(counted.bytes, data);
        assert_eq!(counted.head_bytes, image.weights().head.bytes() as u64);
        assert!(report.conversions.is_empty(), "codes are kept");
    }
}

#[test]
fn the_same_seed_gives_the_same_image() {
    let config = small("pocket-0.3b");
    let images = [0, 0, 1].map(|seed| packed(&config, seed).0.to_vec());
    assert_eq!(images[0], images[1]);
    assert_ne!(images[0], images[2]);
}

#[test]
fn it_hears_and_writes() {
    let config = small("pocket-0.3b");
    let (bytes, _) = packed(&config, 0);
    let image = Image::open(&bytes).unwrap();
    let tokenizer = image.tokenizer().unwrap();
    assert_eq!(tokenizer.vocabulary(), 600);
    for id in 0..600 {
        assert!(tokenizer.token_bytes(id).is_some_and(|bytes| !bytes.is_empty()), "{id}");
    }
    let template = image.template().unwrap();
    assert_eq!(template.stop_tokens(), [599]);
    with(&image, Way::new(64), |session| {
        let count = session.prefill_text(&tokenizer, "hello, 世界", Specials::AsText).unwrap();
        assert!(count > 0);
        let text: Vec<u8> =
            session.tokens().iter().flat_map(|&id| tokenizer.token_bytes(id).unwrap().to_vec()).collect();
        assert_eq!(text, "hello, 世界".as_bytes());
        assert!(session.logits().unwrap().iter().all(|x| x.is_finite()));
        assert!(session.logits().unwrap().iter().any(|&x| x != session.logits().unwrap()[0]), "not all alike");
    });
}

#[test]
fn the_published_shape_has_the_published_size() {
    let config = Shape::named("pocket-0.3b").unwrap().config;
    let counted = weights(&config);
    assert!((302_000_000..303_500_000).contains(&counted.parameters), "{}", counted.parameters);
    assert!((170_000_000..171_000_000).contains(&counted.bytes), "{}", counted.bytes);
    assert_eq!(counted.layer_bytes + counted.head_bytes, counted.bytes);
}

#[test]
fn what_cannot_be_is_refused() {
    let config = small("pocket-0.3b");
    let with = |change: fn(&mut Config)| {
        let mut config = config;
        change(&mut config);
        gguf("wrong", &config, 0).map(|_| ())
    };
    assert!(matches!(with(|c| c.layers = 0), Err(SynthError::Config(_))));
    assert_eq!(with(|c| c.vocabulary = 257), Err(SynthError::Vocabulary(257)));
    assert!(matches!(with(|c| c.ffn = 96), Err(SynthError::Columns { columns: 96, .. })));
    assert_eq!(with(|_| ()), Ok(()));
}
