//! The command `pocket`: packs models and runs them on a developer's machine.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
