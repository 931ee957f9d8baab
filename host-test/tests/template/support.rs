//! Templates, the tokenizer that goes with them, and short ways to render.

use std::ops::Range;
use std::sync::OnceLock;

use pocket_host_test::models;
use pocket_pack::gguf::Gguf;
use pocket_pack::text::{
    AlignedBytes, TemplateError, Token, TokenKind, TokenizerSource, build_template, build_tokenizer,
};
use pocket_runtime::text::{ChatTemplate, RenderOptions, Role, TextError, Tokenizer, Turn};

pub(crate) const CHATML: &str = include_str!("jinja/chatml.jinja");
pub(crate) const THINKING: &str = include_str!("jinja/thinking.jinja");
pub(crate) const HEADER: &str = include_str!("jinja/header.jinja");
pub(crate) const BRACKETS: &str = include_str!("jinja/brackets.jinja");
pub(crate) const LATE_SYSTEM: &str = include_str!("jinja/late_system.jinja");
pub(crate) const NO_SYSTEM: &str = include_str!("jinja/no_system.jinja");

/// With the prompt that begins a reply.
pub(crate) const REPLY: RenderOptions = RenderOptions { generation_prompt: true, thinking: None };
/// Without it.
pub(crate) const NO_REPLY: RenderOptions = RenderOptions { generation_prompt: false, thinking: None };

/// The tiny model's tokenizer with the special tokens of other families.
pub(crate) fn tokenizer_source() -> TokenizerSource {
    let file = models::read(&models::tiny("tiny-qwen3-q4_1"));
    let gguf = Gguf::parse(&file).expect("the model is sound");
    let mut source = TokenizerSource::from_gguf(&gguf).expect("its tokenizer is sound");
    let added = ["<s>", "</s>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"];
    source.bos = Some(source.tokens.len() as u32);
    source.tokens.extend(added.map(|token| Token { bytes: token.as_bytes().to_vec(), kind: TokenKind::Control }));
    source
}

pub(crate) fn tokenizer() -> Tokenizer<'static> {
    static SECTION: OnceLock<AlignedBytes> = OnceLock::new();
    let section = SECTION
        .get_or_init(|| AlignedBytes::new(&build_tokenizer(&tokenizer_source()).expect("the tokenizer is sound")));
    Tokenizer::open(section).expect("what was packed opens")
}

/// The id of a special token.
pub(crate) fn id(special: &str) -> u32 {
    tokenizer().id_of(special.as_bytes()).unwrap_or_else(|| panic!("{special} is not a special token"))
}

/// SmolLM2's own template, out of its model file.
pub(crate) fn smollm2() -> String {
    let file = models::read(&models::smollm2());
    let gguf = Gguf::parse(&file).expect("the model is sound");
    gguf.require::<&str>("tokenizer.chat_template").expect("the model has a template").to_owned()
}

/// A packed template.
pub(crate) struct Packed(pub(crate) AlignedBytes);

/// A rendered chat that owns its text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rendering {
    pub(crate) text: String,
    pub(crate) protected: Vec<Range<usize>>,
}

pub(crate) fn try_pack(jinja: &str) -> Result<Packed, TemplateError> {
    build_template(jinja, &tokenizer()).map(|section| Packed(AlignedBytes::new(&section)))
}

pub(crate) fn pack(jinja: &str) -> Packed {
    try_pack(jinja).unwrap_or_else(|e| panic!("{e}"))
}

impl Packed {
    pub(crate) fn template(&self) -> ChatTemplate<'_> {
        ChatTemplate::open(&self.0).expect("what was packed opens")
    }

    /// Renders a whole chat.
    pub(crate) fn render(&self, turns: &[Turn<'_>], options: RenderOptions) -> Result<Rendering, TextError> {
        self.run(turns, false, options)
    }

    /// Renders what follows a reply.
    pub(crate) fn following(&self, turns: &[Turn<'_>], options: RenderOptions) -> Result<Rendering, TextError> {
        self.run(turns, true, options)
    }

    fn run(&self, turns: &[Turn<'_>], following: bool, options: RenderOptions) -> Result<Rendering, TextError> {
        let template = self.template();
        let mut out = vec![0; 4096];
        let mut protected = vec![0..0; turns.len()];
        let rendered = if following {
            template.render_following(turns, options, &mut out, &mut protected)?
        } else {
            template.render(turns, options, &mut out, &mut protected)?
        };
        Ok(Rendering { text: rendered.text.to_owned(), protected: rendered.protected.to_vec() })
    }

    /// The text of a whole chat.
    pub(crate) fn text(&self, turns: &[Turn<'_>], options: RenderOptions) -> String {
        self.render(turns, options).unwrap_or_else(|e| panic!("{turns:?} is not rendered: {e}")).text
    }
}

pub(crate) fn system(content: &str) -> Turn<'_> {
    Turn { role: Role::System, content }
}

pub(crate) fn user(content: &str) -> Turn<'_> {
    Turn { role: Role::User, content }
}

pub(crate) fn assistant(content: &str) -> Turn<'_> {
    Turn { role: Role::Assistant, content }
}
