//! Derivatives of random programs: their costs, the adjoint identity, and their values by independent means.

use iverson::ir::base::ParamId;
use iverson::ir::certificate::{self, Theorem};
use iverson::ir::diff::{self, Options, Seed};
use iverson::ir::reference::count::{cost_io, count_tssa};
use iverson::ir::reference::{Dual, Environment, Leaf, Limits, Partials, Rounded};
use iverson::ir::stages::check;
use iverson::ir::ty::Types;
use iverson::ir::{present, surface, tssa};
use num_complex::Complex64;

use super::{Judge, Judgement, is_exact, on_places, reordered, same, words};
use crate::judge::{Expected, Ways, is_undecided};
use crate::support::{Numbers, dot, evaluate, evaluate_term, flat, like};

/// A program with its derivatives, and what these take.
struct Derivatives<'a> {
    program: &'a tssa::Program,
    wrt: &'a [ParamId],
    environment: &'a Environment<f64>,
    forward: tssa::Program,
    adjoint: tssa::Program,
    tangents: Vec<Vec<Leaf<f64>>>,
    seeds: Vec<Leaf<f64>>,
    /// With the tangents.
    along: Environment<f64>,
    /// With the seeds.
    back: Environment<f64>,
}

impl Judge<'_> {
    pub(super) fn derivatives(
        &mut self,
        program: &tssa::Program,
        wrt: &[ParamId],
        environment: &Environment<f64>,
        value: &[f64],
        numbers: &mut Numbers,
        smooth: bool,
    ) -> Judgement {
        let forward = diff::forward(program, wrt, false).map_err(words)?.program;
        check("forward", &forward).map_err(words)?;
        let options = Options { seed: Seed::Parameter, with_value: false, derivation: false };
        let adjoint = diff::adjoint(program, wrt, options).map_err(words)?.program;
        check("adjoint", &adjoint).map_err(words)?;

        let tangents: Vec<Vec<Leaf<f64>>> = environment.params.iter().map(|leaves| like(leaves, numbers)).collect();
        let mut along = environment.clone();
        along.params.extend(tangents.iter().cloned());
        let outputs = evaluate(program, environment).map_err(words)?;
        let seeds = like(&outputs, numbers);
        let mut back = environment.clone();
        back.params.push(seeds.clone());
        let derived = Derivatives { program, wrt, environment, forward, adjoint, tangents, seeds, along, back };

        self.costs(&derived)?;
        let df = flat(&evaluate(&derived.forward, &derived.along).map_err(words)?);
        self.adjoint_identity(&derived, value, &df, smooth)?;
        self.expanded(&derived)?;
        self.by_dual_numbers(&derived, &df)?;
        if smooth {
            self.by_complex_step(&derived)?;
        }
        self.second_order(program, wrt, environment, &derived.tangents)
    }

    /// The costs of Theorems 6.1 and 6.35, with `D f` as one black box and expanded, and what certificates say of them.
    fn costs(&mut self, derived: &Derivatives<'_>) -> Judgement {
        let Derivatives { program, wrt, environment, forward, adjoint, along, back, .. } = derived;
        let total = |program: &tssa::Program, environment: &Environment<f64>| {
            let counts = count_tssa(program, environment, Limits::default()).map_err(words)?;
            counts.total(Partials::Free).map_err(words)
        };
        // The theorem counts the tangent together with the value.
        let both = diff::forward(program, wrt, true).map_err(words)?.program;
        let (cost, forward_cost) = (total(program, environment)?, total(&both, along)?);
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
        let adjoint_io = total(&both, back)? + (primal_io - cost);
        if adjoint_io > 4 * primal_io {
            return Err(format!("cost_IO {primal_io}, of the adjoint {adjoint_io}:\n{program}\n{both}"));
        }
        self.judged("cost_IO(adjoint) <= 4 cost_IO");
        if primal_io > 0 {
            self.report.worst_adjoint_cost = self.report.worst_adjoint_cost.max(adjoint_io as f64 / primal_io as f64);
        }

        for (program, environment) in [(*program, *environment), (forward, along), (adjoint, back)] {
            self.certificate(program, environment)?;
        }
        // With partial derivatives expanded the constant is that of the operator table.
        let expanded_forward = diff::forward(program, wrt, true).map_err(words)?.program;
        for (theorem, both, environment, primal) in
            [(Theorem::Forward, &expanded_forward, along, cost), (Theorem::Adjoint, &both, back, primal_io)]
        {
            let both = diff::expand_partials(both).map_err(words)?;
            let constant = u128::from(certificate::bound(program, theorem, true).constant);
            let found = total(&both, environment)? + if theorem == Theorem::Adjoint { primal_io - cost } else { 0 };
            if found > constant * primal {
                return Err(format!("{theorem:?}: cost {primal}, of the derivative {found}:\n{program}\n{both}"));
            }
            self.judged("cost(expanded derivative) <= c cost");
        }
        Ok(())
    }

    fn adjoint_identity(&mut self, derived: &Derivatives<'_>, value: &[f64], df: &[f64], smooth: bool) -> Judgement {
        let Derivatives { forward, adjoint, tangents, seeds, along, back, .. } = derived;
        let adj = flat(&evaluate(adjoint, back).map_err(words)?);
        let dx: Vec<f64> = tangents.iter().flat_map(|leaves| flat(leaves)).collect();
        let dy = flat(seeds);
        let (left, right) = (dot(&dy, df), dot(&adj, &dx));
        let sum_of_terms: f64 =
            dy.iter().zip(df).chain(adj.iter().zip(&dx)).map(|(a, b)| (a * b).abs()).sum::<f64>() + f64::MIN_POSITIVE;
        // Sums are added one by one: each addition may round.
        let additions = |program: &tssa::Program, environment: &Environment<f64>| {
            count_tssa(program, environment, Limits::default()).map_or(0, |count| count.additions)
        };
        let roundings = 64.0 + (additions(forward, along) + additions(adjoint, back)) as f64;
        if smooth {
            if !left.is_finite() || sum_of_terms > 1e200 {
                self.passed_over("<dy, Df dx> = <adjoint dy, dx>");
            } else if (left - right).abs() > roundings * f64::EPSILON * sum_of_terms {
                return Err(format!("adjoint identity: {left} and {right}\n{forward}\n{adjoint}"));
            } else {
                self.judged("<dy, Df dx> = <adjoint dy, dx>");
            }
        } else if is_exact(value) && is_exact(df) && is_exact(&adj) && sum_of_terms < 1e15 {
            if left != right {
                return Err(format!("adjoint identity: {left} and {right}\n{forward}\n{adjoint}"));
            }
            self.judged("<dy, Df dx> = <adjoint dy, dx>");
        } else {
            self.passed_over("<dy, Df dx> = <adjoint dy, dx>");
        }
        Ok(())
    }

    /// Expanding partial derivatives changes nothing, nor does putting a derivative together for reading, nor printing it.
    fn expanded(&mut self, derived: &Derivatives<'_>) -> Judgement {
        for (what, derivative, environment) in
            [("forward", &derived.forward, &derived.along), ("adjoint", &derived.adjoint, &derived.back)]
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
            expected.compare("present", &found, Ways::Unsigned).map_err(|e| format!("{e}\n{shown}\n{expanded}"))?;
            let text = shown.to_string();
            let back = surface::read(&text, &[]).map_err(|e| format!("{e}\nprinted as\n{text}"))?;
            check("elaborate", &back).map_err(words)?;
            let again = evaluate_term(&back, &reordered(environment, &shown, &back)).map_err(words)?;
            let again = on_places(&again, &places).map_err(|e| format!("{e}\n{text}"))?;
            same("a printed derivative", &again, &found).map_err(|e| format!("{e}\n{text}"))?;
            self.judged("a printed derivative parses back");
            self.judged("a derivative put together for reading keeps the value");
        }
        Ok(())
    }

    /// Dual numbers, which know nothing of rules.
    fn by_dual_numbers(&mut self, derived: &Derivatives<'_>, df: &[f64]) -> Judgement {
        let Derivatives { program, environment, forward, tangents, .. } = derived;
        let dual = |x: &f64, dx: &f64| Dual::new(Rounded::new(*x), Rounded::new(*dx));
        let duals = environment.map(|p, k, leaf| leaf.zip(&tangents[p.0 as usize][k], dual));
        let derivatives = |leaf: &Leaf<Dual<Rounded>>| leaf.values().iter().map(Dual::derivative).collect::<Vec<_>>();
        let by_duals = match evaluate(program, &duals.map_err(words)?) {
            Err(error) if is_undecided(&error) => Expected::anything(df.len()),
            leaves => Expected::from(leaves.map_err(words)?.iter().flat_map(derivatives).collect::<Vec<Rounded>>()),
        };
        // Beside a structural zero these have a number where the derivative has nothing.
        by_duals.compare("dual numbers", df, Ways::Simplified).map_err(|e| format!("{e}\n{program}\n{forward}"))?;
        self.judged("Df dx by dual numbers");
        Ok(())
    }

    fn by_complex_step(&mut self, derived: &Derivatives<'_>) -> Judgement {
        // A power of 2, so that steps and differences are not rounded.
        const H: f64 = f64::from_bits((1023 - 500) << 52);
        let Derivatives { program, environment, forward, tangents, along, .. } = derived;
        let complex =
            environment.map(|p, k, leaf| leaf.zip(&tangents[p.0 as usize][k], |x, dx| Complex64::new(*x, H * dx)));
        match evaluate(program, &complex.map_err(words)?) {
            Ok(leaves) => {
                let steps: Vec<f64> = leaves.iter().flat_map(|l| l.values().iter().map(|z| z.im / H)).collect();
                // Where the derivative is not finite, complex arithmetic may give anything, NaN included.
                let tally = Expected::at(forward, along)?.compare("complex step", &steps, Ways::Simplified)?;
                self.report.worst_complex_step = self.report.worst_complex_step.max(tally.worst);
                self.judged("Df dx by complex step");
            }
            Err(_) => self.passed_over("Df dx by complex step"),
        }
        Ok(())
    }

    /// Derivatives of gradients: forward over adjoint, adjoint over forward and adjoint over adjoint agree.
    fn second_order(
        &mut self,
        program: &tssa::Program,
        wrt: &[iverson::ir::base::ParamId],
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
