//! Runs a chat template as the library it was written for does.
//!
//! That library is `transformers` with Jinja2: blocks take the line end behind them and
//! the indentation before them, strings have Python's methods, `raise_exception` refuses a
//! chat, and what is not given is undefined, save tools and documents, which are none.

use std::collections::BTreeMap;

use minijinja::{Environment, Error, ErrorKind, Value, context};
use pocket_runtime::text::{RenderOptions, Role, Turn};

use super::super::error::TemplateError;

/// Steps after which a template that does not end is stopped.
const FUEL: u64 = 1_000_000;
/// The name of the only template.
const NAME: &str = "chat";

/// A chat template that can be run.
pub(super) struct Jinja {
    environment: Environment<'static>,
    bos: String,
    eos: String,
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
        Ok(Self { environment, bos, eos })
    }

    /// Renders a chat.
    pub(super) fn render(&self, turns: &[Turn<'_>], options: RenderOptions) -> Result<String, Refusal> {
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
        self.environment
            .get_template(NAME)
            .and_then(|template| template.render(variables))
            .map_err(|error| Refusal(reason(&error)))
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

/// What an error says, in one line.
fn reason(error: &Error) -> String {
    match (error.kind(), error.detail()) {
        (ErrorKind::InvalidOperation, Some(detail)) => detail.to_owned(),
        _ => error.to_string().replace('\n', " "),
    }
}
