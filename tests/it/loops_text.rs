//! Loop nests as text: what is printed is read back, bit for bit, and what is wrong is told with its place.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;
use iverson::ir::loops::{self, Bins, Decision, Program, StoredAs};
use iverson::ir::stages::Stages;
use iverson::ir::surface;
use iverson::ir::ty::{Signature, Storage};
use iverson::kernel::{Engine, Kernel};
use iverson::tensor::{Inputs, Precision, Value};
use iverson::{Error, Function, Mode, Request};

use crate::generate::{self, Family};
use crate::kernels::fitting;
use crate::support::{Numbers, at_binding, compile, inputs, setting};

/// All but the signature. Numbers differ where their bits do, but for NaNs, which are one.
fn content(program: &Program) -> String {
    let Program { signature: _, arrays, buffers, nests, outputs, rounded, limits, bins } = program;
    format!("{arrays:?}\n{buffers:?}\n{nests:?}\n{outputs:?}\n{rounded:?}\n{limits:?}\n{bins:?}")
}

fn without_decisions(mut program: Program) -> Program {
    program.nests.iter_mut().for_each(|nest| nest.decisions.clear());
    program
}

/// Reads what a program prints, with and without decisions: the canonical form of the program, which prints the same.
pub fn round_trip(program: &Program) -> Program {
    let read = |text: &str| {
        loops::parse(text, &program.signature)
            .unwrap_or_else(|error| panic!("{error}\n{}\n{text}", place(&error, text)))
    };
    let (text, explained, canonical) = (program.to_string(), program.explained(), program.canonical());
    assert_eq!(canonical.to_string(), text);
    assert_eq!(canonical.explained(), explained);
    let back = read(&explained);
    assert_eq!(content(&back), content(&canonical), "{explained}");
    assert_eq!((back.to_string(), back.explained()), (text.clone(), explained));
    assert_eq!(content(&read(&text)), content(&without_decisions(canonical)), "{text}");
    assert_eq!(back.verify(), Ok(()));
    back
}

/// The text at a problem.
fn place<'a>(error: &Error, text: &'a str) -> &'a str {
    let Error::Program(diagnostics) = error else { return "" };
    &text[diagnostics[0].span.range()]
}

/// The nests of a program, as they are, with bins, in single precision, with each parameter held, and with sparse results.
fn round_trips(function: &Function) {
    let mut nests = function.loops(&mut Stages::new()).expect("it lowers");
    round_trip(&nests);
    let binned = at_binding("bins", &nests, None);
    round_trip(&Program { bins: Bins { least: 0, size: 2 }, ..binned });
    let names: Vec<String> = function.tensor_ssa().signature.params.values().map(|p| p.name.clone()).collect();
    for constants in names.iter().map(|name| vec![name.as_str()]).chain([names.iter().map(String::as_str).collect()]) {
        let split = function.split(&constants).expect("it splits");
        round_trip(&split.setup);
        round_trip(&split.main);
    }
    if let Some(name) = names.first() {
        nests.store_in_single(&[name]).expect("there is one");
        round_trip(&nests);
    }
    nests.store_results_in_single().expect("it has results");
    round_trip(&nests);
    let program = function.tensor_ssa();
    let is_tensor = |ty| program.signature.types.real_dims(ty).is_some_and(|dims| !dims.is_empty());
    let tensors = program.outputs.iter().filter(|output| output.storage == Storage::Dense && is_tensor(output.ty));
    let tensors: Vec<&str> = tensors.map(|output| output.name.as_str()).collect();
    if !tensors.is_empty() {
        let assembly = function.assemble(&tensors).expect("they are tensors");
        round_trip(assembly.structure());
        round_trip(assembly.values());
    }
}

/// The gradient by all parameters, if there is one, else the adjoint.
fn derivative(function: &Function, simplify: bool) -> Option<Function> {
    let wrt: Vec<&str> = function.tensor_ssa().signature.params.values().map(|p| p.name.as_str()).collect();
    [Mode::Gradient, Mode::Adjoint].into_iter().find_map(|mode| {
        let request = Request { with_value: true, ..Request::new(mode, &wrt) };
        let request = if simplify { request } else { request.raw() };
        function.derive(&request).ok().map(|derived| derived.function)
    })
}

/// All programs in a folder and below.
fn programs(folder: &Path, found: &mut Vec<PathBuf>) {
    for file in std::fs::read_dir(folder).expect("the folder is there") {
        let path = file.expect("the folder can be read").path();
        if path.is_dir() {
            programs(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "iv") {
            found.push(path);
        }
    }
}

fn programs_in(folder: &str, simplify: &[bool]) {
    let mut found = Vec::new();
    programs(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut found);
    found.sort();
    assert!(!found.is_empty());
    for path in found {
        // A thousand terms take long and show nothing new.
        if path.to_string_lossy().contains("unrolled") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("the file is there");
        let Ok(function) = Function::parse(&text) else { continue };
        round_trips(&function);
        for simplify in simplify {
            derivative(&function, *simplify).iter().for_each(round_trips);
        }
    }
}

#[test]
fn programs_and_gradients_are_read_back() {
    programs_in("tests/programs", &[false, true]);
}

#[test]
fn regressions_are_read_back() {
    programs_in("tests/regressions", &[false]);
}

#[test]
fn derivatives_of_programs_are_read_back() {
    programs_in("tests/expected", &[]);
}

#[test]
fn examples_are_read_back() {
    programs_in("examples", &[false, true]);
}

/// What was read gives the same bits, in either precision.
fn runs_alike(function: &Function, inputs: &Inputs) {
    let mut nests = function.loops_for(inputs).expect("it lowers");
    let run = |program: &Program| {
        let kernel = Kernel::bind(Arc::new(program.clone()), inputs, Engine::Interpreter);
        kernel.and_then(|kernel| kernel.call(inputs)).map(|results| bits(&results))
    };
    assert_eq!(run(&round_trip(&nests)), run(&nests), "{nests}");
    nests.store_results_in_single().expect("it has results");
    assert_eq!(run(&round_trip(&nests)), run(&nests), "{nests}");
}

fn bits(results: &[(String, Value)]) -> Vec<u64> {
    let leaves = results.iter().flat_map(|(_, value)| value.leaves());
    let numbers = leaves.flat_map(|leaf| leaf.in_precision(Precision::Double).data().to_vec());
    numbers.map(|x| if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() }).collect()
}

#[test]
fn random_programs_are_read_back_and_run_alike() {
    for seed in 60_000..60_200 {
        let family = [Family::Exact, Family::Smooth, Family::Special, Family::Wide][seed as usize % 4];
        let generated = generate::draw(seed, family);
        let source = surface::read(&generated.text, &[]).expect("generated programs are valid");
        let primal = Function::compile(source, &mut Stages::new()).expect("they compile");
        let inputs = inputs(&generated, &mut Numbers::new(seed, family != Family::Smooth));
        for function in std::iter::once(&primal).chain(&derivative(&primal, false)) {
            round_trips(function);
            // An adjoint has parameters beside those of the program.
            if function.tensor_ssa().signature.params == primal.tensor_ssa().signature.params {
                runs_alike(function, &inputs);
            }
        }
    }
}

/// The blocks of a Jacobian as one matrix: several buffers are parts of one output.
#[test]
fn matrices_are_read_back() {
    let mut several = 0;
    for (text, mode, wrt) in [
        (include_str!("../programs/e12_rosenbrock.iv"), Mode::Hessian, &["x"][..]),
        ("param x : [n] real\nparam y : [n] real\nsum i < n. x[i]^2 * y[i]", Mode::Hessian, &["x", "y"]),
        ("param x : [n] real\nparam y : [n] real\ngen i < n. x[i] * y[n - 1 - i]", Mode::Jacobian, &["x", "y"]),
    ] {
        let derived = compile(text).derive(&Request::new(mode, wrt)).expect("it has a derivative");
        let matrix = derived.matrix().expect("its blocks fit");
        let assembly = matrix.assembly();
        round_trip(assembly.structure());
        let back = round_trip(assembly.values());
        several += usize::from(back.to_string().contains(" and "));
    }
    assert!(several > 0);
}

fn signature() -> Arc<Signature> {
    compile(
        "param x : [n] real
         param w : [m] real
         param s : real
         param A : csr [n, m] real
         param p : ([n] real, [n] (real, real))
         rel E : [n, m]
         fun f(a, b) = a * b with (b, a)
         gen i < n. f(x[i], s) + (sum j < m. A[i, j] * [E(i, j)] * w[j]) + (fst p)[i]",
    )
    .tensor_ssa()
    .signature
    .clone()
}

/// Texts that are printed as they are.
const BY_HAND: &[&str] = &[
    "",
    "y[n]:\n  parallel for i0 in 0 .. n - 1, lanes 8\n    r0 = x[i0]\n    y[i0] = r0\nout y = y\n",
    "y:\n  local r0\n  for i0 in 0 .. n - 1, jam 4\n    r1 = x[i0]\n    r2 = s\n    r0 += r1 * r2\n  y = r0\nout value = y\n",
    // Names of buffers that say something else, or that a parameter has.
    "\"r1\"[n]:\n  \"r1\" = 0\nx@2[n]:\n  for i0 in 0 .. n - 1\n    r0 = x[i0]\n    x@2[i0] = r0\nx@3:\n  r0 = 1.0\n  x@3 = r0\nout x = x@2, \"r1\"\n",
    "\"a b\\\"\\\\\\n\\u{7}\":\n  r0 = -inf\n  \"a b\\\"\\\\\\n\\u{7}\" = r0\nout held 0 = \"a b\\\"\\\\\\n\\u{7}\"\n",
    "bins of 2 from 0 tuples on\nparam x[n] in single precision\nparam second[n], leaf 1 of p\nheld x_held[A?, m]\nheld y_held in single precision, number 3\ny[n]:\n  y = 0\nz[n] in single precision = y, rounded\nout z = z\n",
    // Everything that defines a register.
    "y[n]:\n  r0 = s\n  r1 = real(m - 2*n - 3)\n  r2 = r0 + r1\n  r3 = r0 * r1\n  r4 = r0 * r1 + r2\n  r5 = r0 / r1\n  r6 = r0^-2147483648\n  r7 = exp(r0)\n  r8 = f(r0, r1)\n  r9 = f'1(r0, r1)\n  r10 = powi'_3'0(r0)\n  r11 = div'1(r0, r1)\n  r12 = [r0 != 0] r1\n  r13 = NaN\n  r14 = 1e-300\n  r15 = -0.0\n  local r16\n  if r0 != 0\n    r16 := r1\n  r16 += r2\n  y = 0\nout y = y\n",
    // Everything that defines an index, and all domains.
    "y[A?]:\n  for i0 in max(0, floor((n - 1) / 2), -m) .. min(n - 1, m)\n    for i1 in rows A?(0, 1) at i0\n      i2 = nodes 1 A?(0, 1)[i1]\n      i3 = find i2 in rows E(1, 0) at i0 of nodes 1 E(1, 0), onwards\n      i4 = first in children 0 E(0, 1) at i0\n      r0 = A[i1]\n      y[i1] = r0\n  i5 = argmin i6 < n + 1. r1 where\n    r1 = x[i6]\n  i7 = bins E(0, 1)[1]\n  for i8 in part i7 of 4 (grain 3) of part 1 of 2 of roots E(0, 1) at 0\n  for i9 in 0 .. 7\n    i10 = entries of bins E(1, 0)[i9], in steps of -2\n    i11 = axis 1 of bins E(1, 0)[i10]\n    i12 = places in bins E(1, 0)[i11]\n    i13 = entries E(1, 0)[i12]\nout y = y\n",
    // All conditions.
    "y:\n  r0 = 1.0\n  if (0 <= n - 1 and (n - m = 0 or m != 0) and any(r0 = 0) and all(true) and false)\n    y = r0\nout y = y\n",
    "entries:\n  for i0 in 0 .. n - 1\n    pattern 0 has (i0, n - i0 - 1)\n",
];

#[test]
fn texts_by_hand() {
    for text in BY_HAND {
        let read = loops::parse(text, &signature());
        let read = read.unwrap_or_else(|error| panic!("{error}\n{}\n{text}", place(&error, text)));
        assert_eq!(read.to_string(), *text);
        round_trip(&read);
    }
}

/// Other spellings.
#[test]
fn edited_text_becomes_canonical() {
    for (text, canonical) in [
        (
            "# once\r\n\r\ny  :  # a nest\r\n  r0 = 2\r\n\r\n  y = r0\r\nout y = y",
            "y:\n  r0 = 2.0\n  y = r0\nout y = y\n",
        ),
        ("y:\n  r0=1e3\n  if(0<=n+n-1-0)", "y:\n  r0 = 1000.0\n  if 0 <= 2*n - 1\n"),
        ("y@7[n]:\n  y@7 = 0\ny@1:\nout y = y@7", "y[n]:\n  y = 0\ny@2:\nout y = y\n"),
        (
            "param fst[n], leaf 0 of p\ny:\n  for i007 in 0 .. n - 1\n    r0 = fst[i007]\n",
            "param fst[n], leaf 0 of p\ny:\n  for i7 in 0 .. n - 1\n    r0 = fst[i7]\n",
        ),
    ] {
        let read = loops::parse(text, &signature());
        assert_eq!(read.unwrap_or_else(|error| panic!("{error}\n{text}")).to_string(), canonical);
    }
}

/// Comments behind the first line of a nest are its decisions where they are the sentence of one, behind the name of the pass that took it;
/// others are not kept.
#[test]
fn decisions_are_read_back() {
    let text = "# top\ny:\n  # stored dense: it is a result\n    # privatise: rows that only their own iteration reads are kept for each of 7 parts\n\
                \x20 # fuse: guards are bounds of loops\n  # it is small\n  r0 = 1.0\n  # guards are bounds of loops\n  y = r0\nz:\n\
                # guards are bounds of loops\n";
    let read = loops::parse(text, &signature()).expect("it is sound");
    let decisions: Vec<&[Decision]> = read.nests.iter().map(|nest| nest.decisions.as_slice()).collect();
    let of_y = [Decision::Result { stored: StoredAs::Dense }, Decision::Privatised { parts: 7 }];
    assert_eq!(decisions, [of_y.as_slice(), &[]]);
}

/// What is wrong, with the message, where `§` marks the place.
#[test]
fn problems_have_places() {
    for (text, message) in [
        ("§+", "expected the name of a buffer, found `+`"),
        ("y§", "expected `:`, found the end of the line"),
        ("y[§q]:", "there is no size `q`"),
        ("y[§i0]:", "expected a size, which mentions no index"),
        ("y:\n§y:", "there is a buffer `y` already"),
        ("§\"y:", "expected a name and quotes behind it"),
        ("§\"\\u{110000}\":", "expected a name and quotes behind it"),
        ("y@§:", "expected the number of one of several things of this name, found `:`"),
        ("param §y[n]", "there is no parameter `y`"),
        ("param §x[m]", "expected the axes that this part of the parameter has"),
        ("param §y[n], leaf 9 of p", "expected the axes that this part of the parameter has"),
        ("param y[n], leaf 0 of §q", "there is no parameter `q`"),
        ("held y, number §99999999999999999999", "expected the number of what is held, found a larger number"),
        ("bins of §n", "expected how many tuples a bin has at least, found `n`"),
        ("out §", "expected the name of an output, found the end of the line"),
        ("out y = §y", "there is no parameter `y`, and no buffer before"),
        ("out y = §x", "expected what a nest writes, and no other output is"),
        ("y:\nout y = y, §y", "expected what a nest writes, and no other output is"),
        ("y:\nout y = y §y", "expected `,`, found `y`"),
        ("y:\nz = y§", "expected `,`, found the end of the line"),
        ("  §y:", "expected an even number of blanks, at most 0"),
        ("y:\n   §r0 = 1.0", "expected an even number of blanks, at most 2"),
        ("y:\n    §r0 = 1.0", "expected an even number of blanks, at most 2"),
        ("y:\n§\tr0 = 1.0", "expected the name of a buffer, found `\\t`"),
        ("y:\n  §7", "expected a statement, found `7`"),
        ("y:\n  §z = r0", "there is no parameter `z`, and no buffer before"),
        ("y:\n  §y[0] = r0", "the buffer has 0 axes and is used at 1 indices"),
        ("y:\n  §x[0] = r0", "expected a buffer that the nest writes"),
        ("y:\n  y = §1.0", "expected a register such as `r0`, found `1`"),
        ("y:\n  y = r0 §+ r1", "expected the end of the line, found `+`"),
        ("y:\n  r0 §r1", "expected `=`, `:=`, `+=`, `max=` or `min=`, found `r1`"),
        ("y:\n  §r99999999 = 1.0", "expected a register such as `r0` of a number below 1048576"),
        ("y:\n  r0 = r1 §- r2", "expected `+`, `*`, `/` or `^`, found `-`"),
        ("y:\n  r0 = r1^§2147483648", "expected an exponent of 32 bits"),
        ("y:\n  r0 = §1e999", "expected a number such as `2.0` or `1e-9`"),
        ("y:\n  r0 = -§z", "expected a number, found `z`"),
        ("y:\n  r0 = §g(r1)", "there is no function `g`"),
        ("y:\n  r0 = §exp(r1, r2)", "`exp` takes 1 argument and was given 2"),
        ("y:\n  r0 = §f'2(r1, r2)", "`f` has no derivative by argument 3 of 2"),
        ("y:\n  r0 = real(§9223372036854775808)", "expected an integer of 64 bits, found a larger number"),
        ("y:\n  r0 = [r1 != §1] r2", "expected `0`, found `1`"),
        ("y:\n  i0 = §E(0, 1)[0]", "expected an array such as `rows E(0, 1)`, found `E`"),
        ("y:\n  i0 = rows §F(0, 1)[0]", "there is no relation `F`"),
        ("y:\n  i0 = rows §E(0, 0)[0]", "expected each of the 2 axes once"),
        ("y:\n  i0 = §nodes 2 E(0, 1)[0]", "the relation has 2 axes"),
        ("y:\n  i0 = nodes §256 E(0, 1)[0]", "expected a level of nodes, found a larger number"),
        ("y:\n  i0 = argmin i1 < §i2. r0 where", "expected a size, which mentions no index"),
        ("y:\n  i0 = argmin i1 < n. r0§", "expected `where`, found the end of the line"),
        ("y:\n  for §n in 0 .. n", "expected an index such as `i0`, found `n`"),
        ("y:\n  for i0 in 0 §to n", "expected `..`, found `to`"),
        ("y:\n  for i0 in 0 .. floor((n) / §0)", "expected a divisor above 0"),
        ("y:\n  for i0 in 0 .. n§, loops 3", "expected the end of the line, found `,`"),
        ("y:\n  if (0 <= n and §)", "expected an index, a size or an integer, found `)`"),
        ("y:\n  if (0 <= n§", "expected `)`, found the end of the line"),
        ("y:\n  if (0 <= n and 0 <= m §or 0 <= n)", "expected `)`, found `or`"),
        ("y:\n  if r0 §> 0", "expected `= 0` or `!= 0`, found `>`"),
        ("y:\n  if n = §1", "expected `0`, found `1`"),
        ("§y:\n  y = r0", "y: r0 is not defined here"),
        ("§y:\n  r0 = y", "y: y is read before it is written"),
    ] {
        let at = text.find('§').expect("the place is marked");
        let text = text.replacen('§', "", 1);
        let read = loops::parse(&text, &signature());
        let Err(Error::Program(diagnostics)) = read else { panic!("{text}\n{read:?}") };
        assert_eq!(diagnostics[0].message, message, "{text}");
        assert_eq!(diagnostics[0].span.start as usize, at, "{text}\n{message}");
        // It can be shown.
        assert!(iverson::error::render("nests", &text, &diagnostics, false).contains(&message[..8]));
    }
}

/// Neither deep nor long texts do harm.
#[test]
fn hostile_texts_are_refused() {
    let nested = |line: &str, count: usize| -> String {
        let lines = (0..count).map(|k| format!("{}{}\n", " ".repeat(2 * k + 2), line.replace('#', &k.to_string())));
        std::iter::once("y:\n".to_owned()).chain(lines).collect()
    };
    let deep = "y:\n  if ";
    for text in [
        nested("for i# in 0 .. 1", 1100),
        nested("if 0 <= n", 1100),
        format!("{deep}{}0 <= n", "(".repeat(100_000)),
        format!("{deep}{}0 <= n", "all(".repeat(100_000)),
        format!("y:\n  for i0 in {}0 .. 1", "part 0 of 2 of ".repeat(100_000)),
        format!("y:\n  r0 = real({}n)", "9223372036854775807*n + ".repeat(3)),
        format!("y:\n  r0 = real({}1)", "9223372036854775807 + ".repeat(3)),
        "y".repeat(1 << 20),
        "\"".repeat(1 << 20),
    ] {
        assert!(loops::parse(&text, &signature()).is_err());
    }
    // What is allowed needs little stack.
    let allowed = nested("for i# in 0 .. 1", 512);
    let run = move || {
        let program = loops::parse(&allowed, &signature()).expect("it is not too deep");
        assert_eq!(program.to_string(), allowed);
        assert_eq!(program.canonical(), program);
        program.nests.len()
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(run).expect("a thread");
    assert_eq!(thread.join().expect("the stack is enough"), 1);
}

/// Time is linear in the text: in the square of it, each of these would take minutes.
#[test]
fn long_texts_are_read() {
    let repeat = |count: usize, line: &dyn Fn(usize) -> String| -> String { (0..count).map(line).collect() };
    for text in [
        format!(
            "y:\n{}{}",
            repeat(20_000, &|k| format!("  local r{k}\n")),
            repeat(20_000, &|_| "  if 0 <= n\n".to_owned())
        ),
        format!("y:\n  r0 = real({}1)\n", repeat(100_000, &|k| format!("{k}*n - {k}*m + "))),
        repeat(20_000, &|k| format!("y{k}:\n  y{k} = 0\n")) + &repeat(20_000, &|k| format!("out y{k} = y{k}\n")),
        format!(
            "y:\n  for i0 in 0 .. n - 1\n{}",
            repeat(10_000, &|k| format!("    i{} = find i0 in rows E(0, 1) at 0 of nodes 1 E(0, 1)\n", k + 1))
        ),
        format!("y[n]{}:\n{}", repeat(20_000, &|k| format!(", y{k}")), repeat(20_000, &|k| format!("  y{k} = 0\n"))),
        format!(
            "y[n], z[n]:\n{}  r0 = 1.0\n{}out y = y and z\n",
            repeat(10_000, &|k| format!("  i{k} = starts E(0, 1)[0]\n")),
            repeat(10_000, &|k| format!("  y[i{k}] = r0\n"))
        ),
    ] {
        round_trip(&loops::parse(&text, &signature()).unwrap_or_else(|error| panic!("{error}")));
    }
}

/// Names of the signature that are no words, or that mean something else: `i0`, `r1`, `max`, the same one twice.
#[test]
fn names_of_all_kinds_are_read_back() {
    let mut signature = Signature::clone(&signature());
    let function = compile(
        "param rows : [i0] real
         param max' : [r1, i0] real
         rel part : [i0, r1]
         param out : [true] real
         gen i < i0, j < r1. [part(i, j)] * rows[i] * max'[j, i] + (sum k < true. out[k])",
    );
    round_trips(&function);
    derivative(&function, false).iter().for_each(round_trips);
    let mut nests = function.loops(&mut Stages::new()).expect("it lowers");
    for names in [["", "", ""], ["x y", "x y", "1"], ["\"\n", "a@2", "."], ["n", "n", "n"], ["r1", "i0", "floor"]] {
        signature.clone_from(&nests.signature);
        for (id, name) in signature.sizes.ids().collect::<Vec<_>>().into_iter().zip(names) {
            signature.sizes[id] = name.to_owned();
        }
        for (id, name) in signature.relations.ids().collect::<Vec<_>>().into_iter().zip(names) {
            signature.relations[id].name = name.to_owned();
        }
        nests.signature = Arc::new(signature.clone());
        for (id, name) in nests.buffers.ids().collect::<Vec<_>>().into_iter().zip(names.into_iter().cycle()) {
            nests.buffers[id].name = name.to_owned();
        }
        nests.outputs[0].0 = names[0].to_owned();
        round_trip(&nests);
    }
}

/// Texts with characters and lines that are gone, doubled, exchanged or replaced are read or refused. What is read runs, or goes outside of a
/// tensor, which the interpreter says.
#[test]
fn mutated_texts_do_no_harm() {
    let sources = [
        "param x : [n] real\nparam A : csr [n, m] real\nsum i < n, j < m. max(0, A[i, j] / x[i] - 1.5)^2",
        "param x : [n] real\nparam w : [k] real\nrel E : [n, n]\nsum i < n. (sum j < n. [E(i, j) and not E(j, i)] * x[j]) * w[argmax k < k. w[k]]",
        include_str!("../programs/k03_sparse_logistic_regression.iv"),
    ];
    let (mut read, mut refused, mut outside) = (0, 0, 0);
    for (seed, source) in sources.into_iter().enumerate() {
        let function = compile(source);
        let gradient = derivative(&function, false).expect("it has one");
        for function in [function, gradient] {
            let nests = at_binding("bins", &function.loops(&mut Stages::new()).expect("it lowers"), None);
            let text = nests.explained();
            let mut rng = Rng::with_seed(seed as u64);
            let inputs = fitting(&function, 5, &mut Numbers::new(seed as u64, false));
            for _ in 0..setting("IVERSON_PROGRAMS", 2000) {
                match loops::parse(&mutated(&text, &mut rng), &nests.signature) {
                    Ok(program) => {
                        let back = Arc::new(round_trip(&program));
                        let kernel = Kernel::bind_within(back, &inputs, &[], Engine::Interpreter, 1 << 20);
                        let ran = kernel.and_then(|kernel| kernel.call(&inputs));
                        outside += usize::from(ran.is_err());
                        read += 1;
                    }
                    Err(error) => {
                        assert!(matches!(error, Error::Program(_) | Error::Overflow), "{error:?}");
                        refused += 1;
                    }
                }
            }
        }
    }
    println!("{read} texts are read, {refused} are refused; {outside} read or write outside");
    assert!(read > 500 && refused > 2000 && outside < read / 10);
}

/// The same with all there is in the text.
#[test]
fn mutated_texts_by_hand_do_no_harm() {
    let mut rng = Rng::with_seed(7);
    let mut read = 0;
    for _ in 0..setting("IVERSON_PROGRAMS", 1000) {
        for text in BY_HAND {
            if let Ok(program) = loops::parse(&mutated(text, &mut rng), &signature()) {
                round_trip(&program);
                read += 1;
            }
        }
    }
    assert!(read > 1000, "{read} texts are read");
}

/// A text with one to three changes.
fn mutated(text: &str, rng: &mut Rng) -> String {
    let mut text = text.to_owned();
    for _ in 0..rng.usize(1..=3) {
        let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
        let (at, other) = (rng.usize(0..lines.len()), rng.usize(0..lines.len()));
        let mut chars: Vec<char> = lines[at].chars().collect();
        match rng.u8(0..9) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[other].clone()),
            2 => lines.swap(at, other),
            3 => lines[at] = lines[at].trim_start().to_owned(),
            4 => lines[at].insert_str(0, "  "),
            kind if !chars.is_empty() => {
                let (k, l) = (rng.usize(0..chars.len()), rng.usize(0..chars.len()));
                match kind {
                    5 => drop(chars.remove(k)),
                    6 => chars.insert(k, chars[l]),
                    7 => chars.swap(k, l),
                    _ => {
                        chars[k] = *rng
                            .choice(&['0', '9', 'r', 'i', ' ', '"', '@', '(', ']', '-', '#', '\\', 'ß', '\u{0}'])
                            .unwrap_or(&' ')
                    }
                }
                lines[at] = chars.into_iter().collect();
            }
            _ => {}
        }
        text = lines.join("\n");
    }
    text
}
