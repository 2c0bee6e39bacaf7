//! The formulas of `fun` declarations: small expressions over the arguments, without tensors.

use super::super::ast::{BinaryOp, Expr, ExprId, Name, UnaryOp};
use super::calls::synonym;
use super::decls::Declarations;
use super::names::Global;
use super::text::{count, noun};
use super::values::constant_named;
use crate::base::{FunctionId, Span};
use crate::error::{Diagnostic, Error};
use crate::scalar::{self, Comparison, Op, Primitive, UserFunction};

/// How many steps a formula may take; each of its nodes takes two.
const MAX_FORMULA_STEPS: usize = 1 << 16;

/// What is left to do for a formula.
enum Step {
    Read(ExprId),
    /// The operands are complete.
    Build(ExprId),
}

impl<'a> Declarations<'a> {
    /// `fun f(a, b) = e with (da, db)`
    pub(super) fn function(&mut self, name: &'a Name, params: &'a [Name], value: ExprId, partials: &'a [ExprId]) {
        let id = FunctionId(self.signature.functions.len() as u32);
        for (at, param) in params.iter().enumerate() {
            if params[..at].iter().any(|other| other.text == param.text) {
                let message = format!("`{}` is an argument of this function already", param.text);
                self.report(Diagnostic::new("duplicate-name", param.span, message));
            }
        }
        let Ok(arity) = u8::try_from(params.len()) else {
            let message = format!("a function takes at most {} arguments, found {}", u8::MAX, params.len());
            self.report(Diagnostic::new("too-large", name.span, message));
            return;
        };
        let partials_count = partials.len();
        let value = self.formula(value, params, None);
        // A derivative may call its function and use its value, `result`.
        let partials: Vec<_> =
            partials.iter().map(|e| self.formula(*e, params, Some((&name.text, id, arity)))).collect();
        let formulas = value.zip(partials.into_iter().collect::<Option<Vec<_>>>());
        let function = formulas.map(|(value, partials)| UserFunction::formula(&name.text, arity, value, partials));
        match function {
            // The caller may register the functions of a program that it reads.
            Some(Ok(function)) if self.is_registered(&function) => {}
            Some(Ok(function)) => {
                if self.name(name, Global::Function(id)) {
                    self.signature.functions.push(function);
                }
            }
            Some(Err(error)) => {
                self.name(name, Global::Error);
                let code = if partials_count == params.len() { "bad-function" } else { "partials-count" };
                self.report(Diagnostic::new(code, name.span, error.to_string()));
            }
            None => {
                self.name(name, Global::Error);
                self.failed = true;
            }
        }
    }

    fn is_registered(&self, function: &UserFunction) -> bool {
        match self.globals.get(function.name()) {
            Some(Global::Function(id)) => self.signature.functions.get(*id) == Some(function),
            _ => false,
        }
    }

    fn formula(&mut self, e: ExprId, params: &[Name], own: Option<(&str, FunctionId, u8)>) -> Option<scalar::Formula> {
        let mut steps = vec![Step::Read(e)];
        let mut done: Vec<scalar::Formula> = Vec::new();
        let mut taken = 0;
        while let Some(step) = steps.pop() {
            taken += 1;
            if taken > MAX_FORMULA_STEPS {
                let message = format!("a scalar function is built in at most {MAX_FORMULA_STEPS} steps");
                self.report(Diagnostic::new("too-large", self.place(e), message));
                return None;
            }
            let (e, result) = match step {
                Step::Read(e) => (e, self.read(e, params, own.is_some(), &mut steps)),
                Step::Build(e) => (e, self.build(e, own, &mut done).map(Some)),
            };
            match result {
                Ok(formula) => done.extend(formula),
                Err(diagnostic) => {
                    self.failed = true;
                    self.diagnostics.extend(diagnostic.map(|d| Diagnostic { span: self.place(e), ..d }));
                    return None;
                }
            }
        }
        done.pop()
    }

    fn place(&self, e: ExprId) -> Span {
        self.source.ast.spans.get(e).copied().unwrap_or_default()
    }

    /// A formula without operands, or else the steps to build it.
    fn read(
        &self,
        e: ExprId,
        params: &[Name],
        in_partial: bool,
        steps: &mut Vec<Step>,
    ) -> Result<Option<scalar::Formula>, Option<Diagnostic>> {
        let refuse = |message: String| Err(Some(Diagnostic::new("bad-function", Span::default(), message)));
        let operands: &[ExprId] = match &self.source.ast.exprs[e] {
            Expr::Number { value, .. } => return Ok(Some(scalar::Formula::Number(*value))),
            Expr::Name(name) => {
                return match params.iter().position(|param| param.text == *name) {
                    // There are at most 255 arguments.
                    Some(at) => Ok(Some(scalar::Formula::Arg(at as u8))),
                    None if name == "result" && in_partial => Ok(Some(scalar::Formula::Result)),
                    None if constant_named(name).is_some() => Ok(constant_named(name).map(scalar::Formula::Number)),
                    None => Err(Some(Diagnostic::new(
                        "unknown-name",
                        Span::default(),
                        format!("a scalar function sees its arguments only, and `{name}` is none of them"),
                    ))),
                };
            }
            Expr::Unary(UnaryOp::Neg, a) => std::slice::from_ref(a),
            Expr::Binary(BinaryOp::MatMul, ..) => {
                return refuse("a scalar function is built from numbers, found a product of matrices".into());
            }
            Expr::Binary(BinaryOp::And | BinaryOp::Or, ..) => {
                return refuse("a scalar function is built from numbers, found a predicate".into());
            }
            Expr::Binary(_, a, b) => &[*a, *b],
            Expr::Call { args, .. } => args,
            Expr::Error => return Err(None),
            other => {
                return refuse(format!(
                    "a scalar function is built from arithmetic and scalar functions, found {}",
                    noun(other)
                ));
            }
        };
        steps.push(Step::Build(e));
        steps.extend(operands.iter().rev().map(|e| Step::Read(*e)));
        Ok(None)
    }

    fn build(
        &self,
        e: ExprId,
        own: Option<(&str, FunctionId, u8)>,
        done: &mut Vec<scalar::Formula>,
    ) -> Result<scalar::Formula, Option<Diagnostic>> {
        let failed = |error: Error| {
            let code = if matches!(error, Error::Limit { .. }) { "too-deep" } else { "bad-function" };
            Some(Diagnostic::new(code, Span::default(), error.to_string()))
        };
        let mut pop = || done.pop().unwrap_or(scalar::Formula::Number(0.0));
        let minus = scalar::Formula::Number(-1.0);
        let apply = |op: Op, args: Vec<scalar::Formula>| scalar::Formula::try_apply(Primitive::Op(op), args);
        let built = match &self.source.ast.exprs[e] {
            Expr::Unary(..) => match pop() {
                scalar::Formula::Number(x) => Ok(scalar::Formula::Number(-x)),
                a => scalar::Formula::try_mul(minus, a),
            },
            Expr::Binary(op, _, exponent) => {
                let (b, a) = (pop(), pop());
                let compare = |c, a, b| apply(Op::Compare(c), vec![a, b]);
                match op {
                    BinaryOp::Add => scalar::Formula::try_add(a, b),
                    BinaryOp::Sub => scalar::Formula::try_mul(minus, b).and_then(|b| scalar::Formula::try_add(a, b)),
                    BinaryOp::Mul => scalar::Formula::try_mul(a, b),
                    BinaryOp::Div => apply(Op::Div, vec![a, b]),
                    BinaryOp::Pow => match self.source.constants.get(exponent.0 as usize).copied().flatten() {
                        Some(k) if i32::try_from(k).is_ok() => apply(Op::Powi(k as i32), vec![a]),
                        _ => apply(Op::Pow, vec![a, b]),
                    },
                    BinaryOp::Less => compare(Comparison::Less, a, b),
                    BinaryOp::LessEqual => compare(Comparison::LessEqual, a, b),
                    BinaryOp::Greater => compare(Comparison::Less, b, a),
                    BinaryOp::GreaterEqual => compare(Comparison::LessEqual, b, a),
                    BinaryOp::NotEqual => compare(Comparison::NotEqual, a, b),
                    _ => compare(Comparison::Equal, a, b),
                }
            }
            Expr::Call { callee, args } => {
                let from = done.len().saturating_sub(args.len());
                let operands = done.split_off(from);
                let name = callee.text.as_str();
                let (primitive, arity) = match (self.globals.get(name), own) {
                    (_, Some((own, id, arity))) if own == name => (Primitive::User(id), usize::from(arity)),
                    (Some(Global::Function(id)), _) => {
                        let arity = self.signature.functions.get(*id).map_or(0, UserFunction::arity);
                        (Primitive::User(*id), usize::from(arity))
                    }
                    _ => match Op::from_name(synonym(name)) {
                        Some(op) => (Primitive::Op(op), usize::from(op.arity())),
                        None => {
                            let message = format!("there is no scalar function `{name}` at this place");
                            return Err(Some(
                                Diagnostic::new("unknown-name", Span::default(), message)
                                    .help("a function may call those declared before it, and not itself"),
                            ));
                        }
                    },
                };
                if arity != operands.len() {
                    let arity = count(arity, "argument", "arguments");
                    let message = format!("`{name}` takes {arity}, found {}", operands.len());
                    return Err(Some(Diagnostic::new("wrong-arity", Span::default(), message)));
                }
                scalar::Formula::try_apply(primitive, operands)
            }
            _ => return Err(None),
        };
        built.map_err(failed)
    }
}
