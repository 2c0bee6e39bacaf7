//! K12: how fast programs with closed forms grow with their size, as the exponent of the time between two sizes, beside that of the closed
//! form by hand, value and gradient at once: memory makes it more than one for a diagonal.

use std::hint::black_box;
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
    by_hand: f64,
}

pub fn run(table: &mut Table) -> Result<Vec<Growth>> {
    let mut all = Vec::new();
    if !table.wants("K12") {
        return Ok(all);
    }
    println!("\n{:<62}{:>11}{:>11}{:>11}", "exponents", "value", "gradient", "by hand");
    let vector = |inputs: &mut Inputs, n: usize| {
        inputs.value("x", Value::vector(random(n, 1)));
    };
    let sizes = [20_000, 2_000_000];
    let programs: [(&str, &str, Setup<'_>, [usize; 2], ByHand); 4] = [
        (
            "K12 E1, trace of a diagonal",
            include_str!("../../tests/programs/e01_trace_of_diagonal.iv"),
            &|i, n| {
                vector(i, n);
                i.size("k", 5);
            },
            sizes,
            |_, data, gradient| {
                gradient.fill(5.0);
                5.0 * data[0].iter().sum::<f64>()
            },
        ),
        (
            "K12 E2, row times column",
            include_str!("../../tests/programs/e02_row_times_column.iv"),
            &vector,
            sizes,
            |_, data, gradient| {
                gradient.fill(0.0);
                gradient[0] = 2.0 * data[0][0];
                data[0][0] * data[0][0]
            },
        ),
        (
            "K12 E3, trace of a scaled identity",
            include_str!("../../tests/programs/e03_eye_trace.iv"),
            &|i, n| {
                i.value("x", Value::scalar(1.5)).size("n", n as i64);
            },
            sizes,
            |n, data, gradient| {
                gradient[0] = n as f64;
                n as f64 * data[0][0]
            },
        ),
        (
            "K12 E11, scaled trace",
            include_str!("../../tests/programs/e11_scaled_trace.iv"),
            &|i, n| {
                vector(i, n);
                i.value("B", Dense::new(&[n, n], random(n * n, 2)).expect("it fits"));
            },
            [300, 3000],
            |_, data, gradient| {
                let (x, b) = (data[0], data[1]);
                let diagonal = b.iter().step_by(x.len() + 1);
                gradient.iter_mut().zip(x).zip(diagonal).fold(0.0, |sum, ((g, x), b)| {
                    *g = 2.0 * x * b;
                    sum + x * x * b
                })
            },
        ),
    ];
    for (name, text, setup, sizes, by_hand) in programs {
        let value = Function::parse(text)?.simplify()?;
        let gradient = Function::parse(text)?.gradient(["x"])?;
        let (mut ours, mut theirs) = ([[0.0; 2]; 2], [0.0; 2]);
        for (at, n) in sizes.into_iter().enumerate() {
            let mut inputs = Inputs::new();
            setup(&mut inputs, n);
            for (times, function) in ours.iter_mut().zip([&value, &gradient]) {
                times[at] = seconds(&function.kernel(&inputs).engine(Engine::Native).build()?, &inputs, function)?;
            }
            let leaves = leaves(&inputs, &gradient)?;
            let data: Vec<&[f64]> = leaves.iter().map(Vec::as_slice).collect();
            let mut gradient = vec![0.0; data[0].len()];
            theirs[at] = median(&mut || {
                black_box(by_hand(n, black_box(&data), &mut gradient));
                black_box(&mut gradient);
                Ok(())
            })?;
        }
        let exponent = |times: [f64; 2]| (times[1] / times[0]).ln() / (sizes[1] as f64 / sizes[0] as f64).ln();
        let ([value, gradient], by_hand) = (ours.map(exponent), exponent(theirs));
        println!("{name:<62}{value:>11.2}{gradient:>11.2}{by_hand:>11.2}");
        all.push(Growth { program: name.to_owned(), value, gradient, by_hand });
    }
    Ok(all)
}

type Setup<'a> = &'a dyn Fn(&mut Inputs, usize);

/// The value from the size and all parameters, and the gradient by the first.
type ByHand = fn(usize, &[&[f64]], &mut [f64]) -> f64;

/// The numbers of all parameters.
fn leaves(inputs: &Inputs, function: &Function) -> Result<Vec<Vec<f64>>> {
    let bound = iverson::tensor::bind(&function.tensor_ssa().signature, inputs)?;
    Ok(bound.values().values().flat_map(|v| v.leaves().iter().map(|leaf| leaf.data().to_vec())).collect())
}

/// The median time of a call.
fn seconds(kernel: &Kernel, inputs: &Inputs, function: &Function) -> Result<f64> {
    let leaves = leaves(inputs, function)?;
    let data: Vec<&[f64]> = leaves.iter().map(Vec::as_slice).collect();
    let mut outputs: Vec<Vec<f64>> =
        kernel.outputs().iter().flat_map(|o| &o.leaves).map(|leaf| vec![0.0; leaf.len()]).collect();
    let mut slices: Vec<&mut [f64]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    median(&mut || kernel.call_into(&data, &mut slices).map(|_| ()))
}

/// The median time of many runs.
fn median(run: &mut dyn FnMut() -> Result<()>) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..15 {
        let start = Instant::now();
        run()?;
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
