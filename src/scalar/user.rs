//! Scalar functions that users register, each with its partial derivatives.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::external::{Argument, Derivative, External};
use super::{Formula, Function, Op, Primitive};
use crate::base::{Arena, FunctionId};
use crate::error::{Error, Result};

/// The code of a function written in Rust.
pub type Native = Arc<dyn Fn(&[f64]) -> f64 + Send + Sync>;

/// What a registered function computes.
#[derive(Clone)]
pub enum UserValue {
    /// A formula; it mentions arguments, built-in functions and functions registered before.
    Formula(Formula),
    /// Rust code. In files only the name of the function remains.
    Native(Native),
    /// No function of scalars, but one of tensors.
    External(Arc<External>),
    /// What a native function is after it was read from a file, until [`register`] gives it its code back.
    Unregistered,
}

/// A scalar function registered by the user, with one partial derivative for each argument.
///
/// Partial derivatives are formulas in the arguments and the value ([`Formula::Result`]); they may mention any registered function.
/// Two functions are equal if they have the same name, arity, partial derivatives and formula; native code is not compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct UserFunction {
    name: String,
    arity: u8,
    value: UserValue,
    partials: Vec<Formula>,
    /// Of a function of tensors, its derivatives that were given with it.
    derivatives: Vec<UserFunction>,
}

/// The form in files.
#[derive(Serialize, Deserialize)]
struct Parts {
    name: String,
    arity: u8,
    /// Absent for native functions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<Formula>,
    partials: Vec<Formula>,
}

impl UserFunction {
    /// A function given by a formula.
    ///
    /// # Errors
    /// [`Error::Request`] if the name is not an identifier or is a built-in function, if the number of partial derivatives is not the
    /// arity, if a formula mentions an argument that is not there, or if the value mentions itself.
    pub fn formula(name: impl Into<String>, arity: u8, value: Formula, partials: Vec<Formula>) -> Result<Self> {
        UserFunction::of(name.into(), arity, UserValue::Formula(value), partials).checked()
    }

    /// A function given by Rust code. It is called with `arity` arguments, and must give the same result for the same arguments.
    ///
    /// # Errors
    /// As [`UserFunction::formula`].
    pub fn native(
        name: impl Into<String>,
        arity: u8,
        value: impl Fn(&[f64]) -> f64 + Send + Sync + 'static,
        partials: Vec<Formula>,
    ) -> Result<Self> {
        UserFunction::of(name.into(), arity, UserValue::Native(Arc::new(value)), partials).checked()
    }

    fn of(name: String, arity: u8, value: UserValue, partials: Vec<Formula>) -> UserFunction {
        UserFunction { name, arity, value, partials, derivatives: Vec::new() }
    }

    /// A function of tensors.
    ///
    /// # Errors
    /// [`Error::Request`] for a name that no program can call, for more than 255 parameters, and for a size that no axis of a parameter is.
    pub(crate) fn from_external(name: &str, external: External) -> Result<UserFunction> {
        let wrong = |message: String| Error::Request(format!("the function `{name}` {message}"));
        if let Some(size) = external.open_size() {
            return Err(wrong(format!(
                "has the size `{size}`, which is no axis of a parameter: no call says what it is"
            )));
        }
        if external.results.is_empty() {
            return Err(wrong("gives nothing".to_owned()));
        }
        let arity = u8::try_from(external.params.len()).map_err(|_| wrong("takes more than 255 tensors".to_owned()))?;
        UserFunction::of(name.to_owned(), arity, UserValue::External(Arc::new(external)), Vec::new()).checked()
    }

    /// The function of tensors with its backpropagator: it is given what the function takes, what it gives, and what is owed to that, and fills in
    /// what is owed to each parameter. Programs call it by the name of the function and `_adjoint`.
    ///
    /// # Errors
    /// [`Error::Request`] for a function of scalars, which has partial derivatives, and for a function that has an adjoint.
    pub fn with_adjoint(
        self,
        code: impl Fn(&[Argument<'_>], &mut [&mut [f64]]) + Send + Sync + 'static,
    ) -> Result<UserFunction> {
        self.with_derivative(Derivative::Adjoint, Arc::new(code))
    }

    /// The function of tensors with its forward derivative: it is given what the function takes, what it gives, and a tangent of each parameter, and
    /// fills in the tangent of each result. Programs call it by the name of the function and `_forward`.
    ///
    /// # Errors
    /// As [`UserFunction::with_adjoint`].
    pub fn with_forward(
        self,
        code: impl Fn(&[Argument<'_>], &mut [&mut [f64]]) + Send + Sync + 'static,
    ) -> Result<UserFunction> {
        self.with_derivative(Derivative::Forward, Arc::new(code))
    }

    fn with_derivative(mut self, derivative: Derivative, code: super::external::Code) -> Result<UserFunction> {
        let wrong = |what: &str| Error::Request(format!("the function `{}` {what}", self.name));
        let UserValue::External(external) = &self.value else {
            return Err(wrong("is one of scalars, whose derivatives are its partial derivatives"));
        };
        let name = derivative.name(&self.name);
        if self.derivatives.iter().any(|other| other.name == name) {
            return Err(wrong(&format!("has the derivative `{name}` already")));
        }
        self.derivatives.push(UserFunction::from_external(&name, external.derivative(derivative, code))?);
        Ok(self)
    }

    /// The function of tensors that it is, unless it is one of scalars.
    pub(crate) fn of_tensors(&self) -> Option<&Arc<External>> {
        match &self.value {
            UserValue::External(external) => Some(external),
            UserValue::Formula(_) | UserValue::Native(_) | UserValue::Unregistered => None,
        }
    }

    /// Functions, each followed by its derivatives that are functions of tensors and were given with it.
    pub(crate) fn with_derivatives(functions: &[UserFunction]) -> Vec<UserFunction> {
        let own = |f: &UserFunction| {
            let alone = UserFunction { derivatives: Vec::new(), ..f.clone() };
            std::iter::once(alone).chain(f.derivatives.iter().cloned()).collect::<Vec<_>>()
        };
        functions.iter().flat_map(own).collect()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of arguments.
    pub fn arity(&self) -> u8 {
        self.arity
    }

    /// What it computes.
    pub fn value(&self) -> &UserValue {
        &self.value
    }

    /// Its partial derivatives, one for each argument.
    pub fn partials(&self) -> &[Formula] {
        &self.partials
    }

    fn checked(self) -> Result<Self> {
        let name = &self.name;
        let wrong = |message: String| Err(Error::Request(format!("the function `{name}` {message}")));
        let identifier = |text: &str| {
            text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        if !identifier(name) {
            return wrong("has no name that a program can call: letters, digits and `_` are expected".into());
        }
        if Op::from_name(name).is_some() {
            return wrong("is built in; choose another name".into());
        }
        if self.arity == 0 {
            return wrong("has no arguments; write a number instead".into());
        }
        if self.partials.len() != usize::from(self.arity) && self.of_tensors().is_none() {
            let (n, k) = (self.arity, self.partials.len());
            return wrong(format!("needs one partial derivative for each of its {n} arguments and has {k}"));
        }
        let body = match &self.value {
            UserValue::Formula(e) => Some(e),
            UserValue::Native(_) | UserValue::External(_) | UserValue::Unregistered => None,
        };
        if body.is_some_and(Formula::mentions_result) {
            return wrong("mentions its own `result` in its value".into());
        }
        let mut beyond = None;
        for e in body.into_iter().chain(&self.partials) {
            e.visit(&mut |e| match e {
                Formula::Arg(k) if *k >= self.arity => beyond = Some(*k),
                _ => {}
            });
        }
        match beyond {
            Some(k) => wrong(format!("mentions argument {} of {}", u32::from(k) + 1, self.arity)),
            None => Ok(self),
        }
    }
}

impl fmt::Debug for UserValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UserValue::Formula(e) => write!(f, "{e}"),
            UserValue::Native(_) => f.write_str("native"),
            UserValue::External(external) => external.fmt(f),
            UserValue::Unregistered => f.write_str("unregistered"),
        }
    }
}

impl PartialEq for UserValue {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (UserValue::Formula(a), UserValue::Formula(b)) => a == b,
            (UserValue::External(a), UserValue::External(b)) => a == b,
            (UserValue::Formula(_) | UserValue::External(_), _)
            | (_, UserValue::Formula(_) | UserValue::External(_)) => false,
            (UserValue::Native(_) | UserValue::Unregistered, UserValue::Native(_) | UserValue::Unregistered) => true,
        }
    }
}

impl TryFrom<Parts> for UserFunction {
    type Error = Error;
    fn try_from(Parts { name, arity, value, partials }: Parts) -> Result<Self> {
        let value = value.map_or(UserValue::Unregistered, UserValue::Formula);
        UserFunction::of(name, arity, value, partials).checked()
    }
}

impl From<UserFunction> for Parts {
    fn from(UserFunction { name, arity, value, partials, derivatives: _ }: UserFunction) -> Parts {
        let value = match value {
            UserValue::Formula(e) => Some(e),
            UserValue::Native(_) | UserValue::External(_) | UserValue::Unregistered => None,
        };
        Parts { name, arity, value, partials }
    }
}

/// Gives a native function that was read from a file its code back.
///
/// # Errors
/// [`Error::Request`] if there is no native function of this name.
pub fn register(
    users: &mut Arena<FunctionId, UserFunction>,
    name: &str,
    value: impl Fn(&[f64]) -> f64 + Send + Sync + 'static,
) -> Result<()> {
    let Some(id) = users.ids().find(|id| users[*id].name == name) else {
        return Err(Error::Request(format!("the program has no function `{name}` to register")));
    };
    match users[id].value {
        UserValue::Formula(_) => {
            return Err(Error::Request(format!("the function `{name}` is given by a formula and needs no code")));
        }
        UserValue::External(_) => return Err(of_tensors(name)),
        UserValue::Native(_) | UserValue::Unregistered => {}
    }
    users[id].value = UserValue::Native(Arc::new(value));
    Ok(())
}

/// How deep formulas of functions may call functions given by formulas: `f` that calls `g` is 2 deep.
pub(super) const MAX_CALLS: usize = 16;

/// How many nodes of formulas one application may visit, those of the functions it calls included.
pub(super) const MAX_STEPS: u64 = 1 << 16;

/// Checks the registered functions of a program: names are distinct, formulas call what is there with the right number of arguments,
/// values call only functions registered before them, native code is present, and evaluation stays within its limits.
///
/// After this check and that of [`check`] for each application, [`evaluate`](super::evaluate()) gives NaN only where the functions do.
///
/// # Errors
/// [`Error::Request`] names the function; [`Error::Limit`] where calls nest too deep or one application takes too many steps.
pub fn check_functions(users: &Arena<FunctionId, UserFunction>) -> Result<()> {
    let mut names = std::collections::BTreeSet::new();
    // Calls nested and steps taken by the value of each function, in the order of registration.
    let mut costs: Vec<(usize, u64)> = Vec::new();
    for (id, user) in users.iter() {
        let name = &user.name;
        if !names.insert(name) {
            return Err(Error::Request(format!("two functions are called `{name}`")));
        }
        let mut cost = (0, 1);
        match &user.value {
            UserValue::Formula(body) => {
                for callee in called(body, users)? {
                    if callee.0 >= id.0 {
                        let callee = &users[callee].name;
                        return Err(Error::Request(format!(
                            "the value of `{name}` calls `{callee}`, which is not registered before it"
                        )));
                    }
                }
                cost = steps(body, &costs);
                cost.0 += 1;
            }
            UserValue::Native(_) | UserValue::External(_) => {}
            UserValue::Unregistered => return Err(unregistered(name)),
        }
        within_limits(cost)?;
        costs.push(cost);
    }
    for (user, value) in users.values().zip(&costs) {
        for partial in &user.partials {
            called(partial, users)?;
            // An evaluation of the partial derivative may need the value first.
            let (calls, steps) = steps(partial, &costs);
            within_limits((calls, steps.saturating_add(value.1)))?;
        }
    }
    Ok(())
}

pub(super) fn unregistered(name: &str) -> Error {
    Error::Request(format!(
        "the function `{name}` is written in Rust: its code must be registered before it can be used"
    ))
}

pub(super) fn of_tensors(name: &str) -> Error {
    Error::Request(format!("the function `{name}` is one of tensors, and no function of numbers"))
}

fn within_limits((calls, steps): (usize, u64)) -> Result<()> {
    if calls > MAX_CALLS {
        let (limit, found) = (MAX_CALLS as u64, calls as u64);
        return Err(Error::Limit { what: "the nesting of calls of scalar functions", limit, found });
    }
    if steps > MAX_STEPS {
        return Err(Error::Limit { what: "the steps of a scalar function", limit: MAX_STEPS, found: steps });
    }
    Ok(())
}

/// The user's functions that a formula calls, each of which is there and takes that many arguments.
fn called(e: &Formula, users: &Arena<FunctionId, UserFunction>) -> Result<Vec<FunctionId>> {
    let mut calls = Vec::new();
    e.visit(&mut |e| {
        if let Formula::Apply(Primitive::User(id), args) = e {
            calls.push((*id, args.len()));
        }
    });
    for (id, n_args) in &calls {
        check(Function::Value(Primitive::User(*id)), *n_args, users)?;
    }
    Ok(calls.into_iter().map(|(id, _)| id).collect())
}

/// Calls nested and steps taken by the evaluation of a formula, where the costs of all functions it calls are known.
fn steps(e: &Formula, costs: &[(usize, u64)]) -> (usize, u64) {
    let mut total = (0, 0_u64);
    e.visit(&mut |e| {
        total.1 = total.1.saturating_add(1);
        if let Formula::Apply(Primitive::User(id), _) = e {
            let (calls, steps) = costs.get(id.0 as usize).copied().unwrap_or_default();
            total = (total.0.max(calls), total.1.saturating_add(steps));
        }
    });
    total
}

/// Checks one application: the function is there, takes that many arguments, has its code, and has the partial derivative.
///
/// # Errors
/// [`Error::Request`].
pub fn check(function: Function, n_args: usize, users: &Arena<FunctionId, UserFunction>) -> Result<()> {
    let (primitive, partial) = match function {
        Function::Value(primitive) => (primitive, None),
        Function::Partial(primitive, k) => (primitive, Some(k)),
    };
    let (name, arity) = match primitive {
        Primitive::Op(op) => (op.name(), op.arity()),
        Primitive::User(id) => {
            let Some(user) = users.get(id) else {
                return Err(Error::Request(format!("there is no registered function {id}")));
            };
            match user.value {
                UserValue::Unregistered => return Err(unregistered(&user.name)),
                UserValue::External(_) => return Err(of_tensors(&user.name)),
                UserValue::Formula(_) | UserValue::Native(_) => {}
            }
            (user.name.as_str().into(), user.arity)
        }
    };
    if n_args != usize::from(arity) {
        return Err(Error::Request(wrong_arity(&name, arity, n_args)));
    }
    match partial {
        Some(k) if k >= arity => {
            Err(Error::Request(format!("`{name}` has no derivative by argument {} of {arity}", u32::from(k) + 1)))
        }
        _ => Ok(()),
    }
}

pub(super) fn wrong_arity(name: &str, arity: u8, n_args: usize) -> String {
    format!("`{name}` takes {arity} argument{} and was given {n_args}", if arity == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalar::{evaluate, partial, try_evaluate};

    type Users = Arena<FunctionId, UserFunction>;

    fn a() -> Formula {
        Formula::Arg(0)
    }

    fn user(id: u32) -> Primitive {
        Primitive::User(FunctionId(id))
    }

    fn call(id: u32, args: &[Formula]) -> Formula {
        Formula::try_apply(user(id), args.to_vec()).unwrap()
    }

    /// `swish(a) = a * sigmoid(a)`, and `log2`, written in Rust.
    fn swish_and_log2() -> Users {
        let sigmoid = Op::Sigmoid.of([&a()]);
        let swish =
            UserFunction::formula("swish", 1, a() * &sigmoid, vec![&sigmoid + Formula::Result * (1.0 - &sigmoid)]);
        let log2 = UserFunction::native("log2", 1, |x| x[0].log2(), vec![std::f64::consts::LOG2_E / a()]);
        [swish.unwrap(), log2.unwrap()].into_iter().collect()
    }

    #[test]
    fn values_and_partials() {
        let users = swish_and_log2();
        assert_eq!(check_functions(&users), Ok(()));
        let value = |id| Function::Value(user(id));
        let sigmoid = Op::Sigmoid.value(&[0.75]);
        assert_eq!(evaluate(value(0), &users, &[0.75]), 0.75 * sigmoid);
        assert_eq!(
            evaluate(Function::Partial(user(0), 0), &users, &[0.75]),
            sigmoid + 0.75 * sigmoid * (1.0 - sigmoid)
        );
        assert_eq!(evaluate(value(1), &users, &[8.0]), 3.0);
        assert_eq!(evaluate(Function::Partial(user(1), 0), &users, &[2.0]), std::f64::consts::LOG2_E / 2.0);
        assert_eq!(super::super::expansion_cost(user(0), 0, &users), 6);
        assert_eq!(super::super::expanded_cost(user(0), &users), 8);
        assert!(evaluate(value(7), &users, &[1.0]).is_nan());
        assert_ne!(partial(user(7), 0, &users), crate::scalar::Partial::Zero);
    }

    #[test]
    fn constructors_refuse() {
        for (name, arity, value, partials, message) in [
            ("", 1, a(), vec![a()], "the function `` has no name that a program can call"),
            ("x y", 1, a(), vec![a()], "the function `x y` has no name that a program can call"),
            ("2x", 1, a(), vec![a()], "the function `2x` has no name that a program can call"),
            ("exp", 1, a(), vec![a()], "the function `exp` is built in"),
            ("polygamma9", 1, a(), vec![a()], "the function `polygamma9` is built in"),
            ("f", 0, 1.0.into(), vec![], "the function `f` has no arguments"),
            ("f", 2, a(), vec![a()], "one partial derivative for each of its 2 arguments and has 1"),
            ("f", 1, Formula::Arg(1), vec![a()], "mentions argument 2 of 1"),
            ("f", 1, a(), vec![a() + Formula::Arg(255)], "mentions argument 256 of 1"),
            ("f", 1, a() * Formula::Result, vec![a()], "mentions its own `result`"),
        ] {
            let error = UserFunction::formula(name, arity, value, partials).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn check_refuses() {
        let f = |name: &str, value: Formula| UserFunction::formula(name, 1, value, vec![1.0.into()]).unwrap();
        let with_partial = |partial: Formula| UserFunction::formula("f", 1, a(), vec![partial]).unwrap();
        for (users, message) in [
            (vec![f("f", call(0, &[a()]))], "the value of `f` calls `f`, which is not registered before it"),
            (
                vec![f("f", call(1, &[a()])), f("g", a())],
                "the value of `f` calls `g`, which is not registered before it",
            ),
            (vec![f("f", call(5, &[a()]))], "there is no registered function f5"),
            (vec![f("f", a()), f("g", call(0, &[a(), a()]))], "`f` takes 1 argument and was given 2"),
            (vec![f("f", a()), f("f", a())], "two functions are called `f`"),
            (vec![with_partial(call(3, &[a()]))], "there is no registered function f3"),
            (vec![with_partial(call(0, &[]))], "`f` takes 1 argument and was given 0"),
        ] {
            let users: Users = users.into_iter().collect();
            assert_eq!(check_functions(&users).unwrap_err().to_string(), message);
        }
        // A partial derivative may call its own function.
        assert_eq!(check_functions(&[with_partial(call(0, &[a()]))].into_iter().collect()), Ok(()));
    }

    #[test]
    fn check_of_one_application() {
        let users = swish_and_log2();
        for (function, n_args, message) in [
            (Function::Value(user(0)), 2, "`swish` takes 1 argument and was given 2"),
            (Op::Max.into(), 1, "`max` takes 2 arguments and was given 1"),
            (Function::Partial(Op::Exp.into(), 1), 1, "`exp` has no derivative by argument 2 of 1"),
            (Function::Partial(user(9), 0), 1, "there is no registered function f9"),
        ] {
            assert_eq!(check(function, n_args, &users).unwrap_err().to_string(), message);
            assert!(evaluate(function, &users, &[0.5; 2][..n_args]).is_nan());
        }
        assert_eq!(check(Op::Max.into(), 2, &users), Ok(()));
    }

    /// Unchecked functions too must not hang or exhaust the stack.
    #[test]
    fn evaluation_is_limited() {
        // f calls itself; a doubling chain; a chain of calls, each under formulas of full depth.
        let endless = vec![UserFunction::formula("f", 1, call(0, &[a()]), vec![1.0.into()]).unwrap()];
        let step = |k: u32, value: Formula| UserFunction::formula(format!("f{k}"), 1, value, vec![1.0.into()]).unwrap();
        let doubling = |k: u32| {
            let inner = call(k.saturating_sub(1), &[a()]);
            let twice = (0..5).fold(inner, |e, _| &e + &e);
            step(k, if k == 0 { a() } else { twice })
        };
        let deep = |k: u32| {
            let inner = if k == 0 { a() } else { call(k - 1, &[a()]) };
            step(k, (0..62).fold(inner, |e, _| e + 0.0))
        };
        for users in [endless, (0..8).map(doubling).collect(), (0..100).map(deep).collect()] {
            let users: Users = users.into_iter().collect();
            let last = Function::Value(user(users.len() as u32 - 1));
            assert!(check_functions(&users).is_err());
            assert!(matches!(try_evaluate(last, &users, &[1.0]), Err(Error::Limit { .. })));
            assert!(evaluate(last, &users, &[1.0]).is_nan());
        }
        let allowed: Users = (0..MAX_CALLS as u32).map(deep).collect();
        assert_eq!(check_functions(&allowed), Ok(()));
        assert_eq!(try_evaluate(Function::Value(user(MAX_CALLS as u32 - 1)), &allowed, &[1.5]), Ok(1.5));
    }

    #[test]
    fn native_functions_lose_their_code_in_files() {
        let users = swish_and_log2();
        let text = serde_json::to_string(&users).unwrap();
        let mut read: Users = serde_json::from_str(&text).unwrap();
        assert_eq!(read, users);
        let log2 = Function::Value(user(1));
        let message = "the function `log2` is written in Rust: its code must be registered before it can be used";
        for error in [check_functions(&read), check(log2, 1, &read), try_evaluate(log2, &read, &[8.0]).map(|_| ())] {
            assert_eq!(error.unwrap_err().to_string(), message);
        }
        assert!(register(&mut read, "log3", |x| x[0]).is_err());
        assert!(register(&mut read, "swish", |x| x[0]).is_err());
        assert_eq!(register(&mut read, "log2", |x| x[0].log2()), Ok(()));
        assert_eq!(check_functions(&read), Ok(()));
        assert_eq!(evaluate(log2, &read, &[8.0]), 3.0);
    }

    #[test]
    fn files_are_checked() {
        for text in [
            r#"{"name":"f","arity":1,"partials":[]}"#,
            r#"{"name":"exp","arity":1,"partials":[["result"]]}"#,
            r#"{"name":"f","arity":1,"value":["result"],"partials":[["result"]]}"#,
            r#"{"name":"f","arity":1,"value":[{"arg":1}],"partials":[["result"]]}"#,
            r#"{"name":"f","arity":256,"partials":[["result"]]}"#,
        ] {
            assert!(serde_json::from_str::<UserFunction>(text).is_err(), "{text}");
        }
    }
}
