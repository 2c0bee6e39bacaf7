//! Compiled kernels on disk.
//!
//! The cache is the folder `$XDG_CACHE_HOME/iverson`, or `~/.cache/iverson`. What is loaded runs as we do, so nothing is loaded that somebody else
//! could have put there: the folder must be ours alone, and nobody else may be able to put another one in its place ([`trust`]). Where there is no
//! such folder, or no room in it, nothing is kept on disk, and whoever binds a kernel is told why.
//!
//! | module | does |
//! |---|---|
//! | `digest` | hashes |
//! | `trust` | whether a folder is ours alone |
//! | `work` | folders in which we compile, and from which we load; those of processes that were killed are removed |
//!
//! An entry is a library, followed by what it was made of and by a digest of both:
//!
//! ```text
//! library .. | MARK | key | digest of library and key
//! ```
//!
//! Under its name it appears by a rename, so nobody sees half of one; what a full disk, a crash or a person does to it is found by the digest, and
//! that it is the library of another kernel by the key. The bytes are read once, through a descriptor that is checked after it was opened, and
//! the bytes that were checked are those that are loaded: they are written to a folder of this process alone, which is removed as soon as they are
//! in memory. So no change of the cache reaches a library that is in use; and no two libraries are loaded under one name, which `dlopen`
//! takes for the same library (that rules out `/proc/self/fd`).

mod digest;
#[cfg(unix)]
mod trust;
mod work;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub use digest::Digest;
pub use work::Work;

/// What stands between a library and its key.
const MARK: &[u8; 16] = b"iverson kernel 2";
/// What follows a library.
const TRAILER: usize = MARK.len() + 2 * Digest::LEN;

/// Libraries of this process where none are kept on disk.
static IN_MEMORY: Mutex<BTreeMap<Digest, Arc<[u8]>>> = Mutex::new(BTreeMap::new());

/// Where libraries are kept.
#[derive(Debug)]
pub enum Cache {
    /// In a folder that is ours alone.
    Folder(PathBuf),
    /// In the memory of this process, and why.
    Memory(String),
}

impl Cache {
    /// The cache that the environment names, if it is ours alone.
    pub fn open() -> Cache {
        match folder() {
            Ok(folder) => Cache::Folder(folder),
            Err(why) => Cache::Memory(why),
        }
    }

    /// Where a library is on disk.
    pub fn path(&self, key: &Digest) -> Option<PathBuf> {
        match self {
            Cache::Folder(folder) => Some(folder.join(format!("{key}.kernel"))),
            Cache::Memory(_) => None,
        }
    }

    /// The library of a key, if there is one.
    ///
    /// # Errors
    /// What is wrong with the one that there is.
    pub fn read(&self, key: &Digest) -> Result<Option<Arc<[u8]>>, String> {
        match self.path(key) {
            Some(path) => read(&path, key),
            None => Ok(IN_MEMORY.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()),
        }
    }

    /// Keeps the library of a key, which is in a folder for work; there is room for another file in it.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn keep(&self, key: &Digest, library: Vec<u8>, work: &Work) -> io::Result<()> {
        let Some(path) = self.path(key) else {
            IN_MEMORY.lock().unwrap_or_else(PoisonError::into_inner).insert(*key, library.into());
            return Ok(());
        };
        let entry = work.path("entry");
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&entry)?;
        for part in [&library, &MARK[..], key.as_bytes(), digest(&library, key).as_bytes()] {
            file.write_all(part)?;
        }
        drop(file);
        std::fs::rename(&entry, path)
    }

    /// A folder to compile in or to load from, beside the libraries or, where that is not possible, among temporary files.
    ///
    /// # Errors
    /// Why there is none.
    pub fn work(&self) -> Result<Work, (PathBuf, String)> {
        if let Cache::Folder(folder) = self
            && let Ok(work) = folder_for_work(folder).and_then(|folder| Work::new(&folder))
        {
            return Ok(work);
        }
        Cache::temporary()
    }

    /// Whether a folder for work is beside the libraries.
    pub fn holds(&self, work: &Work) -> bool {
        matches!(self, Cache::Folder(folder) if work.path("").starts_with(folder))
    }

    /// A folder for work among temporary files.
    ///
    /// # Errors
    /// Why there is none.
    pub fn temporary() -> Result<Work, (PathBuf, String)> {
        let temporary = std::env::temp_dir();
        let made = guarded(&temporary).and_then(|folder| Work::new(&folder).map_err(|error| error.to_string()));
        made.map_err(|why| (temporary, why))
    }

    /// Removes what processes left that were killed while they compiled.
    pub fn sweep(&self) {
        if let Cache::Folder(folder) = self
            && let Ok(folder) = folder_for_work(folder)
        {
            work::sweep(&folder);
        }
        if let Ok(temporary) = guarded(&std::env::temp_dir()) {
            work::sweep(&temporary);
        }
    }
}

/// Where the environment wants the cache.
fn folder() -> Result<PathBuf, String> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = variable("XDG_CACHE_HOME").or_else(|| {
        // A home that is not there is not made.
        variable("HOME").filter(|home| home.is_dir()).map(|home| home.join(".cache"))
    });
    let base = base.ok_or("neither XDG_CACHE_HOME nor HOME is the path of a folder")?;
    own(&base.join("iverson"))
}

#[cfg(unix)]
use trust::{guarded_folder as guarded, own_folder as own};

/// Elsewhere it is not known to whom a folder belongs.
#[cfg(not(unix))]
fn own(_: &Path) -> Result<PathBuf, String> {
    Err("on this system it is not known to whom a folder belongs".to_owned())
}

/// Elsewhere temporary files are those of a user.
#[cfg(not(unix))]
fn guarded(path: &Path) -> Result<PathBuf, String> {
    Ok(path.to_owned())
}

/// The folder beside the libraries that holds folders for work and nothing else, so that these are found without looking at all libraries.
fn folder_for_work(cache: &Path) -> io::Result<PathBuf> {
    let folder = cache.join("work");
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(folder),
    }
}

fn digest(library: &[u8], key: &Digest) -> Digest {
    Digest::of([library, key.as_bytes()])
}

/// Opens a file to read, without following a link and without waiting for a pipe.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags.bits().cast_signed());
    }
    options.open(path)
}

/// The library in a file, if it is the one of this key.
fn read(path: &Path, key: &Digest) -> Result<Option<Arc<[u8]>>, String> {
    let failed = |error: io::Error| format!("cannot be read: {error}");
    let mut file = match open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(failed)?,
    };
    let found = file.metadata().map_err(failed)?;
    if !found.is_file() {
        return Err("is no file".to_owned());
    }
    #[cfg(unix)]
    trust::is_ours(&found)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(failed)?;
    let split = bytes.len().checked_sub(TRAILER).and_then(|at| bytes.split_at_checked(at));
    let Some((library, trailer)) = split else { return Err("is cut off".to_owned()) };
    let (mark, rest) = trailer.split_at(MARK.len());
    let (made_of, sum) = rest.split_at(Digest::LEN);
    if mark != MARK {
        return Err("is cut off, or no compiled kernel".to_owned());
    }
    if made_of != key.as_bytes() {
        return Err("is that of another kernel".to_owned());
    }
    if sum != digest(library, key).as_bytes() {
        return Err("was changed after it had been compiled".to_owned());
    }
    Ok(Some(library.into()))
}

#[cfg(test)]
mod tests;
