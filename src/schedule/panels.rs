//! Matrix products panel by panel.
//!
//! ```text
//! parallel for i, jam 8                      parallel for q in 0 .. 15
//!   for j in 0 .. n - 1, lanes 16              for p in part q of 16 of 0 .. (n - 1)/32
//!     local r                                    for k, for j in 32p .. min(32p + 31, n - 1)
//!     for k                            ==          panel[q, k, j - 32p] = b[k, j]
//!       r += a[i, k] * b[k, j]                   for i, jam 8
//!     c[i, j] = r                                  for j in 32p .. min(32p + 31, n - 1), lanes 16
//!                                                    local r
//!                                                    for k
//!                                                      r += a[i, k] * panel[q, k, j - 32p]
//!                                                    c[i, j] = r
//! ```
//!
//! What is read of a row of `b` for 16 columns is two lines of the cache, and the next row is on another page: reading them one after the other
//! takes longer than the products. A panel is read front to back, twice for eight rows of the result, and stays in the second cache. Every
//! element is the same sum in the same order, so this changes no bit.
//!
//! A test of sizes decides at run time: there must be panels for several threads, enough rows of the result to read each panel again, and
//! between 64 and 1024 rows in a panel, fewer are in the nearest cache anyway, and for more there is no room: such sums are computed [in
//! blocks](blocks), also where the columns are a literal of too few for panels. It is refused
//! where a factor is read once for each product, where `k` has other bounds in other rows, where the loops read what they store, and where nothing is loaded at `k` and `j` alone.

use super::blocks;
use super::contract::Contraction;
use super::layout::Last;
use super::machine::{
    BLOCK_TERMS, PANEL_COLUMNS, PANEL_LANES, PANEL_LEAST_COLUMNS, PANEL_LEAST_RESULTS, PANEL_LEAST_ROWS,
    PANEL_MOST_ROWS, PANEL_PARTS,
};
use super::vectorise::Plan;
use crate::base::{Arena, IndexId};
use crate::error::Result;
use crate::index::{Affine, Checked};
use crate::loops::{
    Bound, Buffer, BufferId, Cond, Decision, Domain, Fresh, Nest, Outlook, Place, Program, Real, Stmt, has_loop,
    name_of,
};

/// A product that may be computed in panels.
struct Product<'a> {
    /// What comes before the loops.
    before: &'a [Stmt],
    rows: &'a Stmt,
    /// The loop over columns, and its last value.
    column: IndexId,
    last_column: &'a Affine,
    /// The last values of the loops over rows and of the sum.
    last_row: &'a Affine,
    last_summed: &'a Affine,
    summed: IndexId,
    /// What is copied.
    operand: &'a Place,
}

/// Puts matrix products into panels.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let Program { buffers, nests, .. } = program;
    Ok(nests.iter_mut().try_for_each(|nest| put(nest, buffers))?)
}

fn put(nest: &mut Nest, buffers: &mut Arena<BufferId, Buffer>) -> Checked<()> {
    let Some(product) = product(nest, &Plan::default()) else { return Ok(()) };
    let limits = limits(&product)?;
    let long =
        [product.last_row.add_constant(1 - PANEL_LEAST_RESULTS)?, product.last_summed.add_constant(-PANEL_MOST_ROWS)?];
    let mut names = Fresh::after(&nest.body);
    let (mut ways, mut others, mut decisions, mut panel) = (Vec::new(), Vec::new(), Vec::new(), None);
    // Where no sizes make it worth it, there need be no room.
    if may_hold(&limits) {
        let tensor = name_of(buffers, product.operand.buffer);
        let dims = [i64::from(PANEL_PARTS), PANEL_MOST_ROWS, PANEL_COLUMNS].map(Affine::constant).to_vec();
        let buffer = buffers.push(Buffer::workspace(format!("{tensor}_panel"), None, dims));
        ways.push(Stmt::If { cond: all_hold(&limits), body: vec![in_panels(&product, buffer, &mut names)?] });
        others.push(any_fails(&limits)?);
        decisions.push(Decision::Panels { tensor, columns: PANEL_COLUMNS });
        panel = Some(buffer);
    }
    if may_hold(&long)
        && let Some(in_blocks) = blocks::in_blocks(product.rows, product.column, product.last_summed, &mut names)?
    {
        names.again();
        ways.push(Stmt::If { cond: all_hold(&long), body: names.body(&[in_blocks])? });
        others.push(any_fails(&long)?);
        decisions.push(Decision::Blocks { terms: BLOCK_TERMS });
    }
    if others.is_empty() {
        return Ok(());
    }
    let rows = Stmt::If { cond: some_of(others, Cond::All), body: vec![product.rows.clone()] };
    nest.body = [product.before, &[rows], &ways].concat();
    nest.buffers.extend(panel);
    nest.decisions.extend(decisions);
    Ok(())
}

/// A product in panels, of which each is copied to a place of a buffer.
fn in_panels(product: &Product<'_>, panel: BufferId, names: &mut Fresh) -> Checked<Stmt> {
    let [part, number, row] = [(); 3].map(|()| names.fresh_index());
    let first = Affine::index(number).scale(PANEL_COLUMNS)?;
    let columns = Domain::Range {
        lower: vec![Bound::exact(first.clone())],
        upper: vec![Bound::exact(product.last_column.clone()), Bound::exact(first.add_constant(PANEL_COLUMNS - 1)?)],
    };
    let inside = |k: IndexId, j: IndexId| -> Checked<Place> {
        Ok(Place { buffer: panel, at: vec![part.into(), k.into(), Affine::index(j).sub(&first)?] })
    };

    let copied = {
        let (column, value) = (names.fresh_index(), names.fresh_real());
        let give = |i: IndexId| match i {
            i if i == product.summed => Some(row.into()),
            i if i == product.column => Some(column.into()),
            _ => None,
        };
        let at = product.operand.at.iter().map(|a| a.substitute(&give)).collect::<Checked<_>>()?;
        let load = Stmt::Define(value, Real::Load(Place { buffer: product.operand.buffer, at }));
        let store = Stmt::Store(inside(row, column)?, value);
        let (index, domain, body) = (column, columns.clone(), vec![load, store]);
        let lanes = Stmt::For { index, domain, lanes: PANEL_LANES, jam: 1, parallel: false, body };
        Stmt::one_by_one(row, Domain::whole(&product.last_summed.add_constant(1)?)?, vec![lanes])
    };
    let mut multiplied = product.rows.clone();
    replace(&mut multiplied, product, &columns, &inside(product.summed, product.column)?);
    if let Stmt::For { parallel, .. } = &mut multiplied {
        *parallel = false;
    }
    let multiplied = names.body(&[multiplied])?;

    let blocks = Domain::Range {
        lower: vec![Bound::exact(Affine::constant(0))],
        upper: vec![Bound { numerator: product.last_column.clone(), divisor: PANEL_COLUMNS }],
    };
    let blocks = Domain::Part { whole: Box::new(blocks), part: part.into(), parts: PANEL_PARTS, grain: 1 };
    let body = [vec![copied], multiplied].concat();
    Ok(Stmt::For {
        index: part,
        domain: Domain::whole(&Affine::constant(i64::from(PANEL_PARTS)))?,
        lanes: 1,
        jam: 1,
        parallel: true,
        body: vec![Stmt::one_by_one(number, blocks, body)],
    })
}

/// Whether some sizes have all of these at least 0.
fn may_hold(limits: &[Affine]) -> bool {
    limits.iter().all(|a| a.as_constant().is_none_or(|a| a >= 0))
}

/// What is at least 0 where a product is computed in panels.
fn limits(product: &Product<'_>) -> Checked<[Affine; 4]> {
    Ok([
        product.last_column.add_constant(1 - PANEL_LEAST_COLUMNS)?,
        product.last_row.add_constant(1 - PANEL_LEAST_RESULTS)?,
        product.last_summed.add_constant(1 - PANEL_LEAST_ROWS)?,
        product.last_summed.scale(-1)?.add_constant(PANEL_MOST_ROWS - 1)?,
    ])
}

/// All of these are at least 0, where constants are.
fn all_hold(limits: &[Affine]) -> Cond {
    some_of(open(limits).cloned().map(Cond::NonNegative).collect(), Cond::All)
}

/// Some of them is not.
fn any_fails(limits: &[Affine]) -> Checked<Cond> {
    let fails = open(limits).map(|a| Ok(Cond::NonNegative(a.scale(-1)?.add_constant(-1)?)));
    Ok(some_of(fails.collect::<Checked<_>>()?, Cond::Any))
}

/// The only condition, or what joins several.
fn some_of(mut conds: Vec<Cond>, of: fn(Vec<Cond>) -> Cond) -> Cond {
    if conds.len() == 1 { conds.remove(0) } else { of(conds) }
}

/// Those that sizes decide.
fn open(limits: &[Affine]) -> impl Iterator<Item = &Affine> {
    limits.iter().filter(|a| a.as_constant().is_none())
}

/// Whether a nest is a matrix product that may be computed in panels, once its sums are contracted and in lanes, and some buffers have other axes
/// last.
pub(super) fn applies(nest: &Nest, last: &Last) -> bool {
    product(nest, &Plan::under(last, nest, Contraction::of(&nest.body))).is_some()
}

/// The last value of a loop from 0 on, over a size.
pub(super) fn last(domain: &Domain) -> Option<&Affine> {
    let Domain::Range { lower, upper } = domain else { return None };
    let ([lower], [upper]) = (lower.as_slice(), upper.as_slice()) else { return None };
    let from_zero = lower.divisor == 1 && lower.numerator.as_constant() == Some(0);
    (from_zero && upper.divisor == 1 && upper.numerator.is_size()).then_some(&upper.numerator)
}

/// The only loop among statements, where the others are numbers, sums and stores.
fn only_loop(body: &[Stmt]) -> Option<&Stmt> {
    let mut loops = body.iter().filter(|stmt| has_loop(stmt));
    let found = loops.next()?;
    let simple = |stmt: &Stmt| {
        let plain = matches!(stmt, Stmt::Define(..) | Stmt::Local(_) | Stmt::Store(..) | Stmt::For { .. });
        plain || matches!(stmt, Stmt::Accumulate(..) | Stmt::MulAdd(..))
    };
    (loops.next().is_none() && body.iter().all(simple)).then_some(found)
}

/// The product that a nest is, as it will be by a plan.
fn product<'a>(nest: &'a Nest, plan: &Plan<'_>) -> Option<Product<'a>> {
    let (rows, before) = nest.body.split_last()?;
    let Stmt::For { index: i, domain, lanes, jam, parallel, body } = rows else { return None };
    if plan.lanes(*i, *lanes) > 1 || plan.jam(*i, *jam) < 2 || !plan.is_parallel(*i, *parallel) {
        return None;
    }
    let last_row = last(domain)?;
    if !before.iter().all(|stmt| matches!(stmt, Stmt::Define(..))) || body.iter().any(|s| matches!(s, Stmt::Store(..)))
    {
        return None;
    }
    let mut again = false;
    rows.visit(&mut |stmt| again |= stmt.load().is_some_and(|place| nest.buffers.contains(&place.buffer)));
    let Stmt::For { index: j, domain, lanes, jam, body, .. } = only_loop(body).filter(|_| !again)? else {
        return None;
    };
    let in_panels = plan.lanes(*j, *lanes) == PANEL_LANES && plan.jam(*j, *jam) == 1;
    let last_column = last(domain).filter(|_| in_panels)?;
    let summed = only_loop(body).filter(|stmt| !plan.is_vector(stmt))?;
    let Stmt::For { index: k, domain, body, .. } = summed else { return None };
    let last_summed = last(domain)?;
    let is_panel = |place: &&Place| {
        let axis = plan.last_axis(place);
        let Some(column) = place.at.get(axis) else { return false };
        let others = place.at.iter().enumerate().filter(|(at, _)| *at != axis).map(|(_, a)| a);
        let (own, rest): (Vec<&Affine>, Vec<&Affine>) = others.partition(|a| a.as_index() == Some(*k));
        let elsewhere = rest.iter().all(|a| ![i, j, k].into_iter().any(|index| a.mentions(*index)));
        column.as_index() == Some(*j) && own.len() == 1 && elsewhere
    };
    // What is read once for each product takes longer than anything that panels save.
    let is_read_once = |place: &Place| [i, j, k].into_iter().all(|index| place.at.iter().any(|a| a.mentions(*index)));
    if body.iter().filter_map(Stmt::load).any(is_read_once) {
        return None;
    }
    let products = body.iter().filter(|stmt| plan.adds_product(stmt)).count();
    let operand = body.iter().filter_map(Stmt::load).find(is_panel).filter(|_| products > 0)?;
    Some(Product { before, rows, column: *j, last_column, last_row, last_summed, summed: *k, operand })
}

/// Gives the columns of a panel to the loop over columns, and the panel to the loads of the operand.
fn replace(stmt: &mut Stmt, product: &Product<'_>, columns: &Domain, panel: &Place) {
    match stmt {
        Stmt::For { index, domain, body, .. } => {
            if *index == product.column {
                *domain = columns.clone();
            }
            body.iter_mut().for_each(|stmt| replace(stmt, product, columns, panel));
        }
        Stmt::Define(_, Real::Load(place)) if place == product.operand => *place = panel.clone(),
        _ => {}
    }
}
