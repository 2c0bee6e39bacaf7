//! Why a simplified program is the same function: the equations that lead from the statements to the nodes that were chosen.
//!
//! The ids of a class hang together by *steps*, `before == after` by some rules, and by congruence, nodes whose operands are equal. For each
//! class of the result the explanation is the shortest way from the node that the class began with to the one that was chosen. (By
//! induction over the unions there is one: each unites two classes at ids that a step or congruence ties.)
//!
//! Each equation holds by itself, and [`Explanation::replay`] evaluates both sides. The operands of the equations are computed from the
//! nodes that are least deep, whatever was chosen.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use egg::{Id, Language};

use super::cost::Model;
use super::decode::Decoder;
use super::encode::Normalised;
use super::expr::{Expr, Product, Read};
use super::graph::{Graph, Scope};
use super::lang::{Head, Node, class_of};
use super::needless::Weakened;
use super::saturate::Step;
use super::text::Text;
use super::{Options, Run, for_each_pass};
use crate::base::VarId;
use crate::error::Result;
use crate::index::{Affine, Pred, RelationRef};
use crate::tensor::{Inputs, Value};
use crate::tssa::{Builder, Output, Program};
use crate::ty::{Storage, Types};

/// An equation between tensors, element by element.
#[derive(Clone, Debug)]
pub struct Equation {
    /// The tensor, with its indices.
    pub tensor: String,
    /// The left-hand side.
    pub before: String,
    /// The right-hand side.
    pub after: String,
    /// The rules that were applied, in order.
    pub rules: Vec<String>,
}

/// What one pass over a program did.
#[derive(Clone, Debug)]
pub struct Part {
    /// Statements that lost a guard which says nothing to those that read them: both sides agree wherever they are read.
    pub weakened: Vec<Equation>,
    /// Tensors that have no name in the program, and what they are.
    pub definitions: Vec<(String, String)>,
    /// The equations, operands first.
    pub equations: Vec<Equation>,
    /// Computes both sides of each equation.
    sides: Option<Program>,
}

/// Why a simplified program is the same function, part by part.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The parts, in order.
    pub parts: Vec<Part>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Part { weakened, definitions, equations, .. }) in self.parts.iter().enumerate() {
            if at > 0 {
                writeln!(f, "then, of the result")?;
            }
            for (name, definition) in definitions {
                writeln!(f, "where {name} = {definition}")?;
            }
            for Equation { tensor, before, after, rules } in weakened.iter().chain(equations) {
                writeln!(f, "{tensor}: {before}  ==  {after}   by {}", rules.join(", "))?;
            }
        }
        Ok(())
    }
}

impl Explanation {
    /// The values of both sides of each equation of the parts, at some inputs of the program.
    ///
    /// # Errors
    /// Those of evaluation.
    pub fn replay(&self, inputs: &Inputs) -> Result<Vec<[Value; 2]>> {
        let mut sides = Vec::new();
        for program in self.parts.iter().filter_map(|part| part.sides.as_ref()) {
            let mut values = crate::reference::evaluate(program, inputs)?.into_iter().map(|(_, value)| value);
            while let (Some(before), Some(after)) = (values.next(), values.next()) {
                sides.push([before, after]);
            }
        }
        Ok(sides)
    }
}

/// An equation before it is text.
struct Equality {
    tensor: String,
    scope: Scope,
    before: Expr,
    after: Expr,
    rules: Vec<String>,
}

/// Simplifies, and says why the result is the same.
///
/// # Errors
/// Those of [`simplify`](super::simplify()).
pub fn explain(program: &Program, options: &Options) -> Result<Explanation> {
    let mut parts = Vec::new();
    for_each_pass(program, options, true, &mut |pass| {
        let mut part = match pass.run {
            Some((run, program)) => equations(run, program)?,
            None => Part { weakened: Vec::new(), definitions: Vec::new(), equations: Vec::new(), sides: None },
        };
        let rules = vec!["needless-guards".to_owned()];
        let equation = |[tensor, before, after]: Weakened| Equation { tensor, before, after, rules: rules.clone() };
        part.weakened = pass.weakened.into_iter().map(equation).collect();
        if !(part.weakened.is_empty() && part.equations.is_empty()) {
            parts.push(part);
        }
        Ok(())
    })?;
    Ok(Explanation { parts })
}

/// The equations of one pass.
fn equations(run: &mut Run<'_>, program: &Program) -> Result<Part> {
    let Run { graph, encoded, saturation, model, table, selection, cheaper: _, large: _ } = run;
    let text = Text::new(graph, &encoded.names);
    let names = program.stmt_names();
    let mut equalities: Vec<Equality> = Vec::new();
    for Normalised { var, gens, rules, before, after } in encoded.steps.clone() {
        equalities.push(Equality { tensor: names.get(var), scope: gens, before, after, rules });
    }
    let roots: Vec<Id> = encoded.roots.iter().flatten().map(|id| graph.egraph.find(*id)).collect();
    let ties = Ties::new(graph, &saturation.steps);
    let mut told = BTreeSet::new();
    for class in table.order(selection, &roots).unwrap_or_default() {
        let Some(chosen) = table.node(selection, class) else { continue };
        for at in ties.way(class, chosen) {
            let Some(step) = saturation.steps.get(at).filter(|_| told.insert(at)) else { continue };
            let Step { rules, before, after, .. } = step.clone();
            let scope = graph.slots(class);
            equalities.push(Equality { tensor: text.class(class).to_owned(), scope, before, after, rules });
        }
    }
    // A normal form may be reached by folding alone.
    let by = |rules: &[String]| if rules.is_empty() { vec!["arithmetic".to_owned()] } else { rules.to_vec() };
    let equations = equalities.iter().map(|e| Equation {
        tensor: text.element(&e.tensor, &e.scope),
        before: text.expr(&e.scope, &e.before),
        after: text.expr(&e.scope, &e.after),
        rules: by(&e.rules),
    });
    let equations = equations.collect();
    let sides = Some(sides(graph, model, program, &equalities)?);
    let definitions = definitions(graph, &text, &equalities)?;
    Ok(Part { weakened: Vec::new(), definitions, equations, sides })
}

/// What the tensors are that the equations mention and the program does not name.
fn definitions(graph: &mut Graph<'_>, text: &Text<'_>, equalities: &[Equality]) -> Result<Vec<(String, String)>> {
    let mut pending: Vec<Id> = equalities.iter().flat_map(|e| [&e.before, &e.after]).flat_map(mentioned).collect();
    let mut found: BTreeMap<Id, (String, String)> = BTreeMap::new();
    while let Some(id) = pending.pop() {
        let class = graph.egraph.find(id);
        if text.is_told(class) || found.contains_key(&class) {
            continue;
        }
        let Some(node) = graph.egraph[class].nodes.first().cloned() else { continue };
        let scope = graph.slots(class);
        let at = Affine::indices(&scope);
        let e = graph.open(&node, &at)?;
        pending.extend(mentioned(&e));
        found.insert(class, (text.element(text.class(class), &scope), text.expr(&scope, &e)));
    }
    Ok(found.into_values().collect())
}

/// The classes that an expression reads, also as relations.
fn mentioned(e: &Expr) -> Vec<Id> {
    let mut found = Vec::new();
    for (read, _) in e.reads() {
        found.push(read.class);
    }
    guards(e, &mut |p| p.visit_computed(&mut |x| found.push(class_of(x))));
    found
}

fn guards(e: &Expr, visit: &mut impl FnMut(&Pred)) {
    match e {
        Expr::Number(_) | Expr::Index(_) | Expr::Read(_) => {}
        Expr::Product(product) => {
            visit(&product.guard);
            product.factors.iter().for_each(|e| guards(e, visit));
        }
        Expr::Sum(es) | Expr::Apply(_, es) => es.iter().for_each(|e| guards(e, visit)),
    }
}

/// What ties the ids of a class together.
struct Ties {
    members: BTreeMap<Id, Vec<Id>>,
    nodes: Vec<Node>,
    /// From each id to others, by a step or by congruence.
    edges: BTreeMap<Id, Vec<(Id, Option<usize>)>>,
}

impl Ties {
    fn new(graph: &Graph<'_>, steps: &[Step]) -> Self {
        let canonical = |node: &Node| node.clone().map_children(|id| graph.egraph.find(id));
        let nodes: Vec<Node> = graph.egraph.nodes().iter().map(canonical).collect();
        let mut members: BTreeMap<Id, Vec<Id>> = BTreeMap::new();
        let mut edges: BTreeMap<Id, Vec<(Id, Option<usize>)>> = BTreeMap::new();
        let mut tie = |a: Id, b: Id, by: Option<usize>| {
            edges.entry(a).or_default().push((b, by));
            edges.entry(b).or_default().push((a, by));
        };
        for (at, step) in steps.iter().enumerate() {
            tie(step.class, step.result, Some(at));
        }
        let mut alike: BTreeMap<&Node, Id> = BTreeMap::new();
        for (at, node) in nodes.iter().enumerate() {
            let id = Id::from(at);
            members.entry(graph.egraph.find(id)).or_default().push(id);
            match alike.get(node) {
                Some(other) => tie(*other, id, None),
                None => drop(alike.insert(node, id)),
            }
        }
        Ties { members, nodes, edges }
    }

    /// The steps from the first node of a class to a given one.
    fn way(&self, class: Id, to: &Node) -> Vec<usize> {
        let Some(first) = self.members.get(&class).and_then(|ids| ids.first()) else { return Vec::new() };
        let mut came: BTreeMap<Id, Option<(Id, Option<usize>)>> = BTreeMap::from([(*first, None)]);
        let mut queue = VecDeque::from([*first]);
        while let Some(id) = queue.pop_front() {
            if self.nodes.get(usize::from(id)) == Some(to) {
                let mut steps = Vec::new();
                let mut at = id;
                while let Some(Some((from, by))) = came.get(&at) {
                    steps.extend(by);
                    at = *from;
                }
                steps.reverse();
                return steps;
            }
            for (next, by) in self.edges.get(&id).into_iter().flatten() {
                if !came.contains_key(next) {
                    came.insert(*next, Some((id, *by)));
                    queue.push_back(*next);
                }
            }
        }
        Vec::new()
    }
}

/// A program whose outputs are both sides of each equation.
fn sides(graph: &mut Graph<'_>, model: &Model<'_>, program: &Program, equalities: &[Equality]) -> Result<Program> {
    let mut signature = (*program.signature).clone();
    let types: Vec<_> = equalities
        .iter()
        .map(|e| {
            let dims: Vec<_> = e.scope.iter().map(|(_, n)| n.clone()).collect();
            signature.types.tensor_of(&dims, Types::REAL)
        })
        .collect();
    let builder = Builder::new(Arc::new(signature));
    let decoder = Decoder { model, builder, vars: BTreeMap::new(), orders: BTreeMap::new() };
    let mut evaluator = Evaluator { decoder, next: graph.egraph.nodes().len() };
    evaluator.operands(graph, equalities)?;
    let mut outputs = Vec::with_capacity(2 * equalities.len());
    for (at, (equality, ty)) in equalities.iter().zip(types).enumerate() {
        for (side, e) in [("before", &equality.before), ("after", &equality.after)] {
            let gens = evaluator
                .decoder
                .builder
                .fresh_indices(&equality.scope.iter().map(|(_, n)| n.clone()).collect::<Vec<_>>());
            let renamed: BTreeMap<_, _> =
                equality.scope.iter().map(|(i, _)| *i).zip(gens.iter().map(|(i, _)| *i)).collect();
            let e = e.substitute(&|i| renamed.get(&i).copied().map(Affine::index))?;
            let leaves = vec![evaluator.tensor(graph, &gens, &e)?];
            outputs.push(Output { name: format!("{side}_{at}"), ty, storage: Storage::Dense, leaves });
        }
    }
    evaluator.decoder.builder.finish(outputs).prune()
}

/// Writes nested expressions as Tensor-SSA.
struct Evaluator<'m> {
    decoder: Decoder<'m>,
    /// Subexpressions are read as classes from here on.
    next: usize,
}

impl Evaluator<'_> {
    /// The classes that equations read, by their least deep nodes.
    fn operands(&mut self, graph: &mut Graph<'_>, equalities: &[Equality]) -> Result<()> {
        let find = |graph: &Graph<'_>, id: Id| graph.egraph.find(id);
        let mut chosen: BTreeMap<Id, Node> = BTreeMap::new();
        let mut order: Vec<Id> = Vec::new();
        let mut classes: Vec<Id> = graph.egraph.classes().map(|class| class.id).collect();
        classes.sort();
        loop {
            let mut ready = Vec::new();
            for class in classes.iter().filter(|class| !chosen.contains_key(class)) {
                let known = |node: &&Node| node.children.iter().all(|id| chosen.contains_key(&find(graph, *id)));
                if let Some(node) = graph.egraph[*class].nodes.iter().find(known) {
                    ready.push((*class, node.clone()));
                }
            }
            if ready.is_empty() {
                break;
            }
            order.extend(ready.iter().map(|(class, _)| *class));
            chosen.extend(ready);
        }
        let mut needed: BTreeSet<Id> = BTreeSet::new();
        let sides = equalities.iter().flat_map(|e| [&e.before, &e.after]);
        let mut pending: Vec<Id> = sides.flat_map(mentioned).map(|id| find(graph, id)).collect();
        while let Some(class) = pending.pop() {
            if needed.insert(class)
                && let Some(node) = chosen.get(&class)
            {
                pending.extend(node.children.iter().map(|id| find(graph, *id)));
            }
        }
        let mut aliases: BTreeMap<Id, Vec<Id>> = BTreeMap::new();
        for id in (0..graph.egraph.nodes().len()).map(Id::from) {
            aliases.entry(find(graph, id)).or_default().push(id);
        }
        for class in order.into_iter().filter(|class| needed.contains(class)) {
            let Some(node) = chosen.get(&class) else { continue };
            let x = self.decoder.node(graph, class, node)?;
            for id in aliases.get(&class).into_iter().flatten() {
                self.decoder.vars.insert(*id, x);
            }
        }
        Ok(())
    }

    /// `gen g. e`
    fn tensor(&mut self, graph: &Graph<'_>, gens: &Scope, e: &Expr) -> Result<VarId> {
        match e {
            Expr::Sum(terms) => self.sum(graph, gens, &Pred::True, terms),
            Expr::Apply(function, args) => {
                let args = self.leaves(graph, gens, &Pred::True, args)?;
                self.decoder.apply(gens, Pred::True, *function, &args)
            }
            Expr::Product(product) => match (product.sums.is_empty(), product.factors.as_slice()) {
                (true, [Expr::Apply(function, args)]) => {
                    let args = self.leaves(graph, gens, &product.guard, args)?;
                    self.decoder.apply(gens, product.guard.clone(), *function, &args)
                }
                (true, [Expr::Sum(terms)]) => self.sum(graph, gens, &product.guard, terms),
                _ => {
                    let product = self.product(graph, gens, product)?;
                    self.decoder.product(gens, product)
                }
            },
            leaf => {
                let guard = stored(graph, Pred::True, std::slice::from_ref(leaf));
                self.decoder.leaf(gens, &guard, leaf)
            }
        }
    }

    /// `gen g. [p] * (a + ..)`
    fn sum(&mut self, graph: &Graph<'_>, gens: &Scope, guard: &Pred, terms: &[Expr]) -> Result<VarId> {
        let mut products = Vec::with_capacity(terms.len());
        for term in terms {
            let term = Expr::product(Vec::new(), guard.clone(), vec![term.clone()]);
            products.push(Expr::Product(Rc::new(self.product(graph, gens, &term.into_product())?)));
        }
        self.decoder.sum(gens, &products)
    }

    fn product(&mut self, graph: &Graph<'_>, gens: &Scope, product: &Product) -> Result<Product> {
        let scope: Scope = gens.iter().chain(&product.sums).cloned().collect();
        let factors = self.leaves(graph, &scope, &product.guard, &product.factors)?;
        let guard = stored(graph, product.guard.clone(), &factors);
        Ok(Product { sums: product.sums.clone(), guard, factors })
    }

    /// Subexpressions as tensors of their own, under what they can see of the guard.
    fn leaves(&mut self, graph: &Graph<'_>, scope: &Scope, guard: &Pred, es: &[Expr]) -> Result<Vec<Expr>> {
        let mut leaves = Vec::with_capacity(es.len());
        for e in es {
            leaves.push(match e {
                Expr::Number(_) | Expr::Index(_) | Expr::Read(_) => e.clone(),
                _ => {
                    let free = e.free(scope);
                    let hidden =
                        |p: &&Pred| scope.iter().any(|(i, _)| p.mentions(*i) && free.iter().all(|(j, _)| i != j));
                    let seen = guard.conjuncts().iter().filter(|p| !hidden(p)).cloned();
                    let e = Expr::product(Vec::new(), Pred::all(seen), vec![e.clone()]);
                    let x = self.tensor(graph, &free, &e)?;
                    let class = Id::from(self.next);
                    self.next += 1;
                    self.decoder.vars.insert(class, x);
                    Expr::Read(Read { class, indices: Affine::indices(&free).into() })
                }
            });
        }
        Ok(leaves)
    }
}

/// The guard with the patterns of the sparse parameters that are read.
fn stored(graph: &Graph<'_>, guard: Pred, leaves: &[Expr]) -> Pred {
    let count = graph.egraph.nodes().len();
    let patterns = leaves.iter().filter_map(|leaf| match leaf {
        Expr::Read(read) if usize::from(read.class) < count => {
            let class = graph.egraph.find(read.class);
            let is_input = graph.egraph[class].nodes.iter().any(|node| matches!(*node.head, Head::Input { .. }));
            let pattern = graph.data(class).pattern.filter(|_| is_input)?;
            Some(Pred::relation(RelationRef::Input(pattern), read.indices.to_vec()))
        }
        _ => None,
    });
    patterns.fold(guard, |guard, p| if guard.conjuncts().contains(&p) { guard } else { guard.and(p) })
}
