//! Which module uses which: the table in `src/lib.rs` is what the code says, and has no circles.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

type Table = BTreeMap<String, BTreeSet<String>>;

/// The rows of the table of imports.
fn table(text: &str) -> Table {
    let (_, rest) = text.split_once("//! # Who uses whom").expect("the table is there");
    let rest = rest.split("//! # ").next().unwrap_or_default();
    let names = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let mut table = Table::new();
    for row in rest.lines().filter(|line| line.starts_with("//! | `")) {
        let mut cells = row.split('|').skip(1);
        let (module, uses) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
        for module in names(module) {
            table.entry(module).or_default().extend(names(uses));
        }
    }
    table
}

/// A file without comments and unit tests.
fn code(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let tests = lines.iter().position(|line| *line == "#[cfg(test)]").unwrap_or(lines.len());
    // What stands behind a module of tests that is a file of its own counts.
    let end = match lines.get(tests + 1) {
        Some(next) if next.ends_with(" {") => tests,
        _ => lines.len(),
    };
    lines[..end].iter().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The modules at the top that a file mentions as `crate::name`, or in `use crate::{..}`.
fn mentioned(text: &str) -> BTreeSet<String> {
    let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut found = BTreeSet::new();
    for behind in text.split("crate::").skip(1) {
        match behind.strip_prefix('{') {
            Some(list) => {
                let list = list.split('}').next().unwrap_or_default();
                found.extend(list.split(',').map(|name| word(name.trim())));
            }
            None => {
                found.insert(word(behind));
            }
        }
    }
    found
}

/// All Rust files under a folder.
fn source_files(root: &Path) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the folder is there") {
            let path = entry.expect("the folder can be read").path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|end| end == "rs") => files.push(path),
                false => {}
            }
        }
    }
    files
}

/// What the files under `src` import.
fn imports(root: &Path) -> Table {
    let mut table = Table::new();
    let (mut files, mut only_tests) = (Vec::new(), Vec::new());
    for path in source_files(root) {
        let relative = path.strip_prefix(root).expect("it is under the root").to_string_lossy().replace('\\', "/");
        let module = relative.split(['/', '.']).next().unwrap_or_default().trim_end_matches("_tests").to_owned();
        let text = std::fs::read_to_string(&path).expect("the file is there");
        if relative.contains("/tests/") || ["lib", "main", "cli"].contains(&module.as_str()) {
            continue;
        }
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        only_tests.extend(text.split("#[cfg(test)]").skip(1).filter_map(|rest| {
            let line = rest.lines().find(|line| line.starts_with("mod ") && line.ends_with(';'))?;
            let by_path = rest.split("#[path = \"").nth(1).filter(|_| rest.trim_start().starts_with("#[path"));
            let name = by_path.and_then(|path| path.split(".rs").next()).unwrap_or(&line[4..line.len() - 1]);
            Some((path.parent()?.to_owned(), name.to_owned()))
        }));
        files.push((path.parent().map(Path::to_owned), stem, module, text));
    }
    for (folder, stem, module, text) in files {
        // A module is beside the file that declares it, or in the folder of its name.
        let is_test = only_tests.iter().any(|(of, name)| {
            *name == stem && folder.as_ref().is_some_and(|folder| folder == of || folder.parent() == Some(of))
        });
        if !is_test {
            table.entry(module).or_default().extend(mentioned(&code(&text)));
        }
    }
    let modules: BTreeSet<String> = table.keys().cloned().collect();
    for (module, uses) in &mut table {
        // Everything may use what is at the bottom.
        uses.retain(|other| modules.contains(other) && other != module && other != "base");
    }
    table
}

#[test]
fn imports_are_those_of_the_table() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let text = std::fs::read_to_string(root.join("lib.rs")).expect("the file is there");
    let (said, found) = (table(&text), imports(&root));
    for (module, uses) in &found {
        let row = said.get(module).unwrap_or_else(|| panic!("`{module}` has no row"));
        assert_eq!(row, uses, "left is what the table says of `{module}`, right what it imports");
    }
    assert!(said.keys().all(|module| found.contains_key(module)), "the table has rows of modules that are not there");
    // Modules without open uses go, one after the other.
    let mut open = found;
    while !open.is_empty() {
        let free: Vec<String> =
            open.iter().filter(|(_, uses)| uses.is_empty()).map(|(module, _)| module.clone()).collect();
        assert!(!free.is_empty(), "a circle among {:?}", open.keys());
        open.retain(|module, _| !free.contains(module));
        open.values_mut().for_each(|uses| uses.retain(|other| !free.contains(other)));
    }
}

#[test]
fn imports_are_found() {
    let text = "//! crate::no\nuse crate::index::{Affine};\nuse crate::{loops, lower as l};\nfn f() { crate::ty::g() } // crate::not\n";
    let with_tests = format!("{text}#[cfg(test)]\nmod tests {{\n    use crate::driver::Function;\n}}\n");
    let expected: BTreeSet<String> = ["index", "loops", "lower", "ty"].map(str::to_owned).into();
    assert_eq!(mentioned(&code(&with_tests)), expected);
    let table = table(
        "//! # Who uses whom\n//! | module | uses |\n//! |---|---|\n//! | `a` | `b`, `c` |\n//! # Next\n//! | `d` | |\n",
    );
    assert_eq!(table, Table::from([("a".to_owned(), ["b".to_owned(), "c".to_owned()].into())]));
}
