//! Leaves in single precision: a storage format. A kernel over them gives what the kernel in double precision gives for the widened inputs,
//! rounded once; on both engines, and on any number of threads.

use std::sync::Arc;

use iverson::ir::base::ParamId;
use iverson::ir::codegen::source::{Target, source};
use iverson::ir::loops::BufferKind;
use iverson::ir::stages::Stages;
use iverson::ir::{reference, surface};
use iverson::kernel::{Copied, Engine, Input, Kernel};
use iverson::tensor::{Csr, Dense, Inputs, Precision, Relation, Slice, SliceMut, Tensor, Value, bind};
use iverson::{Error, Function, Mode, Request};

use crate::kernel_memory::{Flush, Guarded, PROGRAMS, lengths};
use crate::support::{Numbers, compile};
use crate::{generate, kernel_memory, kernels, support};

const BOTH: &[Engine] = &[Engine::Interpreter, Engine::Native];

/// The bits of a number, one pattern for all NaNs.
fn bits(x: f64) -> u64 {
    if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() }
}

/// The bits of all numbers of results that are stored in a precision, rounded to single precision where asked.
fn all_bits(results: &[(String, Value)], stored: Precision, rounded: bool) -> Vec<u64> {
    let leaves = results.iter().flat_map(|(_, value)| value.leaves());
    let numbers = leaves.flat_map(|leaf| {
        assert_eq!(leaf.precision(), stored);
        leaf.data().to_vec()
    });
    numbers.map(|x| bits(if rounded { f64::from(x as f32) } else { x })).collect()
}

/// All kernels of a function, over inputs and results in either precision, agree; with the reference if sums are exact.
fn judge(function: &Function, inputs: &Inputs, exact: bool, engines: &[Engine]) -> Result<(), String> {
    let words = |error: Error| format!("{error}\n{}", function.tensor_ssa());
    let run = |kernel: iverson::Result<Kernel>, inputs: &Inputs| kernel.and_then(|k| k.call(inputs)).map_err(words);
    let narrow = inputs.in_precision(Precision::Single);
    let wide = narrow.in_precision(Precision::Double);
    let double = run(function.kernel(&wide).engine(Engine::Interpreter).build(), &wide)?;
    let rounded = all_bits(&double, Precision::Double, true);
    let compare = |what: &str, found: Vec<u64>, expected: &[u64]| match found == *expected {
        true => Ok(()),
        false => Err(format!("{what}: {found:x?}, not {expected:x?}\n{}", function.tensor_ssa())),
    };
    for engine in engines {
        let single = run(function.kernel(&narrow).results_in_single().engine(*engine).build(), &narrow)?;
        compare("all in single", all_bits(&single, Precision::Single, false), &rounded)?;
        let single = run(function.kernel(&wide).results_in_single().engine(*engine).build(), &wide)?;
        compare("results in single", all_bits(&single, Precision::Single, false), &rounded)?;
        let single = run(function.kernel(&narrow).engine(*engine).build(), &narrow)?;
        let expected = all_bits(&double, Precision::Double, false);
        compare("inputs in single", all_bits(&single, Precision::Double, false), &expected)?;
    }
    if exact {
        let expected = reference::evaluate(function.tensor_ssa(), &narrow).map_err(words)?;
        // Zeros have no sign here: an empty sum may come out as either.
        let plain = |x: Vec<u64>| x.into_iter().map(|x| bits(f64::from_bits(x) + 0.0)).collect::<Vec<_>>();
        compare("reference", plain(rounded), &plain(all_bits(&expected, Precision::Double, true)))?;
    }
    Ok(())
}

/// The value and the gradient of a function by all its parameters, if it has one real result.
fn with_gradient(function: &Function) -> Option<Function> {
    let wrt: Vec<&str> = function.tensor_ssa().signature.params.values().map(|p| p.name.as_str()).collect();
    let request = Request { with_value: true, ..Request::new(Mode::Gradient, &wrt) }.raw();
    function.derive(&request).ok().map(|derived| derived.function)
}

#[test]
fn random_programs() {
    for seed in 20_000..20_080 {
        let smooth = seed % 4 == 3;
        let generated = generate::program(seed, smooth);
        let program = surface::read(&generated.text, &[]).expect("generated programs are valid");
        let function = Function::compile(program, &mut Stages::new()).expect("they compile");
        let inputs = support::inputs(&generated, &mut Numbers::new(seed ^ 0x5eed, !smooth));
        let engines = if seed % 16 == 0 { BOTH } else { &BOTH[..1] };
        for function in std::iter::once(&function).chain(&with_gradient(&function)) {
            let result = judge(function, &inputs, !smooth, engines);
            assert!(result.is_ok(), "seed {seed}, {}\n{}", result.unwrap_err(), generated.text);
        }
    }
}

/// Dense, CSR and COO leaves with their gradients, sizes around the numbers of lanes: one compilation of each serves all of them.
#[test]
fn all_sizes() {
    let programs = [
        (include_str!("../programs/k03_sparse_logistic_regression.iv"), false),
        (include_str!("../programs/e08_deconvolution.iv"), true),
        (include_str!("../programs/k04_sparse_times_dense.iv"), true),
        (include_str!("../programs/k07_tensor_factorisation.iv"), true),
        (include_str!("../programs/k15_embedding.iv"), false),
    ];
    for (text, polynomial) in programs {
        let primal = compile(text);
        for function in std::iter::once(&primal).chain(&with_gradient(&primal)) {
            for size in 0..=17 {
                for integers in [true, false] {
                    let inputs = kernels::fitting(function, size, &mut Numbers::new(size as u64, integers));
                    // The reference takes its time, and counts in whole numbers only if nothing is rounded.
                    let exact = integers && polynomial && size < 8;
                    let result = judge(function, &inputs, exact, BOTH);
                    assert!(result.is_ok(), "size {size}, {}", result.unwrap_err());
                }
            }
        }
    }
}

/// `x * s` for `x` and the result in single precision and `s` in double precision, in all lanes and in the rest of them.
#[test]
fn loads_widen_and_stores_round() {
    let ulp = f64::from(f32::EPSILON);
    let tiny = f32::from_bits(1);
    let table: [(f32, f64, f32); 21] = [
        (f32::MAX, 1.0, f32::MAX),
        (f32::MAX, 1.0 + ulp / 8.0, f32::MAX),
        (f32::MAX, 1.0 + ulp, f32::INFINITY),
        (-f32::MAX, 2.0, f32::NEG_INFINITY),
        (f32::MAX, 1e300, f32::INFINITY),
        (tiny, 1.0, tiny),
        (tiny, 0.75, tiny),
        (tiny, 0.5, 0.0),
        (-tiny, 0.5, -0.0),
        (tiny, 1.5, f32::from_bits(2)),
        (f32::MIN_POSITIVE, 0.5, f32::MIN_POSITIVE / 2.0),
        (f32::NAN, 1.0, f32::NAN),
        (f32::INFINITY, -1.0, f32::NEG_INFINITY),
        (f32::INFINITY, 0.0, f32::NAN),
        (1.0, f64::NAN, f32::NAN),
        (-0.0, 1.0, -0.0),
        (1.0, 1.0 + ulp / 2.0, 1.0),
        (1.0, 1.0 + 1.5 * ulp, 1.0 + 2.0 * f32::EPSILON),
        (1.0, 1.0 + 0.5000001 * ulp, 1.0 + f32::EPSILON),
        (16_777_216.0, 1.0, 16_777_216.0),
        (0.1, 1.0, 0.1),
    ];
    let places = ["x[i] * s[i]", "x[n - 1 - i] * s[n - 1 - i]"];
    for (reversed, place) in places.iter().enumerate() {
        let function = compile(&format!("param x : [n] real\nparam s : [n] real\ngen i < n. {place}"));
        for n in 0..=40 {
            let cases: Vec<_> = table.iter().cycle().skip(7 * n).take(n).collect();
            let x = Dense::single(&[n], cases.iter().map(|c| c.0).collect()).expect("a vector");
            let mut inputs = Inputs::new();
            inputs.value("x", x).value("s", Value::vector(cases.iter().map(|c| c.1).collect()));
            let mut expected: Vec<f32> = cases.iter().map(|c| c.2).collect();
            if reversed == 1 {
                expected.reverse();
            }
            for engine in BOTH {
                let results = function
                    .kernel(&inputs)
                    .results_in_single()
                    .engine(*engine)
                    .build()
                    .and_then(|k| k.call(&inputs))
                    .expect("it runs");
                let Slice::Single(found) = results[0].1.leaves()[0].numbers() else { panic!("it is in double") };
                let same = |a: &f32, b: &f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
                assert!(found.iter().zip(&expected).all(|(a, b)| same(a, b)), "{n}: {found:?}, not {expected:?}");
            }
        }
    }
}

const READ: &str = "param x : [n] real
let y = gen i < n. exp(x[i]) * x[i]
in (y, sum i < n. y[i]^2, gen i < n. y[n - 1 - i] + y[i])";

/// A result in single precision that nests read is kept in double precision until all have run.
#[test]
fn results_that_nests_read() {
    let function = compile(READ);
    let mut nests = function.loops(&mut Stages::new()).expect("it lowers");
    assert!(nests.rounded.is_empty());
    nests.store_results_in_single().expect("it has results");
    assert_eq!((nests.rounded.len(), nests.verify()), (1, Ok(())));
    assert!(nests.to_string().contains("value.0[n] in single precision = value.0.wide, rounded"), "{nests}");
    for n in [0, 1, 8, 17, 100] {
        let mut inputs = Inputs::new();
        inputs.value("x", Value::vector(Numbers::new(n as u64, false).vector(n)));
        judge(&function, &inputs, false, BOTH).expect("they agree");
    }
}

/// The numbers of the leaves of all parameters, as they are stored.
fn leaves(function: &Function, inputs: &Inputs) -> Vec<Arc<Tensor>> {
    let bound = bind(&function.tensor_ssa().signature, inputs).expect("it fits");
    bound.values().values().flat_map(|value| value.leaves().to_vec()).collect()
}

/// The results of a call on numbers in single precision between guard pages.
fn guarded(kernel: &Kernel, data: &[Arc<Tensor>], flush: Flush) -> Vec<Vec<u32>> {
    let mut memory: Vec<Guarded> = data.iter().map(|x| Guarded::new(x.numbers().len())).collect();
    let given = memory.iter_mut().zip(data).map(|(memory, x)| {
        let x = x.numbers().as_single().expect("in single precision");
        let place: &mut [f32] = memory.numbers(x.len(), flush);
        place.copy_from_slice(x);
        Input::from(&*place)
    });
    let given: Vec<Input<'_>> = given.collect();
    let mut results: Vec<Guarded> = lengths(kernel).into_iter().map(Guarded::new).collect();
    let mut results: Vec<&mut [f32]> =
        results.iter_mut().zip(lengths(kernel)).map(|(memory, len)| memory.numbers(len, flush)).collect();
    results.iter_mut().for_each(|x| x.fill(f32::from_bits(0x7fa0_beef)));
    let mut places: Vec<SliceMut<'_>> = results.iter_mut().map(|x| SliceMut::Single(x)).collect();
    kernel.call_into(&given, &mut places).expect("it fits");
    results.iter().map(|x| x.iter().map(|x| x.to_bits()).collect()).collect()
}

/// Native code stays inside of buffers of `f32`, leaves nothing of what was there before, and gives the bits of the interpreter.
#[test]
fn all_sizes_between_guard_pages() {
    for (text, other, wrt) in PROGRAMS {
        let function = Function::parse(text).and_then(|f| f.value_and_gradient(wrt)).expect("it compiles");
        for n in 0..=35 {
            let inputs = kernel_memory::inputs(&function, n, other(n), &mut Numbers::new(n as u64, false));
            let inputs = inputs.in_precision(Precision::Single);
            let data = leaves(&function, &inputs);
            let native = function.kernel(&inputs).results_in_single().engine(Engine::Native).build().expect("it binds");
            let interpreter =
                function.kernel(&inputs).results_in_single().engine(Engine::Interpreter).build().expect("it binds");
            let expected = guarded(&interpreter, &data, Flush::End);
            for flush in [Flush::End, Flush::Start] {
                assert_eq!(guarded(&native, &data, flush), expected, "{text}\nn = {n}, {flush:?}");
            }
        }
    }
}

#[test]
fn any_number_of_threads() {
    let sparse = include_str!("../programs/k03_sparse_logistic_regression.iv");
    for (text, n, m, wrt) in [(PROGRAMS[0].0, 20_000, 9, PROGRAMS[0].2), (sparse, 700, 700, &["w", "X"][..])] {
        let function = Function::parse(text).and_then(|f| f.value_and_gradient(wrt)).expect("it compiles");
        let inputs = kernel_memory::inputs(&function, n, m, &mut Numbers::new(3, false));
        let inputs = inputs.in_precision(Precision::Single);
        let run = |kernel: &Kernel| all_bits(&kernel.call(&inputs).expect("it runs"), Precision::Single, false);
        let expected =
            run(&function.kernel(&inputs).results_in_single().engine(Engine::Interpreter).build().expect("it binds"));
        let native = function.kernel(&inputs).results_in_single().engine(Engine::Native).build().expect("it binds");
        for threads in [1, 2, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            assert!(pool.install(|| run(&native)) == expected, "{threads} threads give other bits");
        }
    }
}

/// Sums are those of double precision: a million times a tenth, which `f32` would not add up to three digits.
#[test]
fn sums_lose_nothing() {
    let mut inputs = Inputs::new();
    inputs.value("x", Dense::single(&[1_000_000], vec![0.1; 1_000_000]).expect("a vector"));
    let results = compile("param x : [n] real\nsum i < n. x[i]")
        .kernel(&inputs)
        .results_in_single()
        .engine(Engine::Interpreter)
        .build();
    let results = results.and_then(|kernel| kernel.call(&inputs)).expect("it runs");
    assert_eq!(results[0].1.as_scalar(), Some(f64::from((1e6 * f64::from(0.1_f32)) as f32)));
}

#[test]
fn other_precisions_are_refused() {
    let function = compile("param x : [n] real\nparam w : [n] real\ngen i < n. x[i] * w[i]");
    let mut double = Inputs::new();
    double.value("x", Value::vector(vec![1.0, 2.0])).value("w", Value::vector(vec![3.0, 4.0]));
    let mut single = double.clone();
    assert!(single.store_in_single("x") && !single.store_in_single("y"));
    let kernel = function.kernel(&single).engine(Engine::Interpreter).build().expect("it binds");
    assert_eq!(kernel.input_precisions(), [Precision::Single, Precision::Double]);
    let (x, w, mut y, mut z) = ([1.0_f32, 2.0], [3.0, 4.0], [0.0; 2], [0.0_f32; 2]);
    kernel.call_into((&x, &w), &mut y).expect("it fits");
    assert_eq!(y, [3.0, 8.0]);
    let advice = "x: numbers in single precision are expected, found double precision; give `f32`, or bind a tensor in \
                  double precision";
    let errors = [
        (kernel.call_into((&w, &w), &mut y).map(|_| ()), advice),
        (kernel.call(&double).map(|_| ()), advice),
        (
            kernel.call_into((&x, &x), &mut y).map(|_| ()),
            "w: numbers in double precision are expected, found single precision; give `f64`, or bind a tensor in single precision",
        ),
        (
            kernel.call_into((&x, &w), &mut z).map(|_| ()),
            "value: numbers in double precision are expected, found single precision; give `f64`, or store this result in single \
             precision with `store_in_single`",
        ),
    ];
    for (result, expected) in errors {
        assert_eq!(result.expect_err("it does not fit").to_string(), expected);
    }
    let mut nests = function.loops(&mut Stages::new()).expect("it lowers");
    let unknown = nests.store_in_single(&["x", "q"]).expect_err("there is no q");
    assert_eq!(unknown.to_string(), "the program has no parameter and no result `q`");
    assert!(nests.buffers.values().all(|buffer| buffer.precision.is_double()));
    nests.store_in_single(&["x"]).expect("there is an x");
    let pairs = compile("param p : [n] (real, real)\n(sum i < n. fst p[i], sum i < n. snd p[i])");
    let mut components = pairs.loops(&mut Stages::new()).expect("it lowers");
    components.store_in_single(&["p.1", "value.0"]).expect("they are there");
    let single = components.buffers.values().filter(|b| !b.precision.is_double()).map(|b| b.kind);
    assert!(single.eq([BufferKind::Output(0, 0), BufferKind::Param(ParamId(0), 1)]));
    let refused = Kernel::bind(Arc::new(nests), &double, Engine::Interpreter).expect_err("x is in double precision");
    assert_eq!(
        refused.to_string(),
        "x: the program stores it in single precision, the tensor is in double precision; round it with `in_precision`"
    );
}

/// Sources of programs in double precision have nothing of the other.
#[test]
fn sources_say_which_buffers() {
    let nests = compile(READ).loops(&mut Stages::new()).expect("it lowers");
    for target in [Target::Module, Target::Included, Target::Library] {
        let text = source(&nests, target).expect("it is written").text;
        assert!(!text.contains("single") && !text.contains("f32"), "{text}");
    }
}

/// A module with buffers of `f32`, compiled by `rustc` alone.
#[test]
fn a_kernel_ahead_of_time() {
    let main = r#"
fn main() {
    let sizes = [5];
    // Room for numbers of either size.
    let mut memory: Vec<Vec<f64>> = kernel::lengths(&sizes, &[]).iter().map(|len| vec![0.0; *len]).collect();
    let place = |name: &str| kernel::BUFFERS.iter().position(|buffer| *buffer == name).unwrap();
    let singles = |x: &mut Vec<f64>| unsafe { std::slice::from_raw_parts_mut(x.as_mut_ptr().cast::<f32>(), x.len()) };
    singles(&mut memory[place("x")]).copy_from_slice(&[0.1, -0.2, 0.3, 1.5, -2.5]);
    let buffers: Vec<_> = memory.iter_mut().map(|x| kernel::Reals { data: x.as_mut_ptr(), len: x.len() }).collect();
    let (sizes, arrays, buffers) = (sizes.as_ptr(), std::ptr::null(), buffers.as_ptr());
    unsafe { kernel::run(&kernel::Call { sizes, arrays, buffers, callback: nothing, host: std::ptr::null() }) };
    for name in ["value_0", "value_1", "value_2"] {
        singles(&mut memory[place(name)]).iter().for_each(|x| println!("{x:e}"));
    }
}
"#;
    let function = compile(READ);
    let mut nests = function.loops(&mut Stages::new()).expect("it lowers");
    nests.store_in_single(&["x", "value", "value.0"]).expect("they are there");
    let printed = support::run_alone(&nests, main);
    let mut inputs = Inputs::new();
    inputs.value("x", Dense::single(&[5], vec![0.1, -0.2, 0.3, 1.5, -2.5]).expect("a vector"));
    let results = function
        .kernel(&inputs)
        .results_in_single()
        .engine(Engine::Interpreter)
        .build()
        .and_then(|k| k.call(&inputs))
        .expect("it runs");
    let leaves = results.iter().flat_map(|(_, value)| value.leaves());
    let numbers = leaves.flat_map(|leaf| leaf.numbers().as_single().expect("in single").to_vec());
    let expected: Vec<String> = numbers.map(|x| format!("{x:e}")).collect();
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
}

/// Arrays, matrices of other libraries and JSON keep the precision.
#[test]
fn tensors_convert() {
    use iverson::ndarray::{Array2, array};
    let array: Array2<f32> = array![[0.1, 0.0], [f32::NAN, -2.5]];
    let dense = Dense::from_array(array.clone().reversed_axes()).expect("two axes");
    let Slice::Single(numbers) = dense.numbers() else { panic!("it is in double") };
    assert_eq!(numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), [0.1, f32::NAN, 0.0, -2.5].map(f32::to_bits));
    assert_eq!((dense.data()[0], dense.get(&[1, 1])), (f64::from(0.1_f32), Some(-2.5)));
    let mut double = dense.clone();
    double.data_mut()[0] = 0.1;
    assert_eq!((double.precision(), double.data()[0]), (Precision::Double, 0.1));
    assert_ne!(dense.in_precision(Precision::Double), dense);
    let finite = Dense::single(&[2], vec![0.1, f32::INFINITY]).expect("a vector");
    let text = serde_json::to_string(&finite).expect("JSON");
    assert_eq!(serde_json::from_str::<Dense>(&text).expect("the same"), finite);
    assert!(!serde_json::to_string(&finite.in_precision(Precision::Double)).expect("JSON").contains("precision"));
    let csr = Csr::new(2, 2, vec![0, 1, 2], vec![1, 0], vec![0.1, 2.0]).expect("a matrix");
    let single = csr.in_precision(Precision::Single);
    let matrix = single.to_single_sprs().expect("a matrix");
    assert_eq!(Csr::from_sprs(matrix.view()).expect("the same"), single);
    assert_eq!((single.get(0, 1), csr.to_single_sprs().expect("a matrix")), (Some(f64::from(0.1_f32)), matrix));
    let pattern = Arc::new(Relation::from_tuples(&[3], &[[2]]).expect("a relation"));
    let coo = iverson::tensor::Coo::single(pattern, vec![0.5]).expect("a value");
    assert_eq!((coo.numbers(), coo.data()), (Slice::Single(&[0.5]), &[0.5][..]));
}

/// Results whose pattern is found out, in single precision as any others.
#[test]
fn assembled_results() {
    let text = "param A : csr [n, n] real\nparam x : [n] real\ngen i < n, j < n. sum k < n. A[i, k] * A[k, j] * x[k]";
    let data = vec![0.1, 0.2, 0.3, 0.4, 0.5];
    let csr = Csr::new(3, 3, vec![0, 2, 3, 5], vec![0, 2, 1, 0, 1], data).expect("a matrix");
    let mut inputs = Inputs::new();
    inputs.value("A", csr).value("x", Value::vector(vec![0.7, -0.1, 1.3]));
    let narrow = inputs.in_precision(Precision::Single);
    let wide = narrow.in_precision(Precision::Double);
    let mut assembly = compile(text).assemble(&["value"]).expect("it can be sparse");
    let double = assembly.bind(&wide, Engine::Interpreter).and_then(|k| k.call(&wide)).expect("it runs");
    assert!(assembly.store_in_single(&["q"]).is_err());
    assembly.store_in_single(&["value"]).expect("it is there");
    for engine in BOTH {
        let single = assembly.bind(&narrow, *engine).and_then(|k| k.call(&narrow)).expect("it runs");
        assert_eq!(all_bits(&single, Precision::Single, false), all_bits(&double, Precision::Double, true));
        assert_eq!(single[0].1.leaves()[0].format(), "csr");
    }
}

/// A Jacobian as one matrix takes numbers in single precision, and arrays of any strides.
#[test]
fn jacobians() {
    let function = compile("param x : [n] real\ngen i < n - 1. x[i + 1]^2 * x[i]");
    let derived = function.derive(&Request::new(Mode::Jacobian, &["x"])).expect("it has one");
    let x = iverson::ndarray::Array1::from_vec(vec![0.1_f32, 0.2, 0.3, 0.4, 0.5]);
    let reversed = x.slice(iverson::ndarray::s![..;-1]);
    let mut inputs = Inputs::new();
    inputs.value("x", Dense::from_array(reversed.to_owned()).expect("a vector"));
    let wide = inputs.in_precision(Precision::Double);
    for engine in BOTH {
        let bind = |inputs| derived.matrix().and_then(|matrix| matrix.bind(inputs, *engine)).expect("it binds");
        let (single, double) = (bind(&inputs), bind(&wide));
        let mut values = [vec![f64::NAN; 8], vec![f64::NAN; 8]];
        let [found, expected] = &mut values;
        let copied = single.call_into(reversed, &mut [], found).expect("it fits");
        assert_eq!(copied, Copied { leaves: 1, numbers: 5 });
        let x: Vec<f64> = reversed.iter().map(|x| f64::from(*x)).collect();
        double.call_into(&x, &mut [], expected).expect("it fits");
        assert_eq!(found, expected);
        assert!(single.call_into(&x, &mut [], found).is_err());
    }
}
