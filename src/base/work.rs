//! Counted work: what passes charge, and the budgets that end them.
//!
//! A unit is about what it takes to look at one small thing: a coefficient of an inequality, a part of a pattern, a node of a program. Inner
//! loops [`charge`] what they do; [`within`] runs something on a budget; what runs may ask whether the budget [is used up](is_used_up), and
//! then ends with an answer that is right and says less: a proof is not found, a rule is not applied, a cheaper program is not looked for.
//! What has no such answer runs [`bounded`], and ends
//! by [`check`] with [`Error::Limit`].
//!
//! Budgets nest: what is spent inside is spent outside too, and a budget inside lasts no longer than the one around it.
//!
//! **Why it is deterministic.** The meter belongs to the thread. A pass runs on one thread from start to end, opens its budget where it begins, and
//! only what has been charged since then counts against it. So the same program on the same budget ends at the same place, whatever ran before it,
//! and on any machine.
//!
//! **The promise.** For a text of `n` expressions, of which there are at most two for each byte,
//!
//! ```text
//!   checking               takes at most  BASE + PER_EXPRESSION * n  units, and gives at most  TERMS + TERMS_PER_EXPRESSION * n  terms
//!   each pass after it     takes at most  BASE + PER_TERM * t        units, t being the terms or statements that it starts from
//!   all that succeed       take at most   2^33 + 2^12 * (n + 75 * t) units, t being the most that one of them starts from
//! ```
//!
//! and each at most [`SLACK`] more, for a loop looks at its budget once a round; but most passes over loops look at it when they end. From a text
//! to the loop nests of a derivative there are at most [`PASSES`], so the sum has room for what they exceed their budgets by. [`Error::Limit`], an
//! error of the program or a `note:` says what ended early.

use std::cell::Cell;

use super::error::{Error, Result};

/// What any pass may spend, however small the program.
pub const BASE: u64 = 1 << 26;
/// What checking may spend besides for each expression of a text.
pub const PER_EXPRESSION: u64 = 1 << 12;
/// What a pass may spend besides for each term or statement of the program that it starts from.
pub const PER_TERM: u64 = 1 << 12;
/// How many terms a program may have when its definitions are expanded, however short its text.
pub const TERMS: u64 = 1 << 16;
/// How many more it may have for each expression of its text.
pub const TERMS_PER_EXPRESSION: u64 = 1 << 6;
/// How far a budget may be exceeded.
pub const SLACK: u64 = 1 << 21;

/// At least as many as there are passes from a text to loop nests, checking, deriving and simplifying among them.
pub const PASSES: u64 = 69;

/// What a pass may spend on a program of so many terms or statements.
pub fn budget(terms: usize) -> u64 {
    BASE.saturating_add(PER_TERM.saturating_mul(terms as u64))
}

/// What a text of so many expressions may take on its way to loop nests, if no pass starts from more than so many terms or statements.
pub fn budget_of_all(expressions: usize, terms: usize) -> u64 {
    let passes = budget(terms).saturating_add(SLACK).saturating_mul(PASSES);
    budget_of_text(expressions).saturating_add(SLACK).saturating_add(passes)
}

/// What checking may spend on a text of so many expressions.
pub fn budget_of_text(expressions: usize) -> u64 {
    BASE.saturating_add(PER_EXPRESSION.saturating_mul(expressions as u64))
}

/// The terms that a text of so many expressions may expand to.
pub fn terms_of_text(expressions: usize) -> u64 {
    TERMS.saturating_add(TERMS_PER_EXPRESSION.saturating_mul(expressions as u64))
}

/// The meter of a thread.
#[derive(Clone, Copy)]
struct Meter {
    spent: u64,
    /// Where the innermost budget ends.
    end: u64,
    /// The innermost budget that must not be exceeded.
    strict: Strict,
}

/// A budget that must not be exceeded.
#[derive(Clone, Copy)]
struct Strict {
    what: &'static str,
    start: u64,
    end: u64,
}

thread_local! {
    static METER: Cell<Meter> = const {
        Cell::new(Meter { spent: 0, end: u64::MAX, strict: Strict { what: "", start: 0, end: u64::MAX } })
    };
}

/// Adds work that was done, or is about to be.
#[inline]
pub fn charge(units: usize) {
    METER.with(|meter| {
        let now = meter.get();
        meter.set(Meter { spent: now.spent.saturating_add(units as u64), ..now });
    });
}

/// Whether the budget is used up. Without a budget it never is.
#[inline]
pub fn is_used_up() -> bool {
    METER.with(|meter| {
        let now = meter.get();
        now.spent >= now.end
    })
}

/// What is left of the budget.
pub fn left() -> u64 {
    METER.with(|meter| {
        let now = meter.get();
        now.end.saturating_sub(now.spent)
    })
}

/// What this thread has spent so far, for differences.
pub fn spent() -> u64 {
    METER.with(|meter| meter.get().spent)
}

/// Ends what must not exceed its budget.
///
/// # Errors
/// [`Error::Limit`] inside of [`bounded`], where its budget is used up.
pub fn check() -> Result<()> {
    let Meter { spent, strict: Strict { what, start, end }, .. } = METER.with(Cell::get);
    match spent >= end {
        true => Err(Error::Limit { what, limit: end - start, found: spent - start }),
        false => Ok(()),
    }
}

/// Puts the budgets around it in force again, also when a panic goes by.
struct Restore {
    around: Meter,
    counted: bool,
}

impl Drop for Restore {
    fn drop(&mut self) {
        METER.with(|meter| {
            let spent = if self.counted { meter.get().spent } else { self.around.spent };
            meter.set(Meter { spent, ..self.around });
        });
    }
}

fn metered<T>(inside: impl FnOnce(Meter) -> Meter, counted: bool, run: impl FnOnce() -> T) -> T {
    let around = METER.with(Cell::get);
    let _restore = Restore { around, counted };
    METER.with(|meter| meter.set(inside(around)));
    run()
}

/// Runs something on a budget of its own, within the one around it: something that ends with an answer when the budget is used up.
pub fn within<T>(budget: u64, run: impl FnOnce() -> T) -> T {
    metered(|around| Meter { end: around.spent.saturating_add(budget).min(around.end), ..around }, true, run)
}

/// Runs something that [fails](check) when its budget is used up; `what` names the units.
///
/// # Errors
/// Those of `run`, and [`Error::Limit`].
pub fn bounded<T>(what: &'static str, budget: u64, run: impl FnOnce() -> Result<T>) -> Result<T> {
    let inside = |around: Meter| {
        let strict = Strict { what, start: around.spent, end: around.spent.saturating_add(budget) };
        match strict.end < around.strict.end {
            true => Meter { end: strict.end.min(around.end), strict, ..around },
            false => around,
        }
    };
    metered(inside, true, run)
}

/// Runs a pass over a program of so many terms or statements, on the budget of a pass.
///
/// # Errors
/// Those of `run`, and [`Error::Limit`] where the budget is used up.
pub fn pass<T>(terms: usize, run: impl FnOnce() -> Result<T>) -> Result<T> {
    bounded("units of work of one pass", budget(terms), || {
        let result = run()?;
        check()?;
        Ok(result)
    })
}

/// Runs something that must come to its end: a verifier, for which an answer that says less is wrong. What it takes is not counted.
pub fn uncounted<T>(run: impl FnOnce() -> T) -> T {
    let free = |around: Meter| Meter { end: u64::MAX, strict: Strict { end: u64::MAX, ..around.strict }, ..around };
    metered(free, false, run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_nest() {
        let before = spent();
        assert!(!is_used_up());
        within(100, || {
            charge(60);
            assert_eq!((is_used_up(), left()), (false, 40));
            // What is inside lasts no longer than what is around it.
            within(1000, || {
                charge(39);
                assert!(!is_used_up());
                charge(1);
                assert!(is_used_up());
            });
            assert_eq!((is_used_up(), left()), (true, 0));
            uncounted(|| {
                charge(1 << 40);
                assert!(!is_used_up());
            });
            // It ends with an answer, so nothing fails.
            assert_eq!(check(), Ok(()));
        });
        assert!(!is_used_up());
        assert_eq!(spent() - before, 100);
    }

    #[test]
    fn what_is_bounded_fails() {
        let outer = bounded("units outside", 100, || {
            charge(90);
            let inner = bounded("units inside", 5, || {
                charge(6);
                assert!(is_used_up());
                check()
            });
            assert_eq!(inner, Err(Error::Limit { what: "units inside", limit: 5, found: 6 }));
            assert_eq!((check(), is_used_up()), (Ok(()), false));
            // The budget around it ends first.
            bounded("units inside", 50, || {
                charge(10);
                check()
            })
        });
        assert_eq!(outer, Err(Error::Limit { what: "units outside", limit: 100, found: 106 }));
        assert_eq!(check(), Ok(()));
    }

    #[test]
    fn budgets_end_with_what_they_are_for() {
        let failed = std::panic::catch_unwind(|| {
            within(1, || {
                charge(2);
                panic!("inside");
            })
        });
        assert!(failed.is_err() && !is_used_up());
    }
}
