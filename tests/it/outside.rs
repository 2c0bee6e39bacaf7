//! Programs made and evaluated by code that shares nothing with this crate: `tests/outside`, some of them.

use std::process::Command;

#[test]
fn programs_from_outside_agree() {
    agree(&["--programs", "100", "--seed", "test"]);
}

/// `a[-q]` and `real(q - 1)` in a definition, where `q` is a size of its own; `(2 * x) * y`, where `2 * x` is too large and a factor leaves the sum.
#[test]
fn sizes_of_definitions_and_factors_of_sums() {
    agree(&["--only", "121", "--seed", "audit20b"]);
    agree(&["--only", "1941", "--seed", "31"]);
}

fn agree(programs: &[&str]) {
    let python = ["python3.14", "python3.13", "python3.12", "python3.11", "python3"].into_iter().find(|python| {
        let version = Command::new(python).args(["-c", "import sys; sys.exit(sys.version_info < (3, 11))"]).status();
        version.is_ok_and(|status| status.success())
    });
    let Some(python) = python else {
        // It is no part of what the crate needs; CI has it.
        eprintln!("skipped: there is no python3 of version 3.11 or later");
        return;
    };
    let failures = tempfile::tempdir().unwrap();
    let output = Command::new(python)
        .arg("-B")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/outside/run.py"))
        .args(["--quick", "--quiet", "--jobs", "2", "--minimise", "1"])
        .args(programs)
        .args(["--binary", env!("CARGO_BIN_EXE_iverson"), "--failures"])
        .arg(failures.path())
        .output()
        .unwrap();
    let (said, failed) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{failed}");
    println!("{said}");
}
