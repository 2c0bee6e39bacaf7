//! Building Tensor-SSA: hash-consing, canonical index names and operand order, and opening statements.

use std::sync::Arc;

use super::canonical::{Canonical, within};
use super::data::{Operand, Output, Program, Rhs, Stmt};
use crate::base::{Arena, Id, IndexId, Interner, ParamId, SideTable, VarId, work};
use crate::error::Result;
use crate::index::{Affine, Pred, Size};
use crate::scalar::{Function, Number};
use crate::ty::{Side, Signature};

/// A statement with index names of its own, distinct from those of every other opened statement.
#[derive(Clone, Debug)]
pub struct OpenStmt {
    /// The `gen` indices with their ranges.
    pub gens: Vec<(IndexId, Size)>,
    /// The `sum` indices with their ranges.
    pub sums: Vec<(IndexId, Size)>,
    /// The right-hand side over these names. The ranges of its `sum` indices are repeated in `sums`.
    pub rhs: Rhs,
}

/// Builds a program statement by statement.
///
/// The functions take indices under any distinct names, and canonicalise: `gen` indices, `sum` indices and bound indices are
/// renumbered in this order, operands of sums and products are put in order, equal statements share one variable.
#[derive(Clone, Debug)]
pub struct Builder {
    signature: Arc<Signature>,
    stmts: Interner<VarId, Stmt>,
    names: Arena<VarId, String>,
    next_index: u32,
}

impl Builder {
    /// Fresh indices start here, far above the numbers inside statements.
    const FIRST_FRESH: u32 = 1 << 31;

    /// An empty program.
    pub fn new(signature: Arc<Signature>) -> Self {
        Builder { signature, stmts: Interner::new(), names: Arena::new(), next_index: Builder::FIRST_FRESH }
    }

    /// Continues a program: its statements keep their names.
    pub fn resume(program: &Program) -> Self {
        let mut builder = Builder::new(program.signature.clone());
        for stmt in program.stmts.values() {
            builder.stmts.intern(stmt.clone());
        }
        builder.names = program.names.clone();
        builder
    }

    /// What the program takes from outside.
    pub fn signature(&self) -> &Arc<Signature> {
        &self.signature
    }

    /// Replaces the signature by one that extends it.
    pub fn extend_signature(&mut self, signature: Arc<Signature>) {
        self.signature = signature;
    }

    /// An index that is in use nowhere.
    pub fn fresh_index(&mut self) -> IndexId {
        self.next_index += 1;
        IndexId(self.next_index)
    }

    /// Fresh indices over the axes of a tensor.
    pub fn fresh_indices(&mut self, dims: &[Size]) -> Vec<(IndexId, Size)> {
        dims.iter().map(|n| (self.fresh_index(), n.clone())).collect()
    }

    /// A statement.
    pub fn stmt(&self, x: VarId) -> &Stmt {
        &self.stmts[x]
    }

    /// The axes of a tensor.
    pub fn dims(&self, x: VarId) -> &[Size] {
        &self.stmts[x].dims
    }

    /// The number of statements so far.
    pub fn len(&self) -> usize {
        self.stmts.len()
    }

    /// Whether there are no statements yet.
    pub fn is_empty(&self) -> bool {
        self.stmts.is_empty()
    }

    /// Names a tensor for reading, unless it has a name.
    pub fn suggest_name(&mut self, x: VarId, name: &str) {
        if self.names[x].is_empty() {
            self.names[x] = name.to_owned();
        }
    }

    /// The names for reading.
    pub fn names(&self) -> &Arena<VarId, String> {
        &self.names
    }

    /// The name of a statement for reading, empty where it has none.
    pub fn name(&self, x: VarId) -> &str {
        &self.names[x]
    }

    pub(super) fn intern(&mut self, stmt: Stmt) -> VarId {
        work::charge(16);
        let x = self.stmts.intern(stmt);
        if x.index() == self.names.len() {
            self.names.push(String::new());
        }
        x
    }

    /// `pi .. pi x`, a leaf of a parameter with the given axes.
    pub fn input(&mut self, param: ParamId, path: Vec<Side>, dims: Vec<Size>) -> VarId {
        self.intern(Stmt { dims, rhs: Rhs::Input { param, path } })
    }

    /// `gen g. c`.
    ///
    /// # Errors
    /// [`Error::Overflow`](crate::Error::Overflow).
    pub fn number(&mut self, gens: &[(IndexId, Size)], number: Number) -> Result<VarId> {
        work::check()?;
        let number = match number {
            Number::Index(a) => match Canonical::new(gens, &[]).affine(&a)? {
                // An integer below 2^53 is the same number as a literal.
                a if a.as_constant().is_some_and(|k| k.unsigned_abs() < 1 << 53) => Number::Literal(a.offset() as f64),
                a => Number::Index(a),
            },
            literal => literal,
        };
        Ok(self.intern(Stmt { dims: dims(gens), rhs: Rhs::Number(number) }))
    }

    /// `gen g. [p0] * X0[g] + [p1] * X1[g]`.
    ///
    /// # Errors
    /// [`Error::Overflow`](crate::Error::Overflow).
    pub fn add(&mut self, gens: &[(IndexId, Size)], sides: [(Pred, VarId); 2]) -> Result<VarId> {
        work::check()?;
        let mut canonical = Canonical::new(gens, &[]);
        let [(p, x), (q, y)] = sides.map(|(p, x)| (within(gens.iter(), p), x));
        let mut sides = [(canonical.pred(&p)?, x), (canonical.pred(&q)?, y)];
        if (sides[0].1, &sides[0].0) > (sides[1].1, &sides[1].0) {
            sides.swap(0, 1);
        }
        Ok(self.intern(Stmt { dims: dims(gens), rhs: Rhs::Add(sides) }))
    }

    /// `gen g. [p] * f(X0[g], ..)`.
    ///
    /// # Errors
    /// [`Error::Overflow`](crate::Error::Overflow).
    pub fn map(
        &mut self,
        gens: &[(IndexId, Size)],
        guard: Pred,
        function: Function,
        args: Vec<VarId>,
    ) -> Result<VarId> {
        work::check()?;
        let guard = Canonical::new(gens, &[]).pred(&within(gens.iter(), guard))?;
        Ok(self.intern(Stmt { dims: dims(gens), rhs: Rhs::Map { guard, function, args } }))
    }

    /// `gen g. sum s. [p] * X0[..] * ..` over one or two operands, whose indices are among `g` and `s`.
    ///
    /// # Errors
    /// [`Error::Overflow`](crate::Error::Overflow).
    pub fn contract(
        &mut self,
        gens: &[(IndexId, Size)],
        sums: &[(IndexId, Size)],
        guard: Pred,
        operands: Vec<Operand>,
    ) -> Result<VarId> {
        work::check()?;
        super::canonical::contract(self, gens, sums, guard, operands)
    }

    /// The statement under fresh index names.
    ///
    /// # Errors
    /// [`Error::Overflow`](crate::Error::Overflow).
    pub fn open(&mut self, x: VarId) -> Result<OpenStmt> {
        let stmt = self.stmts[x].clone();
        self.opened(stmt)
    }

    /// Appends a statement that was made elsewhere, made canonical here.
    ///
    /// # Errors
    /// [`Error::Overflow`](crate::Error::Overflow).
    pub fn push(&mut self, stmt: &Stmt) -> Result<VarId> {
        let open = self.open_stmt(stmt)?;
        self.close(open)
    }

    /// Appends an opened statement, whatever was done to it.
    ///
    /// # Errors
    /// [`Error::Overflow`](crate::Error::Overflow).
    pub fn close(&mut self, open: OpenStmt) -> Result<VarId> {
        match open.rhs {
            Rhs::Input { param, path } => Ok(self.input(param, path, dims(&open.gens))),
            Rhs::Number(number) => self.number(&open.gens, number),
            Rhs::Add(sides) => self.add(&open.gens, sides),
            Rhs::Map { guard, function, args } => self.map(&open.gens, guard, function, args),
            Rhs::Contract { guard, operands, .. } => self.contract(&open.gens, &open.sums, guard, operands),
        }
    }

    /// Appends a program whose signature this one extends, with some inputs replaced by tensors of the same axes; gives its results.
    ///
    /// # Errors
    /// [`Error::Overflow`](crate::Error::Overflow) and [`Error::Bug`](crate::Error::Bug).
    pub fn append(
        &mut self,
        program: &Program,
        replace: &impl Fn(ParamId, &[Side]) -> Option<VarId>,
    ) -> Result<Vec<Output>> {
        self.append_with(program, |builder, _, stmt| {
            let replaced = match &stmt.rhs {
                Rhs::Input { param, path } => replace(*param, path),
                _ => None,
            };
            replaced.map_or_else(|| builder.push(stmt), Ok)
        })
    }

    /// Appends a program whose signature this one extends, each statement by `write`, which gets the name that it has there and the statement over the
    /// tensors of this program; gives its results.
    ///
    /// # Errors
    /// Those of `write`, and [`Error::Bug`](crate::Error::Bug).
    pub fn append_with(
        &mut self,
        program: &Program,
        mut write: impl FnMut(&mut Builder, VarId, &Stmt) -> Result<VarId>,
    ) -> Result<Vec<Output>> {
        let mut vars: SideTable<VarId, Option<VarId>> = SideTable::new(program.stmts.len(), None);
        for (x, stmt) in program.stmts.iter() {
            let y = write(self, x, &stmt.rename(&|operand| vars[operand])?)?;
            self.suggest_name(y, &program.names[x]);
            vars.set(x, Some(y));
        }
        let output = |output: &Output| {
            let leaves = output.leaves.iter().filter_map(|x| vars[*x]).collect();
            Output { leaves, ..output.clone() }
        };
        Ok(program.outputs.iter().map(output).collect())
    }

    /// A statement, which need not be of this program, under fresh index names.
    ///
    /// # Errors
    /// [`Error::Overflow`](crate::Error::Overflow).
    pub fn open_stmt(&mut self, stmt: &Stmt) -> Result<OpenStmt> {
        self.opened(stmt.clone())
    }

    fn opened(&mut self, stmt: Stmt) -> Result<OpenStmt> {
        let gens = self.fresh_indices(&stmt.dims);
        let sums = match &stmt.rhs {
            Rhs::Contract { sums, .. } => self.fresh_indices(sums),
            _ => Vec::new(),
        };
        let fresh: Vec<IndexId> = gens.iter().chain(&sums).map(|(i, _)| *i).collect();
        let rename = |i: IndexId| fresh.get(i.index()).copied();
        let rhs = match stmt.rhs {
            Rhs::Number(Number::Index(a)) => {
                Rhs::Number(Number::Index(a.substitute(&|i| rename(i).map(Affine::index))?))
            }
            Rhs::Add([(p, x), (q, y)]) => Rhs::Add([(self.freshen(&p, &rename)?, x), (self.freshen(&q, &rename)?, y)]),
            Rhs::Map { guard, function, args } => Rhs::Map { guard: self.freshen(&guard, &rename)?, function, args },
            Rhs::Contract { sums, guard, operands } => {
                let guard = self.freshen(&guard, &rename)?;
                let operands = operands
                    .into_iter()
                    .map(|x| Operand { var: x.var, indices: x.indices.iter().filter_map(|i| rename(*i)).collect() })
                    .collect();
                Rhs::Contract { sums, guard, operands }
            }
            closed @ (Rhs::Input { .. } | Rhs::Number(Number::Literal(_))) => closed,
        };
        Ok(OpenStmt { gens, sums, rhs })
    }

    /// A predicate with free indices renamed and bound ones made fresh.
    ///
    /// # Errors
    /// [`Error::Overflow`](crate::Error::Overflow).
    pub(crate) fn freshen(&mut self, p: &Pred, rename: &dyn Fn(IndexId) -> Option<IndexId>) -> Result<Pred> {
        Ok(match p {
            Pred::Exists { index, extent, body } => {
                let fresh = self.fresh_index();
                let inner = |i: IndexId| if i == *index { Some(fresh) } else { rename(i) };
                let body = self.freshen(body, &inner)?;
                Pred::exists(fresh, extent.clone(), body)
            }
            Pred::All(ps) => Pred::all(ps.iter().map(|p| self.freshen(p, rename)).collect::<Result<Vec<_>>>()?),
            Pred::Any(ps) => Pred::any(ps.iter().map(|p| self.freshen(p, rename)).collect::<Result<Vec<_>>>()?),
            atom => atom.substitute(&|i| rename(i).map(Affine::index))?,
        })
    }

    /// Ends the program. Statements that no output needs stay.
    pub fn finish(self, outputs: Vec<Output>) -> Program {
        Program { signature: self.signature, stmts: self.stmts.into_items().collect(), names: self.names, outputs }
    }
}

/// The ranges of indices.
fn dims(gens: &[(IndexId, Size)]) -> Vec<Size> {
    gens.iter().map(|(_, n)| n.clone()).collect()
}
