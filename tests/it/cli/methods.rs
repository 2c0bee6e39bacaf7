//! `--method`: gradients in the lambda calculus.

use super::{Place, transcript};

const METHODS: [&str; 6] = ["adjoint", "forward", "chad", "efficient", "dual", "continuation"];

#[test]
fn gradients_by_all_methods() {
    let place = Place::new();
    let product = "param x : [n] real\nfold i < n, p = 1. p * x[i]\n";
    let embedding = "param E : [n, m] real\nmap f : [n] -> [n]\nsum i < n, j < m. E[f(i), j]^2\n";
    let sparse = "param A : csr [n, n] real\nparam u : [n] real\nsum i < n, j < n. A[i, j] * u[i] * u[j]\n";
    for (name, text) in [("product.iv", product), ("embedding.iv", embedding), ("sparse.iv", sparse)] {
        std::fs::write(place.path(name), text).expect("the file is written");
    }
    for method in METHODS {
        let run = |command: &str| place.good(&format!("run {command} --derivative gradient --method {method}"));
        assert_eq!(
            run("product.iv --input x=x.csv --with-value"),
            "value: 6.0\ngrad_x: [3], norm 7.0: 6.0 3.0 2.0\n",
            "{method}"
        );
        if method != "continuation" {
            let gradient = run("sparse.iv --input A=a.mtx --input u=u.csv --wrt A");
            assert_eq!(gradient, run("sparse.iv --input A=a.mtx --input u=u.csv --wrt A --engine reference"));
            assert_eq!(gradient, "grad_A: [2, 2] csr with 2 entries, norm 2.23607: 1.0 2.0\n", "{method}");
        }
    }
    let counted = place.good("run product.iv --input x=x.csv --derivative gradient --method chad --count");
    assert!(counted.contains("\nprimal: 3 operations") && counted.contains("\nratio: "), "{counted}");
    place.good("run sparse.iv --input A=a.mtx --input u=u.csv --derivative gradient --method dual --output out");
    assert!(place.path("out/grad_A.mtx").exists() && place.path("out/grad_u.npy").exists());
}

#[test]
fn derivatives_in_the_lambda_calculus() {
    let place = Place::new();
    std::fs::write(place.path("dot.iv"), "param x : [n] real\nparam y : [n] real\nsum i < n. x[i] * y[i]\n")
        .expect("the file is written");
    let commands = [
        "show dot.iv --derivative gradient --method chad --size n=3",
        "show dot.iv --derivative gradient --method efficient --size n=3",
        "show dot.iv --derivative gradient --method continuation --size n=3",
        "show dot.iv --derivative gradient --method adjoint",
    ];
    insta::assert_snapshot!(transcript(|command| place.good(command), &commands));
}

#[test]
fn what_methods_refuse() {
    let place = Place::new();
    let commands = [
        "show blur.iv --derivative gradient --method chad",
        "show blur.iv --derivative gradient --method chad --size n=3 --size k=3",
        "show blur.iv --derivative gradient --method chad --size n=3 --size m=2 --stage tensor-ssa",
        "show blur.iv --derivative hessian --method dual --size n=3 --size m=2",
        "show blur.iv --derivative gradient --method reverse",
        "show product.iv --derivative gradient --method chad --size n=2",
        "run blur.iv --derivative gradient --method chad --input x=x.csv --input w=w.csv --input z=z.csv --engine native",
    ];
    insta::assert_snapshot!(transcript(|command| place.bad(command, 2), &commands));
    let commands = [
        "show blur.iv --derivative gradient --method dual --size n=3 --size m=2",
        "run mixed.iv --derivative gradient --method continuation --input A=a.mtx --input ab.0=u.csv --input ab.1=v.csv \
         --scalar s=2 --input E=e.csv --input f=f.tns",
    ];
    insta::assert_snapshot!(transcript(|command| place.bad(command, 3), &commands));
}
