//! Numbers that count what is done with them, whichever evaluator computes.

use std::cell::Cell;
use std::cmp::Ordering;

use crate::error::Result;
use crate::functional::lambda::Counts;
use crate::reference::Numeric;
use crate::reference::numeric::Users;
use crate::scalar::Function;

/// What was done with numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    adds: u64,
    muls: u64,
    functions: u64,
    moves: u64,
}

impl Tally {
    /// The same counts with these operations and moves.
    pub fn of(self, counts: Counts) -> Counts {
        let Tally { adds, muls, functions, moves } = self;
        Counts { adds, muls, functions, moves, ..counts }
    }
}

thread_local! {
    /// All that was done on this thread. A number cannot hold it, since 0 and literals are made of nothing.
    static TALLY: Cell<Tally> = const { Cell::new(Tally { adds: 0, muls: 0, functions: 0, moves: 0 }) };
}

fn tally(change: impl FnOnce(&mut Tally)) {
    TALLY.with(|cell| {
        let mut tally = cell.get();
        change(&mut tally);
        cell.set(tally);
    });
}

/// What a computation on this thread gives, and what it does with numbers.
pub(super) fn count<V>(compute: impl FnOnce() -> V) -> (V, Tally) {
    let before = TALLY.with(Cell::get);
    let value = compute();
    let after = TALLY.with(Cell::get);
    let tally = Tally {
        adds: after.adds - before.adds,
        muls: after.muls - before.muls,
        functions: after.functions - before.functions,
        moves: after.moves - before.moves,
    };
    (value, tally)
}

/// A number that counts its additions, multiplications, scalar functions and copies.
#[derive(Debug, PartialEq)]
pub(super) struct Counted<T>(pub T);

impl<T: Clone> Clone for Counted<T> {
    fn clone(&self) -> Self {
        tally(|tally| tally.moves += 1);
        Counted(self.0.clone())
    }
}

impl<T: Numeric> Numeric for Counted<T> {
    fn literal(x: f64) -> Result<Self> {
        T::literal(x).map(Counted)
    }

    fn integer(k: i64) -> Self {
        Counted(T::integer(k))
    }

    fn add(&self, other: &Self) -> Self {
        tally(|tally| tally.adds += 1);
        Counted(self.0.add(&other.0))
    }

    fn mul(&self, other: &Self) -> Self {
        tally(|tally| tally.muls += 1);
        Counted(self.0.mul(&other.0))
    }

    fn apply(function: Function, users: &Users, args: &[Self]) -> Result<Self> {
        tally(|tally| tally.functions += 1);
        let args: Vec<T> = args.iter().map(|x| x.0.clone()).collect();
        T::apply(function, users, &args).map(Counted)
    }

    fn is_zero(&self) -> Result<bool> {
        self.0.is_zero()
    }

    fn compare(&self, other: &Self) -> Result<Option<Ordering>> {
        self.0.compare(&other.0)
    }

    fn is_nan(&self) -> Result<bool> {
        self.0.is_nan()
    }
}
