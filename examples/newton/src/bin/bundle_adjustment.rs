//! `cargo run --release --bin bundle_adjustment`

use std::error::Error;
use std::io::stdout;

use iverson::kernel::Engine;

fn main() -> Result<(), Box<dyn Error>> {
    newton::bundle_adjustment::run(&mut stdout().lock(), [49, 7776, 4], Engine::Native)?;
    Ok(())
}
