//! Backpropagators and the jobs that make them.
//!
//! A scalar of the differentiated program is a pair of its value and the identifier of its backpropagator, a linear function from its cotangent to
//! that of the whole input (section 5). A backpropagator has one of three forms (section 6):
//!
//! ```text
//! λz. one-hot z                               of an input
//! λz. 0                                       of a literal
//! λz. d1 (∂1 op(x..) z) + .. + dn (∂n op(x..) z)      of the result of an operation; d1, .. are older than it
//! ```
//!
//! So they are data: a closure is an entry of its job, and its identifier says where. An entry of the third form keeps its arguments, and the
//! partial derivatives are taken when it is called; or it keeps the partial derivatives, which is `Contrib` of section 10.2. A *leaf call* is a
//! straight piece of program with one identifier for all scalars that it gives (section 14 asks for this); its backpropagator has a cotangent
//! for each of them.
//!
//! **Compound identifiers** (section 12.2). A fork ends a job, and a join begins one, so a job is sequential. Identifiers are pairs of a job and a
//! number within it. A backpropagator calls only those that are below it in the order that forks and joins give.

use smallvec::{SmallVec, smallvec};

use crate::error::{Error, Result};
use crate::functional::lambda::Prim;
use crate::reference::Numeric;
use crate::reference::numeric::Users;

use super::leaf::Leaf;
use super::operation::{self, Weight, scale};

/// The number of a job; unique, in no order.
pub type JobId = u32;

/// The identifier of a backpropagator: its job, and the number of its first cotangent within the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    /// The job that made it.
    pub job: JobId,
    /// Its place within the job.
    pub cell: u32,
}

/// A scalar in dual form: `D[R] = (R, (Id, backpropagator))`.
#[derive(Clone, Debug)]
pub struct Scalar<T> {
    /// Its value.
    pub value: T,
    /// The identifier of its backpropagator.
    pub id: Id,
}

/// A backpropagator.
#[derive(Clone, Debug)]
pub(super) enum Backpropagator<T> {
    /// Of the input scalar of a number.
    Input(u32),
    /// Of a literal.
    Zero,
    /// Of an operation on arguments; it takes partial derivatives when it is called.
    Operation(Prim, SmallVec<[Scalar<T>; 2]>),
    /// Of an operation, its partial derivatives taken already: `Contrib`.
    Contributions(Contributions<T>),
    /// Of a leaf call, or of several of one leaf in a row; it has a cotangent for each scalar that they give.
    Leaf(u32, Vec<Scalar<T>>),
}

/// What a backpropagator does with its cotangent.
#[derive(Clone, Debug)]
pub(super) enum Effect<T> {
    /// It adds to the cotangent of an input scalar.
    OneHot(u32, T),
    /// It calls another one.
    Call(Id, T),
}

/// `Contrib`: the arguments that an operation depends on, with the partial derivatives by them.
pub(super) type Contributions<T> = SmallVec<[(Weight<T>, Id); 2]>;

/// The contributions of an operation.
pub(super) fn contributions<T: Numeric>(prim: Prim, args: &[Scalar<T>], users: &Users) -> Result<Contributions<T>> {
    // The most frequent ones, without a detour.
    match (prim, args) {
        (Prim::Add, [a, b]) => return Ok(smallvec![(None, a.id), (None, b.id)]),
        (Prim::Mul, [a, b]) => return Ok(smallvec![(Some(b.value.clone()), a.id), (Some(a.value.clone()), b.id)]),
        _ => {}
    }
    let values: SmallVec<[T; 2]> = args.iter().map(|a| a.value.clone()).collect();
    let partials = operation::partials(prim, &values, users)?;
    Ok(partials.into_iter().map(|(k, weight)| (weight, args[k].id)).collect())
}

/// What a call needs beside the backpropagator.
#[derive(Clone, Copy)]
pub(super) struct Calls<'a> {
    pub users: &'a Users,
    pub leaves: &'a [Leaf],
}

impl Calls<'_> {
    /// The effects of calling a backpropagator at its cotangents, of which there is one but for leaf calls; in place of what is in the buffer.
    pub(super) fn effects<T: Numeric>(
        &self,
        backpropagator: &Backpropagator<T>,
        cotangents: &[Option<T>],
        effects: &mut Vec<Effect<T>>,
    ) -> Result<()> {
        effects.clear();
        if let Backpropagator::Leaf(leaf, args) = backpropagator {
            let Some(leaf) = self.leaves.get(*leaf as usize) else {
                return Err(Error::bug("dual", "a call of a leaf that is not there"));
            };
            return leaf.pull_back(args, cotangents, self.users, effects);
        }
        let Some(Some(d)) = cotangents.first() else { return Ok(()) };
        let call = |(weight, id): &(Weight<T>, Id)| Effect::Call(*id, scale(weight, d));
        match backpropagator {
            Backpropagator::Input(k) => effects.push(Effect::OneHot(*k, d.clone())),
            Backpropagator::Zero | Backpropagator::Leaf(..) => {}
            Backpropagator::Operation(prim, args) => {
                effects.extend(contributions(*prim, args, self.users)?.iter().map(call));
            }
            Backpropagator::Contributions(list) => effects.extend(list.iter().map(call)),
        }
        Ok(())
    }
}

/// A fork and its join, between two jobs of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fork {
    /// The job that the fork ended.
    pub before: JobId,
    /// The last jobs of the two tasks that it began.
    pub arms: [JobId; 2],
}

/// A sequential part of a run.
#[derive(Debug)]
pub(super) struct Job<T> {
    /// Its backpropagators, oldest first, with the number of cotangents of each.
    pub entries: Vec<Backpropagator<T>>,
    /// The first cell of each entry, where leaf calls make them differ from its place.
    pub cells: Cells,
    /// How the job began: by a join, or with its task.
    pub history: Option<Fork>,
}

/// The cells of the entries of a job.
#[derive(Debug)]
pub(super) enum Cells {
    /// One for each entry.
    One,
    /// The first cell of each entry, and the number of all cells at the end.
    Many(Vec<u32>),
}

impl<T> Job<T> {
    pub(super) fn new(history: Option<Fork>) -> Self {
        Job { entries: Vec::new(), cells: Cells::One, history }
    }

    /// The number of cells.
    pub(super) fn len(&self) -> usize {
        match &self.cells {
            Cells::One => self.entries.len(),
            Cells::Many(firsts) => firsts.last().map_or(0, |end| *end as usize),
        }
    }

    /// Adds a backpropagator with so many cotangents, and gives the cell of its first one.
    pub(super) fn push(&mut self, entry: Backpropagator<T>, width: usize) -> Result<u32> {
        let first = self.len();
        let end = first.checked_add(width).and_then(|end| u32::try_from(end).ok());
        let Some(end) = end else {
            let (limit, found) = (u64::from(u32::MAX), first as u64 + width as u64);
            return Err(Error::Limit { what: "the backpropagators of a job", limit, found });
        };
        if width != 1
            && let Cells::One = self.cells
        {
            // As many as there are entries, which the check above bounds.
            self.cells = Cells::Many((0..=end.saturating_sub(width as u32)).collect());
        }
        if let Cells::Many(firsts) = &mut self.cells {
            firsts.push(end);
        }
        self.entries.push(entry);
        Ok(end - width as u32)
    }

    /// The cells of an entry.
    pub(super) fn range(&self, entry: usize) -> std::ops::Range<usize> {
        match &self.cells {
            Cells::One => entry..entry + 1,
            Cells::Many(firsts) => firsts[entry] as usize..firsts[entry + 1] as usize,
        }
    }

    /// The entry that a cell belongs to.
    pub(super) fn entry_of(&self, cell: u32) -> usize {
        match &self.cells {
            Cells::One => cell as usize,
            Cells::Many(firsts) => firsts.partition_point(|first| *first <= cell) - 1,
        }
    }
}

/// All jobs of a run.
#[derive(Debug)]
pub(super) struct Jobs<T> {
    /// The jobs by their numbers.
    pub jobs: Vec<Job<T>>,
    /// The last job of the first task.
    pub last: JobId,
}

impl<T> Jobs<T> {
    pub(super) fn job(&self, id: JobId) -> &Job<T> {
        &self.jobs[id as usize]
    }

    /// The number of identifiers.
    pub(super) fn identifiers(&self) -> usize {
        self.jobs.iter().map(|job| job.entries.len()).sum()
    }

    /// Whether a job comes before another one: the transitive closure of "forks into" and "joins into" (section 12.2).
    #[cfg(test)]
    pub(super) fn is_before(&self, low: JobId, high: JobId) -> bool {
        // Climbs down from the later job; jobs that end before the fork that began a task come before all of the task.
        let mut begins: Vec<Option<JobId>> = vec![None; self.jobs.len()];
        let mut tasks = vec![(self.last, None)];
        while let Some((end, begin)) = tasks.pop() {
            let mut job = Some(end);
            while let Some(id) = job {
                begins[id as usize] = begin;
                job = self.job(id).history.map(|fork| {
                    tasks.extend(fork.arms.map(|arm| (arm, Some(fork.before))));
                    fork.before
                });
            }
        }
        let mut seen = vec![false; self.jobs.len()];
        let mut open = vec![high];
        while let Some(id) = open.pop() {
            if id == low {
                return true;
            }
            if std::mem::replace(&mut seen[id as usize], true) {
                continue;
            }
            match self.job(id).history {
                Some(fork) => open.extend(fork.arms),
                None => open.extend(begins[id as usize]),
            }
        }
        false
    }

    /// The order of identifiers: strictly below.
    #[cfg(test)]
    pub(super) fn is_below(&self, low: Id, high: Id) -> bool {
        match low.job == high.job {
            true => low.cell < high.cell,
            false => self.is_before(low.job, high.job),
        }
    }
}
