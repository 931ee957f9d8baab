//! Files that are whole or not there: written under another name beside their place, and renamed.

use std::io;
use std::path::Path;

use tempfile::NamedTempFile;

/// A file beside `path` that goes away unless it is [put in place](NamedTempFile::persist).
///
/// # Errors
/// If `path` is something other than a regular file, or nothing can be written in its folder.
pub(crate) fn beside(path: &Path) -> io::Result<NamedTempFile> {
    if path.exists() && !path.is_file() {
        return Err(io::Error::other("it is no regular file; choose another name for the output"));
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".pocket-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // As readable as any new file: the system takes away what the user's mask says.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder)
}
