//! Formulas, assumptions and signatures as the messages about inputs show them.

use std::collections::BTreeSet;

use super::Bindings;
use crate::index::{Affine, Pred, RelationRef, Size, Var};
use crate::ty::{RelationKind, Signature, Storage, leaf_name};

pub(super) fn affine_text(signature: &Signature, a: &Affine) -> String {
    let mut text = String::new();
    let mut name = |v: &Var| match v {
        Var::Size(n) => signature.sizes.get(*n).cloned().unwrap_or_else(|| n.to_string()),
        Var::Index(i) => i.to_string(),
        Var::Apply(_) => "..".to_string(),
    };
    // Writing to a string does not fail.
    let _ = a.write(&mut text, &mut name);
    text
}

/// An assumption as its author may have written it: `n >= 2`, not `n - 2 >= 0`.
pub(super) fn predicate_text(signature: &Signature, pred: &Pred) -> String {
    let comparison = |a: &Affine, op: &str| {
        let negated = a.terms().iter().filter(|(_, k)| *k < 0).map(|(v, k)| (v.clone(), k.saturating_neg()));
        let positive = a.terms().iter().filter(|(_, k)| *k > 0).cloned();
        let offset = a.offset();
        let left = Affine::from_terms(positive, offset.max(0)).unwrap_or_default();
        let right = Affine::from_terms(negated, offset.min(0).saturating_neg()).unwrap_or_default();
        format!("{} {op} {}", affine_text(signature, &left), affine_text(signature, &right))
    };
    let list = |preds: &[Pred], word: &str| {
        let texts: Vec<String> = preds
            .iter()
            .map(|p| match p {
                Pred::All(_) | Pred::Any(_) => format!("({})", predicate_text(signature, p)),
                p => predicate_text(signature, p),
            })
            .collect();
        texts.join(word)
    };
    match pred {
        Pred::True => "true".to_string(),
        Pred::False => "false".to_string(),
        Pred::NonNegative(a) => comparison(a, ">="),
        Pred::Zero(a) => comparison(a, "="),
        Pred::NonZero(a) => comparison(a, "!="),
        Pred::Relation { relation, args, holds } => {
            let name = match relation {
                RelationRef::Input(id) => signature.relations.get(*id).map_or("?", |r| r.name.as_str()),
                RelationRef::Computed { .. } => "?",
            };
            let args: Vec<String> = args.iter().map(|a| affine_text(signature, a)).collect();
            format!("{}{name}({})", if *holds { "" } else { "not " }, args.join(", "))
        }
        Pred::All(preds) => list(preds, " and "),
        Pred::Any(preds) => list(preds, " or "),
        Pred::Exists { index, extent, body } => {
            format!("exists {index} < {}. {}", affine_text(signature, extent), predicate_text(signature, body))
        }
    }
}

/// The sizes that an assumption mentions: `n = 1, m = 4`.
pub(super) fn sizes_text(signature: &Signature, bindings: &Bindings, pred: &Pred) -> String {
    let mut mentioned = BTreeSet::new();
    pred.visit_affine(&mut |a| {
        a.visit(&mut |v| {
            if let Var::Size(n) = v {
                mentioned.insert(*n);
            }
        });
    });
    let known = mentioned.into_iter().filter_map(|n| Some((signature.sizes.get(n)?, bindings.sizes.get(n)?)));
    let texts: Vec<String> = known.map(|(name, value)| format!("{name} = {value}")).collect();
    if texts.is_empty() { "it is false for all sizes".to_string() } else { texts.join(", ") }
}

/// What the program takes, for errors about names.
pub(in crate::tensor) fn expected(signature: &Signature) -> String {
    const MOST: usize = 24;
    let axes = |dims: &[Size]| {
        let dims: Vec<String> = dims.iter().map(|d| affine_text(signature, d)).collect();
        if dims.is_empty() { String::new() } else { format!("[{}]", dims.join(", ")) }
    };
    let mut items = Vec::new();
    for param in signature.params.values().take(MOST) {
        let format = match param.storage {
            Storage::Dense => String::new(),
            sparse => format!("{} ", sparse.name()),
        };
        if !signature.types.contains(param.ty) {
            continue;
        }
        for leaf in signature.types.leaves(param.ty).unwrap_or_default().iter().take(MOST) {
            let name = leaf_name(&param.name, &leaf.path);
            items.push(format!("{name} : {format}{} real", axes(&leaf.dims)).replace(":  real", ": real"));
        }
    }
    for relation in signature.relations.values().take(MOST) {
        match relation.kind {
            RelationKind::Free => items.push(format!("rel {} : {}", relation.name, axes(&relation.shape))),
            RelationKind::Map => match relation.shape.split_last() {
                Some((codomain, sources)) => items.push(format!(
                    "map {} : {} -> {}",
                    relation.name,
                    axes(sources),
                    axes(std::slice::from_ref(codomain))
                )),
                None => items.push(format!("map {}", relation.name)),
            },
            RelationKind::Pattern(_) | RelationKind::Projection(..) => {}
        }
    }
    items.extend(signature.sizes.values().take(MOST).map(|n| format!("size {n}")));
    let more = if items.len() > MOST { ", .." } else { "" };
    items.truncate(MOST);
    if items.is_empty() { "it takes nothing".to_string() } else { format!("it takes {}{more}", items.join(", ")) }
}
