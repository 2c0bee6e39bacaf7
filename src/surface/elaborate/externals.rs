//! Calls of functions of tensors from outside.
//!
//! ```text
//! f(e, ..)  ==  the call of f at the sizes for which its parameters have the types of the arguments
//! ```

use super::super::ast::ExprId;
use super::{Elaborator, Task};
use crate::base::{FunctionId, Span};
use crate::error::Diagnostic;
use crate::index::Size;
use crate::scalar::external::External;
use crate::term::{Term, TermId};
use crate::ty::Types;

impl<'a> Elaborator<'a> {
    /// Whether a function is one of tensors, a call of which begins here then.
    pub(super) fn enter_external(&mut self, at: ExprId, f: FunctionId, args: &[ExprId]) -> bool {
        let Some(function) = self.program.signature.functions.get(f).filter(|f| f.of_tensors().is_some()) else {
            return false;
        };
        let (name, places, span) = (function.name().to_owned(), usize::from(function.arity()), self.span(at));
        if self.takes(&name, places, args.len(), span) {
            self.tasks.push(Task::External(at, f, args.len()));
            self.tasks.extend(args.iter().rev().map(|a| Task::Value(*a)));
        }
        true
    }

    /// The arguments of a call are complete.
    pub(super) fn finish_external(&mut self, at: ExprId, f: FunctionId, n: usize) {
        let args = self.pop_values(n);
        let value = args.into_iter().collect::<Option<Vec<_>>>().and_then(|args| self.external(at, f, args));
        self.values.push(value);
    }

    fn external(&mut self, at: ExprId, f: FunctionId, args: Vec<TermId>) -> Option<TermId> {
        let span = self.span(at);
        let function = self.program.signature.functions.get(f)?;
        let (name, external) = (function.name().to_owned(), function.of_tensors()?.clone());
        let types: Vec<_> = args.iter().map(|arg| self.program.ty(*arg)).collect();
        let dims: Option<Vec<Vec<Size>>> = types.iter().map(|ty| self.program.types.real_dims(*ty)).collect();
        let sizes = match dims {
            Some(dims) => external.sizes_for(&dims, &mut |a, b| self.same_size(a, b)),
            None => Ok(None),
        };
        let sizes = match sizes {
            Ok(Some(sizes)) => sizes,
            Ok(None) => {
                let found: Vec<String> = types.iter().map(|ty| self.show_type(*ty)).collect();
                let message = format!("`{name}` takes {}, found ({})", header(&external), found.join(", "));
                let help = "its sizes are those of the arguments, the same for all of them";
                self.diagnose(Diagnostic::new("wrong-argument", span, message).help(help));
                return None;
            }
            Err(overflow) => {
                self.report("overflow", span, overflow.to_string());
                return None;
            }
        };
        let mut fitting = Vec::with_capacity(args.len());
        for (arg, (_, dims)) in args.into_iter().zip(&external.params) {
            fitting.push(self.argument(arg, dims, &sizes, span)?);
        }
        self.push(Term::Call { function: f, sizes, args: fitting }, span)
    }

    /// An argument with the sizes of the call as they are written there, where they are known to be the same.
    fn argument(&mut self, arg: TermId, dims: &[Size], sizes: &[Size], span: Span) -> Option<TermId> {
        let dims = External::with_sizes(dims, sizes).ok()?;
        let ty = self.program.types.tensor_of(&dims, Types::REAL);
        self.fitted(arg, ty, span)
    }

    /// Reports a function of tensors that is used as a value; gives whether it is one.
    pub(super) fn is_external_value(&mut self, f: FunctionId, at: ExprId) -> bool {
        let Some(function) = self.program.signature.functions.get(f) else { return false };
        let Some(external) = function.of_tensors() else { return false };
        let name = function.name().to_owned();
        let places: Vec<String> = external.params.iter().map(|(param, _)| param.clone()).collect();
        let (span, places) = (self.span(at), places.join(", "));
        let message = format!("`{name}` is a function of tensors from outside, and is called where it stands");
        let help =
            format!("write a function that calls it, `fn {places}. {name}({places})`, each parameter with its type");
        self.diagnose(Diagnostic::new("function-as-value", span, message).help(help));
        true
    }
}

/// What a function takes, as its header says it.
fn header(external: &External) -> String {
    let params = external.parameters().map(|(name, ty)| format!("{name} : {ty}"));
    format!("({})", params.collect::<Vec<_>>().join(", "))
}
