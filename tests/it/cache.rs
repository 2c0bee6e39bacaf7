//! Compiled kernels on disk, as processes meet them: nothing of others is loaded, nothing damaged, and nothing is left over.
#![cfg(unix)]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A user that nobody is.
const STRANGER: u32 = 54321;

/// A program, its data, a compiler that notes its calls, and a home.
struct Place {
    directory: TempDir,
}

/// What a run did.
#[derive(Debug)]
struct Outcome {
    out: String,
    err: String,
    fine: bool,
}

const VALUE: &str = "value: 14.0\n";

fn script(path: &Path, text: &str) {
    fs::write(path, format!("#!/bin/sh\n{text}\n")).expect("a file");
    fs::set_permissions(path, Permissions::from_mode(0o755)).expect("a mode");
}

fn folder(path: PathBuf, mode: u32) -> PathBuf {
    fs::create_dir_all(&path).expect("a folder");
    fs::set_permissions(&path, Permissions::from_mode(mode)).expect("a mode");
    path
}

fn compiler() -> String {
    std::env::var("RUSTC").ok().filter(|name| !name.is_empty()).unwrap_or_else(|| "rustc".to_owned())
}

impl Place {
    fn new() -> Place {
        let place = Place { directory: tempfile::tempdir().expect("a directory") };
        fs::write(place.at("square.iv"), "param x : [n] real\nsum i < n. x[i]^2\n").expect("a file");
        fs::write(place.at("other.iv"), "param x : [n] real\nsum i < n. x[i]^3\n").expect("a file");
        fs::write(place.at("x.csv"), "1\n2\n3\n").expect("a file");
        folder(place.at("home"), 0o700);
        folder(place.at("tmp"), 0o1777);
        let log = place.at("log");
        script(&place.at("rustc"), &format!("echo \"$@\" >> '{}'\nexec {} \"$@\"", log.display(), compiler()));
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_iverson"));
        // What `rustup` needs to find its compilers without a home.
        for (name, folder) in [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")] {
            if let (None, Some(home)) = (std::env::var_os(name), std::env::var_os("HOME")) {
                command.env(name, Path::new(&home).join(folder));
            }
        }
        command.arg("run").arg(self.at(program)).arg("--input").arg(format!("x={}", self.at("x.csv").display()));
        command.args(["--engine", "native"]).env("RUSTC", self.at("rustc")).env("TMPDIR", self.at("tmp"));
        command.env_remove("XDG_CACHE_HOME").env("HOME", self.at("home")).current_dir(self.directory.path());
        command
    }

    fn run(&self, with: impl FnOnce(&mut Command) -> &mut Command) -> Outcome {
        let mut command = self.command("square.iv");
        with(&mut command);
        let done = command.output().expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Outcome { out: text(&done.stdout), err: text(&done.stderr), fine: done.status.success() }
    }

    /// How often the compiler was called up to now.
    fn calls(&self) -> usize {
        fs::read_to_string(self.at("log")).map_or(0, |log| log.lines().count())
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.at(folder)) else { return Vec::new() };
        let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
        entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect()
    }

    /// The library in a cache.
    fn library(&self, cache: &str) -> PathBuf {
        let names = self.names(cache);
        let name = names.iter().find(|name| name.ends_with(".kernel")).expect("a library");
        self.at(cache).join(name)
    }
}

impl Outcome {
    /// The right value, and what was said of the cache.
    fn says(&self, notes: &[&str]) {
        assert!(self.fine && self.out == VALUE, "{self:?}");
        assert_eq!(self.err.lines().count(), notes.len(), "{self:?}");
        for (line, note) in self.err.lines().zip(notes) {
            assert!(line.starts_with("note: ") && line.contains(note), "{self:?}, expected: {note}");
        }
    }
}

#[test]
fn the_compiler_is_called_once() {
    let place = Place::new();
    place.run(|command| command).says(&[]);
    assert_eq!(place.calls(), 1);
    place.run(|command| command).says(&[]);
    assert_eq!(place.calls(), 1, "the second run has its library");
    // From another folder.
    place.run(|command| command.current_dir("/")).says(&[]);
    assert_eq!(place.calls(), 1);
    assert_eq!(place.names("home/.cache/iverson").len(), 2);
    assert!(place.names("home/.cache/iverson/work").is_empty() && place.names("tmp").is_empty());
    // Another compiler.
    let text = fs::read_to_string(place.at("rustc")).expect("a script");
    fs::write(place.at("rustc"), format!("{text}# changed\n")).expect("a script");
    place.run(|command| command).says(&[]);
    assert_eq!(place.calls(), 2);
    assert_eq!(place.names("home/.cache/iverson").len(), 3);
    place.run(|command| command.env("XDG_CACHE_HOME", place.at("xdg"))).says(&[]);
    assert_eq!(place.names("xdg/iverson").len(), 2);
}

#[test]
fn without_a_home_nothing_is_kept() {
    let place = Place::new();
    // Where such a folder once was the cache.
    folder(place.at("tmp/iverson"), 0o700);
    let cases: [(Option<&str>, Option<&str>); 6] = [
        (None, None),
        (Some(""), None),
        (Some("home"), None),
        (None, Some("")),
        (Some("relative/home"), Some("relative/cache")),
        (Some("/nowhere/to/be/found"), None),
    ];
    for (home, cache) in cases {
        let outcome = place.run(|command| {
            for (name, value) in [("HOME", home), ("XDG_CACHE_HOME", cache)] {
                match value {
                    Some(value) => command.env(name, value),
                    None => command.env_remove(name),
                };
            }
            command
        });
        outcome.says(&["compiled kernels are not kept: neither XDG_CACHE_HOME nor HOME is the path of a folder"]);
        assert_eq!(place.names("tmp"), ["iverson"], "{home:?} {cache:?}");
        assert!(place.names("tmp/iverson").is_empty() && place.names("home").is_empty());
    }
    assert_eq!(place.calls(), cases.len());
    assert!(!place.at("relative").exists() && !Path::new("/nowhere").exists());
}

/// A library that writes a file as soon as it is loaded, in the form in which the cache has one under this name.
fn hostile(place: &Place, name: &str) -> Vec<u8> {
    let (source, library, mark) = (place.at("hostile.rs"), place.at("hostile.so"), place.at("loaded"));
    let text = format!(
        "extern \"C\" fn start() {{ let _ = std::fs::write({:?}, \"\"); }}\n\
         #[used]\n#[unsafe(link_section = \".init_array\")]\nstatic START: extern \"C\" fn() = start;\n",
        mark.display().to_string()
    );
    fs::write(&source, text).expect("a file");
    let mut command = Command::new(compiler());
    command.args(["--crate-type=cdylib", "--edition=2024", "-o"]).arg(&library).arg(&source);
    assert!(command.status().expect("it runs").success());
    let digest = |parts: &[&[u8]]| {
        let mut hash = hmac_sha256::Hash::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.finalize()
    };
    let hex = name.strip_suffix(".kernel").expect("the name of a library");
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
    let key: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
    let library = fs::read(&library).expect("a library");
    let sum = digest(&[&library, &key]);
    [&library, &b"iverson kernel 2"[..], &key, &sum].concat()
}

/// What somebody else could have put there is not loaded, whatever it is.
#[test]
#[cfg(target_os = "linux")]
fn nothing_of_others_is_loaded() {
    let place = Place::new();
    place.run(|command| command).says(&[]);
    let kept = place.library("home/.cache/iverson");
    let name = kept.file_name().expect("a name").to_string_lossy().into_owned();
    let hostile = hostile(&place, &name);
    let plant = |folder: &Path| {
        let path = folder.join(&name);
        fs::write(&path, &hostile).expect("a file");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("a mode");
        path
    };
    let in_cache = |base: &Path| {
        let base = base.to_owned();
        place.run(move |command| command.env("XDG_CACHE_HOME", base))
    };
    let is_root = fs::metadata(place.at("home")).is_ok_and(|found| std::os::unix::fs::MetadataExt::uid(&found) == 0);
    let give_away = |path: &Path| {
        if is_root {
            chown(path, Some(STRANGER), None).expect("the superuser may");
        } else {
            println!("skipped: only the superuser can give {} to somebody else", path.display());
        }
        is_root
    };
    let refused = |base: &Path, why: &str| {
        in_cache(base).says(&[why]);
        assert!(!place.at("loaded").exists(), "it was loaded from {}: {why}", base.display());
    };
    // It would be loaded, if it were ours.
    let ours = folder(place.at("ours"), 0o700);
    plant(&folder(ours.join("iverson"), 0o700));
    in_cache(&ours);
    assert!(place.at("loaded").exists(), "this test tests nothing");
    fs::remove_file(place.at("loaded")).expect("it is there");

    for (name, mode) in [("all", 0o777), ("group", 0o775), ("sticky", 0o1777)] {
        let base = folder(place.at(name), 0o700);
        plant(&folder(base.join("iverson"), mode));
        refused(&base, "can be written by others");
    }
    let base = folder(place.at("above"), 0o777);
    plant(&folder(base.join("iverson"), 0o700));
    refused(&base, "can be written by others");
    let base = folder(place.at("linked"), 0o700);
    symlink(ours.join("iverson"), base.join("iverson")).expect("a link");
    refused(&base, "is no folder");
    let base = folder(place.at("foreign"), 0o700);
    let cache = folder(base.join("iverson"), 0o755);
    plant(&cache);
    if give_away(&cache) {
        refused(&base, "belongs to user 54321");
    }
    let base = folder(place.at("foreign above"), 0o755);
    plant(&folder(base.join("iverson"), 0o700));
    if give_away(&base) {
        refused(&base, "belongs to user 54321");
    }
    // The library alone; it is put in order.
    for (name, mode) in [("library of all", 0o666), ("library of a group", 0o660)] {
        let base = folder(place.at(name), 0o700);
        let path = plant(&folder(base.join("iverson"), 0o700));
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("a mode");
        refused(&base, "can be written by others");
        in_cache(&base).says(&[]);
    }
    let base = folder(place.at("library of a stranger"), 0o700);
    let path = plant(&folder(base.join("iverson"), 0o700));
    if give_away(&path) {
        refused(&base, "belongs to user 54321");
        in_cache(&base).says(&[]);
    }
    let base = folder(place.at("library elsewhere"), 0o700);
    symlink(ours.join("iverson").join(&name), folder(base.join("iverson"), 0o700).join(&name)).expect("a link");
    refused(&base, "cannot be read");
    // A place for temporary files where others may remove ours is none.
    let open = folder(place.at("open"), 0o777);
    let outcome = place.run(|command| command.env_remove("HOME").env("TMPDIR", &open));
    assert!(!outcome.fine && outcome.err.contains("can be written by others"), "{outcome:?}");
    assert!(place.names("open").is_empty());
}

#[test]
fn damage_is_found_and_mended() {
    let place = Place::new();
    place.run(|command| command).says(&[]);
    let library = place.library("home/.cache/iverson");
    let whole = fs::read(&library).expect("a library");
    let mut other = place.command("other.iv");
    let other = other.env("XDG_CACHE_HOME", place.at("xdg")).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&other.stdout), "value: 36.0\n");
    let other = fs::read(place.library("xdg/iverson")).expect("a library");
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    let cases: [(&str, &[u8]); 6] = [
        ("is cut off", &[]),
        ("is cut off", &whole[..whole.len() / 2]),
        ("is cut off", &whole[..whole.len() - 1]),
        ("no compiled kernel", &[b'x'; 10_000]),
        ("is that of another kernel", &other),
        ("was changed", &flipped),
    ];
    for (why, bytes) in cases {
        fs::write(&library, bytes).expect("a file");
        let before = place.calls();
        place.run(|command| command).says(&[&format!("a kernel was compiled anew, since {} ", library.display())]);
        assert_eq!(place.calls(), before + 1);
        let again = place.run(|command| command);
        again.says(&[]);
        assert_eq!(place.calls(), before + 1, "{why}: it is mended");
    }
    fs::write(&library, &other).expect("a file");
    place.run(|command| command).says(&["is that of another kernel"]);
    // Many processes at once, while it is damaged.
    fs::write(&library, &whole[..100]).expect("a file");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let outcome = place.run(|command| command);
                assert!(outcome.fine && outcome.out == VALUE, "{outcome:?}");
            });
        }
    });
    place.run(|command| command).says(&[]);
    assert!(place.names("home/.cache/iverson/work").is_empty() && place.names("tmp").is_empty());
}

#[test]
fn killed_compilations_leave_nothing_for_ever() {
    let place = Place::new();
    script(&place.at("killer"), "kill -9 $PPID");
    for home in [true, false] {
        let work = if home { "home/.cache/iverson/work" } else { "tmp" };
        let run = |compiler: &str| {
            place.run(|command| {
                command.env("RUSTC", place.at(compiler));
                if home { command } else { command.env_remove("HOME") }
            })
        };
        for _ in 0..2 {
            assert!(!run("killer").fine);
            assert_eq!(place.names(work).len(), 1, "the one of this run, and none of earlier ones");
        }
        run("rustc").says(if home { &[] } else { &["are not kept"] });
        assert!(place.names(work).is_empty());
    }
}

/// A compiler that fails beside the cache as on a full disk, and works among temporary files.
#[test]
fn where_the_cache_has_no_room_temporary_files_do() {
    let place = Place::new();
    let full = |then: &str| {
        let [log, beside] = ["log", "home/.cache/iverson"].map(|name| place.at(name));
        let text =
            format!("echo \"$@\" >> '{}'\ncase \"$*\" in *'{}/'*) {then};; esac\n", log.display(), beside.display());
        script(&place.at("full"), &format!("{text}exec {} \"$@\"", compiler()));
    };
    for then in ["echo 'error: No space left on device (os error 28)' >&2; exit 1", "exit 0"] {
        full(then);
        let why = format!("compiled kernels are not kept: {} does not work in ", place.at("full").display());
        // On the disk of the test there is room, so that what was compiled elsewhere may be kept.
        let outcome = place.run(|command| command.env("RUSTC", place.at("full")));
        assert!(outcome.fine && outcome.out == VALUE, "{outcome:?}");
        assert!(outcome.err.is_empty() || outcome.err.contains(&why), "{outcome:?}");
        assert!(place.names("home/.cache/iverson/work").is_empty() && place.names("tmp").is_empty());
    }
    // A compiler that fails is asked for its version.
    assert_eq!(place.calls(), 5);
    // A source that is refused everywhere is said to be.
    script(&place.at("full"), "case $1 in -vV) exit 0;; esac\necho 'no such thing' >&2; exit 1");
    let outcome = place.run(|command| command.env("RUSTC", place.at("full")));
    assert!(!outcome.fine && outcome.err.contains("no such thing"), "{outcome:?}");
}

/// As a proxy without a toolchain.
#[test]
fn a_compiler_that_does_not_run_is_named() {
    let place = Place::new();
    script(&place.at("broken"), "echo 'no toolchain' >&2\nexit 1");
    let outcome = place.run(|command| command.env("RUSTC", place.at("broken")));
    assert!(!outcome.fine && outcome.err.contains("does not run: no toolchain"), "{outcome:?}");
    assert!(place.names("home/.cache/iverson/work").is_empty());
}

/// `rustup` runs the compiler that the nearest toolchain file above the working directory names, whoever wrote it.
#[test]
fn toolchain_files_where_we_run_are_not_followed() {
    let place = Place::new();
    let mark = place.at("ran");
    let bin = folder(place.at("toolchain/bin"), 0o755);
    folder(place.at("toolchain/lib"), 0o755);
    script(&bin.join("rustc"), &format!("touch '{}'\nexit 1", mark.display()));
    let name = format!("[toolchain]\npath = {:?}\n", place.at("toolchain"));
    fs::write(place.at("rust-toolchain.toml"), &name).expect("a file");
    let below = folder(place.at("project/below"), 0o755);
    fs::write(place.at("project/rust-toolchain"), &name).expect("a file");
    // Cargo sets the variables for its tests; then `rustup` asks for no file.
    let variables = ["RUSTUP_TOOLCHAIN", "RUSTUP_TOOLCHAIN_SOURCE"];
    let is_followed = |directory: &Path| {
        let mut command = Command::new(compiler());
        for name in variables {
            command.env_remove(name);
        }
        let _ = command.arg("-vV").current_dir(directory).output();
        let ran = mark.exists();
        let _ = fs::remove_file(&mark);
        ran
    };
    if ![place.directory.path(), &below].into_iter().all(is_followed) {
        println!("skipped: {} is no proxy of rustup", compiler());
        return;
    }
    for (run, directory) in [place.directory.path(), &below].into_iter().enumerate() {
        let cache = place.at(&format!("cache {run}"));
        let outcome = place.run(|command| {
            for name in variables {
                command.env_remove(name);
            }
            command.env("RUSTC", compiler()).env("XDG_CACHE_HOME", &cache).current_dir(directory)
        });
        outcome.says(&[]);
        assert!(!mark.exists(), "a toolchain file in {} was followed", directory.display());
        assert_eq!(fs::read_dir(cache.join("iverson")).expect("a cache").count(), 2, "it was compiled");
    }
    // A toolchain that the user names is used.
    let outcome = place.run(|command| command.env("RUSTC", compiler()).env("RUSTUP_TOOLCHAIN", place.at("toolchain")));
    assert!(!outcome.fine && mark.exists(), "{outcome:?}");
}

/// A compiler that is named from where we run is found, wherever it runs itself.
#[test]
fn a_compiler_may_have_a_relative_path() {
    let place = Place::new();
    folder(place.at("below"), 0o755);
    place.run(|command| command.env("RUSTC", "../rustc").current_dir(place.at("below"))).says(&[]);
    assert_eq!(place.calls(), 1);
    let call = fs::read_to_string(place.at("log")).expect("a log");
    let paths = call.split_whitespace().filter(|argument| argument.contains("kernel."));
    assert!(paths.clone().count() == 2 && paths.into_iter().all(|path| path.starts_with('/')), "{call}");
}
