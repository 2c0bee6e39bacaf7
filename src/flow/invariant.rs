//! States that no step changes, and states that are copies of each other.
//!
//! ```text
//! P, Q, R = scan t < T, (s, q, r) = (a, b, b). (s, F(s, q), F(s, r))  ==  Q = scan t < T, q = b. F(a, q);  P = gen t <= T. a;  R = Q
//! ```
//!
//! What is owed to an accumulator is a state that no step changes: each step adds to it, so each is owed what the sum is.
//!
//! **Why.** States are put into classes, some of them *invariant*, such that
//!
//! - the states of a class have one first state;
//! - with one state in the place of all of its class, and the first state in the place of those of an invariant class, the steps of a class give one value,
//!   and those of an invariant class the first state.
//!
//! Then by induction over the steps states of a class are equal before each step, and those of an invariant one are the first state: so it is before the first step by
//! the first condition, and what holds before a step holds behind it by the second. The value of one stands for the others, that of an invariant
//! state is the first one in all steps, and its path as many copies of that. *One value* is one statement for hash-consing, where copies are what
//! they copy, `a + b` is `b + a`, and `[p] * a + [not p] * a` is `a`: no bit changes, if `-0` counts as 0.
//!
//! **The largest classes** are found as equal states of an automaton are, by Moore: all states with one first state begin as one invariant class, and classes are
//! split by what steps give until none is; so for loops Alpern, Wegman and Zadeck, *Detecting equality of variables in programs* (1988). After a
//! bounded number of rounds only states that go on as they are, whatever the others do, are taken.
//!
//! Left as they are: fixpoints, which are equations for their states; a loop that ends early and has nothing but invariant states, as it may find out how many
//! steps there are; equalities that only hold together with those of a loop around.

use std::collections::BTreeMap;

use super::build::Builder;
use super::data::{Call, Leaf, Loops, Program, Scan, State, Stmt, ValueId, with_scans};
use super::join::join;
use super::leaf::{Joined, Small, Source};
use crate::base::{Id, IndexId, VarId};
use crate::error::{Error, Result};
use crate::index::Pred;
use crate::tssa::{self, Rhs};

const PASS: &str = "invariant-states";
/// How often classes are split.
const ROUNDS: usize = 8;
/// How many statements a first state is looked at with.
const MAX_STATEMENTS: usize = 16;

/// The flow without states that no step changes, and with one state for those that are equal.
///
/// # Errors
/// [`Error::Overflow`] and [`Error::Bug`].
pub fn without_invariant_states(program: &Program) -> Result<Program> {
    let mut flow = Builder::resume(program);
    let mut values = Values::default();
    let body = with_scans(&program.body, &Loops::new(), &mut |scan, loops, out| {
        let stands = match scan.implicit {
            Some(_) => vec![Stands::Itself; scan.states.len()],
            None => stands(&flow, &scan, out, &values)?,
        };
        if scan.early.is_some() && stands.iter().all(|stands| *stands == Stands::First) {
            out.push(Stmt::Scan(scan));
            return Ok(());
        }
        let mut paths = Vec::new();
        for (state, stands) in scan.states.iter().zip(&stands) {
            match stands {
                Stands::Itself => {}
                Stands::First => {
                    let (name, init) = (flow.get(state.path).name.clone(), values.of(state.init));
                    let states = scan.steps.add_constant(1)?;
                    let path = Small { flow: &mut flow, loops }.repeated(&name, init, &states)?;
                    values.stand(state, init, init, path.given()?);
                    paths.push(Stmt::Leaf(path));
                }
                Stands::Other(at) => {
                    let other = scan.states[*at];
                    values.stand(state, other.before, other.last, other.path);
                }
            }
        }
        let kept = scan.states.iter().zip(&stands).filter(|(_, stands)| **stands == Stands::Itself);
        let states: Vec<State> = kept.map(|(state, _)| *state).collect();
        if !states.is_empty() || scan.states.is_empty() {
            out.push(Stmt::Scan(Scan { states, ..scan }));
        }
        out.append(&mut paths);
        Ok(())
    })?;
    if values.instead.is_empty() {
        return Ok(program.clone());
    }
    let mut outputs = program.outputs.clone();
    outputs.iter_mut().flat_map(|output| &mut output.values).for_each(|x| *x = values.of(*x));
    join(&flow.finish(values.read_by(body), outputs))
}

/// What stands for values.
#[derive(Default)]
struct Values {
    instead: BTreeMap<ValueId, ValueId>,
}

impl Values {
    /// What stands for a value is older than it, or a state beside it.
    fn of(&self, mut x: ValueId) -> ValueId {
        while let Some(other) = self.instead.get(&x) {
            x = *other;
        }
        x
    }

    fn stand(&mut self, state: &State, before: ValueId, last: ValueId, path: ValueId) {
        self.instead.extend([(state.before, before), (state.last, last), (state.path, path)]);
    }

    /// Statements that read what stands for values.
    // Scans nest to a bounded depth.
    fn read_by(&self, body: Vec<Stmt>) -> Vec<Stmt> {
        let all = |values: &mut Vec<ValueId>| values.iter_mut().for_each(|x| *x = self.of(*x));
        let with = |stmt| match stmt {
            Stmt::Leaf(mut leaf) => {
                all(&mut leaf.takes);
                Stmt::Leaf(leaf)
            }
            Stmt::Call(mut call) => {
                all(&mut call.takes);
                Stmt::Call(Call { when: call.when.map(|x| self.of(x)), ..call })
            }
            Stmt::Scan(mut scan) => {
                for state in &mut scan.states {
                    *state = State { init: self.of(state.init), after: self.of(state.after), ..*state };
                }
                if let Some(early) = &mut scan.early {
                    early.changes = self.of(early.changes);
                }
                Stmt::Scan(Scan { body: self.read_by(scan.body), ..scan })
            }
        };
        body.into_iter().map(with).collect()
    }
}

/// What stands for a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    Itself,
    /// The first state.
    First,
    /// The state at another place.
    Other(usize),
}

/// The classes of states so far.
#[derive(Clone, PartialEq, Eq)]
struct Classes {
    /// The first state of each one's class.
    class: Vec<usize>,
    /// Whether that is invariant.
    invariant: Vec<bool>,
}

impl Classes {
    /// States with the same marks are of one class.
    fn by<K: Ord>(marks: &[K], invariant: Vec<bool>) -> Classes {
        let mut known = BTreeMap::new();
        let class = marks.iter().enumerate().map(|(at, mark)| *known.entry(mark).or_insert(at)).collect();
        Classes { class, invariant }
    }

    fn stands(&self, at: usize) -> Stands {
        match (self.invariant[at], self.class[at]) {
            (true, _) => Stands::First,
            (false, other) if other == at => Stands::Itself,
            (false, other) => Stands::Other(other),
        }
    }
}

/// What stands for the states of a scan behind some statements.
fn stands(flow: &Builder, scan: &Scan, ahead: &[Stmt], values: &Values) -> Result<Vec<Stands>> {
    let count = scan.states.len();
    let alone = Classes { class: (0..count).collect(), invariant: vec![false; count] };
    let step = Step { flow, scan, ahead, values };
    let mut classes: Option<Classes> = None;
    for _ in 0..ROUNDS {
        let Numbers { first, after, .. } = step.numbers(classes.as_ref())?;
        let now = match &classes {
            None => Classes::by(&first, vec![true; count]),
            Some(classes) => {
                let marks: Vec<_> = classes.class.iter().zip(&after).collect();
                let stays = classes.invariant.iter().zip(after.iter().zip(&first));
                let invariant = stays.map(|(invariant, (after, first))| *invariant && after == first).collect();
                Classes::by(&marks, invariant)
            }
        };
        if classes.as_ref() == Some(&now) {
            return Ok((0..count).map(|at| now.stands(at)).collect());
        }
        classes = Some(now);
    }
    let Numbers { before, after, .. } = step.numbers(Some(&alone))?;
    let goes_on = before.iter().zip(&after).map(|(before, after)| before == after);
    Ok(goes_on.map(|same| if same { Stands::First } else { Stands::Itself }).collect())
}

/// The statements that states are: the first ones, and those before and after a step.
struct Numbers {
    first: Vec<VarId>,
    before: Vec<VarId>,
    after: Vec<VarId>,
}

struct Step<'a> {
    flow: &'a Builder,
    scan: &'a Scan,
    ahead: &'a [Stmt],
    values: &'a Values,
}

impl Step<'_> {
    /// A step in which states are what stands for them in their classes; without classes the first states alone.
    fn numbers(&self, classes: Option<&Classes>) -> Result<Numbers> {
        let mut joined = Joined::new(self.flow);
        let states = &self.scan.states;
        let first = states.iter().map(|s| self.first_state(&mut joined, s.init)).collect::<Result<Vec<_>>>()?;
        let Some(classes) = classes else { return Ok(Numbers { first, before: Vec::new(), after: Vec::new() }) };
        let mut before = Vec::with_capacity(states.len());
        for (at, state) in states.iter().enumerate() {
            let var = match classes.stands(at) {
                Stands::First => first[at],
                Stands::Itself => joined.read(state.before, self.flow.dims(state.before)?),
                Stands::Other(other) => before[other],
            };
            joined.give(state.before, var);
            before.push(var);
        }
        for stmt in &self.scan.body {
            // What loops inside and code from outside give is one value only with itself.
            if let Stmt::Leaf(leaf) = stmt {
                let sources = self.sources(leaf);
                let write = &mut |joined: &mut Joined, _, stmt: &tssa::Stmt| one_value(joined, stmt);
                let vars = joined.statements(&leaf.program, leaf.outer_params(), &sources, write)?;
                joined.give_all(leaf, &vars)?;
            }
        }
        let after = states.iter().map(|state| {
            let after = self.values.of(state.after);
            Ok(joined.read(after, self.flow.dims(after)?))
        });
        Ok(Numbers { first, before, after: after.collect::<Result<_>>()? })
    }

    fn sources(&self, leaf: &Leaf) -> Vec<Source> {
        leaf.takes.iter().map(|x| Source::Value(self.values.of(*x))).collect()
    }

    /// A first state, as the few statements that it is made of where a leaf ahead gives it.
    fn first_state(&self, joined: &mut Joined, init: ValueId) -> Result<VarId> {
        let init = self.values.of(init);
        let found = if joined.knows(init) { None } else { self.ahead.iter().find_map(|stmt| few(stmt, init)) };
        if let Some((leaf, made)) = found {
            let sources = self.sources(leaf);
            let mut vars: BTreeMap<VarId, VarId> = BTreeMap::new();
            let mut last = None;
            for x in made {
                let stmt = leaf.program.stmts[x].rename(&|y| vars.get(&y).copied())?;
                let var = match (one_value(joined, &stmt)?, &stmt.rhs) {
                    (Some(var), _) => var,
                    (None, Rhs::Input { .. }) => joined.input(&stmt, leaf.outer_params(), &sources)?,
                    (None, _) => joined.builder.push(&stmt)?,
                };
                vars.insert(x, var);
                last = Some(var);
            }
            joined.give(init, last.ok_or_else(|| Error::bug(PASS, "a value that is made of nothing"))?);
        }
        Ok(joined.read(init, self.flow.dims(init)?))
    }
}

/// The leaf that gives a value, and the statements that the value is made of, if they are few.
fn few(stmt: &Stmt, value: ValueId) -> Option<(&Leaf, Vec<VarId>)> {
    let Stmt::Leaf(leaf) = stmt else { return None };
    let at = leaf.gives.iter().position(|x| *x == value)?;
    let [var] = leaf.program.outputs.get(at)?.leaves[..] else { return None };
    let mut made = vec![var];
    let mut seen = 0;
    while let Some(x) = made.get(seen).copied() {
        seen += 1;
        leaf.program.stmts[x].rhs.for_each_operand(|y| {
            if made.len() <= MAX_STATEMENTS && !made.contains(&y) {
                made.push(y);
            }
        });
    }
    // Operands come first.
    made.sort_unstable();
    (made.len() <= MAX_STATEMENTS).then_some((leaf, made))
}

/// What stands for a statement, of those with the same value: what it copies, or the sum in one order.
fn one_value(joined: &mut Joined, stmt: &tssa::Stmt) -> Result<Option<VarId>> {
    if let Rhs::Add([a, b]) = &stmt.rhs {
        let [(p, x), (q, y)] = [a, b].map(|(p, x)| {
            let inner = whole_operand(joined.builder.stmt(*x)).filter(|_| p.is_true());
            inner.map_or((p.clone(), *x), |(p, x)| (p.clone(), x))
        });
        if x == y && p.negate() == Some(q) {
            return Ok(Some(x));
        }
        if b.1 < a.1 {
            let rhs = Rhs::Add([b.clone(), a.clone()]);
            return joined.builder.push(&tssa::Stmt { rhs, ..stmt.clone() }).map(Some);
        }
    }
    Ok(whole_operand(stmt).filter(|(guard, _)| guard.is_true()).map(|(_, x)| x))
}

/// `gen g. [p] * x[g]`: the guard, and the tensor of the same axes.
fn whole_operand(stmt: &tssa::Stmt) -> Option<(&Pred, VarId)> {
    let Rhs::Contract { sums, guard, operands } = &stmt.rhs else { return None };
    let ([], [operand]) = (sums.as_slice(), operands.as_slice()) else { return None };
    let whole = (0..stmt.dims.len()).map(IndexId::from_index);
    operand.indices.iter().copied().eq(whole).then_some((guard, operand.var))
}
