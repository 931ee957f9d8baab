//! Golden files: a model's logits, pinned to the bit.
//!
//! The logits of an image are the same bits on every instruction set, for every number of workers and every batch, and
//! after a rewind; a golden file says which bits. It holds a hash for each position, so a check can name the first
//! position that differs, and it knows the model by what its logits depend on, so packing a model anew changes nothing.

use pocket_kernels::Kernels;
use pocket_runtime::{CacheType, Error, Image, Limits};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::isa::{Isa, MissingIsa};
use crate::machine::{HostSession, Machine, MachineError, UseSession};
use crate::printable::{one_line, printable};

/// Version of the file format.
const FORMAT: u32 = 1;

/// What a golden file holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Golden {
    /// Version of the file format.
    format: u32,
    /// The name of the model, for people.
    model: String,
    /// What the logits depend on, see [`identity`].
    identity: String,
    /// How the attention cache stores its elements.
    cache: Cache,
    /// The tokens.
    ids: Vec<u32>,
    /// SHA-256 of the logits of every position, as little-endian f32.
    logits: Vec<String>,
}

/// [`CacheType`] in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Cache {
    F16,
    I8,
}

/// Why a golden file was not made or checked. That logits differ is no error but a [`Checked`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GoldenError {
    /// It is no golden file.
    #[error("it is no golden file ({}); record one with `pocket golden record`", one_line(&.0.to_string()))]
    Json(#[from] serde_json::Error),
    /// It has another version, or lists that do not belong together.
    #[error("the golden file has a format that this release does not read; record it again")]
    Format,
    /// It is about another model.
    #[error("the golden file was recorded for another model ({}); record one for this image", printable(.model))]
    OtherModel {
        /// The name of that model.
        model: String,
    },
    /// The machine lacks an instruction set.
    #[error(transparent)]
    Isa(#[from] MissingIsa),
    /// The model cannot be run like this.
    #[error(transparent)]
    Run(#[from] Error),
    /// The system has no memory or threads.
    #[error("the system grants no memory or threads for the session: {0}")]
    System(#[from] std::io::Error),
}

impl From<MachineError> for GoldenError {
    fn from(error: MachineError) -> Self {
        match error {
            MachineError::Run(error) => Self::Run(error),
            MachineError::Isa(missing) => Self::Isa(missing),
            MachineError::Memory { source, .. } | MachineError::Threads { source, .. } => Self::System(source),
        }
    }
}

/// One way of computing logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The instruction set.
    pub isa: Isa,
    /// Workers.
    pub workers: u32,
    /// Tokens at a time.
    pub batch: u32,
}

/// What came of one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// The name of the instruction set.
    pub isa: &'static str,
    /// Workers.
    pub workers: u32,
    /// Tokens at a time.
    pub batch: u32,
    /// Whether the second half was computed after other tokens had been there and were taken back.
    pub rewound: bool,
    /// The first position whose logits differ.
    pub first_difference: Option<usize>,
}

/// [`Image::identity`] in hexadecimal.
#[must_use]
pub fn identity(image: &Image<'_>) -> String {
    image.identity().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Golden {
    /// Computes the logits of `ids` and pins them.
    ///
    /// # Errors
    /// [`GoldenError`] if the model cannot be run like this.
    pub fn record(
        image: &Image<'_>,
        model: &str,
        (ids, cache): (&[u32], CacheType),
        way: Way,
    ) -> Result<Self, GoldenError> {
        let mut logits = Vec::with_capacity(ids.len());
        compute(image, (ids, cache), way, false, &mut |_, _, hash| logits.push(hash))?;
        let cache = match cache {
            CacheType::F16 => Cache::F16,
            CacheType::I8 => Cache::I8,
        };
        let identity = identity(image);
        Ok(Self { format: FORMAT, model: model.to_owned(), identity, cache, ids: ids.to_vec(), logits })
    }

    /// Reads a golden file.
    ///
    /// # Errors
    /// [`GoldenError::Json`] or [`GoldenError::Format`].
    pub fn from_json(text: &str) -> Result<Self, GoldenError> {
        let golden: Self = serde_json::from_str(text)?;
        if golden.format != FORMAT || golden.ids.len() != golden.logits.len() {
            return Err(GoldenError::Format);
        }
        Ok(golden)
    }

    /// How many positions it has.
    #[must_use]
    pub fn positions(&self) -> usize {
        self.ids.len()
    }

    /// Computes the logits in one way, without and with a rewind, and compares them.
    ///
    /// # Errors
    /// [`GoldenError`] if there is nothing to compare; a difference is no error.
    pub fn check(&self, image: &Image<'_>, way: Way) -> Result<[Checked; 2], GoldenError> {
        if identity(image) != self.identity {
            return Err(GoldenError::OtherModel { model: self.model.clone() });
        }
        let cache = match self.cache {
            Cache::F16 => CacheType::F16,
            Cache::I8 => CacheType::I8,
        };
        let Way { isa, workers, batch } = way;
        let mut checked =
            [false, true].map(|rewound| Checked { isa: isa.name(), workers, batch, rewound, first_difference: None });
        compute(image, (&self.ids, cache), way, true, &mut |rewound, position, hash| {
            if self.logits.get(position) != Some(&hash) {
                checked[usize::from(rewound)].first_difference.get_or_insert(position);
            }
        })?;
        Ok(checked)
    }
}

/// Takes, for each position, whether it was computed after a rewind, its number, and the hash of its logits.
type Each<'e> = &'e mut dyn FnMut(bool, usize, String);

/// Computes the logits of every position in one way; if asked, those of the second half again, after a rewind.
fn compute(
    image: &Image<'_>,
    (ids, cache): (&[u32], CacheType),
    way: Way,
    rewind: bool,
    each: Each<'_>,
) -> Result<(), GoldenError> {
    let context = u32::try_from(ids.len()).unwrap_or(u32::MAX).max(way.batch.min(image.config().context));
    let limits = Limits { context, batch: way.batch, workers: way.workers, cache, word_bytes: 0 };
    Ok(Machine::new(image, &limits, way.isa)?.with_session(image, Passes { ids, rewind, each })??)
}

/// The passes of [`compute`].
struct Passes<'a> {
    ids: &'a [u32],
    rewind: bool,
    each: Each<'a>,
}

impl UseSession for Passes<'_> {
    type Out = Result<(), Error>;

    fn with<K: Kernels>(self, mut session: HostSession<'_, K>) -> Self::Out {
        let Self { ids, rewind, each } = self;
        let vocabulary = session.plan().config().vocabulary;
        session.prefill_each(ids, |position, logits| each(false, position, hash(logits)))?;
        if rewind {
            let half = ids.len() / 2;
            session.rewind(half)?;
            // Other tokens in between leave other keys and values behind, which must not be seen again.
            let others: Vec<u32> = ids[half..].iter().map(|id| (id + 1) % vocabulary).collect();
            session.prefill(&others)?;
            session.rewind(half)?;
            session.prefill_each(&ids[half..], |position, logits| each(true, position, hash(logits)))?;
        }
        Ok(())
    }
}

/// SHA-256 of the bits of logits, in hexadecimal.
fn hash(logits: &[f32]) -> String {
    let mut hash = Sha256::new();
    for x in logits {
        hash.update(x.to_le_bytes());
    }
    format!("{:x}", hash.finalize())
}
