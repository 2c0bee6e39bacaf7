//! Memory for values that stay where they are while others come: what `x[i]` refers to.
//!
//! Chunk `k` has `2^k` cells, so value `n` is in the chunk of the highest bit of `n + 1`, and no cell ever moves.

use std::cell::{Cell, OnceCell};

/// Values that are only added, each at a place of its own.
#[derive(Debug)]
pub(super) struct Places<T> {
    chunks: [OnceCell<Box<[OnceCell<T>]>>; usize::BITS as usize],
    len: Cell<usize>,
}

impl<T> Default for Places<T> {
    fn default() -> Self {
        Places { chunks: [const { OnceCell::new() }; usize::BITS as usize], len: Cell::new(0) }
    }
}

impl<T> Places<T> {
    /// Keeps a value.
    pub fn keep(&self, value: T) -> &T {
        let n = self.len.get() + 1;
        self.len.set(n);
        let chunk = n.ilog2();
        let cells = self.chunks[chunk as usize].get_or_init(|| (0..1usize << chunk).map(|_| OnceCell::new()).collect());
        cells[n - (1 << chunk)].get_or_init(|| value)
    }
}

#[cfg(test)]
mod tests {
    use super::Places;

    #[test]
    fn places_keep_what_they_are_given() {
        let places = Places::default();
        let kept: Vec<&usize> = (0..100).map(|k| places.keep(k)).collect();
        assert!(kept.iter().enumerate().all(|(k, kept)| k == **kept));
    }
}
