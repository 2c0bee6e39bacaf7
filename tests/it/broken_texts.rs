//! Printed forms and saved programs with something broken: tokens that are gone, doubled, exchanged or others, numbers at the ends of their ranges, texts
//! that end early. Each is read or refused with an error of its kind. What is read prints, and what it prints is read again.
//!
//! `IVERSON_PROGRAMS` says how many changes are made to each text.

use std::collections::BTreeSet;
use std::fmt::Debug;

use fastrand::Rng;
use iverson::ir::functional::lambda;
use iverson::ir::stages::Stages;
use iverson::ir::{flow, loops, surface, term, tssa};
use iverson::{Error, Function, Mode, Request};
use serde_json::Value as Json;

use crate::support::{compile, setting};

/// Programs with all kinds of accesses, guards and storage.
const PROGRAMS: [&str; 6] = [
    "param x : [n] real\nparam A : csr [n, m] real\nsum i < n, j < m. max(0, A[i, j] / x[i] - 1.5)^2",
    "param x : [n] real\nparam w : [k] real\nrel E : [n, n]\n\
     sum i < n. (sum j < n. [E(i, j) and not E(j, i)] * x[j]) * w[argmax k < k. w[k]]",
    "map f : [n] -> [m]\nparam x : [n] real\nparam p : ([m] real, real)\ngen j < m. (fst p)[j] + sum i < n. [f(i) = j] * exp(x[i])",
    "param x : [2*n + 1] real\ngen i < n. x[2*i] + [i > 0] * x[2*i - 1] - 3 * [i + 1 < n] * x[2*i + 1] * real(2 * i)",
    "fun f(a, b) = a * b with (b, a)\nparam x : [n] real\nparam S : coo [n, n, n] real\nsum i < n, j < n, k < n. f(S[i, j, k], x[k]) * [i + j < n]",
    "param x : [9] real\nparam y : [9] real\ngen i < 9. (sum k < 3. [0 <= i - k] * x[i - k]) / y[i] + 1e-300 * [x[i] > 2] + inf * [y[i] < 0]",
];

/// Programs with loops over time.
const FLOWS: [&str; 3] =
    [include_str!("../flows/heat.iv"), include_str!("../flows/newton.iv"), include_str!("../flows/edit_distance.iv")];

/// What a number becomes.
const NUMBERS: [&str; 9] = [
    "0",
    "-1",
    "2147483648",
    "4294967295",
    "9223372036854775807",
    "-9223372036854775808",
    "99999999999999999999",
    "1e999",
    "0.5",
];

/// What is inserted.
const SIGNS: [&str; 9] = ["é", "∑", "𝟙", "²", "\u{0}", "\u{feff}", "'", "\"", "\\"];

/// The tokens of a text in any language: words, numbers, blanks, and other characters one by one.
fn tokens(text: &str) -> Vec<String> {
    let kind = |c: char| match c {
        '_' | '\'' => 0,
        c if c.is_alphabetic() => 0,
        c if c.is_ascii_digit() => 1,
        ' ' => 2,
        _ => 3,
    };
    let mut tokens: Vec<String> = Vec::new();
    let mut last = 3;
    for c in text.chars() {
        let goes_on = last != 3 && (kind(c) == last || last == 0 && kind(c) == 1);
        match tokens.last_mut().filter(|_| goes_on) {
            Some(token) => token.push(c),
            None => {
                tokens.push(c.to_string());
                last = kind(c);
            }
        }
    }
    tokens
}

fn is_number(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_digit())
}

/// Texts of one language.
struct Texts {
    texts: Vec<Vec<String>>,
    /// All of their tokens.
    words: Vec<String>,
}

impl Texts {
    fn new(texts: impl IntoIterator<Item = String>) -> Texts {
        let texts: Vec<Vec<String>> = texts.into_iter().map(|text| tokens(&text)).collect();
        let words: BTreeSet<&String> = texts.iter().flatten().collect();
        Texts { words: words.into_iter().cloned().collect(), texts }
    }

    /// One of the texts with one to three changes.
    fn broken(&self, at: usize, rng: &mut Rng) -> String {
        let mut tokens = self.texts[at].clone();
        for _ in 0..rng.usize(1..=3) {
            if tokens.is_empty() {
                break;
            }
            let (k, l) = (rng.usize(0..tokens.len()), rng.usize(0..tokens.len()));
            let number = (0..tokens.len()).map(|n| (k + n) % tokens.len()).find(|n| is_number(&tokens[*n]));
            match (rng.u8(0..9), number) {
                (0, _) => drop(tokens.remove(k)),
                (1, _) => tokens.insert(k, tokens[k].clone()),
                (2, _) => tokens.swap(k, l),
                (3 | 4, Some(number)) => tokens[number] = one_of(&NUMBERS, rng).to_string(),
                (5, _) => tokens.truncate(k),
                (6, _) => tokens.insert(k, one_of(&SIGNS, rng).to_string()),
                (7, _) => tokens[k].clone_from(one_of(&self.words, rng)),
                _ => tokens.insert(k, one_of(&self.words, rng).clone()),
            }
        }
        tokens.concat()
    }

    /// Reads all texts with changes, and each that was printed; whether some of both kinds were found.
    fn judge<T: Debug>(&self, seed: u64, read: impl Fn(usize, &str) -> Result<T, Error>, print: impl Fn(&T) -> String) {
        let (mut rng, mut accepted, mut refused) = (Rng::with_seed(seed), 0, 0);
        for at in 0..self.texts.len() {
            for _ in 0..setting("IVERSON_PROGRAMS", 150) {
                let text = self.broken(at, &mut rng);
                match read(at, &text) {
                    Ok(found) => {
                        let printed = print(&found);
                        let again = read(at, &printed).unwrap_or_else(|error| panic!("{error:?}\n{printed}\n{text}"));
                        assert_eq!(print(&again), printed, "{text}");
                        accepted += 1;
                    }
                    Err(error) => {
                        let is_typed = matches!(error, Error::Program(_) | Error::Overflow | Error::Limit { .. });
                        assert!(is_typed, "{error:?}\n{text}");
                        refused += 1;
                    }
                }
            }
        }
        println!("{accepted} texts are read, {refused} are refused");
        assert!(accepted > 20 && refused > 200, "{accepted}, {refused}");
    }

    /// Reads what is left of the first texts where they end at any place, or begin there.
    fn judge_parts<T: Debug>(&self, texts: usize, read: impl Fn(usize, &str) -> Result<T, Error>) {
        for (at, tokens) in self.texts.iter().enumerate().take(texts) {
            let text = tokens.concat();
            for (end, _) in text.char_indices() {
                for part in [&text[..end], &text[end..]] {
                    if let Err(error) = read(at, part) {
                        assert!(matches!(error, Error::Program(_) | Error::Overflow), "{error:?}\n{part}");
                    }
                }
            }
        }
    }
}

fn one_of<'a, T>(list: &'a [T], rng: &mut Rng) -> &'a T {
    &list[rng.usize(0..list.len())]
}

/// A program, and a derivative by all of its parameters.
fn with_derivative(text: &str) -> Vec<Function> {
    let function = compile(text);
    let names: Vec<String> = function.tensor_ssa().signature.params.values().map(|p| p.name.clone()).collect();
    let wrt: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut modes = [Mode::Gradient, Mode::Adjoint].into_iter();
    let derived = modes.find_map(|mode| function.derive(&Request::new(mode, &wrt).raw()).ok());
    std::iter::once(function).chain(derived.map(|derived| derived.function)).collect()
}

fn functions() -> Vec<Function> {
    PROGRAMS.into_iter().flat_map(with_derivative).collect()
}

#[test]
fn nests() {
    let lowered = |function: Function| function.loops(&mut Stages::new()).expect("it lowers");
    let programs: Vec<loops::Program> = functions().into_iter().map(lowered).collect();
    let texts = Texts::new(programs.iter().map(loops::Program::explained));
    let read = |at: usize, text: &str| loops::parse(text, &programs[at].signature);
    texts.judge(1, read, loops::Program::explained);
    texts.judge_parts(1, read);
}

#[test]
fn tensor_ssa() {
    let functions = functions();
    let texts = Texts::new(functions.iter().map(|function| function.tensor_ssa().to_string()));
    let read = |at: usize, text: &str| tssa::parse(text, &functions[at].tensor_ssa().signature);
    texts.judge(2, read, tssa::Program::to_string);
    texts.judge_parts(2, read);
}

#[test]
fn lambda_terms() {
    let random = |seed| {
        let mut random = lambda::random::Random::new(seed);
        lambda::random::random_program(&mut random, &lambda::random::Config::all(60)).expect("there is one").to_string()
    };
    let linear = "data list = unit + real * list\nexternal f : real * int -> real\nparam x : real\nparam k : int\n\
                  let a = build i < k. f (x, -i % 3 // 2) in let g = fn y : real. partial[divide, 1] (x, y) in\n\
                  case x < 9223372036854775807.0 of {inl u -> g (-1.0) | inr v -> power[-2] (g inf) + (reduce s, t in a. s + t)}";
    let texts = Texts::new((0..30).map(random).chain([linear.to_owned()]));
    let read = |_: usize, text: &str| lambda::parse(text);
    texts.judge(3, read, lambda::Program::to_string);
    texts.judge_parts(2, read);
    for text in [
        "partial[divide, 2] (1.0, 2.0)",
        "cell[4294967295] zero[~env {~real}]",
        "split[4294967295] zero[~env {~real}]",
        "onehot[4294967295, ~env {~real}] zero[~real]",
        "add[4294967295, {~real}] zero[~real]",
    ] {
        let read = lambda::parse(text);
        assert!(matches!(read, Err(Error::Program(_))), "{text}\n{read:?}");
    }
}

/// How many parts a value has, itself among them.
fn count(value: &Json) -> usize {
    1 + match value {
        Json::Array(items) => items.iter().map(count).sum::<usize>(),
        Json::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

/// A part of a value by its number.
fn part<'a>(value: &'a mut Json, number: &mut usize) -> Option<&'a mut Json> {
    if *number == 0 {
        return Some(value);
    }
    *number -= 1;
    match value {
        Json::Array(items) => items.iter_mut().find_map(|item| part(item, number)),
        Json::Object(fields) => fields.values_mut().find_map(|field| part(field, number)),
        _ => None,
    }
}

/// A value with one or two changes.
fn broken(value: &Json, rng: &mut Rng) -> Json {
    let mut value = value.clone();
    for _ in 0..rng.usize(1..=2) {
        let parts = count(&value);
        let mut take = |mut number: usize| part(&mut value, &mut number).cloned().unwrap_or_default();
        let other = take(rng.usize(0..parts));
        // Numbers are ids and coefficients.
        let mut chosen = || (0..8).map(|_| rng.usize(0..parts)).find(|at| take(*at).is_number());
        let mut at = chosen().filter(|_| rng.bool()).unwrap_or_else(|| rng.usize(0..parts));
        match part(&mut value, &mut at) {
            Some(Json::Array(items)) if !items.is_empty() => {
                let (k, l) = (rng.usize(0..items.len()), rng.usize(0..items.len()));
                match rng.u8(0..5) {
                    0 => drop(items.remove(k)),
                    1 => items.insert(k, items[k].clone()),
                    2 => items.swap(k, l),
                    3 => items.push(other),
                    _ => items.clear(),
                }
            }
            Some(Json::Object(fields)) if !fields.is_empty() => {
                let key = fields.keys().nth(rng.usize(0..fields.len())).cloned().unwrap_or_default();
                match rng.bool() {
                    true => drop(fields.remove(&key)),
                    false => drop(fields.insert(key, other)),
                }
            }
            Some(Json::String(text)) if rng.bool() => text.push_str(one_of::<&str>(&SIGNS, rng)),
            Some(Json::Bool(truth)) => *truth = !*truth,
            Some(Json::Number(number)) => {
                *number = match rng.u8(0..8) {
                    0 => 0.into(),
                    1 => 1.into(),
                    2 => 2.into(),
                    3 => (-1).into(),
                    4 => u32::MAX.into(),
                    5 => i64::MAX.into(),
                    6 => i64::MIN.into(),
                    _ => u64::MAX.into(),
                }
            }
            Some(place) => *place = other,
            None => {}
        }
    }
    value
}

/// Reads saved programs with changes, and each that is read again.
fn judge_saved<T>(
    seed: u64,
    saved: Vec<String>,
    read: impl Fn(&str) -> Result<T, Error>,
    write: impl Fn(&T) -> Result<String, Error>,
) {
    let (mut rng, mut accepted, mut refused) = (Rng::with_seed(seed), 0, 0);
    for text in saved {
        let value: Json = serde_json::from_str(&text).expect("it is JSON");
        for _ in 0..setting("IVERSON_PROGRAMS", 150) {
            let text = broken(&value, &mut rng).to_string();
            match read(&text) {
                Ok(found) => {
                    let written = write(&found).unwrap_or_else(|error| panic!("{error:?}\n{text}"));
                    assert!(read(&written).is_ok(), "{text}");
                    accepted += 1;
                }
                Err(error) => {
                    assert!(matches!(error, Error::Data { .. }), "{error:?}\n{text}");
                    refused += 1;
                }
            }
        }
    }
    println!("{accepted} values are read, {refused} are refused");
    assert!(accepted > 20 && refused > 200, "{accepted}, {refused}");
}

#[test]
fn saved_terms() {
    let saved = PROGRAMS.into_iter().map(|text| surface::read(text, &[]).expect("it is sound").to_json());
    judge_saved(4, saved.collect::<Result<_, _>>().expect("it is written"), term::Program::from_json, |program| {
        assert!(!program.to_string().is_empty());
        program.to_json()
    });
}

#[test]
fn saved_tensor_ssa() {
    let saved = functions().iter().map(|function| function.tensor_ssa().to_json()).collect::<Result<_, _>>();
    judge_saved(5, saved.expect("it is written"), tssa::Program::from_json, |program| {
        let _ = program.to_string();
        program.to_json()
    });
}

/// The value of the first field of a name.
fn field<'a>(value: &'a mut Json, name: &str) -> Option<&'a mut Json> {
    match value {
        Json::Object(fields) => match fields.contains_key(name) {
            true => fields.get_mut(name),
            false => fields.values_mut().find_map(|inner| field(inner, name)),
        },
        Json::Array(items) => items.iter_mut().find_map(|inner| field(inner, name)),
        _ => None,
    }
}

/// Results of types that are not there, and leaves that take values that are not there.
#[test]
fn saved_flows_with_unknown_ids() {
    let saved = compile(FLOWS[0]).flow().expect("it has a loop").to_json().expect("it is written");
    for (place, name, other) in [("outputs", "ty", Json::from(999)), ("body", "takes", Json::from(vec![999]))] {
        let mut value: Json = serde_json::from_str(&saved).expect("it is JSON");
        *field(&mut value[place], name).expect("it is there") = other;
        let read = flow::Program::from_json(&value.to_string());
        assert!(matches!(read, Err(Error::Data { .. })), "{read:?}");
    }
}

#[test]
fn saved_flows() {
    let flows = FLOWS.into_iter().filter_map(|text| Some(compile(text).flow()?.to_json()));
    judge_saved(6, flows.collect::<Result<_, _>>().expect("it is written"), flow::Program::from_json, |program| {
        let _ = program.to_string();
        program.to_json()
    });
}
