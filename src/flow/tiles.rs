//! Time tiles: a long loop as a loop over tiles of its steps.
//!
//! ```text
//! fold t < N, s = a. F(t, s)  ==  fold v < R, s = (fold u < U, s = a. fold v < L, s. F(L u + v, s)). F(L U + v, s)          N = L U + R
//! ```
//!
//! The same steps run in the same order, so values have the same bits. What changes is the derivative, as the rules for loops give it: the loop over tiles
//! keeps its path, `U` states between tiles, and the step backwards of a tile runs the tile once more, now with its path of `L` states, and then
//! backwards. Once more is the price, and instead of `N` states there are `U + L + R`. A tile is a loop, and may be tiled as well: `r` *levels* keep
//! `r N^(1/r)` states and run `r - 1` times more. Shares of a tile of sums over time are added up from tile to tile, which is another order.
//!
//! A loop can be tiled if nobody reads its path but its derivative. Before, sums over time are [taken in](super::take_in), so that many paths are read no
//! more. Left as they are, with the reason:
//! - loops whose states are a result, or are read by other loops or as a whole;
//! - loops of which data decide how many steps they make.
//!
//! Steps that have loops inside count as tiles of one step: what is kept is the sum of the lengths, not their product.
//!
//! A loop down runs down in all of its parts, the rest first. The method of checkpoints is that of Griewank & Walther, *Evaluating Derivatives*, chapter 12,
//! with checkpoints at equal distances.

use std::collections::BTreeSet;
use std::fmt;

use super::again::Copies;
use super::build::Builder;
use super::data::{Loops, Program, Scan, State, Stmt, ValueId, scans, with_scans};
use super::join::join;
use super::split::add_up;
use crate::base::SizeId;
use crate::error::Result;
use crate::index::{Pred, Size, Var};

/// A flow with long loops tiled.
#[derive(Clone, Debug)]
pub struct Tiling {
    /// The flow. It assumes the numbers of steps that it was made for.
    pub program: Program,
    /// The loops that are tiled.
    pub tiled: Vec<Tiled>,
    /// The long loops that are not.
    pub kept: Vec<Kept>,
}

/// A loop that is tiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiled {
    /// The name of its index.
    pub index: String,
    /// How many steps it makes.
    pub steps: u64,
    /// How many tiles of tiles there are, and so on down to how many steps: their product and `rest` are the steps.
    pub lengths: Vec<u64>,
    /// How many steps are in no tile.
    pub rest: u64,
}

/// A long loop that is not tiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The name of its index.
    pub index: String,
    /// How many steps it makes, where that is known.
    pub steps: Option<u64>,
    /// Why.
    pub why: Why,
}

/// Why a loop is not tiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its states are read as a whole.
    Read,
    /// Data decide how many steps it makes.
    Decided,
}

impl fmt::Display for Tiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lengths: Vec<String> = self.lengths.iter().map(u64::to_string).collect();
        write!(
            f,
            "the {} steps of the loop over {} run in tiles, {}",
            self.steps,
            self.index,
            lengths.join(" times ")
        )?;
        match self.rest {
            0 => Ok(()),
            rest => write!(f, ", and {rest} more"),
        }
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let states = match self.steps {
            Some(steps) => format!("all {} states", steps.saturating_add(1)),
            None => "all states".to_owned(),
        };
        let why = match self.why {
            Why::Read => "the program reads them",
            Why::Decided => "data decide how many steps it makes",
        };
        write!(f, "{states} of the loop over {} are kept: {why}", self.index)
    }
}

/// The flow with its long loops in so many levels of tiles, for sizes; nothing where it is the same.
///
/// # Errors
/// [`Error::Overflow`](crate::Error::Overflow) and [`Error::Bug`](crate::Error::Bug).
pub fn tile_time(program: &Program, sizes: &dyn Fn(SizeId) -> Option<i64>, levels: u32) -> Result<Option<Tiling>> {
    let added = add_up(program)?;
    let mut tiler = Tiler {
        flow: Builder::resume(&added),
        read: added.reads(),
        sizes,
        levels,
        short: 0,
        tiled: Vec::new(),
        kept: Vec::new(),
        assumed: BTreeSet::new(),
        changes: added != *program,
    };
    tiler.short = root(tiler.longest(&added.body), levels).max(2);
    let body = with_scans(&added.body, &Loops::new(), &mut |scan, loops, out| tiler.scan(scan, loops, out))?;
    let Tiler { flow, tiled, kept, changes, .. } = tiler;
    if !changes {
        return Ok(None);
    }
    let program = join(&flow.finish(body, added.outputs))?;
    Ok(Some(Tiling { program, tiled, kept }))
}

/// The least number whose power is not below `n`.
fn root(n: u64, power: u32) -> u64 {
    let is_enough = |b: u64| b.checked_pow(power).is_none_or(|product| product >= n);
    let (mut low, mut high) = (0, n);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_enough(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

/// How many steps a tile has, of so many steps in so many levels, and in how many levels the rest is: so that few states are kept.
fn tile(steps: u64, levels: u32) -> Option<(u64, u32)> {
    // Where the lengths differ more, more is kept than a rest may save.
    const WIDTH: u64 = 8;
    const TRIED: u64 = 1024;
    if levels < 2 || steps < 4 {
        return None;
    }
    let most = root(steps, levels);
    let least = most.saturating_sub((most / WIDTH).min(TRIED)).max(2);
    let mut found: Option<(u64, u64, u32)> = None;
    for b in (least..=most).rev() {
        let Some(length) = b.checked_pow(levels - 1).filter(|length| 2 * *length <= steps) else { continue };
        let (tiles, rest) = (steps / length, steps % length);
        let below = levels - 1;
        let (rest, rest_levels) = match rest <= 2 * b {
            true => (rest, 1),
            false => (u64::from(below) * root(rest, below), below),
        };
        let kept = tiles + u64::from(below) * b + rest;
        if found.is_none_or(|(least, ..)| kept < least) {
            found = Some((kept, length, rest_levels));
        }
    }
    found.map(|(_, length, rest_levels)| (length, rest_levels))
}

struct Tiler<'a> {
    flow: Builder,
    /// What statements read, or results are.
    read: BTreeSet<ValueId>,
    sizes: &'a dyn Fn(SizeId) -> Option<i64>,
    levels: u32,
    /// Loops of so many steps are left as they are.
    short: u64,
    tiled: Vec<Tiled>,
    kept: Vec<Kept>,
    /// The numbers of steps that are assumed.
    assumed: BTreeSet<(Size, i64)>,
    changes: bool,
}

/// Steps of a loop that are together: from which on, and how many.
struct Part {
    from: Size,
    count: u64,
    levels: u32,
}

fn has_scans(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| matches!(stmt, Stmt::Scan(_)))
}

impl Tiler<'_> {
    /// How many steps a loop makes, if sizes say so.
    fn count(&self, scan: &Scan) -> Option<u64> {
        let mut value = |v: &Var| match v {
            Var::Size(n) => (self.sizes)(*n),
            Var::Index(_) | Var::Apply(_) => None,
        };
        scan.steps.evaluate(&mut value).and_then(std::result::Result::ok).map(|n| u64::try_from(n).unwrap_or(0))
    }

    /// Why a loop cannot be tiled, if it cannot.
    fn why_not(&self, scan: &Scan) -> Option<Why> {
        let is_read = scan.states.iter().any(|state| self.read.contains(&state.path));
        match &scan.early {
            Some(_) => Some(Why::Decided),
            None => is_read.then_some(Why::Read),
        }
    }

    /// The number of steps of the longest loop that can be tiled.
    fn longest(&self, body: &[Stmt]) -> u64 {
        let tiled = scans(body).into_iter().filter(|scan| self.why_not(scan).is_none());
        tiled.filter_map(|scan| self.count(scan)).max().unwrap_or(0)
    }

    fn scan(&mut self, mut scan: Scan, loops: &Loops, out: &mut Vec<Stmt>) -> Result<()> {
        let index = self.flow.frame().sizes.get(scan.index).cloned().unwrap_or_default();
        let steps = self.count(&scan);
        let is_long = steps.is_none_or(|steps| steps > self.short);
        let why = self.why_not(&scan).filter(|_| is_long);
        self.kept.extend(why.map(|why| Kept { index: index.clone(), steps, why }));
        let tiled =
            steps.filter(|_| is_long && why.is_none()).and_then(|steps| Some((steps, tile(steps, self.levels)?)));
        let Some((steps, _)) = tiled else {
            self.changes |= scan.tiles != has_scans(&scan.body);
            scan.tiles = has_scans(&scan.body);
            out.push(Stmt::Scan(scan));
            return Ok(());
        };
        self.changes = true;
        let count = i64::try_from(steps).unwrap_or(i64::MAX);
        if scan.steps.as_constant().is_none() && self.assumed.insert((scan.steps.clone(), count)) {
            self.flow.assume(Pred::equal(&scan.steps, &Size::constant(count))?);
        }
        self.tiled.push(self.lengths(index, steps));
        let inits: Vec<ValueId> = scan.states.iter().map(|state| state.init).collect();
        let lasts: Vec<ValueId> = scan.states.iter().map(|state| state.last).collect();
        let whole = Part { from: Size::constant(0), count: steps, levels: self.levels };
        self.part(&scan, &whole, (&inits, &lasts), loops, out)
    }

    /// What is said of the tiles of so many steps.
    fn lengths(&self, index: String, steps: u64) -> Tiled {
        let (mut lengths, mut rest, mut count) = (Vec::new(), 0, steps);
        for levels in (2..=self.levels).rev() {
            let Some((length, _)) = tile(count, levels) else { break };
            lengths.push(count / length);
            if lengths.len() == 1 {
                rest = count % length;
            }
            count = length;
        }
        lengths.push(count);
        Tiled { index, steps, lengths, rest }
    }

    /// Some steps of a loop, from first states to values that are the last ones.
    // Levels are bounded.
    fn part(
        &mut self,
        scan: &Scan,
        part: &Part,
        (inits, lasts): (&[ValueId], &[ValueId]),
        loops: &Loops,
        out: &mut Vec<Stmt>,
    ) -> Result<()> {
        let Some((length, rest_levels)) = tile(part.count, part.levels) else {
            return self.steps(scan, part, (inits, lasts), loops, out);
        };
        let (tiles, rest) = (part.count / length, part.count % length);
        let in_tiles = i64::try_from(tiles * length).unwrap_or(i64::MAX);
        let rest = Part { from: part.from.add_constant(in_tiles)?, count: rest, levels: rest_levels };
        if rest.count == 0 {
            return self.tiles(scan, part, (length, tiles), (inits, lasts), loops, out);
        }
        let between: Vec<ValueId> = lasts.iter().map(|x| self.another(*x)).collect();
        match scan.down {
            false => {
                self.tiles(scan, part, (length, tiles), (inits, &between), loops, out)?;
                self.part(scan, &rest, (&between, lasts), loops, out)
            }
            true => {
                self.part(scan, &rest, (inits, &between), loops, out)?;
                self.tiles(scan, part, (length, tiles), (&between, lasts), loops, out)
            }
        }
    }

    /// A new value like another one.
    fn another(&mut self, x: ValueId) -> ValueId {
        let value = self.flow.get(x).clone();
        self.flow.value(value.name, value.ty, value.storage)
    }

    /// The states of a new loop of so many steps; what comes after a step is not known yet.
    fn states(&mut self, scan: &Scan, steps: &Size, (inits, lasts): (&[ValueId], &[ValueId])) -> Result<Vec<State>> {
        let mut states = Vec::with_capacity(scan.states.len());
        for (state, (init, last)) in scan.states.iter().zip(inits.iter().zip(lasts)) {
            let before = self.another(state.before);
            let path = self.flow.get(state.path).clone();
            let element = self.flow.get(state.before).ty;
            let ty = self.flow.tensor(steps.add_constant(1)?, element);
            let path = self.flow.value(path.name, ty, path.storage);
            states.push(State { init: *init, before, after: before, path, last: *last });
        }
        Ok(states)
    }

    /// A loop over tiles.
    fn tiles(
        &mut self,
        scan: &Scan,
        part: &Part,
        (length, tiles): (u64, u64),
        ends: (&[ValueId], &[ValueId]),
        loops: &Loops,
        out: &mut Vec<Stmt>,
    ) -> Result<()> {
        let [length_, tiles] = [length, tiles].map(|n| i64::try_from(n).unwrap_or(i64::MAX));
        let (index, steps) = (self.new_index(scan), Size::constant(tiles));
        let mut states = self.states(scan, &steps, ends)?;
        let befores: Vec<ValueId> = states.iter().map(|state| state.before).collect();
        let afters: Vec<ValueId> = befores.iter().map(|x| self.another(*x)).collect();
        let from = part.from.add(&Size::size(index).scale(length_)?)?;
        let tile = Part { from, count: length, levels: part.levels - 1 };
        let mut inside = loops.clone();
        inside.push((index, steps.clone()));
        let mut body = Vec::new();
        self.part(scan, &tile, (&befores, &afters), &inside, &mut body)?;
        for (state, after) in states.iter_mut().zip(afters) {
            state.after = after;
        }
        let (down, early, tiles, implicit) = (scan.down, None, true, None);
        out.push(Stmt::Scan(Scan { index, steps, down, states, early, tiles, implicit, body }));
        Ok(())
    }

    fn new_index(&mut self, scan: &Scan) -> SizeId {
        let name = self.flow.frame().sizes.get(scan.index).cloned().unwrap_or_default();
        self.flow.index(&name)
    }

    /// A loop over steps.
    fn steps(
        &mut self,
        scan: &Scan,
        part: &Part,
        ends: (&[ValueId], &[ValueId]),
        loops: &Loops,
        out: &mut Vec<Stmt>,
    ) -> Result<()> {
        let index = self.new_index(scan);
        let steps = Size::constant(i64::try_from(part.count).unwrap_or(i64::MAX));
        let mut states = self.states(scan, &steps, ends)?;
        let mut copies = Copies::default();
        copies.sizes.insert(scan.index, part.from.add(&Size::size(index))?);
        for (old, new) in scan.states.iter().zip(&states) {
            copies.values.insert(old.before, new.before);
        }
        let mut inside = loops.clone();
        inside.push((index, steps.clone()));
        let body = copies.block(&mut self.flow, &scan.body, &inside)?;
        for (old, new) in scan.states.iter().zip(&mut states) {
            new.after = copies.value(old.after);
        }
        let (down, early, tiles, implicit) = (scan.down, None, has_scans(&body), None);
        out.push(Stmt::Scan(Scan { index, steps, down, states, early, tiles, implicit, body }));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All states that are kept at a time.
    fn kept(steps: u64, levels: u32) -> u64 {
        match tile(steps, levels) {
            None => steps,
            Some((length, rest)) => steps / length + kept(length, levels - 1) + kept(steps % length, rest),
        }
    }

    #[test]
    fn roots_are_the_least_that_reach() {
        for power in 1..5 {
            for n in 0..2000 {
                let b = root(n, power);
                assert!(b.pow(power) >= n && (b == 0 || (b - 1).pow(power) < n), "{n}, {power}: {b}");
            }
        }
        assert_eq!(root(u64::MAX, 2), 1 << 32);
    }

    #[test]
    fn levels_keep_few_states() {
        assert_eq!([1, 2, 3].map(|levels| kept(1_000_000, levels)), [1_000_000, 2_000, 300]);
        for steps in [5, 17, 1009, 4096, 65_537, 999_983] {
            for levels in 2..6 {
                let few = 2 * u64::from(levels) * root(steps, levels) + 8;
                assert!(kept(steps, levels) <= few.min(steps), "{steps} steps in {levels} levels");
            }
        }
    }

    #[test]
    fn few_steps_are_no_tiles() {
        assert!((0..4).all(|steps| tile(steps, 2).is_none()));
        assert_eq!(tile(100, 1), None);
        assert_eq!(tile(4, 2), Some((2, 1)));
    }
}
