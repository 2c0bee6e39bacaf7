//! Bad programs and bad data: every message, with its place, as a person reads it.
//!
//! The tests with random changes do more with `IVERSON_MUTATIONS=100`, a factor, and others with `IVERSON_SEED`.

use std::path::Path;

use fastrand::Rng;
use iverson::error::Diagnostic;
use iverson::ir::stages::Stages;
use iverson::ir::{surface, term, tssa};
use iverson::tensor::io::{FileValue, read_value, write_value};
use iverson::tensor::{Coo, Csr, Dense, Inputs, Value, bind};
use iverson::{Error, Function, Mode, Request, Result};

use crate::support::setting;

/// `(name, text)` for each `== name` of a table.
fn cases(table: &str) -> Vec<(&str, &str)> {
    let rest = table.strip_prefix("== ").expect("the table starts with a case");
    rest.split("\n== ").map(|case| case.split_once('\n').unwrap_or((case, ""))).collect()
}

/// Programs that are wrong in one or a few places.
fn programs() -> Vec<(&'static str, &'static str)> {
    cases(include_str!("../errors/programs.txt"))
}

/// What is wrong with a program, after checks that hold for every message.
fn problems(name: &str, text: &str) -> Vec<Diagnostic> {
    let found = match surface::read(text, &[]) {
        Err(Error::Program(found)) => found,
        Err(error) => panic!("`{name}` gives {error:?}"),
        Ok(program) => panic!("`{name}` is a right program:\n{text}\nread as\n{program}"),
    };
    assert!(!found.is_empty(), "`{name}` is refused without a reason");
    assert!(found.is_sorted_by_key(|d| d.span.start), "the problems of `{name}` are not in order: {found:?}");
    for Diagnostic { code, span, message, help, .. } in &found {
        let place = text.get(span.start as usize..span.end as usize);
        assert!(place.is_some(), "`{name}`: {code} at {span:?} is no place in the text");
        assert!(code.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "`{name}`: the code `{code}`");
        for sentence in [Some(message), help.as_ref()].into_iter().flatten() {
            assert!(!sentence.is_empty() && !sentence.contains('\n'), "`{name}`: not one sentence: {sentence:?}");
            assert!(!sentence.ends_with('.') || sentence.ends_with(".."), "`{name}`: {sentence:?}");
            for inside in ["Affine", "Pred", "TypeId", "SizeId", "ExprId", "Some(", "None"] {
                assert!(!sentence.contains(inside), "`{name}` speaks of the inside of the compiler: {sentence}");
            }
        }
    }
    found
}

#[test]
fn bad_programs() {
    let mut all = String::new();
    for (name, text) in programs() {
        all.push_str(&iverson::error::render(name, text, &problems(name, text), false));
        all.push('\n');
    }
    insta::assert_snapshot!(all);
}

/// Texts that are too long, too deep or too strange for a table.
#[test]
fn bad_programs_that_are_made() {
    let long = format!("param x : real\nx{} + y", " + x".repeat(2000));
    let unclosed = format!("param x : real\n{}x", "(".repeat(100_000));
    let unmatched = format!("param x : real\nx{}", ")".repeat(100_000));
    let many: String = (0..500).map(|k| format!("y{k} + ")).collect();
    let deep_type = format!("param x : {}real\n1", "[2] ".repeat(100));
    let level = |k: usize| format!("n > {k} and (m = {} or ", 2 * k);
    let alternating = format!("[{}0 < n{}] * 1", (0..80).map(level).collect::<String>(), ")".repeat(80));
    let maps = format!("map f : [n] -> [n]\nsum i < n. {}i{}", "f(".repeat(50), ")".repeat(50));
    let cases = [
        ("very long line", long),
        ("very many open brackets", unclosed),
        ("very many closing brackets", unmatched),
        ("more problems than are told", format!("{many}1")),
        ("type of too many axes", deep_type),
        ("predicates that alternate too often", format!("param x : [n, m] real\n{alternating}")),
        ("maps of maps", maps),
        ("characters that a terminal acts on", "param x : real\nx + \u{1b}[31m\u{7} \u{202e}y\u{202c}".to_owned()),
        ("line ends of other systems", "param x : [n] real\r\n\r\nsum i < n. x[i + 1]\r\n".to_owned()),
        ("mark of the byte order", "\u{feff}param x : [n] real\nsum i < n. x[i + 1]".to_owned()),
        ("zero bytes", "param x : real\0\nx \0 + y".to_owned()),
        ("numbers of other alphabets", "param x : real\nx + ٣".to_owned()),
        ("spaces of other alphabets", "param x : real\nx\u{a0}+\u{2003}y".to_owned()),
        ("very long name", format!("param x : real\nx + {}", "y".repeat(300))),
        ("very long number", format!("param x : [n] real\nx[{}]", "1".repeat(300))),
    ];
    let mut all = String::new();
    for (name, text) in &cases {
        let found = problems(name, text);
        let shown = iverson::error::render(name, text, &found[..found.len().min(3)], false);
        let more = found.len().saturating_sub(3);
        all.push_str(&shown);
        all.push_str(&if more > 0 { format!("and {more} more\n\n") } else { "\n".to_owned() });
    }
    insta::assert_snapshot!(all);
}

/// Where a program stands and how its lines end changes the places of its problems, and nothing else.
#[test]
fn places_do_not_depend_on_what_is_around() {
    let shown = |text: &str, found: &[Diagnostic]| -> Vec<(&'static str, String, String)> {
        let place = |d: &Diagnostic| text[d.span.start as usize..d.span.end as usize].replace('\r', "");
        found.iter().map(|d| (d.code, place(d), d.message.clone())).collect()
    };
    for (name, text) in programs() {
        let expected = shown(text, &problems(name, text));
        for (what, other) in [
            ("carriage returns", text.replace('\n', "\r\n")),
            ("a line of other alphabets", format!("# größe ∑ 変数 🦀\n{text}")),
            ("trailing comments", format!("{}   # ∑\n\n", text.trim_end_matches('\n').replace('\n', "   # ∑\n"))),
        ] {
            // Comments hide nothing but a missing line end.
            assert_eq!(shown(&other, &problems(name, &other)), expected, "`{name}` with {what}");
        }
    }
}

/// Reads what a case gives its program and binds it; the messages speak of files by their names only.
fn bound(directory: &Path, case: &str) -> std::result::Result<(), String> {
    let (program, commands) = match case.strip_prefix("-- ") {
        Some(commands) => ("", commands),
        None => case.split_once("\n-- ").unwrap_or((case, "")),
    };
    let run = || -> Result<()> {
        let mut inputs = Inputs::new();
        let signature = match program {
            "" => None,
            text => Some(surface::read(text, &[]).unwrap_or_else(|error| panic!("{error}\n{text}")).signature),
        };
        for command in commands.split("\n-- ").filter(|command| !command.is_empty()) {
            let (command, contents) = command.split_once('\n').unwrap_or((command, ""));
            let words: Vec<&str> = command.split(' ').collect();
            match (words.as_slice(), &signature) {
                (["json"], _) => {
                    term::Program::from_json(contents)?;
                }
                (["file", name, file], Some(signature)) => {
                    let path = directory.join(file);
                    std::fs::write(&path, contents).expect("the file is written");
                    inputs.file_value(signature, name, read_value(path)?)?;
                }
                (["input", name, file], Some(signature)) => {
                    inputs.file_value(signature, name, read_value(directory.join(file))?)?;
                }
                (["scalar", name, x], _) => {
                    inputs.value(*name, Value::scalar(x.parse().expect("a number")));
                }
                (["size", name, n], _) => {
                    inputs.size(*name, n.parse().expect("a size"));
                }
                other => panic!("{other:?}"),
            }
        }
        match signature {
            Some(signature) => bind(&signature, &inputs).and_then(|_| inputs.check_names(&signature)),
            None => Ok(()),
        }
    };
    run().map_err(|error| message(directory, error))
}

/// The message of wrong data, without the directory of its file.
fn message(directory: &Path, error: Error) -> String {
    assert!(matches!(error, Error::Data { .. } | Error::Limit { .. } | Error::Overflow), "{error:?}");
    let text = error.to_string();
    text.replace(&format!("{}{}", directory.display(), std::path::MAIN_SEPARATOR), "")
}

#[test]
fn bad_data() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut all = String::new();
    for (name, case) in cases(include_str!("../errors/data.txt")) {
        match bound(directory.path(), case) {
            Ok(()) => panic!("`{name}` is right data:\n{case}"),
            Err(message) => all.push_str(&format!("{name}\n    {message}\n")),
        }
    }
    insta::assert_snapshot!(all);
}

/// An `.npy` file with the header given as text.
fn npy(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

fn npy_of(element: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    npy(&format!("{{'descr': '{element}', 'fortran_order': False, 'shape': {shape}, }}\n"), data)
}

#[test]
fn bad_binary_data() {
    let one = 1.0f64.to_le_bytes();
    let cases: Vec<(&str, &str, Vec<u8>)> = vec![
        ("empty file", "x.npy", vec![]),
        ("no .npy file", "x.npy", b"1.0\n2.0\n".to_vec()),
        ("only the magic", "x.npy", b"\x93NUMPY".to_vec()),
        ("version of the future", "x.npy", b"\x93NUMPY\x09\x00\x00\x00".to_vec()),
        ("header that ends early", "x.npy", b"\x93NUMPY\x01\x00\xff\x00{'descr'".to_vec()),
        ("header that is huge", "x.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\xff{'descr'".to_vec()),
        ("header that is no literal", "x.npy", npy("hello", &one)),
        ("header without a shape", "x.npy", npy("{'descr': '<f8', 'fortran_order': False, }\n", &one)),
        ("header that nests deep", "x.npy", npy(&"(".repeat(60_000), &one)),
        ("elements that are text", "x.npy", npy_of("<U4", "(1,)", b"abcdefghijklmnop")),
        ("elements that are complex", "x.npy", npy_of("<c16", "(1,)", &[0; 16])),
        ("elements that are objects", "x.npy", npy_of("|O", "(1,)", &one)),
        (
            "elements that are structures",
            "x.npy",
            npy("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }", &one),
        ),
        ("elements missing", "x.npy", npy_of("<f8", "(2,)", &one)),
        ("elements left over", "x.npy", npy_of("<f8", "()", &[one, one].concat())),
        ("claim of all memory", "x.npy", npy_of("<f8", "(1000000000000,)", &one)),
        ("claim beyond all memory", "x.npy", npy_of("<f8", "(4000000000, 4000000000, 4000000000)", &one)),
        ("negative length", "x.npy", npy_of("<f8", "(-1,)", &one)),
        ("too many axes", "x.npy", npy_of("<f8", &format!("({})", "1, ".repeat(40)), &one)),
        ("integer that a float cannot hold", "x.npy", npy_of("<i8", "(1,)", &i64::MAX.to_le_bytes())),
        ("bool that is neither", "x.npy", npy_of("|b1", "(1,)", &[7])),
        ("matrix for a vector", "x.npy", npy_of("<f8", "(1, 1)", &one)),
        ("empty archive", "x.npz", vec![]),
        ("no archive", "x.npz", npy_of("<f8", "(1,)", &one)),
        ("archive that ends early", "x.npz", b"PK\x03\x04\x14\x00\x00\x00".to_vec()),
        ("table that is not text", "x.csv", vec![0xff, 0xfe, b'1', b'\n']),
        ("matrix that is not text", "x.mtx", b"%%MatrixMarket matrix array real general\n\xff\n".to_vec()),
        ("coordinates that are not text", "x.tns", vec![b'1', b' ', 0x80]),
    ];
    let directory = tempfile::tempdir().expect("a directory");
    let program = surface::read("param x : [n] real\nsum i < n. x[i]", &[]).expect("a right program");
    let mut all = String::new();
    for (name, file, bytes) in cases {
        let path = directory.path().join(file);
        std::fs::write(&path, bytes).expect("the file is written");
        let run = || -> Result<()> {
            let mut inputs = Inputs::new();
            inputs.file_value(&program.signature, "x", read_value(&path)?)?;
            bind(&program.signature, &inputs).map(drop)
        };
        let Err(error) = run() else { panic!("`{name}` is right data") };
        all.push_str(&format!("{name}\n    {}\n", message(directory.path(), error)));
    }
    insta::assert_snapshot!(all);
}

/// Right programs with every construct of the language, as a source of wrong ones.
const GOOD: [&str; 13] = [
    "param x : [n + m - 1] real\nparam w : [m] real\nparam z : [n] real\n\
     let y = gen i < n. sum j < m. x[i - j + m - 1] * w[j]\nin sum i < n. (y[i] - z[i])^2",
    "param A : csr [m, n] real\nparam x : [n] real\nlet y = gen i < m. sum j < n. A[i, j] * x[j] in sum i < m. y[i]^2",
    "param T : coo [p, q, r] real\nparam dT : coo(T) [p, q, r] real\n\
     sum i < p, j < q, k < r. [T?(i, j, k)] * T.value(i, j, k) * dT[i, j, k]",
    "param ab : [n] (real, [3] real)\ngen i < n. (fst ab[i] * (snd ab[i])[2], snd ab[i])",
    "rel E : [n, n]\nmap cam : [n] -> [c]\nparam x : [c] real\nassume n >= 2\n\
     sum i < n, j < n. [i < j and (E(i, j) or i + 1 = j) and cam(i) != cam(j)] * x[cam(i)] * exp(x[cam(j)])",
    "param x : [n] real\nassume n >= 1 and n != 7\n\
     let k = gen i < n. max(x[i], 0) + real(2*i - 1) in (max i < n. k[i]) - x[argmin i < n. k[i] * x[i]] / 1.5e-3",
    "param x : [n] real\nsum i < n. [exists k < n. x[k] > x[i] and k != i] * -x[i] + select(x[i] <= 1, x[i], tanh(x[i]))",
    "def sq(a : real) = a * a\nfun softclip(a) = a / sqrt(1 + a^2) with ((1 + a^2)^-1.5)\n\
     param x : [n] real\nsum i < n. softclip(sq(x[i])) + dot(x, x)",
    "param A : [n, n] real\nparam B : [n, m] real\ntrace(matmul(A, matmul(B, gen i < m, j < n. B[j, i])))",
    "param s : real\n[not (s > 0 or s = 0)] * (s, (s, 1), logsumexp(gen i < 3. s * i))",
    "⊞ i < 4, j < 4. Σ k < 4. [i ≤ k ∧ ¬ (k ≠ j)] · (i + 1)",
    "fun step(a, b) = (a < b) - (a != 0) * 2 with (0, 0)\nparam t : real\nstep(t, 1) + step(t * t, t)",
    "param t : real\nlet a = t in let b = a * a in let c = (a, b) in fst c + snd c + lgamma(a) + atan2(a, b) + abs(a)",
];

/// Pieces that a mutation may insert.
const PIECES: [&str; 66] = [
    "(",
    ")",
    "[",
    "]",
    ",",
    ".",
    ":",
    "=",
    "<",
    "<=",
    ">",
    "!=",
    "+",
    "-",
    "*",
    "/",
    "^",
    "?",
    " ",
    "\n",
    "\r\n",
    "#",
    "let ",
    " in ",
    "gen i < n. ",
    "sum j < m. ",
    "max k < n. ",
    "argmax k < n. ",
    "exists k < n. ",
    "and ",
    "or ",
    "not ",
    "fst ",
    "snd ",
    "real",
    "param q : ",
    "rel R : [n, n]\n",
    "map g : [n] -> [n]\n",
    "assume n >= 1\n",
    "def f(a : [k] real) = ",
    "fun g(a) = a with (1)\n",
    "csr",
    "csc",
    "coo",
    ".value(",
    "x",
    "w",
    "i",
    "j",
    "n",
    "m",
    "0",
    "1",
    "-1",
    "2*",
    "1e308",
    "0.5",
    "9223372036854775807",
    " - 9223372036854775807 - 1",
    "99999999999999999999",
    "inf",
    "∑ i < n. ",
    "\u{0}",
    "🦀",
    "select(",
    "A?(",
];

/// A generator of random numbers, and how many times the usual number of changes to try.
fn random(test: u64) -> (Rng, usize) {
    let seed: u64 = setting("IVERSON_SEED", 0);
    (Rng::with_seed(seed.wrapping_mul(1000).wrapping_add(test)), setting("IVERSON_MUTATIONS", 1))
}

/// A text changed in a few places.
fn mutated(rng: &mut Rng, text: &str, others: &[&str]) -> String {
    let mut text: Vec<char> = text.chars().collect();
    let names: Vec<char> = text.iter().copied().filter(|c| c.is_alphanumeric()).collect();
    for _ in 0..rng.usize(1..=2) {
        let at = rng.usize(0..=text.len());
        let end = at + rng.usize(0..=(text.len() - at).min(12));
        match rng.u8(0..10) {
            0 => drop(text.drain(at..end)),
            1 => {
                let copy: Vec<char> = text[at..end].to_vec();
                let to = rng.usize(0..=text.len());
                text.splice(to..to, copy);
            }
            2 => {
                let other: Vec<char> = rng.choice(others).expect("there are texts").chars().collect();
                let from = rng.usize(0..=other.len());
                let to = from + rng.usize(0..=(other.len() - from).min(30));
                text.splice(at..at, other[from..to].iter().copied());
            }
            3 if end > at => text[at] = text[end - 1],
            4..=7 => {
                let at = text[at..].iter().position(|c| c.is_alphanumeric()).map_or(0, |ahead| at + ahead);
                if let (Some(place), Some(c)) = (text.get_mut(at), rng.choice(&names)) {
                    *place = *c;
                }
            }
            _ => {
                let piece = rng.choice(PIECES).expect("there are pieces");
                text.splice(at..end, piece.chars());
            }
        }
    }
    text.into_iter().collect()
}

/// Compiles, differentiates and prints; nothing is the compiler's fault.
fn compile(text: &str, program: term::Program, reads_back: bool) {
    let blame = |what: &str, error: Error| {
        assert!(!matches!(error, Error::Bug { .. }), "{what}: {error}\nof\n{text}");
    };
    let mut stages = Stages::new();
    let function = match Function::compile(program, &mut stages) {
        Ok(function) => function,
        Err(error) => return blame("passes", error),
    };
    let params: Vec<String> = function.tensor_ssa().signature.params.values().map(|p| p.name.clone()).collect();
    for mode in [Mode::Forward, Mode::Adjoint] {
        let request = Request { wrt: params.clone(), ..Request::new(mode, &[]) };
        match function.derive_in(&request, &mut stages) {
            Ok(derived) => match derived.function.term() {
                Ok(term) => {
                    let printed = term.to_string();
                    if let (true, Err(error)) = (reads_back, surface::read(&printed, &[])) {
                        panic!("the derivative does not read back: {error}\n{printed}\nof\n{text}");
                    }
                }
                Err(error) => blame("present", error),
            },
            Err(error) => blame("derivative", error),
        }
    }
}

#[test]
fn mutated_programs() {
    let (mut rng, times) = random(1);
    let mut texts: Vec<&str> = GOOD.to_vec();
    for text in GOOD {
        surface::read(text, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    }
    texts.extend(programs().iter().map(|(_, text)| *text).filter(|text| text.len() < 300));
    let (mut right, mut wrong) = (0, 0);
    for _ in 0..4000 * times {
        let good = rng.u8(0..4) > 0;
        let text = if good { rng.choice(GOOD) } else { rng.choice(&texts).copied() }.expect("there are texts");
        let text = mutated(&mut rng, text, &texts);
        match surface::read(&text, &[]) {
            Ok(program) => {
                right += 1;
                compile(&text, program, true);
            }
            Err(Error::Program(_)) => {
                wrong += 1;
                iverson::error::render("mutated", &text, &problems("mutated", &text), false);
            }
            Err(error) => panic!("{error:?}\n{text}"),
        }
    }
    assert!(right > 200 && wrong > 1000, "{right} right and {wrong} wrong programs");
}

#[test]
fn mutated_json() {
    let (mut rng, times) = random(2);
    let numbers =
        ["0", "1", "7", "-1", "9223372036854775807", "4294967295", "1e400", "null", "[]", "{}", "\"n\"", "true"];
    let (mut right, mut wrong) = (0, 0);
    for text in GOOD {
        let program = surface::read(text, &[]).expect("a right program");
        let ssa = Function::compile(program.clone(), &mut Stages::new()).expect("it compiles");
        let texts = [program.to_json().expect("it is written"), ssa.tensor_ssa().to_json().expect("it is written")];
        for (k, json) in texts.iter().enumerate() {
            // The places of numbers, and of everything.
            let digits: Vec<usize> =
                json.char_indices().filter(|(_, c)| c.is_ascii_digit()).map(|(at, _)| at).collect();
            for _ in 0..120 * times {
                let mut changed = json.clone();
                match rng.u8(0..3) {
                    0 => changed.truncate(
                        (0..=rng.usize(0..json.len())).rev().find(|at| json.is_char_boundary(*at)).unwrap_or(0),
                    ),
                    1 => {
                        let at = *rng.choice(&digits).expect("there are numbers");
                        changed.replace_range(at..=at, rng.choice(numbers).expect("there are numbers"));
                    }
                    _ => {
                        let at = *rng.choice(&digits).expect("there are numbers");
                        changed.replace_range(at..=at, &rng.u8(0..10).to_string());
                    }
                }
                let read = match k {
                    0 => term::Program::from_json(&changed).map(|program| compile(&changed, program, false)),
                    _ => tssa::Program::from_json(&changed).map(|program| drop(program.to_string())),
                };
                match read {
                    Ok(()) => right += 1,
                    Err(Error::Data { .. }) => wrong += 1,
                    Err(error) => panic!("{error:?}\n{changed}"),
                }
            }
        }
    }
    assert!(right > 100 && wrong > 100, "{right} right and {wrong} wrong programs");
}

#[test]
fn mutated_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let dense = Dense::new(&[2, 3], vec![1.0, -2.5, 3.0, 0.0, 5.0, 6e-3]).expect("the data fill the shape");
    let coo = Coo::new(vec![2, 3], vec![vec![0, 1, 1], vec![2, 0, 1]], vec![1.0, 2.0, -3.0]).expect("sorted");
    let csr = Csr::from_coo(&coo).expect("a matrix");
    let archive = [("x".to_owned(), dense.clone()), ("y".to_owned(), dense.clone())].into_iter().collect();
    let files = [
        ("npy", FileValue::Dense(dense.clone())),
        ("npz", FileValue::Archive(archive)),
        ("csv", FileValue::Dense(dense.clone())),
        ("mtx", FileValue::Dense(dense)),
        ("mtx", FileValue::Csr(csr)),
        ("tns", FileValue::Coo(coo)),
    ];
    let program = surface::read(
        "param x : [n, m] real\nparam A : csr [n, m] real\nparam T : coo [n, m] real\nrel E : [n, m]\nmap f : [n] -> [m]\n\
         sum i < n, j < m. [E(i, j)] * A[i, j] * T[i, j] * x[i, f(i)]",
        &[],
    )
    .expect("a right program");
    let pieces: [&[u8]; 16] = [
        b" ",
        b"\n",
        b"-1",
        b"0",
        b"1e999",
        b"nan",
        b"99999999999999999999",
        b"9000000000000000000",
        b"1000000",
        b",",
        b"\xff",
        b"\0",
        b"%",
        b"# shape: 3 3",
        b"'",
        b")",
    ];
    let (mut rng, times) = random(3);
    let (mut right, mut wrong) = (0, 0);
    for (extension, value) in &files {
        let path = directory.path().join(format!("file.{extension}"));
        write_value(&path, value).expect("the file is written");
        let original = std::fs::read(&path).expect("the file is read");
        for _ in 0..400 * times {
            let mut bytes = original.clone();
            for _ in 0..rng.usize(1..=3) {
                let at = rng.usize(0..=bytes.len());
                let end = at + rng.usize(0..=(bytes.len() - at).min(6));
                match rng.u8(0..4) {
                    0 => drop(bytes.drain(at..end)),
                    1 if end > at => bytes[at] = rng.u8(..),
                    2 => {
                        let copy = bytes[at..end].to_vec();
                        bytes.splice(at..at, copy);
                    }
                    _ => drop(bytes.splice(at..end, rng.choice(pieces).expect("there are pieces").iter().copied())),
                }
            }
            std::fs::write(&path, &bytes).expect("the file is written");
            let mut bound = Ok(());
            match read_value(&path) {
                Ok(value) => {
                    right += 1;
                    for name in ["x", "A", "T", "E", "f", "q"] {
                        let mut inputs = Inputs::new();
                        let given = inputs.file_value(&program.signature, name, value.clone()).map(drop);
                        bound = bound.and(given.and_then(|()| bind(&program.signature, &inputs).map(drop)));
                    }
                }
                Err(error) => bound = Err(error),
            }
            match bound {
                Ok(()) => {}
                Err(Error::Data { .. } | Error::Limit { .. } | Error::Overflow) => wrong += 1,
                Err(error) => panic!("{error:?} of {}", String::from_utf8_lossy(&bytes)),
            }
        }
    }
    assert!(right > 100 && wrong > 1000, "{right} right and {wrong} wrong files");
}
