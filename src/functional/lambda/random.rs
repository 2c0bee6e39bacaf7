//! Random well-typed programs, for campaigns.
//!
//! A program is made from its type: each term is a constructor of the type, a variable of it, or a term that gives it from another type. Whatever may be asked
//! for is a flag of [`Config`]. All programs end: loops and recursions count down, arrays have one to three elements, and indices are remainders.

use super::build::Builder;
use super::data::{Context, End, Prim, Program, Term, TermId, Type, TypeId};
use super::value::Value;
use crate::base::VarId;
use crate::error::Result;
use crate::reference::Numeric;
use crate::scalar::{Comparison, Op};

/// Which scalar functions there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalars {
    /// Sums, products, negation: exact modulo a prime, and no comparisons of reals.
    Polynomial,
    /// Smooth functions without poles, too, and comparisons of reals.
    Smooth,
}

/// What programs may have.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Terms, roughly.
    pub size: usize,
    /// Scalar functions.
    pub scalars: Scalars,
    /// Pairs.
    pub pairs: bool,
    /// Sums and `case`.
    pub sums: bool,
    /// Functions as values.
    pub functions: bool,
    /// Arrays: `build`, indexing, `length`, `sum`.
    pub arrays: bool,
    /// `map` of one or two arrays.
    pub maps: bool,
    /// `reduce`, with and without a start.
    pub reductions: bool,
    /// Scans, and arrays without their first or last element.
    pub scans: bool,
    /// `fold` and `iterate`.
    pub loops: bool,
    /// `rec`.
    pub recursion: bool,
    /// `par`.
    pub par: bool,
    /// Data types.
    pub data: bool,
}

impl Config {
    /// Everything.
    pub fn all(size: usize) -> Config {
        Config {
            size,
            scalars: Scalars::Smooth,
            pairs: true,
            sums: true,
            functions: true,
            arrays: true,
            maps: true,
            reductions: true,
            scans: true,
            loops: true,
            recursion: true,
            par: true,
            data: true,
        }
    }

    /// Reals, pairs and sums: the language of \[000\], Fig. 1.
    pub fn first_order(size: usize) -> Config {
        Config {
            functions: false,
            arrays: false,
            maps: false,
            reductions: false,
            scans: false,
            loops: false,
            recursion: false,
            par: false,
            data: false,
            ..Config::all(size)
        }
    }
}

/// A source of random numbers: SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 where `n` is.
    pub fn below(&mut self, n: usize) -> usize {
        // The remainder is below n.
        self.bits().checked_rem(n as u64).unwrap_or(0) as usize
    }

    /// A multiple of 1/8 between -2 and 2.
    pub fn real(&mut self) -> f64 {
        self.below(33) as f64 / 8.0 - 2.0
    }
}

/// A random program of parameters of first order, with a real result.
///
/// # Errors
/// None: every program is well typed.
pub fn random_program(random: &mut Random, config: &Config) -> Result<Program> {
    let mut b = Builder::new();
    let real = b.types().real();
    let mut maker = Maker { random, config, scope: Vec::new(), lists: None };
    for k in 0..1 + maker.random.below(3) {
        let ty = maker.param_type(&mut b, 2);
        let x = b.param(&format!("p{k}"), ty);
        maker.scope.push(x);
    }
    let body = maker.term(&mut b, real, config.size)?;
    b.finish(body)
}

/// Random values of the parameters of a program.
///
/// # Errors
/// [`Error::Limitation`](crate::error::Error::Limitation) where the numbers do not have a literal.
pub fn random_arguments<T: Numeric>(random: &mut Random, program: &Program) -> Result<Vec<Value<T>>> {
    program.params.iter().map(|x| random_value(random, program, program.var_ty(*x))).collect()
}

/// A random value of a first-order type.
// Types of parameters nest to a bounded depth.
fn random_value<T: Numeric>(random: &mut Random, context: &Context, ty: TypeId) -> Result<Value<T>> {
    Ok(match context.types[ty] {
        Type::Real => Value::real(random.real())?,
        Type::Int => Value::Int(random.below(4) as i64),
        Type::Pair(a, b) => Value::pair(random_value(random, context, a)?, random_value(random, context, b)?),
        Type::Sum(a, b) => match random.below(2) {
            0 => Value::inl(random_value(random, context, a)?),
            _ => Value::inr(random_value(random, context, b)?),
        },
        Type::Array(a) => {
            let n = 1 + random.below(3);
            Value::array((0..n).map(|_| random_value(random, context, a)).collect::<Result<_>>()?)
        }
        _ => Value::Unit,
    })
}

struct Maker<'a> {
    random: &'a mut Random,
    config: &'a Config,
    scope: Vec<VarId>,
    /// The data type of lists of reals.
    lists: Option<(super::data::DataId, TypeId)>,
}

type Made = Result<TermId>;

// Recursion is on the size of the program, which is small.
impl Maker<'_> {
    fn param_type(&mut self, b: &mut Builder, depth: usize) -> TypeId {
        let real = b.types().real();
        if depth == 0 {
            return real;
        }
        match self.random.below(6) {
            0 if self.config.pairs => {
                let (x, y) = (self.param_type(b, depth - 1), self.param_type(b, depth - 1));
                b.types().pair(x, y)
            }
            1 if self.config.sums => {
                let (x, y) = (self.param_type(b, depth - 1), self.param_type(b, depth - 1));
                b.types().sum(x, y)
            }
            2 if self.config.arrays => {
                let x = self.param_type(b, depth - 1);
                b.types().array(x)
            }
            3 if self.config.arrays => b.types().int(),
            _ => real,
        }
    }

    /// A type for what is between.
    fn any_type(&mut self, b: &mut Builder, depth: usize) -> TypeId {
        if depth > 0 && self.config.functions && self.random.below(5) == 0 {
            let (x, y) = (self.any_type(b, depth - 1), self.any_type(b, depth - 1));
            return b.types().function(x, y);
        }
        if self.config.sums && self.random.below(8) == 0 {
            return b.types().boolean();
        }
        self.param_type(b, depth)
    }

    /// A term of a type, of about this size.
    fn term(&mut self, b: &mut Builder, ty: TypeId, size: usize) -> Made {
        if self.random.below(if size <= 1 { 2 } else { 8 }) == 0
            && let Some(x) = self.variable(b, ty)
        {
            return Ok(b.var(x));
        }
        if size <= 1 {
            return self.smallest(b, ty);
        }
        match self.random.below(3) {
            0 => self.eliminate(b, ty, size - 1),
            _ => self.construct(b, ty, size - 1),
        }
    }

    /// A variable of the type in scope.
    fn variable(&mut self, b: &Builder, ty: TypeId) -> Option<VarId> {
        let fits: Vec<VarId> = self.scope.iter().copied().filter(|x| b.context.var_ty(*x) == ty).collect();
        fits.get(self.random.below(fits.len())).copied()
    }

    /// A small term of the type.
    fn smallest(&mut self, b: &mut Builder, ty: TypeId) -> Made {
        match b.context.types[ty] {
            Type::Real => b.real(self.random.real()),
            Type::Int => b.int(self.random.below(4) as i64),
            Type::Pair(x, y) => {
                let (x, y) = (self.term(b, x, 1)?, self.term(b, y, 1)?);
                b.pair(x, y)
            }
            Type::Sum(x, y) => match self.random.below(2) {
                0 => {
                    let x = self.term(b, x, 1)?;
                    b.inl(x, y)
                }
                _ => {
                    let y = self.term(b, y, 1)?;
                    b.inr(x, y)
                }
            },
            Type::Fn(x, y) => self.bind(b, "x", x, |maker, b, v| {
                let body = maker.term(b, y, 1)?;
                b.push(Term::Fn(v, body))
            }),
            Type::Array(x) => {
                let n = b.int(1 + self.random.below(3) as i64)?;
                let int = b.types().int();
                self.bind(b, "i", int, |maker, b, i| {
                    let body = maker.term(b, x, 1)?;
                    b.push(Term::Build(n, i, body))
                })
            }
            _ => b.unit(),
        }
    }

    /// With a new variable in scope.
    fn bind(
        &mut self,
        b: &mut Builder,
        name: &str,
        ty: TypeId,
        body: impl FnOnce(&mut Self, &mut Builder, VarId) -> Made,
    ) -> Made {
        let x = b.fresh(name, ty);
        self.scope.push(x);
        let made = body(self, b, x);
        self.scope.pop();
        made
    }

    /// A term whose outermost constructor is one of the type.
    fn construct(&mut self, b: &mut Builder, ty: TypeId, size: usize) -> Made {
        let half = size / 2;
        match b.context.types[ty] {
            Type::Real => self.real(b, size),
            Type::Int => {
                let (x, y) = (self.term(b, ty, half)?, self.term(b, ty, half)?);
                let small = b.int(3)?;
                // Integers stay small.
                let sum = b.prim(if self.random.below(2) == 0 { Prim::IntAdd } else { Prim::IntMul }, &[x, y])?;
                b.prim(Prim::IntRem, &[sum, small])
            }
            Type::Pair(x, y) => {
                let (x, y) = (self.term(b, x, half)?, self.term(b, y, half)?);
                if self.config.par && self.random.below(4) == 0 { b.push(Term::Par(x, y)) } else { b.pair(x, y) }
            }
            Type::Sum(x, y) => {
                let unit = b.types().unit();
                if x == unit && y == unit {
                    return self.comparison(b, half);
                }
                match self.random.below(2) {
                    0 => {
                        let x = self.term(b, x, size)?;
                        b.inl(x, y)
                    }
                    _ => {
                        let y = self.term(b, y, size)?;
                        b.inr(x, y)
                    }
                }
            }
            Type::Fn(x, y) => self.bind(b, "x", x, |maker, b, v| {
                let body = maker.term(b, y, size)?;
                b.push(Term::Fn(v, body))
            }),
            Type::Array(x) => self.array(b, ty, x, size),
            _ => b.unit(),
        }
    }

    fn comparison(&mut self, b: &mut Builder, half: usize) -> Made {
        let comparison = Comparison::ALL[self.random.below(4)];
        let (real, int) = (b.types().real(), b.types().int());
        if self.config.scalars == Scalars::Smooth && self.random.below(2) == 0 {
            let (x, y) = (self.term(b, real, half)?, self.term(b, real, half)?);
            return b.compare(comparison, x, y);
        }
        let (x, y) = (self.term(b, int, half)?, self.term(b, int, half)?);
        b.prim(Prim::IntCompare(comparison), &[x, y])
    }

    fn real(&mut self, b: &mut Builder, size: usize) -> Made {
        let (real, half) = (b.types().real(), size / 2);
        match self.random.below(9) {
            0 | 1 => {
                let (x, y) = (self.term(b, real, half)?, self.term(b, real, half)?);
                b.add(x, y)
            }
            2 | 3 => {
                let (x, y) = (self.term(b, real, half)?, self.term(b, real, half)?);
                b.mul(x, y)
            }
            4 => {
                let x = self.term(b, real, size)?;
                b.neg(x)
            }
            5 if self.config.scalars == Scalars::Smooth => {
                let op = [Op::Sin, Op::Cos, Op::Tanh, Op::Sigmoid, Op::Atan, Op::Abs][self.random.below(6)];
                let x = self.term(b, real, size)?;
                b.op(op, &[x])
            }
            6 if self.config.scalars == Scalars::Smooth => {
                let op = [Op::Max, Op::Min][self.random.below(2)];
                let (x, y) = (self.term(b, real, half)?, self.term(b, real, half)?);
                b.op(op, &[x, y])
            }
            7 if self.config.arrays => {
                let reals = b.types().array(real);
                let x = self.term(b, reals, size)?;
                b.prim(Prim::Sum, &[x])
            }
            8 if self.config.arrays => {
                let int = b.types().int();
                let x = self.term(b, int, size)?;
                b.prim(Prim::ToReal, &[x])
            }
            _ => self.eliminate(b, real, size),
        }
    }

    fn array(&mut self, b: &mut Builder, ty: TypeId, element: TypeId, size: usize) -> Made {
        let half = size / 2;
        match self.random.below(6) {
            0 | 1 if self.config.maps => {
                let from = self.param_type(b, 1);
                let arrays = b.types().array(from);
                let a = self.term(b, arrays, half)?;
                let whole = b.fresh("a", arrays);
                let twice = self.random.below(2) == 0;
                let (first, second) = (b.var(whole), twice.then(|| b.var(whole)));
                let mapped = self.bind(b, "x", from, |maker, b, x| {
                    maker.bind(b, "y", from, |maker, b, y| {
                        let body = maker.term(b, element, half)?;
                        let mut args = vec![(x, first)];
                        match second {
                            Some(second) => args.push((y, second)),
                            None => {
                                // Without a second array its variable is bound to an element of the first.
                                let (x, body) = (b.var(x), body);
                                let body = b.push(Term::Let(y, x, body))?;
                                return b.push(Term::Map(args, body));
                            }
                        }
                        b.push(Term::Map(args, body))
                    })
                })?;
                b.push(Term::Let(whole, a, mapped))
            }
            2 | 3 if self.config.scans => {
                let (init, a) = (self.term(b, element, half / 2)?, self.term(b, ty, half / 2)?);
                let from = if self.random.below(2) == 0 { End::First } else { End::Last };
                let scanned = self.bind(b, "x", element, |maker, b, x| {
                    maker.bind(b, "y", element, |maker, b, y| {
                        let body = maker.term(b, element, half)?;
                        b.push(Term::Scan { from, vars: (x, y), body, init, array: a })
                    })
                })?;
                match self.random.below(3) {
                    0 => b.prim(Prim::DropFirst, &[scanned]),
                    1 => b.prim(Prim::DropLast, &[scanned]),
                    _ => Ok(scanned),
                }
            }
            _ => {
                let n = b.int(1 + self.random.below(3) as i64)?;
                let int = b.types().int();
                self.bind(b, "i", int, |maker, b, i| {
                    let body = maker.term(b, element, size)?;
                    b.push(Term::Build(n, i, body))
                })
            }
        }
    }

    /// A term that gives the type from another one.
    fn eliminate(&mut self, b: &mut Builder, ty: TypeId, size: usize) -> Made {
        let half = size / 2;
        match self.random.below(10) {
            0 if self.config.pairs => {
                let other = self.any_type(b, 1);
                let first = self.random.below(2) == 0;
                let pair = if first { b.types().pair(ty, other) } else { b.types().pair(other, ty) };
                let e = self.term(b, pair, size)?;
                if first { b.fst(e) } else { b.snd(e) }
            }
            1 if self.config.sums => {
                let (x, y) = (self.any_type(b, 1), self.any_type(b, 1));
                let sum = b.types().sum(x, y);
                let e = self.term(b, sum, half)?;
                let (v, w) = (b.fresh("x", x), b.fresh("y", y));
                self.scope.push(v);
                let left = self.term(b, ty, half);
                self.scope.pop();
                self.scope.push(w);
                let right = self.term(b, ty, half);
                self.scope.pop();
                b.push(Term::Case(e, (v, left?), (w, right?)))
            }
            2 if self.config.functions => {
                let x = self.any_type(b, 1);
                let f = b.types().function(x, ty);
                let (f, x) = (self.term(b, f, half)?, self.term(b, x, half)?);
                b.apply(f, x)
            }
            3 | 4 if self.config.arrays => self.index(b, ty, half),
            5 if self.config.reductions => self.reduce(b, ty, half),
            6 if self.config.loops => self.repeat(b, ty, half),
            7 if self.config.recursion => self.recursion(b, ty, half),
            8 if self.config.data => self.list(b, ty, half),
            _ => {
                let x = self.any_type(b, 2);
                let value = self.term(b, x, half)?;
                self.bind(b, "v", x, |maker, b, v| {
                    let body = maker.term(b, ty, half)?;
                    b.push(Term::Let(v, value, body))
                })
            }
        }
    }

    /// `let a = .. in a ! (k % length a)`.
    fn index(&mut self, b: &mut Builder, ty: TypeId, half: usize) -> Made {
        let (arrays, int) = (b.types().array(ty), b.types().int());
        let (a, k) = (self.term(b, arrays, half)?, self.term(b, int, half / 2)?);
        b.let_("a", a, |b, a| {
            let (whole, all) = (b.var(a), b.var(a));
            let n = b.push(Term::Length(all))?;
            let k = b.prim(Prim::IntRem, &[k, n])?;
            b.index(whole, k)
        })
    }

    fn reduce(&mut self, b: &mut Builder, ty: TypeId, half: usize) -> Made {
        let start = self.random.below(2) == 0;
        let element = if start { self.param_type(b, 1) } else { ty };
        let arrays = b.types().array(element);
        let a = self.term(b, arrays, half)?;
        let init = if start { Some(self.term(b, ty, half / 2)?) } else { None };
        self.bind(b, "x", ty, |maker, b, x| {
            maker.bind(b, "y", element, |maker, b, y| {
                let body = maker.term(b, ty, half)?;
                b.push(Term::Reduce { vars: (x, y), body, init, array: a })
            })
        })
    }

    /// `fold t < n, s = e. e`, or a loop that counts.
    fn repeat(&mut self, b: &mut Builder, ty: TypeId, half: usize) -> Made {
        let int = b.types().int();
        let n = 1 + self.random.below(3) as i64;
        let init = self.term(b, ty, half)?;
        if self.random.below(2) == 0 {
            let count = b.int(n)?;
            return self.bind(b, "t", int, |maker, b, index| {
                maker.bind(b, "s", ty, |maker, b, state| {
                    let body = maker.term(b, ty, half)?;
                    b.push(Term::Fold { count, index, state, init, body })
                })
            });
        }
        let zero = b.int(0)?;
        let init = b.pair(zero, init)?;
        let pair = b.types().pair(int, ty);
        let looped = self.bind(b, "s", pair, |maker, b, state| {
            let (k, n) = (b.var(state), b.int(n)?);
            let k = b.fst(k)?;
            let cond = b.prim(Prim::IntCompare(Comparison::Less), &[k, n])?;
            let (k, one) = (b.var(state), b.int(1)?);
            let k = b.fst(k)?;
            let next = b.prim(Prim::IntAdd, &[k, one])?;
            let old = b.var(state);
            let old = b.snd(old)?;
            let now = maker.bind(b, "v", ty, |maker, b, v| {
                let body = maker.term(b, ty, half)?;
                b.push(Term::Let(v, old, body))
            })?;
            let body = b.pair(next, now)?;
            b.push(Term::Iterate { state, init, cond, body })
        })?;
        b.snd(looped)
    }

    /// `(rec f(p : int * a). if fst p < 1 then snd p else let v = f(fst p - 1, snd p) in e) (n, e)`.
    fn recursion(&mut self, b: &mut Builder, ty: TypeId, half: usize) -> Made {
        let int = b.types().int();
        let (n, start) = (b.int(self.random.below(4) as i64)?, self.term(b, ty, half)?);
        let domain = b.types().pair(int, ty);
        let f = b.rec("f", "p", (domain, ty), |b, f, p| {
            let (k, one) = (b.var(p), b.int(1)?);
            let k = b.fst(k)?;
            let test = b.prim(Prim::IntCompare(Comparison::Less), &[k, one])?;
            b.case(
                test,
                ("u", |b, _| {
                    let p = b.var(p);
                    b.snd(p)
                }),
                ("u", |b, _| {
                    let (k, less, old) = (b.var(p), b.int(-1)?, b.var(p));
                    let (k, old) = (b.fst(k)?, b.snd(old)?);
                    let k = b.prim(Prim::IntAdd, &[k, less])?;
                    let arg = b.pair(k, old)?;
                    let call = b.var(f);
                    let call = b.apply(call, arg)?;
                    self.bind(b, "v", ty, |maker, b, v| {
                        let body = maker.term(b, ty, half)?;
                        b.push(Term::Let(v, call, body))
                    })
                }),
            )
        })?;
        let arg = b.pair(n, start)?;
        b.apply(f, arg)
    }

    /// The head of a list of reals, or a term without it: `case unroll (cons(e, nil)) of {nil -> e | cons -> e}`.
    fn list(&mut self, b: &mut Builder, ty: TypeId, half: usize) -> Made {
        let real = b.types().real();
        let (data, item) = match self.lists {
            Some(known) => known,
            None => {
                let data = b.data("list");
                let list = b.types().intern(Type::Data(data));
                let item = b.types().pair(real, list);
                let unit = b.types().unit();
                let definition = b.types().sum(unit, item);
                b.define(data, definition);
                *self.lists.insert((data, item))
            }
        };
        let unit = b.types().unit();
        let end = b.unit()?;
        let end = b.inl(end, item)?;
        let mut list = b.push(Term::Roll(data, end))?;
        for _ in 0..self.random.below(3) {
            let head = self.term(b, real, half / 2)?;
            let pair = b.pair(head, list)?;
            let cons = b.inr(unit, pair)?;
            list = b.push(Term::Roll(data, cons))?;
        }
        let list = b.push(Term::Unroll(list))?;
        let empty = self.term(b, ty, half / 2)?;
        let (u, v) = (b.fresh("u", unit), b.fresh("item", item));
        let head = b.var(v);
        let head = b.fst(head)?;
        let other = self.bind(b, "head", real, |maker, b, x| {
            let body = maker.term(b, ty, half / 2)?;
            b.push(Term::Let(x, head, body))
        })?;
        b.push(Term::Case(list, (u, empty), (v, other)))
    }
}
