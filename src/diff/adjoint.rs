//! The adjoint derivative by rewriting inner products, rules 6.14-6.29.
//!
//! The adjoint of a program `y = f(x)` is the program `e` with `<dy | D f(x; dx)> = <e | dx>` for all `dy` and `dx`. The rewriting starts from
//! the left side and ends with the right one; every rule is an equation between sums of guarded inner products under `let`s
//! ([`Form`]), so the result is right by construction. In this order:
//!
//! 1. 6.14 moves every statement of `f` out of the inner product, as `let X = e` and `let dX = D[e]`; 6.15 puts the tangents last.
//! 2. 6.16 splits the inner product over the outputs.
//! 3. For the last pending `let dX = D[e]`, with `S` what remains of the sum:
//!    - 6.20 drops it if no inner product mentions `dX`;
//!    - 6.25 merges the inner products with `dX`, two by two: `<a | dX>_p + <b | dX>_q = let c = [p] a + [q] b in <c | dX>_(p or q)`; those of
//!      the same `e` at places that exclude each other first, which need no addition: `[p] e + [q] e = [p or q] e`;
//!    - 6.19 then replaces `dX` by what it stands for: `<c | dX>_p + S` becomes `<c | D[e]>_p + S`;
//!    - 6.26-6.29 take `D[e]` apart by the form of `e`, leaving inner products with tangents of operands, which come earlier; 6.21 names
//!      those, 6.22 and 6.23 drop what does not depend on the parameters.
//! 4. 6.17 and 6.18 collect what is left, inner products with the tangents of the inputs.
//!
//! **Guards.** `p or q`, `p and q` and, in 6.28 and 6.29, `exists g s. p` grow along a chain of statements. One that has become long gets a
//! name, `let G = gen g. [p] * 1`, and reads `G[g] != 0` from there on. That costs nothing and means the same, so the adjoint of a
//! chain is linear in the chain.
//!
//! **Work.** Each rule keeps the cost of Fig. 17, which gives `cost_IO <= 4 cost_IO(f)` (Thm 6.35) for functions of one or two arguments.

use std::collections::BTreeMap;

use indexmap::IndexMap;

use super::activity::active;
use super::derivation::{Derivation, Form, InnerProduct, Right, Step, one, tuple};
use super::forward::{aligned, name_after, product as contraction, scaled_partial, zero};
use super::{NewParams, expand_partials};
use crate::base::{Id as _, IndexId, ParamId, SideTable, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Pred, RelationRef, Size, Var, View, exists_all};
use crate::tssa::{Builder, Operand, Output, Program, Rhs, StmtNames, within};
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
            _ => {
                return Err(Error::Request(
                    "a gradient is that of one real output; use the adjoint, with a seed for each output".to_owned(),
                ));
            }
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
    let mut builder = Builder::resume(program);
    builder.extend_signature(params.signature);
    let mut rewriting = Rewriting {
        active: active(program, wrt)?,
        form: Form { builder, pending: Vec::new(), products: Vec::new(), collected: Vec::new(), tangents, serial: 0 },
        guard_budget: GUARD_BUDGET,
        derivation: options.derivation.then(Derivation::default),
        buckets: SideTable::new(program.stmts.len(), Vec::new()),
    };
    rewriting.start(program, &seeds)?;
    while let Some(x) = rewriting.form.pending.last().copied() {
        rewriting.eliminate(x)?;
    }
    let mut outputs = if options.with_value { program.outputs.clone() } else { Vec::new() };
    let prefix = if options.seed == Seed::One { "grad" } else { "adjoint" };
    outputs.extend(rewriting.results(program, wrt, prefix)?);
    rewriting.form.builder.extend_signature(signature);
    let program = rewriting.form.builder.finish(outputs).prune()?;
    Ok(Adjoint { program, seeds, derivation: rewriting.derivation })
}

/// A guard of at most this many atoms is written out while the budget lasts.
const GUARD_WEIGHT: usize = 256;
/// A guard of at most this many atoms is always written out.
const GUARD_WEIGHT_FREE: usize = 8;
/// Atoms that all guards of one adjoint may have together before longer ones get names, beside the free ones.
const GUARD_BUDGET: usize = 1 << 12;
/// How deep a guard that is written out may nest; half of what a predicate may.
const GUARD_NESTING: usize = Pred::MAX_NESTING / 2;

struct Rewriting {
    active: SideTable<VarId, bool>,
    form: Form,
    /// Atoms that guards which are written out may still have.
    guard_budget: usize,
    derivation: Option<Derivation>,
    /// The inner products of the sum with the tangent of each statement. While a derivation is recorded `form.products` repeats them.
    buckets: SideTable<VarId, Vec<InnerProduct>>,
}

/// What stands in an inner product where equations hold: operands, and the equations without their constants.
#[derive(PartialEq, Eq, Hash)]
struct What {
    operands: Vec<Operand>,
    terms: Vec<Vec<(Var, i64)>>,
}

impl Rewriting {
    /// Rules 6.14 to 6.16: from `<dy | D f>` to a sum over the outputs, under pending tangents.
    fn start(&mut self, program: &Program, seeds: &[ParamId]) -> Result<()> {
        self.form.pending = program.stmts.ids().filter(|x| self.active[*x]).collect();
        let mut products = Vec::new();
        for (at, output) in program.outputs.iter().enumerate() {
            let leaves = program.signature.types.leaves(output.ty)?;
            for (leaf, x) in leaves.into_iter().zip(&output.leaves) {
                let left = match seeds.get(at) {
                    Some(seed) => {
                        let name = self.form.builder.signature().params[*seed].name.clone();
                        let left = self.form.builder.input(*seed, leaf.path, leaf.dims.clone());
                        self.form.builder.suggest_name(left, &name);
                        left
                    }
                    None => one(&mut self.form.builder)?,
                };
                let axes = self.form.builder.fresh_indices(&leaf.dims);
                // The seed of a sparse output is read on its pattern only.
                let guard = output.storage.stored_at(&Affine::indices(&axes));
                products.push(self.form.product(left, Right::Tangent(*x), axes, guard, false));
            }
        }
        self.record_start(program, &products);
        let (kept, dropped): (Vec<_>, Vec<_>) =
            products.into_iter().partition(|product| self.active[product.right.stmt()]);
        self.push(kept);
        for product in dropped {
            self.record("6.22", "an output does not depend on the parameters", &[product], &[]);
        }
        Ok(())
    }

    /// Adds inner products to the sum.
    fn push(&mut self, products: Vec<InnerProduct>) {
        for product in products {
            let x = product.right.stmt();
            if self.derivation.is_some() {
                self.form.products.push(product.clone());
            }
            self.buckets[x].push(product);
        }
    }

    /// Takes inner products out of the sum.
    fn forget(&mut self, product: &InnerProduct) {
        if self.derivation.is_some() {
            self.form.products.retain(|p| p.serial != product.serial);
        }
    }

    /// Rules 6.19 to 6.29 for one pending tangent, the last one.
    fn eliminate(&mut self, x: VarId) -> Result<()> {
        let mut products = self.buckets.take(x);
        if products.is_empty() {
            self.form.pending.pop();
            self.note("6.20", "drop a tangent that is not used", &[], |form, names| {
                (format!("let d{} = {} in ..", names.get(x), form.derivative_text(x, names)), "..".to_owned())
            });
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
        self.form.pending.pop();
        for tangent in products {
            self.forget(&tangent);
            let product = InnerProduct { right: Right::Derivative(x), ..tangent.clone() };
            self.record("6.19", "replace a tangent by what it stands for", &[tangent], std::slice::from_ref(&product));
            self.transpose(x, product)?;
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
                if let Rhs::Contract { guard, .. } = &self.form.builder.stmt(member.left).rhs {
                    here.push(guard.substitute(&at)?);
                }
                guards.push(member.guard_over(&axes)?);
            }
            let indices =
                |operand: &Operand| operand.indices.iter().filter_map(|i| Some(axes.get(i.index())?.0)).collect();
            let operands =
                operands.iter().map(|operand| Operand { var: operand.var, indices: indices(operand) }).collect();
            let left = self.form.builder.contract(&axes, &[], Pred::any(here), operands)?;
            let title = "merge inner products that exclude each other";
            united.push(self.merged(x, title, &members, left, axes, Pred::any(guards))?);
        }
        Ok(united)
    }

    /// What a left side reads where equations hold, and the constants of these. Equations that differ in constants only exclude each other.
    fn place(&self, product: &InnerProduct) -> Option<(What, Vec<i64>)> {
        let Rhs::Contract { sums, guard, operands } = &self.form.builder.stmt(product.left).rhs else { return None };
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
        let left = self.form.builder.add(&a.axes, [(a.guard.clone(), a.left), (q.clone(), b.left)])?;
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
        name_after(&mut self.form.builder, Some(left), x, "adj");
        let guard = self.short(&axes, guard)?;
        let merged = self.form.product(left, Right::Tangent(x), axes, guard, true);
        others.iter().for_each(|product| self.forget(product));
        self.record("6.25", title, others, std::slice::from_ref(&merged));
        if self.derivation.is_some() {
            self.form.products.push(merged.clone());
        }
        Ok(merged)
    }

    /// Rules 6.17 and 6.22 to 6.29: takes `<dY | D[e]>_q` apart, `e` being the right-hand side of `X`.
    fn transpose(&mut self, x: VarId, product: InnerProduct) -> Result<()> {
        let open = self.form.builder.open(x)?;
        let guard = product.guard_over(&open.gens)?;
        let (rule, title, products) = match open.rhs {
            // 6.17: <dY | pi x> = <(.. dY ..) | x>
            Rhs::Input { .. } => {
                let left = self.restricted(&product)?;
                name_after(&mut self.form.builder, Some(left), x, "adj");
                self.form.collected.push((left, x));
                self.note("6.17", "collect the adjoint of an input", &[], |form, names| {
                    let collected = form.collected_text(&[(left, x)], names);
                    (form.products_text(std::slice::from_ref(&product), names), collected)
                });
                return Ok(());
            }
            // 6.23
            Rhs::Number(_) => ("6.23", "a number has no tangent", Vec::new()),
            // 6.26: <dY | D[[p] X0 + [q] X1]>_r = <dY | dX0>_(p and r) + <dY | dX1>_(q and r)
            Rhs::Add(sides) => {
                let mut products = Vec::new();
                let sides = sides.into_iter().filter(|(_, operand)| self.active[*operand]);
                for (p, operand) in sides.collect::<Vec<_>>() {
                    let covered = product.covered && p.is_true();
                    let guard = match p.is_true() {
                        true => guard.clone(),
                        false => self.short(&open.gens, guard.clone().and(p))?,
                    };
                    let right = Right::Tangent(operand);
                    products.push(self.form.product(product.left, right, open.gens.clone(), guard, covered));
                }
                ("6.26", "transpose an addition", products)
            }
            // 6.27, once for each argument: let dX' = [p and q] f'k(..) dY in <dX' | dX>_(p and q)
            Rhs::Map { guard: p, function, args } => {
                let guard = guard.and(p);
                let mut products = Vec::new();
                let active = (0..).zip(&args).filter(|(_, operand)| self.active[**operand]);
                for (at, operand) in active.collect::<Vec<_>>() {
                    let builder = &mut self.form.builder;
                    let term = scaled_partial(builder, &open.gens, guard.clone(), function, &args, at, product.left)?;
                    if let Some((guard, left)) = term {
                        products.push(self.factor(left, *operand, open.gens.clone(), guard)?);
                    }
                }
                ("6.27", "transpose a scalar function", products)
            }
            // 6.28, 6.29: for each operand let dX' = gen h. sum g s. [p and q and h = i] dY[g] * X1[j] in <dX' | dX>_(exists g s. ..)
            Rhs::Contract { guard: p, operands, .. } => {
                let guard = guard.and(p);
                let inner: Vec<(IndexId, Size)> = open.gens.iter().chain(&open.sums).cloned().collect();
                let mut products = Vec::new();
                let active = (0..operands.len()).filter(|at| self.active[operands[*at].var]);
                for at in active.collect::<Vec<_>>() {
                    let operand = &operands[at];
                    let axes = self.form.builder.dims(operand.var).to_vec();
                    let axes = self.form.builder.fresh_indices(&axes);
                    let links = axes
                        .iter()
                        .zip(&operand.indices)
                        .map(|((h, _), i)| Ok(Pred::equal(&Affine::index(*h), &Affine::index(*i))?));
                    let guard = Pred::all(links.collect::<Result<Vec<_>>>()?).and(guard.clone());
                    let mut factors = vec![aligned(&open.gens, product.left)];
                    factors
                        .extend(operands.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, o)| o.clone()));
                    let left = contraction(&mut self.form.builder, &axes, &inner, guard.clone(), factors)?;
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
            .filter(|p: &&InnerProduct| p.left != product.left)
            .map(|p| (p.left, p.right.stmt()))
            .collect();
        for (left, operand) in names {
            name_after(&mut self.form.builder, Some(left), operand, "adj");
        }
        self.record(rule, title, &[product], &products);
        self.push(products);
        Ok(())
    }

    /// `<left | dX>_guard` where the left side is zero outside the guard.
    fn factor(&mut self, left: VarId, x: VarId, axes: Vec<(IndexId, Size)>, guard: Pred) -> Result<InnerProduct> {
        let guard = self.short(&axes, guard)?;
        Ok(self.form.product(left, Right::Tangent(x), axes, guard, true))
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
        let builder = &mut self.form.builder;
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
        self.form.builder.contract(&product.axes, &[], product.guard.clone(), vec![operand])
    }

    /// 6.18: the adjoints of the inputs, parameter by parameter.
    fn results(&mut self, program: &Program, wrt: &[ParamId], prefix: &str) -> Result<Vec<Output>> {
        let mut found: BTreeMap<(ParamId, Vec<Side>), VarId> = BTreeMap::new();
        for (left, input) in &self.form.collected {
            if let Rhs::Input { param, path } = &self.form.builder.stmt(*input).rhs {
                found.insert((*param, path.clone()), *left);
            }
        }
        self.note("6.18", "collect the adjoints of all inputs", &[], |form, names| {
            let each: Vec<String> = form.collected.iter().map(|one| form.collected_text(&[*one], names)).collect();
            let sum = if each.is_empty() { "0".to_owned() } else { each.join(" + ") };
            (sum, form.collected_text(&form.collected, names))
        });
        let mut outputs = Vec::new();
        for id in wrt {
            let param = &program.signature.params[*id];
            let leaves =
                program.signature.types.leaves(param.ty)?.into_iter().map(|leaf| match found.get(&(*id, leaf.path)) {
                    Some(x) => Ok(*x),
                    None => zero(&mut self.form.builder, &leaf.dims),
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
        let seeds: Vec<VarId> = products.iter().map(|p| p.left).collect();
        let outputs: Vec<VarId> = program.outputs.iter().flat_map(|output| output.leaves.iter().copied()).collect();
        let whole = |names: &StmtNames| {
            let left = tuple(seeds.iter().map(|x| names.get(*x)).collect());
            let right = tuple(outputs.iter().map(|x| format!("d{}", names.get(*x))).collect());
            (left, right)
        };
        self.note("6.14", "bind every statement and its tangent, the tangents last (6.15)", products, |_, names| {
            let (left, right) = whole(names);
            (format!("<{left} | D f>"), format!("let .. in <{left} | {right}>"))
        });
        if products.len() > 1 {
            self.note("6.16", "split over the outputs", products, |form, names| {
                let (left, right) = whole(names);
                (format!("<{left} | {right}>"), form.products_text(products, names))
            });
        }
    }

    /// Notes a rule that replaces inner products by others. What it took is out of the sum by now, what it made is not yet in.
    fn record(&mut self, rule: &'static str, title: &'static str, before: &[InnerProduct], after: &[InnerProduct]) {
        self.note(rule, title, after, |form, names| {
            let mut text = String::new();
            for product in after.iter().filter(|p| before.iter().all(|old| old.left != p.left)) {
                text.push_str(&format!(
                    "let {} = {} in\n",
                    names.get(product.left),
                    form.stmt_text(product.left, names)
                ));
            }
            text.push_str(&form.products_text(after, names));
            (form.products_text(before, names), text)
        });
    }

    /// Notes a step, if anybody wants to know. `made` is not yet part of the sum.
    fn note(
        &mut self,
        rule: &'static str,
        title: &'static str,
        made: &[InnerProduct],
        texts: impl FnOnce(&Form, &StmtNames) -> (String, String),
    ) {
        let Some(derivation) = &mut self.derivation else { return };
        let mut form = self.form.clone();
        form.products.extend(made.iter().cloned());
        let (before, after) = texts(&self.form, &self.form.names());
        derivation.steps.push(Step { rule, title, before, after, form });
    }
}
