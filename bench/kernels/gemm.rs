//! Matrix products for the kernels by hand: tiles of the result stay in registers, and both factors are packed into panels that
//! are as wide or as high as a tile.

use crate::simd::{Lanes, each};

/// Rows of a tile, and vectors in each of them: as many as there are registers for.
const ROWS: usize = 6;
const VECTORS: usize = if cfg!(target_feature = "avx512f") { 4 } else { 1 };
const WIDTH: usize = 8 * VECTORS;

/// A matrix where it lies: the element of row `i` and column `j` is `data[i * row + j * column]`.
#[derive(Clone, Copy)]
pub struct Matrix<'a> {
    pub data: &'a [f64],
    pub row: usize,
    pub column: usize,
}

impl<'a> Matrix<'a> {
    /// A matrix in row-major order.
    pub fn new(data: &'a [f64], columns: usize) -> Self {
        Matrix { data, row: columns, column: 1 }
    }

    pub fn transposed(self) -> Self {
        Matrix { row: self.column, column: self.row, ..self }
    }
}

/// The room that products with a right factor of `inner` rows and `columns` columns need.
pub fn packed(inner: usize, columns: usize) -> Vec<f64> {
    vec![0.0; inner * (columns.next_multiple_of(WIDTH) + ROWS)]
}

/// `c = a b + beta c` for `c` of so many rows and columns in row-major order. Sums over the inner axis run from its start to its end.
pub fn multiply(
    a: Matrix<'_>,
    b: Matrix<'_>,
    [rows, inner, columns]: [usize; 3],
    beta: f64,
    c: &mut [f64],
    room: &mut [f64],
) {
    let (panels, block) = room.split_at_mut(inner * columns.next_multiple_of(WIDTH));
    for (panel, room) in panels.chunks_exact_mut(inner * WIDTH).enumerate() {
        let first = panel * WIDTH;
        let width = WIDTH.min(columns - first);
        for (p, row) in room.chunks_exact_mut(WIDTH).enumerate() {
            let source = &b.data[p * b.row + first * b.column..];
            match b.column {
                1 => row[..width].copy_from_slice(&source[..width]),
                step => row[..width].iter_mut().zip(source.iter().step_by(step)).for_each(|(x, y)| *x = *y),
            }
            row[width..].fill(0.0);
        }
    }
    let block = &mut block[..inner * ROWS];
    for start in (0..rows).step_by(ROWS) {
        let height = ROWS.min(rows - start);
        pack_rows(a, start, height, block);
        for (panel, b) in panels.chunks_exact(inner * WIDTH).enumerate() {
            let first = panel * WIDTH;
            let c = &mut c[start * columns + first..];
            tile(block, b, beta, c, columns, [height, WIDTH.min(columns - first)]);
        }
    }
}

/// Some rows side by side; those that are not there are zero.
#[inline(always)]
fn pack_rows(a: Matrix<'_>, start: usize, height: usize, block: &mut [f64]) {
    if height < ROWS {
        block.fill(0.0);
    }
    if a.row == 1 {
        for (p, to) in block.chunks_exact_mut(ROWS).enumerate() {
            to[..height].copy_from_slice(&a.data[p * a.column + start..][..height]);
        }
        return;
    }
    for r in 0..height {
        let row = a.data[(start + r) * a.row..].iter().step_by(a.column);
        block.chunks_exact_mut(ROWS).zip(row).for_each(|(to, x)| to[r] = *x);
    }
}

#[inline(always)]
fn tile(rows: &[f64], panel: &[f64], beta: f64, c: &mut [f64], stride: usize, [height, width]: [usize; 2]) {
    let mut sums = [[Lanes::splat(0.0); VECTORS]; ROWS];
    for (a, b) in rows.chunks_exact(ROWS).zip(panel.chunks_exact(WIDTH)) {
        let b: [Lanes; VECTORS] = each(|v| Lanes::load(b, 8 * v));
        let a: &[f64; ROWS] = a.first_chunk().expect("a number of each row");
        for (sums, x) in sums.iter_mut().zip(a) {
            let x = Lanes::splat(*x);
            sums.iter_mut().zip(b).for_each(|(sum, b)| *sum = x.fused(b, *sum));
        }
    }
    for (r, sums) in sums.into_iter().enumerate().take(height) {
        let row = &mut c[r * stride..][..width];
        for (v, sum) in sums.into_iter().enumerate() {
            let part = &mut row[(8 * v).min(width)..(8 * v + 8).min(width)];
            // Without a look at what was there, which may be no number.
            match beta {
                0.0 => part.iter_mut().zip(sum.array()).for_each(|(c, x)| *c = x),
                _ => part.iter_mut().zip(sum.array()).for_each(|(c, x)| *c = beta.mul_add(*c, x)),
            }
        }
    }
}
