//! Pointers from C, checked before they become references.

use core::ffi::{c_char, c_void};
use core::ptr::NonNull;

use bytemuck::AnyBitPattern;

use crate::status::{
    Checked, Fault, POCKET_ERROR_LENGTH, POCKET_ERROR_MISALIGNED, POCKET_ERROR_NULL, POCKET_ERROR_UTF8,
};

/// Checks a pointer to one value.
pub(crate) fn one<T>(pointer: *const T) -> Checked<NonNull<T>> {
    let pointer = NonNull::new(pointer.cast_mut()).ok_or(Fault::Here(POCKET_ERROR_NULL))?;
    if pointer.is_aligned() { Ok(pointer) } else { Err(Fault::Here(POCKET_ERROR_MISALIGNED)) }
}

/// Checks a pointer to `len` values; none may be anywhere.
fn many<T>(pointer: *const T, len: usize) -> Checked<NonNull<T>> {
    if len == 0 {
        return Ok(NonNull::dangling());
    }
    match len.checked_mul(size_of::<T>()) {
        Some(bytes) if bytes <= isize::MAX as usize => one(pointer),
        _ => Err(Fault::Here(POCKET_ERROR_LENGTH)),
    }
}

/// A value that the caller passes by pointer.
///
/// # Safety
/// The header's contract.
pub(crate) unsafe fn read<T: Copy>(pointer: *const T) -> Checked<T> {
    let pointer = one(pointer)?;
    // SAFETY: not null, aligned, and by the header's contract a value.
    Ok(unsafe { pointer.read() })
}

/// Values that the caller lends for reading.
///
/// # Safety
/// The header's contract, for `'a`.
pub(crate) unsafe fn slice<'a, T>(pointer: *const T, len: usize) -> Checked<&'a [T]> {
    let pointer = many(pointer, len)?;
    // SAFETY: not null, aligned, at most `isize::MAX` bytes, and by the header's contract values that nobody writes.
    Ok(unsafe { core::slice::from_raw_parts(pointer.as_ptr(), len) })
}

/// Memory that the caller lends for writing; any bytes in it are values of `T`.
///
/// # Safety
/// The header's contract, for `'a`.
pub(crate) unsafe fn slice_mut<'a, T: AnyBitPattern>(pointer: *mut T, len: usize) -> Checked<&'a mut [T]> {
    let pointer = many(pointer, len)?;
    // SAFETY: not null, aligned, at most `isize::MAX` bytes, and by the header's contract the caller's memory, which
    // nobody else uses; its bytes, whatever they are, are values.
    Ok(unsafe { core::slice::from_raw_parts_mut(pointer.as_ptr(), len) })
}

/// Text that the caller lends.
///
/// # Safety
/// The header's contract, for `'a`.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, len: usize) -> Checked<&'a str> {
    // SAFETY: the header's contract.
    let bytes = unsafe { slice::<u8>(pointer.cast(), len) }?;
    core::str::from_utf8(bytes).map_err(|_| Fault::Here(POCKET_ERROR_UTF8))
}

/// Where a result goes; nothing is read from there.
pub(crate) struct Out<T>(NonNull<T>);

impl<T> Out<T> {
    /// Checks where a result goes.
    ///
    /// # Safety
    /// The header's contract, until the last use of the value.
    pub(crate) unsafe fn new(pointer: *mut T) -> Checked<Self> {
        one(pointer).map(Self)
    }

    /// As [`Self::new`] for a result that the caller may do without, by passing null.
    ///
    /// # Safety
    /// As [`Self::new`].
    pub(crate) unsafe fn optional(pointer: *mut T) -> Checked<Option<Self>> {
        // SAFETY: passed on to the caller.
        if pointer.is_null() { Ok(None) } else { unsafe { Self::new(pointer) }.map(Some) }
    }

    /// Writes the result.
    pub(crate) fn set(&self, value: T) {
        // SAFETY: checked when made, and by the header's contract room for a value.
        unsafe { self.0.write(value) }
    }

    /// Where it goes.
    pub(crate) fn as_ptr(&self) -> *mut T {
        self.0.as_ptr()
    }
}

/// An opaque pointer of the caller's that is only handed back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context(pub(crate) *mut c_void);
