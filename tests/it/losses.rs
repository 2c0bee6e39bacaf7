//! The page of losses, `src/language/losses.md`: derivatives of textbooks beside those that are derived.
//!
//! A section has three blocks: the program, the derivative as a book gives it, and the one that is printed. After a change of the simplifier
//! `INSTA_UPDATE=always cargo test --test it losses` writes the third ones anew.

use fastrand::Rng;
use iverson::Function;
use iverson::ir::reference;

use crate::expected::{inputs, judge};
use crate::support::{Numbers, compile, declarations};

const PAGE: &str = include_str!("../../src/language/losses.md");

/// Derivatives that are longer than the book's and no cheaper, and why.
const LONGER: &[(&str, &str)] = &[
    ("Linear form", "a result is written with its axes"),
    ("Focal loss", "a factor that both terms of a sum have is left in them"),
    ("Gravity", "the cube of a root is a product with its square, and a sign is left inside"),
];

/// A section of the page.
struct Loss {
    title: &'static str,
    program: &'static str,
    wrt: &'static str,
    book: &'static str,
    printed: &'static str,
}

impl Loss {
    fn gradient(&self) -> Function {
        compile(self.program).gradient([self.wrt]).unwrap_or_else(|error| panic!("{}: {error}", self.title))
    }

    /// What the book gives, as a program of the same parameters.
    fn book(&self) -> Function {
        let (declared, _) = declarations(self.program);
        compile(&format!("{}\n{}", declared.join("\n"), self.book))
    }
}

fn losses() -> Vec<Loss> {
    let section = |text: &'static str| {
        let (title, rest) = text.split_once('\n')?;
        let blocks: Vec<&str> =
            rest.split("```iv\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0.trim_end())).collect();
        let wrt = rest.split_once("By `")?.1.split_once('`')?.0;
        let [program, book, printed] = blocks[..] else { return None };
        Some(Loss { title, program, wrt, book, printed })
    };
    PAGE.split("\n### ").skip(1).map(|text| section(text).unwrap_or_else(|| panic!("no section: {text}"))).collect()
}

/// What stands below the declarations.
fn body(function: &Function) -> String {
    declarations(&function.to_string()).1
}

/// How many words, numbers and marks a program has; parentheses and commas are free.
fn length(body: &str) -> usize {
    let (mut count, mut in_word) = (0, false);
    for c in body.chars() {
        let is_word = c.is_alphanumeric() || "_.?".contains(c);
        count += usize::from(match is_word {
            true => !in_word,
            false => !c.is_whitespace() && !"(),".contains(c),
        });
        in_word = is_word;
    }
    count
}

/// How many operations a program takes at sizes of a few.
fn operations(function: &Function) -> u128 {
    let signature = &function.tensor_ssa().signature;
    let (mut rng, mut numbers) = (Rng::with_seed(3), Numbers::positive(3));
    let sizes = vec![9; signature.sizes.len()];
    let inputs = inputs(signature, &sizes, &mut numbers, &mut rng).expect("maps have targets");
    let counts = reference::count(function.tensor_ssa(), &inputs).expect("the inputs fit");
    counts.total(reference::Partials::Counted).expect("few")
}

#[test]
fn books_agree() {
    let losses = losses();
    assert!(losses.len() >= 60, "{}", losses.len());
    for loss in &losses {
        if let Err(complaint) = judge(&loss.book(), &loss.gradient(), 1, &mut Numbers::positive(17)) {
            panic!("{}: {complaint}\n{}\n{}", loss.title, loss.gradient(), loss.book());
        }
    }
}

#[test]
fn the_page_shows_what_is_printed() {
    let mut page = PAGE.to_owned();
    for loss in losses() {
        let printed = body(&loss.gradient());
        let old = format!("```iv\n{}\n```\n\n```iv\n{}\n```", loss.book, loss.printed);
        assert!(page.contains(&old), "{}", loss.title);
        page = page.replacen(&old, &format!("```iv\n{}\n```\n\n```iv\n{}\n```", loss.book, printed.trim_end()), 1);
    }
    if page != PAGE && std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/language/losses.md"), &page).expect("it is written");
    }
    assert!(page == PAGE, "what is printed has changed; look at it with INSTA_UPDATE=always");
}

/// In the same notation a derivative is at most as long as the book's, or takes fewer operations.
#[test]
fn printed_derivatives_are_short() {
    let mut longer = Vec::new();
    for loss in losses() {
        let (ours, book) = (loss.gradient(), loss.book());
        // Written as derivatives are: what is computed twice has a name.
        let written = Function::from_tensor_ssa(book.tensor_ssa().clone());
        let lengths = (length(&body(&ours)), length(&body(&written)));
        if lengths.0 > lengths.1 && operations(&ours) >= operations(&book) {
            longer.push((loss.title, format!("{lengths:?} {:?}", (operations(&ours), operations(&book)))));
        }
    }
    let names: Vec<&str> = longer.iter().map(|(title, _)| *title).collect();
    assert_eq!(names, LONGER.iter().map(|(title, _)| *title).collect::<Vec<_>>(), "{longer:#?}");
}
