use iverson::*; use iverson::stages::Stages; use iverson::driver::*;
fn main(){ let text=std::fs::read_to_string(std::env::args().nth(1).unwrap()).unwrap();
 let wrt=std::env::args().nth(2).unwrap();
 let p=surface::read(&text,&[]).unwrap_or_else(|e|panic!("{e}"));
 println!("{}", p);
 let f=Function::compile(p,&mut Stages::observed(|n,p| println!("== {n}\n{p}"))).unwrap_or_else(|e|panic!("{e}"));
 let mut r=Request::new(Mode::Adjoint,&wrt.split(',').collect::<Vec<_>>()); r.derivation=true; 
 let d=f.derive(&r,&mut Stages::observed(|n,p| println!("== {n}\n{p}"))).unwrap_or_else(|e|panic!("{e}"));
 println!("{}", d.derivation.unwrap());
}
