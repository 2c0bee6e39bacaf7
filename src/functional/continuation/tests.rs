use super::*;
use crate::error::Result;

#[test]
fn small() -> Result<()> {
    let mut b = Builder::new();
    let (x1, x2, _x3) = (b.param("x1", Type::Real), b.param("x2", Type::Real), b.param("x3", Type::Real));
    let w1 = b.mul(x1, x2)?;
    let w2 = b.mul(w1, x1)?;
    let p = b.finish(w2)?;
    println!("{p}");
    let d = differentiate(&p)?;
    verify("d", &d)?;
    println!("{d}");
    let g = partially_evaluate(&d, Seeds::One, Rules::default())?;
    verify("g", &g)?;
    println!("{g}");
    let g = partially_evaluate(&d, Seeds::Variables, Rules::default())?;
    println!("{g}");
    let g = adjoint(&p, Seeds::One)?;
    println!("{g}");
    let g = partially_evaluate(&g, Seeds::One, Rules::default())?;
    println!("{g}");
    println!("{}", to_lambda(&d)?);
    let mut b = Builder::new();
    let a = b.param("A", Type::array(Type::Real));
    let r = b.reduce(1.0, a, |b, x, y| b.mul(x, y))?;
    let p = b.finish(r)?;
    let d = differentiate(&p)?;
    verify("d", &d)?;
    println!("{d}");
    let g = partially_evaluate(&d, Seeds::Zero, Rules::default())?;
    verify("g", &g)?;
    println!("{g}");
    Ok(())
}
