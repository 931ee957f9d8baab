//! Signing images, and the keys for it.
//!
//! Keys are the files that everybody's tools write: PKCS#8 and SPKI in PEM (RFC 8410), such as those of
//! `openssl genpkey -algorithm ed25519`. A secret is written once, to a new file that only its owner may read.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey, DecodePublicKey, EncodePrivateKey};
use ed25519_dalek::{Signer, SigningKey, VerifyingKey};
use pocket_runtime::ImageError;
use pocket_runtime::image::{HEADER_BYTES, SignatureRecord, TABLE_OFFSET};

use crate::memory::HostImage;
use crate::whole_file;

/// Why an image was not signed, or a key not made or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignError {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file that was to hold a key does not.
    #[error("{} holds no Ed25519 {what} in PEM; make one with `pocket keygen` or openssl", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// Which half of the key.
        what: &'static str,
    },
    /// The image is not one that should be signed.
    #[error("{}: {source}", path.display())]
    Image {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ImageError,
    },
    /// The system has no random numbers.
    #[error("the system gives no random numbers for a key: {0}")]
    Random(getrandom::Error),
}

fn failed(path: &Path) -> impl Fn(io::Error) -> SignError + use<> {
    let path = path.to_owned();
    move |source| SignError::File { path: path.clone(), source }
}

/// A secret key.
#[derive(Debug)]
pub struct SecretKey {
    key: SigningKey,
    /// Whether others than its owner may read the file that it came from.
    exposed: bool,
}

impl SecretKey {
    /// Makes a key and writes it to a file that must not exist yet.
    ///
    /// # Errors
    /// [`SignError::File`] or [`SignError::Random`]; the file is then not there.
    pub fn create(path: &Path) -> Result<Self, SignError> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(SignError::Random)?;
        let key = SigningKey::from_bytes(&seed);
        let pem = key.to_pkcs8_pem(LineEnding::LF).map_err(|error| failed(path)(io::Error::other(error)))?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path).map_err(failed(path))?;
        let written = file.write_all(pem.as_bytes()).and_then(|()| file.sync_all());
        written.inspect_err(|_| drop(fs::remove_file(path))).map_err(failed(path))?;
        Ok(Self { key, exposed: false })
    }

    /// Reads a key.
    ///
    /// # Errors
    /// [`SignError::File`] or [`SignError::Key`].
    pub fn read(path: &Path) -> Result<Self, SignError> {
        let pem = fs::read_to_string(path).map(zeroize::Zeroizing::new).map_err(failed(path))?;
        let key = SigningKey::from_pkcs8_pem(&pem)
            .map_err(|_| SignError::Key { path: path.to_owned(), what: "secret key" })?;
        Ok(Self { key, exposed: is_exposed(path).map_err(failed(path))? })
    }

    /// Whether others than its owner may read the file.
    #[must_use]
    pub fn exposed(&self) -> bool {
        self.exposed
    }

    /// What a device checks signatures with.
    #[must_use]
    pub fn public_key(&self) -> [u8; 32] {
        self.key.verifying_key().to_bytes()
    }

    /// Signs the image in `input`, after a look at every byte of it, and writes it to `output`, which may be the same
    /// file and is whole or as it was.
    ///
    /// # Errors
    /// [`SignError::File`], or [`SignError::Image`] for a damaged image.
    pub fn sign(&self, input: &Path, output: &Path) -> Result<(), SignError> {
        let file = HostImage::map(input).map_err(failed(input))?;
        let image = file.open().and_then(|image| image.verify().map(|()| image));
        let image = image.map_err(|source| SignError::Image { path: input.to_owned(), source })?;
        let (header, rest) = image.bytes().split_at(HEADER_BYTES);
        let record = SignatureRecord::ed25519(self.public_key(), self.key.sign(header).to_bytes());
        let mut temporary = whole_file::beside(output).map_err(failed(output))?;
        let parts = [header, bytemuck::bytes_of(&record), &rest[TABLE_OFFSET - HEADER_BYTES..]];
        parts.into_iter().try_for_each(|part| temporary.write_all(part)).map_err(failed(output))?;
        temporary.as_file().sync_all().map_err(failed(output))?;
        temporary.persist(output).map_err(|error| failed(output)(error.error))?;
        Ok(())
    }
}

#[cfg(unix)]
fn is_exposed(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::PermissionsExt;
    Ok(fs::metadata(path)?.permissions().mode() & 0o077 != 0)
}

/// Where permissions are not the system's to tell.
#[cfg(not(unix))]
fn is_exposed(_: &Path) -> io::Result<bool> {
    Ok(false)
}

/// Reads the public key in a PEM file, of a public or a secret key.
///
/// # Errors
/// [`SignError::File`] or [`SignError::Key`].
pub fn read_public_key(path: &Path) -> Result<[u8; 32], SignError> {
    let pem = fs::read_to_string(path).map(zeroize::Zeroizing::new).map_err(failed(path))?;
    let secret = || SigningKey::from_pkcs8_pem(&pem).map(|key| key.verifying_key()).ok();
    let key = VerifyingKey::from_public_key_pem(&pem).ok().or_else(secret);
    key.map(|key| key.to_bytes()).ok_or(SignError::Key { path: path.to_owned(), what: "public key" })
}
