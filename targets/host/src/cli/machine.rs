//! From a path to a session, and the memory that both take.

use std::path::Path;

use anyhow::{Context, Result};
use pocket_runtime::{Image, Plan};
use serde::Serialize;

use super::arguments::Pages;
use super::output::bytes;
pub(super) use crate::machine::{HostSession, Machine, UseSession};
use crate::memory::{HostImage, Usage};

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
