//! Metadata values: numbers, booleans, strings and arrays of them, all borrowed.
//!
//! Arrays can be long (a vocabulary has 150 000 strings), so an array stays as bytes
//! whose shape was checked once, and is decoded while it is iterated over. Nothing is
//! allocated on the word of a length field.

use super::cursor::Cursor;
use super::error::GgufError;

/// Deepest nesting of arrays that is read; real files have one level.
const MAX_DEPTH: u32 = 4;

/// The type of a metadata value or of an array's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// Unsigned, 8 bits.
    U8,
    /// Signed, 8 bits.
    I8,
    /// Unsigned, 16 bits.
    U16,
    /// Signed, 16 bits.
    I16,
    /// Unsigned, 32 bits.
    U32,
    /// Signed, 32 bits.
    I32,
    /// IEEE 754, 32 bits.
    F32,
    /// One byte, 0 or 1.
    Bool,
    /// UTF-8 with its length before it.
    Str,
    /// Element type, count, elements.
    Array,
    /// Unsigned, 64 bits.
    U64,
    /// Signed, 64 bits.
    I64,
    /// IEEE 754, 64 bits.
    F64,
}

impl ValueType {
    /// Reads a type number.
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, GgufError> {
        const CODES: [ValueType; 13] = [
            ValueType::U8,
            ValueType::I8,
            ValueType::U16,
            ValueType::I16,
            ValueType::U32,
            ValueType::I32,
            ValueType::F32,
            ValueType::Bool,
            ValueType::Str,
            ValueType::Array,
            ValueType::U64,
            ValueType::I64,
            ValueType::F64,
        ];
        let at = cursor.at();
        let code = cursor.u32("a metadata value's type")?;
        usize::try_from(code).ok().and_then(|index| CODES.get(index).copied()).ok_or(GgufError::ValueType { at, code })
    }

    /// The fewest bytes that a value of this type takes in a file.
    const fn min_bytes(self) -> u64 {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 | Self::Str => 8,
            Self::Array => 12,
        }
    }
}

/// One metadata value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// Unsigned, 8 bits.
    U8(u8),
    /// Signed, 8 bits.
    I8(i8),
    /// Unsigned, 16 bits.
    U16(u16),
    /// Signed, 16 bits.
    I16(i16),
    /// Unsigned, 32 bits.
    U32(u32),
    /// Signed, 32 bits.
    I32(i32),
    /// IEEE 754, 32 bits.
    F32(f32),
    /// A truth value.
    Bool(bool),
    /// A string.
    Str(&'a str),
    /// An array.
    Array(Array<'a>),
    /// Unsigned, 64 bits.
    U64(u64),
    /// Signed, 64 bits.
    I64(i64),
    /// IEEE 754, 64 bits.
    F64(f64),
}

impl<'a> Value<'a> {
    /// Reads a type number and the value after it.
    pub(super) fn read(cursor: &mut Cursor<'a>) -> Result<Self, GgufError> {
        let kind = ValueType::read(cursor)?;
        Self::read_as(kind, cursor, 0)
    }

    /// Reads a value whose type is known.
    fn read_as(kind: ValueType, cursor: &mut Cursor<'a>, depth: u32) -> Result<Self, GgufError> {
        const WHAT: &str = "a metadata value";
        Ok(match kind {
            ValueType::U8 => Self::U8(u8::from_le_bytes(cursor.array(WHAT)?)),
            ValueType::I8 => Self::I8(i8::from_le_bytes(cursor.array(WHAT)?)),
            ValueType::U16 => Self::U16(u16::from_le_bytes(cursor.array(WHAT)?)),
            ValueType::I16 => Self::I16(i16::from_le_bytes(cursor.array(WHAT)?)),
            ValueType::U32 => Self::U32(u32::from_le_bytes(cursor.array(WHAT)?)),
            ValueType::I32 => Self::I32(i32::from_le_bytes(cursor.array(WHAT)?)),
            ValueType::F32 => Self::F32(f32::from_le_bytes(cursor.array(WHAT)?)),
            ValueType::U64 => Self::U64(u64::from_le_bytes(cursor.array(WHAT)?)),
            ValueType::I64 => Self::I64(i64::from_le_bytes(cursor.array(WHAT)?)),
            ValueType::F64 => Self::F64(f64::from_le_bytes(cursor.array(WHAT)?)),
            ValueType::Str => Self::Str(cursor.str(WHAT)?),
            ValueType::Bool => {
                let at = cursor.at();
                match cursor.array(WHAT)? {
                    [0] => Self::Bool(false),
                    [1] => Self::Bool(true),
                    _ => return Err(GgufError::Bool { at }),
                }
            }
            ValueType::Array => Self::Array(Array::read(cursor, depth)?),
        })
    }

    /// The value as an unsigned integer, if it is an integer and not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::U8(v) => Some(v.into()),
            Self::U16(v) => Some(v.into()),
            Self::U32(v) => Some(v.into()),
            Self::U64(v) => Some(v),
            Self::I8(v) => u64::try_from(v).ok(),
            Self::I16(v) => u64::try_from(v).ok(),
            Self::I32(v) => u64::try_from(v).ok(),
            Self::I64(v) => u64::try_from(v).ok(),
            _ => None,
        }
    }
}

/// An array of metadata values, checked at parse and decoded as it is read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Array<'a> {
    kind: ValueType,
    len: usize,
    bytes: &'a [u8],
}

impl<'a> Array<'a> {
    /// Reads element type and count, then walks over the elements once to check them.
    fn read(cursor: &mut Cursor<'a>, depth: u32) -> Result<Self, GgufError> {
        const WHAT: &str = "a metadata array";
        if depth >= MAX_DEPTH {
            return Err(GgufError::Nesting { at: cursor.at() });
        }
        let kind = ValueType::read(cursor)?;
        let len = cursor.count(WHAT, u64::MAX, kind.min_bytes())?;
        let from = cursor.at();
        match kind {
            ValueType::Str | ValueType::Bool | ValueType::Array => {
                for _ in 0..len {
                    Value::read_as(kind, cursor, depth.saturating_add(1))?;
                }
            }
            // Numbers have no shape to check: any bytes will do, so step over them.
            _ => {
                cursor.take((len as u64).saturating_mul(kind.min_bytes()), WHAT)?;
            }
        }
        Ok(Self { kind, len, bytes: cursor.since(from) })
    }

    /// The type of the elements.
    pub fn kind(&self) -> ValueType {
        self.kind
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements, in order.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let kind = self.kind;
        let mut cursor = Cursor::new(self.bytes);
        (0..self.len).map_while(move |_| Value::read_as(kind, &mut cursor, 0).ok())
    }

    /// The elements as strings, or nothing if they are of another type.
    pub fn strs(&self) -> Option<impl Iterator<Item = &'a str> + use<'a>> {
        (self.kind == ValueType::Str).then(|| {
            self.iter().filter_map(|value| match value {
                Value::Str(text) => Some(text),
                _ => None,
            })
        })
    }
}

/// A type that a metadata value can be asked for as.
pub trait FromValue<'a>: Sized {
    /// What such a value is called in an error: "an unsigned 32-bit integer".
    const WANTED: &'static str;

    /// Converts, or gives nothing if the value is of another type or out of range.
    fn from_value(value: Value<'a>) -> Option<Self>;
}

impl<'a> FromValue<'a> for u32 {
    const WANTED: &'static str = "an integer from 0 to 4294967295";

    fn from_value(value: Value<'a>) -> Option<Self> {
        value.as_u64().and_then(|v| v.try_into().ok())
    }
}

impl<'a> FromValue<'a> for u64 {
    const WANTED: &'static str = "an integer that is not negative";

    fn from_value(value: Value<'a>) -> Option<Self> {
        value.as_u64()
    }
}

impl<'a> FromValue<'a> for f32 {
    const WANTED: &'static str = "a finite floating-point number";

    fn from_value(value: Value<'a>) -> Option<Self> {
        match value {
            Value::F32(v) => Some(v),
            #[expect(
                clippy::cast_possible_truncation,
                reason = "rounding to f32 is what the caller asks for; overflow is filtered as infinite"
            )]
            Value::F64(v) => Some(v as f32),
            _ => None,
        }
        .filter(|v| v.is_finite())
    }
}

impl<'a> FromValue<'a> for bool {
    const WANTED: &'static str = "true or false";

    fn from_value(value: Value<'a>) -> Option<Self> {
        match value {
            Value::Bool(v) => Some(v),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for &'a str {
    const WANTED: &'static str = "a string";

    fn from_value(value: Value<'a>) -> Option<Self> {
        match value {
            Value::Str(v) => Some(v),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for Array<'a> {
    const WANTED: &'static str = "an array";

    fn from_value(value: Value<'a>) -> Option<Self> {
        match value {
            Value::Array(v) => Some(v),
            _ => None,
        }
    }
}
