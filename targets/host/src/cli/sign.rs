//! `pocket keygen` and `pocket sign`: an image's origin.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;

use super::output::hex;
use crate::sign::SecretKey;

/// Make a key to sign images with.
///
/// The secret goes to a new file that only you may read (PKCS#8 in PEM); the public key, which devices have compiled in,
/// is printed. A key that openssl made (`openssl genpkey -algorithm ed25519`) does as well.
#[derive(Debug, Args)]
pub(super) struct Keygen {
    /// The file to write; it must not exist yet.
    #[arg(value_name = "KEY.pem")]
    output: PathBuf,
}

impl Keygen {
    pub(super) fn run(self) -> Result<()> {
        let key = SecretKey::create(&self.output)?;
        writeln!(io::stdout(), "{}", hex(&key.public_key()))?;
        Ok(())
    }
}

/// Sign an image, after a look at every byte of it.
///
/// The signature is Ed25519 over the header, which has the hashes of everything else. It takes the place of an older one;
/// nothing else in the image changes.
#[derive(Debug, Args)]
pub(super) struct Sign {
    /// The image.
    image: PathBuf,
    /// The secret key: Ed25519, PKCS#8 in PEM.
    #[arg(long, value_name = "KEY.pem")]
    key: PathBuf,
    /// Where the signed image goes [default: in the image's place].
    #[arg(short, long, value_name = "OUT.pocket")]
    output: Option<PathBuf>,
}

impl Sign {
    pub(super) fn run(self) -> Result<()> {
        let key = SecretKey::read(&self.key)?;
        if key.exposed() {
            let shown = self.key.display();
            writeln!(
                io::stderr(),
                "warning: others may read the secret key {shown}; take it away from them: chmod 600"
            )?;
        }
        let output: &Path = self.output.as_deref().unwrap_or(&self.image);
        key.sign(&self.image, output)?;
        writeln!(io::stdout(), "{}: signed by {}", output.display(), hex(&key.public_key()))?;
        Ok(())
    }
}
