//! K8 and K10: the numbers of sparse Hessians and Jacobians, beside kernels that write them into the same CSR matrix.

use std::time::Instant;

use iverson::kernel::{Engine, MatrixKernel, Status};
use iverson::tensor::{CsrPattern, Dense, Inputs, Relation, Value};
use iverson::{Function, Mode, Request, Result};
use serde::Serialize;

use crate::harness::{Run, Table, random};

const CHAIN: &str = include_str!("../../examples/programs/rosenbrock.iv");

/// Milliseconds before the first call: of what depends on no size, and of what does.
#[derive(Serialize)]
pub struct Binding {
    program: String,
    derive: f64,
    lower: f64,
    bind: f64,
}

pub fn run(table: &mut Table) -> Result<Vec<Binding>> {
    for n in [1000, 30_000, 1_000_000] {
        chain(table, n)?;
    }
    bundle(table, [49, 7776, 31_843])?;
    let mut all = Vec::new();
    if !table.wants("K8") {
        return Ok(all);
    }
    println!("\n{:<62}{:>11}{:>11}{:>11}", "ms before the first call", "derive", "lower", "bind");
    for n in [1000, 30_000, 1_000_000] {
        let mut inputs = Inputs::new();
        inputs.value("x", Value::vector(random(n, 81)));
        let loss = Function::parse(CHAIN)?;
        let mut marks = vec![Instant::now()];
        let hessian = loss.derive(&Request::new(Mode::Hessian, &["x"]))?;
        marks.push(Instant::now());
        let matrix = hessian.matrix()?;
        marks.push(Instant::now());
        // The interpreter: how long `rustc` takes, or a file of the cache, has nothing to do with the pattern.
        matrix.bind(&inputs, Engine::Interpreter)?;
        marks.push(Instant::now());
        let times: Vec<f64> = marks.windows(2).map(|pair| 1e3 * (pair[1] - pair[0]).as_secs_f64()).collect();
        let program = format!("K8 Hessian of a chain, n = {n}");
        println!("{program:<62}{:>11.1}{:>11.1}{:>11.1}", times[0], times[1], times[2]);
        all.push(Binding { program, derive: times[0], lower: times[1], bind: times[2] });
    }
    Ok(all)
}

pub fn large(table: &mut Table) -> Result<()> {
    bundle(table, [253, 163_691, 287_451])
}

/// A kernel by hand: fills what is beside the matrix, and its numbers.
type ByHand<'a> = dyn FnMut(&mut [Vec<f64>], &mut [f64]) + Send + 'a;

/// A derivative as a matrix, with what is computed beside it.
struct Case<'a> {
    name: String,
    text: &'a str,
    request: Request,
    inputs: &'a Inputs,
    data: &'a [&'a [f64]],
}

fn compare(table: &mut Table, case: &Case<'_>, pattern: &CsrPattern, by_hand: &mut ByHand<'_>) -> Result<()> {
    let derived = Function::parse(case.text)?.derive(&case.request)?;
    let matrix = derived.matrix()?;
    let [native, interpreter] = [Engine::Native, Engine::Interpreter].map(|engine| matrix.bind(case.inputs, engine));
    let (native, interpreter) = (native?, interpreter?);
    assert_eq!(native.status(), Status::Native);
    assert_eq!(native.pattern().indptr(), pattern.indptr(), "{}: other rows", case.name);
    assert_eq!(native.pattern().indices(), pattern.indices(), "{}: other columns", case.name);
    // What is beside the matrix, then its numbers.
    let others = native.others().flat_map(|output| &output.leaves).map(|leaf| leaf.len());
    let lengths: Vec<usize> = others.chain([native.pattern().len()]).collect();
    let run = |matrix| -> Run<'_> {
        let matrix: &MatrixKernel = matrix;
        Box::new(move |results| {
            let Some((numbers, others)) = results.split_last_mut() else { return };
            let mut others: Vec<&mut [f64]> = others.iter_mut().map(Vec::as_mut_slice).collect();
            matrix.call_into(case.data, &mut others, numbers).expect("the inputs fit");
        })
    };
    let by_hand: Run<'_> = Box::new(|results| {
        let Some((numbers, others)) = results.split_last_mut() else { return };
        by_hand(others, numbers);
    });
    table.rounds(case.name.clone(), &lengths, [by_hand, run(&native), run(&native), run(&interpreter)]);
    Ok(())
}

fn chain(table: &mut Table, n: usize) -> Result<()> {
    let name = format!("K8 Hessian of a chain, n = {n}");
    if !table.wants(&name) {
        return Ok(());
    }
    let x = random(n, 81);
    let mut inputs = Inputs::new();
    inputs.value("x", Value::vector(x.clone()));
    let columns = |i: usize| i.saturating_sub(1)..(i + 2).min(n);
    let mut indptr = vec![0];
    indptr.extend((0..n).scan(0, |at, i| {
        *at += columns(i).len();
        Some(*at)
    }));
    let pattern = CsrPattern::new(n, n, indptr, (0..n).flat_map(columns).map(|j| j as u32).collect()).expect("sorted");
    let ends = |numbers: &mut [f64]| {
        let last = numbers.len() - 2;
        numbers[..2].copy_from_slice(&[1200.0 * x[0] * x[0] - 400.0 * x[1] + 2.0, -400.0 * x[0]]);
        numbers[last..].copy_from_slice(&[-400.0 * x[n - 2], 200.0]);
    };
    let case = |name: &str, with_value| Case {
        name: name.to_owned(),
        text: CHAIN,
        request: Request { with_value, ..Request::new(Mode::Hessian, &["x"]) },
        inputs: &inputs,
        data: &[],
    };
    let data: [&[f64]; 1] = [&x];
    let hessian = Case { data: &data, ..case(&name, false) };
    compare(table, &hessian, &pattern, &mut |_, numbers| {
        ends(numbers);
        let inner = numbers[2..].chunks_exact_mut(3);
        for (row, x) in inner.zip(x.windows(3)) {
            let middle = 1200.0_f64.mul_add(x[1] * x[1], (-400.0_f64).mul_add(x[2], 202.0));
            row.copy_from_slice(&[-400.0 * x[0], middle, -400.0 * x[1]]);
        }
    })?;
    let all = Case { data: &data, ..case(&format!("{name}, with value and gradient"), true) };
    compare(table, &all, &pattern, &mut |others, numbers| {
        ends(numbers);
        let [value, gradient] = others else { return };
        let inner = numbers[2..].chunks_exact_mut(3);
        let step = |x: f64, next: f64| (next - x * x, 1.0 - x);
        // Four partial sums, so that additions do not wait for each other.
        let mut sums = [0.0; 4];
        let (bend, pull) = step(x[0], x[1]);
        sums[0] += 100.0 * bend * bend + pull * pull;
        gradient[0] = -400.0 * x[0] * bend - 2.0 * pull;
        for (i, ((row, x), g)) in inner.zip(x.windows(3)).zip(&mut gradient[1..]).enumerate() {
            let (bend, pull) = step(x[1], x[2]);
            let before = x[1] - x[0] * x[0];
            sums[i % 4] += 100.0 * bend * bend + pull * pull;
            *g = 200.0 * before - 400.0 * x[1] * bend - 2.0 * pull;
            let middle = 1200.0_f64.mul_add(x[1] * x[1], (-400.0_f64).mul_add(x[2], 202.0));
            row.copy_from_slice(&[-400.0 * x[0], middle, -400.0 * x[1]]);
        }
        gradient[n - 1] = 200.0 * (x[n - 1] - x[n - 2] * x[n - 2]);
        value[0] = sums.iter().sum();
    })
}

const CAMERA: usize = 11;
const POINT: usize = 3;

/// `a x b`
fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

fn product(m: &[[f64; 3]; 3], x: [f64; 3]) -> [f64; 3] {
    m.map(|row| row[0].mul_add(x[0], row[1].mul_add(x[1], row[2] * x[2])))
}

/// The rotation by a vector, and its derivative by each element of the vector: `c 1 + s [a] + (1 - c) a a'` with the axis `a`.
fn rotation(r: [f64; 3]) -> [[[f64; 3]; 3]; 4] {
    let angle = (r[0] * r[0] + r[1] * r[1] + r[2] * r[2]).sqrt();
    let (s, c) = angle.sin_cos();
    let a = r.map(|r| r / angle);
    let unit = |k: usize| std::array::from_fn(|i| if i == k { 1.0 } else { 0.0 });
    let turned = |k: usize| cross(a, unit(k));
    let mut all = [[[0.0; 3]; 3]; 4];
    for (i, k) in (0..3).flat_map(|i| (0..3).map(move |k| (i, k))) {
        all[0][i][k] = c * unit(k)[i] + s * turned(k)[i] + (1.0 - c) * a[i] * a[k];
        for d in 0..3 {
            // da = (e_d - a a_d) / angle, and the angle changes by a_d.
            let da: [f64; 3] = std::array::from_fn(|j| (unit(d)[j] - a[j] * a[d]) / angle);
            let by_angle = -s * unit(k)[i] + c * turned(k)[i] + s * a[i] * a[k];
            let by_axis = s * cross(da, unit(k))[i] + (1.0 - c) * (da[i] * a[k] + a[i] * da[k]);
            all[d + 1][i][k] = a[d] * by_angle + by_axis;
        }
    }
    all
}

/// The numbers of the two rows of an observation: 10 by the camera, 3 by the point, one by the weight.
#[inline(always)]
fn rows(
    turn: &[[[f64; 3]; 3]; 4],
    cam: &[f64; CAMERA],
    x: &[f64; POINT],
    w: f64,
    feat: &[f64; 2],
    rows: &mut [f64; 28],
) {
    let ray = [x[0] - cam[3], x[1] - cam[4], x[2] - cam[5]];
    let seen = product(&turn[0], ray);
    let over = 1.0 / seen[2];
    let flat = [seen[0] * over, seen[1] * over];
    let r2 = flat[0] * flat[0] + flat[1] * flat[1];
    let bend = 1.0 + r2 * (cam[9] + cam[10] * r2);
    let slope = 2.0 * (cam[9] + 2.0 * cam[10] * r2);
    let turned: [[f64; 3]; 3] = std::array::from_fn(|d| product(&turn[d + 1], ray));
    for e in 0..2 {
        let row = &mut rows[14 * e..14 * e + 14];
        // d bent_e / d flat, then / d seen
        let by_flat: [f64; 2] = std::array::from_fn(|k| {
            let own = if k == e { bend } else { 0.0 };
            (slope * flat[e]).mul_add(flat[k], own) * w * cam[6]
        });
        let by_seen = [by_flat[0] * over, by_flat[1] * over, -over * by_flat[0].mul_add(flat[0], by_flat[1] * flat[1])];
        let along = |v: [f64; 3]| by_seen[0].mul_add(v[0], by_seen[1].mul_add(v[1], by_seen[2] * v[2]));
        for d in 0..3 {
            row[d] = along(turned[d]);
            let by_point = along([turn[0][0][d], turn[0][1][d], turn[0][2][d]]);
            row[3 + d] = -by_point;
            row[10 + d] = by_point;
        }
        let bent = flat[e] * bend;
        row[6] = w * bent;
        row[7] = w;
        row[8] = w * cam[6] * flat[e] * r2;
        row[9] = row[8] * r2;
        row[13] = cam[6].mul_add(bent, cam[e + 7] - feat[e]);
    }
}

fn bundle(table: &mut Table, [n, m, p]: [usize; 3]) -> Result<()> {
    let name = format!("K10 bundle adjustment, {p} observations");
    if !table.wants(&name) {
        return Ok(());
    }
    let (of, pt): (Vec<usize>, Vec<usize>) = (0..p).map(|o| (o % n, o % m)).unzip();
    // Points before the cameras, angles that are not zero.
    let mut cam = random(n * CAMERA, 91);
    for camera in cam.chunks_exact_mut(CAMERA) {
        camera[5] -= 6.0;
        camera[6] += 2.0;
    }
    let (x, w, feat) = (random(m * POINT, 92), random(p, 93), random(2 * p, 94));
    let mut inputs = Inputs::new();
    inputs
        .value("cam", Dense::new(&[n, CAMERA], cam.clone()).expect("it fits"))
        .value("x", Dense::new(&[m, POINT], x.clone()).expect("it fits"))
        .value("w", Dense::vector(w.clone()))
        .value("feat", Dense::new(&[p, 2], feat.clone()).expect("it fits"))
        .relation("of", Relation::from_map(&[p], of.clone(), n).expect("in range"))
        .relation("pt", Relation::from_map(&[p], pt.clone(), m).expect("in range"));
    let (mut indptr, mut indices) = (vec![0], Vec::new());
    let (points, weights) = (CAMERA * n, CAMERA * n + POINT * m);
    for o in 0..p {
        for e in 0..2 {
            let of_camera = (0..CAMERA).filter(|k| *k != 8 - e).map(|k| CAMERA * of[o] + k);
            let row = of_camera.chain((0..POINT).map(|k| points + POINT * pt[o] + k)).chain([weights + o]);
            indices.extend(row.map(|column| column as u32));
            indptr.push(indices.len());
        }
    }
    for o in 0..p {
        indices.push((weights + o) as u32);
        indptr.push(indices.len());
    }
    let pattern = CsrPattern::new(3 * p, weights + p, indptr, indices).expect("sorted");
    let data: [&[f64]; 4] = [&cam, &x, &w, &feat];
    let case = |name: String| Case {
        name,
        text: include_str!("../../tests/programs/k10_bundle_adjustment.iv"),
        request: Request::new(Mode::Jacobian, &["cam", "x", "w"]),
        inputs: &inputs,
        data: &data,
    };
    let camera = |c: usize| -> &[f64; CAMERA] { cam[CAMERA * c..].first_chunk().expect("a camera") };
    let turn = |c: usize| rotation(*cam[CAMERA * c..].first_chunk().expect("a rotation"));
    let fill = |o: usize, turn: &[[[f64; 3]; 3]; 4], numbers: &mut [f64]| {
        let point = x[POINT * pt[o]..].first_chunk().expect("a point");
        let feat = feat[2 * o..].first_chunk().expect("a feature");
        let two = numbers[28 * o..].first_chunk_mut().expect("two rows");
        rows(turn, camera(of[o]), point, w[o], feat, two);
    };
    let last = |numbers: &mut [f64]| numbers[28 * p..].iter_mut().zip(&w).for_each(|(x, w)| *x = -2.0 * w);
    compare(table, &case(format!("{name}, rotated each")), &pattern, &mut |_, numbers| {
        (0..p).for_each(|o| fill(o, &turn(of[o]), numbers));
        last(numbers);
    })?;
    let mut turns = Vec::with_capacity(n);
    compare(table, &case(format!("{name}, by camera")), &pattern, &mut |_, numbers| {
        turns.clear();
        turns.extend((0..n).map(turn));
        (0..p).for_each(|o| fill(o, &turns[of[o]], numbers));
        last(numbers);
    })
}
