//! Whether nobody but us can change what a path leads to.
//!
//! A path is followed from the root on, name by name, symbolic links too. Each folder on the way must belong to us or to the superuser, and
//! others may not write to it, unless it is sticky, as `/tmp` is: there others can add names, but neither remove nor rename ours. So
//! when a name is looked up, nobody else can change what it stands for, neither then nor later, and what was checked is what is used. This is
//! what `sshd` asks of the folders above the keys of a user, and for the same reason.
//!
//! The last folder, whose content we trust, must be no link, belong to us, and be closed to the writing of others, sticky or not.

use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

/// How many symbolic links a path may lead over, as on Linux.
const MOST_LINKS: usize = 40;

/// Permissions of the group and of others to write.
const WRITABLE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Our effective user.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether something belongs to us, and only we can write to it; else why not.
pub fn is_ours(found: &Metadata) -> Result<(), String> {
    if found.uid() != user() {
        return Err(format!("belongs to user {}, not to user {}", found.uid(), user()));
    }
    if found.mode() & WRITABLE != 0 {
        return Err(format!("can be written by others (its mode is {:o})", found.mode() & 0o7777));
    }
    Ok(())
}

/// Follows a path to a folder that is ours alone. Folders that are missing are made, readable by us only.
///
/// # Errors
/// Which folder is not as it should be.
pub fn own_folder(path: &Path) -> Result<PathBuf, String> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(format!("{} cannot be a folder of our own", path.display()));
    };
    let path = guarded_folder(parent)?.join(name);
    let found = found_or_made(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    if !found.is_dir() {
        return Err(format!("{} is no folder", path.display()));
    }
    is_ours(&found).map_err(|why| format!("{} {why}", path.display()))?;
    Ok(path)
}

/// Follows a path to a folder in which nobody can change what is ours. Folders that are missing are made, readable by us only.
///
/// # Errors
/// Which folder is not as it should be.
pub fn guarded_folder(path: &Path) -> Result<PathBuf, String> {
    let mut here = PathBuf::from("/");
    let mut left = names(path)?;
    let mut links = 0;
    check_guarded(&here, &std::fs::symlink_metadata(&here).map_err(|error| error.to_string())?)?;
    while let Some(name) = left.pop() {
        if name == ".." {
            // `here` has no links in it.
            here.pop();
            continue;
        }
        let next = here.join(&name);
        let failed = |error: io::Error| format!("{}: {error}", next.display());
        let found = found_or_made(&next).map_err(failed)?;
        if found.is_symlink() {
            links += 1;
            if links > MOST_LINKS {
                return Err(format!("{} leads over too many links", path.display()));
            }
            check_owner(&next, &found)?;
            let target = std::fs::read_link(&next).map_err(failed)?;
            if target.is_absolute() {
                here = PathBuf::from("/");
            }
            left.extend(names(&Path::new("/").join(target))?);
        } else {
            check_guarded(&next, &found)?;
            here = next;
        }
    }
    Ok(here)
}

/// The names of an absolute path, the last one first.
fn names(path: &Path) -> Result<Vec<OsString>, String> {
    let mut names = Vec::new();
    for component in path.components().rev() {
        match component {
            Component::Normal(name) => names.push(name.to_owned()),
            Component::ParentDir => names.push("..".into()),
            Component::CurDir | Component::RootDir => {}
            Component::Prefix(_) => return Err(format!("{} has a prefix", path.display())),
        }
    }
    match path.is_absolute() {
        true => Ok(names),
        false => Err(format!("{} is not absolute", path.display())),
    }
}

/// What a name stands for, a link itself; a folder where there is nothing.
fn found_or_made(path: &Path) -> io::Result<Metadata> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        found => return found,
    }
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        // Somebody else was faster; who, is checked.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made?,
    }
    std::fs::symlink_metadata(path)
}

fn check_owner(path: &Path, found: &Metadata) -> Result<(), String> {
    match found.uid() {
        0 => Ok(()),
        owner if owner == user() => Ok(()),
        owner => Err(format!("{} belongs to user {owner}", path.display())),
    }
}

fn check_guarded(path: &Path, found: &Metadata) -> Result<(), String> {
    if !found.is_dir() {
        return Err(format!("{} is no folder", path.display()));
    }
    check_owner(path, found)?;
    match found.mode() & WRITABLE != 0 && found.mode() & STICKY == 0 {
        true => Err(format!("{} can be written by others (its mode is {:o})", path.display(), found.mode() & 0o7777)),
        false => Ok(()),
    }
}
