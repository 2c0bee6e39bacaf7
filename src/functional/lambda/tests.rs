use super::*;
use crate::error::Result;
use crate::reference::{Dual, Field};
use crate::scalar::Op;

/// `let y = x * x in y * x`.
fn cube() -> Result<Program> {
    let mut b = Builder::new();
    let real = b.types().real();
    let x = b.param("x", real);
    let (l, r) = (b.var(x), b.var(x));
    let square = b.mul(l, r)?;
    let body = b.let_("y", square, |b, y| {
        let (y, x) = (b.var(y), b.var(x));
        b.mul(y, x)
    })?;
    b.finish(body)
}

#[test]
fn evaluator_is_generic_and_counts_steps() {
    let program = cube().unwrap();
    assert_eq!(program.to_string(), "param x : real\nlet y = x * x in\ny * x\n");
    let (value, counts) = evaluate(&program, &[Value::Real(3.0)]).unwrap();
    assert_eq!((value, counts.steps, counts.muls), (Value::Real(27.0), 9, 2));
    let (value, _) = evaluate(&program, &[Value::Real(Dual::new(3.0, 1.0))]).unwrap();
    assert_eq!(value, Value::Real(Dual::new(27.0, 27.0)));
    let (value, _) = evaluate(&program, &[Value::Real(Field::new(3))]).unwrap();
    assert_eq!(value, Value::Real(Field::new(27)));
}

/// `f = fn z. x * z + y in f y * f x`.
#[test]
fn functions_capture() {
    let mut b = Builder::new();
    let real = b.types().real();
    let (x, y) = (b.param("x", real), b.param("y", real));
    let f = b
        .fn_("z", real, |b, z| {
            let (x, z, y) = (b.var(x), b.var(z), b.var(y));
            let xz = b.mul(x, z)?;
            b.add(xz, y)
        })
        .unwrap();
    let body = b
        .let_("f", f, |b, f| {
            let (f1, y1, f2, x1) = (b.var(f), b.var(y), b.var(f), b.var(x));
            let (l, r) = (b.apply(f1, y1)?, b.apply(f2, x1)?);
            b.mul(l, r)
        })
        .unwrap();
    let program = b.finish(body).unwrap();
    let (value, _) = evaluate(&program, &[Value::Real(2.0), Value::Real(3.0)]).unwrap();
    assert_eq!(value, Value::Real(63.0));
    assert_eq!(program.to_string(), "param x : real\nparam y : real\nlet f = fn z : real. x * z + y in\nf y * f x\n");
}

/// Nested lets, built, printed, parsed and run, and a recursion that is 10^5 deep, on a stack of 2 MiB.
#[test]
fn nothing_recurses() {
    deep(100_000);
}

#[test]
#[ignore = "a GB of memory, half a minute; the command is in CONTRIBUTING.md"]
fn nothing_recurses_on_a_million_levels() {
    deep(1_000_000);
}

fn deep(n: usize) {
    let deep = move || -> Result<()> {
        let mut b = Builder::new();
        let real = b.types().real();
        let x = b.param("x", real);
        let mut vars = vec![x];
        for _ in 0..n {
            vars.push(b.fresh("y", real));
        }
        let last = b.var(vars[n]);
        let mut body = last;
        for k in (1..=n).rev() {
            let value = b.var(vars[k - 1]);
            let value = b.neg(value)?;
            body = b.push(Term::Let(vars[k], value, body))?;
        }
        let program = b.finish(body)?;
        assert_eq!(evaluate(&program, &[Value::Real(2.0)])?.0, Value::Real(2.0));
        let text = program.to_string();
        assert_eq!(parse(&text)?.terms.len(), program.terms.len());

        let mut b = Builder::new();
        let (real, int) = (b.types().real(), b.types().int());
        let (x, n) = (b.param("x", real), b.param("n", int));
        // rec f(k). if k < 1 then 1.0 else f(k - 1) * x
        let f = b.rec("f", "k", (int, real), |b, f, k| {
            let (k0, one) = (b.var(k), b.int(1)?);
            let test = b.prim(Prim::IntCompare(crate::scalar::Comparison::Less), &[k0, one])?;
            b.case(
                test,
                ("s", |b, _| b.real(1.0)),
                ("s", |b, _| {
                    let (f, k, less, x) = (b.var(f), b.var(k), b.int(-1)?, b.var(x));
                    let k = b.prim(Prim::IntAdd, &[k, less])?;
                    let rest = b.apply(f, k)?;
                    b.mul(rest, x)
                }),
            )
        })?;
        let n = b.var(n);
        let body = b.apply(f, n)?;
        let program = b.finish(body)?;
        let value = evaluate(&program, &[Value::Real(1.00001), Value::Int(100_000)])?.0;
        let expected = crate::scalar::Op::Exp.value(&[1.0]);
        assert!((value.as_real()? - expected).abs() < 1e-4);
        Ok(())
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(deep).unwrap();
    thread.join().unwrap().unwrap();
}

#[test]
fn arrays_and_loops() {
    let mut b = Builder::new();
    let real = b.types().real();
    let reals = b.types().array(real);
    let a = b.param("a", reals);
    let (a1, a2, one, a3) = (b.var(a), b.var(a), b.real(1.0).unwrap(), b.var(a));
    let squares = b
        .map(&[a1, a2], |b, xs| {
            let (x, y) = (b.var(xs[0]), b.var(xs[1]));
            b.mul(x, y)
        })
        .unwrap();
    let total = b.prim(Prim::Sum, &[squares]).unwrap();
    let products = b
        .scan(End::Last, one, a3, |b, x, y| {
            let (x, y) = (b.var(x), b.var(y));
            b.mul(x, y)
        })
        .unwrap();
    let (a4, n) = (b.var(a), b.int(3).unwrap());
    let largest = b
        .reduce(None, a4, |b, x, y| {
            let (x, y) = (b.var(x), b.var(y));
            b.op(Op::Max, &[x, y])
        })
        .unwrap();
    let power = b
        .fold(n, total, |b, t, s| {
            let (t, s) = (b.var(t), b.var(s));
            let t = b.prim(Prim::ToReal, &[t])?;
            b.add(s, t)
        })
        .unwrap();
    let body = b.tuple(&[power, products, largest]).unwrap();
    let program = b.finish(body).unwrap();
    let (value, _) = evaluate(&program, &[Value::reals([2.0, 3.0, 4.0])]).unwrap();
    assert_eq!(format!("{value:?}"), "((32.0, [24.0, 12.0, 4.0, 1.0]), 4.0)");
    assert_eq!(
        program.to_string(),
        "param a : [real]\n((fold t < 3, s = sum (map x in a, x_2 in a. x * x_2). s + real t, scanr x_3, y in a from 1.0. x_3 * y), \
         reduce x_4, y_2 in a. max (x_4, y_2))\n"
    );
}

#[test]
fn random_programs_are_well_typed_and_end() {
    let mut kinds = std::collections::BTreeSet::new();
    let mut steps = 0;
    for seed in 0..2000 {
        let mut random = random::Random::new(seed);
        let size = 5 + random.below(60);
        let program = random::random_program(&mut random, &random::Config::all(size)).unwrap();
        let args = random::random_arguments::<f64>(&mut random, &program).unwrap();
        let mut machine = Machine::new(&program).unwrap().with_limit(10_000_000);
        machine.evaluate(&args).unwrap();
        steps += machine.counts().steps;
        for term in program.terms.values() {
            let text = format!("{term:?}");
            kinds.insert(text.split(['(', ' ', '{']).next().unwrap_or("").to_string());
        }
    }
    println!("{steps} steps, {} kinds of terms: {kinds:?}", kinds.len());
    assert_eq!(kinds.len(), 26);
    let config = random::Config { scalars: random::Scalars::Polynomial, ..random::Config::all(60) };
    for seed in 0..500 {
        let mut random = random::Random::new(seed);
        let program = random::random_program(&mut random, &config).unwrap();
        let args = random::random_arguments::<Field>(&mut random, &program).unwrap();
        evaluate(&program, &args).unwrap();
    }
}

/// What is printed is read back as the same program.
fn round_trip(program: &Program) {
    let text = program.to_string();
    let read = parse(&text).unwrap_or_else(|error| panic!("{error:#}\n{text}"));
    assert_eq!(read.to_string(), text);
    assert_eq!(read.terms.len(), program.terms.len());
}

#[test]
fn random_programs_print_and_parse() {
    for seed in 0..1000 {
        let mut random = random::Random::new(seed);
        let program = random::random_program(&mut random, &random::Config::all(60)).unwrap();
        round_trip(&program);
        let read = parse(&program.to_string()).unwrap();
        let args = random::random_arguments::<f64>(&mut random, &program).unwrap();
        let (a, b) = (evaluate(&program, &args).unwrap(), evaluate(&read, &args).unwrap());
        assert_eq!(a.1, b.1);
        assert_eq!(a.0.as_real().unwrap().to_bits(), b.0.as_real().unwrap().to_bits());
    }
}

#[test]
fn literals_and_operators_print_and_parse() {
    let text = "param x : real\nparam k : int\nexternal f : real * int -> real\n\
        let y = x - -2.0 * x / 3.5 + -(1.0e300) + (-0.0 + nan) in let f' = fn x : real. f (x, -k % 3 // 2) in\n\
        if x > y then f' (-1.0) else power[-2] (f' inf) + partial[divide, 1] (x, y) + (fn p : real * real. (*) p) (x, y)";
    let program = parse(text).unwrap();
    let printed = program.to_string();
    assert_eq!(parse(&printed).unwrap().to_string(), printed);
    assert_eq!(
        printed,
        "external f : real * int -> real\nparam x : real\nparam k : int\nlet y = x + -(-2.0 * x / 3.5) + -(1.0e300) + (-0.0 + nan) in\n\
         let f' = fn x_2 : real. f (x_2, -k % 3 // 2) in\n\
         case y < x of {inl u -> f' (-1.0) | inr u_2 -> power[-2] (f' inf) + partial[divide, 1] (x, y) + (fn p : real * real. (*) p) (x, y)}\n"
    );
}

#[test]
fn problems_have_places() {
    for (text, expected) in [
        ("param x : real\nx + y", "line 2, column 5: `y` is not in scope"),
        ("let x = 1.0 on x", "line 1, column 13: `in` is expected, found `on`"),
        (
            "param k : int\nk + 1.0",
            "line 2, column 5: the operand of a primitive operation has to be of type int * int, found int * real",
        ),
        ("fst 2.0", "line 1, column 5: `fst` is of a pair, found real"),
        ("param a : reel\na", "line 1, column 11: `reel` is no type"),
        ("99999999999999999999", "line 1, column 1: `99999999999999999999` is no number of 64 bits"),
        ("1.0 $ 2.0", "line 1, column 5: `$` is no symbol"),
        ("let fold = 1.0 in fold", "line 1, column 5: `fold` is a word of the language"),
        ("scanl x, y in build i < 2. 1.0. x", "line 1, column 33: a scan starts `from` a value"),
        ("(1.0, 2.0", "line 1, column 10: `)` is expected, found the end"),
        ("case 1.0 of {inl x -> x | inr y -> y}", "line 1, column 6: a value of a sum type is needed"),
        ("roll[d] 1.0", "line 1, column 6: `d` is no data type"),
        ("data d = real\ndata d = int\n1.0", "line 2, column 6: the data type `d` is there already"),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!(error.to_string(), expected, "{text}");
    }
}

/// What passes may get wrong.
#[test]
fn the_verifier_refuses() {
    let broken = |change: &dyn Fn(&mut Program)| {
        let mut program = parse("param x : real\nparam k : int\nlet y = x * x in fst (y, k)").unwrap();
        change(&mut program);
        match verify("test", &program) {
            Err(crate::error::Error::Bug { message, .. }) => message,
            other => format!("{other:?}"),
        }
    };
    let find = |program: &Program, wanted: fn(&Term) -> bool| {
        program.terms.iter().find(|(_, term)| wanted(term)).map(|(e, _)| e).unwrap()
    };
    assert_eq!(broken(&|_| {}), "Ok(())");
    assert_eq!(
        broken(&|program| {
            let prim = find(program, |term| matches!(term, Term::Prim(..)));
            program.context.terms[prim] = Term::Unit;
        }),
        "e2 has 0 users"
    );
    assert_eq!(
        broken(&|program| {
            let fst = find(program, |term| matches!(term, Term::Fst(_)));
            program.context.terms[fst] = Term::Fst(fst);
        }),
        "e7 comes before an operand"
    );
    assert_eq!(
        broken(&|program| {
            program.params.pop();
        }),
        "e5 mentions %1, which is not in scope"
    );
    assert_eq!(
        broken(&|program| {
            let first = program.params[0];
            program.params.push(first);
        }),
        "%0 is bound twice, or no variable"
    );
    assert_eq!(
        broken(&|program| {
            let fst = find(program, |term| matches!(term, Term::Fst(_)));
            let Term::Fst(pair) = program.terms[fst] else { unreachable!() };
            program.context.terms[fst] = Term::Snd(pair);
        }),
        "e7 is of type int, not real"
    );
    let mut b = Builder::new();
    let (real, nil) = (b.types().linear_real(), b.types().intern(Type::NoCells));
    let cells = b.types().intern(Type::Cells(nil, real));
    let d = b.param("d", real);
    let d = b.var(d);
    let add = b.push(Term::Linear(Linear::Add(1, cells, d))).unwrap();
    let message = b.finish(add).unwrap_err().to_string();
    assert!(message.contains("e1 is of the cell 1 of {~real}"), "{message}");
}

#[test]
fn evaluation_ends_with_typed_errors() {
    use crate::error::Error;
    let run = |text: &str| {
        let program = parse(text).unwrap();
        let mut machine = Machine::<f64>::new(&program).unwrap().with_limit(100_000);
        machine.evaluate(&[]).unwrap_err()
    };
    assert!(matches!(run("(build i < 3. 1.0) ! 3"), Error::Data { .. }));
    assert!(matches!(run("(build i < 3. 1.0) ! -1"), Error::Data { .. }));
    assert!(matches!(run("reduce x, y in build i < 0. 1.0. x"), Error::Data { .. }));
    assert!(matches!(run("map x in build i < 2. 1.0, y in build i < 3. 1.0. x"), Error::Data { .. }));
    assert!(matches!(run("drop_first (build i < 0. 1.0)"), Error::Data { .. }));
    assert!(matches!(run("1 % 0"), Error::Data { .. }));
    assert!(matches!(run("9223372036854775807 + 1"), Error::Overflow));
    assert!(matches!(run("iterate s = 0.0 while s < 1.0. s"), Error::Limit { .. }));
    assert!(matches!(run("(rec f(k : int) : real. f k) 1"), Error::Limit { .. }));
    assert!(matches!(run("external f : real -> real\nf 1.0"), Error::Request(_)));
    let program = parse("1.0 < 2.0").unwrap();
    assert!(matches!(evaluate::<Field>(&program, &[]), Err(Error::Limitation { .. })));
}

/// Functions from outside, with values of their own.
#[test]
fn externals_are_called() {
    let program =
        parse("external make : int -> opaque counter\nexternal read : opaque counter -> real\nread (make 3) * 2.0")
            .unwrap();
    let mut machine = Machine::new(&program).unwrap().with_host(|f, arg| match f.0 {
        0 => Ok(Value::opaque(arg.as_int()? as f64)),
        _ => Ok(Value::Real(*arg.as_opaque::<f64>()?)),
    });
    assert_eq!(machine.evaluate(&[]).unwrap(), Value::Real(6.0));
}

/// Names that are no words, or words of the language, are printed as others.
#[test]
fn names_can_be_read_back() {
    for name in ["", "2x", "a b", "let", "sin", "lfst", "x'"] {
        let mut b = Builder::new();
        let real = b.types().real();
        let (x, y) = (b.param(name, real), b.param(name, real));
        let (x, y) = (b.var(x), b.var(y));
        let body = b.add(x, y).unwrap();
        round_trip(&b.finish(body).unwrap());
    }
}
