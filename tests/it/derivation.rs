//! The derivation of an adjoint: a numbered list of rules, every step of which keeps the meaning.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fastrand::Rng;
use iverson::ir::reference::{Environment, Leaf};
use iverson::ir::stages::Stages;
use iverson::ir::tssa::Rhs;
use iverson::ir::ty::{Param, Signature};
use iverson::ir::{surface, tssa};
use iverson::tensor::{Dense, Inputs, Value, bind};
use iverson::{Function, Mode, Request, Style};

use crate::support::{Numbers, compile, dot, evaluate, flat, inputs, like};
use crate::{expected, generate};

fn derive(function: &Function, wrt: &[&str]) -> iverson::ir::diff::Derivation {
    let request = Request { derivation: true, ..Request::new(Mode::Adjoint, wrt) };
    let derived = function.derive(&request).expect("it has an adjoint");
    derived.derivation.expect("a derivation was asked for")
}

#[test]
fn derivation_of_the_deconvolution_loss() {
    let path = format!("{}/tests/programs/e08_deconvolution.iv", env!("CARGO_MANIFEST_DIR"));
    let function = compile(&std::fs::read_to_string(path).expect("the program is there"));
    let derivation = derive(&function, &["w"]);
    insta::assert_snapshot!(derivation.to_string());
    insta::assert_snapshot!("derivation_on_paper", derivation.print(Style::Unicode));
    insta::assert_snapshot!("derivation_in_latex", derivation.print(Style::Latex));
}

/// Parts of parameters, several outputs, numbers, and what the parameters do not change.
#[test]
fn derivation_with_pairs() {
    let program = "param p : (real, [n] real)\nparam c : [n] real\n\
                   let q = gen i < n. c[i]^2 in (3.0 + fst p, gen i < n. q[i] * (snd p)[i] + c[i])";
    insta::assert_snapshot!(derive(&compile(program), &["p"]).to_string());
}

/// Elements at places that exclude each other have one adjoint between them, whatever else is added.
#[test]
fn elements_of_one_parameter() {
    let program = "param x : [n] real\nparam A : [n, n] real\nassume n >= 4\n\
                   x[0] + 2 * x[2] + x[3] + A[1, 2] * x[1] + A[2, 1] * x[1]";
    insta::assert_snapshot!(derive(&compile(program), &["x", "A"]).to_string());
    let request = Request::new(Mode::Gradient, &["x", "A"]).raw();
    let gradient = compile(program).derive(&request).expect("it has a gradient").function;
    let additions = gradient.tensor_ssa().stmts.values().filter(|stmt| matches!(stmt.rhs, Rhs::Add(_))).count();
    // Two terms have x[1]; x[0] and x[3] have one adjoint, x[1] and x[2] one each; A has one.
    assert_eq!(additions, 3, "{}", gradient.tensor_ssa());
    let n = 4_usize;
    let x: Vec<f64> = (0..n).map(|i| (i + 2) as f64).collect();
    let a: Vec<f64> = (0..n * n).map(|i| (3 * i + 1) as f64).collect();
    let mut inputs = Inputs::new();
    inputs.value("x", Value::vector(x.clone()));
    inputs.value("A", Dense::new(&[n, n], a.clone()).expect("it has as many elements"));
    let bindings = bind(&gradient.tensor_ssa().signature, &inputs).expect("the inputs fit");
    let at = Environment::from_bindings(&bindings).expect("the inputs fit");
    let found = flat(&evaluate(gradient.tensor_ssa(), &at).expect("it has a value"));
    let mut expected = vec![1.0, a[n + 2] + a[2 * n + 1], 2.0, 1.0];
    expected.extend((0..n * n).map(|at| if at == n + 2 || at == 2 * n + 1 { x[1] } else { 0.0 }));
    assert_eq!(found, expected);
}

/// A step as it is printed.
#[derive(Debug, Default)]
struct Printed {
    rule: String,
    before: Vec<String>,
    after: Vec<String>,
    whole: Option<String>,
}

/// What is given at the top, and the steps.
fn printed(text: &str) -> (Vec<String>, Vec<Printed>) {
    let (mut given, mut steps) = (Vec::new(), Vec::<Printed>::new());
    for line in text.lines() {
        let (margin, rest) = line.split_at_checked(7).unwrap_or((line, ""));
        if let Some(line) = line.strip_prefix("given ") {
            given.push(line.to_owned());
        } else if let Some((number, line)) = line.split_once(". (")
            && let Ok(number) = number.trim().parse::<usize>()
        {
            assert_eq!(number, steps.len() + 1, "steps are numbered");
            let (rule, _) = line.split_once(") ").expect("a rule in parentheses");
            steps.push(Printed { rule: rule.to_owned(), ..Printed::default() });
        } else {
            let step = steps.last_mut().expect("a step stands above its lines");
            match margin {
                "     = " => step.after.push(rest.to_owned()),
                "     : " => step.whole = Some(rest.to_owned()),
                "       " if step.after.is_empty() => step.before.push(rest.to_owned()),
                "       " => step.after.push(rest.to_owned()),
                _ => panic!("what is `{line}`?"),
            }
        }
    }
    (given, steps)
}

/// The names in a formula, with what stands before and behind each.
fn names(text: &str) -> Vec<(char, String, char)> {
    let chars: Vec<char> = text.chars().collect();
    let (mut found, mut at, mut last) = (Vec::new(), 0, ' ');
    while at < chars.len() {
        let start = at;
        let inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | '?' | '\'' | '.');
        if chars[at].is_alphanumeric() || chars[at] == '_' {
            while at < chars.len() && inside(chars[at]) && (chars[at] != '.' || chars[start].is_ascii_digit()) {
                at += 1;
            }
            if !chars[start].is_ascii_digit() {
                let next = chars[at..].iter().copied().find(|c| *c != ' ').unwrap_or(' ');
                found.push((last, chars[start..at].iter().collect(), next));
            }
            last = 'x';
        } else {
            if chars[at] != ' ' {
                last = chars[at];
            }
            at += 1;
        }
    }
    found
}

/// An inner product `<left | right>_[guard]` as text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Product {
    left: String,
    right: String,
    guard: String,
}

/// The summands of a sum of inner products; nothing for those that are 0.
fn summands(text: &str) -> Vec<Option<Product>> {
    let mut summands = Vec::new();
    let mut rest = text;
    loop {
        let ends = rest.match_indices(" + ").map(|(at, _)| at);
        let end = ends.filter(|at| {
            let next = &rest[at + 3..];
            next.starts_with('<') || next == "0" || next.starts_with("0 + ")
        });
        let end = end.min().unwrap_or(rest.len());
        let summand = &rest[..end];
        summands.push((summand != "0").then(|| {
            let (left, right) = summand.split_once(" | ").unwrap_or_else(|| panic!("`{summand}` is an inner product"));
            let (right, guard) = right.split_once('>').unwrap_or_else(|| panic!("`{summand}` is an inner product"));
            let left = left.strip_prefix('<').expect("an inner product starts with a bracket");
            Product { left: left.to_owned(), right: right.to_owned(), guard: guard.to_owned() }
        }));
        match rest.get(end + 3..) {
            Some(next) => rest = next,
            None => return summands,
        }
    }
}

/// A reader who checks a derivation line by line, and believes nothing that does not stand above.
struct Reader<'a> {
    signature: &'a Signature,
    /// What each name is bound to, a right-hand side; parameters have none.
    bound: BTreeMap<String, Option<String>>,
    /// The tangent of each variable that has one.
    tangents: BTreeMap<String, String>,
    /// The bindings of tangents, as they were first read.
    tangent_bindings: BTreeSet<String>,
    pending: Vec<String>,
    sum: Vec<Option<Product>>,
}

impl Reader<'_> {
    const WORDS: [&'static str; 15] =
        ["gen", "sum", "and", "or", "not", "exists", "real", "on", "fst", "snd", "true", "false", "inf", "S", "f"];

    /// Every name in a formula is bound above, or by the formula itself; guards of inner products name axes by number.
    fn scope(&self, text: &str, has_axes: bool) {
        let names = names(text);
        let mut local = BTreeSet::new();
        for (at, (before, name, next)) in names.iter().enumerate() {
            let binder = at > 0 && ["gen", "sum", "exists"].contains(&names[at - 1].1.as_str());
            if binder || (*before == ',' && *next == '<') {
                local.insert(name.as_str());
            }
        }
        for (_, name, next) in &names {
            let known = Self::WORDS.contains(&name.as_str())
                || *next == '('
                || ["argmax", "argmin"].contains(&name.as_str())
                || self.signature.sizes.values().any(|n| n == name)
                || local.contains(name.as_str())
                || self.bound.contains_key(name)
                || self.tangents.values().any(|dx| dx == name)
                || (has_axes && (name.len() == 1 || name.starts_with('i')));
            assert!(known, "`{name}` in `{text}` is not bound");
        }
    }

    fn bind(&mut self, name: &str, value: Option<&str>) {
        let taken = self.tangents.values().any(|dx| dx == name) || self.signature.sizes.values().any(|n| n == name);
        let old = self.bound.insert(name.to_owned(), value.map(str::to_owned));
        assert!(old.is_none() && !taken, "`{name}` has two meanings");
    }

    /// `x : type, D(x) = dx`, or `x = e`.
    fn given(&mut self, line: &str) {
        if let Some((name, value)) = line.split_once(" = ").filter(|(name, _)| !name.contains(' ')) {
            self.scope(value, false);
            return self.bind(name, Some(value));
        }
        let (name, ty) = line.split_once(" : ").expect("a parameter has a type");
        self.bind(name, None);
        if let Some((_, dx)) = ty.split_once(", D(") {
            let dx = dx.strip_prefix(&format!("{name}) = ")).expect("the tangent is that of the parameter");
            self.tangent(name, dx);
        }
    }

    fn tangent(&mut self, name: &str, dx: &str) {
        let taken = self.bound.contains_key(dx) || self.tangents.values().any(|other| other == dx);
        assert!(!taken, "`{dx}` has two meanings");
        self.tangents.insert(name.to_owned(), dx.to_owned());
    }

    /// Reads bindings `let x = e in` and gives the lines under them.
    fn bindings<'l>(&mut self, lines: &'l [String]) -> &'l [String] {
        let mut last: Option<(String, String)> = None;
        for (at, line) in lines.iter().enumerate() {
            let Some(binding) = line.strip_prefix("let ").and_then(|line| line.strip_suffix(" in")) else {
                return &lines[at..];
            };
            let (name, value) = binding.split_once(" = ").expect("a binding has a right-hand side");
            self.scope(value, false);
            match last.take().filter(|(_, rhs)| *value == format!("D({rhs})")) {
                Some((x, _)) => {
                    self.tangent(&x, name);
                    self.tangent_bindings.insert(line.clone());
                    self.pending.push(name.to_owned());
                }
                None => {
                    assert!(!value.starts_with("D("), "`{line}` does not follow the binding of its variable");
                    self.bind(name, Some(value));
                    last = Some((name.to_owned(), value.to_owned()));
                }
            }
        }
        &[]
    }

    /// The variable of `D(x)`.
    fn variable<'p>(&self, product: &'p Product) -> &'p str {
        let x = product.right.strip_prefix("D(").and_then(|x| x.strip_suffix(')')).expect("a derivative");
        assert!(self.bound.contains_key(x), "`{x}` is a variable");
        x
    }

    fn products(&self, lines: &[String]) -> Vec<Option<Product>> {
        let [line] = lines else { panic!("one sum: {lines:?}") };
        let products = summands(line);
        for product in products.iter().flatten() {
            self.scope(&product.left, false);
            self.scope(&product.right, false);
            self.scope(&product.guard, true);
        }
        products
    }

    fn step(&mut self, step: &Printed) {
        let rule = step.rule.as_str();
        match rule {
            "6.14" => {
                let [start] = step.before.as_slice() else { panic!("one inner product to start from") };
                let rest = self.bindings(&step.after);
                let (seeds, outputs) = (&self.whole(start)[0], &self.whole(&rest[0])[0]);
                assert_eq!((&seeds.left, seeds.right.as_str()), (&outputs.left, "D(f)"));
                self.scope(&outputs.right, false);
                return;
            }
            "6.15" => {
                let order = |line: &String| -> Vec<String> {
                    let names = line.strip_prefix("let ").and_then(|line| line.strip_suffix(" in"));
                    names.expect("the order of bindings").split(", ").map(str::to_owned).collect()
                };
                let (before, after) = (order(&step.before[0]), order(&step.after[0]));
                let (mut sorted, mut expected) = (after.clone(), before.clone());
                sorted.sort();
                expected.sort();
                assert_eq!(sorted, expected, "the same bindings");
                assert_ne!(before, after, "something moved");
                assert!(after.ends_with(&self.pending), "the tangents are last, in order");
                return;
            }
            "6.20" => {
                let [binding] = step.before.as_slice() else { panic!("one binding: {:?}", step.before) };
                let binding = binding.strip_suffix(" S").expect("the sum stands under the binding");
                let dx = self.unbind(binding);
                assert!(self.sum.iter().flatten().all(|product| product.right != dx), "`{dx}` is used");
            }
            "6.19" => {
                let [binding, before] = step.before.as_slice() else { panic!("a binding: {:?}", step.before) };
                let dx = self.unbind(binding);
                let before = self.products(std::slice::from_ref(before));
                let after = self.products(&step.after);
                let uses = self.sum.iter().flatten().filter(|product| product.right == dx).count();
                assert_eq!(uses, 1, "one inner product has `{dx}`");
                let value = binding.strip_prefix(&format!("let {dx} = ")).and_then(|line| line.strip_suffix(" in"));
                let expected = Product { right: value.expect("a value").to_owned(), ..one(&before).clone() };
                assert_eq!(one(&after), &expected);
                self.replace(&before, after);
            }
            "6.18" => {
                let mut before = self.products(&step.before);
                before.sort();
                self.sum.sort();
                assert_eq!(before, self.sum, "everything is put together");
                return self.scope(&step.after[0], false);
            }
            _ => {
                let before = match rule {
                    "6.16" => {
                        let whole = self.whole(&step.before[0]);
                        self.sum = whole.iter().cloned().map(Some).collect();
                        self.sum.clone()
                    }
                    _ => self.products(&step.before),
                };
                let after = self.bindings(&step.after).to_vec();
                let after = self.products(&after);
                if rule == "6.21" && self.sum.is_empty() {
                    self.sum = before.clone();
                }
                self.equation(rule, &before, &after);
                self.replace(&before, after);
            }
        }
        // What stands below is what is left.
        let whole = step.whole.as_deref().expect("the whole term stands under the step");
        let pending = self.pending.join(", ");
        let sum = match pending.is_empty() {
            true => whole,
            false => whole.strip_prefix(&format!("let {pending} in ")).expect("the tangents that are still bound"),
        };
        let (mut read, mut expected) = (summands(sum), self.sum.clone());
        // An empty sum is written 0.
        read.retain(|product| product.is_some() || expected.contains(&None));
        read.sort();
        expected.sort();
        assert_eq!(read, expected, "the term behind the step");
    }

    /// Inner products with tuples.
    fn whole(&self, line: &str) -> Vec<Product> {
        summands(line).into_iter().flatten().collect()
    }

    /// Takes away the binding of the last tangent, repeated word by word.
    fn unbind(&mut self, binding: &str) -> String {
        assert!(self.tangent_bindings.contains(binding), "`{binding}` is not bound above");
        let dx = self.pending.pop().expect("a tangent is bound");
        assert!(binding.starts_with(&format!("let {dx} = ")), "`{binding}` is not the last");
        dx
    }

    fn replace(&mut self, before: &[Option<Product>], after: Vec<Option<Product>>) {
        if self.sum.is_empty() {
            self.sum = before.to_vec();
        }
        for product in before {
            let at = self.sum.iter().position(|other| other == product);
            self.sum.remove(at.unwrap_or_else(|| panic!("{product:?} does not stand above")));
        }
        self.sum.extend(after);
        // An empty sum is written 0.
        if self.sum.len() > 1 && before.is_empty() {
            self.sum.retain(Option::is_some);
        }
    }

    /// What a rule says of inner products.
    fn equation(&self, rule: &str, before: &[Option<Product>], after: &[Option<Product>]) {
        let is_number = |x: &str| {
            let value = self.bound.get(x).and_then(Option::as_deref).unwrap_or_default();
            let value = value.rsplit(". ").next().unwrap_or(value);
            value.parse::<f64>().is_ok() || value.starts_with("real(")
        };
        let kept: Vec<&Product> = before.iter().flatten().collect();
        let made: Vec<&Product> = after.iter().flatten().collect();
        match rule {
            "6.21" => {
                assert_eq!(kept.len(), made.len());
                for (before, after) in kept.iter().zip(&made) {
                    let dx = &self.tangents[self.variable(before)];
                    assert_eq!(**after, Product { right: dx.clone(), ..(*before).clone() });
                }
            }
            "6.22" | "6.23" => {
                assert!(made.is_empty() && kept.len() == after.len() && !kept.is_empty());
                for product in kept {
                    let x = self.variable(product);
                    assert!(!self.tangents.contains_key(x), "`{x}` has a tangent");
                    assert_eq!(is_number(x), rule == "6.23", "`{x}`");
                }
            }
            "6.24" => {
                assert!(before.len() > kept.len() && before.len() > 1 && kept == made);
                assert!(after.len() == made.len() || made.is_empty());
            }
            "6.25" => {
                let [all @ .., last] = kept.as_slice() else { panic!("inner products to merge") };
                assert!(!all.is_empty() && made.len() == 1 && made[0].right == last.right);
                assert!(all.iter().all(|product| product.right == last.right));
                assert!(self.tangents.values().any(|dx| *dx == last.right));
            }
            "6.26" | "6.27" | "6.28" | "6.29" => {
                let [product] = kept.as_slice() else { panic!("one inner product") };
                let value = product.right.strip_prefix("D(").and_then(|e| e.strip_suffix(')')).expect("a derivative");
                // The operands are those of the right-hand side, in order; zeros are of arguments without influence.
                let operands: Vec<String> = names(value).into_iter().map(|(_, name, _)| name).collect();
                let mut rest = operands.iter();
                for product in &made {
                    let x = self.variable(product);
                    assert!(rest.any(|name| name == x), "`{x}` is no operand of `{value}`");
                }
                let zeros = after.len() - made.len();
                match rule {
                    "6.26" => assert!(made.len() == 2 && made.iter().all(|after| after.left == product.left)),
                    "6.27" => assert!(made.len() + zeros >= 1),
                    "6.28" => assert_eq!((made.len(), zeros), (2, 0)),
                    _ => assert_eq!((made.len(), zeros), (1, 0)),
                }
            }
            "6.16" => assert!(!made.is_empty() && made.len() == after.len()),
            "6.17" => {
                let ([before], [after]) = (kept.as_slice(), made.as_slice()) else { panic!("one inner product") };
                assert!(after.left.contains(&before.left) && after.left.contains('0') && after.guard.is_empty());
                let param = self.variable(after);
                assert!(before.right.starts_with("D(fst ") || before.right.starts_with("D(snd "));
                assert!(before.right.ends_with(&format!(" {param})")), "{before:?} {after:?}");
            }
            "Fig. 14" => {
                let ([before], [after]) = (kept.as_slice(), made.as_slice()) else { panic!("one inner product") };
                assert!(before.right == after.right && before.guard != after.guard && !before.guard.is_empty());
                let cut = self.bound.get(&after.left).and_then(Option::as_deref).unwrap_or_default();
                let goes_in = after.guard.is_empty() && cut.contains(&before.left);
                assert!(before.left == after.left || goes_in, "{before:?} {after:?}");
            }
            _ => panic!("there is no rule {rule}"),
        }
    }
}

fn one(products: &[Option<Product>]) -> &Product {
    match products {
        [Some(product)] => product,
        _ => panic!("one inner product: {products:?}"),
    }
}

/// Reads a derivation as it is printed; gives the rules that it uses.
fn read(text: &str, signature: &Signature) -> BTreeSet<String> {
    let (given, steps) = printed(text);
    let mut reader = Reader {
        signature,
        bound: BTreeMap::new(),
        tangents: BTreeMap::new(),
        tangent_bindings: BTreeSet::new(),
        pending: Vec::new(),
        sum: Vec::new(),
    };
    given.iter().for_each(|line| reader.given(line));
    for step in &steps {
        reader.step(step);
    }
    assert!(reader.pending.is_empty(), "tangents are left");
    let params: BTreeSet<&String> = reader.signature.params.values().map(|p| &p.name).collect();
    for product in reader.sum.iter().flatten() {
        let owner = reader.tangents.iter().find(|(_, dx)| **dx == product.right).map(|(x, _)| x);
        assert!(owner.is_some_and(|x| params.contains(x)), "`{}` is no tangent of a parameter", product.right);
    }
    steps.into_iter().map(|step| step.rule).collect()
}

/// Which parameters to differentiate by: each alone, all, and all but one.
fn activities(signature: &Signature) -> Vec<Vec<&str>> {
    let names: Vec<&str> = signature.params.values().map(|p| p.name.as_str()).collect();
    let mut subsets: BTreeSet<Vec<&str>> = names.iter().map(|name| vec![*name]).collect();
    subsets.insert(names.clone());
    subsets.extend(names.iter().map(|out| names.iter().copied().filter(|name| name != out).collect::<Vec<_>>()));
    subsets.into_iter().filter(|subset| !subset.is_empty()).collect()
}

/// Draws tangents and seeds.
struct Draw<'a> {
    primal: &'a Signature,
    at: &'a Environment<f64>,
    numbers: Numbers,
}

impl Draw<'_> {
    /// Numbers at the places of a parameter: a sparse one has those of the given parameter of its pattern.
    fn param(&mut self, signature: &Signature, param: &Param) -> Vec<Leaf<f64>> {
        if let Some(pattern) = param.storage.pattern() {
            let same = self.primal.params.values().position(|p| p.storage.pattern() == Some(pattern));
            return like(&self.at.params[same.expect("a pattern is that of a parameter")], &mut self.numbers);
        }
        let leaves = signature.types.leaves(param.ty).expect("few leaves");
        let leaf = |leaf: &iverson::ir::ty::Leaf| {
            let dims = self.at.extents(&leaf.dims).expect("sizes are bound");
            let len = dims.iter().product::<u64>() as usize;
            Leaf::dense(dims, self.numbers.vector(len)).expect("it fits")
        };
        leaves.iter().map(leaf).collect()
    }
}

/// What every term of a derivation means is the same number, and that is `<dy, D f dx>` by the forward derivative: exact on integers.
/// Gives how many terms were judged; none where numbers are too large to be exact.
fn same_values(function: &Function, wrt: &[&str], at: &Environment<f64>, seed: u64) -> Option<usize> {
    let derivation = derive(function, wrt);
    let primal = function.tensor_ssa();
    let count = primal.signature.params.len();
    let is_exact = |value: &f64| value.is_finite() && value.abs() < 1e12;
    let with = |extra: &[Vec<Leaf<f64>>]| {
        let mut at = at.clone();
        at.params.extend(extra.iter().cloned());
        at
    };
    let adjoint = function.derive(&Request::new(Mode::Adjoint, wrt).raw()).ok()?.function;
    let first = derivation.desugar(&derivation.steps[0].form).expect("a form desugars");
    let mut draw = Draw { primal: &primal.signature, at, numbers: Numbers::new(seed, true) };
    let extra: Vec<Vec<Leaf<f64>>> =
        first.signature.params.values().skip(count).map(|param| draw.param(&first.signature, param)).collect();
    let (seeds, tangents) = extra.split_at(extra.len() - wrt.len());

    let forward = function.derive(&Request::new(Mode::Forward, wrt).raw()).ok()?.function;
    let tangent = flat(&evaluate(forward.tensor_ssa(), &with(tangents)).expect("it evaluates"));
    let expected = dot(&flat(&seeds.concat()), &tangent);
    if !tangent.iter().all(is_exact) || !is_exact(&expected) {
        return None;
    }
    for step in &derivation.steps {
        let program = derivation.desugar(&step.form).expect("a form desugars");
        let value = flat(&evaluate(&program, &with(&extra)).expect("a form evaluates"))[0];
        assert_eq!(value, expected, "rule {} by {wrt:?}:\n{primal}\n{derivation}", step.rule);
    }
    let found = flat(&evaluate(adjoint.tensor_ssa(), &with(seeds)).expect("it evaluates"));
    assert_eq!(dot(&found, &flat(&tangents.concat())), expected, "the result by {wrt:?}:\n{primal}\n{derivation}");
    Some(derivation.steps.len() + 1)
}

/// The derivation by each choice of parameters, read line by line.
fn read_all(function: &Function, rules: &mut BTreeSet<String>) {
    let signature = &function.tensor_ssa().signature;
    for wrt in activities(signature) {
        let derivation = derive(function, &wrt);
        let text = derivation.to_string();
        let check = || read(&text, signature);
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)) {
            Ok(found) => rules.extend(found),
            Err(error) => {
                eprintln!("by {wrt:?}:\n{}\n{text}", function.tensor_ssa());
                std::panic::resume_unwind(error);
            }
        }
        // The other styles say the same.
        let lines = |style: Style| derivation.print(style).lines().count();
        assert_eq!(lines(Style::Unicode), text.lines().count());
        assert_eq!(lines(Style::Latex), text.lines().count() + 2);
    }
}

/// The rules of the adjoint that a derivation may use.
const RULES: [&str; 16] = [
    "6.14", "6.15", "6.16", "6.17", "6.18", "6.19", "6.20", "6.21", "6.22", "6.23", "6.24", "6.25", "6.26", "6.27",
    "6.28", "6.29",
];

/// All programs of the tests, by each choice of parameters: what is printed can be checked line by line, every term means the same, and
/// every rule of the paper occurs.
#[test]
fn derivations_can_be_checked() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("it is there").map(|f| f.expect("it is read").path()).collect();
    files.sort();
    let mut programs: Vec<String> =
        files.iter().map(|file| std::fs::read_to_string(file).expect("it is read")).collect();
    programs.extend([
        "param p : (real, [n] real)\nparam c : [n] real\n(fst p * 3.0 + c[0] * c[0], gen i < n. (snd p)[i] * c[i] + 2)"
            .replace("c[0]", "(sum i < n. c[i])"),
        "param x : [n] real\nparam z : [n] real\ngen i < n. max(x[i] + 1, z[i]) * sign(x[i] * z[i])".to_owned(),
        "param x : [n] real\nparam z : [n] real\n(x, z)".to_owned(),
    ]);
    let (mut rules, mut terms) = (BTreeSet::new(), 0);
    for (seed, text) in (0..).zip(&programs) {
        let function = compile(text);
        if function.tensor_ssa().stmts.len() > 60 {
            continue;
        }
        read_all(&function, &mut rules);
        let (mut rng, mut numbers) = (Rng::with_seed(seed), Numbers::new(seed, true));
        let signature = &function.tensor_ssa().signature;
        for sizes in expected::small_sizes(signature, &mut rng).into_iter().skip(2).take(1) {
            let Some(inputs) = expected::inputs(signature, &sizes, &mut numbers, &mut rng) else { continue };
            let bindings = bind(signature, &inputs).expect("the inputs fit");
            let environment = Environment::from_bindings(&bindings).expect("the inputs fit");
            for wrt in activities(signature) {
                if is_polynomial(function.tensor_ssa()) {
                    terms += same_values(&function, &wrt, &environment, seed).unwrap_or(0);
                }
            }
        }
    }
    let missing: Vec<&str> = RULES.into_iter().filter(|rule| !rules.contains(*rule)).collect();
    assert!(missing.is_empty(), "no derivation uses {missing:?}");
    assert!(terms > 200, "only {terms} terms were judged");
}

/// Whether integers stay integers.
fn is_polynomial(program: &tssa::Program) -> bool {
    use iverson::ir::scalar::{Function, Op, Primitive};
    program.stmts.values().all(|stmt| match &stmt.rhs {
        Rhs::Map { function, .. } => {
            matches!(function, Function::Value(Primitive::Op(Op::Powi(k))) if *k >= 0)
                || matches!(function, Function::Value(Primitive::Op(Op::Max | Op::Min)))
        }
        _ => true,
    })
}

/// Random programs, and their gradients as programs of their own: these have the guarded additions that adjoints are made of.
#[test]
fn derivations_of_random_programs_can_be_checked() {
    let (mut rules, mut terms, mut second) = (BTreeSet::new(), 0, 0);
    for seed in (0..60).filter(|seed| seed % 4 != 3) {
        let generated = generate::program(seed, false);
        let source = surface::read(&generated.text, &[]).expect("generated programs are sound");
        let function = Function::compile(source, &mut Stages::new()).expect("it compiles");
        if function.tensor_ssa().stmts.len() > 24 {
            continue;
        }
        read_all(&function, &mut rules);
        let signature = function.tensor_ssa().signature.clone();
        let mut numbers = Numbers::new(seed, true);
        let given = inputs(&generated, &mut numbers);
        let bindings = bind(&signature, &given).expect("the inputs fit");
        let environment = Environment::from_bindings(&bindings).expect("the inputs fit");
        for wrt in activities(&signature) {
            terms += same_values(&function, &wrt, &environment, seed).unwrap_or(0);
        }
        let wrt: Vec<&str> = signature.params.values().map(|p| p.name.as_str()).collect();
        if let Ok(gradient) = function.derive(&Request::new(Mode::Gradient, &wrt).raw())
            && gradient.function.tensor_ssa().stmts.len() <= 40
        {
            second += same_values(&gradient.function, &wrt, &environment, seed).unwrap_or(0);
        }
    }
    assert!(terms > 500 && second > 50, "only {terms} and {second} terms were judged");
}

/// Rules 6.1 to 6.13: the forward derivative of a program that needs the rule, beside the one on paper.
#[test]
fn forward_rules_have_the_derivatives_of_books() {
    const DECLARED: [(&str, &str); 6] = [
        ("x", "param x : [n] real"),
        ("z", "param z : [n] real"),
        ("p", "param p : (real, [n] real)"),
        ("dx", "param dx : [n] real"),
        ("dp", "param dp : (real, [n] real)"),
        ("dz", "param dz : [n] real"),
    ];
    let cases = [
        ("6.1", "x", "x", "dx"),
        ("6.2", "x", "gen i < n. z[i] + 0 * x[i]", "gen i < n. 0 * dx[i]"),
        ("6.2", "x", "gen i < n. x[i] * z[i]", "gen i < n. dx[i] * z[i]"),
        ("6.3", "x", "gen i < n. x[i] + 5", "dx"),
        ("6.4", "x, z", "gen i < n. x[i] - 3 * z[i]", "gen i < n. dx[i] - 3 * dz[i]"),
        ("6.5", "x, z", "gen i < n. x[i] * z[i]", "gen i < n. dx[i] * z[i] + x[i] * dz[i]"),
        ("6.5", "x", "gen i < n. x[i] * x[i]", "gen i < n. 2 * (x[i] * dx[i])"),
        ("6.6", "x", "gen i < n. x[i]^3", "gen i < n. 3 * x[i]^2 * dx[i]"),
        ("6.6", "x, z", "gen i < n. max(x[i], z[i] + 100)", "gen i < n. dz[i]"),
        ("6.7", "x, z", "(x, gen i < n. x[i] * z[i])", "(dx, gen i < n. dx[i] * z[i] + x[i] * dz[i])"),
        ("6.8", "p", "gen i < n. fst p * (snd p)[i]", "gen i < n. fst dp * (snd p)[i] + fst p * (snd dp)[i]"),
        ("6.9", "x", "gen i < n, j < n. x[i] * z[j]", "gen i < n, j < n. dx[i] * z[j]"),
        ("6.10", "x", "sum i < n. x[i]^2", "sum i < n. 2 * x[i] * dx[i]"),
        ("6.11", "x", "gen i < n. x[n - 1 - i]", "gen i < n. dx[n - 1 - i]"),
        ("6.12", "x", "gen i < n. [i < 2] * x[i]^2", "gen i < n. [i < 2] * (2 * x[i] * dx[i])"),
        ("6.12", "x", "gen i < n. [i + 1 < n] * x[i + 1]", "gen i < n. [i + 1 < n] * dx[i + 1]"),
        ("6.13", "x", "let y = gen i < n. x[i]^2 in sum i < n. y[i] * x[i]", "sum i < n. 3 * x[i]^2 * dx[i]"),
    ];
    let program = |body: &str, wrt: &str| {
        let used: BTreeSet<String> = names(body).into_iter().map(|(_, name, _)| name).collect();
        let wrt: Vec<&str> = wrt.split(", ").collect();
        let declared = DECLARED.iter().filter(|(name, _)| used.contains(*name) || wrt.contains(name));
        let lines: Vec<&str> = declared.map(|(_, line)| *line).collect();
        compile(&format!("{}\n{body}", lines.join("\n")))
    };
    for (rule, wrt, primal, tangent) in cases {
        let names: Vec<&str> = wrt.split(", ").collect();
        let request = Request::new(Mode::Forward, &names).raw();
        let derived = program(primal, wrt).derive(&request).expect("it is derived").function;
        let values = |function: &Function| {
            let signature = &function.tensor_ssa().signature;
            let mut inputs = Inputs::new();
            inputs.size("n", 3);
            for param in signature.params.values() {
                // The numbers follow from the name.
                let seed = param.name.bytes().fold(7, |seed, byte| seed * 31 + u64::from(byte));
                let mut numbers = Numbers::new(seed, true);
                let leaves = signature.types.leaves(param.ty).expect("few leaves");
                let leaf = |leaf: &iverson::ir::ty::Leaf| {
                    let shape = vec![3; leaf.dims.len()];
                    let data = numbers.vector(shape.iter().product());
                    std::sync::Arc::new(iverson::tensor::Tensor::Dense(Dense::new(&shape, data).expect("it fits")))
                };
                inputs.value(&param.name, Value::new(leaves.iter().map(leaf).collect()));
            }
            let bindings = bind(signature, &inputs).expect("the inputs fit");
            let environment = Environment::from_bindings(&bindings).expect("the inputs fit");
            flat(&evaluate(function.tensor_ssa(), &environment).expect("it evaluates"))
        };
        let found = values(&derived);
        assert!(found.iter().any(|x| *x != 0.0) || rule == "6.2", "{rule}: a tangent that says nothing");
        assert_eq!(found, values(&program(tangent, "n")), "{rule}: {primal}\n{derived}");
    }
}
