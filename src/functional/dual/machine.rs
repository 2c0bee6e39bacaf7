//! The forward pass: runs a program on scalars in dual form.
//!
//! ```text
//! D[r] = (r, new id for λz. 0)
//! D[op(t1, .., tn)] = (op(x1, .., xn), new id for λz. d1 (∂1 op(x..) z) + ..)        where D[ti] = (xi, di)
//! all else: what it is
//! ```
//!
//! **Forks.** A fork ends the job. The second arm goes to another thread if one is free, else it comes after the first one; each arm begins a job, and
//! so does the join (section 12.1). Jobs are the same for any number of threads, but for their numbers.
//!
//! Nothing recurses: calls, loops and forks are stacks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{Scope, ScopedJoinHandle};

use smallvec::SmallVec;

use super::backpropagator::{Backpropagator, Fork, Id, Job, JobId, Jobs, Scalar, contributions};
use super::code::{Code, Instr, Loop, Place, closure_id};
use super::leaf::Leaf;
use super::operation;
use super::workers::Workers;
use crate::base::Id as _;
use crate::error::{Error, Result};
use crate::functional::lambda::{End, Node, Prim, Value};
use crate::reference::Numeric;
use crate::reference::numeric::Users;

/// A value in dual form.
pub(super) type DualValue<T> = Value<Scalar<T>>;

/// What all threads of a forward pass see.
pub(super) struct Shared<'a> {
    pub code: &'a Code,
    pub users: &'a Users,
    /// Whether partial derivatives are taken now.
    pub lists: bool,
    /// Whether forks end jobs.
    pub forks: bool,
    pub workers: Workers,
    pub limit: u64,
    pub jobs: AtomicU32,
}

impl Shared<'_> {
    /// The number of a new job.
    fn new_job(&self) -> Result<JobId> {
        let next = self.jobs.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |id| id.checked_add(1));
        next.map_err(|_| Error::Limit { what: "jobs", limit: u64::from(u32::MAX), found: 1 << 32 })
    }
}

/// The backpropagators of the job that is running.
pub(super) struct Recorder<T> {
    id: JobId,
    job: Job<T>,
}

impl<T: Numeric> Recorder<T> {
    fn push(&mut self, entry: Backpropagator<T>, width: usize) -> Result<Id> {
        Ok(Id { job: self.id, cell: self.job.push(entry, width)? })
    }

    /// The same, with the place of the entry.
    fn push_last(&mut self, entry: Backpropagator<T>, width: usize) -> Result<(usize, Id)> {
        let id = self.push(entry, width)?;
        Ok((self.job.entries.len() - 1, id))
    }

    /// Adds operands to a leaf call, which is the last entry.
    fn extend(&mut self, entry: usize, more: Vec<Scalar<T>>) -> Result<()> {
        let last = entry + 1 == self.job.entries.len();
        match self.job.entries.get_mut(entry) {
            Some(Backpropagator::Leaf(_, args)) if last => args.extend(more),
            _ => return broken("a leaf call is not the last entry"),
        }
        Ok(())
    }

    /// A new input scalar of a number.
    pub(super) fn input(&mut self, k: u32, value: T) -> Result<Scalar<T>> {
        Ok(Scalar { value, id: self.push(Backpropagator::Input(k), 1)? })
    }

    fn literal(&mut self, value: T) -> Result<Scalar<T>> {
        Ok(Scalar { value, id: self.push(Backpropagator::Zero, 1)? })
    }

    fn operation(&mut self, shared: &Shared<'_>, prim: Prim, args: SmallVec<[Scalar<T>; 2]>) -> Result<Scalar<T>> {
        let value = match (prim, args.as_slice()) {
            (Prim::Add, [a, b]) => a.value.add(&b.value),
            (Prim::Mul, [a, b]) => a.value.mul(&b.value),
            _ => {
                let values: SmallVec<[T; 2]> = args.iter().map(|a| a.value.clone()).collect();
                operation::value(prim, &values, shared.users)?
            }
        };
        let entry = match shared.lists {
            true => Backpropagator::Contributions(contributions(prim, &args, shared.users)?),
            false => Backpropagator::Operation(prim, args),
        };
        Ok(Scalar { value, id: self.push(entry, 1)? })
    }
}

/// What a thread of the forward pass gives.
pub(super) struct Ran<T> {
    pub value: DualValue<T>,
    last: JobId,
    jobs: Vec<(JobId, Job<T>)>,
    pub steps: u64,
}

impl<T> Ran<T> {
    /// The jobs of all threads, by their numbers.
    pub(super) fn split(self) -> (DualValue<T>, Jobs<T>, u64) {
        let mut jobs = self.jobs;
        jobs.sort_by_key(|(id, _)| *id);
        (self.value, Jobs { jobs: jobs.into_iter().map(|(_, job)| job).collect(), last: self.last }, self.steps)
    }
}

/// What comes after a function.
enum Then<'scope, T> {
    Halt,
    Resume,
    /// The second arm is next.
    Second(DualValue<T>, JobId),
    /// Both arms are done: the value and the last job of the first one are here.
    Join(DualValue<T>, JobId, JobId),
    /// The second arm is on another thread.
    Wait(JobId, ScopedJoinHandle<'scope, Result<Ran<T>>>),
}

/// A call that waits for its function.
struct Call<'scope, T> {
    pc: usize,
    base: usize,
    closure: Option<Arc<Node<Scalar<T>>>>,
    then: Then<'scope, T>,
}

/// A loop over elements.
struct Round<T> {
    kind: Loop,
    next: usize,
    of: usize,
    arrays: Vec<DualValue<T>>,
    state: Option<DualValue<T>>,
    items: Vec<DualValue<T>>,
    /// The leaf call that all rounds are: its entry in the job, and the identifier of the next scalar.
    leaf: Option<(usize, Id)>,
}

/// A leaf that has been computed: its operands, and the values of its registers.
struct LeafCall<'a, T> {
    of: &'a Leaf,
    args: Vec<Scalar<T>>,
    registers: Vec<T>,
}

/// A thread of the forward pass.
pub(super) struct Machine<'a, 'scope, T> {
    shared: &'scope Shared<'a>,
    recorder: Recorder<T>,
    finished: Vec<(JobId, Job<T>)>,
    values: Vec<DualValue<T>>,
    frames: Vec<DualValue<T>>,
    base: usize,
    closure: Option<Arc<Node<Scalar<T>>>>,
    calls: Vec<Call<'scope, T>>,
    loops: Vec<Round<T>>,
    pc: usize,
    steps: u64,
}

/// A promise of the verifier that does not hold.
fn broken<V>(what: &str) -> Result<V> {
    Err(Error::bug("dual", what))
}

impl<'a, 'scope, T: Numeric + Send + Sync> Machine<'a, 'scope, T> {
    pub(super) fn new(shared: &'scope Shared<'a>) -> Result<Self> {
        Ok(Machine {
            shared,
            recorder: Recorder { id: shared.new_job()?, job: Job::new(None) },
            finished: Vec::new(),
            values: Vec::new(),
            frames: Vec::new(),
            base: 0,
            closure: None,
            calls: Vec::new(),
            loops: Vec::new(),
            pc: 0,
            steps: 0,
        })
    }

    /// The job that is running, for the inputs.
    pub(super) fn recorder(&mut self) -> &mut Recorder<T> {
        &mut self.recorder
    }

    /// Runs the program on values of its parameters.
    pub(super) fn program<'env>(mut self, scope: &'scope Scope<'scope, 'env>, args: Vec<DualValue<T>>) -> Result<Ran<T>>
    where
        T: 'scope,
    {
        self.frames = args;
        let main = self.shared.code.functions.first().map_or_else(|| broken("there is no code"), Ok)?;
        self.pc = main.entry as usize;
        self.calls.push(Call { pc: 0, base: 0, closure: None, then: Then::Halt });
        self.run(scope)
    }

    /// Runs an arm of a fork.
    fn arm<'env>(mut self, scope: &'scope Scope<'scope, 'env>, arm: &DualValue<T>) -> Result<Ran<T>>
    where
        T: 'scope,
    {
        self.enter(arm, None, Then::Halt)?;
        self.run(scope)
    }

    fn run<'env>(mut self, scope: &'scope Scope<'scope, 'env>) -> Result<Ran<T>>
    where
        T: 'scope,
    {
        let code = self.shared.code;
        loop {
            self.steps += 1;
            if self.steps > self.shared.limit {
                return Err(Error::Limit { what: "steps", limit: self.shared.limit, found: self.steps });
            }
            let Some(instr) = code.instrs.get(self.pc) else { return broken("the code has no such place") };
            self.pc += 1;
            match *instr {
                Instr::Return => {
                    if self.give_back()? {
                        break;
                    }
                }
                Instr::Fork(first, second) => self.fork(scope, first, second)?,
                instr => self.execute(instr)?,
            }
        }
        let value = self.pop()?;
        let last = self.recorder.id;
        self.finished.push((last, self.recorder.job));
        Ok(Ran { value, last, jobs: self.finished, steps: self.steps })
    }

    fn pop(&mut self) -> Result<DualValue<T>> {
        self.values.pop().map_or_else(|| broken("a value is missing"), Ok)
    }

    fn pop_real(&mut self) -> Result<Scalar<T>> {
        match self.values.pop() {
            Some(Value::Real(x)) => Ok(x),
            _ => broken("a real number is needed"),
        }
    }

    fn bind(&mut self, slot: u32, value: DualValue<T>) {
        self.frames.truncate(self.base + slot as usize);
        self.frames.push(value);
    }

    fn load(&self, place: Place) -> Result<DualValue<T>> {
        let value = match place {
            Place::Local(k) => self.frames.get(self.base + k as usize),
            Place::Captured(k) => match self.closure.as_deref() {
                Some(Node::Closure(_, captured)) => captured.get(k as usize),
                _ => None,
            },
        };
        value.cloned().map_or_else(|| broken("a variable has no value"), Ok)
    }

    fn execute(&mut self, instr: Instr) -> Result<()> {
        let value = match instr {
            Instr::Load(place) => self.load(place)?,
            Instr::Bind(slot) => {
                let value = self.pop()?;
                self.bind(slot, value);
                return Ok(());
            }
            Instr::Prim(prim, arity) => self.prim(prim, arity as usize)?,
            Instr::PrimOfTuple(prim, arity) => {
                self.spread(arity as usize)?;
                self.prim(prim, arity as usize)?
            }
            Instr::Pair => {
                let (b, a) = (self.pop()?, self.pop()?);
                Value::pair(a, b)
            }
            Instr::Fst => self.pop()?.as_pair()?.0.clone(),
            Instr::Snd => self.pop()?.as_pair()?.1.clone(),
            Instr::Real(r) => Value::Real(self.recorder.literal(T::literal(r)?)?),
            Instr::Int(k) => Value::Int(k),
            Instr::Unit => Value::Unit,
            Instr::Inl => Value::inl(self.pop()?),
            Instr::Inr => Value::inr(self.pop()?),
            Instr::Closure(function) => self.make_closure(function)?,
            Instr::Call => {
                let (arg, f) = (self.pop()?, self.pop()?);
                return self.enter(&f, Some(arg), Then::Resume);
            }
            Instr::Index => {
                let (k, a) = (self.pop()?.as_int()?, self.pop()?);
                let items = a.as_array()?;
                let value = usize::try_from(k).ok().and_then(|k| items.get(k));
                let message = || format!("{k} is out of the bounds of an array of {} elements", items.len());
                value.cloned().ok_or_else(|| Error::data("index", message()))?
            }
            Instr::Length => Value::Int(self.pop()?.as_array()?.len() as i64),
            Instr::Leaf(leaf) => self.leaf(leaf)?,
            Instr::LeafRound(leaf) => self.leaf_round(leaf)?,
            Instr::Begin(kind, slot, leaf, end) => return self.begin(kind, slot, leaf, end),
            Instr::Next(slot, again) => return self.next(slot, again),
            Instr::Case(..) | Instr::While(..) | Instr::Jump(_) | Instr::Return | Instr::Fork(..) => {
                return self.branch(instr);
            }
        };
        self.values.push(value);
        Ok(())
    }

    fn branch(&mut self, instr: Instr) -> Result<()> {
        match instr {
            Instr::Case(slot, right) => {
                let sum = self.pop()?;
                let value = match sum.as_sum()? {
                    Ok(a) => a.clone(),
                    Err(b) => {
                        self.pc = right as usize;
                        b.clone()
                    }
                };
                self.bind(slot, value);
            }
            Instr::While(slot, end) => {
                if self.pop()?.as_sum()?.is_err() {
                    let state = self.load(Place::Local(slot))?;
                    self.values.push(state);
                    self.pc = end as usize;
                }
            }
            Instr::Jump(to) => self.pc = to as usize,
            _ => return broken("a jump is needed"),
        }
        Ok(())
    }

    fn make_closure(&mut self, function: u32) -> Result<DualValue<T>> {
        let Some(of) = self.shared.code.functions.get(function as usize) else { return broken("there is no function") };
        self.steps += of.captures.len() as u64;
        let captured = of.captures.iter().map(|place| self.load(*place)).collect::<Result<_>>()?;
        Ok(Value::closure(closure_id(function), captured))
    }

    /// The body of a function is next.
    fn enter(&mut self, f: &DualValue<T>, arg: Option<DualValue<T>>, then: Then<'scope, T>) -> Result<()> {
        let Value::Node(node) = f else { return broken("a function is needed") };
        let Node::Closure(id, _) = &**node else { return broken("a function is needed") };
        let Some(function) = self.shared.code.functions.get(id.index()) else { return broken("there is no function") };
        let closure = self.closure.replace(Arc::clone(node));
        self.calls.push(Call { pc: self.pc, base: self.base, closure, then });
        self.base = self.frames.len();
        if function.recursive {
            self.frames.push(f.clone());
        }
        self.frames.extend(arg);
        self.pc = function.entry as usize;
        Ok(())
    }

    /// Ends a function; true where it was the whole run.
    fn give_back(&mut self) -> Result<bool> {
        let Some(Call { pc, base, closure, then }) = self.calls.pop() else { return broken("a return without a call") };
        self.frames.truncate(self.base);
        (self.pc, self.base, self.closure) = (pc, base, closure);
        match then {
            Then::Halt => return Ok(true),
            Then::Resume => {}
            Then::Second(second, before) => {
                let (first, last) = (self.pop()?, self.recorder.id);
                self.end_job(None)?;
                self.enter(&second, None, Then::Join(first, last, before))?;
            }
            Then::Join(first, last, before) => {
                let second = self.pop()?;
                self.end_job(Some(Fork { before, arms: [last, self.recorder.id] }))?;
                self.values.push(Value::pair(first, second));
            }
            Then::Wait(before, handle) => {
                let first = self.pop()?;
                let Ok(ran) = handle.join() else { return broken("a thread of the forward pass panicked") };
                let ran = ran?;
                self.steps += ran.steps;
                self.finished.extend(ran.jobs);
                self.end_job(Some(Fork { before, arms: [self.recorder.id, ran.last] }))?;
                self.values.push(Value::pair(first, ran.value));
            }
        }
        Ok(false)
    }

    /// Ends the job and begins another one, where forks do so.
    fn end_job(&mut self, history: Option<Fork>) -> Result<()> {
        if self.shared.forks {
            let next = Recorder { id: self.shared.new_job()?, job: Job::new(history) };
            let ended = std::mem::replace(&mut self.recorder, next);
            self.finished.push((ended.id, ended.job));
        }
        Ok(())
    }

    /// Both arms: the second one on another thread, if one is free.
    fn fork<'env>(&mut self, scope: &'scope Scope<'scope, 'env>, first: u32, second: u32) -> Result<()>
    where
        T: 'scope,
    {
        let (first, second) = (self.make_closure(first)?, self.make_closure(second)?);
        let before = self.recorder.id;
        self.end_job(None)?;
        let worker = if self.shared.forks { self.shared.workers.take() } else { None };
        let mut then = None;
        if let Some(worker) = worker {
            let (shared, arm) = (self.shared, second.clone());
            let run = move || {
                let _worker = worker;
                Machine::new(shared)?.arm(scope, &arm)
            };
            then = std::thread::Builder::new().spawn_scoped(scope, run).ok();
        }
        let then = match then {
            Some(handle) => Then::Wait(before, handle),
            None => Then::Second(second, before),
        };
        self.enter(&first, None, then)
    }

    /// A tuple, as its components on the stack.
    fn spread(&mut self, arity: usize) -> Result<()> {
        let (mut rest, mut last) = (self.pop()?, Vec::with_capacity(arity));
        for _ in 1..arity {
            let (a, b) = rest.as_pair()?;
            last.push(b.clone());
            rest = a.clone();
        }
        self.values.push(rest);
        self.values.extend(last.into_iter().rev());
        Ok(())
    }

    /// A primitive operation on so many operands.
    fn prim(&mut self, prim: Prim, arity: usize) -> Result<DualValue<T>> {
        let Some(at) = self.values.len().checked_sub(arity) else { return broken("an operand is missing") };
        if prim == Prim::Sum {
            let array = self.pop()?;
            let items = array.as_array()?;
            self.steps += items.len() as u64;
            let args = items.iter().map(|x| x.as_real().cloned()).collect::<Result<_>>()?;
            return Ok(Value::Real(self.recorder.operation(self.shared, prim, args)?));
        }
        if operation::is_differentiable(prim) {
            let mut args: SmallVec<[Scalar<T>; 2]> = SmallVec::new();
            for _ in 0..arity {
                args.push(self.pop_real()?);
            }
            args.reverse();
            return Ok(Value::Real(self.recorder.operation(self.shared, prim, args)?));
        }
        if let Prim::ToReal = prim {
            let k = self.pop()?.as_int()?;
            return Ok(Value::Real(self.recorder.literal(T::integer(k))?));
        }
        // What is left looks at values only.
        let value = super::plain::apply(prim, &self.values[at..], self.shared.users, &mut self.steps)?;
        self.values.truncate(at);
        Ok(value)
    }

    /// Takes the operands of a leaf from the stack, and computes it.
    fn call_leaf(&mut self, leaf: u32) -> Result<LeafCall<'a, T>> {
        let shared = self.shared;
        let Some(of) = shared.code.leaves.get(leaf as usize) else { return broken("there is no leaf") };
        let Some(at) = self.values.len().checked_sub(of.operands) else { return broken("an operand is missing") };
        let mut args = Vec::with_capacity(of.operands);
        for value in self.values.drain(at..) {
            match value {
                Value::Real(x) => args.push(x),
                _ => return broken("a real number is needed"),
            }
        }
        let registers = of.registers(args.iter().map(|arg| arg.value.clone()), shared.users)?;
        self.steps += registers.len() as u64;
        Ok(LeafCall { of, args, registers })
    }

    fn leaf(&mut self, leaf: u32) -> Result<DualValue<T>> {
        let LeafCall { of, args, registers } = self.call_leaf(leaf)?;
        let id = self.recorder.push(Backpropagator::Leaf(leaf, args), of.width())?;
        give_result(of, &registers, id)
    }

    /// A round of a loop that is a leaf call. Reads record nothing, so the entry stays the last one.
    fn leaf_round(&mut self, leaf: u32) -> Result<DualValue<T>> {
        let LeafCall { of, args, registers } = self.call_leaf(leaf)?;
        let Some((entry, id)) = self.loops.last_mut().and_then(|round| round.leaf.as_mut()) else {
            return broken("a round without a leaf call");
        };
        let first = *id;
        id.cell += of.width() as u32;
        self.recorder.extend(*entry, args)?;
        give_result(of, &registers, first)
    }

    /// Starts a loop whose operands are on the stack.
    fn begin(&mut self, kind: Loop, slot: u32, leaf: Option<u32>, end: u32) -> Result<()> {
        let mut round = Round { kind, next: 0, of: 0, arrays: Vec::new(), state: None, items: Vec::new(), leaf: None };
        match kind {
            Loop::Build => round.of = rounds(self.pop()?.as_int()?),
            Loop::Fold => {
                round.state = Some(self.pop()?);
                round.of = rounds(self.pop()?.as_int()?);
            }
            Loop::Map(n) => {
                let Some(at) = self.values.len().checked_sub(n as usize) else { return broken("an array is missing") };
                round.arrays = self.values.split_off(at);
                let lengths = round.arrays.iter().map(|a| a.as_array().map(<[_]>::len)).collect::<Result<Vec<_>>>()?;
                round.of = lengths.first().copied().unwrap_or(0);
                if let Some(n) = lengths.iter().find(|n| **n != round.of) {
                    return Err(Error::data("map", format!("arrays of {} and of {n} elements", round.of)));
                }
            }
            Loop::Reduce(_) | Loop::Scan(_) => {
                let array = self.pop()?;
                round.of = array.as_array()?.len();
                round.state = match kind {
                    Loop::Reduce(false) => {
                        round.next = 1;
                        array.as_array()?.first().cloned()
                    }
                    _ => Some(self.pop()?),
                };
                if round.state.is_none() {
                    return Err(Error::data("reduce", "an array without elements, and no start"));
                }
                if let Loop::Scan(_) = kind {
                    round.items.extend(round.state.clone());
                }
                round.arrays.push(array);
            }
        }
        if let Some(leaf) = leaf
            && round.of > 0
        {
            let width = self.shared.code.leaves.get(leaf as usize).map_or(0, Leaf::width);
            let entry = Backpropagator::Leaf(leaf, Vec::new());
            round.leaf = Some(self.recorder.push_last(entry, width.saturating_mul(round.of))?);
        }
        self.loops.push(round);
        // An empty loop ends here; the others go on with the next instruction.
        if !self.go_round(slot)? {
            self.pc = end as usize;
        }
        Ok(())
    }

    /// Ends a round of the innermost loop.
    fn next(&mut self, slot: u32, again: u32) -> Result<()> {
        let value = self.pop()?;
        let Some(round) = self.loops.last_mut() else { return broken("a round without a loop") };
        round.next += 1;
        match round.kind {
            Loop::Build | Loop::Map(_) => round.items.push(value),
            Loop::Reduce(_) | Loop::Fold => round.state = Some(value),
            Loop::Scan(_) => {
                round.items.push(value.clone());
                round.state = Some(value);
            }
        }
        if self.go_round(slot)? {
            self.pc = again as usize;
        }
        Ok(())
    }

    /// Binds the variables of the next round; without one the loop gives its value.
    fn go_round(&mut self, slot: u32) -> Result<bool> {
        self.frames.truncate(self.base + slot as usize);
        let Some(round) = self.loops.last_mut() else { return broken("a round without a loop") };
        let at = round.next;
        if at >= round.of {
            let Some(round) = self.loops.pop() else { return broken("a round without a loop") };
            let value = match (round.kind, round.state) {
                (Loop::Build | Loop::Map(_), _) => Value::array(round.items),
                (Loop::Scan(from), _) => {
                    let mut items = round.items;
                    if from == End::Last {
                        items.reverse();
                    }
                    Value::array(items)
                }
                (_, Some(state)) => state,
                _ => return broken("a state is missing"),
            };
            self.values.push(value);
            return Ok(false);
        }
        let element = |array: &DualValue<T>, k: usize| match array.as_array()?.get(k) {
            Some(x) => Ok(x.clone()),
            None => broken("an element is missing"),
        };
        let state = round.state.take();
        let missing = || Error::bug("dual", "a state is missing");
        match (round.kind, round.arrays.first()) {
            (Loop::Build, _) => self.frames.push(Value::Int(at as i64)),
            (Loop::Fold, _) => self.frames.extend([Value::Int(at as i64), state.ok_or_else(missing)?]),
            (Loop::Map(_), _) => {
                for array in &round.arrays {
                    self.frames.push(element(array, at)?);
                }
            }
            (Loop::Reduce(_) | Loop::Scan(End::First), Some(array)) => {
                self.frames.extend([state.ok_or_else(missing)?, element(array, at)?]);
            }
            (Loop::Scan(End::Last), Some(array)) => {
                self.frames.extend([element(array, round.of - 1 - at)?, state.ok_or_else(missing)?]);
            }
            _ => return broken("an array is missing"),
        }
        Ok(true)
    }
}

/// The rounds of a loop that runs so often; none for a negative count.
fn rounds(count: i64) -> usize {
    usize::try_from(count).unwrap_or(0)
}

/// The scalars that a leaf gives, of the structure of its result.
fn give_result<T: Numeric>(leaf: &Leaf, registers: &[T], id: Id) -> Result<DualValue<T>> {
    let (mut done, mut cell) = (Vec::new(), id.cell);
    for part in leaf.result() {
        let value = match part {
            Some(register) => {
                let scalar = Scalar { value: registers[*register as usize].clone(), id: Id { cell, ..id } };
                cell += 1;
                Value::Real(scalar)
            }
            None => match (done.pop(), done.pop()) {
                (Some(b), Some(a)) => Value::pair(a, b),
                _ => return broken("a component is missing"),
            },
        };
        done.push(value);
    }
    done.pop().map_or_else(|| broken("a leaf gives nothing"), Ok)
}
