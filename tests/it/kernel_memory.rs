//! What native kernels read and write, and in which order they add: every size around the numbers of lanes, buffers that end where memory ends,
//! outputs that hold NaN before, and any number of threads.
#![allow(unsafe_code)]

use std::sync::Arc;

use iverson::Function;
use iverson::kernel::{Engine, Kernel, Leaf, Status};
use iverson::tensor::{Coo, Csr, Dense, Element, Inputs, Tensor, Value};

use crate::judge::{Expected, Ways};
use crate::support::Numbers;

/// Pages that may be read and written, between two that may not.
pub struct Guarded {
    start: *mut u8,
    /// Of all, guards included.
    bytes: usize,
    page: usize,
}

/// Where numbers are put between the guards.
#[derive(Clone, Copy, Debug)]
pub enum Flush {
    Start,
    End,
}

impl Guarded {
    /// Room for so many numbers.
    pub fn new(len: usize) -> Guarded {
        // SAFETY: asks for fresh memory, and takes the right to use its first and last page.
        unsafe {
            let page = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).expect("a page has a size");
            let bytes = (len * 8).div_ceil(page).max(1) * page + 2 * page;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let start = libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            let start = start.cast::<u8>();
            assert_eq!(libc::mprotect(start.cast(), page, libc::PROT_NONE), 0);
            assert_eq!(libc::mprotect(start.add(bytes - page).cast(), page, libc::PROT_NONE), 0);
            Guarded { start, bytes, page }
        }
    }

    /// So many numbers at one end of the pages: the end is a multiple of their size and mostly of nothing more.
    pub fn numbers<A: Element>(&mut self, len: usize, flush: Flush) -> &mut [A] {
        let offset = match flush {
            Flush::Start => self.page,
            Flush::End => self.bytes - self.page - size_of::<A>() * len,
        };
        // SAFETY: the pages in between are readable and writable, large enough, and borrowed with the slice; all bits are numbers.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(offset).cast(), len) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the memory is that of `new`, and no slice of it is left.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

/// A program, the length of its index `m` for the length `n`, and the parameters to differentiate by.
pub type Program = (&'static str, fn(usize) -> usize, &'static [&'static str]);

pub const PROGRAMS: [Program; 7] = [
    (include_str!("../programs/e08_deconvolution.iv"), |n| 1 + n / 3, &["x", "w"]),
    ("param A : [n, m] real\nparam x : [m] real\nsum i < n. tanh(sum j < m. A[i, j] * x[j])", |n| n / 2, &["A", "x"]),
    (
        "param A : [n, m] real\nparam B : [m, n] real\nsum i < n, j < n. exp(0.1 * (sum k < m. A[i, k] * B[k, j]))",
        |n| n % 7,
        &["A", "B"],
    ),
    (include_str!("../programs/k04_sparse_times_dense.iv"), |n| n, &["S", "D"]),
    (include_str!("../programs/k03_sparse_logistic_regression.iv"), |n| n, &["w", "X"]),
    (
        "param A : [n, n] real\nparam x : [m, n] real\nparam c : [n] real\n\
         sum i < m, d < n. (sum e < n. [e < d] * A[d, e] * (x[i, e] - c[e]))^2",
        |n| n + n % 5,
        &["A", "x", "c"],
    ),
    (
        "param A : [n, n] real\nparam x : [n, m] real\nsum i < m, d < n. tanh(sum e < n. [d <= e] * A[d, e] * x[e, i])",
        |n| n / 3,
        &["A", "x"],
    ),
];

/// Numbers for all parameters of a function, of sizes `n` (also `k` and `d`) and `m`.
pub fn inputs(function: &Function, n: usize, m: usize, numbers: &mut Numbers) -> Inputs {
    let signature = &function.tensor_ssa().signature;
    let mut inputs = Inputs::new();
    for param in signature.params.values() {
        let leaf = &signature.types.leaves(param.ty).expect("a type")[0];
        let length = |size: &iverson::ir::index::Size| {
            let value = |name: &str| if name == "m" { m } else { n } as i64;
            let terms = size.terms().iter().map(|(v, k)| match v {
                iverson::ir::index::Var::Size(id) => k * value(&signature.sizes[*id]),
                _ => 0,
            });
            usize::try_from(size.offset() + terms.sum::<i64>()).unwrap_or(0)
        };
        let shape: Vec<usize> = leaf.dims.iter().map(length).collect();
        let len = shape.iter().product();
        let dense = Dense::new(&shape, numbers.vector(len)).expect("it fits");
        match param.storage.pattern() {
            None => inputs.value(param.name.clone(), dense),
            Some(_) => {
                // Two of three places.
                let kept = dense.data().iter().enumerate().map(|(k, x)| if k % 3 == 1 { 0.0 } else { *x });
                let dense = Dense::new(&shape, kept.collect()).expect("it fits");
                inputs.value(param.name.clone(), Csr::from_dense(&dense).expect("a matrix"))
            }
        };
    }
    inputs
}

fn leaves(function: &Function, inputs: &Inputs) -> Vec<Vec<f64>> {
    let bound = iverson::tensor::bind(&function.tensor_ssa().signature, inputs).expect("it fits");
    bound.values().values().flat_map(|value| value.leaves().iter().map(|leaf| leaf.data().to_vec())).collect()
}

pub fn lengths(kernel: &Kernel) -> Vec<usize> {
    kernel.outputs().iter().flat_map(|o| &o.leaves).map(Leaf::len).collect()
}

/// The results of a call between guard pages.
pub fn guarded(kernel: &Kernel, data: &[Vec<f64>], flush: Flush) -> Vec<Vec<u64>> {
    let mut given: Vec<Guarded> = data.iter().map(|x| Guarded::new(x.len())).collect();
    let given: Vec<&[f64]> = given
        .iter_mut()
        .zip(data)
        .map(|(memory, x)| {
            let place: &mut [f64] = memory.numbers(x.len(), flush);
            place.copy_from_slice(x);
            &*place
        })
        .collect();
    let mut results: Vec<Guarded> = lengths(kernel).into_iter().map(Guarded::new).collect();
    let mut results: Vec<&mut [f64]> =
        results.iter_mut().zip(lengths(kernel)).map(|(memory, len)| memory.numbers(len, flush)).collect();
    results.iter_mut().for_each(|x| x.fill(f64::from_bits(0x7ff4_dead_beef_0000)));
    kernel.call_into(&given, &mut results).expect("it fits");
    results.iter().map(|x| x.iter().map(|x| x.to_bits()).collect()).collect()
}

/// Sizes 0 to 67: native code stays inside of its buffers, leaves nothing of what was there before, and gives the bits of the interpreter,
/// which are those of the reference within rounding.
#[test]
fn all_sizes_between_guard_pages() {
    for (text, other, wrt) in PROGRAMS {
        let function = Function::parse(text).and_then(|f| f.value_and_gradient(wrt)).expect("it compiles");
        for n in 0..=67 {
            let inputs = inputs(&function, n, other(n), &mut Numbers::new(n as u64, false));
            let data = leaves(&function, &inputs);
            let native = function.kernel(&inputs).engine(Engine::Native).build().expect("it binds");
            let interpreter = function.kernel(&inputs).engine(Engine::Interpreter).build().expect("it binds");
            let expected = guarded(&interpreter, &data, Flush::End);
            for flush in [Flush::End, Flush::Start] {
                assert_eq!(guarded(&native, &data, flush), expected, "{text}\nn = {n}, {flush:?}");
            }
            // The reference takes its time.
            if n % 11 != 0 && n > 4 {
                continue;
            }
            let found: Vec<f64> = expected.concat().into_iter().map(f64::from_bits).collect();
            let expected = Expected::of(function.tensor_ssa(), &inputs).expect("it is evaluated");
            expected.compare("kernel", &found, Ways::Raw).unwrap_or_else(|e| panic!("{text}\nn = {n}: {e}"));
        }
    }
}

/// The same bits for any number of threads, also where many call at once.
#[test]
fn any_number_of_threads() {
    let (text, _, wrt) = PROGRAMS[0];
    let sparse = include_str!("../programs/k03_sparse_logistic_regression.iv");
    let rows = "param x : [n, m, m] real
        let e = gen s < n, k < m, a < m. exp(x[s, k, a])
        let q = gen s < n, a < m. sum k < m. e[s, k, a]
        sum s < n, k < m, a < m. (e[s, k, a] / q[s, a] - x[s, k, a])^2";
    for (text, n, m, wrt) in [(text, 20_000, 9, wrt), (sparse, 700, 700, &["w"][..]), (rows, 300, 20, &["x"])] {
        let function = Function::parse(text).and_then(|f| f.value_and_gradient(wrt)).expect("it compiles");
        let inputs = inputs(&function, n, m, &mut Numbers::new(3, false));
        let data = leaves(&function, &inputs);
        let kernel = Arc::new(function.kernel(&inputs).engine(Engine::Native).build().expect("it binds"));
        assert_eq!(kernel.status(), Status::Native);
        let data: Vec<&[f64]> = data.iter().map(Vec::as_slice).collect();
        let call = || {
            let mut results: Vec<Vec<f64>> = lengths(&kernel).into_iter().map(|len| vec![f64::NAN; len]).collect();
            let mut places: Vec<&mut [f64]> = results.iter_mut().map(Vec::as_mut_slice).collect();
            kernel.call_into(&data, &mut places).expect("it fits");
            results.concat().into_iter().map(f64::to_bits).collect::<Vec<u64>>()
        };
        let interpreter = function.kernel(&inputs).engine(Engine::Interpreter).build().expect("it binds");
        let expected = guarded(&interpreter, &data.iter().map(|x| x.to_vec()).collect::<Vec<_>>(), Flush::End).concat();
        for threads in [1, 2, 3, 4, 8] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            assert!(pool.install(call) == expected, "{threads} threads give other bits");
        }
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    (0..5).for_each(|_| assert!(call() == expected, "a call at the same time gives other bits"))
                });
            }
        });
    }
}

/// One program over a dense matrix, a CSR matrix and a COO matrix of the same numbers.
#[test]
fn formats_agree() {
    let body = "param w : [n] real\nsum i < m. (sum j < n. X[i, j] * w[j])^2 + (sum j < n. X[i, j]^2 * w[j])";
    for n in [0, 1, 5, 33] {
        let mut numbers = Numbers::new(7, true);
        let x = numbers.vector(2 * n * n).into_iter().enumerate().map(|(k, x)| if k % 4 == 0 { 0.0 } else { x });
        let dense = Dense::new(&[2 * n, n], x.collect()).expect("it fits");
        let csr = Csr::from_dense(&dense).expect("a matrix");
        let coordinates: Vec<(usize, usize)> = csr.pattern().entries().collect();
        let columns = vec![coordinates.iter().map(|c| c.0).collect(), coordinates.iter().map(|c| c.1).collect()];
        let coo = Coo::new(vec![2 * n, n], columns, csr.data().to_vec()).expect("sorted");
        let w = numbers.vector(n);
        let mut results: Vec<Vec<f64>> = Vec::new();
        for (format, x) in [("", Tensor::from(dense)), ("csr ", Tensor::from(csr)), ("coo ", Tensor::from(coo))] {
            let function = Function::parse(&format!("param X : {format}[m, n] real\n{body}"));
            let function = function.and_then(|f| f.value_and_gradient(["w"])).expect("it compiles");
            let mut inputs = Inputs::new();
            inputs.value("X", Value::from(x)).value("w", Value::vector(w.clone()));
            for engine in [Engine::Native, Engine::Interpreter] {
                let found = function
                    .kernel(&inputs)
                    .engine(engine)
                    .build()
                    .and_then(|kernel| kernel.call(&inputs))
                    .expect("it runs");
                results.push(found.iter().flat_map(|(_, v)| v.leaves()[0].data().to_vec()).collect());
            }
        }
        // Integers: sums in any order are the same.
        assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "n = {n}: {results:?}");
    }
}
