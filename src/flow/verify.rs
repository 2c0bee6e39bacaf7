//! Checks all that a flow promises.
//!
//! - *Frame*: it has what the flow takes from outside, as it stands there, and more sizes and types behind.
//! - *Scope*: each value is given once; what is read was given before, in the block or in one around it; the states of a scan are in scope in its
//!   body, its paths behind it. The scans of a loop index have one number of steps, and none is in another.
//! - *Leaves*: the program of a leaf is well formed; its signature is the one of [`Program::leaf_signature`] but for types that are its own and sizes
//!   that came later; its outputs are the values it gives.
//! - *Calls*: of a function of tensors; what is taken and given is dense, of the axes that the function has behind those of the call.
//! - *Early ends*: the number of steps of a loop that ends early and goes up may be a size that it alone finds out, if no loop is around, which is
//!   known behind it; the number of changes is a number that its body gives.
//! - *Fixpoints*: they have one step, which does not mention the index.
//! - *Types*: the first state, those before and after a step and the last one have one type `T` and dense storage, the path has `[steps + 1] T`.

use std::collections::{BTreeMap, BTreeSet};

use super::data::{Call, Leaf, Loops, Output, Program, Scan, Stmt, ValueId};
use crate::base::{Id, SizeId};
use crate::index::{Affine, Size, Var};
use crate::scalar::external::External;
use crate::ty::{Storage, Type, Types};

impl Program {
    /// Checks every invariant; the list is in the module's documentation.
    ///
    /// # Errors
    /// All violations, in words.
    pub fn verify(&self) -> Result<(), Vec<String>> {
        let mut check = Check {
            program: self,
            given: BTreeSet::new(),
            indices: BTreeMap::new(),
            found: BTreeSet::new(),
            complaints: Vec::new(),
        };
        check.frame();
        if check.complaints.is_empty() {
            let mut scope = BTreeSet::new();
            check.block(&self.body, &mut scope, &mut Vec::new());
            for Output { name, ty, values } in &self.outputs {
                if !values.iter().all(|x| scope.contains(x)) {
                    check.complain(format!("the output `{name}` is not in scope"));
                }
                let dims = |x: &ValueId| self.values.get(*x).and_then(|value| self.frame.types.real_dims(value.ty));
                let known = self.frame.types.contains(*ty).then(|| self.frame.types.leaves(*ty).ok()).flatten();
                let Some(leaves) = known else {
                    check.complain(format!("the output `{name}` has an unknown type"));
                    continue;
                };
                if !leaves.into_iter().map(|leaf| Some(leaf.dims)).eq(values.iter().map(dims)) {
                    check.complain(format!("the output `{name}` has other leaves"));
                }
            }
        }
        if check.complaints.is_empty() { Ok(()) } else { Err(check.complaints) }
    }
}

struct Check<'a> {
    program: &'a Program,
    given: BTreeSet<ValueId>,
    indices: BTreeMap<SizeId, Size>,
    /// The numbers of steps that loops have found out.
    found: BTreeSet<SizeId>,
    complaints: Vec<String>,
}

impl Check<'_> {
    fn complain(&mut self, message: impl Into<String>) {
        self.complaints.push(message.into());
    }

    fn frame(&mut self) {
        let (outer, frame) = (&self.program.signature, &self.program.frame);
        let begins = |same: bool, what: &str| (!same).then(|| format!("the frame has other {what}"));
        let found = [
            begins(outer.params == frame.params, "parameters"),
            begins(outer.relations == frame.relations, "relations"),
            begins(outer.assumptions == frame.assumptions, "assumptions"),
            begins(outer.functions == frame.functions, "functions"),
            begins(frame.sizes.values().zip(outer.sizes.values()).all(|(a, b)| a == b), "sizes"),
            begins(frame.types.iter().zip(outer.types.iter()).all(|(a, b)| a == b), "types"),
        ];
        self.complaints.extend(found.into_iter().flatten());
        for (x, value) in self.program.values.iter() {
            if !frame.types.contains(value.ty) || frame.types.real_dims(value.ty).is_none() {
                self.complain(format!("{x} is no tensor of reals"));
            }
        }
    }

    /// A block: its values come into scope. Scans nest to a bounded depth.
    fn block(&mut self, body: &[Stmt], scope: &mut BTreeSet<ValueId>, loops: &mut Loops) {
        for stmt in body {
            match stmt {
                Stmt::Leaf(leaf) => self.leaf(leaf, scope, loops),
                Stmt::Scan(scan) => self.scan(scan, scope, loops),
                Stmt::Call(call) => self.call(call, scope),
            }
        }
    }

    fn give(&mut self, x: ValueId, scope: &mut BTreeSet<ValueId>) {
        if self.program.values.get(x).is_none() {
            self.complain(format!("the value {x} is unknown"));
        }
        if !self.given.insert(x) {
            self.complain(format!("{x} is given twice"));
        }
        scope.insert(x);
    }

    fn read(&mut self, x: ValueId, scope: &BTreeSet<ValueId>) {
        if !scope.contains(&x) {
            self.complain(format!("{x} is not in scope"));
        }
    }

    fn leaf(&mut self, leaf: &Leaf, scope: &mut BTreeSet<ValueId>, loops: &Loops) {
        leaf.takes.iter().for_each(|x| self.read(*x, scope));
        if let Err(violations) = leaf.program.verify() {
            self.complaints.extend(violations);
        }
        if leaf.takes.iter().any(|x| self.program.values.get(*x).is_none()) {
            return self.complain("a leaf takes an unknown value");
        }
        match self.program.leaf_signature(loops, &leaf.takes) {
            Err(error) => self.complain(error.to_string()),
            Ok(expected) => {
                let found = &leaf.program.signature;
                let params = found.params.values().map(|p| (p.ty, p.storage));
                let same = params.eq(expected.params.values().map(|p| (p.ty, p.storage)))
                    && found.relations == expected.relations
                    && found.assumptions == expected.assumptions
                    && found.functions == expected.functions
                    && found.sizes.len() <= expected.sizes.len();
                if !same {
                    self.complain("a leaf has another signature");
                }
            }
        }
        if leaf.gives.len() != leaf.program.outputs.len() {
            self.complain("a leaf does not give its outputs");
        }
        for (x, output) in leaf.gives.iter().zip(&leaf.program.outputs) {
            if self.program.values.get(*x).is_some_and(|value| value.ty != output.ty || value.storage != output.storage)
            {
                self.complain(format!("{x} has another type than the output `{}`", output.name));
            }
        }
        leaf.gives.iter().for_each(|x| self.give(*x, scope));
    }

    fn call(&mut self, call: &Call, scope: &mut BTreeSet<ValueId>) {
        call.reads().for_each(|x| self.read(x, scope));
        let function = self.program.signature.functions.get(call.function).and_then(|f| f.of_tensors());
        let Some(external) = function.filter(|external| external.sizes.len() == call.sizes.len()) else {
            return self.complain("a call of what is no function of tensors");
        };
        let expected = |dims: &[Size]| {
            let own = External::with_sizes(dims, &call.sizes).ok()?;
            Some(call.axes.iter().cloned().chain(own).collect::<Vec<_>>())
        };
        let found = |x: &ValueId| {
            let value = self.program.values.get(*x).filter(|value| value.storage == Storage::Dense)?;
            self.program.frame.types.real_dims(value.ty)
        };
        let takes = external.params.iter().map(|(_, dims)| expected(dims)).eq(call.takes.iter().map(found));
        let gives = external.results.iter().map(|dims| expected(dims)).eq(call.gives.iter().map(found));
        let when = call.when.as_ref().is_none_or(|x| found(x).as_ref() == Some(&call.axes));
        if !takes || !gives || !when {
            self.complain("a call takes or gives other tensors than its function");
        }
        call.gives.iter().for_each(|x| self.give(*x, scope));
    }

    fn scan(&mut self, scan: &Scan, scope: &mut BTreeSet<ValueId>, loops: &mut Loops) {
        let Scan { index, steps, states, body, .. } = scan;
        let inner = self.program.signature.sizes.len() <= index.index();
        let around = loops.iter().any(|(other, _)| other == index);
        let other = self.indices.insert(*index, steps.clone()).is_some_and(|other| other != *steps);
        if !inner || self.program.frame.sizes.get(*index).is_none() || around || other {
            self.complain(format!("{index} is no index of this scan"));
        }
        // What a loop finds out is known behind it.
        let outer = steps.replace(&mut |v| {
            Ok(match v {
                Var::Size(n) if self.found.contains(n) => Some(Affine::constant(0)),
                _ => None,
            })
        });
        let early = scan.early.as_ref();
        let size = early.map_or(outer.as_ref().unwrap_or(steps), |early| &early.most);
        if let Err(message) = self.program.signature.check_size(size) {
            self.complain(format!("the number of steps: {message}"));
        }
        let is_own = |n: SizeId| inner && n != *index && self.program.frame.sizes.get(n).is_some();
        let finds = early.filter(|early| early.most != *steps);
        if let Some(most) = &scan.implicit {
            let one = *steps == Size::constant(1) && !scan.down && early.is_none();
            if !one || body.iter().any(|stmt| stmt.mentions(*index)) || self.program.signature.check_size(most).is_err()
            {
                self.complain(format!("{index} is no index of a fixpoint"));
            }
        }
        if finds.is_some() && (!loops.is_empty() || scan.down || !steps.as_size().is_some_and(is_own)) {
            self.complain(format!("{index} is no index of a loop that finds out how many steps there are"));
        }
        states.iter().for_each(|state| self.read(state.init, scope));
        states.iter().for_each(|state| self.give(state.before, scope));
        loops.push((*index, steps.clone()));
        self.block(body, scope, loops);
        loops.pop();
        states.iter().for_each(|state| self.read(state.after, scope));
        if let Some(early) = early {
            self.read(early.changes, scope);
            let value = self.program.values.get(early.changes);
            if value.is_none_or(|value| value.ty != Types::REAL || value.storage != Storage::Dense) {
                self.complain("the number of changes is no number");
            }
            self.found.extend(finds.and_then(|_| steps.as_size()));
        }
        let values = &self.program.values;
        for state in states {
            let found = [state.init, state.before, state.after, state.last]
                .map(|x| values.get(x).map(|value| (value.ty, value.storage)));
            let Some((ty, Storage::Dense)) = found[0] else {
                self.complain("a state is not dense");
                continue;
            };
            if found.iter().any(|other| *other != found[0]) {
                self.complain(format!("{} has another type after a step", state.before));
            }
            let path = values.get(state.path).map(|path| self.program.frame.types.get(path.ty));
            let states = steps.add_constant(1).ok();
            if !matches!(path, Some(Type::Tensor(n, element)) if Some(n) == states.as_ref() && *element == ty) {
                self.complain(format!("{} is no path of {}", state.path, state.before));
            }
        }
        // What the body gave is in scope no more.
        for x in states.iter().map(|state| state.before).chain(body.iter().flat_map(Stmt::gives)) {
            scope.remove(&x);
        }
        for state in states {
            self.give(state.path, scope);
            self.give(state.last, scope);
        }
    }
}
