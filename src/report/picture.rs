//! A sparsity pattern as a picture: a square for each place that has an entry. Patterns with more than [`CELLS`] rows or columns are binned, and the
//! shade of a cell says how many of its places have one. Tensors of more axes than two lie as matrices, the first axis as rows.

use std::fmt::Write;

use super::page::Page;
use crate::tensor::Relation;

/// How many cells a picture has in a row or in a column at most.
pub(super) const CELLS: usize = 64;

/// How many shades there are.
const SHADES: usize = 4;

/// The side of a picture, and the largest side of a cell, in pixels.
const SIDE: usize = 256;
const LARGEST: usize = 16;

/// What a picture shows.
#[derive(Debug)]
pub(super) struct Picture {
    pub name: String,
    pub shape: Vec<usize>,
    pub entries: usize,
    /// How many entries each cell has, row by row.
    cells: Vec<usize>,
    rows: Bins,
    columns: Bins,
}

/// Places of an axis in cells of equal length, but for the last.
#[derive(Clone, Copy, Debug)]
struct Bins {
    length: usize,
    each: usize,
}

impl Bins {
    fn new(length: usize) -> Bins {
        Bins { length, each: length.div_ceil(CELLS).max(1) }
    }

    fn count(self) -> usize {
        self.length.div_ceil(self.each)
    }

    /// How many places a cell has.
    fn of(self, cell: usize) -> usize {
        self.each.min(self.length.saturating_sub(cell * self.each))
    }
}

impl Picture {
    /// The picture of a set of places; nothing for numbers, and for tensors that are empty.
    pub fn of(name: String, relation: &Relation) -> Option<Picture> {
        let shape = relation.shape().to_vec();
        let places = (0..relation.len()).map(|entry| {
            let mut column = 0;
            for (axis, n) in shape.iter().enumerate().skip(1) {
                column = column * n + relation.column(axis).get(entry).copied().unwrap_or(0);
            }
            (relation.column(0).get(entry).copied().unwrap_or(0), column)
        });
        Picture::new(name, shape.clone(), places)
    }

    /// The picture of a set of places in a matrix, or in a tensor that lies as one.
    pub fn new(name: String, shape: Vec<usize>, places: impl Iterator<Item = (usize, usize)>) -> Option<Picture> {
        let (first, others) = shape.split_first()?;
        let width = others.iter().try_fold(1usize, |product, n| product.checked_mul(*n))?;
        // A vector is a row.
        let turned = others.is_empty();
        let (rows, columns) =
            if turned { (Bins::new(1), Bins::new(*first)) } else { (Bins::new(*first), Bins::new(width)) };
        if rows.length == 0 || columns.length == 0 {
            return None;
        }
        let mut cells = vec![0; rows.count() * columns.count()];
        let mut entries = 0;
        for (row, column) in places {
            let (row, column) = if turned { (column, row) } else { (row, column) };
            let at = row / rows.each * columns.count() + column / columns.each;
            if let Some(cell) = cells.get_mut(at) {
                *cell += 1;
                entries += 1;
            }
        }
        Some(Picture { name, shape, entries, cells, rows, columns })
    }

    /// Whether a cell stands for several places.
    pub fn is_binned(&self) -> bool {
        self.rows.each > 1 || self.columns.each > 1
    }

    /// `12 × 8, 31 entries (32.3 %)`
    pub fn caption(&self) -> String {
        let shape: Vec<String> = self.shape.iter().map(usize::to_string).collect();
        let places = self.rows.length as f64 * self.columns.length as f64;
        let part = 100.0 * self.entries as f64 / places;
        let part = if part == 0.0 || part >= 0.1 { format!("{part:.1}") } else { format!("{part:.1e}") };
        let noun = if self.entries == 1 { "entry" } else { "entries" };
        format!("{}, {} {noun} ({part} %)", shape.join(" × "), self.entries)
    }

    /// Draws it.
    pub fn draw(&self, page: &mut Page) {
        let (rows, columns) = (self.rows.count(), self.columns.count());
        let cell = (SIDE / rows.max(columns)).clamp(1, LARGEST);
        let (width, height) = (columns * cell, rows * cell);
        let bins = match self.is_binned() {
            true => format!("; a cell is {} × {} places", self.rows.each, self.columns.each),
            false => String::new(),
        };
        page.open("figure", &[("class", "pattern")]);
        let [w, h] = [width + 2, height + 2].map(|n| n.to_string());
        page.open("svg", &[("role", "img"), ("width", &w), ("height", &h), ("viewBox", &format!("-1 -1 {w} {h}"))]);
        page.element("title", &[], &format!("Sparsity pattern of {}: {}", self.name, self.caption()));
        let [w, h] = [width, height].map(|n| n.to_string());
        page.empty("rect", &[("class", "frame"), ("width", &w), ("height", &h)]);
        for shade in 1..=SHADES {
            let path = self.path(shade, cell);
            if !path.is_empty() {
                page.empty("path", &[("class", &format!("shade{shade}")), ("d", &path)]);
            }
        }
        page.close();
        page.open("figcaption", &[]);
        page.element("code", &[], &self.name);
        page.text(&format!(": {}{bins}", self.caption()));
        page.close();
        page.close();
    }

    /// The cells of a shade, runs of them as one rectangle.
    fn path(&self, shade: usize, cell: usize) -> String {
        let columns = self.columns.count();
        let mut path = String::new();
        for (row, cells) in self.cells.chunks(columns).enumerate() {
            let is_it = |column: usize| {
                let places = self.rows.of(row) as f64 * self.columns.of(column) as f64;
                let part = cells.get(column).map_or(0.0, |entries| *entries as f64 / places);
                (part * SHADES as f64).ceil() as usize == shade
            };
            let mut column = 0;
            while column < columns {
                let start = column;
                while column < columns && is_it(column) {
                    column += 1;
                }
                if column > start {
                    let (x, y, width) = (start * cell, row * cell, (column - start) * cell);
                    // Writing to a string does not fail.
                    let _ = write!(path, "M{x} {y}h{width}v{cell}h-{width}z");
                }
                column += 1;
            }
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::{CELLS, Page, Picture};

    #[test]
    fn small_patterns_have_a_square_for_each_entry() {
        let picture =
            Picture::new("A".to_owned(), vec![2, 3], [(0, 0), (0, 1), (1, 2)].into_iter()).expect("a picture");
        assert_eq!(picture.caption(), "2 × 3, 3 entries (50.0 %)");
        assert_eq!(picture.path(4, 10), "M0 0h20v10h-20zM20 10h10v10h-10z");
        assert!((1..4).all(|shade| picture.path(shade, 10).is_empty()));
    }

    #[test]
    fn large_patterns_are_binned() {
        let diagonal = (0..1000).map(|i| (i, i));
        let picture = Picture::new("A".to_owned(), vec![1000, 1000], diagonal).expect("a picture");
        assert!(picture.is_binned() && picture.cells.len() <= CELLS * CELLS && picture.entries == 1000);
        // One place in sixteen.
        assert!(!picture.path(1, 4).is_empty() && picture.path(4, 4).is_empty());
        let mut page = Page::default();
        picture.draw(&mut page);
        assert!(page.finish().contains("; a cell is 16 × 16 places"));
    }

    #[test]
    fn vectors_are_rows_and_tensors_matrices() {
        let vector = Picture::new("x".to_owned(), vec![5], [(4, 0)].into_iter()).expect("a picture");
        assert_eq!(vector.path(4, 1), "M4 0h1v1h-1z");
        let tensor = Picture::new("T".to_owned(), vec![2, 2, 2], [(1, 3)].into_iter()).expect("a picture");
        assert_eq!(tensor.path(4, 1), "M3 1h1v1h-1z");
        assert!(Picture::new("s".to_owned(), vec![], std::iter::empty()).is_none());
        assert!(Picture::new("e".to_owned(), vec![0, 4], std::iter::empty()).is_none());
    }
}
