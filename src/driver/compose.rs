//! Programs made of programs: one in place of a parameter of another, one for each value of a new index, and other names.
//!
//! All of it happens on terms, by copying: what has the same name in two programs is the same thing.
//!
//! ```text
//! [[let y = g in f]]                           f.substitute("y", &g)
//! [[gen k < n. f]] with x[k] for x             f.map(["x"], "n")
//! ```
//!
//! The sizes of the parameter that is replaced become those of what replaces it: where `y : [k] real` is given a result of the shape `[n + m - 1]`,
//! `k` is `n + m - 1` in all of `f`. Sizes are not negative, and `f` was proved in bounds under that; so where `n + m - 1` may be negative, the new
//! program assumes that it is not. Equal shapes and types are checked, and the result is verified as every program is.
//!
//! A mapped program has one more axis in front of each of its results; parameters that are not mapped are the same for all values of the index.
//!
//! Refused: sparse parameters that are replaced or mapped, and functions whose parameters [depend](Function::with_derivative) on others.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Function, Names};
use crate::base::{FunctionId, Id, IndexId, ParamId, RelationId, SizeId, VarId};
use crate::error::{Error, Result};
use crate::flow;
use crate::index::{Affine, Application, Checked, Pred, RelationRef, Size, Var};
use crate::present;
use crate::scalar::{self, Number, Primitive, UserFunction, UserValue};
use crate::stages::{self, Stages};
use crate::surface;
use crate::term::{NormalForm, Program, Term, TermId, VariableKind};
use crate::tssa::Output;
use crate::ty::{Param, Relation, RelationKind, Signature, Storage, Type, TypeId, Types};

impl Function {
    /// This program with the result of another one in place of a parameter.
    ///
    /// ```
    /// use iverson::prelude::*;
    ///
    /// let model = Function::parse("param X : [n, d] real\nparam w : [d] real\nmatvec(X, w)")?;
    /// let loss = Function::parse("param p : [k] real\nparam y : [k] real\nsum i < k. (p[i] - y[i])^2")?;
    /// let fit = loss.substitute("p", &model)?;
    /// let text = fit.gradient(["w"])?.to_string();
    /// assert_eq!(text.lines().last(), Some("in gen i < d. sum j < n. t0[j] * X[j, i]"));
    /// # Ok::<(), iverson::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Request`] for a parameter that there is not or that has another shape than the result, for names that mean two things, and for
    /// programs that have parameters which depend on others.
    pub fn substitute(&self, param: &str, inner: &Function) -> Result<Function> {
        let (f, g) = (self.term_to_copy()?, inner.term_to_copy()?);
        let replaced = f.signature.param(param);
        let replaced = replaced.ok_or_else(|| Error::Request(format!("the program has no parameter `{param}`")))?;
        if f.signature.params[replaced].storage != Storage::Dense {
            return Err(Error::Request(format!("`{param}` is sparse, which no result can stand for")));
        }
        let same_name = |made: &Signature, pattern: RelationId| {
            let name = &self.tssa.signature.relations.get(pattern)?.name;
            made.relations.iter().find(|(_, relation)| relation.name == *name).map(|(id, _)| id)
        };
        self.results_of(substituted(&f, replaced, &g)?, same_name)
    }

    /// This program of one parameter after another program: [`Function::substitute`] without the name.
    ///
    /// ```
    /// use iverson::prelude::*;
    ///
    /// let square = Function::parse("param v : [n] real\ngen i < n. v[i]^2")?;
    /// let sum = Function::parse("param v : [n] real\nsum i < n. v[i]")?;
    /// assert_eq!(sum.compose(&square)?.eval(&inputs! { "v" => [1.0, 2.0, 3.0] })?["value"].as_scalar(), Some(14.0));
    /// # Ok::<(), iverson::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::substitute`], and [`Error::Request`] for a program of several parameters.
    pub fn compose(&self, inner: &Function) -> Result<Function> {
        let mut names = self.tssa.signature.params.values().map(|param| param.name.as_str());
        match (names.next(), names.next()) {
            (Some(name), None) => self.substitute(name, inner),
            _ => Err(Error::Request("a program of several parameters: say which one with `substitute`".to_owned())),
        }
    }

    /// This program for each value of a new index, by which some parameters gain an axis in front, of a size of the given name, and so do all
    /// results: per-sample gradients are the map of the gradient of one sample.
    ///
    /// ```
    /// use iverson::prelude::*;
    ///
    /// let of_one = Function::parse("param x : [d] real\nparam y : real\nparam w : [d] real\n(dot(x, w) - y)^2")?;
    /// let of_each = of_one.gradient(["w"])?.map(["x", "y"], "n")?;
    /// let inputs = inputs! { "x" => [[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]], "y" => [1.0, 1.0, 1.0], "w" => [1.0, 1.0] };
    /// assert_eq!(of_each.eval(&inputs)?["grad_w"].as_slice(), Some(&[0.0, 0.0, 0.0, 4.0, 2.0, 2.0][..]));
    /// # Ok::<(), iverson::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Request`] for parameters that there are not or that are sparse, and as [`Function::substitute`]; [`Error::Limitation`] for a
    /// program that uses the places of largest or smallest elements.
    pub fn map(&self, params: impl Names, size: &str) -> Result<Function> {
        self.results_of(mapped(&self.term_to_copy()?, &params.names(), size)?, |_, _| None)
    }

    /// This program with other names for parameters, sizes, relations and maps: `f.rename([("x", "theta")])`. Results keep their names.
    ///
    /// ```
    /// use iverson::prelude::*;
    ///
    /// let f = Function::parse("param x : [n] real\nsum i < n. x[i]^2")?;
    /// assert_eq!(f.rename([("x", "theta"), ("n", "m")])?.to_string(), "param theta : [m] real\nsum i < m. theta[i]^2\n");
    /// # Ok::<(), iverson::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Request`] for a name that there is not, that is no name, or that something else has.
    pub fn rename<'n>(&self, names: impl IntoIterator<Item = (&'n str, &'n str)>) -> Result<Function> {
        self.results_of(renamed(self.term_to_copy()?, names)?, |_, pattern| Some(pattern))
    }

    /// The program as a term with no normal form.
    fn term_to_copy(&self) -> Result<Program> {
        if !self.dependents.is_empty() {
            let message = "a program with parameters that depend on others cannot be made part of another one";
            return Err(Error::Request(message.to_owned()));
        }
        let term = match &self.strict {
            Some(strict) => present::present(strict)?,
            None => self.term()?,
        };
        if term.form == NormalForm::Surface {
            return Ok(term);
        }
        let is_native =
            |function: &&UserFunction| matches!(function.value(), UserValue::Native(_) | UserValue::External(_));
        let native: Vec<UserFunction> = term.signature.functions.values().filter(is_native).cloned().collect();
        surface::read(&term.to_string(), &native)
    }

    /// The program that was made of the results of this one, with these as results of their own again: what a term has is one pair of all of them.
    /// They have the names of before, and the storage by patterns that are still there.
    fn results_of(
        &self,
        made: Program,
        pattern: impl Fn(&Signature, RelationId) -> Option<RelationId>,
    ) -> Result<Function> {
        let mut function = Function { sparse: self.sparse.clone(), ..Function::compile(made, &mut Stages::new())? };
        if let Some(flow) = &mut function.flow {
            let names = match &self.flow {
                Some(own) => own.outputs.iter().map(|output| output.name.clone()).collect(),
                None => self.tssa.outputs.iter().map(|output| output.name.clone()).collect(),
            };
            flow::split_result(flow, names)?;
            stages::check("compose", flow)?;
            return Ok(function);
        }
        let signature = function.tssa.signature.clone();
        let [output] = function.tssa.outputs.as_slice() else { return Ok(function) };
        let (mut ty, mut leaves) = (output.ty, output.leaves.as_slice());
        let mut results = Vec::new();
        for (k, original) in self.tssa.outputs.iter().enumerate() {
            let component = match signature.types.get(ty) {
                Type::Pair(first, rest) if k + 1 < self.tssa.outputs.len() => {
                    ty = *rest;
                    *first
                }
                _ => ty,
            };
            let own = leaves.split_off(..signature.types.leaves(component)?.len());
            let own = own.ok_or_else(|| Error::bug("compose", "results of other shapes"))?;
            let storage = match original.storage {
                Storage::Dense => Storage::Dense,
                Storage::Sparse(format, relation) => {
                    pattern(&signature, relation).map_or(Storage::Dense, |found| Storage::Sparse(format, found))
                }
            };
            results.push(Output { name: original.name.clone(), ty: component, storage, leaves: own.to_vec() });
        }
        function.tssa.outputs = results;
        stages::check("compose", &function.tssa)?;
        Ok(function)
    }
}

/// Copies the terms of a program into another.
struct Copier<'p> {
    from: &'p Program,
    sizes: Vec<Size>,
    params: Vec<Option<ParamId>>,
    relations: Vec<RelationId>,
    functions: Vec<FunctionId>,
    types: Vec<TypeId>,
    indices: Vec<IndexId>,
    variables: Vec<VarId>,
}

impl<'p> Copier<'p> {
    /// Copies what a program takes from outside into a signature, but for a parameter; sizes are known already.
    fn new(
        from: &'p Program,
        sizes: Vec<Size>,
        without: Option<ParamId>,
        into: &mut Signature,
        types: &mut Types,
    ) -> Result<Copier<'p>> {
        let mut copier = Copier {
            from,
            sizes,
            params: Vec::new(),
            relations: Vec::new(),
            functions: Vec::new(),
            types: Vec::new(),
            indices: Vec::new(),
            variables: Vec::new(),
        };
        let signature = &from.signature;
        for function in signature.functions.values() {
            let known = into.functions.iter().find(|(_, known)| known.name() == function.name());
            copier.functions.push(match known {
                Some((id, known)) if known == function => id,
                Some(_) => return Err(two("function", function.name())),
                None => into.functions.push(function.clone()),
            });
        }
        copier.copy_types(&from.types, types)?;
        copier.copy_params(without, into)?;
        for p in &signature.assumptions {
            let p = copier.pred(p)?;
            if !into.assumptions.contains(&p) {
                into.assumptions.push(p);
            }
        }
        Ok(copier)
    }

    fn copy_types(&mut self, from: &Types, into: &mut Types) -> Result<()> {
        // Components come before what they are part of.
        for (_, ty) in from.iter() {
            let ty = match ty {
                Type::Real => Types::REAL,
                Type::Pair(a, b) => into.pair(self.types[a.index()], self.types[b.index()]),
                Type::Tensor(n, element) => into.tensor(self.affine(n)?, self.types[element.index()]),
            };
            self.types.push(ty);
        }
        Ok(())
    }

    /// Parameters and relations, which refer to each other.
    fn copy_params(&mut self, without: Option<ParamId>, into: &mut Signature) -> Result<()> {
        let signature = &self.from.signature;
        let first = into.relations.len();
        for relation in signature.relations.values() {
            let shape = relation.shape.iter().map(|n| self.affine(n)).collect::<Result<Vec<_>>>()?;
            let known = into.relations.iter().find(|(_, known)| known.name == relation.name);
            self.relations.push(match known {
                Some((id, known)) => {
                    let same = std::mem::discriminant(&known.kind) == std::mem::discriminant(&relation.kind);
                    if known.shape != shape || !same {
                        return Err(two("relation", &relation.name));
                    }
                    id
                }
                None => into.relations.push(Relation { shape, ..relation.clone() }),
            });
        }
        for (id, param) in signature.params.iter() {
            if without == Some(id) {
                self.params.push(None);
                continue;
            }
            let ty = self.types[param.ty.index()];
            let storage = match param.storage {
                Storage::Dense => Storage::Dense,
                Storage::Sparse(format, pattern) => Storage::Sparse(format, self.relations[pattern.index()]),
            };
            self.params.push(Some(match into.param(&param.name) {
                Some(known) if into.params[known].ty == ty && into.params[known].storage == storage => known,
                Some(_) => return Err(two("parameter", &param.name)),
                None => into.params.push(Param { name: param.name.clone(), ty, storage }),
            }));
        }
        // The patterns that came with this program belong to its parameters.
        for at in first..into.relations.len() {
            let relation = &mut into.relations[RelationId::from_index(at)];
            if let RelationKind::Pattern(owner) = relation.kind {
                let owner = self.params.get(owner.index()).copied().flatten();
                let owner = owner.ok_or_else(|| Error::bug("compose", "a pattern without a parameter"))?;
                relation.kind = RelationKind::Pattern(owner);
            }
        }
        Ok(())
    }

    fn affine(&self, a: &Affine) -> Result<Affine> {
        Ok(self.outside(&a.substitute(&|i| self.indices.get(i.index()).map(|i| Affine::index(*i)))?)?)
    }

    /// An index expression with its sizes and maps as they are in the other program.
    fn outside(&self, a: &Affine) -> Checked<Affine> {
        a.replace(&mut |v| {
            Ok(match v {
                Var::Size(n) => self.sizes.get(n.index()).cloned(),
                Var::Apply(apply) => {
                    let map = self.relation(apply.map);
                    Some(Affine::var(Var::Apply(Box::new(Application { map, args: apply.args.clone() }))))
                }
                Var::Index(_) => None,
            })
        })
    }

    fn relation(&self, relation: RelationRef) -> RelationRef {
        match relation {
            RelationRef::Input(r) => RelationRef::Input(self.relations[r.index()]),
            RelationRef::Computed { var, view } => RelationRef::Computed { var: self.variables[var.index()], view },
        }
    }

    fn pred(&self, p: &Pred) -> Result<Pred> {
        let p = p.renamed(&|i| self.indices.get(i.index()).copied().unwrap_or(i))?;
        p.map_affine(&mut |a| self.outside(a))?.map_relations(&mut |r| Ok(self.relation(r)))
    }

    fn function(&self, function: scalar::Function) -> scalar::Function {
        let primitive = |primitive| match primitive {
            Primitive::User(f) => Primitive::User(self.functions[f.index()]),
            op @ Primitive::Op(_) => op,
        };
        match function {
            scalar::Function::Value(f) => scalar::Function::Value(primitive(f)),
            scalar::Function::Partial(f, at) => scalar::Function::Partial(primitive(f), at),
        }
    }

    /// Copies all terms; `instead` says which variable stands for the parameter that is left out, and `at` at which index those parameters are read
    /// that a map goes through.
    fn terms(
        &mut self,
        into: &mut Program,
        instead: Option<VarId>,
        at: &dyn Fn(ParamId) -> Option<Affine>,
    ) -> Result<TermId> {
        let from = self.from;
        self.indices = from.indices.values().map(|name| into.fresh_index(name.clone())).collect();
        for variable in from.variables.values() {
            let var = match variable.kind {
                VariableKind::Let => into.fresh_var(variable.name.clone(), self.types[variable.ty.index()]),
                VariableKind::Param(param) => match (self.params[param.index()], instead) {
                    (Some(param), _) => into.param(param),
                    (None, Some(instead)) => instead,
                    (None, None) => return Err(Error::bug("compose", "a parameter without a value")),
                },
            };
            self.variables.push(var);
        }
        let mut terms: Vec<TermId> = Vec::with_capacity(from.terms.len());
        for term in from.terms.values() {
            let copied = match term.map_operands(|e| terms[e.index()]) {
                Term::Number(Number::Index(a)) => Term::Number(Number::Index(self.affine(&a)?)),
                Term::Apply(f, args) => Term::Apply(self.function(f), args),
                Term::Call { function, sizes, args } => Term::Call {
                    function: self.functions[function.index()],
                    sizes: sizes.iter().map(|n| self.affine(n)).collect::<Result<_>>()?,
                    args,
                },
                Term::Gen { index, extent, body } => {
                    Term::Gen { index: self.indices[index.index()], extent: self.affine(&extent)?, body }
                }
                Term::Sum { index, extent, body } => {
                    Term::Sum { index: self.indices[index.index()], extent: self.affine(&extent)?, body }
                }
                Term::Access { array, index } => Term::Access { array, index: self.affine(&index)? },
                Term::Iverson { guard, body } => Term::Iverson { guard: self.pred(&guard)?, body },
                Term::Let { var, value, body } => Term::Let { var: self.variables[var.index()], value, body },
                Term::Scan { index, steps, down, state, init, body, implicit } => Term::Scan {
                    index: self.indices[index.index()],
                    steps: self.affine(&steps)?,
                    down,
                    state: self.variables[state.index()],
                    init,
                    body,
                    implicit: implicit.map(|most| self.affine(&most)).transpose()?,
                },
                Term::Var(x) => Term::Var(self.variables[x.index()]),
                other @ (Term::Number(_)
                | Term::Add(..)
                | Term::Mul(..)
                | Term::Pair(..)
                | Term::Fst(_)
                | Term::Snd(_)) => other,
            };
            let place = match term {
                Term::Var(x) => match from.variables[*x].kind {
                    VariableKind::Param(param) => at(param),
                    VariableKind::Let => None,
                },
                _ => None,
            };
            let mut id = into.push(copied)?;
            if let Some(index) = place {
                id = into.push(Term::Access { array: id, index })?;
            }
            terms.push(id);
        }
        terms.get(from.root.index()).copied().ok_or_else(|| Error::bug("compose", "a program without a root"))
    }
}

fn two(what: &str, name: &str) -> Error {
    Error::Request(format!("the {what} `{name}` is another one in the other program; one of them needs another name"))
}

/// `let param = g in f`
fn substituted(f: &Program, param: ParamId, g: &Program) -> Result<Program> {
    let mut signature = Signature::default();
    let mut sizes_of_g = Vec::new();
    for name in g.signature.sizes.values() {
        sizes_of_g.push(Size::size(signature.sizes.push(name.clone())));
    }
    let name = &f.signature.params[param].name;
    let misfit = || Error::Request(format!("the result has another type than `{name}`"));
    // The sizes of the parameter are those of the result.
    let (wanted, _) = f.types.peel(f.signature.params[param].ty);
    let (found, _) = g.types.peel(g.ty(g.root));
    if wanted.len() != found.len() {
        return Err(misfit());
    }
    let mut sizes: BTreeMap<SizeId, Size> = BTreeMap::new();
    for (wanted, found) in wanted.iter().zip(found) {
        if let Some(n) = wanted.as_size() {
            sizes.entry(n).or_insert_with(|| found.clone());
        }
    }
    let given: Vec<Size> = sizes.values().filter(|n| n.as_size().is_none()).cloned().collect();
    let mut sizes_of_f = Vec::new();
    for (id, name) in f.signature.sizes.iter() {
        let known = || signature.sizes.iter().find(|(_, known)| *known == name).map(|(id, _)| Size::size(id));
        let size = sizes.get(&id).cloned().or_else(known);
        sizes_of_f.push(size.unwrap_or_else(|| Size::size(signature.sizes.push(name.clone()))));
    }
    let mut types = Types::new();
    let mut of_g = Copier::new(g, sizes_of_g, None, &mut signature, &mut types)?;
    let mut of_f = Copier::new(f, sizes_of_f, Some(param), &mut signature, &mut types)?;
    for size in given {
        let holds = Pred::non_negative(size);
        if !signature.facts().proves(&holds) {
            signature.assumptions.push(holds);
        }
    }
    signature.types = types;
    if of_f.types[f.signature.params[param].ty.index()] != of_g.types[g.ty(g.root).index()] {
        return Err(misfit());
    }
    let ty = of_g.types[g.ty(g.root).index()];
    let mut program = Program::new(Arc::new(signature));
    let value = of_g.terms(&mut program, None, &|_| None)?;
    let var = program.fresh_var(name.clone(), ty);
    let body = of_f.terms(&mut program, Some(var), &|_| None)?;
    program.root = program.push(Term::Let { var, value, body })?;
    Ok(program)
}

/// `gen k < size. f`, where some parameters are read at `k`.
fn mapped(f: &Program, params: &[String], size: &str) -> Result<Program> {
    let mut ids = Vec::new();
    for name in params {
        let id = f.signature.param(name);
        let id = id.ok_or_else(|| Error::Request(format!("the program has no parameter `{name}`")))?;
        if f.signature.params[id].storage != Storage::Dense {
            return Err(Error::Request(format!("`{name}` is sparse, and a map goes through dense parameters")));
        }
        ids.push(id);
    }
    if uses_computed_relations(f) {
        let feature = "maps of programs that use the places of largest or smallest elements".to_owned();
        return Err(Error::Limitation { feature, span: None });
    }
    let mut signature = Signature { sizes: f.signature.sizes.clone(), ..Signature::default() };
    let known = signature.sizes.iter().find(|(_, known)| *known == size).map(|(id, _)| id);
    let extent = Size::size(known.unwrap_or_else(|| signature.sizes.push(size.to_owned())));
    let sizes = f.signature.sizes.ids().map(Size::size).collect();
    let mut types = Types::new();
    let mut copier = Copier::new(f, sizes, None, &mut signature, &mut types)?;
    for id in &ids {
        if let Some(param) = copier.params[id.index()] {
            let ty = signature.params[param].ty;
            signature.params[param].ty = types.tensor(extent.clone(), ty);
        }
    }
    signature.types = types;
    let mut program = Program::new(Arc::new(signature));
    let index = program.fresh_index("k");
    let body = copier.terms(&mut program, None, &|id| ids.contains(&id).then(|| Affine::index(index)))?;
    let all = program.push(Term::Gen { index, extent: extent.clone(), body })?;
    program.root = all;
    if !matches!(program.types.get(program.ty(body)), Type::Pair(..)) {
        return Ok(program);
    }
    let var = program.fresh_var("all", program.ty(all));
    let body = unzipped(&mut program, var, &extent)?;
    program.root = program.push(Term::Let { var, value: all, body })?;
    Ok(program)
}

/// An array of tuples as a tuple of arrays: `(gen k. fst x[k], gen k. snd x[k])`.
fn unzipped(program: &mut Program, var: VarId, extent: &Size) -> Result<TermId> {
    let Type::Tensor(_, element) = *program.types.get(program.variables[var].ty) else {
        return Err(Error::bug("compose", "an array is expected"));
    };
    // The components, which nest to the right, by how many `snd` lead there.
    let mut rest = element;
    let mut components = 1;
    while let Type::Pair(_, second) = *program.types.get(rest) {
        rest = second;
        components += 1;
    }
    let mut parts = Vec::new();
    for at in 0..components {
        let index = program.fresh_index("k");
        let array = program.push(Term::Var(var))?;
        let mut part = program.push(Term::Access { array, index: Affine::index(index) })?;
        for _ in 0..at {
            part = program.push(Term::Snd(part))?;
        }
        if at + 1 < components {
            part = program.push(Term::Fst(part))?;
        }
        parts.push(program.push(Term::Gen { index, extent: extent.clone(), body: part })?);
    }
    let last = parts.pop().ok_or_else(|| Error::bug("compose", "a tuple without components"))?;
    parts.into_iter().rev().try_fold(last, |rest, part| program.push(Term::Pair(part, rest)))
}

fn uses_computed_relations(program: &Program) -> bool {
    fn in_affine(a: &Affine) -> bool {
        let mut found = false;
        a.visit(&mut |v| found |= matches!(v, Var::Apply(apply) if apply.map.computed_from().is_some()));
        found
    }
    program.terms.values().any(|term| match term {
        Term::Access { index, .. } => in_affine(index),
        Term::Number(Number::Index(a)) => in_affine(a),
        Term::Iverson { guard, .. } => {
            let mut found = guard.reads_computed();
            guard.visit_affine(&mut |a| found |= in_affine(a));
            found
        }
        _ => false,
    })
}

fn renamed<'n>(mut program: Program, names: impl IntoIterator<Item = (&'n str, &'n str)>) -> Result<Program> {
    let signature = Arc::make_mut(&mut program.signature);
    let names: BTreeMap<&str, &str> = names.into_iter().collect();
    let (mut found, mut taken) = (Vec::new(), Vec::new());
    let mut rename = |name: &mut String| {
        if let Some((old, new)) = names.get_key_value(name.as_str()) {
            found.push(*old);
            *name = (*new).to_owned();
        }
        taken.push(name.clone());
    };
    for at in 0..signature.sizes.len() {
        rename(&mut signature.sizes[SizeId::from_index(at)]);
    }
    for at in 0..signature.params.len() {
        rename(&mut signature.params[ParamId::from_index(at)].name);
    }
    for at in 0..signature.relations.len() {
        let relation = &mut signature.relations[RelationId::from_index(at)];
        if relation.kind.is_given() {
            rename(&mut relation.name);
        }
    }
    if let Some(name) = names.keys().find(|name| !found.contains(name)) {
        return Err(Error::Request(format!("the program has no `{name}`")));
    }
    taken.sort();
    if let Some(twice) = taken.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Error::Request(format!("two things would be called `{}`", twice[0])));
    }
    for at in 0..signature.relations.len() {
        let relation = &mut signature.relations[RelationId::from_index(at)];
        if let RelationKind::Pattern(owner) = relation.kind {
            relation.name = format!("{}?", signature.params[owner].name);
        }
    }
    let params: Vec<(ParamId, String)> = program.signature.params.iter().map(|(id, p)| (id, p.name.clone())).collect();
    for (id, name) in params {
        let var = program.param(id);
        program.variables[var].name = name;
    }
    // A name that is none does not read back as itself.
    let is_native =
        |function: &&UserFunction| matches!(function.value(), UserValue::Native(_) | UserValue::External(_));
    let native: Vec<UserFunction> = program.signature.functions.values().filter(is_native).cloned().collect();
    let wrong = || Error::Request("a new name is no name of the language, or a word of it".to_owned());
    let read = surface::read(&program.to_string(), &native).map_err(|_| wrong())?;
    let same = |a: &Signature, b: &Signature| {
        a.params.values().map(|p| &p.name).eq(b.params.values().map(|p| &p.name))
            && a.sizes.values().all(|size| b.sizes.values().any(|other| other == size))
    };
    match same(&program.signature, &read.signature) {
        true => Ok(program),
        false => Err(wrong()),
    }
}
