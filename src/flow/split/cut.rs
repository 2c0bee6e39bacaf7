//! What is stored and what is computed again, by a minimal cut.
//!
//! Each node of a graph without circles can be *there* in two ways: it is stored, at a cost, or made of its operands, at another cost, where they are
//! there. Some nodes are asked for. With `a` for "is there" and `c` for "is made",
//!
//! ```text
//! minimise  sum x. store(x) * [a(x) and not c(x)] + make(x) * [c(x)]    where a(x) is asked for, and c(x) implies a(y) for operands y of x
//! ```
//!
//! which is a minimal cut between the asked and the made, found by augmenting paths (Edmonds and Karp). Capacities are whole numbers.

use std::collections::VecDeque;

use crate::base::work;

/// A thing that may be stored or made.
pub(super) struct Node {
    /// What it costs to store it; nothing where it cannot be.
    pub store: Option<u64>,
    /// What it costs to make it of its operands.
    pub make: u64,
    pub operands: Vec<usize>,
    pub asked: bool,
}

/// No cut has such edges.
const UNBOUNDED: u64 = 1 << 60;

struct Edge {
    to: usize,
    left: u64,
}

/// Edges lie in pairs, each one beside its reverse.
struct Network {
    edges: Vec<Edge>,
    from: Vec<Vec<usize>>,
}

impl Network {
    fn edge(&mut self, from: usize, to: usize, capacity: u64) {
        for (from, to, left) in [(from, to, capacity), (to, from, 0)] {
            self.from[from].push(self.edges.len());
            self.edges.push(Edge { to, left });
        }
    }

    /// For each vertex the edge by which it is reached from the source with room left.
    fn reach(&self, source: usize) -> Vec<Option<usize>> {
        let mut by = vec![None; self.from.len()];
        let mut queue = VecDeque::from([source]);
        while let Some(v) = queue.pop_front() {
            work::charge(1 + self.from[v].len());
            for e in &self.from[v] {
                let Edge { to, left } = self.edges[*e];
                if left > 0 && to != source && by[to].is_none() {
                    by[to] = Some(*e);
                    queue.push_back(to);
                }
            }
        }
        by
    }

    /// Sends what can be sent from the source to the sink; gives which vertices are then still reached.
    fn saturate(&mut self, source: usize, sink: usize) -> Vec<bool> {
        loop {
            let by = self.reach(source);
            let mut path = Vec::new();
            let mut v = sink;
            while let Some(e) = by[v] {
                path.push(e);
                v = self.edges[e ^ 1].to;
            }
            let Some(room) = path.iter().map(|e| self.edges[*e].left).min() else {
                return by.iter().enumerate().map(|(v, by)| v == source || by.is_some()).collect();
            };
            for e in path {
                self.edges[e].left -= room;
                self.edges[e ^ 1].left += room;
            }
        }
    }
}

/// Which nodes are stored.
pub(super) fn stored(nodes: &[Node]) -> Vec<bool> {
    let (source, sink) = (2 * nodes.len(), 2 * nodes.len() + 1);
    let mut network = Network { edges: Vec::new(), from: vec![Vec::new(); sink + 1] };
    for (x, node) in nodes.iter().enumerate() {
        let (there, made) = (2 * x, 2 * x + 1);
        if node.asked {
            network.edge(source, there, UNBOUNDED);
        }
        network.edge(there, made, node.store.unwrap_or(UNBOUNDED));
        network.edge(made, sink, node.make);
        node.operands.iter().for_each(|y| network.edge(made, 2 * y, UNBOUNDED));
    }
    let there = network.saturate(source, sink);
    (0..nodes.len()).map(|x| there[2 * x] && !there[2 * x + 1]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(store: Option<u64>, make: u64, operands: &[usize], asked: bool) -> Node {
        Node { store, make, operands: operands.to_vec(), asked }
    }

    /// What a choice costs, if it can be.
    fn cost(nodes: &[Node], stored: &[bool]) -> Option<u64> {
        let mut there: Vec<bool> = nodes.iter().map(|node| node.asked).collect();
        let mut total = 0;
        for x in (0..nodes.len()).rev().filter(|x| !stored[*x]) {
            if there[x] {
                total += nodes[x].make;
                nodes[x].operands.iter().for_each(|y| there[*y] = true);
            }
        }
        for x in (0..nodes.len()).filter(|x| stored[*x]) {
            total += if there[x] { nodes[x].store? } else { 0 };
        }
        Some(total)
    }

    #[test]
    fn a_large_tensor_behind_a_small_one_is_made_again() {
        // 0 is given, 1 is small and dear, 2 is large and cheap.
        let nodes = [node(None, 0, &[], false), node(Some(8), 100, &[0], false), node(Some(64), 20, &[1], true)];
        assert_eq!(stored(&nodes), [false, true, false]);
    }

    #[test]
    fn cuts_are_those_of_all_choices_the_cheapest() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..300 {
            let n = rng.usize(1..8);
            let nodes: Vec<Node> = (0..n)
                .map(|x| {
                    let operands: Vec<usize> = (0..x).filter(|_| rng.u8(0..3) == 0).collect();
                    let store = (rng.u8(0..4) > 0).then(|| rng.u64(0..20));
                    node(store, rng.u64(0..20), &operands, rng.u8(0..3) == 0)
                })
                .collect();
            let choices = (0..1u32 << n).map(|bits| (0..n).map(|x| bits >> x & 1 == 1).collect::<Vec<bool>>());
            let best = choices.filter_map(|choice| cost(&nodes, &choice)).min();
            assert_eq!(cost(&nodes, &stored(&nodes)), best);
        }
    }
}
