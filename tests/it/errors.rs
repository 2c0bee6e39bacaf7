//! Bad programs and bad data: every message, with its place, as a person reads it.

use iverson::error::Diagnostic;
use iverson::{Error, surface};

/// `(name, program)` for each `== name` of a table.
fn cases(table: &str) -> Vec<(&str, &str)> {
    let (first, rest) = table.split_at(table.find("== ").expect("the table has cases"));
    assert!(first.is_empty(), "the table starts with a case");
    let cases = rest[3..].split("\n== ").map(|case| case.split_once('\n').unwrap_or((case, "")));
    cases.collect()
}

/// What is printed for a wrong program, after checks that hold for every message.
fn rendered(name: &str, text: &str) -> String {
    let error = match surface::read(text, &[]) {
        Ok(program) => panic!("`{name}` is a right program:\n{text}\nread as\n{program}"),
        Err(error) => error,
    };
    match &error {
        Error::Program(diagnostics) => {
            assert!(!diagnostics.is_empty(), "`{name}` is refused without a reason");
            for diagnostic in diagnostics {
                check(name, text, diagnostic);
            }
            assert!(
                diagnostics.is_sorted_by_key(|d| d.span.start),
                "the problems of `{name}` are not in the order of the text: {diagnostics:?}"
            );
        }
        Error::Limitation { span: Some(_), .. } => {}
        error => panic!("`{name}` gives {error:?}"),
    }
    surface::render_error(name, text, &error, false)
}

fn check(name: &str, text: &str, diagnostic: &Diagnostic) {
    let Diagnostic { code, span, message, help } = diagnostic;
    let place = text.get(span.start as usize..span.end as usize);
    assert!(place.is_some(), "`{name}`: {code} at {span:?} is no place in the text");
    assert!(code.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "`{name}`: the code `{code}`");
    for sentence in [Some(message), help.as_ref()].into_iter().flatten() {
        assert!(!sentence.is_empty() && !sentence.contains('\n'), "`{name}`: not one sentence: {sentence:?}");
        assert!(!sentence.ends_with('.') || sentence.ends_with(".."), "`{name}`: a full stop ends {sentence:?}");
        for inside in ["Affine", "Pred(", "TypeId", "SizeId", "ExprId", "Some(", "None"] {
            assert!(!sentence.contains(inside), "`{name}` speaks of the compiler's inside: {sentence}");
        }
    }
}

#[test]
fn bad_programs() {
    let cases = cases(include_str!("../errors/programs.txt"));
    let mut all = String::new();
    for (name, text) in cases {
        all.push_str(&rendered(name, text));
        all.push('\n');
    }
    insta::assert_snapshot!(all);
}
