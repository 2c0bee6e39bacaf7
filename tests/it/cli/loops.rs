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

/// A budget of memory is said in bytes or powers of 1024 of them; nonsense and budgets that are too small are errors that say what to do.
#[test]
fn budgets_of_memory() {
    let place = Place::new();
    std::fs::write(place.path("long.iv"), "param a : real\nsize T\nfold t < T, s = a. s + sin(s) / 100\n")
        .expect("the file is written");
    let gradient = "run long.iv --scalar a=0.5 --size T=2500 --derivative gradient";
    let whole = place.good(&format!("{gradient} --engine interpreter"));
    for (budget, notes) in [
        ("1M", vec!["it keeps 20032 bytes beside inputs and results, of 1048576 that it may"]),
        ("2k", vec!["it keeps ", "the 2500 steps of the loop over t run in tiles, 50 times 50"]),
    ] {
        let outcome = place.run(&format!("{gradient} --memory {budget}"));
        assert_eq!(outcome.out, whole, "{budget}");
        let told: Vec<&str> = outcome.err.lines().filter_map(|line| line.strip_prefix("note: ")).collect();
        assert!(told.iter().zip(&notes).all(|(told, note)| told.starts_with(note)), "{told:?}");
        assert_eq!(told.len(), notes.len(), "{told:?}");
    }
    let error = place.bad(&format!("{gradient} --memory 64"), 2);
    assert!(error.contains("a kernel keeps at least ") && error.contains("may keep 64: allow that much"), "{error}");
    for nonsense in ["M", "1.5G", "0x10", "64MB", "999999999999G", "é"] {
        let error = place.bad(&format!("{gradient} --memory {nonsense}"), 2);
        assert!(error.contains("bytes"), "{nonsense}: {error}");
    }
    let error = place.bad(&format!("{gradient} --engine reference --memory 1M"), 2);
    assert!(error.contains("--memory takes a kernel"), "{error}");
    let error = place.bad("run long.iv --scalar a=0.5 --size T=9 --derivative hessian --engine native --memory 1M", 2);
    assert!(error.contains("one sparse matrix"), "{error}");
}
