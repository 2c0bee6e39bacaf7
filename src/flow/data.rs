//! The data types of flows.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::base::{Arena, FunctionId, Id, ParamId, SizeId, define_id};
use crate::error::{Error, Result};
use crate::index::{Pred, Size, Var};
use crate::tssa;
use crate::ty::{Param, Signature, Storage, Type, TypeId};

define_id!(
    /// A value of a flow: what a leaf gives, a state, or a path.
    ValueId,
    "v"
);

/// A value: a tensor of reals. What is a pair in the language is several of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    /// A name for reading; printers make names distinct.
    pub name: String,
    /// Its type, in the types of the frame.
    pub ty: TypeId,
    /// How it is stored.
    pub storage: Storage,
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stmt {
    /// Straight-line statements.
    Leaf(Leaf),
    /// A loop.
    Scan(Scan),
    /// Code from outside.
    Call(Call),
}

/// `ys = F(xs)`: a program in Tensor-SSA, closed over the parameters of the flow and the values that it takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Leaf {
    /// The program. Its signature is the [frame](Program::frame) of the flow with what is known [inside of the loops](Loops) around, and a parameter
    /// for each value that it takes.
    #[serde(with = "super::json::leaf")]
    pub program: tssa::Program,
    /// The values of the parameters behind those of the frame.
    pub takes: Vec<ValueId>,
    /// The values that its outputs are.
    pub gives: Vec<ValueId>,
}

/// `ys = gen axes. [when != 0] * f(xs)`: a function of tensors from outside, once for each point of its axes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The function.
    pub function: FunctionId,
    /// What its sizes are.
    pub sizes: Vec<Size>,
    /// The first axes of all that it takes and gives.
    pub axes: Vec<Size>,
    /// Where it is called, a tensor of its axes: where that is 0 it is not, and gives zeros. Everywhere where there is none.
    pub when: Option<ValueId>,
    /// Its arguments.
    pub takes: Vec<ValueId>,
    /// What it gives.
    pub gives: Vec<ValueId>,
}

impl Call {
    /// The values that it reads.
    pub fn reads(&self) -> impl Iterator<Item = ValueId> {
        self.takes.iter().chain(&self.when).copied()
    }
}

/// `scan index < steps, (before, ..) = (init, ..). body`, all states going on together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scan {
    /// The loop index: a size of the frame that leaves of the body mention.
    pub index: SizeId,
    /// How many steps there are; none where it is negative.
    pub steps: Size,
    /// Whether the index runs from the last to the first.
    pub down: bool,
    /// What goes on from step to step.
    pub states: Vec<State>,
    /// Where it may end before its last step; `steps` is then a size that is found out, unless another loop is around.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early: Option<Early>,
    /// Whether its steps are [tiles](super::tile_time): what they owe to values around is added up step by step, so that nothing of them is kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tiles: bool,
    /// Whether the last states are taken as the solution of `s = body(s)`, near which the first ones are, and how many steps a
    /// linear equation for its derivative takes at most. Such a scan has one step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub implicit: Option<Size>,
    /// A step.
    pub body: Vec<Stmt>,
}

/// When a scan [ends early](super::end_early): behind the first step that changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Early {
    /// How many elements of the states change in a step: a number that the body gives. Where it is 0 the states after the step are those after all
    /// further steps.
    pub changes: ValueId,
    /// How many steps there are at most.
    pub most: Size,
}

/// A state of a scan, of a type `T` of tensors of reals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The first state, a value around the scan.
    pub init: ValueId,
    /// The state before a step, in scope in the body.
    pub before: ValueId,
    /// The state after a step: a value of the body, or around it.
    pub after: ValueId,
    /// All states, of type `[steps + 1] T`, in scope behind the scan. The state before the step at `t` is at `t`, and at `t + 1` where the scan
    /// goes down.
    pub path: ValueId,
    /// The last state that is made, of type `T`, in scope behind the scan: the one of the path at `steps`, and at 0 where the scan goes down. A path
    /// that nobody reads need not be kept.
    pub last: ValueId,
}

/// A result of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// Its name, as in [`tssa::Output`].
    pub name: String,
    /// Its type, in the types of the frame.
    pub ty: TypeId,
    /// Its leaves in struct-of-arrays form.
    pub values: Vec<ValueId>,
}

/// A program with loops. Made by a [`Builder`](super::Builder).
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// What the program takes from outside.
    pub signature: Arc<Signature>,
    /// The same, with a size for each loop index and all types of values.
    pub frame: Arc<Signature>,
    /// The values.
    pub values: Arena<ValueId, Value>,
    /// The statements at the top.
    pub body: Vec<Stmt>,
    /// The results.
    pub outputs: Vec<Output>,
}

/// A result that is a tuple as several results of these names.
///
/// # Errors
/// [`Error::Bug`] where the result has fewer components.
pub fn split_result(program: &mut Program, names: Vec<String>) -> Result<()> {
    let few = || Error::bug("compose", "results of other shapes");
    let [output] = program.outputs.as_slice() else { return Ok(()) };
    let types = &program.frame.types;
    let (mut ty, mut values) = (output.ty, output.values.as_slice());
    let mut outputs = Vec::with_capacity(names.len());
    let last = names.len().saturating_sub(1);
    for (at, name) in names.into_iter().enumerate() {
        let component = match types.get(ty) {
            Type::Pair(first, rest) if at < last => {
                ty = *rest;
                *first
            }
            _ => ty,
        };
        let own = values.split_off(..types.leaves(component)?.len()).ok_or_else(few)?;
        outputs.push(Output { name, ty: component, values: own.to_vec() });
    }
    program.outputs = outputs;
    Ok(())
}

/// The loops around a place, outside in: their indices with their numbers of steps.
pub type Loops = Vec<(SizeId, Size)>;

impl Program {
    /// The signature of a leaf inside of some loops that takes some values.
    ///
    /// # Errors
    /// [`Error::Overflow`].
    pub fn leaf_signature(&self, loops: &Loops, takes: &[ValueId]) -> Result<Arc<Signature>> {
        leaf_signature(&self.frame, &self.values, loops, takes)
    }
}

/// See [`Program::leaf_signature`].
pub(super) fn leaf_signature(
    frame: &Arc<Signature>,
    values: &Arena<ValueId, Value>,
    loops: &Loops,
    takes: &[ValueId],
) -> Result<Arc<Signature>> {
    let mut signature = (**frame).clone();
    for (index, steps) in loops {
        let inside = Pred::lt(&Size::size(*index), steps)?;
        signature.assumptions.push(inside);
    }
    for x in takes {
        let Value { name, ty, storage } = &values[*x];
        signature.params.push(Param { name: free_name(&signature, name), ty: *ty, storage: *storage });
    }
    Ok(Arc::new(signature))
}

/// A name that no parameter, size, relation or function has.
pub(super) fn free_name(signature: &Signature, wish: &str) -> String {
    let taken = |name: &str| {
        signature.params.values().any(|p| p.name == name)
            || signature.sizes.values().any(|n| n == name)
            || signature.relations.values().any(|r| r.name == name)
            || signature.functions.values().any(|f| f.name() == name)
    };
    let wish = if wish.is_empty() { "t" } else { wish };
    let mut names = (1..).map(|k| if k == 1 { wish.to_owned() } else { format!("{wish}_{k}") });
    names.find(|name| !taken(name)).unwrap_or_default()
}

impl Program {
    /// How many scans are inside of each other at most.
    pub fn depth(&self) -> usize {
        let mut depth = 0;
        let mut stack: Vec<(&Stmt, usize)> = self.body.iter().map(|stmt| (stmt, 1)).collect();
        while let Some((stmt, around)) = stack.pop() {
            if let Stmt::Scan(scan) = stmt {
                depth = depth.max(around);
                stack.extend(scan.body.iter().map(|stmt| (stmt, around + 1)));
            }
        }
        depth
    }

    /// Whether a scan is a fixpoint.
    pub fn has_fixpoints(&self) -> bool {
        scans(&self.body).iter().any(|scan| scan.implicit.is_some())
    }

    /// The values that statements read, and the results.
    pub(super) fn reads(&self) -> BTreeSet<ValueId> {
        let mut read: BTreeSet<ValueId> = self.outputs.iter().flat_map(|output| &output.values).copied().collect();
        self.body.iter().for_each(|stmt| stmt.visit_reads(&mut |x| read.extend([x])));
        read
    }

    /// How many statements its leaves have together.
    pub fn stmts(&self) -> usize {
        let mut count = 0;
        let mut stack: Vec<&Stmt> = self.body.iter().collect();
        while let Some(stmt) = stack.pop() {
            match stmt {
                Stmt::Leaf(leaf) => count += leaf.program.stmts.len(),
                Stmt::Call(_) => count += 1,
                Stmt::Scan(scan) => stack.extend(&scan.body),
            }
        }
        count
    }
}

/// The scans among statements, and those inside of them.
pub(super) fn scans(body: &[Stmt]) -> Vec<&Scan> {
    let mut found = Vec::new();
    let mut stack: Vec<&Stmt> = body.iter().collect();
    while let Some(stmt) = stack.pop() {
        if let Stmt::Scan(scan) = stmt {
            found.push(scan);
            stack.extend(&scan.body);
        }
    }
    found
}

/// Statements with other scans: `change` writes what stands for a scan, of which the body was done before, within the loops around it.
// Scans nest to a bounded depth.
pub(super) fn with_scans(
    body: &[Stmt],
    loops: &Loops,
    change: &mut impl FnMut(Scan, &Loops, &mut Vec<Stmt>) -> Result<()>,
) -> Result<Vec<Stmt>> {
    let mut out = Vec::with_capacity(body.len());
    for stmt in body {
        let Stmt::Scan(scan) = stmt else {
            out.push(stmt.clone());
            continue;
        };
        let mut inside = loops.clone();
        inside.push((scan.index, scan.steps.clone()));
        let body = with_scans(&scan.body, &inside, change)?;
        change(Scan { body, ..scan.clone() }, loops, &mut out)?;
    }
    Ok(out)
}

/// Statements with other leaves: `change` gives what stands for a leaf within the loops around it.
// Scans nest to a bounded depth.
pub(super) fn with_leaves(
    body: &[Stmt],
    loops: &mut Loops,
    change: &mut dyn FnMut(&Leaf, &Loops) -> Result<Leaf>,
) -> Result<Vec<Stmt>> {
    let mut out = Vec::with_capacity(body.len());
    for stmt in body {
        out.push(match stmt {
            Stmt::Leaf(leaf) => Stmt::Leaf(change(leaf, loops)?),
            Stmt::Call(call) => Stmt::Call(call.clone()),
            Stmt::Scan(scan) => {
                loops.push((scan.index, scan.steps.clone()));
                let body = with_leaves(&scan.body, loops, change)?;
                loops.pop();
                Stmt::Scan(Scan { body, ..scan.clone() })
            }
        });
    }
    Ok(out)
}

impl Scan {
    /// Where the last state is in its path.
    pub fn last_place(&self) -> Size {
        if self.down { Size::constant(0) } else { self.steps.clone() }
    }

    /// Where the first state is in its path.
    pub fn first_place(&self) -> Size {
        if self.down { self.steps.clone() } else { Size::constant(0) }
    }
}

impl Scan {
    /// When it ends, if that may be early. A loop that finds out no size has no path then, so it makes all steps where one is read.
    pub fn ends(&self, is_read: impl Fn(&ValueId) -> bool) -> Option<&Early> {
        let has_path =
            |early: &&Early| early.most != self.steps || !self.states.iter().any(|state| is_read(&state.path));
        self.early.as_ref().filter(has_path)
    }

    /// Whether no step mentions the loop index: what a step gives depends on the states alone.
    pub fn is_steady(&self) -> bool {
        !self.body.iter().any(|stmt| stmt.mentions(self.index))
    }
}

impl Leaf {
    /// The value that a parameter of its program is; nothing for those of the frame.
    pub fn taken(&self, param: ParamId) -> Option<&ValueId> {
        param.index().checked_sub(self.outer_params()).and_then(|at| self.takes.get(at))
    }

    /// The value of a leaf that gives one.
    ///
    /// # Errors
    /// [`Error::Bug`] where it gives none.
    pub fn given(&self) -> Result<ValueId> {
        self.gives.first().copied().ok_or_else(|| Error::bug("flow", "a leaf without a value"))
    }

    /// How many parameters its program has from the frame.
    pub fn outer_params(&self) -> usize {
        self.program.signature.params.len() - self.takes.len()
    }
}

impl Stmt {
    /// Whether a statement, or one inside, mentions a size.
    pub fn mentions(&self, size: SizeId) -> bool {
        let is_in = |n: &Size| n.coefficient(&Var::Size(size)) != 0;
        let mut stack = vec![self];
        while let Some(stmt) = stack.pop() {
            match stmt {
                Stmt::Call(call) if call.sizes.iter().chain(&call.axes).any(is_in) => return true,
                Stmt::Call(_) => {}
                Stmt::Scan(scan) if is_in(&scan.steps) => return true,
                Stmt::Scan(scan) => stack.extend(&scan.body),
                Stmt::Leaf(leaf) => {
                    if leaf.program.stmts.values().any(|stmt| super::lift::mentions_anywhere(stmt, size)) {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Calls `visit` on the values that a statement reads, those of its body among them.
    pub fn visit_reads(&self, visit: &mut impl FnMut(ValueId)) {
        let mut stack = vec![self];
        while let Some(stmt) = stack.pop() {
            match stmt {
                Stmt::Leaf(leaf) => leaf.takes.iter().for_each(|x| visit(*x)),
                Stmt::Call(call) => call.reads().for_each(&mut *visit),
                Stmt::Scan(scan) => {
                    for state in &scan.states {
                        visit(state.init);
                        visit(state.after);
                    }
                    scan.early.iter().for_each(|early| visit(early.changes));
                    stack.extend(&scan.body);
                }
            }
        }
    }

    /// The values that are in scope behind a statement.
    pub fn gives(&self) -> Vec<ValueId> {
        match self {
            Stmt::Leaf(leaf) => leaf.gives.clone(),
            Stmt::Call(call) => call.gives.clone(),
            Stmt::Scan(scan) => scan.states.iter().flat_map(|state| [state.path, state.last]).collect(),
        }
    }
}
