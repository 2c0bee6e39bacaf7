//! Expressions as text, in the language, with the names of statements for classes.

use std::collections::{BTreeMap, BTreeSet};

use egg::Id;

use super::expr::{Expr, Read};
use super::graph::{Graph, Scope};
use super::lang::{Head, class_of};
use crate::base::{IndexId, RelationId, SizeId, VarId};
use crate::index::print::{Names, write_affine, write_pred};
use crate::index::{Affine, Pred, Size};
use crate::scalar::{Function, Op, Primitive};
use crate::ty::{Side, Signature};

/// How tightly the place of an expression binds.
const SUM: u8 = 0;
const PRODUCT: u8 = 1;
const ATOM: u8 = 2;

/// Names for the classes of an e-graph.
pub(super) struct Text<'a> {
    signature: &'a Signature,
    /// By id, canonical or not.
    classes: Vec<String>,
    /// Whether the name of a class says what it is.
    told: BTreeSet<Id>,
    /// What indices must not be called.
    taken: BTreeSet<String>,
}

impl<'a> Text<'a> {
    /// Classes are called as the statements that they come from, or the parameters that they are; the others are numbered.
    pub(super) fn new(graph: &Graph<'a>, names: &[(Id, String)]) -> Self {
        let signature = graph.signature;
        let mut taken: BTreeSet<String> = signature.sizes.values().cloned().collect();
        taken.extend(signature.relations.values().map(|r| r.name.clone()));
        let mut by_class: BTreeMap<Id, String> = BTreeMap::new();
        for class in graph.egraph.classes() {
            for node in &class.nodes {
                if let Head::Input { param, path, .. } = &*node.head {
                    let name = signature.params.get(*param).map_or("?", |p| p.name.as_str());
                    let sides = path.iter().map(|side| if *side == Side::Fst { ".0" } else { ".1" });
                    let name = name.to_owned() + &sides.collect::<String>();
                    taken.insert(name.clone());
                    by_class.insert(class.id, name);
                }
            }
        }
        let mut told: BTreeSet<Id> = by_class.keys().copied().collect();
        for (class, name) in names {
            let class = graph.egraph.find(*class);
            if !by_class.contains_key(&class) && taken.insert(name.clone()) {
                by_class.insert(class, name.clone());
                told.insert(class);
            }
        }
        let mut number = 0;
        let mut name = |id: usize| {
            let class = graph.egraph.find(Id::from(id));
            let name = by_class.entry(class).or_insert_with(|| {
                loop {
                    let name = format!("t{number}");
                    number += 1;
                    if taken.insert(name.clone()) {
                        break name;
                    }
                }
            });
            name.clone()
        };
        let classes = (0..graph.egraph.nodes().len()).map(&mut name).collect();
        Text { signature, classes, told, taken }
    }

    /// The name of a class.
    pub(super) fn class(&self, class: Id) -> &str {
        self.classes.get(usize::from(class)).map_or("?", String::as_str)
    }

    /// Whether a class is called as a parameter or a statement.
    pub(super) fn is_told(&self, class: Id) -> bool {
        self.told.contains(&class)
    }

    /// An expression over given indices.
    pub(super) fn expr(&self, scope: &Scope, e: &Expr) -> String {
        let mut order: Vec<IndexId> = scope.iter().map(|(i, _)| *i).collect();
        e.visit_binders(&mut |i| order.push(i));
        Open { text: self, indices: self.index_names(order) }.expr(e, SUM)
    }

    /// `t[i, j]`
    pub(super) fn element(&self, name: &str, scope: &Scope) -> String {
        let indices = self.index_names(scope.iter().map(|(i, _)| *i).collect());
        let indices: Vec<&str> = scope.iter().filter_map(|(i, _)| indices.get(i).map(String::as_str)).collect();
        if indices.is_empty() { name.to_owned() } else { format!("{name}[{}]", indices.join(", ")) }
    }

    fn index_names(&self, indices: Vec<IndexId>) -> BTreeMap<IndexId, String> {
        let letters = ["i", "j", "k", "l", "a", "b", "c", "d", "p", "q", "u", "v"].into_iter().map(str::to_owned);
        let names = letters.chain((1..).map(|k| format!("i{k}"))).filter(|name| !self.is_taken(name));
        indices.into_iter().zip(names).collect()
    }

    fn is_taken(&self, name: &str) -> bool {
        self.taken.contains(name)
    }
}

/// A scope with names for its indices.
struct Open<'t, 'a> {
    text: &'t Text<'a>,
    indices: BTreeMap<IndexId, String>,
}

impl Names for Open<'_, '_> {
    fn index(&self, i: IndexId) -> String {
        self.indices.get(&i).cloned().unwrap_or_else(|| i.to_string())
    }
    fn size(&self, n: SizeId) -> String {
        self.text.signature.sizes.get(n).cloned().unwrap_or_else(|| n.to_string())
    }
    fn relation(&self, r: RelationId) -> String {
        self.text.signature.relations.get(r).map_or_else(|| r.to_string(), |r| r.name.clone())
    }
    fn var(&self, x: VarId) -> String {
        self.text.class(class_of(x)).to_owned()
    }
}

impl Open<'_, '_> {
    fn affine(&self, a: &Affine) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = write_affine(&mut text, a, self);
        text
    }

    fn guard(&self, p: &Pred) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = write_pred(&mut text, p, 0, self);
        text
    }

    fn expr(&self, e: &Expr, level: u8) -> String {
        let (own, text) = match e {
            Expr::Number(x) => (if x.get() < 0.0 { SUM } else { ATOM }, number(x.get())),
            Expr::Index(a) => {
                let plain = a.offset() == 0 && a.terms().len() == 1 && a.terms().iter().all(|(_, k)| *k == 1);
                (if plain { ATOM } else { SUM }, self.affine(a))
            }
            Expr::Read(Read { class, indices }) => {
                let indices: Vec<String> = indices.iter().map(|a| self.affine(a)).collect();
                let name = self.text.class(*class);
                (ATOM, if indices.is_empty() { name.to_owned() } else { format!("{name}[{}]", indices.join(", ")) })
            }
            Expr::Product(product) => {
                let mut parts = Vec::with_capacity(product.factors.len() + 1);
                if !product.guard.is_true() {
                    parts.push(format!("[{}]", self.guard(&product.guard)));
                }
                parts.extend(product.factors.iter().map(|e| self.expr(e, ATOM)));
                if product.factors.is_empty() {
                    parts.push("1".to_owned());
                }
                let own = if product.sums.is_empty() { PRODUCT } else { SUM };
                (own, self.binders(&product.sums) + &parts.join(" * "))
            }
            Expr::Sum(terms) => {
                let terms: Vec<String> = terms.iter().map(|e| self.expr(e, PRODUCT)).collect();
                (SUM, terms.join(" + "))
            }
            Expr::Apply(function, args) => {
                let infix = matches!(function, Function::Value(Primitive::Op(Op::Div | Op::Powi(_))));
                let args: Vec<String> = args.iter().map(|e| self.expr(e, if infix { ATOM } else { SUM })).collect();
                (if infix { PRODUCT } else { ATOM }, self.text.signature.function_text(*function, &args))
            }
        };
        if own < level { format!("({text})") } else { text }
    }

    fn binders(&self, sums: &[(IndexId, Size)]) -> String {
        if sums.is_empty() {
            return String::new();
        }
        let ranges: Vec<String> =
            sums.iter().map(|(i, n)| format!("{} < {}", self.index(*i), self.affine(n))).collect();
        format!("sum {}. ", ranges.join(", "))
    }
}

/// `2`, `0.5`
fn number(x: f64) -> String {
    let text = format!("{x:?}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}
