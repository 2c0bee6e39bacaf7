//! Random programs with loops, as text, drawn from a seed alone.
//!
//! *Polynomial* programs have sums, products and brackets, so a prime field has their exact values; *real* ones have scalar functions,
//! extrema and conditionals as well. Every access is at an index of the range of its axis, or under a bracket that bounds it.

use std::fmt;

use fastrand::Rng;

/// A range: a size, or none, and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    size: &'static str,
    add: i64,
}

const N: Range = Range { size: "n", add: 0 };
const T: Range = Range { size: "T", add: 0 };
const U: Range = Range { size: "U", add: 0 };

impl Range {
    fn constant(add: i64) -> Range {
        Range { size: "", add }
    }

    /// With as many more places.
    fn longer(self, by: i64) -> Range {
        Range { add: self.add + by, ..self }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.size, self.add) {
            ("", k) => write!(f, "{k}"),
            (n, 0) => write!(f, "{n}"),
            (n, k) if k < 0 => write!(f, "{n} - {}", -k),
            (n, k) => write!(f, "{n} + {k}"),
        }
    }
}

/// The axes of a tensor of reals.
type Dims = Vec<Range>;

/// A tensor of reals in scope.
#[derive(Clone, Debug)]
struct Tensor {
    name: String,
    /// What takes it out of a tuple: `fst`, `fst snd`, ..
    words: &'static str,
    /// How many of its axes are around the tuple.
    outer: usize,
    dims: Dims,
}

impl Tensor {
    fn new(name: &str, dims: &[Range]) -> Tensor {
        Tensor { name: name.to_owned(), words: "", outer: 0, dims: dims.to_vec() }
    }

    /// The tensor at some places of its first axes, as many as the tuple has around it at least.
    fn at(&self, places: &[String]) -> String {
        let access = |head: &str, places: &[String]| match places {
            [] => head.to_owned(),
            _ => format!("{head}[{}]", places.join(", ")),
        };
        let (outer, inner) = places.split_at(self.outer);
        let element = access(&self.name, outer);
        match self.words {
            "" => access(&self.name, places),
            words if inner.is_empty() => format!("({words} {element})"),
            words => access(&format!("({words} {element})"), inner),
        }
    }
}

/// What is in scope.
#[derive(Clone, Debug, Default)]
struct Scope {
    tensors: Vec<Tensor>,
    indices: Vec<(String, Range)>,
}

impl Scope {
    /// Takes a name for something new.
    fn hide(&mut self, name: &str) {
        self.tensors.retain(|tensor| tensor.name != name);
        self.indices.retain(|(index, _)| index != name);
    }

    fn knows(&self, name: &str) -> bool {
        self.tensors.iter().any(|tensor| tensor.name == name) || self.indices.iter().any(|(index, _)| index == name)
    }

    fn add(&mut self, tensor: Tensor) {
        self.hide(&tensor.name.clone());
        self.tensors.push(tensor);
    }

    fn add_index(&mut self, name: &str, range: Range) {
        self.hide(name);
        self.indices.push((name.to_owned(), range));
    }
}

/// A program, and the values of its sizes.
#[derive(Clone, Debug)]
pub struct Drawn {
    pub text: String,
    pub sizes: Vec<(&'static str, i64)>,
}

struct Maker {
    rng: Rng,
    is_real: bool,
    /// How much may still be written.
    fuel: i32,
    names: usize,
    /// Draws the parts that are written as functions applied, if any are.
    functions: Option<Rng>,
    /// Draws the parts that are written with indices that are found at run time and with sum types, if any are.
    types: Option<Rng>,
    /// Whether vectors are at times the values of [`SUMS`].
    calls: bool,
}

/// The program of a seed.
pub fn program(seed: u64, is_real: bool) -> Drawn {
    Maker::new(seed, is_real).program()
}

/// The program of a seed, and the same with some of its parts as the values of functions.
pub fn with_functions(seed: u64) -> (Drawn, Drawn) {
    let mut maker = Maker::new(seed, false);
    maker.functions = Some(Rng::with_seed(seed));
    (program(seed, false), maker.program())
}

/// The program of a seed, and the same with some of its parts written with indices that are found at run time and with sum types.
pub fn with_types(seed: u64, is_real: bool) -> (Drawn, Drawn) {
    let mut maker = Maker::new(seed, is_real);
    maker.types = Some(Rng::with_seed(seed));
    (program(seed, is_real), maker.program())
}

/// A type whose values take parts of programs along.
const SIDES: &str = "type side = left real | both (real, [2] real) | none\n";

/// Something with a value as what a `case` or an index that is found gives.
fn as_typed(rng: &mut Rng, e: &str, number: usize) -> String {
    let a = format!("a{number}'");
    let arms = |left: &str, both: &str| format!("left({a}) -> {left} | both({a}, b') -> {both} | none -> 2");
    match rng.u8(0..6) {
        0 => format!("(case left({e}) of {})", arms(&a, "b'[0]")),
        1 => format!("(case both({e}, [1, 2]) of {})", arms("3", &a)),
        2 => format!(
            "(let s' : side = (if 1 < 2 then both(1, gen i' < 2. {e}) else none) in case s' of {})",
            arms("3", "b'[1]")
        ),
        3 => {
            let steps = "fold t' < 2, (k' : index 3, s' : side) = (0, none)";
            let step = format!("(if k' = 0 then 1 else 2, left({e}))");
            format!("(let (k', s') = ({steps}. {step}) in [k' = 2] * case s' of {})", arms(&a, "1"))
        }
        4 => format!("(let k' : index 4 = (if 1 < 2 then 3 else 0) in sum j' < 4. [k' = j'] * {e})"),
        _ => format!(
            "(let k' = fold t' < 3, k' : index 5 = 1. (if k' = 1 then 3 else k') in (gen j' < 5. [j' = k'] * {e})[k'])"
        ),
    }
}

/// An element at places some of which are found at run time: what stands around it, and the element.
fn at_found(rng: &mut Rng, tensor: &Tensor, places: &mut [String], number: usize) -> String {
    let mut around = String::new();
    for (at, (place, axis)) in places.iter_mut().zip(&tensor.dims).enumerate() {
        if rng.u8(0..100) >= 15 {
            continue;
        }
        let k = format!("k{number}'{at}");
        around.push_str(&match rng.u8(0..3) {
            0 => format!("let {k} : index ({axis}) = {place} in "),
            1 => format!("let {k} = fold t' < 1, {k} : index ({axis}) = {place}. {k} in "),
            _ => format!("let {k} : index ({axis}) = (if 1 < 2 then {place} else {place}) in "),
        });
        *place = k;
    }
    around
}

/// The function that [`with_calls`] calls.
pub const SUMS: &str = "def sums(x : [k] real) : [k] real = gen i < k. sum j < k. [j <= i] * x[j]\n";

/// The program of a seed that calls a function `sums` of a vector, which is not defined in it, and has a number as its value.
pub fn with_calls(seed: u64) -> Drawn {
    let mut maker = Maker::new(seed, false);
    maker.calls = true;
    maker.program()
}

/// Definitions with parameters that are called as much of a program is.
const APPLY: &str = "def apply(v : real -> real, a : real) = let s1 = a in v(s1)
def swap(b : (real, real) -> real) = fn s2, i. b(i, s2)
def deliver(w : real) : real -> real = fn t. w
";

/// Something with a value as the value of a function; what begins with a parenthesis does so still.
fn as_function(rng: &mut Rng, e: &str, scope: &Scope) -> String {
    let mentioned = |name: &str| e.split(|c: char| !c.is_alphanumeric()).any(|word| word == name);
    let free = scope.tensors.iter().map(|x| &x.name).chain(scope.indices.iter().map(|(name, _)| name));
    // A parameter that hides what is not needed.
    let hiding: Vec<&String> = free.filter(|name| !mentioned(name)).collect();
    let c = if hiding.is_empty() || rng.bool() { "c" } else { hiding[rng.usize(0..hiding.len())] };
    if !e.starts_with('(') {
        return match rng.u8(0..4) {
            0 => format!("apply(fn {c}. {e}, 1)"),
            1 => format!("swap(fn {c}, c'. {e})(1, 2)"),
            2 => format!("deliver({e})(1)"),
            _ => format!("deliver(apply(fn {c}. {e}, 0))(3)"),
        };
    }
    match rng.u8(0..7) {
        0 => format!("(let f = fn {c}. {e} in f(1))"),
        1 => format!("((fn c. c)({e}))"),
        2 => format!("((fst (fn {c}. {e}, 2))(1))"),
        3 => format!("(let f = if 1 < 2 then fn {c}. {e} else fn c'. 2 in f(3))"),
        4 => format!("(let (f, c') = (fn {c}. fn c'. {e}, 1) in f(c')(2))"),
        5 => format!("(let f = (let c' = {e} in fn {c}. c') in f(1))"),
        _ => format!("(let f = fn g : real -> real. g(1) in f(fn {c}. {e}))"),
    }
}

fn tuple(parts: &[String]) -> String {
    match parts {
        [one] => one.clone(),
        parts => format!("({})", parts.join(", ")),
    }
}

/// What takes a component out of a tuple of so many.
fn words(k: usize, count: usize) -> &'static str {
    match (k, count) {
        (_, 1) => "",
        (0, _) => "fst",
        (1, 2) => "snd",
        (1, _) => "fst snd",
        _ => "snd snd",
    }
}

impl Maker {
    fn new(seed: u64, is_real: bool) -> Maker {
        let mut rng = Rng::with_seed(seed);
        let fuel = rng.i32(15..70);
        Maker { rng, is_real, fuel, names: 0, functions: None, types: None, calls: false }
    }

    fn chance(&mut self, percent: u8) -> bool {
        self.rng.u8(0..100) < percent
    }

    fn pick<X: Clone>(&mut self, all: &[X]) -> X {
        all[self.rng.usize(0..all.len())].clone()
    }

    /// A name for a tensor, at times one that is taken.
    fn name(&mut self, scope: &Scope) -> String {
        if self.chance(8) && !scope.tensors.is_empty() {
            return self.pick(&scope.tensors).name;
        }
        self.names += 1;
        format!("s{}", self.names)
    }

    /// The name of an index of a range, at times one that is taken.
    fn index(&mut self, range: Range, scope: &Scope) -> String {
        let letter = match range.size {
            "n" => "i",
            "T" => "t",
            "U" => "u",
            _ => "k",
        };
        if !scope.knows(letter) || self.chance(5) {
            return letter.to_owned();
        }
        self.fresh(letter)
    }

    /// A name that nothing has.
    fn fresh(&mut self, letter: &str) -> String {
        self.names += 1;
        format!("{letter}{}", self.names)
    }

    fn program(mut self) -> Drawn {
        let params =
            [("a", vec![]), ("b", vec![]), ("v", vec![N]), ("w", vec![N]), ("A", vec![N, N]), ("x", vec![T, N])];
        let params = [&params[..], &[("y", vec![T]), ("z", vec![U])]].concat();
        let mut scope = Scope::default();
        let mut text = String::new();
        for (name, dims) in params {
            if self.chance(60) {
                scope.add(Tensor::new(name, &dims));
            }
        }
        if scope.tensors.is_empty() {
            scope.add(Tensor::new("v", &[N]));
        }
        let params = scope.tensors.clone();
        let mut lets = String::new();
        for _ in 0..self.rng.usize(1..4) {
            lets.push_str(&self.binding(&mut scope));
        }
        let result = match self.rng.u8(0..8) {
            _ if self.calls => self.real(&scope, 4),
            0 => self.whole(&scope),
            1 => format!("({}, {})", self.real(&scope, 3), self.whole(&scope)),
            2 => format!("({}, {})", self.whole(&scope), self.real(&scope, 2)),
            _ => self.real(&scope, 4),
        };
        // So that more of what is bound is needed.
        let result = match scope.tensors.len() > params.len() && !result.starts_with('(') && self.chance(70) {
            true => format!("({result}) * {} + {}", self.element(&scope), self.element(&scope)),
            false => result,
        };
        let has_map = lets.contains("at(") || result.contains("at(");
        for tensor in params {
            let dims: Vec<String> = tensor.dims.iter().map(Range::to_string).collect();
            let format = if tensor.name == "A" && self.chance(15) { "csr " } else { "" };
            let ty = if dims.is_empty() { "real".to_owned() } else { format!("{format}[{}] real", dims.join(", ")) };
            text.push_str(&format!("param {} : {ty}  ", tensor.name));
        }
        if has_map {
            text.push_str("map at : [T] -> [n]  ");
        }
        let definitions = match (&self.functions, &self.types) {
            (Some(_), _) => APPLY,
            (_, Some(_)) => SIDES,
            _ => "",
        };
        text.push_str(&format!("size n  size T  size U\n{definitions}{lets}{result}\n"));
        let n = self.rng.i64(if has_map { 1..5 } else { 0..5 });
        let n = if n == 0 && self.chance(50) { 1 } else { n };
        let sizes = vec![("n", n), ("T", self.rng.i64(0..6)), ("U", self.rng.i64(0..4))];
        Drawn { text, sizes }
    }

    /// A tensor that is there, or a new one.
    fn whole(&mut self, scope: &Scope) -> String {
        let dims = match self.chance(60) {
            true => self.pick(&scope.tensors).dims,
            false => self.dims(),
        };
        self.tensor(&dims, scope, 4)
    }

    /// Axes of a state.
    fn dims(&mut self) -> Dims {
        match self.rng.u8(0..10) {
            0..5 => vec![],
            5..8 => vec![N],
            8 => vec![N, N],
            _ => vec![Range::constant(2)],
        }
    }

    fn steps(&mut self) -> Range {
        match self.rng.u8(0..12) {
            0..6 => T,
            6..9 => U,
            9 => N,
            10 => Range::constant(self.rng.i64(1..4)),
            _ => self.pick(&[T, U]).longer(1),
        }
    }

    /// `let x = ..`, a line; what is bound goes into scope.
    fn binding(&mut self, scope: &mut Scope) -> String {
        let name = self.name(scope);
        if self.chance(75) {
            let count = self.pick(&[1, 1, 1, 2, 2, 3]);
            let states: Vec<Dims> = (0..count).map(|_| self.dims()).collect();
            let steps = self.steps();
            let is_scan = self.chance(70);
            // At times one loop for each place of an axis.
            let around = if self.chance(12) { Some(N) } else { None };
            let mut inner = scope.clone();
            let head = around.map(|range| {
                let index = self.index(range, scope);
                inner.add_index(&index, range);
                format!("gen {index} < {range}. ")
            });
            let loops = self.scan(&inner, &states, steps, is_scan, 4);
            let outer: Dims = around.into_iter().chain(is_scan.then(|| steps.longer(1))).collect();
            if count > 1 && outer.is_empty() && self.chance(70) {
                let names: Vec<String> = (0..count).map(|k| format!("{name}{}", ["p", "q", "r"][k])).collect();
                for (name, dims) in names.iter().zip(&states) {
                    scope.add(Tensor::new(name, dims));
                }
                return format!("let {} = {loops} in\n", tuple(&names));
            }
            scope.hide(&name);
            for (k, dims) in states.iter().enumerate() {
                let dims = outer.iter().chain(dims).copied().collect();
                let around = if count == 1 { 0 } else { outer.len() };
                scope.tensors.push(Tensor { name: name.clone(), words: words(k, count), outer: around, dims });
            }
            return format!("let {name} = {}{loops} in\n", head.unwrap_or_default());
        }
        let dims = self.dims();
        let value = self.tensor(&dims, scope, 3);
        scope.add(Tensor::new(&name, &dims));
        format!("let {name} = {value} in\n")
    }

    /// A loop.
    fn scan(&mut self, scope: &Scope, states: &[Dims], steps: Range, is_scan: bool, depth: u32) -> String {
        self.fuel -= 3;
        let inits: Vec<String> = states
            .iter()
            .map(|dims| match self.chance(25) {
                true => self.constant(dims),
                false => self.tensor(dims, scope, depth.min(2)),
            })
            .collect();
        let mut inner = scope.clone();
        let iterates = self.is_real && self.chance(25);
        let index = self.index(steps, scope);
        if !iterates {
            inner.add_index(&index, steps);
        }
        let names: Vec<String> = match states.len() {
            1 => vec![self.name(scope)],
            count => {
                let name = self.name(&Scope::default());
                (0..count).map(|k| format!("{name}{}", ["a", "b", "c"][k])).collect()
            }
        };
        for (name, dims) in names.iter().zip(states) {
            inner.add(Tensor::new(name, dims));
        }
        let goes_on = iterates.then(|| format!("{} < {}", self.real(&inner, 1), self.real(&inner, 1)));
        let mut body = String::new();
        let own: Vec<(String, Dims)> = names.iter().cloned().zip(states.iter().cloned()).collect();
        let mut after = inner.clone();
        if self.fuel > 0 && depth > 1 && self.chance(30) {
            let name = self.name(&after);
            let dims = self.dims();
            let value = self.tensor(&dims, &after, depth - 1);
            after.add(Tensor::new(&name, &dims));
            body.push_str(&format!("let {name} = {value} in "));
        }
        let next: Vec<String> = own.iter().map(|(name, dims)| self.next(name, dims, &own, &after, depth)).collect();
        let word = if is_scan { "scan" } else { "fold" };
        let down = if self.chance(40) { " down" } else { "" };
        let (names, inits, next) = (tuple(&names), tuple(&inits), tuple(&next));
        if let Some(goes_on) = goes_on {
            let (word, end) = if is_scan { ("(snd (unfold", "))") } else { ("(iterate", ")") };
            return format!("{word} {names} = {inits} while {goes_on}, at most {steps}. {body}{next}{end}");
        }
        format!("({word} {index} < {steps}{down}, {names} = {inits}. {body}{next})")
    }

    /// What a state is after a step.
    fn next(&mut self, name: &str, dims: &Dims, own: &[(String, Dims)], scope: &Scope, depth: u32) -> String {
        let deeper = depth.saturating_sub(1);
        let is_there = scope.tensors.iter().any(|tensor| tensor.name == name && tensor.dims == *dims);
        match self.rng.u8(0..20) {
            // As it was.
            0 | 1 if is_there => name.to_owned(),
            // Another state.
            2..=4 => {
                let others: Vec<String> = own
                    .iter()
                    .filter(|(other, axes)| other != name && axes == dims)
                    .filter(|(other, axes)| scope.tensors.iter().any(|x| x.name == *other && x.dims == *axes))
                    .map(|(other, _)| other.clone())
                    .collect();
                match others.is_empty() {
                    true => self.tensor(dims, scope, deeper),
                    false => self.pick(&others),
                }
            }
            // Of nothing.
            5 => self.constant(dims),
            // Of what was there at the same place.
            6..14 if is_there && !dims.is_empty() => {
                let mut inner = scope.clone();
                let mut places = Vec::new();
                let mut head = String::new();
                for range in dims {
                    let index = self.index(*range, &inner);
                    inner.add_index(&index, *range);
                    head.push_str(&format!("{}{index} < {range}", if head.is_empty() { "gen " } else { ", " }));
                    places.push(index);
                }
                if !inner.tensors.iter().any(|tensor| tensor.name == name) {
                    return self.tensor(dims, scope, deeper);
                }
                let own = Tensor::new(name, dims).at(&places);
                let value = self.of(&own, &inner, deeper);
                let place = if self.chance(40) { self.place(dims[0], scope) } else { None };
                match place {
                    Some(place) => self.updated(&head, &own, &value, &places[0], &place),
                    None => format!("({head}. {value})"),
                }
            }
            6..14 if is_there => self.of(name, scope, deeper),
            _ => self.tensor(dims, scope, deeper),
        }
    }

    /// A tensor with another element, or row, at one place.
    fn updated(&mut self, head: &str, own: &str, value: &str, index: &str, place: &str) -> String {
        match self.rng.u8(0..3) {
            0 => format!("({head}. {own} + [{index} = {place}] * {value})"),
            1 => format!("({head}. (if {index} = {place} then {value} else {own}))"),
            _ => format!("({head}. [{index} = {place}] * {value} + [{index} != {place}] * {own})"),
        }
    }

    /// Something of a real and more.
    fn of(&mut self, own: &str, scope: &Scope, depth: u32) -> String {
        let more = self.real(scope, depth);
        match (self.rng.u8(0..6), self.is_real) {
            (0, true) => format!("tanh({own} + {more})"),
            (1, true) => format!("sin({own}) * tanh({more})"),
            (2, true) => format!("(0.5 * {own} + tanh({more}))"),
            (3, true) => format!("(if {own} < {more} then {own} else tanh({more}))"),
            (0 | 1, _) => format!("{own} * {more}"),
            (2, _) => format!("({own} - {more})"),
            _ => format!("({own} + {more})"),
        }
    }

    fn constant(&mut self, dims: &[Range]) -> String {
        let number = self.rng.i8(0..3);
        let head: Vec<String> =
            dims.iter().zip(["i", "j", "k"]).map(|(range, index)| format!("{index} < {range}")).collect();
        match head.is_empty() {
            true => format!("{number}"),
            false => format!("(gen {}. {number})", head.join(", ")),
        }
    }

    /// A tensor with some axes.
    fn tensor(&mut self, dims: &[Range], scope: &Scope, depth: u32) -> String {
        if dims.is_empty() {
            return self.real(scope, depth);
        }
        self.fuel -= 1;
        let bare = depth == 0 || self.fuel < 0;
        if self.calls && !bare && dims.len() == 1 && self.chance(40) {
            return format!("sums({})", self.tensor(dims, scope, depth - 1));
        }
        // What is there, in whole or a slice of it.
        let ready: Vec<Tensor> = scope
            .tensors
            .iter()
            .filter(|x| x.dims.ends_with(dims) && x.dims.len() - dims.len() >= x.outer)
            .cloned()
            .collect();
        if !ready.is_empty() && self.chance(if bare { 50 } else { 25 }) {
            let tensor = self.pick(&ready);
            let axes = tensor.dims[..tensor.dims.len() - dims.len()].to_vec();
            if let Some(places) = axes.iter().map(|range| self.place(*range, scope)).collect::<Option<Vec<_>>>() {
                return tensor.at(&places);
            }
        }
        if !bare {
            match self.rng.u8(0..12) {
                0 | 1 => {
                    let steps = self.steps();
                    return self.scan(scope, &[dims.to_vec()], steps, false, depth - 1);
                }
                2 if dims[0].add >= 1 && !dims[0].size.is_empty() => {
                    return self.scan(scope, &[dims[1..].to_vec()], dims[0].longer(-1), true, depth - 1);
                }
                3 => {
                    let (name, axes) = (self.name(scope), self.dims());
                    let value = self.tensor(&axes, scope, depth - 1);
                    let mut inner = scope.clone();
                    inner.add(Tensor::new(&name, &axes));
                    return format!("(let {name} = {value} in {})", self.tensor(dims, &inner, depth - 1));
                }
                4 => {
                    let other = self.dims();
                    let steps = self.steps();
                    let first = self.chance(50);
                    let states = if first { [dims.to_vec(), other] } else { [other, dims.to_vec()] };
                    let loops = self.scan(scope, &states, steps, false, depth - 1);
                    return format!("({} {loops})", if first { "fst" } else { "snd" });
                }
                5 if self.is_real => {
                    let [a, b] = [0, 1].map(|_| self.real(scope, depth - 1));
                    let [v, w] = [0, 1].map(|_| self.tensor(dims, scope, depth - 1));
                    return format!("(if {a} < {b} then {v} else {w})");
                }
                _ => {}
            }
        }
        let mut inner = scope.clone();
        let mut head = Vec::new();
        for range in dims {
            let index = self.index(*range, &inner);
            inner.add_index(&index, *range);
            head.push(format!("{index} < {range}"));
        }
        format!("(gen {}. {})", head.join(", "), self.real(&inner, depth.saturating_sub(1)))
    }

    /// An index of an axis, without a bracket.
    fn place(&mut self, axis: Range, scope: &Scope) -> Option<String> {
        let mut all: Vec<String> = Vec::new();
        for (name, range) in &scope.indices {
            if range.size != axis.size || range.add > axis.add {
                continue;
            }
            all.extend([name.clone(), name.clone()]);
            if range.add < axis.add {
                all.extend([format!("{name} + 1"), format!("{name} + 1")]);
            }
            if !axis.size.is_empty() {
                all.push(match axis.add - 1 {
                    0 => format!("{} - {name}", axis.size),
                    k if k < 0 => format!("{} - {} - {name}", axis.size, -k),
                    k => format!("{} + {k} - {name}", axis.size),
                });
            }
        }
        if axis == N {
            all.extend(scope.indices.iter().filter(|(_, range)| *range == T).map(|(name, _)| format!("at({name})")));
        }
        if axis.add >= 1 {
            all.push("0".to_owned());
            all.push(axis.longer(-1).to_string());
        }
        (!all.is_empty()).then(|| self.pick(&all))
    }

    /// An element of a tensor that is in scope.
    fn element(&mut self, scope: &Scope) -> String {
        // What was made last is read most.
        let count = scope.tensors.len();
        let at = if self.chance(60) { count - 1 - self.rng.usize(0..count.min(3)) } else { self.rng.usize(0..count) };
        let tensor = scope.tensors[at].clone();
        let mut inner = scope.clone();
        let (mut places, mut guards, mut sums) = (Vec::new(), Vec::new(), Vec::new());
        for axis in &tensor.dims {
            let others: Vec<(String, Range)> = inner.indices.clone();
            if !others.is_empty() && self.chance(15) {
                // Another index, or a shifted one, under a bracket.
                let (name, _) = self.pick(&others);
                let (place, guard) = match self.rng.u8(0..3) {
                    0 => (name.clone(), format!("[{name} < {axis}] * ")),
                    1 => (format!("{name} + 1"), format!("[{name} + 1 < {axis}] * ")),
                    _ => (format!("{name} - 1"), format!("[0 < {name} and {name} - 1 < {axis}] * ")),
                };
                places.push(place);
                guards.push(guard);
                continue;
            }
            match self.place(*axis, &inner) {
                Some(place) if self.chance(85) => places.push(place),
                _ => {
                    let name = self.fresh("j");
                    inner.add_index(&name, *axis);
                    sums.push(format!("{name} < {axis}"));
                    places.push(name);
                }
            }
        }
        let names = self.names;
        let around = self.types.as_mut().map(|rng| at_found(rng, &tensor, &mut places, names));
        let around = around.unwrap_or_default();
        let element = match around.is_empty() {
            true => format!("{}{}", guards.concat(), tensor.at(&places)),
            false => format!("{}({around}{})", guards.concat(), tensor.at(&places)),
        };
        match (sums.is_empty(), guards.is_empty()) {
            (true, true) => element,
            (true, false) => format!("({element})"),
            _ => format!("(sum {}. {element})", sums.join(", ")),
        }
    }

    fn real(&mut self, scope: &Scope, depth: u32) -> String {
        let e = self.plain_real(scope, depth);
        if let Some(rng) = &mut self.types {
            if rng.u8(0..100) >= 12 {
                return e;
            }
            // What begins with a parenthesis does so still.
            let typed = as_typed(rng, &e, self.names);
            return if e.starts_with('(') { typed } else { format!("1 * {typed}") };
        }
        let Some(rng) = &mut self.functions else { return e };
        if rng.u8(0..100) < 15 { as_function(rng, &e, scope) } else { e }
    }

    fn plain_real(&mut self, scope: &Scope, depth: u32) -> String {
        self.fuel -= 1;
        if depth == 0 || self.fuel < 0 || scope.tensors.is_empty() {
            return match self.rng.u8(0..10) {
                0 => format!("{}", self.rng.i8(1..3)),
                1 if !scope.indices.is_empty() => format!("real({})", self.pick(&scope.indices).0),
                _ if scope.tensors.is_empty() => "1".to_owned(),
                _ => self.element(scope),
            };
        }
        let next = |maker: &mut Maker| maker.real(scope, depth - 1);
        match self.rng.u8(0..if self.is_real { 30 } else { 20 }) {
            0..4 => self.element(scope),
            4..6 => format!("({} + {})", next(self), next(self)),
            6 => format!("({} - {})", next(self), next(self)),
            7..10 => format!("{} * {}", next(self), next(self)),
            10 | 11 => match self.predicate(scope) {
                Some(p) => format!("([{p}] * {})", next(self)),
                None => format!("(-{})", next(self)),
            },
            12..14 => {
                let range = self.pick(&[N, N, T, U, Range::constant(2), T.longer(1)]);
                let index = self.index(range, scope);
                let mut inner = scope.clone();
                inner.add_index(&index, range);
                format!("(sum {index} < {range}. {})", self.real(&inner, depth - 1))
            }
            14..17 => {
                let steps = self.steps();
                match self.rng.u8(0..4) {
                    0 => {
                        let other = self.dims();
                        let loops = self.scan(scope, &[vec![], other], steps, false, depth - 1);
                        format!("(fst {loops})")
                    }
                    1 => {
                        let loops = self.scan(scope, &[vec![]], steps, true, depth - 1);
                        let path = steps.longer(1);
                        match self.place(path, scope) {
                            Some(place) => format!("{loops}[{place}]"),
                            None => format!("{loops}[0]"),
                        }
                    }
                    _ => self.scan(scope, &[vec![]], steps, false, depth - 1),
                }
            }
            17 | 18 => {
                let (name, axes) = (self.name(scope), self.dims());
                let value = self.tensor(&axes, scope, depth - 1);
                let mut inner = scope.clone();
                inner.add(Tensor::new(&name, &axes));
                format!("(let {name} = {value} in {})", self.real(&inner, depth - 1))
            }
            19 => {
                let axes = self.dims();
                match axes.as_slice() {
                    [range] => {
                        let index = self.fresh("j");
                        let value = self.tensor(&axes, scope, depth - 1);
                        format!("(sum {index} < {range}. {value}[{index}])")
                    }
                    _ => format!("{}^2", self.element(scope)),
                }
            }
            20 | 21 => format!("tanh({})", next(self)),
            22 => format!("sin({})", next(self)),
            23 => format!("max({}, {})", next(self), next(self)),
            24 => format!("(if {} < {} then {} else {})", next(self), next(self), next(self), next(self)),
            25 => format!("({} / (1 + ({})^2))", next(self), next(self)),
            26 => format!("exp(-({})^2)", next(self)),
            27 => format!("min({}, 0.5)", next(self)),
            28 => {
                let index = self.index(Range::constant(3), scope);
                let mut inner = scope.clone();
                inner.add_index(&index, Range::constant(3));
                format!("(max {index} < 3. {})", self.real(&inner, depth - 1))
            }
            _ => format!("sigmoid({})", next(self)),
        }
    }

    fn predicate(&mut self, scope: &Scope) -> Option<String> {
        if scope.indices.is_empty() {
            return None;
        }
        let (name, range) = self.pick(&scope.indices);
        let (other, _) = self.pick(&scope.indices);
        Some(match self.rng.u8(0..8) {
            0 => format!("{name} < 2"),
            1 => format!("0 < {name}"),
            2 => format!("{name} + 1 < {range}"),
            3 => format!("{name} = {other}"),
            4 => format!("{name} <= {other}"),
            5 => format!("{name} != {other}"),
            6 => format!("{name} = 1 or {other} = 0"),
            _ => format!("not ({name} = {other})"),
        })
    }
}
