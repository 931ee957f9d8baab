//! `pocket tokenize` and `pocket detokenize`: text to token ids and back.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use pocket_runtime::text::Specials;

use super::arguments::Ids;
use super::machine::{map, open};
use super::output::print;
use crate::prompt::{encode, normalised};

/// Turn text from stdin into token ids, a JSON list.
#[derive(Debug, Args)]
pub(super) struct Tokenize {
    /// The image whose tokenizer is used.
    image: PathBuf,
    /// Recognise special tokens such as <|im_start|>; otherwise they are text like any other.
    #[arg(long)]
    special: bool,
}

/// Turn token ids from stdin into text; they may be a JSON list or numbers between commas or spaces.
///
/// What is written are exactly the tokens' bytes: if they end inside a character, so does the output. On a terminal
/// control characters are shown, not sent.
#[derive(Debug, Args)]
pub(super) struct Detokenize {
    /// The image whose tokenizer is used.
    image: PathBuf,
}

impl Tokenize {
    pub(super) fn run(self) -> Result<()> {
        let file = map(&self.image)?;
        let tokenizer = open(&file)?.tokenizer()?;
        let text = read_stdin()?;
        let text = normalised(&tokenizer, &text);
        let specials = if self.special { Specials::Recognise } else { Specials::AsText };
        let ids = encode(&tokenizer, &text, specials)?;
        writeln!(io::stdout(), "{}", serde_json::to_string(&ids)?)?;
        Ok(())
    }
}

impl Detokenize {
    pub(super) fn run(self) -> Result<()> {
        let file = map(&self.image)?;
        let tokenizer = open(&file)?.tokenizer()?;
        let Ids(ids) = read_stdin()?.parse().map_err(anyhow::Error::msg)?;
        let mut text = Vec::new();
        for id in ids {
            match tokenizer.token_bytes(id) {
                Some(bytes) => text.extend_from_slice(bytes),
                None => bail!("token {id} is not in the vocabulary of {} tokens", tokenizer.vocabulary()),
            }
        }
        Ok(print(text)?)
    }
}

/// All of stdin, which must be UTF-8.
fn read_stdin() -> Result<String> {
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes).context("stdin cannot be read")?;
    String::from_utf8(bytes).context("stdin is not UTF-8 text")
}
