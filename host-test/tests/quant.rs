//! Decoding of GGUF blocks against values computed by another implementation.
//!
//! `fixtures/quant` holds random blocks of each type with the f32 values that the Python
//! package `gguf` gives them. Equality is to the bit: the format defines the operations.

use pocket_host_test::models;
use pocket_pack::gguf::TensorType;
use pocket_pack::quant::{QuantError, dequantize, q4_0_blocks, q4_1_blocks, q8_0_blocks};

fn blocks(kind: TensorType) -> Vec<u8> {
    models::read(&models::fixture(&format!("quant/{kind}.blocks")))
}

fn decoded(kind: TensorType, data: &[u8]) -> Vec<f32> {
    let elements = data.len() / kind.block_bytes() * kind.block_elements();
    let mut out = vec![f32::NAN; elements];
    dequantize(kind, data, &mut out).unwrap();
    out
}

#[test]
fn every_type_decodes_to_the_bit() {
    // F32 has no decoding to compare; its bytes are the expected values themselves.
    for kind in TensorType::ALL.into_iter().filter(|kind| *kind != TensorType::F32) {
        let ours = decoded(kind, &blocks(kind));
        let expected = models::read(&models::fixture(&format!("quant/{kind}.f32")));
        assert_eq!(ours.len() * 4, expected.len(), "{kind}");
        let (expected, _) = expected.as_chunks::<4>();
        for (index, (ours, expected)) in ours.iter().zip(expected).enumerate() {
            let expected = f32::from_le_bytes(*expected);
            assert_eq!(ours.to_bits(), expected.to_bits(), "{kind}, element {index}: {ours} should be {expected}");
        }
    }
}

#[test]
fn f32_is_copied() {
    let data = models::read(&models::fixture("quant/Q6_K.f32"));
    let copied: Vec<u8> = decoded(TensorType::F32, &data).iter().flat_map(|x| x.to_le_bytes()).collect();
    assert_eq!(copied, data);
}

#[test]
fn codes_and_scales_make_the_same_values() {
    let f16 = |bits| half::f16::from_bits(bits).to_f32();

    let data = blocks(TensorType::Q4_0);
    let values: Vec<f32> = q4_0_blocks(&data)
        .unwrap()
        .flat_map(|b| b.codes.map(|code| f16(b.scale_bits) * (f32::from(code) - 8.0)))
        .collect();
    assert_eq!(values, decoded(TensorType::Q4_0, &data));

    let data = blocks(TensorType::Q4_1);
    let values: Vec<f32> = q4_1_blocks(&data)
        .unwrap()
        .flat_map(|b| b.codes.map(|code| f16(b.scale_bits) * f32::from(code) + f16(b.minimum_bits)))
        .collect();
    assert_eq!(values, decoded(TensorType::Q4_1, &data));

    let data = blocks(TensorType::Q8_0);
    let values: Vec<f32> =
        q8_0_blocks(&data).unwrap().flat_map(|b| b.codes.map(|code| f16(b.scale_bits) * f32::from(code))).collect();
    assert_eq!(values, decoded(TensorType::Q8_0, &data));
}

#[test]
fn nibbles_come_in_column_order() {
    // Byte i of a block carries column i below and column i + 16 above.
    let mut block = [0_u8; 18];
    for (i, byte) in (0..16).zip(&mut block[2..]) {
        *byte = i | ((15 - i) << 4);
    }
    let codes = q4_0_blocks(&block).unwrap().next().unwrap().codes;
    let low: Vec<u8> = (0..16).collect();
    let high: Vec<u8> = (0..16).rev().collect();
    assert_eq!(codes[..16], low);
    assert_eq!(codes[16..], high);
}

#[test]
fn sizes_that_do_not_match_are_refused() {
    for kind in TensorType::ALL {
        let data = vec![0; kind.block_bytes() * 2];
        let elements = kind.block_elements() * 2;
        for (bytes, elements) in [
            (data.len() - 1, elements),
            (data.len(), elements - 1),
            (data.len(), elements + 1),
            (0, elements),
            (data.len(), 0),
        ] {
            let mut out = vec![0.0; elements];
            assert_eq!(dequantize(kind, &data[..bytes], &mut out), Err(QuantError::Size { kind, elements, bytes }));
        }
    }
    assert!(q4_0_blocks(&[0; 17]).is_err());
    assert!(q4_1_blocks(&[0; 21]).is_err());
    assert!(q8_0_blocks(&[0; 33]).is_err());
}
