//! What the template of each family writes, by hand.

use pocket_runtime::text::{RenderOptions, TextError};

use crate::support::*;

#[test]
fn chatml_puts_each_turn_between_marks() {
    let packed = pack(CHATML);
    assert_eq!(
        packed.text(&[system("Be brief."), user("Hi"), assistant(" Hello "), user("")], REPLY),
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n\
         <|im_start|>assistant\n Hello <|im_end|>\n<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n"
    );
    assert_eq!(packed.text(&[user("Hi")], NO_REPLY), "<|im_start|>user\nHi<|im_end|>\n");
    // It takes roles in any order, and so does its table.
    assert_eq!(
        packed.text(&[user("a"), user("b"), system("c"), assistant("d")], NO_REPLY),
        "<|im_start|>user\na<|im_end|>\n<|im_start|>user\nb<|im_end|>\n<|im_start|>system\nc<|im_end|>\n\
         <|im_start|>assistant\nd<|im_end|>\n"
    );
    assert_eq!(packed.template().stop_tokens(), [id("<|im_end|>")]);
}

#[test]
fn smollm2_begins_with_a_system_turn_of_its_own() {
    let packed = pack(&smollm2());
    assert_eq!(
        packed.text(&[user("Hi")], REPLY),
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n\
         <|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    );
    assert_eq!(
        packed.text(&[system("Be brief."), user("Hi")], REPLY),
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    );
    assert_eq!(packed.template().stop_tokens(), [id("<|im_end|>")]);
}

#[test]
fn thinking_is_unsaid_on_or_off() {
    let packed = pack(THINKING);
    let chat = [user("Hi")];
    let with = |thinking| packed.text(&chat, RenderOptions { generation_prompt: true, thinking });
    let question = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(with(None), question);
    assert_eq!(with(Some(true)), question);
    assert_eq!(with(Some(false)), format!("{question}<think>\n\n</think>\n\n"));
}

#[test]
fn the_last_answer_has_a_thought_and_earlier_ones_have_none() {
    let packed = pack(THINKING);
    assert_eq!(
        packed.text(&[user("a"), assistant("\n\nb"), user("c"), assistant("\n\n d")], NO_REPLY),
        "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n\n\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n\
         <|im_start|>assistant\n<think>\n\n</think>\n\n d<|im_end|>\n",
        "line feeds are cut off the last answer only"
    );
    assert_eq!(
        packed.text(&[user("a"), assistant("b"), user("c")], REPLY),
        "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n\
         <|im_start|>assistant\n"
    );
    // Whether an answer without a question has a thought depends on the whole chat, so there is no such step.
    assert_eq!(packed.render(&[assistant("a"), assistant("b")], NO_REPLY), Err(TextError::TurnOrder { index: 0 }));
}

#[test]
fn headers_stand_before_contents_without_space_around_them() {
    let packed = pack(HEADER);
    assert_eq!(
        packed.text(&[system(" Be brief.\n"), user("\n Hi"), assistant("Hello \u{3000}")], NO_REPLY),
        "<s><|start_header_id|>system<|end_header_id|>\n\nToday Date: 26 Jul 2024\n\nBe brief.<|eot_id|>\
         <|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>\
         <|start_header_id|>assistant<|end_header_id|>\n\nHello<|eot_id|>"
    );
    assert_eq!(
        packed.text(&[user("Hi")], REPLY),
        "<s><|start_header_id|>system<|end_header_id|>\n\nToday Date: 26 Jul 2024\n\n<|eot_id|>\
         <|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    );
    // The mark behind a reply, and the token that the tokenizer itself ends a text with.
    assert_eq!(packed.template().stop_tokens(), [id("<|eot_id|>"), id("<|im_end|>")]);
}

#[test]
fn a_system_text_goes_into_the_first_user_turn() {
    let packed = pack(BRACKETS);
    assert_eq!(
        packed.text(&[system("Be brief."), user("Hi"), assistant("Hello"), user("Bye")], REPLY),
        "<s>[INST] Be brief.\n\nHi [/INST] Hello<|im_end|>[INST] Bye [/INST]"
    );
    assert_eq!(packed.text(&[user("Hi")], REPLY), "<s>[INST] Hi [/INST]");
    let order = |turns: &[_]| packed.render(turns, REPLY);
    assert_eq!(order(&[user("a"), user("b")]), Err(TextError::TurnOrder { index: 1 }));
    assert_eq!(order(&[assistant("a")]), Err(TextError::TurnOrder { index: 0 }));
    assert_eq!(order(&[user("a"), system("b"), user("c")]), Err(TextError::TurnOrder { index: 1 }));
    assert_eq!(order(&[]), Err(TextError::NoTurns));
}

#[test]
fn a_template_without_system_turns_is_packed_without_them() {
    let packed = pack(NO_SYSTEM);
    assert_eq!(
        packed.text(&[user(" a "), assistant(" b "), user(" c ")], REPLY),
        "<s><|im_start|>user\na<|im_end|>\n<|im_start|>model\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n\
         <|im_start|>model\n"
    );
    assert_eq!(packed.render(&[system("s"), user("u")], REPLY), Err(TextError::TurnOrder { index: 0 }));
}
