//! Random well-typed programs, valid by construction, as source text with matching inputs.
//!
//! A program is drawn from its seed alone. *Exact* programs use operations that keep small integers exact, so every stage must agree on
//! them bit for bit; *smooth* programs use the scalar functions as well; [*special*](special) ones overflow, and divide by zero;
//! [*wide*](wide) ones are exact, over long ranges. Every access is at an index of the same range, or stands under a guard that bounds it.
//! Sizes are 0 to 7, but in wide programs.

mod special;
mod wide;

use std::collections::BTreeSet;

use fastrand::Rng;

pub use special::Wild;

/// What kind of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Exact,
    Smooth,
    Special,
    Wide,
}

/// A range: how it is written and its value for this program's sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Extent {
    pub text: String,
    pub value: i64,
}

/// A type.
#[derive(Clone, Debug, PartialEq)]
pub enum Ty {
    Real,
    Pair(Box<Ty>, Box<Ty>),
    Tensor(Extent, Box<Ty>),
}

/// What a parameter is.
#[derive(Clone, Debug, PartialEq)]
pub enum ParamKind {
    Dense(Ty),
    Csr(Vec<Extent>),
    Csc(Vec<Extent>),
    Coo(Vec<Extent>),
    Relation(Vec<Extent>),
    /// From the first range to the second.
    Map(Extent, Extent),
    /// A relation that holds at the indices that are not [`Wild`].
    Mask(Extent),
}

/// A random program.
#[derive(Clone, Debug)]
pub struct Generated {
    pub text: String,
    pub sizes: Vec<(String, i64)>,
    pub params: Vec<(String, ParamKind)>,
    /// The indices at which data are special, none but in special programs.
    pub wild: Vec<Wild>,
    /// Which constructs occur, for the statistics.
    pub constructs: BTreeSet<&'static str>,
}

/// The words of a text that are given, with something behind each.
fn renamed(text: &str, names: &BTreeSet<String>, suffix: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_word(c) != is_word(first)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        out.push_str(word);
        if names.contains(word) {
            out.push_str(suffix);
        }
        rest = after;
    }
    out
}

impl Generated {
    /// The same program with other names for its sizes and parameters.
    fn with_suffix(&self, suffix: &str) -> Generated {
        let declared = self.sizes.iter().map(|(name, _)| name).chain(self.params.iter().map(|(name, _)| name));
        let names: BTreeSet<String> = declared.cloned().collect();
        let text = |text: &str| renamed(text, &names, suffix);
        let extent = |n: &Extent| Extent { text: text(&n.text), value: n.value };
        let extents = |dims: &[Extent]| dims.iter().map(extent).collect::<Vec<_>>();
        fn ty(t: &Ty, extent: &dyn Fn(&Extent) -> Extent) -> Ty {
            match t {
                Ty::Real => Ty::Real,
                Ty::Pair(a, b) => Ty::Pair(Box::new(ty(a, extent)), Box::new(ty(b, extent))),
                Ty::Tensor(n, element) => Ty::Tensor(extent(n), Box::new(ty(element, extent))),
            }
        }
        let kind = |kind: &ParamKind| match kind {
            ParamKind::Dense(t) => ParamKind::Dense(ty(t, &extent)),
            ParamKind::Csr(dims) => ParamKind::Csr(extents(dims)),
            ParamKind::Csc(dims) => ParamKind::Csc(extents(dims)),
            ParamKind::Coo(dims) => ParamKind::Coo(extents(dims)),
            ParamKind::Relation(dims) => ParamKind::Relation(extents(dims)),
            ParamKind::Map(source, target) => ParamKind::Map(extent(source), extent(target)),
            ParamKind::Mask(n) => ParamKind::Mask(extent(n)),
        };
        Generated {
            text: text(&self.text),
            sizes: self.sizes.iter().map(|(name, value)| (text(name), *value)).collect(),
            params: self.params.iter().map(|(name, k)| (text(name), kind(k))).collect(),
            wild: self.wild.iter().map(|wild| Wild { size: text(&wild.size), ..wild.clone() }).collect(),
            constructs: self.constructs.clone(),
        }
    }

    /// One program that gives what several give.
    pub fn together(programs: &[Generated]) -> Generated {
        let mut all = Generated {
            text: String::new(),
            sizes: Vec::new(),
            params: Vec::new(),
            wild: Vec::new(),
            constructs: BTreeSet::new(),
        };
        let mut bodies = Vec::new();
        for (k, program) in programs.iter().enumerate() {
            let program = program.with_suffix(&format!("_{k}"));
            let (declarations, body) = crate::support::declarations(&program.text);
            declarations.iter().for_each(|line| all.text.push_str(&format!("{line}\n")));
            bodies.push(body);
            all.sizes.extend(program.sizes);
            all.params.extend(program.params);
            all.wild.extend(program.wild);
            all.constructs.extend(program.constructs);
        }
        let body = bodies.into_iter().rev().reduce(|pairs, body| format!("({body}, {pairs})"));
        all.text.push_str(&body.unwrap_or_else(|| "0".to_owned()));
        all
    }
}

struct Generator {
    rng: Rng,
    smooth: bool,
    special: bool,
    wide: bool,
    wild: Vec<Wild>,
    sizes: Vec<(String, i64)>,
    params: Vec<(String, ParamKind)>,
    indices: Vec<(String, Extent)>,
    vars: Vec<(String, Ty)>,
    fresh: usize,
    /// How many more operators may be drawn.
    budget: i32,
    constructs: BTreeSet<&'static str>,
}

/// Draws a program.
pub fn program(seed: u64, smooth: bool) -> Generated {
    draw(seed, if smooth { Family::Smooth } else { Family::Exact })
}

/// Draws a program of a family.
pub fn draw(seed: u64, family: Family) -> Generated {
    let mut g = Generator {
        rng: Rng::with_seed(seed),
        smooth: family == Family::Smooth,
        special: family == Family::Special,
        wide: family == Family::Wide,
        wild: Vec::new(),
        sizes: Vec::new(),
        params: Vec::new(),
        indices: Vec::new(),
        vars: Vec::new(),
        fresh: 0,
        budget: 0,
        constructs: BTreeSet::new(),
    };
    g.budget = if g.wide { g.rng.i32(3..10) } else { g.rng.i32(4..24) };
    for name in ["n", "m", "l"].iter().take(g.rng.usize(1..=3)) {
        let value = if g.wide { wide::SIZES[g.rng.usize(0..wide::SIZES.len())] } else { g.rng.i64(0..=7) };
        g.sizes.push(((*name).to_owned(), value));
    }
    let mut text = g.declarations();
    let ty = match g.rng.u8(0..10) {
        0..=3 => Ty::Real,
        4..=5 => Ty::Tensor(g.extent(), Box::new(Ty::Real)),
        6 => Ty::Pair(Box::new(Ty::Real), Box::new(Ty::Tensor(g.extent(), Box::new(Ty::Real)))),
        7 => Ty::Tensor(g.extent(), Box::new(Ty::Pair(Box::new(Ty::Real), Box::new(Ty::Real)))),
        _ if g.wide => Ty::Tensor(g.extent(), Box::new(Ty::Tensor(g.extent(), Box::new(Ty::Real)))),
        _ => g.ty(2),
    };
    text.push_str(&g.expr(&ty, if g.wide { 3 } else { 4 }));
    text.push('\n');
    Generated { text, sizes: g.sizes, params: g.params, wild: g.wild, constructs: g.constructs }
}

impl Generator {
    fn name(&mut self, base: &str) -> String {
        self.fresh += 1;
        format!("{base}{}", self.fresh)
    }

    fn mark(&mut self, construct: &'static str) {
        self.constructs.insert(construct);
    }

    fn chance(&mut self, percent: u8) -> bool {
        self.rng.u8(0..100) < percent
    }

    fn pick<T: Clone>(&mut self, items: &[T]) -> Option<T> {
        if items.is_empty() { None } else { Some(items[self.rng.usize(0..items.len())].clone()) }
    }

    fn size(&mut self) -> Extent {
        let at = self.rng.usize(0..self.sizes.len());
        let (text, value) = self.sizes[at].clone();
        Extent { text, value }
    }

    fn extent(&mut self) -> Extent {
        let a = self.size();
        match self.rng.u8(0..10) {
            0 => Extent { text: format!("{} + 1", a.text), value: a.value + 1 },
            1 => {
                let b = self.size();
                match b.text == a.text {
                    true => Extent { text: format!("2*{} - 1", a.text), value: 2 * a.value - 1 },
                    false => Extent { text: format!("{} + {} - 1", a.text, b.text), value: a.value + b.value - 1 },
                }
            }
            2 => Extent { text: "3".to_owned(), value: 3 },
            _ => a,
        }
    }

    fn ty(&mut self, depth: u8) -> Ty {
        match self.rng.u8(0..10) {
            _ if depth == 0 => Ty::Real,
            0..=2 => Ty::Real,
            3..=6 => Ty::Tensor(self.extent(), Box::new(self.ty(depth - 1))),
            _ => Ty::Pair(Box::new(self.ty(depth - 1)), Box::new(self.ty(depth - 1))),
        }
    }

    fn declarations(&mut self) -> String {
        let mut text = String::new();
        if self.special {
            self.wild_sizes(&mut text);
        }
        // One vector of each size, so that every size is known from a shape.
        for (name, value) in self.sizes.clone() {
            let ty = Ty::Tensor(Extent { text: name.clone(), value }, Box::new(Ty::Real));
            self.declare(&mut text, format!("x{name}"), ParamKind::Dense(ty));
        }
        if self.special && self.chance(60) {
            let (dims, name) = (vec![self.size(), self.size()], self.name("q"));
            let kind = if self.rng.bool() { ParamKind::Csr(dims) } else { ParamKind::Relation(dims) };
            self.declare(&mut text, name, kind);
        }
        for _ in 0..self.rng.usize(0..4) {
            let kind = match self.rng.u8(0..10) {
                0..=3 => {
                    let ty = self.ty(if self.wide { 2 } else { 3 });
                    ParamKind::Dense(ty)
                }
                4 => ParamKind::Csr(vec![self.size(), self.size()]),
                5 => ParamKind::Csc(vec![self.size(), self.size()]),
                6 => {
                    let rank = if self.wide { 2 } else { self.rng.usize(1..=3) };
                    ParamKind::Coo((0..rank).map(|_| self.size()).collect())
                }
                7..=8 => {
                    let rank = if self.wide { 2 } else { self.rng.usize(1..=2) };
                    ParamKind::Relation((0..rank).map(|_| self.size()).collect())
                }
                _ => {
                    let (source, target) = (self.size(), self.size());
                    match source.value > 0 && target.value <= 0 {
                        // No map leads from something to nothing.
                        true => ParamKind::Relation(vec![source, target]),
                        false => ParamKind::Map(source, target),
                    }
                }
            };
            let name = self.name("q");
            self.declare(&mut text, name, kind);
        }
        text
    }

    fn declare(&mut self, text: &mut String, name: String, kind: ParamKind) {
        let shape = |shape: &[Extent]| shape.iter().map(|n| n.text.clone()).collect::<Vec<_>>().join(", ");
        text.push_str(&match &kind {
            ParamKind::Dense(ty) => format!("param {name} : {}\n", type_text(ty)),
            ParamKind::Csr(dims) => format!("param {name} : csr [{}] real\n", shape(dims)),
            ParamKind::Csc(dims) => format!("param {name} : csc [{}] real\n", shape(dims)),
            ParamKind::Coo(dims) => format!("param {name} : coo [{}] real\n", shape(dims)),
            ParamKind::Relation(dims) => format!("rel {name} : [{}]\n", shape(dims)),
            ParamKind::Mask(n) => format!("rel {name} : [{}]\n", n.text),
            ParamKind::Map(source, target) => format!("map {name} : [{}] -> [{}]\n", source.text, target.text),
        });
        match &kind {
            ParamKind::Dense(ty) => self.vars.push((name.clone(), ty.clone())),
            ParamKind::Csr(dims) | ParamKind::Csc(dims) | ParamKind::Coo(dims) => {
                self.mark("sparse parameter");
                let ty = dims.iter().rev().fold(Ty::Real, |ty, n| Ty::Tensor(n.clone(), Box::new(ty)));
                self.vars.push((name.clone(), ty));
            }
            ParamKind::Relation(_) | ParamKind::Mask(_) => self.mark("relation"),
            ParamKind::Map(..) => self.mark("map"),
        }
        self.params.push((name, kind));
    }

    /// An expression of a type.
    fn expr(&mut self, ty: &Ty, depth: u8) -> String {
        self.budget -= 1;
        let same: Vec<String> = self.vars.iter().filter(|(_, t)| t == ty).map(|(x, _)| x.clone()).collect();
        if !matches!(ty, Ty::Real)
            && self.chance(25)
            && let Some(x) = self.pick(&same)
        {
            self.mark("variable used whole");
            return x;
        }
        if depth > 0 && self.budget > 0 {
            if self.chance(12) {
                return self.let_in(ty, depth);
            }
            if self.chance(12) {
                self.mark("bracket");
                let guard = self.pred(2);
                let body = self.expr(ty, depth - 1);
                return format!("([{guard}] * {body})");
            }
            if !matches!(ty, Ty::Real) && self.chance(8) {
                self.mark("projection of a pair");
                let other = self.ty(1);
                let (a, b) = (self.expr(ty, depth - 1), self.expr(&other, depth - 1));
                return match self.rng.bool() {
                    true => format!("(fst ({a}, {b}))"),
                    false => format!("(snd ({b}, {a}))"),
                };
            }
        }
        match ty {
            Ty::Real => self.real(depth),
            Ty::Pair(a, b) => {
                self.mark("pair");
                format!("({}, {})", self.expr(a, depth.saturating_sub(1)), self.expr(b, depth.saturating_sub(1)))
            }
            Ty::Tensor(n, element) => {
                self.mark("gen");
                let body = self.under(n, |g| {
                    let body = g.expr(element, depth.saturating_sub(1));
                    if g.special { g.masked(body) } else { body }
                });
                format!("(gen {} < {}. {})", body.0, n.text, body.1)
            }
        }
    }

    /// Draws under a new index; gives its name and what was drawn.
    fn under<T>(&mut self, n: &Extent, draw: impl FnOnce(&mut Self) -> T) -> (String, T) {
        // Names repeat now and then, so that inner binders hide outer ones.
        let hidden = self.indices.last().map(|(i, _)| i.clone());
        let i = match hidden {
            Some(i) if self.chance(5) => {
                self.mark("index that hides another");
                i
            }
            _ => self.name("i"),
        };
        let outer = self.indices.clone();
        self.indices.retain(|(j, _)| *j != i);
        self.indices.push((i.clone(), n.clone()));
        let drawn = draw(self);
        self.indices = outer;
        (i, drawn)
    }

    fn let_in(&mut self, ty: &Ty, depth: u8) -> String {
        self.mark("let");
        let bound = self.ty(2);
        let value = self.expr(&bound, depth - 1);
        let x = self.name("v");
        self.vars.push((x.clone(), bound));
        let body = self.expr(ty, depth - 1);
        self.vars.pop();
        format!("(let {x} = {value} in {body})")
    }

    fn real(&mut self, depth: u8) -> String {
        if depth == 0 || self.budget <= 0 {
            return self.leaf();
        }
        let d = depth - 1;
        if self.wide && self.chance(50) {
            return self.wide_real(d);
        }
        if self.special && self.chance(40) {
            return self.special_real(d);
        }
        let real = Ty::Real;
        match self.rng.u8(0..24) {
            0..=2 => format!("({} + {})", self.expr(&real, d), self.expr(&real, d)),
            3 => {
                self.mark("sum of brackets");
                let (p, q) = (self.pred(1), self.pred(1));
                format!("([{p}] * {} + [{q}] * {})", self.expr(&real, d), self.expr(&real, d))
            }
            4 => format!("({} - {})", self.expr(&real, d), self.expr(&real, d)),
            5..=8 => format!("({} * {})", self.expr(&real, d), self.expr(&real, d)),
            9 => format!("(-{})", self.expr(&real, d)),
            10 => {
                self.mark("integer power");
                format!("({}^{})", self.expr(&real, d), self.rng.u8(0..4))
            }
            11..=14 => {
                self.mark("sum");
                let n = self.extent();
                let guarded = self.chance(40);
                let (i, body) = self.under(&n, |g| {
                    let guard = if guarded { format!("[{}] * ", g.pred(2)) } else { String::new() };
                    let body = format!("{guard}{}", g.expr(&Ty::Real, d));
                    if g.special { g.masked(body) } else { body }
                });
                format!("(sum {i} < {}. {body})", n.text)
            }
            15 => {
                self.mark("nested sum");
                let (n, m) = (self.extent(), self.extent());
                let (i, (j, body)) =
                    self.under(&n, |g| g.under(&m, |g| format!("[{}] * {}", g.pred(2), g.expr(&Ty::Real, d))));
                format!("(sum {i} < {}, {j} < {}. {body})", n.text, m.text)
            }
            16 => {
                self.mark("max and min");
                let f = if self.rng.bool() { "max" } else { "min" };
                format!("{f}({}, {})", self.expr(&real, d), self.expr(&real, d))
            }
            17 => {
                self.mark("abs");
                format!("abs({})", self.expr(&real, d))
            }
            18 => {
                self.mark("select");
                let p = self.pred_without_exists(1);
                format!("select({p}, {}, {})", self.expr(&real, d), self.expr(&real, d))
            }
            19 => {
                self.mark("max over an index");
                // Over a range that may be empty the maximum is infinite, and infinities hide differences.
                let n = self.extent();
                let n = Extent { text: format!("{} + 1", n.text), value: n.value + 1 };
                if n.value <= 0 {
                    return self.leaf();
                }
                let f = if self.rng.bool() { "max" } else { "min" };
                let (i, body) = self.under(&n, |g| g.expr(&Ty::Real, d));
                format!("({f} {i} < {}. {body})", n.text)
            }
            20 => {
                self.mark("access of a gen");
                let n = self.extent();
                let (i, body) = self.under(&n, |g| g.expr(&Ty::Real, d));
                let (a, guard) = self.index(&n);
                wrap(guard, format!("(gen {i} < {}. {body})[{a}]", n.text))
            }
            21 if self.smooth => {
                self.mark("division");
                format!("({} / (1 + {}^2))", self.expr(&real, d), self.expr(&real, d))
            }
            21..=22 if self.smooth => {
                self.mark("scalar function");
                let f = ["sin", "cos", "tanh", "atan", "sigmoid", "softplus"][self.rng.usize(0..6)];
                format!("{f}({})", self.expr(&real, d))
            }
            23 if self.smooth => {
                self.mark("function of a bounded argument");
                let e = self.expr(&real, d);
                match self.rng.u8(0..11) {
                    0 => format!("exp(sin({e}))"),
                    1 => format!("ln(2 + cos({e}))"),
                    2 => format!("sqrt(1 + {e}^2)"),
                    3 => format!("pow(2 + sin({e}), {})", self.leaf()),
                    4 => format!("sinh(sin({e}))"),
                    5 => format!("cosh(2 * cos({e}))"),
                    6 => format!("asin(0.75 * sin({e}))"),
                    7 => format!("acos(0.75 * cos({e}))"),
                    8 => format!("cbrt(1 + {e}^2)"),
                    9 => format!("atan2(2 + sin({e}), {e})"),
                    _ => format!("atan2({e}, 2 + cos({e}))"),
                }
            }
            _ => self.leaf(),
        }
    }

    fn leaf(&mut self) -> String {
        match self.rng.u8(0..12) {
            0 => format!("{}", self.rng.i8(0..4)),
            1 if self.smooth => "0.5".to_owned(),
            2 => {
                self.mark("size as a number");
                self.size().text
            }
            3 if !self.indices.is_empty() => {
                self.mark("index as a number");
                let at = self.rng.usize(0..self.indices.len());
                self.indices[at].0.clone()
            }
            _ => {
                let vars = self.vars.clone();
                match self.pick(&vars) {
                    Some((x, ty)) => self.part(x, &ty),
                    None => "1".to_owned(),
                }
            }
        }
    }

    /// A real part of a variable: an element, a component.
    fn part(&mut self, x: String, ty: &Ty) -> String {
        let (mut text, mut ty, mut guards) = (x, ty, Vec::new());
        loop {
            match ty {
                Ty::Real => return wrap((!guards.is_empty()).then(|| guards.join(" and ")), text),
                Ty::Tensor(n, element) => {
                    let (a, guard) = self.index(n);
                    guards.extend(guard);
                    text = format!("{text}[{a}]");
                    ty = element;
                }
                Ty::Pair(a, b) => {
                    let first = self.rng.bool();
                    text = format!("({} {text})", if first { "fst" } else { "snd" });
                    ty = if first { a } else { b };
                }
            }
        }
    }

    /// An index expression for an axis, with the guard that it needs.
    fn index(&mut self, n: &Extent) -> (String, Option<String>) {
        let same: Vec<String> = self.indices.iter().filter(|(_, m)| m == n).map(|(i, _)| i.clone()).collect();
        if self.chance(75)
            && let Some(i) = self.pick(&same)
        {
            return (i, None);
        }
        let maps: Vec<String> = self
            .params
            .iter()
            .filter_map(|(name, kind)| match kind {
                ParamKind::Map(source, target) if target == n => {
                    let i = self.indices.iter().find(|(_, m)| m == source)?;
                    Some(format!("{name}({})", i.0))
                }
                _ => None,
            })
            .collect();
        if self.chance(60)
            && let Some(a) = self.pick(&maps)
        {
            self.mark("access through a map");
            return (a, None);
        }
        self.mark("guarded access");
        let a = self.affine();
        (a.clone(), Some(format!("0 <= {a} and {a} < {}", n.text)))
    }

    /// An affine expression over the indices in scope.
    fn affine(&mut self) -> String {
        let indices = self.indices.clone();
        let term = |g: &mut Self| match g.pick(&indices) {
            Some((i, _)) => i,
            None => g.rng.u8(0..3).to_string(),
        };
        match self.rng.u8(0..8) {
            0 => self.rng.u8(0..3).to_string(),
            1 => format!("{} + 1", term(self)),
            2 => format!("{} - 1", term(self)),
            3 => format!("2*{}", term(self)),
            4 => format!("{} - {}", term(self), term(self)),
            5 => format!("{} - {} - 1", self.size().text, term(self)),
            6 => format!("{} + {}", term(self), term(self)),
            _ => term(self),
        }
    }

    fn pred(&mut self, depth: u8) -> String {
        if depth > 0 && self.chance(15) {
            self.mark("exists");
            let n = self.extent();
            let (k, body) = self.under(&n, |g| g.pred(depth - 1));
            return format!("(exists {k} < {}. {body})", n.text);
        }
        self.pred_without_exists(depth)
    }

    fn pred_without_exists(&mut self, depth: u8) -> String {
        if depth > 0 && self.chance(35) {
            let (p, q) = (self.pred_without_exists(depth - 1), self.pred_without_exists(depth - 1));
            return match self.rng.u8(0..3) {
                0 => format!("({p} and {q})"),
                1 => format!("({p} or {q})"),
                _ => format!("(not {p})"),
            };
        }
        if self.chance(30) {
            let relations: Vec<(String, usize)> = self
                .params
                .iter()
                .filter_map(|(name, kind)| match kind {
                    ParamKind::Relation(dims) => Some((name.clone(), dims.len())),
                    ParamKind::Csr(dims) | ParamKind::Csc(dims) | ParamKind::Coo(dims) => {
                        Some((format!("{name}?"), dims.len()))
                    }
                    ParamKind::Mask(_) => Some((name.clone(), 1)),
                    _ => None,
                })
                .collect();
            if let Some((relation, rank)) = self.pick(&relations) {
                self.mark("relation in a bracket");
                let args: Vec<String> = (0..rank).map(|_| self.affine()).collect();
                return format!("{relation}({})", args.join(", "));
            }
        }
        if self.budget > 0 && self.chance(15) {
            self.mark("comparison of reals");
            self.budget -= 1;
            let op = ["<", "<=", ">", ">=", "=", "!="][self.rng.usize(0..6)];
            // A literal with a point makes the comparison one of reals.
            return format!("({} {op} {})", self.leaf(), if self.smooth { "0.25" } else { "1.0" });
        }
        let op = ["<", "<=", ">", ">=", "=", "!="][self.rng.usize(0..6)];
        self.mark("comparison of indices");
        format!("{} {op} {}", self.affine(), self.affine())
    }
}

fn wrap(guard: Option<String>, text: String) -> String {
    match guard {
        Some(guard) => format!("([{guard}] * {text})"),
        None => text,
    }
}

/// A type as it is written.
pub fn type_text(ty: &Ty) -> String {
    match ty {
        Ty::Real => "real".to_owned(),
        Ty::Pair(a, b) => format!("({}, {})", type_text(a), type_text(b)),
        Ty::Tensor(n, element) => format!("[{}] {}", n.text, type_text(element)),
    }
}
