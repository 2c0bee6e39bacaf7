//! The threads that share a nest.
//!
//! A call from a thread of a `rayon` pool uses this pool, so that whoever calls can choose; other calls share a pool of our own, of as many threads as
//! `RAYON_NUM_THREADS` says, or as there are processors.
//!
//! A child that a process forks has one thread: those of all pools stay with its parent, and waiting for them would never end. So each process
//! has a pool of its own, made when it first needs one; and a thread of a pool that was forked, of which it is all that is left, does all the
//! work alone.

use std::cell::Cell;
use std::sync::OnceLock;

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use rayon::{ThreadPool, ThreadPoolBuilder};

/// Runs something for each part, on several threads where there are some.
pub fn for_each(parts: i64, run: impl Fn(i64) + Send + Sync) {
    let process = std::process::id();
    let shared = || (0..parts).into_par_iter().for_each(&run);
    let alone = || (0..parts).for_each(&run);
    match rayon::current_thread_index() {
        Some(_) if is_born_in(process) => shared(),
        Some(_) => alone(),
        None => match pool(process) {
            Some(pool) => pool.install(shared),
            None => alone(),
        },
    }
}

/// How many threads there are for parts at most.
pub fn count() -> usize {
    let process = std::process::id();
    match rayon::current_thread_index() {
        Some(_) if is_born_in(process) => rayon::current_num_threads(),
        Some(_) => 1,
        None => pool(process).map_or(1, ThreadPool::current_num_threads),
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

/// Threads of a kernel's own.
#[derive(Debug)]
pub(crate) struct Threads {
    process: u32,
    pool: ThreadPool,
}

impl Threads {
    /// Starts threads.
    pub fn start(count: usize) -> Result<Threads, String> {
        if count == 0 {
            return Err("a kernel takes at least one".to_owned());
        }
        let pool = ThreadPoolBuilder::new().num_threads(count).thread_name(|k| format!("iverson-{k}")).build();
        pool.map(|pool| Threads { process: std::process::id(), pool }).map_err(|error| error.to_string())
    }

    /// Runs something on these threads. A child that the process forked has none of them, and goes on as it is.
    pub fn run<T: Send>(&self, run: impl FnOnce() -> T + Send) -> T {
        match std::process::id() == self.process {
            true => self.pool.install(run),
            false => run(),
        }
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
