//! The messages of GradBench, one JSON value on each line.
//!
//! Every message has an `id` and a `kind`, and gets a response with its `id`. Only `start`, `define` and `evaluate` want more than that.

use std::error::Error;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is sent to a tool.
#[derive(Debug, Deserialize)]
pub struct Message {
    /// Repeated in the response.
    pub id: Value,
    /// What is asked for.
    #[serde(default)]
    pub kind: String,
    /// Of `define` and `evaluate`: the name of an evaluation.
    #[serde(default)]
    pub module: String,
    /// Of `evaluate`: the name of a function of that evaluation.
    #[serde(default)]
    pub function: String,
    /// Of `evaluate`: its arguments, in a form that the evaluation defines.
    #[serde(default)]
    pub input: Value,
}

/// The `id` of a line that is no message; null where there is none.
pub fn id(line: &[u8]) -> Value {
    let value: Value = serde_json::from_slice(line).unwrap_or_default();
    value.get("id").cloned().unwrap_or_default()
}

/// What a tool responds.
#[derive(Debug, Serialize)]
pub struct Response {
    /// That of the message; null where the message has none.
    pub id: Value,
    /// The rest.
    #[serde(flatten)]
    pub answer: Answer,
}

/// A response but for its `id`.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// To `start`.
    Started { tool: &'static str },
    /// To `define`.
    Defined { success: bool, timings: Vec<Timing> },
    /// To `evaluate`.
    Evaluated { success: bool, output: Value, timings: Vec<Timing> },
    /// To a message that asks for what is not there.
    Failed { success: bool, error: String },
    /// To all other messages.
    Acknowledged {},
}

impl Answer {
    /// Says why not.
    pub fn failed(error: impl ToString) -> Answer {
        Answer::Failed { success: false, error: error.to_string() }
    }
}

/// How long a part of the work took.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Timing {
    /// `evaluate` for each run of a function, `prepare` for binding it, `derive` for deriving a module.
    pub name: &'static str,
    /// The time.
    pub nanoseconds: u64,
}

impl Timing {
    /// A part that took so long.
    pub fn new(name: &'static str, time: Duration) -> Timing {
        Timing { name, nanoseconds: u64::try_from(time.as_nanos()).unwrap_or(u64::MAX) }
    }
}

/// How often a function is to run: until both bounds are reached, and once at least.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Runs {
    min_runs: u64,
    min_seconds: f64,
}

impl Runs {
    /// Runs a function and times each run.
    ///
    /// # Errors
    /// The first error of a run.
    pub fn time(self, mut run: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<Vec<Timing>, Box<dyn Error>> {
        let mut timings = Vec::new();
        let mut total = Duration::ZERO;
        while timings.is_empty() || (timings.len() as u64) < self.min_runs || total.as_secs_f64() < self.min_seconds {
            let start = Instant::now();
            run()?;
            let time = start.elapsed();
            total += time;
            timings.push(Timing::new("evaluate", time));
        }
        Ok(timings)
    }
}
