//! Places are proved to be in bounds, and iterations that run at the same time not to meet, in all programs of the tests after all passes.

use iverson::ir::loops;
use iverson::ir::stages::Stages;
use iverson::{Function, Mode, Request};

use crate::generate::{self, Family};
use crate::support::{compile, setting};

/// Programs that read a map behind a flag, which was set where a search had found that the source is in range. What a flag says is not seen.
const BEHIND_FLAGS: &[&str] = &["map_of_map_behind_its_bracket.iv"];

#[test]
fn what_is_not_proved() {
    let mut found = String::new();
    let (mut count, mut behind_flags) = (0, 0);
    for folder in ["programs", "regressions"] {
        let folder = format!("{}/tests/{folder}", env!("CARGO_MANIFEST_DIR"));
        let mut files: Vec<_> = std::fs::read_dir(&folder)
            .expect("the folder is there")
            .map(|file| file.expect("it can be read").path())
            .collect();
        files.sort();
        for path in files {
            let function = compile(&std::fs::read_to_string(&path).expect("the file is there"));
            let names: Vec<String> = function.tensor_ssa().signature.params.values().map(|p| p.name.clone()).collect();
            let wrt: Vec<&str> = names.iter().map(String::as_str).collect();
            let request = Request { with_value: true, ..Request::new(Mode::Adjoint, &wrt) };
            let derived = function.derive(&request).expect("it has a derivative").function;
            for (what, function) in [("", &function), (" adjoint", &derived)] {
                let nests = function.loops(&mut Stages::new()).expect("it lowers");
                count += 1;
                let file = path.file_name().expect("it has a name").to_string_lossy();
                for line in nests.unproved() {
                    if BEHIND_FLAGS.contains(&file.as_ref()) && line.ends_with("is read outside of its array") {
                        behind_flags += 1;
                        continue;
                    }
                    found += &format!("{file}{what}: {line}\n");
                }
            }
        }
    }
    // That the largest of some numbers has the place 2 says how many there are, which is not seen through the number that the place becomes.
    let expected = "size_from_target.iv: xn[0] may be out of bounds\n\
                    size_from_target.iv adjoint: xn[0] may be out of bounds\n\
                    size_from_target.iv adjoint: adjoint_xn[0] may be out of bounds\n";
    assert_eq!(found, expected);
    assert!(count > 100 && behind_flags > 0, "{count} programs, {behind_flags} behind flags");
}

/// Nests that store to `y`, of the shape of `x`, to `z`, of the shape of `w`, or to the entries of `A`, and what of them is not proved.
const NESTS: &[(&str, &str)] = &[
    ("parallel for i0 in 0 .. n - 1\n  r0 = x[i0]\n  y[i0] = r0", ""),
    ("parallel for i0 in 0 .. n - 1\n  r0 = x[i0 + 1]\n  y[i0] = r0", "x[i0 + 1] may be out of bounds"),
    ("parallel for i0 in 0 .. n - 2\n  r0 = x[i0 + 1]\n  y[i0] = r0", ""),
    ("parallel for i0 in 0 .. n - 1\n  if 0 <= -i0 + n - 2\n    r0 = x[i0 + 1]\n    y[i0] = r0", ""),
    ("parallel for i0 in 0 .. n - 1\n  r0 = x[i0]\n  y[0] = r0", "y[0] and y[0] may meet"),
    // What another iteration has stored.
    ("for i0 in 1 .. n - 1\n  r0 = x[i0]\n  y[i0] = r0\n  r1 = y[i0 - 1]", ""),
    ("parallel for i0 in 1 .. n - 1\n  r0 = x[i0]\n  y[i0] = r0\n  r1 = y[i0 - 1]", "y[i0] and y[i0 - 1] may meet"),
    ("for i0 in 1 .. n - 1, lanes 8\n  r0 = x[i0]\n  y[i0] = r0\n  r1 = y[i0 - 1]", "y[i0] and y[i0 - 1] may meet"),
    ("parallel for i0 in 0 .. n - 1\n  r0 = x[i0]\n  y[i0] = r0\n  r1 = y[i0]\n  y[i0] = r1", ""),
    // Blocks of 32 places, and of one more.
    (
        "parallel for i0 in 0 .. floor((n - 1) / 32)\n  for i1 in 32*i0 .. min(n - 1, 32*i0 + 31)\n    r0 = x[i1]\n    y[i1] = r0",
        "",
    ),
    (
        "parallel for i0 in 0 .. floor((n - 1) / 32)\n  for i1 in 32*i0 .. min(n - 1, 32*i0 + 32)\n    r0 = x[i1]\n    y[i1] = r0",
        "y[i1] and y[i1] may meet",
    ),
    ("parallel for i0 in 0 .. 63\n  for i1 in part i0 of 64 of 0 .. n - 1\n    r0 = x[i1]\n    y[i1] = r0", ""),
    // Parts of other loops, and of loops that differ.
    (
        "parallel for i0 in 0 .. 63\n  for i1 in part i0 of 64 of 0 .. n - 1\n    r0 = x[i1]\n    y[i1] = r0\n  for i2 in part i0 of 64 of 0 .. n - 2\n    r1 = y[i2]\n    y[i2] = r1",
        "y[i1] and y[i2] may meet",
    ),
    (
        "parallel for i0 in 0 .. 63\n  for i1 in 0 .. 1\n    for i2 in part i0 of 64 of i1 .. n - 1\n      r0 = x[i2]\n      y[i2] = r0",
        "y[i2] and y[i2] may meet",
    ),
    // Entries, row by row and column by column.
    ("parallel for i0 in 0 .. n - 1\n  for i1 in rows A?(0, 1) at i0\n    r0 = A[i1]\n    g[i1] = r0", ""),
    (
        "parallel for i0 in 0 .. m - 1\n  for i1 in rows A?(1, 0) at i0\n    i2 = entries A?(1, 0)[i1]\n    r0 = A[i2]\n    g[i2] = r0",
        "",
    ),
    (
        "parallel for i0 in 0 .. m - 1\n  for i1 in rows A?(1, 0) at i0\n    r0 = A[i1]\n    g[i1] = r0",
        "A[i1] may be out of bounds; g[i1] may be out of bounds",
    ),
    (
        "for i0 in 0 .. n - 1\n  parallel for i1 in rows A?(0, 1) at i0\n    i2 = nodes 1 A?(0, 1)[i1]\n    r0 = w[i2]\n    z[i2] = r0",
        "",
    ),
    (
        "parallel for i0 in 0 .. n - 1\n  for i1 in rows A?(0, 1) at i0\n    i2 = nodes 1 A?(0, 1)[i1]\n    r0 = w[i2]\n    z[i2] = r0",
        "z[i2] and z[i2] may meet",
    ),
    // Searches.
    (
        "parallel for i0 in 0 .. n - 1\n  i1 = find i0 in rows A?(0, 1) at i0 of nodes 1 A?(0, 1)\n  if 0 <= i1\n    r0 = w[i0]\n    z[i0] = r0",
        "",
    ),
    (
        "parallel for i0 in 0 .. n - 1\n  i1 = find i0 in rows A?(0, 1) at i0 of nodes 1 A?(0, 1)\n  r0 = A[i1]\n  y[i0] = r0",
        "A[i1] may be out of bounds",
    ),
    // Targets of a map: two sources may have the same.
    ("parallel for i0 in 0 .. n - 1\n  i1 = nodes 1 f(0, 1)[i0]\n  r0 = w[i1]\n  y[i0] = r0", ""),
    (
        "parallel for i0 in 0 .. n - 1\n  i1 = nodes 1 f(0, 1)[i0]\n  r0 = x[i0]\n  z[i1] = r0",
        "z[i1] and z[i1] may meet",
    ),
    (
        "for i0 in 0 .. n\n  i1 = nodes 1 f(0, 1)[i0]\n  r0 = w[i1]\n  y[0] = r0",
        "i1 is read outside of its array; y[0] may be out of bounds",
    ),
    // A map of two axes: of each first place there are as many sources.
    (
        "parallel for i0 in 0 .. n - 1\n  for i1 in 0 .. m - 1\n    i2 = rows s(0, 1, 2)[i0]\n    i3 = nodes 2 s(0, 1, 2)[i1 + i2]\n    r0 = w[i3]\n    e[i1 + i2] = r0",
        "",
    ),
    (
        "parallel for i0 in 0 .. n - 1\n  for i1 in 0 .. m\n    i2 = rows s(0, 1, 2)[i0]\n    r0 = x[i0]\n    e[i1 + i2] = r0",
        "e[i1 + i2] may be out of bounds; e[i1 + i2] and e[i1 + i2] may meet",
    ),
    (
        "for i0 in 0 .. n - 1\n  for i1 in 0 .. 2\n    i2 = nodes 2 t(0, 1, 2)[3*i0 + i1]\n    r0 = w[i2]\n    y[i0] = r0",
        "",
    ),
    (
        "for i0 in 0 .. n - 1\n  for i1 in 0 .. 3\n    i2 = nodes 2 t(0, 1, 2)[3*i0 + i1]\n    r0 = w[i2]\n    y[i0] = r0",
        "i2 is read outside of its array",
    ),
    // Where the last axis has no places there are no nodes of the one before.
    (
        "for i0 in 0 .. n - 1\n  for i1 in 0 .. m - 1\n    for i2 in 0 .. l - 1\n      i3 = rows u(0, 1, 2, 3)[i0]\n      i4 = children 1 u(0, 1, 2, 3)[i1 + i3]\n      i5 = nodes 3 u(0, 1, 2, 3)[i2 + i4]\n      r0 = w[i5]\n      y[i0] = r0",
        "",
    ),
    (
        "for i0 in 0 .. n - 1\n  for i1 in 0 .. m - 1\n    i3 = rows u(0, 1, 2, 3)[i0]\n    i4 = children 1 u(0, 1, 2, 3)[i1 + i3]\n    for i2 in 0 .. l - 1\n      i5 = nodes 3 u(0, 1, 2, 3)[i2 + i4]\n      r0 = w[i5]\n      y[i0] = r0",
        "i4 is read outside of its array",
    ),
];

#[test]
fn what_is_not_proved_of_nests() {
    let params = "param x : [n] real\nparam w : [m] real\nparam A : csr [n, m] real\nmap f : [n] -> [m]
                  map s : [n, m] -> [m]\nmap t : [n, 3] -> [m]\nmap u : [n, m, l] -> [m]";
    let function = Function::parse(&format!("{params}\nw")).expect("it compiles");
    let signature = &function.loops(&mut Stages::new()).expect("it lowers").signature;
    for (nest, expected) in NESTS {
        let outputs: Vec<(&str, &str)> = [("y", "y[n]"), ("z", "z[m]"), ("g", "g[A?]"), ("e", "e[s]")]
            .into_iter()
            .filter(|(name, _)| nest.contains(&format!("{name}[")))
            .collect();
        let heads: Vec<&str> = outputs.iter().map(|(_, head)| *head).collect();
        let mut text = format!("{}:\n", heads.join(", "));
        nest.lines().for_each(|line| text += &format!("  {line}\n"));
        outputs.iter().for_each(|(name, _)| text += &format!("out {name} = {name}\n"));
        let program = loops::parse(&text, signature).unwrap_or_else(|error| panic!("{error:?}\n{text}"));
        assert!(program.verify().is_ok(), "{text}{:?}", program.verify());
        let found: Vec<String> = program
            .unproved()
            .iter()
            .map(|line| line.split(" in iterations").next().unwrap_or_default().to_owned())
            .collect();
        assert_eq!(found.join("; "), *expected, "{text}");
    }
}

#[test]
fn random_programs_are_proved() {
    let first = setting("IVERSON_SEED", 0);
    let (mut claims, mut programs) = (0, 0);
    let count = setting("IVERSON_PROGRAMS", 200);
    for seed in first..first + count {
        let generated = generate::draw(seed, if seed % 3 == 0 { Family::Wide } else { Family::Exact });
        let nests = compile(&generated.text).loops(&mut Stages::new()).expect("it lowers");
        let unproved = nests.unproved();
        programs += usize::from(!unproved.is_empty());
        claims += unproved.len();
        for line in unproved {
            println!("seed {seed}: {line}");
        }
    }
    println!("{claims} claims of {programs} programs are not proved");
    assert!(programs * 20 <= count as usize, "{claims} claims of {programs} programs are not proved");
}
