//! A persistent ordered map: the staging map and the cotangent collector of the pure variants.
//!
//! A weight-balanced binary tree, as `Data.Map` of Haskell, which the paper takes. Its depth is logarithmic in its size, so the recursion
//! here is, too. Each operation adds the nodes that it visits to a counter of the caller: that is the logarithm that mutable arrays remove.

use std::sync::Arc;

/// A key: the identifier of a backpropagator, or the number of an input.
type Key = u32;

/// An immutable map; a clone shares its nodes.
#[derive(Debug)]
pub(super) struct Map<V>(Option<Arc<Node<V>>>);

#[derive(Debug)]
struct Node<V> {
    size: usize,
    key: Key,
    value: V,
    left: Map<V>,
    right: Map<V>,
}

impl<V> Clone for Map<V> {
    fn clone(&self) -> Self {
        Map(self.0.clone())
    }
}

/// How much heavier one side may be; with [`RATIO`] the pair for which rotations are known to restore the balance.
const DELTA: usize = 3;
/// Decides between a single and a double rotation.
const RATIO: usize = 2;

impl<V: Clone> Map<V> {
    /// `{}`.
    pub(super) fn empty() -> Self {
        Map(None)
    }

    /// `{key -> value}`.
    pub(super) fn singleton(key: Key, value: V) -> Self {
        Map::node(key, value, Map::empty(), Map::empty())
    }

    /// The number of keys.
    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |node| node.size)
    }

    /// The value of a key.
    pub(super) fn get(&self, key: Key, visits: &mut u64) -> Option<&V> {
        let mut map = self;
        while let Some(node) = &map.0 {
            *visits += 1;
            map = match key.cmp(&node.key) {
                std::cmp::Ordering::Less => &node.left,
                std::cmp::Ordering::Greater => &node.right,
                std::cmp::Ordering::Equal => return Some(&node.value),
            };
        }
        None
    }

    /// All pairs, by increasing key.
    pub(super) fn pairs(&self) -> Vec<(Key, &V)> {
        let (mut pairs, mut path, mut map) = (Vec::with_capacity(self.len()), Vec::new(), self);
        loop {
            while let Some(node) = &map.0 {
                path.push(node);
                map = &node.left;
            }
            let Some(node) = path.pop() else { return pairs };
            pairs.push((node.key, &node.value));
            map = &node.right;
        }
    }

    /// The map with a value at a key, combined with the value that is there: `combine(there, new)`.
    pub(super) fn insert_with(&self, key: Key, value: V, combine: &impl Fn(&V, &V) -> V, visits: &mut u64) -> Self {
        *visits += 1;
        let Some(node) = &self.0 else { return Map::singleton(key, value) };
        let (left, right) = (&node.left, &node.right);
        match key.cmp(&node.key) {
            std::cmp::Ordering::Less => {
                Map::balance(node.key, node.value.clone(), left.insert_with(key, value, combine, visits), right.clone())
            }
            std::cmp::Ordering::Greater => {
                Map::balance(node.key, node.value.clone(), left.clone(), right.insert_with(key, value, combine, visits))
            }
            std::cmp::Ordering::Equal => Map::node(key, combine(&node.value, &value), left.clone(), right.clone()),
        }
    }

    /// The highest key with its value, and the map without it.
    pub(super) fn pop_max(&self, visits: &mut u64) -> Option<(Key, V, Self)> {
        *visits += 1;
        let node = self.0.as_ref()?;
        match node.right.pop_max(visits) {
            Some((key, value, right)) => {
                Some((key, value, Map::balance(node.key, node.value.clone(), node.left.clone(), right)))
            }
            None => Some((node.key, node.value.clone(), node.left.clone())),
        }
    }

    /// The union; values of common keys are combined: `combine(self, other)`. This is linear factoring, `f x + f y = f (x + y)`.
    pub(super) fn union_with(&self, other: &Self, combine: &impl Fn(&V, &V) -> V, visits: &mut u64) -> Self {
        *visits += 1;
        let Some(node) = &self.0 else { return other.clone() };
        if other.0.is_none() {
            return self.clone();
        }
        let (below, at, above) = other.split(node.key, visits);
        let left = node.left.union_with(&below, combine, visits);
        let right = node.right.union_with(&above, combine, visits);
        let value = match at {
            Some(value) => combine(&node.value, &value),
            None => node.value.clone(),
        };
        Map::link(node.key, value, left, right, visits)
    }

    /// What is below a key, at it, and above it.
    fn split(&self, key: Key, visits: &mut u64) -> (Self, Option<V>, Self) {
        *visits += 1;
        let Some(node) = &self.0 else { return (Map::empty(), None, Map::empty()) };
        match key.cmp(&node.key) {
            std::cmp::Ordering::Less => {
                let (below, at, above) = node.left.split(key, visits);
                (below, at, Map::link(node.key, node.value.clone(), above, node.right.clone(), visits))
            }
            std::cmp::Ordering::Greater => {
                let (below, at, above) = node.right.split(key, visits);
                (Map::link(node.key, node.value.clone(), node.left.clone(), below, visits), at, above)
            }
            std::cmp::Ordering::Equal => (node.left.clone(), Some(node.value.clone()), node.right.clone()),
        }
    }

    /// A key between two maps of any sizes.
    fn link(key: Key, value: V, left: Self, right: Self, visits: &mut u64) -> Self {
        *visits += 1;
        match (&left.0, &right.0) {
            (Some(l), _) if right.weight() * DELTA < left.weight() => {
                let inner = Map::link(key, value, l.right.clone(), right, visits);
                Map::balance(l.key, l.value.clone(), l.left.clone(), inner)
            }
            (_, Some(r)) if left.weight() * DELTA < right.weight() => {
                let inner = Map::link(key, value, left, r.left.clone(), visits);
                Map::balance(r.key, r.value.clone(), inner, r.right.clone())
            }
            _ => Map::node(key, value, left, right),
        }
    }

    fn weight(&self) -> usize {
        self.len() + 1
    }

    fn node(key: Key, value: V, left: Self, right: Self) -> Self {
        Map(Some(Arc::new(Node { size: left.len() + right.len() + 1, key, value, left, right })))
    }

    /// A node whose sides were balanced before one of them changed by one insertion, deletion or link.
    fn balance(key: Key, value: V, left: Self, right: Self) -> Self {
        match (&left.0, &right.0) {
            (_, Some(r)) if left.weight() * DELTA < right.weight() => match &r.left.0 {
                Some(inner) if r.left.weight() >= r.right.weight() * RATIO => {
                    let low = Map::node(key, value, left, inner.left.clone());
                    let high = Map::node(r.key, r.value.clone(), inner.right.clone(), r.right.clone());
                    Map::node(inner.key, inner.value.clone(), low, high)
                }
                _ => {
                    let low = Map::node(key, value, left, r.left.clone());
                    Map::node(r.key, r.value.clone(), low, r.right.clone())
                }
            },
            (Some(l), _) if right.weight() * DELTA < left.weight() => match &l.right.0 {
                Some(inner) if l.right.weight() >= l.left.weight() * RATIO => {
                    let low = Map::node(l.key, l.value.clone(), l.left.clone(), inner.left.clone());
                    let high = Map::node(key, value, inner.right.clone(), right);
                    Map::node(inner.key, inner.value.clone(), low, high)
                }
                _ => {
                    let high = Map::node(key, value, l.right.clone(), right);
                    Map::node(l.key, l.value.clone(), l.left.clone(), high)
                }
            },
            _ => Map::node(key, value, left, right),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn depth(map: &Map<u64>) -> usize {
        map.0.as_ref().map_or(0, |node| 1 + depth(&node.left).max(depth(&node.right)))
    }

    fn same(map: &Map<u64>, model: &BTreeMap<Key, u64>) {
        let pairs: Vec<(Key, u64)> = map.pairs().into_iter().map(|(k, v)| (k, *v)).collect();
        let expected: Vec<(Key, u64)> = model.iter().map(|(k, v)| (*k, *v)).collect();
        assert_eq!(pairs, expected);
        // A weight-balanced tree with these parameters has a depth of at most log_(4/3)(size + 1).
        let bound = ((map.len() + 1) as f64).ln() / (4f64 / 3.0).ln() + 1.0;
        assert!(depth(map) as f64 <= bound, "{} keys, depth {}", map.len(), depth(map));
    }

    #[test]
    fn map_agrees_with_the_standard_one() {
        let mut rng = fastrand::Rng::with_seed(5);
        let add = |a: &u64, b: &u64| a + b;
        for _ in 0..50 {
            let mut visits = 0;
            let (mut map, mut model) = (Map::empty(), BTreeMap::new());
            for step in 0..200 {
                let key = rng.u32(0..100);
                match rng.u32(0..10) {
                    0..6 => {
                        map = map.insert_with(key, step, &add, &mut visits);
                        *model.entry(key).or_insert(0) += step;
                    }
                    6..8 => {
                        let popped = map.pop_max(&mut visits);
                        assert_eq!(popped.as_ref().map(|(k, v, _)| (*k, *v)), model.pop_last());
                        map = popped.map_or(map, |(.., rest)| rest);
                    }
                    _ => {
                        let others: Vec<u32> = (0..rng.u32(0..40)).map(|_| rng.u32(0..200)).collect();
                        let mut other = Map::empty();
                        for k in others {
                            other = other.insert_with(k, 1, &add, &mut visits);
                            *model.entry(k).or_insert(0) += 1;
                        }
                        map = map.union_with(&other, &add, &mut visits);
                    }
                }
                same(&map, &model);
                assert_eq!(map.get(key, &mut visits), model.get(&key));
            }
        }
    }

    #[test]
    fn visits_are_logarithmic() {
        let mut map = Map::empty();
        let mut visits = 0;
        for key in 0..1 << 16 {
            map = map.insert_with(key, 0u64, &|a, _| *a, &mut visits);
        }
        visits = 0;
        map.get(0, &mut visits);
        assert!((10..=30).contains(&visits), "{visits}");
    }
}
