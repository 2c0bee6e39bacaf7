//! Why a simplified program is the same function: the equations that lead from the statements to the nodes that were chosen.
//!
//! A part of an explanation is a program and the next one. Either guards went, each with what had to be proved for that, or an e-graph was made.
//! There the nodes of a class hang together by *steps*, `before == after` by some rules; nodes that read equal tensors are one node. For each
//! class of the result the explanation is the shortest way from the node that the class began with to the one that was chosen. (By induction over
//! the unions there is one: each unites two classes at nodes that a step ties, and where operands become equal nodes become one.)
//!
//! Each equation holds by itself: [`Explanation::check`] looks at how they hang together, and [`Explanation::replay`] evaluates both sides, and
//! the programs before and after guards went. The operands of the equations are computed from the nodes that are least deep, whatever was chosen.

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
use super::needless::{self, Dropped, Obligation};
use super::rewrite::{DEFINITION, SYMMETRY};
use super::saturate::Step;
use super::text::Text;
use super::{Event, Options, Run, Weakening, search};
use crate::base::VarId;
use crate::error::{Error, Result};
use crate::index::{Affine, Pred, RelationRef};
use crate::tssa::{Builder, Output, Program};
use crate::ty::{Storage, Types};

/// The step from an expression to another one that is the same polynomial.
const ARITHMETIC: &str = "arithmetic";

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

/// Steps that no rule file holds, and what each says. Each is certified in a way of its own, see [`Explanation::check`].
pub const BUILT_IN: [(&str, &str); 7] = [
    needless::STEPS[0],
    needless::STEPS[1],
    needless::STEPS[2],
    needless::STEPS[3],
    (DEFINITION, "a tensor that is a number, or elements of another one, perhaps under a guard, is what it is"),
    (SYMMETRY, "two axes of a tensor are exchanged that leave its elements as they are, or change their sign"),
    (ARITHMETIC, "both sides are the same polynomial of their reads"),
];

/// One step from a program to the next.
#[derive(Clone, Debug)]
pub struct Part {
    /// Statements that lost a guard which says nothing to those that read them: both sides agree wherever they are read.
    pub weakened: Vec<Equation>,
    /// Tensors that have no name in the program, and what they are.
    pub definitions: Vec<(String, String)>,
    /// The equations, operands first.
    pub equations: Vec<Equation>,
    /// The program that the step begins with.
    pub before: Program,
    /// The program that it ends with.
    pub after: Program,
    /// Computes both sides of each equation.
    sides: Option<Program>,
    /// What has to be proved for guards to go.
    obligations: Vec<Obligation>,
    /// What is wrong with the equations, if anything is.
    complaints: Vec<String>,
}

/// Why a simplified program is the same function, part by part.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The program that came in.
    pub input: Program,
    /// The simplified program.
    pub output: Program,
    /// The parts, in order.
    pub parts: Vec<Part>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rewrote = false;
        for (at, Part { weakened, definitions, equations, .. }) in self.parts.iter().enumerate() {
            if rewrote || at > 0 && !weakened.is_empty() {
                writeln!(f, "then, of the result")?;
            }
            rewrote = !equations.is_empty();
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
    /// What does not hold together, nothing if all is well:
    ///
    /// - the first part begins with the program that came in, each other one where the last ended, and the last ends with the result;
    /// - each equation cites steps, all of them rules of the rule files or [`BUILT_IN`];
    /// - no equation is of a side with itself, and none comes twice in a part;
    /// - a statement that lost guards is literally one of the program before;
    /// - what has to be proved for guards to go is proved again;
    /// - for each tensor of the result there are steps from the node that it began with to the one that was chosen;
    /// - an equation by `arithmetic` alone is one between equal polynomials.
    ///
    /// # Errors
    /// Those of the rule files.
    pub fn check(&self) -> Result<Vec<String>> {
        let mut complaints: Vec<String> = self.parts.iter().flat_map(|part| part.complaints.clone()).collect();
        let mut reached = &self.input;
        for (at, part) in self.parts.iter().enumerate() {
            if part.before.stmts != reached.stmts {
                complaints.push(format!("part {at} begins with another program than the one before ended with"));
            }
            reached = &part.after;
            let listing = part.before.to_string();
            for equation in &part.weakened {
                let line = format!("{} = {}", equation.tensor, equation.before);
                if !listing.lines().any(|known| known == line)
                    && !part.weakened.iter().any(|e| e.after == equation.before)
                {
                    complaints.push(format!("part {at}: the program has no statement `{line}`"));
                }
            }
            let mut seen = BTreeSet::new();
            for Equation { tensor, before, after, rules } in part.weakened.iter().chain(&part.equations) {
                let shown = || format!("part {at}: {tensor}: {before} == {after}");
                if before == after || !seen.insert((tensor, before, after)) {
                    complaints.push(format!("{} says nothing new", shown()));
                }
                for name in rules {
                    let known = super::rules().map_err(|error| Error::bug("simplify", error.to_string()))?;
                    if !known.iter().any(|rule| rule.name == *name) && !BUILT_IN.iter().any(|(step, _)| step == name) {
                        complaints.push(format!("{} cites `{name}`", shown()));
                    }
                }
                if rules.is_empty() {
                    complaints.push(format!("{} cites nothing", shown()));
                }
            }
            if !part.obligations.iter().all(Obligation::is_proved) {
                complaints.push(format!("part {at}: what has to be proved for a guard to go is not proved"));
            }
        }
        if reached.stmts != self.output.stmts {
            complaints.push("the last part ends with another program than the result".to_owned());
        }
        Ok(complaints)
    }

    /// Evaluates all steps at some inputs of the program by an evaluator: both sides of each equation, and of parts where guards went the results
    /// of both programs. Pairs of values that should be equal.
    ///
    /// # Errors
    /// Those of evaluation.
    pub fn replay<T>(&self, evaluate: &mut dyn FnMut(&Program) -> Result<Vec<T>>) -> Result<Vec<[T; 2]>> {
        let mut pairs = Vec::new();
        for part in &self.parts {
            if let Some(sides) = &part.sides {
                let mut values = evaluate(sides)?.into_iter();
                while let (Some(before), Some(after)) = (values.next(), values.next()) {
                    pairs.push([before, after]);
                }
            }
            let results = evaluate(&part.before)?.into_iter().zip(evaluate(&part.after)?);
            pairs.extend(results.map(|(before, after)| [before, after]));
        }
        Ok(pairs)
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
    let (output, parts) = search(program, options, true, &mut |event| match event {
        Event::Climbs => Ok(None),
        Event::Weakened(Weakening { before, after, dropped }) => {
            Ok((!dropped.is_empty()).then(|| weakening(before, after, dropped)))
        }
        Event::Run { run, before, after } => after.map(|after| equations(run, before, after)).transpose(),
    })?;
    Ok(Explanation { input: program.clone(), output, parts: parts.into_iter().flatten().collect() })
}

/// The equations of guards that went.
fn weakening(before: &Program, after: &Program, dropped: &[Dropped]) -> Part {
    let equation = |Dropped { name, sides: [before, after], steps, .. }: &Dropped| Equation {
        tensor: name.clone(),
        before: before.clone(),
        after: after.clone(),
        rules: steps.iter().map(|step| (*step).to_owned()).collect(),
    };
    Part {
        weakened: dropped.iter().map(equation).collect(),
        definitions: Vec::new(),
        equations: Vec::new(),
        before: before.clone(),
        after: after.clone(),
        sides: None,
        obligations: dropped.iter().flat_map(|dropped| dropped.obligations.clone()).collect(),
        complaints: Vec::new(),
    }
}

/// The equations of one pass.
fn equations(run: &mut Run<'_>, program: &Program, after: &Program) -> Result<Part> {
    let Run { graph, encoded, saturation, model, table, selection, found: _, cheaper: _, large: _ } = run;
    let text = Text::new(graph, &encoded.names);
    let names = program.stmt_names();
    let mut equalities: Vec<Equality> = Vec::new();
    let mut complaints = Vec::new();
    for Normalised { var, gens, rules, before, after } in encoded.steps.clone() {
        equalities.push(Equality { tensor: names.get(var), scope: gens, before, after, rules });
    }
    let roots: Vec<Id> = encoded.roots.iter().flatten().map(|id| graph.egraph.find(*id)).collect();
    let ties = Ties::new(graph, &saturation.steps);
    for class in table.order(selection, &roots).unwrap_or_default() {
        let Some(chosen) = table.node(selection, class) else { continue };
        let (tensor, scope) = (text.class(class).to_owned(), graph.slots(class));
        let Some(links) = ties.way(class, chosen) else {
            complaints.push(format!("no steps lead to what was chosen for {tensor}"));
            continue;
        };
        for Link { step, forwards } in links {
            let Some(Step { rules, before, after, .. }) = saturation.steps.get(step).cloned() else { continue };
            let (before, after) = if forwards { (before, after) } else { (after, before) };
            equalities.push(Equality { tensor: tensor.clone(), scope: scope.clone(), before, after, rules });
        }
    }
    // Tensors that turned out to be equal have one name, and so may both sides have.
    equalities.retain(|e| text.expr(&e.scope, &e.before) != text.expr(&e.scope, &e.after));
    // A normal form may be reached by folding alone.
    let by = |rules: &[String]| if rules.is_empty() { vec![ARITHMETIC.to_owned()] } else { rules.to_vec() };
    for Equality { tensor, before, after, rules, .. } in &equalities {
        if rules.is_empty() && polynomial(before).is_none_or(|known| Some(known) != polynomial(after)) {
            complaints.push(format!("the sides of an equation of {tensor} are not the same polynomial"));
        }
    }
    let equations = equalities.iter().map(|e| Equation {
        tensor: text.element(&e.tensor, &e.scope),
        before: text.expr(&e.scope, &e.before),
        after: text.expr(&e.scope, &e.after),
        rules: by(&e.rules),
    });
    let equations = equations.collect();
    let sides = Some(sides(graph, model, program, &equalities)?);
    let definitions = definitions(graph, &text, &equalities)?;
    Ok(Part {
        weakened: Vec::new(),
        definitions,
        equations,
        before: program.clone(),
        after: after.clone(),
        sides,
        obligations: Vec::new(),
        complaints,
    })
}

/// How many terms polynomials may have that are compared.
const MAX_TERMS: usize = 256;

/// An expression as a polynomial: coefficients of products of reads, functions, sums over indices, and guards. Nothing where it has too many
/// terms.
fn polynomial(e: &Expr) -> Option<BTreeMap<Vec<Expr>, f64>> {
    let mut found: BTreeMap<Vec<Expr>, f64> = BTreeMap::new();
    match e {
        Expr::Number(x) => drop(found.insert(Vec::new(), x.get())),
        Expr::Sum(terms) => {
            for term in terms.iter() {
                for (monomial, c) in polynomial(term)? {
                    *found.entry(monomial).or_default() += c;
                }
            }
        }
        Expr::Product(product) if product.sums.is_empty() => {
            let guard = match product.guard.is_true() {
                true => Vec::new(),
                false => vec![Expr::product(Vec::new(), product.guard.clone(), vec![Expr::number(1.0)])],
            };
            found.insert(guard, 1.0);
            for factor in &product.factors {
                let mut next: BTreeMap<Vec<Expr>, f64> = BTreeMap::new();
                for (right, d) in polynomial(factor)? {
                    for (left, c) in &found {
                        let mut monomial = [left.as_slice(), right.as_slice()].concat();
                        monomial.sort();
                        *next.entry(monomial).or_default() += c * d;
                    }
                }
                found = next;
                if found.len() > MAX_TERMS {
                    return None;
                }
            }
        }
        atom => drop(found.insert(vec![atom.canonical().ok()?], 1.0)),
    }
    found.retain(|_, c| *c != 0.0);
    Some(found)
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

/// What ties the nodes of a class together. Nodes that read equal tensors are one.
struct Ties {
    /// The first node of each class.
    first: BTreeMap<Id, Node>,
    /// From each node to others, by a step, forwards or backwards.
    edges: BTreeMap<Node, Vec<(Node, Link)>>,
}

/// A step, and whether it is taken from its left-hand side to its right-hand side.
#[derive(Clone, Copy)]
struct Link {
    step: usize,
    forwards: bool,
}

impl Ties {
    fn new(graph: &Graph<'_>, steps: &[Step]) -> Self {
        let canonical = |node: &Node| node.clone().map_children(|id| graph.egraph.find(id));
        let mut first: BTreeMap<Id, Node> = BTreeMap::new();
        for (at, node) in graph.egraph.nodes().iter().enumerate() {
            first.entry(graph.egraph.find(Id::from(at))).or_insert_with(|| canonical(node));
        }
        let mut edges: BTreeMap<Node, Vec<(Node, Link)>> = BTreeMap::new();
        for (step, Step { ends: [from, to], .. }) in steps.iter().enumerate() {
            let (from, to) = (canonical(from), canonical(to));
            edges.entry(from.clone()).or_default().push((to.clone(), Link { step, forwards: true }));
            edges.entry(to).or_default().push((from, Link { step, forwards: false }));
        }
        Ties { first, edges }
    }

    /// The shortest way from the first node of a class to a given one; nothing if there is none.
    fn way(&self, class: Id, to: &Node) -> Option<Vec<Link>> {
        let first = self.first.get(&class)?;
        let mut came: BTreeMap<&Node, Option<(&Node, Link)>> = BTreeMap::from([(first, None)]);
        let mut queue = VecDeque::from([first]);
        while let Some(node) = queue.pop_front() {
            if node == to {
                let mut links = Vec::new();
                let mut at = node;
                while let Some(Some((from, link))) = came.get(at) {
                    links.push(*link);
                    at = from;
                }
                links.reverse();
                return Some(links);
            }
            for (next, link) in self.edges.get(node).into_iter().flatten() {
                if !came.contains_key(next) {
                    came.insert(next, Some((node, *link)));
                    queue.push_back(next);
                }
            }
        }
        None
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::{Function, Mode, Request};

    fn explanation() -> Explanation {
        let primal = Function::parse(include_str!("../../tests/programs/e12_rosenbrock.iv")).unwrap();
        let raw = primal.derive(&Request::new(Mode::Gradient, &["x"]).raw()).unwrap().function;
        explain(raw.tensor_ssa(), &Options::default()).unwrap()
    }

    /// Whatever is done to a sound explanation is found.
    #[test]
    fn broken_explanations_are_found() {
        let sound = explanation();
        assert_eq!(sound.check().unwrap(), Vec::<String>::new());
        let guards = sound.parts.iter().position(|part| !part.weakened.is_empty()).unwrap();
        let rewrites = sound.parts.iter().position(|part| part.equations.len() > 1).unwrap();
        type Fault<'a> = (&'a str, &'a dyn Fn(&mut Explanation));
        let broken: [Fault<'_>; 9] = [
            ("a part is missing", &|e| drop(e.parts.remove(0))),
            ("the last part is missing", &|e| drop(e.parts.pop())),
            ("parts in another order", &|e| e.parts.reverse()),
            ("an unknown rule", &|e| e.parts[rewrites].equations[0].rules.push("magic".to_owned())),
            ("no rule", &|e| e.parts[rewrites].equations[0].rules.clear()),
            ("a side with itself", &|e| {
                let equation = &mut e.parts[rewrites].equations[0];
                equation.after = equation.before.clone();
            }),
            ("an equation twice", &|e| {
                let equation = e.parts[rewrites].equations[0].clone();
                e.parts[rewrites].equations.push(equation);
            }),
            ("no such statement", &|e| e.parts[guards].weakened[0].before.push_str(" + 1")),
            ("a guard without a reason", &|e| {
                let Some(obligation) = e.parts[guards].obligations.first_mut() else {
                    panic!("nothing had to be proved")
                };
                *obligation = obligation.of_nothing();
            }),
        ];
        for (what, change) in broken {
            let mut changed = sound.clone();
            change(&mut changed);
            assert!(!changed.check().unwrap().is_empty(), "{what} is not found");
        }
    }

    #[test]
    fn polynomials_are_compared_term_by_term() {
        let x = |k: u32| Expr::Read(Read { class: Id::from(k as usize), indices: Vec::new().into() });
        let sum = |terms: Vec<Expr>| Expr::Sum(terms.into());
        let times =
            |factors: Vec<Expr>| Expr::Product(Rc::new(Product { sums: Vec::new(), guard: Pred::True, factors }));
        let square = times(vec![sum(vec![x(0), x(1)]), sum(vec![x(0), x(1)])]);
        let expanded = |middle: f64| {
            let mixed = times(vec![Expr::number(middle), x(1), x(0)]);
            sum(vec![times(vec![x(0), x(0)]), times(vec![x(1), x(1)]), mixed])
        };
        assert_eq!(polynomial(&square), polynomial(&expanded(2.0)));
        assert_ne!(polynomial(&square), polynomial(&expanded(3.0)));
    }
}
