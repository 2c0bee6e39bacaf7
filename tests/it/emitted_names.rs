//! The names by which callers of emitted sources find buffers: parameters and results have their own, whatever else has the same name.

use iverson::ir::codegen::source::{Target, source};
use iverson::ir::loops::{BufferKind, Program};
use iverson::ir::stages::Stages;
use iverson::kernel::Engine;
use iverson::tensor::{Inputs, Value};
use iverson::{Function, Mode, Request};

use crate::support;

/// A definition's `let` has the name of a parameter.
const SHADOWED: &str = "param y : [n] real  param x : [n] real
def f(v : [k] real) : real = let x = gen i < k. exp(v[i]) in sum i < k, j < k. x[i] * x[j]^2
f(y) + sum i < n. (sum j < n. [j <= i] * x[j])^2";

const HOSTILE: [&str; 7] = [
    SHADOWED,
    // What brackets compare is the `c` of a library function.
    "param S : csr [n, m] real  param c : [n] real
sum i < n. if (sum j < m. S[i, j]^2) > 0 then exp(c[i]) * (sum j < m. S[i, j]) else 0",
    "param x : [n] real
let value = gen i < n. sum j < n. exp(x[i] * x[j]) in sum i < n, j < n. value[i] * value[j]^2",
    "param value : [n] real
gen i < n. sum j < n. value[i] * value[j]",
    "param p : [n] (real, real)  param p_0 : [n] real
sum i < n. (fst p[i] + p_0[i] * snd p[i])",
    // The names of statements without one.
    "param t0 : [n] real  param t1 : [n] real  param t2 : [n] real
let a = gen i < n. sum j < n. t1[i] * t0[j] in sum i < n, j < n. a[i] * a[j] * t2[i]",
    "param x : [n] real  param z : [n] real
let z = gen i < n. sum j < n. x[i] * x[j] in sum i < n, j < n. z[i] * z[j]",
];

fn buffers(text: &str) -> Vec<String> {
    let list = text.split_once("pub const BUFFERS: ").and_then(|(_, rest)| rest.split_once("= [")).expect("names").1;
    let list = list.split_once("];").expect("an end").0;
    list.split(", ").filter(|name| !name.is_empty()).map(|name| name.trim_matches('"').to_owned()).collect()
}

/// Names are distinct, and those of parameters and results of one component are their own.
fn judge(nests: &Program) {
    let names = buffers(&source(nests, Target::Module).expect("it is written").text);
    assert_eq!(names.len(), nests.buffers.len());
    let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
    assert_eq!(distinct.len(), names.len(), "{names:?}");
    let is_param = |name: &str| nests.signature.params.values().any(|param| param.name == name);
    for (buffer, name) in nests.buffers.values().zip(&names) {
        let own = match buffer.kind {
            BufferKind::Param(id, _) => {
                let param = &nests.signature.params[id];
                let whole = nests.signature.types.leaves(param.ty).expect("a type").len() == 1;
                whole.then_some(&param.name)
            }
            BufferKind::Output(k, _) => {
                let (own, leaves) = &nests.outputs[k];
                (leaves.len() == 1 && !is_param(own)).then_some(own)
            }
            BufferKind::Workspace | BufferKind::Held(_) => None,
        };
        if let Some(own) = own {
            let own: String = own.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
            assert_eq!(*name, own, "{names:?}");
        }
    }
}

fn judge_text(text: &str) {
    let function = Function::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    judge(&function.loops(&mut Stages::new()).expect("it lowers"));
    let wrt: Vec<&str> = function.tensor_ssa().signature.params.values().map(|param| param.name.as_str()).collect();
    // Some have no derivative.
    if let Ok(derived) = function.derive(&Request::new(Mode::Adjoint, &wrt).raw()) {
        judge(&derived.function.loops(&mut Stages::new()).expect("it lowers"));
    }
}

#[test]
fn buffers_have_their_names() {
    HOSTILE.into_iter().for_each(judge_text);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs");
    let files = std::fs::read_dir(folder).expect("the folder is there");
    let texts =
        files.map(|file| file.expect("a file").path()).filter(|path| path.extension().is_some_and(|e| e == "iv"));
    let texts: Vec<String> = texts.map(|path| std::fs::read_to_string(path).expect("text")).collect();
    assert!(texts.len() > 10);
    texts.iter().for_each(|text| judge_text(text));
}

/// Who asks for `x` gives the kernel `x`.
#[test]
fn a_kernel_finds_its_parameters() {
    let main = r#"
fn main() {
    let sizes = [3];
    let mut memory: Vec<Vec<f64>> = kernel::lengths(&sizes, &[]).iter().map(|len| vec![0.0; *len]).collect();
    let place = |name: &str| kernel::BUFFERS.iter().position(|buffer| *buffer == name).unwrap();
    memory[place("x")].copy_from_slice(&[0.5, -1.0, 2.0]);
    memory[place("y")].copy_from_slice(&[0.25, 0.5, -0.75]);
    let buffers: Vec<_> = memory.iter_mut().map(|x| kernel::Reals { data: x.as_mut_ptr(), len: x.len() }).collect();
    let (sizes, arrays, buffers) = (sizes.as_ptr(), std::ptr::null(), buffers.as_ptr());
    unsafe { kernel::run(&kernel::Call { sizes, arrays, buffers, callback: nothing, host: std::ptr::null() }) };
    println!("{:e}", memory[place("value")][0]);
}
"#;
    let function = Function::parse(SHADOWED).expect("it compiles");
    let nests = function.loops(&mut Stages::new()).expect("it lowers");
    let printed = support::run_alone(&nests, main);
    let mut inputs = Inputs::new();
    inputs.value("x", Value::vector(vec![0.5, -1.0, 2.0]));
    inputs.value("y", Value::vector(vec![0.25, 0.5, -0.75]));
    let results = function.kernel(&inputs).engine(Engine::Interpreter).build().and_then(|kernel| kernel.call(&inputs));
    let expected = crate::kernels::numbers(&results.expect("it runs"))[0];
    let found: f64 = printed.trim().parse().expect("a number");
    assert!((found - expected).abs() <= 1e-12 * expected.abs(), "{found} {expected}");
}
