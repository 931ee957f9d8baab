//! The chat template as a table: what stands between the contents of the turns.
//!
//! A template is a program; an image holds what the program writes, found out and checked
//! by the packer. What stands between two contents depends on the two roles, on whether
//! the second turn is the last, and on the setting of thinking, so a chat is rendered by
//! laying texts and contents end to end:
//!
//! ```text
//! text(start → role of 1) content 1 text(role of 1 → role of 2) content 2 … end(role of n)
//! ```
//!
//! A default system turn is part of the text before a first user turn, and a system
//! content that goes into the user's turn is one with nothing but a blank line behind it.
//!
//! A long chat need not be rendered anew: [`ChatTemplate::render_following`] renders only
//! what comes behind the assistant's last reply, beginning with what ends that reply. What
//! was rendered before, the reply, and this together are the whole chat, provided that
//! [`ChatTemplate::appends`] and that the reply is what the template would leave of it
//! (untrimmed where the template trims, without thoughts where it removes them).

use core::ops::Range;

use super::error::{TextError, TextPart, count};
use super::layout::{
    Cursor, NONE, PLACES, ROLES, Span, TEMPLATE_MAGIC, TEMPLATE_VERSION, TemplateHeader, Trim, TurnTable,
};

/// Who speaks in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// The instructions.
    System = 0,
    /// The person.
    User = 1,
    /// The model.
    Assistant = 2,
}

/// One turn of a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn<'a> {
    /// Who speaks.
    pub role: Role,
    /// What is said. Special tokens in it are text if the ranges that rendering gives are
    /// passed on to the tokenizer.
    pub content: &'a str,
}

/// How a chat is rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RenderOptions {
    /// Whether what begins the assistant's reply is put at the end.
    pub generation_prompt: bool,
    /// Whether the model shall think; unsaid is the template's own default. Without effect
    /// where the template has no such setting.
    pub thinking: Option<bool>,
}

/// A rendered chat in the caller's buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rendered<'o> {
    /// The text.
    pub text: &'o str,
    /// Where the contents lie, to be passed on as
    /// [`Specials::RecogniseOutside`](super::Specials::RecogniseOutside).
    pub protected: &'o [Range<usize>],
}

/// A chat template that borrows its section of an image.
#[derive(Debug, Clone, Copy)]
pub struct ChatTemplate<'a> {
    header: &'a TemplateHeader,
    stop_tokens: &'a [u32],
    text: &'a [u8],
}

/// The place before the first turn.
const BEGINNING: usize = 0;

impl<'a> ChatTemplate<'a> {
    /// Checks a section and views it.
    ///
    /// # Errors
    /// [`TextError::Magic`], [`TextError::Version`], [`TextError::Misaligned`],
    /// [`TextError::Length`] or [`TextError::Damaged`] for the first thing that is wrong.
    pub fn open(section: &'a [u8]) -> Result<Self, TextError> {
        let mut cursor = Cursor::new(section);
        let header: &TemplateHeader = cursor.header()?;
        if header.magic != TEMPLATE_MAGIC {
            return Err(TextError::Magic);
        }
        if header.version != TEMPLATE_VERSION {
            return Err(TextError::Version { found: header.version, read: TEMPLATE_VERSION });
        }
        let stop_tokens = cursor.table(header.stop_tokens)?;
        let text = cursor.table(header.text_bytes)?;
        cursor.end()?;
        let opened = Self { header, stop_tokens, text };
        if stop_tokens.contains(&NONE) {
            return Err(TextError::damaged(TextPart::StopTokens));
        }
        if !header.tables.iter().all(|table| opened.is_sound(table)) {
            return Err(TextError::damaged(TextPart::Turns));
        }
        Ok(opened)
    }

    /// Whether every text lies in the section and is text, and every trim code is one.
    fn is_sound(&self, table: &TurnTable) -> bool {
        let spans = table.inner.iter().chain(&table.last).flatten();
        let spans = spans.chain(&table.end).chain(&table.reply);
        let trims = table.inner_trim.iter().chain(&table.last_trim);
        spans.into_iter().all(|span| span.start == NONE || self.slice(span).is_some())
            && trims.into_iter().all(|&code| Trim::from_code(code).is_some())
    }

    /// The tokens that end a reply.
    pub fn stop_tokens(&self) -> &'a [u32] {
        self.stop_tokens
    }

    /// Renders a whole chat.
    ///
    /// `protected` takes one range for each turn.
    ///
    /// # Errors
    /// [`TextError::NoTurns`], [`TextError::TurnOrder`] for turns that the template has no
    /// place for, [`TextError::RenderTooLong`] or [`TextError::TooManyTurns`] if a buffer
    /// is too short.
    pub fn render<'o>(
        &self,
        turns: &[Turn<'_>],
        options: RenderOptions,
        out: &'o mut [u8],
        protected: &'o mut [Range<usize>],
    ) -> Result<Rendered<'o>, TextError> {
        self.render_from(BEGINNING, turns, options, out, protected)
    }

    /// Renders the turns that follow a reply of the assistant, beginning with the text
    /// that ends the reply.
    ///
    /// # Errors
    /// As [`render`](Self::render).
    pub fn render_following<'o>(
        &self,
        turns: &[Turn<'_>],
        options: RenderOptions,
        out: &'o mut [u8],
        protected: &'o mut [Range<usize>],
    ) -> Result<Rendered<'o>, TextError> {
        self.render_from(place_after(Role::Assistant), turns, options, out, protected)
    }

    /// Whether a chat may be continued behind a reply to the user with
    /// [`render_following`](Self::render_following) and be the same as if it had been
    /// rendered as a whole.
    ///
    /// It may not where the text that begins a reply differs from the text before an
    /// earlier assistant turn: Qwen3 without thinking puts an empty thought before a reply
    /// and leaves it out later. Appending is then a chat that the template would not
    /// write, though models take it well; the exact way is to go back to where the reply
    /// began and render from there.
    pub fn appends(&self, thinking: Option<bool>) -> bool {
        let table = self.table(thinking);
        let inner = self.pick(&table.inner, place_after(Role::User), Role::Assistant);
        let reply = table.reply.get(Role::User as usize);
        match (inner, reply.and_then(|span| self.slice(span))) {
            (Some(inner), Some(reply)) => inner == reply,
            _ => false,
        }
    }

    /// Renders turns behind a place.
    fn render_from<'o>(
        &self,
        mut place: usize,
        turns: &[Turn<'_>],
        options: RenderOptions,
        out: &'o mut [u8],
        protected: &'o mut [Range<usize>],
    ) -> Result<Rendered<'o>, TextError> {
        let (limit, ranges) = (out.len(), protected.len());
        let mut writer = Writer { out, len: 0 };
        let table = self.table(options.thinking);
        let last = turns.len().checked_sub(1).ok_or(TextError::NoTurns)?;
        let order = |index: usize| TextError::TurnOrder { index: count(index) };
        for (index, turn) in turns.iter().enumerate() {
            let (spans, trims) =
                if index == last { (&table.last, &table.last_trim) } else { (&table.inner, &table.inner_trim) };
            let before = self.pick(spans, place, turn.role).ok_or(order(index))?;
            let trim = trims.get(turn.role as usize).copied();
            let trim = trim.and_then(Trim::from_code).ok_or(order(index))?;
            writer.write(before);
            let start = writer.len;
            writer.write(trim.apply(turn.content).as_bytes());
            if let Some(range) = protected.get_mut(index) {
                *range = start..writer.len;
            }
            place = place_after(turn.role);
        }
        let ends = if options.generation_prompt { &table.reply } else { &table.end };
        let role = place.checked_sub(1).and_then(|role| ends.get(role));
        let end = role.and_then(|span| self.slice(span)).ok_or(order(last))?;
        writer.write(end);

        if turns.len() > ranges {
            return Err(TextError::TooManyTurns { turns: count(turns.len()), limit: count(ranges) });
        }
        let Writer { out, len } = writer;
        let text = out.get(..len).ok_or(TextError::RenderTooLong { need: count(len), limit: count(limit) })?;
        Ok(Rendered {
            // Texts and contents are UTF-8, so what they make is.
            text: core::str::from_utf8(text).map_err(|_| TextError::damaged(TextPart::Turns))?,
            protected: protected.get(..turns.len()).unwrap_or_default(),
        })
    }

    /// The table for a setting of thinking.
    fn table(&self, thinking: Option<bool>) -> &'a TurnTable {
        let [unsaid, on, off] = &self.header.tables;
        match thinking {
            None => unsaid,
            Some(true) => on,
            Some(false) => off,
        }
    }

    /// The text between a place and the content of a role.
    fn pick(&self, spans: &[[Span; ROLES]; PLACES], place: usize, role: Role) -> Option<&'a [u8]> {
        self.slice(spans.get(place)?.get(role as usize)?)
    }

    /// A text of the section.
    fn slice(&self, span: &Span) -> Option<&'a [u8]> {
        let start = span.start as usize;
        let text = self.text.get(start..start.checked_add(span.len as usize)?)?;
        core::str::from_utf8(text).ok().map(str::as_bytes)
    }
}

/// The place behind a turn of this role.
const fn place_after(role: Role) -> usize {
    (role as usize).saturating_add(1)
}

/// Bytes written so far, and counted where they no longer fit.
struct Writer<'o> {
    out: &'o mut [u8],
    len: usize,
}

impl Writer<'_> {
    /// Writes bytes if all of them fit, and counts them anyway.
    fn write(&mut self, bytes: &[u8]) {
        let rest = self.out.get_mut(self.len..).and_then(|rest| rest.get_mut(..bytes.len()));
        if let Some(place) = rest {
            place.copy_from_slice(bytes);
        }
        self.len = self.len.saturating_add(bytes.len());
    }
}
