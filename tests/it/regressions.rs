//! Programs that once went wrong, one file each: they pass every stage down to loops, differentiate, and everything printed is read back.

use iverson::driver::{Stage, Staged, lower};
use iverson::stages::{Stages, check};
use iverson::{Function, simplify, surface};

#[test]
fn regressions() {
    insta::glob!("..", "regressions/*.iv", |path| {
        let text = std::fs::read_to_string(path).expect("the file is there");
        let source = surface::read(&text, &[]).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        check("elaborate", &source).expect("well formed");
        let back = surface::read(&source.to_string(), &[]).expect("what is printed is read");
        assert!(back.same(&source), "{source}\n{back}");
        for stage in [Stage::LetLifting, Stage::PairElimination, Stage::GenPushout] {
            if let Staged::Term(staged) = lower(&source, stage, &mut Stages::new()).expect("it lowers") {
                check("lower", &staged).expect("well formed");
                surface::read(&staged.to_string(), &[]).unwrap_or_else(|error| panic!("{error}\n{staged}"));
            }
        }
        let names: Vec<String> = source.signature.params.values().map(|p| p.name.clone()).collect();
        let wrt: Vec<&str> = names.iter().map(String::as_str).collect();
        let function = Function::compile(source, &mut Stages::new()).expect("it compiles");
        function.loops(&mut Stages::new()).expect("it lowers");
        let simplified = |function: &Function| {
            let simplified = function.simplify(&simplify::Options::default()).expect("it is simplified").function;
            check("simplify", simplified.tensor_ssa()).expect("well formed");
            simplified
        };
        let once = simplified(&function);
        assert_eq!(simplified(&once).to_string(), once.to_string());
        for derivative in [function.forward(&wrt), function.adjoint(&wrt)] {
            let derivative = derivative.expect("it has a derivative");
            check("derivative", derivative.tensor_ssa()).expect("well formed");
            derivative.loops(&mut Stages::new()).expect("it lowers");
            let text = derivative.to_string();
            surface::read(&text, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
        }
    });
}
