//! Partial evaluation: continuations vanish.
//!
//! ```text
//! let x, Y = <r, F> in e                       ==  let x = r in e[F / Y]
//! (fun (y1, .., yn) -> e)(a1, .., an)          ==  e[a1 / y1, .., an / yn]
//! (a, .., b).k                                 ==  the k-th of them
//! 0 + e == e == e + 0     0 * e == 0           where 0 is the cotangent of what is not used: a rule that can be switched off
//! F(y1, .., yn, 0)                             ==  Y(y1, .., yn), the same for the continuation of an operation, which is linear
//! 1 * e == e == e * 1
//! let x = r in e                               ==  e, where x does not occur
//! ```
//!
//! One walk does it: it runs the block with atoms for values, and writes down the operations as it meets them. A continuation is called in one place, so
//! nothing is written twice, and what is left has no functions. A name for a name is replaced: this is the forward substitution of the paper, so that no
//! step moves the cotangents of all variables. A tuple whose components are known is not built.
//!
//! `0 * e == 0` holds for the cotangent 0 of an operation that nothing depends on, whatever `e` is. A literal 0 of the program is no such zero.
//!
//! Source: \[004\], "Partial evaluation and optimization".

use rustc_hash::FxHashSet;

use super::data::{Answer, Atom, Block, End, Fun, Program, Rhs, Stmt, Sweep, Tail, Type, Var, free_variables};
use super::reverse::{Seeds, pair};
use super::verify::rhs_type;
use crate::base::{Arena, Id};
use crate::error::{Error, Result};

const PASS: &str = "partial-evaluation";

/// Which rules partial evaluation has beside substitution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// `0 + e == e` and `0 * e == 0`, where 0 is a cotangent.
    pub zero: bool,
    /// `1 * e == e`.
    pub one: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Rules { zero: true, one: true }
    }
}

/// What is known of a value while the program runs on atoms.
#[derive(Clone, Debug)]
enum Value {
    /// An atom.
    Known(Atom),
    /// An atom whose value is the cotangent 0.
    Zero(Atom),
    /// A tuple of known components.
    Tuple(Vec<Value>),
}

impl Value {
    fn is_zero(&self) -> bool {
        match self {
            Value::Known(_) => false,
            Value::Zero(_) => true,
            Value::Tuple(of) => of.iter().all(Value::is_zero),
        }
    }
}

/// The program of the value and the cotangents of a derivative, `(value, (cotangent, ..))`, without continuations.
///
/// A program in unary form is simplified by the same rules; `seeds` are then those that it was made for, and do nothing.
///
/// # Errors
/// [`Error::Bug`] where a continuation is called that is not there.
pub fn partially_evaluate(program: &Program, seeds: Seeds, rules: Rules) -> Result<Program> {
    let out = Program {
        users: program.users.clone(),
        vars: Arena::new(),
        conts: 0,
        params: Vec::new(),
        body: Block::value(Atom::Number(0.0)),
    };
    let mut machine = Machine {
        source: program,
        out,
        values: vec![None; program.vars.len()],
        conts: vec![None; program.conts as usize],
        frames: vec![Vec::new()],
        rules,
    };
    for x in &program.params {
        let y = machine.fresh(*x);
        machine.out.params.push(y);
        machine.set(*x, Value::Known(Atom::Var(y)));
    }
    let result = machine.run(seeds)?;
    let result = machine.atom(result)?;
    machine.out.body = machine.close(result);
    Ok(machine.out)
}

/// What a continuation variable stands for.
#[derive(Clone, Copy)]
struct Continuation<'a> {
    fun: &'a Fun,
    /// Whether it is that of an operation, linear in the cotangents: `F(y1, .., yn, 0) == Y(y1, .., yn)`.
    is_step: bool,
}

struct Machine<'a> {
    source: &'a Program,
    out: Program,
    values: Vec<Option<Value>>,
    conts: Vec<Option<Continuation<'a>>>,
    /// The blocks that are being written, the innermost last.
    frames: Vec<Vec<Stmt>>,
    rules: Rules,
}

impl<'a> Machine<'a> {
    fn fresh(&mut self, x: Var) -> Var {
        self.out.vars.push(self.source.vars[x].clone())
    }

    fn set(&mut self, x: Var, value: Value) {
        self.values[x.index()] = Some(value);
    }

    /// Runs the program; the function of a derivative is applied to the seeds.
    fn run(&mut self, seeds: Seeds) -> Result<Value> {
        let body = &self.source.body;
        let Tail::Pair(value, fun) = &body.tail else { return self.block(body) };
        self.stmts(body)?;
        let value = self.value(*value)?;
        let value_atom = self.atom(value)?;
        let (starts, z) = seeds.free_variables(&mut self.out, value_atom);
        let zeros = self.rules.zero;
        let mut args: Vec<Value> = Vec::with_capacity(starts.len() + 1);
        args.extend(starts.into_iter().map(|a| match a {
            Atom::Zero(_) if zeros => Value::Zero(a),
            _ => Value::Known(a),
        }));
        args.push(Value::Known(z));
        let Value::Tuple(cotangents) = self.call(fun, args)? else {
            return Err(Error::bug(PASS, "a derivative answers a tuple"));
        };
        let cotangents = cotangents.into_iter().map(|value| self.atom(value)).collect::<Result<Vec<_>>>()?;
        let mut stmts = self.frames.pop().unwrap_or_default();
        let tail = pair(&mut self.out, &mut stmts, value_atom, cotangents);
        self.frames.push(stmts);
        match tail {
            Tail::Value(result) => Ok(Value::Known(result)),
            _ => Err(Error::bug(PASS, "a pair is a value")),
        }
    }

    fn value(&self, a: Atom) -> Result<Value> {
        let known = |x: Var| match self.values.get(x.index()) {
            Some(Some(value)) => Ok(value),
            _ => Err(Error::bug(PASS, format!("{x} has no value"))),
        };
        Ok(match a {
            Atom::Number(_) => Value::Known(a),
            Atom::Var(x) => known(x)?.clone(),
            Atom::Zero(x) => self.zero_of(known(x)?),
        })
    }

    /// The cotangent 0 of a value.
    fn zero_of(&self, value: &Value) -> Value {
        let zero = |a: Atom| if self.rules.zero { Value::Zero(a) } else { Value::Known(a) };
        match value {
            Value::Known(Atom::Number(_)) => zero(Atom::Number(0.0)),
            Value::Known(Atom::Var(x) | Atom::Zero(x)) => match self.out.ty(*x) {
                Type::Real => zero(Atom::Number(0.0)),
                _ => zero(Atom::Zero(*x)),
            },
            Value::Zero(a) => Value::Zero(*a),
            Value::Tuple(of) => Value::Tuple(of.iter().map(|value| self.zero_of(value)).collect()),
        }
    }

    /// Writes an operation down.
    fn emit(&mut self, name: Var, rhs: Rhs) -> Result<Atom> {
        let body = rhs.body().map(|(_, body)| body.result()).transpose()?.map(|a| self.out.atom_ty(a));
        let ty = rhs_type(&self.out, &rhs, body).map_err(|message| Error::bug(PASS, message))?;
        let name = self.source.vars[name].name.clone();
        let var = self.out.vars.push(super::data::Variable { name, ty });
        if let Some(frame) = self.frames.last_mut() {
            frame.push(Stmt::new(var, rhs));
        }
        Ok(Atom::Var(var))
    }

    /// The atom of a value; a tuple is built. Tuples nest as types do.
    fn atom(&mut self, value: Value) -> Result<Atom> {
        match value {
            Value::Known(a) | Value::Zero(a) => Ok(a),
            Value::Tuple(of) => {
                let of = of.into_iter().map(|value| self.atom(value)).collect::<Result<Vec<_>>>()?;
                let ty = Type::tuple(of.iter().map(|a| self.out.atom_ty(*a)));
                let var = self.out.fresh("p", ty);
                if let Some(frame) = self.frames.last_mut() {
                    frame.push(Stmt::new(var, Rhs::Tuple(of)));
                }
                Ok(Atom::Var(var))
            }
        }
    }

    fn stmts(&mut self, block: &'a Block) -> Result<()> {
        if let Some((cont, fun)) = &block.start {
            self.conts[cont.index()] = Some(Continuation { fun, is_step: false });
        }
        for stmt in &block.stmts {
            let value = self.rhs(stmt)?;
            self.set(stmt.var, value);
            if let Some((cont, fun)) = &stmt.back {
                self.conts[cont.index()] = Some(Continuation { fun, is_step: true });
            }
        }
        Ok(())
    }

    fn block(&mut self, block: &'a Block) -> Result<Value> {
        self.stmts(block)?;
        match &block.tail {
            Tail::Value(a) => self.value(*a),
            Tail::Apply(fun, args) => {
                let args = args.iter().map(|a| self.value(*a)).collect::<Result<Vec<_>>>()?;
                self.call(fun, args)
            }
            Tail::Pair(..) => Err(Error::bug(PASS, "the body of an operation answers a function")),
        }
    }

    /// The answer of a function, and of all continuations that it calls.
    fn call(&mut self, fun: &'a Fun, mut args: Vec<Value>) -> Result<Value> {
        let mut next = Continuation { fun, is_step: false };
        loop {
            let fun = next.fun;
            let is_zero = next.is_step && args.pop_if(|z| z.is_zero()).is_some();
            if !is_zero {
                for (x, value) in fun.params.iter().zip(std::mem::take(&mut args)) {
                    self.set(*x, value);
                }
                for stmt in &fun.lets {
                    let value = self.rhs(stmt)?;
                    self.set(stmt.var, value);
                }
            }
            match &fun.answer {
                Answer::Value(a) => return self.value(*a),
                Answer::Call(cont, atoms) => {
                    if !is_zero {
                        args = atoms.iter().map(|a| self.value(*a)).collect::<Result<Vec<_>>>()?;
                    }
                    let missing = || Error::bug(PASS, format!("{cont} is not there"));
                    next = self.conts[cont.index()].ok_or_else(missing)?;
                }
            }
        }
    }

    fn rhs(&mut self, stmt: &'a Stmt) -> Result<Value> {
        let x = stmt.var;
        match &stmt.rhs {
            Rhs::Add(a, b) => {
                let (a, b) = (self.value(*a)?, self.value(*b)?);
                self.add(x, a, b)
            }
            Rhs::Mul(a, b) => {
                let (a, b) = (self.value(*a)?, self.value(*b)?);
                self.mul(x, a, b)
            }
            Rhs::Call(function, args) => {
                let args = args.iter().map(|a| self.value(*a).and_then(|value| self.atom(value)));
                let args = args.collect::<Result<Vec<_>>>()?;
                self.emit(x, Rhs::Call(*function, args)).map(Value::Known)
            }
            Rhs::Tuple(of) => Ok(Value::Tuple(of.iter().map(|a| self.value(*a)).collect::<Result<_>>()?)),
            Rhs::Part(a, k) => {
                let a = self.value(*a)?;
                self.part(x, a, *k)
            }
            Rhs::Drop(end, a) => {
                let a = self.value(*a)?;
                self.like(a, |machine, a| machine.emit(x, Rhs::Drop(*end, a)))
            }
            Rhs::Map { params, body, arrays } => self.map(x, params, body, arrays),
            Rhs::Reduce(sweep) => self.sweep(x, None, sweep),
            Rhs::Scan(from, sweep) => self.sweep(x, Some(*from), sweep),
        }
    }

    /// The result of a linear operation, which is zero for zero.
    fn like(&mut self, a: Value, operation: impl FnOnce(&mut Self, Atom) -> Result<Atom>) -> Result<Value> {
        let zero = a.is_zero();
        let a = self.atom(a)?;
        let result = operation(self, a)?;
        Ok(if zero { Value::Zero(result) } else { Value::Known(result) })
    }

    fn part(&mut self, x: Var, a: Value, k: usize) -> Result<Value> {
        match a {
            Value::Tuple(mut of) if k < of.len() => Ok(of.swap_remove(k)),
            a => self.like(a, |machine, a| machine.emit(x, Rhs::Part(a, k))),
        }
    }

    fn add(&mut self, x: Var, a: Value, b: Value) -> Result<Value> {
        match (a, b) {
            // Of two zeros the first one stays: that of the shape of a variable, rather than one that is computed.
            (value, zero) | (zero, value) if zero.is_zero() => Ok(value),
            (Value::Tuple(a), b) => self.add_parts(x, a, b),
            (a, Value::Tuple(b)) => {
                let a = self.parts(x, a, b.len())?;
                self.add_parts(x, a, Value::Tuple(b))
            }
            (a, b) => {
                let (a, b) = (self.atom(a)?, self.atom(b)?);
                self.emit(x, Rhs::Add(a, b)).map(Value::Known)
            }
        }
    }

    /// The components of a value. Tuples nest as types do.
    fn parts(&mut self, x: Var, a: Value, n: usize) -> Result<Vec<Value>> {
        (0..n).map(|k| self.part(x, a.clone(), k)).collect()
    }

    fn add_parts(&mut self, x: Var, a: Vec<Value>, b: Value) -> Result<Value> {
        let b = self.parts(x, b, a.len())?;
        let sums = a.into_iter().zip(b).map(|(a, b)| self.add(x, a, b));
        Ok(Value::Tuple(sums.collect::<Result<_>>()?))
    }

    fn mul(&mut self, x: Var, a: Value, b: Value) -> Result<Value> {
        if a.is_zero() || b.is_zero() {
            return Ok(Value::Zero(Atom::Number(0.0)));
        }
        let (a, b) = (self.atom(a)?, self.atom(b)?);
        match (a, b) {
            (Atom::Number(1.0), e) | (e, Atom::Number(1.0)) if self.rules.one => Ok(Value::Known(e)),
            _ => self.emit(x, Rhs::Mul(a, b)).map(Value::Known),
        }
    }

    /// Binds a variable of a body to an element, which is zero if the array is.
    fn bind(&mut self, x: Var, zero: bool) -> Var {
        let y = self.fresh(x);
        self.set(x, if zero { Value::Zero(Atom::Var(y)) } else { Value::Known(Atom::Var(y)) });
        y
    }

    fn body(&mut self, body: &'a Block) -> Result<(Block, bool)> {
        self.frames.push(Vec::new());
        let result = self.block(body)?;
        let zero = result.is_zero();
        let result = self.atom(result)?;
        Ok((self.close(result), zero))
    }

    /// Ends a block; what its result does not need is left out.
    fn close(&mut self, result: Atom) -> Block {
        let stmts = self.frames.pop().unwrap_or_default();
        let mut block = Block { start: None, stmts, tail: Tail::Value(result) };
        remove_dead(&mut block);
        block
    }

    fn map(&mut self, x: Var, params: &[Var], body: &'a Block, arrays: &[Atom]) -> Result<Value> {
        let mut atoms = Vec::with_capacity(arrays.len());
        let mut fresh = Vec::with_capacity(arrays.len());
        for (param, array) in params.iter().zip(arrays) {
            let array = self.value(*array)?;
            fresh.push(self.bind(*param, array.is_zero()));
            atoms.push(self.atom(array)?);
        }
        let (body, zero) = self.body(body)?;
        let result = self.emit(x, Rhs::Map { params: fresh, body: Box::new(body), arrays: atoms })?;
        Ok(if zero { Value::Zero(result) } else { Value::Known(result) })
    }

    fn sweep(&mut self, x: Var, from: Option<End>, sweep: &'a Sweep) -> Result<Value> {
        let (init, array) = (self.value(sweep.init)?, self.value(sweep.array)?);
        // Of an array that is a cotangent 0, a sweep from the number 0 is one as well.
        let starts_from_zero = init.is_zero() || matches!(init, Value::Known(Atom::Number(0.0)));
        let mut zero = starts_from_zero && array.is_zero();
        let (init, array_zero) = (self.atom(init)?, array.is_zero());
        let array = self.atom(array)?;
        let (mut state, mut element) = (self.bind(sweep.state, zero), self.bind(sweep.element, array_zero));
        let (mut body, next_zero) = self.body(&sweep.body)?;
        if zero && !next_zero {
            // The state is zero at first only.
            zero = false;
            (state, element) = (self.bind(sweep.state, false), self.bind(sweep.element, array_zero));
            (body, _) = self.body(&sweep.body)?;
        }
        let sweep = Box::new(Sweep { state, element, body, init, array });
        let rhs = match from {
            None => Rhs::Reduce(sweep),
            Some(from) => Rhs::Scan(from, sweep),
        };
        let result = self.emit(x, rhs)?;
        Ok(if zero { Value::Zero(result) } else { Value::Known(result) })
    }
}

/// Leaves out the operations of a block that its result does not need. Bodies stay as they are.
pub(super) fn remove_dead(block: &mut Block) {
    let Tail::Value(result) = block.tail else { return };
    let mut live: FxHashSet<Var> = FxHashSet::default();
    let mark = |a: Atom, live: &mut FxHashSet<Var>| {
        if let Atom::Var(x) | Atom::Zero(x) = a {
            live.insert(x);
        }
    };
    mark(result, &mut live);
    let mut kept: Vec<Stmt> = Vec::with_capacity(block.stmts.len());
    for stmt in std::mem::take(&mut block.stmts).into_iter().rev() {
        if !live.contains(&stmt.var) {
            continue;
        }
        stmt.rhs.operands().into_iter().for_each(|a| mark(a, &mut live));
        if let Some((params, body)) = stmt.rhs.body() {
            live.extend(free_variables(body, &params));
        }
        kept.push(stmt);
    }
    kept.reverse();
    block.stmts = kept;
}
