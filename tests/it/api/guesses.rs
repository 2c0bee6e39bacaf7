//! Lines as one writes them from the README alone.

use iverson::builder::{Builder, mean};
use iverson::ndarray::{Array1, Array2, array};
use iverson::prelude::*;
use iverson::sprs::CsMat;
use iverson::tensor::Coo;

type Outcome = Result<(), Error>;

#[test]
fn results_are_copied_out() -> Outcome {
    let f = Function::parse("param A : csr [m, n] real\nparam x : [n] real\nsum((A @ x)^2)")?;
    let a = CsMat::new((2, 3), vec![0, 1, 2], vec![0, 2], vec![1.0, 2.0]);
    let out = f.gradient(["A", "x"])?.eval(&inputs! { "A" => &a, "x" => [1.0, 2.0, 3.0] })?;
    let of_x: Array1<f64> = out["grad_x"].to_array()?;
    let x = array![1.0, 2.0, 3.0] - 0.5 * &of_x;
    assert_eq!(x, array![0.0, 2.0, -9.0]);
    assert_eq!(out["grad_x"].to_vec()?, [2.0, 0.0, 24.0]);
    let of_a: CsMat<f64> = out["grad_A"].to_sprs()?;
    assert_eq!((of_a.nnz(), of_a.get(1, 2)), (2, Some(&36.0)));
    let dense: Array2<f64> = out["grad_A"].to_array()?;
    assert_eq!(dense, array![[2.0, 0.0, 0.0], [0.0, 0.0, 36.0]]);
    let flat = out["grad_A"].to_array::<iverson::ndarray::Ix1>().unwrap_err();
    assert_eq!(flat.to_string(), "an array with 1 axes is asked for, and the tensor has 2");
    assert_eq!(Value::from(Dense::from_array(dense)?).to_sprs()?.nnz(), 2);
    let coo = Coo::new(vec![2, 2], vec![vec![1], vec![0]], vec![3.0])?;
    assert_eq!(Value::from(coo).to_sprs()?.get(1, 0), Some(&3.0));
    assert!(Value::pair(1.0.into(), 2.0.into()).to_vec().is_err());
    assert!(Value::vector(vec![1.0]).to_sprs().is_err());
    Ok(())
}

#[test]
fn labels_and_sizes_are_integers() -> Outcome {
    let text = "param Z : [n, k] real\nparam y : [n] index k\nparam first : index n\nsize T\nassume k >= 1\n\
                fold t < T, s = Z[first, 0]. s + mean i < n. Z[i, y[i]]";
    let f = Function::parse(text)?;
    let z = [[1.0, 2.0], [0.0, 4.0]];
    for inputs in [
        inputs! { "Z" => z, "y" => [1, 0], "first" => 1, "T" => 3 },
        inputs! { "Z" => z, "y" => vec![1_usize, 0], "first" => 1_usize, "T" => 3_i64 },
        inputs! { "Z" => z, "y" => array![1.0, 0.0], "first" => [1], "T" => 3.0 },
    ] {
        inputs.check_names(f.signature())?;
        assert_eq!(f.eval(&inputs)?["value"].as_scalar(), Some(3.0));
        assert_eq!(
            f.kernel(&inputs).engine(Engine::Interpreter).build()?.call(&inputs)?["value"].as_scalar(),
            Some(3.0)
        );
    }
    for (name, value, complaint) in [
        ("y", vec![0.5, 0.0], "y: the targets of a map are integers from 0 on, one for each source"),
        ("y", vec![-1.0, 0.0], "y: the targets of a map are integers from 0 on, one for each source"),
        ("y", vec![2.0, 0.0], "y: the target 0 of this map is 2"),
        ("y", vec![0.0], "y: axis 0 has length 1"),
    ] {
        let mut inputs = inputs! { "Z" => z, "y" => [1, 0], "first" => 1, "T" => 3 };
        let found = f.eval(inputs.value(name, value)).unwrap_err().to_string();
        assert!(found.starts_with(complaint), "{found}");
    }
    Ok(())
}

#[test]
fn values_inputs_and_results_are_saved() -> Outcome {
    let f = Function::parse(
        "param A : coo [m, n] real\nrel E : [n]\nmap to : [n] -> [m]\nsize T\nsum i < n. [E(i)] * A[to(i), i] * T",
    )?;
    let mut inputs =
        inputs! { "A" => Coo::new(vec![2, 3], vec![vec![0, 1], vec![2, 0]], vec![0.1, f64::INFINITY])?, "T" => 2 };
    inputs.relation("E", Relation::from_tuples(&[3], &[vec![2]])?).map("to", &[3], vec![1, 1, 0]);
    let text = serde_json::to_string(&inputs).expect("it can be saved");
    let again: Inputs = serde_json::from_str(&text).expect("it can be loaded");
    let results = f.eval(&again)?;
    assert_eq!((results.clone(), results["value"].as_scalar()), (f.eval(&inputs)?, Some(0.2)));
    let text = serde_json::to_string(&results).expect("they can be saved");
    assert_eq!(serde_json::from_str::<Results>(&text).expect("they can be loaded"), results);
    let value = again.get("A").expect("it was given");
    let text = serde_json::to_string(value).expect("it can be saved");
    assert_eq!(&serde_json::from_str::<Value>(&text).expect("it can be loaded"), value);
    for wrong in [
        r#"{"values": {}, "relations": {}, "maps": {}}"#,
        r#"{"values": {"x": [{"dense": {"shape": [3], "data": [1.0]}}]}, "relations": {}, "maps": {}, "sizes": {}}"#,
    ] {
        assert!(serde_json::from_str::<Inputs>(wrong).is_err(), "{wrong}");
    }
    let ragged = inputs! { "x" => vec![vec![1.0], vec![1.0, 2.0]] };
    assert!(serde_json::to_string(&ragged).is_err());
    Ok(())
}

#[test]
fn means_and_numbers_in_the_builder() -> Outcome {
    let b = Builder::new();
    let (m, n) = (b.size("m"), b.size("n"));
    let (a, s) = (b.param("A", [m, n]), b.param("s", ()));
    let f = Function::build(&b.finish(mean((m, n), |(i, j)| s * a[(i, j)]) + mean(n, |j| a[(0, j)].powi(2)))?);
    let text = "param A : [m, n] real\nparam s : real\nassume m >= 1\n\
                (mean i < m, j < n. s * A[i, j]) + (mean k < n. A[0, k]^2)";
    assert!(matches!(f, Err(Error::Program(_))), "the first row may be missing");
    let b = Builder::new();
    let (m, n) = (b.size("m"), b.size("n"));
    let (a, s) = (b.param("A", [m, n]), b.param("s", ()));
    b.assume(m.ge(1));
    let f = Function::build(&b.finish(mean((m, n), |(i, j)| s * a[(i, j)]) + mean(n, |j| a[(0, j)].powi(2)))?)?;
    assert_eq!(f.to_string(), Function::parse(text)?.to_string());
    Ok(())
}
