//! Golden values of the paper, and the claims of each step.

use super::backpropagator::{Backpropagator, Calls, Id, Job, Jobs};
use super::pure::Pure;
use super::*;
use crate::functional::lambda::{Builder, TermId, Type, evaluate};
use crate::reference::numeric::{Dual, Field, Users};
use crate::scalar::{Comparison, Op};

/// All variants, the array ones also with leaf calls.
pub(super) fn all_options() -> Vec<Options> {
    let plain = Variant::ALL.map(Options::of);
    let leaf = Variant::ALL.into_iter().filter(|v| !v.is_pure());
    plain.into_iter().chain(leaf.map(|v| Options { leaf_calls: true, ..Options::of(v) })).collect()
}

pub(super) fn reals(xs: &[f64]) -> Vec<Value<f64>> {
    xs.iter().map(|x| Value::Real(*x)).collect()
}

pub(super) fn numbers(values: &[Value<f64>]) -> Vec<f64> {
    values.iter().flat_map(|v| v.numbers()).copied().collect()
}

/// The gradient of a real program by dual numbers in forward mode, one run for each input.
pub(super) fn forward(program: &Program, args: &[Value<f64>]) -> Vec<f64> {
    let n = numbers(args).len();
    let one = |k: usize| {
        let mut at = 0;
        let args: Vec<Value<Dual<f64>>> = args
            .iter()
            .map(|arg| {
                arg.map(|x| {
                    at += 1;
                    Ok(if at == k + 1 { Dual::new(*x, 1.0) } else { Dual::constant(*x) })
                })
                .unwrap()
            })
            .collect();
        evaluate(program, &args).unwrap().0.as_real().unwrap().derivative()
    };
    (0..n).map(one).collect()
}

pub(super) fn close(a: &[f64], b: &[f64], tolerance: f64) {
    assert_eq!(a.len(), b.len());
    for (x, y) in a.iter().zip(b) {
        assert!((x - y).abs() <= tolerance * (1.0 + x.abs().max(y.abs())), "{a:?}\n{b:?}");
    }
}

/// Every variant agrees with forward mode.
fn judge(program: &Program, args: &[Value<f64>]) {
    let expected = forward(program, args);
    for options in all_options() {
        let (value, gradient, counts) = gradient(program, args, options).unwrap();
        assert_eq!(value, *evaluate(program, args).unwrap().0.as_real().unwrap(), "{options:?}");
        close(&numbers(&gradient), &expected, 1e-10);
        if options.variant != Variant::Naive {
            assert!(counts.most <= 1, "{options:?}: {counts:?}");
        }
    }
}

/// `let z = x + y in x * z`.
pub(super) fn example() -> Program {
    let mut b = Builder::new();
    let real = b.types().real();
    let (x, y) = (b.param("x", real), b.param("y", real));
    let (a, c) = (b.var(x), b.var(y));
    let z = b.add(a, c).unwrap();
    let body = b.let_("z", z, |b, z| {
        let (x, z) = (b.var(x), b.var(z));
        b.mul(x, z)
    });
    b.finish(body.unwrap()).unwrap()
}

/// Fig. 1 and section 6.1.
#[test]
fn example_of_the_paper() {
    let program = example();
    let args = reals(&[12.0, 13.0]);
    judge(&program, &args);
    for variant in [Variant::Staged, Variant::Cayley, Variant::Scalars] {
        let derivative = differentiate(&program, Options { stage_outputs: false, ..Options::of(variant) }).unwrap();
        let run = derivative.run(&args).unwrap();
        let mut history = Vec::new();
        let resolved = run.resolve(&[1.0], Some(&mut history)).unwrap();
        assert_eq!(history[0], [(0, 25.0), (2, 12.0)]);
        assert_eq!(resolved.gradient, [37.0, 12.0]);
        assert_eq!(run.jobs.identifiers(), 4);
    }
}

/// f1 .. f4 of section 6, as backpropagators 0 .. 3.
fn four() -> Jobs<f64> {
    let id = |cell| Id { job: 0, cell };
    let list = |of: &[(f64, u32)]| {
        Backpropagator::Contributions(of.iter().map(|(weight, cell)| (Some(*weight), id(*cell))).collect())
    };
    let mut job = Job::new(None);
    job.push(Backpropagator::Input(0), 1).unwrap();
    job.push(list(&[(2.0, 0), (3.0, 0)]), 1).unwrap();
    job.push(list(&[(4.0, 1), (5.0, 0)]), 1).unwrap();
    job.push(list(&[(1.0, 1), (2.0, 2)]), 1).unwrap();
    Jobs { jobs: vec![job], last: 0 }
}

#[test]
fn staging_merges_calls() {
    let (jobs, users) = (four(), Users::new());
    let calls = Calls { users: &users, leaves: &[] };
    let seeds = [(Id { job: 0, cell: 3 }, 1.0)];
    let naive = Pure::new(&jobs, calls, 1).naive(&seeds, u64::MAX).unwrap();
    assert_eq!(naive.called, [5, 2, 1, 1]);
    assert_eq!(naive.gradient, [55.0]);
    let expected = vec![vec![(1, 1.0), (2, 2.0)], vec![(0, 10.0), (1, 9.0)], vec![(0, 55.0)], vec![]];
    let mut history = Vec::new();
    let staged = Pure::new(&jobs, calls, 1).staged(&seeds, false, Some(&mut history)).unwrap();
    assert_eq!((&history, staged.called, staged.gradient), (&expected, vec![1; 4], vec![55.0]));
    history.clear();
    let cayley = Pure::new(&jobs, calls, 1).scalars(&seeds, false, Some(&mut history)).unwrap();
    assert_eq!((&history, cayley.called, cayley.gradient), (&expected, vec![1; 4], vec![55.0]));
    for collector in [true, false] {
        let arrays = Arrays { collector, stage_outputs: true };
        let array = array::resolve(&jobs, calls, 1, &seeds, arrays).unwrap();
        assert_eq!((array.called, array.gradient), (vec![1; 4], vec![55.0]));
    }
}

/// `let x1 = x + x in let x2 = x1 + x1 in ..`, Fig. 2.
pub(super) fn doubled(n: usize) -> Program {
    let mut b = Builder::new();
    let real = b.types().real();
    let mut x = b.param("x", real);
    let mut lets = Vec::new();
    for _ in 0..n {
        let (a, c) = (b.var(x), b.var(x));
        let sum = b.add(a, c).unwrap();
        x = b.fresh("x", real);
        lets.push((x, sum));
    }
    let mut body = b.var(x);
    for (x, sum) in lets.into_iter().rev() {
        body = b.push(crate::functional::lambda::Term::Let(x, sum, body)).unwrap();
    }
    b.finish(body).unwrap()
}

/// 2^n - 1 calls of operations, and 2^n of the input, against one call each.
#[test]
fn sharing_is_exponential_for_the_naive_variant_only() {
    for n in [1usize, 2, 5, 12] {
        let program = doubled(n);
        let args = reals(&[1.5]);
        for options in all_options() {
            let (_, gradient, counts) = gradient(&program, &args, options).unwrap();
            assert_eq!(numbers(&gradient), [(1 << n) as f64]);
            let expected = match options {
                Options { variant: Variant::Naive, .. } => {
                    assert_eq!(counts.most, 1 << n);
                    (1 << n) - 1 + (1 << n)
                }
                // The program is one leaf, but for a single operation.
                Options { leaf_calls: true, .. } => 2,
                _ => n as u64 + 1,
            };
            assert_eq!(counts.calls, expected, "{n} {options:?}");
        }
    }
}

/// Section 10.1 drops the collector, which the seed of `λx. x` went to: `Deinterleave` calls the output, an input, whose backpropagator does nothing now.
#[test]
fn one_array_loses_the_seed_of_the_identity_unless_outputs_are_staged() {
    let mut b = Builder::new();
    let real = b.types().real();
    let x = b.param("x", real);
    let body = b.var(x);
    let program = b.finish(body).unwrap();
    let derivative = |variant, stage_outputs| {
        let (_, gradient, _) =
            gradient(&program, &reals(&[3.0]), Options { stage_outputs, ..Options::of(variant) }).unwrap();
        numbers(&gradient)
    };
    assert_eq!(derivative(Variant::Arrays, false), [1.0]);
    assert_eq!(derivative(Variant::OneArray, false), [0.0]);
    for variant in Variant::ALL {
        assert_eq!(derivative(variant, true), [1.0], "{variant:?}");
    }
}

/// Footnote 26: outputs that are called at once may be called again.
#[test]
fn outputs_that_are_not_staged_may_be_called_twice() {
    let mut b = Builder::new();
    let real = b.types().real();
    let x = b.param("x", real);
    let (a, c) = (b.var(x), b.var(x));
    let square = b.mul(a, c).unwrap();
    let body = b
        .let_("y", square, |b, y| {
            let (u, v, w) = (b.var(y), b.var(y), b.var(y));
            let last = b.mul(v, w)?;
            b.pair(u, last)
        })
        .unwrap();
    let program = b.finish(body).unwrap();
    for (stage_outputs, most) in [(false, 2), (true, 1)] {
        let options = Options { stage_outputs, ..Options::of(Variant::Arrays) };
        let derivative = differentiate(&program, options).unwrap();
        let run = derivative.run(&reals(&[2.0])).unwrap();
        let (gradient, counts) = run.pull_back(&[1.0, 1.0]).unwrap();
        assert_eq!(numbers(&gradient), [2.0 * 2.0 + 4.0 * 8.0]);
        assert_eq!(counts.most, most);
    }
}

/// `rec power(k). case k <= 0 of {yes -> 1 | no -> x * power(k - 1)}`, at k.
pub(super) fn power(k: i64) -> Program {
    let mut b = Builder::new();
    let (real, int) = (b.types().real(), b.types().int());
    let x = b.param("x", real);
    let f = b
        .rec("power", "k", (int, real), |b, power, k| {
            let (a, zero) = (b.var(k), b.int(0)?);
            let done = b.prim(crate::functional::lambda::Prim::IntCompare(Comparison::LessEqual), &[a, zero])?;
            b.case(
                done,
                ("yes", |b: &mut Builder, _| b.real(1.0)),
                ("no", |b: &mut Builder, _| {
                    let (x, power, k, minus) = (b.var(x), b.var(power), b.var(k), b.int(-1)?);
                    let less = b.prim(crate::functional::lambda::Prim::IntAdd, &[k, minus])?;
                    let rest = b.apply(power, less)?;
                    b.mul(x, rest)
                }),
            )
        })
        .unwrap();
    let k = b.int(k).unwrap();
    let body = b.apply(f, k).unwrap();
    b.finish(body).unwrap()
}

#[test]
fn recursion() {
    for k in [0i64, 1, 2, 7] {
        let program = power(k);
        judge(&program, &reals(&[1.5]));
        let (_, gradient, _) = gradient(&program, &reals(&[1.5]), Options::default()).unwrap();
        let expected = if k == 0 { 0.0 } else { k as f64 * 1.5f64.powi(k as i32 - 1) };
        close(&numbers(&gradient), &[expected], 1e-14);
    }
}

/// `k x^(k - 1)` modulo a prime, 10^5 deep.
#[test]
fn recursion_is_deep_on_a_small_stack() {
    let run = || {
        let program = power(100_000);
        for options in all_options().into_iter().filter(|o| o.variant != Variant::Naive) {
            let (_, gradient, counts) = gradient(&program, &[Value::Real(Field::new(3))], options).unwrap();
            let expected = Field::new(100_000).mul(&Field::new(3).pow(99_999));
            assert_eq!(*gradient[0].as_real().unwrap(), expected);
            assert_eq!(counts.calls, 1 + 100_000 + 1);
        }
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
}

/// `sum of x^2` by recursion over a list of reals, a recursive value; and lists `n - 1, .., 0`.
pub(super) fn squares() -> (Program, impl Fn(usize) -> Value<f64>) {
    let mut b = Builder::new();
    let real = b.types().real();
    let list = b.data("list");
    let ty = b.types().intern(Type::Data(list));
    let unit = b.types().unit();
    let cell = b.types().pair(real, ty);
    let definition = b.types().sum(unit, cell);
    b.define(list, definition);
    let xs = b.param("xs", ty);
    let f = b.rec("squares", "l", (ty, real), |b, f, l| {
        let l = b.var(l);
        let l = b.push(crate::functional::lambda::Term::Unroll(l))?;
        b.case(
            l,
            ("nil", |b: &mut Builder, _| b.real(0.0)),
            ("cons", |b: &mut Builder, c| {
                let (c1, c2, c3, f) = (b.var(c), b.var(c), b.var(c), b.var(f));
                let (x, y, rest) = (b.fst(c1)?, b.fst(c2)?, b.snd(c3)?);
                let rest = b.apply(f, rest)?;
                let square = b.mul(x, y)?;
                b.add(square, rest)
            }),
        )
    });
    let xs = b.var(xs);
    let body = b.apply(f.unwrap(), xs).unwrap();
    let program = b.finish(body).unwrap();
    let list =
        |n: usize| (0..n).fold(Value::inl(Value::Unit), |rest, k| Value::inr(Value::pair(Value::Real(k as f64), rest)));
    (program, list)
}

/// Values may be as long as 10^5.
#[test]
fn recursive_values() {
    let (program, value) = squares();
    judge(&program, &[value(7)]);
    let (_, gradient, _) = gradient(&program, &[value(100_000)], Options::default()).unwrap();
    let numbers = numbers(&gradient);
    assert_eq!((numbers.len(), numbers[0], numbers[99_999]), (100_000, 2.0 * 99_999.0, 0.0));
}

/// A selected side contributes nothing, even beside an infinite cotangent; `abs`, division, and other rows of the table.
#[test]
fn scalar_functions() {
    for op in Op::all() {
        let mut b = Builder::new();
        let real = b.types().real();
        let vars: Vec<_> = (0..op.arity()).map(|k| b.param(&format!("x{k}"), real)).collect();
        let args: Vec<TermId> = vars.iter().map(|x| b.var(*x)).collect();
        let call = b.op(op, &args).unwrap();
        let two = b.real(2.0).unwrap();
        let body = b.mul(call, two).unwrap();
        let program = b.finish(body).unwrap();
        judge(&program, &reals(&[0.4, 0.7, 0.2, 0.3][..vars.len()]));
    }
}

#[test]
fn options_that_exclude_each_other() {
    let program = example();
    let options = Options { leaf_calls: true, ..Options::of(Variant::Cayley) };
    assert!(matches!(differentiate(&program, options), Err(Error::Request(_))));
    let derivative = differentiate(&program, Options::default()).unwrap();
    let run = derivative.run(&reals(&[1.0, 2.0])).unwrap();
    assert!(matches!(run.pull_back(&[1.0, 2.0]), Err(Error::Request(_))));
    assert!(matches!(derivative.run(&reals(&[1.0])), Err(Error::Request(_))));
}

/// All partial derivatives of a result of several numbers, row by row: one reverse pass for each number.
fn jacobian(program: &Program, args: &[Value<f64>], options: Options) -> Vec<Vec<f64>> {
    let derivative = differentiate(program, options).unwrap();
    let run = derivative.run(args).unwrap();
    let m = run.value.numbers().len();
    let row = |i: usize| {
        let seeds: Vec<f64> = (0..m).map(|j| f64::from(u8::from(i == j))).collect();
        numbers(&run.pull_back(&seeds).unwrap().0)
    };
    (0..m).map(row).collect()
}

/// Table 1: the rotation of a vector by a quaternion, whose Jacobian the benchmark computes.
#[test]
fn quaternion() {
    let program = programs::rotate_vec_by_quat();
    let args = programs::vector_and_quaternion([1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]);
    let (value, _) = evaluate(&program, &args).unwrap();
    assert_eq!(value.numbers(), [&270.0, &180.0, &342.0]);
    let mut expected = vec![Vec::new(); 3];
    for k in 0..7 {
        let mut at = 0;
        let mut dual = |x: &f64| {
            at += 1;
            Ok(if at == k + 1 { Dual::new(*x, 1.0) } else { Dual::constant(*x) })
        };
        let args: Vec<_> = args.iter().map(|arg| arg.map(&mut dual).unwrap()).collect();
        let (value, _) = evaluate(&program, &args).unwrap();
        for (row, number) in expected.iter_mut().zip(value.numbers()) {
            row.push(number.derivative());
        }
    }
    for options in all_options() {
        assert_eq!(jacobian(&program, &args, options), expected, "{options:?}");
    }
}

/// Table 1: scalar product, dot product, matrix times vector.
#[test]
fn products() {
    judge(&programs::scalar_product(), &reals(&[3.0, 4.0]));
    let wave = |n: usize, a: f64| Value::reals((0..n).map(move |i| (a * i as f64).sin()));
    judge(&programs::dot_product(), &[wave(9, 1.0), wave(9, 2.0)]);
    let matrix = Value::array((0..4).map(|i| wave(5, f64::from(i))).collect());
    judge(&programs::sum_mat_vec(), &[matrix, wave(5, 0.3)]);
}

/// Table 1: the neural network.
#[test]
fn network() {
    let (program, args) = (programs::neural(), programs::network());
    // A directional derivative in forward mode is one run; here along all inputs at once.
    let along: Vec<_> = args.iter().map(|arg| arg.map(|x| Ok(Dual::new(*x, 1.0 + x))).unwrap()).collect();
    let (value, _) = evaluate(&program, &along).unwrap();
    let value = value.as_real().unwrap();
    assert!((value.value - 26.93933288).abs() < 5e-9);
    for options in all_options().into_iter().filter(|o| !o.variant.is_pure()) {
        let (found, gradient, counts) = gradient(&program, &args, options).unwrap();
        assert_eq!(found, value.value);
        let product: f64 = numbers(&gradient).iter().zip(numbers(&args)).map(|(d, x)| d * (1.0 + x)).sum();
        close(&[product], &[value.derivative()], 1e-9);
        assert_eq!(counts.most, 1);
    }
}

/// Table 1: particles; the values of `particles.iv`.
#[test]
fn particles() {
    let program = programs::particles(1000);
    let args = programs::some_particles(4);
    let expected = forward(&program, &args);
    for options in all_options().into_iter().filter(|o| o.variant != Variant::Staged && o.variant != Variant::Naive) {
        let (value, gradient, _) = gradient(&program, &args, options).unwrap();
        assert!((value - 0.00106762335129).abs() < 5e-15, "{value}");
        let gradient = numbers(&gradient);
        assert!((gradient[0] - 1.24312e-4).abs() < 5e-10 && (gradient[1] - 1.74184e-4).abs() < 5e-10);
        close(&gradient, &expected, 1e-12);
    }
}

/// Rotations add their angles, so both partial derivatives are `2 cos(sum of angles)`.
#[test]
fn rotating_tasks() {
    let program = programs::rotations();
    let angle: f64 = (1..=300).map(|i| 0.1 + 0.05 * f64::from(i).sin()).sum();
    let expected = 2.0 * angle.cos();
    assert!((expected - 0.351463975161).abs() < 1e-12);
    for options in all_options().into_iter().filter(|o| o.variant != Variant::Naive) {
        let (_, gradient, counts) = gradient(&program, &reals(&[0.3, -0.7]), options).unwrap();
        close(&numbers(&gradient), &[expected; 2], 1e-13);
        assert_eq!(counts.jobs, if options.variant == Variant::ForkJoin { 4 } else { 1 });
    }
}

/// The side that loses is not called: the logarithm of 0 beside it has an infinite derivative, and `0 * infinity` would be a NaN.
#[test]
fn what_loses_is_not_called() {
    let program = programs::write(
        |b| {
            let real = b.types().real();
            vec![real, real]
        },
        |w, p| w.op(Op::Max, &[p[0].v(), w.op(Op::Ln, &[p[1].v()])]),
    );
    for options in all_options() {
        let (value, gradient, _) = gradient(&program, &reals(&[3.0, 0.0]), options).unwrap();
        assert_eq!((value, numbers(&gradient)), (3.0, vec![1.0, 0.0]), "{options:?}");
    }
    for figure in Figure::ALL {
        let transformed = transform(&program, figure).unwrap();
        let (_, gradient, _) = transformed.run(&reals(&[3.0, 0.0]), &[1.0]).unwrap();
        assert_eq!(gradient, [1.0, 0.0], "{figure:?}");
    }
}

/// The numbers may be dual numbers in forward mode: the Hessian of `x (x + y)`.
#[test]
fn forward_over_reverse() {
    for options in all_options() {
        for (along, expected) in [([1.0, 0.0], [2.0, 1.0]), ([0.0, 1.0], [1.0, 0.0])] {
            let args = [12.0, 13.0].iter().zip(along).map(|(x, dx)| Value::Real(Dual::new(*x, dx)));
            let (_, gradient, _) = gradient(&example(), &args.collect::<Vec<_>>(), options).unwrap();
            let row: Vec<f64> = gradient.iter().flat_map(|v| v.numbers()).map(Dual::derivative).collect();
            assert_eq!(row, expected);
        }
    }
}

/// Two outputs that are one variable, and inputs that nothing reads.
#[test]
fn outputs_and_inputs_as_they_are() {
    let program = programs::write(
        |b| {
            let real = b.types().real();
            vec![real, real]
        },
        |w, p| w.pair(p[0].v(), p[0].v()),
    );
    for options in all_options() {
        let derivative = differentiate(&program, options).unwrap();
        let run = derivative.run(&reals(&[3.0, 4.0])).unwrap();
        assert_eq!(numbers(&run.pull_back(&[1.0, 2.0]).unwrap().0), [3.0, 0.0], "{options:?}");
    }
}

#[test]
fn functions_have_no_cotangents() {
    let program = programs::write(
        |b| {
            let real = b.types().real();
            vec![b.types().function(real, real), real]
        },
        |_, p| p[0].v().call(p[1].v()),
    );
    let derivative = differentiate(&program, Options::default()).unwrap();
    let function = Value::closure(crate::base::Id::from_index(0), Vec::new());
    assert!(matches!(derivative.run(&[function, Value::Real(1.0)]), Err(Error::Request(_))));
}

/// Programs of 10^6 levels: `let` under `let`, and sums under sums, on a stack of 2 MiB.
#[test]
fn programs_of_a_million_levels() {
    let sums =
        || programs::write(|b| vec![b.types().real()], |_, p| (0..1_000_000).fold(p[0].v(), |sum, _| p[0].v() + sum));
    let run = move || {
        for (program, expected) in [(doubled(1_000_000), Field::new(2).pow(1_000_000)), (sums(), Field::new(1_000_001))]
        {
            for leaf_calls in [false, true] {
                let options = Options { leaf_calls, ..Options::of(Variant::ForkJoin) };
                let (_, gradient, _) = gradient(&program, &[Value::Real(Field::new(7))], options).unwrap();
                assert_eq!(*gradient[0].as_real().unwrap(), expected);
            }
        }
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
}
