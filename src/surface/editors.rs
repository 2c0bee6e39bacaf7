//! The grammar for editors, `examples/editors/iverson.tmLanguage.json`, has the words of the language.

use std::collections::BTreeSet;

use crate::lexer::{Token, keyword};
use crate::scalar::Op;

/// The colours of editors are for the words that there are.
#[test]
fn the_grammar_for_editors_has_all_words() {
    let grammar = include_str!("../../examples/editors/iverson.tmLanguage.json");
    let grammar: serde_json::Value = serde_json::from_str(grammar).expect("it is JSON");
    // The words of the alternatives `(a|b)` in patterns whose scopes begin so.
    let words = |scopes: &[&str]| -> BTreeSet<String> {
        let patterns = grammar["patterns"].as_array().expect("it has patterns").iter();
        let chosen = patterns.filter(|pattern| {
            pattern["name"].as_str().is_some_and(|name| scopes.iter().any(|scope| name.starts_with(scope)))
        });
        chosen
            .flat_map(|pattern| {
                let text = pattern["match"].as_str().expect("it matches something");
                let list = text.split_once("\\b(").and_then(|(_, rest)| rest.split_once(')'));
                list.map_or("", |(words, _)| words).split('|').map(str::to_owned).collect::<Vec<_>>()
            })
            .filter(|word| word.chars().all(|c| c.is_alphanumeric() || c == '_') && !word.is_empty())
            .collect()
    };
    let written = words(&["keyword", "storage", "constant.language"]);
    // Names that stand for something where nobody has taken them.
    let soft = BTreeSet::from(["mean", "pi"].map(str::to_owned));
    for word in &written {
        assert!(soft.contains(word) || keyword(word).is_some(), "`{word}` is no keyword");
    }
    let lexer = include_str!("../lexer.rs");
    let known = lexer.lines().filter_map(|line| line.trim().strip_prefix('"')?.split_once("\" => Token::"));
    for (word, _) in known {
        let number = matches!(keyword(word), Some(Token::Number { .. }));
        assert!(number || written.contains(word), "the grammar lacks the keyword `{word}`");
    }
    let functions = words(&["support.function.iverson"]);
    for op in Op::all() {
        let name = op.name();
        let is_called = op.infix().is_none() && Op::from_name(&name).is_some() && !name.starts_with("polygamma");
        assert!(!is_called || functions.contains(&*name) || written.contains(&*name), "it lacks `{name}`");
    }
    for name in &functions {
        assert!(matches!(name.as_str(), "log" | "select") || Op::from_name(name).is_some(), "`{name}` is no function");
    }
    let of_library = words(&["support.function.library"]);
    assert_eq!(of_library, super::library().map(str::to_owned).collect());
}
