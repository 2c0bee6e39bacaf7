//! Programs with one fault each, and programs without.

use iverson::ir::surface;

use super::{Fault, faults};

const DECLARATIONS: &str = "
    param x : [n] real
    param y : [n] real
    param B : [n, n] real
    param A : csr [n, n] real
    param s : real
    param t : real
    rel E : [n, n]
    map f : [n] -> [n]
";

fn kinds(body: &str) -> Vec<Fault> {
    let program = surface::read(&format!("{DECLARATIONS}{body}"), &[]).unwrap_or_else(|e| panic!("{e}\n{body}"));
    let mut kinds: Vec<Fault> = faults(&program).into_iter().map(|(fault, _)| fault).collect();
    kinds.dedup();
    kinds
}

#[test]
fn faults_are_found() {
    for (fault, bodies) in [
        (
            Fault::ImpliedGuard,
            &[
                "gen i < n. [i < n] * x[i]",
                "gen i < n, j < n. [i < 5 and j < 5 and i + j < 12] * B[i, j]",
                "gen i < n. [i > 2] * (x[i] + [i > 1] * y[i])",
                "gen i < n. [n >= 1] * x[i]",
                "[n >= 1] * (sum i < n. x[i])",
                "[n > 0] * (sum i < n. s^2 + x[i])",
                "gen i < n, j < n. [E(i, j) and i < n] * B[i, j]",
                "gen i < n, k < n + 1. sum j < n. [E(i, j) and k + 1 = n + 1 and k > 0 and j < n] * B[i, j]",
                "gen i < n. [i > 0] * (sum j < n. [j < i] * x[j])",
                "gen i < n. [f(i) < n] * x[i]",
                "gen i < n. [i < 0] * x[i]",
                "gen i < n. [i = 2 or i < 0] * x[i]",
            ][..],
        ),
        (
            Fault::SumOfOneTerm,
            &[
                "gen i < n. sum j < n. [i = j] * x[j]",
                "gen i < n. sum j < n. [i = j and E(i, j)] * x[j]",
                "gen i < n. sum j < n. [2 * j = i] * x[j]",
                "[n >= 1] * (sum i < 1. x[i])",
                "gen i < n. sum j < n. ([i = j] * x[j]) * B[j, i]",
                "gen i < n. sum j < n. [f(i) = j] * x[j]",
                "gen i < n. sum j < n. [(argmax k < n. B[i, k]) = j] * x[j]",
                "sum i < n, j < n. [i = j] * B[i, j]",
                "gen i < n. sum j < n. x[j] + [i = j] * y[j]",
                "let D = gen i < n, j < n. [i = j] * x[i] in gen i < n, j < n. sum k < n. D[i, k] * B[k, j]",
                "gen i < n. sum j < n. [i = j + 1] * x[j]",
            ],
        ),
        (
            Fault::GenIndexedAtOnce,
            &["gen i < n. (gen j < n. x[j] + s)[i]", "gen i < n. (gen j < n, k < n. x[j] + y[k])[i, i]"],
        ),
        (
            Fault::NeedlessLet,
            &[
                "let a = s + t in a * s",
                "let a = s + t in s",
                "let a = gen i < n. x[i] + s in gen i < n. a[i] * y[i]",
                "let a = gen i < n. x[i] + s in gen i < n - 1. a[i + 1] * y[i]",
                "let a = gen i < n, j < n. B[i, j] + s in gen j < n. sum i < n. a[i, j] * y[i]",
                "gen i < n. let a = x[i] + s in a * y[i]",
            ],
        ),
        (
            Fault::RepeatedWork,
            &[
                "(s + t) * (s + t)",
                "(s + t) / (t + s)",
                "(sum i < n. x[i] * y[i]) / (1 + (sum j < n. y[j] * x[j]))",
                "gen i < n. exp(x[i]) + s * exp(x[i])",
                "(gen i < n. exp(x[i]) * s, gen k < n. exp(x[k]) * t)",
                "(gen i < n. (sum j < n. B[i, j] * x[j]) * s, gen j < n. (sum k < n. B[j, k] * x[k])^2)",
                "gen i < n. ([i > 0] * x[i] * s) + ([i > 0] * s * x[i])^2",
            ],
        ),
        (
            Fault::WorkDoneAgain,
            &[
                "gen i < n. x[i] * (sum j < n. y[j])",
                "gen i < n. x[i] * exp(s)",
                "sum i < n. s * x[i]",
                "sum i < n. 2 * x[i]",
                "sum i < n. [i > 0] * (s * x[i])",
                "gen i < n. sum j < n, k < n. x[i] * B[j, k]",
                "sum i < n, j < n. exp(x[i]) * B[i, j]",
            ],
        ),
        (Fault::NeedlessArithmetic, &["1 * s", "2 * 3 * s", "s + 0", "0 * s", "2 * (s * (3 * t))"]),
    ] {
        for body in bodies {
            assert_eq!(kinds(body), [fault], "{body}");
        }
    }
}

#[test]
fn clean_programs_have_no_faults() {
    for body in [
        "gen i < n. [i < 5] * x[i]",
        "gen i < n. [i > 0 and i < 5] * x[i]",
        "gen i < n. [i > 0] * x[i] + [i > 1] * y[i]",
        "[n >= 3] * (sum i < n. x[i])",
        "gen i < n, j < n. [E(i, j)] * B[i, j]",
        "gen i < n, j < n. A[i, j]",
        "gen i < n, j < n. [A?(i, j)] * (A[i, j] - s)",
        "gen j < n. sum i < n. A[i, j] * x[i]",
        "gen i < n. [exists j < n. E(i, j)] * x[i]",
        "gen v < n. sum i < n. [f(i) = v] * x[i]",
        "gen i < n. x[f(i)]",
        "gen i < n. sum j < n. [i <= j] * x[j]",
        "gen i < n. sum j < n. [i != j] * x[j]",
        "sum i < n, j < n. x[i] * B[i, j]",
        "let a = s + t in a * a^2",
        "let a = exp(s) in gen i < n. a * x[i]",
        "let a = gen i < n. x[i] + s in gen i < n. a[i] * a[0 * i]",
        "let a = gen i < n. x[i] + s in gen i < n. sum j < n. a[j] * B[i, j]",
        "let a = gen i < n, j < n. B[i, j] + s in gen i < n. a[i, i] * (sum j < n. a[i, j])",
        "gen i < n. [x[i] > s] * y[i]",
        "gen i < n, j < n. [x[i] > s] * B[i, j] + [y[i] > s] * B[j, i]",
        "gen i < n. -x[i] + exp(-x[i])",
        "gen i < n. exp(x[i]) + exp(y[i])",
        "(gen i < n. x[i] * s, gen i < n. x[i] * s)",
        "gen i < n, j < n. exp(B[i, j]) * exp(B[j, i] + s)",
        "gen i < n. sum j < n. -x[j] * B[i, j]",
        "2 * (s - t) * -s",
        "gen i < n. [i != 1] * 1",
        "let a = gen i < n. exp(x[i]) in gen i < n. x[argmax k < n. a[k]] + x[i]",
    ] {
        let body = body.replace("a[0 * i]", "a[n - i - 1]");
        let program = surface::read(&format!("{DECLARATIONS}{body}"), &[]).unwrap_or_else(|e| panic!("{e}\n{body}"));
        assert_eq!(faults(&program), [], "{body}");
    }
}
