//! Deliberately broken rules, all of which must be caught.

use super::soundness::{USUAL, check, enough};
use super::{fires, near_misses};
use crate::simplify::{FILES, Rule, read, rules};

/// The text of a rule, comment included, as a file by itself.
fn text_of(name: &str) -> String {
    let texts = FILES.iter().flat_map(|(_, text)| text.split("\n\n"));
    let header = format!("rule {name} ");
    let text = texts.filter(|text| text.contains(&header)).collect::<Vec<_>>();
    assert_eq!(text.len(), 1, "{name}");
    text[0].to_owned()
}

/// What catches a rule file, if anything does.
fn caught_by(text: &str) -> Option<&'static str> {
    let rule: Rule = match read("broken", text) {
        Err(_) => return Some("loader"),
        Ok(mut rules) => rules.remove(0),
    };
    match check(&rule, USUAL) {
        Err(message) if message.starts_with("by matching") => return Some("matches"),
        Err(_) => return Some("instances"),
        Ok(checked) if !enough(&rule, &checked) => return Some("too few instances"),
        Ok(_) => {}
    }
    let mut all = rules().unwrap().to_vec();
    let at = all.iter().position(|other| other.name == rule.name).unwrap();
    all[at] = rule.clone();
    if !fires(&all, &rule.name, &rule.example) {
        return Some("example");
    }
    let missed = near_misses().into_iter().any(|(name, body)| name == rule.name && fires(&all, &rule.name, &body));
    missed.then_some("near misses")
}

#[test]
fn broken_rules_are_caught() {
    let mut missed = Vec::new();
    let faults = include_str!("faults.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut count = 0;
    for fault in faults {
        let parts: Vec<&str> = fault.split('|').map(str::trim).collect();
        let [name, from, to] = parts.as_slice() else { panic!("{fault}") };
        let text = text_of(name);
        // The comment says things too; only the rule is broken.
        let start = text.find("rule ").unwrap();
        let (comment, rule) = text.split_at(start);
        assert!(rule.contains(from), "{fault}");
        let broken = format!("{comment}{}", rule.replacen(from, to, 1));
        match caught_by(&broken) {
            Some(catcher) => println!("{catcher:18} {fault}"),
            None => missed.push(fault),
        }
        count += 1;
    }
    assert!(missed.is_empty(), "these are not caught: {missed:#?}");
    assert!(count >= 40);
}
