//! Flows by hand, against loops in Rust.

use std::sync::Arc;

use super::*;
use crate::base::{Format, RelationId};
use crate::driver::{loops_of_flow, loops_of_flow_for};
use crate::flow::{Loops, Output, Value};
use crate::kernel::{Engine, Kernel};
use crate::loops;
use crate::loops::Bins;
use crate::schedule::{Sizes, specialise};
use crate::stages::Stages;
use crate::tensor::{Csr, Dense, Inputs, Slice, bind, sizes};
use crate::ty::{Param, Relation, RelationKind, Signature, Storage, TypeId, Types};

/// A flow on the way.
struct Make {
    flow: flow::Program,
    loops: Loops,
}

impl Make {
    /// Over sizes, parameters with types, and loop indices. A type is made by a function of the types, and of a size by name.
    fn new(sizes: &[&str], indices: &[&str]) -> Make {
        let mut signature = Signature { types: Types::new(), ..Signature::default() };
        for n in sizes {
            signature.sizes.push((*n).to_owned());
        }
        let mut frame = signature.clone();
        for n in indices {
            frame.sizes.push((*n).to_owned());
        }
        let flow = flow::Program {
            signature: Arc::new(signature),
            frame: Arc::new(frame),
            values: Arena::new(),
            body: Vec::new(),
            outputs: Vec::new(),
        };
        Make { flow, loops: Loops::new() }
    }

    fn size(&self, name: &str) -> Size {
        let found = self.flow.frame.sizes.iter().find(|(_, known)| *known == name);
        found.map_or_else(|| Affine::constant(name.parse().unwrap()), |(n, _)| Affine::size(n))
    }

    fn index(&self, name: &str) -> SizeId {
        self.flow.frame.sizes.iter().find(|(_, known)| *known == name).unwrap().0
    }

    fn tensor(&mut self, dims: &[&str]) -> TypeId {
        let dims: Vec<Size> = dims.iter().map(|n| self.size(n)).collect();
        Arc::make_mut(&mut self.flow.frame).types.tensor_of(&dims, Types::REAL)
    }

    fn param(&mut self, name: &str, dims: &[&str]) {
        let ty = self.tensor(dims);
        let param = Param { name: name.to_owned(), ty, storage: Storage::Dense };
        Arc::make_mut(&mut self.flow.frame).params.push(param);
        self.share();
    }

    fn csr(&mut self, name: &str, [m, n]: [&str; 2]) {
        let ty = self.tensor(&[m, n]);
        let shape = vec![self.size(m), self.size(n)];
        let frame = Arc::make_mut(&mut self.flow.frame);
        let param = ParamId::from_index(frame.params.len());
        let kind = RelationKind::Pattern(param);
        let relation = frame.relations.push(Relation { name: format!("{name}?"), shape, kind });
        frame.params.push(Param { name: name.to_owned(), ty, storage: Storage::Sparse(Format::Csr, relation) });
        self.share();
    }

    /// The signature has what the frame has, but loop indices.
    fn share(&mut self) {
        let frame = (*self.flow.frame).clone();
        let sizes = self.flow.signature.sizes.clone();
        self.flow.signature = Arc::new(Signature { sizes, ..frame });
    }

    fn value_of(&mut self, name: &str, ty: TypeId) -> ValueId {
        self.flow.values.push(Value { name: name.to_owned(), ty, storage: Storage::Dense })
    }

    fn value(&mut self, name: &str, dims: &[&str]) -> ValueId {
        let ty = self.tensor(dims);
        self.value_of(name, ty)
    }

    fn path(&mut self, name: &str, steps: &str, of: ValueId) -> ValueId {
        let n = self.size(steps).add_constant(1).unwrap();
        let element = self.flow.values[of].ty;
        let ty = Arc::make_mut(&mut self.flow.frame).types.tensor(n, element);
        self.value_of(name, ty)
    }

    fn within(&mut self, index: &str, steps: &str) {
        self.loops.push((self.index(index), self.size(steps)));
    }

    fn leaf(&self, takes: &[ValueId], gives: &[ValueId], text: &str) -> flow::Stmt {
        let signature = self.flow.leaf_signature(&self.loops, takes).unwrap();
        let program = tssa::parse(text, &signature).unwrap_or_else(|error| panic!("{error:#}\n{text}"));
        flow::Stmt::Leaf(Leaf { program, takes: takes.to_vec(), gives: gives.to_vec() })
    }

    fn scan(
        &mut self,
        index: &str,
        steps: &str,
        down: bool,
        states: &[[ValueId; 4]],
        body: Vec<flow::Stmt>,
    ) -> flow::Stmt {
        let states: Vec<State> = states
            .iter()
            .map(|[init, before, after, path]| {
                let last = self.value_of("last", self.flow.values[*init].ty);
                State { init: *init, before: *before, after: *after, path: *path, last }
            })
            .collect();
        flow::Stmt::Scan(Scan {
            index: self.index(index),
            steps: self.size(steps),
            down,
            states,
            early: None,
            tiles: false,
            implicit: None,
            body,
        })
    }

    fn done(mut self, body: Vec<flow::Stmt>, outputs: &[(&str, ValueId)]) -> flow::Program {
        self.share();
        self.flow.body = body;
        let output = |(name, value): &(&str, ValueId)| {
            let (ty, values) = (self.flow.values[*value].ty, vec![*value]);
            Output { name: (*name).to_owned(), ty, values }
        };
        self.flow.outputs = outputs.iter().map(output).collect();
        self.flow.verify().unwrap();
        self.flow
    }
}

/// Numbers without a pattern.
fn numbers(len: usize, seed: u64) -> Vec<f64> {
    (0..len as u64).map(|k| ((k * 7919 + seed * 104_729 + 13) % 1009) as f64 / 1009.0 - 0.4).collect()
}

/// All leaves of all results.
fn run(program: &Program, inputs: &Inputs, constants: &[&str], engine: Engine) -> Vec<Vec<f64>> {
    let kernel = Kernel::bind_with_constants(Arc::new(program.clone()), inputs, constants, engine).unwrap();
    leaves(&kernel, inputs)
}

fn leaves(kernel: &Kernel, inputs: &Inputs) -> Vec<Vec<f64>> {
    let results = kernel.call(inputs).unwrap();
    let leaves = results.iter().flat_map(|(_, value)| value.leaves().to_vec());
    let numbers = |x: Slice<'_>| match x {
        Slice::Double(x) => x.to_vec(),
        Slice::Single(_) => unreachable!("nothing is in single precision"),
    };
    leaves.map(|leaf| numbers(leaf.numbers())).collect()
}

fn bits(results: &[Vec<f64>]) -> Vec<Vec<u64>> {
    results.iter().map(|x| x.iter().map(|x| x.to_bits()).collect()).collect()
}

/// Both engines, all splits, the text, the proofs, and programs for known sizes.
fn check(flow: &flow::Program, inputs: &Inputs, expected: &[Vec<f64>]) -> Program {
    let program = loops_of_flow(flow, &mut Stages::new()).unwrap();
    program.verify().unwrap();
    let text = program.explained();
    assert_eq!(loops::parse(&text, &program.signature).unwrap(), program.canonical(), "{text}");
    assert_eq!(program.unproved(), [""; 0], "{text}");
    let near = |found: &[Vec<f64>]| {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert_eq!(found.len(), expected.len(), "{text}");
            for (a, b) in found.iter().zip(expected) {
                assert!((a - b).abs() <= 1e-12 * (1.0 + b.abs()), "{found:?}\n{expected:?}\n{text}");
            }
        }
    };
    let interpreted = run(&program, inputs, &[], Engine::Interpreter);
    near(&interpreted);
    assert_eq!(bits(&interpreted), bits(&run(&program, inputs, &[], Engine::Native)), "{text}");
    let params: Vec<&str> = program.signature.params.values().map(|param| param.name.as_str()).collect();
    for constant in params.iter().map(|name| vec![*name]).chain([params.clone()]) {
        assert_eq!(
            bits(&interpreted),
            bits(&run(&program, inputs, &constant, Engine::Interpreter)),
            "{constant:?}\n{text}"
        );
    }
    let bound = bind(&program.signature, inputs).unwrap();
    let length = |n: &Size| bound.length(n).ok().and_then(|n| u64::try_from(n).ok());
    let tuples = |r: RelationId| bound.relations().get(r).and_then(|r| u64::try_from(r.len()).ok());
    let small = Sizes { length: &length, tuples: &tuples, cached: 1 };
    let binned = Program { bins: Bins { least: 1, size: 2 }, ..program.clone() };
    let late = specialise(&binned, Some(&small), &BTreeSet::new()).unwrap().main;
    let late = Kernel::bind_as_it_is(Arc::new(late), inputs, Engine::Interpreter).unwrap();
    near(&leaves(&late, inputs));
    let known = sizes(&program.signature, inputs).unwrap();
    let special = loops_of_flow_for(flow, &known).unwrap();
    near(&run(&special, inputs, &[], Engine::Interpreter));
    let mut single = program.clone();
    single.store_results_in_single().unwrap();
    single.verify().unwrap();
    program
}

fn vector(x: &[f64]) -> Dense {
    Dense::new(&[x.len()], x.to_vec()).unwrap()
}

fn matrix(m: usize, n: usize, x: &[f64]) -> Dense {
    Dense::new(&[m, n], x.to_vec()).unwrap()
}

/// `s' = s + x[t]`, all of them.
fn running_sum(down: bool) -> flow::Program {
    let mut make = Make::new(&["T"], &["t"]);
    make.param("x", &["T"]);
    let [zero, before, after] = ["zero", "s", "next"].map(|name| make.value(name, &[]));
    let path = make.path("sums", "T", before);
    let first = make.leaf(&[], &[zero], "z = 0\nout value = z");
    make.within("t", "T");
    let step = make.leaf(
        &[before],
        &[after],
        "x = input x : [T] real\ns = input s : real\na = sum k < T. [k = t] * x[k]\ny = s + a\nout value = y",
    );
    let scan = make.scan("t", "T", down, &[[zero, before, after, path]], vec![step]);
    make.done(vec![first, scan], &[("value", path)])
}

#[test]
fn running_sums() {
    for steps in [0, 1, 2, 7] {
        let x = numbers(steps, 1);
        let mut inputs = Inputs::new();
        inputs.value("x", vector(&x));
        let mut up = vec![0.0];
        x.iter().for_each(|x| up.push(up.last().unwrap() + x));
        check(&running_sum(false), &inputs, &[up]);
        let mut down = vec![0.0];
        x.iter().rev().for_each(|x| down.push(down.last().unwrap() + x));
        down.reverse();
        check(&running_sum(true), &inputs, &[down]);
    }
}

/// `h' = tanh(W h + x[t])`, where the step has several statements, lanes, and sums.
fn recurrence(down: bool) -> flow::Program {
    let mut make = Make::new(&["T", "n"], &["t"]);
    make.param("W", &["n", "n"]);
    make.param("x", &["T", "n"]);
    make.param("h0", &["n"]);
    let [init, before, after] = ["init", "h", "next"].map(|name| make.value(name, &["n"]));
    let (path, norm) = (make.path("hs", "T", before), make.value("norm", &[]));
    let first = make.leaf(&[], &[init], "h = input h0 : [n] real\nout value = h");
    make.within("t", "T");
    let text = "W = input W : [n, n] real
x = input x : [T, n] real
h = input h : [n] real
a = gen i < n. sum j < n. W[i, j] * h[j]
b = gen i < n. sum k < T. [k = t] * x[k, i]
c = gen i < n. a[i] + b[i]
y = gen i < n. tanh(c[i])
out value = y";
    let step = make.leaf(&[before], &[after], text);
    let scan = make.scan("t", "T", down, &[[init, before, after, path]], vec![step]);
    make.loops.clear();
    let square = "p = input hs : [T + 1, n] real
s = sum i < T + 1, j < n. p[i, j] * p[i, j]
out value = s";
    let last = make.leaf(&[path], &[norm], square);
    make.done(vec![first, scan, last], &[("path", path), ("norm", norm), ("again", path)])
}

#[test]
fn recurrences() {
    for (steps, n) in [(0, 3), (1, 64), (5, 64), (3, 1), (4, 0), (3, 7)] {
        let (w, x, h0) = (numbers(n * n, 1), numbers(steps * n, 2), numbers(n, 3));
        let w: Vec<f64> = w.iter().map(|w| w / (1 + n) as f64).collect();
        let mut inputs = Inputs::new();
        inputs.value("W", matrix(n, n, &w)).value("x", matrix(steps, n, &x)).value("h0", vector(&h0));
        for down in [false, true] {
            let mut rows = vec![h0.clone()];
            for k in 0..steps {
                let (t, h) = (if down { steps - 1 - k } else { k }, rows.last().unwrap());
                let next = |i: usize| ((0..n).map(|j| w[i * n + j] * h[j]).sum::<f64>() + x[t * n + i]).tanh();
                let next = (0..n).map(next).collect();
                rows.push(next);
            }
            if down {
                rows.reverse();
            }
            let path = rows.concat();
            let norm = path.iter().map(|x| x * x).sum();
            check(&recurrence(down), &inputs, &[path.clone(), vec![norm], path]);
        }
    }
}

/// `(a, b)' = (b, a + b)`: what goes on for `a` is a state; both begin with one value.
#[test]
fn two_states() {
    let mut make = Make::new(&["T"], &["t"]);
    make.param("x", &["T"]);
    let [one, a, b, sum] = ["one", "a", "b", "sum"].map(|name| make.value(name, &[]));
    let (path_a, path_b) = (make.path("as", "T", a), make.path("bs", "T", b));
    let first = make.leaf(&[], &[one], "c = 1.0\nout value = c");
    make.within("t", "T");
    let step = make.leaf(&[a, b], &[sum], "a = input a : real\nb = input b : real\nc = a + b\nout value = c");
    let scan = make.scan("t", "T", false, &[[one, a, b, path_a], [one, b, sum, path_b]], vec![step]);
    let flow = make.done(vec![first, scan], &[("a", path_a), ("b", path_b)]);
    let mut inputs = Inputs::new();
    inputs.value("x", vector(&[0.0; 6]));
    let a = vec![1.0, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0];
    let b = vec![1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0];
    check(&flow, &inputs, &[a, b]);
}

/// One value is what goes on for two states, and a state takes what is around the loop.
#[test]
fn shared_and_outer_values() {
    let mut make = Make::new(&["T", "n"], &["t"]);
    make.param("x", &["T"]);
    make.param("y", &["n"]);
    let [y, a, b, c, next] = ["y0", "a", "b", "c", "next"].map(|name| make.value(name, &["n"]));
    let paths = [a, b, c].map(|x| make.path("path", "T", x));
    let first = make.leaf(&[], &[y], "y = input y : [n] real\nz = gen i < n. y[i]^2\nout value = z");
    make.within("t", "T");
    let text = "a = input a : [n] real
b = input b : [n] real
c = gen i < n. [i < t] * a[i] + [i + t < n] * b[i]
out value = c";
    let step = make.leaf(&[a, b], &[next], text);
    let states = [[y, a, next, paths[0]], [y, b, next, paths[1]], [y, c, y, paths[2]]];
    let scan = make.scan("t", "T", false, &states, vec![step]);
    let flow = make.done(vec![first, scan], &[("a", paths[0]), ("b", paths[1]), ("c", paths[2]), ("y", y)]);
    for steps in [0, 1, 4] {
        let y = numbers(5, 4);
        let mut inputs = Inputs::new();
        inputs.value("x", vector(&numbers(steps, 1))).value("y", vector(&y));
        let y: Vec<f64> = y.iter().map(|y| y * y).collect();
        let mut rows = vec![y.clone()];
        for t in 0..steps {
            let h = rows.last().unwrap();
            let next = |i: usize| (if i < t { h[i] } else { 0.0 }) + if i + t < 5 { h[i] } else { 0.0 };
            let next = (0..5).map(next).collect();
            rows.push(next);
        }
        check(&flow, &inputs, &[rows.concat(), rows.concat(), y.repeat(steps + 1), y]);
    }
}

/// A state that is zero in places that depend on the step: zeros are stored in each step anew.
#[test]
fn zeros_inside() {
    let mut make = Make::new(&["T", "n"], &["t"]);
    make.param("x", &["T"]);
    make.param("y", &["n"]);
    let [init, before, after] = ["init", "h", "next"].map(|name| make.value(name, &["n"]));
    let [last, some] = ["last", "some"].map(|name| make.value(name, &["n"]));
    let (path, somes) = (make.path("hs", "T", before), make.path("somes", "T", last));
    let first = make.leaf(&[], &[init], "y = input y : [n] real\nout value = y");
    make.within("t", "T");
    let text = "h = input h : [n] real
a = gen i < n. [i = t] * h[i]
s = sum i < n. h[i]
b = gen i < n. [i < t] * s
c = gen i < n. a[i] * s
d = gen i < n. c[i] + b[i]
e = gen i < n, j < n. [i = j and i < t] * d[i]
f = gen i < n. sum j < n. e[i, j] * h[j]
g = gen i < n. sum j < n. e[j, i] * f[j]
k = gen i < n. g[i] + h[i]
out value = k";
    let step = make.leaf(&[before], &[after], text);
    let text = "h = input h : [n] real\na = gen i < n. [i < t] * h[i]\nout value = a";
    let part = make.leaf(&[before], &[some], text);
    let states = [[init, before, after, path], [init, last, some, somes]];
    let scan = make.scan("t", "T", false, &states, vec![step, part]);
    let flow = make.done(vec![first, scan], &[("value", path), ("some", somes)]);
    let y = numbers(6, 4);
    let mut inputs = Inputs::new();
    inputs.value("x", vector(&[0.0; 4])).value("y", vector(&y));
    let (mut somes, mut rows) = (y.clone(), vec![y]);
    for t in 0..4 {
        let h = rows.last().unwrap();
        somes.extend((0..6).map(|i| if i < t { h[i] } else { 0.0 }));
        let s: f64 = h.iter().sum();
        let d = |i: usize| if i < t { s } else { 0.0 };
        let next = (0..6).map(|i| d(i) * d(i) * h[i] + h[i]).collect();
        rows.push(next);
    }
    let program = check(&flow, &inputs, &[rows.concat(), somes]);
    assert!(program.to_string().contains("= 0.0\n      some[i2 + 1, i"), "{program}");
}

/// Loops in loops: `s' = u_M`, where `u' = u * s + x[t, k]` begins with `s`; and all `u` are a state, too.
#[test]
fn nested() {
    for (down, inner_down) in [(false, false), (true, false), (false, true)] {
        let mut make = Make::new(&["T", "M"], &["t", "k"]);
        make.param("x", &["T", "M"]);
        let [one, s, after, u, next] = ["one", "s", "last", "u", "next"].map(|name| make.value(name, &[]));
        let us = make.path("us", "M", u);
        let (none, all) = (make.path("none", "M", u), make.path("all", "M", u));
        let (path, alls) = (make.path("path", "T", s), make.path("alls", "T", all));
        let first = make.leaf(&[], &[one, none], "c = 0.5\nz = gen i < M + 1. 0.0\nout value = c\nout none = z");
        make.within("t", "T");
        make.within("k", "M");
        let text = "x = input x : [T, M] real
s = input s : real
u = input u : real
a = s * u
b = sum i < T, j < M. [i = t and j = k] * x[i, j]
c = a + b
out value = c";
        let inner = make.leaf(&[s, u], &[next], text);
        let inner = make.scan("k", "M", inner_down, &[[s, u, next, us]], vec![inner]);
        make.loops.pop();
        let place = if inner_down { "0" } else { "M" };
        let text = format!("u = input us : [M + 1] real\na = sum i < M + 1. [i = {place}] * u[i]\nout value = a");
        let last = make.leaf(&[us], &[after], &text);
        let states = [[one, s, after, path], [none, all, us, alls]];
        let outer = make.scan("t", "T", down, &states, vec![inner, last]);
        let flow = make.done(vec![first, outer], &[("path", path), ("alls", alls)]);
        for (steps, m) in [(0, 2), (3, 0), (1, 1), (4, 3)] {
            let x = numbers(steps * m, 5);
            let mut inputs = Inputs::new();
            inputs.value("x", matrix(steps, m, &x));
            let (mut path, mut alls) = (vec![0.5], vec![vec![0.0; m + 1]]);
            for step in 0..steps {
                let t = if down { steps - 1 - step } else { step };
                let s = *path.last().unwrap();
                let mut us = vec![s];
                for k in 0..m {
                    let k = if inner_down { m - 1 - k } else { k };
                    us.push(s * us.last().unwrap() + x[t * m + k]);
                }
                path.push(*us.last().unwrap());
                if inner_down {
                    us.reverse();
                }
                alls.push(us);
            }
            if down {
                path.reverse();
                alls.reverse();
            }
            check(&flow, &inputs, &[path, alls.concat()]);
        }
    }
}

/// A result that is a pair, and values as long as the loop index says.
#[test]
fn pairs_and_growing_values() {
    let mut make = Make::new(&["T", "n"], &["t", "k"]);
    make.param("x", &["T"]);
    make.param("y", &["n"]);
    let [one, c, next_c] = ["one", "c", "next_c"].map(|name| make.value(name, &[]));
    let [init, b, next_b] = ["init", "b", "next_b"].map(|name| make.value(name, &["n"]));
    let (cs, bs) = (make.path("cs", "T", c), make.path("bs", "T", b));
    let [zero, s, more] = ["zero", "s", "more"].map(|name| make.value(name, &[]));
    let growing = make.value("growing", &["t"]);
    let inner_path = make.path("sums", "T", s);
    let text = "c = 1.0\ny = input y : [n] real\nout one = c\nout value = y";
    let first = make.leaf(&[], &[one, init], text);
    make.within("t", "T");
    let text = "x = input x : [T] real
a = gen i < t. sum j < T. [i = j] * x[j]
b = gen i < t. a[i]^2
z = 0.0
out value = b
out zero = z";
    let grow = make.leaf(&[], &[growing, zero], text);
    make.within("k", "T");
    let text = "g = input growing : [t] real
s = input s : real
a = sum i < t. [i = k] * g[i]
b = a + s
out value = b";
    let inner = make.leaf(&[growing, s], &[more], text);
    let inner = make.scan("k", "T", false, &[[zero, s, more, inner_path]], vec![inner]);
    make.loops.pop();
    let text = "a = input c : real
b = input b : [n] real
p = input sums : [T + 1] real
l = sum i < T + 1. [i = T] * p[i]
c = a + l
s = sum i < n. b[i]
d = gen i < n. b[i] * c
m = gen i < n. s
e = gen i < n. d[i] + m[i]
out one = c
out value = e";
    let step = make.leaf(&[c, b, inner_path], &[next_c, next_b], text);
    let states = [[one, c, next_c, cs], [init, b, next_b, bs]];
    let scan = make.scan("t", "T", false, &states, vec![grow, inner, step]);
    let mut flow = make.done(vec![first, scan], &[("cs", cs), ("bs", bs)]);
    let frame = Arc::make_mut(&mut flow.frame);
    let ty = frame.types.pair(flow.values[cs].ty, flow.values[bs].ty);
    flow.outputs = vec![Output { name: "value".to_owned(), ty, values: vec![cs, bs] }];
    flow.verify().unwrap();
    for steps in [0, 1, 5] {
        let (x, y) = (numbers(steps, 6), numbers(3, 7));
        let mut inputs = Inputs::new();
        inputs.value("x", vector(&x)).value("y", vector(&y));
        let (mut cs, mut rows) = (vec![1.0], vec![y]);
        for t in 0..steps {
            let c = cs.last().unwrap() + x[..t].iter().map(|x| x * x).sum::<f64>();
            let b = rows.last().unwrap();
            let s: f64 = b.iter().sum();
            let next = b.iter().map(|b| b * c + s).collect();
            cs.push(c);
            rows.push(next);
        }
        check(&flow, &inputs, &[cs, rows.concat()]);
    }
}

/// `h' = A h + A^T h` with a sparse matrix.
#[test]
fn sparse_parameters() {
    let mut make = Make::new(&["T", "n"], &["t"]);
    make.csr("A", ["n", "n"]);
    make.param("x", &["T"]);
    make.param("h0", &["n"]);
    let [init, before, after] = ["init", "h", "next"].map(|name| make.value(name, &["n"]));
    let path = make.path("hs", "T", before);
    let first = make.leaf(&[], &[init], "h = input h0 : [n] real\nout value = h");
    make.within("t", "T");
    let text = "A = input A : [n, n] real
h = input h : [n] real
a = gen i < n. sum j < n. [A?(i, j)] * A[i, j] * h[j]
b = gen i < n. sum j < n. [A?(j, i)] * A[j, i] * h[j]
c = gen i < n. a[i] + b[i]
out value = c";
    let step = make.leaf(&[before], &[after], text);
    let scan = make.scan("t", "T", false, &[[init, before, after, path]], vec![step]);
    let flow = make.done(vec![first, scan], &[("value", path)]);
    let csr = Csr::new(4, 4, vec![0, 2, 2, 4, 5], vec![0, 2, 1, 3, 0], vec![1.0, 0.5, -2.0, 0.25, 3.0]).unwrap();
    let entries = [(0, 0, 1.0), (0, 2, 0.5), (2, 1, -2.0), (2, 3, 0.25), (3, 0, 3.0)];
    let h0 = numbers(4, 8);
    let mut inputs = Inputs::new();
    inputs.value("A", csr).value("x", vector(&[0.0; 3])).value("h0", vector(&h0));
    let mut rows = vec![h0];
    for _ in 0..3 {
        let h = rows.last().unwrap();
        let mut next = vec![0.0; 4];
        for (i, j, a) in entries {
            next[i] += a * h[j];
            next[j] += a * h[i];
        }
        rows.push(next);
    }
    check(&flow, &inputs, &[rows.concat()]);
}

/// What reads a row that is stored later is refused.
#[test]
fn wrong_rows_are_refused() {
    let program = loops_of_flow(&running_sum(false), &mut Stages::new()).unwrap();
    let text = program.to_string();
    let (before, after) = text.split_once("sums[i0]").or_else(|| text.split_once("value[i0]")).unwrap();
    let name = if text.contains("sums[i0]") { "sums" } else { "value" };
    let refused = |text: &str| {
        let error = loops::parse(text, &program.signature).map(|program| program.verify()).unwrap_err();
        assert!(error.to_string().ends_with("is read where a later statement stores"), "{error}\n{text}");
    };
    for wrong in ["i0 + 1", "0", "i0 - 1", "i0 + 2"] {
        refused(&format!("{before}{name}[{wrong}]{after}"));
    }
    let other = text.replace(&format!("{name}[0] ="), &format!("{name}[1] ="));
    assert_ne!(text, other);
    refused(&other);
}

/// A path, a state at one place and what a step stores for itself go from step to step in registers; a row that lanes read does not.
#[test]
fn single_numbers_stay_in_registers() {
    let text = "p[T + 1], s, t, row[3]:
  r0 = 1.0
  p[0] = r0
  r1 = 2.0
  s = r1
  for i2 in 0 .. 2
    row[i2] = r0
  for i0 in 0 .. T - 1
    r2 = p[i0]
    r3 = s
    r4 = r2 * r3
    t = r4
    r5 = t
    r6 = r5 + r2
    p[i0 + 1] = r6
    r7 = p[i0 + 1]
    if 0 <= i0 - 1
      s = r7
    for i1 in 0 .. 2, lanes 8
      r8 = row[i1]
      r9 = r8 + r0
      row[i1] = r9
value:
  r0 = s
  r1 = p[T]
  r2 = r0 + r1
  r3 = row[1]
  r4 = r2 + r3
  value = r4
out value = value
";
    let mut signature = Signature { types: Types::new(), ..Signature::default() };
    signature.sizes.push("T".to_owned());
    let mut program = loops::parse(text, &Arc::new(signature)).unwrap();
    program.verify().unwrap();
    registers::promote(&mut program).unwrap();
    compact(&mut program);
    program.verify().unwrap();
    let nest = program.nests.first().unwrap();
    let loads: Vec<&Place> = loads(&nest.body);
    let names: Vec<&str> = loads.iter().map(|place| program.buffers[place.buffer].name.as_str()).collect();
    assert_eq!(names, ["row"], "{}", program.explained());
    let stored: Vec<&str> =
        stores(&nest.body).iter().map(|place| program.buffers[place.buffer].name.as_str()).collect();
    assert_eq!(stored, ["p", "s", "row", "p", "row", "s"], "{}", program.explained());
    assert_eq!(loops::parse(&program.explained(), &program.signature).unwrap(), program.canonical());
}
