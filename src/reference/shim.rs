use super::numeric::Users;
use crate::error::Result;
use crate::scalar::{Comparison, Function, Op, Primitive};
use num_complex::Complex64;
pub fn evaluate(f: Function, _users: &Users, a: &[f64]) -> Result<f64> {
    Ok(match (f, a) {
        (Function::Value(Primitive::Op(op)), a) => match (op, a) {
            (Op::Div, [a, b]) => a / b,
            (Op::Powi(k), [a]) => a.powi(k),
            (Op::Ln, [a]) => a.ln(),
            (Op::Exp, [a]) => a.exp(),
            (Op::Compare(Comparison::Less), [a, b]) => f64::from(a < b),
            _ => todo!(),
        },
        _ => todo!(),
    })
}
pub fn complex(f: Function, _users: &Users, a: &[Complex64]) -> Result<Complex64> {
    let _ = (f, a);
    todo!()
}
