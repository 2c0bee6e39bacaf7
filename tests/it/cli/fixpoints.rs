//! `check-derivative` of fixpoints that end before their states are exact: what their conditions leave is told apart from a derivative that is wrong.

use super::{Outcome, Place};

#[test]
fn what_conditions_leave_is_no_wrong_derivative() {
    const ON: &str = "holds as fixpoints go on (";
    const SCALING: &str = "param C : [n, m] real  param a : [n] real  param b : [m] real\nlet K = exp(-C)
let v = fixpoint v = ones(m) while norm(v - b / (K' @ (a / (K @ v)))) > TOLERANCE, at most 60. b / (K' @ (a / (K @ v)))
let u = a / (K @ v)\nsum i < n, j < m. u[i] * K[i, j] * v[j] * C[i, j]\n";
    const ROOT: &str =
        "FUNCTION\nparam a : real\nfixpoint s = 0 while abs(s - f(a * s)) > 1e-4, at most STEPS. f(a * s)\n";
    const NESTED: &str = "param a : real\nfixpoint s = 0 while abs(s - cos(a * s)) > 1e-2, at most 24.
  cos(a * (fixpoint r = s while abs(r - (s + sin(r)) / 3) > 1e-3, at most 12. (s + sin(r)) / 3))\n";
    let place = Place::new();
    let write = |name: &str, text: &str| std::fs::write(place.path(name), text).expect("it is written");
    write("cost.csv", "1,2,0.5\n0.25,1,3\n");
    write("left.csv", "0.25\n0.75\n");
    write("right.csv", "0.5\n0.25\n0.25\n");
    let scaling = |tolerance| SCALING.replace("TOLERANCE", tolerance);
    let root = |function, steps| ROOT.replace("FUNCTION", function).replace("STEPS", steps);
    let (costs, number) = ("--input C=cost.csv --input a=left.csv --input b=right.csv", "--scalar a=0.7");
    let right = "fun f(x) = cos(x) with (-sin(x))";
    for (program, inputs, goes_on, fails) in [
        (scaling("1e-14"), costs, false, false),
        (scaling("1e-6"), costs, true, false),
        (root(right, "50"), number, true, false),
        (NESTED.to_owned(), number, true, false),
        // The derivative of the step is wrong, and so is that of the solution.
        (root("fun f(x) = cos(x) with (sin(x))", "50"), number, false, true),
        // Too few steps to find one.
        (root(right, "2"), number, false, true),
        // Without a `fixpoint` it is the loop that is differentiated.
        (root(right, "50").replace("fixpoint", "iterate"), number, false, false),
    ] {
        write("fixpoint.iv", &program);
        for engine in ["reference", "interpreter"] {
            let Outcome { code, out, err } =
                place.run(&format!("check-derivative fixpoint.iv {inputs} --engine {engine}"));
            assert_eq!((code == 1, out.contains("FAILS")), (fails, fails), "{program}{out}");
            assert_eq!(out.contains(ON), goes_on, "{program}{out}");
            assert!(!out.contains("kink"), "{program}{out}");
            let unsolved = "note: the condition of the fixpoint still holds after 2 steps\n";
            assert_eq!(err, if program.contains("at most 2.") { unsolved } else { "" }, "{program}{out}");
        }
    }
}
