//! Dense products: in blocks of registers, over triangles, and in panels. On integers every order of a sum gives the same number, so results
//! are compared exactly with sums that are written down here; both engines, any number of threads, buffers that end where memory ends.

use iverson::Function;
use iverson::ir::stages::Stages;
use iverson::kernel::{Engine, Kernel};
use iverson::tensor::{Dense, Inputs};

use crate::kernel_memory::{Flush, guarded};
use crate::support::Numbers;

/// A matrix of small integers.
struct Matrix {
    cols: usize,
    data: Vec<f64>,
}

impl Matrix {
    fn new(rows: usize, cols: usize, seed: u64) -> Matrix {
        Matrix { cols, data: Numbers::new(seed, true).vector(rows * cols) }
    }

    fn at(&self, i: usize, j: usize) -> f64 {
        self.data[i * self.cols + j]
    }

    fn rows(&self) -> usize {
        self.data.len().checked_div(self.cols).unwrap_or(0)
    }
}

fn bits(x: &[f64]) -> Vec<u64> {
    // Zeros have no sign here: an empty sum may come out as either.
    x.iter().map(|x| (x + 0.0).to_bits()).collect()
}

/// Runs a program over matrices `A` and `B`, whatever their sizes are, on both engines.
fn agree(text: &str, [n, k, m]: [usize; 3], [a, b]: [&Matrix; 2], shapes: [[usize; 2]; 2], expected: &[f64]) {
    let function = Function::parse(text).expect("it compiles");
    let mut inputs = Inputs::new();
    for (name, x, shape) in [("A", a, shapes[0]), ("B", b, shapes[1])] {
        inputs.value(name, Dense::new(&shape, x.data.clone()).expect("it fits"));
    }
    let data = [a.data.clone(), b.data.clone()];
    for engine in [Engine::Interpreter, Engine::Native] {
        let kernel = function.kernel(&inputs).as_written().engine(engine).build().expect("it binds");
        for flush in [Flush::End, Flush::Start] {
            let found = guarded(&kernel, &data, flush).concat();
            let found: Vec<f64> = found.into_iter().map(f64::from_bits).collect();
            assert!(bits(&found) == bits(expected), "{text}\nn = {n}, k = {k}, m = {m}, {engine:?}, {flush:?}");
        }
    }
}

/// Sizes around blocks of 8 x 16, and around the least and the largest panels, of which one size at a time is on the other side.
fn sizes() -> Vec<[usize; 3]> {
    let mut sizes: Vec<[usize; 3]> = (0..=67).map(|n| [n, (5 * n + 3) % 23, (11 * n + 1) % 68]).collect();
    sizes.extend([
        [32, 64, 256],
        [31, 64, 256],
        [32, 63, 256],
        [32, 64, 255],
        [33, 65, 257],
        [41, 67, 289],
        [32, 64, 300],
    ]);
    sizes.extend([[32, 1024, 256], [35, 1025, 259]]);
    // Long sums, in blocks of terms.
    sizes.extend([[31, 1025, 9], [32, 1025, 40], [97, 1281, 21], [50, 1536, 3]]);
    sizes
}

#[test]
fn products_of_matrices() {
    let text = "param A : [n, k] real\nparam B : [k, m] real\ngen i < n, j < m. sum l < k. A[i, l] * B[l, j]";
    let transposed = "param A : [k, n] real\nparam B : [k, m] real\ngen i < n, j < m. sum l < k. A[l, i] * B[l, j]";
    for [n, k, m] in sizes() {
        let b = Matrix::new(k, m, 2);
        let product = |at: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
            let element = |i: usize, j: usize| (0..k).map(|l| at(i, l) * b.at(l, j)).sum();
            (0..n).flat_map(|i| (0..m).map(move |j| (i, j))).map(|(i, j)| element(i, j)).collect()
        };
        let a = Matrix::new(n, k, 1);
        agree(text, [n, k, m], [&a, &b], [[n, k], [k, m]], &product(&|i, l| a.at(i, l)));
        let a = Matrix::new(k, n, 1);
        agree(transposed, [n, k, m], [&a, &b], [[k, n], [k, m]], &product(&|i, l| a.at(l, i)));
    }
}

/// Each number is that sum of which the next term is added last, each product rounded with it once: in tiles of any size, in panels, in blocks.
#[test]
fn sums_keep_their_order() {
    let text = "param A : [k, n] real\nparam B : [k, m] real\ngen i < n, j < m. sum l < k. A[l, i] * B[l, j]";
    let numbers =
        |rows: usize, cols: usize, seed: u64| Matrix { cols, data: Numbers::new(seed, false).vector(rows * cols) };
    for [n, k, m] in [[1, 7, 9], [5, 33, 8], [9, 20, 13], [13, 70, 31], [64, 64, 64], [33, 65, 257], [49, 1300, 11]] {
        let (a, b) = (numbers(k, n, 1), numbers(k, m, 2));
        let element = |i: usize, j: usize| (0..k).fold(0.0, |sum, l| a.at(l, i).mul_add(b.at(l, j), sum));
        let expected: Vec<f64> = (0..n).flat_map(|i| (0..m).map(move |j| (i, j))).map(|(i, j)| element(i, j)).collect();
        agree(text, [n, k, m], [&a, &b], [[k, n], [k, m]], &expected);
    }
}

/// A product for each of a few matrices, by the same rows, with what is made of these rows in the same loop.
#[test]
fn products_by_a_few_matrices() {
    let text = "param A : [n, k] real\nparam B : [k, m] real\n\
                let z = gen i < n, g < 3, j < m. sum l < k. A[i, l] * (B[l, j] + g) in\n\
                gen i < n, j < m. z[i, 0, j] + 2 * z[i, 1, j] * z[i, 2, j]";
    for n in 0..=40 {
        let [k, m] = [(5 * n + 3) % 23, (11 * n + 1) % 38];
        let (a, b) = (Matrix::new(n, k, 1), Matrix::new(k, m, 2));
        let z = |i: usize, g: f64, j: usize| (0..k).map(|l| a.at(i, l) * (b.at(l, j) + g)).sum::<f64>();
        let element = |(i, j): (usize, usize)| z(i, 0.0, j) + 2.0 * z(i, 1.0, j) * z(i, 2.0, j);
        let expected: Vec<f64> = (0..n).flat_map(|i| (0..m).map(move |j| (i, j))).map(element).collect();
        agree(text, [n, k, m], [&a, &b], [[n, k], [k, m]], &expected);
    }
}

/// The bounds of the sum differ from row to row, at its end or at its beginning or at both, and so does the last column.
#[test]
fn products_over_triangles() {
    type Inside = fn(usize, usize) -> bool;
    let bands: [(&str, Inside); 4] = [
        ("l < i", |i, l| l < i),
        ("i <= l", |i, l| i <= l),
        ("i <= l and l < i + 5", |i, l| i <= l && l < i + 5),
        ("2 * l <= i", |i, l| 2 * l <= i),
    ];
    let columns: [(&str, Inside); 3] =
        [("0 <= i", |_, _| true), ("j < i", |i, j| j < i), ("i <= j + 3", |i, j| i <= j + 3)];
    for (band, inside) in bands {
        for (column, kept) in columns {
            let text = format!(
                "param A : [n, k] real\nparam B : [k, m] real\n\
                 gen i < n, j < m. [{column}] * (sum l < k. [{band}] * (A[i, l] * (B[l, j] - 1)))"
            );
            for n in (0..=67).step_by(if column == "0 <= i" { 1 } else { 5 }) {
                let [k, m] = [n + n % 5, (11 * n + 1) % 68];
                let (a, b) = (Matrix::new(n, k, 1), Matrix::new(k, m, 2));
                let mut expected = Vec::new();
                for i in 0..n {
                    for j in 0..m {
                        let sum: f64 = (0..k).filter(|l| inside(i, *l)).map(|l| a.at(i, l) * (b.at(l, j) - 1.0)).sum();
                        expected.push(if kept(i, j) { sum } else { 0.0 });
                    }
                }
                agree(&text, [n, k, m], [&a, &b], [[n, k], [k, m]], &expected);
            }
        }
    }
}

/// A sum over rows that are interleaved, each of which is a product itself.
#[test]
fn sums_of_squared_products() {
    let text = "param A : [k, k] real\nparam B : [n, k] real\n\
                gen i < n. sum d < k. (sum e < k. [e < d] * (A[d, e] * B[i, e]))^2";
    for n in 0..=67 {
        let k = (7 * n + 2) % 31;
        let (a, b) = (Matrix::new(k, k, 1), Matrix::new(n, k, 2));
        let square = |i: usize, d: usize| (0..d).map(|e| a.at(d, e) * b.at(i, e)).sum::<f64>().powi(2);
        let expected: Vec<f64> = (0..n).map(|i| (0..k).map(|d| square(i, d)).sum()).collect();
        assert_eq!(b.rows(), if k == 0 { 0 } else { n });
        agree(text, [n, k, k], [&a, &b], [[k, k], [n, k]], &expected);
    }
}

/// Products inside of a loop, as many columns at a time as a cache holds, and sums that read them in the same loop.
#[test]
fn products_inside_of_loops() {
    let text = "param A : [n, k] real\nparam B : [k, m] real\n\
                let y = gen c < n, i < n, j < m. sum l < k. (A[i, l] + A[c, l]) * B[l, j] in\n\
                (y, gen j < m, c < n. sum i < n. y[c, i, j]^2)";
    let nests = Function::parse(text).and_then(|f| f.loops(&mut Stages::new())).expect("it lowers").explained();
    assert!(nests.contains("256 columns at a time"), "{nests}");
    let mut sizes: Vec<[usize; 3]> = (0..=17).map(|n| [n, (5 * n + 3) % 23, (11 * n + 1) % 68]).collect();
    sizes.extend([[9, 7, 255], [8, 7, 256], [9, 7, 257], [7, 3, 600], [11, 0, 300], [0, 5, 300]]);
    for [n, k, m] in sizes {
        let (a, b) = (Matrix::new(n, k, 1), Matrix::new(k, m, 2));
        let y = |c: usize, i: usize, j: usize| (0..k).map(|l| (a.at(i, l) + a.at(c, l)) * b.at(l, j)).sum::<f64>();
        let mut expected = Vec::new();
        for c in 0..n {
            (0..n).for_each(|i| expected.extend((0..m).map(|j| y(c, i, j))));
        }
        for j in 0..m {
            expected.extend((0..n).map(|c| (0..n).map(|i| y(c, i, j).powi(2)).sum::<f64>()));
        }
        agree(text, [n, k, m], [&a, &b], [[n, k], [k, m]], &expected);
    }
}

/// The bits of native code are those of the interpreter, on any number of threads, also where sums round.
#[test]
fn threads() {
    let product = "param A : [n, k] real\nparam B : [k, m] real\ngen i < n, j < m. tanh(sum l < k. A[i, l] * B[l, j])";
    let triangle = "param A : [n, n] real\nparam B : [m, n] real\n\
                    sum i < m, d < n. (A[d, d] + (sum e < n. [e < d] * (A[d, e] * (B[i, e] - A[d, d]))))^2";
    let derived =
        |text: &str| Function::parse(text).and_then(|f| f.value_and_gradient(["A", "B"])).expect("it compiles");
    let cases = [
        (Function::parse(product).expect("it compiles"), [[70, 100], [100, 300]]),
        (derived(triangle), [[61, 61], [333, 61]]),
    ];
    for (function, shapes) in cases {
        let mut inputs = Inputs::new();
        let mut data = Vec::new();
        for (name, shape) in [("A", shapes[0]), ("B", shapes[1])] {
            let x = Numbers::new(data.len() as u64, false).vector(shape[0] * shape[1]);
            inputs.value(name, Dense::new(&shape, x.clone()).expect("it fits"));
            data.push(x);
        }
        let kernel =
            |engine| -> Kernel { function.kernel(&inputs).as_written().engine(engine).build().expect("it binds") };
        let expected = guarded(&kernel(Engine::Interpreter), &data, Flush::End);
        let native = kernel(Engine::Native);
        for threads in 1..=8 {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            let found = pool.install(|| guarded(&native, &data, Flush::Start));
            assert!(found == expected, "{threads} threads give other bits");
        }
    }
}

/// The nests of a product, and of the gradient of one over a triangle.
#[test]
fn nests_of_products() {
    let product = "param A : [n, k] real\nparam B : [k, m] real\ngen i < n, j < m. sum l < k. A[i, l] * B[l, j]";
    let triangle = "param A : [n, n] real\nparam B : [m, n] real\n\
                    sum i < m, d < n. (sum e < n. [e < d] * (A[d, e] * B[i, e]))^2";
    let product = Function::parse(product).expect("it compiles");
    let triangle = Function::parse(triangle).and_then(|f| f.gradient(["A"])).expect("it compiles");
    let mut text = String::new();
    for function in [product, triangle] {
        text.push_str(&format!("{}\n", function.loops(&mut Stages::new()).expect("it lowers").explained()));
    }
    insta::assert_snapshot!(text);
}
