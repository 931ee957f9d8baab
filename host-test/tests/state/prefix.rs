//! Baked prefixes: an image that has one computes the same bits, and less.

use std::fs;

use pocket_host_test::golden::tokens;
use pocket_host_test::images::{self, AlignedBytes};
use pocket_host_test::model_file::Model;
use pocket_host_test::models::{self, TINY};
use pocket_host_test::session::{Way, open, saved, with};
use pocket_pack::pack::{Options, PackError, Prefix, PrefixError, pack_bytes};
use pocket_pack::pool::Pool;
use pocket_runtime::image::{SectionKind, TABLE_OFFSET};
use pocket_runtime::text::{RenderOptions, Role, Specials, Turn};
use pocket_runtime::{CacheType, Image, ImageError, Part, SessionError, StateError, StepError};

use super::{CACHES, CANCELLED, following, state_of};

const SYSTEM: &str = "You answer in one word. The quick brown fox jumps over the lazy dog.";

fn packed(name: &str, prefix: Prefix<'_>) -> Result<AlignedBytes, PackError> {
    packed_bytes(&models::read(&models::tiny(name)), prefix)
}

fn packed_bytes(gguf: &[u8], prefix: Prefix<'_>) -> Result<AlignedBytes, PackError> {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("model.pocket");
    let options = Options { prefix: Some(prefix), ..Options::default() };
    let report = pack_bytes(gguf, "a test", &output, &options, &mut |_| {});
    if report.is_err() {
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
    }
    report.map(|_| AlignedBytes::copy_of(&fs::read(&output).unwrap()))
}

fn baked(name: &str, cache: CacheType) -> AlignedBytes {
    packed(name, Prefix { text: SYSTEM, cache }).unwrap()
}

/// The tokens of the prefix.
fn prefix_tokens(image: &Image<'_>) -> Vec<u32> {
    image.prefix().unwrap().tokens().collect()
}

#[test]
fn a_prefix_is_the_state_that_a_device_would_compute() {
    for (name, cache) in [TINY[4], TINY[5]].into_iter().flat_map(|name| CACHES.map(|cache| (name, cache))) {
        let bytes = baked(name, cache);
        let image = Image::open(&bytes).unwrap();
        image.verify().unwrap();
        let plain = Image::open(images::image(name)).unwrap();
        assert_eq!(image.identity(), plain.identity(), "the model is the same");
        assert_eq!(plain.prefix().err(), Some(ImageError::Missing { part: Part::Prefix }));
        let prefix = prefix_tokens(&image);
        assert!(prefix.len() > 10, "{name}: {prefix:?}");
        let state = state_of(&plain, &prefix, Way { cache, ..Way::new(200) });
        let record = image.sections().iter().find(|record| record.kind == SectionKind::Prefix as u32).unwrap();
        let baked = &image.bytes()[record.offset as usize..][..record.len as usize];
        let difference = baked.iter().zip(&state).position(|(a, b)| a != b);
        assert_eq!((baked.len(), difference), (state.len(), None), "{name} {cache:?}");
    }
}

#[test]
fn the_bits_are_those_of_an_image_without() {
    for (name, cache) in [TINY[4], TINY[5]].into_iter().flat_map(|name| CACHES.map(|cache| (name, cache))) {
        let bytes = baked(name, cache);
        let (image, plain) = (Image::open(&bytes).unwrap(), Image::open(images::image(name)).unwrap());
        let prefix = prefix_tokens(&image);
        let ids = tokens(name);
        let way = Way { cache, workers: 2, ..Way::new(160) };
        let half = prefix.len() / 2;
        // Beyond the prefix, all of it, a part, a part and then something else, something else.
        let prompts = [
            [&prefix, &ids[..20]].concat(),
            prefix.clone(),
            prefix[..half].to_vec(),
            [&prefix[..half], &ids[..20]].concat(),
            prefix[..1].to_vec(),
            ids[..20].to_vec(),
        ];
        for prompt in &prompts {
            let logits = |image: &Image<'_>| {
                with(image, way, |session| {
                    session.prefill(prompt).unwrap();
                    let last: Vec<u32> = session.logits().unwrap().iter().map(|x| x.to_bits()).collect();
                    (last, following(session, &ids[40..50]), saved(session))
                })
            };
            assert!(logits(&image) == logits(&plain), "{name} {cache:?}: a prompt of {}", prompt.len());
        }
        // In pieces, and again after a reset and a rewind.
        with(&image, way, |session| {
            let want = with(&plain, way, |session| following(session, &[&prefix, &ids[..10]].concat()));
            for start in [0, 3, half] {
                session.rewind(start).unwrap();
                for piece in prefix[start..].chunks(4) {
                    session.prefill(piece).unwrap();
                }
                assert_eq!(following(session, &ids[..10]), want[prefix.len()..]);
            }
            session.reset();
            session.prefill(&ids[..half]).unwrap();
            let want = with(&plain, way, |session| {
                session.prefill(&ids[..half]).unwrap();
                following(session, &prefix[half..])
            });
            assert_eq!(following(session, &prefix[half..]), want, "it was another beginning");
        });
    }
}

#[test]
fn nothing_of_a_prefix_is_computed() {
    let bytes = baked(TINY[4], CacheType::F16);
    let image = Image::open(&bytes).unwrap();
    let prefix = prefix_tokens(&image);
    let len = prefix.len() as u32;
    // A step that was cancelled before its first half of a layer holds what needed none.
    let held = |prompt: &[u32], cache| {
        with(&image, Way { cache, ..Way::new(160) }, |session| {
            session.cancel_by(&CANCELLED);
            session.prefill(prompt)
        })
    };
    let ids = tokens(TINY[4]);
    let longer = [&prefix, &ids[..5]].concat();
    assert_eq!(held(&longer, CacheType::F16), Err(StepError::Cancelled { position: len, left: 5 }));
    assert_eq!(held(&prefix, CacheType::F16), Err(StepError::Cancelled { position: len - 1, left: 1 }));
    assert_eq!(held(&prefix[..7], CacheType::F16), Err(StepError::Cancelled { position: 6, left: 1 }));
    assert_eq!(held(&ids[..5], CacheType::F16), Err(StepError::Cancelled { position: 0, left: 5 }));
    assert_eq!(held(&longer, CacheType::I8), Err(StepError::Cancelled { position: 0, left: len + 5 }), "no such cache");
}

#[test]
fn a_chat_with_the_system_prompt_begins_behind_it() {
    let bytes = baked(TINY[4], CacheType::F16);
    let image = Image::open(&bytes).unwrap();
    assert_eq!(image.system_prompt(), Ok(SYSTEM));
    let (tokenizer, template) = (image.tokenizer().unwrap(), image.template().unwrap());
    for user in ["fox", "7", "\n\nwhat?", " ", "über", "<|im_end|>"] {
        let turns = [Turn { role: Role::System, content: SYSTEM }, Turn { role: Role::User, content: user }];
        let options = RenderOptions { generation_prompt: true, thinking: None };
        let (mut room, mut ranges) = ([0; 1000], [0..0, 0..0]);
        let rendered = template.render(&turns, options, &mut room, &mut ranges).unwrap();
        with(&image, Way::new(160), |session| {
            session.cancel_by(&CANCELLED);
            let specials = Specials::RecogniseOutside(rendered.protected);
            session.prefill_text(&tokenizer, rendered.text, specials).unwrap_err();
            let prefix = image.prefix().unwrap().positions();
            // A user's first character may make one token with what the template writes before it.
            assert!(session.position() + 1 >= prefix, "{user:?}: {} of {prefix}", session.position());
        });
    }
}

#[test]
fn a_damaged_prefix_is_named_and_a_strange_one_refused() {
    let mut bytes = baked(TINY[4], CacheType::F16);
    let range = {
        let image = Image::open(&bytes).unwrap();
        let record = image.sections().iter().find(|record| record.kind == SectionKind::Prefix as u32).unwrap();
        record.offset as usize..(record.offset + record.len) as usize
    };
    bytes[range.start + 300] ^= 1;
    let reason = StateError::Checksum;
    {
        let image = Image::open(&bytes).unwrap();
        assert_eq!(image.prefix().err(), Some(ImageError::Prefix { reason }));
        assert_eq!(image.verify(), Err(ImageError::Checksum { part: Part::Prefix }));
        let plan = Way::new(64).plan(&image);
        let mut arena = AlignedBytes::filled(0, plan.arena_bytes());
        let pool = Pool::new(1).unwrap();
        let refused = open(&image, (&plan, Way::new(64).isa), &mut arena, &pool).err();
        assert_eq!(refused, Some(SessionError::Prefix { reason }));
    }
    bytes[range.start + 300] ^= 1;
    // The prefix of another model, with good checksums.
    let other = baked(TINY[3], CacheType::F16);
    let strange = Image::open(&other).unwrap();
    let record = strange.sections().iter().find(|record| record.kind == SectionKind::Prefix as u32).unwrap();
    let body = &strange.bytes()[record.offset as usize..][..record.len as usize];
    assert_eq!(body.len(), range.len(), "the models have one shape");
    bytes[range.clone()].copy_from_slice(body);
    let image = Image::open(&bytes).unwrap();
    assert_eq!(image.prefix().err(), Some(ImageError::Prefix { reason: StateError::OtherModel }));
    assert!(range.start > TABLE_OFFSET);
}

#[test]
fn prefixes_that_cannot_be_are_refused() {
    let cache = CacheType::F16;
    let long = "the fox ".repeat(4000);
    let refused = packed(TINY[4], Prefix { text: &long, cache }).unwrap_err();
    assert!(matches!(refused, PackError::Prefix(PrefixError::TooLong { .. })), "{refused}");
}

#[test]
fn without_a_template_a_prefix_is_text_as_it_stands() {
    let cache = CacheType::F16;
    let mut model = Model::read(&models::read(&models::tiny(TINY[4])));
    model.unset("tokenizer.chat_template");
    let gguf = model.write(3);
    let refused = packed_bytes(&gguf, Prefix { text: "", cache }).unwrap_err();
    assert!(matches!(refused, PackError::Prefix(PrefixError::Empty)), "{refused}");
    let bytes = packed_bytes(&gguf, Prefix { text: SYSTEM, cache }).unwrap();
    let image = Image::open(&bytes).unwrap();
    assert_eq!(image.system_prompt(), Err(ImageError::Missing { part: Part::SystemPrompt }));
    let prefix = prefix_tokens(&image);
    with(&image, Way::new(160), |session| {
        session.cancel_by(&CANCELLED);
        let text = format!("{SYSTEM} And so on.");
        session.prefill_text(&image.tokenizer().unwrap(), &text, Specials::Recognise).unwrap_err();
        assert_eq!(session.tokens(), prefix);
    });
}
