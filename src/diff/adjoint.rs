//! The adjoint derivative by rewriting inner products, rules 6.14-6.29.
//!
//! The adjoint of a program `y = f(x)` is the program `e` with `<dy | D f(x; dx)> = <e | dx>` for all `dy` and `dx`. The rewriting starts from
//! the left side and ends with the right one; every rule is an equation between sums of guarded inner products under `let`s
//! ([`Form`]), so the result is right by construction. In this order:
//!
//! 1. 6.14 moves every statement of `f` out of the inner product, as `let X = e` and `let dX = D[e]`; 6.15 puts the tangents last. A
//!    statement that does not depend on the parameters has no tangent, `D[e]` being 0 by 6.2 and 6.3.
//! 2. 6.16 splits the inner product over the outputs.
//! 3. 6.21 turns `<a | D[X]>` into `<a | dX>`, or 6.22 and 6.23 into 0, which 6.24 drops, where `X` has no tangent.
//! 4. For the last pending `let dX = D[e]`, with `S` what remains of the sum:
//!    - 6.20 drops it if no inner product mentions `dX`;
//!    - 6.25 merges the inner products with `dX`, two by two: `<a | dX>_p + <b | dX>_q = let c = [p] a + [q] b in <c | dX>_(p or q)`; those of
//!      the same `e` at places that exclude each other first, which need no addition: `[p] e + [q] e = [p or q] e`;
//!    - 6.19 then replaces `dX` by what it stands for: `<c | dX>_p + S` becomes `<c | D[e]>_p + S`;
//!    - 6.26-6.29 take `D[e]` apart by the form of `e`, leaving inner products with `D[X]` of operands, which come earlier, for 3;
//!    - 6.17 extends the adjoint of a part of a parameter by 0 to one of the parameter.
//! 5. 6.18 puts together what is left, inner products with the tangents of the parameters.
//!
//! What 6.22 and 6.23 would drop is not made in the first place, unless the derivation is asked for: then the same rewriting is done once
//! more with every rule written out.
//!
//! **Guards.** `p or q`, `p and q` and, in 6.28 and 6.29, `exists g s. p` grow along a chain of statements. One that has become long gets a
//! name, `let G = gen g. [p] * 1`, and reads `G[g] != 0` from there on. That costs nothing and means the same, so the adjoint of a
//! chain is linear in the chain.
//!
//! **Work.** Each rule keeps the cost of Fig. 17, which gives `cost_IO <= 4 cost_IO(f)` (Thm 6.35) for functions of one or two arguments.

use std::collections::BTreeMap;

use indexmap::IndexMap;

use super::activity::{active, linear};
use super::derivation::{Collected, Derivation, Form, FormPart, InnerProduct, Right, Step, Sum, is_whole, one};
use super::forward::{aligned, name_after, product as contraction, scaled_partial, zero};
use super::{NewParams, expand_partials};
use crate::base::{Id as _, IndexId, ParamId, SideTable, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Pred, RelationRef, Size, Var, View};
use crate::solver::exists_all;
use crate::tssa::{Builder, Operand, Output, Program, Rhs, within};
use crate::ty::{Side, Types};

/// What stands on the left of the first inner product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seed {
    /// A new parameter for each output.
    Parameter,
    /// The number 1; the program must have one output, a real. The adjoint is then the gradient.
    One,
}

/// An adjoint derivative.
#[derive(Clone, Debug)]
pub struct Adjoint {
    /// The program. Its results are those of the primal program, if they were asked for, then one for each parameter that was
    /// differentiated, of its type.
    pub program: Program,
    /// The parameters that hold the seeds, one for each output; none for a gradient.
    pub seeds: Vec<ParamId>,
    /// How it was found, if that was asked for.
    pub derivation: Option<Derivation>,
}

/// How much an adjoint may do.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What the adjoint starts from.
    pub seed: Seed,
    /// Whether the program returns the results of the primal program as well.
    pub with_value: bool,
    /// Whether to record every step. Costs time and memory in proportion to the square of the program.
    pub derivation: bool,
}

/// The adjoint derivative of a program by some of its parameters.
///
/// # Errors
/// [`Error::Request`] for a gradient of anything but one real output; [`Error::Overflow`] and [`Error::Bug`].
pub fn adjoint(program: &Program, wrt: &[ParamId], options: Options) -> Result<Adjoint> {
    let program = &expand_partials(program)?;
    let mut params = NewParams::new(&program.signature);
    let mut seeds = Vec::new();
    match options.seed {
        Seed::One => match program.outputs.as_slice() {
            [output] if output.ty == Types::REAL => {}
            _ => return Err(no_gradient()),
        },
        Seed::Parameter => {
            for output in &program.outputs {
                let name = if output.name == "value" { "dy".to_owned() } else { format!("d{}", output.name) };
                seeds.push(params.add(&name, output.ty, output.storage));
            }
        }
    }
    // Tangents occur in intermediate forms only; the result does not mention them.
    let signature = params.signature.clone();
    let mut tangents = BTreeMap::new();
    for x in wrt {
        let param = &signature.params[*x];
        tangents.insert(*x, params.add(&format!("d{}", param.name), param.ty, param.storage));
    }
    let rewrite = |record: bool| {
        let mut builder = Builder::resume(program);
        builder.extend_signature(params.signature.clone());
        let active = active(program, wrt)?;
        let mut rewriting = Rewriting {
            linear: linear(program, &active),
            active,
            builder,
            form: Form::default(),
            collected: Vec::new(),
            guard_budget: GUARD_BUDGET,
            record: record.then(Vec::new),
            buckets: SideTable::new(program.stmts.len(), Vec::new()),
            serial: 0,
        };
        let outputs = rewriting.start(program, &seeds)?;
        for x in program.stmts.ids().rev() {
            if rewriting.active[x] {
                rewriting.eliminate(x)?;
            }
        }
        rewriting.join(program, wrt)?;
        Ok::<_, Error>((rewriting, outputs))
    };
    let mut derivation = None;
    if options.derivation {
        let (Rewriting { record, builder, active, .. }, outputs) = rewrite(true)?;
        let (steps, stmts) = (record.unwrap_or_default(), program.stmts.len());
        derivation = Some(Derivation { steps, builder, active, stmts, outputs, tangents: tangents.clone() });
    }
    let (mut rewriting, _) = rewrite(false)?;
    let mut outputs = if options.with_value { program.outputs.clone() } else { Vec::new() };
    let prefix = if options.seed == Seed::One { "grad" } else { "adjoint" };
    outputs.extend(rewriting.results(program, wrt, prefix)?);
    rewriting.builder.extend_signature(signature);
    let program = rewriting.builder.finish(outputs).prune()?;
    Ok(Adjoint { program, seeds, derivation })
}

/// A guard without what numbers say in one of several cases.
fn widened(guard: &Pred) -> Pred {
    match guard {
        Pred::All(ps) => Pred::all(ps.iter().map(widened).collect::<Vec<_>>()),
        Pred::Any(ps) => {
            let case = |p: &Pred| Pred::all(p.conjuncts().iter().filter(|p| !p.reads_computed()).cloned());
            Pred::any(ps.iter().map(case).collect::<Vec<_>>())
        }
        p => p.clone(),
    }
}

/// What is said of a program that has no gradient.
pub(crate) fn no_gradient() -> Error {
    Error::Request("a gradient is that of one real output; use the adjoint, with a seed for each output".to_owned())
}

/// A guard of at most this many atoms is written out while the budget lasts.
const GUARD_WEIGHT: usize = 256;
/// A guard of at most this many atoms is always written out.
const GUARD_WEIGHT_FREE: usize = 8;
/// Atoms that all guards of one adjoint may have together before longer ones get names, beside the free ones.
const GUARD_BUDGET: usize = 1 << 12;
/// How deep a guard that is written out may nest: an `exists` in an `exists` three times. In a chain of sparse products it would nest as deep as there
/// are factors.
const GUARD_NESTING: usize = 8;

struct Rewriting {
    active: SideTable<VarId, bool>,
    /// The statements whose adjoint becomes those of parameters by sums and products with literals.
    linear: SideTable<VarId, bool>,
    /// The bindings made so far: those of the program, then the final ones.
    builder: Builder,
    /// The term without its bindings, while it is recorded.
    form: Form,
    /// The adjoints of the leaves of parameters that are complete.
    collected: Vec<(VarId, VarId)>,
    /// Atoms that guards which are written out may still have.
    guard_budget: usize,
    /// The steps, if they are wanted.
    record: Option<Vec<Step>>,
    /// The inner products of the sum with the tangent of each statement.
    buckets: SideTable<VarId, Vec<InnerProduct>>,
    /// How many inner products were made.
    serial: u32,
}

/// What stands in an inner product where equations hold: operands, and the equations without their constants.
#[derive(PartialEq, Eq, Hash)]
struct What {
    operands: Vec<Operand>,
    terms: Vec<Vec<(Var, i64)>>,
}

impl Rewriting {
    /// Rules 6.14 to 6.16: from `<dy | D f>` to a sum over the outputs, under pending tangents. Returns the seeds with their outputs.
    fn start(&mut self, program: &Program, seeds: &[ParamId]) -> Result<Vec<(VarId, VarId)>> {
        let mut products = Vec::new();
        for (at, output) in program.outputs.iter().enumerate() {
            let leaves = program.signature.types.leaves(output.ty)?;
            for (leaf, x) in leaves.into_iter().zip(&output.leaves) {
                let left = match seeds.get(at) {
                    Some(seed) => {
                        let name = self.builder.signature().params[*seed].name.clone();
                        let left = self.builder.input(*seed, leaf.path, leaf.dims.clone());
                        self.builder.suggest_name(left, &name);
                        left
                    }
                    None => one(&mut self.builder)?,
                };
                let axes = self.builder.fresh_indices(&leaf.dims);
                // The seed of a sparse output is read on its pattern only.
                let guard = output.storage.stored_at(&Affine::indices(&axes));
                products.push(self.product(left, Right::Variable(*x), axes, guard, false));
            }
        }
        let outputs: Vec<(VarId, VarId)> = products.iter().map(|p| (p.left, p.right.stmt())).collect();
        self.record_start(program, &products);
        self.settle(products);
        Ok(outputs)
    }

    /// An inner product that is told apart from all others.
    fn product(
        &mut self,
        left: VarId,
        right: Right,
        axes: Vec<(IndexId, Size)>,
        guard: Pred,
        covered: bool,
    ) -> InnerProduct {
        self.serial += 1;
        InnerProduct { left, right, axes, guard, covered, serial: self.serial }
    }

    /// Whether the operand of a rule is looked at: one that has no tangent makes an inner product that is dropped again.
    fn is_followed(&self, operand: VarId) -> bool {
        self.active[operand] || self.record.is_some()
    }

    /// 6.21 to 6.24: adds inner products `<a | D[X]>` to the sum, as `<a | dX>`, where `X` has a tangent.
    fn settle(&mut self, products: Vec<InnerProduct>) {
        let (products, dropped): (Vec<_>, Vec<_>) =
            products.into_iter().partition(|product| self.active[product.right.stmt()]);
        let is_number = |p: &InnerProduct| matches!(self.builder.stmt(p.right.stmt()).rhs, Rhs::Number(_));
        let (numbers, others): (Vec<_>, Vec<_>) = dropped.into_iter().partition(is_number);
        self.record("6.23", "a number has no tangent", &numbers, &[], numbers.len());
        self.record("6.22", "what the parameters do not change has no tangent", &others, &[], others.len());
        self.record_zeros();
        let tangents: Vec<InnerProduct> = products
            .iter()
            .map(|product| InnerProduct { right: Right::Tangent(product.right.stmt()), ..product.clone() })
            .collect();
        self.record("6.21", "the derivative of a variable is its tangent", &products, &tangents, 0);
        for product in tangents {
            self.buckets[product.right.stmt()].push(product);
        }
    }

    /// Rules 6.19 to 6.29 for the tangent of one statement, the last one.
    fn eliminate(&mut self, x: VarId) -> Result<()> {
        let mut products = self.buckets.take(x);
        let is_whole = is_whole(&self.builder, x);
        if products.is_empty() {
            if !is_whole {
                self.form.pending.pop();
                self.step("6.20", "drop a tangent that is not used", FormPart::Unused(x), FormPart::Rest);
            }
            return Ok(());
        }
        products = self.unite(x, products)?;
        // Merging neighbours keeps the guards of long sums balanced.
        while products.len() > 1 {
            let mut merged = Vec::with_capacity(products.len().div_ceil(2));
            let mut rest = products.into_iter();
            while let Some(a) = rest.next() {
                merged.push(match rest.next() {
                    Some(b) => self.merge(x, a, b)?,
                    None => a,
                });
            }
            products = merged;
        }
        for product in products {
            // The tangent of a parameter is not bound by the term.
            if is_whole {
                self.collect(x, product)?;
                continue;
            }
            self.form.pending.pop();
            let derivative = InnerProduct { right: Right::Derivative(x), ..product.clone() };
            self.replace(std::slice::from_ref(&product), std::slice::from_ref(&derivative));
            let after = Sum { products: vec![derivative.clone()], ..Sum::default() };
            self.step(
                "6.19",
                "replace a tangent by what it stands for",
                FormPart::Bound(product),
                FormPart::Sum(after),
            );
            match self.builder.stmt(x).rhs {
                Rhs::Input { .. } => self.collect(x, derivative)?,
                _ => self.transpose(x, derivative)?,
            }
        }
        Ok(())
    }

    /// 6.25 where nothing has to be added, since the same is read at places that exclude each other:
    ///
    /// ```text
    /// <[h = 1] e | dX>_[h = 1] + <[h = 2] e | dX>_[h = 2]  =  let c = [h = 1 or h = 2] e in <c | dX>_[h = 1 or h = 2]
    /// ```
    fn unite(&mut self, x: VarId, products: Vec<InnerProduct>) -> Result<Vec<InnerProduct>> {
        let mut groups: IndexMap<What, IndexMap<Vec<i64>, InnerProduct>> = IndexMap::new();
        let mut united = Vec::new();
        for product in products {
            let Some((what, place)) = self.place(&product) else {
                united.push(product);
                continue;
            };
            // What is read twice at one place is added.
            let group = groups.entry(what).or_default();
            if group.contains_key(&place) {
                united.push(product);
            } else {
                group.insert(place, product);
            }
        }
        for (What { operands, .. }, members) in groups {
            let members: Vec<InnerProduct> = members.into_values().collect();
            let [first, _, ..] = members.as_slice() else {
                united.extend(members);
                continue;
            };
            let axes = first.axes.clone();
            let at = |i: IndexId| axes.get(i.index()).map(|(j, _)| Affine::index(*j));
            let (mut here, mut guards) = (Vec::new(), Vec::new());
            for member in &members {
                if let Rhs::Contract { guard, .. } = &self.builder.stmt(member.left).rhs {
                    here.push(guard.substitute(&at)?);
                }
                guards.push(member.guard_over(&axes)?);
            }
            let indices =
                |operand: &Operand| operand.indices.iter().filter_map(|i| Some(axes.get(i.index())?.0)).collect();
            let operands =
                operands.iter().map(|operand| Operand { var: operand.var, indices: indices(operand) }).collect();
            let left = self.builder.contract(&axes, &[], Pred::any(here), operands)?;
            let title = "merge inner products that exclude each other";
            united.push(self.merged(x, title, &members, left, axes, Pred::any(guards))?);
        }
        Ok(united)
    }

    /// What a left side reads where equations hold, and the constants of these. Equations that differ in constants only exclude each other.
    fn place(&self, product: &InnerProduct) -> Option<(What, Vec<i64>)> {
        let Rhs::Contract { sums, guard, operands } = &self.builder.stmt(product.left).rhs else { return None };
        let equation = |p: &Pred| match p {
            Pred::Zero(a) => Some((a.terms().to_vec(), a.offset())),
            _ => None,
        };
        let equations = guard.conjuncts().iter().map(equation).collect::<Option<Vec<_>>>()?;
        let (terms, place): (Vec<_>, Vec<_>) = equations.into_iter().unzip();
        let fixed = product.covered && sums.is_empty() && !place.is_empty();
        fixed.then(|| (What { operands: operands.clone(), terms }, place))
    }

    /// 6.25: `<a | dX>_p + <b | dX>_q = let c = [p] a + [q] b in <c | dX>_(p or q)`.
    fn merge(&mut self, x: VarId, a: InnerProduct, b: InnerProduct) -> Result<InnerProduct> {
        let q = b.guard_over(&a.axes)?;
        let left = self.builder.add(&a.axes, [(a.guard.clone(), a.left), (q.clone(), b.left)])?;
        let (axes, guard) = (a.axes.clone(), a.guard.clone().or(q));
        self.merged(x, "merge two inner products", &[a, b], left, axes, guard)
    }

    /// The inner product with `dX` that takes the place of others, by 6.25.
    fn merged(
        &mut self,
        x: VarId,
        title: &'static str,
        others: &[InnerProduct],
        left: VarId,
        axes: Vec<(IndexId, Size)>,
        guard: Pred,
    ) -> Result<InnerProduct> {
        name_after(&mut self.builder, Some(left), x, "adj");
        let wide = Some(widened(&guard)).filter(|wide| self.linear[x] && *wide != guard);
        let guard = self.short(&axes, guard)?;
        let merged = self.product(left, Right::Tangent(x), axes, guard, true);
        self.record("6.25", title, others, std::slice::from_ref(&merged), 0);
        let Some(wide) = wide else { return Ok(merged) };
        let guard = self.short(&merged.axes, wide)?;
        if guard == merged.guard {
            return Ok(merged);
        }
        let wider = self.product(left, Right::Tangent(x), merged.axes.clone(), guard, true);
        let title = "the left side is 0 where numbers say so, and nothing infinite meets it";
        self.record("Fig. 14", title, std::slice::from_ref(&merged), std::slice::from_ref(&wider), 0);
        Ok(wider)
    }

    /// The complete adjoint of a leaf of a parameter. Its guard goes into the left side, and 6.17 makes it one of the whole parameter.
    fn collect(&mut self, x: VarId, product: InnerProduct) -> Result<()> {
        let left = self.restricted(&product)?;
        name_after(&mut self.builder, Some(left), x, "adj");
        self.collected.push((left, x));
        if self.record.is_none() {
            return Ok(());
        }
        let is_whole = is_whole(&self.builder, x);
        let title = match left == product.left {
            true => "the left side is 0 where the guard is false",
            false => "the guard goes into the left side",
        };
        let mut before = product.clone();
        if !product.guard.is_true() && !is_whole {
            let plain = InnerProduct { left, guard: Pred::True, ..product.clone() };
            self.record("Fig. 14", title, &[product], std::slice::from_ref(&plain), 0);
            before = plain;
        }
        self.replace(std::slice::from_ref(&before), &[]);
        let collected =
            |tangent: bool| Sum { collected: vec![Collected { left, input: x, tangent }], ..Sum::default() };
        self.form.sum.collected.push(Collected { left, input: x, tangent: is_whole });
        let was = FormPart::Sum(Sum { products: vec![before.clone()], ..Sum::default() });
        if is_whole {
            if !before.guard.is_true() {
                self.step("Fig. 14", title, was, FormPart::Sum(collected(true)));
            }
            return Ok(());
        }
        self.step("6.17", "a part of a parameter", was, FormPart::Sum(collected(false)));
        if let Some(last) = self.form.sum.collected.last_mut() {
            last.tangent = true;
        }
        let title = "the derivative of a variable is its tangent";
        self.step("6.21", title, FormPart::Sum(collected(false)), FormPart::Sum(collected(true)));
        Ok(())
    }

    /// Rules 6.26 to 6.29: takes `<dY | D[e]>_q` apart, `e` being the right-hand side of `X`.
    fn transpose(&mut self, x: VarId, product: InnerProduct) -> Result<()> {
        let open = self.builder.open(x)?;
        let guard = product.guard_over(&open.gens)?;
        // Summands that are 0 by the rule itself.
        let mut zeros = 0;
        let (rule, title, products) = match open.rhs {
            Rhs::Input { .. } | Rhs::Number(_) => return Err(Error::bug("diff", "nothing to transpose")),
            // 6.26: <dY | D[[p] X0 + [q] X1]>_r = <dY | D[X0]>_(p and r) + <dY | D[X1]>_(q and r)
            Rhs::Add(sides) => {
                let mut products = Vec::new();
                let sides = sides.into_iter().filter(|(_, operand)| self.is_followed(*operand));
                for (p, operand) in sides.collect::<Vec<_>>() {
                    let covered = product.covered && p.is_true();
                    let guard = match p.is_true() {
                        true => guard.clone(),
                        false => self.short(&open.gens, guard.clone().and(p))?,
                    };
                    let right = Right::Variable(operand);
                    products.push(self.product(product.left, right, open.gens.clone(), guard, covered));
                }
                ("6.26", "transpose an addition", products)
            }
            // 6.27, once for each argument: let dX' = [p and q] f'k(..) dY in <dX' | D[X]>_(p and q)
            Rhs::Map { guard: p, function, args } => {
                let guard = guard.and(p);
                let mut products = Vec::new();
                let followed = (0..).zip(&args).filter(|(_, operand)| self.is_followed(**operand));
                for (at, operand) in followed.collect::<Vec<_>>() {
                    let term = scaled_partial(
                        &mut self.builder,
                        &open.gens,
                        guard.clone(),
                        function,
                        &args,
                        at,
                        product.left,
                    )?;
                    match term {
                        Some((guard, left)) => {
                            products.push(self.factor(left, *operand, open.gens.clone(), guard)?);
                        }
                        None => zeros += 1,
                    }
                }
                ("6.27", "transpose a function f, whose partial derivatives are f'0, f'1, ..", products)
            }
            // 6.28, 6.29: for each operand let dX' = gen h. sum g s. [p and q and h = i] dY[g] * X1[j] in <dX' | D[X]>_(exists g s. ..)
            Rhs::Contract { guard: p, operands, .. } => {
                let guard = guard.and(p);
                let inner: Vec<(IndexId, Size)> = open.gens.iter().chain(&open.sums).cloned().collect();
                let mut products = Vec::new();
                let followed = (0..operands.len()).filter(|at| self.is_followed(operands[*at].var));
                for at in followed.collect::<Vec<_>>() {
                    let operand = &operands[at];
                    let axes = self.builder.dims(operand.var).to_vec();
                    let axes = self.builder.fresh_indices(&axes);
                    let links = axes
                        .iter()
                        .zip(&operand.indices)
                        .map(|((h, _), i)| Ok(Pred::equal(&Affine::index(*h), &Affine::index(*i))?));
                    let guard = Pred::all(links.collect::<Result<Vec<_>>>()?).and(guard.clone());
                    let mut factors = vec![aligned(&open.gens, product.left)];
                    factors
                        .extend(operands.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, o)| o.clone()));
                    let left = contraction(&mut self.builder, &axes, &inner, guard.clone(), factors)?;
                    let support = exists_all(&inner, &guard)?;
                    products.push(self.factor(left, operand.var, axes, support)?);
                }
                let binary = operands.len() == 2;
                let rule = if binary { "6.28" } else { "6.29" };
                (rule, if binary { "transpose a product" } else { "transpose a sum" }, products)
            }
        };
        let names: Vec<(VarId, VarId)> = products
            .iter()
            .filter(|p: &&InnerProduct| p.left != product.left && self.active[p.right.stmt()])
            .map(|p| (p.left, p.right.stmt()))
            .collect();
        for (left, operand) in names {
            name_after(&mut self.builder, Some(left), operand, "adj");
        }
        self.record(rule, title, &[product], &products, zeros);
        self.settle(products);
        Ok(())
    }

    /// `<left | D[X]>_guard` where the left side is zero outside the guard.
    fn factor(&mut self, left: VarId, x: VarId, axes: Vec<(IndexId, Size)>, guard: Pred) -> Result<InnerProduct> {
        let guard = self.short(&axes, guard)?;
        Ok(self.product(left, Right::Variable(x), axes, guard, true))
    }

    /// The guard itself if it is short, else its name: `G[g] != 0` with `let G = gen g. [guard] * 1`.
    fn short(&mut self, axes: &[(IndexId, Size)], guard: Pred) -> Result<Pred> {
        let guard = within(axes.iter(), guard);
        let weight = guard.weight();
        if guard.nesting() <= GUARD_NESTING {
            if weight <= GUARD_WEIGHT_FREE {
                return Ok(guard);
            }
            if weight <= GUARD_WEIGHT.min(self.guard_budget) {
                self.guard_budget -= weight;
                return Ok(guard);
            }
        }
        let builder = &mut self.builder;
        let one = one(builder)?;
        let var = builder.contract(axes, &[], guard, vec![aligned(&[], one)])?;
        let place = Affine::indices(axes);
        Ok(Pred::relation(RelationRef::Computed { var, view: View::Support }, place))
    }

    /// The left side, zero outside the guard.
    fn restricted(&mut self, product: &InnerProduct) -> Result<VarId> {
        if product.covered || product.guard.is_true() {
            return Ok(product.left);
        }
        let operand = aligned(&product.axes, product.left);
        self.builder.contract(&product.axes, &[], product.guard.clone(), vec![operand])
    }

    /// The adjoints of the leaves of a parameter, nothing for those that are 0.
    fn adjoints(&self, program: &Program, param: ParamId) -> Result<Vec<Option<VarId>>> {
        let found: BTreeMap<&[Side], VarId> = self
            .collected
            .iter()
            .filter_map(|(left, input)| match &self.builder.stmt(*input).rhs {
                Rhs::Input { param: of, path } if *of == param => Some((path.as_slice(), *left)),
                _ => None,
            })
            .collect();
        let leaves = program.signature.types.leaves(program.signature.params[param].ty)?;
        Ok(leaves.into_iter().map(|leaf| found.get(leaf.path.as_slice()).copied()).collect())
    }

    /// 6.18: one inner product with all parameters.
    fn join(&mut self, program: &Program, wrt: &[ParamId]) -> Result<()> {
        if self.record.is_none() {
            return Ok(());
        }
        let joined =
            wrt.iter().map(|param| Ok((*param, self.adjoints(program, *param)?))).collect::<Result<Vec<_>>>()?;
        // A single parameter without parts is there already.
        if !matches!(joined.as_slice(), [(_, leaves)] if matches!(leaves.as_slice(), [Some(_)])) {
            let sum = FormPart::Sum(self.form.sum.clone());
            self.step("6.18", "put the adjoints together; 0 where there is none", sum, FormPart::Joined(joined));
        }
        Ok(())
    }

    /// The results: the adjoint of each parameter.
    fn results(&mut self, program: &Program, wrt: &[ParamId], prefix: &str) -> Result<Vec<Output>> {
        let mut outputs = Vec::new();
        for id in wrt {
            let param = &program.signature.params[*id];
            let leaves = program.signature.types.leaves(param.ty)?;
            let adjoints = self.adjoints(program, *id)?;
            let leaves = adjoints.into_iter().zip(leaves).map(|(adjoint, leaf)| match adjoint {
                Some(x) => Ok(x),
                None => zero(&mut self.builder, &leaf.dims),
            });
            outputs.push(Output {
                name: format!("{prefix}_{}", param.name),
                ty: param.ty,
                storage: param.storage,
                leaves: leaves.collect::<Result<_>>()?,
            });
        }
        Ok(outputs)
    }

    /// Notes rules 6.14 and 6.15, and 6.16 where there are several outputs.
    fn record_start(&mut self, program: &Program, products: &[InnerProduct]) {
        if self.record.is_none() {
            return;
        }
        let bound: Vec<VarId> = program.stmts.ids().filter(|x| !is_whole(&self.builder, *x)).collect();
        let pending: Vec<VarId> = bound.iter().copied().filter(|x| self.active[*x]).collect();
        let first = pending.first().copied();
        // The steps show the bindings themselves.
        self.form.bound = self.builder.len();
        self.form.sum.products = products.to_vec();
        self.form.pending = pending;
        self.step(
            "6.14",
            "bind every statement, and its tangent unless that is 0",
            FormPart::Whole,
            FormPart::Interleaved,
        );
        if first.is_some() && bound.last() != first.as_ref() {
            let order = |tangents_last: bool| FormPart::Order { tangents_last };
            self.step("6.15", "move the tangents behind the statements", order(false), order(true));
        }
        if products.len() != 1 || products.iter().any(|product| !product.guard.is_true()) {
            let sum = FormPart::Sum(self.form.sum.clone());
            self.step("6.16", "split over the outputs", FormPart::Outputs, sum);
        }
    }

    /// 6.24: drops the summands that are 0.
    fn record_zeros(&mut self) {
        let sum = &mut self.form.sum;
        let zeros = std::mem::take(&mut sum.zeros);
        // A sum of nothing else is 0 itself.
        if zeros > 0 && !(zeros == 1 && sum.products.is_empty() && sum.collected.is_empty()) {
            let after = FormPart::Sum(sum.clone());
            let before = FormPart::Sum(Sum { zeros, ..sum.clone() });
            self.step("6.24", "drop what is 0", before, after);
        }
    }

    /// Notes a rule that replaces inner products by others, and by as many zeros as given.
    fn record(
        &mut self,
        rule: &'static str,
        title: &'static str,
        before: &[InnerProduct],
        after: &[InnerProduct],
        zeros: usize,
    ) {
        if self.record.is_none() || before.is_empty() {
            return;
        }
        self.replace(before, after);
        self.form.sum.zeros += zeros;
        let part = |products: &[InnerProduct], zeros: usize| {
            FormPart::Sum(Sum { products: products.to_vec(), collected: Vec::new(), zeros })
        };
        self.step(rule, title, part(before, 0), part(after, zeros));
    }

    /// Puts inner products in the place of others.
    fn replace(&mut self, before: &[InnerProduct], after: &[InnerProduct]) {
        if self.record.is_none() {
            return;
        }
        let sum = &mut self.form.sum.products;
        let is_replaced = |p: &InnerProduct| before.iter().any(|old| old.serial == p.serial);
        let at = sum.iter().position(is_replaced).unwrap_or(sum.len());
        sum.retain(|p| !is_replaced(p));
        sum.splice(at..at, after.iter().cloned());
    }

    /// Notes a step, if anybody wants to know. The form is that behind the step.
    fn step(&mut self, rule: &'static str, title: &'static str, before: FormPart, after: FormPart) {
        let Some(steps) = &mut self.record else { return };
        let lets = self.form.bound..self.builder.len();
        self.form.bound = lets.end;
        steps.push(Step { rule, title, before, lets, after, form: self.form.clone() });
    }
}
