//! The data types of loop nests.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Decision;
use crate::base::{Arena, FunctionId, IndexId, RelationId, define_id};
use crate::index::{Affine, Checked, Size, Var, View};
use crate::scalar::Function;
use crate::ty::Precision;
use crate::ty::Signature;

define_id!(
    /// A register for a real number.
    RealId,
    "r"
);
define_id!(
    /// A buffer of real numbers.
    BufferId,
    "b"
);
define_id!(
    /// An array of integers that describes a relation.
    ArrayId,
    "s"
);

/// The name of the output that is a whole matrix, where its blocks are stored in its order. No name of the language has a space.
pub const MATRIX: &str = "entries of the matrix";

/// How the names of patterns begin that are found out when a program is bound. No name of the language has a space.
pub const PLACES: &str = "places of ";

/// What an array of a view holds. A node of level `k` is a distinct prefix of length `k + 1`; nodes of the last level are the tuples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Two integers: 0 and the number of nodes of level 0.
    Roots,
    /// For each value `v` of the first axis where the nodes below it start, and at the end where the last ones end. These are nodes of
    /// level 1, or, of a relation of one axis, of level 0.
    Rows,
    /// The last coordinate of each node of a level.
    Nodes(u8),
    /// Where the nodes below each node of a level start, and at the end where the last ones end.
    Children(u8),
    /// The number of the entry at each tuple of the view: see [`Signature::stored_order`].
    Entries,
    /// For each tuple of the view, which is in the order of the entries, the entry of a [projection](crate::ty::RelationKind::Projection) of the relation.
    Projected(RelationId),
    /// Of the pattern of a block of a matrix, for each row of the block where its entries start in the order of the matrix. It is given with
    /// the relation, since it depends on the other blocks.
    Starts,
    /// Of the tuples of the view in bins.
    Binned(Binned),
    /// For each tuple of the view 1 more than the place of another tuple that its coordinates tell, 0 where there is none.
    Neighbours(Neighbours),
}

/// Which tuple [`Part::Neighbours`] look for at each tuple of a view: its coordinates, in the order of the view in which it is sought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Neighbours {
    /// The relation in which it is sought, of one axis or two.
    pub relation: RelationId,
    /// Whether it is sought in the view whose first axis is the second one of the relation.
    pub swapped: bool,
    /// Its first coordinate.
    pub first: Coordinate,
    /// Its second coordinate, if there is one.
    pub second: Option<Coordinate>,
}

/// A coordinate that stands at a fixed distance from one of a tuple that is at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Coordinate {
    /// The axis of the relation that is at hand.
    pub axis: usize,
    /// What is added.
    pub shift: i64,
}

impl Neighbours {
    /// The axes of the view in which tuples are sought.
    pub fn axes(&self) -> Vec<usize> {
        match (self.second, self.swapped) {
            (None, _) => vec![0],
            (Some(_), false) => vec![0, 1],
            (Some(_), true) => vec![1, 0],
        }
    }

    /// The coordinates that are sought, in the order of the view.
    pub fn coordinates(&self) -> impl Iterator<Item = &Coordinate> {
        std::iter::once(&self.first).chain(&self.second)
    }
}

/// What an array of the tuples of a view in [`Bins`] holds. All but the first are empty where there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Binned {
    /// Two integers: 0 and the number of tuples in bins, which is 0 where the relation is small.
    All,
    /// The number of the entry at each tuple of the bins.
    Entries,
    /// A coordinate of each tuple of the bins, by axis of the relation.
    Axis(usize),
    /// Where each tuple of the view stands in the bins.
    Places,
}

/// Which relations have their tuples in bins: runs of entries as they are numbered, each of them sorted as a view is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bins {
    /// How many tuples a relation has at least.
    pub least: usize,
    /// How many tuples a bin has at least.
    pub size: usize,
}

impl Bins {
    /// How many bins there are at most. So many places are read in turn, each of them on a page of its own: the nearest cache holds the lines of
    /// no more, beside what else is read.
    const MOST: usize = 64;

    /// How many tuples a bin of a relation has that has so many; nothing where it has no bins.
    pub fn size_for(self, tuples: usize) -> Option<usize> {
        (tuples >= self.least).then(|| self.size.max(tuples.div_ceil(Bins::MOST)).max(1))
    }
}

impl Default for Bins {
    /// Bins whose numbers fit the larger cache of a core, where a number for each tuple fits neither.
    fn default() -> Self {
        Bins { least: 1 << 19, size: 1 << 16 }
    }
}

/// An array of a view of a relation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Array {
    /// The relation.
    pub relation: RelationId,
    /// The order of its axes in the view, the most significant first.
    pub axes: Vec<usize>,
    /// What the array holds.
    pub part: Part,
}

impl Array {
    /// The level of the nodes that are below those of pointers; nothing for other arrays.
    pub fn level_below(&self) -> Option<u8> {
        match self.part {
            Part::Roots => Some(0),
            Part::Rows => Some(u8::from(self.axes.len() > 1)),
            Part::Children(level) => level.checked_add(1),
            Part::Nodes(_)
            | Part::Entries
            | Part::Projected(_)
            | Part::Starts
            | Part::Binned(_)
            | Part::Neighbours(_) => None,
        }
    }

    /// The same array of a view of the relation that its relation is a projection of: the levels of a view of a projection are the first ones of that. Nothing
    /// for an array of tuples, and where the relation is none.
    pub fn of_projected(&self, signature: &Signature) -> Option<Array> {
        if !matches!(self.part, Part::Roots | Part::Rows | Part::Nodes(_) | Part::Children(_)) {
            return None;
        }
        let (of, mut axes) = self.projected_view(signature)?;
        let others: Vec<usize> =
            (0..signature.relations.get(of)?.shape.len()).filter(|axis| !axes.contains(axis)).collect();
        axes.extend(others);
        Some(Array { relation: of, axes, part: self.part })
    }

    /// The relation that its relation is a projection of, and the axes of that in the order of the view.
    fn projected_view(&self, signature: &Signature) -> Option<(RelationId, Vec<usize>)> {
        let (of, kept) = signature.projection(self.relation)?;
        Some((of, self.axes.iter().map(|axis| kept.get(*axis).copied()).collect::<Option<_>>()?))
    }

    /// Whether the nodes of a level are those of the same level of another view.
    pub fn has_nodes_of(&self, other: &Array, level: u8, signature: &Signature) -> bool {
        let view =
            |array: &Array| array.projected_view(signature).unwrap_or_else(|| (array.relation, array.axes.clone()));
        let ((own, axes), (of, others)) = (view(self), view(other));
        let first = ..=usize::from(level);
        own == of && axes.get(first).is_some_and(|axes| others.get(first) == Some(axes))
    }

    /// How many values the coordinates that it holds may have; nothing for other arrays.
    pub fn extent<'s>(&self, signature: &'s Signature) -> Option<&'s Size> {
        let Part::Nodes(level) = self.part else { return None };
        signature.relations.get(self.relation)?.shape.get(*self.axes.get(usize::from(level))?)
    }

    /// Whether the nodes below those of pointers are the tuples.
    pub fn is_above_tuples(&self) -> bool {
        self.level_below().is_some_and(|level| usize::from(level) + 1 == self.axes.len())
    }

    /// Whether the view is in the order in which the entries of the relation are numbered.
    pub fn is_stored_order(&self, signature: &Signature) -> bool {
        self.axes == signature.stored_order(self.relation)
    }
}

/// Where the numbers of a buffer come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferKind {
    /// A leaf of a parameter, by number.
    Param(crate::base::ParamId, usize),
    /// Numbers that the program that was run before has left, by number.
    Held(usize),
    /// A leaf of an output: their numbers. Written by one nest. Blocks that are put together in one matrix are several buffers of one leaf, each
    /// of its whole length, whose nests write different places.
    Output(usize, usize),
    /// An intermediate result. Written by one nest, before any that reads it.
    Workspace,
}

/// A buffer of reals in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// What it holds, for reading.
    pub name: String,
    /// Where its numbers come from.
    pub kind: BufferKind,
    /// The relation whose entries, as they are numbered, are its first axis.
    pub entries: Option<RelationId>,
    /// The other axes.
    pub dims: Vec<Size>,
    /// Those that a parameter or a result has outside of the program, where some of them are joined in one here.
    pub outside: Option<Vec<Size>>,
    /// How its numbers are stored; a load widens them, a store rounds them.
    pub precision: Precision,
}

impl Buffer {
    /// An intermediate result, in double precision.
    pub fn workspace(name: String, entries: Option<RelationId>, dims: Vec<Size>) -> Buffer {
        Buffer { name, kind: BufferKind::Workspace, entries, dims, outside: None, precision: Precision::Double }
    }

    /// The axes behind the entries, as they are outside of the program.
    pub fn axes(&self) -> &[Size] {
        self.outside.as_ref().unwrap_or(&self.dims)
    }

    /// Whether the axes here are those outside, where each axis of literal length may be joined with those before it.
    ///
    /// # Errors
    /// Where a coefficient leaves the range of 64-bit integers.
    pub fn is_joined(&self) -> Checked<bool> {
        let axes = self.axes();
        let mut ends = BTreeSet::from([0]);
        for n in &self.dims {
            let mut next = BTreeSet::new();
            for start in ends {
                let mut joined: Option<Size> = None;
                for (at, axis) in axes.iter().enumerate().skip(start) {
                    let all = match (joined, axis.as_constant()) {
                        (None, _) => axis.clone(),
                        (Some(before), Some(length)) => before.scale(length)?,
                        (Some(_), None) => break,
                    };
                    next.extend((all == *n).then_some(at + 1));
                    joined = Some(all);
                }
            }
            ends = next;
        }
        Ok(ends.contains(&axes.len()))
    }

    /// How many indices a place in it has.
    pub fn rank(&self) -> usize {
        usize::from(self.entries.is_some()) + self.dims.len()
    }
}

/// A place in a buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The buffer.
    pub buffer: BufferId,
    /// An index for each of its axes, in range.
    pub at: Vec<Affine>,
}

impl Place {
    /// Whether it and another one of the buffer never meet, whatever iterations they are of: an axis has another constant in each, as the coordinates of
    /// points do.
    pub(crate) fn is_apart(&self, other: &Place) -> bool {
        let mut axes = self.at.iter().zip(&other.at);
        axes.any(|(a, b)| matches!((a.as_constant(), b.as_constant()), (Some(a), Some(b)) if a != b))
    }
}

/// A tensor in a buffer: the numbers whose first indices are those of a place, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The first indices; none for all of the buffer.
    pub place: Place,
    /// The axes of the buffer behind them.
    pub shape: Vec<Size>,
}

/// An end of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RangeEnd {
    /// The least value.
    Lower,
    /// The greatest one.
    Upper,
}

impl RangeEnd {
    /// The other end.
    pub fn other(self) -> RangeEnd {
        match self {
            RangeEnd::Lower => RangeEnd::Upper,
            RangeEnd::Upper => RangeEnd::Lower,
        }
    }
}

/// `floor(numerator / divisor)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Over indices and sizes.
    pub numerator: Affine,
    /// Positive.
    pub divisor: i64,
}

/// The nodes below a node: `pointers[at] .. pointers[at + 1]`, none where `at` is no place of the pointers but the last.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// An array of parts `Roots`, `Rows`, `Children`, or all tuples in bins.
    pub pointers: ArrayId,
    /// The node.
    pub at: Affine,
}

/// The values of a loop index.
#[derive(Clone, Debug, PartialEq)]
pub enum Domain {
    /// From the greatest of the lower bounds to the least of the upper ones, both included.
    Range {
        /// At least one.
        lower: Vec<Bound>,
        /// At least one.
        upper: Vec<Bound>,
    },
    /// The nodes below a node.
    Segment(Segment),
    /// One of `parts` parts of equal length, but for the last ones, in which a domain is cut: with `len` values in all, part `k` has those
    /// from `k * each` on, at most `each` of them, where `each` is `len / parts` rounded up to a multiple of `grain`.
    Part {
        /// What is cut.
        whole: Box<Domain>,
        /// Which part, from 0 on.
        part: Affine,
        /// How many there are.
        parts: u32,
        /// What the length of a part is a multiple of.
        grain: u32,
    },
}

impl Bound {
    /// The bound `a` itself.
    pub fn exact(a: Affine) -> Bound {
        Bound { numerator: a, divisor: 1 }
    }

    /// Bounds, and the bound `a`, if it is none of them.
    pub fn and(bounds: &[Bound], a: Affine) -> Vec<Bound> {
        let more = Some(Bound::exact(a)).filter(|bound| !bounds.contains(bound));
        bounds.iter().cloned().chain(more).collect()
    }
}

impl Domain {
    /// A whole axis: `0 .. n - 1`.
    ///
    /// # Errors
    /// Where a coefficient leaves the range of 64-bit integers.
    pub fn whole(n: &Size) -> Checked<Domain> {
        let bound = |a| vec![Bound::exact(a)];
        Ok(Domain::Range { lower: bound(Affine::constant(0)), upper: bound(n.add_constant(-1)?) })
    }

    /// The length of the axis that it is a whole of.
    pub(crate) fn whole_extent(&self) -> Option<Size> {
        let Domain::Range { lower, upper } = self else { return None };
        let ([Bound { numerator: low, divisor: 1 }], [Bound { numerator: high, divisor: 1 }]) =
            (lower.as_slice(), upper.as_slice())
        else {
            return None;
        };
        let is_size = high.terms().iter().all(|(v, _)| matches!(v, Var::Size(_)));
        (low.as_constant() == Some(0) && is_size).then(|| high.add_constant(1).ok()).flatten()
    }
}

/// A condition on indices and registers.
#[derive(Clone, Debug, PartialEq)]
pub enum Cond {
    /// `0 <= a`.
    NonNegative(Affine),
    /// `a = 0`.
    Zero(Affine),
    /// `a != 0`.
    NonZero(Affine),
    /// The number is not zero; a NaN is not.
    Support(RealId),
    /// The number is zero.
    NoSupport(RealId),
    /// All of these; true of none.
    All(Vec<Cond>),
    /// Any of these; false of none.
    Any(Vec<Cond>),
}

/// How a number is made.
#[derive(Clone, Debug, PartialEq)]
pub enum Real {
    /// A literal.
    Literal(f64),
    /// An integer as a real.
    Index(Affine),
    /// A load.
    Load(Place),
    /// `a + b`.
    Add(RealId, RealId),
    /// `a * b`.
    Mul(RealId, RealId),
    /// `a * b + c`, rounded once.
    MulAdd(RealId, RealId, RealId),
    /// `f(x, ..)`.
    Apply(Function, Vec<RealId>),
    /// The second where the first is not zero, else 0.
    Select(RealId, RealId),
}

/// How a search comes to its result, which is the same for all.
#[derive(Clone, Debug, PartialEq)]
pub enum Search {
    /// By halving the segment.
    Halving,
    /// From where the last search in the loop around ended: [`searches_onwards`](super::searches_onwards) says where it may.
    Onwards,
    /// It was made when relations were bound, and is read from an array of [`Part::Neighbours`] at a place.
    Bound(ArrayId, Affine),
}

/// A statement of a nest.
#[derive(Clone, Debug, PartialEq)]
pub enum Stmt {
    /// A loop; the body runs in the order of the values, in groups of `lanes`.
    For {
        /// The loop index.
        index: IndexId,
        /// Its values.
        domain: Domain,
        /// How many values the body takes at a time.
        lanes: u32,
        /// How many iterations may be interleaved, since they are independent, but for sums in order, and differ in nothing but numbers,
        /// places, and bounds of loops.
        jam: u32,
        /// Whether iterations may run at the same time: no register declared outside is accumulated.
        parallel: bool,
        /// What is done for each value.
        body: Vec<Stmt>,
    },
    /// `index = array[at]`.
    Let {
        /// The index defined.
        index: IndexId,
        /// The array.
        array: ArrayId,
        /// A place of the array.
        at: Affine,
        /// How far apart the values at neighbouring places are, where the place is the index of a loop and this is the same for all of the loop.
        step: Option<i64>,
    },
    /// The first node of a segment whose coordinate is the key, or the first node where there is no key; -1 where there is none.
    Find {
        /// The index defined.
        index: IndexId,
        /// Where to look; coordinates within increase.
        segment: Segment,
        /// The coordinates and the one that is sought.
        key: Option<(ArrayId, Affine)>,
        /// How the result comes about.
        how: Search,
    },
    /// The integer part of a stored number, cut to the range from 0 to `most`: how many steps a loop made, or the only place at which an index may be
    /// the number.
    Length {
        /// The index defined.
        index: IndexId,
        /// Where the number is.
        place: Place,
        /// What it is at most, over sizes; never negative.
        most: Size,
    },
    /// The first place below `extent` of the largest or smallest value, as the view says; -1 where the extent is not positive.
    Extremum {
        /// The index defined.
        index: IndexId,
        /// `ArgMax` or `ArgMin`. A NaN comes before all.
        view: View,
        /// How many values.
        extent: Size,
        /// The loop index.
        at: IndexId,
        /// Computes the value.
        body: Vec<Stmt>,
        /// The value.
        value: RealId,
    },
    /// The body, where a condition holds.
    If {
        /// The condition.
        cond: Cond,
        /// What is done.
        body: Vec<Stmt>,
    },
    /// A number, defined once.
    Define(RealId, Real),
    /// A register with the value 0.
    Local(RealId),
    /// Gives a register a value, once, under a condition.
    Assign(RealId, RealId),
    /// Adds to a register.
    Accumulate(RealId, RealId),
    /// Adds the product of two numbers to a register, rounded once.
    MulAdd(RealId, RealId, RealId),
    /// Gives a register a number if that is larger than what it has, or smaller, as the view says: `ArgMax` or `ArgMin`. A NaN comes before all.
    Extend(View, RealId, RealId),
    /// Writes a place, which no other iteration writes, unless iterations come one after the other and add to what is there.
    Store(Place, RealId),
    /// Ends the loop in whose body this stands, where the number is 0. The loop is one by one.
    End(RealId),
    /// Makes a buffer zero.
    Fill(BufferId),
    /// Calls a function of tensors from outside.
    Call {
        /// The function.
        function: FunctionId,
        /// What it is given.
        takes: Vec<Run>,
        /// What it fills, which is zero before; nothing of it is given.
        gives: Vec<Run>,
    },
    /// Lists a place of a pattern, by the number of the pattern. Only in programs that find out patterns, which the interpreter runs.
    Tuple(usize, Vec<Affine>),
}

/// What computes one buffer, or several.
#[derive(Clone, Debug, PartialEq)]
pub struct Nest {
    /// The buffers that it writes.
    pub buffers: Vec<BufferId>,
    /// Why they are computed like this.
    pub decisions: Vec<Decision>,
    /// How.
    pub body: Vec<Stmt>,
}

/// A program of loop nests.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// What the program takes from outside.
    pub signature: Arc<Signature>,
    /// The arrays that describe relations.
    pub arrays: Arena<ArrayId, Array>,
    /// The buffers.
    pub buffers: Arena<BufferId, Buffer>,
    /// The nests, in the order in which they run.
    pub nests: Vec<Nest>,
    /// The names of the outputs, and the buffers of their leaves.
    pub outputs: Vec<(String, Vec<BufferId>)>,
    /// Workspaces that are rounded to outputs when all nests have run.
    pub rounded: Vec<Rounded>,
    /// How many steps loops may make that nobody bounds.
    pub limits: Vec<StepLimit>,
    /// Which relations have bins.
    pub bins: Bins,
}

/// What a buffer is called.
pub(crate) fn name_of(buffers: &Arena<BufferId, Buffer>, id: BufferId) -> String {
    buffers.get(id).map_or_else(String::new, |buffer| buffer.name.clone())
}

/// What the first buffer is called that a nest writes.
pub(crate) fn title(buffers: &Arena<BufferId, Buffer>, nest: &Nest) -> String {
    nest.buffers.first().map_or_else(String::new, |b| name_of(buffers, *b))
}

/// How many steps a loop may make; that it wants more is an error when all nests have run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepLimit {
    /// The workspace where the loop stores how many steps it made, 1 more than the limit where it wants more.
    pub steps: BufferId,
    /// The limit.
    pub most: u64,
}

/// An output in single precision that nests read: they read a workspace, in double precision, of the same shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounded {
    /// The workspace.
    pub from: BufferId,
    /// The output, which no nest reads or writes.
    pub to: BufferId,
}
