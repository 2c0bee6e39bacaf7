//! What the verifier refuses, and how nests print.

use std::sync::Arc;

use super::*;
use crate::base::{Arena, IndexId, ParamId, RelationId, SizeId};
use crate::index::{Affine, Size};
use crate::ty::{Param, Precision, Relation, RelationKind, Signature, Storage, Types};

const I: IndexId = IndexId(0);
const J: IndexId = IndexId(1);
const X: BufferId = BufferId(0);
const Y: BufferId = BufferId(1);

fn n() -> Size {
    Affine::size(SizeId(0))
}

fn at(buffer: BufferId, i: IndexId) -> Place {
    Place { buffer, at: vec![i.into()] }
}

fn each(index: IndexId, lanes: u32, body: Vec<Stmt>) -> Stmt {
    Stmt::For { index, domain: Domain::whole(&n()).unwrap(), lanes, jam: 1, parallel: false, body }
}

fn load(r: u32, i: IndexId) -> Stmt {
    Stmt::Define(RealId(r), Real::Load(at(X, i)))
}

/// A parameter `x : [n]`, a result `y : [n]` with this nest, and the rows of a relation `E : [n, n]`.
fn program(body: Vec<Stmt>) -> Program {
    let mut signature = Signature::default();
    signature.sizes.push("n".to_owned());
    let ty = signature.types.tensor(n(), Types::REAL);
    signature.params.push(Param { name: "x".to_owned(), ty, storage: Storage::Dense });
    signature.relations.push(Relation { name: "E".to_owned(), shape: vec![n(), n()], kind: RelationKind::Free });
    let array = |part| Array { relation: RelationId(0), axes: vec![0, 1], part };
    let buffer = |name: &str, kind| Buffer { kind, ..Buffer::workspace(name.to_owned(), None, vec![n()]) };
    let buffers = [buffer("x", BufferKind::Param(ParamId(0), 0)), buffer("y", BufferKind::Output(0, 0))];
    Program {
        signature: Arc::new(signature),
        arrays: [Part::Rows, Part::Nodes(1), Part::Starts].into_iter().map(array).collect(),
        buffers: buffers.into_iter().collect::<Arena<_, _>>(),
        nests: vec![Nest { buffers: vec![Y], decisions: Vec::new(), body }],
        outputs: vec![("y".to_owned(), vec![Y])],
        rounded: Vec::new(),
        limits: Vec::new(),
        bins: Default::default(),
    }
}

fn rows(at: Affine) -> Domain {
    Domain::Segment(Segment { pointers: ArrayId(0), at })
}

/// `y[i] = sum of x[j] over the row i of E`.
fn row_sums() -> Vec<Stmt> {
    let node = IndexId(2);
    let inner = Stmt::For {
        index: node,
        domain: rows(I.into()),
        lanes: 4,
        jam: 1,
        parallel: false,
        body: vec![
            Stmt::Let { index: J, array: ArrayId(1), at: node.into(), step: None },
            load(1, J),
            Stmt::Accumulate(RealId(0), RealId(1)),
        ],
    };
    vec![each(I, 1, vec![Stmt::Local(RealId(0)), inner, Stmt::Store(at(Y, I), RealId(0))])]
}

#[test]
fn nests_print() {
    let program = program(row_sums());
    assert_eq!(program.verify(), Ok(()));
    let expected = "y[n]:\n  for i0 in 0 .. n - 1\n    local r0\n    for i2 in rows E(0, 1) at i0, lanes 4\n      \
        i1 = nodes 1 E(0, 1)[i2]\n      r1 = x[i1]\n      r0 += r1\n    y[i0] = r0\nout y = y\n";
    assert_eq!(program.to_string(), expected);
    let read = parse(expected, &program.signature).unwrap();
    assert_eq!(read, program.canonical());
    // As the text mentions them: the output before the parameter.
    let names: Vec<&str> = read.buffers.values().map(|buffer| buffer.name.as_str()).collect();
    assert_eq!((names, read.arrays.len()), (vec!["y", "x"], 2));
}

#[test]
fn wrong_nests_are_refused() {
    let store = Stmt::Store(at(Y, I), RealId(0));
    let parallel_sum = Stmt::For {
        index: I,
        domain: Domain::whole(&n()).unwrap(),
        lanes: 1,
        jam: 1,
        parallel: true,
        body: vec![load(1, I), Stmt::Accumulate(RealId(0), RealId(1))],
    };
    let table: Vec<(Vec<Stmt>, &str)> = vec![
        (vec![each(I, 1, vec![store.clone()])], "y: r0 is not defined here"),
        (vec![load(0, I)], "y: i0 is not defined here"),
        (vec![each(I, 1, vec![load(0, I), load(0, I)])], "y: an index or a register is defined twice"),
        (vec![each(I, 1, vec![each(I, 1, vec![])])], "y: an index or a register is defined twice"),
        (vec![Stmt::Local(RealId(0)), parallel_sum], "y: r0 is no local of this iteration"),
        (vec![each(I, 1, vec![load(0, I), Stmt::Store(at(X, I), RealId(0))])], "y: it writes b0"),
        (vec![each(I, 1, vec![Stmt::Define(RealId(0), Real::Load(at(Y, I)))])], "y: y is read before it is written"),
        (vec![each(I, 3, vec![])], "y: 3 lanes"),
        (vec![each(I, 128, vec![])], "y: 128 lanes"),
        (vec![each(I, 4, vec![each(J, 4, vec![])])], "y: lanes inside of lanes"),
        (
            vec![each(
                I,
                4,
                vec![Stmt::For { index: J, domain: rows(I.into()), lanes: 1, jam: 1, parallel: false, body: vec![] }],
            )],
            "y: a loop, a test or a search differs from lane to lane",
        ),
        (
            vec![each(I, 4, vec![load(0, I), Stmt::If { cond: Cond::Support(RealId(0)), body: vec![] }])],
            "y: a test of r0 differs from lane to lane",
        ),
        (
            vec![Stmt::Define(RealId(0), Real::Load(Place { buffer: X, at: vec![] }))],
            "y: x is read or written at 0 indices",
        ),
        (
            vec![Stmt::Find {
                index: I,
                segment: Segment { pointers: ArrayId(1), at: 0.into() },
                key: None,
                how: Search::Halving,
            }],
            "y: the array s1 does not serve here",
        ),
        (vec![Stmt::Define(RealId(0), Real::Index(Affine::size(SizeId(7))))], "y: the size n7 is unknown"),
        (
            vec![each(I, 1, vec![Stmt::Let { index: J, array: ArrayId(2), at: I.into(), step: None }, load(0, J)])],
            "y: where a row starts in a matrix is used for something else",
        ),
        (
            vec![Stmt::Let { index: J, array: ArrayId(1), at: 0.into(), step: Some(3) }],
            "y: i1 has a step, and no loop over a range is over its place",
        ),
    ];
    for (body, expected) in table {
        let complaints = program(body).verify().expect_err(expected);
        assert!(complaints.iter().any(|c| c == expected), "{expected}: {complaints:?}");
    }
    let mut parts = program(row_sums());
    let part = Buffer { name: "z".to_owned(), dims: vec![], ..parts.buffers[Y].clone() };
    parts.buffers.push(part);
    assert_eq!(parts.verify(), Err(vec!["y and z are one output".to_owned()]));
    let mut unwritten = program(row_sums());
    unwritten.nests.clear();
    assert_eq!(unwritten.verify(), Err(vec!["output y: no nest writes it".to_owned()]));
}

/// Which searches go on where the last one ended: for keys that increase, in a segment that stays.
#[test]
fn searches_that_go_on() {
    let search = |at: Affine, key: Affine| Stmt::Find {
        index: IndexId(3),
        segment: Segment { pointers: ArrayId(0), at },
        key: Some((ArrayId(1), key)),
        how: Search::Onwards,
    };
    // for I. for J in domain. k = the coordinate of J, perhaps in a test; the search
    let nest = |domain: Domain, search: Stmt| {
        let coordinate = Stmt::Let { index: IndexId(2), array: ArrayId(1), at: J.into(), step: None };
        let test = Stmt::If { cond: Cond::NonNegative(J.into()), body: vec![search] };
        let inner = Stmt::For { index: J, domain, lanes: 1, jam: 1, parallel: false, body: vec![coordinate, test] };
        program(vec![each(I, 1, vec![inner])]).verify().err().unwrap_or_default().join(", ")
    };
    let (range, row) = (|| Domain::whole(&n()).unwrap(), || rows(I.into()));
    let (i, j, k): (Affine, Affine, Affine) = (I.into(), J.into(), IndexId(2).into());
    let less = n().sub(&k).unwrap();
    let refused = "i3 cannot be searched for onwards";
    for (domain, at, key, goes_on) in [
        (row(), i.clone(), k.clone(), true),
        (row(), i.clone(), k.add(&i).unwrap(), true),
        (range(), i.clone(), j.clone(), true),
        // Coordinates increase along a row only, nodes along any; and not all that depends on them does.
        (range(), i.clone(), k.clone(), false),
        (row(), i.clone(), less, false),
        (row(), i.clone(), k.add(&j).unwrap(), false),
        (row(), i.clone(), i.clone(), false),
        (row(), k.clone(), k.clone(), false),
        (row(), j.clone(), k.clone(), false),
    ] {
        let found = nest(domain, search(at.clone(), key.clone()));
        assert_eq!(found.contains(refused), !goes_on, "{at:?} {key:?}: {found}");
    }
}

/// A result in single precision is read by no nest, a workspace is in double precision, and what is rounded was computed.
#[test]
fn wrong_precisions_are_refused() {
    let reads = || {
        let again = Stmt::Define(RealId(1), Real::Load(at(Y, I)));
        program(vec![each(I, 1, vec![load(0, I), Stmt::Store(at(Y, I), RealId(0)), again])])
    };
    let refused = |program: Program, expected: &str| {
        let complaints = program.verify().expect_err(expected);
        assert_eq!(complaints, [expected]);
    };
    let mut narrow = reads();
    narrow.buffers[Y].precision = Precision::Single;
    refused(narrow, "y: y is read in single precision");
    let mut right = reads();
    right.store_results_in_single().unwrap();
    assert_eq!(right.verify(), Ok(()));
    let mut workspace = right.clone();
    workspace.buffers[Y].precision = Precision::Single;
    refused(workspace, "y.wide is a workspace in single precision");
    let mut backwards = right.clone();
    backwards.rounded = vec![Rounded { from: X, to: right.rounded[0].to }];
    refused(backwards, "b0 is rounded to b2");
    let mut twice = right.clone();
    twice.rounded.push(right.rounded[0]);
    refused(twice, "b2 is rounded to, and written by a nest");
}

/// What iterations may do that are interleaved, and what not.
#[test]
fn interleaved_iterations() {
    let sum = RealId(0);
    let [i, j, one] = [Affine::from(I), Affine::from(J), Affine::constant(1)];
    let range = |from: &Affine, to: &Affine, lanes: u32, body: Vec<Stmt>| {
        let bound = |a: &Affine| vec![Bound::exact(a.clone())];
        let domain = Domain::Range { lower: bound(from), upper: bound(to) };
        Stmt::For { index: J, domain, lanes, jam: 1, parallel: false, body }
    };
    let product = |r: RealId| vec![load(2, J), load(3, I), Stmt::MulAdd(r, RealId(2), RealId(3))];
    let inner = |from: &Affine, to: &Affine, lanes: u32| {
        let r = RealId(1);
        vec![Stmt::Local(r), range(from, to, lanes, product(r)), Stmt::Store(at(Y, I), r)]
    };
    let stored = |from: &Affine, to: &Affine| {
        let cell = Stmt::Store(Place { buffer: Y, at: vec![i.add(&j).unwrap()] }, RealId(4));
        let local = [vec![Stmt::Local(RealId(4))], vec![load(2, J), Stmt::MulAdd(RealId(4), RealId(2), RealId(2))]];
        vec![range(from, to, 8, [local.concat(), vec![cell]].concat())]
    };
    let added = |times: usize| {
        let mut body = vec![load(5, I)];
        body.extend((0..times).map(|_| Stmt::Accumulate(sum, RealId(5))));
        body
    };
    let zero = Affine::constant(0);
    let table: Vec<(&str, Vec<Stmt>, bool)> = vec![
        ("the same bounds", inner(&zero, &n(), 1), true),
        ("another end", inner(&zero, &i, 1), true),
        ("another beginning", inner(&i, &n(), 1), true),
        ("partial sums with another end", inner(&zero, &i, 16), false),
        ("lanes with another end", stored(&zero, &i), true),
        ("lanes with another beginning", stored(&i, &n()), false),
        ("a sum outside, in order", added(1), true),
        ("two at a time", added(2), false),
        ("a sum outside that is read", [added(1), vec![Stmt::Store(at(Y, I), sum)]].concat(), false),
        ("a sum outside in a loop", vec![range(&zero, &one, 1, product(sum))], false),
        (
            "a place that all of them write",
            vec![load(5, I), Stmt::Store(Place { buffer: Y, at: vec![zero.clone()] }, RealId(5))],
            false,
        ),
        ("another test", vec![Stmt::If { cond: Cond::NonNegative(i.clone()), body: vec![] }], false),
    ];
    for (name, body, expected) in table {
        assert_eq!(can_jam(I, &body), expected, "{name}");
    }
}
