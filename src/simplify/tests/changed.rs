//! Rules with one token changed, as by a slip of the pen: the loader refuses each, a random instance shows that its sides differ, or it fires
//! where the rule must not, or not on its example. So what is asked of rules is enough to tell a rule from those that look like it.
//!
//! [`faults`](super::faults) are chosen by hand; these are all that there are of some kinds. Those that are rules as good as the one that was changed
//! are in `alike.txt`, each with its reason, and so are the few that nothing tells from theirs.

use std::collections::BTreeMap;

use super::faults::{misfire, refutation, text_of};
use crate::simplify::rule::Kind;
use crate::simplify::{Rule, read, rules};

/// What stands in the place of what.
const TOKENS: [(&str, &str); 28] = [
    ("+", "-"),
    ("-", "+"),
    ("*", "/"),
    ("/", "*"),
    ("<", "<="),
    ("<=", "<"),
    ("=", "<="),
    ("and", "or"),
    ("or", "and"),
    ("finite", "signed-zero"),
    ("signed-zero", "exact"),
    ("even", "odd"),
    ("odd", "even"),
    ("sparse", "dense"),
    ("dense", "sparse"),
    ("total", "partial"),
    ("partial", "total"),
    ("not-one", "not-unit"),
    ("not-unit", "not-one"),
    ("exp", "sin"),
    ("ln", "exp"),
    ("sin", "cos"),
    ("cos", "sin"),
    ("tanh", "sinh"),
    ("sqrt", "cbrt"),
    ("cbrt", "sqrt"),
    ("max", "min"),
    ("min", "max"),
];

/// A changed rule: its name, what was changed, and its text with the comment.
struct Change {
    rule: String,
    /// The line, with `«before|after»` in the place of the token.
    shown: String,
    text: String,
}

/// The tokens of a line, by their places.
fn tokens(line: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(c) = line[at..].chars().next() {
        let rest = &line[at..];
        let length = if c.is_ascii_alphabetic() {
            // A name may have hyphens inside, as conditions have.
            let hyphen = |k: usize| rest[k..].starts_with('-') && rest[k + 1..].starts_with(char::is_alphabetic);
            let belongs = |k: usize, c: char| c.is_ascii_alphanumeric() || c == '\'' || hyphen(k);
            rest.char_indices().find(|(k, c)| !belongs(*k, *c)).map_or(rest.len(), |(k, _)| k)
        } else if c.is_ascii_digit() {
            rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len())
        } else {
            ["=>", ":=", "<=", "!="]
                .iter()
                .find(|symbol| rest.starts_with(**symbol))
                .map_or(c.len_utf8(), |symbol| symbol.len())
        };
        if c != ' ' {
            found.push((at, &rest[..length]));
        }
        at += length;
    }
    found
}

fn is_meta(token: &str) -> bool {
    let mut chars = token.chars();
    chars.next().and_then(|c| Kind::of(&c.to_string())).is_some() && chars.all(|c| c.is_ascii_digit() || c == '\'')
}

/// What else a token might be, where names of the same kind are at hand.
fn others(token: &str, metas: &[&str]) -> Vec<String> {
    if is_meta(token) {
        let alike = metas.iter().filter(|meta| **meta != token && Kind::of(meta) == Kind::of(token));
        return alike.map(|meta| (*meta).to_owned()).collect();
    }
    if let Ok(number) = token.trim_end_matches('.').parse::<f64>() {
        let dot = if token.ends_with('.') { "." } else { "" };
        return [number + 1.0, number - 1.0].iter().filter(|n| **n >= 0.0).map(|n| format!("{n}{dot}")).collect();
    }
    TOKENS.iter().filter(|(before, _)| *before == token).map(|(_, after)| (*after).to_owned()).collect()
}

/// All changes of a rule but of its name, its mode and its example.
fn changes(rule: &Rule) -> Vec<Change> {
    let text = text_of(&rule.name);
    let start = text.find("rule ").unwrap();
    let end = text.find("  example").unwrap();
    let lines = || text[start..end].lines().map(|line| (line.as_ptr() as usize - text.as_ptr() as usize, line));
    let mut metas: Vec<&str> = lines().skip(1).flat_map(|(_, line)| tokens(line)).map(|(_, token)| token).collect();
    metas.retain(|token| is_meta(token));
    metas.sort_unstable();
    metas.dedup();
    let mut found = Vec::new();
    for (number, (begin, line)) in lines().enumerate() {
        // Of the head only the tier says something about both sides.
        let skipped = if number == 0 { tokens(line).len() - 1 } else { 0 };
        for (at, token) in tokens(line).into_iter().skip(skipped) {
            for other in others(token, &metas) {
                let (before, after) = (&line[..at], &line[at + token.len()..]);
                found.push(Change {
                    rule: rule.name.clone(),
                    shown: format!("{}«{token}|{other}»{after}", before.trim_start()),
                    text: format!("{}{other}{}", &text[..begin + at], &text[begin + at + token.len()..]),
                });
            }
        }
    }
    found
}

/// What tells a change from its rule. Nothing is known of one that only gives other names.
fn verdict(rule: &Rule, change: &Change) -> Option<&'static str> {
    let Ok(read) = read("changed", &change.text) else { return Some("loader") };
    let changed = &read[0];
    let alike = (&changed.lhs, &changed.rhs, &changed.conditions) == (&rule.lhs, &rule.rhs, &rule.conditions);
    if alike && changed.tier == rule.tier {
        return Some("the same rule");
    }
    misfire(changed).or_else(|| refutation(changed))
}

/// A line of `alike.txt`: the rule, what is shown of its change, and why nothing tells them apart.
fn alike() -> Vec<(&'static str, &'static str, &'static str)> {
    let lines = include_str!("alike.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let of_line = |line: &'static str| {
        let (change, reason) = line.split_once("  # ").unwrap_or_else(|| panic!("without a reason: {line}"));
        let (rule, shown) = change.split_once(": ").unwrap_or_else(|| panic!("{line}"));
        (rule, shown, reason)
    };
    lines.map(of_line).collect()
}

/// Judges each `step`th change.
fn judge(step: usize) {
    let known = alike();
    let all: Vec<(&Rule, Change)> =
        rules().unwrap().iter().flat_map(|rule| changes(rule).into_iter().map(move |change| (rule, change))).collect();
    for (rule, shown, _) in &known {
        let is_one = |(_, change): &(&Rule, Change)| change.rule == *rule && change.shown == *shown;
        assert!(all.iter().any(is_one), "no change: {rule}: {shown}");
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (rule, change) in all.iter().step_by(step) {
        let caught = verdict(rule, change);
        let reason = known.iter().find(|(rule, shown, _)| change.rule == *rule && change.shown == *shown);
        let counted = match (caught, reason) {
            (Some(caught), None) => caught,
            (None, Some((.., reason))) if reason.starts_with("open: ") => "open",
            (None, Some(_)) => "as good",
            (None, None) => {
                wrong.push(format!("nothing tells it: {}: {}", change.rule, change.shown));
                "nothing"
            }
            (Some(caught), Some(_)) => {
                wrong
                    .push(format!("take it out of alike.txt, as {caught} tells it: {}: {}", change.rule, change.shown));
                caught
            }
        };
        *counts.entry(counted).or_default() += 1;
    }
    println!("{counts:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn one_token_of_a_rule_makes_a_difference() {
    judge(23);
}

#[test]
#[ignore = "1,100 changes take a minute; the command is in CONTRIBUTING.md"]
fn one_token_of_any_rule_makes_a_difference() {
    judge(1);
}
