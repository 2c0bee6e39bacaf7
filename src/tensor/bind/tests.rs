use super::*;
use crate::base::Id;
use crate::tensor::{Coo, Csc, Csr, Dense};
use crate::ty::{Format, Param, Types};

/// A signature from short declarations: `x : n+m-1, k` is dense, `A : csr m, n`, `T : coo p, q, r`, `s :` a scalar,
/// `E : rel n, n`, `cam : map p, c`. A size is a sum such as `2*n-m+3`; variables are numbered as they occur.
fn signature(declarations: &[&str]) -> Signature {
    let mut signature = Signature::default();
    for declaration in declarations {
        let (name, rest) = declaration.split_once(':').unwrap();
        let (name, rest) = (name.trim().to_string(), rest.trim());
        let (kind, axes) = match rest.split_once(' ') {
            Some((kind @ ("csr" | "csc" | "coo" | "rel" | "map"), axes)) => (kind, axes),
            _ => ("dense", rest),
        };
        let axes = axes.split(',').filter(|a| !a.trim().is_empty());
        let dims: Vec<Size> = axes.map(|axis| size(&mut signature, axis)).collect();
        if let "rel" | "map" = kind {
            let kind = if kind == "rel" { RelationKind::Free } else { RelationKind::Map };
            signature.relations.push(crate::ty::Relation { name, shape: dims, kind });
            continue;
        }
        let ty = signature.types.tensor_of(&dims, Types::REAL);
        let id = ParamId::from_index(signature.params.len());
        let mut pattern = || {
            let kind = RelationKind::Pattern(id);
            signature.relations.push(crate::ty::Relation { name: format!("{name}?"), shape: dims.clone(), kind })
        };
        let storage = match kind {
            "csr" => Storage::Sparse(Format::Csr, pattern()),
            "csc" => Storage::Sparse(Format::Csc, pattern()),
            "coo" => Storage::Sparse(Format::Coo, pattern()),
            _ => Storage::Dense,
        };
        signature.params.push(Param { name, ty, storage });
    }
    signature
}

fn size(signature: &mut Signature, text: &str) -> Size {
    let text = text.replace(' ', "").replace('-', "+-");
    let mut sum = Size::constant(0);
    for term in text.split('+').filter(|t| !t.is_empty()) {
        let (sign, term) = term.strip_prefix('-').map_or((1, term), |t| (-1, t));
        let (k, v) = term.split_once('*').unwrap_or(("1", term));
        let term = match v.parse::<i64>() {
            Ok(constant) => Size::constant(constant),
            Err(_) => {
                let known = signature.sizes.iter().find(|(_, name)| *name == v).map(|(n, _)| n);
                Size::size(known.unwrap_or_else(|| signature.sizes.push(v.to_string())))
            }
        };
        sum = sum.add(&term.scale(sign * k.parse::<i64>().unwrap()).unwrap()).unwrap();
    }
    sum
}

fn zeros(shape: &[usize]) -> Value {
    Value::from(Dense::zeros(shape).unwrap())
}

/// Binds dense parameters of the given shapes and gives the sizes that were said; the sizes or the error as text.
fn solve(declarations: &[&str], shapes: &[&[usize]], given: &[(&str, i64)]) -> String {
    let signature = signature(declarations);
    let mut inputs = Inputs::new();
    for (param, shape) in signature.params.values().zip(shapes) {
        inputs.value(&param.name, zeros(shape));
    }
    for (name, n) in given {
        inputs.size(*name, *n);
    }
    match bind(&signature, &inputs) {
        Ok(bindings) => {
            let sizes = signature.sizes.values().zip(bindings.sizes().values());
            sizes.map(|(name, n)| format!("{name}={n}")).collect::<Vec<_>>().join(" ")
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn bind_solves_for_sizes() {
    type Case = (&'static [&'static str], &'static [&'static [usize]], &'static [(&'static str, i64)], &'static str);
    let table: &[Case] = &[
        (&["s :"], &[&[]], &[], ""),
        (&["x : n"], &[&[5]], &[], "n=5"),
        (&["x : n", "y : n"], &[&[5], &[5]], &[], "n=5"),
        (&["x : n+m-1", "w : m"], &[&[9], &[4]], &[], "n=6 m=4"),
        (&["w : m", "x : n+m-1"], &[&[4], &[9]], &[], "m=4 n=6"),
        (&["x : 2*n+1"], &[&[7]], &[], "n=3"),
        (&["x : 10-n"], &[&[7]], &[], "n=3"),
        (&["x : 10-n, n"], &[&[0, 12]], &[], "n=12"),
        (&["x : 3"], &[&[3]], &[], ""),
        (&["x : n-m", "y : n"], &[&[0], &[3]], &[("m", 7)], "n=3 m=7"),
        // Two equations with two unknowns each.
        (&["x : n+m", "y : n-m"], &[&[9], &[3]], &[], "n=6 m=3"),
        (&["x : 2*n+3*m, 3*n+2*m"], &[&[13, 12]], &[], "n=2 m=3"),
        (&["x : a+b", "y : b+c", "z : a+c"], &[&[3], &[5], &[4]], &[], "a=1 b=2 c=3"),
        (&["x : a+b+c, a+b, d+a, d+b+c"], &[&[6, 3, 5, 9]], &[], "a=1 b=2 c=3 d=4"),
        // A dependent third equation.
        (&["x : n+m, n-m, 2*n"], &[&[9, 3, 12]], &[], "n=6 m=3"),
        // An elimination that determines one variable, which a chain then needs.
        (&["x : a+b, a+2*b, a+c"], &[&[5, 7, 10]], &[], "a=3 b=2 c=7"),
        // Length 0 determines what cannot be otherwise.
        (&["x : n"], &[&[0]], &[], "n=0"),
        (&["x : 3*n"], &[&[0]], &[], "n=0"),
        (&["x : n+m"], &[&[0]], &[], "n=0 m=0"),
        (&["x : n+m-1", "w : m"], &[&[0], &[1]], &[], "n=0 m=1"),
        (&["x : 2*n-1"], &[&[0]], &[], "n=0"),
        (&["x : n-1"], &[&[0]], &[("n", 1)], "n=1"),
        (&["x : n-1"], &[&[0]], &[("n", 0)], "n=0"),
        (&["x : n, m"], &[&[0, 1 << 40]], &[], "n=0 m=1099511627776"),
        (&["x : n"], &[&[5]], &[("n", 5)], "n=5"),
        // Errors.
        (&["x : n"], &[&[5]], &[("n", 4)], "x: axis 0 has length 5, but n is 4: n = 4 was given"),
        (
            &["x : n", "y : n"],
            &[&[5], &[6]],
            &[],
            "y: axis 0 has length 6, but n is 5: n = 5 because axis 0 of `x` has length 5",
        ),
        (
            &["x : n, n+1"],
            &[&[5, 7]],
            &[],
            "x: axis 1 has length 7, but n + 1 is 6: n = 5 because axis 0 of `x` has length 5",
        ),
        (&["x : 3"], &[&[4]], &[], "x: axis 0 has length 4, but 3 is 3"),
        (&["x : 3"], &[&[0]], &[], "x: axis 0 has length 0, but 3 is 3"),
        (&["x : -3"], &[&[1]], &[], "x: axis 0 has length 1, but -3 is 0"),
        (&["x : n+1"], &[&[0]], &[], "x: axis 0 has length 0, but n + 1 is at least 1"),
        (
            &["x : n+m", "y : n+m"],
            &[&[5], &[6]],
            &[],
            "y: these contradict each other: axis 0 of `x` has length 5 and axis 0 of `y` has length 6",
        ),
        (&["x : n+m"], &[&[5]], &[], "n: the sizes `n`, `m` do not follow from the shapes of the inputs; give them"),
        (&["x : n-1"], &[&[0]], &[], "n: this size does not follow from the shapes of the inputs; give it"),
        (&["x : n-m, m"], &[&[0, 3]], &[], "n: this size does not follow"),
        (&["x : 2*n"], &[&[5]], &[], "n: this size would be 5/2, not an integer: axis 0 of `x` has length 5"),
        (
            &["x : n+m, n-m"],
            &[&[4, 3]],
            &[],
            "n: this size would be 7/2, not an integer: axis 0 of `x` has length 4 and axis 1",
        ),
        (&["x : 2-2*n"], &[&[5]], &[], "n: this size would be -3/2, not an integer"),
        (&["x : n+2"], &[&[1]], &[], "n: this size would be -1, but a size is not negative: axis 0 of `x`"),
        (&["x : n+m, n"], &[&[4, 6]], &[], "m: this size would be -2"),
        (&["x : n"], &[&[5]], &[("n", -1)], "n: a size is not negative, found -1"),
        (&["x : n, m"], &[&[5]], &[], "x: expected a tensor of the shape [n, m], found a tensor of the shape [5]"),
        (&["s :"], &[&[1]], &[], "s: expected a number, found a tensor of the shape [1]"),
        (&["x : n"], &[], &[], "x: this parameter is missing; it takes x : [n] real, size n"),
    ];
    for (declarations, shapes, given, expected) in table {
        let found = solve(declarations, shapes, given);
        let matches = if expected.contains(':') { found.starts_with(expected) } else { found == *expected };
        assert!(matches, "{declarations:?} {shapes:?} {given:?}\n  expected {expected}\n  found    {found}");
    }
}

#[test]
fn bind_random_systems_of_sizes() {
    let mut rng = fastrand::Rng::with_seed(11);
    let mut solved = 0;
    for _ in 0..500 {
        let count = rng.usize(1..5);
        let sizes: Vec<i64> = (0..count).map(|_| rng.i64(0..6)).collect();
        let mut signature = Signature::default();
        for k in 0..count {
            signature.sizes.push(format!("n{k}"));
        }
        let mut inputs = Inputs::new();
        for k in 0..count + 1 {
            let terms = (0..count).map(|n| (Var::Size(SizeId::from_index(n)), rng.i64(-2..4)));
            let formula = Size::from_terms(terms.collect::<Vec<_>>(), rng.i64(-3..4)).unwrap();
            let length = evaluate(&formula, &|n| sizes.get(n.index()).copied()).unwrap().max(0);
            let ty = signature.types.tensor_of(&[formula], Types::REAL);
            let name = format!("x{k}");
            inputs.value(&name, zeros(&[length as usize]));
            signature.params.push(Param { name, ty, storage: Storage::Dense });
        }
        match bind(&signature, &inputs) {
            Ok(bindings) => {
                assert_eq!(bindings.sizes().values().copied().collect::<Vec<_>>(), sizes);
                solved += 1;
            }
            Err(error) => assert!(error.to_string().contains("not follow from the shapes"), "{error}"),
        }
    }
    assert!(solved > 250, "{solved}");
}

/// The error of inputs that `change` spoils.
fn error_of(signature: &Signature, inputs: &Inputs, change: impl FnOnce(&mut Inputs)) -> String {
    let mut inputs = inputs.clone();
    change(&mut inputs);
    bind(signature, &inputs).unwrap_err().to_string()
}

#[test]
fn bind_checks_formats_relations_and_names() {
    let signature = signature(&[
        "x : n",
        "A : csr m, n",
        "C : csc m, n",
        "T : coo n, n, n",
        "E : rel n, n",
        "cam : map m, c",
        "y : c",
    ]);
    let csr = Csr::new(2, 3, vec![0, 1, 2], vec![2, 0], vec![1.0, 0.0]).unwrap();
    let coo = Coo::new(vec![3; 3], vec![vec![0, 2], vec![1, 1], vec![0, 0]], vec![1.0, 2.0]).unwrap();
    let mut inputs = Inputs::new();
    let csc = Csc::from_csr(&csr).unwrap();
    inputs
        .value("x", zeros(&[3]))
        .value("A", csr.clone())
        .value("C", csc.clone())
        .value("T", coo.clone())
        .value("y", zeros(&[4]));
    inputs.relation("E", Relation::from_tuples(&[3, 3], &[[1, 2]]).unwrap());
    inputs.relation("cam", Relation::from_map(&[2], vec![3, 3], 4).unwrap());
    let bindings = bind(&signature, &inputs).unwrap();
    assert_eq!(bindings.sizes().values().copied().collect::<Vec<_>>(), [3, 2, 4]);
    let names = signature.relations.values().map(|r| r.name.as_str()).collect::<Vec<_>>();
    let counts = bindings.relations().values().map(|r| r.len()).collect::<Vec<_>>();
    assert_eq!((names, counts), (vec!["A?", "C?", "T?", "E", "cam"], vec![2, 2, 2, 1, 2]));
    // Nothing is copied.
    assert!(Arc::ptr_eq(&bindings.relations()[RelationId(0)], csr.pattern().relation()));
    assert!(Arc::ptr_eq(&bindings.relations()[RelationId(1)], csc.pattern().relation()));
    assert!(Arc::ptr_eq(&bindings.relations()[RelationId(2)], coo.pattern()));
    assert_eq!(bindings.length(&Size::size(SizeId(2)).scale(-1).unwrap()), Ok(0));
    assert_eq!(bindings.evaluate(&Size::size(SizeId(2)).scale(-1).unwrap()), Ok(-4));

    let relation = |shape: &[usize], tuples: &[Vec<usize>]| Relation::from_tuples(shape, tuples).unwrap();
    type Change<'a> = Box<dyn FnOnce(&mut Inputs) + 'a>;
    let table: Vec<(Change<'_>, &str)> = vec![
        (
            Box::new(|i| {
                i.value("A", zeros(&[2, 3]));
            }),
            "A: expected a csr tensor, found a dense one; convert it with `Csr::from_dense`",
        ),
        (
            Box::new(|i| {
                i.value("A", Coo::from(&csr));
            }),
            "A: expected a csr tensor, found a coo one; convert it with `Csr::from_coo`",
        ),
        (
            Box::new(|i| {
                i.value("A", csc.clone());
            }),
            "A: expected a csr tensor, found a csc one; convert it with `Csr::from_csc`",
        ),
        (
            Box::new(|i| {
                i.value("C", csr.clone());
            }),
            "C: expected a csc tensor, found a csr one; convert it with `Csc::from_csr`",
        ),
        (
            Box::new(|i| {
                i.value("C", Coo::from(&csr));
            }),
            "C: expected a csc tensor, found a coo one; convert it with `Csc::from_coo`",
        ),
        (
            Box::new(|i| {
                i.value("C", zeros(&[2, 3]));
            }),
            "C: expected a csc tensor, found a dense one; convert it with `Csc::from_dense`",
        ),
        (
            Box::new(|i| {
                i.value("T", zeros(&[3, 3, 3]));
            }),
            "T: expected a coo tensor, found a dense one; convert it with `Coo::from_dense`",
        ),
        (
            Box::new(|i| {
                i.value("T", csr.clone());
            }),
            "T: expected a coo tensor, found a csr one; convert it with `Coo::from`",
        ),
        (
            Box::new(|i| {
                i.value("x", csr.clone());
            }),
            "x: expected a dense tensor, found a csr one; convert it with `to_dense`",
        ),
        (
            Box::new(|i| {
                i.value("x", Value::pair(Value::scalar(1.0), Value::scalar(2.0)));
            }),
            "x: this has 1 component, a value with 2 was given",
        ),
        (
            Box::new(|i| {
                i.value("E", zeros(&[3, 3]));
            }),
            "E: it is a relation, which is given by its tuples",
        ),
        (
            Box::new(|i| {
                i.relation("A?", relation(&[2, 3], &[]));
            }),
            "A?: this is the pattern of a sparse parameter, which brings it along",
        ),
        (
            Box::new(|i| {
                i.relations.remove("E");
            }),
            "E: this relation is missing; it takes x",
        ),
        (
            Box::new(|i| {
                i.values.remove("x");
                i.relation("x", relation(&[3], &[]));
            }),
            "x: it is a parameter, but a relation was given",
        ),
        (
            Box::new(|i| {
                i.relation("E", relation(&[3, 4], &[]));
            }),
            "E: axis 1 has length 4, but n is 3: n = 3 because axis 0 of `x` has length 3",
        ),
        (
            Box::new(|i| {
                i.relation("E", relation(&[3], &[]));
            }),
            "E: expected a tensor of the shape [n, n], found",
        ),
        (
            Box::new(|i| {
                i.relation("cam", relation(&[2, 4], &[vec![0, 1]]));
            }),
            "cam: the map has no target for the source [1]",
        ),
        (
            Box::new(|i| {
                i.relation("cam", relation(&[2, 4], &[vec![0, 1], vec![1, 1], vec![1, 3]]));
            }),
            "cam: the map has two targets, 1 and 3, for the source [1]",
        ),
    ];
    for (change, expected) in table {
        let found = error_of(&signature, &inputs, change);
        assert!(found.starts_with(expected), "expected {expected}\nfound    {found}");
    }
}

#[test]
fn bind_finds_out_how_many_targets_a_map_may_have() {
    let signature = signature(&["x : n", "to : map p, n", "at : map p, q, 4", "E : rel n, n"]);
    let mut inputs = Inputs::new();
    inputs.value("x", zeros(&[3])).relation("E", Relation::from_tuples(&[3, 3], &[[0, 1]]).unwrap());
    inputs.map("to", &[2], vec![2, 0]).map("at", &[2, 1], vec![3, 3]);
    let first = bind(&signature, &inputs).unwrap();
    let relations: Vec<&Arc<Relation>> = first.relations().values().collect();
    assert_eq!(**relations[0], Relation::from_map(&[2], vec![2, 0], 3).unwrap());
    assert_eq!(**relations[1], Relation::from_map(&[2, 1], vec![3, 3], 4).unwrap());
    let again = bind(&signature, &inputs.clone()).unwrap();
    assert!(first.relations().values().zip(again.relations().values()).all(|(a, b)| Arc::ptr_eq(a, b)));
    // Other inputs may share the targets and have other sizes.
    let mut longer = inputs.clone();
    longer.value("x", zeros(&[5])).relation("E", Relation::from_tuples(&[5, 5], &[[0, 1]]).unwrap());
    assert_eq!(bind(&signature, &longer).unwrap().relations()[RelationId::from_index(0)].shape(), [2, 5]);

    let error = |change: fn(&mut Inputs)| error_of(&signature, &inputs, change);
    let texts = [
        error(|inputs| _ = inputs.map("to", &[2], vec![3, 0])),
        error(|inputs| _ = inputs.map("to", &[2], vec![0])),
        error(|inputs| _ = inputs.map("to", &[3], vec![0, 1, 2])),
        error(|inputs| _ = inputs.map("to", &[1, 2], vec![0, 1])),
        error(|inputs| _ = inputs.map("E", &[2], vec![0, 1])),
    ];
    let starts = [
        "to: the target 0 of this map is 3, and its targets are below 3",
        "to: ",
        "at: axis 0 has length 2, but p is 3",
        "to: expected a tensor of the shape [p], found a tensor of the shape [1, 2]",
        "E: this is a relation, and not a map",
    ];
    texts.iter().zip(starts).for_each(|(text, start)| assert!(text.starts_with(start), "{text}"));
    let unknown = inputs.clone().map("F", &[2], vec![0, 1]).check_names(&signature).unwrap_err().to_string();
    assert!(unknown.starts_with("F: the program has no such relation"), "{unknown}");
    // The last that is given counts.
    inputs.relation("to", Relation::from_map(&[2], vec![1, 1], 3).unwrap());
    assert_eq!(bind(&signature, &inputs).unwrap().relations()[RelationId::from_index(0)].column(1), [1, 1]);
    inputs.map("to", &[2], vec![2, 2]);
    assert_eq!(bind(&signature, &inputs).unwrap().relations()[RelationId::from_index(0)].column(1), [2, 2]);
}

#[test]
fn bind_takes_pairs_whole_or_by_component() {
    let mut signature = signature(&["s : n, m"]);
    let types = &mut signature.types;
    let inner = types.pair(Types::REAL, Types::REAL);
    let three = types.tensor(Size::constant(3), Types::REAL);
    let outer = types.pair(three, inner);
    let ty = types.tensor(Size::size(SizeId(0)), outer);
    signature.params.push(Param { name: "ab".to_string(), ty, storage: Storage::Dense });
    let parts = [zeros(&[2, 3]), zeros(&[2]), Value::vector(vec![1.0, 2.0])];
    let [a, b, c] = &parts;
    let mut base = Inputs::new();
    base.value("s", zeros(&[2, 5]));
    let bind_with = |values: &[(&str, &Value)]| {
        let mut inputs = base.clone();
        for (name, value) in values {
            inputs.value(*name, (*value).clone());
        }
        bind(&signature, &inputs)
    };
    let whole = Value::pair(a.clone(), Value::pair(b.clone(), c.clone()));
    let snd = Value::pair(b.clone(), c.clone());
    for values in [&[("ab", &whole)][..], &[("ab.0", a), ("ab.1", &snd)], &[("ab.0", a), ("ab.1.0", b), ("ab.1.1", c)]]
    {
        assert_eq!(bind_with(values).unwrap().values()[ParamId(1)], whole);
    }
    let table: &[(&[(&str, &Value)], &str)] = &[
        (&[("ab.0", a), ("ab.1.0", b)], "ab.1.1: this parameter is missing; it takes s : [n, m] real, ab.0 : [n, 3] "),
        (&[("ab", &whole), ("ab.0", a)], "ab.0: this is given twice, here and as a part of `ab`"),
        (&[("ab.0", a), ("ab.1", b)], "ab.1: this has 2 components, a value with 1 was given"),
        (&[("ab", &whole), ("ab.2", a)], "ab.2: the program has no such parameter"),
        (&[("ab.0", a), ("ab.1.0", b), ("ab.1.1", a)], "ab.1.1: expected a tensor of the shape [n], found"),
        (&[("ab.0", b), ("ab.1", &snd)], "ab.0: expected a tensor of the shape [n, 3], found"),
    ];
    for (values, expected) in table {
        let found = bind_with(values).unwrap_err().to_string();
        assert!(found.starts_with(expected), "expected {expected}\nfound    {found}");
    }
}

#[test]
fn bind_checks_assumptions() {
    let mut signature = signature(&["x : n", "y : m", "E : rel n"]);
    let (n, m) = (Size::size(SizeId(0)), Size::size(SizeId(1)));
    let mut inputs = Inputs::new();
    inputs.value("x", zeros(&[1])).value("y", zeros(&[4]));
    inputs.relation("E", Relation::from_tuples(&[1], &[[0]]).unwrap());
    let last = Pred::relation(RelationRef::Input(RelationId(0)), vec![n.add_constant(-1).unwrap()]);
    let table = [
        (Pred::le(&Size::constant(1), &n).unwrap(), ""),
        (Pred::le(&Size::constant(2), &n).unwrap(), "assume n >= 2: this does not hold: n = 1"),
        (Pred::lt(&m, &n.scale(4).unwrap()).unwrap(), "assume 4*n >= m + 1: this does not hold: n = 1, m = 4"),
        (Pred::equal(&n, &m).unwrap(), "assume n = m: this does not hold: n = 1, m = 4"),
        (Pred::unequal(&n, &Size::constant(1)).unwrap(), "assume n != 1: this does not hold: n = 1"),
        (Pred::equal(&n, &m).unwrap().or(Pred::le(&n, &m).unwrap()), ""),
        (Pred::unequal(&n, &m).unwrap().and(Pred::le(&n, &m).unwrap()), ""),
        (
            Pred::equal(&n, &m).unwrap().or(Pred::le(&m, &n).unwrap()),
            "assume n >= m or n = m: this does not hold: n = 1, m = 4",
        ),
        (Pred::False, "assume false: this does not hold: it is false for all sizes"),
        (last.clone(), ""),
        (last.negate().unwrap(), "assume not E(n - 1): this does not hold: n = 1"),
        (
            Pred::relation(RelationRef::Input(RelationId(0)), vec![Size::index(crate::base::IndexId(0))]),
            "not supported yet: the assumption `E(i0)`, which is not about sizes",
        ),
    ];
    for (assumption, expected) in table {
        signature.assumptions = vec![assumption];
        let found = bind(&signature, &inputs).map_or_else(|e| e.to_string(), |_| String::new());
        assert_eq!(found, expected);
    }
}

#[test]
fn bind_solves_long_chains_quickly() {
    // n0 is known, and each axis n{k} + n{k+1} gives the next.
    let count = 3000;
    let mut signature = Signature::default();
    let sizes: Vec<SizeId> = (0..count).map(|k| signature.sizes.push(format!("n{k}"))).collect();
    let mut inputs = Inputs::new();
    for k in (1..count).rev() {
        let formula = Size::size(sizes[k - 1]).add(&Size::size(sizes[k])).unwrap();
        let ty = signature.types.tensor_of(&[formula], Types::REAL);
        signature.params.push(Param { name: format!("x{k}"), ty, storage: Storage::Dense });
        inputs.value(format!("x{k}"), zeros(&[3]));
    }
    inputs.size("n0", 1);
    let bindings = bind(&signature, &inputs).unwrap();
    assert!(bindings.sizes().iter().all(|(n, &size)| size == 1 + i64::from(n.0 % 2)));
}
