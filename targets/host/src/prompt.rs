//! What is said to a model, as tokens: on the command line, and when a prefix is computed.

use std::borrow::Cow;
use std::ops::Range;

use pocket_runtime::text::{ChatTemplate, RenderOptions, Specials, TextError, Tokenizer, Turn, scratch_len};
use unicode_normalization::UnicodeNormalization;

/// A rendered chat.
pub(crate) struct Written {
    pub(crate) text: String,
    /// Where the contents of the turns lie.
    ranges: Vec<Range<usize>>,
}

impl Written {
    /// Renders turns and what begins a reply: from a chat's beginning, or what follows a reply.
    pub(crate) fn new(
        tokenizer: &Tokenizer<'_>,
        template: &ChatTemplate<'_>,
        turns: &[Turn<'_>],
        first: bool,
    ) -> Result<Self, TextError> {
        // Contents are normalised before they are rendered, so that the ranges of the rendered text stay right.
        let contents: Vec<Cow<'_, str>> = turns.iter().map(|turn| normalised(tokenizer, turn.content)).collect();
        let turns: Vec<Turn<'_>> =
            turns.iter().zip(&contents).map(|(turn, content)| Turn { role: turn.role, content }).collect();
        let options = RenderOptions { generation_prompt: true, thinking: None };
        let mut ranges = vec![0..0; turns.len()];
        let mut render = |out: &mut [u8]| {
            let rendered = match first {
                true => template.render(&turns, options, out, &mut ranges),
                false => template.render_following(&turns, options, out, &mut ranges),
            };
            rendered.map(|rendered| rendered.text.to_owned())
        };
        // Rendering into nothing says how much room it takes.
        let text = match render(&mut []) {
            Err(TextError::RenderTooLong { need, .. }) => render(&mut vec![0; need as usize])?,
            other => other?,
        };
        Ok(Self { text, ranges })
    }

    /// The template's special tokens, and none that a content spells.
    pub(crate) fn specials(&self) -> Specials<'_> {
        Specials::RecogniseOutside(&self.ranges)
    }

    /// Its tokens.
    pub(crate) fn tokens(&self, tokenizer: &Tokenizer<'_>) -> Result<Vec<u32>, TextError> {
        encode(tokenizer, &self.text, self.specials())
    }
}

/// The tokens of text.
pub(crate) fn encode(tokenizer: &Tokenizer<'_>, text: &str, specials: Specials<'_>) -> Result<Vec<u32>, TextError> {
    // No word is longer than the text, and no token shorter than a byte.
    let (mut scratch, mut ids) = (vec![0; scratch_len(text.len())], vec![0; text.len()]);
    let count = tokenizer.encode(text, specials, &mut scratch, &mut ids)?;
    ids.truncate(count);
    Ok(ids)
}

/// The text in the form that the tokenizer wants.
pub(crate) fn normalised<'t>(tokenizer: &Tokenizer<'_>, text: &'t str) -> Cow<'t, str> {
    if !tokenizer.wants_nfc() || unicode_normalization::is_nfc(text) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.nfc().collect())
}
