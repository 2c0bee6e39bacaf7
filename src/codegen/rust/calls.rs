//! Calls of code from outside.

use super::{Copy, Emitter};
use crate::base::FunctionId;
use crate::error::Result;
use crate::index::Affine;
use crate::loops::{Place, Run};
use crate::scalar::{Function, Primitive};

impl Emitter<'_> {
    /// A call that is given some tensors, and fills others behind them.
    pub(super) fn call<'r>(&mut self, function: FunctionId, runs: impl Iterator<Item = &'r Run>) -> Result<()> {
        let number = self.number(Function::Value(Primitive::User(function)));
        let mut words = Vec::new();
        for run in runs {
            self.words(run, &mut words)?;
        }
        let words = words.join(", ");
        self.line(&format!("(call.callback)(call.host, {number}, [{words}].as_ptr().cast());"));
        Ok(())
    }

    /// What the code from outside is told of a tensor: where it begins, and how long its axes are.
    fn words(&self, run: &Run, words: &mut Vec<String>) -> Result<()> {
        let single = Copy::default();
        let rest = run.shape.iter().map(|_| Affine::constant(0));
        let at = run.place.at.iter().cloned().chain(rest).collect();
        let place = Place { buffer: run.place.buffer, at };
        let ending = if self.is_target(&place) { "" } else { ".as_ptr()" };
        let (buffer, offset) = (self.buffer(&place), self.offset(&place, single)?);
        words.push(format!("{buffer}{ending}.wrapping_offset(({offset}) as isize) as usize as u64"));
        for n in &run.shape {
            words.push(format!("({}).max(0) as u64", self.affine(n, single)?));
        }
        Ok(())
    }
}
