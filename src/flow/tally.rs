//! A flow as a list of statements to count.
//!
//! ```text
//! [X = gen g < n. rhs, under loops t < T]  ==  X = gen t < T, g < n. rhs
//! ```
//!
//! All statements of all leaves, each with the steps of the loops around it as further axes: it has as many points as the statement takes all in all, and
//! so [`certificate::cost`](crate::certificate::cost) of the list is that of the flow. The list is no program to run: what statements read is left as
//! it is, and those that say the same stand as often as they run.

use super::data::{Leaf, Loops, Program, Scan, Stmt};
use super::early::to_the_end;
use crate::base::{Arena, Id, IndexId, VarId};
use crate::error::Result;
use crate::index::{Affine, Application, Pred, RelationRef, Size, Var};
use crate::scalar::Number;
use crate::tssa::{self, Operand, Output, Rhs};
use crate::ty::Storage;

/// The list.
///
/// # Errors
/// [`Error::Overflow`](crate::Error::Overflow).
pub fn tally(program: &Program) -> Result<tssa::Program> {
    let program = &to_the_end(program)?;
    let mut list = List { stmts: Arena::new(), names: Arena::new() };
    list.block(&program.body, &mut Vec::new())?;
    let storage = |output: &super::Output| output.values.first().map_or(Storage::Dense, |x| program.values[*x].storage);
    let output = |output: &super::Output| Output {
        name: output.name.clone(),
        ty: output.ty,
        storage: storage(output),
        leaves: Vec::new(),
    };
    let outputs = program.outputs.iter().map(output).collect();
    // The types of outputs are those of the frame.
    let mut signature = (*program.signature).clone();
    signature.types = program.frame.types.clone();
    Ok(tssa::Program { signature: signature.into(), stmts: list.stmts, names: list.names, outputs })
}

struct List {
    stmts: Arena<VarId, tssa::Stmt>,
    names: Arena<VarId, String>,
}

impl List {
    // Scans nest to a bounded depth.
    fn block(&mut self, body: &[Stmt], loops: &mut Loops) -> Result<()> {
        for stmt in body {
            match stmt {
                Stmt::Leaf(leaf) => self.leaf(leaf, loops)?,
                // What code from outside costs is not known.
                Stmt::Call(_) => {}
                Stmt::Scan(Scan { index, steps, body, .. }) => {
                    loops.push((*index, steps.clone()));
                    self.block(body, loops)?;
                    loops.pop();
                }
            }
        }
        Ok(())
    }

    fn leaf(&mut self, leaf: &Leaf, loops: &Loops) -> Result<()> {
        let under = Under { loops, first: self.stmts.len() };
        for (x, stmt) in leaf.program.stmts.iter() {
            let dims: Vec<Size> =
                loops.iter().map(|(_, steps)| steps.clone()).chain(stmt.dims.iter().cloned()).collect();
            let rhs = match &stmt.rhs {
                // These cost nothing.
                Rhs::Input { .. } | Rhs::Number(_) => Rhs::Number(Number::Literal(0.0)),
                Rhs::Add([(p, x), (q, y)]) => {
                    Rhs::Add([(under.pred(p)?, under.var(*x)), (under.pred(q)?, under.var(*y))])
                }
                Rhs::Map { guard, function, args } => {
                    let args = args.iter().map(|x| under.var(*x)).collect();
                    Rhs::Map { guard: under.pred(guard)?, function: *function, args }
                }
                Rhs::Contract { sums, guard, operands } => {
                    let operand = |x: &Operand| Operand { var: under.var(x.var), indices: Vec::new() };
                    let operands = operands.iter().map(operand).collect();
                    Rhs::Contract { sums: sums.clone(), guard: under.pred(guard)?, operands }
                }
            };
            self.stmts.push(tssa::Stmt { dims, rhs });
            self.names.push(leaf.program.names[x].clone());
        }
        Ok(())
    }
}

/// Statements with the loops around as their first axes, behind so many others.
struct Under<'a> {
    loops: &'a Loops,
    first: usize,
}

impl Under<'_> {
    fn var(&self, x: VarId) -> VarId {
        VarId::from_index(self.first + x.index())
    }

    /// A relation of a statement has the loops as its first places.
    fn relation(&self, relation: RelationRef) -> (RelationRef, Vec<Affine>) {
        match relation {
            RelationRef::Computed { var, view } => {
                let steps = (0..self.loops.len()).map(|at| Affine::index(IndexId::from_index(at)));
                (RelationRef::Computed { var: self.var(var), view }, steps.collect())
            }
            input @ RelationRef::Input(_) => (input, Vec::new()),
        }
    }

    fn affine(&self, a: &Affine) -> Result<Affine> {
        Ok(a.replace(&mut |v| {
            Ok(match v {
                Var::Index(i) => Some(Affine::index(IndexId::from_index(i.index() + self.loops.len()))),
                Var::Size(n) => {
                    let at = self.loops.iter().position(|(index, _)| index == n);
                    at.map(|at| Affine::index(IndexId::from_index(at)))
                }
                Var::Apply(application) => {
                    let (map, mut args) = self.relation(application.map);
                    args.extend(application.args.iter().cloned());
                    Some(Affine::var(Var::Apply(Box::new(Application { map, args }))))
                }
            })
        })?)
    }

    // Predicates nest to a bounded depth.
    fn pred(&self, p: &Pred) -> Result<Pred> {
        let all = |ps: &[Pred]| ps.iter().map(|p| self.pred(p)).collect::<Result<Vec<_>>>();
        Ok(match p {
            Pred::True | Pred::False => p.clone(),
            Pred::NonNegative(a) => Pred::non_negative(self.affine(a)?),
            Pred::Zero(a) => Pred::zero(self.affine(a)?),
            Pred::NonZero(a) => Pred::non_zero(self.affine(a)?),
            Pred::Relation { relation, args, holds } => {
                let (relation, mut all) = self.relation(*relation);
                for a in args {
                    all.push(self.affine(a)?);
                }
                Pred::Relation { relation, args: all, holds: *holds }
            }
            Pred::All(ps) => Pred::all(all(ps)?),
            Pred::Any(ps) => Pred::any(all(ps)?),
            Pred::Exists { index, extent, body } => {
                let index = IndexId::from_index(index.index() + self.loops.len());
                Pred::exists(index, extent.clone(), self.pred(body)?)
            }
        })
    }
}
