//! The programs of Table 1 of the paper, and others that tests share.

use std::cell::RefCell;
use std::ops::{Add, Mul, Neg, Sub};

use crate::base::VarId;
use crate::functional::lambda::{Builder, Prim, Program, Term, TermId, TypeId, Value};
use crate::scalar::{Comparison, Op};

/// A program that is being written.
pub(super) struct Writer(RefCell<Builder>);

/// A term of it.
#[derive(Clone, Copy)]
pub(super) struct E<'w> {
    w: &'w Writer,
    id: TermId,
}

/// A variable of it; each use is a term of its own.
#[derive(Clone, Copy)]
pub(super) struct X<'w> {
    w: &'w Writer,
    id: VarId,
}

impl<'w> X<'w> {
    pub(super) fn v(self) -> E<'w> {
        self.w.term(|b| b.var(self.id))
    }

    pub(super) fn fst(self) -> E<'w> {
        self.v().fst()
    }

    pub(super) fn snd(self) -> E<'w> {
        self.v().snd()
    }
}

/// Writes a program: its body from its variables of the types that `params` gives.
pub(super) fn write(
    params: impl FnOnce(&mut Builder) -> Vec<TypeId>,
    body: impl for<'w> FnOnce(&'w Writer, &[X<'w>]) -> E<'w>,
) -> Program {
    let mut b = Builder::new();
    let types = params(&mut b);
    let vars: Vec<VarId> = types.iter().enumerate().map(|(k, ty)| b.param(&format!("p{k}"), *ty)).collect();
    let w = Writer(RefCell::new(b));
    let vars: Vec<X<'_>> = vars.into_iter().map(|id| X { w: &w, id }).collect();
    let body = body(&w, &vars).id;
    w.0.into_inner().finish(body).unwrap()
}

impl Writer {
    fn term(&self, f: impl FnOnce(&mut Builder) -> TermId) -> E<'_> {
        E { w: self, id: f(&mut self.0.borrow_mut()) }
    }

    fn push(&self, term: Term) -> E<'_> {
        self.term(|b| b.push(term).unwrap())
    }

    fn fresh(&self, ty: TypeId) -> X<'_> {
        X { w: self, id: self.0.borrow_mut().fresh("x", ty) }
    }

    pub(super) fn types<R>(&self, f: impl FnOnce(&mut crate::functional::lambda::Types) -> R) -> R {
        f(self.0.borrow_mut().types())
    }

    pub(super) fn r(&self, x: f64) -> E<'_> {
        self.push(Term::Real(x))
    }

    pub(super) fn int(&self, k: i64) -> E<'_> {
        self.push(Term::Int(k))
    }

    pub(super) fn pair<'w>(&'w self, a: E<'w>, b: E<'w>) -> E<'w> {
        self.push(Term::Pair(a.id, b.id))
    }

    pub(super) fn par<'w>(&'w self, a: E<'w>, b: E<'w>) -> E<'w> {
        self.push(Term::Par(a.id, b.id))
    }

    pub(super) fn op<'w>(&'w self, op: Op, args: &[E<'w>]) -> E<'w> {
        let args: Vec<TermId> = args.iter().map(|a| a.id).collect();
        self.term(|b| b.op(op, &args).unwrap())
    }

    pub(super) fn prim<'w>(&'w self, prim: Prim, args: &[E<'w>]) -> E<'w> {
        let args: Vec<TermId> = args.iter().map(|a| a.id).collect();
        self.term(|b| b.prim(prim, &args).unwrap())
    }

    pub(super) fn bind<'w>(&'w self, value: E<'w>, body: impl FnOnce(X<'w>) -> E<'w>) -> E<'w> {
        let x = self.fresh(value.ty());
        let body = body(x);
        self.push(Term::Let(x.id, value.id, body.id))
    }

    pub(super) fn build<'w>(&'w self, n: E<'w>, body: impl FnOnce(X<'w>) -> E<'w>) -> E<'w> {
        let i = self.fresh(self.types(|t| t.int()));
        let body = body(i);
        self.push(Term::Build(n.id, i.id, body.id))
    }

    pub(super) fn map<'w>(&'w self, arrays: &[E<'w>], body: impl FnOnce(&[X<'w>]) -> E<'w>) -> E<'w> {
        let element = |a: &E<'w>| self.0.borrow().element(a.id).unwrap();
        let vars: Vec<X<'w>> = arrays.iter().map(|a| self.fresh(element(a))).collect();
        let body = body(&vars);
        self.push(Term::Map(vars.iter().zip(arrays).map(|(x, a)| (x.id, a.id)).collect(), body.id))
    }

    pub(super) fn reduce<'w>(
        &'w self,
        init: Option<E<'w>>,
        array: E<'w>,
        body: impl FnOnce(X<'w>, X<'w>) -> E<'w>,
    ) -> E<'w> {
        let element = self.0.borrow().element(array.id).unwrap();
        let (x, y) = (self.fresh(init.map_or(element, E::ty)), self.fresh(element));
        let body = body(x, y);
        let (init, array, body) = (init.map(|e| e.id), array.id, body.id);
        self.push(Term::Reduce { vars: (x.id, y.id), body, init, array })
    }

    pub(super) fn fold<'w>(&'w self, count: E<'w>, init: E<'w>, body: impl FnOnce(X<'w>, X<'w>) -> E<'w>) -> E<'w> {
        let (index, state) = (self.fresh(self.types(|t| t.int())), self.fresh(init.ty()));
        let body = body(index, state);
        let (count, init, body) = (count.id, init.id, body.id);
        self.push(Term::Fold { count, index: index.id, state: state.id, init, body })
    }

    pub(super) fn cond<'w>(&'w self, condition: E<'w>, yes: E<'w>, no: E<'w>) -> E<'w> {
        let unit = self.types(|t| t.unit());
        let (x, y) = (self.fresh(unit), self.fresh(unit));
        self.push(Term::Case(condition.id, (x.id, yes.id), (y.id, no.id)))
    }

    pub(super) fn rec<'w>(
        &'w self,
        domain: TypeId,
        codomain: TypeId,
        body: impl FnOnce(X<'w>, X<'w>) -> E<'w>,
    ) -> E<'w> {
        let (f, x) = (self.fresh(self.types(|t| t.function(domain, codomain))), self.fresh(domain));
        let body = body(f, x);
        self.push(Term::Rec(f.id, x.id, body.id))
    }
}

impl<'w> E<'w> {
    pub(super) fn ty(self) -> TypeId {
        self.w.0.borrow().ty(self.id)
    }

    pub(super) fn fst(self) -> E<'w> {
        self.w.push(Term::Fst(self.id))
    }

    pub(super) fn snd(self) -> E<'w> {
        self.w.push(Term::Snd(self.id))
    }

    pub(super) fn at(self, k: E<'w>) -> E<'w> {
        self.w.push(Term::Index(self.id, k.id))
    }

    pub(super) fn len(self) -> E<'w> {
        self.w.push(Term::Length(self.id))
    }

    pub(super) fn sum(self) -> E<'w> {
        self.w.prim(Prim::Sum, &[self])
    }

    pub(super) fn call(self, arg: E<'w>) -> E<'w> {
        self.w.push(Term::Apply(self.id, arg.id))
    }

    fn is_int(self) -> bool {
        self.ty() == self.w.types(|t| t.int())
    }

    /// Sums and products are of reals or of integers, as the operands are.
    fn arithmetic(self, other: E<'w>, reals: Prim, integers: Prim) -> E<'w> {
        self.w.prim(if self.is_int() { integers } else { reals }, &[self, other])
    }

    pub(super) fn less(self, other: E<'w>) -> E<'w> {
        self.arithmetic(other, Prim::Compare(Comparison::Less), Prim::IntCompare(Comparison::Less))
    }
}

impl<'w> Add for E<'w> {
    type Output = E<'w>;
    fn add(self, other: E<'w>) -> E<'w> {
        self.arithmetic(other, Prim::Add, Prim::IntAdd)
    }
}

impl<'w> Mul for E<'w> {
    type Output = E<'w>;
    fn mul(self, other: E<'w>) -> E<'w> {
        self.arithmetic(other, Prim::Mul, Prim::IntMul)
    }
}

impl<'w> Neg for E<'w> {
    type Output = E<'w>;
    fn neg(self) -> E<'w> {
        let prim = if self.is_int() { Prim::IntNeg } else { Prim::Neg };
        self.w.prim(prim, &[self])
    }
}

impl<'w> Sub for E<'w> {
    type Output = E<'w>;
    fn sub(self, other: E<'w>) -> E<'w> {
        self + -other
    }
}

/// `x * y`.
pub(super) fn scalar_product() -> Program {
    write(
        |b| {
            let real = b.types().real();
            vec![real, real]
        },
        |_, p| p[0].v() * p[1].v(),
    )
}

fn vector(b: &mut Builder) -> TypeId {
    let real = b.types().real();
    b.types().array(real)
}

fn dot<'w>(w: &'w Writer, a: E<'w>, b: E<'w>) -> E<'w> {
    w.map(&[a, b], |x| x[0].v() * x[1].v()).sum()
}

/// Of two lists.
pub(super) fn dot_product() -> Program {
    write(
        |b| {
            let v = vector(b);
            vec![v, v]
        },
        |w, p| dot(w, p[0].v(), p[1].v()),
    )
}

/// A matrix times a vector, then the sum.
pub(super) fn sum_mat_vec() -> Program {
    write(
        |b| {
            let v = vector(b);
            vec![b.types().array(v), v]
        },
        |w, p| w.map(&[p[0].v()], |row| dot(w, row[0].v(), p[1].v())).sum(),
    )
}

/// `rotate_vec_by_quat`: vectors are `((x, y), z)`, quaternions `(vector, w)`.
pub(super) fn rotate_vec_by_quat() -> Program {
    let types = |b: &mut Builder| {
        let real = b.types().real();
        let vec3 = b.types().tuple(&[real; 3]);
        vec![vec3, b.types().pair(vec3, real)]
    };
    write(types, |w, p| rotation(w, p[0], p[1]))
}

fn rotation<'w>(w: &'w Writer, v: X<'w>, q: X<'w>) -> E<'w> {
    let part = |v: X<'w>, k: usize| match k {
        0 => v.fst().fst(),
        1 => v.fst().snd(),
        _ => v.snd(),
    };
    let dot = |a: X<'w>, b: X<'w>| part(a, 0) * part(b, 0) + part(a, 1) * part(b, 1) + part(a, 2) * part(b, 2);

    w.bind(q.fst(), |u| {
        w.bind(q.snd(), |s| {
            w.bind(w.r(2.0) * dot(u, v), |along| {
                w.bind(s.v() * s.v() - dot(u, u), |kept| {
                    w.bind(w.r(2.0) * s.v(), |across| {
                        let cross = |k: usize| {
                            let (i, j) = ((k + 1) % 3, (k + 2) % 3);
                            part(u, i) * part(v, j) - part(u, j) * part(v, i)
                        };
                        let component = |k| along.v() * part(u, k) + kept.v() * part(v, k) + across.v() * cross(k);
                        w.pair(w.pair(component(0), component(1)), component(2))
                    })
                })
            })
        })
    })
}

/// A vector and a quaternion.
pub(super) fn vector_and_quaternion(v: [f64; 3], q: [f64; 4]) -> Vec<Value<f64>> {
    let vec3 = |x: &[f64]| Value::tuple(x[..3].iter().map(|x| Value::Real(*x)));
    vec![vec3(&v), Value::pair(vec3(&q), Value::Real(q[3]))]
}

/// Dense layers with `max(0, x)`, then a safe softmax, whose components are weighted by their numbers from 1 on: their sum alone is 1.
pub(super) fn neural() -> Program {
    let types = |b: &mut Builder| {
        let v = vector(b);
        let matrix = b.types().array(v);
        let layer = b.types().pair(matrix, v);
        vec![b.types().array(layer), v]
    };
    write(types, |w, p| {
        let last = w.reduce(Some(p[1].v()), p[0].v(), |x, layer| {
            w.map(&[layer.fst(), layer.snd()], |row| w.op(Op::Max, &[dot(w, row[0].v(), x.v()) + row[1].v(), w.r(0.0)]))
        });
        w.bind(last, |x| {
            let most = w.reduce(None, x.v(), |a, b| w.op(Op::Max, &[a.v(), b.v()]));
            w.bind(most, |most| {
                let e = w.map(&[x.v()], |x| w.op(Op::Exp, &[x[0].v() - most.v()]));
                w.bind(e, |e| {
                    w.bind(e.v().sum(), |total| {
                        let weighted = w.build(e.v().len(), |k| {
                            let number = w.prim(Prim::ToReal, &[k.v() + w.int(1)]);
                            w.op(Op::Div, &[number * e.v().at(k.v()), total.v()])
                        });
                        weighted.sum()
                    })
                })
            })
        })
    })
}

/// Layers from 50 to 100 and to 50, with weights `sin(i + j)`, biases and input `sin(0.41 i)`.
pub(super) fn network() -> Vec<Value<f64>> {
    let wave = |n: usize| Value::reals((0..n).map(|i| (0.41 * i as f64).sin()));
    let layer = |n: usize, m: usize| {
        let rows = (0..n).map(|i| Value::reals((0..m).map(move |j| ((i + j) as f64).sin()))).collect();
        Value::pair(Value::array(rows), wave(n))
    };
    vec![Value::array(vec![layer(100, 50), layer(50, 100)]), wave(50)]
}

/// `sum i < k. q * r` where particle i is at (q, r) after some steps; an array of particles `((x, y), (vx, vy))`. Half of the particles beside the other
/// half, down to one.
pub(super) fn particles(steps: i64) -> Program {
    let types = |b: &mut Builder| {
        let real = b.types().real();
        let plane = b.types().pair(real, real);
        let particle = b.types().pair(plane, plane);
        vec![b.types().array(particle)]
    };
    write(types, |w, p| all_particles(w, p[0], steps))
}

fn all_particles<'w>(w: &'w Writer, p: X<'w>, steps: i64) -> E<'w> {
    let (real, int) = (w.types(|t| t.real()), w.types(|t| t.int()));
    let range = w.types(|t| t.pair(int, int));
    let one = |start: E<'w>| {
        let last = w.fold(w.int(steps), start, |_, s| {
            let moved = |x: E<'w>, v: E<'w>| x + w.r(0.05) * v;
            let faster = |x: E<'w>, v: E<'w>, again: E<'w>| again + w.r(0.05) * (w.r(-0.5) * x - w.r(0.2) * v);
            let (q, v) = (|| s.fst(), || s.snd());
            let place = w.pair(moved(q().fst(), v().fst()), moved(q().snd(), v().snd()));
            let speed = w.pair(faster(q().fst(), v().fst(), v().fst()), faster(q().snd(), v().snd(), v().snd()));
            w.pair(place, speed)
        });
        w.bind(last, move |s| s.fst().fst() * s.fst().snd())
    };
    let all = w.rec(range, real, |all, range| {
        let (low, high) = (|| range.fst(), || range.snd());
        let halves = || {
            let middle = w.prim(Prim::IntDiv, &[low() + high(), w.int(2)]);
            w.bind(middle, |middle| {
                let first = all.v().call(w.pair(low(), middle.v()));
                let second = all.v().call(w.pair(middle.v(), high()));
                w.bind(w.par(first, second), |both| both.fst() + both.snd())
            })
        };
        let several = (low() + w.int(1)).less(high());
        let any = low().less(high());
        let some = w.cond(any, one(p.v().at(low())), w.r(0.0));
        w.cond(several, halves(), some)
    });
    all.call(w.pair(w.int(0), p.v().len()))
}

/// Particles at (i/2, 0.1) with speed (1, 1), i from 1 on.
pub(super) fn some_particles(k: usize) -> Vec<Value<f64>> {
    let plane = |x, y| Value::pair(Value::Real(x), Value::Real(y));
    let particle = |i: usize| Value::pair(plane(i as f64 / 2.0, 0.1), plane(1.0, 1.0));
    vec![Value::array((1..=k).map(particle).collect())]
}

/// Two tasks rotate (x, y) and (y, x) 300 times by 0.1 + 0.05 sin i, i from 1 on; the sum of all that they give.
pub(super) fn rotations() -> Program {
    let types = |b: &mut Builder| {
        let real = b.types().real();
        vec![real, real]
    };
    write(types, |w, p| both_rotations(w, p[0], p[1]))
}

fn both_rotations<'w>(w: &'w Writer, x: X<'w>, y: X<'w>) -> E<'w> {
    let rotated = |x: E<'w>, y: E<'w>| {
        let last = w.fold(w.int(300), w.pair(x, y), |t, s| {
            let i = w.prim(Prim::ToReal, &[t.v() + w.int(1)]);
            let angle = w.r(0.1) + w.r(0.05) * w.op(Op::Sin, &[i]);
            w.bind(angle, |angle| {
                let (sin, cos) = (|| w.op(Op::Sin, &[angle.v()]), || w.op(Op::Cos, &[angle.v()]));
                w.pair(cos() * s.fst() - sin() * s.snd(), sin() * s.fst() + cos() * s.snd())
            })
        });
        w.bind(last, move |s| s.fst() + s.snd())
    };
    let both = w.par(rotated(x.v(), y.v()), rotated(y.v(), x.v()));
    w.bind(both, |both| both.fst() + both.snd())
}

/// `sum of x * x` over an array.
pub(super) fn squares_of_array() -> Program {
    write(|b| vec![vector(b)], |w, p| w.map(&[p[0].v()], |x| x[0].v() * x[0].v()).sum())
}

/// The same over a tuple `(x1, (x2, (x3, ..)))` of so many numbers.
pub(super) fn squares_of_list(n: usize) -> (Program, Vec<Value<f64>>) {
    let types = |b: &mut Builder| {
        let real = b.types().real();
        let ty = (1..n).fold(real, |rest, _| b.types().pair(real, rest));
        vec![ty]
    };
    let program = write(types, |w, p| list_of_squares(w, p[0], n));
    let value = (1..n).fold(Value::Real(1.0), |rest, k| Value::pair(Value::Real(k as f64), rest));
    (program, vec![value])
}

fn list_of_squares<'w>(w: &'w Writer, list: X<'w>, n: usize) -> E<'w> {
    let square = |x: E<'w>| w.bind(x, |x| x.v() * x.v());
    if n == 1 {
        return square(list.v());
    }
    let rest = w.bind(list.snd(), |rest| list_of_squares(w, rest, n - 1));
    square(list.fst()) + rest
}
