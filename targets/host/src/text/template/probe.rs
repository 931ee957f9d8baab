//! Cuts the texts of the table out of what the template writes for short chats.
//!
//! The contents are markers that occur nowhere else. For each step there is a shortest
//! chat that takes it; the text of the step is what stands before or behind a marker.

use pocket_runtime::text::layout::{Cut, Trim};
use pocket_runtime::text::{RenderOptions, Role, Turn};

use super::super::error::TemplateError;
use super::check::{describe, inexpressible};
use super::jinja::{Jinja, Refusal, name};
use super::table::{ALL_ROLES, Draft, DraftTable, Step, THINKING};

/// Makes the tables for all settings of thinking.
pub(super) fn probe(jinja: &Jinja) -> Result<Draft, TemplateError> {
    let mut draft = Draft::default();
    for (table, thinking) in draft.tables.iter_mut().zip(THINKING) {
        *table = Prober { jinja, thinking }.table()?;
    }
    Ok(draft)
}

/// Runs short chats with one setting of thinking.
struct Prober<'j> {
    jinja: &'j Jinja,
    thinking: Option<bool>,
}

/// What stands around the markers of a rendered chat: one text more than markers.
type Texts = Vec<String>;

impl Prober<'_> {
    /// Finds the text of every step and what is cut off contents.
    fn table(&self) -> Result<DraftTable, TemplateError> {
        let mut table = DraftTable::default();
        for role in ALL_ROLES {
            for before in [None, Some(Role::System), Some(Role::User), Some(Role::Assistant)] {
                for step in [Step::Inner(before, role), Step::Last(before, role)] {
                    *table.text(step) = self.text(step)?;
                }
            }
            for step in [Step::End(role), Step::Reply(role)] {
                *table.text(step) = self.text(step)?;
            }
            table.inner_trim[role as usize] = self.trim(role, false)?;
            table.last_trim[role as usize] = self.trim(role, true)?;
        }
        Ok(table)
    }

    /// The text of a step, or nothing if the template has none.
    fn text(&self, step: Step) -> Result<Option<String>, TemplateError> {
        let (mut roles, role, prompt) = match step {
            Step::Inner(before, role) | Step::Last(before, role) => (path(before), role, false),
            Step::End(role) => (Vec::new(), role, false),
            Step::Reply(role) => (Vec::new(), role, true),
        };
        // The texts are counted from the beginning: the one before turn `at` is text `at`.
        let at = match step {
            Step::Inner(..) | Step::Last(..) => {
                roles.push(role);
                roles.len() - 1
            }
            Step::End(_) | Step::Reply(_) => {
                roles = path(Some(role));
                roles.len()
            }
        };
        if let Step::Inner(..) = step {
            roles.push(follower(role));
        }
        let options = RenderOptions { generation_prompt: prompt, thinking: self.thinking };
        match self.between(&roles, options) {
            Ok(texts) => Ok(texts.into_iter().nth(at)),
            // A template may refuse what is not a usual chat, system turns, and chats that
            // end with the assistant.
            Err(Cause::Refused(_)) if !is_needed(step) => Ok(None),
            Err(Cause::Refused(reason)) => Err(TemplateError::Refuses { chat: describe(&roles), reason }),
            Err(Cause::Uncut) if !step.is_usual() => Ok(None),
            Err(Cause::Uncut) => Err(inexpressible(format!(
                "it does not write each content once and in order in the chat {}",
                describe(&roles)
            ))),
        }
    }

    /// What stands around the contents of a chat.
    fn between(&self, roles: &[Role], options: RenderOptions) -> Result<Texts, Cause> {
        let contents: Vec<String> = (0..roles.len()).map(marker).collect();
        let rendered = self.jinja.render(&turns(roles, &contents), options)?;
        let mut texts = Vec::with_capacity(contents.len() + 1);
        let mut rest = rendered.as_str();
        for content in &contents {
            let (before, behind) = rest.split_once(content).ok_or(Cause::Uncut)?;
            texts.push(before.to_owned());
            rest = behind;
        }
        texts.push(rest.to_owned());
        let repeated = |text: &String| contents.iter().any(|content| text.contains(content));
        if texts.iter().any(repeated) {
            return Err(Cause::Uncut);
        }
        Ok(texts)
    }

    /// What is cut off the contents of a role.
    fn trim(&self, role: Role, last: bool) -> Result<Trim, TemplateError> {
        let mut roles = match role {
            Role::Assistant => path(Some(Role::User)),
            Role::System | Role::User => Vec::new(),
        };
        let at = roles.len();
        roles.push(role);
        if !last {
            roles.push(follower(role));
        }
        let options = RenderOptions { generation_prompt: false, thinking: self.thinking };
        let Ok(texts) = self.between(&roles, options) else {
            // There is no text for this step, so no content will be put there.
            return Ok(Trim { start: Cut::Nothing, end: Cut::Nothing });
        };
        let start = self.cut(&roles, at, &texts, |space, marker| format!("{space}{marker}"), |t| t.0)?;
        let end = self.cut(&roles, at, &texts, |space, marker| format!("{marker}{space}"), |t| t.1)?;
        Ok(Trim { start, end })
    }

    /// What is cut off one end of a content, by what is left of white space put there.
    fn cut(
        &self,
        roles: &[Role],
        at: usize,
        plain: &[String],
        put: impl Fn(&str, &str) -> String,
        side: impl Fn((Trim, Trim)) -> Trim,
    ) -> Result<Cut, TemplateError> {
        let mut contents: Vec<String> = (0..roles.len()).map(marker).collect();
        let options = RenderOptions { generation_prompt: false, thinking: self.thinking };
        let mut fitting = vec![Cut::Nothing, Cut::LineFeeds, Cut::Space];
        for space in ["\n ", " \n"] {
            contents[at] = put(space, &marker(at));
            let Ok(rendered) = self.jinja.render(&turns(roles, &contents), options) else {
                continue;
            };
            fitting.retain(|&cut| {
                let nothing = Cut::Nothing;
                let trim = side((Trim { start: cut, end: nothing }, Trim { start: nothing, end: cut }));
                let mut expected = contents.clone();
                expected[at] = trim.apply(&contents[at]).to_owned();
                lay(plain, &expected) == rendered
            });
        }
        fitting.first().copied().ok_or_else(|| {
            inexpressible(format!(
                "it changes the white space around what the {} says in another way than cutting it off",
                name(roles[at])
            ))
        })
    }
}

/// Why there is no text between markers.
enum Cause {
    /// The template refuses the chat.
    Refused(String),
    /// A marker is missing, repeated or out of order.
    Uncut,
}

impl From<Refusal> for Cause {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal.0)
    }
}

/// Texts and contents laid end to end.
fn lay(texts: &[String], contents: &[String]) -> String {
    let mut contents = contents.iter();
    texts.iter().flat_map(|text| [Some(text), contents.next()]).flatten().map(String::as_str).collect()
}

/// The shortest usual chat that ends with this role.
fn path(role: Option<Role>) -> Vec<Role> {
    match role {
        None => vec![],
        Some(Role::Assistant) => vec![Role::User, Role::Assistant],
        Some(role) => vec![role],
    }
}

/// A role that usually follows this one.
fn follower(role: Role) -> Role {
    match role {
        Role::User => Role::Assistant,
        Role::System | Role::Assistant => Role::User,
    }
}

/// Whether a template without this step is of no use.
fn is_needed(step: Step) -> bool {
    use Role::{Assistant, User};
    matches!(
        step,
        Step::Inner(None | Some(Assistant), User)
            | Step::Inner(Some(User), Assistant)
            | Step::Last(None | Some(Assistant), User)
            | Step::Reply(User)
    )
}

/// A content that occurs nowhere else.
fn marker(turn: usize) -> String {
    format!("\u{E000}{turn}\u{E001}")
}

/// A chat of these roles and contents.
fn turns<'c>(roles: &[Role], contents: &'c [String]) -> Vec<Turn<'c>> {
    roles.iter().zip(contents).map(|(&role, content)| Turn { role, content }).collect()
}
