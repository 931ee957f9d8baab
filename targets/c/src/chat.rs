//! Chats.

use core::ffi::c_char;
use core::ops::Range;

use pocket_runtime::text::{ChatTemplate, RenderOptions, Rendered, Role, Specials, TextError, Turn};

use crate::image::{Opened, PocketImage};
use crate::pointer::{Out, slice, slice_mut, text};
use crate::session::{Entered, Inner, PocketSession, within};
use crate::status::{Checked, Fault, POCKET_ERROR_BUFFER, POCKET_ERROR_VALUE, PocketStatus, status};

/// Instructions.
pub const POCKET_ROLE_SYSTEM: u32 = 0;
/// The person.
pub const POCKET_ROLE_USER: u32 = 1;
/// The model.
pub const POCKET_ROLE_ASSISTANT: u32 = 2;

/// Thinking as the template does it by itself.
pub const POCKET_THINKING_DEFAULT: u32 = 0;
/// The model shall think, where the template has a setting for it.
pub const POCKET_THINKING_ON: u32 = 1;
/// The model shall not think, where the template has a setting for it.
pub const POCKET_THINKING_OFF: u32 = 2;

/// The most turns that one call takes.
pub const POCKET_TURNS_MAX: usize = 64;

/// One turn of a chat.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PocketTurn {
    /// `POCKET_ROLE_*`.
    pub role: u32,
    /// What is said, UTF-8. Special tokens in it are text.
    pub content: *const c_char,
    /// Bytes of it.
    pub length: usize,
}

/// Turns that have been read, and where their contents go.
struct Chat<'a> {
    turns: [Turn<'a>; POCKET_TURNS_MAX],
    ranges: [Range<usize>; POCKET_TURNS_MAX],
    count: usize,
    options: RenderOptions,
}

impl<'a> Chat<'a> {
    /// Reads turns.
    ///
    /// # Safety
    /// The header's contract, for `'a`.
    unsafe fn read(turns: *const PocketTurn, count: usize, thinking: u32) -> Checked<Self> {
        let thinking = match thinking {
            POCKET_THINKING_DEFAULT => None,
            POCKET_THINKING_ON => Some(true),
            POCKET_THINKING_OFF => Some(false),
            _ => return Err(Fault::Here(POCKET_ERROR_VALUE)),
        };
        // SAFETY: passed on to the caller.
        let given = unsafe { slice::<PocketTurn>(turns, count) }?;
        let mut chat = Self {
            turns: [Turn { role: Role::User, content: "" }; POCKET_TURNS_MAX],
            ranges: [const { 0..0 }; POCKET_TURNS_MAX],
            count,
            options: RenderOptions { generation_prompt: true, thinking },
        };
        if count > POCKET_TURNS_MAX {
            let turns = u32::try_from(count).unwrap_or(u32::MAX);
            return Err(TextError::TooManyTurns { turns, limit: POCKET_TURNS_MAX as u32 }.into());
        }
        for (turn, given) in chat.turns.iter_mut().zip(given) {
            let role = match given.role {
                POCKET_ROLE_SYSTEM => Role::System,
                POCKET_ROLE_USER => Role::User,
                POCKET_ROLE_ASSISTANT => Role::Assistant,
                _ => return Err(Fault::Here(POCKET_ERROR_VALUE)),
            };
            // SAFETY: passed on to the caller.
            *turn = Turn { role, content: unsafe { text(given.content, given.length) }? };
        }
        Ok(chat)
    }

    /// Writes the chat, or what follows a reply, and what begins the next reply.
    fn render<'o>(
        &'o mut self,
        template: &ChatTemplate<'_>,
        following: bool,
        out: &'o mut [u8],
    ) -> Result<Rendered<'o>, TextError> {
        let turns = self.turns.get(..self.count).unwrap_or_default();
        match following {
            false => template.render(turns, self.options, out, &mut self.ranges),
            true => template.render_following(turns, self.options, out, &mut self.ranges),
        }
    }
}

/// Appends turns, written as the model's chat template writes them, and what begins a reply. In an empty session they
/// begin a chat; otherwise they follow the reply that the session ends with. What people say in them cannot steer the
/// model by special tokens. Before any work it is clear whether they fit: rendered into `chat_bytes`, and in tokens.
///
/// `thinking` is one of `POCKET_THINKING_*`; `count`, where the number of tokens goes, may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_prefill_chat(
    session: *mut PocketSession,
    turns: *const PocketTurn,
    turn_count: usize,
    thinking: u32,
    count: *mut usize,
) -> PocketStatus {
    let body = |entered: &mut Entered<'_>| {
        // SAFETY: the header's contract.
        let (mut chat, out) = unsafe { (Chat::read(turns, turn_count, thinking)?, Out::optional(count)?) };
        let Inner { session, opened, chat: room, .. } = &mut **entered;
        let session = session.steps();
        let rendered = chat.render(&opened.template()?, !session.tokens().is_empty(), room)?;
        let specials = Specials::RecogniseOutside(rendered.protected);
        let count = session.prefill_text(&opened.tokenizer()?, rendered.text, specials)?;
        out.inspect(|out| out.set(count));
        Ok(())
    };
    // SAFETY: the header's contract.
    unsafe { within(session, body) }
}

/// Writes a chat as the model's template does, with what begins a reply, for people to look at: `*length` bytes of UTF-8
/// at `text`, where there is `room` for them; not terminated. With `following` not 0, the turns follow a reply. If the
/// room is too small, `*length` says how much it takes and the status is `POCKET_ERROR_BUFFER`.
///
/// To give a chat to a session use `pocket_prefill_chat`, which knows what in it people wrote.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_render_chat(
    image: *const PocketImage,
    turns: *const PocketTurn,
    turn_count: usize,
    thinking: u32,
    following: u32,
    text: *mut c_char,
    room: usize,
    length: *mut usize,
) -> PocketStatus {
    status(|| {
        // SAFETY: the header's contract.
        let (opened, out) = unsafe { (Opened::behind(image)?, Out::new(length)?) };
        // SAFETY: the header's contract.
        let mut chat = unsafe { Chat::read(turns, turn_count, thinking) }?;
        // SAFETY: the header's contract.
        let text = unsafe { slice_mut::<u8>(text.cast(), room) }?;
        match chat.render(&opened.template()?, following != 0, text) {
            Ok(rendered) => out.set(rendered.text.len()),
            Err(TextError::RenderTooLong { need, .. }) => {
                out.set(need as usize);
                return Err(Fault::Here(POCKET_ERROR_BUFFER));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    })
}
