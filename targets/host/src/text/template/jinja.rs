//! Runs a chat template as the library it was written for does.
//!
//! That library is `transformers` with Jinja2: blocks take the line end behind them and
//! the indentation before them, strings have Python's methods, `raise_exception` refuses a
//! chat, and what is not given is undefined, save tools and documents, which are none.
//!
//! A template is a stranger's program, and some thousands of chats are rendered to see what
//! it does. So steps are counted, those of a chat and those of all together, and so are the
//! bytes that it writes. What it keeps in variables is not counted, so files that others
//! wrote are left to a process of its own, see `apart`.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;

use minijinja::{Environment, Error, ErrorKind, Value, context};
use pocket_runtime::text::{RenderOptions, Role, Turn};

use super::super::error::TemplateError;
use crate::printable::printable_up_to;

/// Steps after which a template that does not end is stopped. Usual templates take some hundreds for a chat.
const FUEL: u64 = 50_000;
/// Steps of all chats together after which a template is too slow to be found out.
const FUEL_OF_ALL: u64 = 20_000_000;
/// Bytes of the longest chat that a template may write.
const OUTPUT: usize = 1 << 20;
/// Characters of the longest reason that is shown.
const REASON: usize = 200;
/// The name of the only template.
const NAME: &str = "chat";

/// A chat template that can be run.
pub(super) struct Jinja {
    environment: Environment<'static>,
    bos: String,
    eos: String,
    spent: Cell<u64>,
}

/// Why a template did not render a chat: what it or its engine says.
pub(super) struct Refusal(pub(super) String);

impl Jinja {
    /// Reads a template.
    pub(super) fn new(source: &str, bos: String, eos: String) -> Result<Self, TemplateError> {
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_fuel(Some(FUEL));
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        });
        environment
            .add_template_owned(NAME, source.to_owned())
            .map_err(|error| TemplateError::Syntax { reason: reason(&error) })?;
        Ok(Self { environment, bos, eos, spent: Cell::new(0) })
    }

    /// Renders a chat.
    pub(super) fn render(&self, turns: &[Turn<'_>], options: RenderOptions) -> Result<String, Refusal> {
        if self.spent.get() > FUEL_OF_ALL {
            return Err(Refusal("it takes too many steps for short chats".to_owned()));
        }
        let message = |turn: &Turn<'_>| context! { role => name(turn.role), content => turn.content };
        let messages: Vec<Value> = turns.iter().map(message).collect();
        let mut variables = BTreeMap::from([
            ("messages", Value::from(messages)),
            ("add_generation_prompt", Value::from(options.generation_prompt)),
            ("tools", Value::from(())),
            ("documents", Value::from(())),
            ("bos_token", Value::from(self.bos.as_str())),
            ("eos_token", Value::from(self.eos.as_str())),
        ]);
        if let Some(thinking) = options.thinking {
            variables.insert("enable_thinking", Value::from(thinking));
        }
        let mut out = Bounded(Vec::new());
        let template = self.environment.get_template(NAME);
        let done = template.and_then(|template| template.render_captured_to(variables, &mut out));
        // A template that refuses does so after a few steps; one that ran out of them has used them all.
        let steps = match &done {
            Ok(captured) => captured.state().fuel_levels().map_or(0, |(spent, _)| spent),
            Err(error) if error.kind() == ErrorKind::OutOfFuel => FUEL,
            Err(_) => 0,
        };
        self.spent.set(self.spent.get() + steps);
        match done {
            Ok(_) => Ok(String::from_utf8(out.0).expect("an engine that writes text")),
            Err(error) if error.kind() == ErrorKind::WriteFailure => {
                Err(Refusal(format!("it writes more than {OUTPUT} bytes for a short chat")))
            }
            Err(error) => Err(Refusal(reason(&error))),
        }
    }
}

/// Takes so many bytes and no more.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > OUTPUT - self.0.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The name that templates know a role by.
pub(super) fn name(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    }
}

/// What an error says, in one line. It may be the template's own words, so they are made fit to print.
fn reason(error: &Error) -> String {
    let words = match (error.kind(), error.detail()) {
        (ErrorKind::InvalidOperation, Some(detail)) => detail.to_owned(),
        _ => error.to_string().replace('\n', " "),
    };
    printable_up_to(REASON, &words)
}
