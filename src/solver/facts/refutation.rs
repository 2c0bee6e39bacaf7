//! Refutations: whether constraints, and cases of clauses, have no integer point.

use std::collections::BTreeSet;

use smallvec::smallvec;

use super::super::linear::{Feasible, System, solve};
use super::{Budget, Clause, Columns, Conj, Facts, RelationAtom, Row, model, row, unequal};
use crate::base::work;
use crate::index::{Application, RelationRef, Var};

/// How many inequalities may be written down for one conjunction.
const MAX_CONSTRAINTS: usize = 2000;
/// How many variables may take part in one refutation.
const MAX_COLUMNS: usize = 256;
/// How many pairs of relation atoms, or of map applications, are compared.
const MAX_PAIRS: usize = 64;
/// How many steps are made to a point at which everything holds.
const MAX_REPAIRS: usize = 32;

/// One refutation: the columns that take part, numbered anew, and what is left of the budget.
pub(super) struct Refutation<'a> {
    pub(super) columns: Columns<'a>,
    /// For each column its local number, `u32::MAX` where it takes no part.
    local: Vec<u32>,
    /// How many columns take part.
    width: usize,
    pub(super) budget: Budget,
}

/// A node of the search: the constraints in force.
#[derive(Clone, Default)]
pub(super) struct Node<'a> {
    pub(super) bounds: Vec<&'a Row>,
    pub(super) equations: Vec<&'a Row>,
    pub(super) relations: Vec<&'a RelationAtom>,
    pub(super) clauses: Vec<&'a [Conj]>,
    /// How many relation atoms have been compared with each other.
    pub(super) compared: usize,
}

impl<'a> Node<'a> {
    pub(super) fn add(&mut self, conj: &'a Conj) {
        self.bounds.extend(&conj.bounds);
        self.equations.extend(&conj.equations);
        self.relations.extend(&conj.relations);
        self.clauses.extend(conj.clauses.iter().map(Vec::as_slice));
    }

    /// Drops clauses with a case of relation atoms only, none of whose opposites occurs anywhere: a model of the rest becomes one of
    /// these too by adding to the relations, or taking from them, whatever the case says.
    fn drop_free_clauses(&mut self) {
        let mut signs: BTreeSet<(RelationRef, bool)> = BTreeSet::new();
        let mut note = |r: &RelationAtom| {
            signs.insert((r.relation, r.holds));
        };
        self.relations.iter().for_each(|r| note(r));
        self.clauses.iter().copied().flatten().for_each(|case| case.visit_relations(&mut note));
        let free = |case: &Conj| {
            let Conj { bounds, equations, relations, clauses } = case;
            bounds.is_empty()
                && equations.is_empty()
                && clauses.is_empty()
                && relations.iter().all(|r| !signs.contains(&(r.relation, !r.holds)))
        };
        self.clauses.retain(|clause| !clause.iter().any(free));
    }

    fn visit_rows(&self, visit: &mut impl FnMut(&Row)) {
        self.bounds.iter().chain(&self.equations).for_each(|row| visit(row));
        self.relations.iter().flat_map(|r| &r.args).for_each(&mut *visit);
        self.clauses.iter().copied().flatten().for_each(|case| case.visit_rows(visit));
    }
}

impl<'a> Refutation<'a> {
    pub(super) fn new(facts: &'a Facts, budget: Budget) -> Self {
        Refutation { columns: Columns { facts, extra: Vec::new() }, local: Vec::new(), width: 0, budget }
    }

    /// Whether the facts within reach together with `goal` have no integer point.
    pub(super) fn run(&mut self, goal: &Conj, reach: Reach) -> bool {
        let facts = self.columns.facts;
        work::charge(8 + facts.known.len());
        let mut selection = Selection::new(facts, goal, reach);
        let congruences = selection.close(&mut self.columns);
        let mut node = selection.node;
        node.add(goal);
        node.clauses.extend(congruences.iter().map(Vec::as_slice));
        node.drop_free_clauses();
        self.local = vec![u32::MAX; self.columns.len()];
        self.width = 0;
        let mut sizes = Vec::new();
        node.visit_rows(&mut |row| {
            for (c, _) in &row.terms {
                let local = &mut self.local[*c as usize];
                if *local == u32::MAX {
                    *local = self.width as u32;
                    self.width += 1;
                    if matches!(self.columns.var(*c), Var::Size(_)) {
                        sizes.push(Row { terms: smallvec![(*c, 1)], constant: 0 });
                    }
                }
            }
        });
        node.bounds.extend(&sizes);
        self.width <= MAX_COLUMNS && !model::exists(&node, &self.local, self.width, MAX_REPAIRS) && self.search(node)
    }

    /// `refuted(node) == infeasible(node) or all cases of some clause are refuted`.
    fn search(&mut self, node: Node) -> bool {
        if work::is_used_up() {
            return false;
        }
        if self.infeasible(&node, None) {
            return true;
        }
        // R(a) and not R(b)  ==>  a != b
        let mut exclusions: Vec<Clause> = Vec::new();
        let mut node = node;
        for (n, negative) in node.relations.iter().enumerate().filter(|(_, r)| !r.holds) {
            for (m, positive) in node.relations.iter().enumerate().filter(|(_, r)| r.holds) {
                let same = positive.relation == negative.relation && positive.args.len() == negative.args.len();
                // Pairs of older atoms have their clause already.
                if same && n.max(m) >= node.compared && exclusions.len() < MAX_PAIRS {
                    exclusions.extend(differ(&positive.args, &negative.args));
                }
            }
        }
        node.compared = node.relations.len();
        node.clauses.extend(exclusions.iter().map(Vec::as_slice));

        let mut best: Option<(usize, Vec<&Conj>)> = None;
        for (at, clause) in node.clauses.iter().enumerate() {
            let mut open = Vec::new();
            for case in *clause {
                if self.budget.splits == 0 {
                    return false;
                }
                self.budget.splits -= 1;
                if !self.infeasible(&node, Some(case)) {
                    open.push(case);
                }
            }
            if open.is_empty() {
                return true;
            }
            if best.as_ref().is_none_or(|(_, b)| open.len() < b.len()) {
                let forced = open.len() == 1;
                best = Some((at, open));
                if forced {
                    break;
                }
            }
        }
        let Some((at, open)) = best else { return false };
        node.clauses.swap_remove(at);
        open.into_iter().all(|case| {
            let mut node = node.clone();
            node.add(case);
            self.search(node)
        })
    }

    /// Whether the linear constraints alone have no integer point.
    fn infeasible(&mut self, node: &Node, case: Option<&Conj>) -> bool {
        let more_bounds = case.into_iter().flat_map(|c| &c.bounds);
        let more_equations = case.into_iter().flat_map(|c| &c.equations);
        let bounds: Vec<&Row> = node.bounds.iter().copied().chain(more_bounds).collect();
        let equations: Vec<&Row> = node.equations.iter().copied().chain(more_equations).collect();
        let limit = MAX_CONSTRAINTS.min(self.budget.constraints);
        work::charge((bounds.len() + equations.len()) * (2 + self.width / 8));
        if bounds.len() + equations.len() > limit || work::is_used_up() {
            return false;
        }
        let mut rows: Vec<Vec<i128>> = bounds.into_iter().map(|r| self.dense(r)).collect();
        let mut equations: Vec<Vec<i128>> = equations.into_iter().map(|r| self.dense(r)).collect();
        let mut system = System::new(self.width, limit);
        system.made = rows.len() + equations.len();
        if !solve(&mut equations, &mut rows) {
            return true;
        }
        let feasible = if rows.into_iter().any(|row| system.insert(row) == Feasible::No) {
            Feasible::No
        } else {
            system.eliminate()
        };
        self.budget.constraints = self.budget.constraints.saturating_sub(system.made);
        feasible == Feasible::No
    }

    fn dense(&self, row: &Row) -> Vec<i128> {
        let mut dense = vec![0; self.width + 1];
        for (c, k) in &row.terms {
            dense[self.local[*c as usize] as usize] = i128::from(*k);
        }
        dense[self.width] = i128::from(row.constant);
        dense
    }
}

/// The clause `a != b`, nothing where it cannot be expressed. Empty for equal tuples.
fn differ(a: &[Row], b: &[Row]) -> Option<Clause> {
    let mut clause = Vec::new();
    for (a, b) in a.iter().zip(b) {
        let difference = a.minus(b)?;
        if difference.terms.is_empty() {
            if difference.constant != 0 {
                return None;
            }
            continue;
        }
        clause.extend(unequal(&difference)?);
    }
    Some(clause)
}

/// Which facts take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Those that speak of nothing but what the goal mentions: enough for most goals, however many indices are in scope.
    Narrow,
    /// Those connected to the goal by a column or a relation.
    Connected,
    /// All.
    Everything,
}

/// The facts within reach.
struct Selection<'a> {
    facts: &'a Facts,
    reach: Reach,
    columns: Vec<bool>,
    relations: BTreeSet<RelationRef>,
    changed: bool,
    node: Node<'a>,
}

impl<'a> Selection<'a> {
    fn new(facts: &'a Facts, goal: &Conj, reach: Reach) -> Self {
        let mut selection = Selection {
            facts,
            reach,
            columns: vec![reach == Reach::Everything; facts.vars.len()],
            relations: BTreeSet::new(),
            changed: true,
            node: Node::default(),
        };
        selection.mark(goal);
        selection
    }

    fn mark_row(&mut self, row: &Row) {
        for (c, _) in &row.terms {
            let c = *c as usize;
            if c >= self.columns.len() {
                self.columns.resize(c + 1, false);
            }
            self.changed |= !std::mem::replace(&mut self.columns[c], true);
        }
    }

    fn mark(&mut self, conj: &Conj) {
        conj.visit_rows(&mut |row| self.mark_row(row));
        conj.visit_relations(&mut |r| self.changed |= self.relations.insert(r.relation));
    }

    fn touches_row(&self, row: &Row) -> bool {
        let mut columns = row.terms.iter().map(|(c, _)| self.columns[*c as usize]);
        match self.reach {
            Reach::Narrow => columns.all(|marked| marked),
            Reach::Connected => columns.any(|marked| marked),
            Reach::Everything => true,
        }
    }

    fn touches_clause(&self, clause: &Clause) -> bool {
        let (mut all, mut any) = (true, clause.is_empty());
        for case in clause {
            case.visit_rows(&mut |row| {
                let touched = self.touches_row(row);
                (all, any) = (all && touched, any || touched);
            });
            case.visit_relations(&mut |r| {
                let touched = self.relations.contains(&r.relation);
                (all, any) = (all && touched, any || touched);
            });
        }
        match self.reach {
            Reach::Narrow => all,
            Reach::Connected => any,
            Reach::Everything => true,
        }
    }

    /// Tuples that share a column with the goal count where others are known not to be in the relation: they differ.
    fn touches_relation(&self, r: &RelationAtom) -> bool {
        let met = self.relations.contains(&r.relation);
        match self.reach {
            Reach::Narrow => met && r.args.iter().all(|row| self.touches_row(row)),
            Reach::Connected => {
                met || (self.facts.negated.contains(&r.relation) && r.args.iter().any(|row| self.touches_row(row)))
            }
            Reach::Everything => true,
        }
    }

    /// Selects until nothing changes. Returns clauses that say that maps give equal values for equal arguments.
    fn close(&mut self, columns: &mut Columns) -> Vec<Clause> {
        let known = &self.facts.known;
        let mut bounds: Vec<&Row> = known.bounds.iter().collect();
        let mut equations: Vec<&Row> = known.equations.iter().collect();
        let mut relations: Vec<&RelationAtom> = known.relations.iter().collect();
        let mut clauses: Vec<&Clause> = known.clauses.iter().collect();
        let mut applications = Vec::new();
        let mut congruences = Vec::new();
        while std::mem::take(&mut self.changed) {
            bounds.retain(|row| {
                let touched = self.touches_row(row);
                if touched {
                    self.mark_row(row);
                    self.node.bounds.push(row);
                }
                !touched
            });
            equations.retain(|row| {
                let touched = self.touches_row(row);
                if touched {
                    self.mark_row(row);
                    self.node.equations.push(row);
                }
                !touched
            });
            relations.retain(|r| {
                let touched = self.touches_relation(r);
                if touched {
                    self.changed |= self.relations.insert(r.relation);
                    r.args.iter().for_each(|row| self.mark_row(row));
                    self.node.relations.push(r);
                }
                !touched
            });
            clauses.retain(|clause| {
                let touched = self.touches_clause(clause);
                if touched {
                    clause.iter().for_each(|case| self.mark(case));
                    self.node.clauses.push(clause);
                }
                !touched
            });
            self.compare_applications(columns, &mut applications, &mut congruences);
        }
        congruences
    }

    /// `a != b or f(a) = f(b)` for applications `f(a)` not met before.
    fn compare_applications(&mut self, columns: &mut Columns, met: &mut Vec<(u32, Vec<Row>)>, into: &mut Vec<Clause>) {
        for column in 0..self.columns.len() as u32 {
            if !self.columns[column as usize] || met.iter().any(|(c, _)| *c == column) {
                continue;
            }
            let Var::Apply(application) = columns.var(column) else { continue };
            let application = Application::clone(application);
            let args: Vec<Row> = application.args.iter().map(|a| row(a, columns)).collect();
            for (other, other_args) in met.iter() {
                let Var::Apply(known) = columns.var(*other) else { continue };
                if known.map != application.map || other_args.len() != args.len() || into.len() >= MAX_PAIRS {
                    continue;
                }
                let equal = Row { terms: smallvec![(*other, 1), (column, -1)], constant: 0 };
                into.extend(differ(other_args, &args).map(|mut clause| {
                    clause.push(Conj { equations: vec![equal], ..Conj::default() });
                    clause
                }));
            }
            args.iter().for_each(|row| self.mark_row(row));
            met.push((column, args));
        }
    }
}
