//! Whether an image is as it was packed, and from whom.

use core::ffi::c_char;
use core::ptr::NonNull;

use pocket_runtime::image::Verification;

use crate::image::{Opened, PocketImage};
use crate::pointer::{Out, one};
use crate::status::{Checked, Fault, POCKET_ERROR_NOT_OPEN, PocketStatus, status};

/// Checks every byte of the image, weights too: reads all of it once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_image_verify(image: *const PocketImage) -> PocketStatus {
    // SAFETY: the header's contract.
    status(|| Ok(unsafe { Opened::behind(image) }?.image.verify()?))
}

/// A check of an image that is under way. Its memory is the caller's; what is in it is the library's. It may be copied.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PocketVerification {
    /// Not to be touched.
    opaque: [u64; 48],
}

/// What a [`PocketVerification`] holds.
#[repr(C)]
struct UnderWay {
    tag: u64,
    verification: Verification<'static>,
}

static_assertions::const_assert!(size_of::<UnderWay>() <= size_of::<PocketVerification>());
static_assertions::const_assert!(align_of::<UnderWay>() <= align_of::<PocketVerification>());

/// Marks a verification that was begun.
const TAG: u64 = u64::from_le_bytes(*b"PKT-look");

/// Begins to check every byte of the image, in steps: `pocket_image_verify` for those who have other things to do.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_image_verify_begin(
    image: *const PocketImage,
    verification: *mut PocketVerification,
) -> PocketStatus {
    status(|| {
        // SAFETY: the header's contract.
        let (opened, out) = unsafe { (Opened::behind(image)?, Out::new(verification)?) };
        out.set(PocketVerification { opaque: [0; 48] });
        let under_way = UnderWay { tag: TAG, verification: opened.image.verification() };
        // SAFETY: `out` is aligned room for a `PocketVerification`, in which an `UnderWay` fits as asserted.
        unsafe { out.as_ptr().cast::<UnderWay>().write(under_way) };
        Ok(())
    })
}

/// Reads at most `bytes` more. `*done` becomes how many of the image's bytes were checked, and `*whole` 1 if that are
/// all, 0 if more steps are to come; both may be null. Once a step has found damage, so do all that follow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_image_verify_step(
    verification: *mut PocketVerification,
    bytes: usize,
    done: *mut usize,
    whole: *mut u32,
) -> PocketStatus {
    status(|| {
        // SAFETY: the header's contract.
        let (done, whole) = unsafe { (Out::optional(done)?, Out::optional(whole)?) };
        // SAFETY: the header's contract.
        let verification = unsafe { behind(verification) }?;
        let all = verification.step(bytes)?;
        done.inspect(|done| done.set(verification.done()));
        whole.inspect(|whole| whole.set(all.into()));
        Ok(())
    })
}

/// The verification behind a pointer.
///
/// # Safety
/// The header's contract, for `'a`.
unsafe fn behind<'a>(pointer: *mut PocketVerification) -> Checked<&'a mut Verification<'static>> {
    let pointer: NonNull<PocketVerification> = one(pointer)?;
    // SAFETY: by the header's contract there are a `PocketVerification`'s bytes, which begin with the tag's.
    if unsafe { pointer.cast::<u64>().read() } != TAG {
        return Err(Fault::Here(POCKET_ERROR_NOT_OPEN));
    }
    // SAFETY: only `pocket_image_verify_begin` writes the tag, and an `UnderWay` with it; size and alignment are asserted.
    Ok(unsafe { &mut (*pointer.cast::<UnderWay>().as_ptr()).verification })
}

/// Bytes of an Ed25519 public key.
#[cfg(feature = "signature")]
pub const POCKET_PUBLIC_KEY_BYTES: usize = 32;

/// Whether the owner of this Ed25519 key, `POCKET_PUBLIC_KEY_BYTES` at `public_key`, signed the image's header, and with
/// it the hashes of everything in it: `pocket keygen` and `pocket sign` make keys and signatures. A device does this with
/// a key that it has compiled in, then verifies the image: the signature vouches for the hashes, the verification for
/// the bytes.
#[cfg(feature = "signature")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_image_check_signature(
    image: *const PocketImage,
    public_key: *const u8,
) -> PocketStatus {
    status(|| {
        // SAFETY: the header's contract.
        let (opened, key) = unsafe { (Opened::behind(image)?, crate::pointer::read(public_key.cast::<[u8; 32]>())?) };
        Ok(opened.image.check_signature(&key)?)
    })
}

/// The instructions that the image's baked prefix was computed of, inside the image's bytes and not terminated: the
/// content of the first turn of a chat, which then begins behind the prefix. `POCKET_ERROR_IMAGE_MISSING` if there are
/// none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_image_system_prompt(
    image: *const PocketImage,
    text: *mut *const c_char,
    length: *mut usize,
) -> PocketStatus {
    status(|| {
        // SAFETY: the header's contract.
        let (opened, text, length) = unsafe { (Opened::behind(image)?, Out::new(text)?, Out::new(length)?) };
        let prompt = opened.image.system_prompt()?;
        text.set(prompt.as_ptr().cast());
        length.set(prompt.len());
        Ok(())
    })
}
