//! Writes the kernel of a loss and its gradient: `$OUT_DIR/kernel.rs`.

use std::path::Path;

use iverson::Function;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let program = "../programs/deconvolution.iv";
    println!("cargo::rerun-if-changed={program}");
    let loss = Function::parse(&std::fs::read_to_string(program)?)?;
    let text = loss.value_and_gradient(&["w"])?.rust_source()?;
    let directory = std::env::var("OUT_DIR")?;
    Ok(std::fs::write(Path::new(&directory).join("kernel.rs"), text)?)
}
