//! The command line: one file a command, and what they share.
//!
//! Results go to stdout, everything else to stderr. Exit codes: 0 done, 1 an error in one sentence, 2 a wrong command
//! line, 3 a plan that does not fit its budget.

mod arguments;
mod bench;
mod chat;
mod golden;
mod inspect;
mod interrupt;
mod logits;
mod machine;
mod output;
mod pack;
mod plan;
mod read_rate;
mod run;
mod shape;
mod sign;
mod stages;
mod start;
mod state;
mod sweep;
mod synth;
mod tokenize;
mod verify;
mod voice;

use std::io;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Runs small language models in memory that is planned before.
///
/// A GGUF file is packed once into an image; an image is planned, run, measured and pinned. Try:
///
///   pocket pack model.gguf -o model.pocket
///   pocket plan model.pocket --budget 300MB
///   pocket run model.pocket -p "What is the capital of France?"
#[derive(Debug, Parser)]
#[command(name = "pocket", version, verbatim_doc_comment, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Pack(pack::Pack),
    Inspect(inspect::Inspect),
    Verify(verify::Verify),
    Keygen(sign::Keygen),
    Sign(sign::Sign),
    Plan(plan::PlanCommand),
    Run(run::Run),
    Chat(chat::Chat),
    Bench(bench::Bench),
    Synth(synth::Synth),
    Sweep(sweep::Sweep),
    Logits(logits::Logits),
    Tokenize(tokenize::Tokenize),
    Detokenize(tokenize::Detokenize),
    #[command(subcommand)]
    Golden(golden::GoldenCommand),
    /// What `pack` starts for a file's chat template.
    #[command(name = crate::text::TEMPLATE_COMMAND, hide = true)]
    TemplateTable,
}

/// Runs the command that was asked for.
#[must_use]
pub fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(code) => code,
        // Whoever reads has read enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    let done = |()| ExitCode::SUCCESS;
    match command {
        Command::Pack(command) => command.run().map(done),
        Command::Inspect(command) => command.run().map(done),
        Command::Verify(command) => command.run().map(done),
        Command::Keygen(command) => command.run().map(done),
        Command::Sign(command) => command.run().map(done),
        Command::Plan(command) => command.run(),
        Command::Run(command) => command.run().map(done),
        Command::Chat(command) => command.run().map(done),
        Command::Bench(command) => command.run().map(done),
        Command::Synth(command) => command.run().map(done),
        Command::Sweep(command) => command.run().map(done),
        Command::Logits(command) => command.run().map(done),
        Command::Tokenize(command) => command.run().map(done),
        Command::Detokenize(command) => command.run().map(done),
        Command::Golden(command) => command.run().map(done),
        Command::TemplateTable => crate::text::serve_template(io::stdin().lock(), io::stdout().lock()).map(done),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
