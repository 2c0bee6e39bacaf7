//! Which engine runs a kernel: the interpreter at once, native code as soon as there is some.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::layout::extent_of;
use crate::base::Id;
use crate::codegen::compile::{self, Note, Unavailable};
use crate::codegen::load::{Native, Step};
use crate::codegen::rust::{fills, parallel_parts};
use crate::codegen::source::{Target, source};
use crate::error::{Error, Result};
use crate::loops::{BufferId, Domain, Nest, Program, Stmt};
use crate::schedule::machine::PARTS;
use crate::tensor::Bindings;

/// Which engine is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// The interpreter, until native code was compiled in the background; the interpreter for good where it cannot be.
    #[default]
    Auto,
    /// The interpreter.
    Interpreter,
    /// Native code, compiled before the kernel is ready.
    Native,
}

impl Engine {
    /// How many iterations the loops of a program may take at most, where nothing else is said: some hours.
    pub fn limit(self) -> u64 {
        match self {
            Engine::Interpreter => 1 << 40,
            Engine::Auto | Engine::Native => 1 << 47,
        }
    }
}

/// Which engine runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// The interpreter, as was asked for.
    Interpreter,
    /// The interpreter, while native code is being compiled.
    Compiling,
    /// The interpreter, since there is no native code.
    Unavailable(Unavailable),
    /// Native code.
    Native,
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Status::Interpreter => f.write_str("interpreter"),
            Status::Compiling => f.write_str("interpreter, native code is being compiled"),
            Status::Unavailable(why) => write!(f, "interpreter, without native code: {why}"),
            Status::Native => f.write_str("native"),
        }
    }
}

/// Native code, as soon as it is there.
#[derive(Debug)]
pub(super) struct Swap {
    /// Nothing where it is not wanted.
    code: Option<Arc<OnceLock<std::result::Result<Native, Unavailable>>>>,
    sizes: Vec<i64>,
    steps: Vec<Step>,
}

/// Work below this is done by one thread, and more in [`PARTS`] parts, whatever the number of threads: about 100 microseconds.
const LEAST_WORK: u128 = 200_000;

impl Swap {
    pub fn new(program: &Program, bindings: &Bindings, arrays: &[Vec<u32>], engine: Engine) -> Result<Swap> {
        let sizes = bindings.sizes().values().copied().collect();
        let private = program.private_axes();
        let step = |nest| step(program, nest, &private, bindings, arrays);
        let steps = program.nests.iter().map(step).collect::<Result<_>>()?;
        if engine == Engine::Interpreter {
            return Ok(Swap { code: None, sizes, steps });
        }
        let source = source(program, Target::Library)?;
        let nests = program.nests.len();
        let make = move || {
            let library = compile::library(&source.text)?;
            Native::load(library, nests, source.functions)
        };
        let code = Arc::new(OnceLock::new());
        match engine {
            Engine::Native => {
                let made =
                    make().map_err(|why| Error::Limitation { feature: format!("native code: {why}"), span: None });
                let _ = code.set(Ok(made?));
            }
            Engine::Auto | Engine::Interpreter => {
                let place = Arc::clone(&code);
                let spawned = std::thread::Builder::new().name("iverson-rustc".to_owned()).spawn(move || {
                    let _ = place.set(make());
                });
                if let Err(error) = spawned {
                    let _ = code.set(Err(Unavailable::NoCompiler("a thread".to_owned(), error.to_string())));
                }
            }
        }
        Ok(Swap { code: Some(code), sizes, steps })
    }

    /// Native code, if it is there.
    pub fn get(&self) -> Option<&Native> {
        self.code.as_ref()?.get()?.as_ref().ok()
    }

    pub fn status(&self) -> Status {
        match self.code.as_ref().map(|code| code.get()) {
            None => Status::Interpreter,
            Some(None) => Status::Compiling,
            Some(Some(Err(why))) => Status::Unavailable(why.clone()),
            Some(Some(Ok(_))) => Status::Native,
        }
    }

    pub fn notes(&self) -> &[Note] {
        self.get().map_or(&[], Native::notes)
    }

    pub fn sizes(&self) -> &[i64] {
        &self.sizes
    }

    pub fn steps(&self) -> &[Step] {
        &self.steps
    }
}

/// About how many statements these run.
pub(super) fn work_of<'s>(
    stmts: impl IntoIterator<Item = &'s Stmt>,
    bindings: &Bindings,
    arrays: &[Vec<u32>],
) -> Result<u128> {
    let mut total = 0u128;
    for stmt in stmts {
        total = total.saturating_add(work(stmt, bindings, arrays)?);
    }
    Ok(total)
}

fn step(
    program: &Program,
    nest: &Nest,
    private: &BTreeMap<BufferId, usize>,
    bindings: &Bindings,
    arrays: &[Vec<u32>],
) -> Result<Step> {
    let work = work_of(&nest.body, bindings, arrays)?;
    let parts = if parallel_parts(nest) && work >= LEAST_WORK { i64::from(PARTS) } else { 1 };
    let precision = |b: BufferId| program.buffers.get(b).map(|buffer| buffer.precision).unwrap_or_default();
    let fill = |b: BufferId| (b.index(), precision(b).bytes());
    let private = nest.buffers.iter().filter(|b| private.contains_key(b)).map(|b| b.index()).collect();
    Ok(Step { fills: fills(nest).into_iter().map(fill).collect(), parts, private })
}

/// About how often a loop runs: over its longest range, over the mean number of nodes.
fn rounds(domain: &Domain, bindings: &Bindings, arrays: &[Vec<u32>]) -> Result<u128> {
    Ok(match domain {
        Domain::Range { upper, .. } => {
            let mut least = u128::MAX;
            for bound in upper {
                least = least.min(extent_of(bound, bindings)?);
            }
            least
        }
        Domain::Segment(segment) => {
            let pointers = arrays.get(segment.pointers.index()).map_or(&[][..], Vec::as_slice);
            let nodes = pointers.last().map_or(0, |last| u128::from(*last));
            nodes.div_ceil(pointers.len().saturating_sub(1).max(1) as u128)
        }
        Domain::Part { whole, parts, .. } => rounds(whole, bindings, arrays)?.div_ceil(u128::from(*parts)),
    })
}

/// About how many statements run.
fn work(stmt: &Stmt, bindings: &Bindings, arrays: &[Vec<u32>]) -> Result<u128> {
    let inner = work_of(stmt.body(), bindings, arrays)?.saturating_add(1);
    let rounds = match stmt {
        Stmt::For { domain, .. } => rounds(domain, bindings, arrays)?,
        Stmt::Extremum { extent, .. } => bindings.length(extent)? as u128,
        _ => 1,
    };
    Ok(inner.saturating_mul(rounds))
}
