//! Compiling sources with `rustc`, unless the cache has the library already.
//!
//! The key of a library is a digest of all that it is made of: the source, how `rustc` is called, which `rustc`, and which processor it makes
//! code for. `rustc` runs where there is no library, and not before.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::cache::{Cache, Digest, Work};
use super::processor;
use super::toolchain::Compiler;

/// Why there is no native code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The compiler does not run.
    #[error("`{0}` does not run: {1}")]
    NoCompiler(String, String),
    /// There is no folder to compile in, or to load from.
    #[error("there is no folder for compiled kernels in {0}: {1}")]
    Cache(String, String),
    /// The compiler refuses the source, which is our fault.
    #[error("the compiler refuses its source: {0}")]
    Refused(String),
    /// The library cannot be loaded.
    #[error("the library cannot be loaded: {0}")]
    Load(String),
}

/// What there is to say of how native code was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Nothing is kept for the next process.
    NotKept {
        /// Why.
        why: String,
    },
    /// The cache had a library that is not what was put there; it was not loaded, but compiled anew.
    Recompiled {
        /// The library.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::NotKept { why } => {
                let advice = "set XDG_CACHE_HOME to a folder that nobody else can write to";
                write!(f, "compiled kernels are not kept: {why}; {advice}")
            }
            Note::Recompiled { path, why } => {
                write!(f, "a kernel was compiled anew, since {} {why}", path.display())
            }
        }
    }
}

/// How `rustc` is called, in a directory whose toolchain files nobody else can write (`toolchain`). The vectors of the processor at hand are
/// used to their full width.
const FLAGS: &[&str] = &[
    "--crate-type=cdylib",
    "--crate-name=kernel",
    "--edition=2024",
    "-Cpanic=abort",
    "-Ccodegen-units=1",
    "-Cstrip=symbols",
    "-Copt-level=3",
    "-Ctarget-cpu=native",
    #[cfg(target_arch = "x86_64")]
    "-Ctarget-feature=-prefer-256-bit",
];

/// The file of a library in the folder that it is loaded from.
const LIBRARY: &str = "kernel.so";

/// A library that can be loaded, in a folder that goes with this.
#[derive(Debug)]
pub struct Library {
    work: Work,
    /// Where it is kept.
    kept: Option<PathBuf>,
    notes: Vec<Note>,
}

impl Library {
    /// The file to load, in a folder that nobody else writes to.
    pub fn path(&self) -> PathBuf {
        self.work.path(LIBRARY)
    }

    /// Where the cache has it, if it does.
    pub fn kept(&self) -> Option<&Path> {
        self.kept.as_deref()
    }

    /// What there is to say of how it was found.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }
}

/// The library of a source: from the cache, or compiled now.
///
/// # Errors
/// Why there is none.
pub fn library(source: &str) -> Result<Library, Unavailable> {
    let compiler = Compiler::find();
    let flags = FLAGS.join(" ");
    let parts = [source, &flags, &compiler.identity, processor::identity()];
    let key = Digest::of(parts.iter().map(|part| part.as_bytes()));
    let cache = Cache::open();
    let mut notes = Vec::new();
    let known = cache.read(&key).unwrap_or_else(|why| {
        notes.extend(cache.path(&key).map(|path| Note::Recompiled { path, why }));
        None
    });
    let no_folder = |(place, why): (PathBuf, String)| Unavailable::Cache(place.display().to_string(), why);
    let mut work = cache.work().map_err(no_folder)?;
    let mut made = fill(&compiler, source, &cache, known.as_deref(), &work);
    // Where the cache is, there may be no room, which a compiler says in words of its own.
    let mut no_room = None;
    if let Err(Unavailable::Cache(..) | Unavailable::Refused(_)) = made
        && cache.holds(&work)
        && let Ok(other) = Cache::temporary()
    {
        let again = fill(&compiler, source, &cache, known.as_deref(), &other);
        if again.is_ok() {
            no_room = Some(format!("{} does not work in {}", compiler.name(), work.path("").display()));
        }
        (work, made) = (other, again);
    }
    let mut kept = cache.path(&key);
    if let Some(library) = made?
        && let Err(error) = cache.keep(&key, library, &work)
    {
        kept = None;
        notes.push(Note::NotKept { why: no_room.unwrap_or_else(|| error.to_string()) });
    }
    if let Cache::Memory(why) = cache {
        notes.push(Note::NotKept { why });
    }
    Ok(Library { work, kept, notes })
}

/// Puts a library into a folder to load it from: one that is known, or one that is compiled now, which is returned then.
fn fill(
    compiler: &Compiler,
    source: &str,
    cache: &Cache,
    known: Option<&[u8]>,
    work: &Work,
) -> Result<Option<Vec<u8>>, Unavailable> {
    let failed = |error: io::Error| Unavailable::Cache(work.path("").display().to_string(), error.to_string());
    if let Some(library) = known {
        std::fs::write(work.path(LIBRARY), library).map_err(failed)?;
        return Ok(None);
    }
    cache.sweep();
    compile(compiler, source, work)?;
    std::fs::read(work.path(LIBRARY)).map(Some).map_err(failed)
}

fn compile(compiler: &Compiler, source: &str, work: &Work) -> Result<(), Unavailable> {
    let input = work.path("kernel.rs");
    std::fs::write(&input, source)
        .map_err(|error| Unavailable::Cache(input.display().to_string(), error.to_string()))?;
    let run = compiler.command().args(FLAGS).arg("-o").arg(work.path(LIBRARY)).arg(&input).output();
    let run = run.map_err(|error| Unavailable::NoCompiler(compiler.name(), error.to_string()))?;
    if run.status.success() {
        return Ok(());
    }
    // Whether it is the source that it does not like.
    let message = |output: &[u8]| String::from_utf8_lossy(output).into_owned();
    match compiler.command().arg("-vV").output() {
        Ok(version) if version.status.success() => {
            Err(Unavailable::Refused(format!("{}: {}", run.status, message(&run.stderr))))
        }
        Ok(version) => Err(Unavailable::NoCompiler(compiler.name(), message(&version.stderr))),
        Err(error) => Err(Unavailable::NoCompiler(compiler.name(), error.to_string())),
    }
}
