//! Bundle adjustment: residuals, and their Jacobian as one sparse matrix.

use iverson::Function;
use iverson::kernel::{Assembly, Leaf};
use iverson::tensor::{Dense, Inputs, Relation};
use serde::Deserialize;
use serde_json::{Value, json};

use super::evaluations::{Bound, Outcome, Result, Task, simple};
use super::protocol::Runs;

/// The parameters of a camera, of a point, and of a row of the Jacobian, where one more is the weight of the observation.
const CAMERA: usize = 11;
const POINT: usize = 3;
const ROW: usize = CAMERA + POINT + 1;
/// The numbers of cameras, points and observations that are taken.
const MOST: usize = 1 << 26;

/// The residuals and their derivatives: for each of two outputs and three parameters a sparse tensor.
pub fn functions() -> Result<Vec<(&'static str, Assembly)>> {
    let objective = Function::parse(include_str!("../../tests/programs/k10_bundle_adjustment.iv"))?;
    let jacobian = objective.jacobian(["cam", "x", "w"])?;
    let jacobian = jacobian.assemble(&jacobian.sparse_results())?;
    Ok(vec![("objective", simple(&objective)?), ("jacobian", jacobian)])
}

/// One camera, one point and one observation, of which there are many copies.
#[derive(Deserialize)]
struct Input {
    n: usize,
    m: usize,
    p: usize,
    cam: Vec<f64>,
    x: Vec<f64>,
    w: f64,
    feat: Vec<f64>,
    #[serde(flatten)]
    runs: Runs,
}

/// The Jacobian in CSR format: cameras, points and weights are its columns, the components of all projections and then the weights its rows.
struct Matrix {
    rows: Vec<usize>,
    cols: Vec<usize>,
    vals: Vec<f64>,
}

pub fn evaluate(mut task: Task<'_>) -> Result<Outcome> {
    let Input { n, m, p, cam, x, w, feat, runs } = task.input()?;
    if [n, m, p].iter().any(|count| !(1..=MOST).contains(count)) {
        return Err(format!("from 1 to {MOST} cameras, points and observations are expected").into());
    }
    if (cam.len(), x.len(), feat.len()) != (CAMERA, POINT, 2) {
        return Err("a camera of 11 numbers, a point of 3 and a feature of 2 are expected".into());
    }
    let (cam, x, w, feat) = (cam.repeat(n), x.repeat(m), vec![w; p], feat.repeat(p));
    let (camera, point): (Vec<usize>, Vec<usize>) = (0..p).map(|o| (o % n, o % m)).unzip();
    let mut inputs = Inputs::new();
    inputs
        .value("cam", Dense::new(&[n, CAMERA], cam.clone())?)
        .value("x", Dense::new(&[m, POINT], x.clone())?)
        .value("w", Dense::vector(w.clone()))
        .value("feat", Dense::new(&[p, 2], feat.clone())?)
        .relation("of", Relation::from_map(&[p], camera.clone(), n)?)
        .relation("pt", Relation::from_map(&[p], point.clone(), m)?);
    let data: [&[f64]; 4] = [&cam, &x, &w, &feat];
    let mut bound = task.bind(&inputs)?;
    if task.function == "objective" {
        let timings = runs.time(|| bound.call(&data))?;
        let [projections, weights] = bound.results.as_slice() else {
            return Err("the program has other results than two vectors".into());
        };
        let output = json!({
            "reproj_error": { "elements": projections[..2], "repeated": p },
            "w_err": { "element": weights[0], "repeated": p },
        });
        return Ok((output, bound.timings(timings)));
    }
    let (points, weights) = (CAMERA * n, CAMERA * n + POINT * m);
    let places = places(&bound, &camera, &point)?;
    let mut matrix = Matrix { rows: Vec::new(), cols: Vec::new(), vals: vec![0.0; 2 * ROW * p + p] };
    let timings = runs.time(|| {
        let Matrix { rows, cols, vals } = &mut matrix;
        rows.clear();
        rows.extend((0..2 * p).map(|row| ROW * row));
        rows.extend((0..=p).map(|o| 2 * ROW * p + o));
        cols.clear();
        for (o, (camera, point)) in camera.iter().zip(&point).enumerate() {
            for _ in 0..2 {
                cols.extend((0..CAMERA).map(|k| CAMERA * camera + k));
                cols.extend((0..POINT).map(|k| points + POINT * point + k));
                cols.push(weights + o);
            }
        }
        cols.extend((0..p).map(|o| weights + o));
        bound.call(&data)?;
        for (places, block) in places.iter().zip(&bound.results) {
            places.iter().zip(block).for_each(|(at, value)| vals[*at as usize] = *value);
        }
        Ok(())
    })?;
    let Matrix { rows, cols, vals } = matrix;
    // All observations are copies of one, so that the first rows and the last element tell all.
    let output = json!({ "rows": ends(&rows), "cols": ends(&cols), "vals": ends(&vals) });
    Ok((output, bound.timings(timings)))
}

/// The first 30 elements and the last.
fn ends<T: Copy + Into<Value>>(all: &[T]) -> Value {
    all.iter().take(30).chain(all.last()).copied().collect()
}

/// Where the entries of each block are in the matrix, of which every row has room for all parameters of its camera and of its point.
///
/// # Errors
/// If an entry belongs to another camera, point or weight than those of its observation.
fn places(bound: &Bound, camera: &[usize], point: &[usize]) -> Result<Vec<Vec<u32>>> {
    let place = |name: &str, at: &[usize]| match (name, at) {
        ("jacobian_0_cam", &[o, e, c, k]) if camera[o] == c => Some(ROW * (2 * o + e) + k),
        ("jacobian_0_x", &[o, e, c, k]) if point[o] == c => Some(ROW * (2 * o + e) + CAMERA + k),
        ("jacobian_0_w", &[o, e, c]) if o == c => Some(ROW * (2 * o + e) + CAMERA + POINT),
        ("jacobian_1_w", &[o, c]) if o == c => Some(2 * ROW * camera.len() + o),
        _ => None,
    };
    let blocks = bound.leaves().map(|(name, leaf)| {
        let place = |at: &[usize]| {
            let place = place(name, at).and_then(|place| u32::try_from(place).ok());
            place.ok_or_else(|| format!("`{name}` has an entry at {at:?}").into())
        };
        match leaf {
            Leaf::Coo(relation) => relation.tuples().map(|at| place(&at)).collect(),
            Leaf::Csr(pattern) => pattern.entries().map(|(row, column)| place(&[row, column])).collect(),
            Leaf::Csc(_) | Leaf::Dense(_) => Err(format!("`{name}` is stored otherwise").into()),
        }
    });
    blocks.collect()
}
