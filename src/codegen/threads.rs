//! The threads that share a nest.
//!
//! A call from a thread of a `rayon` pool uses this pool, so that whoever calls can choose; other calls share a pool of our own, of as many threads as
//! `RAYON_NUM_THREADS` says, or as there are processors.
//!
//! A child that a process forks has one thread: those of all pools stay with its parent, and waiting for them would never end. So each process
//! has a pool of its own, made when it first needs one; and a thread of a pool that was forked, of which it is all that is left, does all the
//! work alone.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, OnceLock};

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use rayon::{ThreadPool, ThreadPoolBuilder};

thread_local! {
    /// Those of the kernel that this thread runs, if it has some.
    static OWN: RefCell<Option<Threads>> = const { RefCell::new(None) };
}

/// Runs something for each part, on several threads where there are some.
pub fn for_each(parts: i64, run: impl Fn(i64) + Send + Sync) {
    let shared = || (0..parts).into_par_iter().for_each(&run);
    match Found::here() {
        Found::One => (0..parts).for_each(&run),
        Found::Current => shared(),
        Found::Own(pool) => pool.install(shared),
        Found::Shared(pool) => pool.install(shared),
    }
}

/// How many threads there are for parts at most.
pub fn count() -> usize {
    match Found::here() {
        Found::One => 1,
        Found::Current => rayon::current_num_threads(),
        Found::Own(pool) => pool.current_num_threads(),
        Found::Shared(pool) => pool.current_num_threads(),
    }
}

/// The threads for what this thread runs.
enum Found {
    /// This one.
    One,
    /// Those of the pool that this one is of.
    Current,
    /// Those of the kernel, several.
    Own(Arc<ThreadPool>),
    Shared(&'static ThreadPool),
}

impl Found {
    fn here() -> Found {
        let process = std::process::id();
        if let Some(own) = OWN.with_borrow(Clone::clone) {
            return own.pool.filter(|_| own.process == process).map_or(Found::One, Found::Own);
        }
        match rayon::current_thread_index() {
            Some(_) if is_born_in(process) => Found::Current,
            Some(_) => Found::One,
            None => pool(process).map_or(Found::One, Found::Shared),
        }
    }
}

/// Whether this thread first came here in this process, and not in one that it was forked from.
fn is_born_in(process: u32) -> bool {
    thread_local! {
        static BORN_IN: Cell<u32> = const { Cell::new(0) };
    }
    if BORN_IN.get() == 0 {
        BORN_IN.set(process);
    }
    BORN_IN.get() == process
}

/// Threads of a kernel's own. A child that the process forked has none of them.
#[derive(Clone, Debug)]
pub(crate) struct Threads {
    process: u32,
    /// Nothing for one thread.
    pool: Option<Arc<ThreadPool>>,
}

impl Threads {
    /// Starts threads.
    pub fn start(count: usize) -> Result<Threads, String> {
        let pool = match count {
            0 => return Err("a kernel takes at least one".to_owned()),
            1 => None,
            _ => {
                let pool = ThreadPoolBuilder::new().num_threads(count).thread_name(|k| format!("iverson-{k}"));
                Some(Arc::new(pool.build().map_err(|error| error.to_string())?))
            }
        };
        Ok(Threads { process: std::process::id(), pool })
    }

    /// Runs something whose parts these threads share.
    pub fn run<T>(&self, run: impl FnOnce() -> T) -> T {
        struct Back(Option<Threads>);
        impl Drop for Back {
            fn drop(&mut self) {
                OWN.replace(self.0.take());
            }
        }
        let _back = Back(OWN.replace(Some(self.clone())));
        run()
    }
}

/// The pool of a process, after those of the processes that it was forked from.
struct Pool {
    process: u32,
    /// Nothing where no thread can be started.
    threads: Option<ThreadPool>,
    /// That of a child.
    next: OnceLock<Box<Pool>>,
}

fn pool(process: u32) -> Option<&'static ThreadPool> {
    static FIRST: OnceLock<Box<Pool>> = OnceLock::new();
    let mut place = &FIRST;
    loop {
        let pool = match place.get() {
            Some(pool) => pool,
            None => {
                // Made before it is set: nobody ever waits for another thread here, which a child would not have. Where several make one, one
                // of them is kept.
                let name = |k| format!("iverson-{k}");
                let threads = ThreadPoolBuilder::new().thread_name(name).build().ok();
                let _ = place.set(Box::new(Pool { process, threads, next: OnceLock::new() }));
                continue;
            }
        };
        // Only the last one can be of this process: numbers of processes come again.
        if pool.process == process && pool.next.get().is_none() {
            return pool.threads.as_ref();
        }
        place = &pool.next;
    }
}
