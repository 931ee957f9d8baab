//! A session's steps and their errors.

use pocket_host_test::divergence::argmax;
use pocket_host_test::golden::tokens;
use pocket_host_test::images::{self, AlignedBytes};
use pocket_host_test::models::{self, SMOLLM2, TINY};
use pocket_host_test::session::{Way, logits, open, with};
use pocket_pack::pool::Pool;
use pocket_runtime::text::{Specials, TextError};
use pocket_runtime::{Error, Image, Sampler, Sampling, StepError};

fn tiny() -> Image<'static> {
    Image::open(images::image(TINY[4])).unwrap()
}

#[test]
fn a_prompt_that_does_not_fit_is_refused_before_any_work() {
    let image = tiny();
    let ids = tokens(TINY[4]);
    with(&image, Way::new(20), |session| {
        assert_eq!(session.prefill(&ids[..21]), Err(StepError::ContextFull { need: 21, have: 20 }));
        assert_eq!((session.position(), session.room()), (0, 20));
        session.prefill(&ids[..15]).unwrap();
        let before = session.logits().unwrap().to_vec();
        assert_eq!(session.prefill(&ids[..6]), Err(StepError::ContextFull { need: 21, have: 20 }));
        assert_eq!(session.logits(), Some(&*before), "a refused prompt leaves the logits");
        let tokenizer = image.tokenizer().unwrap();
        let text = "a b c d e f g h";
        let refused = session.prefill_text(&tokenizer, text, Specials::AsText);
        assert!(matches!(refused, Err(Error::Text(TextError::TooManyTokens { .. }))), "{refused:?}");
        assert_eq!(session.logits(), Some(&*before));
        session.prefill(&ids[15..20]).unwrap();
        assert_eq!(session.decode(0), Err(StepError::ContextFull { need: 21, have: 20 }));
        assert_eq!(session.tokens(), &ids[..20]);
    });
}

#[test]
fn wrong_tokens_are_refused() {
    let image = tiny();
    let vocabulary = image.config().vocabulary;
    with(&image, Way::new(20), |session| {
        assert_eq!(session.prefill(&[]), Err(StepError::Empty));
        for id in [vocabulary, u32::MAX] {
            assert_eq!(session.prefill(&[1, 2, id]), Err(StepError::UnknownToken { id, vocabulary }));
        }
        assert_eq!(session.position(), 0);
        session.prefill(&[0, vocabulary - 1]).unwrap();
    });
}

#[test]
fn logits_and_samples_need_a_step() {
    let image = tiny();
    let mut sampler = Sampler::new(Sampling::GREEDY, 0).unwrap();
    with(&image, Way::new(20), |session| {
        assert!(session.logits().is_none());
        assert_eq!(session.sample(&mut sampler), Err(StepError::NoLogits));
        session.prefill(&[1, 2, 3]).unwrap();
        let chosen = session.sample(&mut sampler).unwrap();
        assert_eq!(Some(chosen as usize), argmax(session.logits().unwrap()));
        assert_eq!(session.position(), 3, "sampling appends nothing");
        assert_eq!(session.rewind(4), Err(StepError::RewindBeyond { position: 4, have: 3 }));
        session.rewind(3).unwrap();
        assert!(session.logits().is_some(), "nothing was taken back");
        session.rewind(2).unwrap();
        assert_eq!(session.sample(&mut sampler), Err(StepError::NoLogits));
        session.reset();
        assert_eq!((session.position(), session.tokens().len()), (0, 0));
    });
}

#[test]
fn text_is_its_tokens() {
    let image = Image::open(images::image(SMOLLM2)).unwrap();
    let tokenizer = image.tokenizer().unwrap();
    let text = "<|im_start|>user\nWas ist ein Bus?<|im_end|>\n";
    let (mut scratch, mut ids) = (vec![0; 1000], vec![0; 100]);
    let count = tokenizer.encode(text, Specials::Recognise, &mut scratch, &mut ids).unwrap();
    let by_ids = logits(&image, &ids[..count], Way::new(64)).pop().unwrap();
    with(&image, Way::new(64), |session| {
        assert_eq!(session.prefill_text(&tokenizer, "", Specials::Recognise), Ok(0));
        assert!(session.logits().is_none());
        assert_eq!(session.prefill_text(&tokenizer, text, Specials::Recognise), Ok(count));
        assert_eq!(session.tokens(), &ids[..count]);
        assert_eq!(session.logits().unwrap(), by_ids);
        let long = "x".repeat(5000);
        let refused = session.prefill_text(&tokenizer, &long, Specials::Recognise);
        assert!(matches!(refused, Err(Error::Text(TextError::PieceTooLong { .. }))), "{refused:?}");
        assert_eq!(session.logits().unwrap(), by_ids);
    });
}

#[test]
fn sessions_over_one_image_do_not_see_each_other() {
    let image = tiny();
    let ids = tokens(TINY[4]);
    let other: Vec<u32> = ids.iter().rev().copied().collect();
    let alone = (logits(&image, &ids[..40], Way::new(64)), logits(&image, &other[..40], Way::new(64)));
    let way = Way::new(64);
    let plan = way.plan(&image);
    let mut arenas = [0, 1].map(|_| AlignedBytes::filled(0xa5, plan.arena_bytes()));
    let workers = Pool::new(1).unwrap();
    let mut sessions = arenas.each_mut().map(|arena| open(&image, (&plan, way.isa), arena, &workers).unwrap());
    for i in 0..40 {
        sessions[0].decode(ids[i]).unwrap();
        sessions[1].decode(other[i]).unwrap();
        assert_eq!(sessions[0].logits().unwrap(), alone.0[i]);
        assert_eq!(sessions[1].logits().unwrap(), alone.1[i]);
    }
}

#[test]
fn smollm2_knows_what_the_oracle_knows() {
    // The oracle's text is a chat with an answer. Where the oracle is sure of the next token, so is the runtime.
    let oracle = models::oracle(SMOLLM2);
    let image = Image::open(images::image(SMOLLM2)).unwrap();
    let ours = logits(&image, &oracle.ids, Way::new(64));
    let sure: Vec<usize> = (0..oracle.ids.len())
        .filter(|&position| pocket_host_test::divergence::margin(&oracle.logits[position]) > 0.5)
        .collect();
    assert!(sure.len() >= 20, "the oracle is sure at {} positions only", sure.len());
    for position in sure {
        assert_eq!(argmax(&oracle.logits[position]), argmax(&ours[position]), "position {position}");
    }
}
