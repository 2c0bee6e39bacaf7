//! Simplification: `tssa -> tssa`, the same function with never more work.
//!
//! ```text
//!   statements --encode--> e-graph --saturate (rules/*.rules)--> e-graph --extract--> nodes --decode--> statements
//! ```
//!
//! 1. [`encode`](self) turns every statement into an open expression over closed tensors, puts it in normal form and adds it.
//! 2. Saturation applies the rules until nothing new comes or a budget is used up. Budgets are counts; whatever stops it, every
//!    class of the e-graph holds equal tensors, so the result is right.
//! 3. Extraction chooses a node for each tensor, so that the whole program costs least, asymptotically first.
//! 4. Decoding writes the chosen nodes as Tensor-SSA.
//!
//! **Why it is right.** Every step is an instance of a rule, whose two sides are equal wherever the reads of the left one are defined. A rule
//! that needs a guard carries the guard on both sides, so no equality is asserted that holds in a context only.

mod conditions;
mod cost;
mod decode;
mod dot;
mod encode;
mod explain;
mod expr;
mod extract;
mod graph;
mod lang;
mod matching;
mod rewrite;
mod rule;
mod rule_check;
mod rule_text;
mod saturate;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::tssa::Program;

pub use dot::to_dot;
pub use explain::{Equation, Explanation, explain};
pub use rule::{Mode, Rule, Tier};
use rule_text::read_all;
pub use rule_text::{RuleError, read};
pub use saturate::Stop;

/// The rule files, by name.
const FILES: [(&str, &str); 6] = [
    ("rules/ring.rules", include_str!("../../rules/ring.rules")),
    ("rules/guards.rules", include_str!("../../rules/guards.rules")),
    ("rules/sums.rules", include_str!("../../rules/sums.rules")),
    ("rules/products.rules", include_str!("../../rules/products.rules")),
    ("rules/powers.rules", include_str!("../../rules/powers.rules")),
    ("rules/functions.rules", include_str!("../../rules/functions.rules")),
];

/// All rules, in order.
///
/// # Errors
/// The first thing wrong in a rule file.
pub fn rules() -> std::result::Result<Vec<Rule>, RuleError> {
    read_all(&FILES)
}

/// Programs of more statements are left as they are.
const MAX_STATEMENTS: usize = 120;

/// How much saturation may do. Counts, never clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Nodes of the e-graph.
    pub nodes: usize,
    /// Rounds over all nodes.
    pub rounds: usize,
    /// Ways in which rules match.
    pub matches: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { nodes: 600, rounds: 8, matches: 1000 }
    }
}

/// How to simplify.
#[derive(Clone, Debug)]
pub struct Options {
    /// How much saturation may do.
    pub budget: Budget,
    /// Which rules are applied: those that hold at least as far.
    pub tier: Tier,
    /// Sizes, as multiples of one large number (1 where nothing is said), and tuples of relations for each unit of it.
    pub hints: BTreeMap<String, f64>,
}

impl Default for Options {
    fn default() -> Self {
        Options { budget: Budget::default(), tier: Tier::Finite, hints: BTreeMap::new() }
    }
}

/// How simplification went.
#[derive(Clone, Debug)]
pub struct Report {
    /// Nodes of the e-graph at the end.
    pub nodes: usize,
    /// Classes of the e-graph at the end.
    pub classes: usize,
    /// Rounds over all nodes.
    pub rounds: usize,
    /// Ways in which rules matched.
    pub matches: usize,
    /// Why saturation ended.
    pub stop: Stop,
    /// How often each rule was applied.
    pub applied: BTreeMap<String, usize>,
}

/// A simplified program.
#[derive(Clone, Debug)]
pub struct Simplified {
    /// The program.
    pub program: Program,
    /// How it went.
    pub report: Report,
}

/// The program with less work, or as it is.
///
/// # Errors
/// [`Error::Overflow`] and [`Error::Bug`].
pub fn simplify(program: &Program, options: &Options) -> Result<Simplified> {
    let live = program.live();
    let live = program.stmts.ids().filter(|x| live[*x]).count();
    if live > MAX_STATEMENTS {
        let (nodes, classes, applied) = (live, live, BTreeMap::new());
        let report = Report { nodes, classes, rounds: 0, matches: 0, stop: Stop::Nodes, applied };
        return Ok(Simplified { program: program.clone(), report });
    }
    let Run { mut graph, encoded, saturation, model, table, selection } = run(program, options, false)?;
    let mut applied = saturation.applied;
    for rule in &encoded.used {
        *applied.entry(rule.clone()).or_default() += 1;
    }
    let report = Report {
        nodes: graph.egraph.total_number_of_nodes(),
        classes: graph.egraph.number_of_classes(),
        rounds: saturation.rounds,
        matches: saturation.matches,
        stop: saturation.stop,
        applied,
    };
    let simplified = decode::decode(&mut graph, &table, &model, &selection, program, &encoded.roots, &encoded.names)?;
    // A guard that would apply a map cannot be written in Tensor-SSA.
    let program = if simplified.verify().is_ok() { simplified } else { program.clone() };
    Ok(Simplified { program, report })
}

/// An e-graph and what was chosen from it.
struct Run<'a> {
    graph: graph::Graph<'a>,
    encoded: encode::Encoded,
    saturation: saturate::Saturation,
    model: cost::Model<'a>,
    table: extract::Table,
    selection: extract::Selection,
}

/// Encodes, saturates and extracts.
fn run<'a>(program: &'a Program, options: &'a Options, record: bool) -> Result<Run<'a>> {
    let all = rules().map_err(|error| Error::bug("simplify", error.to_string()))?;
    let rules = rewrite::Rules::new(&all, options.tier);
    let signature = &*program.signature;
    let mut graph = graph::Graph::new(signature, &options.hints);
    let encoded = encode::encode(&mut graph, &rules, program)?;
    graph.egraph.rebuild();
    let before: Vec<(egg::Id, lang::Node)> =
        graph.egraph.classes().filter_map(|class| Some((class.id, class.nodes.first()?.clone()))).collect();
    let saturation = saturate::saturate(&mut graph, &rules, options.budget, record)?;
    let model = cost::Model::new(signature, &options.hints);
    let table = extract::Table::new(&graph, &model);
    let before: Vec<(egg::Id, lang::Node)> = before
        .into_iter()
        .map(|(class, node)| (graph.egraph.find(class), egg::Language::map_children(node, |id| graph.egraph.find(id))))
        .collect();
    let given = table.selection(&before);
    let roots: Vec<egg::Id> = encoded.roots.iter().flatten().map(|id| graph.egraph.find(*id)).collect();
    let selection = table.extract(&roots, &given)?;
    Ok(Run { graph, encoded, saturation, model, table, selection })
}
