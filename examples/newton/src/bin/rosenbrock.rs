//! `cargo run --release --bin rosenbrock`

use std::error::Error;
use std::io::stdout;

use iverson::kernel::Engine;

fn main() -> Result<(), Box<dyn Error>> {
    newton::rosenbrock::run(&mut stdout().lock(), 1_000_000, Engine::Native)?;
    Ok(())
}
