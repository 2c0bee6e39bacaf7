//! How names are written in the text of nests, so that they are read back.
//!
//! ```text
//! name   ::= (word | "..") [@k]
//! word   ::= letter or `_`, then letters, digits, `_`, `'`, and points before one of these but `'`
//! ```
//!
//! A name that is no word, or a word that says something else in its place (`i3`, `r2`, `for`), is in quotes, with `\"`, `\\`, `\n` and
//! `\u{1f}` in them. Of things of one name the first has the name alone, the others have it with their number: `t`, `t@2`, `t@3`.
//! Parameters and what is held come first, then buffers in the order in which the text mentions them. Sizes come before relations.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::data::{Buffer, BufferKind, PLACES};
use crate::base::{RelationId, SizeId};
use crate::error::Result;
use crate::ty::Signature;
use crate::ty::leaf_name;

/// A name with its number among equal ones, from 1 on.
pub(super) type Key = (String, u32);

/// Words that begin a line or a number where a buffer may stand.
const OF_BUFFERS: [&str; 14] = [
    "NaN", "bins", "end", "entries", "for", "held", "if", "inf", "limit", "local", "out", "parallel", "param",
    "pattern",
];

/// Words that begin a domain, a bound or a test where a size may stand.
const OF_SIZES: [&str; 17] = [
    "all", "any", "axis", "bins", "children", "entries", "false", "floor", "max", "min", "nodes", "part", "places",
    "roots", "rows", "starts", "true",
];

/// The word that a text begins with; empty where there is none.
pub(super) fn word(text: &str) -> &str {
    let continues = |c: char| c.is_alphanumeric() || c == '_';
    let mut chars = text.char_indices().peekable();
    if !chars.next().is_some_and(|(_, c)| c.is_alphabetic() || c == '_') {
        return "";
    }
    while let Some((at, c)) = chars.next() {
        let inside = continues(c) || c == '\'' || c == '.' && chars.peek().is_some_and(|(_, c)| continues(*c));
        if !inside {
            return text.get(..at).unwrap_or("");
        }
    }
    text
}

/// The digits of `i3` or `r2` behind their letter.
pub(super) fn number_of(word: &str, letter: char) -> Option<&str> {
    let digits = word.strip_prefix(letter)?;
    (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then_some(digits)
}

fn is_word(name: &str) -> bool {
    !name.is_empty() && word(name) == name
}

/// Whether a word stands for itself, where these words say something else.
fn is_free(name: &str, reserved: &[&str]) -> bool {
    let numbered = ['i', 'r'].into_iter().any(|letter| number_of(name, letter).is_some());
    is_word(name) && !numbered && !reserved.contains(&name)
}

fn quoted(name: &str) -> String {
    let mut text = String::from("\"");
    for c in name.chars() {
        // Writing to a string does not fail.
        let _ = match c {
            '"' | '\\' => write!(text, "\\{c}"),
            '\n' => write!(text, "\\n"),
            c if c.is_control() => write!(text, "{}", c.escape_unicode()),
            c => write!(text, "{c}"),
        };
    }
    text + "\""
}

/// What the quotes around it held, and how long they are; nothing where they are not closed, or hold what is never written.
pub(super) fn unquoted(text: &str) -> Option<(String, usize)> {
    let mut name = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((name, at + 1)),
            '\\' => match chars.next()?.1 {
                c @ ('"' | '\\') => name.push(c),
                'n' => name.push('\n'),
                'u' => {
                    let (_, '{') = chars.next()? else { return None };
                    let digits: String = chars.by_ref().map(|(_, c)| c).take(7).take_while(|c| *c != '}').collect();
                    name.push(char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?);
                }
                _ => return None,
            },
            c => name.push(c),
        }
    }
    None
}

fn written(name: &str, is_plain: bool) -> String {
    if is_plain { name.to_owned() } else { quoted(name) }
}

/// The name of an output: words with a blank between them stand for themselves.
pub(super) fn output(name: &str) -> String {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    let mut words = name.split(' ');
    let first = words.next().is_some_and(is_word);
    written(name, first && words.all(|word| !word.is_empty() && word.chars().all(inside)))
}

/// The name of a parameter.
pub(super) fn param(name: &str) -> String {
    written(name, is_word(name))
}

/// The name of a buffer.
pub(super) fn buffer(name: &str, number: u32) -> String {
    numbered(written(name, is_free(name, &OF_BUFFERS)), number)
}

fn numbered(text: String, number: u32) -> String {
    if number > 1 { format!("{text}@{number}") } else { text }
}

/// Counts names.
#[derive(Default)]
pub(super) struct Counts(BTreeMap<String, u32>);

impl Counts {
    /// The number of a name among those so far.
    pub fn next(&mut self, name: &str) -> u32 {
        match self.0.get_mut(name) {
            Some(count) => {
                *count += 1;
                *count
            }
            None => {
                self.0.insert(name.to_owned(), 1);
                1
            }
        }
    }
}

/// The names of the sizes and relations of a signature, as they are written, and what they stand for.
pub(super) struct Names {
    pub sizes: Vec<String>,
    pub relations: Vec<String>,
    pub size_of: BTreeMap<Key, SizeId>,
    pub relation_of: BTreeMap<Key, RelationId>,
    /// The leaves of parameters by name, as nests read them that say nothing else of them.
    pub leaves: BTreeMap<String, Buffer>,
}

impl Names {
    /// The names of a signature.
    ///
    /// # Errors
    /// [`Error::Limit`](crate::Error::Limit) for a parameter with too many leaves.
    pub fn new(signature: &Signature) -> Result<Names> {
        let mut counts = Counts::default();
        let mut names = Names {
            sizes: Vec::new(),
            relations: Vec::new(),
            size_of: BTreeMap::new(),
            relation_of: BTreeMap::new(),
            leaves: BTreeMap::new(),
        };
        for (id, name) in signature.sizes.iter() {
            let number = counts.next(name);
            names.sizes.push(numbered(written(name, is_free(name, &OF_SIZES)), number));
            names.size_of.insert((name.clone(), number), id);
        }
        for (id, relation) in signature.relations.iter() {
            let name = relation.name.as_str();
            let number = counts.next(name);
            let found = name.strip_prefix(PLACES).unwrap_or(name);
            names.relations.push(numbered(written(name, is_word(found.strip_suffix('?').unwrap_or(found))), number));
            names.relation_of.insert((name.to_owned(), number), id);
        }
        for (id, param) in signature.params.iter() {
            let entries = param.storage.pattern();
            for (at, leaf) in signature.types.leaves(param.ty)?.into_iter().enumerate() {
                let name = leaf_name(&param.name, &leaf.path);
                let dims = if entries.is_some() { Vec::new() } else { leaf.dims };
                let kind = BufferKind::Param(id, at);
                let buffer = Buffer { kind, ..Buffer::workspace(name.clone(), entries, dims) };
                names.leaves.entry(name).or_insert(buffer);
            }
        }
        Ok(names)
    }
}
