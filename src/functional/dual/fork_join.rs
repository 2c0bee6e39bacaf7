//! The reverse pass of programs that fork: forks become joins, and joins become forks (section 12.4, Fig. 15).
//!
//! ```text
//! resolve task = resolve job; where the job began by a join: both arms, at the same time; then the task up to the fork
//! ```
//!
//! **Sums have an order.** In the paper the two arms add to common cotangents by atomic operations, in any order, so that bits depend on luck. Here a
//! task adds at once only to jobs inside of it. What it owes to others is a log, and logs are carried out at the join: that of the second arm, then
//! that of the first one. This is the order of the pass on one thread, so the bits are those of the tape, however many threads there are.
//!
//! **Logs wait for their owner.** What task X owes to task Y is carried out by the innermost task around both, which is found by jumps. So logs
//! are sorted by depth, and a join moves the shorter one. A call costs one entry, however deep forks nest.
//!
//! Nothing recurses: tasks that run on this thread are frames of a stack.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::thread::{Scope, ScopedJoinHandle};

use super::backpropagator::{Calls, Effect, Fork, Id, JobId, Jobs};
use super::workers::Workers;
use super::{Counts, Resolved, array::add_to};
use crate::error::{Error, Result};
use crate::reference::Numeric;

/// The tree of tasks: each job knows its task, each task what is inside of it and what is around it.
struct Tasks {
    of_job: Vec<u32>,
    nodes: Vec<Task>,
}

/// A task in the tree.
#[derive(Clone, Copy)]
struct Task {
    /// The tasks inside of it, itself among them, are those from its own number to this one.
    end: u32,
    depth: u32,
    /// The task around it; the first one is around itself.
    around: u32,
    /// A task further out, such that all are found in a number of jumps that is logarithmic in the depth.
    jump: u32,
}

impl Tasks {
    /// Numbers tasks so that those inside of one follow it.
    fn new<T>(jobs: &Jobs<T>) -> Self {
        enum Step {
            Enter { last: JobId, around: u32 },
            Leave(u32),
        }
        let mut tasks = Tasks { of_job: vec![0; jobs.jobs.len()], nodes: Vec::new() };
        let mut steps = vec![Step::Enter { last: jobs.last, around: 0 }];
        while let Some(step) = steps.pop() {
            match step {
                Step::Enter { last, around } => {
                    let task = tasks.nodes.len() as u32;
                    tasks.push(around);
                    steps.push(Step::Leave(task));
                    let mut job = last;
                    tasks.of_job[job as usize] = task;
                    while let Some(Fork { before, arms }) = jobs.job(job).history {
                        steps.extend(arms.map(|last| Step::Enter { last, around: task }));
                        job = before;
                        tasks.of_job[job as usize] = task;
                    }
                }
                Step::Leave(task) => tasks.nodes[task as usize].end = tasks.nodes.len() as u32,
            }
        }
        tasks
    }

    /// A skew-binary jump: as far as two jumps of the task around, if these are equally far.
    fn push(&mut self, around: u32) {
        let Some(outer) = self.nodes.get(around as usize).copied() else {
            self.nodes.push(Task { end: 0, depth: 0, around: 0, jump: 0 });
            return;
        };
        let depth = |task: u32| self.nodes[task as usize].depth;
        let further = self.nodes[outer.jump as usize].jump;
        let jump = match outer.depth - depth(outer.jump) == depth(outer.jump) - depth(further) {
            true => further,
            false => around,
        };
        self.nodes.push(Task { end: 0, depth: outer.depth + 1, around, jump });
    }

    fn is_inside(&self, inner: u32, outer: u32) -> bool {
        outer <= inner && inner < self.nodes[outer as usize].end
    }

    /// The depth of the innermost task that is around both.
    fn depth_around(&self, target: u32, mut task: u32) -> u32 {
        while !self.is_inside(target, task) {
            let Task { around, jump, .. } = self.nodes[task as usize];
            task = if self.is_inside(target, jump) { around } else { jump };
        }
        self.nodes[task as usize].depth
    }
}

/// What a task owes to others, by the depth of who carries it out, in order.
#[derive(Debug)]
struct Log<T>(BTreeMap<u32, VecDeque<Vec<(Id, T)>>>);

impl<T> Log<T> {
    fn push(&mut self, depth: u32, id: Id, d: T) {
        let pieces = self.0.entry(depth).or_default();
        match pieces.back_mut() {
            Some(piece) => piece.push((id, d)),
            None => pieces.push_back(vec![(id, d)]),
        }
    }

    /// All of `self`, then all of the other one. Moves the fewer pieces.
    fn append(&mut self, mut other: Log<T>) {
        let swapped = self.0.len() < other.0.len();
        if swapped {
            std::mem::swap(&mut self.0, &mut other.0);
        }
        for (depth, mut pieces) in other.0 {
            let here = self.0.entry(depth).or_default();
            let (first, second) = if swapped { (&mut pieces, here) } else { (here, &mut pieces) };
            match first.len() >= second.len() {
                true => first.append(second),
                false => first.drain(..).rev().for_each(|piece| second.push_front(piece)),
            }
            let all = std::mem::take(if first.is_empty() { second } else { first });
            self.0.insert(depth, all);
        }
    }
}

/// The cotangents of a job; nothing once it is resolved.
type Cotangents<T> = Mutex<Option<Vec<Option<T>>>>;

/// What all threads see.
struct Shared<'a, T> {
    jobs: &'a Jobs<T>,
    calls: Calls<'a>,
    inputs: usize,
    tasks: Tasks,
    /// Only one task at a time has a job inside of it, so that locks are free; they are what the type system knows of that.
    cells: Vec<Cotangents<T>>,
    workers: Workers,
}

/// What a task gives.
struct Done<T> {
    log: Log<T>,
    /// Of the first task.
    gradient: Vec<T>,
    counts: Counts,
}

/// A task on the way.
struct Frame<'scope, T> {
    task: u32,
    job: JobId,
    log: Log<T>,
    arms: Arms<'scope, T>,
}

/// Which arms of a fork have been resolved.
enum Arms<'scope, T> {
    /// There is no fork open.
    None,
    /// The second arm is on this thread.
    Second,
    /// The first arm is on this thread; the second one is done.
    First(Log<T>),
    /// The first arm is on this thread, the second one on another.
    Both(ScopedJoinHandle<'scope, Result<Done<T>>>),
}

/// Resolves all calls, on so many threads.
pub(super) fn resolve<T: Numeric + Send + Sync>(
    jobs: &Jobs<T>,
    calls: Calls<'_>,
    inputs: usize,
    seeds: &[(Id, T)],
    threads: usize,
) -> Result<Resolved<T>> {
    let cells: Vec<Cotangents<T>> = jobs.jobs.iter().map(|job| Mutex::new(Some(vec![None; job.len()]))).collect();
    let total: usize = jobs.jobs.iter().map(super::backpropagator::Job::len).sum();
    let shared = Shared { jobs, calls, inputs, tasks: Tasks::new(jobs), cells, workers: Workers::new(threads) };
    for (id, d) in seeds {
        shared.add(*id, d.clone())?;
    }
    let mut done = std::thread::scope(|scope| shared.task(scope, jobs.last))?;
    done.gradient.resize(inputs, T::zero());
    done.counts.work += (total + jobs.jobs.len() + inputs) as u64;
    done.counts.most = u64::from(done.counts.calls > 0);
    Ok(Resolved { gradient: done.gradient, counts: done.counts, called: Vec::new() })
}

impl<T: Numeric + Send + Sync> Shared<'_, T> {
    /// Adds to the cotangent of a backpropagator that is not resolved yet.
    fn add(&self, id: Id, d: T) -> Result<()> {
        let Ok(mut cells) = self.cells[id.job as usize].lock() else {
            return Err(Error::bug("dual", "a thread that adds cotangents panicked"));
        };
        match cells.as_mut().and_then(|cells| cells.get_mut(id.cell as usize)) {
            Some(cell) => add_to(cell, d),
            None => return Err(Error::bug("dual", format!("a call of {id:?}, which is resolved"))),
        }
        Ok(())
    }

    /// Resolves a task that ends with a job.
    fn task<'scope, 'env>(&'scope self, scope: &'scope Scope<'scope, 'env>, last: JobId) -> Result<Done<T>> {
        let mut done = Done { log: Log(BTreeMap::new()), gradient: Vec::new(), counts: Counts::default() };
        let mut frames: Vec<Frame<'scope, T>> = Vec::new();
        let mut next = Some(last);
        loop {
            if let Some(job) = next.take() {
                let task = self.tasks.of_job[job as usize];
                frames.push(Frame { task, job, log: Log(BTreeMap::new()), arms: Arms::None });
            }
            let Some(frame) = frames.last_mut() else { return Err(Error::bug("dual", "no task is left")) };
            self.job(frame, &mut done)?;
            if let Some(Fork { arms: [first, second], .. }) = self.jobs.job(frame.job).history {
                (frame.arms, next) = match self.start(scope, second) {
                    Some(handle) => (Arms::Both(handle), Some(first)),
                    None => (Arms::Second, Some(second)),
                };
                continue;
            }
            let Some(Frame { log, .. }) = frames.pop() else { continue };
            let Some(frame) = frames.last_mut() else {
                done.log = log;
                return Ok(done);
            };
            next = self.give(frame, log, &mut done)?;
        }
    }

    /// Gives the log of an arm to the task around it. The other arm is next, or the job before the fork.
    fn give(&self, frame: &mut Frame<'_, T>, log: Log<T>, done: &mut Done<T>) -> Result<Option<JobId>> {
        let Some(Fork { before, arms: [first, _] }) = self.jobs.job(frame.job).history else {
            return Err(Error::bug("dual", "an arm without a fork"));
        };
        let second = match std::mem::replace(&mut frame.arms, Arms::None) {
            Arms::Second => {
                frame.arms = Arms::First(log);
                return Ok(Some(first));
            }
            Arms::First(second) => second,
            Arms::Both(handle) => {
                let Ok(other) = handle.join() else {
                    return Err(Error::bug("dual", "a thread of the reverse pass panicked"));
                };
                let other = other?;
                done.counts.add(&other.counts);
                other.log
            }
            Arms::None => return Err(Error::bug("dual", "an arm that nobody waits for")),
        };
        frame.log.append(second);
        frame.log.append(log);
        self.carry_out(frame, &mut done.counts)?;
        frame.job = before;
        Ok(None)
    }

    /// Starts an arm on another thread, if one is free.
    fn start<'scope, 'env>(
        &'scope self,
        scope: &'scope Scope<'scope, 'env>,
        last: JobId,
    ) -> Option<ScopedJoinHandle<'scope, Result<Done<T>>>> {
        let worker = self.workers.take()?;
        let run = move || {
            let _worker = worker;
            self.task(scope, last)
        };
        std::thread::Builder::new().spawn_scoped(scope, run).ok()
    }

    /// Resolves the backpropagators of a job, from the highest one down.
    fn job(&self, frame: &mut Frame<'_, T>, done: &mut Done<T>) -> Result<()> {
        let job = self.jobs.job(frame.job);
        let Some(mut cells) = self.cells[frame.job as usize].lock().ok().and_then(|mut cells| cells.take()) else {
            return Err(Error::bug("dual", "a job is resolved twice"));
        };
        let mut effects = Vec::new();
        for (k, entry) in job.entries.iter().enumerate().rev() {
            let range = job.range(k);
            done.counts.work += 1;
            if cells[range.clone()].iter().all(Option::is_none) {
                continue;
            }
            done.counts.calls += 1;
            self.calls.effects(entry, &cells[range.clone()], &mut effects)?;
            for effect in effects.drain(..) {
                done.counts.work += 1;
                match effect {
                    Effect::OneHot(k, d) => {
                        done.gradient.resize(self.inputs, T::zero());
                        done.gradient[k as usize] = d;
                    }
                    Effect::Call(id, d) if id.job == frame.job => {
                        if id.cell as usize >= range.start {
                            let message =
                                format!("backpropagator {} calls {}, which is not older", range.start, id.cell);
                            return Err(Error::bug("dual", message));
                        }
                        add_to(&mut cells[id.cell as usize], d);
                    }
                    Effect::Call(id, d) => {
                        let target = self.tasks.of_job[id.job as usize];
                        match self.tasks.is_inside(target, frame.task) {
                            true => self.add(id, d)?,
                            false => frame.log.push(self.tasks.depth_around(target, frame.task), id, d),
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds what the log of a task has for its own depth.
    fn carry_out(&self, frame: &mut Frame<'_, T>, counts: &mut Counts) -> Result<()> {
        let depth = self.tasks.nodes[frame.task as usize].depth;
        for (id, d) in frame.log.0.remove(&depth).into_iter().flatten().flatten() {
            counts.work += 1;
            self.add(id, d)?;
        }
        Ok(())
    }
}
