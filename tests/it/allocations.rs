//! How often a thread asks for memory, and how much it has at a time.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The allocator of the system, which counts calls and bytes for each thread.
struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    /// Below zero where a thread gives back what others took.
    static BYTES: Cell<i64> = const { Cell::new(0) };
    static MOST_BYTES: Cell<i64> = const { Cell::new(0) };
}

fn count() {
    // A thread that ends has no counter any more.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}

fn take(bytes: i64) {
    let _ = BYTES.try_with(|sum| {
        sum.set(sum.get() + bytes);
        MOST_BYTES.try_with(|most| most.set(most.get().max(sum.get())))
    });
}

// SAFETY: all memory is that of the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        take(layout.size() as i64);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        take(layout.size() as i64);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, x: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        take(size as i64 - layout.size() as i64);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(x, layout, size) }
    }

    unsafe fn dealloc(&self, x: *mut u8, layout: Layout) {
        take(-(layout.size() as i64));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(x, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often this thread asks for memory while something runs.
pub fn of(run: impl FnOnce()) -> u64 {
    let before = COUNT.get();
    run();
    COUNT.get() - before
}

/// How many bytes more than before this thread has at a time while something runs.
pub fn peak_of(run: impl FnOnce()) -> u64 {
    let before = BYTES.get();
    MOST_BYTES.set(before);
    run();
    (MOST_BYTES.get() - before).unsigned_abs()
}
