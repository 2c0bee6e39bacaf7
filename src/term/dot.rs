//! Terms as a graph for GraphViz.

use super::data::{Program, Term};
use super::print::Printer;
use crate::base::dot::Graph;

impl Program {
    /// The tree of terms in the DOT language: a node for each term, an edge from each term to its operands.
    pub fn to_dot(&self) -> String {
        let mut graph = Graph::new("term");
        let mut printer = Printer::plain(self);
        for (id, term) in self.terms.iter() {
            graph.node(id, &format!("{id}: {}", printer.label(term)));
            let mut operands = Vec::new();
            term.for_each_operand(|e| operands.push(e));
            for (at, e) in operands.iter().enumerate() {
                let label = match (term, at) {
                    (Term::Let { .. }, 0) => "value".to_owned(),
                    (Term::Let { .. }, _) => "body".to_owned(),
                    _ if operands.len() == 1 => String::new(),
                    _ => at.to_string(),
                };
                graph.edge(id, e, &label);
            }
        }
        graph.finish()
    }
}
