//! The table as it is being made, and its packing.

use std::collections::HashMap;

use bytemuck::bytes_of;
use pocket_runtime::text::Role;
use pocket_runtime::text::layout::{
    Cut, PLACES, ROLES, Span, TEMPLATE_MAGIC, TEMPLATE_VERSION, TemplateHeader, Trim, TurnTable,
};

use super::super::section::Section;

/// All roles, in the order of the section.
pub(super) const ALL_ROLES: [Role; ROLES] = [Role::System, Role::User, Role::Assistant];
/// The settings of thinking, in the order of the section.
pub(super) const THINKING: [Option<bool>; 3] = [None, Some(true), Some(false)];

/// One text of a table, by where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// From a turn, or the beginning, to a turn that others follow.
    Inner(Option<Role>, Role),
    /// From a turn, or the beginning, to the last turn.
    Last(Option<Role>, Role),
    /// Behind the last turn.
    End(Role),
    /// Behind the last turn if the assistant is to reply.
    Reply(Role),
}

impl Step {
    /// The steps that a chat takes.
    pub(super) fn of(roles: &[Role], generation_prompt: bool) -> Vec<Self> {
        let mut steps = Vec::with_capacity(roles.len() + 1);
        let mut before = None;
        for (index, &role) in roles.iter().enumerate() {
            steps.push(match index + 1 == roles.len() {
                true => Self::Last(before, role),
                false => Self::Inner(before, role),
            });
            before = Some(role);
        }
        steps.extend(before.map(|role| match generation_prompt {
            true => Self::Reply(role),
            false => Self::End(role),
        }));
        steps
    }

    /// Whether usual chats take this step.
    pub(super) fn is_usual(self) -> bool {
        use Role::{Assistant, System, User};
        match self {
            Self::Inner(before, role) => matches!(
                (before, role),
                (None, System | User) | (Some(System | Assistant), User) | (Some(User), Assistant)
            ),
            Self::Last(before, role) => {
                matches!((before, role), (None | Some(System | Assistant), User) | (Some(User), Assistant))
            }
            Self::End(role) => matches!(role, User | Assistant),
            Self::Reply(role) => role == User,
        }
    }
}

/// What is written for one setting of thinking.
#[derive(Debug, Clone)]
pub(super) struct DraftTable {
    inner: [[Option<String>; ROLES]; PLACES],
    last: [[Option<String>; ROLES]; PLACES],
    end: [Option<String>; ROLES],
    reply: [Option<String>; ROLES],
    pub(super) inner_trim: [Trim; ROLES],
    pub(super) last_trim: [Trim; ROLES],
}

impl Default for DraftTable {
    fn default() -> Self {
        let nothing = Trim { start: Cut::Nothing, end: Cut::Nothing };
        Self {
            inner: Default::default(),
            last: Default::default(),
            end: Default::default(),
            reply: Default::default(),
            inner_trim: [nothing; ROLES],
            last_trim: [nothing; ROLES],
        }
    }
}

impl DraftTable {
    /// The text of a step.
    pub(super) fn text(&mut self, step: Step) -> &mut Option<String> {
        let place = |before: Option<Role>| before.map_or(0, |role| role as usize + 1);
        match step {
            Step::Inner(before, role) => &mut self.inner[place(before)][role as usize],
            Step::Last(before, role) => &mut self.last[place(before)][role as usize],
            Step::End(role) => &mut self.end[role as usize],
            Step::Reply(role) => &mut self.reply[role as usize],
        }
    }
}

/// The tables as they are being made.
#[derive(Debug, Clone, Default)]
pub(super) struct Draft {
    /// For each of [`THINKING`].
    pub(super) tables: [DraftTable; THINKING.len()],
    pub(super) stop_tokens: Vec<u32>,
}

impl Draft {
    /// What stands behind a reply.
    pub(super) fn after_reply(&self) -> Option<&str> {
        let [unsaid, ..] = &self.tables;
        unsaid.inner[Role::Assistant as usize + 1][Role::User as usize].as_deref()
    }

    /// Lays the tables into a section; equal texts are stored once.
    pub(super) fn pack(&self) -> Vec<u8> {
        let mut texts = Texts::default();
        let tables = [0, 1, 2].map(|mode: usize| {
            let table = &self.tables[mode];
            let code = |trims: [Trim; ROLES]| trims.map(Trim::code);
            TurnTable {
                inner: table.inner.each_ref().map(|row| texts.spans(row)),
                last: table.last.each_ref().map(|row| texts.spans(row)),
                end: texts.spans(&table.end),
                reply: texts.spans(&table.reply),
                inner_trim: code(table.inner_trim),
                last_trim: code(table.last_trim),
            }
        });
        let header = TemplateHeader {
            magic: TEMPLATE_MAGIC,
            version: TEMPLATE_VERSION,
            stop_tokens: self.stop_tokens.len() as u32,
            text_bytes: texts.text.len() as u32,
            tables,
        };
        let mut section = Section::new(bytes_of(&header));
        section.table(&self.stop_tokens);
        section.table(texts.text.as_bytes());
        section.finish()
    }
}

/// The texts of all tables, one behind the other.
#[derive(Default)]
struct Texts {
    text: String,
    known: HashMap<String, Span>,
}

impl Texts {
    /// Stores a row of texts.
    fn spans(&mut self, row: &[Option<String>; ROLES]) -> [Span; ROLES] {
        row.each_ref().map(|text| match text {
            Some(text) => self.span(text),
            None => Span::ABSENT,
        })
    }

    /// Stores a text.
    fn span(&mut self, text: &str) -> Span {
        if let Some(&span) = self.known.get(text) {
            return span;
        }
        let span = Span { start: self.text.len() as u32, len: text.len() as u32 };
        self.text.push_str(text);
        self.known.insert(text.to_owned(), span);
        span
    }
}
