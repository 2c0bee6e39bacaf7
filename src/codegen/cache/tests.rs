//! What is kept, what is refused, and why.
#![cfg(unix)]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use super::*;

/// A user that nobody is.
const STRANGER: u32 = 54321;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
}

fn folder(path: PathBuf, mode: u32) -> PathBuf {
    fs::create_dir(&path).expect("a folder");
    set_mode(&path, mode);
    path
}

/// Gives a file away; false where we may not.
fn give_away(path: &Path) -> bool {
    let given = trust::user() == 0;
    if given {
        chown(path, Some(STRANGER), None).expect("the superuser may");
    } else {
        println!("skipped: only the superuser can give {} to somebody else", path.display());
    }
    given
}

fn key(text: &str) -> Digest {
    Digest::of([text.as_bytes()])
}

#[test]
fn libraries_are_kept() {
    let home = tempfile::tempdir().expect("a directory");
    let cache = Cache::Folder(own(&home.path().join("iverson")).expect("it is made"));
    let work = cache.work().expect("a folder");
    assert_eq!(cache.read(&key("a")), Ok(None));
    cache.keep(&key("a"), b"library of a".to_vec(), &work).expect("it is kept");
    let other = cache.work().expect("a folder");
    cache.keep(&key("b"), Vec::new(), &other).expect("it is kept");
    assert_eq!(
        cache.read(&key("a")).map(|found| found.map(|found| found.to_vec())),
        Ok(Some(b"library of a".to_vec()))
    );
    assert_eq!(cache.read(&key("b")).map(|found| found.map(|found| found.to_vec())), Ok(Some(Vec::new())));
    let path = cache.path(&key("a")).expect("it is on disk");
    assert_eq!(fs::metadata(path).expect("it is there").permissions().mode() & 0o777, 0o600);
}

#[test]
fn what_is_not_what_was_kept_is_refused() {
    let home = tempfile::tempdir().expect("a directory");
    let cache = Cache::Folder(own(&home.path().join("iverson")).expect("it is made"));
    for (name, library) in [("a", b"library of a"), ("b", b"library of b")] {
        cache.keep(&key(name), library.to_vec(), &cache.work().expect("a folder")).expect("it is kept");
    }
    let path = cache.path(&key("a")).expect("it is on disk");
    let whole = fs::read(&path).expect("bytes");
    let refused = |bytes: &[u8], why: &str| {
        fs::write(&path, bytes).expect("a file");
        let found = cache.read(&key("a"));
        assert!(found.as_ref().is_err_and(|message| message.contains(why)), "{found:?}, expected: {why}");
    };
    for len in 0..whole.len() {
        refused(&whole[..len], "is cut off");
    }
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x10;
        let place = at.checked_sub(whole.len() - TRAILER);
        let why = match place {
            None => "was changed",
            Some(..16) => "no compiled kernel",
            Some(16..48) => "of another kernel",
            Some(_) => "was changed",
        };
        refused(&changed, why);
    }
    refused(b"garbage", "is cut off");
    refused(&[7; 5000], "no compiled kernel");
    let other = cache.path(&key("b")).expect("it is on disk");
    refused(&fs::read(&other).expect("bytes"), "of another kernel");

    fs::write(&path, &whole).expect("a file");
    assert!(cache.read(&key("a")).is_ok_and(|found| found.is_some()));
    let says = |why: &str| {
        let found = cache.read(&key("a"));
        assert!(found.as_ref().is_err_and(|message| message.contains(why)), "{found:?}, expected: {why}");
    };
    for mode in [0o620, 0o602, 0o666] {
        set_mode(&path, mode);
        says("can be written by others");
    }
    set_mode(&path, 0o600);
    if give_away(&path) {
        says("belongs to user 54321");
    }
    fs::remove_file(&path).expect("it is there");
    symlink(&other, &path).expect("a link");
    says("cannot be read");
    fs::remove_file(&path).expect("it is there");
    fs::create_dir(&path).expect("a folder");
    says("is no file");
    fs::remove_dir(&path).expect("it is there");
    // A pipe that nobody writes to is not waited for.
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    if made.is_ok_and(|status| status.success()) {
        says("is no file");
    }
}

#[test]
fn folders_must_be_ours_alone() {
    let place = tempfile::tempdir().expect("a directory");
    let at = |name: &str| place.path().join(name);
    let says = |path: &Path, why: &str| {
        let found = own(path);
        assert!(found.as_ref().is_err_and(|message| message.contains(why)), "{}: {found:?}, not {why}", path.display());
    };
    // Ours, made on the way, readable by us only.
    let made = own(&at("home").join(".cache/iverson")).expect("it is made");
    for folder in made.ancestors().take(3) {
        assert_eq!(fs::metadata(folder).expect("it is there").permissions().mode() & 0o777, 0o700);
    }
    assert_eq!(own(&made).as_ref(), Ok(&made));

    // The folder itself.
    for (name, mode) in [("all", 0o777), ("group", 0o770), ("others", 0o702), ("sticky", 0o1777)] {
        says(&folder(at(name), mode), "can be written by others");
    }
    let foreign = folder(at("foreign"), 0o700);
    if give_away(&foreign) {
        says(&foreign, "belongs to user 54321");
    }
    let link = at("link");
    symlink(&made, &link).expect("a link");
    says(&link, "is no folder");
    fs::write(at("file"), "").expect("a file");
    says(&at("file"), "is no folder");

    // Those above it.
    for (name, mode) in [("above all", 0o777), ("above group", 0o770)] {
        let above = folder(at(name), mode);
        says(&folder(above.join("iverson"), 0o700), "can be written by others");
        says(&above.join("not made"), "can be written by others");
        assert!(!above.join("not made").exists());
    }
    let above = folder(at("above sticky"), 0o1777);
    assert!(own(&above.join("iverson")).is_ok());
    let foreign = folder(at("above foreign"), 0o755);
    folder(foreign.join("iverson"), 0o700);
    if give_away(&foreign) {
        says(&foreign.join("iverson"), "belongs to user 54321");
    }
    says(&at("file").join("iverson"), "is no folder");
    says(Path::new("relative/iverson"), "is not absolute");
    says(Path::new("/"), "cannot be a folder of our own");
}

#[test]
fn links_on_the_way_are_followed_where_they_are_ours() {
    let place = tempfile::tempdir().expect("a directory");
    let at = |name: &str| place.path().join(name);
    let real = folder(at("real"), 0o700);
    let expected = fs::canonicalize(&real).expect("it is there").join("iverson");
    folder(at("deep"), 0o700);
    symlink(&real, at("absolute")).expect("a link");
    symlink("../deep/../absolute", at("deep").join("relative")).expect("a link");
    symlink("around", at("around")).expect("a link");
    for path in [at("absolute"), at("deep").join("relative"), at("deep/./relative/../real")] {
        assert_eq!(own(&path.join("iverson")).as_ref(), Ok(&expected), "{}", path.display());
    }
    let found = own(&at("around").join("iverson"));
    assert!(found.as_ref().is_err_and(|why| why.contains("too many links")), "{found:?}");
    // A link of somebody else, in a folder where everybody may add names.
    let shared = folder(at("shared"), 0o1777);
    let link = shared.join("link");
    symlink(&real, &link).expect("a link");
    assert!(own(&link.join("iverson")).is_ok());
    if trust::user() == 0 {
        std::os::unix::fs::lchown(&link, Some(STRANGER), None).expect("the superuser may");
        let found = own(&link.join("iverson"));
        assert!(found.as_ref().is_err_and(|why| why.contains("belongs to user 54321")), "{found:?}");
    }
    // A link into a folder that others may write to.
    let open = folder(at("open"), 0o777);
    folder(open.join("inside"), 0o700);
    symlink(open.join("inside"), at("into")).expect("a link");
    assert!(own(&at("into").join("iverson")).is_err_and(|why| why.contains("can be written by others")));
}
