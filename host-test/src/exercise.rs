//! Whatever one can do with what opened: nothing may panic, hang, or break what holds for everything sound.
//!
//! Tests of damaged and hostile data and the fuzzers go through these, so that one way of using the library that is
//! added here is tried on all of them. Time and memory are in proportion to what is given; the caller bounds that.

use pocket_pack::pool::Pool;
use pocket_runtime::text::{
    ChatTemplate, RenderOptions, Role, Specials, StopStrings, TextError, Tokenizer, Turn, Utf8Stream, scratch_len,
};
use pocket_runtime::{Image, Plan, PlanError, Sampler, Sampling, SessionError, StepError};

use crate::images::AlignedBytes;
use crate::session::{Steps, Way, open};

/// A text that goes through all tables of a tokenizer: merges, special tokens, white space, digits, other planes.
pub const TEXT: &str = "lol abab  ab\n<|end|>!12 's é漢😀\u{E000}<think>   ";

/// Encodes a text, with and without special tokens, and shows it again as a reply is shown.
///
/// # Panics
/// If the tokens' bytes are not the text with bytes left out, which no section that opens may make of them.
pub fn tokenizer(tokenizer: &Tokenizer<'_>, text: &str) {
    let mut scratch = vec![0; scratch_len(text.len())];
    let mut out = vec![0; text.len()];
    for specials in [Specials::Recognise, Specials::AsText] {
        let count = tokenizer.encode(text, specials, &mut scratch, &mut out).expect("scratch and room for any text");
        let ids = &out[..count];
        let kept: Vec<u8> =
            ids.iter().flat_map(|&id| tokenizer.token_bytes(id).expect("its own token")).copied().collect();
        // Left out is what has no token; what is kept is in order.
        let mut left = kept.iter().peekable();
        for byte in text.bytes() {
            left.next_if(|&&next| next == byte);
        }
        assert!(left.next().is_none(), "{kept:?} is not {text:?} with bytes left out");
        assert_eq!(shown(tokenizer, ids, &[]), String::from_utf8_lossy(&kept));
        assert!(String::from_utf8_lossy(&kept).starts_with(&shown(tokenizer, ids, &["b", "é", "\n<"])));
        for &id in ids {
            assert!(id < tokenizer.vocabulary());
            assert!(tokenizer.is_special(id) || !tokenizer.is_control(id));
        }
    }
    for id in [0, tokenizer.vocabulary().wrapping_sub(1), tokenizer.vocabulary(), u32::MAX] {
        assert_eq!(tokenizer.token_bytes(id).is_some(), id < tokenizer.vocabulary());
        assert!(!tokenizer.is_special(id) || id < tokenizer.vocabulary());
    }
    if let Some(id) = tokenizer.id_of(b"<|end|>") {
        assert!(tokenizer.is_special(id));
    }
    assert!([tokenizer.bos(), tokenizer.eos()].into_iter().flatten().all(|id| id < tokenizer.vocabulary()));
}

/// The text of tokens as a reply shows it: character by character, up to a stop string.
fn shown(tokenizer: &Tokenizer<'_>, ids: &[u32], stops: &[&str]) -> String {
    let mut held = vec![0; StopStrings::held_bytes(stops)];
    let mut stopping = StopStrings::new(stops, &mut held).expect("as much as it asks for");
    let (mut characters, mut text) = (Utf8Stream::new(), String::new());
    let mut push = |part: &str| {
        stopping.push(part, |shown| text.push_str(shown));
    };
    for &id in ids {
        characters.push(tokenizer.token_bytes(id).unwrap_or_default(), &mut push);
    }
    characters.finish(&mut push);
    stopping.finish(|shown| text.push_str(shown));
    text
}

/// Renders chats with this content, usual and unusual, with every setting.
///
/// # Panics
/// If what is protected is not what was said.
pub fn template(template: &ChatTemplate<'_>, content: &str) {
    let says = |role, content| Turn { role, content };
    let (user, assistant) = (says(Role::User, content), says(Role::Assistant, "a"));
    let turns = [says(Role::System, " s "), user, assistant, says(Role::User, "\nü\n"), says(Role::User, "b")];
    for thinking in [None, Some(true), Some(false)] {
        for generation_prompt in [false, true] {
            let options = RenderOptions { generation_prompt, thinking };
            for len in 1..=turns.len() {
                for turns in [&turns[..len], &turns[turns.len() - len..]] {
                    render(template, turns, options);
                }
            }
        }
        let _ = template.appends(thinking);
    }
}

/// Renders one chat, in buffers of just the size that it takes.
fn render(template: &ChatTemplate<'_>, turns: &[Turn<'_>], options: RenderOptions) {
    let mut ranges = vec![0..0; turns.len()];
    let refused = template.render(turns, options, &mut [], &mut ranges).map(drop);
    let need = match refused {
        Err(TextError::RenderTooLong { need, limit: 0 }) => need as usize,
        Err(TextError::TurnOrder { index }) => return assert!((index as usize) < turns.len()),
        // Texts may be cut inside characters; and a chat of nothing fits anywhere.
        other => return assert!(matches!(other, Ok(()) | Err(TextError::Damaged { .. })), "{other:?}"),
    };
    let mut out = vec![0; need];
    let Ok(rendered) = template.render(turns, options, &mut out, &mut ranges) else { return };
    assert_eq!((rendered.text.len(), rendered.protected.len()), (need, turns.len()));
    for (range, turn) in rendered.protected.iter().zip(turns) {
        assert!(turn.content.contains(&rendered.text[range.clone()]));
    }
    let _ = template.render_following(turns, options, &mut out, &mut ranges);
}

/// Reads everything that an image has.
///
/// # Panics
/// If a layer is missing that the configuration promises, or text breaks what it promises.
pub fn readers(image: &Image<'_>) {
    let config = image.config();
    let _ = (image.verify().is_ok(), image.provenance(), image.sampling(), image.weights());
    for layer in 0..config.layers as usize {
        assert!(image.layer(layer).is_some(), "layer {layer} of an image that opened");
    }
    assert!(image.layer(config.layers as usize).is_none() && image.layer(usize::MAX).is_none());
    assert!(image.stop_tokens().iter().all(|&id| id < config.vocabulary));
    assert_eq!(image.inverse_frequencies().len(), config.head_dim as usize / 2);
    if let Ok(found) = image.tokenizer() {
        tokenizer(&found, TEXT);
    }
    if let Ok(found) = image.template() {
        template(&found, TEXT);
    }
}

/// Runs the model in each of these ways, with the context cut to the model's, and gives what the steps said.
///
/// # Panics
/// If a shape that opened has no plan but for its size, or no session but for a prefix that cannot be read, or if a token
/// was chosen by a logit that is no number.
pub fn sessions(image: &Image<'_>, ways: &[Way]) -> Vec<Result<u32, StepError>> {
    let config = image.config();
    let mut said = Vec::new();
    for way in ways {
        let context = config.context.min(way.context);
        let way = Way { context, batch: way.batch.min(context), ..*way };
        let plan = match Plan::try_new(config, &way.limits()) {
            Ok(plan) => plan,
            Err(error) => {
                assert_eq!(error, PlanError::TooLarge, "a shape that opened");
                continue;
            }
        };
        let mut arena = AlignedBytes::filled(0xff, plan.arena_bytes());
        let workers = Pool::new(way.workers as usize).expect("threads");
        let mut session = match open(image, (&plan, way.isa), &mut arena, &workers) {
            Ok(session) => session,
            Err(error) => {
                let prefix = matches!(error, SessionError::Prefix { .. }) && image.prefix().is_err();
                assert!(prefix, "a session of its own plan: {error:?}");
                continue;
            }
        };
        said.push(steps(&mut *session, image.sampling(), config.vocabulary));
        session.reset();
        said.push(steps(&mut *session, Sampling { temperature: 1.0, top_p: 0.9, ..Sampling::GREEDY }, 1));
    }
    said
}

/// A few steps with the first and last tokens, as far as the context goes.
fn steps(session: &mut dyn Steps, sampling: Sampling, vocabulary: u32) -> Result<u32, StepError> {
    let ids = [0, vocabulary - 1, vocabulary / 2, 0, 1 % vocabulary];
    let mut sampler = Sampler::new(sampling, 3)?;
    session.prefill(&ids[..ids.len().min(session.room())])?;
    let mut last = session.sample(&mut sampler)?;
    while session.room() > 0 {
        session.decode(last)?;
        last = session.sample(&mut sampler)?;
        let logits = session.logits().expect("logits after a step");
        assert!(logits[last as usize].is_finite(), "a token was chosen by a logit that is no number");
    }
    Ok(last)
}
