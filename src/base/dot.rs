//! The GraphViz writer shared by all graph dumps.

use std::fmt::Write;

/// A directed graph in the DOT language, written node by node.
#[derive(Clone, Debug)]
pub struct Graph {
    text: String,
}

impl Graph {
    /// An empty graph. Labels may hold any text; they are escaped here.
    pub fn new(name: &str) -> Self {
        Graph { text: format!("digraph {} {{\n  node [shape=box, fontname=monospace];\n", quote(name)) }
    }

    /// A node.
    pub fn node(&mut self, id: impl std::fmt::Display, label: &str) {
        self.line(format_args!("{} [label={}];", quote(&id.to_string()), quote(label)));
    }

    /// A node that stands out if it is marked.
    pub fn marked_node(&mut self, id: impl std::fmt::Display, label: &str, marked: bool) {
        let style = if marked { ", style=filled, fillcolor=lightgrey" } else { "" };
        self.line(format_args!("{} [label={}{style}];", quote(&id.to_string()), quote(label)));
    }

    /// Lets edges end at boxes.
    pub fn compound(&mut self) {
        self.line(format_args!("compound=true;"));
    }

    /// Begins a box around the nodes that follow.
    pub fn open_cluster(&mut self, id: impl std::fmt::Display, label: &str) {
        self.line(format_args!("subgraph {} {{ label={};", quote(&format!("cluster_{id}")), quote(label)));
    }

    /// Ends the box.
    pub fn close_cluster(&mut self) {
        self.line(format_args!("}}"));
    }

    /// An edge to a box, by one of the nodes in it.
    pub fn edge_to_cluster(
        &mut self,
        from: impl std::fmt::Display,
        to: impl std::fmt::Display,
        cluster: impl std::fmt::Display,
    ) {
        let (from, to) = (quote(&from.to_string()), quote(&to.to_string()));
        self.line(format_args!("{from} -> {to} [lhead={}];", quote(&format!("cluster_{cluster}"))));
    }

    /// An edge with a label, empty for none.
    pub fn edge(&mut self, from: impl std::fmt::Display, to: impl std::fmt::Display, label: &str) {
        let (from, to) = (quote(&from.to_string()), quote(&to.to_string()));
        match label {
            "" => self.line(format_args!("{from} -> {to};")),
            label => self.line(format_args!("{from} -> {to} [label={}];", quote(label))),
        }
    }

    /// The text of the graph.
    pub fn finish(mut self) -> String {
        self.text.push_str("}\n");
        self.text
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "  {line}");
    }
}

/// A DOT string: quotes and backslashes escaped, line breaks kept.
fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            c if c.is_control() => quoted.push(' '),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::Graph;

    #[test]
    fn dot_escapes_labels() {
        let mut graph = Graph::new("g");
        graph.node("a", "x \"y\" \\ z\nw");
        graph.edge("a", "b", "");
        graph.edge("a", "c", "to");
        let expected = "digraph \"g\" {\n  node [shape=box, fontname=monospace];\n  \"a\" [label=\"x \\\"y\\\" \\\\ z\\nw\"];\n  \"a\" -> \"b\";\n  \"a\" -> \"c\" [label=\"to\"];\n}\n";
        assert_eq!(graph.finish(), expected);
    }
}
