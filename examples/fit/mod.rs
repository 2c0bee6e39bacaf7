//! What the examples share: L-BFGS of argmin, a line for some iterations, a check that it converged, and a picture of how the loss falls.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use argmin::core::observers::{Observe, ObserverMode};
use argmin::core::{CostFunction, Executor, Gradient, KV, State};
use argmin::solver::linesearch::MoreThuenteLineSearch;
use argmin::solver::quasinewton::LBFGS;
use indicatif::ProgressBar;
use iverson::Objective;
use iverson::ndarray::Array2;

/// A loss that is to be minimised.
pub trait Problem:
    CostFunction<Param = Vec<f64>, Output = f64> + Gradient<Param = Vec<f64>, Gradient = Vec<f64>>
{
    /// Where to begin.
    fn start(&self) -> Vec<f64>;
}

impl Problem for Objective {
    fn start(&self) -> Vec<f64> {
        self.start()
    }
}

/// A loss as a function that computes the value and, into memory, the gradient at a point.
#[allow(dead_code, reason = "most examples have an objective")]
pub struct Loss<F> {
    /// Where to begin.
    pub start: Vec<f64>,
    /// The function.
    pub evaluate: F,
}

impl<F: Fn(&[f64], &mut [f64]) -> iverson::Result<f64>> CostFunction for Loss<F> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, point: &Vec<f64>) -> Result<f64, argmin::core::Error> {
        Ok((self.evaluate)(point, &mut vec![0.0; point.len()])?)
    }
}

impl<F: Fn(&[f64], &mut [f64]) -> iverson::Result<f64>> Gradient for Loss<F> {
    type Param = Vec<f64>;
    type Gradient = Vec<f64>;

    fn gradient(&self, point: &Vec<f64>) -> Result<Vec<f64>, argmin::core::Error> {
        let mut gradient = vec![0.0; point.len()];
        (self.evaluate)(point, &mut gradient)?;
        Ok(gradient)
    }
}

impl<F: Fn(&[f64], &mut [f64]) -> iverson::Result<f64>> Problem for Loss<F> {
    fn start(&self) -> Vec<f64> {
        self.start.clone()
    }
}

/// A problem whose losses are finite: with any other one, a line search would not end.
struct Finite<P>(P);

impl<P: Problem> CostFunction for Finite<P> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, point: &Vec<f64>) -> Result<f64, argmin::core::Error> {
        let loss = self.0.cost(point)?;
        if loss.is_finite() { Ok(loss) } else { Err(argmin::core::Error::msg(format!("the loss has become {loss}"))) }
    }
}

impl<P: Problem> Gradient for Finite<P> {
    type Param = Vec<f64>;
    type Gradient = Vec<f64>;

    fn gradient(&self, point: &Vec<f64>) -> Result<Vec<f64>, argmin::core::Error> {
        self.0.gradient(point)
    }
}

/// What came of a fit.
pub struct Fit<P> {
    /// The loss at the start and at every iteration.
    pub losses: Vec<f64>,
    /// Where the fit ended.
    pub point: Vec<f64>,
    /// The problem.
    #[allow(dead_code, reason = "some examples look at nothing else")]
    pub objective: P,
}

/// A random number with mean 0 and deviation 1, by the method of Box and Muller.
#[allow(dead_code, reason = "some examples read their data")]
pub fn normal(random: &mut fastrand::Rng) -> f64 {
    (-2.0 * (1.0 - random.f64()).ln()).sqrt() * (std::f64::consts::TAU * random.f64()).cos()
}

/// Writes a picture, of shades from 0 to 1, to a file of this folder.
#[allow(dead_code, reason = "some examples make no picture")]
pub fn write_picture(path: &str, picture: &Array2<f64>) -> std::io::Result<()> {
    let (height, width) = picture.dim();
    let mut file = format!("P5 {width} {height} 255\n").into_bytes();
    file.extend(picture.iter().map(|shade| (255.0 * shade).round() as u8));
    std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join(path), file)
}

/// Notes every loss, and moves a bar where a person looks on.
struct Watch {
    losses: Arc<Mutex<Vec<f64>>>,
    bar: ProgressBar,
}

impl<S: State<Float = f64>> Observe<S> for Watch {
    fn observe_init(&mut self, _: &str, state: &S, kv: &KV) -> Result<(), argmin::core::Error> {
        self.observe_iter(state, kv)
    }

    fn observe_iter(&mut self, state: &S, _: &KV) -> Result<(), argmin::core::Error> {
        self.losses.lock().expect("nothing fails in here").push(state.get_cost());
        self.bar.set_position(state.get_iter());
        Ok(())
    }
}

/// Goes down until the gradient is shorter than `tolerance`, and prints the loss of every `every`-th iteration; an error if so many `iterations` do not
/// suffice. The picture is `target/NAME.svg`.
pub fn fit<P: Problem>(
    name: &str,
    objective: P,
    (iterations, tolerance, every): (u64, f64, usize),
    out: &mut dyn Write,
) -> Result<Fit<P>, Box<dyn Error>> {
    let losses = Arc::new(Mutex::new(Vec::new()));
    let bar = ProgressBar::new(iterations);
    let watch = Watch { losses: Arc::clone(&losses), bar: bar.clone() };
    let start = objective.start();
    let solver =
        LBFGS::new(MoreThuenteLineSearch::new(), 10).with_tolerance_grad(tolerance)?.with_tolerance_cost(0.0)?;
    let fitted = Executor::new(Finite(objective), solver)
        .configure(|state| state.param(start).max_iters(iterations))
        .add_observer(watch, ObserverMode::Always)
        .run()?;
    bar.finish_and_clear();
    // The last one, where the gradient is short: losses that differ by how they are rounded do not tell which is best.
    let ended = fitted.state.get_termination_status().to_string();
    let point = fitted.state.param.ok_or(ended)?;
    let Finite(objective) = fitted.problem.problem.ok_or("the fit gives the objective back")?;
    let losses = losses.lock().expect("nothing fails in here").clone();
    writeln!(out, "iteration       loss")?;
    for (iteration, loss) in losses.iter().enumerate() {
        if iteration % every == 0 || iteration + 1 == losses.len() {
            writeln!(out, "{iteration:9} {loss:10.2e}")?;
        }
    }
    let slope = objective.gradient(&point)?.iter().map(|slope| slope * slope).sum::<f64>().sqrt();
    writeln!(out, "the gradient has the length {slope:.0e}; {} shows the losses", picture(name, &losses)?.display())?;
    if slope > tolerance {
        return Err(format!("the fit has not converged: the gradient is longer than {tolerance:e}").into());
    }
    Ok(Fit { losses, point, objective })
}

/// What a picture shows: points, and a line through points that are close to each other.
#[allow(dead_code, reason = "some examples draw nothing else")]
pub struct Series<'a> {
    /// What is said of it.
    pub name: &'a str,
    /// Its colour.
    pub colour: &'a str,
    /// The points that are measured.
    pub points: Vec<(f64, f64)>,
    /// The points of the line.
    pub line: Vec<(f64, f64)>,
}

/// Draws measurements and what was fitted to them, as `target/NAME.svg`.
#[allow(dead_code, reason = "some examples draw nothing else")]
pub fn plot(name: &str, all: &[Series<'_>]) -> Result<PathBuf, Box<dyn Error>> {
    let mut svg = String::from(START);
    let ends = |of: fn(&(f64, f64)) -> f64| {
        let numbers = all.iter().flat_map(|series| series.points.iter().chain(&series.line)).map(of);
        numbers.fold((f64::MAX, f64::MIN), |(low, high), x| (low.min(x), high.max(x)))
    };
    let ((left, right), (low, high)) = (ends(|point| point.0), ends(|point| point.1));
    let place =
        |(x, y): &(f64, f64)| (60.0 + 520.0 * (x - left) / (right - left), 20.0 + 260.0 * (high - y) / (high - low));
    for (k, Series { name, colour, points, line }) in all.iter().enumerate() {
        for (x, y) in points.iter().map(place) {
            writeln!(svg, "<circle cx='{x:.1}' cy='{y:.1}' r='3' fill='{colour}'/>")?;
        }
        let line: Vec<String> = line.iter().map(place).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        writeln!(svg, "<polyline points='{}' fill='none' stroke='{colour}' stroke-width='2'/>", line.join(" "))?;
        writeln!(svg, "<text x='570' y='{}' text-anchor='end' fill='{colour}'>{name}</text>", 34 + 16 * k)?;
    }
    for (y, number) in [(284, low), (24, high)] {
        writeln!(svg, "<text x='52' y='{y}' text-anchor='end'>{number:.0}</text>")?;
    }
    for (x, number) in [(60, left), (580, right)] {
        writeln!(svg, "<text x='{x}' y='308' text-anchor='middle'>{number:.0}</text>")?;
    }
    save(name, svg)
}

const START: &str =
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 600 320' font-family='sans-serif' font-size='12'>
<rect width='600' height='320' fill='white'/>
";

fn save(name: &str, svg: String) -> Result<PathBuf, Box<dyn Error>> {
    let (root, path) = (Path::new(env!("CARGO_MANIFEST_DIR")), Path::new("target").join(format!("{name}.svg")));
    std::fs::create_dir_all(root.join("target"))?;
    std::fs::write(root.join(&path), svg + "</svg>\n")?;
    Ok(path)
}

/// Draws how far the losses are above the least one, on a scale of powers of ten.
fn picture(name: &str, losses: &[f64]) -> Result<PathBuf, Box<dyn Error>> {
    let least = losses.iter().copied().fold(f64::MAX, f64::min);
    let above = losses.iter().map(|loss| loss - least).filter(|above| *above > 0.0);
    let heights: Vec<f64> = above.map(f64::log10).collect();
    let (low, high) = heights.iter().fold((f64::MAX, f64::MIN), |(low, high), y| (low.min(*y), high.max(*y)));
    let (low, high) = (low.floor(), high.ceil().max(low.floor() + 1.0));
    let place = |at: usize, y: f64| {
        (60.0 + 520.0 * at as f64 / (heights.len().max(2) - 1) as f64, 20.0 + 260.0 * (high - y) / (high - low))
    };
    let mut svg = String::from(START);
    let step = ((high - low) / 8.0).ceil().max(1.0) as usize;
    for power in (low as i32..=high as i32).step_by(step) {
        let (x, y) = place(0, f64::from(power));
        writeln!(
            svg,
            "<path d='M{x} {y:.1}H580' stroke='#ddd'/><text x='52' y='{:.1}' text-anchor='end'>1e{power}</text>",
            y + 4.0
        )?;
    }
    let points: Vec<String> =
        heights.iter().enumerate().map(|(at, y)| place(at, *y)).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    writeln!(svg, "<polyline points='{}' fill='none' stroke='#06c' stroke-width='2'/>", points.join(" "))?;
    writeln!(
        svg,
        "<text x='320' y='308' text-anchor='middle'>loss of {name} above its least, over {} iterations</text>",
        losses.len() - 1
    )?;
    save(name, svg)
}
