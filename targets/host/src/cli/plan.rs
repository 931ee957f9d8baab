//! `pocket plan`: every byte before anything runs.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use pocket_runtime::plan::{NamedRegion, Phase};
use pocket_runtime::{Config, Limits, Plan};
use serde::Serialize;

use super::arguments::{ByteCount, LimitArgs};
use super::machine::{map, open};
use super::output::{bytes, print_json};

/// Exit code of a plan that exceeds its budget.
const DOES_NOT_FIT: u8 = 3;
/// Characters of the bars.
const BAR: usize = 48;

/// Show the memory that a session takes, region by region.
///
/// The peak is the image, read in place, the arena, and the stacks; nothing else is written. Phases use the same scratch
/// memory in turn. With --budget the exit code is 3 if the peak exceeds it, and the longest context that fits is named.
#[derive(Debug, Args)]
pub(super) struct PlanCommand {
    /// The image.
    image: PathBuf,
    #[command(flatten)]
    limits: LimitArgs,
    /// The most that image, arena and stacks may take: 300MB is 300·10⁶ bytes, 300MiB is 300·2²⁰.
    #[arg(long, value_name = "BYTES")]
    budget: Option<ByteCount>,
    /// Print the plan as JSON.
    #[arg(long)]
    json: bool,
}

/// What `plan` prints.
#[derive(Debug, Serialize)]
struct Outcome {
    context: u32,
    batch: u32,
    workers: u32,
    kv: &'static str,
    image_bytes: u64,
    arena_bytes: u64,
    stack_bytes: u64,
    peak_bytes: u64,
    budget_bytes: Option<u64>,
    fits: Option<bool>,
    /// Within the budget.
    largest_context: Option<u32>,
    scratch_offset: u64,
    regions: Vec<Row>,
}

/// A region.
#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    phase: &'static str,
    offset: u64,
    bytes: u64,
}

impl PlanCommand {
    pub(super) fn run(self) -> Result<ExitCode> {
        let file = map(&self.image)?;
        let image = open(&file)?;
        let limits = self.limits.limits(image.config());
        let plan = Plan::try_new(image.config(), &limits)?;
        let image_bytes = image.bytes().len();
        let budget = self.budget.map(|ByteCount(bytes)| bytes);
        let outcome = Outcome {
            context: limits.context,
            batch: limits.batch,
            workers: limits.workers,
            kv: self.limits.kv.name(),
            image_bytes: image_bytes as u64,
            arena_bytes: plan.arena_bytes() as u64,
            stack_bytes: plan.stack_bytes() as u64,
            peak_bytes: plan.peak_bytes(image_bytes) as u64,
            budget_bytes: budget,
            fits: budget.map(|budget| plan.peak_bytes(image_bytes) as u64 <= budget),
            largest_context: budget.and_then(|budget| largest_context(image.config(), &limits, image_bytes, budget)),
            scratch_offset: plan.scratch_offset() as u64,
            regions: plan.regions().iter().map(Row::of).collect(),
        };
        if self.json {
            print_json(&outcome)?;
        } else {
            outcome.print(&plan)?;
        }
        Ok(outcome.verdict())
    }
}

/// The longest context whose plan stays within the budget.
fn largest_context(config: &Config, limits: &Limits, image_bytes: usize, budget: u64) -> Option<u32> {
    let fits = |context: u32| {
        let limits = Limits { context, batch: limits.batch.min(context), ..*limits };
        Plan::try_new(config, &limits).is_ok_and(|plan| plan.peak_bytes(image_bytes) as u64 <= budget)
    };
    // A longer context never takes less: what fits is a run from 1 to the answer.
    let (mut fitting, mut most) = (0, config.context);
    while fitting < most {
        let middle = most - (most - fitting) / 2;
        if fits(middle) {
            fitting = middle;
        } else {
            most = middle - 1;
        }
    }
    (fitting > 0).then_some(fitting)
}

impl Row {
    fn of(region: &NamedRegion) -> Self {
        let NamedRegion { name, phase, offset, bytes } = *region;
        Self { name, phase: phase.name(), offset: offset as u64, bytes: bytes as u64 }
    }
}

impl Outcome {
    /// Says whether the plan fits, if a budget was given.
    fn verdict(&self) -> ExitCode {
        let Self { budget_bytes: Some(budget), fits: Some(fits), peak_bytes, image_bytes, .. } = self else {
            return ExitCode::SUCCESS;
        };
        let [peak, budget, image] = [*peak_bytes, *budget, *image_bytes].map(bytes);
        match self.largest_context {
            _ if *fits => return ExitCode::SUCCESS,
            Some(context) => eprintln!(
                "error: the plan takes {peak} and the budget is {budget}; the largest context that fits is {context}"
            ),
            None => eprintln!(
                "error: the plan takes {peak} and the budget is {budget}; no context fits, the image alone takes \
                 {image}; try --kv i8, a smaller --batch, or a smaller model"
            ),
        }
        ExitCode::from(DOES_NOT_FIT)
    }

    fn print(&self, plan: &Plan) -> Result<()> {
        let mut out = io::stdout().lock();
        let Self { context, batch, workers, kv, image_bytes, arena_bytes, stack_bytes, peak_bytes, .. } = self;
        writeln!(out, "context {context}, batch {batch}, workers {workers}, {kv} cache\n")?;
        let whole = (0, *arena_bytes);
        let scratch = (self.scratch_offset, arena_bytes - self.scratch_offset);
        let title = "where in the arena; of phases, where in their scratch";
        writeln!(out, "{:<13} {:<16} {:>11} {:>11} {title}", "when", "what", "offset", "bytes")?;
        for row in &self.regions {
            let (from, whole) = if row.phase == Phase::Always.name() { whole } else { scratch };
            let bar = bar(row.offset - from, row.bytes, whole);
            writeln!(out, "{:<13} {:<16} {:>11} {:>11} {bar}", row.phase, row.name, row.offset, row.bytes)?;
        }
        writeln!(out)?;
        for phase in Phase::OVERLAPPING {
            writeln!(out, "{:<30} {:>23}", format!("scratch of {}", phase.name()), plan.phase_bytes(phase))?;
        }
        writeln!(out, "{:<30} {arena_bytes:>23}", "arena")?;
        writeln!(out, "{:<30} {stack_bytes:>23}", "stacks")?;
        writeln!(out, "{:<30} {image_bytes:>23}", "image, read in place")?;
        writeln!(out, "{:<30} {peak_bytes:>23} = {}", "peak", bytes(*peak_bytes))?;
        if let (Some(budget), Some(longest)) = (self.budget_bytes, self.largest_context) {
            let what = format!("budget; fits context {longest}");
            writeln!(out, "{what:<30} {budget:>23} = {}", bytes(budget))?;
        }
        Ok(())
    }
}

/// A picture of where a region lies in what holds it. A region smaller than a character is a thin stroke.
fn bar(offset: u64, len: u64, whole: u64) -> String {
    let cell = |at: u64| (at as f64 / whole.max(1) as f64 * BAR as f64).round() as usize;
    let (start, end) = (cell(offset).min(BAR - 1), cell(offset + len));
    let width = end.saturating_sub(start);
    let filled = if width == 0 { "▏".to_owned() } else { "█".repeat(width) };
    format!("│{}{filled}{}│", " ".repeat(start), " ".repeat((BAR - start).saturating_sub(width.max(1))))
}
