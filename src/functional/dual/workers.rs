//! How many threads may run at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads that are free, beside the one that asks.
#[derive(Clone, Debug)]
pub(super) struct Workers(Arc<AtomicUsize>);

/// A thread that is taken; free again when this is dropped.
#[derive(Debug)]
pub(super) struct Worker(Arc<AtomicUsize>);

impl Workers {
    /// So many threads in all.
    pub(super) fn new(threads: usize) -> Self {
        Workers(Arc::new(AtomicUsize::new(threads.saturating_sub(1))))
    }

    /// Takes a thread if one is free.
    pub(super) fn take(&self) -> Option<Worker> {
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| free.checked_sub(1));
        taken.ok().map(|_| Worker(Arc::clone(&self.0)))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
