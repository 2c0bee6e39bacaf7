//! Where output goes, and what is left where it cannot go there.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use super::Place;

/// A reader that goes away, as `head` does, is no error.
#[test]
fn readers_that_go_away() {
    let place = Place::new();
    let lines: String = (0..20_000).map(|k| format!("let y{k} = x in\n")).collect();
    for text in ["param x : real\nx".to_owned(), format!("param x : real\n{lines}y7")] {
        let mut child = place.command("show -").stdin(Stdio::piped()).spawn().expect("the command starts");
        drop(child.stdout.take());
        child.stdin.take().expect("a standard input").write_all(text.as_bytes()).expect("it reads");
        let mut err = String::new();
        child.stderr.take().expect("a standard error").read_to_string(&mut err).expect("text");
        let status = child.wait().expect("it ends");
        assert_eq!((status.code(), err.as_str()), (Some(0), ""));
    }
}

/// A result that does not fit leaves what was there before, and nothing else.
#[cfg(target_os = "linux")]
#[test]
fn results_that_do_not_fit() {
    let place = Place::new();
    std::fs::write(place.path("long.iv"), "param x : real\n(x, gen i < 1000. x)\n").expect("it is written");
    let files = || {
        let entries = std::fs::read_dir(place.path("out")).expect("a directory");
        let mut names: Vec<String> =
            entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    place.good("run long.iv --scalar x=1 --output out");
    // Files of at most 4 blocks of 512 bytes.
    let command = "trap '' XFSZ; ulimit -f 4; exec \"$0\" run long.iv --scalar x=2 --output out";
    let mut limited = Command::new("sh");
    limited.current_dir(place.path("")).args(["-c", command, env!("CARGO_BIN_EXE_iverson")]);
    let output = limited.output().expect("the command runs");
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.starts_with("error: out/value_1.npy: this file cannot be written: "), "{err}");
    assert_eq!(files(), ["value_0.npy", "value_1.npy"]);
    assert_eq!(place.dense("out/value_0.npy"), (vec![], vec![2.0]));
    assert_eq!(place.dense("out/value_1.npy"), (vec![1000], vec![1.0; 1000]));
}

#[cfg(target_os = "linux")]
#[test]
fn disks_that_are_full() {
    let place = Place::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
    let output = place.command("show blur.iv").stdout(full).output().expect("the command runs");
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.starts_with("error: standard output: "), "{err}");
}
