//! Walks over relations, level by level of a view.
//!
//! `for s where R(a, s)` goes over the nodes below that of `a`, which is a row, or is searched for. Each node gives its index a value, and what can be
//! tested then is tested before the level below.

use super::PASS;
use super::guard::Found;
use super::points::{Body, Open};
use super::scope::Nester;
use crate::base::{IndexId, RelationId};
use crate::error::{Error, Result};
use crate::index::{Affine, Checked, Pred, RelationRef, Size};
use crate::loops::{ArrayId, Cond, Decision, Domain, List, Part, Segment, Stmt};

/// A walk over a relation.
struct Walk {
    relation: RelationId,
    args: Vec<Affine>,
    axes: Vec<usize>,
    shape: Vec<Size>,
}

/// Where a walk is.
enum Node {
    /// At the beginning.
    Top,
    /// At a node with nodes below.
    Below(Segment),
    /// At a tuple.
    Entry(Affine),
}

impl<'a> Nester<'a> {
    /// A loop over the tuples of a relation that a conjunct asks for, by a view that has its known axes first.
    pub fn walk(&mut self, open: &Open, at: usize, body: Body<'_, 'a>) -> Result<()> {
        let Pred::Relation { relation: RelationRef::Input(relation), args, .. } = open.conjuncts[at].clone() else {
            return Err(Error::bug(PASS, "a walk over no relation"));
        };
        let shape = self.program.signature.relations[relation].shape.clone();
        // The entries are in order along the axes as they are stored.
        let order = self.program.signature.stored_order(relation);
        let (unknown, mut axes): (Vec<usize>, Vec<usize>) =
            order.into_iter().partition(|k| args.get(*k).is_some_and(|a| open.waits(a)));
        let name = self.relation_name(relation);
        self.decide(match axes.as_slice() {
            [] => Decision::Entries { relation: name },
            known => Decision::Walk { relation: name, along: List(unknown.clone()), known: List(known.to_vec()) },
        });
        axes.extend(unknown);
        let walk = Walk { relation, args, axes, shape };
        self.descend(open.without(at), &walk, 0, Node::Top, body)
    }

    /// The levels of a view from `level` on.
    fn descend(&mut self, open: Open, walk: &Walk, level: usize, from: Node, body: Body<'_, 'a>) -> Result<()> {
        let solved = open.point();
        let args: Vec<Affine> = walk.args.iter().map(|a| solved.value(a)).collect::<Checked<_>>()?;
        let Some(axis) = walk.axes.get(level).copied() else {
            let Node::Entry(leaf) = from else { return Err(Error::bug(PASS, "a walk without an end")) };
            return self.arrive(open, walk, &args, leaf, body);
        };
        let depth = u8::try_from(level).map_err(|_| Error::bug(PASS, "too many axes"))?;
        let (arg, extent) = (&args[axis], &walk.shape[axis]);
        let segment = match from {
            Node::Below(segment) => segment,
            Node::Entry(_) => return Err(Error::bug(PASS, "a walk past its end")),
            Node::Top if open.waits(arg) => {
                Segment { pointers: self.array(walk.relation, &walk.axes, Part::Roots), at: Affine::constant(0) }
            }
            Node::Top => {
                // The rows of the first axis.
                let ranges = self.ranges_of(std::slice::from_ref(arg), std::slice::from_ref(extent))?;
                return self.guarded(&ranges, &mut |nester| {
                    nester.claim(arg, extent);
                    let rows = nester.array(walk.relation, &walk.axes, Part::Rows);
                    let segment = Segment { pointers: rows, at: arg.clone() };
                    nester.descend(open.clone(), walk, level + 1, Node::Below(segment), body)
                });
            }
        };
        let nodes = self.array(walk.relation, &walk.axes, Part::Nodes(depth));
        if !open.waits(arg) {
            let node = self.find(segment, Some((nodes, arg.clone())));
            let mut inside = |nester: &mut Self| {
                nester.remember_projected(walk, level, &args, &node);
                let below = nester.below(walk, depth, node.clone());
                nester.descend(open.clone(), walk, level + 1, below, body)
            };
            return if self.is_node(&node) {
                inside(self)
            } else {
                self.test(Cond::NonNegative(node.clone()), &mut inside)
            };
        }
        // Where a search for the node would begin, from the rows of the first axis and from the node above.
        let mut from = vec![segment.clone()];
        if depth == 1
            && let Some(first) = walk.axes.first().and_then(|axis| args.get(*axis))
        {
            from.push(Segment { pointers: self.array(walk.relation, &walk.axes, Part::Rows), at: first.clone() });
        }
        self.each_node(segment, nodes, extent, &mut |nester, node, v| {
            if depth > 0 {
                from.iter().for_each(|from| nester.remember_node(from.clone(), nodes, v.into(), node));
            }
            let mut known = args.clone();
            known[axis] = v.into();
            nester.remember_projected(walk, level, &known, &node.into());
            if level + 1 == walk.axes.len() {
                nester.know(&Pred::relation(RelationRef::Input(walk.relation), known));
            }
            let next = nester.bind(&open, arg, v, extent)?;
            // What is asked of numbers at a tuple may be stored there, or known of it.
            if let Node::Entry(leaf) = nester.below(walk, depth, node.into())
                && next.asks_numbers()
            {
                let solved = next.point();
                let args: Vec<Affine> = walk.args.iter().map(|a| solved.value(a)).collect::<Checked<_>>()?;
                if args[axis] == v.into() {
                    return nester.arrive(next, walk, &args, leaf, body);
                }
            }
            nester.settle(next, &mut |nester, next| {
                let below = nester.below(walk, depth, node.into());
                nester.descend(next, walk, level + 1, below, body)
            })
        })
    }

    /// Runs `body` at each node of a segment, with its coordinate, which is within an extent.
    pub fn each_node(
        &mut self,
        segment: Segment,
        nodes: ArrayId,
        extent: &Size,
        body: &mut dyn FnMut(&mut Self, IndexId, IndexId) -> Result<()>,
    ) -> Result<()> {
        let node = self.fresh_index();
        self.inside(
            false,
            &mut |nester| {
                let v = nester.fresh_index();
                nester.emit(Stmt::Let { index: v, array: nodes, at: node.into(), step: None });
                nester.claim_index(v, extent);
                body(nester, node, v)
            },
            |body| Stmt::one_by_one(node, Domain::Segment(segment), body),
        )
    }

    /// Remembers the entry of a projection of the relation on the axes that the view has up to a level: it is the node there.
    fn remember_projected(&mut self, walk: &Walk, level: usize, args: &[Affine], node: &Affine) {
        let first = walk.axes.get(..=level).unwrap_or_default();
        let args: Vec<Affine> = first.iter().filter_map(|axis| args.get(*axis).cloned()).collect();
        let program = self.program;
        for (projected, _) in program.signature.projections_of(walk.relation).filter(|(_, axes)| axes == first) {
            self.remember_entry(projected, &args, node.clone());
            self.know(&Pred::relation(RelationRef::Input(projected), args.clone()));
        }
    }

    /// Finds the entry of a projection of a relation, of which a tuple is at hand.
    pub fn projected(&mut self, relation: RelationId, args: &[Affine]) {
        let projection = self.program.signature.projection(relation);
        let Some((of, axes)) = projection.filter(|_| self.entry(relation, args).is_none()) else { return };
        let Some((level, tuple)) = self.tuple_of(of, &axes, args) else { return };
        self.at_level(level, |nester| {
            let (index, stored) = (nester.fresh_index(), nester.program.signature.stored_order(of));
            let array = nester.array(of, &stored, Part::Projected(relation));
            nester.emit(Stmt::Let { index, array, at: tuple, step: None });
            nester.remember_entry(relation, args, index.into());
        });
    }

    /// What is below a node.
    fn below(&mut self, walk: &Walk, level: u8, node: Affine) -> Node {
        if usize::from(level) + 1 >= walk.axes.len() {
            return Node::Entry(node);
        }
        Node::Below(Segment { pointers: self.array(walk.relation, &walk.axes, Part::Children(level)), at: node })
    }

    /// A tuple of the relation, given by its place in the view.
    fn arrive(&mut self, open: Open, walk: &Walk, args: &[Affine], leaf: Affine, body: Body<'_, 'a>) -> Result<()> {
        let entry = self.entry_at(walk.relation, &Found { node: leaf, axes: walk.axes.clone() });
        self.remember_entry(walk.relation, args, entry);
        self.know(&Pred::relation(RelationRef::Input(walk.relation), args.to_vec()));
        self.step(open, body)
    }
}
