//! Programs as users of NumPy, JAX, PyTorch, Julia and LaTeX write them by habit: `tests/habits`.
//!
//! A file begins with whose habit it is. Then come its inputs and its value, computed by the Python expression beside it; or what is to be
//! said of it where it is refused:
//!
//! ```text
//! # NumPy
//! # input x = [1, 2]                      a number, a vector, a matrix
//! # map f = [1, 0, 1] below 2
//! # relation E = [[0, 1]] below [2, 2]
//! # numpy: x.sum()
//! # value: 3.0
//! # refused: `where` is written `if c then a else b`
//! # warned: write `A @ A` for that of matrices            each warning in order, or `# warnings: none`
//! ```

use iverson::ir::reference::{self, Limits};
use iverson::ir::stages::check;
use iverson::ir::surface;
use iverson::tensor::{Dense, Inputs, Relation, Value};
use iverson::{Error, Function};
use serde_json::Value as Json;

/// A file of the folder.
struct Habit {
    name: String,
    text: String,
}

fn habits() -> Vec<Habit> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/habits");
    let mut habits: Vec<Habit> = std::fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("an entry").path())
        .map(|path| Habit {
            name: path.file_stem().expect("a name").to_string_lossy().into_owned(),
            text: std::fs::read_to_string(&path).expect("a text"),
        })
        .collect();
    habits.sort_by(|a, b| a.name.cmp(&b.name));
    habits
}

impl Habit {
    /// What stands behind `# key`, once for each such line.
    fn lines<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.text.lines().filter_map(move |line| line.strip_prefix("# ")?.strip_prefix(key))
    }

    fn refused(&self) -> Option<&str> {
        self.lines("refused: ").next()
    }

    fn inputs(&self) -> Inputs {
        let mut inputs = Inputs::new();
        let json = |text: &str| serde_json::from_str::<Json>(text).expect("a value");
        for line in self.lines("input ") {
            let (name, value) = line.split_once(" = ").expect("a name and a value");
            let (shape, data) = numbers(&json(value));
            inputs.value(name, Value::from(Dense::new(&shape, data).expect("a tensor")));
        }
        for line in self.lines("map ") {
            let (name, value) = line.split_once(" = ").expect("a name and a value");
            let (targets, below) = value.split_once(" below ").expect("a range");
            let targets: Vec<usize> = serde_json::from_str(targets).expect("targets");
            let map = Relation::from_map(&[targets.len()], targets, below.parse().expect("a size"));
            inputs.relation(name, map.expect("a map"));
        }
        for line in self.lines("relation ") {
            let (name, value) = line.split_once(" = ").expect("a name and a value");
            let (tuples, below) = value.split_once(" below ").expect("a range");
            let tuples: Vec<Vec<usize>> = serde_json::from_str(tuples).expect("tuples");
            let shape: Vec<usize> = serde_json::from_str(below).expect("a shape");
            inputs.relation(name, Relation::from_tuples(&shape, &tuples).expect("a relation"));
        }
        inputs
    }
}

/// The shape and the numbers of nested lists.
fn numbers(value: &Json) -> (Vec<usize>, Vec<f64>) {
    match value {
        Json::Array(items) => {
            let parts: Vec<_> = items.iter().map(numbers).collect();
            let inner = parts.first().map(|(shape, _)| shape.clone()).unwrap_or_default();
            let shape = [items.len()].into_iter().chain(inner).collect();
            (shape, parts.into_iter().flat_map(|(_, data)| data).collect())
        }
        number => (Vec::new(), vec![number.as_f64().expect("a number")]),
    }
}

/// What is wrong with a program that should be accepted.
fn judge(habit: &Habit) -> Result<(), String> {
    let source = surface::read(&habit.text, &[]).map_err(|error| error.to_string())?;
    check("elaborate", &source).map_err(|error| error.to_string())?;
    let printed = source.to_string();
    let back = surface::read(&printed, &[]).map_err(|error| format!("{error} in what is printed:\n{printed}"))?;
    if !back.same(&source) {
        return Err(format!("what is printed is another program:\n{printed}"));
    }
    let function = Function::parse(&habit.text).map_err(|error| error.to_string())?;
    let warned: Vec<&str> = habit.lines("warned: ").collect();
    if !warned.is_empty() || habit.lines("warnings: none").next().is_some() {
        let says = |(warning, sentence): (&iverson::Diagnostic, &&str)| {
            warning.help.as_ref().is_some_and(|help| help.contains(*sentence))
        };
        let found = function.warnings();
        if found.len() != warned.len() || !found.iter().zip(&warned).all(says) {
            return Err(format!("it is not warned of so, but by {found:?}"));
        }
    }
    let expected: Json = serde_json::from_str(habit.lines("value: ").next().expect("a value")).expect("a value");
    let (shape, expected) = numbers(&expected);
    for function in [&function, &function.simplify().map_err(|error| error.to_string())?] {
        let (inputs, limits) = (habit.inputs(), Limits::default());
        let results = match function.flow() {
            Some(flow) => reference::evaluate_within(flow, &inputs, limits, &mut |_, _| {}),
            None => reference::evaluate_within(function.tensor_ssa(), &inputs, limits, &mut |_, _| {}),
        };
        let results = results.map_err(|error| error.to_string())?;
        let [(_, value)] = results.as_slice() else { return Err("it has several results".to_owned()) };
        let leaf = value.leaves().first().expect("a result");
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-12 * (1.0 + b.abs());
        let same = leaf.shape() == shape.as_slice()
            && leaf.data().len() == expected.len()
            && leaf.data().iter().zip(&expected).all(|(a, b)| close(*a, *b));
        if !same {
            return Err(format!("expected {expected:?}, found {:?}:\n{printed}", leaf.data()));
        }
    }
    let wrt: Vec<&str> = function.tensor_ssa().signature.params.values().map(|p| p.name.as_str()).collect();
    function.adjoint(&wrt).map_err(|error| format!("it has no derivative: {error}"))?;
    Ok(())
}

#[test]
fn habits_mean_what_was_meant() {
    let habits = habits();
    assert!(habits.len() >= 39);
    assert!(habits.iter().filter(|habit| habit.refused().is_none()).count() >= 27);
    let mut complaints = String::new();
    for habit in &habits {
        let outcome = match habit.refused() {
            None => judge(habit),
            Some(sentence) => match surface::read(&habit.text, &[]) {
                Err(Error::Program(found)) => {
                    let said = |d: &iverson::Diagnostic| {
                        d.message.contains(sentence) || d.help.as_ref().is_some_and(|help| help.contains(sentence))
                    };
                    match found.as_slice() {
                        [one] if said(one) => Ok(()),
                        _ => Err(format!("it is not answered so, but by {found:?}")),
                    }
                }
                other => Err(format!("it is not refused: {other:?}")),
            },
        };
        if let Err(complaint) = outcome {
            complaints.push_str(&format!("{}: {complaint}\n", habit.name));
        }
    }
    assert!(complaints.is_empty(), "{complaints}");
}

/// Each is one problem, and its sentence says what to write.
#[test]
fn habits_are_answered_by_what_to_write() {
    let declared = "param x : [n] real\nparam w : [n] real\nparam A : [m, n] real\nparam b : [m] real\nassume m >= 1\n";
    let cases = include_str!("../errors/habits.txt");
    let mut complaints = String::new();
    for case in cases.split("== ").skip(1) {
        let (sentence, program) = case.split_once('\n').expect("a sentence and a program");
        let text = match program.starts_with("param ") || program.contains("\nparam ") {
            true => program.to_owned(),
            false => format!("{declared}{program}"),
        };
        let found = surface::read(&text, &[]);
        match &found {
            Err(Error::Program(problems))
                if problems.len() == 1 && problems[0].help.as_ref().is_some_and(|help| help.contains(sentence)) => {}
            found => complaints.push_str(&format!("{program}is not answered by `{sentence}`, but by {found:?}\n")),
        }
    }
    assert!(complaints.is_empty(), "{complaints}");
}

/// What a sentence says of a program, with the names and sizes of this, is accepted where it is put in the place of the last line.
#[test]
fn answers_can_be_pasted() {
    let mut complaints = String::new();
    for case in include_str!("../errors/pasted.txt").split("== ").skip(1) {
        let (answer, program) = case.trim_end().split_once('\n').expect("an answer and a program");
        let (declared, _) = program.rsplit_once('\n').expect("declarations and an expression");
        // `e` stands for the body.
        let says =
            |help: &String| help.contains(&format!("`{answer}`")) || help.contains(&answer.replace("] * 1", "] * e"));
        match surface::read(program, &[]) {
            Err(Error::Program(problems)) if problems.len() == 1 && problems[0].help.as_ref().is_some_and(says) => {}
            found => complaints.push_str(&format!("{program} is not answered by `{answer}`, but by {found:?}\n")),
        }
        if let Err(error) = surface::read(&format!("{declared}\n{answer}"), &[]) {
            complaints.push_str(&format!("`{answer}`: {error}\n"));
        }
    }
    assert!(complaints.is_empty(), "{complaints}");
}

#[test]
fn printed_forms_of_habits() {
    let mut all = String::new();
    for habit in habits().iter().filter(|habit| habit.refused().is_none()) {
        let program = surface::read(&habit.text, &[]).unwrap_or_else(|error| panic!("{}: {error}", habit.name));
        let body: Vec<String> = program
            .to_string()
            .lines()
            .filter(|line| !line.starts_with("param ") && !line.starts_with("map ") && !line.starts_with("rel "))
            .map(|line| format!("{line}\n"))
            .collect();
        all.push_str(&format!("== {}\n{}", habit.name, body.concat()));
    }
    insta::assert_snapshot!(all);
}

/// The blocks of the page on the language that are programs.
fn blocks(page: &str) -> Vec<&str> {
    page.split("```iv\n").skip(1).filter_map(|rest| rest.split_once("```")).map(|(block, _)| block).collect()
}

#[test]
fn programs_of_the_language_page() {
    let page = include_str!("../../src/language.md");
    let blocks = blocks(page);
    assert!(blocks.len() > 15, "{}", blocks.len());
    for block in blocks {
        let source = surface::read(block, &[]).unwrap_or_else(|error| panic!("{error}\n{block}"));
        check("elaborate", &source).expect("well formed");
        let back = surface::read(&source.to_string(), &[]).unwrap_or_else(|error| panic!("{error}\n{source}"));
        assert!(back.same(&source), "{source}\n{back}");
        let function = Function::parse(block).expect("it compiles");
        assert_eq!(function.warnings(), [], "{block}");
        let names = &function.tensor_ssa().signature.params;
        let wrt: Vec<&str> = names.values().map(|param| param.name.as_str()).collect();
        function.adjoint(&wrt).unwrap_or_else(|error| panic!("{error}\n{block}"));
    }
}

/// What stands in the table of other languages is accepted as it stands.
#[test]
fn table_of_the_language_page() {
    let page = include_str!("../../src/language.md");
    let (_, table) = page.split_once("| you write | here you write |").expect("the table");
    let context = "param x : [n] real\nparam y : [n] real\nparam A : [n, n] real\nparam B : [n, n] real\n\
                   param v : [n] real\nmap idx : [m] -> [n]\nassume n >= 1\n";
    let mut rows = 0;
    for row in table.lines().skip(2).take_while(|line| line.starts_with('|')) {
        let here = row.rsplit('`').nth(1).expect("a program");
        surface::read(&format!("{context}{here}"), &[]).unwrap_or_else(|error| panic!("{error}\n{here}"));
        rows += 1;
    }
    assert!(rows > 20, "{rows}");
}
