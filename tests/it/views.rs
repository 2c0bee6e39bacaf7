//! Arrays of any strides as inputs of a call: read where they are if they are in row-major order, else copied, which the call says.

use iverson::kernel::{Copied, Engine, Input, Kernel};
use iverson::ndarray::{Array1, Array2, ArrayView2, Ix1, Ix2, ShapeBuilder, s};
use iverson::tensor::{Csr, Dense, Element, Inputs, Precision, Value};

use crate::allocations;
use crate::support::compile;

const PRODUCT: &str = "param A : [m, n] real\nparam x : [n] real\ngen i < m. sum j < n. A[i, j] * x[j]";
const BOTH: [Engine; 2] = [Engine::Interpreter, Engine::Native];

/// Views of a matrix, and whether they are in row-major order.
fn views<A: Element>(a: &Array2<A>) -> Vec<(&'static str, ArrayView2<'_, A>, bool)> {
    vec![
        ("whole", a.view(), true),
        ("some rows", a.slice(s![1..4, ..]), true),
        ("one row", a.slice(s![2..3, ..]), true),
        ("a part of one row", a.slice(s![2..3, 1..4]), true),
        ("transposed", a.t(), false),
        ("rows reversed", a.slice(s![..;-1, ..]), false),
        ("columns reversed", a.slice(s![.., ..;-1]), false),
        ("both reversed and transposed", a.slice(s![..;-1, ..;-1]).reversed_axes(), false),
        ("some columns", a.slice(s![.., 1..4]), false),
        ("every other", a.slice(s![..;2, ..;3]), false),
        ("one column", a.slice(s![.., 2..3]), false),
        ("one row for all", a.slice(s![1..2, ..]).broadcast_to((9, a.ncols())), false),
        ("one element for all", a.slice(s![1..2, 1..2]).broadcast_to((3, 17)), false),
        ("no rows", a.slice(s![2..2, ..]), true),
        ("no columns", a.slice(s![.., 3..3]), true),
        ("no columns, transposed", a.slice(s![.., 3..3]).reversed_axes(), true),
    ]
}

/// Broadcasting for the life of the array.
trait Broadcast<'a, A> {
    fn broadcast_to(self, shape: (usize, usize)) -> ArrayView2<'a, A>;
}

impl<'a, A: Element> Broadcast<'a, A> for ArrayView2<'a, A> {
    fn broadcast_to(self, shape: (usize, usize)) -> ArrayView2<'a, A> {
        let strides = if self.nrows() == 1 && self.ncols() > 1 { (0, 1) } else { (0, 0) };
        let slice = self.to_slice().expect("one row");
        ArrayView2::from_shape(shape.strides(strides), slice).expect("within the row")
    }
}

/// Every view gives what its copy in row-major order gives.
fn check<A: Element>(engine: Engine)
where
    for<'a> Input<'a>: From<ArrayView2<'a, A>> + From<iverson::ndarray::ArrayView1<'a, A>>,
{
    let number = |k: usize| A::narrow((k * k % 11) as f64 / 8.0 - 0.5);
    let a = Array2::from_shape_fn((6, 7), |(i, j)| number(7 * i + j));
    let column_major = Array2::from_shape_fn((6, 7).f(), |(i, j)| number(i + 3 * j));
    let mut cases = views(&a);
    cases.push(("column-major", column_major.view(), false));
    for (what, view, in_order) in cases {
        let x = Array1::from_shape_fn(2 * view.ncols(), number);
        let x = x.slice(s![..;-2]);
        let mut inputs = Inputs::new();
        let dense = Dense::from_array::<A, Ix2>(view.to_owned()).expect("two axes");
        inputs.value("A", dense).value("x", Dense::from_array::<A, Ix1>(x.to_owned()).expect("one axis"));
        let kernel = compile(PRODUCT).kernel(&inputs).engine(engine).build().expect("it binds");
        let expected = kernel.call(&inputs).expect("it runs")[0].1.leaves()[0].data().to_vec();
        // A vector of one element is in order whatever its stride.
        let x_in_order = x.len() <= 1;
        let given = [Input::from(view), Input::from(x)];
        let names = [(in_order, "A"), (x_in_order, "x")];
        let names: Vec<&str> = names.iter().filter(|(in_order, _)| !in_order).map(|(_, name)| *name).collect();
        assert_eq!(kernel.copied(&given), names, "{what}");
        let numbers = if in_order { 0 } else { view.len() } + if x_in_order { 0 } else { x.len() };
        for _ in 0..2 {
            let mut y = vec![f64::NAN; expected.len()];
            let copied = kernel.call_into(&given, &mut y).expect("it fits");
            assert_eq!((y, copied), (expected.clone(), Copied { leaves: names.len(), numbers }), "{what}");
        }
    }
}

#[test]
fn views_of_doubles() {
    BOTH.into_iter().for_each(check::<f64>);
}

#[test]
fn views_of_singles() {
    BOTH.into_iter().for_each(check::<f32>);
}

/// The values of a sparse parameter are a vector; its entries may be every other number of an array.
#[test]
fn values_of_entries() {
    let function = compile("param A : csr [m, n] real\nsum i < m, j < n. A[i, j] * (2 * i + j)");
    let mut inputs = Inputs::new();
    inputs.value("A", Csr::new(2, 2, vec![0, 1, 3], vec![1, 0, 1], vec![0.0; 3]).expect("a matrix"));
    let kernel = function.kernel(&inputs).engine(Engine::Interpreter).build().expect("it binds");
    let data = Array1::from_vec(vec![1.0, -1.0, 10.0, -1.0, 100.0]);
    let mut y = [0.0];
    let copied = kernel.call_into(data.slice(s![..;2]), &mut y).expect("it fits");
    assert_eq!((y, copied), ([1.0 + 20.0 + 300.0], Copied { leaves: 1, numbers: 3 }));
    let wrong = kernel.call_into(data.view(), &mut y).expect_err("it has five");
    assert_eq!(wrong.to_string(), "A: an array of the shape [3] is expected, found one of [5]");
}

fn product(m: usize, n: usize, engine: Engine) -> Kernel {
    let mut inputs = Inputs::new();
    let zeros = Dense::zeros(&[m, n]).expect("it fits");
    inputs.value("A", zeros).value("x", Value::vector(vec![0.0; n]));
    compile(PRODUCT).kernel(&inputs).engine(engine).build().expect("it binds")
}

#[test]
fn other_shapes_are_refused() {
    let kernel = product(2, 3, Engine::Interpreter);
    let (a, x, mut y) = (Array2::<f64>::zeros((3, 2)), [0.0; 3], [0.0; 2]);
    let mut call = |inputs: &[Input<'_>]| kernel.call_into(inputs, &mut y).map(|_| ()).unwrap_err();
    let error = call(&[(&a).into(), (&x).into()]);
    assert_eq!(error.to_string(), "A: an array of the shape [2, 3] is expected, found one of [3, 2]");
    assert_eq!(call(&[a.t().into()]).to_string(), "inputs: 2 leaves are expected, found 1");
    let single = a.map(|x| *x as f32);
    let error = call(&[single.t().into(), (&x).into()]);
    assert!(error.to_string().starts_with("A: numbers in double precision are expected, found single"), "{error}");
}

/// Once a call has run, the next one asks for no memory: neither for slices nor for copies of views, of either type.
#[test]
fn calls_allocate_nothing() {
    for engine in BOTH {
        for precision in [Precision::Double, Precision::Single] {
            let mut inputs = Inputs::new();
            let zeros = Dense::zeros(&[40, 30]).expect("it fits");
            inputs.value("A", zeros).value("x", Value::vector(vec![0.0; 30]));
            let kernel =
                compile(PRODUCT).kernel(&inputs.in_precision(precision)).engine(engine).build().expect("it binds");
            let (a, x) = (Array2::from_elem((30, 40), 1.5), Array1::from_elem(30, 2.0));
            let (b, z) = (a.map(|x| *x as f32), x.map(|x| *x as f32));
            let given: [Input<'_>; 2] = match precision {
                Precision::Double => [a.t().into(), x.slice(s![..;-1]).into()],
                Precision::Single => [b.t().into(), z.slice(s![..;-1]).into()],
            };
            let mut y = vec![0.0; 40];
            let call = |y: &mut Vec<f64>| kernel.call_into(&given, y).expect("it fits");
            assert_eq!(call(&mut y), Copied { leaves: 2, numbers: 1230 });
            assert_eq!(y, [90.0; 40]);
            assert_eq!(allocations::of(|| (0..10).for_each(|_| _ = call(&mut y))), 0, "{engine:?}, {precision}");
        }
        let kernel = product(2, 3, engine);
        let mut y = [0.0; 2];
        let mut call = || kernel.call_into((&[1.0; 6], &[1.0; 3]), &mut y).expect("it fits");
        call();
        assert_eq!(allocations::of(|| (0..10).for_each(|_| _ = call())), 0, "{engine:?}");
    }
}
