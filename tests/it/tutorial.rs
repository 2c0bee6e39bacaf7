//! The short programs of the tutorial are short.

use std::path::Path;

/// The lines of the code that a reader sees, blank ones aside.
fn lines(code: &str) -> usize {
    code.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("# ") && !line.starts_with("//!")).count()
}

#[test]
fn short_programs_have_few_lines() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).expect("the file is there");
    let page = read("src/tutorial/short.md");
    let blocks: Vec<&str> = page.split("```").skip(1).step_by(2).collect();
    let found: Vec<usize> = blocks.iter().map(|block| lines(block)).collect();
    let most = [25, 10, 5, 5];
    assert_eq!(found.len(), most.len(), "the page has other programs");
    assert!(found.iter().zip(most).all(|(found, most)| *found <= most), "{found:?} lines, at most {most:?} are short");
    let newton = lines(&read("examples/newton/src/bin/short.rs"));
    assert!(newton <= 25, "Newton's method takes {newton} lines");
}
