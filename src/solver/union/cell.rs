//! One conjunction of a union.

use std::collections::BTreeMap;

use super::line::{Form, Known, Line, parse};
use crate::index::Pred;

/// A conjunction: what it says of each linear form, and all other conjuncts, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell {
    pub(super) lines: BTreeMap<Form, Line>,
    pub(super) rest: Vec<Pred>,
}

impl Cell {
    /// The cell of a predicate; nothing where it contradicts itself.
    pub(super) fn of(p: &Pred) -> Option<Cell> {
        let mut cell = Cell::default();
        for q in p.conjuncts() {
            match parse(q) {
                _ if q.is_false() => return None,
                Some((form, line)) => cell.restrict(form, &line)?,
                None => cell.rest.push(q.clone()),
            }
        }
        cell.rest.sort();
        cell.rest.dedup();
        Some(cell)
    }

    fn restrict(&mut self, form: Form, line: &Line) -> Option<()> {
        let known = self.lines.entry(form).or_insert_with(Line::all);
        *known = known.intersect(line);
        (!known.is_empty()).then_some(())
    }

    /// The conjuncts, one for each form and those besides; none that is `true`.
    pub(super) fn conjuncts(&self) -> Vec<Pred> {
        let lines = self.lines.iter().map(|(form, line)| line.write(form, Known::default()));
        let mut conjuncts: Vec<Pred> = lines.filter(|p| !p.is_true()).chain(self.rest.iter().cloned()).collect();
        conjuncts.sort();
        conjuncts
    }

    /// The conjuncts, with intervals as two bounds.
    pub(super) fn atoms(&self) -> Vec<Pred> {
        self.conjuncts().iter().flat_map(|p| p.conjuncts().iter().cloned()).collect()
    }

    pub(super) fn to_pred(&self) -> Pred {
        Pred::all(self.conjuncts())
    }

    /// Whether every conjunct of `self` follows from one conjunct of `other`.
    pub(super) fn absorbs(&self, other: &Cell) -> bool {
        let within = |(form, line): (&Form, &Line)| other.lines.get(form).is_some_and(|l| l.is_subset(line));
        self.lines.iter().all(within) && self.rest.iter().all(|p| other.rest.binary_search(p).is_ok())
    }

    /// Whether a map is applied somewhere.
    pub(super) fn applies_maps(&self) -> bool {
        self.conjuncts().iter().any(Pred::applies_maps)
    }

    /// The conjuncts that two cells share.
    fn common(&self, other: &Cell) -> Cell {
        let lines = self.lines.iter().filter(|(form, line)| other.lines.get(form) == Some(line));
        let rest = self.rest.iter().filter(|p| other.rest.binary_search(p).is_ok());
        Cell { lines: lines.map(|(f, l)| (f.clone(), l.clone())).collect(), rest: rest.cloned().collect() }
    }

    /// Without the conjuncts of another.
    fn without(&self, other: &Cell) -> Cell {
        let lines = self.lines.iter().filter(|(form, line)| other.lines.get(form) != Some(line));
        let rest = self.rest.iter().filter(|p| other.rest.binary_search(p).is_err());
        Cell { lines: lines.map(|(f, l)| (f.clone(), l.clone())).collect(), rest: rest.cloned().collect() }
    }
}

/// The union as a predicate, with the conjuncts that all cells share in front: `(p and q) or (p and r) == p and (q or r)`.
pub(super) fn write_union(cells: &[Cell]) -> Pred {
    let Some((first, others)) = cells.split_first() else { return Pred::False };
    let common = others.iter().fold(first.clone(), |common, cell| common.common(cell));
    common.to_pred().and(Pred::any(cells.iter().map(|cell| cell.without(&common).to_pred())))
}

/// Drops cells that another contains form by form, and unites cells that differ in one form: `(L in A and p) or (L in B and p)  ==
/// L in A + B and p`.
pub(super) fn merge(mut cells: Vec<Cell>) -> Vec<Cell> {
    loop {
        let before = cells.len();
        let mut of_form: BTreeMap<Form, Vec<usize>> = BTreeMap::new();
        cells.iter().enumerate().for_each(|(at, cell)| {
            cell.lines.keys().for_each(|form| of_form.entry(form.clone()).or_default().push(at));
        });
        let mut slots: Vec<Option<Cell>> = cells.into_iter().map(Some).collect();
        for (form, places) in of_form.into_iter().filter(|(_, places)| places.len() > 1) {
            merge_along(&form, &places, &mut slots);
        }
        cells = slots.into_iter().flatten().collect();
        absorb(&mut cells);
        if cells.len() == before {
            return cells;
        }
    }
}

/// How many cells are compared pairwise.
const MAX_PAIRWISE: usize = 64;

fn absorb(cells: &mut Vec<Cell>) {
    if cells.len() > MAX_PAIRWISE {
        return;
    }
    let mut at = 0;
    while at < cells.len() {
        let absorbed = (0..cells.len()).any(|other| {
            // Of two equal cells the first stays.
            other != at && cells[other].absorbs(&cells[at]) && (other < at || cells[other] != cells[at])
        });
        if absorbed {
            cells.remove(at);
        } else {
            at += 1;
        }
    }
}

fn merge_along(form: &Form, places: &[usize], slots: &mut [Option<Cell>]) {
    // The line and the place of those that agree in all else, by what they agree in.
    let mut groups: BTreeMap<Cell, Vec<(usize, Line)>> = BTreeMap::new();
    for at in places {
        let Some(mut cell) = slots.get_mut(*at).and_then(Option::take) else { continue };
        match cell.lines.remove(form) {
            Some(line) => groups.entry(cell).or_default().push((*at, line)),
            // An earlier form united the cell with one that does not restrict this form.
            None => slots[*at] = Some(cell),
        }
    }
    for (mut cell, members) in groups {
        let Some((first, _)) = members.first() else { continue };
        let line = Line::union(members.iter().map(|(_, line)| line));
        if !line.is_all() {
            cell.lines.insert(form.clone(), line);
        }
        slots[*first] = Some(cell);
    }
}
