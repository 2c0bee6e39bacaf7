//! The data types of terms, and the builder that types them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::base::{Arena, FunctionId, IndexId, ParamId, SideTable, Span, VarId, work};
use crate::error::{Error, Result};
use crate::index::{Affine, Pred, Size};
use crate::scalar::external::External;
use crate::scalar::{Function, Number};
use crate::ty::{Signature, Type, TypeId, Types};

crate::base::define_id!(
    /// A term of a program.
    TermId,
    "e"
);

/// A term. The typing rule and the meaning of each form stand with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Term {
    /// A number. `real`.
    Number(Number),
    /// A parameter or a `let`-bound variable. The variable's type.
    Var(VarId),
    /// `a + b`. Both `real`, gives `real`.
    Add(TermId, TermId),
    /// `a * b`. Both `real`, gives `real`.
    Mul(TermId, TermId),
    /// `f(a, ..)`. All `real`, gives `real`.
    Apply(Function, Vec<TermId>),
    /// `f(a, ..)`, a function of tensors from outside. What it takes gives what it gives, a tuple where that is several tensors.
    Call {
        /// The function.
        function: FunctionId,
        /// What its sizes are.
        sizes: Vec<Size>,
        /// Its arguments.
        args: Vec<TermId>,
    },
    /// `(a, b)`. `T` and `U` give `(T, U)`.
    Pair(TermId, TermId),
    /// `fst e`. `(T, U)` gives `T`; in pair-eliminated terms `[n] (T, U)` gives `[n] T` as well.
    Fst(TermId),
    /// `snd e`. `(T, U)` gives `U`; in pair-eliminated terms `[n] (T, U)` gives `[n] U` as well.
    Snd(TermId),
    /// `gen index < extent. body`. `T` gives `[extent] T`.
    Gen {
        /// The bound index.
        index: IndexId,
        /// Its range, a size.
        extent: Size,
        /// The elements.
        body: TermId,
    },
    /// `sum index < extent. body`. `real` gives `real`.
    Sum {
        /// The bound index.
        index: IndexId,
        /// Its range, a size.
        extent: Size,
        /// The summands.
        body: TermId,
    },
    /// `array[index]`. `[n] T` gives `T`. One axis at a time; prints as `x[i, j]`.
    Access {
        /// The array.
        array: TermId,
        /// The place, `0 <= index < n` wherever the access is evaluated.
        index: Affine,
    },
    /// `[guard] * body`, a select. `T` gives `T`.
    Iverson {
        /// When the body counts.
        #[serde(with = "super::json::guard")]
        guard: Pred,
        /// The body.
        body: TermId,
    },
    /// `let var = value in body`. `T` and `U` give `U`.
    Let {
        /// The bound variable, of type `T`.
        var: VarId,
        /// Its value.
        value: TermId,
        /// Where it is in scope.
        body: TermId,
    },
    /// `scan index < steps, state = init. body`. `T` and `T` give `[steps + 1] T`: all states, the first one `init`. The body at `index` makes
    /// the state at `index + 1` of that at `index`; where the scan goes `down` it makes the state at `index` of that at `index + 1`, and the last
    /// one is `init`. The last state to be made is `fold index < steps, state = init. body`.
    Scan {
        /// The bound index, in scope in the body.
        index: IndexId,
        /// How many steps there are; none where it is negative.
        steps: Size,
        /// Whether the index runs from the last to the first.
        down: bool,
        /// The state before the step, in scope in the body.
        state: VarId,
        /// The state at the beginning.
        init: TermId,
        /// The state after the step.
        body: TermId,
    },
}

impl Term {
    /// Calls `visit` on the operands in the order in which they are written.
    pub fn for_each_operand(&self, mut visit: impl FnMut(TermId)) {
        match self {
            Term::Number(_) | Term::Var(_) => {}
            Term::Add(a, b) | Term::Mul(a, b) | Term::Pair(a, b) => {
                visit(*a);
                visit(*b);
            }
            Term::Apply(_, args) | Term::Call { args, .. } => args.iter().copied().for_each(visit),
            Term::Fst(e) | Term::Snd(e) => visit(*e),
            Term::Gen { body, .. } | Term::Sum { body, .. } | Term::Iverson { body, .. } => visit(*body),
            Term::Access { array, .. } => visit(*array),
            Term::Let { value: first, body, .. } | Term::Scan { init: first, body, .. } => {
                visit(*first);
                visit(*body);
            }
        }
    }

    /// The same term over other operands.
    pub fn map_operands(&self, mut map: impl FnMut(TermId) -> TermId) -> Term {
        match self {
            Term::Number(_) | Term::Var(_) => self.clone(),
            Term::Add(a, b) => Term::Add(map(*a), map(*b)),
            Term::Mul(a, b) => Term::Mul(map(*a), map(*b)),
            Term::Call { function, sizes, args } => {
                let args = args.iter().map(|a| map(*a)).collect();
                Term::Call { function: *function, sizes: sizes.clone(), args }
            }
            Term::Pair(a, b) => Term::Pair(map(*a), map(*b)),
            Term::Apply(f, args) => Term::Apply(*f, args.iter().map(|a| map(*a)).collect()),
            Term::Fst(e) => Term::Fst(map(*e)),
            Term::Snd(e) => Term::Snd(map(*e)),
            Term::Gen { index, extent, body } => Term::Gen { index: *index, extent: extent.clone(), body: map(*body) },
            Term::Sum { index, extent, body } => Term::Sum { index: *index, extent: extent.clone(), body: map(*body) },
            Term::Access { array, index } => Term::Access { array: map(*array), index: index.clone() },
            Term::Iverson { guard, body } => Term::Iverson { guard: guard.clone(), body: map(*body) },
            Term::Let { var, value, body } => Term::Let { var: *var, value: map(*value), body: map(*body) },
            Term::Scan { index, steps, down, state, init, body } => Term::Scan {
                index: *index,
                steps: steps.clone(),
                down: *down,
                state: *state,
                init: map(*init),
                body: map(*body),
            },
        }
    }
}

/// What a variable is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VariableKind {
    /// A parameter. All parameters are variables, and come first, in order.
    Param(ParamId),
    /// Bound by a `let`, or the state of a scan.
    Let,
}

/// A variable of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// The name it was given, or one made up by a pass; printers make names distinct.
    pub name: String,
    /// Its type, in the types of the program.
    pub ty: TypeId,
    /// What it is.
    pub kind: VariableKind,
}

/// Which constructs a program is known to be free of. Each form includes the ones before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NormalForm {
    /// Anything.
    Surface,
    /// `let`s only at the top: `Le ::= e | let x = e in Le` (paper, section 5.1).
    LetLifted,
    /// Pairs only as projections of parameters and as output tuple (section 5.2).
    PairFree,
    /// Every right-hand side is `gen .. gen e` with `e` scalar (section 5.3).
    GenPushedOut,
}

/// A typed program.
///
/// Made by [`Program::new`] and the `push` functions, which type every term as it is built; [`verify`](Program::verify) checks the
/// rest.
#[derive(Clone, Debug)]
pub struct Program {
    /// What the program takes from outside.
    pub signature: Arc<Signature>,
    /// All types; begins with the types of the signature, so their ids hold here too.
    pub types: Types,
    /// The variables, parameters first.
    pub variables: Arena<VarId, Variable>,
    /// The names of the index variables; printers make names distinct.
    pub indices: Arena<IndexId, String>,
    /// The terms, operands before users.
    pub terms: Arena<TermId, Term>,
    /// The type of each term.
    pub term_types: Arena<TermId, TypeId>,
    /// Where each term stands in the source text, empty where it was made by a pass.
    pub spans: SideTable<TermId, Span>,
    /// The whole program.
    pub root: TermId,
    /// The normal form that it is in.
    pub form: NormalForm,
}

impl Program {
    /// A program without terms; its parameters are variables already.
    pub fn new(signature: Arc<Signature>) -> Self {
        let types = signature.types.clone();
        let variables = signature
            .params
            .iter()
            .map(|(id, param)| Variable { name: param.name.clone(), ty: param.ty, kind: VariableKind::Param(id) })
            .collect();
        Program {
            signature,
            types,
            variables,
            indices: Arena::new(),
            terms: Arena::new(),
            term_types: Arena::new(),
            spans: SideTable::new(0, Span::default()),
            root: TermId(0),
            form: NormalForm::Surface,
        }
    }

    /// A new program over the same signature, types, variables and indices, without terms: what a pass builds its result in.
    pub fn successor(&self, form: NormalForm) -> Self {
        Program {
            signature: self.signature.clone(),
            types: self.types.clone(),
            variables: self.variables.clone(),
            indices: self.indices.clone(),
            terms: Arena::new(),
            term_types: Arena::new(),
            spans: SideTable::new(0, Span::default()),
            root: TermId(0),
            form,
        }
    }

    /// The variable that stands for a parameter.
    pub fn param(&self, id: ParamId) -> VarId {
        VarId(id.0)
    }

    /// A new `let` variable.
    pub fn fresh_var(&mut self, name: impl Into<String>, ty: TypeId) -> VarId {
        self.variables.push(Variable { name: name.into(), ty, kind: VariableKind::Let })
    }

    /// A new index.
    pub fn fresh_index(&mut self, name: impl Into<String>) -> IndexId {
        self.indices.push(name.into())
    }

    /// The type of a term.
    pub fn ty(&self, term: TermId) -> TypeId {
        self.term_types[term]
    }

    /// The type of what a function of tensors gives; nothing where it does not take arguments of these types.
    pub(super) fn type_of_call(&mut self, f: FunctionId, sizes: &[Size], args: &[TypeId]) -> Result<Option<TypeId>> {
        let Some(external) = self.signature.functions.get(f).and_then(|f| f.of_tensors()).cloned() else {
            return Ok(None);
        };
        let mut expected = Vec::with_capacity(args.len());
        for (_, dims) in &external.params {
            expected.push(self.types.tensor_of(&External::with_sizes(dims, sizes)?, Types::REAL));
        }
        if expected != args || sizes.len() != external.sizes.len() {
            return Ok(None);
        }
        let mut ty = None;
        for dims in external.results.iter().rev() {
            let own = self.types.tensor_of(&External::with_sizes(dims, sizes)?, Types::REAL);
            ty = Some(ty.map_or(own, |rest| self.types.pair(own, rest)));
        }
        Ok(ty)
    }

    /// The type that a term over typed operands has.
    ///
    /// # Errors
    /// [`Error::Bug`] if it has none: front ends report ill-typed programs before they build terms.
    pub fn infer(&mut self, term: &Term) -> Result<TypeId> {
        let ill = |what: &str| Error::bug("typing", format!("{what} in {term:?}"));
        let ty = |e: TermId| self.term_types.get(e).copied().ok_or_else(|| ill("an unknown operand"));
        let real = |e: TermId| match ty(e)? {
            Types::REAL => Ok(()),
            _ => Err(ill("a scalar is expected")),
        };
        Ok(match term {
            Term::Number(_) => Types::REAL,
            Term::Var(x) => self.variables.get(*x).ok_or_else(|| ill("an unknown variable"))?.ty,
            Term::Add(a, b) | Term::Mul(a, b) => {
                real(*a)?;
                real(*b)?;
                Types::REAL
            }
            Term::Apply(_, args) => {
                args.iter().try_for_each(|a| real(*a))?;
                Types::REAL
            }
            Term::Call { function, sizes, args } => {
                let args: Vec<TypeId> = args.iter().map(|a| ty(*a)).collect::<Result<_>>()?;
                self.type_of_call(*function, sizes, &args)?.ok_or_else(|| ill("other arguments are expected"))?
            }
            Term::Pair(a, b) => {
                let (a, b) = (ty(*a)?, ty(*b)?);
                self.types.pair(a, b)
            }
            Term::Fst(e) | Term::Snd(e) => {
                let e = ty(*e)?;
                let (dims, element) = self.types.peel(e);
                let Type::Pair(a, b) = *self.types.get(element) else { return Err(ill("a pair is expected")) };
                if !dims.is_empty() && self.form < NormalForm::PairFree {
                    return Err(ill("a pair is expected"));
                }
                let dims: Vec<Size> = dims.into_iter().cloned().collect();
                self.types.tensor_of(&dims, if matches!(term, Term::Fst(_)) { a } else { b })
            }
            Term::Gen { extent, body, .. } => {
                let body = ty(*body)?;
                self.types.tensor(extent.clone(), body)
            }
            Term::Sum { body, .. } => {
                real(*body)?;
                Types::REAL
            }
            Term::Access { array, .. } => match self.types.get(ty(*array)?) {
                Type::Tensor(_, element) => *element,
                _ => return Err(ill("a tensor is expected")),
            },
            Term::Iverson { body, .. } => ty(*body)?,
            Term::Let { var, value, body } => {
                let bound = self.variables.get(*var).ok_or_else(|| ill("an unknown variable"))?.ty;
                if ty(*value)? != bound {
                    return Err(ill("the variable has another type"));
                }
                ty(*body)?
            }
            Term::Scan { steps, state, init, body, .. } => {
                let state = self.variables.get(*state).ok_or_else(|| ill("an unknown variable"))?.ty;
                if ty(*init)? != state || ty(*body)? != state {
                    return Err(ill("the state has another type"));
                }
                let states = steps.add_constant(1)?;
                self.types.tensor(states, state)
            }
        })
    }

    /// Appends a term over operands that are there already.
    ///
    /// # Errors
    /// [`Error::Bug`] if the term has no type.
    pub fn push(&mut self, term: Term) -> Result<TermId> {
        work::charge(16);
        work::check()?;
        let ty = self.infer(&term)?;
        self.term_types.push(ty);
        Ok(self.terms.push(term))
    }

    /// Appends a term that stands somewhere in the source.
    ///
    /// # Errors
    /// As [`Program::push`].
    pub fn push_at(&mut self, term: Term, span: Span) -> Result<TermId> {
        let id = self.push(term)?;
        self.spans.set(id, span);
        Ok(id)
    }

    /// The literal `x`.
    ///
    /// # Errors
    /// As [`Program::push`].
    pub fn literal(&mut self, x: f64) -> Result<TermId> {
        self.push(Term::Number(Number::Literal(x)))
    }

    /// `array[a0, .., ak]`.
    ///
    /// # Errors
    /// As [`Program::push`].
    pub fn access(&mut self, array: TermId, indices: impl IntoIterator<Item = Affine>) -> Result<TermId> {
        indices.into_iter().try_fold(array, |array, index| self.push(Term::Access { array, index }))
    }
}
