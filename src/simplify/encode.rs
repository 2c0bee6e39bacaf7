//! Tensor-SSA into the e-graph.
//!
//! `[[X]] = (g, e)`: the tensor `X` is `gen g. e`, where `e` is a literal, an index expression or an element of a class. Statements are met
//! operands first, so every operand is known; each is put in normal form and closed.

use std::collections::BTreeMap;

use super::expr::{Expr, Read, rename_pred};
use super::graph::{Graph, Scope, slots};
use super::lang::{class_of, var_of};
use super::rewrite::Rules;
use crate::base::{Id as _, IndexId, SideTable, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Pred, RelationRef, View};
use crate::scalar::Number;
use crate::tssa::{Builder, Program, Rhs};

/// An output leaf or a tensor that guards read, as a class with all its axes.
pub(super) struct Encoded {
    /// The class of each output leaf, output by output.
    pub(super) roots: Vec<Vec<egg::Id>>,
    /// The rules of normal forms that were applied.
    pub(super) used: Vec<String>,
    /// Names for reading.
    pub(super) names: Vec<(egg::Id, String)>,
    /// The statements that were not in normal form.
    pub(super) steps: Vec<Normalised>,
    /// How many statements add or multiply literals, which are one then.
    pub(super) folded: usize,
    /// What each statement stands for.
    meaning: SideTable<VarId, Option<(Scope, Expr)>>,
    /// For each statement what had been found before.
    marks: Vec<Mark>,
    /// How many classes there were in the end.
    classes: usize,
}

/// A statement that was brought to normal form: `gen g. before  ==  gen g. after`.
#[derive(Clone)]
pub(super) struct Normalised {
    pub(super) var: VarId,
    pub(super) gens: Scope,
    pub(super) rules: Vec<String>,
    pub(super) before: Expr,
    pub(super) after: Expr,
}

/// Adds the live statements of a program.
pub(super) fn encode(graph: &mut Graph<'_>, rules: &Rules<'_>, program: &Program) -> Result<Encoded> {
    let mut encoded = Encoded {
        roots: Vec::new(),
        used: Vec::new(),
        names: Vec::new(),
        steps: Vec::new(),
        folded: 0,
        meaning: SideTable::new(program.stmts.len(), None),
        marks: Vec::new(),
        classes: 0,
    };
    encoded.extend(graph, rules, program)?;
    Ok(encoded)
}

/// What had been found before a statement.
struct Mark {
    used: usize,
    names: usize,
    steps: usize,
    folded: usize,
    classes: usize,
}

/// The statements that are encoded for themselves.
fn encoded_alone(program: &Program, live: &SideTable<VarId, bool>) -> SideTable<VarId, bool> {
    let partial = partial_sums(program, live);
    let mut alone = SideTable::new(program.stmts.len(), false);
    program.stmts.ids().for_each(|x| alone.set(x, live[x] && !partial[x]));
    alone
}

impl Encoded {
    /// Whether another program would be encoded as this one was, in a new e-graph: all classes, in the order of their numbers, the results
    /// and the names. Statements that both begin with are known to be. The e-graph is this one's, without unions. What was found is that of the
    /// other program then.
    pub(super) fn becomes(
        &mut self,
        graph: &mut Graph<'_>,
        rules: &Rules<'_>,
        program: &Program,
        next: &Program,
    ) -> Result<bool> {
        let (ours, theirs) = (encoded_alone(program, &program.live()), encoded_alone(next, &next.live()));
        let same = |x: VarId| {
            program.stmts.get(x) == next.stmts.get(x)
                && program.names.get(x) == next.names.get(x)
                && ours[x] == theirs[x]
        };
        let common = next.stmts.ids().zip(program.stmts.ids()).take_while(|(x, _)| same(*x)).count();
        let Some(mark) = self.marks.get(common) else { return Ok(false) };
        let (roots, names, classes) = (std::mem::take(&mut self.roots), self.names.clone(), self.classes);
        graph.met = mark.classes;
        self.used.truncate(mark.used);
        self.names.truncate(mark.names);
        self.steps.truncate(mark.steps);
        self.folded = mark.folded;
        self.marks.truncate(common);
        self.extend(graph, rules, next)?;
        Ok(graph.met == classes && self.classes == classes && self.roots == roots && self.names == names)
    }

    /// Adds the statements that have not been met, and the results.
    fn extend(&mut self, graph: &mut Graph<'_>, rules: &Rules<'_>, program: &Program) -> Result<()> {
        let live = program.live();
        let partial = partial_sums(program, &live);
        let Encoded { roots, used, names, steps, folded, meaning, marks, classes } = self;
        // Opens statements under index names of their own.
        let mut builder = Builder::new(program.signature.clone());
        let met = marks.len();
        for (x, stmt) in program.stmts.iter().skip(met) {
            let classes = graph.egraph.number_of_classes();
            marks.push(Mark { used: used.len(), names: names.len(), steps: steps.len(), folded: *folded, classes });
            if !live[x] || partial[x] {
                continue;
            }
            let gens: Scope = slots(&stmt.dims);
            let (e, literals) = Encoder { meaning }.statement(graph, program, &partial, &mut builder, x)?;
            *folded += usize::from(literals > 1);
            let (before, mut applied) = (e, Vec::new());
            let e = rules.normalise(graph, &gens, &before, &mut applied)?;
            let applied: Vec<String> = applied.into_iter().map(str::to_owned).collect();
            used.extend(applied.iter().cloned());
            if e != before {
                steps.push(Normalised { var: x, gens: gens.clone(), rules: applied, before, after: e.clone() });
            }
            let e = graph.close(&gens, &e)?;
            if let Expr::Read(read) = &e
                && !program.names[x].is_empty()
                && *read.indices == *Affine::indices(&gens)
            {
                names.push((read.class, program.names[x].clone()));
            }
            meaning.set(x, Some((gens, e)));
        }
        for output in &program.outputs {
            let mut leaves = Vec::new();
            for x in &output.leaves {
                let Some((gens, e)) = meaning[*x].clone() else {
                    return Err(Error::bug("simplify", "an output has no statement"));
                };
                leaves.push(graph.close_over(&gens, &e)?);
            }
            roots.push(leaves);
        }
        *classes = graph.egraph.number_of_classes();
        Ok(())
    }
}

/// With more terms a sum stays in parts.
const MAX_CASES: usize = 6;

/// The sums that are read once, by a sum that guards them by the union of their own guards. Outside of that they are zero, so they are parts of
/// one sum:
///
/// ```text
/// [p or q] * ([p] * a + [q] * b) + [r] * c  ==  [p] * a + [q] * b + [r] * c
/// ```
pub(super) fn partial_sums(program: &Program, live: &SideTable<VarId, bool>) -> SideTable<VarId, bool> {
    let mut uses = SideTable::new(program.stmts.len(), 0u32);
    let mut count = |x: VarId| uses.set(x, uses[x].saturating_add(1));
    program.stmts.iter().filter(|(x, _)| live[*x]).for_each(|(_, stmt)| stmt.rhs.for_each_operand(&mut count));
    program.outputs.iter().flat_map(|output| &output.leaves).for_each(|x| count(*x));
    let mut partial = SideTable::new(program.stmts.len(), false);
    for (_, stmt) in program.stmts.iter().filter(|(x, _)| live[*x]) {
        let Rhs::Add(sides) = &stmt.rhs else { continue };
        for (p, x) in
            sides.iter().filter(|(p, x)| matches!(p, Pred::Any(cases) if cases.len() <= MAX_CASES) && uses[*x] == 1)
        {
            let Rhs::Add(inner) = &program.stmts[*x].rhs else { continue };
            partial.set(*x, inner.iter().all(|(q, _)| p.has_cases_of(q)));
        }
    }
    partial
}

/// The terms of a sum with their guards, those of partial sums among them.
fn terms(program: &Program, partial: &SideTable<VarId, bool>, sum: VarId) -> Vec<(Pred, VarId)> {
    let mut terms = Vec::new();
    let mut stack = vec![(Pred::True, sum)];
    while let Some((p, x)) = stack.pop() {
        match &program.stmts[x].rhs {
            Rhs::Add(sides) if x == sum || partial[x] => stack.extend(sides.iter().rev().cloned()),
            _ => terms.push((p, x)),
        }
    }
    terms
}

struct Encoder<'e> {
    meaning: &'e SideTable<VarId, Option<(Scope, Expr)>>,
}

impl Encoder<'_> {
    /// A right-hand side at the slots of its axes, and how many literals it adds or multiplies.
    fn statement(
        &self,
        graph: &mut Graph<'_>,
        program: &Program,
        partial: &SideTable<VarId, bool>,
        builder: &mut Builder,
        x: VarId,
    ) -> Result<(Expr, usize)> {
        let stmt = &program.stmts[x];
        let open = builder.open_stmt(stmt)?;
        let gens: Scope = slots(&stmt.dims);
        let fresh: Scope = open.sums.iter().map(|(_, n)| (graph.fresh(), n.clone())).collect();
        let from = open.gens.iter().chain(&open.sums).map(|(i, _)| *i);
        let to = gens.iter().chain(&fresh).map(|(i, _)| *i);
        let renamed: BTreeMap<_, _> = from.zip(to).collect();
        let guard = |graph: &mut Graph<'_>, p: &Pred| self.guard(graph, &rename_pred(p, &renamed)?);
        let here = Affine::indices(&gens);
        let mut literals = 0;
        let mut joined = |y: VarId, at: &[Affine]| {
            let e = self.element(y, at)?;
            literals += usize::from(matches!(e, Expr::Number(_)));
            Ok::<_, Error>(e)
        };
        let e = match &open.rhs {
            Rhs::Input { param, path } => {
                let pattern = program.signature.params.get(*param).and_then(|p| p.storage.pattern());
                let class = graph.input(*param, path.clone(), stmt.dims.clone(), pattern);
                Expr::Read(Read { class, indices: here.as_slice().into() })
            }
            Rhs::Number(Number::Literal(x)) => Expr::number(*x),
            Rhs::Number(Number::Index(a)) => {
                Expr::index(a.substitute(&|i| renamed.get(&i).copied().map(Affine::index))?)
            }
            Rhs::Add(_) => {
                let mut products = Vec::new();
                for (p, y) in terms(program, partial, x) {
                    // Their `gen` indices have the numbers of slots.
                    let p = self.guard(graph, &builder.freshen(&p, &|_| None)?)?;
                    products.push(Expr::product(Vec::new(), p, vec![joined(y, &here)?]));
                }
                Expr::sum(products)
            }
            Rhs::Map { guard: p, function, args } => {
                let args = args.iter().map(|y| self.element(*y, &here)).collect::<Result<_>>()?;
                Expr::product(Vec::new(), guard(graph, p)?, vec![Expr::Apply(*function, args)])
            }
            Rhs::Contract { guard: p, operands, .. } => {
                let index = |i: &IndexId| Affine::index(renamed.get(i).copied().unwrap_or(*i));
                let mut factors = Vec::new();
                for operand in operands {
                    let at: Vec<Affine> = operand.indices.iter().map(index).collect();
                    factors.push(joined(operand.var, &at)?);
                }
                Expr::product(fresh, guard(graph, p)?, factors)
            }
        };
        Ok((e, literals))
    }

    /// An element of a statement.
    fn element(&self, x: VarId, at: &[Affine]) -> Result<Expr> {
        let Some((_, e)) = &self.meaning[x] else {
            return Err(Error::bug("simplify", format!("{x} is used before it is defined")));
        };
        Ok(e.substitute(&|i| at.get(i.index()).cloned())?)
    }

    /// A guard whose computed relations name classes. A name for a long guard is the guard: `([p] * 1)[a] != 0  ==  p[a]`.
    fn guard(&self, graph: &mut Graph<'_>, p: &Pred) -> Result<Pred> {
        let p = &p.rebuild(&mut |atom| match atom {
            Pred::Relation { relation: RelationRef::Computed { var, view: View::Support }, args, holds } => {
                let named = self.named(graph, *var, args)?;
                let named = named.and_then(|p| if *holds { Some(p) } else { p.negate() });
                Ok::<_, Error>(named.unwrap_or_else(|| atom.clone()))
            }
            other => Ok(other.clone()),
        })?;
        let mut computed = Vec::new();
        p.visit_computed(&mut |x| computed.push(x));
        if computed.is_empty() {
            return Ok(p.clone());
        }
        let mut classes = BTreeMap::new();
        for x in computed {
            let Some((gens, e)) = self.meaning[x].clone() else {
                return Err(Error::bug("simplify", format!("{x} is used before it is defined")));
            };
            classes.insert(x, var_of(graph.close_over(&gens, &e)?));
        }
        let rename = |x: VarId| classes.get(&x).copied().unwrap_or(x);
        debug_assert!(classes.values().all(|x| usize::from(class_of(*x)) == x.index()));
        Ok(super::lang::Renaming(&rename).pred(p)?)
    }

    /// The guard that a statement is a name for: it is a literal under a guard.
    fn named(&self, graph: &Graph<'_>, x: VarId, at: &[Affine]) -> Result<Option<Pred>> {
        let e = self.element(x, at)?;
        let view = match &e {
            Expr::Read(read) => graph.view(read)?,
            _ => None,
        };
        let product = view.unwrap_or(e).into_product();
        let literal = matches!(product.factors.as_slice(), [Expr::Number(c)] if c.get() != 0.0);
        Ok((product.sums.is_empty() && literal).then_some(product.guard))
    }
}
