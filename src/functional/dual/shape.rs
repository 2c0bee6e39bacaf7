//! The shape of an input, and its cotangents as tuples of that shape.
//!
//! `Interleave` gives each input scalar a setter that is made of the setters of the tuples around it (Fig. 9). Here a scalar knows the node above
//! it, and so on up; a setter climbs to the root, and rebuilds the path.

use std::sync::Arc;

use crate::functional::lambda::{Node, Value};
use crate::reference::Numeric;

/// What is above a node: another node, and which component of it this one is.
type Above = Option<(u32, u32)>;

/// The shape of an input: each node knows the one above it.
#[derive(Clone, Debug, Default)]
pub(super) struct Shape {
    /// The node above each node, which comes before it, and the number of its components.
    nodes: Vec<(Above, u32)>,
    /// The node of each scalar, in the order of their numbers.
    scalars: Vec<u32>,
}

impl Shape {
    /// The shape of the values of all parameters, a tuple.
    pub(super) fn of<T>(args: &[Value<T>]) -> Self {
        let mut shape = Shape::default();
        let root = shape.push(None, args.len());
        let above = |node: u32| move |(k, value)| (Some((node, k as u32)), value);
        let mut todo: Vec<(Above, &Value<T>)> = args.iter().enumerate().rev().map(above(root)).collect();
        while let Some((at, value)) = todo.pop() {
            let parts: Vec<&Value<T>> = match value {
                Value::Real(_) => {
                    shape.push_scalar(at);
                    continue;
                }
                Value::Int(_) | Value::Unit | Value::Zero => Vec::new(),
                Value::Node(node) => match &**node {
                    Node::Pair(a, b) => vec![a, b],
                    Node::Inl(a) | Node::Inr(a) => vec![a],
                    Node::Array(items) => items.iter().collect(),
                    // Functions are refused before.
                    _ => Vec::new(),
                },
            };
            let node = shape.push(at, parts.len());
            todo.extend(parts.into_iter().enumerate().rev().map(above(node)));
        }
        shape
    }

    /// Adds a node under another one, with room for components.
    fn push(&mut self, above: Above, components: usize) -> u32 {
        self.nodes.push((above, components as u32));
        (self.nodes.len() - 1) as u32
    }

    /// Adds a scalar.
    fn push_scalar(&mut self, above: Above) {
        let node = self.push(above, 0);
        self.scalars.push(node);
    }

    /// The number of nodes: what it takes to read the input.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The cotangent 0.
    pub(super) fn zero<T: Numeric>(&self) -> Arc<Tree<T>> {
        let mut trees: Vec<Vec<Arc<Tree<T>>>> =
            self.nodes.iter().map(|(_, n)| Vec::with_capacity(*n as usize)).collect();
        let mut scalars = self.scalars.iter().rev().copied().peekable();
        let mut root = Arc::new(Tree(Content::Tuple(Vec::new())));
        for (k, (above, _)) in self.nodes.iter().enumerate().rev() {
            let content = match scalars.next_if_eq(&(k as u32)) {
                Some(_) => Content::Scalar(T::zero()),
                None => {
                    // Components come after their tuple, so they have been met from the last one on.
                    let mut components = std::mem::take(&mut trees[k]);
                    components.reverse();
                    Content::Tuple(components)
                }
            };
            let tree = Arc::new(Tree(content));
            match above {
                Some((above, _)) => trees[*above as usize].push(tree),
                None => root = tree,
            }
        }
        root
    }

    /// The tuple with more at one scalar. Only the path to it is made anew.
    pub(super) fn add<T: Numeric>(&self, tree: &Arc<Tree<T>>, scalar: u32, d: T, work: &mut u64) -> Arc<Tree<T>> {
        let Some(mut node) = self.scalars.get(scalar as usize).copied() else { return tree.clone() };
        let mut path = Vec::new();
        while let Some((above, component)) = self.nodes[node as usize].0 {
            path.push(component as usize);
            node = above;
        }
        let (mut tuples, mut at) = (Vec::with_capacity(path.len()), tree);
        for component in path.iter().rev() {
            let Content::Tuple(components) = &at.0 else { return tree.clone() };
            tuples.push(components);
            at = &components[*component];
        }
        let Content::Scalar(x) = &at.0 else { return tree.clone() };
        let mut rebuilt = Arc::new(Tree(Content::Scalar(x.add(&d))));
        *work += 1;
        for (component, components) in path.iter().zip(tuples.iter().rev()) {
            *work += components.len() as u64;
            let mut components: Vec<Arc<Tree<T>>> = components.to_vec();
            components[*component] = rebuilt;
            rebuilt = Arc::new(Tree(Content::Tuple(components)));
        }
        rebuilt
    }
}

/// A cotangent of the shape of the input.
#[derive(Debug)]
pub(super) struct Tree<T>(Content<T>);

#[derive(Debug)]
enum Content<T> {
    Scalar(T),
    /// Components; none for what has no scalars.
    Tuple(Vec<Arc<Tree<T>>>),
}

impl<T: Numeric> Tree<T> {
    /// Its scalars, in order.
    pub(super) fn scalars(self: &Arc<Self>) -> Vec<T> {
        let (mut scalars, mut open) = (Vec::new(), vec![self]);
        while let Some(tree) = open.pop() {
            match &tree.0 {
                Content::Scalar(x) => scalars.push(x.clone()),
                Content::Tuple(components) => open.extend(components.iter().rev()),
            }
        }
        scalars
    }
}

/// Inputs may be lists of any length, so trees are taken apart in a loop.
impl<T> Drop for Tree<T> {
    fn drop(&mut self) {
        let Content::Tuple(components) = &mut self.0 else { return };
        let mut open = std::mem::take(components);
        while let Some(tree) = open.pop() {
            if let Some(mut tree) = Arc::into_inner(tree)
                && let Content::Tuple(components) = &mut tree.0
            {
                open.append(components);
            }
        }
    }
}
