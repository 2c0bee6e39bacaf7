//! Turns with other programs, such as `bench/peers/run.py`: they read inputs and results from files, and ask for times.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use iverson::kernel::Kernel;
use iverson::tensor::io::{FileValue, write_value};
use iverson::tensor::{Dense, Inputs, Tensor, bind};
use iverson::{Error, Result};

use crate::harness::Timed;

/// A turn takes as many calls as fit.
const TURN: Duration = Duration::from_millis(20);

/// Each line of standard input is the number of a pair of runs, and is answered by a line of JSON: the seconds by hand and those of native code.
/// An empty line, or the end, goes on to the next workload.
pub fn take_turns(thread: &rayon::ThreadPool, pairs: &mut [[Timed<'_>; 2]]) -> Result<()> {
    for line in std::io::stdin().lines() {
        let line = line.map_err(|error| Error::data("standard input", error.to_string()))?;
        if line.is_empty() {
            break;
        }
        let pair = line.parse().ok().and_then(|at: usize| pairs.get_mut(at));
        let pair = pair.ok_or_else(|| Error::data("standard input", format!("there are no runs `{line}`")))?;
        let [by_hand, native] = pair.each_mut().map(|run| thread.install(|| turn(run)));
        println!("{}", serde_json::json!({ "by hand": by_hand, "native": native }));
    }
    Ok(())
}

/// The processor time of a call, as a mean of many, after one that warms up, in seconds. What else runs on the machine is not counted.
fn turn(run: &mut Timed<'_>) -> f64 {
    run.call();
    let (start, mut calls) = (processor_time(), 0);
    loop {
        run.call();
        calls += 1;
        let time = processor_time() - start;
        if time >= TURN {
            return time.as_secs_f64() / f64::from(calls);
        }
    }
}

/// What all threads of this process have taken.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a place for the result.
    #[allow(unsafe_code)]
    let status = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(status, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Writes what a kernel takes and gives: `x` for the numbers of a parameter, those of the entries if it is sparse; `A?.shape`, `A?.0`, `A?.1` for
/// the shape of a relation or map and the columns of its tuples; `out value`, `out grad_x` for the results.
pub fn write_archive(path: &Path, kernel: &Kernel, inputs: &Inputs) -> Result<()> {
    let signature = &kernel.program().signature;
    let bindings = bind(signature, inputs)?;
    let mut archive = BTreeMap::new();
    for (param, value) in signature.params.values().zip(bindings.values().values()) {
        archive.insert(param.name.clone(), numbers(value.as_tensor().expect("no pairs here")));
    }
    for (relation, tuples) in signature.relations.values().zip(bindings.relations().values()) {
        archive.insert(format!("{}.shape", relation.name), integers(tuples.shape()));
        for axis in 0..tuples.rank() {
            archive.insert(format!("{}.{axis}", relation.name), integers(tuples.column(axis)));
        }
    }
    for (name, value) in kernel.call(inputs)? {
        archive.insert(format!("out {name}"), numbers(value.as_tensor().expect("no pairs here")));
    }
    write_value(path, &FileValue::Archive(archive))
}

fn numbers(tensor: &Tensor) -> Dense {
    tensor.as_dense().cloned().unwrap_or_else(|| vector(tensor.data().to_vec()))
}

fn integers(numbers: &[usize]) -> Dense {
    vector(numbers.iter().map(|x| *x as f64).collect())
}

fn vector(data: Vec<f64>) -> Dense {
    Dense::new(&[data.len()], data).expect("it fits")
}
