//! The interpreter: runs flat code, lane by lane as [`loops`](crate::loops) defines it.
//!
//! A real register has room for all lanes. Outside of loops with lanes, lane 0 is used; inside, registers that are defined there hold a
//! number for each lane, the others are read as one number. Every load and store is checked, so a fault of the compiler is an error and
//! nothing worse.

use super::code::{Code, External, FloorDiv, Form, Op, Partial, Test, Values};
use super::held::Numbers;
use super::registers::Registers;
use super::slices::{Given, Wanted};
use crate::base::{Arena, FunctionId, Id};
use crate::codegen::in_lanes;
use crate::error::{Error, Result};
use crate::index::View;
use crate::loops::{BufferId, Program};
use crate::scalar::external::Argument;
use crate::scalar::{self, Function, Primitive, UserFunction};
use crate::tensor::{MAX_ELEMENTS, Slice, SliceMut};

const PASS: &str = "interpret";
/// The room of a register.
pub(super) const ROOM: usize = Program::MAX_LANES as usize;

/// Where a buffer is at run time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Location {
    Input(usize),
    Held(usize),
    Output(usize),
    Workspace(usize),
}

/// What a run reads and writes.
pub(super) struct Memory<'r, 'd, 'o> {
    pub locations: &'r [Location],
    pub inputs: Given<'r, 'd>,
    pub held: &'r [Numbers],
    pub outputs: Wanted<'r, 'o>,
    pub workspaces: &'r mut [Vec<f64>],
    pub arrays: &'r [Vec<u32>],
    pub functions: &'r Arena<FunctionId, UserFunction>,
    /// The places that are listed, by the number of the pattern.
    pub tuples: &'r mut [Vec<i64>],
}

impl Memory<'_, '_, '_> {
    #[inline(always)]
    fn read(&self, buffer: BufferId) -> Result<Slice<'_>> {
        let found = match self.locations.get(buffer.index()) {
            Some(Location::Input(k)) => self.inputs.get(*k),
            Some(Location::Held(k)) => self.held.get(*k).map(Numbers::slice),
            Some(Location::Output(k)) => self.outputs.get(*k),
            Some(Location::Workspace(k)) => self.workspaces.get(*k).map(|x| Slice::Double(x)),
            None => None,
        };
        found.ok_or_else(|| outside("a buffer"))
    }

    #[inline(always)]
    fn write(&mut self, buffer: BufferId) -> Result<SliceMut<'_>> {
        let found = match self.locations.get(buffer.index()) {
            Some(Location::Output(k)) => self.outputs.get_mut(*k),
            Some(Location::Workspace(k)) => self.workspaces.get_mut(*k).map(|x| SliceMut::Double(x)),
            Some(Location::Input(_) | Location::Held(_)) | None => None,
        };
        found.ok_or_else(|| outside("a buffer"))
    }

    #[cold]
    fn list(&mut self, number: usize, place: i64) -> Result<()> {
        let places = self.tuples.get_mut(number).ok_or_else(|| outside("a pattern"))?;
        let limit =
            |found: usize| Error::Limit { what: "entries of a result", limit: MAX_ELEMENTS, found: found as u64 };
        let wanted = places.len() as u64 + 1;
        places.try_reserve(1).map_err(|_| Error::Memory { what: "entries of a result", wanted })?;
        places.push(place);
        // Places are often listed several times.
        if places.len() == places.capacity() {
            places.sort_unstable();
            places.dedup();
        }
        if places.len() as u64 >= MAX_ELEMENTS { Err(limit(places.len())) } else { Ok(()) }
    }

    fn array(&self, array: usize) -> Result<&[u32]> {
        self.arrays.get(array).map(Vec::as_slice).ok_or_else(|| outside("an array"))
    }

    /// The nodes below a node, none where there is no such node.
    fn segment(&self, pointers: usize, at: i64) -> Result<(i64, i64)> {
        let pointers = self.array(pointers)?;
        let Ok(at) = usize::try_from(at) else { return Ok((0, 0)) };
        match pointers.get(at..).and_then(|rest| rest.first_chunk()) {
            Some([from, to]) => Ok((i64::from(*from), i64::from(*to))),
            None => Ok((0, 0)),
        }
    }
}

/// The places of a tensor that begins at a place.
fn places(from: i64, shape: &[usize]) -> Result<std::ops::Range<usize>> {
    let len = shape.iter().try_fold(1usize, |len, n| len.checked_mul(*n));
    let from = usize::try_from(from).ok();
    let end = from.zip(len).and_then(|(from, len)| Some(from..from.checked_add(len)?));
    end.ok_or_else(|| outside("a tensor"))
}

#[cold]
pub(super) fn outside(what: &str) -> Error {
    Error::bug(PASS, format!("{what} is read or written outside"))
}

/// Runs the code of a nest, with the instructions of the function that it becomes part of.
#[inline(always)]
pub(super) fn run(code: &Code, registers: &mut Registers, memory: &mut Memory<'_, '_, '_>) -> Result<()> {
    let mut run = Run { code, registers, memory, width: 1, lanes: 1 };
    let mut at = 0;
    while let Some(op) = code.ops.get(at) {
        at = run.step(op, at)?;
    }
    Ok(())
}

struct Run<'r, 'm, 'd, 'o> {
    code: &'r Code,
    registers: &'r mut Registers,
    memory: &'r mut Memory<'m, 'd, 'o>,
    /// How many lanes are in use, of how many.
    width: usize,
    lanes: usize,
}

impl Run<'_, '_, '_, '_> {
    #[inline(always)]
    fn uniform(&self, form: &Form) -> i64 {
        self.registers.uniform(form)
    }

    #[inline(always)]
    fn lane(&self, form: &Form, base: i64, lane: usize) -> i64 {
        self.registers.lane(form, base, lane)
    }

    #[inline(always)]
    fn real(&self, r: usize) -> f64 {
        self.registers.reals[r][0]
    }

    /// How many lanes of a register are in use.
    #[inline(always)]
    fn width_of(&self, r: usize) -> usize {
        if self.code.wide[r] { self.width } else { 1 }
    }

    /// The first lanes of a register.
    #[inline(always)]
    fn fetch<const N: usize>(&self, r: usize) -> [f64; N] {
        let x = &self.registers.reals[r];
        match x.first_chunk() {
            Some(lanes) if self.code.wide[r] => *lanes,
            _ => [x[0]; N],
        }
    }

    fn test(&self, test: &Test) -> bool {
        match test {
            Test::NonNegative(form) => self.uniform(form) >= 0,
            Test::Zero(form) => self.uniform(form) == 0,
            Test::NonZero(form) => self.uniform(form) != 0,
            Test::Support(r) => self.real(*r) != 0.0,
            Test::NoSupport(r) => self.real(*r) == 0.0,
            Test::All(tests) => tests.iter().all(|test| self.test(test)),
            Test::Any(tests) => tests.iter().any(|test| self.test(test)),
        }
    }

    /// The first and the last value of a loop.
    fn values(&self, values: &Values) -> Result<(i64, i64)> {
        Ok(match values {
            Values::Range(lower, upper) => (
                lower.iter().map(|b| self.floor(b)).max().unwrap_or(0),
                upper.iter().map(|b| self.floor(b)).min().unwrap_or(-1),
            ),
            Values::Segment(pointers, form) => {
                let (from, to) = self.memory.segment(*pointers, self.uniform(form))?;
                (from, to - 1)
            }
            Values::Part { whole, part, parts, grain } => {
                let (from, to) = self.values(whole)?;
                let each = (to - from + parts) / parts;
                let each = (each + grain - 1) / grain * grain;
                let start = from + self.uniform(part) * each;
                (start, to.min(start + each - 1))
            }
        })
    }

    #[inline(always)]
    fn floor(&self, FloorDiv(form, divisor): &FloorDiv) -> i64 {
        let value = self.uniform(form);
        if *divisor == 1 { value } else { value.div_euclid(*divisor) }
    }

    #[inline(always)]
    #[allow(clippy::too_many_lines, reason = "an arm for each instruction")]
    fn step(&mut self, op: &Op, at: usize) -> Result<usize> {
        let next = at + 1;
        match op {
            Op::For { index, limit, values, lanes, sums, end } => {
                let (from, to) = self.values(values)?;
                if from > to {
                    return Ok(end + 1);
                }
                self.registers.indices[*index] = from;
                self.registers.indices[*limit] = to;
                if *lanes > 1 {
                    self.take(from, to, *lanes, sums);
                    for sum in sums {
                        self.registers.partial[sum.to] = [sum.start(); ROOM];
                    }
                }
                Ok(next)
            }
            Op::Next { start } => {
                let Some(Op::For { index, limit, lanes, sums, .. }) = self.code.ops.get(*start) else {
                    return Err(Error::bug(PASS, "a loop without a beginning"));
                };
                let step = if *lanes > 1 { self.lanes } else { 1 };
                let value = self.registers.indices[*index] + step as i64;
                let to = self.registers.indices[*limit];
                self.registers.indices[*index] = value;
                if value <= to {
                    if *lanes > 1 {
                        self.take(value, to, *lanes, sums);
                    }
                    return Ok(start + 1);
                }
                if *lanes > 1 {
                    for sum in sums {
                        let both = |a: f64, b: f64| sum.extremum.map_or(a + b, |view| extend(view, a, b));
                        let folded = fold(&mut self.registers.partial[sum.to], *lanes, both);
                        let r = &mut self.registers.reals[sum.to][0];
                        *r = both(*r, folded);
                    }
                    (self.lanes, self.width) = (1, 1);
                }
                Ok(next)
            }
            Op::If { test, end } => Ok(if self.test(test) { next } else { *end }),
            Op::End { a, start } => match self.code.ops.get(*start) {
                Some(Op::For { end, .. }) if self.real(*a) == 0.0 => Ok(end + 1),
                _ => Ok(next),
            },
            Op::Length { index, buffer, at, most } => {
                let place = usize::try_from(self.uniform(at)).ok();
                let number = place.and_then(|place| self.memory.read(*buffer).ok()?.get(place));
                let number = number.ok_or_else(|| outside("a buffer"))?;
                // The cast saturates.
                self.registers.indices[*index] = (number as i64).max(0).min(self.uniform(most));
                Ok(next)
            }
            Op::Let { index, array, at } => {
                let base = self.uniform(at);
                let load = |place: i64| {
                    let array = self.memory.array(*array)?;
                    let x = usize::try_from(place).ok().and_then(|place| array.get(place));
                    x.map(|x| i64::from(*x)).ok_or_else(|| outside("an array"))
                };
                if !at.varies() {
                    self.registers.indices[*index] = load(base)?;
                    return Ok(next);
                }
                for lane in 0..self.width {
                    let array = self.memory.array(*array)?;
                    let place = self.lane(at, base, lane);
                    let x = usize::try_from(place).ok().and_then(|place| array.get(place));
                    self.registers.lane_indices[*index][lane] =
                        x.map(|x| i64::from(*x)).ok_or_else(|| outside("an array"))?;
                }
                Ok(next)
            }
            Op::Neighbour { index, array, at } => {
                let place = usize::try_from(self.uniform(at)).map_err(|_| outside("an array"))?;
                let found = self.memory.array(*array)?.get(place).ok_or_else(|| outside("an array"))?;
                self.registers.indices[*index] = i64::from(*found) - 1;
                Ok(next)
            }
            Op::Find { index, pointers, at, key } => {
                let (from, to) = self.memory.segment(*pointers, self.uniform(at))?;
                let found = match key {
                    None => (from < to).then_some(from),
                    Some((nodes, key)) => {
                        let nodes = self.memory.array(*nodes)?;
                        // Pointers are in the range of the nodes.
                        let range = nodes.get(from as usize..to as usize).ok_or_else(|| outside("an array"))?;
                        let key = self.uniform(key);
                        range.binary_search_by(|x| i64::from(*x).cmp(&key)).ok().map(|k| from + k as i64)
                    }
                };
                self.registers.indices[*index] = found.unwrap_or(-1);
                Ok(next)
            }
            Op::Extremum { index, at, extent, end, .. } => {
                self.registers.indices[*index] = -1;
                self.registers.indices[*at] = 0;
                Ok(if self.uniform(extent) > 0 { next } else { end + 1 })
            }
            Op::NextExtremum { start } => {
                let Some(Op::Extremum { index, at, view, extent, best, value, .. }) = self.code.ops.get(*start) else {
                    return Err(Error::bug(PASS, "an extremum without a beginning"));
                };
                let (place, x) = (self.registers.indices[*at], self.real(*value));
                if place == 0 || better(*view, x, self.real(*best)) {
                    self.registers.indices[*index] = place;
                    self.registers.reals[*best][0] = x;
                }
                self.registers.indices[*at] = place + 1;
                Ok(if place + 1 < self.uniform(extent) { start + 1 } else { next })
            }
            op => {
                self.arithmetic(op)?;
                Ok(next)
            }
        }
    }

    /// Takes the lanes of the next step of a loop.
    fn take(&mut self, from: i64, to: i64, lanes: usize, sums: &[Partial]) {
        self.lanes = if sums.is_empty() { group(from, to) } else { lanes };
        self.width = usize::try_from(to - from + 1).unwrap_or(0).min(self.lanes);
    }

    #[inline(always)]
    fn arithmetic(&mut self, op: &Op) -> Result<()> {
        match op {
            Op::Literal { to, x } => self.registers.reals[*to][0] = *x,
            Op::Index { to, form } => {
                let base = self.uniform(form);
                for lane in 0..self.width_of(*to) {
                    self.registers.reals[*to][lane] = self.lane(form, base, lane) as f64;
                }
            }
            Op::Load { to, buffer, at } => match self.memory.read(*buffer)? {
                Slice::Double(x) => self.registers.load(x, *to, at, self.width)?,
                Slice::Single(x) => self.registers.load(x, *to, at, self.width)?,
            },
            Op::Add { to, a, b } => self.binary(*to, *a, *b, |x, y| x + y),
            Op::Mul { to, a, b } => self.binary(*to, *a, *b, |x, y| x * y),
            Op::Select { to, a, b } => self.binary(*to, *a, *b, |p, x| if p != 0.0 { x } else { 0.0 }),
            Op::Apply { to, function, args } => self.apply(*to, *function, args)?,
            Op::Clear { to } => match self.width_of(*to) {
                1 => self.registers.reals[*to][0] = 0.0,
                _ => self.registers.reals[*to] = [0.0; ROOM],
            },
            Op::MulAdd { to, a, b, c } => self.ternary(*to, [*a, *b, *c], f64::mul_add),
            Op::Assign { to, a } => match self.width_of(*to) {
                1 => self.registers.reals[*to][0] = self.real(*a),
                _ => self.registers.reals[*to] = self.fetch(*a),
            },
            Op::Accumulate { to, a, partial: true } => self.add(*to, [*a, *a], |sum, x, _| sum + x),
            Op::Accumulate { to, a, partial: false } => self.binary(*to, *to, *a, |x, y| x + y),
            Op::AddProduct { to, a, b, partial: true } => self.add(*to, [*a, *b], |sum, x, y| x.mul_add(y, sum)),
            Op::AddProduct { to, a, b, partial: false } => self.ternary(*to, [*a, *b, *to], f64::mul_add),
            Op::Extend { to, a, view: View::ArgMin, partial } => match partial {
                true => self.add(*to, [*a, *a], |best, x, _| extend(View::ArgMin, best, x)),
                false => self.binary(*to, *to, *a, |best, x| extend(View::ArgMin, best, x)),
            },
            Op::Extend { to, a, view: _, partial } => match partial {
                true => self.add(*to, [*a, *a], |best, x, _| extend(View::ArgMax, best, x)),
                false => self.binary(*to, *to, *a, |best, x| extend(View::ArgMax, best, x)),
            },
            Op::Store { buffer, at, a } => {
                let base = self.uniform(at);
                let (wide, x) = (self.code.wide[*a], &self.registers.reals[*a]);
                let mut out = self.memory.write(*buffer)?;
                for lane in 0..self.width {
                    let place = usize::try_from(self.registers.lane(at, base, lane));
                    let stored = place.ok().and_then(|place| out.set(place, if wide { x[lane] } else { x[0] }));
                    stored.ok_or_else(|| outside("a tensor"))?;
                }
            }
            Op::Fill { buffer } => self.memory.write(*buffer)?.clear(),
            Op::Call(call) => self.call(call)?,
            Op::Tuple { number, at } => {
                let place = self.uniform(at);
                self.memory.list(*number, place)?;
            }
            Op::For { .. }
            | Op::Next { .. }
            | Op::If { .. }
            | Op::End { .. }
            | Op::Length { .. }
            | Op::Let { .. }
            | Op::Neighbour { .. }
            | Op::Find { .. }
            | Op::Extremum { .. }
            | Op::NextExtremum { .. } => {}
        }
        Ok(())
    }

    /// Calls a function from outside, on copies of what it is given.
    #[cold]
    fn call(&mut self, call: &External) -> Result<()> {
        let function = self.memory.functions.get(call.function).and_then(|f| Some((f.name(), f.of_tensors()?)));
        let (name, external) = function.ok_or_else(|| outside("a function"))?;
        let mut given = Vec::with_capacity(call.takes.len());
        for run in &call.takes {
            let from = self.memory.read(run.buffer)?;
            let places = places(self.uniform(&run.at), &run.shape)?;
            let numbers = places.map(|place| from.get(place)).collect::<Option<Vec<f64>>>();
            given.push(numbers.ok_or_else(|| outside("a tensor"))?);
        }
        let mut filled = Vec::with_capacity(call.gives.len());
        for run in &call.gives {
            filled.push(vec![0.0; places(self.uniform(&run.at), &run.shape)?.len()]);
        }
        let args = given.iter().zip(&call.takes).map(|(numbers, run)| Argument::new(numbers, &run.shape));
        let mut results: Vec<&mut [f64]> = filled.iter_mut().map(Vec::as_mut_slice).collect();
        external.call(name, &args.collect::<Vec<_>>(), &mut results)?;
        for (run, numbers) in call.gives.iter().zip(&filled) {
            let places = places(self.uniform(&run.at), &run.shape)?;
            let mut to = self.memory.write(run.buffer)?;
            for (place, x) in places.zip(numbers) {
                to.set(place, *x).ok_or_else(|| outside("a tensor"))?;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn binary(&mut self, to: usize, a: usize, b: usize, f: impl Fn(f64, f64) -> f64) {
        self.ternary(to, [a, b, b], |x, y, _| f(x, y));
    }

    #[inline(always)]
    fn ternary(&mut self, to: usize, args: [usize; 3], f: impl Fn(f64, f64, f64) -> f64) {
        if self.width_of(to) == 1 {
            // A register outside of lanes is read at lane 0 too.
            let [a, b, c] = args;
            let (x, y, z) = (self.real(a), self.real(b), self.real(c));
            self.registers.reals[to][0] = f(x, y, z);
            return;
        }
        match self.lanes {
            8 => self.in_lanes::<8>(to, args, f),
            16 => self.in_lanes::<16>(to, args, f),
            32 => self.in_lanes::<32>(to, args, f),
            _ => self.in_lanes::<ROOM>(to, args, f),
        }
    }

    /// Unused lanes compute something that nobody reads.
    #[inline(always)]
    fn in_lanes<const N: usize>(&mut self, to: usize, args: [usize; 3], f: impl Fn(f64, f64, f64) -> f64) {
        let [a, b, c] = args;
        let (x, y, z) = (self.fetch::<N>(a), self.fetch::<N>(b), self.fetch::<N>(c));
        for (lane, out) in self.registers.reals[to].iter_mut().take(N).enumerate() {
            *out = f(x[lane], y[lane], z[lane]);
        }
    }

    /// Adds to the partial sums of the lanes in use.
    #[inline(always)]
    fn add(&mut self, to: usize, args: [usize; 2], f: impl Fn(f64, f64, f64) -> f64) {
        match (self.width, self.lanes) {
            (8, 8) => self.add_in_lanes::<8>(to, args, f),
            (16, 16) => self.add_in_lanes::<16>(to, args, f),
            (32, 32) => self.add_in_lanes::<32>(to, args, f),
            (width, _) => {
                let [a, b] = args;
                let (x, y) = (self.fetch::<ROOM>(a), self.fetch::<ROOM>(b));
                let sums = &mut self.registers.partial[to];
                for (sum, (x, y)) in sums.iter_mut().zip(x.into_iter().zip(y)).take(width) {
                    *sum = f(*sum, x, y);
                }
            }
        }
    }

    #[inline(always)]
    fn add_in_lanes<const N: usize>(&mut self, to: usize, args: [usize; 2], f: impl Fn(f64, f64, f64) -> f64) {
        let [a, b] = args;
        let (x, y) = (self.fetch::<N>(a), self.fetch::<N>(b));
        for (lane, sum) in self.registers.partial[to].iter_mut().take(N).enumerate() {
            *sum = f(*sum, x[lane], y[lane]);
        }
    }

    fn apply(&mut self, to: usize, function: Function, args: &[usize]) -> Result<()> {
        if let Function::Value(Primitive::Op(op)) = function {
            let done = match args {
                [a] => self.in_vector(to, op, [*a]),
                [a, b] => self.in_vector(to, op, [*a, *b]),
                _ => false,
            };
            if done {
                return Ok(());
            }
        }
        let mut operands = [0.0; 4];
        let width = self.width_of(to);
        for lane in 0..width {
            for (operand, r) in operands.iter_mut().zip(args) {
                let x = &self.registers.reals[*r];
                *operand = if self.code.wide[*r] { x[lane] } else { x[0] };
            }
            let operands = operands.get(..args.len());
            self.registers.reals[to][lane] = match (function, operands) {
                (Function::Value(Primitive::Op(op)), Some(operands)) => op.value(operands),
                (_, Some(operands)) => scalar::try_evaluate(function, self.memory.functions, operands)?,
                (_, None) => {
                    // Functions of the user may take many arguments.
                    let many: Vec<f64> = args
                        .iter()
                        .map(|r| self.registers.reals[*r][if self.code.wide[*r] { lane } else { 0 }])
                        .collect();
                    scalar::try_evaluate(function, self.memory.functions, &many)?
                }
            };
        }
        Ok(())
    }
}

impl Run<'_, '_, '_, '_> {
    /// A function of the vector text, in as many lanes as there are; false for another function.
    #[inline(always)]
    fn in_vector<const K: usize>(&mut self, to: usize, op: scalar::Op, args: [usize; K]) -> bool {
        if self.width_of(to) == 1 {
            let Some([y]) = in_lanes(op, &args.map(|a| [self.real(a)])) else { return false };
            self.registers.reals[to][0] = y;
            return true;
        }
        let args = args.map(|a| self.fetch::<ROOM>(a));
        let groups = self.registers.reals[to].as_chunks_mut::<8>().0.iter_mut().take(self.width.div_ceil(8));
        for (k, group) in groups.enumerate() {
            let lanes = args.each_ref().map(|x| x.as_chunks::<8>().0.get(k).copied().unwrap_or_default());
            match in_lanes(op, &lanes) {
                Some(y) => *group = y,
                None => return false,
            }
        }
        true
    }
}

/// How many independent lanes are taken at a time: any number gives the same bits, and more of them make fewer steps.
fn group(from: i64, to: i64) -> usize {
    match to - from + 1 {
        ..=8 => 8,
        9..=16 => 16,
        17..=32 => 32,
        _ => ROOM,
    }
}

/// Lane `l` takes lane `l + h` for `h` = half of the lanes, a quarter, .., 1; what comes of all is in lane 0.
fn fold(partial: &mut [f64; ROOM], lanes: usize, both: impl Fn(f64, f64) -> f64) -> f64 {
    let mut half = lanes / 2;
    while half > 0 {
        for lane in 0..half {
            partial[lane] = both(partial[lane], partial[lane + half]);
        }
        half /= 2;
    }
    partial[0]
}

/// The best of a value and the best so far.
#[inline(always)]
fn extend(view: View, best: f64, x: f64) -> f64 {
    let keeps = if view == View::ArgMin { best <= x } else { best >= x };
    if keeps || best.is_nan() { best } else { x }
}

/// Whether a value comes before the best so far; the first NaN comes before all.
pub(super) fn better(view: View, x: f64, best: f64) -> bool {
    if best.is_nan() || x.is_nan() {
        return !best.is_nan();
    }
    if view == View::ArgMin { x < best } else { x > best }
}
