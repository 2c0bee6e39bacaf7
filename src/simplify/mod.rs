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

mod bindings;
mod conditions;
mod cost;
mod decode;
mod dot;
mod encode;
mod explain;
mod expr;
mod extract;
mod graph;
mod instantiate;
mod lang;
mod matching;
mod needless;
mod rewrite;
mod rule;
mod rule_check;
mod rule_text;
mod saturate;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::LazyLock;

use crate::base::work;
use crate::error::{Error, Result};
use crate::tssa::Program;

pub use dot::to_dot;
pub use explain::{Equation, Explanation, Part, explain};
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

/// All rules, in order; read once.
///
/// # Errors
/// The first thing wrong in a rule file.
pub fn rules() -> std::result::Result<&'static [Rule], &'static RuleError> {
    static RULES: LazyLock<std::result::Result<Vec<Rule>, RuleError>> = LazyLock::new(|| read_all(&FILES));
    RULES.as_deref()
}

/// Programs of more statements are brought to normal form, and not searched for cheaper ones.
const MAX_SATURATED: usize = 400;

/// Programs of more statements are left as they are.
const MAX_STATEMENTS: usize = 20_000;

/// How much saturation may do in one pass. Counts, never clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Nodes of the e-graph.
    pub nodes: usize,
    /// Rounds over all nodes.
    pub rounds: usize,
    /// New results of rules.
    pub matches: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { nodes: 400, rounds: 8, matches: 500 }
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
    /// How many units of [`work`] all passes together may take; where nothing is said [as many as a pass may](work::budget).
    pub work: Option<u64>,
}

impl Options {
    /// The units of work for a program of so many statements.
    fn work_for(&self, statements: usize) -> u64 {
        self.work.unwrap_or_else(|| work::budget(statements))
    }
}

impl Default for Options {
    fn default() -> Self {
        Options { budget: Budget::default(), tier: Tier::Finite, hints: BTreeMap::new(), work: None }
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
    /// New results of rules.
    pub matches: usize,
    /// Units of [`work`], of all passes.
    pub work: u64,
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

/// A result is simplified again as long as that makes it cheaper: what was shared, or summed first, opens new ways. Every pass has the
/// whole budget, so the last one, which finds nothing, shows that simplifying the result once more changes nothing. Programs that cost the
/// same may become each other in turn; then it ends with the first of them in the order of their text, whichever came in.
const MAX_PASSES: usize = 12;

/// The program with less work, or as it is.
///
/// # Errors
/// [`Error::Overflow`] and [`Error::Bug`].
pub fn simplify(program: &Program, options: &Options) -> Result<Simplified> {
    let live = program.live();
    let live = program.stmts.ids().filter(|x| live[*x]).count();
    let mut report = Report {
        nodes: live,
        classes: live,
        rounds: 0,
        matches: 0,
        work: 0,
        stop: Stop::Nodes,
        applied: BTreeMap::new(),
    };
    if live > MAX_STATEMENTS {
        return Ok(Simplified { program: program.clone(), report });
    }
    let before = work::spent();
    let program = for_each_pass(program, options, false, &mut |pass| {
        if let Some((run, _)) = pass.run {
            report.add(run);
        }
        Ok(())
    })?;
    report.work = work::spent() - before;
    if report.work >= options.work_for(live) {
        report.stop = Stop::Work;
    }
    Ok(Simplified { program, report })
}

/// One pass: guards that went, and then the e-graph with what it was made of.
struct Pass<'p, 'r> {
    weakened: Vec<needless::Weakened>,
    run: Option<(&'p mut Run<'r>, &'p Program)>,
}

/// Simplifies on a budget of work; every pass is shown.
fn for_each_pass(
    program: &Program,
    options: &Options,
    record: bool,
    show: &mut dyn FnMut(Pass<'_, '_>) -> Result<()>,
) -> Result<Program> {
    let live = program.live();
    let live = program.stmts.ids().filter(|x| live[*x]).count();
    work::within(options.work_for(live), || passes(program, options, record, show))
}

/// Passes until nothing changes, or the budget of work is used up.
fn passes(
    program: &Program,
    options: &Options,
    record: bool,
    show: &mut dyn FnMut(Pass<'_, '_>) -> Result<()>,
) -> Result<Program> {
    let model = cost::Model::new(&program.signature, &options.hints);
    let (program, mut weakened) = needless::without_needless_guards(program.clone(), &model, options.tier)?;
    let mut program = Rc::new(program);
    let mut passed = vec![Rc::clone(&program)];
    let mut last: Option<Rc<Program>> = None;
    let mut before: Option<Encoding> = None;
    let rules = rules_of(options.tier)?;
    let mut answers = graph::Answers::default();
    for _ in 0..MAX_PASSES {
        if work::is_used_up() {
            break;
        }
        let current = Rc::clone(&program);
        let (mut run, encoding) = run(&current, options, record, &rules, std::mem::take(&mut answers))?;
        // What is encoded as the program before it was becomes itself, which is what that one became.
        let known = before.as_ref() == Some(&encoding);
        let next = if known { None } else { run.program(&program, options)? };
        before = Some(encoding);
        // A pass that changed nothing has nothing to show but its guards.
        let shown = (next.is_some() || !record).then_some((&mut run, &*current));
        show(Pass { weakened: std::mem::take(&mut weakened), run: shown })?;
        match next {
            Some((next, fewer)) => (program, weakened) = (Rc::new(next), fewer),
            None => break,
        }
        if last.is_none()
            && let Some(at) = passed.iter().position(|other| other.stmts == program.stmts)
        {
            let text = |program: &&Rc<Program>| format!("{:?}", program.stmts);
            last = passed.iter().skip(at).min_by_key(text).cloned();
        }
        if last.as_ref().is_some_and(|last| last.stmts == program.stmts) {
            break;
        }
        if run.large && run.encoded.becomes(&mut run.graph, &rules, &current, &program)? {
            let shown = (!record).then_some((&mut run, &*program));
            show(Pass { weakened: std::mem::take(&mut weakened), run: shown })?;
            break;
        }
        answers = std::mem::take(&mut run.graph.answers);
        passed.push(Rc::clone(&program));
    }
    show(Pass { weakened, run: None })?;
    drop((passed, last));
    Ok(Rc::unwrap_or_clone(program))
}

impl Report {
    /// Adds a pass. The e-graph is that of the first one; a budget that was used up then is what ended it.
    fn add(&mut self, run: &Run<'_>) {
        if run.saturation.stop == Stop::Work {
            self.stop = Stop::Work;
        }
        if self.rounds == 0 {
            self.nodes = run.graph.egraph.total_number_of_nodes();
            self.classes = run.graph.egraph.number_of_classes();
            self.stop = run.saturation.stop;
        }
        self.rounds += run.saturation.rounds;
        self.matches += run.saturation.matches;
        let once = run.encoded.used.iter().map(|rule| (rule, 1));
        for (rule, count) in run.saturation.applied.iter().map(|(rule, count)| (rule, *count)).chain(once) {
            *self.applied.entry(rule.clone()).or_default() += count;
        }
    }
}

/// The e-graph of a program as it was made: a node of each class, the class of each output leaf, and names.
#[derive(PartialEq)]
struct Encoding {
    nodes: Vec<(egg::Id, lang::Node)>,
    roots: Vec<Vec<egg::Id>>,
    names: Vec<(egg::Id, String)>,
}

/// An e-graph and what was chosen from it.
struct Run<'a> {
    graph: graph::Graph<'a>,
    encoded: encode::Encoded,
    saturation: saturate::Saturation,
    model: cost::Model<'a>,
    table: extract::Table,
    selection: extract::Selection,
    /// Whether the selection costs less than the program did.
    cheaper: bool,
    /// Whether there were too many classes to look for a cheaper one.
    large: bool,
}

impl Run<'_> {
    /// What was chosen, as a program; nothing where the one that came in is as good.
    fn program(&mut self, before: &Program, options: &Options) -> Result<Option<(Program, Vec<needless::Weakened>)>> {
        if !self.cheaper && self.encoded.steps.is_empty() {
            return Ok(None);
        }
        let Run { graph, encoded, model, table, selection, .. } = self;
        let after = decode::decode(graph, table, model, selection, before, &encoded.roots, &encoded.names)?;
        // A guard that would apply a map cannot be written in Tensor-SSA.
        if work::uncounted(|| after.verify()).is_err() {
            return Ok(None);
        }
        let (after, weakened) = needless::without_needless_guards(after, model, options.tier)?;
        Ok((after != *before).then_some((after, weakened)))
    }
}

/// The rules that hold at least as far as a tier says.
fn rules_of(tier: Tier) -> Result<rewrite::Rules<'static>> {
    let all = rules().map_err(|error| Error::bug("simplify", error.to_string()))?;
    Ok(rewrite::Rules::new(all, tier))
}

/// Encodes, saturates and extracts. Rules and answers may have been used for another program of the same signature.
fn run<'a>(
    program: &'a Program,
    options: &Options,
    record: bool,
    rules: &rewrite::Rules<'_>,
    answers: graph::Answers,
) -> Result<(Run<'a>, Encoding)> {
    let signature = &*program.signature;
    let mut graph = graph::Graph::new(signature, &options.hints);
    graph.answers = answers;
    let encoded = encode::encode(&mut graph, rules, program)?;
    graph.rebuild();
    let nodes: Vec<(egg::Id, lang::Node)> =
        graph.egraph.classes().filter_map(|class| Some((class.id, class.nodes.first()?.clone()))).collect();
    let large = graph.egraph.number_of_classes() > MAX_SATURATED;
    let budget = if large { Budget { rounds: 0, ..options.budget } } else { options.budget };
    // Half of what is left is for the choice among the forms that are found, and for further passes.
    let saturation = work::within(work::left() / 2, || saturate::saturate(&mut graph, rules, budget, record))?;
    let model = graph.model.clone();
    // Where nothing is chosen, costs do not matter.
    let table = extract::Table::new(&graph, (!large).then_some(&model));
    let now = |(class, node): &(egg::Id, lang::Node)| {
        (graph.egraph.find(*class), egg::Language::map_children(node.clone(), |id| graph.egraph.find(id)))
    };
    let given = table.selection(&nodes.iter().map(now).collect::<Vec<_>>());
    let roots: Vec<egg::Id> = encoded.roots.iter().flatten().map(|id| graph.egraph.find(*id)).collect();
    let (selection, cheaper) = if large { (given, false) } else { table.extract(&roots, &given)? };
    let encoding = Encoding { nodes, roots: encoded.roots.clone(), names: encoded.names.clone() };
    Ok((Run { graph, encoded, saturation, model, table, selection, cheaper, large }, encoding))
}
