//! Teaches a recurrent network a sonnet by heart: it reads a line letter by letter, says which letter comes next, and is corrected.
//!
//! What it has learnt it then writes alone: each letter that it takes for the most likely is the next one that it reads.

mod fit;

use std::error::Error;
use std::io::Write;

use iverson::prelude::*;

use fit::{fit, normal};

const LOSS: &str = include_str!("programs/text.iv");
const WRITE: &str = include_str!("programs/text_write.iv");
const TEXT: &str = include_str!("data/sonnet.txt");
const HIDDEN: usize = 32;

/// What came of the fit.
pub struct Summary {
    /// The loss at the start and at every iteration.
    pub losses: Vec<f64>,
    /// The part of the letters that the network writes rightly.
    pub right: f64,
}

/// Fits the network, and has it write.
pub fn run(out: &mut dyn Write) -> Result<Summary, Box<dyn Error>> {
    let mut letters: Vec<char> = TEXT.chars().collect();
    letters.sort_unstable();
    letters.dedup();
    // Lines begin with a line break, and end with one at least.
    let longest = TEXT.lines().map(|line| line.chars().count()).max().unwrap_or(0) + 2;
    let (lines, k, n) = (TEXT.lines().count(), letters.len(), HIDDEN);
    let padded = TEXT.lines().flat_map(|line| format!("\n{line}{:\n<1$}", "", longest - 1 - line.len()).into_bytes());
    let text: Vec<usize> = padded.filter_map(|c| letters.binary_search(&char::from(c)).ok()).collect();

    let random = &mut fastrand::Rng::with_seed(1);
    let mut weights =
        |shape: &[usize]| Dense::new(shape, (0..shape.iter().product()).map(|_| 0.3 * normal(random)).collect());
    let mut inputs = inputs! { "start" => weights(&[lines, n])?, "E" => weights(&[k, 4, n])?, "U" => weights(&[4, n, n])?, "V" => weights(&[k, n])? };
    inputs.value("c", vec![0.0; k]).value("ridge", 1e-5).value("damping", 5e-2).map(
        "letter",
        &[lines, longest],
        text.clone(),
    );
    let loss = Function::parse(LOSS)?;
    writeln!(out, "The loss:\n\n{loss}\nIts gradient by U:\n\n{}", loss.gradient(["U"])?)?;
    let objective = loss.objective(&inputs, ["start", "E", "U", "V", "c"])?;
    let fit = fit("text", objective, (2000, 3e-3, 50), out)?;

    let first: Vec<f64> = letters.iter().map(|letter| f64::from(*letter == '\n')).collect();
    let mut inputs = fit.objective.at(&fit.point)?;
    inputs.value("first", first).size("T", longest as i64);
    let written = Function::parse(WRITE)?.eval(&inputs)?;
    let written = written["value"].as_slice().ok_or("places of letters are expected")?;
    for line in written.chunks(longest) {
        writeln!(out, "{}", line.iter().map(|letter| letters[*letter as usize]).collect::<String>().trim())?;
    }
    let right = written.iter().zip(&text).filter(|(written, letter)| **written as usize == **letter).count();
    Ok(Summary { losses: fit.losses, right: right as f64 / text.len() as f64 })
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout().lock())?;
    Ok(())
}
