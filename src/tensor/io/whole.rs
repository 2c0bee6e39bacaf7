//! Files that are there as a whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;

/// Replaces a file, or makes one: the bytes are written beside it, brought to the disk, and then take its name.
///
/// What is no regular file, such as a pipe, is written to. The file that a symbolic link leads to is replaced, not the link. A file that
/// may not be written is not replaced either, and the new one has the permissions of the old.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_by(path, |file| file.write_all(bytes))
}

/// The same with what writes.
fn write_by(path: &Path, contents: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let (path, permissions) = match fs::metadata(path) {
        Ok(old) => {
            let mut file = OpenOptions::new().write(true).open(path)?;
            if !old.is_file() {
                return contents(&mut file);
            }
            (fs::canonicalize(path)?, Some(old.permissions()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => (path.to_path_buf(), None),
        Err(error) => return Err(error),
    };
    let (mut file, beside) = beside(&path)?;
    let written = contents(&mut file)
        .and_then(|()| permissions.map_or(Ok(()), |permissions| file.set_permissions(permissions)))
        // A disk may be found full only now.
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&beside, &path));
    if written.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// A new file in the same directory.
fn beside(path: &Path) -> io::Result<(File, PathBuf)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut number = 0u64;
    loop {
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{number}.part", process::id()));
        let beside = path.with_file_name(hidden);
        match OpenOptions::new().write(true).create_new(true).open(&beside) {
            // Left by a process that was killed, or just being written by another thread.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            other => return other.map(|file| (file, beside)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_write_that_fails_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.npy");
        let fails = |file: &mut File| {
            file.write_all(b"half of")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        };
        assert_eq!(write_by(&path, fails).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(names(directory.path()), [""; 0]);
        write(&path, b"old").unwrap();
        assert_eq!(write_by(&path, fails).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!((fs::read(&path).unwrap(), names(directory.path())), (b"old".to_vec(), vec!["x.npy".to_string()]));
        // Until the new file is whole, the old one is there.
        let reads = |file: &mut File| {
            file.write_all(b"new")?;
            assert_eq!(fs::read(&path).unwrap(), b"old");
            Ok(())
        };
        write_by(&path, reads).unwrap();
        assert_eq!((fs::read(&path).unwrap(), names(directory.path())), (b"new".to_vec(), vec!["x.npy".to_string()]));
        // What another process left is no obstacle.
        let left = format!(".x.npy.{}-0.part", process::id());
        fs::write(directory.path().join(&left), b"left").unwrap();
        write(&path, b"newer").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"newer");
        assert_eq!(names(directory.path()), [left, "x.npy".to_string()]);
    }

    #[cfg(unix)]
    #[test]
    fn links_permissions_and_devices_stay() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let directory = tempfile::tempdir().unwrap();
        let (path, link) = (directory.path().join("x.npy"), directory.path().join("link.npy"));
        write(&path, b"old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("x.npy", &link).unwrap();
        write(&link, b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(names(directory.path()), ["link.npy", "x.npy"]);
        write(Path::new("/dev/null"), b"nothing").unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_device_is_an_error() {
        let error = write(Path::new("/dev/full"), b"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
