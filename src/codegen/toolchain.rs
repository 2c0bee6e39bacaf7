//! Which compiler there is, without running it.
//!
//! A `rustc` may be a proxy of `rustup`, which runs the compiler that a file `rust-toolchain.toml` names: the file that is nearest above the
//! working directory, whoever wrote it. Under `/tmp` anybody may write one. So the compiler runs in [`DIRECTORY`], where only the superuser can,
//! and the variable `RUSTUP_TOOLCHAIN` or the settings of the user choose the toolchain, wherever the caller is.
//!
//! A compiler is told from others by its path, its size and when it was last changed. A proxy is the same file for all toolchains; so what `rustup`
//! decides by goes in too: its variable, its settings, the toolchain files in [`DIRECTORY`], and the compilers of the toolchains that it has.
//! Where this takes one compiler for two, a kernel is compiled once more; where it takes two for one, a kernel is used that the other one
//! compiled from the same source, which gives the same numbers: the source says every rounding.

use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

/// The working directory of compilers. No folder is above it, and on unix nobody but the superuser writes to it.
const DIRECTORY: &str = "/";
/// How many toolchains of `rustup` are looked at.
const MOST_TOOLCHAINS: usize = 64;
/// More than any file of settings has.
const MOST_BYTES: u64 = 1 << 20;

/// A compiler that is there, or that is missing.
#[derive(Clone, Debug)]
pub struct Compiler {
    /// What is run: an absolute path, unless no such program was found.
    program: OsString,
    /// What tells it from others.
    pub identity: String,
}

impl Compiler {
    /// The compiler: `$RUSTC`, or `rustc`.
    pub fn find() -> Compiler {
        let program = std::env::var_os("RUSTC").filter(|name| !name.is_empty()).unwrap_or_else(|| "rustc".into());
        match on_path(&program).and_then(|path| std::path::absolute(path).ok()) {
            Some(path) => Compiler { identity: format!("{}{}", describe(&path), rustup()), program: path.into() },
            None => Compiler { identity: format!("{program:?} is missing"), program },
        }
    }

    /// The command that runs it. Paths in its arguments must be absolute.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(DIRECTORY);
        command
    }

    /// Its name in messages.
    pub fn name(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }
}

/// Where a program is that is run by this name; a relative path starts at the working directory of the caller.
fn on_path(program: &OsStr) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 || path.is_absolute() {
        return path.is_file().then(|| path.to_owned());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(path)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    let Ok(found) = std::fs::metadata(path) else { return false };
    #[cfg(unix)]
    if std::os::unix::fs::MetadataExt::mode(&found) & 0o111 == 0 {
        return false;
    }
    found.is_file()
}

/// A file by its path, its size and its time.
fn describe(path: &Path) -> String {
    let real = std::fs::canonicalize(path);
    let found = std::fs::metadata(path);
    let time = |found: Metadata| found.modified().ok()?.duration_since(UNIX_EPOCH).ok().map(|time| (found.len(), time));
    format!("{path:?} {:?} {:?}\n", real.ok(), found.ok().and_then(time))
}

/// What `rustup` chooses a compiler by.
fn rustup() -> String {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".rustup"));
    let Some(home) = std::env::var_os("RUSTUP_HOME").map(PathBuf::from).or_else(home) else { return String::new() };
    let Some(settings) = text(&home.join("settings.toml")) else { return String::new() };
    let mut all = format!("{:?} {settings:?}\n", std::env::var_os("RUSTUP_TOOLCHAIN"));
    let files = ["rust-toolchain", "rust-toolchain.toml"].map(|name| text(&Path::new(DIRECTORY).join(name)));
    files.iter().flatten().for_each(|text| all.push_str(&format!("{text:?}\n")));
    let toolchains = std::fs::read_dir(home.join("toolchains")).into_iter().flatten().take(MOST_TOOLCHAINS).flatten();
    let mut toolchains: Vec<PathBuf> = toolchains.map(|entry| entry.path().join("bin/rustc")).collect();
    toolchains.sort();
    toolchains.iter().for_each(|path| all.push_str(&describe(path)));
    all
}

/// The text of a small file.
fn text(path: &Path) -> Option<String> {
    let found = std::fs::metadata(path).ok()?;
    let is_small = found.is_file() && found.len() <= MOST_BYTES;
    is_small.then(|| std::fs::read(path).ok()).flatten().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}
