//! Programs as instructions for a machine with a stack.
//!
//! The forward pass acts homomorphically on everything but scalars, so the instructions are those of the program itself; what the machine does to
//! scalars is the differentiation. An instruction takes its operands from the stack of values and leaves its result there. Variables are in the frame of
//! the call, by depth of scopes, or captured by the function. A fork has a function without an argument for each arm, so an arm can run elsewhere.
//!
//! Compiling is a loop over a list of what is left to do.

use rustc_hash::FxHashMap;

use super::leaf::{Leaf, Leaves};
use crate::base::{Id, VarId};
use crate::error::{Error, Result};
use crate::functional::lambda::{End, Prim, Program, Term, TermId};

/// Where a variable is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the frame of the call.
    Local(u32),
    /// Among what the function captures.
    Captured(u32),
}

/// A place among the instructions; its number first, its address when all is compiled.
type Label = u32;

/// A loop over elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loop {
    Build,
    /// Over so many arrays.
    Map(u32),
    /// With a start, or not.
    Reduce(bool),
    Scan(End),
    Fold,
}

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Instr {
    Real(f64),
    Int(i64),
    Unit,
    Load(Place),
    /// Puts the value into the frame, at a depth; what was deeper goes out of scope.
    Bind(u32),
    /// An operation on so many operands, which lie on the stack.
    Prim(Prim, u32),
    /// An operation on a tuple of so many.
    PrimOfTuple(Prim, u32),
    Pair,
    Fst,
    Snd,
    Inl,
    Inr,
    /// Binds what is under `inl`, or what is under `inr` and jumps.
    Case(u32, Label),
    /// Goes on where the sum is `inl`; else it gives the state in the frame and jumps.
    While(u32, Label),
    Jump(Label),
    Closure(u32),
    Call,
    Return,
    /// Runs two functions without arguments, maybe at the same time, and makes a pair.
    Fork(u32, u32),
    Index,
    Length,
    /// Starts a loop; its variables are in the frame from a depth on. Jumps where there is no element. With a leaf, all rounds are one leaf call.
    Begin(Loop, u32, Option<u32>, Label),
    /// Ends a round: goes on with the next one at a label, or on.
    Next(u32, Label),
    /// A leaf call: its operands lie on the stack.
    Leaf(u32),
    /// A round of the leaf call that the innermost loop is.
    LeafRound(u32),
}

/// A function, or the program.
#[derive(Clone, Debug)]
pub(super) struct Function {
    /// Where it begins.
    pub entry: u32,
    /// Whether its frame begins with itself.
    pub recursive: bool,
    /// What it captures, as places in the function around it.
    pub captures: Vec<Place>,
}

/// A compiled program.
#[derive(Clone, Debug)]
pub(super) struct Code {
    pub instrs: Vec<Instr>,
    pub functions: Vec<Function>,
    pub leaves: Vec<Leaf>,
}

/// What is left to do.
enum Step {
    Term(TermId),
    Emit(Instr),
    Label(Label),
    /// The next instructions are in a scope with a variable more.
    Enter(VarId),
    /// They are not any more.
    Leave(u32),
}

/// The variables of a function and what is around it.
struct Scope {
    around: Option<u32>,
    body: TermId,
    /// What the frame begins with.
    start: Vec<VarId>,
}

struct Compiler<'p> {
    program: &'p Program,
    leaves: Option<Leaves>,
    code: Code,
    labels: Vec<u32>,
    scopes: Vec<Scope>,
    /// The function and the depth of each variable.
    bound: FxHashMap<VarId, (u32, u32)>,
    captured: FxHashMap<(u32, VarId), u32>,
    function: u32,
    depth: u32,
    todo: Vec<Step>,
}

/// The instructions of a program; with leaf calls, if these are wanted.
pub(super) fn compile(program: &Program, leaf_calls: bool) -> Result<Code> {
    let code = Code { instrs: Vec::new(), functions: Vec::new(), leaves: Vec::new() };
    let mut compiler = Compiler {
        program,
        leaves: leaf_calls.then(|| Leaves::find(program)),
        code,
        labels: Vec::new(),
        scopes: Vec::new(),
        bound: FxHashMap::default(),
        captured: FxHashMap::default(),
        function: 0,
        depth: 0,
        todo: Vec::new(),
    };
    compiler.function(None, program.body, program.params.clone(), false);
    let mut next = 0;
    while next < compiler.scopes.len() {
        compiler.body(next as u32)?;
        next += 1;
    }
    compiler.finish()
}

impl Compiler<'_> {
    /// A function to be compiled later.
    fn function(&mut self, around: Option<u32>, body: TermId, start: Vec<VarId>, recursive: bool) -> u32 {
        self.scopes.push(Scope { around, body, start });
        self.code.functions.push(Function { entry: 0, recursive, captures: Vec::new() });
        (self.scopes.len() - 1) as u32
    }

    fn body(&mut self, function: u32) -> Result<()> {
        let scope = &mut self.scopes[function as usize];
        let (body, start) = (scope.body, std::mem::take(&mut scope.start));
        self.function = function;
        self.depth = start.len() as u32;
        for (k, x) in (0u32..).zip(start) {
            self.bound.insert(x, (function, k));
        }
        self.code.functions[function as usize].entry = self.code.instrs.len() as u32;
        self.todo.extend([Step::Emit(Instr::Return), Step::Term(body)]);
        while let Some(step) = self.todo.pop() {
            match step {
                Step::Term(e) => self.term(e)?,
                Step::Emit(instr) => self.code.instrs.push(instr),
                Step::Label(label) => self.labels[label as usize] = self.code.instrs.len() as u32,
                Step::Enter(x) => {
                    self.bound.insert(x, (self.function, self.depth));
                    self.depth += 1;
                }
                Step::Leave(n) => self.depth -= n,
            }
        }
        Ok(())
    }

    fn label(&mut self) -> Label {
        self.labels.push(0);
        (self.labels.len() - 1) as u32
    }

    /// What comes next, in order.
    fn next(&mut self, steps: impl IntoIterator<Item = Step>) {
        let at = self.todo.len();
        self.todo.extend(steps);
        self.todo[at..].reverse();
    }

    fn term(&mut self, e: TermId) -> Result<()> {
        use Step::{Emit, Enter, Label as Here, Leave, Term as Of};
        if let Some(leaf) = self.leaves.as_ref().and_then(|leaves| leaves.take(self.program, e)) {
            let (leaf, operands) = leaf?;
            let call = Emit(Instr::Leaf(self.push_leaf(leaf)));
            self.next(operands.into_iter().map(Of).chain([call]));
            return Ok(());
        }
        let depth = self.depth;
        match &self.program.terms[e] {
            Term::Var(x) => {
                let place = self.place(*x)?;
                self.code.instrs.push(Instr::Load(place));
            }
            Term::Unit => self.code.instrs.push(Instr::Unit),
            Term::Real(r) => self.code.instrs.push(Instr::Real(*r)),
            Term::Int(k) => self.code.instrs.push(Instr::Int(*k)),
            Term::Let(x, value, body) => {
                self.next([Of(*value), Emit(Instr::Bind(depth)), Enter(*x), Of(*body), Leave(1)]);
            }
            Term::Prim(prim, operand) => self.prim(*prim, *operand),
            Term::Pair(a, b) => self.next([Of(*a), Of(*b), Emit(Instr::Pair)]),
            Term::Fst(a) => self.next([Of(*a), Emit(Instr::Fst)]),
            Term::Snd(a) => self.next([Of(*a), Emit(Instr::Snd)]),
            Term::Inl(_, a) => self.next([Of(*a), Emit(Instr::Inl)]),
            Term::Inr(_, a) => self.next([Of(*a), Emit(Instr::Inr)]),
            Term::Roll(_, a) | Term::Unroll(a) => self.next([Of(*a)]),
            Term::Case(of, (x, a), (y, b)) => {
                let (right, end) = (self.label(), self.label());
                let left =
                    [Of(*of), Emit(Instr::Case(depth, right)), Enter(*x), Of(*a), Leave(1), Emit(Instr::Jump(end))];
                self.next(left.into_iter().chain([Here(right), Enter(*y), Of(*b), Leave(1), Here(end)]));
            }
            Term::Fn(x, body) => {
                let function = self.function(Some(self.function), *body, vec![*x], false);
                self.code.instrs.push(Instr::Closure(function));
            }
            Term::Rec(f, x, body) => {
                let function = self.function(Some(self.function), *body, vec![*f, *x], true);
                self.code.instrs.push(Instr::Closure(function));
            }
            Term::Apply(f, a) => self.next([Of(*f), Of(*a), Emit(Instr::Call)]),
            Term::Par(a, b) => {
                let first = self.function(Some(self.function), *a, Vec::new(), false);
                let second = self.function(Some(self.function), *b, Vec::new(), false);
                self.code.instrs.push(Instr::Fork(first, second));
            }
            Term::Index(a, k) => self.next([Of(*a), Of(*k), Emit(Instr::Index)]),
            Term::Length(a) => self.next([Of(*a), Emit(Instr::Length)]),
            Term::Iterate { state, init, cond, body } => {
                let (again, end) = (self.label(), self.label());
                let start = [Of(*init), Here(again), Emit(Instr::Bind(depth)), Enter(*state), Of(*cond)];
                let round = [Emit(Instr::While(depth, end)), Of(*body), Leave(1), Emit(Instr::Jump(again)), Here(end)];
                self.next(start.into_iter().chain(round));
            }
            Term::Build(..) | Term::Map(..) | Term::Reduce { .. } | Term::Scan { .. } | Term::Fold { .. } => {
                self.elements(e)?
            }
            Term::External(f, _) => {
                let name = &self.program.externals[*f].name;
                let feature = format!("dual numbers through the external function `{name}`");
                return Err(Error::Limitation { feature, span: None });
            }
            _ => {
                let feature = "dual numbers through what other derivatives are made of".to_string();
                return Err(Error::Limitation { feature, span: None });
            }
        }
        Ok(())
    }

    /// An operation takes its operands one by one where they are written so.
    fn prim(&mut self, prim: Prim, operand: TermId) {
        let arity = match prim {
            Prim::Scalar(function) => crate::functional::lambda::arity(function, &self.program.users),
            Prim::Add | Prim::Mul | Prim::Compare(_) => 2,
            Prim::IntAdd | Prim::IntMul | Prim::IntDiv | Prim::IntRem | Prim::IntCompare(_) => 2,
            _ => 1,
        };
        let (mut operands, mut rest) = (Vec::with_capacity(arity), operand);
        while operands.len() + 1 < arity
            && let Term::Pair(first, last) = &self.program.terms[rest]
        {
            operands.push(*last);
            rest = *first;
        }
        if operands.len() + 1 == arity {
            operands.push(rest);
            operands.reverse();
            let call = Step::Emit(Instr::Prim(prim, arity as u32));
            self.next(operands.into_iter().map(Step::Term).chain([call]));
        } else {
            self.next([Step::Term(operand), Step::Emit(Instr::PrimOfTuple(prim, arity as u32))]);
        }
    }

    /// A loop over elements or indices.
    fn elements(&mut self, e: TermId) -> Result<()> {
        let (operands, vars, body, kind) = match &self.program.terms[e] {
            Term::Build(n, i, body) => (vec![*n], vec![*i], *body, Loop::Build),
            Term::Map(args, body) => {
                let (vars, arrays): (Vec<VarId>, Vec<TermId>) = args.iter().copied().unzip();
                let kind = Loop::Map(arrays.len() as u32);
                (arrays, vars, *body, kind)
            }
            Term::Reduce { vars: (x, y), body, init, array } => {
                (init.iter().copied().chain([*array]).collect(), vec![*x, *y], *body, Loop::Reduce(init.is_some()))
            }
            Term::Scan { from, vars: (x, y), body, init, array } => {
                (vec![*init, *array], vec![*x, *y], *body, Loop::Scan(*from))
            }
            Term::Fold { count, index, state, init, body } => {
                (vec![*count, *init], vec![*index, *state], *body, Loop::Fold)
            }
            _ => return Err(Error::bug("dual", "a loop is needed")),
        };
        let (depth, again, end) = (self.depth, self.label(), self.label());
        let n = vars.len() as u32;
        let mut leaf = None;
        let mut body = vec![Step::Term(body)];
        if let (Loop::Build | Loop::Map(_), Some(leaves), [Step::Term(e)]) = (kind, &self.leaves, body.as_slice())
            && let Some(found) = leaves.take_body(self.program, *e)
        {
            let (found, reads) = found?;
            let id = self.push_leaf(found);
            leaf = Some(id);
            body = reads.into_iter().map(Step::Term).chain([Step::Emit(Instr::LeafRound(id))]).collect();
        }
        let begin = [Step::Emit(Instr::Begin(kind, depth, leaf, end)), Step::Label(again)];
        let round = body.into_iter().chain([Step::Leave(n), Step::Emit(Instr::Next(depth, again)), Step::Label(end)]);
        let steps =
            operands.into_iter().map(Step::Term).chain(begin).chain(vars.into_iter().map(Step::Enter)).chain(round);
        let steps: Vec<Step> = steps.collect();
        self.next(steps);
        Ok(())
    }

    fn push_leaf(&mut self, leaf: Leaf) -> u32 {
        self.code.leaves.push(leaf);
        (self.code.leaves.len() - 1) as u32
    }

    /// The place of a variable for the function that is being compiled. All functions between it and the binder capture it.
    fn place(&mut self, x: VarId) -> Result<Place> {
        let missing = || Error::bug("dual", "a variable without a binder");
        let (binder, slot) = *self.bound.get(&x).ok_or_else(missing)?;
        let mut path = Vec::new();
        let (mut function, mut place) = (self.function, Place::Local(slot));
        while function != binder {
            if let Some(k) = self.captured.get(&(function, x)) {
                place = Place::Captured(*k);
                break;
            }
            path.push(function);
            function = self.scopes[function as usize].around.ok_or_else(missing)?;
        }
        for function in path.into_iter().rev() {
            let captures = &mut self.code.functions[function as usize].captures;
            captures.push(place);
            let k = (captures.len() - 1) as u32;
            self.captured.insert((function, x), k);
            place = Place::Captured(k);
        }
        Ok(place)
    }

    /// Addresses in place of labels.
    fn finish(mut self) -> Result<Code> {
        if u32::try_from(self.code.instrs.len()).is_err() {
            let (limit, found) = (u64::from(u32::MAX), self.code.instrs.len() as u64);
            return Err(Error::Limit { what: "the instructions of a program", limit, found });
        }
        for instr in &mut self.code.instrs {
            match instr {
                Instr::Case(_, label)
                | Instr::While(_, label)
                | Instr::Jump(label)
                | Instr::Begin(.., label)
                | Instr::Next(_, label) => *label = self.labels[*label as usize],
                _ => {}
            }
        }
        Ok(self.code)
    }
}

/// The id under which a closure of a function is a value.
pub(super) fn closure_id(function: u32) -> TermId {
    TermId::from_index(function as usize)
}
