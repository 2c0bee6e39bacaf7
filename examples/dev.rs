use iverson::driver::*;
use iverson::simplify;
fn main() {
    let mut args = std::env::args().skip(1);
    let file = args.next().unwrap();
    let mode = args.next().unwrap_or("gradient".into());
    let wrt: Vec<String> = args.collect();
    let text = std::fs::read_to_string(&file).unwrap();
    let f = Function::parse(&text).unwrap();
    let all: Vec<String> = f.tensor_ssa().signature.params.values().map(|p| p.name.clone()).collect();
    let wrt: Vec<&str> = if wrt.is_empty() { all.iter().map(|s| s.as_str()).collect() } else { wrt.iter().map(|s| s.as_str()).collect() };
    let g = match mode.as_str() { "primal" => f.clone(), "forward" => f.forward(&wrt).unwrap(), "adjoint" => f.adjoint(&wrt).unwrap(), _ => f.gradient(&wrt).unwrap() };
    let t = std::time::Instant::now();
    let s = simplify::simplify(g.tensor_ssa(), &simplify::Options::default()).unwrap();
    let e = t.elapsed();
    let out = Function::from_tensor_ssa(s.program.clone());
    if std::env::var("TSSA").is_ok() { println!("{}", g.tensor_ssa()); println!("{}", s.program); }
    if let Err(c) = s.program.verify() { println!("INVALID {c:?}"); }
    println!("{}", out.to_string().lines().filter(|l| !l.starts_with("param") && !l.starts_with("assume")).collect::<Vec<_>>().join("\n"));
    println!("-- {} nodes {} classes {} rounds {} matches {:?} {:.1} ms {:?}", s.report.nodes, s.report.classes, s.report.rounds, s.report.matches, s.report.stop, e.as_secs_f64()*1e3, s.report.applied);
}
