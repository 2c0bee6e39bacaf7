//! The data flow of a program in Tensor-SSA as a picture: a box for each statement, an arrow from each operand to its user. *Cut* are programs of
//! more than [`NODES`] statements: those are shown that are nearest to the results.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write;

use super::layers::layout;
use super::page::Page;
use crate::base::{SideTable, VarId};
use crate::tssa::print::rhs_text;
use crate::tssa::{Program, Rhs};

/// How many statements a picture has at most.
pub(super) const NODES: usize = 60;

/// How many characters of a right-hand side a box shows.
const SHOWN: usize = 40;

/// Sizes in pixels: of a character, of a box and what is in it, and between layers.
const CHARACTER: f64 = 6.7;
const MARGIN: f64 = 8.0;
const HEIGHT: f64 = 38.0;
const BETWEEN: f64 = 34.0;

/// A box.
struct Node {
    class: &'static str,
    name: String,
    text: String,
}

impl Node {
    fn width(&self) -> f64 {
        let characters = self.name.chars().count().max(shortened(&self.text).chars().count());
        (characters as f64 * CHARACTER + 2.0 * MARGIN).round()
    }
}

/// Draws the graph of a program; `what` names it.
pub(super) fn draw(page: &mut Page, program: &Program, what: &str) {
    let shown = nearest(program);
    let (nodes, edges) = graph(program, &shown);
    let widths: Vec<f64> = nodes.iter().map(Node::width).collect();
    let layout = layout(&widths, &edges);
    let top = |layer: usize| layer as f64 * (HEIGHT + BETWEEN);
    let (width, height) = (layout.width + 2.0, top(layout.layers) - BETWEEN + 2.0);
    page.open("figure", &[("class", "flow")]);
    let [w, h] = [width.max(1.0), height.max(1.0)].map(|n| format!("{n:.0}"));
    page.open("svg", &[("role", "img"), ("width", &w), ("height", &h), ("viewBox", &format!("-1 -1 {w} {h}"))]);
    page.element(
        "title",
        &[],
        &format!("Data flow of {what}: {} statements and {} results", shown.len(), program.outputs.len()),
    );
    let mut path = String::new();
    for chain in &layout.edges {
        curve(&mut path, chain, &top);
    }
    page.empty("path", &[("class", "edge"), ("d", &path)]);
    for ((node, width), (x, layer)) in nodes.iter().zip(&widths).zip(&layout.places) {
        let [left, y] = [x - width / 2.0, top(*layer)].map(|n| format!("{n:.0}"));
        page.open("g", &[("class", node.class), ("transform", &format!("translate({left} {y})"))]);
        page.element("title", &[], &format!("{} = {}", node.name, node.text));
        let [w, h] = [*width, HEIGHT].map(|n| format!("{n:.0}"));
        page.empty("rect", &[("width", &w), ("height", &h), ("rx", "4")]);
        page.element("text", &[("class", "name"), ("x", "8"), ("y", "16")], &node.name);
        page.element("text", &[("x", "8"), ("y", "30")], &shortened(&node.text));
        page.close();
    }
    page.close();
    page.close();
    if shown.len() < program.stmts.len() {
        let (all, shown) = (program.stmts.len(), shown.len());
        page.cut(&format!("Cut here: of {all} statements, the {shown} nearest to the results are shown."));
    }
}

/// The statements nearest to the results, in order.
fn nearest(program: &Program) -> BTreeSet<VarId> {
    let mut found = BTreeSet::new();
    let mut queue: VecDeque<VarId> = program.outputs.iter().flat_map(|output| output.leaves.iter().copied()).collect();
    while let Some(x) = queue.pop_front() {
        if found.len() >= NODES {
            break;
        }
        if found.insert(x)
            && let Some(stmt) = program.stmts.get(x)
        {
            stmt.rhs.for_each_operand(|operand| queue.push_back(operand));
        }
    }
    found
}

/// The boxes of some statements and of the results, and the arrows between.
fn graph(program: &Program, shown: &BTreeSet<VarId>) -> (Vec<Node>, Vec<(usize, usize)>) {
    let names = program.stmt_names();
    let mut number: SideTable<VarId, Option<usize>> = SideTable::new(program.stmts.len(), None);
    let (mut nodes, mut edges) = (Vec::new(), BTreeSet::new());
    for (x, stmt) in shown.iter().filter_map(|x| Some((*x, program.stmts.get(*x)?))) {
        let at = nodes.len();
        number.set(x, Some(at));
        let text = rhs_text(&program.signature, &names, stmt);
        nodes.push(match &stmt.rhs {
            Rhs::Input { .. } => {
                let text = text.strip_prefix("input ").map(str::to_owned).unwrap_or(text);
                Node { class: "input", name: names.get(x), text }
            }
            Rhs::Number(_) => Node { class: "number", name: names.get(x), text },
            Rhs::Add(_) | Rhs::Map { .. } | Rhs::Contract { .. } => {
                Node { class: "statement", name: names.get(x), text }
            }
        });
        stmt.rhs.for_each_operand(|operand| {
            if program.stmts.get(operand).is_some() {
                edges.extend(number[operand].map(|from| (from, at)));
            }
        });
    }
    for output in &program.outputs {
        let at = nodes.len();
        let leaves: Vec<String> = output.leaves.iter().map(|x| names.get(*x)).collect();
        nodes.push(Node { class: "result", name: output.name.clone(), text: leaves.join(", ") });
        edges.extend(output.leaves.iter().filter_map(|x| number[*x]).map(|from| (from, at)));
    }
    (nodes, edges.into_iter().collect())
}

/// The start of a text.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

/// An edge through its bends, with a point at its end.
fn curve(path: &mut String, chain: &[(f64, usize)], top: &impl Fn(usize) -> f64) {
    for (at, pair) in chain.windows(2).enumerate() {
        let [(x, from), (to, layer)] = [pair[0], pair[1]];
        let (start, end) = (top(from) + HEIGHT, top(layer));
        let middle = (start + end) / 2.0;
        let last = at + 2 == chain.len();
        let tip = if last { end - 1.0 } else { end };
        // Writing to a string does not fail.
        let _ = write!(path, "M{x:.0} {start:.0}C{x:.0} {middle:.0} {to:.0} {middle:.0} {to:.0} {tip:.0}");
        let _ = match last {
            true => write!(path, "m-3 -6l3 6l3 -6"),
            false => write!(path, "V{:.0}", end + HEIGHT),
        };
    }
}
