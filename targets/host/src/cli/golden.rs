//! `pocket golden`: pins a model's logits to the bit, and checks them in every way they can be computed.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use crate::golden::{Checked, Golden, Way};
use crate::isa::Isa;
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde::Serialize;

use super::arguments::{Ids, IsaArgs, IsaChoice, Kv, isa_parser};
use super::machine::{map, open};
use super::output::{print_json, write_file};

/// Pin the bits of a model's logits, and check that they are the same everywhere.
#[derive(Debug, Subcommand)]
pub(super) enum GoldenCommand {
    Record(Record),
    Check(Check),
}

/// Compute the logits of some tokens and write their hashes to a golden file.
#[derive(Debug, Args)]
pub(super) struct Record {
    /// The image.
    image: PathBuf,
    /// The tokens, such as 1,2,3.
    #[arg(long, value_name = "ID,…")]
    ids: Ids,
    /// The golden file to write.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// How the attention cache stores its elements.
    #[arg(long, value_enum, default_value_t = Kv::F16)]
    kv: Kv,
    #[command(flatten)]
    isa: IsaArgs,
}

/// Check an image against a golden file: every instruction set × workers × batch, without and with a rewind.
///
/// Exit code 1 if any logits differ in any bit; the first position that does is named.
#[derive(Debug, Args)]
pub(super) struct Check {
    /// The golden file.
    golden: PathBuf,
    /// The image.
    image: PathBuf,
    /// Instruction sets; `all` are those that this machine has.
    #[arg(long, value_delimiter = ',', default_value = "all", value_parser = isa_parser("all"))]
    isa: Vec<IsaChoice>,
    /// Numbers of workers.
    #[arg(long, value_delimiter = ',', value_name = "N,…", default_value = "1,2")]
    workers: Vec<u32>,
    /// Numbers of tokens at a time.
    #[arg(long, value_delimiter = ',', value_name = "N,…", default_value = "1,7,64")]
    batch: Vec<u32>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// What `golden check --json` prints.
#[derive(Debug, Serialize)]
struct Outcome {
    same: bool,
    positions: usize,
    checks: Vec<Checked>,
}

impl GoldenCommand {
    pub(super) fn run(self) -> Result<()> {
        match self {
            Self::Record(command) => command.run(),
            Self::Check(command) => command.run(),
        }
    }
}

impl Record {
    fn run(self) -> Result<()> {
        let file = map(&self.image)?;
        let image = open(&file)?;
        let Ids(ids) = self.ids;
        let name = self.image.file_stem().unwrap_or_default().to_string_lossy();
        let way = Way { isa: self.isa.isa(), workers: 1, batch: image.config().context.min(64) };
        let golden = Golden::record(&image, &name, (&ids, self.kv.cache()), way)?;
        write_file(&self.output, |out| {
            serde_json::to_writer_pretty(&mut *out, &golden)?;
            writeln!(out).with_context(|| format!("{} cannot be written", self.output.display()))
        })
    }
}

impl Check {
    fn run(self) -> Result<()> {
        let shown = self.golden.display();
        let text = fs::read_to_string(&self.golden).with_context(|| format!("{shown} cannot be read"))?;
        let golden = Golden::from_json(&text).with_context(|| shown.to_string())?;
        let file = map(&self.image)?;
        let image = open(&file)?;
        let mut isas: Vec<Isa> = Vec::new();
        for choice in &self.isa {
            match choice.0 {
                Some(isa) => isas.push(isa),
                None => isas.extend(Isa::available()),
            }
        }
        let mut checks = Vec::new();
        for &isa in &isas {
            for &workers in &self.workers {
                for &batch in &self.batch {
                    checks.extend(golden.check(&image, Way { isa, workers, batch })?);
                }
            }
        }
        let wrong = checks.iter().find_map(|check| Some((check, check.first_difference?)));
        let failure = wrong.map(|(check, position)| {
            let Checked { isa, workers, batch, rewound, .. } = check;
            let rewound = if *rewound { ", after a rewind" } else { "" };
            format!("the logits differ at position {position} with {isa}, {workers} workers, batch {batch}{rewound}")
        });
        let outcome = Outcome { same: failure.is_none(), positions: golden.positions(), checks };
        if self.json {
            print_json(&outcome)?;
        }
        match failure {
            Some(failure) => bail!("{failure}; {} of {} ways differ", outcome.wrong(), outcome.checks.len()),
            None if self.json => {}
            None => {
                let names = crate::isa::names(isas.into_iter());
                let Outcome { positions, checks, .. } = &outcome;
                writeln!(io::stdout(), "the same bits at {positions} positions in {} ways: {names}", checks.len())?;
            }
        }
        Ok(())
    }
}

impl Outcome {
    fn wrong(&self) -> usize {
        self.checks.iter().filter(|check| check.first_difference.is_some()).count()
    }
}
