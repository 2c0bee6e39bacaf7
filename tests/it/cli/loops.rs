//! Programs with loops: their matrices and transposed programs are shown, run and checked.

use super::{Place, transcript};

#[test]
fn derivatives_of_loops() {
    let place = Place::new();
    let product = "param x : [n] real\nfold i < n, p = 1. p * x[i]\n";
    let sums = "param x : [n] real\nscan i < n, s = 0. s + 2 * x[i]\n";
    std::fs::write(place.path("product.iv"), product).expect("the file is written");
    std::fs::write(place.path("sums.iv"), sums).expect("the file is written");
    for engine in ["reference", "interpreter", "native"] {
        let run = |command: &str| place.good(&format!("run {command} --input x=x.csv --engine {engine}"));
        let hessian = run("product.iv --derivative hessian");
        assert_eq!(hessian.rsplit_once(": ").map(|(_, numbers)| numbers), Some("0.0 3.0 2.0 3.0 0.0 1.0 ..\n"));
        assert!(run("product.iv --derivative gauss-newton").ends_with(": 36.0 18.0 12.0 18.0 9.0 6.0 ..\n"));
        assert_eq!(run("product.iv --derivative hessian --diagonal"), "hessian_x_x: [3], norm 0.0: 0.0 0.0 0.0\n");
    }
    let check = place.good("check-derivative sums.iv --input x=x.csv --transpose");
    assert!(check.contains("<dy, f x> = <f' dy, x>") && !check.contains("FAILS"), "{check}");
    let commands = [
        "show sums.iv --derivative transpose",
        "show product.iv --derivative gauss-newton-product",
        "show product.iv --derivative gradient --with-value --cost",
    ];
    insta::assert_snapshot!(transcript(|command| place.good(command), &commands));
    let error = place.bad("show product.iv --derivative transpose", 2);
    assert!(error.contains("linear in its parameters x"), "{error}");
}
