//! Images.

use core::ffi::{c_char, c_void};
use core::ptr::NonNull;

use pocket_runtime::text::{ChatTemplate, Tokenizer};
use pocket_runtime::{Image, ImageError};

use crate::pointer::{Out, one, slice};
use crate::sampling::PocketSampling;
use crate::sentence;
use crate::status::{Checked, Fault, POCKET_ERROR_NOT_OPEN, POCKET_ERROR_TOO_MANY_STOPS, PocketStatus, status};

/// The version of this interface. It rises when a program must be compiled again.
pub const POCKET_ABI: u32 = 4;

/// No token.
pub const POCKET_NO_TOKEN: u32 = 0xFFFF_FFFF;

/// The most stop tokens, and the most stop strings, that one call takes.
pub const POCKET_STOPS_MAX: usize = 32;

/// The `POCKET_ABI` of the library; compare it with the header's.
#[unsafe(no_mangle)]
pub extern "C" fn pocket_abi() -> u32 {
    POCKET_ABI
}

/// An open image. Its memory is the caller's; what is in it is the library's. It may be copied and needs no closing.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PocketImage {
    /// Not to be touched.
    opaque: [u64; 128],
}

/// What a [`PocketImage`] holds.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Opened {
    tag: u64,
    pub(crate) image: Image<'static>,
    tokenizer: Result<Tokenizer<'static>, ImageError>,
    template: Result<ChatTemplate<'static>, ImageError>,
    stops: StopTokens,
}

static_assertions::const_assert!(size_of::<Opened>() <= size_of::<PocketImage>());
static_assertions::const_assert!(align_of::<Opened>() <= align_of::<PocketImage>());

/// Marks an open image.
const TAG: u64 = u64::from_le_bytes(*b"PKT-open");

/// What a [`PocketImage`] holds that failed to open.
#[derive(Clone, Copy)]
#[repr(C)]
struct Failed {
    tag: u64,
    fault: Fault,
}

static_assertions::const_assert!(size_of::<Failed>() <= size_of::<PocketImage>());
static_assertions::const_assert!(align_of::<Failed>() <= align_of::<PocketImage>());

/// Marks an image that failed to open.
const FAILED: u64 = u64::from_le_bytes(*b"PKT-fail");

/// Tokens that end a reply, the image's and the template's.
#[derive(Clone, Copy)]
struct StopTokens {
    ids: [u32; POCKET_STOPS_MAX],
    count: usize,
}

impl StopTokens {
    fn gather(ids: impl Iterator<Item = u32>) -> Checked<Self> {
        let mut all = Self { ids: [POCKET_NO_TOKEN; POCKET_STOPS_MAX], count: 0 };
        for id in ids {
            if all.as_slice().contains(&id) {
                continue;
            }
            *all.ids.get_mut(all.count).ok_or(Fault::Here(POCKET_ERROR_TOO_MANY_STOPS))? = id;
            all.count += 1;
        }
        Ok(all)
    }

    fn as_slice(&self) -> &[u32] {
        self.ids.get(..self.count).unwrap_or_default()
    }
}

impl Opened {
    fn open(bytes: &'static [u8]) -> Checked<Self> {
        let image = Image::open(bytes)?;
        let template = image.template();
        let more = template.as_ref().map_or(&[][..], |template| template.stop_tokens());
        let stops = StopTokens::gather(image.stop_tokens().iter().chain(more).copied())?;
        Ok(Self { tag: TAG, image, tokenizer: image.tokenizer(), template, stops })
    }

    /// The open image behind a pointer.
    ///
    /// # Safety
    /// The header's contract, for `'a`.
    pub(crate) unsafe fn behind<'a>(pointer: *const PocketImage) -> Checked<&'a Self> {
        let pointer = one(pointer)?;
        // SAFETY: passed on to the caller.
        if unsafe { tag(pointer) } != TAG {
            return Err(Fault::Here(POCKET_ERROR_NOT_OPEN));
        }
        // SAFETY: only `pocket_image_open` writes the tag, and an `Opened` with it; size and alignment are asserted.
        Ok(unsafe { pointer.cast::<Self>().as_ref() })
    }

    /// The tokenizer, or why there is none.
    pub(crate) fn tokenizer(&self) -> Checked<Tokenizer<'static>> {
        Ok(self.tokenizer?)
    }

    /// The template, or why there is none.
    pub(crate) fn template(&self) -> Checked<ChatTemplate<'static>> {
        Ok(self.template?)
    }

    /// Tokens that end a reply.
    pub(crate) fn stop_tokens(&self) -> &[u32] {
        self.stops.as_slice()
    }
}

/// What marks an image.
///
/// # Safety
/// The header's contract.
unsafe fn tag(image: NonNull<PocketImage>) -> u64 {
    // SAFETY: by the header's contract there are a `PocketImage`'s bytes, which begin with the tag's.
    unsafe { image.cast().read() }
}

/// Checks and opens the image in `bytes`, which begin at a multiple of 64 and stay where and as they are while the image
/// or a session of it is used. They are read in place: flash, a mapped file or RAM. No weight is touched.
///
/// An image without a tokenizer or template opens; what needs one gives the error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_image_open(
    bytes: *const c_void,
    length: usize,
    image: *mut PocketImage,
) -> PocketStatus {
    status(|| {
        // SAFETY: the header's contract.
        let out = unsafe { Out::new(image) }?;
        out.set(PocketImage { opaque: [0; 128] });
        // SAFETY: the header's contract, which for an image's bytes lasts as long as anything that comes of it.
        match unsafe { slice::<u8>(bytes.cast(), length) }.and_then(Opened::open) {
            Ok(opened) => {
                // SAFETY: `out` is aligned room for a `PocketImage`, in which an `Opened` fits as asserted.
                unsafe { out.as_ptr().cast::<Opened>().write(opened) };
                Ok(())
            }
            Err(fault) => {
                // SAFETY: as above for a `Failed`.
                unsafe { out.as_ptr().cast::<Failed>().write(Failed { tag: FAILED, fault }) };
                Err(fault)
            }
        }
    })
}

/// Writes what is wrong with an image that `pocket_image_open` could not open, with the part and the numbers: `*length`
/// bytes of UTF-8 at `text`, where there is `room` for them; not terminated. `POCKET_SENTENCE_BYTES` are always enough;
/// if the room is too small, `*length` says how much it takes and the status is `POCKET_ERROR_BUFFER`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_image_error_text(
    image: *const PocketImage,
    text: *mut c_char,
    room: usize,
    length: *mut usize,
) -> PocketStatus {
    status(|| {
        let image = one(image)?;
        // SAFETY: the header's contract.
        let fault = match unsafe { tag(image) } {
            TAG => None,
            // SAFETY: only `pocket_image_open` writes the tag, and a `Failed` with it; size and alignment are asserted.
            FAILED => Some(unsafe { image.cast::<Failed>().read() }.fault),
            _ => return Err(Fault::Here(POCKET_ERROR_NOT_OPEN)),
        };
        // SAFETY: the header's contract.
        unsafe { sentence::write(fault, text, room, length) }
    })
}

/// What an image says of its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct PocketFacts {
    /// Bytes of the image, without what may follow it.
    pub image_bytes: usize,
    /// Positions that the model was trained for: the longest context.
    pub context: u32,
    /// Logits; tokens are below it.
    pub vocabulary: u32,
    /// Tokens that the tokenizer has; at most `vocabulary`, 0 without a tokenizer.
    pub tokenizer_tokens: u32,
    /// Transformer blocks.
    pub layers: u32,
    /// Elements of the hidden state.
    pub hidden: u32,
    /// Query heads.
    pub heads: u32,
    /// Key and value heads.
    pub kv_heads: u32,
    /// Elements of a head.
    pub head_dim: u32,
    /// Elements between the feed-forward projections.
    pub feed_forward: u32,
    /// The begin-of-text token, or `POCKET_NO_TOKEN`.
    pub begin_token: u32,
    /// Whether a context that no template writes begins with `begin_token`: 1 or 0.
    pub begins_with_it: u32,
    /// Whether text must be in Unicode normal form C, which the caller sees to: 1 or 0.
    pub wants_nfc: u32,
    /// Whether there is a chat template: 1 or 0.
    pub has_template: u32,
}

/// What the image says of its model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_image_facts(image: *const PocketImage, facts: *mut PocketFacts) -> PocketStatus {
    status(|| {
        // SAFETY: the header's contract.
        let (opened, out) = unsafe { (Opened::behind(image)?, Out::new(facts)?) };
        let config = opened.image.config();
        let tokenizer = opened.tokenizer.ok();
        out.set(PocketFacts {
            image_bytes: opened.image.bytes().len(),
            context: config.context,
            vocabulary: config.vocabulary,
            tokenizer_tokens: tokenizer.map_or(0, |tokenizer| tokenizer.vocabulary()),
            layers: config.layers,
            hidden: config.hidden,
            heads: config.heads,
            kv_heads: config.kv_heads,
            head_dim: config.head_dim,
            feed_forward: config.ffn,
            begin_token: tokenizer.and_then(|tokenizer| tokenizer.bos()).unwrap_or(POCKET_NO_TOKEN),
            begins_with_it: tokenizer.is_some_and(|tokenizer| tokenizer.add_bos()).into(),
            wants_nfc: tokenizer.is_some_and(|tokenizer| tokenizer.wants_nfc()).into(),
            has_template: opened.template.is_ok().into(),
        });
        Ok(())
    })
}

/// The sampling settings that the model's author recommends, or greedy ones.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_image_sampling(
    image: *const PocketImage,
    sampling: *mut PocketSampling,
) -> PocketStatus {
    status(|| {
        // SAFETY: the header's contract.
        let (opened, out) = unsafe { (Opened::behind(image)?, Out::new(sampling)?) };
        out.set(opened.image.sampling().into());
        Ok(())
    })
}

/// The tokens that end a reply, those of the chat template too: `*count` of them at `*tokens`, which is inside `image`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_image_stop_tokens(
    image: *const PocketImage,
    tokens: *mut *const u32,
    count: *mut usize,
) -> PocketStatus {
    status(|| {
        // SAFETY: the header's contract.
        let (opened, tokens, count) = unsafe { (Opened::behind(image)?, Out::new(tokens)?, Out::new(count)?) };
        tokens.set(opened.stop_tokens().as_ptr());
        count.set(opened.stop_tokens().len());
        Ok(())
    })
}

/// Where the model came from, as JSON text for people, inside the image's bytes and not terminated; empty if unknown.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_image_provenance(
    image: *const PocketImage,
    text: *mut *const c_char,
    length: *mut usize,
) -> PocketStatus {
    status(|| {
        // SAFETY: the header's contract.
        let (opened, text, length) = unsafe { (Opened::behind(image)?, Out::new(text)?, Out::new(length)?) };
        let provenance = opened.image.provenance();
        text.set(provenance.as_ptr().cast());
        length.set(provenance.len());
        Ok(())
    })
}
