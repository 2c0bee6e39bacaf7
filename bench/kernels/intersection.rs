//! Two sparse matrices entry by entry: their rows are merged by hand, and searched onwards by our kernels.

use std::cmp::Ordering;

use iverson::Result;
use iverson::tensor::{CsrPattern, Inputs};

use crate::harness::{Case, Run, Table, digest, sparse};

pub fn run(table: &mut Table) -> Result<()> {
    // Rows of one length, and short ones beside long ones; about every eighth entry meets another.
    products(table, [100_000, 200], [20, 20])?;
    products(table, [100_000, 2000], [20, 200])
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
    let value: Run<'_> = Box::new(|| {
        let mut sum = 0.0;
        (0..n).for_each(|i| meet(patterns, i, |s, t| sum += a.data()[s] * b.data()[t]));
        digest([&[sum][..]])
    });
    let (mut da, mut db) = (vec![0.0; a.data().len()], vec![0.0; b.data().len()]);
    let gradient: Run<'_> = Box::new(|| {
        let mut sum = 0.0;
        da.fill(0.0);
        db.fill(0.0);
        for i in 0..n {
            meet(patterns, i, |s, t| {
                sum += a.data()[s] * b.data()[t];
                (da[s], db[t]) = (b.data()[t], a.data()[s]);
            });
        }
        digest([&[sum][..], &da, &db])
    });
    let text = "param A : csr [n, m] real\nparam B : csr [n, m] real\nsum i < n, j < m. A[i, j] * B[i, j]";
    let case =
        Case { name: &name, text, wrt: &["A", "B"], inputs: &inputs, constants: &[], data: &[a.data(), b.data()] };
    table.compare(case, value, gradient)
}

/// Calls `found` with the places of the entries that row `i` of both patterns has.
#[inline(always)]
fn meet([a, b]: [&CsrPattern; 2], i: usize, mut found: impl FnMut(usize, usize)) {
    let [a_row, b_row] = [a.row(i), b.row(i)];
    let (mut s, mut t) = (a_row.start, b_row.start);
    while s < a_row.end && t < b_row.end {
        match a.indices()[s].cmp(&b.indices()[t]) {
            Ordering::Less => s += 1,
            Ordering::Greater => t += 1,
            Ordering::Equal => {
                found(s, t);
                (s, t) = (s + 1, t + 1);
            }
        }
    }
}
