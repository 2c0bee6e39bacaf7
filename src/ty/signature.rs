//! What a program takes from outside: sizes, parameters, relations, assumptions, scalar functions.

use serde::{Deserialize, Serialize};

use super::{Type, TypeId, Types};
use crate::base::{Arena, Format, FunctionId, ParamId, RelationId, SizeId};
use crate::index::{Affine, Pred, RelationRef, Size, Var, View};
use crate::scalar::names::builtin;
use crate::scalar::{self, Function, Op, Primitive, UserFunction, UserValue};
use crate::solver::{Facts, Relations};

/// The signature of a program, shared by all its stages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Signature {
    /// The types of the parameters, and of whatever the program needed when the signature was made.
    pub types: Types,
    /// The names of the size variables. A size variable is never negative.
    pub sizes: Arena<SizeId, String>,
    /// The parameters, in the order of their declaration.
    pub params: Arena<ParamId, Param>,
    /// The relations: declared ones, maps, and the patterns of sparse parameters. A program that is to be lowered has projections of these, too.
    pub relations: Arena<RelationId, Relation>,
    /// What may be taken for granted of the sizes; checked when sizes are bound to data.
    pub assumptions: Vec<Pred>,
    /// The scalar functions that the user registered.
    pub functions: Arena<FunctionId, UserFunction>,
}

/// A tensor that the program is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Its type, in the types of the signature.
    pub ty: TypeId,
    /// How it is stored.
    pub storage: Storage,
}

/// How a parameter is stored. A sparse parameter `A` is a tensor of reals and brings its pattern `A?`;
/// `A[i, j]` in a program means `[A?(i, j)] * A.value(i, j)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Storage {
    /// Every element.
    Dense,
    /// The entries of a pattern, in a format of sparse tensors.
    Sparse(Format, RelationId),
}

impl Storage {
    /// The relation that holds where an element is stored, nothing for dense storage.
    pub fn pattern(self) -> Option<RelationId> {
        match self {
            Storage::Dense => None,
            Storage::Sparse(_, pattern) => Some(pattern),
        }
    }

    /// The format of sparse tensors, nothing for dense storage.
    pub fn format(self) -> Option<Format> {
        match self {
            Storage::Dense => None,
            Storage::Sparse(format, _) => Some(format),
        }
    }

    /// What it is called in programs.
    pub fn name(self) -> &'static str {
        self.format().map_or("dense", Format::name)
    }

    /// The same storage on another pattern.
    #[must_use]
    pub fn on(self, pattern: RelationId) -> Storage {
        match self {
            Storage::Dense => Storage::Dense,
            Storage::Sparse(format, _) => Storage::Sparse(format, pattern),
        }
    }

    /// Sparse storage of a tensor that a program computes: matrices row by row, others as coordinates.
    pub(crate) fn computed(rank: usize, pattern: RelationId) -> Storage {
        Storage::Sparse(if Format::Csr.stores(rank) { Format::Csr } else { Format::Coo }, pattern)
    }

    /// Where the element at a place is stored: everywhere for dense storage.
    pub fn stored_at(self, place: &[Affine]) -> Pred {
        match self.pattern() {
            Some(pattern) => Pred::relation(RelationRef::Input(pattern), place.to_vec()),
            None => Pred::True,
        }
    }
}

/// A set of index tuples that the program is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relation {
    /// Its name; the pattern of the parameter `A` is called `A?`.
    pub name: String,
    /// The ranges of its places. A tuple outside is not in the relation.
    pub shape: Vec<Size>,
    /// What is known of it.
    pub kind: RelationKind,
}

/// What is known of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RelationKind {
    /// Nothing.
    Free,
    /// The last place is a function of the others: `map cam : [p] -> [c]` has the shape `[p, c]`.
    Map,
    /// It is the pattern of a sparse parameter.
    Pattern(ParamId),
    /// It has the tuples of another relation, which comes before it, on some of its axes, in their order: axis `k` where bit `k` is set. They are found
    /// out when relations are bound.
    Projection(RelationId, u64),
}

impl RelationKind {
    /// The word that declares it; a pattern is declared with its parameter, and a projection not at all.
    pub fn keyword(self) -> Option<&'static str> {
        match self {
            RelationKind::Free => Some("rel"),
            RelationKind::Map => Some("map"),
            RelationKind::Pattern(_) | RelationKind::Projection(..) => None,
        }
    }

    /// Whether it is given by its own name.
    pub fn is_given(self) -> bool {
        self.keyword().is_some()
    }

    /// The relation of which it is a projection, and its axes there.
    pub fn projection(self) -> Option<(RelationId, impl Iterator<Item = usize>)> {
        match self {
            RelationKind::Projection(of, axes) => Some((of, (0..64).filter(move |k| axes >> k & 1 == 1))),
            RelationKind::Free | RelationKind::Map | RelationKind::Pattern(_) => None,
        }
    }
}

impl Signature {
    /// The sparse parameter of which a relation is the pattern; nothing for other relations.
    pub fn pattern_owner(&self, relation: RelationId) -> Option<&Param> {
        match self.relations.get(relation)?.kind {
            RelationKind::Pattern(param) => self.params.get(param),
            RelationKind::Free | RelationKind::Map | RelationKind::Projection(..) => None,
        }
    }

    /// The format of the sparse parameter of which a relation is the pattern; nothing for other relations.
    pub fn format_on(&self, relation: RelationId) -> Option<Format> {
        self.pattern_owner(relation)?.storage.format()
    }

    /// The relation of which another one is a projection, and its axes there.
    pub fn projection(&self, relation: RelationId) -> Option<(RelationId, Vec<usize>)> {
        let (of, axes) = self.relations.get(relation)?.kind.projection()?;
        Some((of, axes.collect()))
    }

    /// The projections of a relation, and their axes there.
    pub fn projections_of(&self, relation: RelationId) -> impl Iterator<Item = (RelationId, Vec<usize>)> {
        let own = self.relations.ids().filter_map(|id| Some((id, self.projection(id)?)));
        own.filter(move |(_, (of, _))| *of == relation).map(|(id, (_, axes))| (id, axes))
    }

    /// The axes of a relation by which its entries are numbered, the most significant first: those of the format of a pattern, and the
    /// lexicographic order of other relations.
    pub fn stored_order(&self, relation: RelationId) -> Vec<usize> {
        let rank = self.relations.get(relation).map_or(0, |relation| relation.shape.len());
        self.format_on(relation).unwrap_or(Format::Coo).order(rank)
    }

    /// Checks that everything named is there: ids, sizes, patterns of sparse parameters, sources of maps, formulas of functions.
    ///
    /// # Errors
    /// The first thing wrong, in words.
    pub fn verify(&self) -> Result<(), String> {
        check(self)
    }

    /// Checks that a size is made of the size variables of the signature.
    ///
    /// # Errors
    /// What else occurs, in words.
    pub fn check_size(&self, n: &Size) -> Result<(), String> {
        for (v, _) in n.terms() {
            match v {
                Var::Size(SizeId(at)) if (*at as usize) < self.sizes.len() => {}
                Var::Size(unknown) => return Err(format!("the size {unknown} is unknown")),
                Var::Index(_) | Var::Apply(_) => return Err("an extent is not a size".to_owned()),
            }
        }
        Ok(())
    }

    /// The parameter of a name.
    pub fn param(&self, name: &str) -> Option<ParamId> {
        self.params.iter().find(|(_, param)| param.name == name).map(|(id, _)| id)
    }

    /// Whether a relation has one target for each source, or none: a map, or the places of extrema.
    pub fn gives_targets(&self, relation: RelationRef) -> bool {
        match relation {
            RelationRef::Input(_) => self.is_map(relation),
            RelationRef::Computed { view, .. } => view != View::Support,
        }
    }

    /// The scalar function, or the black-box derivative of one, that a name means: of the built-in ones, then of the user's.
    pub(crate) fn function_named(&self, name: &str) -> Option<Function> {
        let user = |name: &str| {
            let found = self.functions.iter().find(|(_, f)| f.name() == name);
            found.map(|(id, _)| Primitive::User(id))
        };
        let partial = || {
            let (name, at) = name.rsplit_once('\'')?;
            Some(Function::Partial(user(name)?, at.parse().ok()?))
        };
        builtin(name).or_else(|| user(name).map(Function::Value)).or_else(partial)
    }

    /// A scalar function applied to arguments that are already text.
    pub(crate) fn function_text(&self, function: Function, args: &[String]) -> String {
        let name = |primitive: Primitive| match primitive {
            Primitive::Op(Op::Div) => "div".to_owned(),
            Primitive::Op(Op::Powi(k)) if k < 0 => format!("powi'_{}", k.unsigned_abs()),
            Primitive::Op(Op::Powi(k)) => format!("powi'{k}"),
            Primitive::Op(op) => op.name().into_owned(),
            Primitive::User(f) => self.functions.get(f).map_or_else(|| f.to_string(), |f| f.name().to_owned()),
        };
        match (function, args) {
            (Function::Value(Primitive::Op(Op::Div)), [a, b]) => format!("{a} / {b}"),
            (Function::Value(Primitive::Op(Op::Powi(k))), [a]) => format!("{a}^{k}"),
            (Function::Value(primitive), _) => format!("{}({})", name(primitive), args.join(", ")),
            (Function::Partial(primitive, at), _) => format!("{}'{at}({})", name(primitive), args.join(", ")),
        }
    }

    /// What is known before any data: the assumptions, and which relations are maps.
    pub fn facts(&self) -> Facts {
        let mut facts = Facts::new();
        self.assumptions.iter().for_each(|p| facts.assume(p));
        for (id, relation) in self.relations.iter().filter(|(_, relation)| relation.kind == RelationKind::Map) {
            facts.total(RelationRef::Input(id), &relation.shape);
        }
        facts
    }
}

/// The relations that a program is given. Of computed ones a signature knows nothing.
impl Relations for Signature {
    fn shape(&self, relation: RelationRef) -> Option<&[Size]> {
        match relation {
            RelationRef::Input(r) => self.relations.get(r).map(|r| r.shape.as_slice()),
            RelationRef::Computed { .. } => None,
        }
    }

    fn is_map(&self, relation: RelationRef) -> bool {
        match relation {
            RelationRef::Input(r) => self.relations.get(r).is_some_and(|r| r.kind == RelationKind::Map),
            RelationRef::Computed { .. } => false,
        }
    }
}

/// The first thing wrong with a signature.
fn check(signature: &Signature) -> Result<(), String> {
    let Signature { types, sizes: _, params, relations, assumptions, functions } = signature;
    // Native functions of a program that was just read get their code later.
    if functions.values().all(|f| !matches!(f.value(), UserValue::Unregistered)) {
        scalar::check_functions(functions).map_err(|error| error.to_string())?;
    }
    for (_, ty) in types.iter() {
        if let Type::Tensor(n, _) = ty {
            signature.check_size(n)?;
        }
    }
    for (id, relation) in relations.iter() {
        relation.shape.iter().try_for_each(|n| signature.check_size(n))?;
        let name = &relation.name;
        match relation.kind {
            RelationKind::Free => {}
            RelationKind::Map if relation.shape.len() < 2 => return Err(format!("the map `{name}` has no source")),
            RelationKind::Map => {}
            RelationKind::Pattern(p) => {
                let pattern = params.get(p).and_then(|p| p.storage.pattern()).and_then(|r| relations.get(r));
                if pattern != Some(relation) {
                    return Err(format!("the pattern `{name}` is of no parameter"));
                }
            }
            RelationKind::Projection(..) => {
                let source = relation
                    .kind
                    .projection()
                    .and_then(|(of, axes)| Some((relations.get(of).filter(|_| of < id)?, axes)));
                let kept = source.map(|(of, axes)| axes.map(|k| of.shape.get(k)).collect::<Vec<_>>());
                if kept != Some(relation.shape.iter().map(Some).collect()) {
                    return Err(format!("`{name}` is no projection"));
                }
            }
        }
    }
    for param in params.values() {
        let name = &param.name;
        if !types.contains(param.ty) {
            return Err(format!("the parameter `{name}` has an unknown type"));
        }
        types.leaves(param.ty).map_err(|error| format!("the parameter `{name}`: {error}"))?;
        let Some(pattern) = param.storage.pattern() else { continue };
        // Its own pattern, or one that it shares with the parameter that owns it.
        let pattern = relations.get(pattern).filter(|r| matches!(r.kind, RelationKind::Pattern(_)));
        let pattern = pattern.ok_or_else(|| format!("the parameter `{name}` has no pattern"))?;
        let dims = types.real_dims(param.ty).filter(|dims| *dims == pattern.shape);
        let dims = dims.ok_or_else(|| format!("the pattern of `{name}` has another shape"))?;
        if param.storage.format().is_some_and(|format| !format.stores(dims.len())) {
            return Err(format!("the sparse matrix `{name}` has {} axes", dims.len()));
        }
        if let RelationKind::Pattern(owner) = pattern.kind {
            let order = |storage: Storage| storage.format().map(|format| format.order(dims.len()));
            let owner = params.get(owner).filter(|owner| order(owner.storage) != order(param.storage));
            if let Some(owner) = owner {
                return Err(format!("the entries of `{name}` are in another order than those of `{}`", owner.name));
            }
        }
    }
    for p in assumptions {
        let mut sound = Ok(());
        p.visit_atoms(&mut |p| {
            if matches!(p, Pred::Relation { .. }) {
                sound = Err("an assumption mentions a relation".to_owned());
            }
        });
        p.visit_affine(&mut |a| {
            if let Err(message) = signature.check_size(a) {
                sound = Err(format!("in an assumption {message}"));
            }
        });
        sound?;
    }
    Ok(())
}
