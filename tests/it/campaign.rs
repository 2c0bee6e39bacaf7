//! Random programs, judged by independent oracles.
//!
//! `cargo test` judges some hundreds. The whole campaign, 10,000 programs with counts printed:
//!
//! ```text
//! cargo test --release --test it campaign::full -- --ignored --nocapture
//! ```
//!
//! `IVERSON_PROGRAMS` sets another number and `IVERSON_SEED` the first seed. The simplifier has a campaign of its own:
//!
//! ```text
//! cargo test --release --test it campaign::full_simplification -- --ignored --nocapture
//! ```

mod derivatives;
pub(crate) mod known;
mod simplification;

use std::collections::BTreeMap;

use iverson::ir::base::VarId;
use iverson::ir::certificate::{self, Operations};
use iverson::ir::driver::{Stage, Staged, lower};
use iverson::ir::reference::count::{cost_io, count_term, count_tssa};
use iverson::ir::reference::{Elements, Environment, Leaf, Limits, Partials};
use iverson::ir::simplify::Budget;
use iverson::ir::stages::{Stages, check};
use iverson::ir::{normalize, surface, term, tssa};

use self::known::Known;
pub use self::simplification::SMALL;
use self::simplification::run_simplifications;
use crate::generate::{self, Generated};
use crate::judge::{Expected, Ways};
use crate::support::{Numbers, environment, evaluate, evaluate_term, flat, inputs, setting};

/// What a campaign saw.
#[derive(Default)]
struct Report {
    programs: usize,
    /// How often each relation was judged.
    judged: BTreeMap<&'static str, usize>,
    /// How often each relation could not be judged.
    passed_over: BTreeMap<&'static str, usize>,
    constructs: BTreeMap<&'static str, usize>,
    statements: usize,
    failures: Vec<String>,
    worst_complex_step: f64,
    worst_forward_cost: f64,
    worst_adjoint_cost: f64,
    /// Statements whose counts were compared, and those of them that have a formula.
    counted: usize,
    closed: usize,
}

impl Report {
    fn print(&self) {
        println!(
            "{} programs, {} statements of Tensor-SSA, {} failures",
            self.programs,
            self.statements,
            self.failures.len()
        );
        for (relation, count) in &self.judged {
            let passed_over = self.passed_over.get(relation).copied().unwrap_or(0);
            println!("  {relation}: {count} judged, {passed_over} passed over");
        }
        println!("  worst cost(forward) / cost: {:.3}", self.worst_forward_cost);
        println!("  worst cost_IO(adjoint) / cost_IO: {:.3}", self.worst_adjoint_cost);
        println!("  {} of {} statements with a cost have a formula for it", self.closed, self.counted);
        println!("  worst difference from the complex step: {:.2} bounds", self.worst_complex_step);
        for (construct, count) in &self.constructs {
            println!("  {construct}: in {count} programs");
        }
    }
}

/// A relation that does not hold, in words.
type Judgement = std::result::Result<(), String>;

/// Beyond this, integers may no longer be exact somewhere on the way.
const EXACT: f64 = 1e9;

struct Judge<'a> {
    report: &'a mut Report,
    generated: Generated,
    seed: u64,
}

fn campaign(first: u64, programs: u64) -> Report {
    let mut report = Report::default();
    for seed in first..first + programs {
        let smooth = seed % 4 == 3;
        let generated = generate::program(seed, smooth);
        report.programs += 1;
        for construct in &generated.constructs {
            *report.constructs.entry(construct).or_default() += 1;
        }
        let text = generated.text.clone();
        let mut judge = Judge { report: &mut report, generated, seed };
        if let Err(complaint) = judge.judge(smooth) {
            report.failures.push(format!("seed {seed}: {complaint}\n{text}"));
        }
    }
    report
}

fn words(error: iverson::Error) -> String {
    error.to_string()
}

/// Equal numbers; zeros of either sign are equal, and so are NaNs.
fn same(what: &str, a: &[f64], b: &[f64]) -> Judgement {
    let equal = a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x == y || (x.is_nan() && y.is_nan()));
    if equal { Ok(()) } else { Err(format!("{what}: {a:?} and {b:?}")) }
}

/// The elements of dense tensors at the places where others have theirs; the rest must be zero.
fn on_places(dense: &[Leaf<f64>], places: &[Leaf<f64>]) -> std::result::Result<Vec<f64>, String> {
    let mut found = Vec::new();
    for (leaf, places) in dense.iter().zip(places) {
        let values = leaf.values();
        let Elements::Sparse(pattern, _) = &places.elements else {
            found.extend_from_slice(values);
            continue;
        };
        let mut rest = values.to_vec();
        for tuple in pattern.tuples() {
            let place = tuple.iter().zip(pattern.shape()).fold(0, |place, (k, n)| place * n + k);
            found.push(std::mem::replace(&mut rest[place], 0.0));
        }
        if rest.iter().any(|x| *x != 0.0) {
            return Err("a sparse result has elements outside its pattern".to_owned());
        }
    }
    Ok(found)
}

/// The same environment for a program that declares the same things in another order.
fn reordered(environment: &Environment<f64>, from: &term::Program, to: &term::Program) -> Environment<f64> {
    fn place<'a>(mut names: impl Iterator<Item = &'a String>, name: &str) -> usize {
        names.position(|n| n == name).expect("both programs declare the same names")
    }
    let (old, new) = (&from.signature, &to.signature);
    Environment {
        sizes: new.sizes.values().map(|n| environment.sizes[place(old.sizes.values(), n)]).collect(),
        params: new
            .params
            .values()
            .map(|p| environment.params[place(old.params.values().map(|p| &p.name), &p.name)].clone())
            .collect(),
        relations: new
            .relations
            .values()
            .map(|r| environment.relations[place(old.relations.values().map(|r| &r.name), &r.name)].clone())
            .collect(),
    }
}

fn is_exact(numbers: &[f64]) -> bool {
    numbers.iter().all(|x| x.is_finite() && x.abs() < EXACT)
}

impl Judge<'_> {
    /// The formulas of a certificate give what is counted.
    fn certificate(&mut self, program: &tssa::Program, environment: &Environment<f64>) -> Judgement {
        let relation = "certificate right";
        let cost = certificate::cost(program).map_err(words)?;
        let vars: Vec<VarId> = cost.computed_relations().collect();
        let Ok(known) = Known::new(program, environment, &vars) else {
            // The value of a sparse parameter, read as a relation, has no elements outside its pattern.
            self.passed_over(relation);
            return Ok(());
        };
        let found = cost.evaluate(&known).map_err(words)?;
        let counts = count_tssa(program, environment, Limits::default()).map_err(words)?;
        let expected = Operations {
            additions: counts.additions,
            multiplications: counts.multiplications,
            functions: counts.functions,
            partials: counts.partials,
        };
        if found != expected {
            return Err(format!("{relation}: {found:?} and {expected:?}:\n{cost}\n{program}"));
        }
        let total = counts.total(Partials::Free).map_err(words)?;
        let (inputs, outputs) = cost.evaluate_io(&known).map_err(words)?;
        let io = cost_io(program, environment, Partials::Free, Limits::default()).map_err(words)?;
        if total + inputs + outputs != io {
            return Err(format!("{relation}: {inputs} inputs, {outputs} outputs, cost_IO {io}:\n{cost}\n{program}"));
        }
        self.report.counted += cost.counted;
        self.report.closed += cost.closed;
        self.judged(relation);
        Ok(())
    }

    fn judged(&mut self, relation: &'static str) {
        *self.report.judged.entry(relation).or_default() += 1;
    }

    fn passed_over(&mut self, relation: &'static str) {
        *self.report.passed_over.entry(relation).or_default() += 1;
    }

    fn judge(&mut self, smooth: bool) -> Judgement {
        let source = surface::read(&self.generated.text, &[]).map_err(words)?;
        check("elaborate", &source).map_err(words)?;
        self.judged("a generated program is valid");
        let mut numbers = Numbers::new(self.seed ^ 0x5eed, !smooth);
        let inputs = inputs(&self.generated, &mut numbers);
        let (_, environment) = environment(&source, &inputs).map_err(words)?;
        let value = flat(&evaluate_term(&source, &environment).map_err(words)?);
        let program = self.stages(&source, &environment)?;
        self.report.statements += program.stmts.len();
        self.round_trips(&source, &program)?;
        let active = program.signature.params.ids().collect::<Vec<_>>();
        self.derivatives(&program, &active, &environment, &value, &mut numbers, smooth)
    }

    /// Each pass keeps the value, reaches its normal form, is idempotent, and adds no cost.
    fn stages(
        &mut self,
        source: &term::Program,
        environment: &Environment<f64>,
    ) -> std::result::Result<tssa::Program, String> {
        type Pass = fn(&term::Program) -> iverson::Result<term::Program>;
        let passes: [(&'static str, Pass); 3] = [
            ("let-lifting", normalize::lift_lets),
            ("pair-elimination", normalize::eliminate_pairs),
            ("gen-pushout", normalize::push_out_gens),
        ];
        let cost = |program: &term::Program| {
            count_term(program, environment, Limits::default()).and_then(|c| c.total(Partials::Counted)).map_err(words)
        };
        let expected = Expected::of_term(source, environment)?;
        let agree = |what: &str, found: &[f64]| expected.compare(what, found, Ways::Raw).map(|_| ());
        let mut program = source.clone();
        let mut before = cost(&program)?;
        for (name, pass) in passes {
            let next = pass(&program).map_err(words)?;
            check(name, &next).map_err(words)?;
            let again = pass(&next).map_err(words)?;
            if !again.same(&next) {
                return Err(format!("{name} is not idempotent:\n{next}\n{again}"));
            }
            self.judged("a pass is idempotent");
            agree(name, &flat(&evaluate_term(&next, environment).map_err(words)?))?;
            self.judged("a pass keeps the value");
            let after = cost(&next)?;
            if after > before {
                return Err(format!("{name} raises the cost from {before} to {after}:\n{program}\n{next}"));
            }
            self.judged("a pass adds no cost");
            (program, before) = (next, after);
        }
        let tssa = normalize::to_tensor_ssa(&program).map_err(words)?;
        check("tensor-ssa", &tssa).map_err(words)?;
        let found = flat(&evaluate(&tssa, environment).map_err(words)?);
        expected.compare("tensor-ssa", &found, Ways::Unsigned)?;
        self.judged("a pass keeps the value");
        let after = count_tssa(&tssa, environment, Limits::default()).map_err(words)?;
        let after = after.total(Partials::Counted).map_err(words)?;
        if after > before {
            return Err(format!("tensor-ssa raises the cost from {before} to {after}:\n{program}\n{tssa}"));
        }
        self.judged("a pass adds no cost");
        Ok(tssa)
    }

    /// What is printed parses back, and what is serialised is read back.
    fn round_trips(&mut self, source: &term::Program, program: &tssa::Program) -> Judgement {
        for stage in [Stage::Surface, Stage::LetLifting, Stage::PairElimination, Stage::GenPushout] {
            let Staged::Term(staged) = lower(source, stage, &mut Stages::new()).map_err(words)? else { continue };
            let text = staged.to_string();
            let back = surface::read(&text, &[]).map_err(|error| format!("{error}\nprinted as\n{text}"))?;
            if stage == Stage::Surface && !back.same(&staged) {
                return Err(format!("printed as\n{text}\nand parsed as\n{back}"));
            }
            self.judged("what is printed parses back");
            let json = staged.to_json().map_err(words)?;
            let back = term::Program::from_json(&json).map_err(words)?;
            if !back.same(&staged) {
                return Err(format!("serialised as\n{json}"));
            }
            self.judged("what is serialised is read back");
        }
        let json = program.to_json().map_err(words)?;
        if tssa::Program::from_json(&json).map_err(words)? != *program {
            return Err(format!("serialised as\n{json}"));
        }
        self.judged("what is serialised is read back");
        Ok(())
    }
}

fn run(first: u64, programs: u64) {
    let report = campaign(first, programs);
    report.print();
    for failure in &report.failures {
        println!("FAILURE {failure}");
    }
    assert!(report.failures.is_empty(), "{}", report.failures.iter().take(3).cloned().collect::<Vec<_>>().join("\n\n"));
}

#[test]
fn some_hundred_programs() {
    run(0, 400);
}

/// Minutes of work; see the command above.
#[test]
#[ignore = "10,000 programs take minutes; the command is in the module documentation"]
fn full() {
    run(setting("IVERSON_SEED", 0), setting("IVERSON_PROGRAMS", 10_000));
}

/// Minutes of work; see the command above.
#[test]
#[ignore = "thousands of programs take minutes; the command is in the module documentation"]
fn full_simplification() {
    let budget = match setting("IVERSON_SMALL", 0) {
        0 => Budget::default(),
        _ => SMALL,
    };
    run_simplifications(setting("IVERSON_SEED", 0), setting("IVERSON_PROGRAMS", 2000), budget);
}
