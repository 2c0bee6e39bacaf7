//! Indices of which it only matters that there is a value.
//!
//! - Where all others are known, `exists a b. P(a) and Q(b)` is `(exists a. P(a)) and (exists b. Q(b))`: indices that no conjunct ties together
//!   are looked for on their own, so the loops add up and do not multiply.
//! - `exists o. f(o, c)` holds for the targets `c` of a map that are in use, which are the nodes of the first level of its view by targets:
//!   a loop over them takes no more steps than the map has sources, however many targets there could be. A source may be several indices.

use super::points::{Body, Open};
use super::scope::Nester;
use crate::base::{IndexId, RelationId};
use crate::error::{Error, Result};
use crate::index::{Affine, Checked, Pred, RelationRef, Size};
use crate::loops::{Decision, Part, Segment};
use crate::solver::{Relations, exists_all};
use crate::ty::Signature;

/// `exists o. f(o, c)` of a map, where `o` is one index or several.
pub(super) struct InUse<'p> {
    pub map: RelationId,
    /// The target.
    pub target: &'p Affine,
    /// How many targets there could be.
    pub extent: Size,
    /// The predicate below the quantifiers.
    atom: &'p Pred,
    sources: Vec<(IndexId, Size)>,
}

impl InUse<'_> {
    /// A predicate as such a one.
    pub fn of<'p>(signature: &Signature, p: &'p Pred) -> Option<InUse<'p>> {
        let (mut sources, mut atom) = (Vec::new(), p);
        while let Pred::Exists { index, extent, body } = atom {
            sources.push((*index, extent.clone()));
            atom = body;
        }
        let Pred::Relation { relation: relation @ RelationRef::Input(map), args, holds: true } = atom else {
            return None;
        };
        let (target, places) = args.split_last()?;
        let (extent, sizes) = signature.relations.get(*map)?.shape.split_last()?;
        // As many as there are places, and each is one.
        let whole =
            |(i, n): &(IndexId, Size)| places.iter().zip(sizes).any(|(a, m)| a.as_index() == Some(*i) && m == n);
        let all = sources.len() == places.len() && sources.iter().all(|s| whole(s) && !target.mentions(s.0));
        let found = all && signature.is_map(*relation);
        found.then(|| InUse { map: *map, target, extent: extent.clone(), atom, sources })
    }
}

/// Indices, and what ties them together.
type Tied = (Vec<(IndexId, Size)>, Vec<Pred>);

/// That there are values for indices, a predicate for those that conjuncts tie together; where bounds alone decide, one without them.
pub(super) fn witnesses(indices: &[(IndexId, Size)], conjuncts: &[Pred]) -> Checked<Vec<Pred>> {
    let mut groups: Vec<Tied> = indices.iter().map(|index| (vec![index.clone()], Vec::new())).collect();
    for p in conjuncts {
        let (tied, others): (Vec<Tied>, Vec<Tied>) =
            groups.into_iter().partition(|(indices, _)| indices.iter().any(|(i, _)| p.mentions(*i)));
        let (mut indices, mut all) = (Vec::new(), Vec::new());
        for (more, said) in tied {
            indices.extend(more);
            all.extend(said);
        }
        all.push(p.clone());
        groups = others;
        groups.push((indices, all));
    }
    let exists = |(indices, all): Tied| exists_all(&indices, &Pred::all(all));
    groups.into_iter().map(exists).collect()
}

impl<'a> Nester<'a> {
    /// Targets in use that are a plain index without a value.
    pub fn targets_in_use(&self, open: &Open) -> Option<usize> {
        open.conjuncts.iter().position(|p| {
            InUse::of(&self.program.signature, p).is_some_and(|used| {
                let plain = |(i, n): &(IndexId, Size)| used.target.as_index() == Some(*i) && *n == used.extent;
                open.unbound.iter().any(plain)
            })
        })
    }

    pub fn walk_targets(&mut self, open: &Open, at: usize, body: Body<'_, 'a>) -> Result<()> {
        let used = open.conjuncts.get(at).and_then(|p| InUse::of(&self.program.signature, p));
        let Some(InUse { map, target, extent, atom, sources }) = used else {
            return Err(Error::bug(super::PASS, "no targets in use"));
        };
        let title = self.relation_name(map);
        self.decide(Decision::Targets { map: title });
        let by_target: Vec<usize> = std::iter::once(sources.len()).chain(0..sources.len()).collect();
        let pointers = self.array(map, &by_target, Part::Roots);
        let nodes = self.array(map, &by_target, Part::Nodes(0));
        let roots = Segment { pointers, at: Affine::constant(0) };
        self.each_node(roots, nodes, &extent, &mut |nester, _, v| {
            let fresh: Vec<(IndexId, IndexId)> = sources.iter().map(|(i, _)| (*i, nester.fresh_index())).collect();
            let name = |i: IndexId| match fresh.iter().find(|(from, _)| *from == i) {
                Some((_, to)) => Some(Affine::index(*to)),
                None => (target.as_index() == Some(i)).then(|| Affine::index(v)),
            };
            let some = sources.iter().zip(&fresh).map(|((_, n), (_, i))| (*i, n.clone()));
            nester.know(&Pred::exists_each(some, atom.substitute(&name)?));
            let next = nester.bind(&open.without(at), target, v, &extent)?;
            nester.step(next, body)
        })
    }
}
