//! Text to loop nests: what the printer writes, line by line.
//!
//! ```text
//! program ::= [bins of k from k tuples on] (param head [, leaf k of x] | held head [, number k])*
//!             (nest | head = x, rounded | limit x, k | out name = x [and x ..], ..)*
//! nest    ::= (entries | head, ..): and statements, each two blanks further in than what it is part of
//! head    ::= x [ "[" [R,] n, .. "]" ] [of "[" n, .. "]"] [in single precision]
//! stmt    ::= [parallel] for i in domain [, lanes k] [, jam k]
//!           | i = array[a] [, in steps of k]
//!           | i = (first in segment | find a in segment of array) [, onwards | , bound in array[a]]
//!           | i = (argmax | argmin) i < n. r where
//!           | i = length x[a, ..], at most n | end if r is 0
//!           | if cond | local r | r := r | r += r [* r] | x[a, ..] = r | x = 0 | pattern k has (a, ..)
//!           | r = real
//! real    ::= number | real(a) | x[a, ..] | r + r | r * r [+ r] | r / r | r^k | f(r, ..) | "[" r != 0 "]" r
//! domain  ::= part a of k [(grain k)] of domain | segment | lower .. upper
//! lower   ::= bound | max(bound, ..)
//! upper   ::= bound | min(bound, ..)
//! bound   ::= a | floor((a) / k)
//! segment ::= array at a
//! array   ::= (roots | rows | nodes k | nodes in R of | children k | entries | starts
//!             | bins | entries of bins | axis k of bins | places in bins
//!             | neighbours (k [(+ | -) k], ..) in R(k, ..) of) R(k, ..)
//! cond    ::= 0 <= a | a = 0 | a != 0 | r = 0 | r != 0
//!           | (cond and ..) | (cond or ..) | all(cond) | any(cond) | true | false
//! ```
//!
//! Here `a` is an affine expression of indices and sizes, `n` one of sizes, `i` and `r` are an index and a register by number (`i3`, `r2`),
//! `x` and `R` are names ([`names`](super::names)) of buffers and relations. Lines that begin with `#` are comments; those behind the first line
//! of a nest are its [decisions](super::Decision), where they are such; others are not kept.
//!
//! The declarations are not part of the text: sizes, parameters, relations and functions are those of a signature. A buffer that is declared
//! nowhere is the leaf of a parameter of its name. What nests write is a workspace, or what an output names; `x and y` are parts of one leaf.
//! Axes of a buffer are `of` those that it has outside, where some are joined. Held buffers count from 0, unless they say their number. A part has a
//! multiple of `grain` values: without a word, of the lanes, or of the iterations that are interleaved.
//!
//! What was printed becomes the [canonical form](Program::canonical) of the program that it was printed from: buffers and arrays are numbered
//! as the text mentions them. Without its decisions, a text gives nests without decisions. All NaNs are one.
//!
//! Reading stops at the first problem, which has its place in the text. Recursion is on tests, of limited nesting.

mod values;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Decision;
use super::data::{
    Array, ArrayId, Binned, Bins, Bound, Buffer, BufferId, BufferKind, Coordinate, Domain, Neighbours, Nest, Part,
    Place, Program, RealId, Rounded, Search, Segment, StepLimit, Stmt,
};
use super::names::{Key, Names};
use super::scan::{Content, Line, problem};
use crate::base::MAX_TEXT;
use crate::base::{Arena, IndexId, Interner, RelationId, Span};
use crate::error::{Error, Result};
use crate::index::{Pred, Size, View};
use crate::ty::Precision;
use crate::ty::Signature;

/// How deep loops and tests nest: what goes through nests recurses, and the stack of a thread is enough for so many.
const MAX_NESTING: usize = 512;
/// How deep parts of domains nest.
const MAX_PARTS: usize = 16;
/// How deep conditions nest; more than the predicates that they are made of.
const MAX_COND: usize = 2 * Pred::MAX_NESTING;

/// Indices and registers have numbers below this one, or below the length of the text.
const LEAST_LIMIT: usize = 1 << 20;

/// Reads what a program of loop nests prints, with or without its decisions: the [canonical form](Program::canonical) of that program, which
/// [`Program::verify`] accepts. Loops and tests may nest to a depth of 512.
///
/// Nobody checks that places are in range: the interpreter says where one is not, native code relies on it, so a text that was edited is for the
/// interpreter, or for those who vouch for it.
///
/// # Errors
/// [`Error::Program`] with the first problem in the text, or with what the verifier says; [`Error::Limit`] for a text that is too long;
/// [`Error::Overflow`].
pub fn parse(text: &str, signature: &Arc<Signature>) -> Result<Program> {
    if text.len() > MAX_TEXT {
        return Err(Error::Limit { what: "bytes of a program", limit: MAX_TEXT as u64, found: text.len() as u64 });
    }
    read(text, signature).map_err(|error| error.in_text(text))
}

fn read(text: &str, signature: &Arc<Signature>) -> Result<Program> {
    let mut parser = Parser::new(text, signature)?;
    let mut start = 0;
    while start < text.len() {
        (parser.line, start) = Line::new(text, start);
        parser.read_line()?;
    }
    let program = parser.finish();
    let whole = Span::new(0, text.len());
    program.verify().map_err(|complaints| problem("not-well-formed", whole, complaints.join("\n")))?;
    Ok(program)
}

/// A decision, behind the name of the pass that took it.
fn decision(text: &str) -> Option<Decision> {
    let of = |(pass, text): (&str, &str)| text.parse::<Decision>().ok().filter(|decision| decision.by() == pass);
    text.split_once(": ").and_then(of).or_else(|| text.parse().ok())
}

struct Parser<'a> {
    line: Line<'a>,
    signature: &'a Arc<Signature>,
    names: Names,
    limit: u32,
    buffers: Arena<BufferId, Buffer>,
    known: BTreeMap<Key, BufferId>,
    arrays: Interner<ArrayId, Array>,
    nests: Vec<Nest>,
    in_nest: bool,
    /// Statements whose bodies are being read, outermost first.
    open: Vec<Stmt>,
    outputs: Vec<(String, Vec<BufferId>)>,
    rounded: Vec<Rounded>,
    limits: Vec<StepLimit>,
    bins: Bins,
    held: usize,
}

/// What a line of a nest is: a statement, or one that may have a body.
fn body_of(stmt: &mut Stmt) -> Option<&mut Vec<Stmt>> {
    match stmt {
        Stmt::For { body, .. } | Stmt::If { body, .. } | Stmt::Extremum { body, .. } => Some(body),
        _ => None,
    }
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, signature: &'a Arc<Signature>) -> Result<Self> {
        Ok(Parser {
            line: Line::new(text, 0).0,
            signature,
            names: Names::new(signature)?,
            limit: u32::try_from(text.len().max(LEAST_LIMIT)).unwrap_or(u32::MAX),
            buffers: Arena::new(),
            known: BTreeMap::new(),
            arrays: Interner::new(),
            nests: Vec::new(),
            in_nest: false,
            open: Vec::new(),
            outputs: Vec::new(),
            rounded: Vec::new(),
            limits: Vec::new(),
            bins: Bins::default(),
            held: 0,
        })
    }

    fn finish(mut self) -> Program {
        self.close(0);
        Program {
            signature: self.signature.clone(),
            arrays: self.arrays.into_items().collect(),
            buffers: self.buffers,
            nests: self.nests,
            outputs: self.outputs,
            rounded: self.rounded,
            limits: self.limits,
            bins: self.bins,
        }
    }

    /// Ends all bodies but so many outer ones.
    fn close(&mut self, depth: usize) {
        while self.open.len() > depth {
            if let Some(stmt) = self.open.pop() {
                self.put(stmt);
            }
        }
    }

    /// Appends to the innermost body.
    fn put(&mut self, stmt: Stmt) {
        let nest = self.nests.last_mut().map(|nest| &mut nest.body);
        if let Some(body) = self.open.last_mut().and_then(body_of).or(nest) {
            body.push(stmt);
        }
    }

    fn read_line(&mut self) -> Result<()> {
        let blanks = match self.line.content() {
            Content::Blank => return Ok(()),
            Content::Comment(text, inside) => {
                if let (Some(nest), true) = (self.nests.last_mut(), inside && self.in_nest && self.open.is_empty())
                    && nest.body.is_empty()
                {
                    nest.decisions.extend(decision(text));
                }
                return Ok(());
            }
            Content::Statement(blanks) => blanks,
        };
        let depth = blanks / 2;
        let deepest = if self.in_nest { self.open.len() + 1 } else { 0 };
        if blanks % 2 != 0 || depth > deepest {
            let span = self.line.here();
            return Err(problem(
                "wrong-indent",
                span,
                format!("expected an even number of blanks, at most {}", 2 * deepest),
            ));
        }
        self.close(depth.saturating_sub(1));
        match depth {
            0 => self.item()?,
            _ => {
                let mut stmt = self.stmt()?;
                match body_of(&mut stmt) {
                    Some(_) if self.open.len() >= MAX_NESTING => {
                        return Err(problem("too-deep", self.line.here(), "expected loops and tests that nest less"));
                    }
                    Some(_) => self.open.push(stmt),
                    None => self.put(stmt),
                }
            }
        }
        self.line.finish()
    }

    /// A line that is part of no nest, or begins one.
    fn item(&mut self) -> Result<()> {
        self.in_nest = false;
        match self.line.word() {
            "bins" => self.bins(),
            "param" => self.param(),
            "held" => self.held(),
            "out" => self.output(),
            "limit" => {
                self.line.eat("limit");
                let steps = self.buffer()?;
                self.line.expect(",")?;
                let most = self.line.integer("how many steps there may be")?;
                self.limits.push(StepLimit { steps, most });
                Ok(())
            }
            "entries" => {
                self.line.eat("entries");
                self.line.expect(":")?;
                self.nest(Vec::new());
                Ok(())
            }
            _ => self.written(),
        }
    }

    fn nest(&mut self, buffers: Vec<BufferId>) {
        self.nests.push(Nest { buffers, decisions: Vec::new(), body: Vec::new() });
        self.in_nest = true;
    }

    /// `bins of 2 from 0 tuples on`
    fn bins(&mut self) -> Result<()> {
        self.line.eat("bins");
        self.line.expect("of")?;
        let size = self.line.integer("how many tuples a bin has at least")?;
        self.line.expect("from")?;
        let least = self.line.integer("how many tuples a relation has at least")?;
        self.line.expect("tuples")?;
        self.line.expect("on")?;
        self.bins = Bins { least, size };
        Ok(())
    }

    /// `param x[n] in single precision, leaf 0 of ab`
    fn param(&mut self) -> Result<()> {
        self.line.eat("param");
        let span = self.line.here();
        let (key, mut buffer) = self.head()?;
        if self.line.eat(",") {
            self.line.expect("leaf")?;
            let leaf = self.line.integer("the number of a leaf")?;
            self.line.expect("of")?;
            let span = self.line.here();
            let (name, _) = self.line.name("the name of a parameter")?;
            let param = self.signature.param(&name);
            let unknown = || problem("unknown-name", span, format!("there is no parameter `{name}`"));
            buffer.kind = BufferKind::Param(param.ok_or_else(unknown)?, leaf);
        } else if let Some(known) = self.names.leaves.get(&key.0) {
            buffer.kind = known.kind;
        } else {
            return Err(problem("unknown-name", span, format!("there is no parameter `{}`", key.0)));
        }
        let BufferKind::Param(param, leaf) = buffer.kind else { return Ok(()) };
        let Some(declared) = self.signature.params.get(param) else { return Ok(()) };
        let (pattern, leaves) = (declared.storage.pattern(), self.signature.types.leaves(declared.ty)?);
        // A size that the signature assumes to be a number may stand as this number.
        let facts = self.signature.facts();
        let same = |a: &Size, b: &Size| a == b || Pred::equal(a, b).is_ok_and(|goal| facts.proves(&goal));
        let all_same = |a: &[Size], b: &[Size]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b));
        let fits = leaves.get(leaf).is_some_and(|leaf| match pattern {
            Some(_) => buffer.entries == pattern && buffer.dims.is_empty(),
            None => buffer.entries.is_none() && all_same(buffer.axes(), &leaf.dims),
        });
        if !fits {
            return Err(problem("wrong-shape", span, "expected the axes that this part of the parameter has"));
        }
        self.declare(key, span, buffer)?;
        Ok(())
    }

    /// `held c[n], number 3`
    fn held(&mut self) -> Result<()> {
        self.line.eat("held");
        let span = self.line.here();
        let (key, mut buffer) = self.head()?;
        let number = match self.line.eat(",") {
            true => {
                self.line.expect("number")?;
                self.line.integer("the number of what is held")?
            }
            false => self.held,
        };
        self.held += 1;
        buffer.kind = BufferKind::Held(number);
        self.declare(key, span, buffer)?;
        Ok(())
    }

    /// `out value = x, y and z`
    fn output(&mut self) -> Result<()> {
        self.line.eat("out");
        let name = self.line.output()?;
        self.line.expect("=")?;
        let output = self.outputs.len();
        let mut leaves = Vec::new();
        while self.line.finish().is_err() {
            if !leaves.is_empty() {
                self.line.expect(",")?;
            }
            let kind = BufferKind::Output(output, leaves.len());
            leaves.push(self.part_of(kind)?);
            while self.line.eat("and") {
                self.part_of(kind)?;
            }
        }
        self.outputs.push((name, leaves));
        Ok(())
    }

    /// A buffer that becomes part of an output.
    fn part_of(&mut self, kind: BufferKind) -> Result<BufferId> {
        let span = self.line.here();
        let b = self.buffer()?;
        let buffer = &mut self.buffers[b];
        if buffer.kind != BufferKind::Workspace {
            return Err(problem("not-written", span, "expected what a nest writes, and no other output is"));
        }
        buffer.kind = kind;
        Ok(b)
    }

    /// `x[n], y:` or `x[n] in single precision = y, rounded`
    fn written(&mut self) -> Result<()> {
        let mut heads = Vec::new();
        loop {
            let span = self.line.here();
            let (key, buffer) = self.head()?;
            heads.push(self.declare(key, span, buffer)?);
            if !self.line.eat(",") {
                break;
            }
        }
        match heads.as_slice() {
            [to] if self.line.eat("=") => {
                let from = self.buffer()?;
                self.line.expect(",")?;
                self.line.expect("rounded")?;
                self.rounded.push(Rounded { from, to: *to });
            }
            _ => {
                self.line.expect(":")?;
                self.nest(heads);
            }
        }
        Ok(())
    }

    fn declare(&mut self, key: Key, span: Span, buffer: Buffer) -> Result<BufferId> {
        if self.known.contains_key(&key) {
            return Err(problem("duplicate-name", span, format!("there is a buffer `{}` already", key.0)));
        }
        let b = self.buffers.push(buffer);
        self.known.insert(key, b);
        Ok(b)
    }

    /// `x[E, 3*n] of [n, 3] in single precision`, so far a workspace.
    fn head(&mut self) -> Result<(Key, Buffer)> {
        let key = self.line.name("the name of a buffer")?;
        let (mut entries, mut dims) = (None, Vec::new());
        if self.line.eat("[") {
            entries = self.entries();
            if entries.is_none() {
                dims.push(self.size()?);
            }
            self.more_sizes(&mut dims)?;
        }
        let outside = match self.line.eat_words(&["of"]) {
            true => {
                self.line.expect("[")?;
                let mut axes = vec![self.size()?];
                self.more_sizes(&mut axes)?;
                Some(axes)
            }
            false => None,
        };
        let single = self.line.eat_words(&["in", "single", "precision"]);
        let precision = if single { Precision::Single } else { Precision::Double };
        let name = key.0.clone();
        Ok((key, Buffer { name, kind: BufferKind::Workspace, entries, dims, outside, precision }))
    }

    /// `, n, ..]`
    fn more_sizes(&mut self, sizes: &mut Vec<Size>) -> Result<()> {
        while self.line.eat(",") {
            sizes.push(self.size()?);
        }
        self.line.expect("]")
    }

    /// A relation as an axis.
    fn entries(&mut self) -> Option<RelationId> {
        let mut line = self.line;
        let key = line.relation().ok()?;
        let relation = *self.names.relation_of.get(&key)?;
        self.line = line;
        Some(relation)
    }

    /// A buffer, or the leaf of a parameter.
    fn buffer(&mut self) -> Result<BufferId> {
        let span = self.line.here();
        let key = self.line.name("a buffer")?;
        if let Some(b) = self.known.get(&key) {
            return Ok(*b);
        }
        let unknown = || format!("there is no parameter `{}`, and no buffer before", key.0);
        let leaf = self.names.leaves.get(&key.0).ok_or_else(|| problem("unknown-name", span, unknown()))?;
        let b = self.buffers.push(leaf.clone());
        self.known.insert(key, b);
        Ok(b)
    }

    /// `x[i0, i1 - 1]`
    fn place(&mut self) -> Result<Place> {
        let span = self.line.here();
        let buffer = self.buffer()?;
        let at = if self.line.eat("[") { self.affines("]")? } else { Vec::new() };
        let rank = self.buffers[buffer].rank();
        if rank != at.len() {
            let message = format!("the buffer has {rank} axes and is used at {} indices", at.len());
            return Err(problem("wrong-rank", span, message));
        }
        Ok(Place { buffer, at })
    }

    fn index(&mut self) -> Result<IndexId> {
        Ok(IndexId(self.line.id('i', "an index such as `i0`", self.limit)?))
    }

    fn register(&mut self) -> Result<RealId> {
        Ok(RealId(self.line.id('r', "a register such as `r0`", self.limit)?))
    }

    fn stmt(&mut self) -> Result<Stmt> {
        match self.line.word() {
            "for" | "parallel" => self.for_loop(),
            "if" => {
                self.line.eat("if");
                Ok(Stmt::If { cond: self.cond(0)?, body: Vec::new() })
            }
            "end" => {
                self.line.eat_words(&["end", "if"]);
                let r = self.register()?;
                self.line.expect("is")?;
                self.line.expect("0")?;
                Ok(Stmt::End(r))
            }
            "local" => {
                self.line.eat("local");
                Ok(Stmt::Local(self.register()?))
            }
            "pattern" => {
                self.line.eat("pattern");
                let number = self.line.integer("the number of a pattern")?;
                self.line.expect("has")?;
                self.line.expect("(")?;
                Ok(Stmt::Tuple(number, self.affines(")")?))
            }
            _ if self.line.at_id('r') => self.arithmetic(),
            _ if self.line.at_id('i') => self.index_stmt(),
            _ => {
                let span = self.line.here();
                if self.line.rest().starts_with('"') || !self.line.word().is_empty() {
                    return self.store(span);
                }
                self.line.expected("a statement")
            }
        }
    }

    /// `x[i0] = r0` or `x = 0`
    fn store(&mut self, span: Span) -> Result<Stmt> {
        let mut line = self.line;
        let is_fill = line.name("a buffer").is_ok() && line.eat("=") && line.eat("0") && line.finish().is_ok();
        if is_fill {
            let buffer = self.buffer()?;
            self.line = line;
            return Ok(Stmt::Fill(buffer));
        }
        let place = self.place()?;
        let what = "`=` and a register";
        if !self.line.eat("=") {
            return self.line.expected(what);
        }
        if matches!(self.buffers[place.buffer].kind, BufferKind::Param(..) | BufferKind::Held(_)) {
            return Err(problem("not-written", span, "expected a buffer that the nest writes"));
        }
        Ok(Stmt::Store(place, self.register()?))
    }

    /// `parallel for i0 in 0 .. n - 1, lanes 8, jam 4`
    fn for_loop(&mut self) -> Result<Stmt> {
        let parallel = self.line.eat("parallel");
        self.line.expect("for")?;
        let index = self.index()?;
        self.line.expect("in")?;
        let (mut domain, grains) = self.domain()?;
        let (mut lanes, mut jam) = (1, 1);
        if self.line.eat_words(&[",", "lanes"]) {
            lanes = self.line.integer("how many lanes there are")?;
        }
        if self.line.eat_words(&[",", "jam"]) {
            jam = self.line.integer("how many iterations are interleaved")?;
        }
        let mut part = &mut domain;
        for known in grains {
            let Domain::Part { whole, grain, .. } = part else { break };
            *grain = known.unwrap_or(lanes.max(jam));
            part = whole;
        }
        Ok(Stmt::For { index, domain, lanes, jam, parallel, body: Vec::new() })
    }

    /// A domain, and of its parts, from outside in, what their lengths are multiples of.
    fn domain(&mut self) -> Result<(Domain, Vec<Option<u32>>)> {
        let (mut parts, mut grains) = (Vec::new(), Vec::new());
        while self.line.word() == "part" {
            if parts.len() >= MAX_PARTS {
                return Err(problem("too-deep", self.line.here(), "expected parts of parts that nest less"));
            }
            self.line.eat("part");
            let part = self.affine()?;
            self.line.expect("of")?;
            let count = self.line.integer("how many parts there are")?;
            let mut grain = None;
            if self.line.eat_words(&["(", "grain"]) {
                grain = Some(self.line.integer("what the length of a part is a multiple of")?);
                self.line.expect(")")?;
            }
            self.line.expect("of")?;
            parts.push((part, count));
            grains.push(grain);
        }
        let mut domain = match self.at_array() {
            true => Domain::Segment(self.segment()?),
            false => {
                let lower = self.bounds("max")?;
                self.line.expect("..")?;
                Domain::Range { lower, upper: self.bounds("min")? }
            }
        };
        for (part, parts) in parts.into_iter().rev() {
            domain = Domain::Part { whole: Box::new(domain), part, parts, grain: 1 };
        }
        Ok((domain, grains))
    }

    /// `n - 1`, `min(m, floor((n - 1) / 2))`
    fn bounds(&mut self, word: &str) -> Result<Vec<Bound>> {
        if !self.line.eat_words(&[word, "("]) {
            return Ok(vec![self.bound()?]);
        }
        let mut bounds = vec![self.bound()?];
        while self.line.eat(",") {
            bounds.push(self.bound()?);
        }
        self.line.expect(")")?;
        Ok(bounds)
    }

    fn bound(&mut self) -> Result<Bound> {
        if !self.line.eat_words(&["floor", "(", "("]) {
            return Ok(Bound::exact(self.affine()?));
        }
        let numerator = self.affine()?;
        self.line.expect(")")?;
        self.line.expect("/")?;
        let span = self.line.here();
        let divisor = self.line.integer("a divisor")?;
        if divisor < 1 {
            return Err(problem("bad-number", span, "expected a divisor above 0"));
        }
        self.line.expect(")")?;
        Ok(Bound { numerator, divisor })
    }

    fn at_array(&mut self) -> bool {
        matches!(
            self.line.word(),
            "roots" | "rows" | "nodes" | "children" | "entries" | "starts" | "bins" | "axis" | "places"
        )
    }

    /// `rows E(0, 1) at i0`
    fn segment(&mut self) -> Result<Segment> {
        let pointers = self.array()?;
        self.line.expect("at")?;
        Ok(Segment { pointers, at: self.affine()? })
    }

    /// `nodes 1 E(0, 1)`
    fn array(&mut self) -> Result<ArrayId> {
        let span = self.line.here();
        let level = "a level of nodes";
        let part = match self.line.word() {
            _ if self.line.eat_words(&["entries", "of", "bins"]) => Part::Binned(Binned::Entries),
            _ if self.line.eat_words(&["places", "in", "bins"]) => Part::Binned(Binned::Places),
            _ if self.line.eat("bins") => Part::Binned(Binned::All),
            _ if self.line.eat("axis") => {
                let axis = self.line.integer("the number of an axis")?;
                self.line.expect("of")?;
                self.line.expect("bins")?;
                Part::Binned(Binned::Axis(axis))
            }
            _ if self.line.eat("roots") => Part::Roots,
            _ if self.line.eat("rows") => Part::Rows,
            _ if self.line.eat_words(&["nodes", "in"]) => {
                let relation = self.relation()?;
                self.line.expect("of")?;
                Part::Projected(relation)
            }
            _ if self.line.eat("nodes") => Part::Nodes(self.line.integer(level)?),
            _ if self.line.eat("children") => Part::Children(self.line.integer(level)?),
            _ if self.line.eat("entries") => Part::Entries,
            _ if self.line.eat("starts") => Part::Starts,
            _ if self.line.eat("neighbours") => Part::Neighbours(self.neighbours()?),
            _ => return self.line.expected("an array such as `rows E(0, 1)`"),
        };
        let (relation, axes) = self.view()?;
        let rank = axes.len();
        let exists = match part {
            Part::Nodes(level) => usize::from(level) < rank,
            Part::Children(level) => usize::from(level) + 1 < rank,
            Part::Binned(Binned::Axis(axis)) => axis < rank,
            Part::Neighbours(neighbours) => neighbours.coordinates().all(|coordinate| coordinate.axis < rank),
            _ => true,
        };
        match exists {
            true => Ok(self.arrays.intern(Array { relation, axes, part })),
            false => Err(problem("wrong-axes", span, format!("the relation has {rank} axes"))),
        }
    }

    /// A relation by its name.
    fn relation(&mut self) -> Result<RelationId> {
        let (span, key) = (self.line.here(), self.line.relation()?);
        let known = self.names.relation_of.get(&key).copied();
        known.ok_or_else(|| problem("unknown-name", span, format!("there is no relation `{}`", key.0)))
    }

    /// `E(0, 1)`
    fn view(&mut self) -> Result<(RelationId, Vec<usize>)> {
        let start = self.line.start();
        let relation = self.relation()?;
        self.line.expect("(")?;
        let mut axes: Vec<usize> = vec![self.line.integer("the number of an axis")?];
        while self.line.eat(",") {
            axes.push(self.line.integer("the number of an axis")?);
        }
        self.line.expect(")")?;
        let rank = self.signature.relations.get(relation).map_or(0, |relation| relation.shape.len());
        let mut sorted = axes.clone();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..rank) {
            let message = format!("expected each of the {rank} axes once");
            return Err(problem("wrong-axes", self.line.since(start), message));
        }
        Ok((relation, axes))
    }

    /// `(0 + 1, 1) in E(0, 1) of`
    fn neighbours(&mut self) -> Result<Neighbours> {
        self.line.expect("(")?;
        let first = self.coordinate()?;
        let second = if self.line.eat(",") { Some(self.coordinate()?) } else { None };
        self.line.expect(")")?;
        self.line.expect("in")?;
        let span = self.line.here();
        let (relation, axes) = self.view()?;
        self.line.expect("of")?;
        let neighbours = Neighbours { relation, swapped: axes == [1, 0], first, second };
        match neighbours.axes() == axes {
            true => Ok(neighbours),
            false => {
                Err(problem("wrong-axes", span, format!("expected a relation of {} axes", neighbours.axes().len())))
            }
        }
    }

    /// `0 + 1`
    fn coordinate(&mut self) -> Result<Coordinate> {
        let axis = self.line.integer("the number of an axis")?;
        let shift = match self.line.eat("+") {
            true => self.line.integer("a distance")?,
            false if self.line.eat("-") => -self.line.integer::<i64>("a distance")?,
            false => 0,
        };
        Ok(Coordinate { axis, shift })
    }

    /// `, onwards`
    fn search(&mut self) -> Result<Search> {
        if self.line.eat_words(&[",", "onwards"]) {
            return Ok(Search::Onwards);
        }
        if !self.line.eat_words(&[",", "bound", "in"]) {
            return Ok(Search::Halving);
        }
        let array = self.array()?;
        self.line.expect("[")?;
        let at = self.affine()?;
        self.line.expect("]")?;
        Ok(Search::Bound(array, at))
    }

    /// What defines an index.
    fn index_stmt(&mut self) -> Result<Stmt> {
        let index = self.index()?;
        self.line.expect("=")?;
        match self.line.word() {
            "first" => {
                self.line.eat("first");
                self.line.expect("in")?;
                let segment = self.segment()?;
                Ok(Stmt::Find { index, segment, key: None, how: self.search()? })
            }
            "find" => {
                self.line.eat("find");
                let key = self.affine()?;
                self.line.expect("in")?;
                let segment = self.segment()?;
                self.line.expect("of")?;
                let key = Some((self.array()?, key));
                Ok(Stmt::Find { index, segment, key, how: self.search()? })
            }
            "length" => {
                self.line.eat("length");
                let place = self.place()?;
                if !self.line.eat_words(&[",", "at", "most"]) {
                    return self.line.expected("`, at most` and a size");
                }
                Ok(Stmt::Length { index, place, most: self.size()? })
            }
            word @ ("argmax" | "argmin") => {
                self.line.eat(word);
                let view = if word == "argmin" { View::ArgMin } else { View::ArgMax };
                let at = self.index()?;
                self.line.expect("<")?;
                let extent = self.size()?;
                self.line.expect(".")?;
                let value = self.register()?;
                self.line.expect("where")?;
                Ok(Stmt::Extremum { index, view, extent, at, body: Vec::new(), value })
            }
            _ => {
                let array = self.array()?;
                self.line.expect("[")?;
                let at = self.affine()?;
                self.line.expect("]")?;
                let step = match self.line.eat_words(&[",", "in", "steps", "of"]) {
                    true => Some(self.signed("a distance")?),
                    false => None,
                };
                Ok(Stmt::Let { index, array, at, step })
            }
        }
    }

    fn signed<T: std::str::FromStr + std::ops::Neg<Output = T>>(&mut self, what: &str) -> Result<T> {
        Ok(if self.line.eat("-") { -self.line.integer::<T>(what)? } else { self.line.integer(what)? })
    }
}
