//! Which tensors are stored, and where: what is read on the entries of a relation, what would be larger than all else, what a loop would compute
//! again.

use iverson::Function;
use iverson::ir::loops::{BufferKind, Decision, Program, Real, Stmt};
use iverson::ir::stages::Stages;

use crate::kernels::{fitting, judge_itself};
use crate::support::Numbers;

/// A program, a name, and whether the nests of the program store a tensor of this name, on the entries of `A` or dense.
enum Stored {
    Nowhere,
    Dense,
    OnEntries,
    /// It was, until its readers were in the same loop.
    InRegister,
}

use Stored::{Dense, InRegister, Nowhere, OnEntries};

const CASES: &[(&str, &str, Stored)] = &[
    // All readers ask for the entries of A.
    (
        "let P = gen i < m, j < n. sum l < k. W[i, l] * H[j, l] in sum i < m, j < n. [A?(i, j)] * (ln(P[i, j]^2 + 1) + A[i, j] * P[i, j])",
        "P",
        OnEntries,
    ),
    // A is the other factor.
    (
        "let P = gen i < m, j < n. sum l < k. W[i, l] * H[j, l] in (sum i < m, j < n. A[i, j] * P[i, j]) + (sum i < m, j < n. A[i, j] * P[i, j]^2)",
        "P",
        OnEntries,
    ),
    // One reader asks for all.
    (
        "let P = gen i < m, j < n. sum l < k. W[i, l] * H[j, l] in (sum i < m, j < n. A[i, j] * P[i, j]) + (sum i < m, j < n. P[i, j]^3)",
        "P",
        Dense,
    ),
    // It is asked for at other places.
    (
        "let P = gen i < n, j < m. sum l < k. H[i, l] * W[j, l] in sum i < m, j < n. [A?(i, j)] * (ln(P[j, i]^2 + 1) + A[i, j] * P[j, i])",
        "P",
        OnEntries,
    ),
    (
        "let P = gen i < n, j < n. sum l < k. H[i, l] * H[j, l] in sum i < m, j < n. A[i, j] * (P[j, 0] + P[j, j]^2)",
        "P",
        Dense,
    ),
    // Larger than all parameters and results, and read once by each reader.
    (
        "let D = gen i < m, j < n, l < k. (W[i, l] - H[j, l])^2 * W[i, l] in (gen i < m. sum j < n, l < k. D[i, j, l], gen l < k. sum i < m, j < n. D[i, j, l])",
        "D",
        Nowhere,
    ),
    // Pairs of rows of a few values, with a root: by rows, by columns, and for each coordinate.
    (
        "let Q = gen i < n, j < m. 1 / sqrt(1 + (sum e < 3. (X[i, e] - Y[j, e])^2)) in (gen i < n, e < 3. sum j < m. Q[i, j] * X[i, e] * Y[j, e], gen j < m. sum i < n. Q[i, j] * X[i, 0], sum i < n, j < m. Q[i, j])",
        "Q",
        Nowhere,
    ),
    // For each of many coordinates, or for all values of another index.
    (
        "let Q = gen i < n, j < m. 1 / sqrt(1 + (sum e < 3. (X[i, e] - Y[j, e])^2)) in (gen i < n, l < k. sum j < m. Q[i, j] * W[j, l], gen j < m. sum i < n. Q[i, j] * X[i, 0])",
        "Q",
        Dense,
    ),
    // A function that takes long, too.
    (
        "let Q = gen i < n, j < m. exp(0 - (sum e < 3. (X[i, e] - Y[j, e])^2)) in (gen i < n. sum j < m. Q[i, j] * Y[j, 0], gen j < m. sum i < n. Q[i, j] * X[i, 0])",
        "Q",
        Nowhere,
    ),
    // But for where a row of it is read again behind its sum.
    (
        "let Q = gen i < n, j < m. exp(0 - (sum e < 3. (X[i, e] - Y[j, e])^2)) in let s = gen i < n. sum j < m. Q[i, j] in sum i < n, j < m. (Q[i, j] / s[i] - Y[j, 0])^2",
        "Q",
        Dense,
    ),
    // Not where all of it is.
    (
        "let Q = gen i < n, j < m. exp(0 - (sum e < 3. (X[i, e] - Y[j, e])^2)) in let s = sum i < n, j < m. Q[i, j] in sum i < n, j < m. (Q[i, j] / s - Y[j, 0])^2",
        "Q",
        Nowhere,
    ),
    // A tensor as large as it is stored anyway.
    (
        "let Q = gen i < n, j < m. 1 / sqrt(1 + (sum e < 3. (X[i, e] - Y[j, e])^2)) in let E = gen i < n, j < m. exp(Q[i, j]) in let s = gen i < n. sum j < m. E[i, j] in sum i < n, j < m. (Q[i, j] - E[i, j] / s[i])^2",
        "Q",
        Dense,
    ),
    // Made of one parameter that is as large, read once by each of several.
    (
        "let D = gen i < m, l < k. (W[i, l]^2 + 1)^2 * (W[i, l] + 2)^2 in (gen i < m. sum l < k. D[i, l], gen l < k. sum i < m. D[i, l])",
        "D",
        Nowhere,
    ),
    // As large as a parameter, and of more arithmetic.
    (
        "let D = gen i < m, l < k. (W[i, l]^2 + 1)^3 * exp(W[i, l] + 2) in (gen i < m. sum l < k. D[i, l], gen l < k. sum i < m. D[i, l])",
        "D",
        Dense,
    ),
    // A sum over each row, which the loop over columns around would repeat, were it in place.
    (
        "let s = gen i < m. sum l < k. W[i, l]^2 in let u = gen i < m, l < k. s[i] * W[i, l] in gen l < k, i < m. u[i, l] + 1",
        "s",
        InRegister,
    ),
    // The loop over rows is around.
    (
        "let s = gen i < m. sum l < k. W[i, l]^2 in let u = gen i < m, l < k. s[i] * W[i, l] in gen i < m, l < k. u[i, l] + 1",
        "s",
        Nowhere,
    ),
];

#[test]
fn tensors_are_stored_where_they_are_read() {
    for (body, name, expected) in CASES {
        let text = format!(
            "param A : csr [m, n] real\nparam W : [m, k] real\nparam H : [n, k] real\nparam X : [n, 3] real\nparam Y : [m, 3] real\n{body}"
        );
        let function = Function::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let nests = function.loops(&mut Stages::new()).expect("it lowers");
        let found =
            nests.nests.iter().flat_map(|nest| &nest.buffers).map(|b| &nests.buffers[*b]).find(|b| b.name == *name);
        let as_expected = match expected {
            Nowhere => found.is_none(),
            Dense => found.is_some_and(|b| b.entries.is_none()),
            OnEntries => found.is_some_and(|b| b.entries.is_some()),
            InRegister => {
                let forwarded = Decision::Forwarded { tensor: (*name).to_owned() };
                found.is_none() && nests.nests.iter().any(|nest| nest.decisions.contains(&forwarded))
            }
        };
        assert!(as_expected, "{text}\n{}", nests.explained());
        for size in [0, 1, 3, 9] {
            let inputs = fitting(&function, size, &mut Numbers::new(size as u64, true));
            judge_itself(&function, &inputs, false).unwrap_or_else(|e| panic!("{e}\n{text}"));
        }
    }
}

/// The gradient of layer norm has sums over rows that are read in transposed tensors: no nest runs over columns twice in its rows.
#[test]
fn sums_over_rows_are_not_repeated_for_columns() {
    let text = "param x : [B, d] real\nparam g : [d] real\nparam y : [B, d] real\n\
                let mu = gen s < B. (sum a < d. x[s, a]) / d in\n\
                let v = gen s < B. (sum a < d. (x[s, a] - mu[s])^2) / d in\n\
                sum s < B, a < d. (g[a] * (x[s, a] - mu[s]) / sqrt(v[s] + 0.1) - y[s, a])^2";
    let derived = Function::parse(text).and_then(|f| f.value_and_gradient(["x", "g"])).expect("it derives");
    let nests = derived.loops(&mut Stages::new()).expect("it lowers");
    for nest in &nests.nests {
        let deepest = nests_of(&nest.body);
        assert!(deepest <= 4, "{deepest} loops, two of them over parts and blocks of rows: {}", nests.explained());
    }
}

fn nests_of(body: &[Stmt]) -> usize {
    body.iter().map(|stmt| usize::from(matches!(stmt, Stmt::For { .. })) + nests_of(stmt.body())).max().unwrap_or(0)
}

/// A sum over several indices goes along the rows of what it reads at several, in whatever order they are written.
#[test]
fn sums_go_along_rows() {
    for text in [
        "param a : [m] real\nparam Y : [n, m] real\nsum i < m, j < n. exp(a[i] * Y[j, i])",
        "param a : [m] real\nparam Y : [n, m] real\nsum j < n, i < m. exp(a[i] * Y[j, i])",
        "param Y : [n, k, m] real\nsum i < m, j < n, l < k. cos(Y[j, l, i])",
    ] {
        let function = Function::parse(text).expect("it parses");
        let nests = function.loops(&mut Stages::new()).expect("it lowers");
        let mut last = Vec::new();
        for nest in &nests.nests {
            nest.body.iter().for_each(|stmt| stmt.visit(&mut |stmt| along_last_axis(stmt, "Y", &nests, &mut last)));
        }
        assert_eq!(last, [true], "{text}\n{nests}");
    }
}

/// Whether the loop right around a load of a tensor goes along its last axis.
fn along_last_axis(stmt: &Stmt, name: &str, nests: &Program, found: &mut Vec<bool>) {
    let Stmt::For { index, body, .. } = stmt else { return };
    for stmt in body {
        if let Stmt::Define(_, Real::Load(place)) = stmt
            && nests.buffers[place.buffer].name == name
        {
            found.push(place.at.last().is_some_and(|a| a.mentions(*index)));
        }
    }
}

/// What a layer with `relu` gives back is stored: products read it again for all filters and places.
#[test]
fn factors_of_some_work_are_stored() {
    let text = "param x : [B, c, n + 2] real\nparam f : [o, c, 3] real\n\
                sum s < B, k < o, i < n. relu(sum a < c, p < 3. x[s, a, i + p] * f[k, a, p])^2";
    let derived = Function::parse(text).and_then(|f| f.gradient(["x", "f"])).expect("it derives");
    let nests = derived.loops(&mut Stages::new()).expect("it lowers");
    let mut products = 0;
    for nest in &nests.nests {
        // Where the fast product is no number, all is computed with tests.
        let mut open: Vec<&Stmt> = nest.body.iter().filter(|stmt| !matches!(stmt, Stmt::If { .. })).collect();
        while let Some(stmt) = open.pop() {
            let Stmt::For { body, .. } = stmt else { continue };
            open.extend(body.iter().filter(|stmt| matches!(stmt, Stmt::For { .. })));
            let adds = |stmt: &Stmt| matches!(stmt, Stmt::MulAdd(..));
            if body.iter().any(adds) {
                products += 1;
                let applies = |stmt: &Stmt| matches!(stmt, Stmt::Define(_, Real::Apply(..)));
                assert!(!body.iter().any(applies), "{nests}");
            }
        }
    }
    assert!(products >= 3, "{nests}");
}

/// Of samples that are divided by how many there are no copy is stored: a quotient by one number is a product with its reciprocal.
#[test]
fn means_store_no_scaled_samples() {
    let text = "param X : [n, d] real\nparam W : [d, c] real\nmean i < n. max j < c. sum k < d. X[i, k] * W[k, j]";
    let derived = Function::parse(text).and_then(|f| f.gradient(["W"])).expect("it derives");
    let nests = derived.loops(&mut Stages::new()).expect("it lowers");
    let shape = |name: &str| nests.buffers.values().find(|b| b.name == name).map(|b| b.dims.clone());
    let samples = shape("X").expect("it is a parameter");
    let copies = nests.buffers.values().filter(|b| b.kind == BufferKind::Workspace && b.dims == samples);
    assert_eq!(copies.count(), 0, "{nests}");
}

/// What each place of a window gives back is added up where it is made: no tensor has a place for each offset in each window.
#[test]
fn windows_store_no_offsets() {
    let text = "param x : [h + 2, w + 2] real\nparam y : [h + 2, w + 2] real\n\
                let m = gen i < h, j < w. sum a < 3, b < 3. x[i + a, j + b]\n\
                let v = gen i < h, j < w. (sum a < 3, b < 3. x[i + a, j + b]^2) - m[i, j]^2\n\
                let c = gen i < h, j < w. sum a < 3, b < 3. x[i + a, j + b] * y[i + a, j + b]\n\
                sum i < h, j < w. m[i, j] * c[i, j] / (v[i, j] + 1)";
    let derived = Function::parse(text).and_then(|f| f.value_and_gradient(["x"])).expect("it derives");
    let nests = derived.loops(&mut Stages::new()).expect("it lowers");
    let ranks = nests.buffers.values().filter(|b| b.kind == BufferKind::Workspace).map(|b| b.dims.len());
    assert!(ranks.max().is_some_and(|rank| rank <= 2), "{nests}");
}
