//! Tensors that are the same all along rows, but for the entries of a relation, are computed on these, and once for each row.
//!
//! ```text
//! x = gen g, j. [R(g, j)] * a[g, j] + [not R(g, j)] * b[g]
//!
//! gen g, j. f(x[g, j], c[g])         ==  gen g, j. [R(g, j)] * f(a[g, j], c[g]) + [not R(g, j)] * f(b[g], c[g])
//! gen g. sum j. x[g, j] * c[g]       ==  gen g. (sum j. [R(g, j)] * a[g, j] * c[g]) + [m[g] != 0] * m[g] * b[g] * c[g]
//! gen h. sum s. [R(g, j)] * x[g, j]  ==  gen h. sum s. [R(g, j)] * a[g, j]
//! gen g. sum j. [not R(g, j)] * c[g] ==  gen g. [m[g] != 0] * m[g] * c[g]
//! ```
//!
//! where `m = gen g. n - (sum j. [R(g, j)] * 1)` counts the places of a row that are no entries. `b` is the *fill value*, as of a sparse array whose other elements
//! are not zero (Ahrens, Kjolstad and Amarasinghe, 2023). So `sum j. exp(S[i, j])` takes the entries of `S`, and so does the logarithm of a sum of
//! exponentials whose other terms are masked by `-inf`, with its gradient.
//!
//! **Why it is right.** Each element is computed as it was, from the same numbers: those of entries under the relation, and one of the others, as all others of
//! its row are equal. Equal terms of a sum are multiplied by how many they are, and not where there are none, as they may be NaN then.
//!
//! **Where it is done.** `R` is given from outside, and all who read `x` read it so: by a function of each element, in a sum over all of `j` of which nothing else
//! depends on `j`, or under `R`. Otherwise the tensor is made as a whole in any case.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::base::{Id, IndexId, RelationId, VarId};
use crate::error::Result;
use crate::index::{Affine, Pred, RelationRef, Size, View};
use crate::scalar::{Function, Number, try_evaluate};
use crate::tssa::{Builder, OpenStmt, Operand, Program, Rhs, Stmt};

/// How many relations are tried for a tensor.
const MAX_TRIED: usize = 8;

/// The program in which such tensors are computed so.
pub(super) fn filled(program: &Program) -> Result<Cow<'_, Program>> {
    let forms = Forms::of(program);
    let is_complement = |stmt: &Stmt| {
        let rank = stmt.dims.len();
        !stmt.rhs.sums().is_empty() && Complement::of(&stmt.rhs, &|i| i.index() >= rank).is_some()
    };
    if forms.filled.keys().all(|x| forms.whole.contains(x)) && !program.stmts.values().any(is_complement) {
        return Ok(Cow::Borrowed(program));
    }
    let mut rewrite = Rewrite { forms: &forms, parts: BTreeMap::new() };
    let mut builder = Builder::new(program.signature.clone());
    let outputs = builder.append_with(program, |builder, x, stmt| rewrite.stmt(builder, x, stmt))?;
    Ok(Cow::Owned(builder.finish(outputs).prune()?))
}

/// A relation at indices of a tensor, and the axes along which all is the same that is not in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Form {
    relation: RelationId,
    /// The axis of the tensor that each argument is.
    args: Vec<usize>,
    /// Some of them.
    along: Vec<usize>,
}

/// What stands at the places of a row that are no entries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fill {
    Zero,
    /// The fill value of a tensor of the form.
    Filled,
    /// What is the same all along some axes.
    Constant,
}

/// What a side of a sum is in terms of a form.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Inside,
    Outside,
    Both,
}

impl Form {
    /// The relation at these indices.
    fn atom(&self, indices: &[IndexId], holds: bool) -> Option<Pred> {
        let args = self.args.iter().map(|axis| Some((*indices.get(*axis)?).into())).collect::<Option<Vec<Affine>>>()?;
        Some(Pred::Relation { relation: RelationRef::Input(self.relation), args, holds })
    }

    /// Which places a side of a sum over these indices has, and what else is asked there.
    fn side(&self, indices: &[IndexId], p: &Pred) -> Option<(Side, Pred)> {
        let (inside, outside) = (self.atom(indices, true)?, self.atom(indices, false)?);
        if p.conjuncts().contains(&inside) {
            return Some((Side::Inside, p.clone()));
        }
        let rest = Pred::all(p.conjuncts().iter().filter(|p| **p != outside).cloned().collect::<Vec<_>>());
        let side = if p.conjuncts().contains(&outside) { Side::Outside } else { Side::Both };
        Some((side, rest))
    }

    /// Keeps the axes of which this is so.
    fn retain(&mut self, is_alike: impl Fn(usize) -> bool) {
        self.along.retain(|axis| is_alike(*axis));
    }

    /// Whether another one is of the same relation.
    fn is_of(&self, other: &Form) -> bool {
        self.relation == other.relation && self.args == other.args
    }

    /// A list without the items of the axes along which all is the same.
    fn others<T: Clone>(&self, items: &[T]) -> Vec<T> {
        let others = items.iter().enumerate().filter(|(axis, _)| !self.along.contains(axis));
        others.map(|(_, item)| item.clone()).collect()
    }
}

/// What is known of the tensors of a program.
struct Forms<'p> {
    program: &'p Program,
    /// Those that have a fill value.
    filled: BTreeMap<VarId, Form>,
    /// Those that are read as a whole.
    whole: BTreeSet<VarId>,
}

impl<'p> Forms<'p> {
    fn of(program: &'p Program) -> Forms<'p> {
        let given = program.outputs.iter().flat_map(|output| output.leaves.iter().copied());
        let mut forms = Forms { program, filled: BTreeMap::new(), whole: given.collect() };
        for (x, stmt) in program.stmts.iter() {
            let found = forms.candidates(stmt).into_iter().find_map(|form| forms.form(stmt, form));
            forms.filled.extend(found.map(|form| (x, form)));
        }
        for (y, stmt) in program.stmts.iter().collect::<Vec<_>>().into_iter().rev() {
            let found = forms.read_whole(y, stmt);
            forms.whole.extend(found);
        }
        forms
    }

    /// The relations that a tensor may be filled around, with all of their axes.
    fn candidates(&self, stmt: &Stmt) -> Vec<Form> {
        let mut found: Vec<Form> = Vec::new();
        let mut add = |relation: RelationId, args: &[usize]| {
            let form = Form { relation, args: args.to_vec(), along: args.to_vec() };
            if found.len() < MAX_TRIED && !found.contains(&form) {
                found.push(form);
            }
        };
        let asked = stmt.rhs.guards().flat_map(Pred::conjuncts).filter_map(|p| at_axes(p, stmt.dims.len()));
        asked.for_each(|(relation, axes, _)| add(relation, &axes));
        for (x, indices) in elements(stmt) {
            if let Some(form) = self.filled.get(&x) {
                let args: Option<Vec<usize>> =
                    form.args.iter().map(|axis| indices.get(*axis).map(|i| i.index())).collect();
                args.into_iter().for_each(|args| add(form.relation, &args));
            }
            if is_whole(&indices, stmt.dims.len()) {
                self.zeros(x).into_iter().for_each(|(relation, args)| add(relation, &args));
            }
        }
        found
    }

    /// The relations outside of which a tensor is zero, and the axes that their arguments are.
    fn zeros(&self, x: VarId) -> Vec<(RelationId, Vec<usize>)> {
        let stmt = &self.program.stmts[x];
        let rank = stmt.dims.len();
        match &stmt.rhs {
            Rhs::Input { param, .. } => {
                let pattern = self.program.signature.params.get(*param).and_then(|param| param.storage.pattern());
                pattern.map(|relation| (relation, (0..rank).collect())).into_iter().collect()
            }
            Rhs::Map { guard, .. } | Rhs::Contract { guard, .. } => {
                let asked = guard.conjuncts().iter().filter_map(|p| at_axes(p, rank));
                asked.filter(|(.., holds)| *holds).map(|(relation, axes, _)| (relation, axes)).collect()
            }
            Rhs::Number(_) | Rhs::Add(_) => Vec::new(),
        }
    }

    /// What a tensor over the axes of a form has outside. The form keeps the axes along which that is the same.
    fn fill(&self, x: VarId, form: &mut Form) -> Fill {
        if let Some(own) = self.filled.get(&x).filter(|own| own.is_of(form)) {
            form.retain(|axis| own.along.contains(&axis));
            return Fill::Filled;
        }
        if self.zeros(x).iter().any(|(relation, args)| *relation == form.relation && *args == form.args) {
            return Fill::Zero;
        }
        let stmt = &self.program.stmts[x];
        match &stmt.rhs {
            Rhs::Number(Number::Literal(_)) => {}
            Rhs::Number(Number::Index(a)) => form.retain(|axis| !a.mentions(IndexId::from_index(axis))),
            Rhs::Contract { sums, guard, operands } if sums.is_empty() => {
                let rest = form.side(&indices_of(stmt), guard).map_or(Pred::False, |(_, rest)| rest);
                let reads = |i: IndexId| operands.iter().any(|x| x.indices.contains(&i)) || rest.mentions(i);
                form.retain(|axis| !reads(IndexId::from_index(axis)));
            }
            Rhs::Input { .. } | Rhs::Add(_) | Rhs::Map { .. } | Rhs::Contract { .. } => form.along.clear(),
        }
        Fill::Constant
    }

    /// Whether a function of zeros is zero: elsewhere such tensors are known to be zero outside of the relation.
    fn is_zero(&self, function: Function, args: usize) -> bool {
        try_evaluate(function, &self.program.signature.functions, &vec![0.0; args]).is_ok_and(|x| x == 0.0)
    }

    /// The form of a statement around a relation, if it has fill values that are not zero.
    fn form(&self, stmt: &Stmt, mut form: Form) -> Option<Form> {
        let indices = indices_of(stmt);
        let mut fills = Vec::new();
        let whole = |p: &Pred, form: &mut Form| match form.side(&indices, p) {
            Some((Side::Both, rest)) => form.retain(|axis| !rest.mentions(IndexId::from_index(axis))),
            _ => form.along.clear(),
        };
        let is_filled = match &stmt.rhs {
            Rhs::Input { .. } | Rhs::Number(_) => false,
            Rhs::Add(sides) => {
                for (p, x) in sides {
                    let (side, rest) = form.side(&indices, p)?;
                    if side != Side::Inside {
                        form.retain(|axis| !rest.mentions(IndexId::from_index(axis)));
                        fills.push(self.fill(*x, &mut form));
                    }
                }
                fills.iter().any(|fill| *fill != Fill::Zero)
            }
            Rhs::Map { guard, function, args } => {
                whole(guard, &mut form);
                fills.extend(args.iter().map(|x| self.fill(*x, &mut form)));
                let of_zeros = fills.iter().all(|fill| *fill == Fill::Zero);
                fills.iter().any(|fill| *fill != Fill::Constant) && !(of_zeros && self.is_zero(*function, args.len()))
            }
            Rhs::Contract { sums, guard, operands } => {
                whole(guard, &mut form);
                let is_whole = operands.iter().all(|x| is_whole(&x.indices, stmt.dims.len()));
                fills.extend(operands.iter().map(|x| self.fill(x.var, &mut form)));
                sums.is_empty() && is_whole && fills.contains(&Fill::Filled) && !fills.contains(&Fill::Zero)
            }
        };
        (is_filled && !form.along.is_empty()).then_some(form)
    }

    /// What a statement reads as a whole, of which it is known whether it is made as a whole itself.
    fn read_whole(&self, y: VarId, stmt: &Stmt) -> Vec<VarId> {
        let mut found = Vec::new();
        for p in stmt.rhs.guards() {
            p.visit_atoms(&mut |atom| {
                if let Pred::Relation { relation: RelationRef::Computed { var, view }, .. } = atom {
                    // What is searched is what its elements are.
                    let is_searched = *view != View::Support && matches!(self.program.stmts[*var].rhs, Rhs::Add(_));
                    found.extend((!is_searched).then_some(*var));
                }
            });
        }
        let own = self.filled.get(&y).filter(|_| !self.whole.contains(&y));
        for (k, (x, indices)) in elements(stmt).into_iter().enumerate() {
            let Some(form) = self.filled.get(&x) else { continue };
            let is_under = guard_of(stmt, k).is_some_and(|p| is_under(form, &indices, p));
            let is_element = own.is_some_and(|own| own.is_of(form)) && is_whole(&indices, stmt.dims.len());
            found.extend((!is_under && !is_element && summed_along(stmt, k, form).is_none()).then_some(x));
        }
        found
    }
}

/// The axis of an operand that a statement sums up all along, where nothing else depends on the place in the row.
fn summed_along(stmt: &Stmt, k: usize, form: &Form) -> Option<usize> {
    let Rhs::Contract { guard, operands, .. } = &stmt.rhs else { return None };
    let x = operands.get(k)?;
    let is_summed = |axis: &&usize| {
        x.indices.get(**axis).is_some_and(|s| {
            let mut others = operands.iter().enumerate().filter(|(other, _)| *other != k);
            s.index() >= stmt.dims.len() && !guard.mentions(*s) && others.all(|(_, x)| !x.indices.contains(s))
        })
    };
    form.along.iter().rev().find(is_summed).filter(|_| are_apart(&x.indices)).copied()
}

/// The `gen` indices of a statement.
fn indices_of(stmt: &Stmt) -> Vec<IndexId> {
    (0..stmt.dims.len()).map(IndexId::from_index).collect()
}

/// The relation from outside that a conjunct asks at different axes of a tensor of so many, which axis each argument is, and whether it is to hold.
fn at_axes(p: &Pred, rank: usize) -> Option<(RelationId, Vec<usize>, bool)> {
    let Pred::Relation { relation: RelationRef::Input(relation), args, holds } = p else { return None };
    let axis = |a: &Affine| a.as_index().map(IndexId::index).filter(|axis| *axis < rank);
    let axes: Vec<usize> = args.iter().map(axis).collect::<Option<_>>()?;
    are_apart(&axes).then_some((*relation, axes, *holds))
}

fn are_apart<T: Ord>(items: &[T]) -> bool {
    items.iter().collect::<BTreeSet<_>>().len() == items.len()
}

/// The tensors that a statement reads, and at which indices, without those that guards ask.
fn elements(stmt: &Stmt) -> Vec<(VarId, Vec<IndexId>)> {
    let all = || indices_of(stmt);
    match &stmt.rhs {
        Rhs::Input { .. } | Rhs::Number(_) => Vec::new(),
        Rhs::Add(sides) => sides.iter().map(|(_, x)| (*x, all())).collect(),
        Rhs::Map { args, .. } => args.iter().map(|x| (*x, all())).collect(),
        Rhs::Contract { operands, .. } => operands.iter().map(|x| (x.var, x.indices.clone())).collect(),
    }
}

/// The guard under which a statement reads its tensor of a number.
fn guard_of(stmt: &Stmt, k: usize) -> Option<&Pred> {
    match &stmt.rhs {
        Rhs::Add(sides) => sides.get(k).map(|(p, _)| p),
        rhs => rhs.guards().next(),
    }
}

/// Whether indices are those of the axes of a statement, in order.
fn is_whole(indices: &[IndexId], rank: usize) -> bool {
    indices.len() == rank && indices.iter().enumerate().all(|(axis, i)| i.index() == axis)
}

/// Whether a tensor is read in the relation alone.
fn is_under(form: &Form, indices: &[IndexId], p: &Pred) -> bool {
    form.atom(indices, true).is_some_and(|atom| p.conjuncts().contains(&atom))
}

/// Writes the program.
struct Rewrite<'p> {
    forms: &'p Forms<'p>,
    parts: BTreeMap<VarId, Parts<'p>>,
}

/// A tensor with a fill value.
struct Parts<'p> {
    form: &'p Form,
    /// What it is on the relation; itself where it is made as a whole.
    entries: VarId,
    /// The fill values.
    fill: VarId,
    is_whole: bool,
}

impl<'p> Rewrite<'p> {
    fn stmt(&mut self, builder: &mut Builder, x: VarId, stmt: &Stmt) -> Result<VarId> {
        let mut made = self.summed(builder, stmt)?;
        if made.is_none() {
            made = counted(builder, stmt)?;
        }
        let y = made.map_or_else(|| builder.push(&self.on_entries(stmt)), Ok)?;
        if let Some(form) = self.forms.filled.get(&x) {
            let is_whole = self.forms.whole.contains(&x);
            let entries = if is_whole { y } else { self.entries(builder, stmt, form)? };
            let fill = self.fill(builder, stmt, form)?;
            self.parts.insert(y, Parts { form, entries, fill, is_whole });
        }
        Ok(y)
    }

    /// The tensor that stands for another one on the relation.
    fn on(&self, x: VarId, form: &Form) -> VarId {
        self.parts.get(&x).filter(|parts| parts.form.is_of(form)).map_or(x, |parts| parts.entries)
    }

    /// A statement that reads tensors on the relation alone where its guards say so.
    fn on_entries(&self, stmt: &Stmt) -> Stmt {
        let mut found = stmt.clone();
        let read = |x: VarId, indices: &[IndexId], p: &Pred| match self.parts.get(&x) {
            Some(parts) if is_under(parts.form, indices, p) => parts.entries,
            _ => x,
        };
        let all = indices_of(stmt);
        match &mut found.rhs {
            Rhs::Input { .. } | Rhs::Number(_) => {}
            Rhs::Add(sides) => sides.iter_mut().for_each(|(p, x)| *x = read(*x, &all, p)),
            Rhs::Map { guard, args, .. } => args.iter_mut().for_each(|x| *x = read(*x, &all, guard)),
            Rhs::Contract { guard, operands, .. } => {
                operands.iter_mut().for_each(|x| x.var = read(x.var, &x.indices, guard));
            }
        }
        found
    }

    /// What a tensor of the form is on the relation.
    fn entries(&self, builder: &mut Builder, stmt: &Stmt, form: &Form) -> Result<VarId> {
        let OpenStmt { gens, rhs, .. } = builder.open_stmt(stmt)?;
        let indices: Vec<IndexId> = gens.iter().map(|(i, _)| *i).collect();
        let atom = form.atom(&indices, true).unwrap_or(Pred::True);
        match rhs {
            Rhs::Input { .. } | Rhs::Number(_) => builder.push(stmt),
            Rhs::Add(sides) => {
                let inside = sides.into_iter().filter_map(|(p, x)| match form.side(&indices, &p)? {
                    (Side::Inside, _) => Some((p, self.on(x, form))),
                    (Side::Outside, _) => None,
                    (Side::Both, _) => Some((p.and(atom.clone()), self.on(x, form))),
                });
                added(builder, &gens, inside.collect())
            }
            Rhs::Map { guard, function, args } => {
                let args = args.into_iter().map(|x| self.on(x, form)).collect();
                builder.map(&gens, guard.and(atom), function, args)
            }
            Rhs::Contract { guard, operands, .. } => {
                let operands = operands.into_iter().map(|x| Operand { var: self.on(x.var, form), ..x }).collect();
                builder.contract(&gens, &[], guard.and(atom), operands)
            }
        }
    }

    /// The fill values of a tensor of the form, over its other axes.
    fn fill(&self, builder: &mut Builder, stmt: &Stmt, form: &Form) -> Result<VarId> {
        let OpenStmt { gens, rhs, .. } = builder.open_stmt(stmt)?;
        let indices: Vec<IndexId> = gens.iter().map(|(i, _)| *i).collect();
        let others = form.others(&gens);
        match rhs {
            Rhs::Input { .. } | Rhs::Number(_) => builder.push(stmt),
            Rhs::Add(sides) => {
                let mut outside = Vec::new();
                for (p, x) in sides {
                    if let Some((Side::Outside | Side::Both, rest)) = form.side(&indices, &p) {
                        outside.push((rest, self.filled(builder, x, form)?));
                    }
                }
                added(builder, &others, outside)
            }
            Rhs::Map { guard, function, args } => {
                let args = args.into_iter().map(|x| self.filled(builder, x, form)).collect::<Result<_>>()?;
                builder.map(&others, guard, function, args)
            }
            Rhs::Contract { guard, operands, .. } => {
                let indices: Vec<IndexId> = others.iter().map(|(i, _)| *i).collect();
                let filled =
                    |x: Operand| Ok(Operand { var: self.filled(builder, x.var, form)?, indices: indices.clone() });
                let operands = operands.into_iter().map(filled).collect::<Result<_>>()?;
                builder.contract(&others, &[], guard, operands)
            }
        }
    }

    /// What stands outside of the relation in a tensor that a statement of the form reads at all its indices.
    fn filled(&self, builder: &mut Builder, x: VarId, form: &Form) -> Result<VarId> {
        let stmt = builder.stmt(x).clone();
        let OpenStmt { gens, rhs, .. } = builder.open_stmt(&stmt)?;
        let (others, indices) = (form.others(&gens), gens.iter().map(|(i, _)| *i).collect::<Vec<_>>());
        if let Some(parts) = self.parts.get(&x).filter(|parts| parts.form.is_of(form)) {
            let fill = Operand { var: parts.fill, indices: parts.form.others(&indices) };
            return builder.contract(&others, &[], Pred::True, vec![fill]);
        }
        match rhs {
            Rhs::Number(number) => builder.number(&others, number),
            Rhs::Contract { guard, operands, .. } => match form.side(&indices, &guard) {
                Some((Side::Outside | Side::Both, rest)) => builder.contract(&others, &[], rest, operands),
                Some((Side::Inside, _)) | None => builder.number(&others, Number::Literal(0.0)),
            },
            _ => builder.number(&others, Number::Literal(0.0)),
        }
    }

    /// A sum over all of each row of an operand, as one over entries and what fills the rest.
    fn summed(&self, builder: &mut Builder, stmt: &Stmt) -> Result<Option<VarId>> {
        let Rhs::Contract { operands, .. } = &stmt.rhs else { return Ok(None) };
        let found = operands.iter().enumerate().find_map(|(k, x)| {
            let parts = self.parts.get(&x.var).filter(|parts| !parts.is_whole)?;
            summed_along(stmt, k, parts.form).map(|axis| (k, axis, parts))
        });
        let Some((k, axis, &Parts { form, entries, fill, .. })) = found else { return Ok(None) };
        let OpenStmt { gens, sums, rhs } = builder.open_stmt(stmt)?;
        let Rhs::Contract { guard, operands, .. } = rhs else { return Ok(None) };
        let Some(x) = operands.get(k) else { return Ok(None) };
        let Some(atom) = form.atom(&x.indices, true) else { return Ok(None) };
        let part = |builder: &mut Builder, sums: &[(IndexId, Size)], guard: Pred, own: Operand| {
            let own = |(other, x): (usize, &Operand)| if other == k { own.clone() } else { x.clone() };
            builder.contract(&gens, sums, guard, operands.iter().enumerate().map(own).collect())
        };
        let inside =
            part(builder, &sums, guard.clone().and(atom), Operand { var: entries, indices: x.indices.clone() })?;
        let weighted = weighted(builder, form, axis, fill, x.var)?;
        let others: Vec<(IndexId, Size)> =
            sums.iter().filter(|(i, _)| Some(i) != x.indices.get(axis)).cloned().collect();
        let outside = part(builder, &others, guard, Operand { var: weighted, indices: without(&x.indices, axis) })?;
        builder.add(&gens, [(Pred::True, inside), (Pred::True, outside)]).map(Some)
    }
}

/// A sum over the places that are not in a relation, of what is the same at all of them, as a product.
fn counted(builder: &mut Builder, stmt: &Stmt) -> Result<Option<VarId>> {
    if stmt.rhs.sums().is_empty() {
        return Ok(None);
    }
    let OpenStmt { gens, sums, rhs } = builder.open_stmt(stmt)?;
    let Some(Complement { relation, args, along, at }) = Complement::of(&rhs, &|i| sums.iter().any(|(s, _)| *s == i))
    else {
        return Ok(None);
    };
    let Rhs::Contract { guard, mut operands, .. } = rhs else { return Ok(None) };
    let extent = |i: &IndexId| gens.iter().chain(&sums).find(|(j, _)| j == i).cloned();
    let args: Vec<(IndexId, Size)> = args.iter().filter_map(extent).collect();
    let (missing, is_missing) = missing(builder, relation, &args, along)?;
    let others = guard.conjuncts().iter().enumerate().filter(|(other, _)| *other != at).map(|(_, p)| p.clone());
    let guard = Pred::all(others.chain([is_missing]).collect::<Vec<_>>());
    let sums: Vec<(IndexId, Size)> = sums.iter().filter(|(i, _)| *i != along).cloned().collect();
    operands.push(missing);
    builder.contract(&gens, &sums, guard, operands).map(Some)
}

/// The sum of what is added up, of which there may be one.
fn added(builder: &mut Builder, gens: &[(IndexId, Size)], sides: Vec<(Pred, VarId)>) -> Result<VarId> {
    let indices: Vec<IndexId> = gens.iter().map(|(i, _)| *i).collect();
    match <[(Pred, VarId); 2]>::try_from(sides) {
        Ok(sides) => builder.add(gens, sides),
        Err(sides) => match sides.into_iter().next() {
            Some((p, var)) => builder.contract(gens, &[], p, vec![Operand { var, indices }]),
            None => builder.number(gens, Number::Literal(0.0)),
        },
    }
}

/// A list without the item of an axis.
fn without<T: Clone>(items: &[T], axis: usize) -> Vec<T> {
    items.iter().enumerate().filter(|(other, _)| *other != axis).map(|(_, item)| item.clone()).collect()
}

/// The fill values of a tensor, each times the number of places that it fills along an axis, where there are some.
fn weighted(builder: &mut Builder, form: &Form, axis: usize, fill: VarId, x: VarId) -> Result<VarId> {
    let dims = builder.dims(x).to_vec();
    let gens = builder.fresh_indices(&dims);
    let args: Vec<(IndexId, Size)> = form.args.iter().map(|axis| gens[*axis].clone()).collect();
    let (missing, is_missing) = missing(builder, form.relation, &args, gens[axis].0)?;
    let fill = Operand { var: fill, indices: form.others(&gens).iter().map(|(i, _)| *i).collect() };
    builder.contract(&without(&gens, axis), &[], is_missing, vec![missing, fill])
}

/// How many places of a row are not in a relation at these indices, of which one goes along the row; and that there are some.
fn missing(
    builder: &mut Builder,
    relation: RelationId,
    args: &[(IndexId, Size)],
    along: IndexId,
) -> Result<(Operand, Pred)> {
    let (row, rows): (Vec<_>, Vec<_>) = args.iter().cloned().partition(|(i, _)| *i == along);
    let extent = row.first().map_or(Size::constant(0), |(_, n)| n.clone());
    let at_rows: Vec<IndexId> = rows.iter().map(|(i, _)| *i).collect();
    let number = |builder: &mut Builder, x: f64| {
        Ok::<_, crate::Error>(Operand { var: builder.number(&[], Number::Literal(x))?, indices: Vec::new() })
    };
    let read = |var: VarId| Operand { var, indices: at_rows.clone() };
    let entries = Pred::relation(RelationRef::Input(relation), Affine::indices(args));
    let one = number(builder, 1.0)?;
    let count = builder.contract(&rows, &row, entries, vec![one])?;
    let minus = number(builder, -1.0)?;
    let less = builder.contract(&rows, &[], Pred::True, vec![read(count), minus])?;
    let all = builder.number(&rows, Number::Index(extent))?;
    let missing = builder.add(&rows, [(Pred::True, all), (Pred::True, less)])?;
    let is_missing = RelationRef::Computed { var: missing, view: View::Support };
    let is_missing = Pred::relation(is_missing, at_rows.iter().map(|i| (*i).into()).collect());
    Ok((read(missing), is_missing))
}

/// That a sum is over all places of a row that are not in a relation, of which nothing else depends on the place.
struct Complement {
    relation: RelationId,
    args: Vec<IndexId>,
    /// The index that goes along the row.
    along: IndexId,
    /// Where the conjunct stands.
    at: usize,
}

impl Complement {
    /// That of a statement with these `sum` indices.
    fn of(rhs: &Rhs, is_sum: &dyn Fn(IndexId) -> bool) -> Option<Complement> {
        let Rhs::Contract { guard, operands, .. } = rhs else { return None };
        let [x] = operands.as_slice() else { return None };
        guard.conjuncts().iter().enumerate().find_map(|(at, p)| {
            let Pred::Relation { relation: RelationRef::Input(relation), args, holds: false } = p else { return None };
            let args: Vec<IndexId> = args.iter().map(Affine::as_index).collect::<Option<_>>()?;
            let others = || guard.conjuncts().iter().enumerate().filter(|(other, _)| *other != at);
            let is_free = |i: &IndexId| is_sum(*i) && !x.indices.contains(i) && !others().any(|(_, p)| p.mentions(*i));
            let along = *args.iter().find(|i| is_free(i))?;
            are_apart(&args).then_some(Complement { relation: *relation, args, along, at })
        })
    }
}
