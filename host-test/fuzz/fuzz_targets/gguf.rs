//! A GGUF file, packed; and the image of one that can be packed, run.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use pocket_host_test::images::AlignedBytes;
use pocket_pack::pack::{Options, PackError, Quant, pack_bytes};
use pocket_runtime::Image;
use tempfile::TempDir;

fuzz_target!(|file: &[u8]| {
    static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a temporary folder"));
    let output = FOLDER.path().join("model.pocket");
    let quant = if file.len().is_multiple_of(2) { Quant::Q8 } else { Quant::Q4 };
    match pack_bytes(file, "fuzz", &output, &Options { quant, ..Options::default() }, &mut |_| {}) {
        Ok(_) => {
            let image = AlignedBytes::copy_of(&std::fs::read(&output).expect("the image that was just written"));
            pocket_fuzz::run(&Image::open(&image).expect("the packer opened it"));
        }
        Err(PackError::Defect(error)) => panic!("the packer made what it does not open: {error}"),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
