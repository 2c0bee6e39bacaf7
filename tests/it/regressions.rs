//! Programs that once went wrong, one file each: they pass every stage down to loops, differentiate, everything printed is read back, and
//! their kernels give what the reference evaluator gives, simplified or not.

use iverson::ir::driver::{Stage, Staged, lower};
use iverson::ir::stages::{Stages, check};
use iverson::ir::surface;
use iverson::{Function, Mode, Request};

use crate::judge::{Expected, Ways};
use crate::kernels::{fitting, judge};
use crate::support::Numbers;

#[test]
fn regressions() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/regressions");
    let files = std::fs::read_dir(folder).expect("the folder is there");
    let mut paths: Vec<_> = files.map(|file| file.expect("the folder can be read").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "iv"));
    paths.sort();
    assert!(!paths.is_empty());
    // No `insta::glob!`: it takes failed snapshots of tests that run beside it for its own.
    for path in &paths {
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
            let simplified = function.simplify().expect("it is simplified");
            check("simplify", simplified.tensor_ssa()).expect("well formed");
            simplified
        };
        let once = simplified(&function);
        assert_eq!(simplified(&once).to_string(), once.to_string());
        surface::read(&once.to_string(), &[]).unwrap_or_else(|error| panic!("{error}\n{once}"));
        let raw = |mode| {
            let request = Request::new(mode, &wrt).raw();
            function.derive(&request).expect("it has a derivative").function
        };
        for source in [&function, &raw(Mode::Forward), &raw(Mode::Adjoint)] {
            let simplified = simplified(source);
            for size in [1, 3, 9] {
                let inputs = fitting(source, size, &mut Numbers::new(size as u64, true));
                let expected = Expected::of(source.tensor_ssa(), &inputs).expect("it is evaluated");
                for (kernel, ways) in [(source, Ways::Raw), (&simplified, Ways::Simplified)] {
                    let judgement = judge(kernel, &expected, &inputs, ways, false);
                    judgement.unwrap_or_else(|complaint| panic!("{}: {complaint}", path.display()));
                }
            }
        }
        for derivative in [function.forward(&wrt), function.adjoint(&wrt)] {
            let derivative = derivative.expect("it has a derivative");
            check("derivative", derivative.tensor_ssa()).expect("well formed");
            derivative.loops(&mut Stages::new()).expect("it lowers");
            let text = derivative.to_string();
            surface::read(&text, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
        }
    }
}
