//! Expressions of a nest as Rust: indices, places, conditions and numbers.
//!
//! A register may hold a number for each lane, in vectors of [`WIDTH`] lanes, and one for each of the iterations that are interleaved. Each of
//! its [`Copy`](struct@Copy)s is a variable: `r7`, or `r7_2` of iteration 2, or `r7_2c1` of the second vector of that iteration.

use super::rust::{Emitter, Lanes, PASS};
use crate::base::IndexId;
use crate::error::{Error, Result};
use crate::index::{Affine, Var};
use crate::loops::{Bound, BufferId, Cond, Domain, Place, Real, RealId, Segment};
use crate::scalar::{Comparison, Function, Op, Primitive};
use crate::tensor::Precision;

/// The lanes of a vector.
pub(super) const WIDTH: u32 = 8;
/// The most columns of rows that are loaded whole, by `column` of `lanes.rs`.
const MOST_COLUMNS: i64 = 4;

/// Which of the interleaved iterations, and which vector of lanes.
#[derive(Clone, Copy, Default)]
pub(super) struct Copy {
    pub jam: u32,
    pub chunk: u32,
}

impl Emitter<'_> {
    /// Whether an expression differs from lane to lane.
    pub fn varies(&self, a: &Affine) -> bool {
        self.lanes.is_some()
            && a.terms().iter().any(
                |(v, _)| matches!(v, Var::Index(i) if Some(*i) == self.lane_index || self.lane_indices.contains(i)),
            )
    }

    /// Whether an expression differs among interleaved iterations.
    pub fn differs(&self, a: &Affine) -> bool {
        self.jam.is_some_and(|(index, _)| a.mentions(index))
    }

    /// An expression; of lane `l` where it differs from lane to lane.
    pub fn affine(&self, a: &Affine, copy: Copy) -> Result<String> {
        let mut terms = Vec::new();
        for (v, k) in a.terms() {
            let name = match v {
                Var::Index(i) => self.index(*i, copy),
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

    fn index(&self, i: IndexId, copy: Copy) -> String {
        if self.jam.is_some_and(|(index, _)| index == i) && copy.jam > 0 {
            return format!("({i} + {})", copy.jam);
        }
        match self.lanes {
            Some(_) if Some(i) == self.lane_index => match copy.chunk * WIDTH {
                0 => format!("({i} + l as i64)"),
                from => format!("({i} + {from} + l as i64)"),
            },
            Some(_) if self.lane_indices.contains(&i) => match self.stepped.get(&i) {
                Some(step) => format!("({i}c{} + {step} * l as i64)", copy.chunk),
                None => format!("{i}c{}[l]", copy.chunk),
            },
            _ => i.to_string(),
        }
    }

    /// The offset of a place.
    pub fn offset(&self, place: &Place, copy: Copy) -> Result<String> {
        let buffer = self.program.buffers.get(place.buffer).ok_or_else(|| Error::bug(PASS, "an unknown buffer"))?;
        let dims = &buffer.dims[buffer.dims.len().saturating_sub(place.at.len().saturating_sub(1))..];
        let mut text = String::new();
        let own = self.private.get(&place.buffer).copied();
        for (axis, a) in place.at.iter().enumerate().filter(|(axis, _)| own != Some(*axis)) {
            let a = self.affine(a, copy)?;
            text = match axis {
                _ if text.is_empty() => a,
                // Row-major: the next axis of the buffer.
                axis => format!("({text}) * ({}) + {a}", self.affine(&dims[axis - 1], copy)?),
            };
        }
        Ok(if text.is_empty() { "0".to_owned() } else { text })
    }

    /// The offset of the first lane.
    pub fn first_offset(&self, place: &Place, copy: Copy) -> Result<String> {
        Ok(format!("{{ let l = 0; {} }}", self.offset(place, copy)?))
    }

    /// Whether a place is of a buffer that the nest writes.
    pub fn is_target(&self, place: &Place) -> bool {
        self.targets.contains(&place.buffer)
    }

    pub fn buffer(&self, place: &Place) -> String {
        format!("{}{}", if self.is_target(place) { "out" } else { "b" }, crate::base::Id::index(place.buffer))
    }

    /// How the numbers of a buffer are stored.
    pub fn precision(&self, buffer: BufferId) -> Precision {
        self.program.buffers.get(buffer).map(|buffer| buffer.precision).unwrap_or_default()
    }

    /// What the names of functions end with that load from a place and store to it.
    pub fn ending(&self, place: &Place) -> &'static str {
        match self.precision(place.buffer) {
            Precision::Double => "",
            Precision::Single => "_single",
        }
    }

    /// Whether lanes are neighbours in memory.
    pub fn is_contiguous(&self, place: &Place) -> bool {
        let Some((last, others)) = place.at.split_last() else { return false };
        let Some(lane_index) = self.lane_index else { return false };
        let rest = last.terms().iter().filter(|(v, _)| *v != Var::Index(lane_index));
        last.coefficient(&Var::Index(lane_index)) == 1
            && !others.iter().any(|a| self.varies(a))
            && rest.into_iter().all(|(v, _)| !matches!(v, Var::Index(i) if self.lane_indices.contains(i)))
    }

    /// Where lanes are neighbouring rows of a few numbers each: the start of the first row, the column, and how many there are.
    fn row_of_few(&self, place: &Place) -> Option<(Place, Affine, i64)> {
        let (column, row) = place.at.split_last()?;
        let dims = &self.program.buffers.get(place.buffer)?.dims;
        let columns = dims.last()?.as_constant().filter(|n| (2..=MOST_COLUMNS).contains(n))?;
        let is_row = self.is_contiguous(&Place { buffer: place.buffer, at: row.to_vec() });
        let whole = self.precision(place.buffer) == Precision::Double && !self.private.contains_key(&place.buffer);
        let mut first = place.clone();
        *first.at.last_mut()? = Affine::constant(0);
        (is_row && whole && !self.varies(column)).then_some((first, column.clone(), columns))
    }

    fn bounds(&self, bounds: &[Bound], best: &str, copy: Copy) -> Result<String> {
        let mut text = String::new();
        for (k, b) in bounds.iter().enumerate() {
            let a = match b.numerator.as_constant() {
                Some(k) => format!("({})", k.div_euclid(b.divisor)),
                None if b.divisor == 1 => format!("({})", self.affine(&b.numerator, copy)?),
                None => format!("({}).div_euclid({})", self.affine(&b.numerator, copy)?, b.divisor),
            };
            text = if k == 0 { a } else { format!("{text}.{best}({a})") };
        }
        Ok(text)
    }

    /// The first and the last value of a loop in one of the interleaved iterations.
    pub fn domain(&self, domain: &Domain, copy: Copy) -> Result<String> {
        Ok(match domain {
            Domain::Range { lower, upper } => {
                format!("({}, {})", self.bounds(lower, "max", copy)?, self.bounds(upper, "min", copy)?)
            }
            Domain::Segment(segment) => format!("{{ let (from, end) = {}; (from, end - 1) }}", self.segment(segment)?),
            Domain::Part { whole, part, parts, grain } => {
                let (whole, part) = (self.domain(whole, copy)?, self.affine(part, Copy::default())?);
                format!("{{ let (from, to): (i64, i64) = {whole}; cut(from, to, {part}, {parts}, {grain}) }}")
            }
        })
    }

    pub fn segment(&self, segment: &Segment) -> Result<String> {
        let at = self.affine(&segment.at, Copy::default())?;
        Ok(format!("segment(s{}, {at})", crate::base::Id::index(segment.pointers)))
    }

    pub fn cond(&self, cond: &Cond) -> Result<String> {
        let all = |conds: &[Cond], word: &str, none: &str| -> Result<String> {
            let texts = conds.iter().map(|c| self.cond(c)).collect::<Result<Vec<_>>>()?;
            Ok(if texts.is_empty() { none.to_owned() } else { format!("({})", texts.join(word)) })
        };
        let affine = |a: &Affine| self.affine(a, Copy::default());
        Ok(match cond {
            Cond::NonNegative(a) => format!("{} >= 0", affine(a)?),
            Cond::Zero(a) => format!("{} == 0", affine(a)?),
            Cond::NonZero(a) => format!("{} != 0", affine(a)?),
            Cond::Support(r) => format!("{r} != 0.0"),
            Cond::NoSupport(r) => format!("{r} == 0.0"),
            Cond::All(conds) => all(conds, " && ", "true")?,
            Cond::Any(conds) => all(conds, " || ", "false")?,
        })
    }

    /// A variable of a register.
    pub fn name(&self, r: RealId, copy: Copy) -> String {
        let mut name = r.to_string();
        if self.jammed.contains(&r) {
            name = format!("{name}_{}", copy.jam);
        }
        if self.wide.contains(&r) {
            name = format!("{name}c{}", copy.chunk);
        }
        name
    }

    /// A register, as one number for each lane where they are wanted.
    pub fn read(&self, r: RealId, wide: bool, copy: Copy) -> String {
        let name = self.name(r, copy);
        match self.lanes {
            Some(lanes) if wide && !self.wide.contains(&r) => format!("all::<{}>({name})", lanes.width()),
            _ => name,
        }
    }

    /// Whether a number differs from lane to lane, and among interleaved iterations.
    pub fn variation(&self, real: &Real) -> (bool, bool) {
        let (mut wide, mut jammed) = (false, false);
        real.visit_reads(&mut |a| {
            wide |= self.wide.contains(&a);
            jammed |= self.jammed.contains(&a);
        });
        let mut visit = |a: &Affine| {
            wide |= self.varies(a);
            jammed |= self.differs(a);
        };
        match real {
            Real::Index(a) => visit(a),
            Real::Load(place) => place.at.iter().for_each(visit),
            _ => {}
        }
        (wide, jammed)
    }

    /// A copy of a number.
    pub fn real(&mut self, real: &Real, wide: bool, copy: Copy) -> Result<String> {
        if let Some(text) = self.rest_of_shared(real, wide, copy) {
            return Ok(text);
        }
        let lanes = self.lanes.filter(|_| wide);
        let read = |a: &RealId| self.read(*a, wide, copy);
        Ok(match (real, lanes) {
            (Real::Literal(x), _) if x.is_finite() => format!("{x:?}_f64"),
            (Real::Literal(x), _) => format!("f64::from_bits({})", x.to_bits()),
            (Real::Index(a), None) => format!("({}) as f64", self.affine(a, copy)?),
            (Real::Index(a), Some(lanes)) => {
                format!("V::<{}>::of(|l| ({}) as f64)", lanes.width(), self.affine(a, copy)?)
            }
            (Real::Load(place), lanes) => self.load(place, lanes, copy)?,
            (Real::Add(a, b), None) => format!("{} + {}", read(a), read(b)),
            (Real::Add(a, b), Some(_)) => format!("plus({}, {})", read(a), read(b)),
            (Real::Mul(a, b), None) => format!("{} * {}", read(a), read(b)),
            (Real::Mul(a, b), Some(_)) => format!("times({}, {})", read(a), read(b)),
            (Real::MulAdd(a, b, c), None) => format!("mul_add({}, {}, {})", read(a), read(b), read(c)),
            (Real::MulAdd(a, b, c), Some(_)) => format!("fused({}, {}, {})", read(a), read(b), read(c)),
            (Real::Select(p, x), None) => format!("select({}, {})", read(p), read(x)),
            (Real::Select(p, x), Some(_)) => format!("{}.zip({}, select)", read(p), read(x)),
            (Real::Apply(function, args), _) => {
                let args: Vec<String> = args.iter().map(read).collect();
                self.apply(*function, &args, lanes)
            }
        })
    }

    fn load(&self, place: &Place, lanes: Option<Lanes>, copy: Copy) -> Result<String> {
        let (buffer, again, ending) = (self.buffer(place), self.is_target(place), self.ending(place));
        let Some(lanes) = lanes else {
            if let Some(holds) = self.where_needed(place) {
                return Ok(format!("at_where{ending}({holds}, {buffer}, {})", self.offset(place, copy)?));
            }
            let at = if again { "again" } else { "at" };
            return Ok(format!("{at}{ending}({buffer}, {})", self.offset(place, copy)?));
        };
        let width = lanes.width();
        let pointer = if again { buffer.clone() } else { format!("{buffer}.as_ptr()") };
        let differs = place.at.iter().any(|a| self.differs(a));
        let count = lanes.count(copy, differs);
        if let (None, Some((first, column, columns))) = (&count, self.row_of_few(place)) {
            let (first, column) = (self.first_offset(&first, copy)?, self.affine(&column, copy)?);
            return Ok(format!("column::<{width}, {columns}>({pointer}, {first}, {column})"));
        }
        Ok(match (self.is_contiguous(place), count) {
            (true, None) => format!("load{ending}::<{width}>({pointer}, {})", self.first_offset(place, copy)?),
            (true, Some(count)) => {
                format!("load_some{ending}::<{width}>({pointer}, {}, {count})", self.first_offset(place, copy)?)
            }
            (false, count) => {
                let places = format!("core::array::from_fn(|l| {})", self.offset(place, copy)?);
                match count {
                    None => format!("gather{ending}::<{width}>({pointer}, {places})"),
                    Some(count) => format!("gather_some{ending}::<{width}>({pointer}, {places}, {count})"),
                }
            }
        })
    }

    /// The number of a function that is called back.
    pub fn number(&mut self, function: Function) -> usize {
        let known = self.functions.iter().position(|f| *f == function);
        known.unwrap_or_else(|| {
            self.functions.push(function);
            self.functions.len() - 1
        })
    }

    fn apply(&mut self, function: Function, args: &[String], lanes: Option<Lanes>) -> String {
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
                (Op::Div, [a, b]) if lanes.is_some() => return format!("over({a}, {b})"),
                (Op::Div, [a, b]) => return format!("{a} / {b}"),
                (Op::Powi(2), [a]) if lanes.is_some() => return format!("times({a}, {a})"),
                (Op::Powi(k), [a]) => return one(&format!("(|x: f64| powi(x, {k}))"), a),
                (Op::Min, [a, b]) => return two("min", a, b),
                (Op::Max, [a, b]) => return two("max", a, b),
                (Op::StopGradient, [a]) => return a.clone(),
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
        let number = self.number(function);
        match lanes {
            None => format!("call.apply({number}, [{}])", args.join(", ")),
            Some(lanes) => {
                let args: Vec<String> = args.iter().map(|a| format!("{a}.0[l]")).collect();
                format!("V::<{}>::of(|l| call.apply({number}, [{}]))", lanes.width(), args.join(", "))
            }
        }
    }
}
