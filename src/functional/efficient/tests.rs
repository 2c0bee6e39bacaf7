use super::*;
use crate::functional::lambda::{Builder, TermId, Term};

/// `x * x` and others, over one real.
fn of_real(body: impl FnOnce(&mut Builder, crate::base::VarId) -> Result<TermId>) -> Program {
    let mut b = Builder::new();
    let real = b.types().real();
    let x = b.param("x", real);
    let body = body(&mut b, x).unwrap();
    b.finish(body).unwrap()
}

fn square(b: &mut Builder, x: crate::base::VarId) -> Result<TermId> {
    let (l, r) = (b.var(x), b.var(x));
    b.mul(l, r)
}

/// The cost of the program, and those of its derivative, for arguments 2 and the seed 1.
fn costs(program: &Program) -> (u64, u64, u64, u64) {
    let args = vec![Value::Real(2.0); program.params.len()];
    let (_, counts) = crate::functional::lambda::evaluate(program, &args).unwrap();
    let derivative = differentiate(program, Stage::Array).unwrap();
    let found = derivative.run(&args, &Value::Real(1.0)).unwrap();
    (counts.steps, found.costs.run, found.costs.call, found.costs.monad)
}

#[test]
fn golden_costs() {
    assert_eq!(costs(&of_real(|b, x| Ok(b.var(x)))), (1, 3, 2, 4));
    assert_eq!(costs(&of_real(square)), (4, 25, 39, 8));
    let cube = of_real(|b, x| {
        let y = square(b, x)?;
        b.let_("y", y, |b, y| {
            let (y, x) = (b.var(y), b.var(x));
            b.mul(y, x)
        })
    });
    assert_eq!(costs(&cube), (9, 61, 49, 60));
    let case = of_real(|b, x| {
        let real = b.types().real();
        let arg = b.var(x);
        let sum = b.inl(arg, real)?;
        b.case(
            sum,
            ("a", |b, a| {
                let (a, x) = (b.var(a), b.var(x));
                b.mul(a, x)
            }),
            ("b", |b, y| Ok(b.var(y))),
        )
    });
    assert_eq!(costs(&case), (7, 46, 49, 25));
    let nested = of_real(|b, x| {
        let (x1, x2, x3) = (b.var(x), b.var(x), b.var(x));
        let inner = b.pair(x2, x3)?;
        let pair = b.pair(x1, inner)?;
        b.push(Term::Fst(pair))
    });
    assert_eq!(costs(&nested), (6, 40, 46, 12));
}
