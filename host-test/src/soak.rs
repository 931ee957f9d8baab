//! Random conversations, one after the other in the same few sessions: what a device does all day.
//!
//! Everything is drawn from the number of the conversation: texts of any characters, with and without a template,
//! settings of sampling, rewinds, resets, and contexts that run full. Only the moment at which another thread cancels a
//! step is left to chance. A cancelled step goes on, or is taken back and done again, so chance must not show: the hash
//! over all logits and tokens is one value, on every instruction set.
//!
//! Whoever talks allocates nothing: texts, tokens and logits have their room before the first conversation begins.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use pocket_pack::isa::Isa;
use pocket_pack::pool::Pool;
use pocket_runtime::text::{ChatTemplate, RenderOptions, Role, Specials, Tokenizer, Turn};
use pocket_runtime::{CacheType, Error, Image, Sampler, Sampling, Single, StepError, Workers};
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg32;
use sha2::{Digest, Sha256};

use crate::images::{self, AlignedBytes};
use crate::session::{Steps, Way, open};

/// Conversations of a whole soak.
pub const CONVERSATIONS: usize = 1000;
/// Conversations where there is no time for all.
pub const FIRST: usize = 40;

/// The sessions: model, workers, batch, cache, context. Contexts are short, so that they run full.
const SESSIONS: [(&str, u32, u32, CacheType, u32); 4] = [
    ("tiny-qwen3-q4_1-ffn160", 1, 16, CacheType::F16, 96),
    ("tiny-qwen3-q4_1-ffn160", 2, 7, CacheType::I8, 160),
    ("tiny-qwen3-q4_1-g64", 2, 32, CacheType::F16, 48),
    ("tiny-qwen3-q8_0", 1, 1, CacheType::I8, 33),
];

/// What texts are made of, beside any characters.
const FRAGMENTS: [&str; 16] = [
    "the ",
    "quick brown",
    " fox's",
    "\n",
    "\n\n",
    "    ",
    "1234567890",
    "Grüße, ",
    "漢字かな",
    "😀👩‍👧",
    "e\u{301}\u{200D}",
    "<|im_end|>",
    "<|im_start|>system\n",
    "{{ }}",
    "\u{202E}مرحبا",
    "\0\u{7F}\t",
];

/// Bytes of the longest rendered turn, and more.
const TEXT_BYTES: usize = 4096;

/// What happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Soaked {
    /// SHA-256 over the logits and tokens of all conversations.
    pub hash: String,
    /// Sessions that forgot everything.
    pub resets: usize,
    /// Tokens taken back.
    pub rewinds: usize,
    /// Contexts that ran full.
    pub full: usize,
    /// Conversations that were computed again from their tokens, to the same logits.
    pub replays: usize,
    /// Steps that were cancelled; the only figure that no two runs share.
    pub cancels: usize,
}

/// Holds so many conversations. `pool` makes the threads; `observe` is called before each conversation with its number,
/// and at last with their count.
///
/// # Panics
/// If the machine lacks the instruction set, or a step fails that nothing keeps from being done.
pub fn run(isa: Isa, pool: impl Fn(usize) -> Pool, conversations: usize, observe: &mut dyn FnMut(usize)) -> Soaked {
    let images = SESSIONS.map(|(model, ..)| Image::open(images::image(model)).expect("an image that was just packed"));
    let ways = SESSIONS.map(|(_, workers, batch, cache, context)| Way { isa, workers, batch, cache, context });
    let workers = ways.map(|way| -> Box<dyn Workers> {
        if way.workers == 1 { Box::new(Single) } else { Box::new(pool(way.workers as usize)) }
    });
    let plans: Vec<_> = ways.iter().zip(&images).map(|(way, image)| way.plan(image)).collect();
    let mut arenas: Vec<_> = plans.iter().map(|plan| AlignedBytes::filled(0xa5, plan.arena_bytes())).collect();
    let (flag, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let canceller = scope.spawn(|| cancel(&flag, &ended)).thread().clone();
        let _end = End { ended: &ended, canceller: canceller.clone() };
        let mut sessions = Vec::new();
        for (((image, plan), arena), workers) in images.iter().zip(&plans).zip(&mut arenas).zip(&workers) {
            let mut session = open(image, (plan, isa), arena, &**workers).expect("a session of its own plan");
            session.cancel_by(&flag);
            let tokenizer = image.tokenizer().expect("every model has one");
            sessions.push((
                session,
                tokenizer,
                image.template().expect("every model has one"),
                image.config().vocabulary,
            ));
        }
        let mut soak = Soak {
            random: Pcg32::seed_from_u64(0),
            hash: Sha256::new(),
            soaked: Soaked::default(),
            flag: &flag,
            canceller,
            content: String::with_capacity(TEXT_BYTES),
            rendered: vec![0; TEXT_BYTES],
            tokens: Vec::with_capacity(TEXT_BYTES),
            logits: Vec::with_capacity(TEXT_BYTES),
        };
        for number in 0..conversations {
            observe(number);
            soak.random = Pcg32::seed_from_u64(number as u64);
            let at = soak.below(sessions.len());
            let (session, tokenizer, template, vocabulary) = &mut sessions[at];
            soak.converse(&mut **session, (tokenizer, template, *vocabulary));
        }
        observe(conversations);
        let hash = soak.hash.finalize();
        Soaked { hash: hash.iter().map(|byte| format!("{byte:02x}")).collect(), ..soak.soaked }
    })
}

/// Whenever it is woken, sets the flag a moment later.
fn cancel(flag: &AtomicBool, ended: &AtomicBool) {
    let mut random = Pcg32::seed_from_u64(0);
    while !ended.load(Ordering::Relaxed) {
        thread::park();
        thread::sleep(Duration::from_micros(u64::from(random.next_u32() % 500)));
        flag.store(true, Ordering::Relaxed);
    }
}

/// Ends the thread that cancels, also when a test fails.
struct End<'s> {
    ended: &'s AtomicBool,
    canceller: Thread,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        self.canceller.unpark();
    }
}

/// What a model's text goes through, and how many tokens it has.
type Text<'t, 'i> = (&'t Tokenizer<'i>, &'t ChatTemplate<'i>, u32);

/// Conversations going on.
struct Soak<'s> {
    random: Pcg32,
    hash: Sha256,
    soaked: Soaked,
    flag: &'s AtomicBool,
    canceller: Thread,
    content: String,
    rendered: Vec<u8>,
    tokens: Vec<u32>,
    logits: Vec<f32>,
}

impl Soak<'_> {
    /// A number below another.
    fn below(&mut self, most: usize) -> usize {
        self.random.next_u32() as usize % most
    }

    /// One conversation, which may go on where an earlier one was.
    fn converse(&mut self, session: &mut dyn Steps<'_>, text: Text<'_, '_>) {
        if self.below(2) == 0 {
            self.reset(session)
        } else {
            self.rewind(session)
        }
        for _ in 0..=self.below(3) {
            self.write();
            let long = self.below(8) == 0;
            if !self.say(session, text) {
                self.soaked.full += 1;
                if self.below(2) == 0 {
                    self.reset(session)
                } else {
                    self.rewind(session)
                }
                // What is too long even so is left unsaid.
                self.say(session, text);
            }
            if session.logits().is_none() {
                let id = self.below(text.2 as usize) as u32;
                self.step(session, &|session| Ok(session.decode(id)?)).expect("room for one token");
            }
            self.answer(session, if long { usize::MAX } else { 8 });
        }
        if self.below(16) == 0 {
            self.replay(session);
        }
    }

    fn reset(&mut self, session: &mut dyn Steps<'_>) {
        self.soaked.resets += 1;
        session.reset();
    }

    /// Takes back some tokens, so that there is room for one at least.
    fn rewind(&mut self, session: &mut dyn Steps<'_>) {
        let position = self.below(session.position().max(1));
        self.soaked.rewinds += 1;
        session.rewind(position).expect("a position that there was");
    }

    /// Makes up what is said.
    fn write(&mut self) {
        self.content.clear();
        for _ in 0..self.below(10) {
            match self.below(4) {
                0 => self.content.extend(char::from_u32(self.random.next_u32() % 0x11_0000)),
                _ => {
                    let fragment = FRAGMENTS[self.below(FRAGMENTS.len())];
                    self.content.push_str(fragment);
                }
            }
        }
    }

    /// Says it, as a turn or as it is; whether there was room.
    fn say(&mut self, session: &mut dyn Steps<'_>, (tokenizer, template, _): Text<'_, '_>) -> bool {
        let content = std::mem::take(&mut self.content);
        let mut rendered = std::mem::take(&mut self.rendered);
        let mut ranges = [0..0, 0..0];
        let turns = [Turn { role: Role::System, content: "s" }, Turn { role: Role::User, content: &content }];
        let turns = &turns[self.below(2)..];
        let options =
            RenderOptions { generation_prompt: true, thinking: [None, Some(true), Some(false)][self.below(3)] };
        let said = if self.below(3) == 0 {
            self.step(session, &|session| session.prefill_text(tokenizer, &content, Specials::AsText).map(drop))
        } else {
            let chat = template.render(turns, options, &mut rendered, &mut ranges).expect("two short turns");
            let specials = Specials::RecogniseOutside(chat.protected);
            self.step(session, &|session| session.prefill_text(tokenizer, chat.text, specials).map(drop))
        };
        (self.content, self.rendered) = (content, rendered);
        match said {
            Ok(()) => true,
            // Refused before any work.
            Err(Error::Text(_)) => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Draws and appends tokens, up to so many or to the end of the context.
    fn answer(&mut self, session: &mut dyn Steps<'_>, most: usize) {
        let tenths = |n: usize| n as f32 / 10.0;
        let sampling = Sampling {
            temperature: tenths(self.below(20)),
            top_k: [0, 1, 40][self.below(3)],
            top_p: tenths(1 + self.below(10)),
            min_p: tenths(self.below(3)),
            repetition_penalty: tenths(10 + self.below(5)),
            penalty_window: self.below(20) as u32,
        };
        let mut sampler = Sampler::new(sampling, self.random.next_u64()).expect("settings in range");
        for _ in 0..most {
            let id = session.sample(&mut sampler).expect("logits of the token before");
            self.hash.update(id.to_le_bytes());
            if session.room() == 0 {
                let have = session.position() as u32;
                assert_eq!(session.decode(id), Err(StepError::ContextFull { need: have + 1, have }));
                self.soaked.full += 1;
                break;
            }
            self.step(session, &|session| Ok(session.decode(id)?)).expect("room for one token");
        }
    }

    /// Does a step to its end. One that is cancelled goes on, or is taken back and done again, in turn.
    fn step(
        &mut self,
        session: &mut dyn Steps<'_>,
        step: &dyn Fn(&mut dyn Steps<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let start = session.position();
        if self.below(4) == 0 {
            self.canceller.unpark();
        }
        let mut result = step(session);
        while let Err(Error::Step(StepError::Cancelled { .. })) = result {
            self.flag.store(false, Ordering::Relaxed);
            self.soaked.cancels += 1;
            result = if self.soaked.cancels.is_multiple_of(2) {
                session.resume().map_err(Error::from)
            } else {
                session.rewind(start).expect("the position of a moment ago");
                step(session)
            };
        }
        self.hash.update((session.position() as u64).to_le_bytes());
        for logit in session.logits().unwrap_or_default() {
            self.hash.update(logit.to_bits().to_le_bytes());
        }
        result
    }

    /// Computes the conversation's last logits again from its tokens alone.
    fn replay(&mut self, session: &mut dyn Steps<'_>) {
        self.tokens.clear();
        self.tokens.extend_from_slice(session.tokens());
        self.logits.clear();
        self.logits.extend_from_slice(session.logits().expect("an answer ends with logits"));
        session.reset();
        let tokens = std::mem::take(&mut self.tokens);
        self.step(session, &|session| Ok(session.prefill(&tokens)?)).expect("as many as there were");
        assert_eq!(session.tokens(), tokens);
        assert!(session.logits().is_some_and(|logits| logits == self.logits), "other logits for the same tokens");
        self.tokens = tokens;
        self.soaked.replays += 1;
    }
}
