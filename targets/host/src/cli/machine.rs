//! From a path to a session: the image, the plan, the arena, the threads and the kernels.

use std::path::Path;

use crate::isa::{Isa, WithKernels};
use crate::memory::{HostArena, HostImage, Usage};
use crate::pool::Pool;
use anyhow::{Context, Result};
use pocket_kernels::Kernels;
use pocket_runtime::{Image, Limits, Plan, Session};
use serde::Serialize;

use super::arguments::Pages;
use super::output::bytes;

/// A session as commands use it.
pub(super) type HostSession<'s, K> = Session<'s, K, Pool>;

/// Code that uses a session on kernels yet to be chosen.
pub(super) trait UseSession {
    /// What it gives.
    type Out;
    /// Runs it.
    fn with<K: Kernels>(self, session: HostSession<'_, K>) -> Result<Self::Out>;
}

/// Maps the file of an image.
pub(super) fn map(path: &Path) -> Result<HostImage> {
    load(path, Pages::Mapped)
}

/// Brings an image into memory.
pub(super) fn load(path: &Path, pages: Pages) -> Result<HostImage> {
    let image = match pages {
        Pages::Mapped => HostImage::map(path),
        Pages::Huge => HostImage::read(path),
    };
    image.with_context(|| format!("{} cannot be read", path.display()))
}

/// Opens an image in memory.
pub(super) fn open(file: &HostImage) -> Result<Image<'_>> {
    file.open().with_context(|| file.path().display().to_string())
}

/// Everything that a session needs but its image.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) plan: Plan,
    pub(super) isa: Isa,
    arena: HostArena,
    pool: Pool,
}

impl Machine {
    /// Plans a session and provides for it.
    pub(super) fn new(image: &Image<'_>, limits: &Limits, isa: Isa) -> Result<Self> {
        let plan = Plan::try_new(image.config(), limits)?;
        let arena = HostArena::new(plan.arena_bytes()).with_context(|| {
            format!("the system grants no {} for the arena; plan a shorter context", bytes(plan.arena_bytes() as u64))
        })?;
        let pool = Pool::new(limits.workers as usize)
            .with_context(|| format!("the system grants no {} threads; use fewer --workers", limits.workers))?;
        Ok(Self { plan, isa, arena, pool })
    }

    /// Runs code with a session for the image that was planned for.
    pub(super) fn with_session<U: UseSession>(&mut self, image: &Image<'_>, code: U) -> Result<U::Out> {
        let Self { plan, isa, arena, pool } = self;
        isa.run(Begin { image, plan, arena, pool, code })?
    }
}

/// Makes the session once the kernels are known.
struct Begin<'m, U> {
    image: &'m Image<'m>,
    plan: &'m Plan,
    arena: &'m mut HostArena,
    pool: &'m Pool,
    code: U,
}

impl<U: UseSession> WithKernels for Begin<'_, U> {
    type Out = Result<U::Out>;

    fn with<K: Kernels>(self, kernels: K) -> Self::Out {
        self.code.with(Session::new(self.image, self.plan, self.arena.bytes(), kernels, self.pool)?)
    }
}

/// The memory of a session: what was planned, and what the system saw.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Memory {
    image_bytes: u64,
    arena_bytes: u64,
    stack_bytes: u64,
    planned_bytes: u64,
    measured: Option<Usage>,
}

impl Memory {
    pub(super) fn now(image: &Image<'_>, plan: &Plan) -> Self {
        let image_bytes = image.bytes().len();
        Self {
            image_bytes: image_bytes as u64,
            arena_bytes: plan.arena_bytes() as u64,
            stack_bytes: plan.stack_bytes() as u64,
            planned_bytes: plan.peak_bytes(image_bytes) as u64,
            measured: Usage::now(),
        }
    }

    /// The planned part, in words.
    pub(super) fn planned(&self) -> String {
        let Self { planned_bytes, image_bytes, arena_bytes, stack_bytes, .. } = *self;
        let [planned, image, arena, stacks] = [planned_bytes, image_bytes, arena_bytes, stack_bytes].map(bytes);
        format!("planned {planned} = image {image} + arena {arena} + stacks {stacks}")
    }

    /// The measured part, in words.
    pub(super) fn measured(&self) -> String {
        match self.measured {
            Some(Usage { peak, anonymous, file }) => {
                let [peak, anonymous, file] = [peak, anonymous, file].map(bytes);
                format!("measured peak {peak}, of it now {anonymous} private and {file} from files")
            }
            None => "not measured on this system".to_owned(),
        }
    }
}
