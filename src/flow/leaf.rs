//! Leaves made of programs: closed, put together, and read at other places.
//!
//! ```text
//! [ys = F(xs); zs = G(ys, ws)]  ==  (ys, zs) = H(xs, ws)      H the statements of F, and those of G over them
//! ```

use std::collections::BTreeMap;

use super::build::Builder;
use super::data::{Leaf, Loops, ValueId};
use crate::base::{Id, IndexId, ParamId, SizeId, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Checked, Pred, Size};
use crate::scalar::Number;
use crate::tssa::{self, Operand, Output, Program, Rhs, Stmt};
use crate::ty::{Side, Storage, Types};

const PASS: &str = "flow";

/// What a parameter of a program is, of those behind the parameters of the flow.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// A parameter of the flow.
    Param(ParamId),
    /// A value.
    Value(ValueId),
    /// A value for each leaf of its type.
    Values(Vec<(Vec<Side>, ValueId)>),
}

/// The sources of the values that a leaf takes.
pub(super) fn sources(leaf: &Leaf) -> Vec<Source> {
    leaf.takes.iter().map(|x| Source::Value(*x)).collect()
}

/// The value that a parameter is, if it is none of the `outer` ones of the flow.
fn taken(outer: usize, takes: &[ValueId], param: ParamId) -> Option<ValueId> {
    param.index().checked_sub(outer).and_then(|at| takes.get(at)).copied()
}

/// May give what stands for a statement of another program, which it gets over the variables here.
pub(super) type Write<'a> = &'a mut dyn FnMut(&mut Joined, VarId, &Stmt) -> Result<Option<VarId>>;

/// A leaf under construction.
pub(super) struct Joined {
    pub(super) builder: tssa::Builder,
    /// How many parameters the flow has.
    outer: usize,
    takes: Vec<ValueId>,
    /// What is computed here.
    known: BTreeMap<ValueId, VarId>,
}

impl Joined {
    pub fn new(flow: &Builder) -> Joined {
        let builder = tssa::Builder::new(flow.frame().clone());
        Joined { builder, outer: flow.signature().params.len(), takes: Vec::new(), known: BTreeMap::new() }
    }

    /// A value that is computed here, or taken.
    pub fn read(&mut self, x: ValueId, dims: Vec<Size>) -> VarId {
        if let Some(var) = self.known.get(&x) {
            return *var;
        }
        let param = self.take(x);
        self.builder.input(param, Vec::new(), dims)
    }

    fn take(&mut self, x: ValueId) -> ParamId {
        let at = self.takes.iter().position(|y| *y == x).unwrap_or_else(|| {
            self.takes.push(x);
            self.takes.len() - 1
        });
        ParamId::from_index(self.outer + at)
    }

    /// The value that a parameter is, if it is none of the flow.
    pub fn taken(&self, param: ParamId) -> Option<ValueId> {
        taken(self.outer, &self.takes, param)
    }

    /// The statements so far, and the value that a parameter is, if it is none of the flow.
    pub fn under_construction(&mut self) -> (&mut tssa::Builder, impl Fn(ParamId) -> Option<ValueId> + '_) {
        let Joined { builder, outer, takes, .. } = self;
        (builder, move |param| taken(*outer, takes, param))
    }

    /// Whether a value is computed here.
    pub fn knows(&self, x: ValueId) -> bool {
        self.known.contains_key(&x)
    }

    /// Says that a value is computed here.
    pub fn give(&mut self, x: ValueId, var: VarId) {
        self.known.insert(x, var);
    }

    /// An input of a program, of which `outer` parameters are those of the flow.
    pub fn input(&mut self, stmt: &Stmt, outer: usize, sources: &[Source]) -> Result<VarId> {
        let Rhs::Input { param, path } = &stmt.rhs else { return Err(Error::bug(PASS, "no input")) };
        let dims = stmt.dims.clone();
        match param.index().checked_sub(outer).map(|at| sources.get(at)) {
            None => Ok(self.builder.input(*param, path.clone(), dims)),
            Some(Some(Source::Param(param))) => Ok(self.builder.input(*param, path.clone(), dims)),
            Some(Some(Source::Value(x))) => Ok(self.read(*x, dims)),
            Some(Some(Source::Values(leaves))) => match leaves.iter().find(|(of, _)| of == path) {
                Some((_, x)) => Ok(self.read(*x, dims)),
                None => Err(Error::bug(PASS, "a leaf that is no value")),
            },
            Some(None) => Err(Error::bug(PASS, "a parameter that is no value")),
        }
    }

    /// Appends the statements of a program, of which `outer` parameters are those of the flow. `write` gets each of them, over the variables here, and may
    /// give what stands for it; the others are written as they are. Gives what each statement is.
    pub fn statements(
        &mut self,
        program: &Program,
        outer: usize,
        sources: &[Source],
        write: Write<'_>,
    ) -> Result<BTreeMap<VarId, VarId>> {
        let mut vars: BTreeMap<VarId, VarId> = BTreeMap::new();
        for (x, stmt) in program.stmts.iter() {
            let stmt = stmt.rename(&|operand| vars.get(&operand).copied())?;
            let var = match (write(self, x, &stmt)?, &stmt.rhs) {
                (Some(var), _) => var,
                (None, Rhs::Input { .. }) => self.input(&stmt, outer, sources)?,
                (None, _) => self.builder.push(&stmt)?,
            };
            self.builder.suggest_name(var, &program.names[x]);
            vars.insert(x, var);
        }
        Ok(vars)
    }

    /// [`Joined::statements`] of the program of a leaf that takes these values, with what stands for sizes and indices.
    pub fn statements_resized(
        &mut self,
        leaf: &Leaf,
        sources: &[Source],
        of: &dyn Fn(&Affine) -> Checked<Affine>,
    ) -> Result<BTreeMap<VarId, VarId>> {
        let outer = leaf.outer_params();
        self.statements(&leaf.program, outer, sources, &mut |joined, _, stmt| {
            let stmt = resized(stmt, of)?;
            let var = match stmt.rhs {
                Rhs::Input { .. } => joined.input(&stmt, outer, sources),
                _ => joined.builder.push(&stmt),
            }?;
            // x + [false] * y  ==  x
            let builder = &joined.builder;
            Ok(Some(match &builder.stmt(var).rhs {
                Rhs::Add([(p, x), (q, y)]) if p.is_true() && (q.is_false() || is_zero(builder, *y)) => *x,
                Rhs::Add([(p, x), (q, y)]) if q.is_true() && (p.is_false() || is_zero(builder, *x)) => *y,
                _ => var,
            }))
        })
    }

    /// [`Joined::statements`] of the program of a leaf.
    pub fn statements_of(&mut self, leaf: &Leaf, write: Write<'_>) -> Result<BTreeMap<VarId, VarId>> {
        self.statements(&leaf.program, leaf.outer_params(), &sources(leaf), write)
    }

    /// Appends a program as [`Joined::statements`] does. Statements in `instead` are read from values.
    pub fn append(
        &mut self,
        program: &Program,
        outer: usize,
        sources: &[Source],
        instead: &BTreeMap<VarId, ValueId>,
    ) -> Result<Vec<Output>> {
        let vars = self.statements(program, outer, sources, &mut |joined, x, stmt| {
            let value = instead.get(&x).filter(|_| !matches!(stmt.rhs, Rhs::Input { .. }));
            Ok(value.map(|value| joined.read(*value, stmt.dims.clone())))
        })?;
        let output = |output: &Output| {
            let leaves = output.leaves.iter().filter_map(|x| vars.get(x).copied()).collect();
            Output { leaves, ..output.clone() }
        };
        Ok(program.outputs.iter().map(output).collect())
    }

    /// Appends a leaf, and says what it gives.
    pub fn leaf(&mut self, leaf: &Leaf, instead: &BTreeMap<VarId, ValueId>) -> Result<()> {
        let outputs = self.append(&leaf.program, leaf.outer_params(), &sources(leaf), instead)?;
        for (x, output) in leaf.gives.iter().zip(&outputs) {
            output.leaves.iter().for_each(|var| self.give(*x, *var));
        }
        Ok(())
    }

    /// Says that what a leaf gives is computed here, its statements being these.
    pub fn give_all(&mut self, leaf: &Leaf, vars: &BTreeMap<VarId, VarId>) -> Result<()> {
        for (x, output) in leaf.gives.iter().zip(&leaf.program.outputs) {
            for var in &output.leaves {
                let var = vars.get(var).ok_or_else(|| Error::bug(PASS, "an output without a statement"))?;
                self.give(*x, *var);
            }
        }
        Ok(())
    }

    /// The leaf that gives some of what is computed here.
    pub fn finish(mut self, flow: &Builder, loops: &Loops, gives: Vec<ValueId>) -> Result<Leaf> {
        let mut outputs = Vec::with_capacity(gives.len());
        for x in &gives {
            let value = flow.get(*x);
            let leaf = *self.known.get(x).ok_or_else(|| Error::bug(PASS, format!("{x} is not computed")))?;
            outputs.push(Output { name: value.name.clone(), ty: value.ty, storage: value.storage, leaves: vec![leaf] });
        }
        self.builder.extend_signature(flow.leaf_signature(loops, &self.takes)?);
        let program = self.builder.finish(outputs).prune()?;
        without_unread(Leaf { program, takes: self.takes, gives }, flow, loops)
    }
}

/// The leaf without values that it does not read.
fn without_unread(leaf: Leaf, flow: &Builder, loops: &Loops) -> Result<Leaf> {
    let outer = leaf.outer_params();
    let mut read = vec![false; leaf.takes.len()];
    for stmt in leaf.program.stmts.values() {
        if let Rhs::Input { param, .. } = stmt.rhs
            && let Some(read) = param.index().checked_sub(outer).and_then(|at| read.get_mut(at))
        {
            *read = true;
        }
    }
    if read.iter().all(|read| *read) {
        return Ok(leaf);
    }
    let mut joined = Joined::new(flow);
    joined.leaf(&leaf, &BTreeMap::new())?;
    joined.finish(flow, loops, leaf.gives)
}

/// A leaf without some of the values that it gives.
pub(super) fn only(leaf: &Leaf, kept: &dyn Fn(ValueId) -> bool, flow: &Builder, loops: &Loops) -> Result<Leaf> {
    let kept: Vec<usize> = (0..leaf.gives.len()).filter(|at| leaf.gives.get(*at).is_some_and(|x| kept(*x))).collect();
    if kept.len() == leaf.gives.len() {
        return Ok(leaf.clone());
    }
    let mut program = leaf.program.clone();
    program.outputs = kept.iter().filter_map(|at| leaf.program.outputs.get(*at).cloned()).collect();
    let gives = kept.iter().filter_map(|at| leaf.gives.get(*at).copied()).collect();
    let leaf = Leaf { program: program.clone(), takes: leaf.takes.clone(), gives };
    with_program(&leaf, program.prune()?, flow, loops)
}

/// A leaf with its program replaced by another one over the same parameters.
pub(super) fn with_program(leaf: &Leaf, program: Program, flow: &Builder, loops: &Loops) -> Result<Leaf> {
    without_unread(Leaf { program, takes: leaf.takes.clone(), gives: leaf.gives.clone() }, flow, loops)
}

/// Whether a statement is zero as it stands.
fn is_zero(builder: &tssa::Builder, x: VarId) -> bool {
    match &builder.stmt(x).rhs {
        Rhs::Number(Number::Literal(k)) => *k == 0.0,
        rhs => rhs.guards().next().is_some() && rhs.guards().all(Pred::is_false),
    }
}

/// A statement with other lengths, guards and numbers, as sizes are replaced in index expressions.
fn resized(stmt: &Stmt, of: &dyn Fn(&Affine) -> Checked<Affine>) -> Result<Stmt> {
    let all = |sizes: &[Size]| sizes.iter().map(of).collect::<Checked<Vec<_>>>();
    let guard = |p: &Pred| p.map_affine(&mut |a| of(a));
    let rhs = match stmt.rhs.clone() {
        Rhs::Number(Number::Index(a)) => Rhs::Number(Number::Index(of(&a)?)),
        Rhs::Add([(p, x), (q, y)]) => Rhs::Add([(guard(&p)?, x), (guard(&q)?, y)]),
        Rhs::Map { guard: p, function, args } => Rhs::Map { guard: guard(&p)?, function, args },
        Rhs::Contract { sums, guard: p, operands } => Rhs::Contract { sums: all(&sums)?, guard: guard(&p)?, operands },
        other @ (Rhs::Input { .. } | Rhs::Number(Number::Literal(_))) => other,
    };
    Ok(Stmt { dims: all(&stmt.dims)?, rhs })
}

/// Small leaves.
pub(super) struct Small<'a> {
    pub flow: &'a mut Builder,
    pub loops: &'a Loops,
}

impl Small<'_> {
    /// A leaf that computes one tensor.
    fn one(
        &mut self,
        name: &str,
        dims: &[Size],
        storage: Storage,
        make: impl FnOnce(&mut Joined) -> Result<VarId>,
    ) -> Result<Leaf> {
        let ty = self.flow.types().tensor_of(dims, Types::REAL);
        let value = self.flow.value(name, ty, storage);
        let mut joined = Joined::new(self.flow);
        let var = make(&mut joined)?;
        joined.give(value, var);
        joined.finish(self.flow, self.loops, vec![value])
    }

    /// `gen g. x[places(g)]`.
    pub fn gather(
        &mut self,
        name: &str,
        x: ValueId,
        dims: &[Size],
        places: impl FnOnce(&[IndexId]) -> Result<Vec<Affine>>,
    ) -> Result<Leaf> {
        self.gather_where(name, x, dims, |gens| Ok((Pred::True, places(gens)?)))
    }

    /// `gen g. [guard(g)] * x[places(g)]`.
    pub fn gather_where(
        &mut self,
        name: &str,
        x: ValueId,
        dims: &[Size],
        read: impl FnOnce(&[IndexId]) -> Result<(Pred, Vec<Affine>)>,
    ) -> Result<Leaf> {
        let axes = self.flow.dims(x)?;
        self.one(name, dims, Storage::Dense, |joined| {
            let operand = joined.read(x, axes.clone());
            let builder = &mut joined.builder;
            let gens = builder.fresh_indices(dims);
            let indices: Vec<IndexId> = gens.iter().map(|(i, _)| *i).collect();
            let mut sums = Vec::new();
            let mut at = Vec::with_capacity(axes.len());
            let (mut guard, places) = read(&indices)?;
            for (place, extent) in places.into_iter().zip(&axes) {
                let direct = place.as_index().filter(|i| gens.iter().any(|(j, n)| i == j && n == extent));
                at.push(match direct {
                    Some(i) => i,
                    None => {
                        let k = builder.fresh_index();
                        guard = guard.and(Pred::equal(&Affine::index(k), &place)?);
                        sums.push((k, extent.clone()));
                        k
                    }
                });
            }
            builder.contract(&gens, &sums, guard, vec![Operand { var: operand, indices: at }])
        })
    }

    /// The part of a tensor at a place of its first axis.
    pub fn slice(&mut self, name: &str, x: ValueId, at: &Affine) -> Result<Leaf> {
        let dims: Vec<Size> = self.flow.dims(x)?.into_iter().skip(1).collect();
        self.gather(name, x, &dims, |gens| Ok(place(at.clone(), gens)))
    }

    /// `gen t < n. x[t + shift]`.
    pub fn shifted(&mut self, name: &str, x: ValueId, n: &Size, shift: i64) -> Result<Leaf> {
        let rest = self.flow.dims(x)?.into_iter().skip(1);
        let dims: Vec<Size> = std::iter::once(n.clone()).chain(rest).collect();
        self.gather(name, x, &dims, |gens| match gens {
            [t, rest @ ..] => Ok(place(Affine::index(*t).add_constant(shift)?, rest)),
            [] => Err(Error::bug(PASS, "a path without an axis")),
        })
    }

    /// `gen t < n. x`.
    pub fn repeated(&mut self, name: &str, x: ValueId, n: &Size) -> Result<Leaf> {
        let dims: Vec<Size> = std::iter::once(n.clone()).chain(self.flow.dims(x)?).collect();
        self.gather(name, x, &dims, |gens| Ok(gens.iter().skip(1).map(|i| Affine::index(*i)).collect()))
    }

    /// `gen i, j. x[j, i]`, and further axes as they are.
    pub fn transposed(&mut self, name: &str, x: ValueId) -> Result<Leaf> {
        let mut dims = self.flow.dims(x)?;
        if dims.len() > 1 {
            dims.swap(0, 1);
        }
        self.gather(name, x, &dims, |gens| {
            let mut at: Vec<Affine> = gens.iter().map(|i| Affine::index(*i)).collect();
            if at.len() > 1 {
                at.swap(0, 1);
            }
            Ok(at)
        })
    }

    /// `sum t. x[t + shift]` for `t` below `n`.
    pub fn summed(&mut self, name: &str, x: ValueId, n: &Size, shift: i64) -> Result<Leaf> {
        let axes = self.flow.dims(x)?;
        let dims: Vec<Size> = axes.iter().skip(1).cloned().collect();
        self.one(name, &dims, Storage::Dense, |joined| {
            let operand = joined.read(x, axes.clone());
            let builder = &mut joined.builder;
            let gens = builder.fresh_indices(&dims);
            let (t, k) = (builder.fresh_index(), builder.fresh_index());
            let first = axes.first().cloned().unwrap_or_default();
            let guard = Pred::equal(&Affine::index(k), &Affine::index(t).add_constant(shift)?)?;
            let indices = std::iter::once(k).chain(gens.iter().map(|(i, _)| *i)).collect();
            builder.contract(&gens, &[(t, n.clone()), (k, first)], guard, vec![Operand { var: operand, indices }])
        })
    }

    /// The sum of values of one type and storage.
    pub fn sum(&mut self, name: &str, terms: &[ValueId]) -> Result<Leaf> {
        let [first, ..] = terms else { return Err(Error::bug(PASS, "a sum of nothing")) };
        let dims = self.flow.dims(*first)?;
        let storage = self.flow.get(*first).storage;
        self.one(name, &dims, storage, |joined| {
            let mut sum = None;
            for x in terms {
                let x = joined.read(*x, dims.clone());
                sum = Some(match sum {
                    None => x,
                    Some(sum) => {
                        let gens = joined.builder.fresh_indices(&dims);
                        let stored = storage.stored_at(&Affine::indices(&gens));
                        joined.builder.add(&gens, [(stored.clone(), sum), (stored, x)])?
                    }
                });
            }
            sum.ok_or_else(|| Error::bug(PASS, "a sum of nothing"))
        })
    }

    /// A tensor of one number.
    pub fn constant(&mut self, name: &str, dims: &[Size], x: f64) -> Result<Leaf> {
        self.one(name, dims, Storage::Dense, |joined| {
            let gens = joined.builder.fresh_indices(dims);
            joined.builder.number(&gens, Number::Literal(x))
        })
    }

    /// `gen g. [g = at] * 1`, on the pattern of a storage.
    pub fn one_hot(&mut self, name: &str, dims: &[Size], at: &[SizeId], storage: Storage) -> Result<Leaf> {
        self.one(name, dims, storage, |joined| {
            let gens = joined.builder.fresh_indices(dims);
            let mut guard = storage.stored_at(&Affine::indices(&gens));
            for ((i, _), c) in gens.iter().zip(at) {
                guard = guard.and(Pred::equal(&Affine::index(*i), &Affine::size(*c))?);
            }
            let var = joined.builder.number(&[], Number::Literal(1.0))?;
            joined.builder.contract(&gens, &[], guard, vec![Operand { var, indices: Vec::new() }])
        })
    }

    /// Zeros, on the pattern of a storage.
    pub fn zeros(&mut self, name: &str, dims: &[Size], storage: Storage) -> Result<Leaf> {
        self.one(name, dims, storage, |joined| {
            let gens = joined.builder.fresh_indices(dims);
            joined.builder.number(&gens, Number::Literal(0.0))
        })
    }

    /// `gen g. x[g] * y[g]`, of two values of one type and storage.
    pub fn product(&mut self, name: &str, x: ValueId, y: ValueId) -> Result<Leaf> {
        let (dims, storage) = (self.flow.dims(x)?, self.flow.get(x).storage);
        self.one(name, &dims, storage, |joined| {
            let (x, y) = (joined.read(x, dims.clone()), joined.read(y, dims.clone()));
            let gens = joined.builder.fresh_indices(&dims);
            let indices: Vec<IndexId> = gens.iter().map(|(i, _)| *i).collect();
            let operand = |var| Operand { var, indices: indices.clone() };
            let stored = storage.stored_at(&Affine::indices(&gens));
            joined.builder.contract(&gens, &[], stored, vec![operand(x), operand(y)])
        })
    }

    /// The leaves of a parameter of the flow as values.
    pub fn parameter(&mut self, param: ParamId) -> Result<Leaf> {
        let (name, ty, storage) = {
            let param = &self.flow.signature().params[param];
            (param.name.clone(), param.ty, param.storage)
        };
        let mut joined = Joined::new(self.flow);
        let mut gives = Vec::new();
        for part in self.flow.frame().types.leaves(ty)? {
            let ty = self.flow.types().tensor_of(&part.dims, Types::REAL);
            let value = self.flow.value(&name, ty, storage);
            let var = joined.builder.input(param, part.path, part.dims);
            joined.give(value, var);
            gives.push(value);
        }
        joined.finish(self.flow, self.loops, gives)
    }
}

/// A place and then plain indices.
fn place(first: Affine, rest: &[IndexId]) -> Vec<Affine> {
    std::iter::once(first).chain(rest.iter().map(|i| Affine::index(*i))).collect()
}
