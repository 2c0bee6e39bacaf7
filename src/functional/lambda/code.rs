//! Where the variables of a program are at run time.
//!
//! A call has a *frame*: its argument, and the values that are bound inside of its body, by depth. A function captures the variables of its body that are
//! bound outside of it, in the order of their first occurrence; so a variable is found in one step, and a function keeps nothing alive that it does not mention.

use rustc_hash::FxHashMap;

use super::data::{Program, Term, TermId};
use crate::base::{Id, VarId};
use crate::error::{Error, Result};

/// The place of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the frame of the call.
    Local(u32),
    /// Among what the function captures.
    Captured(u32),
}

/// The places of the variables of a program.
#[derive(Clone, Debug)]
pub(super) struct Code {
    /// For each term that is a variable.
    places: Vec<Option<Place>>,
    /// What functions capture, as places around them.
    captures: FxHashMap<TermId, Vec<Place>>,
    /// The same, as variables.
    captured_vars: FxHashMap<TermId, Vec<VarId>>,
}

/// The variables that each function captures, in the order of their first occurrence.
///
/// # Errors
/// [`Error::Bug`] for a program that is not verified.
pub fn captured_variables(program: &Program) -> Result<FxHashMap<TermId, Vec<VarId>>> {
    Ok(Code::new(program)?.captured_vars)
}

/// A function, or the program, and the depth in its frame.
#[derive(Clone, Copy)]
struct Scope {
    function: Option<TermId>,
    depth: u32,
}

impl Code {
    /// The code of a verified program.
    pub fn new(program: &Program) -> Result<Code> {
        let mut scopes = vec![Scope { function: None, depth: 0 }; program.terms.len()];
        let mut bound: Vec<Option<Scope>> = vec![None; program.vars.len()];
        for (k, x) in (0u32..).zip(&program.params) {
            bound[x.index()] = Some(Scope { function: None, depth: k });
        }
        if let Some(scope) = scopes.get_mut(program.body.index()) {
            scope.depth = program.params.len() as u32;
        }
        // Users come after operands.
        for (e, term) in program.terms.iter().rev() {
            let outer = match term {
                Term::Fn(..) | Term::Rec(..) => Scope { function: Some(e), depth: 0 },
                _ => scopes[e.index()],
            };
            term.for_each_operand(|operand, binders| {
                let mut inner = outer;
                for x in binders {
                    bound[x.index()] = Some(inner);
                    inner.depth += 1;
                }
                scopes[operand.index()] = inner;
            });
        }
        let mut code = Code {
            places: vec![None; program.terms.len()],
            captures: FxHashMap::default(),
            captured_vars: FxHashMap::default(),
        };
        let mut captured: FxHashMap<(TermId, VarId), u32> = FxHashMap::default();
        for (e, term) in program.terms.iter() {
            match term {
                Term::Var(x) => {
                    let missing = || Error::bug("evaluate", "a variable without a binder");
                    let bound = bound[x.index()].ok_or_else(missing)?;
                    let place = code.find(*x, bound, &scopes, scopes[e.index()].function, &mut captured);
                    code.places[e.index()] = Some(place);
                }
                Term::Fn(..) | Term::Rec(..) => {
                    code.captures.entry(e).or_default();
                    code.captured_vars.entry(e).or_default();
                }
                _ => {}
            }
        }
        Ok(code)
    }

    /// The place of a variable for the body of a function, which captures it where it is bound outside, as do all functions between.
    fn find(
        &mut self,
        x: VarId,
        bound: Scope,
        scopes: &[Scope],
        user: Option<TermId>,
        captured: &mut FxHashMap<(TermId, VarId), u32>,
    ) -> Place {
        let mut place = None;
        // The place in the function around it is not known yet.
        let mut waiting: Option<(TermId, u32)> = None;
        let mut at = user;
        while at != bound.function
            && let Some(function) = at
        {
            let known = captured.get(&(function, x)).copied();
            let list = self.captures.entry(function).or_default();
            let index = known.unwrap_or(list.len() as u32);
            if known.is_none() {
                // Mended by the next round.
                list.push(Place::Local(bound.depth));
                captured.insert((function, x), index);
                self.captured_vars.entry(function).or_default().push(x);
            }
            if let Some((inner, k)) = waiting {
                self.mend(inner, k, Place::Captured(index));
            }
            place.get_or_insert(Place::Captured(index));
            waiting = None;
            if known.is_some() {
                break;
            }
            waiting = Some((function, index));
            at = scopes[function.index()].function;
        }
        if let Some((inner, k)) = waiting {
            self.mend(inner, k, Place::Local(bound.depth));
        }
        place.unwrap_or(Place::Local(bound.depth))
    }

    fn mend(&mut self, function: TermId, k: u32, place: Place) {
        if let Some(slot) = self.captures.get_mut(&function).and_then(|list| list.get_mut(k as usize)) {
            *slot = place;
        }
    }

    /// The place of the variable that a term is.
    pub fn place(&self, e: TermId) -> Option<Place> {
        self.places.get(e.index()).copied().flatten()
    }

    /// What a function captures.
    pub fn captures(&self, function: TermId) -> &[Place] {
        self.captures.get(&function).map_or(&[], Vec::as_slice)
    }
}
