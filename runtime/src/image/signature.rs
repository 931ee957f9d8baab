//! Whether an image comes from whom it should.
//!
//! # Source
//! Ed25519 as in RFC 8032, checked strictly: no weak keys, no other encodings of the same signature.

use ed25519_dalek::{Signature, VerifyingKey};

use super::{Header, Image, SignatureRecord};
use crate::error::ImageError;
use crate::log::log;

impl Image<'_> {
    /// Whether the owner of this public key signed the image's header, and with it the hashes of everything in it.
    ///
    /// A device does this with a key that its vendor compiled in, then [verifies](Image::verification) the image: the
    /// signature vouches for the hashes, the verification for the bytes.
    ///
    /// # Errors
    /// [`ImageError::Unsigned`] if there is no signature, [`ImageError::Signature`] if it is not this key's.
    pub fn check_signature(&self, public_key: &[u8; 32]) -> Result<(), ImageError> {
        check(self.header(), self.signature, public_key)
            .inspect(|()| log!(info, "image is signed by the expected key"))
            .inspect_err(|error| log!(error, "image is not to be trusted: {}", error))
    }
}

fn check(header: &Header, record: &SignatureRecord, public_key: &[u8; 32]) -> Result<(), ImageError> {
    if record.algorithm != SignatureRecord::ED25519 {
        return Err(ImageError::Unsigned);
    }
    let key = VerifyingKey::from_bytes(public_key).map_err(|_| ImageError::Signature)?;
    let signature = Signature::from_bytes(&record.signature);
    key.verify_strict(bytemuck::bytes_of(header), &signature).map_err(|_| ImageError::Signature)
}
