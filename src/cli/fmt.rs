//! `iverson fmt`.

use std::path::PathBuf;

use iverson::ir::surface;
use iverson::tensor::io::write_whole;

use super::files::read_text;
use super::{Failure, Outcome, print, shown};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The programs, which are rewritten, or `-` for standard input, which is laid out to standard output.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Change nothing, and say which files would be.
    #[arg(long)]
    check: bool,
}

/// Lays out programs; with `--check` it fails where one would change.
pub(super) fn run(arguments: &Arguments) -> Outcome {
    let mut all_are = true;
    for file in &arguments.files {
        let name = shown(file);
        let text = read_text(file)?;
        let laid_out =
            surface::format(&text).map_err(|error| Failure { error, source: Some((name.clone(), text.clone())) })?;
        let changes = laid_out != text;
        match (arguments.check, file.as_os_str() == "-") {
            (true, _) if changes => {
                all_are = false;
                print(&format!("{name}\n"))?;
            }
            (false, true) => print(&laid_out)?,
            (false, false) if changes => write_whole(file, laid_out.as_bytes())?,
            _ => {}
        }
    }
    Ok(all_are)
}
