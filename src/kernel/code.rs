//! Flat code of the interpreter: nests with sizes folded into constants, registers numbered, loops as jumps.

use std::collections::{BTreeMap, BTreeSet};

use super::layout::{Shape, fold, offset, offset_in};
use crate::base::{FunctionId, Id, IndexId};
use crate::error::{Error, Result};
use crate::index::{Affine, View};
use crate::loops::{
    self, Bound, BufferId, Cond, Domain, Nest, Program, Real, RealId, Search, Segment, Stmt, outer_extrema, outer_sums,
};
use crate::scalar::Function;
use crate::tensor::Bindings;

/// `constant + step * lane + sum of coefficient * register + sum of coefficient * register of the lane`.
#[derive(Clone, Debug, Default)]
pub(super) struct Form {
    pub constant: i64,
    pub step: i64,
    pub terms: Box<[(usize, i64)]>,
    pub lanes: Box<[(usize, i64)]>,
}

impl Form {
    /// Whether it differs from lane to lane.
    pub fn varies(&self) -> bool {
        self.step != 0 || !self.lanes.is_empty()
    }
}

/// `floor(numerator / divisor)`.
#[derive(Clone, Debug)]
pub(super) struct FloorDiv(pub Form, pub i64);

/// A condition.
#[derive(Clone, Debug)]
pub(super) enum Test {
    NonNegative(Form),
    Zero(Form),
    NonZero(Form),
    Support(usize),
    NoSupport(usize),
    All(Vec<Test>),
    Any(Vec<Test>),
}

/// The values of a loop.
#[derive(Clone, Debug)]
pub(super) enum Values {
    Range(Box<[FloorDiv]>, Box<[FloorDiv]>),
    Segment(usize, Form),
    Part { whole: Box<Values>, part: Form, parts: i64, grain: i64 },
}

/// A register outside of a loop with lanes that takes the numbers of all of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Partial {
    pub to: usize,
    /// Whether it takes the largest or smallest, as the view says, or the sum.
    pub extremum: Option<View>,
}

impl Partial {
    /// What a lane begins with.
    pub fn start(self) -> f64 {
        match self.extremum {
            None => 0.0,
            Some(View::ArgMin) => f64::INFINITY,
            Some(_) => f64::NEG_INFINITY,
        }
    }
}

/// An instruction. `end` is the place of the `Next` of a loop, or the place behind a test, `start` the place of a loop.
#[derive(Clone, Debug)]
pub(super) enum Op {
    For { index: usize, limit: usize, values: Values, lanes: usize, sums: Box<[Partial]>, end: usize },
    Next { start: usize },
    If { test: Test, end: usize },
    Let { index: usize, array: usize, at: Form },
    Neighbour { index: usize, array: usize, at: Form },
    Find { index: usize, pointers: usize, at: Form, key: Option<(usize, Form)> },
    Extremum { index: usize, at: usize, view: View, extent: Form, best: usize, value: usize, end: usize },
    NextExtremum { start: usize },
    Literal { to: usize, x: f64 },
    Index { to: usize, form: Form },
    Load { to: usize, buffer: BufferId, at: Form },
    Add { to: usize, a: usize, b: usize },
    Mul { to: usize, a: usize, b: usize },
    MulAdd { to: usize, a: usize, b: usize, c: usize },
    Select { to: usize, a: usize, b: usize },
    Apply { to: usize, function: Function, args: Box<[usize]> },
    Clear { to: usize },
    Assign { to: usize, a: usize },
    Accumulate { to: usize, a: usize, partial: bool },
    AddProduct { to: usize, a: usize, b: usize, partial: bool },
    Extend { to: usize, a: usize, view: View, partial: bool },
    Store { buffer: BufferId, at: Form, a: usize },
    Length { index: usize, buffer: BufferId, at: Form, most: Form },
    End { a: usize, start: usize },
    Fill { buffer: BufferId },
    Call(Box<External>),
    Tuple { number: usize, at: Form },
}

/// A call of a function from outside.
#[derive(Clone, Debug)]
pub(super) struct External {
    pub function: FunctionId,
    pub takes: Vec<Run>,
    pub gives: Vec<Run>,
}

/// Numbers of a buffer, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub buffer: BufferId,
    pub at: Form,
    pub shape: Vec<usize>,
}

/// The code of a nest.
#[derive(Clone, Debug)]
pub(super) struct Code {
    pub ops: Vec<Op>,
    /// How many integer registers there are.
    pub indices: usize,
    /// For each real register whether it holds a number for each lane.
    pub wide: Vec<bool>,
}

/// Compiles a nest for given sizes.
pub(super) fn compile(nest: &Nest, shapes: &[Shape], bindings: &Bindings) -> Result<Code> {
    let mut registers = 0;
    for stmt in &nest.body {
        stmt.visit(&mut |stmt| {
            if let Stmt::Define(r, _) | Stmt::Local(r) = stmt {
                registers = registers.max(r.index() + 1);
            }
        });
    }
    let code = Code { ops: Vec::new(), indices: 0, wide: vec![false; registers] };
    let mut compiler = Compiler {
        shapes,
        bindings,
        code,
        indices: BTreeMap::new(),
        varying: BTreeSet::new(),
        lane_index: None,
        sums: BTreeSet::new(),
        around: Vec::new(),
    };
    compiler.body(&nest.body)?;
    Ok(compiler.code)
}

struct Compiler<'a> {
    shapes: &'a [Shape],
    bindings: &'a Bindings,
    code: Code,
    indices: BTreeMap<IndexId, usize>,
    /// Integer registers that hold a number for each lane.
    varying: BTreeSet<usize>,
    /// The index of the loop with lanes around here.
    lane_index: Option<usize>,
    /// The registers outside of that loop which it adds to.
    sums: BTreeSet<usize>,
    /// Where the loops around begin, outside in.
    around: Vec<usize>,
}

impl Compiler<'_> {
    fn index(&mut self, i: IndexId) -> usize {
        let next = self.code.indices;
        let register = *self.indices.entry(i).or_insert(next);
        self.code.indices = self.code.indices.max(register + 1);
        register
    }

    fn unnamed(&mut self) -> usize {
        self.code.indices += 1;
        self.code.indices - 1
    }

    /// A register that is defined here, and whether it holds a number for each lane.
    fn define(&mut self, r: RealId, wide: bool) -> usize {
        if let Some(known) = self.code.wide.get_mut(r.index()) {
            *known = wide && self.lane_index.is_some();
        }
        r.index()
    }

    fn is_wide(&self, r: RealId) -> bool {
        self.code.wide.get(r.index()).copied().unwrap_or(false)
    }

    fn form_of(&mut self, (terms, constant): (Vec<(IndexId, i64)>, i64)) -> Form {
        let mut form = Form { constant, ..Form::default() };
        let (mut uniform, mut lanes) = (Vec::new(), Vec::new());
        for (i, k) in terms {
            let register = self.index(i);
            if self.varying.contains(&register) {
                lanes.push((register, k));
                continue;
            }
            if self.lane_index == Some(register) {
                form.step = k;
            }
            uniform.push((register, k));
        }
        form.terms = uniform.into();
        form.lanes = lanes.into();
        form
    }

    fn form(&mut self, a: &Affine) -> Result<Form> {
        let folded = fold(a, self.bindings)?;
        Ok(self.form_of(folded))
    }

    fn bounds(&mut self, bounds: &[Bound]) -> Result<Box<[FloorDiv]>> {
        bounds.iter().map(|b| Ok(FloorDiv(self.form(&b.numerator)?, b.divisor.max(1)))).collect()
    }

    fn segment(&mut self, segment: &Segment) -> Result<(usize, Form)> {
        Ok((segment.pointers.index(), self.form(&segment.at)?))
    }

    fn values(&mut self, domain: &Domain) -> Result<Values> {
        Ok(match domain {
            Domain::Range { lower, upper } => Values::Range(self.bounds(lower)?, self.bounds(upper)?),
            Domain::Segment(segment) => {
                let (pointers, at) = self.segment(segment)?;
                Values::Segment(pointers, at)
            }
            Domain::Part { whole, part, parts, grain } => {
                let (parts, grain) = (i64::from(*parts), i64::from(*grain));
                Values::Part { whole: Box::new(self.values(whole)?), part: self.form(part)?, parts, grain }
            }
        })
    }

    fn test(&mut self, cond: &Cond) -> Result<Test> {
        Ok(match cond {
            Cond::NonNegative(a) => Test::NonNegative(self.form(a)?),
            Cond::Zero(a) => Test::Zero(self.form(a)?),
            Cond::NonZero(a) => Test::NonZero(self.form(a)?),
            Cond::Support(r) => Test::Support(r.index()),
            Cond::NoSupport(r) => Test::NoSupport(r.index()),
            Cond::All(conds) => Test::All(conds.iter().map(|c| self.test(c)).collect::<Result<_>>()?),
            Cond::Any(conds) => Test::Any(conds.iter().map(|c| self.test(c)).collect::<Result<_>>()?),
        })
    }

    fn runs(&mut self, runs: &[loops::Run]) -> Result<Vec<Run>> {
        let mut found = Vec::with_capacity(runs.len());
        for loops::Run { place, shape } in runs {
            let at = offset(place, self.shapes, self.bindings)?;
            let at = self.form_of(at);
            let shape = shape.iter().map(|n| self.bindings.length(n)).collect::<Result<_>>()?;
            found.push(Run { buffer: place.buffer, at, shape });
        }
        Ok(found)
    }

    fn body(&mut self, body: &[Stmt]) -> Result<()> {
        body.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    fn close(&mut self, start: usize) {
        let here = self.code.ops.len();
        if let Some(Op::For { end, .. } | Op::If { end, .. } | Op::Extremum { end, .. }) = self.code.ops.get_mut(start)
        {
            *end = here;
        }
    }

    #[allow(clippy::too_many_lines, reason = "an arm for each form of statement")]
    fn stmt(&mut self, stmt: &Stmt) -> Result<()> {
        let start = self.code.ops.len();
        match stmt {
            Stmt::For { index, domain, lanes, jam: _, parallel: _, body } => {
                let values = self.values(domain)?;
                let (index, limit) = (self.index(*index), self.unnamed());
                let lanes = *lanes as usize;
                let sums = if lanes > 1 { partials(body) } else { Vec::new() };
                let outside: BTreeSet<usize> = sums.iter().map(|partial| partial.to).collect();
                self.code.ops.push(Op::For { index, limit, values, lanes, sums: sums.into(), end: 0 });
                if lanes > 1 {
                    (self.lane_index, self.sums) = (Some(index), outside);
                }
                self.around.push(start);
                self.body(body)?;
                self.around.pop();
                if lanes > 1 {
                    (self.lane_index, self.sums) = (None, BTreeSet::new());
                }
                self.close(start);
                self.code.ops.push(Op::Next { start });
            }
            Stmt::Let { index, array, at, step: _ } => {
                let at = self.form(at)?;
                let index = self.index(*index);
                if at.varies() {
                    self.varying.insert(index);
                }
                self.code.ops.push(Op::Let { index, array: array.index(), at });
            }
            Stmt::Find { index, how: Search::Bound(array, at), .. } => {
                let at = self.form(at)?;
                let index = self.index(*index);
                self.code.ops.push(Op::Neighbour { index, array: array.index(), at });
            }
            Stmt::Find { index, segment, key, how: Search::Halving | Search::Onwards } => {
                let (pointers, at) = self.segment(segment)?;
                let key = match key {
                    Some((nodes, key)) => Some((nodes.index(), self.form(key)?)),
                    None => None,
                };
                let index = self.index(*index);
                self.code.ops.push(Op::Find { index, pointers, at, key });
            }
            Stmt::Extremum { index, view, extent, at, body, value } => {
                let extent = self.form(extent)?;
                let (index, at) = (self.index(*index), self.index(*at));
                // The best value so far lives beside the numbered registers.
                self.code.wide.push(false);
                let best = self.code.wide.len() - 1;
                self.code.ops.push(Op::Extremum { index, at, view: *view, extent, best, value: value.index(), end: 0 });
                self.body(body)?;
                self.close(start);
                self.code.ops.push(Op::NextExtremum { start });
            }
            Stmt::If { cond, body } => {
                let test = self.test(cond)?;
                self.code.ops.push(Op::If { test, end: 0 });
                self.body(body)?;
                self.close(start);
            }
            Stmt::Define(r, real) => {
                let op = self.real(*r, real)?;
                self.code.ops.push(op);
            }
            Stmt::Local(r) => {
                let to = self.define(*r, true);
                self.code.ops.push(Op::Clear { to });
            }
            Stmt::Assign(r, a) => self.code.ops.push(Op::Assign { to: r.index(), a: a.index() }),
            Stmt::Accumulate(r, a) => {
                let partial = self.sums.contains(&r.index());
                self.code.ops.push(Op::Accumulate { to: r.index(), a: a.index(), partial });
            }
            Stmt::MulAdd(r, a, b) => {
                let partial = self.sums.contains(&r.index());
                self.code.ops.push(Op::AddProduct { to: r.index(), a: a.index(), b: b.index(), partial });
            }
            Stmt::Extend(view, r, a) => {
                let partial = self.sums.contains(&r.index());
                self.code.ops.push(Op::Extend { to: r.index(), a: a.index(), view: *view, partial });
            }
            Stmt::Store(place, a) => {
                let at = offset(place, self.shapes, self.bindings)?;
                let at = self.form_of(at);
                self.code.ops.push(Op::Store { buffer: place.buffer, at, a: a.index() });
            }
            Stmt::Length { index, place, most } => {
                let (at, most) = (offset(place, self.shapes, self.bindings)?, self.form(most)?);
                let at = self.form_of(at);
                let index = self.index(*index);
                self.code.ops.push(Op::Length { index, buffer: place.buffer, at, most });
            }
            Stmt::End(r) => {
                let start = self.around.last().copied();
                let start = start.ok_or_else(|| Error::bug("bind", "an end of no loop"))?;
                self.code.ops.push(Op::End { a: r.index(), start });
            }
            Stmt::Call { function, takes, gives } => {
                let (takes, gives) = (self.runs(takes)?, self.runs(gives)?);
                self.code.ops.push(Op::Call(Box::new(External { function: *function, takes, gives })));
            }
            Stmt::Fill(buffer) => self.code.ops.push(Op::Fill { buffer: *buffer }),
            Stmt::Tuple(number, at) => {
                let shape = self.shapes.get(*number).ok_or_else(|| Error::bug("bind", "a pattern without a shape"))?;
                let at = offset_in(at, &shape.strides, self.bindings)?;
                let at = self.form_of(at);
                self.code.ops.push(Op::Tuple { number: *number, at });
            }
        }
        Ok(())
    }

    fn real(&mut self, r: RealId, real: &Real) -> Result<Op> {
        let mut wide = false;
        real.visit_reads(&mut |a| wide |= self.is_wide(a));
        let to = self.define(r, wide);
        Ok(match real {
            Real::Literal(x) => Op::Literal { to, x: *x },
            Real::Index(a) => {
                let form = self.form(a)?;
                self.define(r, form.varies());
                Op::Index { to, form }
            }
            Real::Load(place) => {
                let at = offset(place, self.shapes, self.bindings)?;
                let at = self.form_of(at);
                self.define(r, at.varies());
                Op::Load { to, buffer: place.buffer, at }
            }
            Real::Add(a, b) => Op::Add { to, a: a.index(), b: b.index() },
            Real::Mul(a, b) => Op::Mul { to, a: a.index(), b: b.index() },
            Real::MulAdd(a, b, c) => Op::MulAdd { to, a: a.index(), b: b.index(), c: c.index() },
            Real::Select(a, b) => Op::Select { to, a: a.index(), b: b.index() },
            Real::Apply(function, args) => {
                Op::Apply { to, function: *function, args: args.iter().map(|a| a.index()).collect() }
            }
        })
    }
}

/// The registers outside that a loop with lanes adds to or extends.
fn partials(body: &[Stmt]) -> Vec<Partial> {
    let sums = outer_sums(body).into_iter().map(|r| (r, None));
    let extrema = outer_extrema(body).into_iter().map(|(r, view)| (r, Some(view)));
    sums.chain(extrema).map(|(r, extremum)| Partial { to: r.index(), extremum }).collect()
}

/// The code of all nests.
pub(super) fn compile_all(program: &Program, shapes: &[Shape], bindings: &Bindings) -> Result<Vec<Code>> {
    program.nests.iter().map(|nest| compile(nest, shapes, bindings)).collect()
}
