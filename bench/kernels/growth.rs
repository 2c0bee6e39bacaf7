//! K12: how fast programs with closed forms grow with their size, as the exponent of the time between two sizes.

use std::time::Instant;

use iverson::kernel::{Engine, Kernel};
use iverson::tensor::{Dense, Inputs, Value};
use iverson::{Function, Result};
use serde::Serialize;

use crate::harness::{Table, random};

/// The exponent of a program and of its gradient.
#[derive(Serialize)]
pub struct Growth {
    program: String,
    value: f64,
    gradient: f64,
    expected: f64,
}

pub fn run(table: &mut Table) -> Result<Vec<Growth>> {
    let mut all = Vec::new();
    if !table.wants("K12") {
        return Ok(all);
    }
    println!("\n{:<62}{:>11}{:>11}{:>11}", "exponents", "value", "gradient", "expected");
    let vector = |inputs: &mut Inputs, n: usize| {
        inputs.value("x", Value::vector(random(n, 1)));
    };
    let sizes = [20_000, 2_000_000];
    let programs: [(&str, &str, Setup<'_>, [usize; 2], f64); 4] = [
        (
            "K12 E1, trace of a diagonal",
            include_str!("../../tests/programs/e01_trace_of_diagonal.iv"),
            &|i, n| {
                vector(i, n);
                i.size("k", 5);
            },
            sizes,
            1.0,
        ),
        ("K12 E2, row times column", include_str!("../../tests/programs/e02_row_times_column.iv"), &vector, sizes, 1.0),
        (
            "K12 E3, trace of a scaled identity",
            include_str!("../../tests/programs/e03_eye_trace.iv"),
            &|i, n| {
                i.value("x", Value::scalar(1.5)).size("n", n as i64);
            },
            sizes,
            0.0,
        ),
        (
            "K12 E11, scaled trace",
            include_str!("../../tests/programs/e11_scaled_trace.iv"),
            &|i, n| {
                vector(i, n);
                i.value("B", Dense::new(&[n, n], random(n * n, 2)).expect("it fits"));
            },
            [300, 3000],
            1.0,
        ),
    ];
    for (name, text, setup, sizes, expected) in programs {
        let value = Function::parse(text)?.simplify(&Default::default())?.function;
        let gradient = Function::parse(text)?.gradient(&["x"])?;
        let exponent = |function: &Function| -> Result<f64> {
            let mut times = [0.0; 2];
            for (time, n) in times.iter_mut().zip(sizes) {
                let mut inputs = Inputs::new();
                setup(&mut inputs, n);
                let kernel = function.kernel(&inputs, Engine::Native)?;
                *time = seconds(&kernel, &inputs, function)?;
            }
            let ratio = sizes[1] as f64 / sizes[0] as f64;
            Ok((times[1] / times[0]).ln() / ratio.ln())
        };
        let (value, gradient) = (exponent(&value)?, exponent(&gradient)?);
        println!("{name:<62}{value:>11.2}{gradient:>11.2}{expected:>11.1}");
        all.push(Growth { program: name.to_owned(), value, gradient, expected });
    }
    Ok(all)
}

type Setup<'a> = &'a dyn Fn(&mut Inputs, usize);

/// The median time of a call.
fn seconds(kernel: &Kernel, inputs: &Inputs, function: &Function) -> Result<f64> {
    let bound = iverson::tensor::bind(&function.tensor_ssa().signature, inputs)?;
    let leaves: Vec<Vec<f64>> =
        bound.values().values().flat_map(|v| v.leaves().iter().map(|leaf| leaf.data().to_vec())).collect();
    let data: Vec<&[f64]> = leaves.iter().map(Vec::as_slice).collect();
    let mut outputs: Vec<Vec<f64>> =
        kernel.outputs().iter().flat_map(|o| &o.leaves).map(|leaf| vec![0.0; leaf.len()]).collect();
    let mut times = Vec::new();
    for _ in 0..15 {
        let mut slices: Vec<&mut [f64]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        let start = Instant::now();
        kernel.call_into(&data, &mut slices)?;
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
