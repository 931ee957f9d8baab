//! `pocket chat`: turns, until somebody has had enough.

use std::io::{self, BufRead, IsTerminal};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result};
use clap::Args;
use pocket_kernels::Kernels;
use pocket_runtime::StepError;
use pocket_runtime::generate::Ending;
use pocket_runtime::text::{Role, Turn};

use super::arguments::{IsaArgs, LimitArgs, PagesArgs};
use super::interrupt;
use super::machine::{HostSession, Machine, Memory, UseSession, load, open};
use super::output::{complain, print};
use super::state::StateArgs;
use super::voice::{Voice, VoiceArgs};

/// Talk with a model, a line a turn.
///
/// /reset forgets the conversation, /quit (or the end of input) ends it, Ctrl-C stops a reply and keeps what was said.
/// Ctrl-C while there is no reply ends the program at once, and saves no state.
#[derive(Debug, Args)]
pub(super) struct Chat {
    /// The image.
    image: PathBuf,
    #[command(flatten)]
    voice: VoiceArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    isa: IsaArgs,
    #[command(flatten)]
    pages: PagesArgs,
    #[command(flatten)]
    state: StateArgs,
}

impl Chat {
    pub(super) fn run(self) -> Result<()> {
        let file = load(&self.image, self.pages.pages)?;
        let image = open(&file)?;
        let voice = self.voice.open(&image)?;
        self.state.check(&voice)?;
        let mut machine = Machine::new(&image, &self.limits.limits(image.config()), self.isa.isa())?;
        interrupt::listen()?;
        let planned = Memory::now(&image, &machine.plan).planned();
        eprintln!("context {} positions; {planned}", machine.plan.limits().context);
        eprintln!("/reset forgets, /quit ends, Ctrl-C stops a reply");
        machine.with_session(&image, Talk { voice, state: &self.state, said: Vec::new() })?
    }
}

/// The conversation once there is a session.
struct Talk<'a> {
    voice: Voice<'a>,
    state: &'a StateArgs,
    /// What was said so far, the user and the model in turn.
    said: Vec<(Role, String)>,
}

impl UseSession for Talk<'_> {
    type Out = Result<()>;

    fn with<K: Kernels>(mut self, mut session: HostSession<'_, K>) -> Self::Out {
        session.cancel_by(interrupt::flag());
        self.state.take_up(&mut session)?;
        self.turns(&mut session)?;
        // A stopped reply may have a token that is shown and not computed yet.
        interrupt::while_replying(|| session.resume())?;
        self.state.save(&session)
    }
}

impl Talk<'_> {
    /// Takes turns until there is no more line.
    fn turns<K: Kernels>(&mut self, session: &mut HostSession<'_, K>) -> Result<()> {
        let prompt = if io::stdin().is_terminal() { "> " } else { "" };
        let mut lines = io::stdin().lock().lines();
        loop {
            print(prompt)?;
            let Some(line) = lines.next() else { return Ok(()) };
            let line = line.context("stdin is not UTF-8 text")?;
            match line.trim() {
                "" => {}
                "/quit" => return Ok(()),
                "/reset" => {
                    session.reset();
                    self.said.clear();
                }
                _ => match interrupt::while_replying(|| self.turn(session, line)) {
                    // What was said before this line still stands.
                    Err(error) if !error.is::<io::Error>() => complain(&error),
                    result => result?,
                },
            }
        }
    }

    /// Takes a turn and prints the reply.
    fn turn<K: Kernels>(&mut self, session: &mut HostSession<'_, K>, line: String) -> Result<()> {
        let cancel = interrupt::flag();
        let start = session.position();
        let mut printed = Ok(());
        let replied = self.hear(session, &line).and_then(|()| {
            self.voice.reply(session, cancel, |piece| {
                printed = print(piece);
                if printed.is_err() {
                    cancel.store(true, Ordering::Relaxed);
                }
            })
        });
        let (text, reply) = match replied {
            Ok(replied) => replied,
            Err(error) => {
                session.rewind(start.min(session.position()))?;
                if let Some(StepError::Cancelled { .. }) = error.downcast_ref() {
                    eprintln!("(stopped; the line is forgotten)");
                    return Ok(());
                }
                return Err(error);
            }
        };
        printed?;
        print("\n")?;
        match reply.ending {
            Ending::Cancelled => eprintln!("(stopped)"),
            Ending::Tokens => eprintln!("(stopped after {} tokens, see -n)", reply.tokens),
            Ending::ContextFull => eprintln!(
                "(the context of {} positions is full: /reset starts anew, --context plans a longer one)",
                session.plan().limits().context
            ),
            _ => {}
        }
        self.said.extend([(Role::User, line), (Role::Assistant, text)]);
        Ok(())
    }

    /// Makes the session hold what was said and this line.
    fn hear<K: Kernels>(&self, session: &mut HostSession<'_, K>, line: &str) -> Result<()> {
        let Some(template) = &self.voice.template else {
            return self.voice.hear_raw(session, &format!("{line}\n")).map(|_| ());
        };
        let mut turns = Vec::new();
        let anew = self.voice.writes_anew() && !self.said.is_empty();
        if anew || session.position() == 0 {
            turns.extend(self.voice.system.map(|content| Turn { role: Role::System, content }));
            turns.extend(self.said.iter().map(|(role, content)| Turn { role: *role, content }));
        }
        turns.push(Turn { role: Role::User, content: line });
        if anew {
            self.voice.hear_again(template, session, &turns)
        } else {
            self.voice.hear_turns(template, session, &turns).map(|_| ())
        }
    }
}
