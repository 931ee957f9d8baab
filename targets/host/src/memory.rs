//! Memory of a session on a host: the mapped image, the arena, and what the system says was used.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use memmap2::{Mmap, MmapMut};
use pocket_runtime::{Image, ImageError};

/// A model image, mapped read-only: pages are read when they are first used, shared with every other process that maps
/// the same file, and given back without being written when memory is short.
///
/// While it is mapped the file must not be truncated or overwritten in place: a page that is gone ends the process with
/// SIGBUS, and changed bytes are bytes that nobody checked. `pocket` itself writes images by renaming a finished file,
/// which leaves those who have mapped the old one untouched.
#[derive(Debug)]
pub struct MappedImage {
    map: Mmap,
    path: PathBuf,
}

impl MappedImage {
    /// Maps a file.
    ///
    /// # Errors
    /// If it cannot be read, or is no regular file.
    pub fn map(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        // SAFETY: the mapping is private and read-only and lives in `self`. That nobody truncates or rewrites the file
        // meanwhile cannot be enforced; it is the documented duty of whoever keeps images.
        let map = unsafe { Mmap::map(&file)? };
        Ok(Self { map, path: path.to_path_buf() })
    }

    /// Checks and opens the image.
    ///
    /// # Errors
    /// As [`Image::open`].
    pub fn open(&self) -> Result<Image<'_>, ImageError> {
        Image::open(&self.map)
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Zeroed memory, allocated once, at the start of a page; a page counts as used when it is first written.
#[derive(Debug)]
pub struct HostArena {
    map: MmapMut,
}

impl HostArena {
    /// Allocates an arena.
    ///
    /// # Errors
    /// If the system has no such stretch of memory.
    pub fn new(bytes: usize) -> io::Result<Self> {
        Ok(Self { map: MmapMut::map_anon(bytes)? })
    }

    /// The memory.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.map
    }
}

/// What the system says this process uses, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Usage {
    /// The most that was ever resident, the program's own code included.
    pub peak: u64,
    /// Resident and private: arena, stacks, heap.
    pub anonymous: u64,
    /// Resident and backed by files: image and code. The system can drop it without writing.
    pub file: u64,
}

impl Usage {
    /// Asks the system; `None` where it does not say.
    #[must_use]
    pub fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/self/status").ok()?)
    }

    /// Reads the text of Linux's `/proc/self/status`.
    #[must_use]
    pub fn parse(status: &str) -> Option<Self> {
        let field = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
            kib.checked_mul(1024)
        };
        Some(Self { peak: field("VmHWM")?, anonymous: field("RssAnon")?, file: field("RssFile")? })
    }
}
