//! `pocket verify`: whether an image is as it was packed, and from whom.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::machine::{map, open};
use super::output::{bytes, hex};
use crate::sign::read_public_key;

/// Look at every byte of an image: the SHA-256 of every section, and the signature if there is one.
///
/// A damaged section is named, and the exit code is 1. Without --public-key a signature is checked with the key that the
/// image itself names, which finds accidents, not forgeries.
#[derive(Debug, Args)]
pub(super) struct Verify {
    /// The image.
    image: PathBuf,
    /// The image must be signed by this key's owner: 64 hexadecimal digits, or a PEM file.
    #[arg(long, value_name = "HEX|KEY.pem")]
    public_key: Option<PublicKey>,
}

/// A public key as it is given.
#[derive(Clone, Debug)]
enum PublicKey {
    Bytes([u8; 32]),
    File(PathBuf),
}

impl FromStr for PublicKey {
    type Err = std::convert::Infallible;

    /// Whatever is no number of 64 digits is the name of a file.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let hexadecimal = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let bytes: Option<Vec<u8>> = text.as_bytes().chunks_exact(2).map(digits).collect();
        match bytes.filter(|_| hexadecimal).and_then(|bytes| bytes.try_into().ok()) {
            Some(bytes) => Ok(Self::Bytes(bytes)),
            None => Ok(Self::File(Path::new(text).to_owned())),
        }
    }
}

impl Verify {
    pub(super) fn run(self) -> Result<()> {
        let expected = match self.public_key {
            None => None,
            Some(PublicKey::Bytes(key)) => Some(key),
            Some(PublicKey::File(path)) => Some(read_public_key(&path)?),
        };
        let file = map(&self.image)?;
        let image = open(&file)?;
        let shown = self.image.display();
        let signer = image.signature().map(|signature| signature.public_key);
        if let Some(key) = expected.or(signer) {
            if signer.is_some_and(|signer| signer != key) {
                let signer = signer.map(|signer| hex(&signer)).unwrap_or_default();
                bail!("{shown}: the image says that it was signed by another key, {signer}; do not use it");
            }
            image.check_signature(&key).with_context(|| shown.to_string())?;
        }
        image.verify().with_context(|| shown.to_string())?;
        let (sections, size) = (image.sections().len(), bytes(image.bytes().len() as u64));
        let mut out = io::stdout().lock();
        writeln!(out, "{shown}: {sections} sections, {size}, as they were packed")?;
        match (signer, expected) {
            (None, _) => writeln!(out, "not signed")?,
            (Some(_), Some(_)) => writeln!(out, "signed by the key that was given")?,
            (Some(signer), None) => {
                writeln!(out, "signed by {}; compare it with --public-key, if you know it", hex(&signer))?;
            }
        }
        Ok(())
    }
}
