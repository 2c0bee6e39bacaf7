//! Compiling sources with `rustc`, with a cache on disk.
//!
//! A library is named by a hash of its source, of the compiler and of how it is called. The cache is `$XDG_CACHE_HOME/iverson` or
//! `~/.cache/iverson`, readable by its owner only; a library appears in it under its name by a rename, so nobody sees half of one.

use std::ffi::OsString;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Why there is no native code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The compiler does not run.
    #[error("`{0}` does not run: {1}")]
    NoCompiler(String, String),
    /// There is no place for the cache.
    #[error("the cache {0}: {1}")]
    Cache(String, String),
    /// The compiler refuses the source, which is our fault.
    #[error("the compiler refuses its source: {0}")]
    Refused(String),
    /// The library cannot be loaded.
    #[error("the library cannot be loaded: {0}")]
    Load(String),
}

/// How `rustc` is called. The vectors of the processor at hand are used to their full width.
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

/// The compiler: `$RUSTC`, or `rustc`.
fn compiler() -> OsString {
    std::env::var_os("RUSTC").filter(|name| !name.is_empty()).unwrap_or_else(|| "rustc".into())
}

/// What the compiler says of itself; asked once.
fn version(compiler: &OsString) -> Result<String, Unavailable> {
    static KNOWN: Mutex<Option<(OsString, String)>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((name, version)) = known.as_ref()
        && name == compiler
    {
        return Ok(version.clone());
    }
    let version = ask_version(compiler)?;
    *known = Some((compiler.clone(), version.clone()));
    Ok(version)
}

fn ask_version(compiler: &OsString) -> Result<String, Unavailable> {
    let failed = |message: String| Unavailable::NoCompiler(compiler.to_string_lossy().into_owned(), message);
    let output = Command::new(compiler).arg("-vV").output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn cache() -> Result<PathBuf, Unavailable> {
    let base = std::env::var_os("XDG_CACHE_HOME").filter(|path| Path::new(path).is_absolute()).map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let directory = base.or_else(home).unwrap_or_else(std::env::temp_dir).join("iverson");
    make_private(&directory).map_err(|error| Unavailable::Cache(directory.display().to_string(), error.to_string()))?;
    Ok(directory)
}

/// Makes a directory that only its owner can read.
fn make_private(directory: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// 128 bits of a text, by FNV-1a and the hash of the standard library: names that do not meet by accident.
fn fingerprint(parts: &[&str]) -> String {
    let mut fnv = 0xcbf2_9ce4_8422_2325_u64;
    let mut other = rustc_hash::FxHasher::default();
    for part in parts {
        for byte in part.bytes().chain([0]) {
            fnv = (fnv ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        part.hash(&mut other);
    }
    format!("{fnv:016x}{:016x}", other.finish())
}

/// The features of the processor, for libraries in a cache that several machines share.
fn processor() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            return "avx512";
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            return "avx2";
        }
    }
    std::env::consts::ARCH
}

/// The library of a source: from the cache, or compiled now.
///
/// # Errors
/// Why there is none.
pub fn library(source: &str) -> Result<PathBuf, Unavailable> {
    let compiler = compiler();
    let version = version(&compiler)?;
    let directory = cache()?;
    let mut parts = vec![source, &version, processor()];
    parts.extend(FLAGS);
    let name = fingerprint(&parts);
    let path = directory.join(format!("{name}.so"));
    if path.exists() {
        return Ok(path);
    }
    let failed = |error: io::Error| Unavailable::Cache(directory.display().to_string(), error.to_string());
    // A directory of this process alone, so that two that compile the same do not meet.
    let thread = std::thread::current().id();
    let work = directory.join(format!("{name}.{}.{thread:?}", std::process::id()));
    make_private(&work).map_err(failed)?;
    let result = compile(&compiler, source, &work, &path).map_err(|error| match error {
        Failure::Io(error) => failed(error),
        Failure::Refused(message) => Unavailable::Refused(message),
    });
    // What is left over is of no use to anybody.
    let _ = std::fs::remove_dir_all(&work);
    result.map(|()| path)
}

enum Failure {
    Io(io::Error),
    Refused(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Io(error)
    }
}

fn compile(compiler: &OsString, source: &str, work: &Path, path: &Path) -> Result<(), Failure> {
    let (input, output) = (work.join("kernel.rs"), work.join("kernel.so"));
    std::fs::write(&input, source)?;
    let run = Command::new(compiler).args(FLAGS).arg("-o").arg(&output).arg(&input).output()?;
    if !run.status.success() {
        return Err(Failure::Refused(String::from_utf8_lossy(&run.stderr).into_owned()));
    }
    std::fs::rename(&output, path)?;
    Ok(())
}
