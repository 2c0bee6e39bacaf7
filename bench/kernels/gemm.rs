//! Matrix products for the kernels by hand: tiles of the result stay in registers, and the right factor is packed into panels as wide as a tile.

use crate::simd::Lanes;

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
    vec![0.0; inner * columns.next_multiple_of(WIDTH)]
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
    for (panel, room) in room.chunks_exact_mut(inner * WIDTH).take(columns.div_ceil(WIDTH)).enumerate() {
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
        let mut start = 0;
        while start < rows {
            let height = ROWS.min(rows - start);
            match height {
                ROWS => tile::<ROWS>(a, start, room, beta, &mut c[start * columns + first..], columns, width),
                _ => (start..rows)
                    .for_each(|i| tile::<1>(a, i, room, beta, &mut c[i * columns + first..], columns, width)),
            }
            start += height;
        }
    }
}

#[inline(always)]
fn tile<const R: usize>(
    a: Matrix<'_>,
    start: usize,
    panel: &[f64],
    beta: f64,
    c: &mut [f64],
    stride: usize,
    width: usize,
) {
    let mut sums = [[Lanes::splat(0.0); VECTORS]; R];
    let rows: [&[f64]; R] = std::array::from_fn(|r| &a.data[(start + r) * a.row..]);
    for (p, b) in panel.chunks_exact(WIDTH).enumerate() {
        let b: [Lanes; VECTORS] = std::array::from_fn(|v| Lanes::load(b, 8 * v));
        for (sums, row) in sums.iter_mut().zip(rows) {
            let x = Lanes::splat(row[p * a.column]);
            for (sum, b) in sums.iter_mut().zip(b) {
                *sum = x.fused(b, *sum);
            }
        }
    }
    for (r, sums) in sums.into_iter().enumerate() {
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
