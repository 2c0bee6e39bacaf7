//! How the tool simplifies: arguments, and what is said when a budget was used up.

use std::collections::BTreeMap;
use std::io::Write;

use iverson::ir::simplify::{Budget, Options, Report, Stop, Tier};
use iverson::ir::stages::Stages;
use iverson::ir::term;
use iverson::ir::ty::{Block, Signature};
use iverson::{Error, Function, Result};

use super::{Derivative, Failure, Reader};

/// How to simplify.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct SimplifyArguments {
    /// Leave derivatives as the rules of differentiation give them, and programs that run as kernels as they are written.
    #[arg(long, conflicts_with_all = ["strict", "hints", "effort", "nodes", "rounds", "matches", "work"])]
    no_simplify: bool,
    /// Simplify by rules that keep every bit, up to the order of factors and terms.
    #[arg(long)]
    strict: bool,
    /// How large a size is compared with the others; 1 where nothing is said.
    ///
    /// Of a relation, the tuples that it has for each place of an axis; 20 where nothing is said.
    #[arg(long = "hint", value_name = "NAME=NUMBER")]
    hints: Vec<String>,
    /// How many times the default nodes, rounds and results of rules simplification may take in one pass.
    ///
    /// The search doubles the default as often as this allows. A program that more effort finds is never dearer.
    #[arg(long, value_name = "TIMES", default_value_t = 1, conflicts_with_all = ["nodes", "rounds", "matches"])]
    effort: usize,
    /// How many nodes simplification may make in one pass; 400 where nothing is said.
    #[arg(long)]
    nodes: Option<usize>,
    /// How many rounds simplification may take in one pass; 8 where nothing is said.
    #[arg(long)]
    rounds: Option<usize>,
    /// How many new results of rules one pass of simplification may have; 500 where nothing is said.
    #[arg(long)]
    matches: Option<usize>,
    /// How many units of work all passes of simplification may take together; 2^26, and 2^12 for each statement, where nothing is said.
    #[arg(long)]
    work: Option<u64>,
}

impl SimplifyArguments {
    /// The options for a program; none where nothing is to be simplified.
    pub(super) fn options(&self, signature: &Signature) -> Result<Option<Options>> {
        if self.no_simplify {
            return Ok(None);
        }
        let tier = if self.strict { Tier::Exact } else { Options::default().tier };
        let hints = self.hints(signature)?;
        Ok(Some(Options { budget: self.budget(), tier, hints, work: self.work, ..Options::default() }))
    }

    /// Checks that nothing is said of how to simplify where nothing is simplified.
    pub(super) fn unused(&self) -> Result<()> {
        let default =
            !self.strict && self.hints.is_empty() && self.work.is_none() && self.budget() == Budget::default();
        match default {
            true => Ok(()),
            false => Err(Error::Request("nothing is simplified here, so nothing can be said of how".to_owned())),
        }
    }

    fn budget(&self) -> Budget {
        let Budget { nodes, rounds, matches } = Budget::default().times(self.effort);
        Budget {
            nodes: self.nodes.unwrap_or(nodes),
            rounds: self.rounds.unwrap_or(rounds),
            matches: self.matches.unwrap_or(matches),
        }
    }

    fn hints(&self, signature: &Signature) -> Result<BTreeMap<String, f64>> {
        let sizes = signature.sizes.values();
        let known: Vec<&String> = sizes.chain(signature.relations.values().map(|r| &r.name)).collect();
        let mut hints = BTreeMap::new();
        for argument in &self.hints {
            let wrong = || Error::Request(format!("--hint takes NAME=NUMBER, a positive number, found `{argument}`"));
            let (name, text) = argument.split_once('=').ok_or_else(wrong)?;
            let number = text.parse().ok().filter(|x: &f64| x.is_finite() && *x > 0.0).ok_or_else(wrong)?;
            if !known.iter().any(|other| *other == name) {
                let known: Vec<&str> = known.iter().map(|name| name.as_str()).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(Error::Request(format!(
                    "there is no size or relation `{name}` to hint at; there are: {known}"
                )));
            }
            if hints.insert(name.to_owned(), number).is_some() {
                return Err(Error::Request(format!("`{name}` is given twice")));
            }
        }
        Ok(hints)
    }
}

/// Says on standard error that a budget was used up, if one was that the command line says.
pub(super) fn tell(report: &Report, options: Option<&Options>) {
    if options.is_none_or(|options| options.work.is_none() && options.budget == Budget::default()) {
        return;
    }
    let what = match report.stop {
        Stop::Saturated => return,
        Stop::Nodes => "nodes; a larger --effort goes on",
        Stop::Rounds => "rounds; a larger --effort goes on",
        Stop::Work => "work; --work sets another",
        Stop::Matches => "results of rules; a larger --effort goes on",
    };
    // With standard error gone there is nobody left to tell.
    let _ = writeln!(std::io::stderr(), "note: simplification ended at its budget of {what}");
}

/// The program, or the derivative asked for, simplified unless nothing is to be, with its blocks if it is a matrix.
pub(super) fn compiled(
    derivative: &Derivative,
    program: term::Program,
    reader: &Reader,
    options: Option<Options>,
) -> std::result::Result<(Function, Vec<Block>), Failure> {
    let mut stages = Stages::new();
    let request = derivative.request(&program.signature, options.clone())?;
    let function = derivative.given.of(program, reader, &mut stages)?;
    if let Some(request) = request {
        let derived = function.derive_in(&request, &mut stages)?;
        derived.simplification.iter().for_each(|report| tell(report, options.as_ref()));
        return Ok((derived.function, derived.blocks));
    }
    let Some(options) = options else { return Ok((function, Vec::new())) };
    let simplified = function.simplify_with(&options)?;
    tell(&simplified.report, Some(&options));
    Ok((simplified.function, Vec::new()))
}
