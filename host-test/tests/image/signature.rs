//! Signatures: whoever has the key, and nobody else, vouches for every byte.

use std::fs;

use pocket_host_test::images::{self, AlignedBytes};
use pocket_pack::sign::SecretKey;
use pocket_runtime::image::{HEADER_BYTES, SignatureRecord, TABLE_OFFSET};
use pocket_runtime::{Image, ImageError};

use super::build::{Draft, MODEL};

/// The small model, signed, and the key that a device would have.
fn signed() -> (Draft, [u8; 32]) {
    let folder = tempfile::tempdir().unwrap();
    let [key, image] = ["key.pem", "model.pocket"].map(|name| folder.path().join(name));
    fs::write(&image, images::image(MODEL)).unwrap();
    let secret = SecretKey::create(&key).unwrap();
    secret.sign(&image, &image).unwrap();
    (Draft { bytes: AlignedBytes::copy_of(&fs::read(&image).unwrap()) }, secret.public_key())
}

/// What a device does before it trusts an image.
fn boot(bytes: &[u8], key: &[u8; 32]) -> Result<(), ImageError> {
    let image = Image::open(bytes)?;
    image.check_signature(key)?;
    image.verify()
}

/// Puts a signature record into an image.
fn put(bytes: &mut [u8], record: &SignatureRecord) {
    bytes[HEADER_BYTES..TABLE_OFFSET].copy_from_slice(bytemuck::bytes_of(record));
}

#[test]
fn an_image_is_trusted_with_the_key_that_signed_it_alone() {
    let (draft, key) = signed();
    assert_eq!(boot(&draft.bytes, &key), Ok(()));
    let image = Image::open(&draft.bytes).unwrap();
    assert_eq!(image.signature().map(|record| record.public_key), Some(key));
    let (other, other_key) = signed();
    assert_ne!(key, other_key);
    assert_eq!(boot(&draft.bytes, &other_key), Err(ImageError::Signature));
    assert_eq!(boot(&other.bytes, &other_key), Ok(()));
    assert_eq!(boot(images::image(MODEL), &key), Err(ImageError::Unsigned));
    // Signing changes nothing but the signature.
    let mut bytes = draft.bytes;
    put(&mut bytes, &SignatureRecord::unsigned());
    assert_eq!(&*bytes, images::image(MODEL));
}

#[test]
fn a_flip_anywhere_is_found() {
    let (mut draft, key) = signed();
    let ends = [draft.bytes.len() - 1];
    for at in (0..TABLE_OFFSET + 64).chain((0..draft.bytes.len()).step_by(1009)).chain(ends) {
        for bit in [0, 3, 7] {
            draft.bytes[at] ^= 1 << bit;
            assert!(boot(&draft.bytes, &key).is_err(), "bit {bit} of byte {at}");
            draft.bytes[at] ^= 1 << bit;
        }
    }
    assert_eq!(boot(&draft.bytes, &key), Ok(()));
}

#[test]
fn good_checksums_do_not_make_a_good_signature() {
    let (mut draft, key) = signed();
    let record = *Image::open(&draft.bytes).unwrap().signature().unwrap();
    // The header says something else.
    for change in [|draft: &mut Draft| draft.header().context -= 1, |draft: &mut Draft| draft.sections()[0].len -= 64] {
        let mut changed = draft.clone();
        change(&mut changed);
        let changed = changed.seal();
        if let Ok(image) = Image::open(&changed) {
            assert_eq!(image.check_signature(&key), Err(ImageError::Signature));
        }
    }
    // Each bit of the signature counts, and that of another image is none.
    for at in 0..64 {
        for bit in 0..8 {
            let mut signature = record.signature;
            signature[at] ^= 1 << bit;
            put(&mut draft.bytes, &SignatureRecord::ed25519(key, signature));
            assert_eq!(boot(&draft.bytes, &key), Err(ImageError::Signature), "bit {bit} of byte {at}");
        }
    }
    // A key that anybody can sign with: the neutral point, for which nothing at all is a signature.
    let mut neutral = [0; 32];
    neutral[0] = 1;
    let mut nothing = [0; 64];
    nothing[0] = 1;
    put(&mut draft.bytes, &SignatureRecord::ed25519(neutral, nothing));
    assert_eq!(boot(&draft.bytes, &neutral), Err(ImageError::Signature));
    assert_eq!(boot(&draft.bytes, &[0xff; 32]), Err(ImageError::Signature), "no point at all");
}

#[test]
fn a_record_is_whole_or_refused() {
    let (mut draft, key) = signed();
    let record = *Image::open(&draft.bytes).unwrap().signature().unwrap();
    let refused = |bytes: &mut AlignedBytes, mut record: SignatureRecord| {
        record.crc = record.checksum();
        put(bytes, &record);
        Image::open(bytes).err()
    };
    let field = Some(ImageError::Field { part: pocket_runtime::Part::Signature });
    for algorithm in [0, 2, u32::MAX] {
        assert_eq!(refused(&mut draft.bytes, SignatureRecord { algorithm, ..record }), field);
    }
    let mut reserved = [0; 24];
    reserved[23] = 1;
    assert_eq!(refused(&mut draft.bytes, SignatureRecord { reserved, ..record }), field);
    let unsigned = SignatureRecord { public_key: key, ..SignatureRecord::unsigned() };
    assert_eq!(refused(&mut draft.bytes, unsigned), field);
}
