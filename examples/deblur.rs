//! Sharpens a blurred, noisy picture: finds a picture that gives the same one when it is blurred, and has few edges.

mod fit;

use std::error::Error;
use std::io::Write;

use iverson::ndarray::{Array2, Axis, concatenate, s};
use iverson::prelude::*;

use fit::{fit, normal, write_picture};

const LOSS: &str = include_str!("programs/deblur.iv");
const BLUR: &str = "param x : [h + k - 1, w + l - 1] real\nparam blur : [k, l] real\nconv2d(x, blur)";
const PICTURE: &str = "target/deblur.pgm";
/// How long a side of the picture is, and of the blur.
const SIZE: usize = 40;
const WIDTH: usize = 7;

/// What came of the fit.
pub struct Summary {
    /// The loss at the start and at every iteration.
    pub losses: Vec<f64>,
    /// The mean square of what is wrong in the blurred picture, and in the sharpened one, without their borders.
    pub errors: (f64, f64),
}

/// Draws, blurs and sharpens a picture.
pub fn run(out: &mut dyn Write) -> Result<Summary, Box<dyn Error>> {
    let random = &mut fastrand::Rng::with_seed(1);
    let disc = |i: f64, j: f64| (i - 14.0).hypot(j - 14.0) < 9.0;
    let bars = |i: f64, j: f64| i > 26.0 && (j / 5.0).floor() % 2.0 == 0.0;
    let shade = |i, j| 0.2 + 0.7 * f64::from(disc(i, j)) + 0.5 * f64::from(bars(i, j));
    let picture = Array2::from_shape_fn((SIZE, SIZE), |(i, j)| shade(i as f64, j as f64));
    let middle = (WIDTH / 2) as f64;
    let bell = |i: usize, j: usize| (-((i as f64 - middle).powi(2) + (j as f64 - middle).powi(2)) / 4.0).exp();
    let bell = Array2::from_shape_fn((WIDTH, WIDTH), |(i, j)| bell(i, j));
    let bell = &bell / bell.sum();
    let blurred = Function::parse(BLUR)?.eval(&inputs! { "x" => &picture, "blur" => &bell })?;
    let small = SIZE - WIDTH + 1;
    let blurred = Array2::from_shape_vec((small, small), blurred["value"].as_slice().ok_or("a picture")?.to_vec())?;
    let blurred = blurred.mapv(|shade| shade + 0.01 * normal(random));

    let loss = Function::parse(LOSS)?;
    writeln!(out, "The loss:\n\n{loss}\nIts gradient by x:\n\n{}", loss.gradient(["x"])?)?;
    let inputs = inputs! { "z" => &blurred, "blur" => bell, "x" => Array2::from_elem((SIZE, SIZE), 0.5), "smooth" => 2e-3, "corner" => 1e-2 };
    let fit = fit("deblur", loss.objective(&inputs, ["x"])?, (1000, 1e-4, 25), out)?;

    let inner = s![WIDTH / 2..SIZE - WIDTH / 2, WIDTH / 2..SIZE - WIDTH / 2];
    let sharpened = Array2::from_shape_vec((SIZE, SIZE), fit.point)?.slice_move(inner);
    let truth = picture.slice(inner);
    let error = |found: &Array2<f64>| (found - &truth).mapv(|e| e * e).mean().unwrap_or(f64::NAN);
    let errors = (error(&blurred), error(&sharpened));
    writeln!(out, "\nA pixel is {:.3} wrong before and {:.3} after.", errors.0.sqrt(), errors.1.sqrt())?;
    writeln!(out, "{PICTURE} shows the truth, the blurred picture and the sharpened one.")?;
    let all = concatenate(Axis(1), &[truth, blurred.view(), sharpened.view()])?;
    write_picture(PICTURE, &all)?;
    Ok(Summary { losses: fit.losses, errors })
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout().lock())?;
    Ok(())
}
