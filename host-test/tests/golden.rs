//! Golden files that others wrote: whatever is in them is checked, or refused with a sentence.

use pocket_host_test::images;
use pocket_host_test::models::TINY;
use pocket_pack::golden::{Golden, GoldenError, Way, identity};
use pocket_pack::isa::Isa;
use pocket_runtime::{Error, Image, PlanError, StepError};
use serde_json::{Value, json};

const WAY: Way = Way { isa: Isa::Scalar, workers: 1, batch: 4 };

fn tiny() -> Image<'static> {
    Image::open(images::image(TINY[4])).unwrap()
}

/// A file of one position with a hash that no logits have.
fn file() -> Value {
    let identity = identity(&tiny());
    json!({"format": 1, "model": "tiny", "identity": identity, "cache": "f16", "ids": [1], "logits": ["0"]})
}

/// Reads a file with this at this place and checks it.
fn check(place: &str, value: Value) -> Result<bool, GoldenError> {
    let mut file = file();
    file[place] = value;
    if place == "ids" {
        file["logits"] = file["ids"].as_array().expect("a list").iter().map(|_| json!("0")).collect();
    }
    let checked = Golden::from_json(&file.to_string())?.check(&tiny(), WAY)?;
    Ok(checked.iter().all(|checked| checked.first_difference.is_none()))
}

#[test]
fn a_hash_that_no_logits_have_is_a_difference() {
    for hash in ["0", "", "no hash", "\u{1b}[2J", &"f".repeat(1 << 20)] {
        assert!(matches!(check("logits", json!([hash])), Ok(false)), "{hash:.20}");
    }
}

#[test]
fn files_of_another_form_are_refused() {
    for text in ["", "{}", "[]", "null", "{\"format\":1", "\u{0}", &"[".repeat(100_000)] {
        assert!(matches!(Golden::from_json(text), Err(GoldenError::Json(_))), "{text:.20}");
    }
    for (place, value) in [
        ("cache", json!("f32")),
        ("ids", json!([-1])),
        ("ids", json!([1u64 << 32])),
        ("ids", json!([1.5])),
        ("logits", json!([1])),
        ("model", json!(null)),
        ("more", json!(0)),
        ("format", json!(u64::MAX)),
    ] {
        assert!(matches!(check(place, value), Err(GoldenError::Json(_))), "{place}");
    }
    for (place, value) in
        [("format", json!(0)), ("format", json!(2)), ("logits", json!([])), ("logits", json!(["", ""]))]
    {
        assert!(matches!(check(place, value), Err(GoldenError::Format)), "{place}");
    }
}

#[test]
fn another_model_is_named_and_cannot_take_over_a_terminal() {
    let mut file = file();
    file["identity"] = json!("0");
    file["model"] = json!("\u{1b}[2J\n");
    let error = Golden::from_json(&file.to_string()).unwrap().check(&tiny(), WAY).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the golden file was recorded for another model (\\u{1b}[2J\\n); record one for this image"
    );
}

#[test]
fn tokens_that_cannot_be_are_errors_of_the_step_or_the_plan() {
    let vocabulary = tiny().config().vocabulary;
    for id in [vocabulary, u32::MAX] {
        let error = check("ids", json!([1, id])).unwrap_err();
        assert!(
            matches!(error, GoldenError::Run(Error::Step(StepError::UnknownToken { id: found, .. })) if found == id),
            "{error}"
        );
    }
    let error = check("ids", json!([])).unwrap_err();
    assert!(matches!(error, GoldenError::Run(Error::Step(StepError::Empty))), "{error}");
    let error = check("ids", json!(vec![1; 100_000])).unwrap_err();
    assert!(matches!(error, GoldenError::Run(Error::Plan(PlanError::Context { context: 100_000, .. }))), "{error}");
}
