//! Loop nests as text.
//!
//! ```text
//! t3[n]:
//!   parallel for i0 in 0 .. n - 1
//!     local r0
//!     for i1 in rows X?(0, 1) at i0, lanes 4
//!       i2 = nodes 1 X?(0, 1)[i1]
//!       r1 = X[i1]
//!       r2 = w[i2]
//!       r3 = r1 * r2
//!       r0 += r3
//!     t3[i0] = r0
//! ```
//!
//! The text says all that [`parse`](super::parse()) needs to give the program again, and leaves out what it would take for granted: where a buffer
//! comes from, if it is a leaf of a parameter under its own name, what a nest writes, or what an output is made of; and of the parts of a loop
//! what their length is a multiple of, if it is its lanes or how many iterations are interleaved.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use super::Decision;
use super::data::{
    Array, ArrayId, Binned, Bins, Bound, BufferId, BufferKind, Cond, Coordinate, Domain, Neighbours, Part, Place,
    Program, Real, Run, Search, Segment, Stmt,
};
use super::names::{self, Counts, Names};
use crate::base::{Id, RelationId};
use crate::index::{Affine, Var, View};
use crate::scalar::{Function, Op, Primitive};
use crate::ty::Precision;

/// Writes nests with the names of a program.
struct Printer<'a> {
    program: &'a Program,
    /// Nothing where a parameter has too many leaves.
    names: Option<Names>,
    buffers: BTreeMap<BufferId, String>,
    /// The buffers of each leaf of an output.
    parts: BTreeMap<(usize, usize), Vec<BufferId>>,
    explain: bool,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printer::new(self, false).program(f)
    }
}

impl Program {
    /// The text with a line for each decision that lowering took.
    pub fn explained(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = Printer::new(self, true).program(&mut text);
        text
    }

    /// The text with decisions, and, at its end, what is [not proved](Program::unproved).
    pub fn explained_with_proofs(&self) -> String {
        let unproved = self.unproved().into_iter().map(|line| format!("# not proved: {line}\n"));
        self.explained() + &unproved.collect::<String>()
    }

    /// An index expression with the names of sizes.
    pub fn affine_text(&self, a: &Affine) -> String {
        let mut text = String::new();
        let _ = a.write(&mut text, &mut |v| match v {
            Var::Index(i) => i.to_string(),
            Var::Size(n) => self.signature.sizes.get(*n).cloned().unwrap_or_else(|| n.to_string()),
            // Nests hold no applications; the verifier says so.
            Var::Apply(application) => format!("{:?}", application.map),
        });
        text
    }

    /// A function with the names of the user.
    pub fn function_text(&self, function: Function) -> String {
        let name = |primitive| match primitive {
            Primitive::Op(Op::Powi(k)) => format!("powi[{k}]"),
            Primitive::Op(op) => op.name().into_owned(),
            Primitive::User(id) => {
                self.signature.functions.get(id).map_or_else(|| id.to_string(), |f| f.name().to_owned())
            }
        };
        match function {
            Function::Value(primitive) => name(primitive),
            Function::Partial(primitive, k) => format!("{}'{k}", name(primitive)),
        }
    }
}

impl<'a> Printer<'a> {
    fn new(program: &'a Program, explain: bool) -> Self {
        let mentioned = program.mentioned_buffers();
        let is_given = |b: &&BufferId| {
            let kind = program.buffers.get(**b).map(|buffer| buffer.kind);
            matches!(kind, Some(BufferKind::Param(..) | BufferKind::Held(_)))
        };
        let (given, others): (Vec<_>, Vec<_>) = mentioned.iter().partition(is_given);
        let mut counts = Counts::default();
        let mut buffers = BTreeMap::new();
        let mut parts: BTreeMap<_, Vec<BufferId>> = BTreeMap::new();
        for b in given.into_iter().chain(others) {
            if let (false, Some(buffer)) = (buffers.contains_key(b), program.buffers.get(*b)) {
                buffers.insert(*b, names::buffer(&buffer.name, counts.next(&buffer.name)));
                if let BufferKind::Output(output, leaf) = buffer.kind {
                    parts.entry((output, leaf)).or_default().push(*b);
                }
            }
        }
        Printer { program, names: Names::new(&program.signature).ok(), buffers, parts, explain }
    }

    fn program(&self, f: &mut dyn Write) -> fmt::Result {
        if self.program.bins != Bins::default() {
            let Bins { least, size } = self.program.bins;
            writeln!(f, "bins of {size} from {least} tuples on")?;
        }
        for b in self.program.declared_params(self.names.as_ref()) {
            writeln!(f, "param {}{}", self.head(b), self.leaf(b))?;
        }
        for (at, (number, b)) in self.program.held().into_iter().enumerate() {
            let counted = if number == at { String::new() } else { format!(", number {number}") };
            writeln!(f, "held {}{counted}", self.head(b))?;
        }
        for nest in &self.program.nests {
            let heads: Vec<String> = nest.buffers.iter().map(|b| self.head(*b)).collect();
            let heads = if heads.is_empty() { "entries".to_owned() } else { heads.join(", ") };
            writeln!(f, "{heads}:")?;
            if self.explain {
                let line = |decision: &Decision| match decision.by() {
                    "lower" => writeln!(f, "  # {decision}"),
                    pass => writeln!(f, "  # {pass}: {decision}"),
                };
                nest.decisions.iter().try_for_each(line)?;
            }
            self.body(f, &nest.body, 1)?;
        }
        for rounded in &self.program.rounded {
            writeln!(f, "{} = {}, rounded", self.head(rounded.to), self.buffer(rounded.from))?;
        }
        for limit in &self.program.limits {
            writeln!(f, "limit {}, {}", self.buffer(limit.steps), limit.most)?;
        }
        for (at, (name, leaves)) in self.program.outputs.iter().enumerate() {
            let leaf = |(leaf, b): (usize, &BufferId)| {
                let others = self.parts.get(&(at, leaf)).into_iter().flatten().filter(|other| *other != b);
                let all: Vec<String> = std::iter::once(b).chain(others).map(|b| self.buffer(*b)).collect();
                all.join(" and ")
            };
            let leaves: Vec<String> = leaves.iter().enumerate().map(leaf).collect();
            writeln!(f, "out {} = {}", names::output(name), leaves.join(", "))?;
        }
        Ok(())
    }

    /// `, leaf 1 of x`, where the name does not say so.
    fn leaf(&self, b: BufferId) -> String {
        let Some(buffer) = self.program.buffers.get(b) else { return String::new() };
        let known = self.names.as_ref().and_then(|names| names.leaves.get(&buffer.name));
        let BufferKind::Param(param, leaf) = buffer.kind else { return String::new() };
        if known.is_some_and(|known| known.kind == buffer.kind) {
            return String::new();
        }
        let name = self.program.signature.params.get(param).map(|param| names::param(&param.name));
        format!(", leaf {leaf} of {}", name.unwrap_or_else(|| param.to_string()))
    }

    /// `t3[E, 3*n] of [n, 3] in single precision`
    fn head(&self, b: BufferId) -> String {
        let buffer = self.program.buffers.get(b);
        let entries = buffer.and_then(|b| b.entries).map(|r| self.relation(r));
        let dims = buffer.map_or(&[][..], |b| &b.dims).iter().map(|n| self.affine(n));
        let axes: Vec<String> = entries.into_iter().chain(dims).collect();
        let outside = buffer.and_then(|b| b.outside.as_ref()).map_or_else(String::new, |axes| {
            let axes: Vec<String> = axes.iter().map(|n| self.affine(n)).collect();
            format!(" of [{}]", axes.join(", "))
        });
        let precision = match buffer.map(|b| b.precision) {
            Some(precision @ Precision::Single) => format!("{outside} in {precision}"),
            _ => outside,
        };
        match axes.as_slice() {
            [] => self.buffer(b) + &precision,
            axes => format!("{}[{}]{precision}", self.buffer(b), axes.join(", ")),
        }
    }

    fn body(&self, f: &mut dyn Write, body: &[Stmt], depth: usize) -> fmt::Result {
        body.iter().try_for_each(|stmt| self.stmt(f, stmt, depth))
    }

    fn stmt(&self, f: &mut dyn Write, stmt: &Stmt, depth: usize) -> fmt::Result {
        write!(f, "{:1$}", "", 2 * depth)?;
        match stmt {
            Stmt::For { index, domain, lanes, jam, parallel, body } => {
                let word = if *parallel { "parallel for" } else { "for" };
                write!(f, "{word} {index} in {}", self.domain(domain, (*lanes).max(*jam)))?;
                if *lanes > 1 {
                    write!(f, ", lanes {lanes}")?;
                }
                if *jam > 1 {
                    write!(f, ", jam {jam}")?;
                }
                writeln!(f)?;
                self.body(f, body, depth + 1)
            }
            Stmt::Let { index, array, at, step } => {
                write!(f, "{index} = {}[{}]", self.array(*array), self.affine(at))?;
                step.iter().try_for_each(|step| write!(f, ", in steps of {step}"))?;
                writeln!(f)
            }
            Stmt::Find { index, segment, key, how } => {
                match key {
                    None => write!(f, "{index} = first in {}", self.segment(segment))?,
                    Some((nodes, key)) => {
                        let (key, nodes) = (self.affine(key), self.array(*nodes));
                        write!(f, "{index} = find {key} in {} of {nodes}", self.segment(segment))?;
                    }
                }
                match how {
                    Search::Halving => writeln!(f),
                    Search::Onwards => writeln!(f, ", onwards"),
                    Search::Bound(array, at) => writeln!(f, ", bound in {}[{}]", self.array(*array), self.affine(at)),
                }
            }
            Stmt::Extremum { index, view, extent, at, body, value } => {
                let word = if *view == View::ArgMin { "argmin" } else { "argmax" };
                writeln!(f, "{index} = {word} {at} < {}. {value} where", self.affine(extent))?;
                self.body(f, body, depth + 1)
            }
            Stmt::If { cond, body } => {
                writeln!(f, "if {}", self.cond(cond))?;
                self.body(f, body, depth + 1)
            }
            Stmt::Define(r, real) => writeln!(f, "{r} = {}", self.real(real)),
            Stmt::Local(r) => writeln!(f, "local {r}"),
            Stmt::Assign(r, value) => writeln!(f, "{r} := {value}"),
            Stmt::Accumulate(r, value) => writeln!(f, "{r} += {value}"),
            Stmt::MulAdd(r, a, b) => writeln!(f, "{r} += {a} * {b}"),
            Stmt::Extend(View::ArgMin, r, value) => writeln!(f, "{r} min= {value}"),
            Stmt::Extend(_, r, value) => writeln!(f, "{r} max= {value}"),
            Stmt::Store(place, value) => writeln!(f, "{} = {value}", self.place(place)),
            Stmt::Length { index, place, most } => {
                writeln!(f, "{index} = length {}, at most {}", self.place(place), self.affine(most))
            }
            Stmt::End(r) => writeln!(f, "end if {r} is 0"),
            Stmt::Fill(buffer) => writeln!(f, "{} = 0", self.buffer(*buffer)),
            Stmt::Call { function, takes, gives } => {
                let run = |run: &Run| {
                    let shape: Vec<String> = run.shape.iter().map(|n| self.affine(n)).collect();
                    format!("{} : [{}]", self.place(&run.place), shape.join(", "))
                };
                let runs = |runs: &[Run]| runs.iter().map(run).collect::<Vec<_>>().join(", ");
                writeln!(f, "call ({}) = {function}({})", runs(gives), runs(takes))
            }
            Stmt::Tuple(number, at) => {
                let at: Vec<String> = at.iter().map(|a| self.affine(a)).collect();
                writeln!(f, "pattern {number} has ({})", at.join(", "))
            }
        }
    }

    fn buffer(&self, b: BufferId) -> String {
        self.buffers.get(&b).cloned().unwrap_or_else(|| b.to_string())
    }

    fn relation(&self, r: RelationId) -> String {
        let name = self.names.as_ref().and_then(|names| names.relations.get(r.index()));
        name.cloned().unwrap_or_else(|| r.to_string())
    }

    fn affine(&self, a: &Affine) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = a.write(&mut text, &mut |v| match v {
            Var::Index(i) => i.to_string(),
            Var::Size(n) => {
                let name = self.names.as_ref().and_then(|names| names.sizes.get(n.index()));
                name.cloned().unwrap_or_else(|| n.to_string())
            }
            // Nests hold no applications; the verifier says so.
            Var::Apply(application) => format!("{:?}", application.map),
        });
        text
    }

    fn array(&self, array: ArrayId) -> String {
        let Some(Array { relation, axes, part }) = self.program.arrays.get(array) else { return array.to_string() };
        let part = match part {
            Part::Roots => "roots".to_owned(),
            Part::Rows => "rows".to_owned(),
            Part::Nodes(level) => format!("nodes {level}"),
            Part::Children(level) => format!("children {level}"),
            Part::Entries => "entries".to_owned(),
            Part::Projected(relation) => format!("nodes in {} of", self.relation(*relation)),
            Part::Starts => "starts".to_owned(),
            Part::Binned(Binned::All) => "bins".to_owned(),
            Part::Binned(Binned::Entries) => "entries of bins".to_owned(),
            Part::Binned(Binned::Axis(axis)) => format!("axis {axis} of bins"),
            Part::Binned(Binned::Places) => "places in bins".to_owned(),
            Part::Neighbours(neighbours) => self.neighbours(neighbours),
        };
        format!("{part} {}", self.view(*relation, axes))
    }

    fn view(&self, relation: RelationId, axes: &[usize]) -> String {
        let axes: Vec<String> = axes.iter().map(usize::to_string).collect();
        format!("{}({})", self.relation(relation), axes.join(", "))
    }

    fn neighbours(&self, neighbours: &Neighbours) -> String {
        let coordinate = |Coordinate { axis, shift }: &Coordinate| match shift {
            0 => axis.to_string(),
            shift if *shift < 0 => format!("{axis} - {}", shift.unsigned_abs()),
            shift => format!("{axis} + {shift}"),
        };
        let coordinates: Vec<String> = neighbours.coordinates().map(coordinate).collect();
        format!("neighbours ({}) in {} of", coordinates.join(", "), self.view(neighbours.relation, &neighbours.axes()))
    }

    fn segment(&self, segment: &Segment) -> String {
        format!("{} at {}", self.array(segment.pointers), self.affine(&segment.at))
    }

    fn bounds(&self, bounds: &[Bound], word: &str) -> String {
        let bound = |b: &Bound| match b.divisor {
            1 => self.affine(&b.numerator),
            d => format!("floor(({}) / {d})", self.affine(&b.numerator)),
        };
        let texts: Vec<String> = bounds.iter().map(bound).collect();
        match texts.as_slice() {
            [one] => one.clone(),
            texts => format!("{word}({})", texts.join(", ")),
        }
    }

    fn domain(&self, domain: &Domain, usual: u32) -> String {
        match domain {
            Domain::Range { lower, upper } => format!("{} .. {}", self.bounds(lower, "max"), self.bounds(upper, "min")),
            Domain::Segment(segment) => self.segment(segment),
            Domain::Part { whole, part, parts, grain } => {
                let grain = if *grain == usual { String::new() } else { format!(" (grain {grain})") };
                format!("part {} of {parts}{grain} of {}", self.affine(part), self.domain(whole, usual))
            }
        }
    }

    fn cond(&self, cond: &Cond) -> String {
        let list = |conds: &[Cond], none: &str, one: &str, word: &str| {
            let texts: Vec<String> = conds.iter().map(|cond| self.cond(cond)).collect();
            match texts.as_slice() {
                [] => none.to_owned(),
                [text] => format!("{one}({text})"),
                texts => format!("({})", texts.join(word)),
            }
        };
        match cond {
            Cond::NonNegative(a) => format!("0 <= {}", self.affine(a)),
            Cond::Zero(a) => format!("{} = 0", self.affine(a)),
            Cond::NonZero(a) => format!("{} != 0", self.affine(a)),
            Cond::Support(r) => format!("{r} != 0"),
            Cond::NoSupport(r) => format!("{r} = 0"),
            Cond::All(conds) => list(conds, "true", "all", " and "),
            Cond::Any(conds) => list(conds, "false", "any", " or "),
        }
    }

    fn place(&self, place: &Place) -> String {
        let at: Vec<String> = place.at.iter().map(|a| self.affine(a)).collect();
        match at.as_slice() {
            [] => self.buffer(place.buffer),
            at => format!("{}[{}]", self.buffer(place.buffer), at.join(", ")),
        }
    }

    fn real(&self, real: &Real) -> String {
        match real {
            Real::Literal(x) => format!("{x:?}"),
            Real::Index(a) => format!("real({})", self.affine(a)),
            Real::Load(place) => self.place(place),
            Real::Add(a, b) => format!("{a} + {b}"),
            Real::Mul(a, b) => format!("{a} * {b}"),
            Real::MulAdd(a, b, c) => format!("{a} * {b} + {c}"),
            Real::Apply(function, args) => {
                let args: Vec<String> = args.iter().map(ToString::to_string).collect();
                self.program.signature.function_text(*function, &args)
            }
            Real::Select(p, x) => format!("[{p} != 0] {x}"),
        }
    }
}
