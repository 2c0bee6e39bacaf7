//! Deliberately broken rules, all of which must be caught.

use super::misses::{among_all, hits, near_misses};
use super::soundness::{USUAL, check, enough};
use super::{fires, program};
use crate::simplify::{FILES, Rule, read, rules};

/// The text of a rule, comment included, as a file by itself.
pub(super) fn text_of(name: &str) -> String {
    let texts = FILES.iter().flat_map(|(_, text)| text.split("\n\n"));
    let header = format!("rule {name} ");
    let text = texts.filter(|text| text.contains(&header)).collect::<Vec<_>>();
    assert_eq!(text.len(), 1, "{name}");
    text[0].to_owned()
}

/// What shows that both sides of a rule differ, if anything does.
pub(super) fn refutation(rule: &Rule) -> Option<&'static str> {
    match check(rule, USUAL) {
        Err(message) if message.starts_with("by matching") => Some("matches"),
        Err(_) => Some("instances"),
        Ok(checked) => (!enough(rule, &checked)).then_some("too few instances"),
    }
}

/// What shows that a rule, in the place of the one of its name, fires where it must not, or not where it must.
pub(super) fn misfire(rule: &Rule) -> Option<&'static str> {
    let mut misses = near_misses().iter().filter(|miss| miss.rule == rule.name);
    if misses.any(|miss| hits(rule, &miss.program)) {
        return Some("near misses");
    }
    (!fires(&among_all(rule), &rule.name, &program(&rule.example))).then_some("example")
}

/// The broken rules of one kind: what is written of each, and what catches it.
fn caught(
    faults: &'static str,
    catcher: fn(&Rule) -> Option<&'static str>,
) -> Vec<(&'static str, Option<&'static str>)> {
    let faults = faults.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let caught = faults.map(|fault| {
        let parts: Vec<&str> = fault.split('|').map(str::trim).collect();
        let [name, from, to] = parts.as_slice() else { panic!("{fault}") };
        let text = text_of(name);
        // The comment says things too; only the rule is broken.
        let start = text.find("rule ").unwrap();
        let (comment, rule) = text.split_at(start);
        assert!(rule.contains(from), "{fault}");
        match read("broken", &format!("{comment}{}", rule.replacen(from, to, 1))) {
            Err(_) => (fault, Some("loader")),
            Ok(rules) => (fault, catcher(&rules[0])),
        }
    });
    caught.collect()
}

#[test]
fn broken_rules_are_caught() {
    let text = include_str!("faults.txt");
    let (_, text) = text.split_once("\nunsound\n").unwrap();
    let (unsound, sound) = text.split_once("\nsound\n").unwrap();
    let caught = [caught(unsound, refutation), caught(sound, misfire)].concat();
    for (fault, catcher) in &caught {
        println!("{:18} {fault}", catcher.unwrap_or("nothing"));
    }
    let missed: Vec<&str> = caught.iter().filter(|(_, catcher)| catcher.is_none()).map(|(fault, _)| *fault).collect();
    assert!(missed.is_empty(), "these are not caught: {missed:#?}");
    let is_broken = |rule: &&Rule| caught.iter().any(|(fault, _)| fault.split(' ').next() == Some(&rule.name));
    let whole: Vec<&str> =
        rules().unwrap().iter().filter(|rule| !is_broken(rule)).map(|rule| rule.name.as_str()).collect();
    assert!(whole.is_empty(), "these are never broken: {whole:#?}");
}

/// Each condition makes a difference: without it the rule is caught. (Without one that gives a value the right-hand side cannot be built.)
#[test]
fn rules_without_one_of_their_conditions_are_caught() {
    let mut missed = Vec::new();
    for rule in rules().unwrap() {
        for (k, condition) in rule.conditions.iter().enumerate().filter(|(_, condition)| condition.result.is_none()) {
            let mut broken = rule.clone();
            broken.conditions.remove(k);
            let fault = format!("{} without {}, number {k}", rule.name, condition.name.text());
            match misfire(&broken).or_else(|| refutation(&broken)) {
                Some(catcher) => println!("{catcher:18} {fault}"),
                None => missed.push(fault),
            }
        }
    }
    assert!(missed.is_empty(), "these are not caught: {missed:#?}");
}
