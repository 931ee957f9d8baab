//! What the command line asks for.

use core::fmt::Write;
use core::sync::atomic::AtomicBool;

use pocket_kernels::{Kernels, Lanes};
use pocket_kernels_aarch64::{Neon, NeonDot, NeonI8mm};
use pocket_runtime::generate::Until;
use pocket_runtime::plan::{CALL_STACK_BYTES, JOB_STACK_BYTES};
use pocket_runtime::text::{RenderOptions, Role, Specials, StopStrings, Turn};
use pocket_runtime::{Arena, Error, Image, ImageError, Limits, Plan, Sampler, Sampling, Session, Workers};
use sha2::{Digest, Sha256};

use crate::cores::Cores;
use crate::machine::id_registers;
use crate::stack;
use crate::uart::Uart;

/// Bytes of the arena: what is left of the linker script's memory beside program and stacks.
const ARENA_BYTES: usize = 72 << 20;

static ARENA: Arena<ARENA_BYTES> = Arena::new();

/// Positions of a session; less if the model has fewer.
const CONTEXT: u32 = 512;

/// A command, parsed.
enum Command<'a> {
    /// The hash of the logits of these tokens, separated by commas.
    Hash(&'a str),
    /// A reply of at most so many tokens.
    Answer(usize, &'a str),
}

impl<'a> Command<'a> {
    /// Reads a command line, whose first word is the program's name.
    fn parse(line: &'a str) -> Option<Self> {
        let (_, line) = line.split_once(space)?;
        match line.split_once(space)? {
            ("hash", ids) => Some(Self::Hash(ids)),
            ("answer", rest) => {
                let (tokens, prompt) = rest.split_once(space)?;
                Some(Self::Answer(tokens.parse().ok()?, prompt))
            }
            _ => None,
        }
    }
}

/// Whether words end here. Looking for a character itself, `core` would bring a search with a bounds check.
fn space(c: char) -> bool {
    c == ' '
}

/// Whether numbers end here.
fn comma(c: char) -> bool {
    c == ','
}

/// Does what the command line says; gives the exit status.
pub(crate) fn run(memory: &'static [u8], line: &str) -> u8 {
    let Some(command) = Command::parse(line) else {
        let _ = writeln!(Uart, "usage: hash IDS | answer TOKENS PROMPT; found {line}");
        return 2;
    };
    match begin(memory, &command) {
        Ok(()) => {
            let _ = writeln!(Uart, "stack planned: {CALL_STACK_BYTES} bytes, {JOB_STACK_BYTES} for a job");
            let [main, second] = stack::used();
            let _ = writeln!(Uart, "stack used: {main} bytes on the main core, {second} on the second");
            0
        }
        Err(error) => {
            let _ = writeln!(Uart, "error {}: {error}", error.code());
            1
        }
    }
}

/// Opens the image, plans, and chooses the kernels that this core has.
fn begin(memory: &'static [u8], command: &Command<'_>) -> Result<(), Error> {
    let image = Image::open(memory)?;
    image.verify()?;
    let cores = Cores::start();
    let context = CONTEXT.min(image.config().context);
    let limits = Limits { batch: context.min(16), workers: cores.count() as u32, ..Limits::new(context) };
    let plan = Plan::try_new(image.config(), &limits)?;
    let _ = writeln!(Uart, "{plan}");
    let _ = writeln!(Uart, "arena bytes {ARENA_BYTES}");
    let _ = writeln!(Uart, "image {} bytes, peak {} bytes", image.bytes().len(), plan.peak_bytes(image.bytes().len()));
    let [isar0, isar1] = id_registers();
    // SAFETY: the values are those of this core, and the board's cores are alike; the boot code has set FPCR to zero.
    let (i8mm, dot) = unsafe { (NeonI8mm::from_id_registers(isar0, isar1), NeonDot::from_id_registers(isar0, isar1)) };
    let task = Task { image: &image, plan: &plan, cores: &cores, command };
    match (i8mm, dot) {
        (Some(kernels), _) => task.run(kernels),
        (None, Some(kernels)) => task.run(kernels),
        (None, None) => task.run(Neon::new()),
    }
}

/// A command with all that it needs but the kernels.
struct Task<'t> {
    image: &'t Image<'static>,
    plan: &'t Plan,
    cores: &'t Cores,
    command: &'t Command<'t>,
}

impl Task<'_> {
    fn run<K: Kernels + Lanes>(&self, kernels: K) -> Result<(), Error> {
        let _ = writeln!(Uart, "kernels {}, cores {}", K::NAME, self.cores.count());
        // The arena is taken once: this runs once.
        let arena = ARENA.take().unwrap_or_default();
        let mut session = Session::new(self.image, self.plan, arena, kernels, self.cores)?;
        match self.command {
            Command::Hash(ids) => hash(&mut session, ids)?,
            Command::Answer(tokens, prompt) => answer(&mut session, *tokens, prompt)?,
        }
        Ok(())
    }
}

/// Prints the SHA-256 of the logits' bits of every position.
fn hash<K: Kernels, W: Workers>(session: &mut Session<'_, K, W>, ids: &str) -> Result<(), Error> {
    let mut tokens = [0; CONTEXT as usize];
    let mut count = 0_usize;
    for (slot, id) in tokens.iter_mut().zip(ids.split(comma)) {
        // What is no number is no token of any vocabulary.
        *slot = id.trim().parse().unwrap_or(u32::MAX);
        count += 1;
    }
    let mut hash = Sha256::new();
    session.prefill_each(tokens.get(..count).unwrap_or_default(), |_, logits| {
        logits.iter().for_each(|x| hash.update(x.to_le_bytes()))
    })?;
    print_hash(hash);
    Ok(())
}

/// Prints a greedy reply, and the SHA-256 of the bits of the prompt's last logits.
fn answer<K: Kernels, W: Workers>(session: &mut Session<'_, K, W>, tokens: usize, prompt: &str) -> Result<(), Error> {
    let image = *session.image();
    let tokenizer = image.tokenizer()?;
    let (mut text, mut contents) = ([0; 2048], [const { 0..0 }; 1]);
    match image.template() {
        Ok(template) => {
            let options = RenderOptions { generation_prompt: true, thinking: None };
            let turns = [Turn { role: Role::User, content: prompt }];
            let chat = template.render(&turns, options, &mut text, &mut contents)?;
            session.prefill_text(&tokenizer, chat.text, Specials::RecogniseOutside(chat.protected))?;
        }
        Err(ImageError::Missing { .. }) => {
            session.prefill_text(&tokenizer, prompt, Specials::AsText)?;
        }
        Err(error) => return Err(error.into()),
    }
    let mut hash = Sha256::new();
    session.logits().unwrap_or(&[]).iter().for_each(|x| hash.update(x.to_le_bytes()));
    let mut held = [0; 8];
    let until = Until {
        stop_tokens: image.stop_tokens(),
        stop_strings: &mut StopStrings::new(&[], &mut held)?,
        tokens,
        cancel: &AtomicBool::new(false),
    };
    let mut sampler = Sampler::new(Sampling::GREEDY, 0)?;
    let reply = session.generate(&tokenizer, &mut sampler, until, |text: &str| {
        let _ = Uart.write_str(text);
    })?;
    let _ = writeln!(Uart, "\n{} tokens, {:?}", reply.tokens, reply.ending);
    print_hash(hash);
    Ok(())
}

fn print_hash(hash: Sha256) {
    let _ = write!(Uart, "logits ");
    for byte in hash.finalize() {
        let _ = write!(Uart, "{byte:02x}");
    }
    let _ = writeln!(Uart);
}
