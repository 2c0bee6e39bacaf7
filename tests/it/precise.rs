//! The running error bound holds: programs are evaluated with 192 bits, and the reference evaluator is no further from that than it says.

use std::cell::RefCell;
use std::cmp::Ordering;

use astro_float_num::{BigFloat, Consts, RoundingMode};
use iverson::ir::diff::{self, Options, Seed};
use iverson::ir::driver::{Stage, Staged, lower};
use iverson::ir::reference::numeric::Users;
use iverson::ir::reference::{Masked, Numeric, Rounded};
use iverson::ir::scalar::{Comparison, Function, Op, Primitive};
use iverson::ir::stages::Stages;
use iverson::ir::ty::Types;
use iverson::ir::{surface, tssa};
use iverson::{Error, Result};

use crate::generate::{self, Family};
use crate::jacobians::energy;
use crate::judge::numbers_as;
use crate::support::{Numbers, environment, evaluate, inputs, setting};

const BITS: usize = 192;
const ROUNDING: RoundingMode = RoundingMode::ToEven;

thread_local! {
    static CONSTANTS: RefCell<Consts> = RefCell::new(Consts::new().expect("memory for constants"));
}

/// A number of 192 bits.
#[derive(Clone, Debug)]
struct Precise(BigFloat);

impl Precise {
    fn new(x: f64) -> Self {
        Precise(BigFloat::from_f64(x, BITS))
    }

    fn with(&self, f: impl FnOnce(&BigFloat, &mut Consts) -> BigFloat) -> Self {
        CONSTANTS.with(|constants| Precise(f(&self.0, &mut constants.borrow_mut())))
    }

    fn exp(&self) -> Self {
        self.with(|x, constants| x.exp(BITS, ROUNDING, constants))
    }

    fn ln(&self) -> Self {
        self.with(|x, constants| x.ln(BITS, ROUNDING, constants))
    }

    fn div(&self, other: &Self) -> Self {
        Precise(self.0.div(&other.0, BITS, ROUNDING))
    }

    fn sub(&self, other: &Self) -> Self {
        Precise(self.0.sub(&other.0, BITS, ROUNDING))
    }

    fn less(&self, other: &Self) -> Option<Ordering> {
        self.0.cmp(&other.0).map(|order| order.cmp(&0))
    }

    fn to_f64(&self) -> f64 {
        if self.0.is_zero() { 0.0 } else { self.0.to_string().parse().unwrap_or(f64::NAN) }
    }

    fn op(op: Op, args: &[Precise]) -> Option<Precise> {
        let truth = |holds: bool| Precise::new(if holds { 1.0 } else { 0.0 });
        let one = Precise::new(1.0);
        Some(match (op, args) {
            (Op::Div, [a, b]) => a.div(b),
            (Op::Powi(k), [a]) => {
                let power = Precise(a.0.powi(k.unsigned_abs() as usize, BITS, ROUNDING));
                if k < 0 { one.div(&power) } else { power }
            }
            (Op::Exp, [a]) => a.exp(),
            (Op::Ln, [a]) => a.ln(),
            (Op::Sqrt, [a]) => Precise(a.0.sqrt(BITS, ROUNDING)),
            (Op::Sin, [a]) => a.with(|x, constants| x.sin(BITS, ROUNDING, constants)),
            (Op::Cos, [a]) => a.with(|x, constants| x.cos(BITS, ROUNDING, constants)),
            (Op::Tanh, [a]) => a.with(|x, constants| x.tanh(BITS, ROUNDING, constants)),
            (Op::Atan, [a]) => a.with(|x, constants| x.atan(BITS, ROUNDING, constants)),
            (Op::Sigmoid, [a]) => one.div(&one.add(&Precise(a.0.neg()).exp())),
            (Op::Softplus, [a]) => one.add(&a.exp()).ln(),
            // Those of the programs have positive bases and denominators.
            (Op::Pow, [a, b]) if a.0.is_positive() && !a.0.is_zero() => b.mul(&a.ln()).exp(),
            (Op::Atan2, [a, b]) if b.0.is_positive() && !b.0.is_zero() => Precise::op(Op::Atan, &[a.div(b)])?,
            (Op::Abs, [a]) => Precise(a.0.abs()),
            (Op::Sign, [a]) if a.0.is_zero() => Precise::new(0.0),
            (Op::Sign, [a]) => Precise::new(if a.0.is_negative() { -1.0 } else { 1.0 }),
            (Op::Max, [a, b]) => {
                if a.less(b)? == Ordering::Less {
                    b.clone()
                } else {
                    a.clone()
                }
            }
            (Op::Min, [a, b]) => {
                if b.less(a)? == Ordering::Less {
                    b.clone()
                } else {
                    a.clone()
                }
            }
            (Op::Compare(comparison), [a, b]) => {
                let order = a.less(b)?;
                truth(match comparison {
                    Comparison::Less => order == Ordering::Less,
                    Comparison::LessEqual => order != Ordering::Greater,
                    Comparison::Equal => order == Ordering::Equal,
                    Comparison::NotEqual => order != Ordering::Equal,
                })
            }
            _ => return None,
        })
    }
}

impl Numeric for Precise {
    fn literal(x: f64) -> Result<Self> {
        Ok(Precise::new(x))
    }

    fn integer(k: i64) -> Self {
        Precise::new(k as f64)
    }

    fn add(&self, other: &Self) -> Self {
        Precise(self.0.add(&other.0, BITS, ROUNDING))
    }

    fn mul(&self, other: &Self) -> Self {
        Precise(self.0.mul(&other.0, BITS, ROUNDING))
    }

    fn apply(function: Function, _: &Users, args: &[Self]) -> Result<Self> {
        let value = match function {
            Function::Value(Primitive::Op(op)) => Precise::op(op, args),
            _ => None,
        };
        value.ok_or_else(|| Error::Limitation { feature: format!("{function:?} with many bits"), span: None })
    }

    fn is_zero(&self) -> Result<bool> {
        Ok(self.0.is_zero())
    }

    fn compare(&self, other: &Self) -> Result<Option<Ordering>> {
        Ok(self.less(other))
    }

    fn is_nan(&self) -> Result<bool> {
        Ok(self.0.is_nan())
    }
}

/// A program with its gradient, or that of the sum of squares of all that it gives.
fn programs(seed: u64) -> Result<(generate::Generated, Vec<tssa::Program>)> {
    let generated = generate::draw(seed, Family::Smooth);
    let source = surface::read(&generated.text, &[])?;
    let Staged::TensorSsa(program) = lower(&source, Stage::TensorSsa, &mut Stages::new())? else { unreachable!() };
    let single = program.outputs.iter().all(|output| output.ty == Types::REAL);
    let loss = if single { program.clone() } else { energy(&program)? };
    let wrt: Vec<_> = loss.signature.params.ids().collect();
    let options = Options { seed: Seed::One, with_value: false, derivation: false };
    let gradient = diff::expand_partials(&diff::adjoint(&loss, &wrt, options)?.program)?;
    Ok((generated, vec![program, gradient]))
}

#[test]
fn running_error_bounds_hold() {
    let (mut numbers, mut undecided, mut worst, mut widest) = (0, 0, 0.0_f64, 0.0_f64);
    for seed in 60_000..60_000 + setting("IVERSON_PROGRAMS", 60) {
        let (generated, programs) = programs(seed).expect("generated programs are sound");
        let inputs = inputs(&generated, &mut Numbers::new(seed, false));
        for program in programs {
            let source = surface::read(&generated.text, &[]).expect("it is sound");
            let (_, at) = environment(&source, &inputs).expect("they fit");
            let found = evaluate(&program, &numbers_as(&at, Rounded::new)).expect("it is evaluated");
            let exact = match evaluate(&program, &numbers_as(&at, Precise::new)) {
                Ok(exact) => exact,
                Err(Error::Limitation { .. }) => continue,
                Err(error) => panic!("{error}\n{program}"),
            };
            let found = found.iter().flat_map(|leaf| leaf.values());
            for (x, exact) in found.zip(exact.iter().flat_map(|leaf| leaf.values())) {
                if !x.value.is_finite() || !x.bound().is_finite() {
                    undecided += 1;
                    continue;
                }
                let error = Precise::new(x.value).sub(exact).to_f64().abs();
                assert!(error <= x.bound(), "seed {seed}: off by {error:e}, {x:?}, {:e}\n{program}", x.bound());
                if x.bound() > 0.0 {
                    worst = worst.max(error / x.bound());
                    widest = widest.max(x.bound() / x.value.abs().max(1e-3));
                }
                numbers += 1;
            }
        }
    }
    println!(
        "{numbers} numbers, at worst {worst:.2} of their bounds, the widest of which is {widest:.1e}; {undecided} undecided"
    );
    assert!(numbers > 200 && undecided * 10 < numbers, "{numbers} numbers, {undecided} undecided");
}

fn users() -> Users {
    Users::new()
}

fn apply(op: Op, args: &[Rounded]) -> Rounded {
    Rounded::apply(op.into(), &users(), args).unwrap()
}

fn sum(numbers: &[f64]) -> Rounded {
    numbers.iter().map(|x| Rounded::new(*x)).reduce(|a, b| a.add(&b)).unwrap()
}

#[test]
fn integers_are_exact() {
    let seven = sum(&[1.0, 2.0, 4.0]);
    assert_eq!((seven.value, seven.bound()), (7.0, 0.0));
    assert_eq!(apply(Op::Powi(3), &[seven]).bound(), 0.0);
    assert_eq!(apply(Op::Max, &[seven, Rounded::new(9.0)]).bound(), 0.0);
    // 2^53 + 1 rounds.
    assert!(sum(&[2.0_f64.powi(53), 1.0]).bound() >= 1.0);
}

/// Whatever cancels, the bound is that of what was added.
#[test]
fn sums_in_any_order() {
    let numbers = [0.1, 1e16, -1e16, 0.2];
    let bound = sum(&numbers).bound();
    for order in [[0, 1, 2, 3], [1, 2, 0, 3], [0, 3, 1, 2], [3, 1, 0, 2]] {
        let found: f64 = order.iter().map(|k| numbers[*k]).sum();
        assert!((found - 0.3).abs() <= bound, "{found}");
    }
    assert!(bound < 20.0);
}

#[test]
fn functions_scale_what_their_arguments_lost() {
    let x = sum(&[0.1, 0.2]);
    let y = apply(Op::Exp, &[apply(Op::Powi(2), &[x])]);
    let exact = 1.094_174_283_705_210_4;
    assert!((y.value - exact).abs() <= y.bound() && y.bound() < 1e-14);
    // The root of what is zero but for roundings may be the root of these.
    let nothing = sum(&[0.1, 0.2, -0.3]);
    assert!(apply(Op::Sqrt, &[apply(Op::Abs, &[nothing])]).bound() > 1e-9);
}

#[test]
fn close_comparisons_say_nothing() {
    let less = |a: Rounded, b: f64| apply(Op::Compare(Comparison::Less), &[a, Rounded::new(b)]);
    assert_eq!(less(sum(&[0.1, 0.2]), 0.3).bound(), f64::INFINITY);
    assert_eq!(less(sum(&[0.1, 0.2]), 0.4).bound(), 0.0);
    assert_eq!(less(sum(&[1.0, 2.0]), 3.0).bound(), 0.0);
    assert_eq!(less(Rounded::new(f64::NAN), 3.0).bound(), 0.0);
}

#[test]
fn nothing_times_anything_is_nothing() {
    let infinite = Masked::new(f64::INFINITY);
    assert!(Masked::<f64>::zero().mul(&infinite).nothing);
    assert!(Masked::<f64>::integer(0).mul(&infinite).value.is_nan());
    assert_eq!(Masked::zero().add(&infinite), infinite);
    let cosine = Masked::apply(Op::Cos.into(), &users(), &[Masked::<f64>::zero()]).unwrap();
    assert_eq!(cosine, Masked::new(1.0));
}
