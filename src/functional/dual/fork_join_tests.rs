//! Forks: threads, order, depth.

use super::programs::{self, E, Writer, X, some_particles, write};
use super::*;
use crate::functional::lambda::Prim;
use crate::reference::numeric::Field;

fn bits(values: &[Value<f64>]) -> Vec<u64> {
    values.iter().flat_map(|v| v.numbers()).map(|x| x.to_bits()).collect()
}

fn fork_join(threads: usize, leaf_calls: bool) -> Options {
    Options { threads, leaf_calls, ..Options::of(Variant::ForkJoin) }
}

/// A program of random forks: arms read the parameters, what is bound around them, and what other arms gave, so cotangents cross tasks in all ways.
fn random_forks(rng: &mut fastrand::Rng, depth: u32) -> Program {
    fn term<'w>(w: &'w Writer, rng: &mut fastrand::Rng, scope: &mut Vec<X<'w>>, depth: u32) -> E<'w> {
        let leaf = |rng: &mut fastrand::Rng, scope: &[X<'w>]| match rng.u32(0..8) {
            0 => w.r(rng.f64()),
            _ => scope[rng.usize(..scope.len())].v(),
        };
        if depth == 0 {
            return leaf(rng, scope);
        }
        match rng.u32(0..10) {
            0 => leaf(rng, scope),
            1 | 2 => term(w, rng, scope, depth - 1) * term(w, rng, scope, depth - 1),
            3 => term(w, rng, scope, depth - 1) + term(w, rng, scope, depth - 1),
            4 => w.op(crate::scalar::Op::Sin, &[term(w, rng, scope, depth - 1)]),
            5 | 6 => {
                let value = term(w, rng, scope, depth - 1);
                w.bind(value, |x| {
                    scope.push(x);
                    let body = term(w, rng, scope, depth - 1);
                    scope.pop();
                    body
                })
            }
            _ => {
                let (a, b) = (term(w, rng, scope, depth - 1), term(w, rng, scope, depth - 1));
                w.bind(w.par(a, b), |both| {
                    w.bind(both.fst(), |x| {
                        w.bind(both.snd(), |y| {
                            scope.extend([x, y]);
                            let body = term(w, rng, scope, depth - 1);
                            scope.truncate(scope.len() - 2);
                            x.v() + y.v() * body
                        })
                    })
                })
            }
        }
    }
    let types = |b: &mut crate::functional::lambda::Builder| {
        let real = b.types().real();
        vec![real; 3]
    };
    write(types, |w, p| term(w, rng, &mut p.to_vec(), depth))
}

/// Bits are those of the tape, with 1, 2 and 4 threads, leaf calls or not; calls go down in the order of compound identifiers.
#[test]
fn bits_do_not_depend_on_threads() {
    let (mut jobs, mut most, mut across) = (0, 0, 0);
    for seed in 0..300 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let program = random_forks(&mut rng, 7);
        let args: Vec<Value<f64>> = (0..3).map(|_| Value::Real(rng.f64())).collect();
        for leaf_calls in [false, true] {
            let tape = Options { leaf_calls, ..Options::of(Variant::Tape) };
            let (value, expected, _) = gradient(&program, &args, tape).unwrap();
            for threads in [1, 2, 4] {
                let (found, gradient, counts) = gradient(&program, &args, fork_join(threads, leaf_calls)).unwrap();
                assert_eq!(found.to_bits(), value.to_bits());
                assert_eq!(bits(&gradient), bits(&expected), "seed {seed}, {threads} threads");
                assert!(counts.most <= 1);
                most = most.max(counts.jobs);
                jobs += counts.jobs;
            }
        }
        across += calls_go_down(&program, &args);
    }
    println!("{jobs} jobs, at most {most} in a program; {across} calls between jobs");
    assert!(most > 100 && across > 1000);
}

/// Checks the order of all calls; gives the number of those between jobs.
fn calls_go_down(program: &Program, args: &[Value<f64>]) -> u64 {
    let derivative = differentiate(program, fork_join(2, false)).unwrap();
    let run = derivative.run(args).unwrap();
    if run.jobs.jobs.len() > 200 {
        return 0;
    }
    let mut across = 0;
    for (k, job) in (0u32..).zip(&run.jobs.jobs) {
        for (cell, entry) in (0u32..).zip(&job.entries) {
            if let backpropagator::Backpropagator::Contributions(list) = entry {
                for (_, callee) in list {
                    assert!(run.jobs.is_below(*callee, Id { job: k, cell }), "{callee:?} of job {k}, {cell}");
                    across += u64::from(callee.job != k);
                }
            }
        }
    }
    across
}

/// Jobs of parallel tasks have no order.
#[test]
fn arms_are_not_ordered() {
    let program = programs::rotations();
    let derivative = differentiate(&program, fork_join(1, false)).unwrap();
    let run = derivative.run(&[Value::Real(1.0), Value::Real(2.0)]).unwrap();
    let fork = run.jobs.job(run.jobs.last).history.unwrap();
    let [first, second] = fork.arms;
    assert!(run.jobs.is_before(fork.before, first) && run.jobs.is_before(first, run.jobs.last));
    assert!(!run.jobs.is_before(first, second) && !run.jobs.is_before(second, first));
    assert!(!run.jobs.is_before(run.jobs.last, second));
}

/// `rec f(k). let (a, b) = par(x * x, f(k - 1)) in a + b`: forks nested 10^5 deep on a stack of 2 MiB. What each task owes goes to the first one past
/// all tasks between, so the work per fork has to stay the same.
#[test]
fn forks_nest_deep() {
    let run = || {
        let program = |k: i64| {
            let types = |b: &mut crate::functional::lambda::Builder| {
                let real = b.types().real();
                vec![real]
            };
            write(types, move |w, p| nested(w, p[0], k))
        };
        let mut work = Vec::new();
        for k in [1_000, 100_000] {
            for threads in [1, 4] {
                let program = program(k);
                let args = [Value::Real(Field::new(5))];
                let (_, gradient, counts) = gradient(&program, &args, fork_join(threads, false)).unwrap();
                assert_eq!(*gradient[0].as_real().unwrap(), Field::new(10 * k as u64));
                work.push(counts.work as f64 / k as f64);
            }
        }
        println!("work per fork: {work:?}");
        assert!(work[3] < 1.01 * work[0]);
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
}

fn nested<'w>(w: &'w Writer, x: X<'w>, k: i64) -> E<'w> {
    let (real, int) = (w.types(|t| t.real()), w.types(|t| t.int()));
    let f = w.rec(int, real, |f, k| {
        let rest = f.v().call(k.v() - w.int(1));
        let both = w.bind(w.par(x.v() * x.v(), rest), |both| both.fst() + both.snd());
        w.cond(k.v().less(w.int(1)), w.r(0.0), both)
    });
    f.call(w.int(k))
}

/// Forks one after another, 20,000 tasks deep: what a thread is started with does not depend on the depth.
#[test]
fn many_forks_deep_inside() {
    let types = |b: &mut crate::functional::lambda::Builder| vec![b.types().real()];
    let program = write(types, |w, p| {
        let (real, int) = (w.types(|t| t.real()), w.types(|t| t.int()));
        let x = p[0];
        let f = w.rec(int, real, |f, k| {
            let rest = f.v().call(k.v() - w.int(1));
            let both = w.bind(w.par(w.r(0.0), rest), |both| both.fst() + both.snd());
            let last = w.fold(w.int(20_000), w.r(0.0), |_, s| {
                w.bind(w.par(x.v() * x.v(), s.v()), |both| both.fst() + both.snd())
            });
            w.cond(k.v().less(w.int(1)), last, both)
        });
        f.call(w.int(20_000))
    });
    for threads in [1, 2] {
        let (_, gradient, _) = gradient(&program, &[Value::Real(Field::new(5))], fork_join(threads, false)).unwrap();
        assert_eq!(*gradient[0].as_real().unwrap(), Field::new(200_000));
    }
}

/// Particles in halves of halves, on more threads than there are cores.
#[test]
fn particles_on_threads() {
    let program = programs::particles(50);
    let args = some_particles(37);
    let (value, expected, _) = gradient(&program, &args, Options::of(Variant::Tape)).unwrap();
    for threads in [1, 2, 3, 4, 8] {
        for leaf_calls in [false, true] {
            let (found, gradient, counts) = gradient(&program, &args, fork_join(threads, leaf_calls)).unwrap();
            assert_eq!(counts.jobs, 1 + 3 * 36);
            if !leaf_calls {
                assert_eq!((found.to_bits(), bits(&gradient)), (value.to_bits(), bits(&expected)));
            }
        }
    }
}

/// A fork in a loop in an arm; an error in an arm is an error of the program.
#[test]
fn loops_and_errors_in_arms() {
    let types = |b: &mut crate::functional::lambda::Builder| {
        let real = b.types().real();
        vec![b.types().array(real)]
    };
    let program = write(types, |w, p| {
        let sum = |from: i64| {
            w.fold(w.int(3), w.r(0.0), |t, s| {
                let both = w.par(p[0].v().at(t.v() + w.int(from)), w.prim(Prim::ToReal, &[t.v()]) * s.v());
                w.bind(both, |both| both.fst() + both.snd())
            })
        };
        w.bind(w.par(sum(0), sum(1)), |both| both.fst() * both.snd())
    });
    let args = |n: u32| [Value::reals((0..n).map(f64::from))];
    let (_, expected, _) = gradient(&program, &args(4), Options::of(Variant::Tape)).unwrap();
    for threads in [1, 2, 4] {
        let (_, gradient, _) = gradient(&program, &args(4), fork_join(threads, true)).unwrap();
        assert_eq!(bits(&gradient), bits(&expected));
        assert!(matches!(gradient_of(&program, &args(3), threads), Err(Error::Data { .. })));
    }
}

fn gradient_of(program: &Program, args: &[Value<f64>], threads: usize) -> Result<(f64, Vec<Value<f64>>, Counts)> {
    gradient(program, args, fork_join(threads, false))
}

/// Seconds that this thread has run, where the system says so. It is the first thread that waits for the others, so this is the longest path of a
/// balanced program, and does not depend on what else the machine does.
fn seconds_of_thread() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse::<f64>().ok().map(|ns| ns * 1e-9)
}

/// Prints the speed-up: `cargo test --release particles_speed_up -- --ignored --nocapture`, on a machine with two idle cores.
#[test]
#[ignore = "it measures; the command is in CONTRIBUTING.md"]
fn particles_speed_up() {
    for (k, steps) in [(4, 1000), (4, 10_000), (64, 1000)] {
        let program = programs::particles(steps);
        let args = some_particles(k);
        for leaf_calls in [false, true] {
            let (mut best, mut busy) = ([f64::INFINITY; 3], [f64::INFINITY; 3]);
            for _ in 0..15 {
                for (slot, threads) in [1, 2, 4].into_iter().enumerate() {
                    let derivative = differentiate(&program, fork_join(threads, leaf_calls)).unwrap();
                    let (start, start_busy) = (std::time::Instant::now(), seconds_of_thread());
                    let run = derivative.run(&args).unwrap();
                    run.pull_back(&[1.0]).unwrap();
                    drop(run);
                    best[slot] = best[slot].min(start.elapsed().as_secs_f64());
                    if let (Some(start), Some(end)) = (start_busy, seconds_of_thread()) {
                        busy[slot] = busy[slot].min(end - start);
                    }
                }
            }
            let ratios = |times: [f64; 3]| format!("{:.2}, {:.2}", times[0] / times[1], times[0] / times[2]);
            let (wall, busy) = (ratios(best), ratios(busy));
            println!("{k} particles, {steps} steps, leaf calls {leaf_calls}: {:.2} ms", best[0] * 1e3);
            println!("  speed-up on 2, 4 threads: {wall}; by the time of the first thread: {busy}");
        }
    }
}
