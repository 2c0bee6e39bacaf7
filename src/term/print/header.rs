//! The declarations in front of a program: parameters, relations, maps, registered functions, assumptions.

use std::collections::BTreeSet;

use super::{Level, Printer, Task};
use crate::base::{Id, RelationId, SizeId};
use crate::index::{Affine, Pred, Size, Var};
use crate::scalar::{self, Number, UserValue};
use crate::term::{Program, Term};
use crate::ty::{RelationKind, Storage, Type, TypeId};

impl Printer<'_> {
    pub(super) fn header(&mut self) {
        let program = self.program;
        let signature = &program.signature;
        let name = |names: &[String], at: usize| names.get(at).cloned().unwrap_or_default();
        for (id, param) in signature.params.iter() {
            // The pattern of another parameter is named: `csr(A)`.
            let shared = |r: RelationId| match signature.relations.get(r).map(|r| r.kind) {
                Some(RelationKind::Pattern(owner)) if owner != id => format!("({})", name(&self.vars, owner.index())),
                _ => String::new(),
            };
            let storage = match param.storage {
                Storage::Dense => String::new(),
                Storage::Sparse(format, r) => format!("{}{} ", format.name(), shared(r)),
            };
            let text = format!("param {} : {storage}{}", name(&self.vars, id.index()), self.ty(param.ty));
            self.declare(&text);
        }
        for (id, relation) in signature.relations.iter() {
            let called = name(&self.relations, id.index());
            let sizes =
                |printer: &Self, dims: &[Size]| dims.iter().map(|n| printer.affine(n)).collect::<Vec<_>>().join(", ");
            match (relation.kind, relation.shape.split_last()) {
                (RelationKind::Free, _) => {
                    let text = format!("rel {called} : [{}]", sizes(self, &relation.shape));
                    self.declare(&text);
                }
                (RelationKind::Map, Some((target, source))) => {
                    let text = format!("map {called} : [{}] -> [{}]", sizes(self, source), self.affine(target));
                    self.declare(&text);
                }
                (RelationKind::Map, None) | (RelationKind::Pattern(_) | RelationKind::Projection(..), _) => {}
            }
        }
        for (id, function) in signature.functions.iter() {
            let called = name(&self.functions, id.index());
            let args: Vec<String> = (0..function.arity()).map(|k| self.argument(k)).collect();
            let names = scalar::Names { args: &args, users: Some(&signature.functions) };
            let write = |e: &scalar::Formula| {
                let mut text = String::new();
                // Writing to a string does not fail.
                let _ = e.write(&mut text, &names);
                text
            };
            let partials: Vec<String> = function.partials().iter().map(&write).collect();
            let (args, partials) = (args.join(", "), partials.join(", "));
            let text = match function.value() {
                UserValue::External(external) => {
                    let args: Vec<&str> = external.params.iter().map(|(name, _)| name.as_str()).collect();
                    format!("# {called}({}) is a function of tensors from outside", args.join(", "))
                }
                UserValue::Formula(e) => format!("fun {called}({args}) = {} with ({partials})", write(e)),
                // Its code is not part of any text.
                UserValue::Native(_) | UserValue::Unregistered => {
                    format!("# {called}({args}) is native, with the partial derivatives ({partials})")
                }
            };
            self.declare(&text);
        }
        for size in self.given_sizes() {
            let text = format!("size {}", self.affine(&Size::size(size)));
            self.declare(&text);
        }
        let quotients = signature.quotients();
        for quotient in &quotients {
            let value = quotient.text(&self.affine(&quotient.of));
            let text = format!("size {} = {value}", self.affine(&Size::size(quotient.size)));
            self.declare(&text);
        }
        let said: BTreeSet<Pred> =
            quotients.iter().filter_map(|quotient| quotient.definition().ok()).flatten().collect();
        for p in &signature.assumptions {
            let rest = Pred::all(p.conjuncts().iter().filter(|p| !said.contains(p)).cloned());
            if rest.is_true() {
                continue;
            }
            let p = &rest;
            let mut tasks = vec![Task::text("assume ")];
            self.pred(p, Level::Open, &mut tasks);
            tasks.push(Task::Hard);
            self.run(tasks);
        }
    }

    /// The sizes in the program that no other declaration mentions.
    fn given_sizes(&self) -> BTreeSet<SizeId> {
        let Program { signature, terms, .. } = self.program;
        let (mut used, mut said) = (BTreeSet::new(), BTreeSet::new());
        let sizes_of = |a: &Affine, into: &mut BTreeSet<SizeId>| {
            a.visit(&mut |v| {
                if let Var::Size(n) = v {
                    into.insert(*n);
                }
            });
        };
        for term in terms.values() {
            match term {
                Term::Gen { extent: a, .. } | Term::Sum { extent: a, .. } => sizes_of(a, &mut used),
                Term::Scan { steps, implicit, .. } => {
                    sizes_of(steps, &mut used);
                    implicit.iter().for_each(|most| sizes_of(most, &mut used));
                }
                Term::Access { index: a, .. } | Term::Number(Number::Index(a)) => sizes_of(a, &mut used),
                Term::Call { sizes, .. } => sizes.iter().for_each(|a| sizes_of(a, &mut used)),
                Term::Iverson { guard, .. } => guard.visit_affine(&mut |a| sizes_of(a, &mut used)),
                _ => {}
            }
        }
        let leaves = signature.params.values().filter_map(|param| signature.types.leaves(param.ty).ok()).flatten();
        let relations = signature.relations.values().flat_map(|relation| relation.shape.iter().cloned());
        leaves.flat_map(|leaf| leaf.dims).chain(relations).for_each(|n| sizes_of(&n, &mut said));
        signature.assumptions.iter().for_each(|p| p.visit_affine(&mut |a| sizes_of(a, &mut said)));
        used.retain(|n| !said.contains(n));
        used
    }

    /// The name of an argument of a registered function, unlike all global names.
    fn argument(&self, k: u8) -> String {
        let letter = char::from(b'a' + k % 26).to_string();
        let stem = if k < 26 { letter } else { format!("{letter}{}", k / 26) };
        let mut name = stem;
        while self.names.is_used(&name) {
            name.push('_');
        }
        name
    }

    fn declare(&mut self, text: &str) {
        self.doc.text(text);
        self.doc.hard();
    }

    /// A type. Types nest deeply only where a program was built to; no call stack is used.
    fn ty(&self, ty: TypeId) -> String {
        enum Part {
            Type(TypeId),
            Text(&'static str),
        }
        let types = &self.program.types;
        let mut text = String::new();
        let mut stack = vec![Part::Type(ty)];
        while let Some(part) = stack.pop() {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Type(ty) => {
                    let (dims, element) = types.peel(ty);
                    if !dims.is_empty() {
                        let dims: Vec<_> = dims.into_iter().map(|n| self.affine(n)).collect();
                        text.push_str(&format!("[{}] ", dims.join(", ")));
                    }
                    match types.get(element) {
                        Type::Real | Type::Tensor(..) => text.push_str("real"),
                        Type::Pair(a, b) => {
                            let (a, b) = (Part::Type(*a), Part::Type(*b));
                            stack.extend([Part::Text(")"), b, Part::Text(", "), a, Part::Text("(")]);
                        }
                    }
                }
            }
        }
        text
    }
}
