//! The e-graph as a picture: a cluster for each class, a box for each node, an edge from each node to the classes that it reads.

use egg::Language;

use super::cost::Model;
use super::graph::Answers;
use super::lang::Head;
use super::needless::without_needless_guards;
use super::text::Text;
use super::{Options, Run, rules_of, run};
use crate::base::dot;
use crate::error::{Error, Result};
use crate::index::Affine;
use crate::tssa::Program;

/// Larger e-graphs are no pictures any more.
const MAX_NODES: usize = 400;

/// The e-graph of a program after its first saturation, in the DOT language. The nodes of the result are filled.
///
/// # Errors
/// [`Error::Request`] if it has more than some hundred nodes; [`Error::Overflow`] and [`Error::Bug`].
pub fn to_dot(program: &Program, options: &Options) -> Result<String> {
    let model = Model::new(&program.signature, &options.hints);
    let (program, _) = without_needless_guards(program.clone(), &model, options, None)?;
    let (Run { mut graph, encoded, table, selection, .. }, _) =
        run(&program, options, false, &rules_of(options.tier)?, Answers::default())?;
    let count = graph.egraph.total_number_of_nodes();
    if count > MAX_NODES {
        return Err(Error::Request(format!(
            "the e-graph has {count} nodes, more than the {MAX_NODES} that a picture can show; a budget of fewer nodes or rounds makes it \
             smaller"
        )));
    }
    let text = Text::new(&graph, &encoded.names);
    let mut picture = dot::Graph::new("e-graph");
    picture.compound();
    let mut classes: Vec<egg::Id> = graph.egraph.classes().map(|class| class.id).collect();
    classes.sort();
    for class in &classes {
        let scope = graph.slots(*class);
        let at = Affine::indices(&scope);
        picture.open_cluster(class, &text.element(text.class(*class), &scope));
        for (k, node) in graph.egraph[*class].nodes.clone().iter().enumerate() {
            let label = match &*node.head {
                Head::Input { .. } => "input".to_owned(),
                _ => text.expr(&scope, &graph.open(node, &at)?),
            };
            let node = node.clone().map_children(|id| graph.egraph.find(id));
            let chosen = table.node(&selection, *class) == Some(&node);
            picture.marked_node(format!("{class}.{k}"), &label, chosen);
        }
        picture.close_cluster();
    }
    for class in &classes {
        for (k, node) in graph.egraph[*class].nodes.iter().enumerate() {
            let mut children: Vec<egg::Id> = node.children().iter().map(|id| graph.egraph.find(*id)).collect();
            children.sort();
            children.dedup();
            for child in children {
                picture.edge_to_cluster(format!("{class}.{k}"), format!("{child}.0"), child);
            }
        }
    }
    Ok(picture.finish())
}
