//! Scalar functions that users register, each with its partial derivatives.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Expr, Function, Op, Primitive};
use crate::base::{Arena, FunctionId};
use crate::error::{Error, Result};

/// The code of a function written in Rust.
pub type Native = Arc<dyn Fn(&[f64]) -> f64 + Send + Sync>;

/// What a registered function computes.
#[derive(Clone)]
pub enum UserValue {
    /// A formula; it mentions arguments, built-in functions and functions registered before.
    Expr(Expr),
    /// Rust code. In files only the name of the function remains.
    Native(Native),
    /// What a native function is after it was read from a file, until [`register`] gives it its code back.
    Unregistered,
}

/// A scalar function registered by the user, with one partial derivative for each argument.
///
/// Partial derivatives are formulas in the arguments and the value ([`Expr::Result`]); they may mention any registered function.
/// Two functions are equal if they have the same name, arity, partial derivatives and formula; native code is not compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct UserFunction {
    name: String,
    arity: u8,
    value: UserValue,
    partials: Vec<Expr>,
}

/// The form in files.
#[derive(Serialize, Deserialize)]
struct Parts {
    name: String,
    arity: u8,
    /// Absent for native functions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<Expr>,
    partials: Vec<Expr>,
}

impl UserFunction {
    /// A function given by a formula.
    ///
    /// # Errors
    /// [`Error::Request`] if the name is not an identifier or is a built-in function, if the number of partial derivatives is not the
    /// arity, if a formula mentions an argument that is not there, or if the value mentions itself.
    pub fn expr(name: impl Into<String>, arity: u8, value: Expr, partials: Vec<Expr>) -> Result<Self> {
        UserFunction { name: name.into(), arity, value: UserValue::Expr(value), partials }.checked()
    }

    /// A function given by Rust code. It is called with `arity` arguments, and must give the same result for the same arguments.
    ///
    /// # Errors
    /// As [`UserFunction::expr`].
    pub fn native(
        name: impl Into<String>,
        arity: u8,
        value: impl Fn(&[f64]) -> f64 + Send + Sync + 'static,
        partials: Vec<Expr>,
    ) -> Result<Self> {
        UserFunction { name: name.into(), arity, value: UserValue::Native(Arc::new(value)), partials }.checked()
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
    pub fn partials(&self) -> &[Expr] {
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
        if self.partials.len() != usize::from(self.arity) {
            let (n, k) = (self.arity, self.partials.len());
            return wrong(format!("needs one partial derivative for each of its {n} arguments and has {k}"));
        }
        let body = match &self.value {
            UserValue::Expr(e) => Some(e),
            UserValue::Native(_) | UserValue::Unregistered => None,
        };
        if body.is_some_and(Expr::mentions_result) {
            return wrong("mentions its own `result` in its value".into());
        }
        let mut beyond = None;
        for e in body.into_iter().chain(&self.partials) {
            e.visit(&mut |e| match e {
                Expr::Arg(k) if *k >= self.arity => beyond = Some(*k),
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
            UserValue::Expr(e) => write!(f, "{e}"),
            UserValue::Native(_) => f.write_str("native"),
            UserValue::Unregistered => f.write_str("unregistered"),
        }
    }
}

impl PartialEq for UserValue {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (UserValue::Expr(a), UserValue::Expr(b)) => a == b,
            (UserValue::Expr(_), _) | (_, UserValue::Expr(_)) => false,
            (UserValue::Native(_) | UserValue::Unregistered, UserValue::Native(_) | UserValue::Unregistered) => true,
        }
    }
}

impl TryFrom<Parts> for UserFunction {
    type Error = Error;
    fn try_from(Parts { name, arity, value, partials }: Parts) -> Result<Self> {
        let value = value.map_or(UserValue::Unregistered, UserValue::Expr);
        UserFunction { name, arity, value, partials }.checked()
    }
}

impl From<UserFunction> for Parts {
    fn from(UserFunction { name, arity, value, partials }: UserFunction) -> Parts {
        let value = match value {
            UserValue::Expr(e) => Some(e),
            UserValue::Native(_) | UserValue::Unregistered => None,
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
    if let UserValue::Expr(_) = users[id].value {
        return Err(Error::Request(format!("the function `{name}` is given by a formula and needs no code")));
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
            UserValue::Expr(body) => {
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
            UserValue::Native(_) => {}
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
    Error::Request(format!("the function `{name}` is written in Rust: its code must be registered before it can be used"))
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
fn called(e: &Expr, users: &Arena<FunctionId, UserFunction>) -> Result<Vec<FunctionId>> {
    let mut calls = Vec::new();
    e.visit(&mut |e| {
        if let Expr::Apply(Primitive::User(id), args) = e {
            calls.push((*id, args.len()));
        }
    });
    for (id, n_args) in &calls {
        check(Function::Value(Primitive::User(*id)), *n_args, users)?;
    }
    Ok(calls.into_iter().map(|(id, _)| id).collect())
}

/// Calls nested and steps taken by the evaluation of a formula, where the costs of all functions it calls are known.
fn steps(e: &Expr, costs: &[(usize, u64)]) -> (usize, u64) {
    let mut total = (0, 0_u64);
    e.visit(&mut |e| {
        total.1 = total.1.saturating_add(1);
        if let Expr::Apply(Primitive::User(id), _) = e {
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
            if let UserValue::Unregistered = user.value {
                return Err(unregistered(&user.name));
            }
            (user.name.as_str().into(), user.arity)
        }
    };
    if n_args != usize::from(arity) {
        return Err(Error::Request(wrong_arity(&name, arity, n_args)));
    }
    match partial {
        Some(k) if k >= arity => {
            Err(Error::Request(format!("`{name}` has {arity} arguments and no derivative by argument {}", u32::from(k) + 1)))
        }
        _ => Ok(()),
    }
}

pub(super) fn wrong_arity(name: &str, arity: u8, n_args: usize) -> String {
    format!("`{name}` takes {arity} argument{} and was given {n_args}", if arity == 1 { "" } else { "s" })
}
