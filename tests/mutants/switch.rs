
/// Which change of the source is on, which were met, and which of them made another value.
#[doc(hidden)]
pub mod mutants {
    use std::cell::Cell;
    use std::io::Write as _;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicBool, Ordering};

    static ON: LazyLock<usize> = LazyLock::new(|| std::env::var("MUTANT").ok().and_then(|n| n.parse().ok()).unwrap_or(0));
    static SEEN: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("MUTANTS_SEEN").ok().filter(|file| !file.is_empty()));
    static ALONE: LazyLock<bool> = LazyLock::new(|| std::env::var("MUTANTS_ALONE").is_ok_and(|alone| !alone.is_empty()));
    static MET: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];
    static OTHER: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];

    /// Changes of the text that kernels hold: what lines become.
    static EMITTED: &[(usize, &str, &str)] = &[/* EMITTED */];

    thread_local! {
        /// Whether the second value of some place is computed, which says nothing of other places.
        static WITHIN: Cell<bool> = const { Cell::new(false) };
    }

    fn note(flags: &[AtomicBool; COUNT], n: usize, sign: &str) {
        if let Some(file) = &*SEEN && !flags[n].swap(true, Ordering::Relaxed) {
            let file = std::fs::OpenOptions::new().append(true).create(true).open(file);
            let _ = file.and_then(|mut file| file.write_all(format!("{sign}{n}\n").as_bytes()));
        }
    }

    /// Whether a change is on; what it changes is seen only where it is.
    pub fn is(n: usize) -> bool {
        if SEEN.is_some() && !WITHIN.get() {
            note(&MET, n, "");
            note(&OTHER, n, "-");
        }
        *ON == n
    }

    /// The text of a kernel.
    pub fn emitted(mut text: String) -> String {
        for (n, before, after) in EMITTED {
            if text.contains(before) && is(*n) {
                text = text.replacen(before, after, 1);
            }
        }
        text
    }

    /// One of two values. Where tests say what they meet, both are computed, as neither can change anything, until they differ once.
    pub fn either<T: Eq>(n: usize, first: impl Fn() -> T, second: impl Fn() -> T) -> T {
        if SEEN.is_none() || *ALONE || size_of::<T>() == 0 {
            return if is(n) { second() } else { first() };
        }
        let value = first();
        if !WITHIN.get() && !OTHER[n].load(Ordering::Relaxed) {
            note(&MET, n, "");
            WITHIN.set(true);
            let alike = catch_unwind(AssertUnwindSafe(|| second() == value));
            WITHIN.set(false);
            if !alike.unwrap_or(false) {
                note(&OTHER, n, "-");
            }
        }
        value
    }
}
