//! The command `pocket`: packs models and runs them on a developer's machine.

fn main() -> std::process::ExitCode {
    pocket_pack::cli::main()
}
