//! `--state` and `--save-state`: going on where another session ended.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use pocket_kernels::Kernels;
use pocket_runtime::{CacheType, State, StateError};

use super::arguments::Kv;
use super::machine::HostSession;
use super::output::write_file;
use super::voice::Voice;

/// Where a session's state comes from and goes.
#[derive(Clone, Debug, Args)]
pub(super) struct StateArgs {
    /// Begin where a session ended whose state was saved; the model must be the same. Sampling begins anew.
    #[arg(long, value_name = "FILE", conflicts_with = "system")]
    state: Option<PathBuf>,
    /// When all is said, save the tokens and their attention cache for --state.
    #[arg(long, value_name = "FILE")]
    save_state: Option<PathBuf>,
}

impl StateArgs {
    /// Refuses what would not go on as the chat template writes it.
    pub(super) fn check(&self, voice: &Voice<'_>) -> Result<()> {
        if (self.state.is_some() || self.save_state.is_some()) && voice.writes_anew() {
            bail!(
                "the model's chat template writes earlier replies in another way than the last, so a chat cannot go on \
                 from a state; use --raw, or have the chat in one session"
            );
        }
        Ok(())
    }

    /// Takes up the state that was named, if one was.
    pub(super) fn take_up<K: Kernels>(&self, session: &mut HostSession<'_, K>) -> Result<()> {
        let Some(path) = &self.state else { return Ok(()) };
        let shown = path.display();
        let bytes = fs::read(path).with_context(|| format!("{shown} cannot be read"))?;
        let state = State::open(&bytes).with_context(|| shown.to_string())?;
        session.restore(&state).map_err(|error| match error {
            StateError::OtherCache => {
                let kv = if state.cache() == CacheType::F16 { Kv::F16 } else { Kv::I8 };
                anyhow!("{shown}: the state is of another kind of attention cache; use --kv {}", kv.name())
            }
            StateError::ContextTooSmall { need, have } => anyhow!(
                "{shown}: the state has {need} positions and the context is planned for {have}; use a larger --context"
            ),
            error => anyhow!("{shown}: {error}"),
        })
    }

    /// Saves the state, if that was asked for.
    pub(super) fn save<K: Kernels>(&self, session: &HostSession<'_, K>) -> Result<()> {
        let Some(path) = &self.save_state else { return Ok(()) };
        let mut state = vec![0; usize::try_from(session.state_bytes())?];
        session.save(&mut state)?;
        write_file(path, |out| out.write_all(&state).with_context(|| format!("{} cannot be written", path.display())))
    }
}
