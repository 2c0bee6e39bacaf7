//! Simplification: `tssa -> tssa`, the same function for no more work.
//!
//! ```text
//!   statements --encode--> e-graph --saturate (rules/*.rules)--> e-graph --extract--> nodes --decode--> statements
//! ```
//!
//! 1. [`encode`](self) turns every statement into an open expression over closed tensors, puts it in normal form and adds it.
//! 2. Saturation applies the rules until nothing new comes or a budget is used up: by default 400 nodes, 8 rounds, 500 results. So an e-graph
//!    holds some of the forms that rules lead to, rarely all of them. Budgets are counts; whatever stops it, every class of the e-graph holds equal
//!    tensors, so the result is right. Of a program of more than 400 classes the normal form is taken.
//! 3. Extraction chooses a node for each tensor, so that the whole program costs least, asymptotically first. It is approached, not proved.
//! 4. Decoding writes the chosen nodes as Tensor-SSA. This is repeated as long as it helps.
//! 5. The programs on the way are [priced](self) statement by statement as the evaluator counts. The last one that costs no more than what came
//!    in is the result. The order is that of growth; programs that grow alike are counted at some small sizes.
//!
//! A larger budget is used in steps, the default one and twice as much as often as it allows, and each step begins with the result of the last
//! one. So from the default one on a larger budget never gives a dearer program.
//!
//! **Why it is right.** Every step is an instance of a rule, whose two sides agree as far as its [`Tier`] says, wherever the reads of the left one
//! are defined, or of one of the steps that are [`BUILT_IN`]. A rule that needs a guard carries the
//! guard on both sides, so no equality is asserted that holds in a context only. A rule of the tier `finite` may mask more on its right, as where
//! a factor goes under the guard of another one; it adds a node to its class then, but does not unite it with a class that others read.
//!
//! **What of `egg` is used.** Its e-graph: hash-consing, union-find, rebuilding and the analysis of classes. Not used are
//!
//! - its *patterns*: they match constructors of fixed arity. A left-hand side here matches some factors of a product in any order, under guards
//!   that are proved, and binds indices;
//! - its *runner*: it looks at limits between rounds, and one round may exceed them any number of times. Here they are looked at before each result;
//! - its *extractor*: it chooses the cheapest tree, where a tensor that is read twice costs twice. Its choice is cheaper for none of the
//!   derivatives of `tests/programs` by all parameters. It is dearer for at least one in five of them, and for one by a quarter or more; a test of
//!   [`extract`](self) counts that;
//! - its *explanations*: they are chains of terms that patterns rewrite. Here both sides of a step are expressions with indices.
//!
//! | file | job |
//! |---|---|
//! | `expr`, `lang`, `graph` | expressions, nodes of the e-graph, opening and closing of nodes |
//! | `rule`, `rule_text`, `rule_check` | rules, their text, what they must not do |
//! | `matching`, `bindings`, `conditions`, `instantiate` | where a rule matches, and what it makes of that |
//! | `rewrite`, `saturate` | normal forms; all rules on all nodes |
//! | `symmetry` | axes that can be exchanged |
//! | `cost`, `extract`, `price` | what nodes cost, the cheapest selection, what programs cost |
//! | `encode`, `decode` | Tensor-SSA into the e-graph and back |
//! | `needless` | guards that say nothing |
//! | `finite` | what is finite, and where it is seen if something is not |
//! | `explain`, `text`, `dot` | why a result is the same function; pictures |

mod bindings;
mod conditions;
mod cost;
mod decode;
mod dot;
mod encode;
mod explain;
mod expr;
mod extract;
mod finite;
mod graph;
mod instantiate;
mod lang;
mod matching;
mod needless;
mod price;
mod rewrite;
mod rule;
mod rule_check;
mod rule_text;
mod saturate;
mod symmetry;
#[cfg(test)]
mod tests;
mod text;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::LazyLock;

use crate::base::work;
use crate::error::{Error, Result};
use crate::tssa::Program;

pub use dot::to_dot;
pub use explain::{BUILT_IN, Equation, Explanation, Part, explain};
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

/// Programs of more classes are brought to normal form, and not searched for cheaper ones.
const MAX_SATURATED: usize = 400;

/// Programs of more statements are left as they are.
const MAX_STATEMENTS: usize = 20_000;

/// How much saturation may do in one pass. Counts, never clocks.
///
/// The search doubles the default one as often as all three counts allow, so [`Budget::times`] of it is the natural way to ask for more.
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
    /// Whether data, and products of them, may be taken to be finite where a guard keeps them out of a product of matrices, or says that some
    /// number of a computed tensor is not zero. The result says whether this was used: it is the program wherever its results are numbers, and they may be
    /// NaN where those of the program are not.
    pub finite_data: bool,
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
        Options { budget: Budget::default(), tier: Tier::Finite, hints: BTreeMap::new(), finite_data: true, work: None }
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

impl Report {
    /// How it went for another program beside this one.
    pub(crate) fn join(&mut self, other: Report) {
        self.nodes += other.nodes;
        self.classes += other.classes;
        self.rounds += other.rounds;
        self.matches += other.matches;
        self.work += other.work;
        // A search that ended early says more than one that came to its end.
        if self.stop == Stop::Saturated {
            self.stop = other.stop;
        }
        for (rule, times) in other.applied {
            *self.applied.entry(rule).or_insert(0) += times;
        }
    }
}

/// A simplified program.
#[derive(Clone, Debug)]
pub struct Simplified {
    /// The program.
    pub program: Program,
    /// The same without [data that are taken to be finite](Options::finite_data), where that is another program.
    pub strict: Option<Program>,
    /// How it went.
    pub report: Report,
}

/// A result is simplified again as long as that makes it cheaper: what was shared, or summed first, opens new ways. Every pass has the
/// whole budget, so where it ends because the last one finds nothing, simplifying the result once more changes nothing, but for a random program in
/// some thousands, in which guards that others rest on go in another order. Programs that cost the same may become each other in turn; then it ends
/// with the first of them in the order of their text, whichever came in.
const MAX_PASSES: usize = 12;

/// How often one budget is used where not all guards went that save nothing for large sizes.
const MAX_AGAIN: usize = 3;

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
    let before = work::spent();
    let (mut is_first, mut trusts_data) = (true, false);
    let (found, _) = search(program, options, false, &mut |event| {
        match event {
            Event::Climbs => is_first = true,
            Event::Weakened(weakening) => trusts_data |= weakening.dropped.iter().any(|guard| guard.trusts_data),
            Event::Run { run, .. } => {
                report.add(run, is_first);
                is_first = false;
            }
        }
        Ok(())
    })?;
    report.work = work::spent() - before;
    if report.work >= options.work_for(live) {
        report.stop = Stop::Work;
    }
    let strict = match trusts_data {
        true => Some(simplify(program, &Options { finite_data: false, ..options.clone() })?.program),
        false => None,
    };
    Ok(Simplified { strict: strict.filter(|strict| *strict != found), program: found, report })
}

/// Whether a program costs no more than another one of the same signature, in the order in which results of [`simplify()`] are compared:
/// growth first, where additions, multiplications, functions, and half of all numbers that are stored count, then counts at small sizes; and whether it grows
/// with no higher power where relations have all tuples.
///
/// # Errors
/// [`Error::Overflow`].
pub fn is_no_dearer(program: &Program, other: &Program, hints: &BTreeMap<String, f64>) -> Result<bool> {
    let model = cost::Model::new(&program.signature, hints);
    let mut pricing = price::Pricing::new(&program.signature, &model);
    Ok(pricing.price(program)?.is_no_dearer(&pricing.price(other)?))
}

/// What happens while a program is simplified.
enum Event<'p, 'r> {
    /// A larger budget begins.
    Climbs,
    /// Guards went.
    Weakened(Weakening<'p>),
    /// An e-graph was made of a program, and perhaps another program taken out of it.
    Run { run: &'p mut Run<'r>, before: &'p Program, after: Option<&'p Program> },
}

/// Guards that went from a program.
struct Weakening<'p> {
    before: &'p Program,
    after: &'p Program,
    dropped: &'p [needless::Dropped],
}

impl Budget {
    /// So many times as much of each.
    pub fn times(self, effort: usize) -> Budget {
        let Budget { nodes, rounds, matches } = self;
        Budget {
            nodes: nodes.saturating_mul(effort),
            rounds: rounds.saturating_mul(effort),
            matches: matches.saturating_mul(effort),
        }
    }

    /// The budgets that a search goes through: the default one, and twice as much as often as all three counts of this one allow. So of two
    /// budgets the larger one begins with all steps of the other, and its result costs no more. What is less than the default is one step.
    fn steps(self) -> Vec<Budget> {
        let allows =
            |step: &Budget| step.nodes <= self.nodes && step.rounds <= self.rounds && step.matches <= self.matches;
        let double = |n: usize| n.checked_mul(2);
        let twice = |step: &Budget| {
            let Budget { nodes, rounds, matches } = *step;
            Some(Budget { nodes: double(nodes)?, rounds: double(rounds)?, matches: double(matches)? })
        };
        let steps: Vec<Budget> = std::iter::successors(Some(Budget::default()), twice).take_while(allows).collect();
        if steps.is_empty() { vec![self] } else { steps }
    }
}

/// Simplifies; what is made of each event of the way to the result is given, too.
///
/// Each step of the budget begins with the result of the one before. A result that [costs more](price) than what came in is not taken but the
/// last one before that does not; guards may be what made it so, thus before nothing is done at all [fewer go](Drops), or none. All of it is done
/// on the budget of [`work`], which ends it with the best program by then.
fn search<T>(
    program: &Program,
    options: &Options,
    record: bool,
    tell: &mut dyn FnMut(Event<'_, '_>) -> Result<T>,
) -> Result<(Program, Vec<T>)> {
    let live = program.live();
    let live = program.stmts.ids().filter(|x| live[*x]).count();
    if live > MAX_STATEMENTS {
        return Ok((program.clone(), Vec::new()));
    }
    work::within(options.work_for(live), || climb(program, options, record, tell))
}

/// One budget after the other.
fn climb<T>(
    program: &Program,
    options: &Options,
    record: bool,
    tell: &mut dyn FnMut(Event<'_, '_>) -> Result<T>,
) -> Result<(Program, Vec<T>)> {
    let mut told = Vec::new();
    let mut program = Rc::new(program.clone());
    let signature = program.signature.clone();
    let model = cost::Model::new(&signature, &options.hints);
    let pricing = RefCell::new(price::Pricing::new(&signature, &model));
    'climb: for budget in options.budget.steps() {
        let options = Options { budget, ..options.clone() };
        // From a program that costs less because fewer guards went, more may go.
        for _ in 0..MAX_AGAIN {
            if work::is_used_up() {
                break 'climb;
            }
            tell(Event::Climbs)?;
            let (mut ended, mut again) = (false, false);
            for drops in [Drops::Estimated, Drops::Counted(&pricing), Drops::Nothing] {
                let mut events = Vec::new();
                let way = Way { options: &options, record, drops };
                let (found, more) = way.passes(&program, &mut |event| {
                    events.push(tell(event)?);
                    Ok(events.len())
                })?;
                ended = !more;
                if let Some((count, found)) = cheapest(&mut pricing.borrow_mut(), &program, found)? {
                    again = !matches!(drops, Drops::Estimated) && found.stmts != program.stmts;
                    events.truncate(count);
                    told.append(&mut events);
                    program = found;
                    break;
                }
            }
            match again {
                true => {}
                false if ended => break 'climb,
                false => break,
            }
        }
    }
    Ok((Rc::unwrap_or_clone(program), told))
}

/// A program, and how many events had led to it.
type Candidate = (usize, Rc<Program>);

/// The last of some programs, each made of the one before, that costs no more than the one that came in.
fn cheapest(
    pricing: &mut price::Pricing<'_, '_>,
    program: &Rc<Program>,
    mut found: Vec<Candidate>,
) -> Result<Option<Candidate>> {
    let mut own = None;
    while let Some((count, last)) = found.pop() {
        if last.stmts == program.stmts {
            return Ok(Some((count, last)));
        }
        let own = match &own {
            Some(own) => own,
            None => own.insert(pricing.price(program)?),
        };
        if pricing.price(&last)?.is_no_dearer(own) {
            return Ok(Some((count, last)));
        }
    }
    Ok(None)
}

/// Which guards go that say nothing.
#[derive(Clone, Copy)]
enum Drops<'p, 'm, 'a> {
    /// Those that save nothing for large sizes.
    Estimated,
    /// Of these those that save nothing in small worlds either.
    Counted(&'p RefCell<price::Pricing<'m, 'a>>),
    /// None.
    Nothing,
}

/// How to go from pass to pass.
struct Way<'o, 'm, 'a> {
    options: &'o Options,
    record: bool,
    drops: Drops<'o, 'm, 'a>,
}

impl Way<'_, '_, '_> {
    /// Simplifies again and again. All programs on the way, each with the number of events that `show` had seen by then, and whether a larger
    /// budget may find more.
    fn passes(
        &self,
        program: &Rc<Program>,
        show: &mut dyn FnMut(Event<'_, '_>) -> Result<usize>,
    ) -> Result<(Vec<Candidate>, bool)> {
        let Way { options, record, .. } = self;
        let mut found = Vec::new();
        if matches!(self.drops, Drops::Nothing) {
            found.push((0, Rc::clone(program)));
        }
        let (mut program, count) = self.without_guards(Rc::clone(program), show)?;
        found.push((count, Rc::clone(&program)));
        let mut passed = vec![Rc::clone(&program)];
        let mut last: Option<Rc<Program>> = None;
        let mut before: Option<Encoding> = None;
        let rules = rules_of(options.tier)?;
        let mut answers = graph::Answers::default();
        let mut more = false;
        for pass in 0..MAX_PASSES {
            if work::is_used_up() {
                break;
            }
            let current = Rc::clone(&program);
            let (mut run, encoding) = run(&current, options, *record, &rules, std::mem::take(&mut answers))?;
            more |= pass == 0 && !run.large && run.saturation.stop != Stop::Saturated;
            // What is encoded as the program before it was becomes itself, which is what that one became.
            let known = before.as_ref() == Some(&encoding);
            let next = if known { None } else { run.program(&program)?.map(Rc::new) };
            before = Some(encoding);
            show(Event::Run { run: &mut run, before: &current, after: next.as_deref() })?;
            let Some(next) = next else { break };
            let (next, count) = self.without_guards(next, show)?;
            if next == program {
                break;
            }
            program = next;
            found.push((count, Rc::clone(&program)));
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
                if !record {
                    show(Event::Run { run: &mut run, before: &program, after: None })?;
                }
                break;
            }
            answers = std::mem::take(&mut run.graph.answers);
            passed.push(Rc::clone(&program));
        }
        Ok((found, more))
    }

    /// The program without guards that say nothing, and how many events were shown.
    fn without_guards(
        &self,
        program: Rc<Program>,
        show: &mut dyn FnMut(Event<'_, '_>) -> Result<usize>,
    ) -> Result<(Rc<Program>, usize)> {
        let model = cost::Model::new(&program.signature, &self.options.hints);
        let without = |counting| needless::without_needless_guards((*program).clone(), &model, self.options, counting);
        let (after, dropped) = match self.drops {
            Drops::Estimated => without(None)?,
            Drops::Counted(pricing) => without(Some(pricing))?,
            Drops::Nothing => ((*program).clone(), Vec::new()),
        };
        let count = show(Event::Weakened(Weakening { before: &program, after: &after, dropped: &dropped }))?;
        let after = Rc::new(after);
        Ok((after, count))
    }
}

impl Report {
    /// Adds a pass. The e-graph is that of the first one; a budget that was used up then is what ended it.
    fn add(&mut self, run: &Run<'_>, is_first: bool) {
        if run.saturation.stop == Stop::Work {
            self.stop = Stop::Work;
        }
        if is_first {
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
    /// Whether there is a selection; none where the budget of work ended before.
    found: bool,
    /// Whether it costs less than the program did.
    cheaper: bool,
    /// Whether there were too many classes to look for a cheaper one.
    large: bool,
}

impl Run<'_> {
    /// What was chosen, as a program; nothing where the one that came in is as good.
    fn program(&mut self, before: &Program) -> Result<Option<Program>> {
        let is_normal = self.encoded.steps.is_empty() && self.encoded.folded == 0;
        if !self.found || !self.cheaper && is_normal {
            return Ok(None);
        }
        let Run { graph, encoded, model, table, selection, .. } = self;
        let after = decode::decode(graph, table, model, selection, before, &encoded.roots, &encoded.names)?;
        if decode::limitation(&after).is_some() {
            return Ok(None);
        }
        crate::stages::check("simplify", &after)?;
        Ok((after != *before).then_some(after))
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
    let mut graph = graph::Graph::new(signature, &options.hints, options.tier);
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
    let extracted = if large { Some((given, false)) } else { table.extract(&roots, &given)? };
    let found = extracted.is_some();
    let (selection, cheaper) = extracted.unwrap_or_else(|| (table.nothing(), false));
    let encoding = Encoding { nodes, roots: encoded.roots.clone(), names: encoded.names.clone() };
    Ok((Run { graph, encoded, saturation, model, table, selection, found, cheaper, large }, encoding))
}
