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

use std::collections::BTreeMap;

use iverson::base::{Id, SizeId, VarId};
use iverson::certificate::{self, Operations, Theorem};
use iverson::diff::{self, Options, Seed};
use iverson::driver::{Stage, Staged, lower};
use iverson::index::{RelationRef, View, World};
use iverson::reference::count::{cost_io, count_term, count_tssa};
use iverson::reference::{Dual, Elements, Environment, Leaf, Limits, Partials, Rounded};
use iverson::simplify::{self, Budget};
use iverson::stages::{Stages, check};
use iverson::surface;
use iverson::ty::Types;
use iverson::{Function, normalize, present, term, tssa};
use num_complex::Complex64;

use crate::generate::{self, Generated};
use crate::judge::{Expected, Ways, is_undecided};
use crate::support::{Numbers, dot, environment, evaluate, evaluate_term, flat, inputs, like, setting};

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
        println!("  worst difference from the complex step: {:.1e}", self.worst_complex_step);
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

fn close(what: &str, a: &[f64], b: &[f64], tolerance: f64) -> std::result::Result<f64, String> {
    let scale = a.iter().chain(b).fold(1.0_f64, |s, x| s.max(x.abs()));
    let worst = a.iter().zip(b).fold(0.0_f64, |w, (x, y)| w.max((x - y).abs() / scale));
    if a.len() == b.len() && worst <= tolerance { Ok(worst) } else { Err(format!("{what}: {a:?} and {b:?}")) }
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

/// The relations of a run, and the tensors that others are computed from.
struct Known<'a> {
    environment: &'a Environment<f64>,
    tensors: BTreeMap<VarId, Leaf<f64>>,
}

impl<'a> Known<'a> {
    /// Evaluates the tensors that are read as relations.
    fn new(program: &tssa::Program, environment: &'a Environment<f64>, vars: &[VarId]) -> iverson::Result<Self> {
        let output = |x: &VarId| tssa::Output {
            name: x.to_string(),
            ty: Types::REAL,
            storage: iverson::ty::Storage::Dense,
            leaves: vec![*x],
        };
        let program = tssa::Program { outputs: vars.iter().map(output).collect(), ..program.clone() };
        Ok(Known { environment, tensors: vars.iter().copied().zip(evaluate(&program, environment)?).collect() })
    }

    fn element(&self, var: VarId, tuple: &[i64]) -> Option<f64> {
        let leaf = &self.tensors[&var];
        let mut place = 0;
        for (n, k) in leaf.dims.iter().zip(tuple) {
            let k = usize::try_from(*k).ok().filter(|k| (*k as u64) < *n)?;
            place = place * *n as usize + k;
        }
        leaf.values().get(place).copied()
    }

    /// By definition: the first of the largest or smallest elements, a NaN before all.
    fn extremum(&self, var: VarId, view: View, source: &[i64]) -> Option<i64> {
        let last = *self.tensors[&var].dims.last()?;
        let mut best: Option<(i64, f64)> = None;
        for k in 0..last as i64 {
            let x = self.element(var, &[source, &[k]].concat())?;
            let better = best
                .is_none_or(|(_, y)| !y.is_nan() && (x.is_nan() || if view == View::ArgMin { x < y } else { x > y }));
            if better {
                best = Some((k, x));
            }
        }
        best.map(|(k, _)| k)
    }
}

impl World for Known<'_> {
    fn size(&self, size: SizeId) -> i64 {
        self.environment.sizes[size.index()]
    }

    fn holds(&self, relation: RelationRef, tuple: &[i64]) -> bool {
        match relation {
            RelationRef::Input(r) => self.environment.relations[r.index()].contains(tuple),
            RelationRef::Computed { var, view: View::Support } => self.element(var, tuple).is_some_and(|x| x != 0.0),
            RelationRef::Computed { var, view } => {
                tuple.split_last().is_some_and(|(last, source)| self.extremum(var, view, source) == Some(*last))
            }
        }
    }

    fn candidates(&self, relation: RelationRef, known: &[Option<i64>], axis: usize) -> Option<Vec<i64>> {
        match relation {
            RelationRef::Input(r) => Some(self.environment.relations[r.index()].candidates(known, axis)),
            RelationRef::Computed { .. } => None,
        }
    }

    fn apply(&self, map: RelationRef, source: &[i64]) -> Option<i64> {
        match map {
            RelationRef::Input(r) => self.environment.relations[r.index()].target(source).map(|k| k as i64),
            RelationRef::Computed { var, view } => self.extremum(var, view, source),
        }
    }
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
        agree("tensor-ssa", &flat(&evaluate(&tssa, environment).map_err(words)?))?;
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

    fn derivatives(
        &mut self,
        program: &tssa::Program,
        wrt: &[iverson::base::ParamId],
        environment: &Environment<f64>,
        value: &[f64],
        numbers: &mut Numbers,
        smooth: bool,
    ) -> Judgement {
        let forward = diff::forward(program, wrt, false).map_err(words)?;
        check("forward", &forward.program).map_err(words)?;
        let options = Options { seed: Seed::Parameter, with_value: false, derivation: false };
        let adjoint = diff::adjoint(program, wrt, options).map_err(words)?;
        check("adjoint", &adjoint.program).map_err(words)?;

        let tangents: Vec<Vec<Leaf<f64>>> = environment.params.iter().map(|leaves| like(leaves, numbers)).collect();
        let mut along = environment.clone();
        along.params.extend(tangents.iter().cloned());
        let outputs = evaluate(program, environment).map_err(words)?;
        let seeds = like(&outputs, numbers);
        let mut back = environment.clone();
        back.params.push(seeds.clone());

        // The costs of Theorems 6.1 and 6.35, with D f as one black box.
        let total = |program: &tssa::Program, environment: &Environment<f64>| {
            let counts = count_tssa(program, environment, Limits::default()).map_err(words)?;
            counts.total(Partials::Free).map_err(words)
        };
        // The theorem counts the tangent together with the value.
        let both = diff::forward(program, wrt, true).map_err(words)?.program;
        let (cost, forward_cost) = (total(program, environment)?, total(&both, &along)?);
        if forward_cost > 4 * cost {
            return Err(format!("cost {cost}, of the forward derivative {forward_cost}:\n{program}\n{both}"));
        }
        self.judged("cost(forward) <= 4 cost");
        if cost > 0 {
            self.report.worst_forward_cost = self.report.worst_forward_cost.max(forward_cost as f64 / cost as f64);
        }
        let io = |program: &tssa::Program, environment: &Environment<f64>| {
            cost_io(program, environment, Partials::Free, Limits::default()).map_err(words)
        };
        let options = Options { seed: Seed::Parameter, with_value: true, derivation: false };
        let both = diff::adjoint(program, wrt, options).map_err(words)?.program;
        // Inputs and outputs of the adjoint alone: the seed comes in, the adjoint goes out.
        let primal_io = io(program, environment)?;
        let adjoint_io = total(&both, &back)? + (primal_io - cost);
        if adjoint_io > 4 * primal_io {
            return Err(format!("cost_IO {primal_io}, of the adjoint {adjoint_io}:\n{program}\n{both}"));
        }
        self.judged("cost_IO(adjoint) <= 4 cost_IO");
        if primal_io > 0 {
            self.report.worst_adjoint_cost = self.report.worst_adjoint_cost.max(adjoint_io as f64 / primal_io as f64);
        }

        for (program, environment) in [(program, environment), (&forward.program, &along), (&adjoint.program, &back)] {
            self.certificate(program, environment)?;
        }
        // With partial derivatives expanded the constant is that of the operator table.
        let expanded_forward = diff::forward(program, wrt, true).map_err(words)?.program;
        for (theorem, both, environment, primal) in
            [(Theorem::Forward, &expanded_forward, &along, cost), (Theorem::Adjoint, &both, &back, primal_io)]
        {
            let both = diff::expand_partials(both).map_err(words)?;
            let constant = u128::from(certificate::bound(program, theorem, true).constant);
            let found = total(&both, environment)? + if theorem == Theorem::Adjoint { primal_io - cost } else { 0 };
            if found > constant * primal {
                return Err(format!("{theorem:?}: cost {primal}, of the derivative {found}:\n{program}\n{both}"));
            }
            self.judged("cost(expanded derivative) <= c cost");
        }

        let df = flat(&evaluate(&forward.program, &along).map_err(words)?);
        let adj = flat(&evaluate(&adjoint.program, &back).map_err(words)?);
        let dx: Vec<f64> = tangents.iter().flat_map(|leaves| flat(leaves)).collect();
        let dy = flat(&seeds);
        let (left, right) = (dot(&dy, &df), dot(&adj, &dx));
        let sum_of_terms: f64 =
            dy.iter().zip(&df).chain(adj.iter().zip(&dx)).map(|(a, b)| (a * b).abs()).sum::<f64>() + f64::MIN_POSITIVE;
        // Sums are added one by one: each addition may round.
        let additions = |program: &tssa::Program, environment: &Environment<f64>| {
            count_tssa(program, environment, Limits::default()).map_or(0, |count| count.additions)
        };
        let roundings = 64.0 + (additions(&forward.program, &along) + additions(&adjoint.program, &back)) as f64;
        if smooth {
            if !left.is_finite() || sum_of_terms > 1e200 {
                self.passed_over("<dy, Df dx> = <adjoint dy, dx>");
            } else if (left - right).abs() > roundings * f64::EPSILON * sum_of_terms {
                return Err(format!("adjoint identity: {left} and {right}\n{}\n{}", forward.program, adjoint.program));
            } else {
                self.judged("<dy, Df dx> = <adjoint dy, dx>");
            }
        } else if is_exact(value) && is_exact(&df) && is_exact(&adj) && sum_of_terms < 1e15 {
            if left != right {
                return Err(format!("adjoint identity: {left} and {right}\n{}\n{}", forward.program, adjoint.program));
            }
            self.judged("<dy, Df dx> = <adjoint dy, dx>");
        } else {
            self.passed_over("<dy, Df dx> = <adjoint dy, dx>");
        }

        // Expanding partial derivatives changes nothing.
        for (what, derivative, environment) in
            [("forward", &forward.program, &along), ("adjoint", &adjoint.program, &back)]
        {
            let expected = Expected::at(derivative, environment)?;
            let expanded = diff::expand_partials(derivative).map_err(words)?;
            check("expand-partials", &expanded).map_err(words)?;
            let found = flat(&evaluate(&expanded, environment).map_err(words)?);
            expected.compare(what, &found, Ways::Raw)?;
            self.judged("expanding partial derivatives keeps the value");
            let shown = present::present(&expanded).map_err(words)?;
            check("present", &shown).map_err(words)?;
            let found = evaluate_term(&shown, environment).map_err(|e| format!("{e}\n{shown}\n{expanded}"))?;
            let places = evaluate(derivative, environment).map_err(words)?;
            let found = on_places(&found, &places).map_err(|e| format!("{e}\n{shown}\n{expanded}"))?;
            expected.compare("present", &found, Ways::Raw).map_err(|e| format!("{e}\n{shown}\n{expanded}"))?;
            let text = shown.to_string();
            let back = surface::read(&text, &[]).map_err(|e| format!("{e}\nprinted as\n{text}"))?;
            check("elaborate", &back).map_err(words)?;
            let again = evaluate_term(&back, &reordered(environment, &shown, &back)).map_err(words)?;
            let again = on_places(&again, &places).map_err(|e| format!("{e}\n{text}"))?;
            same("a printed derivative", &again, &found).map_err(|e| format!("{e}\n{text}"))?;
            self.judged("a printed derivative parses back");
            self.judged("a derivative put together for reading keeps the value");
        }

        // Dual numbers, which know nothing of rules.
        let dual = |x: &f64, dx: &f64| Dual::new(Rounded::new(*x), Rounded::new(*dx));
        let duals = environment.map(|p, k, leaf| leaf.zip(&tangents[p.0 as usize][k], dual));
        let derivatives = |leaf: &Leaf<Dual<Rounded>>| leaf.values().iter().map(Dual::derivative).collect::<Vec<_>>();
        let by_duals = match evaluate(program, &duals.map_err(words)?) {
            Err(error) if is_undecided(&error) => Expected::anything(df.len()),
            leaves => Expected::from(leaves.map_err(words)?.iter().flat_map(derivatives).collect::<Vec<Rounded>>()),
        };
        // Beside a structural zero these have a number where the derivative has nothing.
        by_duals
            .compare("dual numbers", &df, Ways::Simplified)
            .map_err(|e| format!("{e}\n{program}\n{}", forward.program))?;
        self.judged("Df dx by dual numbers");

        if smooth {
            const H: f64 = 1e-150;
            let complex =
                environment.map(|p, k, leaf| leaf.zip(&tangents[p.0 as usize][k], |x, dx| Complex64::new(*x, H * dx)));
            match evaluate(program, &complex.map_err(words)?) {
                Ok(leaves) => {
                    let steps: Vec<f64> =
                        leaves.iter().flat_map(|l| l.values().iter().map(|z| z.im / H).collect::<Vec<_>>()).collect();
                    if df.iter().chain(&steps).all(|x| x.is_finite()) {
                        let worst = close("complex step", &df, &steps, 1e-9)?;
                        self.report.worst_complex_step = self.report.worst_complex_step.max(worst);
                        self.judged("Df dx by complex step");
                    }
                }
                Err(_) => self.passed_over("Df dx by complex step"),
            }
        }
        self.second_order(program, wrt, environment, &tangents)
    }

    /// Derivatives of gradients: forward over adjoint, adjoint over forward and adjoint over adjoint agree.
    fn second_order(
        &mut self,
        program: &tssa::Program,
        wrt: &[iverson::base::ParamId],
        environment: &Environment<f64>,
        tangents: &[Vec<Leaf<f64>>],
    ) -> Judgement {
        if program.outputs.iter().any(|output| output.ty != Types::REAL) || program.stmts.len() > 60 {
            return Ok(());
        }
        let relation = "second derivatives agree";
        let one = Options { seed: Seed::One, with_value: false, derivation: false };
        let gradient =
            diff::expand_partials(&diff::adjoint(program, wrt, one).map_err(words)?.program).map_err(words)?;
        let mut along = environment.clone();
        along.params.extend(tangents.iter().cloned());
        // H u, by D(grad f)(x; u), by grad(D f(.; u))(x), and by the adjoint of grad f with seed u.
        let over = diff::forward(&gradient, wrt, false).map_err(words)?.program;
        let a = Expected::at(&over, &along)?;
        let tangent =
            diff::expand_partials(&diff::forward(program, wrt, false).map_err(words)?.program).map_err(words)?;
        let under = diff::adjoint(&tangent, wrt, one).map_err(words)?.program;
        let b = flat(&evaluate(&under, &along).map_err(words)?);
        let seeded = Options { seed: Seed::Parameter, with_value: false, derivation: false };
        let twice = diff::adjoint(&gradient, wrt, seeded).map_err(words)?.program;
        let c = flat(&evaluate(&twice, &along).map_err(words)?);
        // With kinks the second derivative of a piecewise function is that of its pieces, which is symmetric as well.
        let both = [("adjoint over forward", b), ("adjoint over adjoint", c)];
        both.iter().try_for_each(|(what, found)| a.compare(what, found, Ways::Simplified).map(|_| ()))?;
        self.judged(relation);
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

/// What a campaign on the simplifier saw.
#[derive(Default)]
struct Simplified {
    judged: BTreeMap<&'static str, usize>,
    failures: Vec<String>,
    /// Programs that a second simplification changes, the smallest first.
    changed_again: Vec<String>,
    /// Programs that do more at small sizes than before, with the ratio.
    dearer: Vec<(f64, String)>,
    before: u128,
    after: u128,
}

impl Simplified {
    fn judge(&mut self, relation: &'static str, what: &str, program: &tssa::Program, judgement: Judgement) {
        match judgement {
            Ok(()) => *self.judged.entry(relation).or_default() += 1,
            Err(complaint) => {
                let text = Function::from_tensor_ssa(program.clone());
                self.failures.push(format!("{what}: {relation}: {complaint}\nof\n{program}\n{text}"));
            }
        }
    }

    /// Judges the simplified form of a program at several inputs.
    fn simplified(
        &mut self,
        what: &str,
        program: &tssa::Program,
        at: &[Environment<f64>],
        budget: Budget,
    ) -> Option<()> {
        let options = simplify::Options { budget, ..simplify::Options::default() };
        let run = |program: &tssa::Program| simplify::simplify(program, &options).map_err(words);
        let first = match run(program) {
            Ok(first) => first,
            Err(error) => {
                self.judge("it is simplified", what, program, Err(error));
                return None;
            }
        };
        let valid = check("simplify", &first.program).map_err(words);
        let is_valid = valid.is_ok();
        self.judge("the result is valid", what, program, valid);
        let within = first.report.nodes * 10 <= budget.nodes * 11;
        let within =
            if within { Ok(()) } else { Err(format!("{} nodes, {} allowed", first.report.nodes, budget.nodes)) };
        self.judge("the budget holds", what, program, within);
        let no_dearer = simplify::is_no_dearer(&first.program, program, &options.hints).map_err(words);
        let no_dearer = no_dearer.and_then(|kept| if kept { Ok(()) } else { Err(format!("to\n{}", first.program)) });
        self.judge("it costs no more", what, program, no_dearer);
        let again = run(program).map(|again| again.program == first.program);
        let again = again.and_then(|same| if same { Ok(()) } else { Err("two results".to_owned()) });
        self.judge("the result is one", what, program, again);
        if !is_valid {
            return None;
        }
        for environment in at {
            let judgement = keeps_value(program, &first.program, environment);
            let judgement = judgement.map_err(|complaint| format!("{complaint}\nsimplified\n{}", first.program));
            self.judge("the value is kept", what, program, judgement);
        }
        if let Some(environment) = at.first() {
            let cost = |program: &tssa::Program| {
                count_tssa(program, environment, Limits::default()).and_then(|c| c.total(Partials::Counted)).ok()
            };
            let (before, after) = (cost(program)?, cost(&first.program)?);
            (self.before, self.after) = (self.before + before, self.after + after);
            if after > before {
                let shown = Function::from_tensor_ssa(program.clone());
                let text = format!("{what}: from {before} to {after}\n{shown}\nto\n{}", first.program);
                self.dearer.push((after as f64 / before.max(1) as f64, text));
            }
        }
        match run(&first.program) {
            Ok(second) if second.program.stmts == first.program.stmts => {
                *self.judged.entry("a second time changes nothing").or_default() += 1;
            }
            Ok(second) => {
                let shown = Function::from_tensor_ssa(program.clone());
                let text = format!("{what}:\n{shown}\n{program}once\n{}twice\n{}", first.program, second.program);
                self.changed_again.push(text);
            }
            Err(error) => self.judge("it is simplified", what, &first.program, Err(error)),
        }
        Some(())
    }

    fn print(&mut self) {
        for (relation, count) in &self.judged {
            println!("  {relation}: {count} judged");
        }
        println!("  operations: {} before, {} after", self.before, self.after);
        self.dearer.sort_by(|a, b| b.0.total_cmp(&a.0));
        self.changed_again.sort_by_key(String::len);
        let worst = self.dearer.first().map_or(1.0, |(ratio, _)| *ratio);
        println!("  dearer at small sizes: {}, at worst by {worst:.3}", self.dearer.len());
        println!("  changed again: {}", self.changed_again.len());
        self.dearer.iter().take(2).for_each(|(_, text)| println!("DEARER {text}"));
        self.changed_again.iter().take(2).for_each(|text| println!("CHANGED AGAIN {text}"));
        self.failures.sort_by_key(String::len);
        self.failures.iter().take(20).for_each(|text| println!("FAILURE {text}"));
    }
}

/// The simplified program gives what the program does.
fn keeps_value(program: &tssa::Program, simplified: &tssa::Program, environment: &Environment<f64>) -> Judgement {
    let found = flat(&evaluate(simplified, environment).map_err(words)?);
    Expected::at(program, environment)?.compare("value", &found, Ways::Simplified).map(|_| ())
}

/// The program, its forward derivative, its adjoint, and its gradient, each simplified.
fn simplifications(first: u64, programs: u64, budget: Budget) -> Simplified {
    let mut report = Simplified::default();
    for seed in first..first + programs {
        if let Err(complaint) = simplifications_of(&mut report, seed, budget) {
            report.failures.push(format!("seed {seed}: {complaint}"));
        }
    }
    report
}

fn simplifications_of(report: &mut Simplified, seed: u64, budget: Budget) -> Judgement {
    let smooth = seed % 4 == 3;
    let generated = generate::program(seed, smooth);
    let source = surface::read(&generated.text, &[]).map_err(words)?;
    let mut numbers = Numbers::new(seed ^ 0x5eed, !smooth);
    let given = inputs(&generated, &mut numbers);
    let (_, environment) = environment(&source, &given).map_err(words)?;
    // At ties every kink is met: all values 0, all values 1.
    let constant = |x: f64| environment.map(|_, _, leaf| leaf.map(|_| Ok(x))).map_err(words);
    let at = match smooth {
        true => vec![environment.clone()],
        false => vec![environment.clone(), constant(0.0)?, constant(1.0)?],
    };
    let Staged::TensorSsa(program) = lower(&source, Stage::TensorSsa, &mut Stages::new()).map_err(words)? else {
        return Err("no Tensor-SSA".to_owned());
    };
    let name = |what: &str| format!("seed {seed}, {what}");
    report.simplified(&name("primal"), &program, &at, budget);
    let wrt = program.signature.params.ids().collect::<Vec<_>>();
    let forward =
        diff::expand_partials(&diff::forward(&program, &wrt, false).map_err(words)?.program).map_err(words)?;
    let along = at.iter().map(|environment| {
        let tangents: Vec<_> = environment.params.iter().map(|leaves| like(leaves, &mut numbers)).collect();
        let params = environment.params.iter().cloned().chain(tangents).collect();
        Environment { params, ..environment.clone() }
    });
    let along: Vec<Environment<f64>> = along.collect();
    report.simplified(&name("forward"), &forward, &along, budget);
    let outputs = evaluate(&program, &environment).map_err(words)?;
    let options = Options { seed: Seed::Parameter, with_value: false, derivation: false };
    let adjoint =
        diff::expand_partials(&diff::adjoint(&program, &wrt, options).map_err(words)?.program).map_err(words)?;
    let back = at.iter().map(|environment| {
        let params = environment.params.iter().cloned().chain([like(&outputs, &mut numbers)]).collect();
        Environment { params, ..environment.clone() }
    });
    let back: Vec<Environment<f64>> = back.collect();
    report.simplified(&name("adjoint"), &adjoint, &back, budget);
    Ok(())
}

fn run_simplifications(first: u64, programs: u64, budget: Budget) {
    let mut report = simplifications(first, programs, budget);
    report.print();
    let again = &report.changed_again;
    assert!(again.is_empty(), "{} programs change again when simplified twice, such as\n{}", again.len(), again[0]);
    assert!(
        report.failures.is_empty(),
        "{} failures\n{}",
        report.failures.len(),
        report.failures.iter().take(3).cloned().collect::<Vec<_>>().join("\n\n")
    );
}

/// A budget with which random programs are simplified quickly.
pub const SMALL: Budget = Budget { nodes: 300, rounds: 4, matches: 500 };

#[test]
fn some_simplifications() {
    run_simplifications(0, 40, SMALL);
}

/// Of programs that cost the same and become each other in turn, the result is the same, whichever came in.
#[test]
fn circles_end_alike() {
    for seed in [803_742, 803_793, 902_419, 902_487] {
        let report = simplifications(seed, 1, Budget::default());
        assert!(report.failures.is_empty() && report.changed_again.is_empty(), "{}", report.changed_again.join("\n"));
    }
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

/// Explanations hang together, all of what they cite is there, and each of their steps keeps the values.
#[test]
fn explanations_are_checked_and_replayed() {
    let (mut equations, mut guards) = (0, 0);
    let options = simplify::Options::default();
    for seed in 0..40 {
        let smooth = seed % 4 == 3;
        let generated = generate::program(seed, smooth);
        let given = inputs(&generated, &mut Numbers::new(seed, !smooth));
        let program = Function::parse(&generated.text).expect("generated programs are sound");
        let explanation =
            simplify::explain(program.tensor_ssa(), &options).unwrap_or_else(|e| panic!("{e}\n{program}"));
        let complaints = explanation.check().expect("the rules are sound");
        assert!(complaints.is_empty(), "seed {seed}: {complaints:#?}\n{explanation}");
        let simplified =
            simplify::simplify(program.tensor_ssa(), &options).unwrap_or_else(|e| panic!("{e}\n{program}"));
        assert_eq!(explanation.output, simplified.program, "seed {seed}");
        let mut evaluate = |program: &tssa::Program| {
            let results = iverson::reference::evaluate(program, &given)?;
            Ok(results.into_iter().map(|(_, value)| value).collect())
        };
        let pairs = explanation.replay(&mut evaluate).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{program}"));
        let told: usize = explanation.parts.iter().map(|part| part.equations.len() + part.after.outputs.len()).sum();
        assert_eq!(pairs.len(), told);
        for (at, [before, after]) in pairs.into_iter().enumerate() {
            let data = |value: &iverson::tensor::Value| -> Vec<f64> {
                value.leaves().iter().flat_map(|leaf| leaf.data().to_vec()).collect()
            };
            let (before, after) = (data(&before), data(&after));
            if is_exact(&before) {
                close("sides", &before, &after, 1e-10)
                    .unwrap_or_else(|e| panic!("seed {seed}, pair {at}: {e}\n{program}\n{explanation}"));
            }
        }
        equations += explanation.parts.iter().map(|part| part.equations.len()).sum::<usize>();
        guards += explanation.parts.iter().map(|part| part.weakened.len()).sum::<usize>();
    }
    assert!(equations > 50 && guards > 20, "{equations} equations and {guards} guards are too few");
}

/// Whatever the budget, nothing costs more than it did, and a budget of twice another gives nothing that costs more.
#[test]
fn larger_budgets_give_nothing_dearer() {
    let random = (0..12).map(|seed| generate::program(seed, seed % 4 == 3).text);
    let known = include_str!("../programs/k10_bundle_adjustment.iv").to_owned();
    for text in random.chain([known]) {
        let program = Function::parse(&text).expect("the program is sound");
        let program = program.tensor_ssa();
        let simplified = |budget: Budget| {
            let options = simplify::Options { budget, ..simplify::Options::default() };
            simplify::simplify(program, &options).expect("it is simplified").program
        };
        let no_dearer = |a: &tssa::Program, b: &tssa::Program| {
            let kept = simplify::is_no_dearer(a, b, &BTreeMap::new()).expect("it is counted");
            assert!(kept, "{text}\n{b}to\n{a}");
        };
        no_dearer(&simplified(SMALL), program);
        let mut best = program.clone();
        for k in [1, 2, 3, 4] {
            // Counts need not be alike.
            let budget = Budget::default().times(k);
            let found = simplified(Budget { nodes: budget.nodes + 100, rounds: budget.rounds * k, ..budget });
            no_dearer(&found, &best);
            best = found;
        }
    }
}
