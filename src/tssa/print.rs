//! Tensor-SSA as text, one statement a line.
//!
//! ```text
//! x   = input x : [n + m - 1]
//! t1  = gen i < n, j < m. sum k < n + m - 1. [i - j + m = k + 1] * x[k]
//! y   = gen i < n. sum j < m. t1[i, j] * w[j]
//! out value = y
//! ```
//!
//! An output of several leaves has its type, `out value : (real, real) = (z, w)`; that of a single one is plain. Given the signature,
//! [`parse`](super::parse()) reads the text back.

use std::fmt;

use rustc_hash::{FxHashMap, FxHashSet};

use super::data::{Operand, Program, Rhs, Stmt};
use crate::base::{Arena, Id, IndexId, RelationId, SizeId, VarId};
use crate::index::print::{Names, write_affine, write_pred};
use crate::index::{Affine, Pred, Size};
use crate::scalar::Number;
use crate::solver::{Count, Piece};
use crate::ty::{Param, Side, Signature, Type, TypeId};

/// Distinct names for the statements of a program.
#[derive(Clone, Debug)]
pub struct StmtNames {
    names: Arena<VarId, String>,
    /// Names that indices must not take.
    taken: FxHashSet<String>,
}

impl StmtNames {
    /// The names suggested, made distinct; `t0`, `t1`, .. where there are none. Statements come as in
    /// [`beside_params`](Self::beside_params): callers know parameters by their names, so nothing else takes these.
    pub(crate) fn new<'a>(signature: &Signature, stmts: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> Self {
        let stmts: Vec<_> = stmts.collect();
        let params = stmts.iter().filter_map(|(_, param)| param.map(str::to_owned));
        let mut taken: FxHashSet<String> = signature.sizes.values().cloned().chain(params).collect();
        let mut used: FxHashMap<String, usize> = FxHashMap::default();
        let mut names = Arena::new();
        for (at, (suggested, param)) in stmts.into_iter().enumerate() {
            if let Some(param) = param {
                names.push(param.to_owned());
                continue;
            }
            let base = if suggested.is_empty() { format!("t{at}") } else { suggested.to_owned() };
            let count = used.entry(base.clone()).or_insert(0);
            let mut candidate = if *count == 0 { base.clone() } else { format!("{base}_{}", *count + 1) };
            while taken.contains(&candidate) {
                *count += 1;
                candidate = format!("{base}_{}", *count + 1);
            }
            *count += 1;
            taken.insert(candidate.clone());
            names.push(candidate);
        }
        StmtNames { names, taken }
    }

    /// The same beside the names of parameters, relations and functions, which no other statement takes. Statements come as suggested
    /// names, and with the name of the parameter where they are one.
    pub(crate) fn beside_params<'a>(
        signature: &Signature,
        stmts: impl Iterator<Item = (&'a str, Option<&'a str>)>,
    ) -> Self {
        let params = signature.params.values().map(|p| p.name.clone());
        let relations = signature.relations.values().map(|r| r.name.clone());
        let functions = signature.functions.values().map(|f| f.name().to_owned());
        let sizes = signature.sizes.values().cloned();
        let taken = params.chain(relations).chain(functions).chain(sizes).collect();
        let mut names = StmtNames { names: Arena::new(), taken };
        for (at, (suggested, param)) in stmts.enumerate() {
            let name = match (param, suggested) {
                (Some(param), _) => param.to_owned(),
                (None, "") => names.reserve([format!("t{at}")]),
                (None, suggested) => names.reserve([suggested.to_owned()]),
            };
            names.names.push(name);
        }
        names
    }

    /// The first of some names that is free, or the last with a number; it is taken from then on.
    pub(crate) fn reserve<const N: usize>(&mut self, names: [String; N]) -> String {
        let last = names.last().cloned().unwrap_or_default();
        let numbered = (2..).map(|k: usize| format!("{last}_{k}"));
        let name = names.into_iter().chain(numbered).find(|name| !self.taken.contains(name)).unwrap_or(last);
        self.taken.insert(name.clone());
        name
    }

    /// The name of a statement.
    pub fn get(&self, x: VarId) -> String {
        self.names.get(x).cloned().unwrap_or_else(|| x.to_string())
    }
}

/// The names inside one statement: its indices by number.
struct Scope<'a> {
    signature: &'a Signature,
    stmts: &'a StmtNames,
}

/// The name of the index of a number: `i`, `j`, .. without those that are taken.
fn index_name(number: usize, taken: &FxHashSet<String>) -> String {
    const LETTERS: [&str; 12] = ["i", "j", "k", "l", "a", "b", "c", "d", "p", "q", "u", "v"];
    let free = LETTERS.iter().filter(|letter| !taken.contains(**letter)).count();
    let letters = LETTERS.iter().filter(|letter| !taken.contains(**letter));
    match letters.clone().nth(number) {
        Some(letter) => (*letter).to_owned(),
        None => {
            let mut name = format!("i{}", number - free + 1);
            while taken.contains(&name) {
                name.push('_');
            }
            name
        }
    }
}

impl Names for Scope<'_> {
    fn index(&self, i: IndexId) -> String {
        index_name(i.index(), &self.stmts.taken)
    }
    fn size(&self, n: SizeId) -> String {
        self.signature.sizes.get(n).cloned().unwrap_or_else(|| n.to_string())
    }
    fn relation(&self, r: RelationId) -> String {
        self.signature.relations.get(r).map_or_else(|| r.to_string(), |r| r.name.clone())
    }
    fn var(&self, x: VarId) -> String {
        self.stmts.get(x)
    }
}

impl Scope<'_> {
    fn binders(&self, f: &mut dyn fmt::Write, word: &str, first: usize, ranges: &[Size]) -> fmt::Result {
        for (at, n) in ranges.iter().enumerate() {
            f.write_str(if at == 0 { word } else { "," })?;
            write!(f, " {} < ", self.index(IndexId::from_index(first + at)))?;
            write_affine(f, n, self)?;
        }
        f.write_str(if ranges.is_empty() { "" } else { ". " })
    }

    fn guarded(&self, f: &mut dyn fmt::Write, guard: &Pred) -> fmt::Result {
        if guard.is_true() {
            return Ok(());
        }
        f.write_str("[")?;
        write_pred(f, guard, 0, self)?;
        f.write_str("] * ")
    }

    fn operand(&self, x: &Operand) -> String {
        let indices: Vec<String> = x.indices.iter().map(|i| self.index(*i)).collect();
        self.read(x.var, &indices)
    }

    fn read(&self, x: VarId, indices: &[String]) -> String {
        let name = self.stmts.get(x);
        if indices.is_empty() { name } else { format!("{name}[{}]", indices.join(", ")) }
    }

    fn rhs(&self, f: &mut dyn fmt::Write, stmt: &Stmt) -> fmt::Result {
        let gens: Vec<String> = (0..stmt.dims.len()).map(|i| self.index(IndexId::from_index(i))).collect();
        match &stmt.rhs {
            Rhs::Input { param, path } => {
                f.write_str("input ")?;
                for side in path.iter().rev() {
                    f.write_str(if *side == Side::Fst { "fst " } else { "snd " })?;
                }
                let name = self.signature.params.get(*param).map_or("?", |p| p.name.as_str());
                write!(f, "{name} : {}", self.dims(&stmt.dims))
            }
            Rhs::Number(number) => {
                self.binders(f, "gen", 0, &stmt.dims)?;
                match number {
                    Number::Literal(x) => write!(f, "{x:?}"),
                    Number::Index(a) => {
                        f.write_str("real(")?;
                        write_affine(f, a, self)?;
                        f.write_str(")")
                    }
                }
            }
            Rhs::Add(sides) => {
                self.binders(f, "gen", 0, &stmt.dims)?;
                for (at, (guard, x)) in sides.iter().enumerate() {
                    f.write_str(if at == 0 { "" } else { " + " })?;
                    self.guarded(f, guard)?;
                    f.write_str(&self.read(*x, &gens))?;
                }
                Ok(())
            }
            Rhs::Map { guard, function, args } => {
                self.binders(f, "gen", 0, &stmt.dims)?;
                self.guarded(f, guard)?;
                let args: Vec<String> = args.iter().map(|x| self.read(*x, &gens)).collect();
                f.write_str(&self.signature.function_text(*function, &args))
            }
            Rhs::Contract { sums, guard, operands } => {
                self.binders(f, "gen", 0, &stmt.dims)?;
                self.binders(f, "sum", stmt.dims.len(), sums)?;
                self.guarded(f, guard)?;
                let operands: Vec<String> = operands.iter().map(|x| self.operand(x)).collect();
                f.write_str(&operands.join(" * "))
            }
        }
    }

    fn dims(&self, dims: &[Size]) -> String {
        let dims: Vec<String> = dims.iter().map(|n| self.affine(n)).collect();
        if dims.is_empty() { "real".to_owned() } else { format!("[{}] real", dims.join(", ")) }
    }

    /// `[n] (real, [m] real)`
    fn ty(&self, ty: TypeId) -> String {
        enum Piece {
            Type(TypeId),
            Text(&'static str),
        }
        let types = &self.signature.types;
        let mut text = String::new();
        let mut pieces = vec![Piece::Type(ty)];
        while let Some(piece) = pieces.pop() {
            match piece {
                Piece::Text(piece) => text.push_str(piece),
                Piece::Type(ty) if !types.contains(ty) => text.push('?'),
                Piece::Type(ty) => match types.get(ty) {
                    Type::Real => text.push_str("real"),
                    Type::Pair(a, b) => {
                        text.push('(');
                        pieces.extend([Piece::Text(")"), Piece::Type(*b), Piece::Text(", "), Piece::Type(*a)]);
                    }
                    Type::Tensor(..) => {
                        let (dims, element) = types.peel(ty);
                        let dims: Vec<String> = dims.into_iter().map(|n| self.affine(n)).collect();
                        text.push_str(&format!("[{}] ", dims.join(", ")));
                        pieces.push(Piece::Type(element));
                    }
                },
            }
        }
        text
    }

    fn affine(&self, a: &Affine) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = write_affine(&mut text, a, self);
        text
    }
}

/// The right-hand side of a statement, with the names of its program.
pub(crate) fn rhs_text(signature: &Signature, names: &StmtNames, stmt: &Stmt) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = Scope { signature, stmts: names }.rhs(&mut text, stmt);
    text
}

/// The type of a parameter, with the pattern of a sparse one.
pub(crate) fn type_text(signature: &Signature, names: &StmtNames, param: &Param) -> String {
    let scope = Scope { signature, stmts: names };
    let ty = scope.ty(param.ty);
    match param.storage.pattern() {
        None => ty,
        Some(r) => format!("{ty} on {}", scope.relation(r)),
    }
}

/// A guard over the axes of a tensor, whose indices are numbered in order.
pub(crate) fn guard_text(signature: &Signature, names: &StmtNames, guard: &Pred) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_pred(&mut text, guard, 0, &Scope { signature, stmts: names });
    text
}

/// The pieces of a count, each with its sign.
pub(crate) fn count_text(signature: &Signature, names: &StmtNames, count: &Count) -> Vec<String> {
    let scope = Scope { signature, stmts: names };
    let piece = |(at, piece): (usize, Piece<'_>)| {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = piece.write(&mut text, at == 0, &scope);
        text
    };
    count.pieces().enumerate().map(piece).collect()
}

impl Program {
    /// Distinct names for the statements. A parameter that was given its own name keeps it, whatever else has the name.
    pub fn stmt_names(&self) -> StmtNames {
        let param = |x: VarId, suggested: &str| {
            let Rhs::Input { param, path } = &self.stmts.get(x)?.rhs else { return None };
            let own = self.signature.params.get(*param)?.name.as_str();
            (path.is_empty() && suggested == own).then_some(own)
        };
        StmtNames::new(&self.signature, self.names.iter().map(|(x, name)| (name.as_str(), param(x, name))))
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.stmt_names();
        let scope = Scope { signature: &self.signature, stmts: &names };
        for (x, stmt) in self.stmts.iter() {
            write!(f, "{} = ", names.get(x))?;
            scope.rhs(f, stmt)?;
            writeln!(f)?;
        }
        for output in &self.outputs {
            let leaves: Vec<String> = output.leaves.iter().map(|x| names.get(*x)).collect();
            write!(f, "out {}", output.name)?;
            if let Some(r) = output.storage.pattern() {
                write!(f, " on {}", scope.relation(r))?;
            }
            match leaves.as_slice() {
                [one] => writeln!(f, " = {one}")?,
                several => writeln!(f, " : {} = ({})", scope.ty(output.ty), several.join(", "))?,
            }
        }
        Ok(())
    }
}
