//! Random programs and their derivatives, simplified: values are kept, costs do not rise, a second time changes nothing.

use std::collections::BTreeMap;

use iverson::Function;
use iverson::ir::diff::{self, Options, Seed};
use iverson::ir::driver::{Stage, Staged, lower};
use iverson::ir::reference::count::count_tssa;
use iverson::ir::reference::{Environment, Limits, Partials};
use iverson::ir::simplify::{self, Budget};
use iverson::ir::stages::{Stages, check};
use iverson::ir::{surface, tssa};
use iverson::tensor::bind;

use super::{Judgement, words};
use crate::generate;
use crate::judge::{Expected, Tally, Ways};
use crate::support::{Numbers, environment, evaluate, flat, inputs, like};

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
            if let Some(strict) = &first.strict {
                self.judge("the strict value is kept", what, program, keeps_value(program, strict, environment));
            }
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

pub(super) fn run_simplifications(first: u64, programs: u64, budget: Budget) {
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

/// What an equation of a guard fixes is read at the index that it fixes, and takes no tensor more each time: the result has as many statements as
/// the program, and a second time changes nothing.
#[test]
fn programs_do_not_grow() {
    let cases = [
        "param x : [m] real\nrel E : [m]\nlet u = gen i < m. sin(x[i])\nlet v = gen i < m. exp(x[i])
         (u, v, gen i < m. [i = 0 and E(0)] * u[0] + [i = 0 and m >= 2] * v[0])",
        "param x : [n] real\nlet u = gen i < n. exp(x[i])\n(u, gen i < n, j < n. [i = j] * u[i] * -3)",
        "param x : [n] real\nrel E : [n]\nlet u = gen i < n. sin(x[i])\n(u, gen i < n, j < n. [i + 1 = j and E(j)] * exp(u[i + 1]))",
    ];
    for text in cases {
        let program = Function::parse(text).expect("the program is sound");
        let simplified = |program: &tssa::Program| {
            simplify::simplify(program, &simplify::Options::default()).expect("it is simplified").program
        };
        let once = simplified(program.tensor_ssa());
        assert_eq!(simplified(&once).stmts, once.stmts, "{text}");
        let count = |program: &tssa::Program| program.stmts.len();
        assert!(count(&once) <= count(program.tensor_ssa()), "{}became\n{once}", program.tensor_ssa());
    }
}

/// Explanations hang together, all of what they cite is there, and each of their steps keeps the values.
#[test]
fn explanations_are_checked_and_replayed() {
    let (mut equations, mut guards, mut tally) = (0, 0, Tally::default());
    let options = simplify::Options::default();
    for seed in 0..40 {
        let smooth = seed % 4 == 3;
        let generated = generate::program(seed, smooth);
        let given = inputs(&generated, &mut Numbers::new(seed, !smooth));
        let program = Function::parse(&generated.text).expect("generated programs are sound");
        let bindings = bind(&program.tensor_ssa().signature, &given).expect("they fit");
        let at = Environment::from_bindings(&bindings).expect("they fit");
        let explanation =
            simplify::explain(program.tensor_ssa(), &options).unwrap_or_else(|e| panic!("{e}\n{program}"));
        let complaints = explanation.check().expect("the rules are sound");
        assert!(complaints.is_empty(), "seed {seed}: {complaints:#?}\n{explanation}");
        let simplified =
            simplify::simplify(program.tensor_ssa(), &options).unwrap_or_else(|e| panic!("{e}\n{program}"));
        assert_eq!(explanation.output, simplified.program, "seed {seed}");
        let mut evaluate = |program: &tssa::Program| Expected::of_outputs(program, &at);
        let pairs = explanation.replay(&mut evaluate).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{program}"));
        let told: usize = explanation.parts.iter().map(|part| part.equations.len() + part.after.outputs.len()).sum();
        assert_eq!(pairs.len(), told);
        for (at, [before, after]) in pairs.into_iter().enumerate() {
            let judged = before.compare("sides", &after.values(), Ways::Simplified);
            tally.add(judged.unwrap_or_else(|e| panic!("seed {seed}, pair {at}: {e}\n{program}\n{explanation}")));
        }
        equations += explanation.parts.iter().map(|part| part.equations.len()).sum::<usize>();
        guards += explanation.parts.iter().map(|part| part.weakened.len()).sum::<usize>();
    }
    println!("{equations} equations, {guards} guards: {tally:?}");
    let Tally { exact, bounded, not_finite, undecided, .. } = tally;
    assert!(exact + bounded > 10 * (not_finite + undecided), "too little is said of the sides: {tally:?}");
    assert!(equations > 50 && guards > 20, "{equations} equations and {guards} guards are too few");
}

/// Whatever the budget, nothing costs more than it did, and a budget of twice another gives nothing that costs more.
#[test]
fn larger_budgets_give_nothing_dearer() {
    let random = (0..12).map(|seed| generate::program(seed, seed % 4 == 3).text);
    let known = include_str!("../../programs/k10_bundle_adjustment.iv").to_owned();
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
