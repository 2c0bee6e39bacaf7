//! The function of a nest as Rust source.
//!
//! Each nest becomes a function over slices and the places that it writes. A loop with lanes becomes a loop over groups of lanes, and what
//! is left over: groups of fewer lanes where lanes are independent, and single values, each added to its own lane, where they are added up.
//!
//! Names of the program occur in comments only, without anything but letters, digits and underscores.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::source::Target;
use crate::base::{Id, IndexId};
use crate::error::{Error, Result};
use crate::index::{Affine, Var, View};
use crate::loops::{Bound, BufferId, Cond, Domain, Nest, Place, Program, Real, RealId, Segment, Stmt, outer_sums};
use crate::scalar::{Comparison, Function, Op, Primitive};

const PASS: &str = "codegen";

/// The buffers that are zero before a nest runs.
pub fn fills(nest: &Nest) -> Vec<BufferId> {
    let filled = |stmt: &Stmt| if let Stmt::Fill(buffer) = stmt { Some(*buffer) } else { None };
    nest.body.iter().filter_map(filled).collect()
}

/// A name that can stand in a comment.
pub(super) fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).take(64).collect()
}

/// How the statements of a loop with lanes are written.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    /// One value at a time.
    Single,
    /// So many values at a time.
    Lanes(u32),
    /// One value, added to its lane.
    Tail,
}

/// Writes the function of a nest.
pub(super) struct Emitter<'a> {
    program: &'a Program,
    functions: &'a mut Vec<Function>,
    pub text: String,
    depth: usize,
    mode: Mode,
    /// The index of the loop with lanes.
    lane_index: Option<IndexId>,
    /// Indices and registers with a value for each lane.
    lane_indices: BTreeSet<IndexId>,
    wide: BTreeSet<RealId>,
    /// Registers outside that the loop with lanes adds to.
    sums: BTreeSet<RealId>,
    /// The lanes of that loop.
    count: u32,
    /// The buffers that the nest writes.
    targets: Vec<BufferId>,
    /// Whether the next loop is the one that is cut into parts.
    parts: bool,
}

impl<'a> Emitter<'a> {
    pub fn new(program: &'a Program, functions: &'a mut Vec<Function>) -> Self {
        Emitter {
            program,
            functions,
            text: String::new(),
            depth: 0,
            mode: Mode::Single,
            lane_index: None,
            lane_indices: BTreeSet::new(),
            wide: BTreeSet::new(),
            sums: BTreeSet::new(),
            count: 1,
            targets: Vec::new(),
            parts: false,
        }
    }

    fn line(&mut self, text: &str) {
        let indent = 4 * self.depth;
        let _ = writeln!(self.text, "{:indent$}{text}", "");
    }

    fn open(&mut self, text: &str) {
        self.line(text);
        self.depth += 1;
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.line("}");
    }

    pub fn nest(&mut self, k: usize, nest: &Nest, target: Target) -> Result<()> {
        self.parts = parallel_parts(nest);
        let (mut arrays, mut buffers) = (BTreeSet::new(), BTreeSet::new());
        for stmt in &nest.body {
            stmt.visit(&mut |stmt| {
                if let Some(place) = stmt.load().filter(|place| !nest.buffers.contains(&place.buffer)) {
                    buffers.insert(place.buffer.index());
                }
                match stmt {
                    Stmt::For { domain: Domain::Segment(segment), .. } => {
                        arrays.insert(segment.pointers.index());
                    }
                    Stmt::Let { array, .. } => {
                        arrays.insert(array.index());
                    }
                    Stmt::Find { segment, key, .. } => {
                        arrays.insert(segment.pointers.index());
                        arrays.extend(key.iter().map(|(nodes, _)| nodes.index()));
                    }
                    _ => {}
                }
            });
        }
        self.targets = nest.buffers.clone();
        let names = nest.buffers.iter().filter_map(|b| self.program.buffers.get(*b)).map(|b| plain(&b.name));
        let names: Vec<String> = names.collect();
        self.line(&format!("/// {}", names.join(", ")));
        if target == Target::Library {
            self.line("#[unsafe(no_mangle)]");
        }
        self.open(&format!("pub unsafe extern \"C\" fn nest_{k}(call: *const Call, part: i64, parts: i64) {{"));
        self.open("unsafe {");
        self.line("let call = &*call;");
        let sizes: Vec<usize> = (0..self.program.signature.sizes.len()).collect();
        let list = |prefix: &str, ids: &BTreeSet<usize>, ty: &str| -> Vec<String> {
            ids.iter().map(|id| format!("{prefix}{id}: {ty}")).collect()
        };
        let mut params = vec!["call: &Call".to_owned()];
        params.extend(sizes.iter().map(|n| format!("n{n}: i64")));
        params.extend(list("s", &arrays, "&[u32]"));
        params.extend(list("b", &buffers, "&[f64]"));
        params.extend(nest.buffers.iter().map(|b| format!("out{}: *mut f64", b.index())));
        params.extend(["part: i64", "parts: i64"].map(str::to_owned));
        let mut args = vec!["call".to_owned()];
        args.extend(sizes.iter().map(|n| format!("call.size({n})")));
        args.extend(arrays.iter().map(|s| format!("call.array({s})")));
        args.extend(buffers.iter().map(|b| format!("call.buffer({b})")));
        args.extend(nest.buffers.iter().map(|b| format!("call.target({})", b.index())));
        args.extend(["part", "parts"].map(str::to_owned));
        self.line(&format!("compute_{k}({});", args.join(", ")));
        self.close();
        self.close();
        self.line("");
        self.open(&format!("unsafe fn compute_{k}({}) {{", params.join(", ")));
        self.open("unsafe {");
        if !self.parts {
            self.open("if part != 0 {");
            self.line("return;");
            self.close();
        }
        self.body(&nest.body)?;
        self.close();
        self.close();
        self.line("");
        Ok(())
    }

    fn body(&mut self, body: &[Stmt]) -> Result<()> {
        body.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    fn lanes(&self) -> Option<u32> {
        match self.mode {
            Mode::Lanes(n) => Some(n),
            Mode::Single | Mode::Tail => None,
        }
    }

    fn varies(&self, a: &Affine) -> bool {
        self.lanes().is_some()
            && a.terms().iter().any(
                |(v, _)| matches!(v, Var::Index(i) if Some(*i) == self.lane_index || self.lane_indices.contains(i)),
            )
    }

    /// An expression; of lane `l` where it differs from lane to lane.
    fn affine(&self, a: &Affine) -> Result<String> {
        let mut terms = Vec::new();
        for (v, k) in a.terms() {
            let name = match v {
                Var::Index(i) if self.lanes().is_some() && Some(*i) == self.lane_index => format!("({i} + l as i64)"),
                Var::Index(i) if self.lanes().is_some() && self.lane_indices.contains(i) => format!("{i}[l]"),
                Var::Index(i) => i.to_string(),
                Var::Size(n) => n.to_string(),
                Var::Apply(_) => return Err(Error::bug(PASS, "an index expression applies a map")),
            };
            terms.push(match k {
                1 => name,
                k => format!("({k}) * {name}"),
            });
        }
        if a.offset() != 0 || terms.is_empty() {
            terms.push(format!("({})", a.offset()));
        }
        Ok(terms.join(" + "))
    }

    /// The offset of a place, with its base where lanes are neighbours.
    fn offset(&self, place: &Place) -> Result<String> {
        let buffer = self.program.buffers.get(place.buffer).ok_or_else(|| Error::bug(PASS, "an unknown buffer"))?;
        let dims = &buffer.dims[buffer.dims.len().saturating_sub(place.at.len().saturating_sub(1))..];
        let mut text = String::new();
        for (axis, a) in place.at.iter().enumerate() {
            let a = self.affine(a)?;
            text = match axis {
                0 => a,
                // Row-major: the next axis of the buffer.
                axis => format!("({text}) * ({}) + {a}", self.affine(&dims[axis - 1])?),
            };
        }
        Ok(if text.is_empty() { "0".to_owned() } else { text })
    }

    /// Whether a place is of a buffer that the nest writes.
    fn is_target(&self, place: &Place) -> bool {
        self.targets.contains(&place.buffer)
    }

    fn buffer(&self, place: &Place) -> String {
        format!("{}{}", if self.is_target(place) { "out" } else { "b" }, place.buffer.index())
    }

    /// The function that loads a number.
    fn at(&self, place: &Place) -> &'static str {
        if self.is_target(place) { "again" } else { "at" }
    }

    /// Whether lanes are neighbours in memory.
    fn is_contiguous(&self, place: &Place) -> bool {
        let Some((last, others)) = place.at.split_last() else { return false };
        let Some(lane_index) = self.lane_index else { return false };
        let rest = last.terms().iter().filter(|(v, _)| *v != Var::Index(lane_index));
        last.coefficient(&Var::Index(lane_index)) == 1
            && !others.iter().any(|a| self.varies(a))
            && rest.into_iter().all(|(v, _)| !matches!(v, Var::Index(i) if self.lane_indices.contains(i)))
    }

    fn bounds(&self, bounds: &[Bound], best: &str) -> Result<String> {
        let mut text = String::new();
        for (k, b) in bounds.iter().enumerate() {
            let a = self.affine(&b.numerator)?;
            let a = if b.divisor == 1 { format!("({a})") } else { format!("({a}).div_euclid({})", b.divisor) };
            text = if k == 0 { a } else { format!("{text}.{best}({a})") };
        }
        Ok(text)
    }

    fn segment(&self, segment: &Segment) -> Result<String> {
        Ok(format!("segment(s{}, {})", segment.pointers.index(), self.affine(&segment.at)?))
    }

    fn cond(&self, cond: &Cond) -> Result<String> {
        let all = |conds: &[Cond], word: &str, none: &str| -> Result<String> {
            let texts = conds.iter().map(|c| self.cond(c)).collect::<Result<Vec<_>>>()?;
            Ok(if texts.is_empty() { none.to_owned() } else { format!("({})", texts.join(word)) })
        };
        Ok(match cond {
            Cond::NonNegative(a) => format!("{} >= 0", self.affine(a)?),
            Cond::Zero(a) => format!("{} == 0", self.affine(a)?),
            Cond::NonZero(a) => format!("{} != 0", self.affine(a)?),
            Cond::Support(r) => format!("{r} != 0.0"),
            Cond::NoSupport(r) => format!("{r} == 0.0"),
            Cond::All(conds) => all(conds, " && ", "true")?,
            Cond::Any(conds) => all(conds, " || ", "false")?,
        })
    }

    /// A register, as one number for each lane where they are wanted.
    fn read(&self, r: RealId, wide: bool) -> String {
        match self.lanes() {
            Some(n) if wide && !self.wide.contains(&r) => format!("V::<{n}>::splat({r})"),
            _ => r.to_string(),
        }
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<()> {
        match stmt {
            Stmt::For { index, domain, lanes, parallel, body } => {
                return self.for_loop(*index, domain, *lanes, *parallel, body);
            }
            Stmt::Let { index, array, at } => {
                let a = self.affine(at)?;
                match self.lanes() {
                    Some(n) if self.varies(at) => {
                        self.lane_indices.insert(*index);
                        self.line(&format!(
                            "let {index}: [i64; {n}] = core::array::from_fn(|l| int(s{}, {a}));",
                            array.index()
                        ));
                    }
                    _ => self.line(&format!("let {index} = int(s{}, {a});", array.index())),
                }
            }
            Stmt::Find { index, segment, key } => {
                let segment = self.segment(segment)?;
                let text = match key {
                    Some((nodes, key)) => format!("find(s{}, {segment}, {})", nodes.index(), self.affine(key)?),
                    None => format!("{{ let (from, to) = {segment}; if from < to {{ from }} else {{ -1 }} }}"),
                };
                self.line(&format!("let {index} = {text};"));
            }
            Stmt::Extremum { index, view, extent, at, body, value } => {
                self.line(&format!("let (mut {index}, mut {at}, mut best) = (-1_i64, 0_i64, 0.0_f64);"));
                self.open(&format!("while {at} < {} {{", self.affine(extent)?));
                self.body(body)?;
                let sign = if *view == View::ArgMin { "<" } else { ">" };
                self.open(&format!("if {at} == 0 || (!best.is_nan() && ({value}.is_nan() || {value} {sign} best)) {{"));
                self.line(&format!("({index}, best) = ({at}, {value});"));
                self.close();
                self.line(&format!("{at} += 1;"));
                self.close();
            }
            Stmt::If { cond, body } => {
                self.open(&format!("if {} {{", self.cond(cond)?));
                self.body(body)?;
                self.close();
            }
            Stmt::Define(r, real) => {
                let text = self.real(*r, real)?;
                self.line(&format!("let {r} = {text};"));
            }
            Stmt::Local(r) => match self.lanes() {
                Some(n) => {
                    self.wide.insert(*r);
                    self.line(&format!("let mut {r} = V::<{n}>::splat(0.0);"));
                }
                None => self.line(&format!("let mut {r} = 0.0_f64;")),
            },
            Stmt::Assign(r, a) => {
                let a = self.read(*a, self.wide.contains(r));
                self.line(&format!("{r} = {a};"));
            }
            Stmt::Accumulate(r, a) if self.sums.contains(r) => match self.lanes() {
                Some(_) => {
                    let a = self.read(*a, true);
                    self.line(&format!("{r}_lanes = {r}_lanes + {a};"));
                }
                None => self.line(&format!("{r}_tail[lane & {}] += {a};", self.count - 1)),
            },
            Stmt::Accumulate(r, a) => {
                let a = self.read(*a, self.wide.contains(r));
                self.line(&format!("{r} = {r} + {a};"));
            }
            Stmt::Store(place, a) => self.store(place, *a)?,
            // Done before the nest runs, since parts of it may run at once.
            Stmt::Fill(_) => {}
        }
        Ok(())
    }

    fn store(&mut self, place: &Place, a: RealId) -> Result<()> {
        let Some(n) = self.lanes().filter(|_| place.at.iter().any(|a| self.varies(a))) else {
            let text = format!("put({}, {}, {a});", self.buffer(place), self.offset(place)?);
            self.line(&text);
            return Ok(());
        };
        let value = self.read(a, true);
        let offset = self.offset(place)?;
        if self.is_contiguous(place) {
            self.line(&format!("store({}, {{ let l = 0; {offset} }}, {value});", self.buffer(place)));
        } else {
            self.line(&format!("let value = {value};"));
            self.open(&format!("for l in 0..{n} {{"));
            self.line(&format!("put({}, {offset}, value.0[l]);", self.buffer(place)));
            self.close();
        }
        Ok(())
    }

    fn for_loop(&mut self, index: IndexId, domain: &Domain, lanes: u32, parallel: bool, body: &[Stmt]) -> Result<()> {
        self.open("{");
        match domain {
            Domain::Range { lower, upper } => {
                let (from, to) = (self.bounds(lower, "max")?, self.bounds(upper, "min")?);
                self.line(&format!("let (from, to): (i64, i64) = ({from}, {to});"));
            }
            Domain::Segment(segment) => {
                let text = self.segment(segment)?;
                self.line(&format!("let (from, end) = {text};"));
                self.line("let to = end - 1;");
            }
        }
        if parallel && self.parts && self.mode == Mode::Single {
            self.line("let (from, to) = cut(from, to, part, parts);");
        }
        self.line(&format!("let mut {index} = from;"));
        if lanes == 1 {
            self.open(&format!("while {index} <= to {{"));
            self.body(body)?;
            self.line(&format!("{index} += 1;"));
            self.close();
        } else {
            self.in_lanes(index, lanes, body)?;
        }
        self.close();
        Ok(())
    }

    fn in_lanes(&mut self, index: IndexId, lanes: u32, body: &[Stmt]) -> Result<()> {
        let sums = outer_sums(body);
        (self.lane_index, self.count) = (Some(index), lanes);
        self.sums = sums.clone();
        for r in &sums {
            self.line(&format!("let mut {r}_lanes = V::<{lanes}>::splat(0.0);"));
        }
        // Independent lanes may come in smaller groups as well.
        let groups: &[u32] = if sums.is_empty() && lanes > 8 { &[lanes, 8] } else { &[lanes] };
        for n in groups {
            self.mode = Mode::Lanes(*n);
            self.open(&format!("while {index} + {} <= to {{", n - 1));
            self.body(body)?;
            self.line(&format!("{index} += {n};"));
            self.close();
            self.wide.clear();
            self.lane_indices.clear();
        }
        self.mode = Mode::Tail;
        for r in &sums {
            self.line(&format!("let mut {r}_tail = {r}_lanes.0;"));
        }
        self.line("let mut lane = 0;");
        self.open(&format!("while {index} <= to {{"));
        self.body(body)?;
        self.line(&format!("{index} += 1;"));
        self.line("lane += 1;");
        self.close();
        for r in &sums {
            self.line(&format!("{r} = {r} + V({r}_tail).sum();"));
        }
        self.mode = Mode::Single;
        self.lane_index = None;
        self.sums.clear();
        Ok(())
    }

    fn real(&mut self, r: RealId, real: &Real) -> Result<String> {
        let mut wide = false;
        real.visit_reads(&mut |a| wide |= self.wide.contains(&a));
        if let Real::Index(a) = real {
            wide |= self.varies(a);
        }
        if let Real::Load(place) = real {
            wide |= place.at.iter().any(|a| self.varies(a));
        }
        let lanes = self.lanes().filter(|_| wide);
        let read = |a: &RealId| self.read(*a, wide);
        let text = match (real, lanes) {
            (Real::Literal(x), _) if x.is_finite() => format!("{x:?}_f64"),
            (Real::Literal(x), _) => format!("f64::from_bits({})", x.to_bits()),
            (Real::Index(a), None) => format!("({}) as f64", self.affine(a)?),
            (Real::Index(a), Some(n)) => format!("V::<{n}>::of(|l| ({}) as f64)", self.affine(a)?),
            (Real::Load(place), None) => format!("{}({}, {})", self.at(place), self.buffer(place), self.offset(place)?),
            (Real::Load(place), Some(n)) if self.is_contiguous(place) => {
                format!(
                    "{}::<{n}>({}, {{ let l = 0; {} }})",
                    if self.is_target(place) { "reload" } else { "load" },
                    self.buffer(place),
                    self.offset(place)?
                )
            }
            (Real::Load(place), Some(n)) => {
                format!("V::<{n}>::of(|l| {}({}, {}))", self.at(place), self.buffer(place), self.offset(place)?)
            }
            (Real::Add(a, b), _) => format!("{} + {}", read(a), read(b)),
            (Real::Mul(a, b), _) => format!("{} * {}", read(a), read(b)),
            (Real::Select(p, x), None) => format!("select({p}, {x})"),
            (Real::Select(p, x), Some(_)) => format!("{}.zip({}, select)", read(p), read(x)),
            (Real::Apply(function, args), _) => {
                let args: Vec<String> = args.iter().map(read).collect();
                self.apply(*function, &args, lanes)
            }
        };
        if wide {
            self.wide.insert(r);
        }
        Ok(text)
    }

    fn apply(&mut self, function: Function, args: &[String], lanes: Option<u32>) -> String {
        let one = |name: &str, x: &str| match lanes {
            None => format!("{name}({x})"),
            Some(_) => format!("{x}.map({name})"),
        };
        let two = |f: &str, x: &str, y: &str| match lanes {
            None => format!("({f})({x}, {y})"),
            Some(_) => format!("{x}.zip({y}, {f})"),
        };
        if let Function::Value(Primitive::Op(op)) = function {
            match (op, args) {
                (Op::Div, [a, b]) => return format!("{a} / {b}"),
                (Op::Powi(k), [a]) => return one(&format!("(|x: f64| powi(x, {k}))"), a),
                (Op::Min, [a, b]) => return two("min", a, b),
                (Op::Max, [a, b]) => return two("max", a, b),
                (Op::Sign, [a]) => return one("sign", a),
                (Op::Abs, [a]) => return one("f64::abs", a),
                (Op::Compare(comparison), [a, b]) => {
                    let sign = match comparison {
                        Comparison::Less => "<",
                        Comparison::LessEqual => "<=",
                        Comparison::Equal => "==",
                        Comparison::NotEqual => "!=",
                    };
                    return two(&format!("|a: f64, b: f64| indicator(a {sign} b)"), a, b);
                }
                _ => {}
            }
            if let Some(name) = super::name_in_lanes(op) {
                return match lanes {
                    None => format!("{name}(V([{}])).0[0]", args.join("]), V([")),
                    Some(_) => format!("{name}({})", args.join(", ")),
                };
            }
        }
        let known = self.functions.iter().position(|f| *f == function);
        let number = known.unwrap_or_else(|| {
            self.functions.push(function);
            self.functions.len() - 1
        });
        match lanes {
            None => format!("call.apply({number}, [{}])", args.join(", ")),
            Some(n) => {
                let args: Vec<String> = args.iter().map(|a| format!("{a}.0[l]")).collect();
                format!("V::<{n}>::of(|l| call.apply({number}, [{}]))", args.join(", "))
            }
        }
    }
}

/// Whether a nest can be cut into independent parts: it stores inside of parallel loops only.
pub fn parallel_parts(nest: &Nest) -> bool {
    fn inside(body: &[Stmt]) -> bool {
        body.iter().all(|stmt| match stmt {
            Stmt::For { parallel: true, .. } => true,
            Stmt::Store(..) => false,
            stmt => inside(stmt.body()),
        })
    }
    let has_loop = nest.body.iter().any(|stmt| matches!(stmt, Stmt::For { parallel: true, .. } | Stmt::If { .. }));
    has_loop && inside(&nest.body)
}
