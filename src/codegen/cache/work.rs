//! Folders for a moment: in which a library is compiled, and from which one is loaded.
//!
//! A folder holds a file that its process keeps locked for as long as it uses the folder. Locks end with their process, however it ends, so a
//! folder whose file can be locked was left over. This asks for no process by its number, which another process, or one on another machine
//! with the same home, may have too.

use std::fs::{DirBuilder, DirEntry, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[cfg(unix)]
use std::os::unix::fs::DirBuilderExt;

/// How the names of these folders begin.
pub const PREFIX: &str = "iverson-work-";
const LOCK: &str = "lock";
/// How many folders with such a name [`sweep`] looks at. Other names cost next to nothing, and there may be any number beside a temporary file.
const MOST: usize = 4096;
/// How many names are tried for a new folder.
const TRIES: usize = 100;
/// A folder without a lock that is older than this was left by a process that ended right after it had made the folder.
const OLD: Duration = Duration::from_secs(24 * 60 * 60);

/// A folder of our own, removed at the end.
#[derive(Debug)]
pub struct Work {
    folder: PathBuf,
    _lock: File,
}

impl Work {
    /// Makes a folder, readable by us only, in one in which nobody can change what is ours.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn new(parent: &Path) -> io::Result<Work> {
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        builder.mode(0o700);
        for _ in 0..TRIES {
            // Names that nobody can foresee and take first.
            let folder = parent.join(format!("{PREFIX}{:016x}", RandomState::new().hash_one(std::process::id())));
            match builder.create(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            match lock(&folder) {
                Ok(Some(lock)) => return Ok(Work { folder, _lock: lock }),
                // It was taken for left over before it was locked.
                Ok(None) => continue,
                Err(error) => {
                    let _ = std::fs::remove_dir_all(&folder);
                    return Err(error);
                }
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "no name is left for a folder"))
    }

    /// The path of a file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // What is left over is of no use to anybody, and the next sweep tries again.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Locks a new folder; nothing where somebody swept it meanwhile.
fn lock(folder: &Path) -> io::Result<Option<File>> {
    let path = folder.join(LOCK);
    let file = match OpenOptions::new().write(true).create_new(true).open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => return Ok(None),
        // A file system without locks: nobody sweeps there either.
        Err(std::fs::TryLockError::Error(_)) => return Ok(Some(file)),
    }
    // Whoever locked it first has removed it by now.
    Ok(path.exists().then_some(file))
}

/// Removes folders that processes left which were killed.
pub fn sweep(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    let is_named = |entry: &DirEntry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
    // It ends at an error, which may come again and again.
    for entry in entries.map_while(Result::ok).filter(is_named).take(MOST) {
        if is_folder_of_ours(&entry.path()) {
            // What cannot be removed now is tried again.
            let _ = remove_if_left(&entry.path());
        }
    }
}

fn remove_if_left(folder: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).open(folder.join(LOCK)) {
        Ok(lock) => match lock.try_lock() {
            Ok(()) => std::fs::remove_dir_all(folder),
            Err(_) => Ok(()),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let age = std::fs::symlink_metadata(folder)?.modified()?.elapsed();
            if age.is_ok_and(|age| age > OLD) { std::fs::remove_dir_all(folder) } else { Ok(()) }
        }
        Err(error) => Err(error),
    }
}

/// A folder, and no link to one, of our user.
fn is_folder_of_ours(path: &Path) -> bool {
    let Ok(found) = std::fs::symlink_metadata(path) else { return false };
    #[cfg(unix)]
    if std::os::unix::fs::MetadataExt::uid(&found) != super::trust::user() {
        return false;
    }
    found.is_dir()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(parent: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(parent).expect("a folder");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn folders_are_ours_and_go() {
        let parent = tempfile::tempdir().expect("a directory");
        let work = Work::new(parent.path()).expect("a folder");
        let other = Work::new(parent.path()).expect("another folder");
        assert_ne!(work.folder, other.folder);
        std::fs::write(work.path("file"), "text").expect("a file");
        #[cfg(unix)]
        {
            let mode = std::fs::metadata(&work.folder).expect("it is there").permissions();
            assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o700);
        }
        drop((work, other));
        assert!(names(parent.path()).is_empty());
    }

    #[test]
    fn many_other_names_hide_nothing() {
        let parent = tempfile::tempdir().expect("a directory");
        (0..MOST + 1).for_each(|i| File::create(parent.path().join(i.to_string())).map(drop).expect("a file"));
        for i in 0..50 {
            let left = parent.path().join(format!("{PREFIX}{i}"));
            std::fs::create_dir(&left).expect("a folder");
            std::fs::write(left.join(LOCK), "").expect("a file");
        }
        sweep(parent.path());
        assert_eq!(names(parent.path()).len(), MOST + 1);
    }

    #[test]
    fn what_was_left_is_swept_and_nothing_else() {
        let parent = tempfile::tempdir().expect("a directory");
        let in_use = Work::new(parent.path()).expect("a folder");
        let make = |name: &str| {
            let folder = parent.path().join(name);
            std::fs::create_dir(&folder).expect("a folder");
            folder
        };
        // Killed while it compiled; killed before it locked, now and long ago; what others call their things.
        let left = make(&format!("{PREFIX}left"));
        std::fs::write(left.join(LOCK), "").expect("a file");
        std::fs::write(left.join("kernel.rs"), "").expect("a file");
        make(&format!("{PREFIX}new"));
        let old = make(&format!("{PREFIX}old"));
        let long_ago = std::time::SystemTime::now() - 2 * OLD;
        File::open(&old).and_then(|file| file.set_modified(long_ago)).expect("a time");
        let other = make("other");
        std::fs::write(other.join(LOCK), "").expect("a file");
        #[cfg(unix)]
        std::os::unix::fs::symlink(&other, parent.path().join(format!("{PREFIX}link"))).expect("a link");
        sweep(parent.path());
        let in_use_name = in_use.folder.file_name().expect("a name").to_string_lossy().into_owned();
        let mut kept = vec![in_use_name, format!("{PREFIX}new"), "other".to_owned()];
        if cfg!(unix) {
            kept.push(format!("{PREFIX}link"));
        }
        kept.sort();
        assert_eq!(names(parent.path()), kept);
        assert_eq!(names(&other), [LOCK]);
    }
}
