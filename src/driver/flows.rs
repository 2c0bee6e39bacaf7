//! Functions with loops: which passes make flows, and their derivatives.

use std::sync::{Arc, OnceLock};

use super::back_end;
use super::derivative::{Raw, of_blocks, sparse_blocks};
use super::{Derived, Function, Mode, Request, Stage, Staged};
use crate::base::work;
use crate::certificate::compare_work;
use crate::diff::{Jacobian, Part};
use crate::error::{Error, Result};
use crate::stages::Stages;
use crate::term::Term;
use crate::{diff, flow, simplify, term, tssa};

/// Whether a program has loops, or calls of functions from outside.
pub(super) fn has_scans(program: &term::Program) -> bool {
    program.terms.values().any(|term| matches!(term, Term::Scan { .. } | Term::Call { .. }))
}

/// Takes a program with loops up to a stage.
pub(super) fn lower(program: &term::Program, until: Stage, stages: &mut Stages<'_>) -> Result<Staged> {
    match until {
        Stage::Surface => return Ok(Staged::Term(program.clone())),
        Stage::LetLifting | Stage::PairElimination | Stage::GenPushout => {
            return Err(limitation("a normal form before Tensor-SSA"));
        }
        Stage::TensorSsa | Stage::Simplify => {}
    }
    let flow = bounded(stages, "outline", program.terms.len(), || {
        let leaf = |leaf: &term::Program| match super::lower(leaf, Stage::TensorSsa, &mut Stages::new())? {
            Staged::TensorSsa(leaf) => Ok(leaf),
            Staged::Term(_) | Staged::Flow(_) => Err(Error::bug("driver", "a leaf did not become Tensor-SSA")),
        };
        flow::join(&flow::outline(program, &mut { leaf })?)
    })?;
    let flow = bounded(stages, "end-early", flow.stmts(), || flow::end_paths_early(&flow))?;
    match until {
        Stage::Simplify => {
            let flow = without_invariant_states(&flow, stages)?;
            Ok(Staged::Flow(simplified(&flow, &simplify::Options::default(), stages)?.0))
        }
        _ => Ok(Staged::Flow(flow)),
    }
}

/// A flow in which no state is a first state or another one.
pub(super) fn without_invariant_states(program: &flow::Program, stages: &mut Stages<'_>) -> Result<flow::Program> {
    bounded(stages, "invariant-states", program.stmts(), || flow::without_invariant_states(program))
}

/// A flow with values stored on relations, where simplification may say that they are zero elsewhere.
fn on_patterns(program: &flow::Program, options: &simplify::Options, stages: &mut Stages<'_>) -> Result<flow::Program> {
    match options.tier {
        simplify::Tier::Finite => bounded(stages, "on-patterns", program.stmts(), || flow::on_patterns(program)),
        simplify::Tier::Exact | simplify::Tier::SignedZero => Ok(program.clone()),
    }
}

/// A flow with its leaves simplified, and how that went in all.
pub(super) fn simplified(
    program: &flow::Program,
    options: &simplify::Options,
    stages: &mut Stages<'_>,
) -> Result<(flow::Program, simplify::Report)> {
    let mut report: Option<simplify::Report> = None;
    // Of what a step makes of NaN a result need not be NaN.
    let options = simplify::Options { finite_data: false, ..options.clone() };
    let program = &on_patterns(program, &options, stages)?;
    let program = stages.run("simplify", || {
        let program = flow::map_leaves(program, &mut |leaf| {
            let simplified = simplify::simplify(leaf, &options)?;
            match &mut report {
                Some(report) => report.join(simplified.report),
                None => report = Some(simplified.report),
            }
            Ok(simplified.program)
        })?;
        flow::join(&program)
    })?;
    Ok((program, report.ok_or_else(|| Error::bug("driver", "a flow without leaves"))?))
}

/// A pass that takes no more work than so many terms or statements allow.
fn bounded(
    stages: &mut Stages<'_>,
    pass: &'static str,
    size: usize,
    run: impl FnOnce() -> Result<flow::Program>,
) -> Result<flow::Program> {
    stages.run(pass, || work::pass(size, run))
}

/// What kernels of a derivative with loops run, where it is not what is printed: sums over time are taken into loops before leaves are simplified, as what a
/// step and a sum have in common are equal statements only then. It is made with the first kernel.
#[derive(Debug)]
pub(super) struct Steps {
    raw: flow::Program,
    options: simplify::Options,
    made: OnceLock<flow::Program>,
}

impl Steps {
    fn new(raw: flow::Program, options: simplify::Options) -> Arc<Steps> {
        Arc::new(Steps { raw, options, made: OnceLock::new() })
    }

    /// One that was made before.
    pub fn from_made(made: flow::Program) -> Arc<Steps> {
        Arc::new(Steps { raw: made.clone(), options: simplify::Options::default(), made: OnceLock::from(made) })
    }

    fn made(&self) -> Result<&flow::Program> {
        if let Some(made) = self.made.get() {
            return Ok(made);
        }
        let taken = bounded(&mut Stages::new(), "take-in", self.raw.stmts(), || back_end::take_in(&self.raw))?;
        let (made, _) = simplified(&taken, &self.options, &mut Stages::new())?;
        // Loops in arms that are not taken, of those that run backwards too.
        let made = bounded(&mut Stages::new(), "end-early", made.stmts(), || flow::end_early(&made))?;
        Ok(self.made.get_or_init(|| made))
    }
}

/// What is there for programs without loops only.
fn limitation(what: &str) -> Error {
    Error::Limitation { feature: format!("{what} of a program with loops"), span: None }
}

impl Function {
    /// A program with loops that is taken apart already.
    pub fn from_flow(flow: flow::Program) -> Function {
        let signature = tssa::Builder::new(flow.signature.clone()).finish(Vec::new());
        Function { flow: Some(flow), ..Function::from_tensor_ssa(signature) }
    }

    /// The program as a flow, if it has loops.
    pub fn flow(&self) -> Option<&flow::Program> {
        self.flow.as_ref()
    }

    /// What kernels run of a program with loops: for a derivative another flow than the one that is printed, with the same results.
    ///
    /// # Errors
    /// [`Error::Overflow`] and [`Error::Bug`].
    pub fn flow_of_kernels(&self) -> Result<Option<&flow::Program>> {
        match &self.steps {
            Some(steps) => steps.made().map(Some),
            None => Ok(self.flow.as_ref()),
        }
    }

    /// The program in Tensor-SSA, for what is there for programs without loops only.
    pub(crate) fn straight(&self, what: &str) -> Result<&tssa::Program> {
        match self.flow {
            None => Ok(&self.tssa),
            Some(_) => Err(limitation(what)),
        }
    }

    /// A derivative of a program with loops.
    pub(super) fn derive_flow(
        &self,
        program: &flow::Program,
        request: &Request,
        stages: &mut Stages<'_>,
    ) -> Result<Derived> {
        let program = match &request.simplify {
            Some(options) => on_patterns(program, options, stages)?,
            None => program.clone(),
        };
        let Raw { program: derived, added, mut blocks, derivation } =
            self.differentiate_flow(&program, request, stages)?;
        let derived = match request.expand_partials {
            true => bounded(stages, "expand-partials", derived.stmts(), || {
                flow::map_leaves(&derived, &mut diff::expand_partials)
            })?,
            false => derived,
        };
        let (derived, steps, simplification) = match &request.simplify {
            Some(options) => {
                let derived = without_invariant_states(&derived, stages)?;
                let steps = Steps::new(derived.clone(), options.clone());
                let (derived, report) = simplified(&derived, options, stages)?;
                (derived, Some(steps), Some(report))
            }
            None => (derived, None, None),
        };
        let name = |id| derived.signature.params.get(id).map(|p| p.name.clone());
        let added = added.into_iter().filter_map(name).collect();
        let function = Function { sparse: sparse_blocks(&blocks), steps, ..Function::from_flow(derived) };
        let function = function.derivative_of(self, request);
        // A part of a matrix is none.
        if request.part != Part::Whole {
            blocks.clear();
        }
        Ok(Derived { function, added, blocks, derivation, simplification })
    }

    /// The derivative as the rules of differentiation give it.
    fn differentiate_flow(
        &self,
        program: &flow::Program,
        request: &Request,
        stages: &mut Stages<'_>,
    ) -> Result<Raw<flow::Program>> {
        let wrt = diff::params_by_name(&program.signature, &request.wrt)?;
        let (mut added, mut blocks) = (Vec::new(), Vec::new());
        let Request { with_value, sweep, part, weighted, .. } = *request;
        let size = program.stmts();
        let program = match request.mode {
            Mode::Forward => bounded(stages, "forward", size, || {
                let (derived, tangents) = flow::forward(program, &wrt, with_value)?;
                added = tangents.into_iter().map(|(_, tangent)| tangent).collect();
                Ok(derived)
            })?,
            Mode::Adjoint | Mode::Gradient if !request.derivation => bounded(stages, "adjoint", size, || {
                let seed = if request.mode == Mode::Gradient { diff::Seed::One } else { diff::Seed::Parameter };
                let (derived, seeds) = flow::adjoint(program, &wrt, seed, with_value)?;
                added = seeds;
                Ok(derived)
            })?,
            Mode::HessianProduct => {
                let gradient = self.simple_gradient(request, stages)?;
                let gradient = gradient.flow.ok_or_else(|| Error::bug("driver", "a flow lost its loops"))?;
                bounded(stages, "forward", gradient.stmts(), || {
                    let (mut derived, tangents) = flow::forward(&gradient, &wrt, false)?;
                    for output in &mut derived.outputs {
                        output.name = output.name.replacen("tangent_grad", "hessian", 1);
                    }
                    added = tangents.into_iter().map(|(_, tangent)| tangent).collect();
                    Ok(derived)
                })?
            }
            Mode::Adjoint | Mode::Gradient => return Err(limitation("the derivation of a derivative")),
            Mode::Jacobian => bounded(stages, "jacobian", size, || {
                let how = Jacobian { sweep, part, of: None, with_value };
                of_blocks(&mut blocks, flow::jacobian(program, &wrt, how, &compare_work))
            })?,
            Mode::Hessian => {
                let gradient = self.simple_gradient(request, stages)?;
                let gradient = gradient.flow.ok_or_else(|| Error::bug("driver", "a flow lost its loops"))?;
                let columns = match &request.columns {
                    Some(names) => diff::params_by_name(&program.signature, names)?,
                    None => wrt,
                };
                let how = Jacobian { sweep, part, of: Some("grad"), with_value };
                bounded(stages, "jacobian", gradient.stmts(), || {
                    of_blocks(&mut blocks, flow::jacobian(&gradient, &columns, how, &compare_work))
                })?
            }
            Mode::GaussNewton => bounded(stages, "gauss-newton", size, || {
                of_blocks(&mut blocks, flow::gauss_newton(program, &wrt, sweep, weighted, &compare_work))
            })?,
            Mode::GaussNewtonProduct => bounded(stages, "gauss-newton", size, || {
                let (derived, tangents) = flow::gauss_newton_product(program, &wrt, weighted)?;
                added = tangents;
                Ok(derived)
            })?,
            Mode::Transpose => bounded(stages, "transpose", size, || {
                let (derived, seeds) = flow::transpose(program, &wrt)?;
                added = seeds;
                Ok(derived)
            })?,
        };
        Ok(Raw { program, added, blocks, derivation: None })
    }
}
