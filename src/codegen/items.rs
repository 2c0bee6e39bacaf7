//! The text of [`vector`](super::vector), item by item, so that a source holds no function that it does not use.
//!
//! An item is a `fn`, a `const`, a `struct` or an `impl` with the comments and attributes before it: lines up to the one that ends it,
//! which starts at the margin. That is how `rustfmt` writes them. One namespace serves all files; what an item needs are the names in its
//! text that are items.

use std::collections::BTreeSet;

/// The files, in the order in which their items are written. The square root is that of sources, not that of `vector/square_root.rs`.
const TEXTS: [&str; 14] = [
    include_str!("vector/mod.rs"),
    include_str!("vector/double.rs"),
    include_str!("vector/exponential.rs"),
    include_str!("vector/logarithm.rs"),
    include_str!("vector/power.rs"),
    include_str!("vector/trigonometric.rs"),
    include_str!("vector/large_angle.rs"),
    include_str!("vector/inverse_trigonometric.rs"),
    include_str!("vector/hyperbolic.rs"),
    include_str!("vector/root.rs"),
    include_str!("vector/rounding.rs"),
    include_str!("square_root.rs"),
    include_str!("vector/error_function.rs"),
    include_str!("vector/gamma.rs"),
];

/// An item; an `impl` has the name of its type.
struct Item {
    name: &'static str,
    text: &'static str,
}

/// The names in a text that may be those of items: words, but for methods and fields, outside of comments.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or(""));
    code.flat_map(|line| {
        let mut before = ' ';
        line.split_inclusive(|c: char| !c.is_alphanumeric() && c != '_').filter_map(move |piece| {
            let word = piece.trim_end_matches(|c: char| !c.is_alphanumeric() && c != '_');
            let is_member = before == '.';
            before = piece.chars().last().unwrap_or(' ');
            (!word.is_empty() && !is_member).then_some(word)
        })
    })
}

/// The items of a file, without its modules and imports.
fn items(file: &'static str) -> Vec<Item> {
    let (mut items, mut start, mut end) = (Vec::new(), 0, 0);
    for line in file.split_inclusive('\n') {
        let is_first = start == end;
        end += line.len();
        let code = line.trim_end();
        let is_import = is_first
            && (code.starts_with("//") && !code.starts_with("///") || code.contains("use ") || code.contains("mod "));
        if code.is_empty() && is_first || is_import {
            start = end;
        } else if !line.starts_with([' ', '/', '#']) && code.ends_with(['}', ';']) {
            let text = &file[start..end];
            items.push(Item { name: name(text), text });
            start = end;
        }
    }
    items
}

/// The name of an item.
fn name(text: &str) -> &str {
    let mut words = names(text).skip_while(|word| !["fn", "const", "struct", "impl"].contains(word));
    match words.next() {
        // The type is the last word of `impl<const N: usize> Trait for Type<N> {` but for its parameter.
        Some("impl") => {
            let line = text.lines().find(|line| line.starts_with("impl")).unwrap_or("");
            let words: Vec<&str> = names(line).collect();
            words.len().checked_sub(2).and_then(|k| words.get(k)).copied().unwrap_or("")
        }
        _ => words.next().unwrap_or(""),
    }
}

/// The items that a text uses, and those that they use.
pub(super) fn used(text: &str) -> String {
    let items: Vec<Item> = TEXTS.into_iter().flat_map(items).collect();
    let mut wanted = vec![text];
    let mut found = BTreeSet::new();
    while let Some(text) = wanted.pop() {
        let words: BTreeSet<&str> = names(text).collect();
        for item in &items {
            if words.contains(item.name) && found.insert(item.text) {
                wanted.push(item.text);
            }
        }
    }
    let texts: Vec<&str> = items.iter().map(|item| item.text).filter(|text| found.contains(text)).collect();
    texts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn functions(text: &str) -> Vec<&str> {
        let lines = text.lines().filter_map(|line| line.strip_prefix("pub fn "));
        lines.map(|line| line.split(['(', '<']).next().unwrap()).collect()
    }

    #[test]
    fn every_item_has_a_name() {
        let items: Vec<Item> = TEXTS.into_iter().flat_map(items).collect();
        let mut seen = BTreeSet::new();
        for Item { name, text } in &items {
            assert!(!name.is_empty(), "{text}");
            assert!(seen.insert(*name) || *name == "V", "two items are called {name}");
            assert!(!text.contains("use super") && !text.contains("\nmod "), "{text}");
        }
        // Nothing is lost but modules, imports and empty lines.
        let lines: usize = items.iter().map(|item| item.text.lines().count()).sum();
        let is_comment = |line: &str| line.starts_with("//") && !line.starts_with("///");
        let others =
            |line: &&str| !(line.is_empty() || is_comment(line) || line.contains("use ") || line.contains("mod "));
        let all: usize = TEXTS.iter().map(|text| text.lines().filter(others).count()).sum();
        let inner_empty_lines = items.iter().flat_map(|item| item.text.lines()).filter(|line| line.is_empty()).count();
        assert_eq!(lines - inner_empty_lines, all);
    }

    #[test]
    fn a_source_holds_what_it_uses() {
        assert_eq!(used("let y = 1.0;"), "");
        assert_eq!(functions(&used("let y = select(p, x); // exp")), ["select"]);
        let exp = functions(&used("exp(V([x])).0[0]")).join(" ");
        assert_eq!(exp, "choose ordered_sum exp_tail exp_parts scale exp_domain exp exp_lane");
        let ln = functions(&used("ln(x)")).join(" ");
        assert_eq!(ln, "choose split ln_tail ln_of_positive ln ln_lane");
        for (function, absent) in
            [("lgamma", "fn sin<"), ("lgamma", "TWO_OVER_PI"), ("sigmoid", "ln_tail"), ("pow", "sin_tail")]
        {
            assert!(!used(&format!("{function}(x)")).contains(absent), "{function} does not need {absent}");
        }
        assert!(used("tan(x)").contains("TWO_OVER_PI"));
    }
}
