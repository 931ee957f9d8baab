//! What several fuzz targets need.

use std::sync::OnceLock;

use pocket_host_test::session::Way;
use pocket_host_test::{exercise, models};
use pocket_pack::gguf::Gguf;
use pocket_pack::isa::Isa;
use pocket_pack::text::{AlignedBytes, TokenizerSource, build_tokenizer};
use pocket_runtime::text::Tokenizer;
use pocket_runtime::{Image, Plan};

/// Weights of the largest model that is run: tensors may share bytes, so a small image can be a large model.
const WEIGHTS: u64 = 1 << 18;
/// Bytes of the largest arena.
const ARENA: usize = 1 << 24;

/// Reads all of an image and, if that takes a moment only, runs it by the definition of the kernels.
pub fn run(image: &Image<'_>) {
    exercise::readers(image);
    let weights: u64 = image.tensors().iter().map(|tensor| u64::from(tensor.rows) * u64::from(tensor.columns)).sum();
    let way = Way { isa: Isa::Scalar, batch: 4, ..Way::new(image.config().context.min(8)) };
    let plan = Plan::try_new(image.config(), &way.limits());
    if weights <= WEIGHTS && plan.is_ok_and(|plan| plan.arena_bytes() <= ARENA) {
        exercise::sessions(image, &[way]);
    }
}

/// A sound tokenizer.
///
/// # Panics
/// If the checkout is not whole.
pub fn tokenizer() -> Tokenizer<'static> {
    static SECTION: OnceLock<AlignedBytes> = OnceLock::new();
    let section = SECTION.get_or_init(|| {
        let file = models::read(&models::tiny("tiny-qwen3-q4_1"));
        let source = TokenizerSource::from_gguf(&Gguf::parse(&file).expect("a model")).expect("its tokenizer");
        AlignedBytes::new(&build_tokenizer(&source).expect("a tokenizer that is packed elsewhere too"))
    });
    Tokenizer::open(section).expect("what was packed")
}
