//! Kernels in children that a process forks after its threads have started.
#![allow(unsafe_code)]

use iverson::Function;
use iverson::kernel::{Engine, Kernel, Status};
use iverson::tensor::{Inputs, Value};

const N: usize = 200_000;

/// Runs something in a child; whether it was true. A child that hangs is ended after four minutes, which is false.
fn in_a_child(run: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs kernels, which is what is tested, and ends without returning.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0, "no process");
        if child == 0 {
            libc::alarm(240);
            let fine = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or(false);
            libc::_exit(if fine { 0 } else { 1 });
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
    }
}

fn bind(engine: Engine) -> (Kernel, Vec<f64>) {
    let function = Function::parse("param x : [n] real\ngen i < n. exp(sin(x[i])) + x[i]^2").expect("a program");
    let x: Vec<f64> = (0..N).map(|k| k as f64 * 1e-4).collect();
    let mut inputs = Inputs::new();
    inputs.value("x", Value::vector(x.clone()));
    (function.kernel(&inputs).engine(engine).build().expect("it binds"), x)
}

fn call(kernel: &Kernel, x: &[f64]) -> Vec<f64> {
    let mut y = vec![f64::NAN; N];
    kernel.call_into(x, &mut y).expect("it runs");
    y
}

/// Calls of one kernel, in the process that bound it and in its children: with threads of their own, on threads that were forked, on new ones.
#[test]
fn kernels_run_in_forked_children() {
    for engine in [Engine::Native, Engine::Interpreter] {
        let (kernel, x) = bind(engine);
        let native = if engine == Engine::Native { Status::Native } else { Status::Interpreter };
        assert_eq!(kernel.status(), native);
        // Threads of others, and none of ours yet as far as this kernel goes.
        rayon::join(|| (), || ());
        let expected =
            rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread").install(|| call(&kernel, &x));
        let is_right = || call(&kernel, &x) == expected;
        assert!(in_a_child(is_right), "{engine:?}: before the first call");
        assert!(is_right(), "{engine:?}: the first call");
        assert!(in_a_child(is_right), "{engine:?}: after a call");
        assert!(in_a_child(|| is_right() && is_right()), "{engine:?}: two calls");
        assert!(in_a_child(|| in_a_child(is_right) && is_right() && in_a_child(is_right)), "{engine:?}: of a child");
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("threads");
        assert!(pool.install(|| in_a_child(is_right)), "{engine:?}: on a thread that was forked");
        assert!(pool.install(|| is_right() && in_a_child(is_right)), "{engine:?}: on such a thread, after a call");
        let on_a_new_pool = || {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
            pool.is_ok_and(|pool| pool.install(is_right))
        };
        assert!(in_a_child(on_a_new_pool), "{engine:?}: on new threads");
        assert!(is_right(), "{engine:?}: the parent goes on");
    }
}
