//! Two sparse matrices entry by entry: their rows are merged by hand, and searched onwards by our kernels.

use std::cmp::Ordering;

use iverson::Result;
use iverson::tensor::{CsrPattern, Inputs};

use crate::harness::{Case, Run, Table, sparse};

pub fn run(table: &mut Table) -> Result<()> {
    // Rows of one length, and short ones beside long ones; about every eighth entry meets another.
    for ([n, m], [short, long]) in [([100_000, 200], [20, 20]), ([100_000, 2000], [20, 200])] {
        products(table, [n, m], [short, long])?;
        differences(table, [n, m], [short, long])?;
    }
    Ok(())
}

fn products(table: &mut Table, [n, m]: [usize; 2], [short, long]: [usize; 2]) -> Result<()> {
    let name = format!("product of entries, {n} x {m}, {short} and {long} a row");
    if !table.wants(&name) {
        return Ok(());
    }
    let (a, b) = (sparse(n, m, short, 161), sparse(n, m, long, 162));
    let mut inputs = Inputs::new();
    inputs.value("A", a.clone()).value("B", b.clone());
    let patterns: [&CsrPattern; 2] = [a.pattern(), b.pattern()];
    let value: Run<'_> = Box::new(|results| {
        let mut sum = 0.0;
        (0..n).for_each(|i| meet(patterns, i, |s, t| sum += a.data()[s] * b.data()[t]));
        results[0][0] = sum;
    });
    let gradient: Run<'_> = Box::new(|results| {
        let [value, da, db] = results else { return };
        let mut sum = 0.0;
        da.fill(0.0);
        db.fill(0.0);
        for i in 0..n {
            meet(patterns, i, |s, t| {
                sum += a.data()[s] * b.data()[t];
                (da[s], db[t]) = (b.data()[t], a.data()[s]);
            });
        }
        value[0] = sum;
    });
    let text = "param A : csr [n, m] real\nparam B : csr [n, m] real\nsum i < n, j < m. A[i, j] * B[i, j]";
    let case =
        Case { name: &name, text, wrt: &["A", "B"], inputs: &inputs, constants: &[], data: &[a.data(), b.data()] };
    table.compare(case, value, gradient)
}

/// The distance of two matrices, over the places that either has.
fn differences(table: &mut Table, [n, m]: [usize; 2], [short, long]: [usize; 2]) -> Result<()> {
    let name = format!("distance of matrices, {n} x {m}, {short} and {long} a row");
    if !table.wants(&name) {
        return Ok(());
    }
    let (a, b) = (sparse(n, m, short, 163), sparse(n, m, long, 164));
    let mut inputs = Inputs::new();
    inputs.value("A", a.clone()).value("B", b.clone());
    let patterns: [&CsrPattern; 2] = [a.pattern(), b.pattern()];
    let at = |data: &[f64], k: Option<usize>| k.map_or(0.0, |k| data[k]);
    let value: Run<'_> = Box::new(|results| {
        let mut sum = 0.0;
        (0..n).for_each(|i| merge(patterns, i, |s, t| sum += (at(a.data(), s) - at(b.data(), t)).powi(2)));
        results[0][0] = sum;
    });
    let gradient: Run<'_> = Box::new(|results| {
        let [value, da, db] = results else { return };
        let mut sum = 0.0;
        for i in 0..n {
            merge(patterns, i, |s, t| {
                let difference = at(a.data(), s) - at(b.data(), t);
                sum += difference * difference;
                if let Some(s) = s {
                    da[s] = 2.0 * difference;
                }
                if let Some(t) = t {
                    db[t] = -2.0 * difference;
                }
            });
        }
        value[0] = sum;
    });
    let text = "param A : csr [n, m] real\nparam B : csr [n, m] real\nsum i < n, j < m. (A[i, j] - B[i, j])^2";
    let case =
        Case { name: &name, text, wrt: &["A", "B"], inputs: &inputs, constants: &[], data: &[a.data(), b.data()] };
    table.compare(case, value, gradient)
}

/// Calls `found` with the places of the entries that row `i` of both patterns has.
#[inline(always)]
fn meet(patterns: [&CsrPattern; 2], i: usize, mut found: impl FnMut(usize, usize)) {
    merge(patterns, i, |s, t| {
        if let (Some(s), Some(t)) = (s, t) {
            found(s, t);
        }
    });
}

/// Calls `found` at each place that row `i` of either pattern has, with the entries that there are.
#[inline(always)]
fn merge([a, b]: [&CsrPattern; 2], i: usize, mut found: impl FnMut(Option<usize>, Option<usize>)) {
    let [mut a_row, mut b_row] = [a.row(i), b.row(i)];
    while !a_row.is_empty() && !b_row.is_empty() {
        let order = a.indices()[a_row.start].cmp(&b.indices()[b_row.start]);
        let s = if order == Ordering::Greater { None } else { a_row.next() };
        let t = if order == Ordering::Less { None } else { b_row.next() };
        found(s, t);
    }
    a_row.for_each(|s| found(Some(s), None));
    b_row.for_each(|t| found(None, Some(t)));
}
