//! Memory of a session on a host: the image, the arena, and what the system says was used.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use memmap2::{Mmap, MmapMut};
use pocket_runtime::{Image, ImageError};

/// A model image in memory.
///
/// *Mapped* is the rule: pages are read when they are first used, shared with every other process that maps the same
/// file, and given back without being written when memory is short. While it is mapped the file must not be truncated
/// or overwritten in place: a page that is gone ends the process with SIGBUS, and changed bytes are bytes that nobody
/// checked. `pocket` itself writes images by renaming a finished file, which leaves those who have mapped the old one
/// untouched.
///
/// *Read* costs the time of one reading at the start and memory of this process's own; but that memory is asked for in
/// huge pages, through which weights are read faster.
#[derive(Debug)]
pub struct HostImage {
    bytes: ImageBytes,
    path: PathBuf,
}

#[derive(Debug)]
enum ImageBytes {
    Mapped(Mmap),
    Read(HostArena),
}

impl HostImage {
    /// Maps a file.
    ///
    /// # Errors
    /// If it cannot be read, or is no regular file.
    pub fn map(path: &Path) -> io::Result<Self> {
        let (file, _) = regular(path)?;
        // SAFETY: the mapping is private and read-only and lives in `self`. That nobody truncates or rewrites the file
        // meanwhile cannot be enforced; it is the documented duty of whoever keeps images.
        let map = unsafe { Mmap::map(&file)? };
        Ok(Self { bytes: ImageBytes::Mapped(map), path: path.to_path_buf() })
    }

    /// Reads a file into huge pages, where the system has them.
    ///
    /// # Errors
    /// As [`Self::map`], or if there is not enough memory.
    pub fn read(path: &Path) -> io::Result<Self> {
        let (mut file, len) = regular(path)?;
        let mut arena = HostArena::huge(len)?;
        file.read_exact(arena.bytes())?;
        Ok(Self { bytes: ImageBytes::Read(arena), path: path.to_path_buf() })
    }

    /// Checks and opens the image.
    ///
    /// # Errors
    /// As [`Image::open`].
    pub fn open(&self) -> Result<Image<'_>, ImageError> {
        Image::open(match &self.bytes {
            ImageBytes::Mapped(map) => map,
            ImageBytes::Read(arena) => &arena.map,
        })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Opens a regular file and gives its length.
fn regular(path: &Path) -> io::Result<(File, usize)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let len = usize::try_from(metadata.len()).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    Ok((file, len))
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

    /// As [`Self::new`], in huge pages where the system has them.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn huge(bytes: usize) -> io::Result<Self> {
        let arena = Self::new(bytes)?;
        // A system without them says so, and has given usual pages.
        #[cfg(target_os = "linux")]
        let _ = arena.map.advise(memmap2::Advice::HugePage);
        Ok(arena)
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
