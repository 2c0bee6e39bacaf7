//! What is public: `tests/public.txt` lists it, so that no name comes or goes unseen.
//!
//! | listed | of |
//! |---|---|
//! | names | the root, the prelude and all public modules; of `ir` its modules alone |
//! | methods, fields, variants | each type that the root or a module beside `ir` has |
//!
//! The list is read from the text of `src` as `rustfmt` lays it out: items begin a line, members follow four blanks. What a macro makes is not seen,
//! such as the methods of the builder's `Expr` that are named as scalar functions; neither are members of a type that two `pub use`s bring one after the
//! other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A public name of a module: where it is from, if a `pub use` brings it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    name: String,
    from: Option<String>,
    is_module: bool,
}

/// The identifier that a text begins with.
fn identifier(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// What follows a keyword of an item, without `const`, `async` and `unsafe` of functions.
fn item<'t>(line: &'t str, keywords: &[&str]) -> Option<&'t str> {
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let function = line.trim_start_matches("const ").trim_start_matches("async ").trim_start_matches("unsafe ");
    let rest = |line: &'t str| keywords.iter().find_map(|keyword| line.strip_prefix(keyword)?.strip_prefix(' '));
    function.strip_prefix("fn ").filter(|_| keywords.contains(&"fn")).or_else(|| rest(line))
}

/// The lines of a text but for comments and empty ones, each with whether the documentation hides what it declares. A line that ends within a `pub use` goes on
/// with the next ones.
fn lines(text: &str) -> Vec<(String, bool)> {
    let (mut lines, mut hidden, mut open) = (Vec::new(), false, String::new());
    for line in text.lines().filter(|line| !line.is_empty() && !line.trim_start().starts_with("//")) {
        if line.trim_start().starts_with("#[") {
            hidden |= line.contains("doc(hidden)");
            continue;
        }
        open.push_str(if open.is_empty() { line } else { line.trim_start() });
        if open.trim_start().starts_with("pub use ") && !open.ends_with(';') {
            open.push(' ');
            continue;
        }
        lines.push((std::mem::take(&mut open), std::mem::take(&mut hidden)));
    }
    lines
}

/// The text of a module that is written inside of another text, as if it were a file.
fn inline(text: &str, module: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("\npub mod {module} {{\n"))?;
    let lines = rest.lines().take_while(|line| *line != "}");
    Some(lines.map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line))).collect())
}

/// The names that a module has: its items at the beginning of a line, and what it takes from others.
fn names(text: &str) -> BTreeSet<Name> {
    let mut names = BTreeSet::new();
    for (line, hidden) in lines(text) {
        if hidden || !line.starts_with("pub ") {
            continue;
        }
        if let Some(path) = line.strip_prefix("pub use ") {
            let path = path.trim_end_matches(';');
            let (from, list) = match path.split_once('{') {
                Some((from, list)) => (from.trim_end_matches("::"), list.trim_end_matches('}')),
                None => path.rsplit_once("::").unwrap_or(("", path)),
            };
            for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
                let name = name.rsplit(' ').next().unwrap_or(name).to_owned();
                names.insert(Name { name, from: Some(from.to_owned()), is_module: false });
            }
        } else if let Some(rest) = item(&line, &["mod"]) {
            names.insert(Name { name: identifier(rest), from: None, is_module: true });
        } else if let Some(rest) = item(&line, &["struct", "enum", "trait", "type", "const", "static", "fn"]) {
            names.insert(Name { name: identifier(rest), from: None, is_module: false });
        }
    }
    names
}

/// The macros that a text exports from the crate.
fn macros(text: &str) -> impl Iterator<Item = String> {
    let exported = text.split("#[macro_export]\n").skip(1);
    exported.filter_map(|rest| Some(format!("{}!", identifier(rest.strip_prefix("macro_rules! ")?))))
}

/// The type of an inherent `impl`, from its head.
fn implemented(head: &str) -> Option<String> {
    let mut rest = head.strip_prefix("impl")?;
    if rest.starts_with('<') {
        let mut depth = 0;
        let end = rest.char_indices().find(|(at, c)| {
            match c {
                '<' => depth += 1,
                '>' if !rest[..*at].ends_with('-') => depth -= 1,
                _ => {}
            }
            depth == 0
        })?;
        rest = &rest[end.0 + 1..];
    }
    if rest.contains(" for ") {
        return None;
    }
    let path = rest.trim_start().split(['<', ' ']).next()?;
    Some(identifier(path.rsplit("::").next()?))
}

/// The public members of the types of a text: methods and constants of inherent `impl`s, fields, variants, and what traits ask for.
fn members(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    enum Block {
        Impl,
        Struct,
        Enum,
        Trait,
    }
    let mut members: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut within: Option<(Block, String)> = None;
    for (line, hidden) in lines(text) {
        let Some(inner) = line.strip_prefix("    ") else {
            let of = |keyword: &str| item(&line, &[keyword]).map(identifier).filter(|_| line.starts_with("pub "));
            // The head of a block may take several lines; one that begins with a bracket or `where` goes on.
            match &line {
                line if line.starts_with("impl") => within = implemented(line).map(|ty| (Block::Impl, ty)),
                line if line.starts_with(['}', ')', '{']) && *line != "}" => {}
                line if line.starts_with("where") => {}
                _ => {
                    let ty = of("struct").map(|ty| (Block::Struct, ty));
                    let ty = ty.or_else(|| of("enum").map(|ty| (Block::Enum, ty)));
                    within = ty.or_else(|| of("trait").map(|ty| (Block::Trait, ty)));
                }
            }
            continue;
        };
        let Some((block, ty)) = within.as_ref().filter(|_| !hidden && !inner.starts_with(' ')) else { continue };
        let public = inner.strip_prefix("pub ");
        let member = match block {
            Block::Impl => public.and_then(|line| item(line, &["fn", "const"])).map(identifier),
            Block::Struct => public.filter(|line| line.contains(':')).map(identifier),
            Block::Enum => inner.starts_with(char::is_uppercase).then(|| identifier(inner)),
            Block::Trait => item(inner, &["fn", "const", "type"]).map(identifier),
        };
        members.entry(ty.clone()).or_default().extend(member);
    }
    members
}

/// The files of a module of the crate: its own, and those in its folder.
fn files(src: &Path, module: &str) -> Vec<PathBuf> {
    let at = src.join(module.replace("::", "/"));
    let (mut files, mut folders) = (vec![at.with_extension("rs")], vec![at.clone()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.expect("the folder can be read").path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.retain(|file| file.extension().is_some_and(|end| end == "rs") && file.exists());
    files
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The file that a module begins in, where it has one.
fn head(src: &Path, module: &str) -> Option<PathBuf> {
    let at = src.join(module.replace("::", "/"));
    [at.with_extension("rs"), at.join("mod.rs")].into_iter().find(|file| file.exists())
}

/// A module and what stands before a name of it.
fn inside(module: &str, name: &str) -> String {
    if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") }
}

/// Adds what a module has, given its text.
fn list(src: &Path, module: &str, text: &str, into: &mut BTreeSet<String>) {
    for Name { name, from, is_module } in names(text) {
        let path = inside(module, &name);
        into.insert(path.clone());
        if is_module {
            match inline(text, &name).or_else(|| Some(read(&head(src, &path)?))) {
                Some(text) if path == "ir" => {
                    into.extend(names(&text).iter().map(|module| inside("ir", &module.name)));
                }
                Some(text) => list(src, &path, &text, into),
                None => {}
            }
        } else if module != "prelude" {
            // The prelude brings what has a place elsewhere, and so does a public module at the root.
            let from = from.unwrap_or_default().replace("crate::", "");
            let owner = if head(src, &from).is_some() { from.as_str() } else { module };
            let files = if owner.is_empty() { Vec::new() } else { files(src, owner) };
            for file in files {
                let members = members(&read(&file)).remove(&name).unwrap_or_default();
                into.extend(members.iter().map(|member| inside(&path, member)));
            }
        }
    }
}

/// All that is public, a line each, in order.
fn public(src: &Path) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    list(src, "", &read(&src.join("lib.rs")), &mut all);
    all.extend(files(src, "").iter().flat_map(|file| macros(&read(file)).collect::<Vec<_>>()));
    all
}

/// What is in one list alone, in words; nothing where both are the same.
fn difference(listed: &BTreeSet<String>, found: &BTreeSet<String>) -> Option<String> {
    let only = |sign: char, one: &BTreeSet<String>, other: &BTreeSet<String>| {
        one.difference(other).map(|name| format!("{sign} {name}\n")).collect::<String>()
    };
    let both = only('-', listed, found) + &only('+', found, listed);
    (!both.is_empty()).then_some(both)
}

#[test]
fn what_is_public_is_listed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = read(&root.join("tests/public.txt"));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.is_sorted(), "`tests/public.txt` is not sorted");
    let listed = lines.into_iter().map(str::to_owned).collect();
    if let Some(difference) = difference(&listed, &public(&root.join("src"))) {
        panic!(
            "public names came (+) or went (-); change `tests/public.txt`, and say so in CHANGELOG.md:\n{difference}"
        );
    }
}

#[test]
fn what_is_public_is_found() {
    let text = "\
//! pub fn no() {}
pub mod inner;
mod private;
pub use inner::{One, Two as Second};
pub use other::{
    Three,
};
#[doc(hidden)]
pub fn hidden() {}
pub(crate) fn of_the_crate() {}
pub const fn free() {}
pub struct Pair<'a> {
    /// pub third: u8,
    pub first: &'a str,
    second: u8,
}
impl<'a, F: Fn(u8) -> u8> Pair<'a> {
    pub const LEN: usize = 2;
    pub const fn new() -> Self {
        pub fn nested() {}
    }
    fn private(&self) {}
}
impl Clone for Pair<'_> {
    fn clone(&self) -> Self {}
}
pub enum Choice {
    #[default]
    Yes(u8),
    No {
        why: u8,
    },
}
pub trait Asked {
    type Output;
    fn asks(&self);
    #[doc(hidden)]
    fn pass(&self);
}
";
    let found: Vec<String> = names(text).into_iter().map(|name| name.name).collect();
    assert_eq!(found, ["Asked", "Choice", "One", "Pair", "Second", "Three", "free", "inner"]);
    let members: Vec<String> = members(text)
        .into_iter()
        .flat_map(|(ty, all)| all.into_iter().map(move |name| format!("{ty}::{name}")))
        .collect();
    let expected =
        ["Asked::Output", "Asked::asks", "Choice::No", "Choice::Yes", "Pair::LEN", "Pair::first", "Pair::new"];
    assert_eq!(members, expected);
    assert_eq!(macros("#[macro_export]\nmacro_rules! given {\n").collect::<Vec<_>>(), ["given!"]);
    let text = "//! text\npub mod ir {\n    pub mod base;\n}\npub mod tensor;\n";
    assert_eq!(inline(text, "ir").as_deref(), Some("pub mod base;\n"));
    assert_eq!(inline(text, "tensor"), None);
}

#[test]
fn a_difference_is_told() {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
    assert_eq!(difference(&set(&["a", "b"]), &set(&["a", "b"])), None);
    let told = difference(&set(&["Function::gradient", "b"]), &set(&["Function::slope", "b"]));
    assert_eq!(told.as_deref(), Some("- Function::gradient\n+ Function::slope\n"));
}
