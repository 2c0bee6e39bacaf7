//! What the loader refuses, and where it says it is.

use crate::simplify::conditions::Name;
use crate::simplify::{BUILT_IN, read, read_all, rules};

/// A rule file with one thing wrong, and the message.
const BAD: &[(&str, &str)] = &[
    ("rule x normal", "f:1: a rule begins with `rule NAME MODE TIER`"),
    (
        "# c\nrule x later exact\n  a\n  => a\n  example x[i]",
        "f:2: `later` is not a mode; there are normal, reduce and explore",
    ),
    (
        "# c\nrule x normal real\n  a\n  => a\n  example x[i]",
        "f:2: `real` is not a tier; there are exact, signed-zero and finite",
    ),
    ("rule x normal exact\n  a * a\n  => a\n  example x[i]", "f:1: the rule `x` has no comment"),
    ("# c\n\nrule x normal exact\n  a * a\n  => a\n  example x[i]", "f:3: the rule `x` has no comment"),
    ("# c\nrule x normal exact\n  a * a\n  => a", "f:2: the rule `x` has no example"),
    ("# c\nrule x normal exact\n  a * a\n  example x[i]", "f:2: the rule `x` has no right-hand side"),
    ("# c\nrule x normal exact\n  => a\n  example x[i]", "f:2: the rule `x` has no left-hand side"),
    ("stray", "f:1: expected `rule` or a comment, found `stray`"),
    ("# c\nrule x normal exact\n  a * a\n  => a b\n  example x[i]", "f:4: `b` does not belong here"),
    ("# c\nrule x normal exact\n  a * a\n  => a\n  => b\n  example x[i]", "f:5: there are two right-hand sides"),
    ("# c\nrule x normal exact\n  a * w\n  => a\n  example x[i]", "f:3: `w` names nothing"),
    ("# c\nrule x normal exact\n  a * erg(b)\n  => a\n  example x[i]", "f:3: `erg` names nothing"),
    ("# c\nrule x normal exact\n  a * a\n  => b\n  example x[i]", "f:4: nothing binds `b`"),
    ("# c\nrule x normal exact\n  a * a\n  => b\n\n", "f:2: the rule `x` has no example"),
    ("# c\nrule x normal exact\n  a * c\n  => a\n  where proper(d)\n  example x[i]", "f:5: nothing binds `d`"),
    ("# c\nrule x normal exact\n  a * c\n  => a\n  where tidy(c)\n  example x[i]", "f:5: there is no condition `tidy`"),
    (
        "# c\nrule x normal exact\n  a * c\n  => a\n  where proper(a)\n  example x[i]",
        "f:5: `proper` does not take `a` there",
    ),
    (
        "# c\nrule x normal exact\n  a * c\n  => a\n  where opposite(c)\n  example x[i]",
        "f:5: `opposite` takes 2 arguments",
    ),
    (
        "# c\nrule x normal exact\n  a * c\n  => a\n  where proper(c, c)\n  example x[i]",
        "f:5: `proper` does not take `c` there",
    ),
    (
        "# c\nrule x normal exact\n  a * c\n  => a\n  where d := proper(c)\n  example x[i]",
        "f:5: `proper` gives nothing",
    ),
    (
        "# c\nrule x normal exact\n  a * c\n  => a\n  where reciprocal(c)\n  example x[i]",
        "f:5: the result of `reciprocal` needs a name",
    ),
    (
        "# c\nrule x normal exact\n  a * c\n  => a\n  where k := reciprocal(c)\n  example x[i]",
        "f:5: `reciprocal` does not give a `k`",
    ),
    ("# c\nrule x normal exact\n  exp(a, b)\n  => a\n  example x[i]", "f:3: `exp` takes 1 argument"),
    ("# c\nrule x normal exact\n  max(a)\n  => a\n  example x[i]", "f:3: `max` takes 2 arguments"),
    ("# c\nrule x normal exact\n  a * $\n  => a\n  example x[i]", "f:3: `$` does not belong here"),
    ("# c\nrule x normal exact\n  a * n\n  => a\n  example x[i]", "f:3: write `real(n)` for `n` as a real"),
    ("# c\nrule x normal exact\n  a * p\n  => a\n  example x[i]", "f:3: `p` is not an expression"),
    ("# c\nrule x normal exact\n  a^c\n  => a\n  example x[i]", "f:3: `c` is not an integer constant"),
    ("# c\nrule x normal exact\n  (a\n  => a\n  example x[i]", "f:3: expected `)`, found the end of the line"),
    ("# c\nrule x normal exact\n  sum a. b\n  => b\n  example x[i]", "f:3: `a` is not an index"),
    ("# c\nrule x normal exact\n  sum i < n. a(i)\n  => a(i)\n  example x[i]", "f:4: nothing binds `i` here"),
    ("# c\nrule x normal exact\n  sum i < n. a(i)\n  => real(i)\n  example x[i]", "f:4: nothing binds `i` here"),
    ("# c\nrule x normal exact\n  sum i < n. a(i)\n  => sum j < n. a(j)\n  example x[i]", "f:4: nothing binds `j`"),
    (
        "# c\nrule x normal exact\n  sum i < n. a(i)\n  => real(n) * a\n  example x[i]",
        "f:4: `a` is applied to 1 on the left and 0 here",
    ),
    (
        "# c\nrule x normal exact\n  sum i < n. a(i) * b\n  => b * a(n, n)\n  example x[i]",
        "f:4: `a` is applied to 1 on the left and 2 here",
    ),
    ("# c\nrule x normal exact\n  exp(a(i))\n  => 0\n  example x[i]", "f:3: nothing binds `i` here"),
    (
        "# c\nrule x normal exact\n  sum i < n. a(i + 1)\n  => 0\n  example x[i]",
        "f:3: a left-hand side applies `a` to indices only",
    ),
    (
        "# c\nrule x normal exact\n  [s <= t] * a\n  => a\n  example x[i]",
        "f:3: of comparisons a left-hand side has `i = s` only",
    ),
    (
        "# c\nrule x normal exact\n  [s < t] * a\n  => a\n  example x[i]",
        "f:3: of comparisons a left-hand side has `i = s` only",
    ),
    (
        "# c\nrule x normal exact\n  [s != t] * a\n  => a\n  example x[i]",
        "f:3: of comparisons a left-hand side has `i = s` only",
    ),
    (
        "# c\nrule x normal exact\n  [s = i] * a\n  => a\n  example x[i]",
        "f:3: of comparisons a left-hand side has `i = s` only",
    ),
    (
        "# c\nrule x normal exact\n  [i = s + 1] * a\n  => a\n  example x[i]",
        "f:3: of comparisons a left-hand side has `i = s` only",
    ),
    ("# c\nrule x normal exact\n  [p or q] * a\n  => a\n  example x[i]", "f:3: a left-hand side has no `or`"),
    (
        "# c\nrule x normal exact\n  real(s + 1) * a\n  => a\n  example x[i]",
        "f:3: a left-hand side has `real` of one name only",
    ),
    (
        "# c\nrule x normal exact\n  element(read(a))\n  => a\n  example x[i]",
        "f:3: a left-hand side has no `element` or `read` directly inside `element`",
    ),
    (
        "# c\nrule x normal exact\n  element(element(a))\n  => a\n  example x[i]",
        "f:3: a left-hand side has no `element` or `read` directly inside `element`",
    ),
    (
        "# c\nrule x normal exact\n  a^(k + l)\n  => a\n  example x[i]",
        "f:3: a left-hand side has exponents of one name or number only",
    ),
    (
        "# c\nrule x normal exact\n  a\n  => a\n  example x[i]",
        "f:3: a left-hand side is more than a metavariable or a number",
    ),
    ("# c\nrule x normal exact\n  a * a\n  => read(a)\n  example x[i]", "f:4: `read` stands on left-hand sides only"),
    (
        "# c\nrule x normal exact\n  a * a\n  => a\n  example x[i]\n\n# c\nrule x normal exact\n  a * a\n  => a\n  example x[i]",
        "f:8: there are two rules `x`",
    ),
    (
        "# c\nrule x normal exact\n  a * a\n  => 99999999999999999999 * real(99999999999999999999 * n)\n  example x[i]",
        "f:4: `100000000000000000000` is too large for an integer",
    ),
];

#[test]
fn bad_rules_are_refused() {
    let mut wrong = Vec::new();
    for (text, message) in BAD {
        let found = match read("f", text) {
            Ok(rules) => format!("{} rules", rules.len()),
            Err(error) => error.to_string(),
        };
        if found != *message {
            wrong.push(format!("{text}\n  expected {message}\n  found    {found}\n"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn names_of_rules_are_unique_in_all_files() {
    let rule = "# c\nrule x reduce finite\n  a * a\n  => a^2\n  example x[i]\n";
    let error = read_all(&[("f", rule), ("g", rule)]).unwrap_err();
    assert_eq!(error.to_string(), "g:2: there are two rules `x`");
}

/// The rows of the table of `rules/README.md` that has this header.
fn rows(header: &str) -> Vec<Vec<&'static str>> {
    let lines = include_str!("../../../rules/README.md").lines();
    let table = lines.skip_while(|line| *line != header).skip(2).take_while(|line| line.starts_with('|'));
    table.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

#[test]
fn conditions_are_described() {
    let rows = rows("| condition | holds if, or gives |");
    let described: Vec<Name> = rows
        .iter()
        .map(|row| {
            let call = row[0].trim_matches('`');
            let name = call.rsplit(":= ").next().and_then(|call| call.split('(').next()).and_then(Name::parse);
            let name = name.unwrap_or_else(|| panic!("there is no condition `{call}`"));
            let (args, result) = name.signature();
            assert_eq!((call.contains(":="), call.split(',').count()), (result.is_some(), args.len()), "{call}");
            name
        })
        .collect();
    for name in Name::ALL {
        let count = described.iter().filter(|other| *other == name).count();
        assert_eq!(count, 1, "rules/README.md describes `{}` so many times", name.text());
        assert_eq!(Name::parse(name.text()), Some(*name));
    }
}

#[test]
fn conditions_are_used() {
    let is_used = |name: &Name| rules().unwrap().iter().any(|rule| rule.conditions.iter().any(|c| c.name == *name));
    let idle: Vec<&str> = Name::ALL.iter().filter(|name| !is_used(name)).map(|name| name.text()).collect();
    assert!(idle.is_empty(), "no rule asks for these: {idle:?}");
}

#[test]
fn steps_that_are_no_rules_are_described() {
    let described: Vec<(&str, &str)> =
        rows("| step | says | certified by |").iter().map(|row| (row[0].trim_matches('`'), row[1])).collect();
    let sorted = |mut steps: Vec<(&'static str, &'static str)>| {
        steps.sort_unstable();
        steps
    };
    assert_eq!(sorted(described), sorted(BUILT_IN.to_vec()));
}
