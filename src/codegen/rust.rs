//! The function of a nest as Rust source.
//!
//! Each nest becomes a function over slices and the places that it writes. A loop with lanes becomes a loop over groups of lanes, and
//! what is left over: smaller groups where lanes are independent, and a last group of which the first lanes are in use only. Around loops
//! there are few of these, since each is text to compile. A loop whose iterations may be interleaved becomes one that does several at a time,
//! and loops that do a quarter as many, and one, for those that are left.
//!
//! Names of the program occur in comments only, without anything but letters, digits and underscores.

mod apart;
mod calls;
mod chosen;
mod extrema;
mod flat;
mod if_conversion;
mod in_lanes;
mod shared;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::expression::{Copy, WIDTH};
use super::source::Target;
use super::tile::{Registers, may_repeat, smaller};
use crate::base::{Id, IndexId};
use crate::error::{Error, Result};
use crate::index::Affine;
use crate::loops::{
    ArrayId, Binned, BufferId, Domain, Fresh, Nest, Part, Place, Program, Real, RealId, Search, Stmt, outside_loops,
    stands_alone,
};
use crate::scalar::Function;
use extrema::{Extremum, best};
use if_conversion::Conversion;
use shared::Shared;

pub(super) const PASS: &str = "codegen";

/// How many lanes, of those that are left over around loops, are taken at a time: two vectors, since text for more of them takes long to
/// compile, and one alone waits for itself.
const ROUND: u32 = 2 * WIDTH;

/// The buffers that are zero before a nest runs.
pub fn fills(nest: &Nest) -> Vec<BufferId> {
    let filled = |stmt: &Stmt| if let Stmt::Fill(buffer) = stmt { Some(*buffer) } else { None };
    nest.body.iter().filter_map(filled).collect()
}

/// A name that can stand in a comment.
pub(super) fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).take(64).collect()
}

/// The values that the body of a loop with lanes takes at a time.
#[derive(Clone, Copy)]
pub(super) struct Lanes {
    of: u32,
    in_use: InUse,
}

/// Which lanes are in use.
#[derive(Clone, Copy, PartialEq)]
enum InUse {
    All,
    /// The first `rest`.
    Rest,
    /// The first `rest` where interleaved iterations do not differ, and the first `rest_q` in iteration `q`.
    RestOfEach,
}

impl Lanes {
    /// The lanes of a vector.
    pub fn width(self) -> u32 {
        self.of.min(WIDTH)
    }

    fn chunks(self) -> u32 {
        self.of.div_ceil(WIDTH)
    }

    /// How many lanes of a vector are in use, where not all are, in something that differs among interleaved iterations or does not.
    pub fn count(self, copy: Copy, differs: bool) -> Option<String> {
        let rest = match self.in_use {
            InUse::All => return None,
            InUse::RestOfEach if differs => format!("rest_{}", copy.jam),
            InUse::Rest | InUse::RestOfEach => "rest".to_owned(),
        };
        Some(if copy.chunk == 0 { rest } else { format!("{rest} - {}", copy.chunk * WIDTH) })
    }
}

/// Writes the function of a nest.
pub(super) struct Emitter<'a> {
    pub program: &'a Program,
    pub functions: &'a mut Vec<Function>,
    pub text: String,
    depth: usize,
    /// Inside of a loop with lanes, how many values are taken at a time.
    pub lanes: Option<Lanes>,
    /// The index of the loop with lanes.
    pub lane_index: Option<IndexId>,
    /// Indices and registers with a value for each lane.
    pub lane_indices: BTreeSet<IndexId>,
    pub wide: BTreeSet<RealId>,
    /// The index of the loop whose iterations are interleaved, and how many are.
    pub jam: Option<(IndexId, u32)>,
    /// The one of them that a statement is for.
    alone: Option<u32>,
    /// Registers with a value for each of them.
    pub jammed: BTreeSet<RealId>,
    /// Registers outside that the loop with lanes adds to.
    sums: BTreeSet<RealId>,
    /// Searches that go on where the last one ended.
    onwards: BTreeSet<IndexId>,
    /// The indices that are computed from the first of a loop, with their steps.
    pub stepped: BTreeMap<IndexId, i64>,
    /// The indices of places in bins, which are known ahead: their arrays, and where there.
    ahead: BTreeMap<IndexId, (usize, Affine)>,
    /// A register that the nest does not have.
    spare: RealId,
    /// The buffers that the nest writes.
    pub targets: Vec<BufferId>,
    /// Those of which the thread that runs an iteration has a row, with the axis of these iterations.
    pub private: &'a BTreeMap<BufferId, usize>,
    /// Tests that become choices.
    conversion: Conversion,
    /// Calls that are made where some lane asks for them, with what tells.
    chosen: BTreeMap<RealId, RealId>,
    shared: Shared,
    /// Whether the outermost parallel loop is cut into parts.
    parts: bool,
    /// Loops that become functions of their own.
    apart: BTreeSet<IndexId>,
    registers: Registers,
}

impl<'a> Emitter<'a> {
    pub fn new(
        program: &'a Program,
        private: &'a BTreeMap<BufferId, usize>,
        functions: &'a mut Vec<Function>,
        registers: Registers,
    ) -> Self {
        Emitter {
            program,
            functions,
            text: String::new(),
            depth: 0,
            lanes: None,
            lane_index: None,
            lane_indices: BTreeSet::new(),
            wide: BTreeSet::new(),
            jam: None,
            alone: None,
            jammed: BTreeSet::new(),
            sums: BTreeSet::new(),
            onwards: BTreeSet::new(),
            stepped: BTreeMap::new(),
            ahead: BTreeMap::new(),
            spare: RealId(0),
            targets: Vec::new(),
            private,
            conversion: Conversion::default(),
            chosen: BTreeMap::new(),
            shared: Shared::default(),
            parts: false,
            apart: BTreeSet::new(),
            registers,
        }
    }

    fn line(&mut self, text: &str) {
        let indent = 4 * self.depth;
        let _ = writeln!(self.text, "{:indent$}{text}", "");
    }

    fn open(&mut self, text: &str) {
        self.line(text);
        self.depth += 1;
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.line("}");
    }

    pub fn nest(&mut self, k: usize, nest: &Nest, target: Target) -> Result<()> {
        self.parts = parallel_parts(nest);
        self.conversion = Conversion::of(self.program, nest);
        self.chosen = chosen::chosen(nest);
        self.shared = Shared::of(nest);
        self.apart = apart::apart(nest);
        self.spare = Fresh::after(&nest.body).fresh_real();
        let (mut arrays, mut buffers) = (BTreeSet::new(), BTreeSet::new());
        for stmt in &nest.body {
            stmt.visit(&mut |stmt| {
                let read = stmt.loads().map(|place| place.buffer);
                buffers.extend(read.filter(|buffer| !nest.buffers.contains(buffer)));
                match stmt {
                    Stmt::For { domain, .. } => {
                        if let Domain::Segment(segment) = domain.whole_of() {
                            arrays.insert(segment.pointers.index());
                        }
                    }
                    Stmt::Let { array, .. } => {
                        arrays.insert(array.index());
                    }
                    Stmt::Find { how: Search::Bound(array, _), .. } => {
                        arrays.insert(array.index());
                    }
                    Stmt::Find { segment, key, .. } => {
                        arrays.insert(segment.pointers.index());
                        arrays.extend(key.iter().map(|(nodes, _)| nodes.index()));
                    }
                    _ => {}
                }
            });
        }
        self.targets = nest.buffers.clone();
        let names = nest.buffers.iter().filter_map(|b| self.program.buffers.get(*b)).map(|b| plain(&b.name));
        let names: Vec<String> = names.collect();
        self.line(&format!("/// {}", names.join(", ")));
        if target == Target::Library {
            self.line("#[unsafe(no_mangle)]");
        }
        self.open(&format!("pub unsafe extern \"C\" fn nest_{k}(call: *const Call, part: i64, parts: i64) {{"));
        self.open("unsafe {");
        self.line("let call = &*call;");
        let sizes: Vec<usize> = (0..self.program.signature.sizes.len()).collect();
        let list = |prefix: &str, ids: &BTreeSet<usize>, ty: &str| -> Vec<String> {
            ids.iter().map(|id| format!("{prefix}{id}: {ty}")).collect()
        };
        let mut params = vec!["call: &Call".to_owned()];
        params.extend(sizes.iter().map(|n| format!("n{n}: i64")));
        params.extend(list("s", &arrays, "&[u32]"));
        let type_of = |b: BufferId| self.precision(b).type_name();
        params.extend(buffers.iter().map(|b| format!("b{}: &[{}]", b.index(), type_of(*b))));
        params.extend(nest.buffers.iter().map(|b| format!("out{}: *mut {}", b.index(), type_of(*b))));
        params.extend(["part: i64", "parts: i64"].map(str::to_owned));
        let mut args = vec!["call".to_owned()];
        args.extend(sizes.iter().map(|n| format!("call.size({n})")));
        args.extend(arrays.iter().map(|s| format!("call.array({s})")));
        let ending = |b: BufferId| if self.precision(b).is_double() { "" } else { "_single" };
        args.extend(buffers.iter().map(|b| format!("call.buffer{}({})", ending(*b), b.index())));
        args.extend(nest.buffers.iter().map(|b| format!("call.target{}({})", ending(*b), b.index())));
        args.extend(["part", "parts"].map(str::to_owned));
        self.line(&format!("compute_{k}({});", args.join(", ")));
        self.close();
        self.close();
        self.line("");
        self.open(&format!("unsafe fn compute_{k}({}) {{", params.join(", ")));
        self.open("unsafe {");
        if !self.parts {
            self.open("if part != 0 {");
            self.line("return;");
            self.close();
        }
        self.body(&nest.body)?;
        self.close();
        self.close();
        self.line("");
        Ok(())
    }

    fn body(&mut self, body: &[Stmt]) -> Result<()> {
        let depth = self.shared.depth();
        for stmt in body {
            self.forget_changed(stmt);
            self.stmt(stmt)?;
        }
        self.shared.leave(depth);
        Ok(())
    }

    /// The variables of something that differs from lane to lane or among interleaved iterations, or does not.
    fn copies(&self, wide: bool, jammed: bool) -> Vec<Copy> {
        let chunks = self.lanes.filter(|_| wide).map_or(1, Lanes::chunks);
        let jams = match (self.jam.filter(|_| jammed), self.alone) {
            (None, _) => 0..1,
            (Some(_), Some(one)) => one..one + 1,
            (Some((_, count)), None) => 0..count,
        };
        jams.flat_map(|jam| (0..chunks).map(move |chunk| Copy { jam, chunk })).collect()
    }

    #[allow(clippy::too_many_lines, reason = "an arm for each form of statement")]
    fn stmt(&mut self, stmt: &Stmt) -> Result<()> {
        let single = Copy::default();
        match stmt {
            Stmt::For { index, domain, lanes, jam, parallel, body } => {
                if !self.apart.contains(index) {
                    return self.for_loop(*index, domain, [*lanes, *jam], *parallel, body);
                }
                self.open("apart(move || {");
                self.for_loop(*index, domain, [*lanes, *jam], *parallel, body)?;
                self.depth -= 1;
                self.line("});");
            }
            Stmt::Let { index, array, at, step: _ } if self.varies(at) => {
                self.know_ahead(*index, *array, at);
                self.lane_indices.insert(*index);
                for copy in self.copies(true, false) {
                    let text = match self.stepped.get(index) {
                        // The first lane: the others are as many steps further.
                        Some(step) => format!("{{ let l = 0; {} }}", in_steps(*index, &self.affine(at, copy)?, *step)),
                        None => self.lane_ints(array.index(), at, copy)?,
                    };
                    self.line(&format!("let {index}c{} = {text};", copy.chunk));
                }
            }
            Stmt::Let { index, array, at, step: _ } => {
                self.know_ahead(*index, *array, at);
                let at = self.affine(at, single)?;
                let value = match self.stepped.get(index) {
                    Some(step) => in_steps(*index, &at, *step),
                    None => match self.where_it_counts() {
                        None => format!("int(s{}, {at})", array.index()),
                        Some(holds) => format!("int_where({holds}, s{}, {at})", array.index()),
                    },
                };
                self.line(&format!("let {index} = {value};"));
            }
            Stmt::Find { index, how: Search::Bound(array, at), .. } => {
                let at = self.affine(at, single)?;
                self.line(&format!("let {index} = int(s{}, {at}) - 1;", array.index()));
            }
            Stmt::Find { index, key: Some((nodes, key)), .. } if self.onwards.contains(index) => {
                let (nodes, key) = (nodes.index(), self.affine(key, single)?);
                self.line(&format!("let {index} = find_onwards(s{nodes}, &mut {index}_from, {index}_to, {key});"));
            }
            Stmt::Find { index, segment, key, .. } => {
                let segment = self.segment(segment)?;
                let text = match key {
                    Some((nodes, key)) => format!("find(s{}, {segment}, {})", nodes.index(), self.affine(key, single)?),
                    None => format!("{{ let (from, to) = {segment}; if from < to {{ from }} else {{ -1 }} }}"),
                };
                self.line(&format!("let {index} = {text};"));
            }
            Stmt::Extremum { index, view, extent, at, body, value } => {
                let search = Extremum { index: *index, at: *at, view: *view, value: *value };
                return self.extremum(search, &self.affine(extent, single)?, body);
            }
            Stmt::If { cond, body } if self.is_converted(cond, body) => return self.without_branch(cond, body),
            Stmt::If { cond, body } => {
                self.open(&format!("if {} {{", self.cond(cond)?));
                self.body(body)?;
                self.close();
            }
            Stmt::Define(r, real) => {
                let (wide, jammed) = self.variation(real);
                mark(&mut self.wide, *r, wide);
                mark(&mut self.jammed, *r, jammed);
                let copies = self.copies(wide, jammed);
                self.begin(real, wide, &copies);
                for copy in copies {
                    self.ask(real, wide, copy)?;
                    let mut text = self.real(real, wide, copy)?;
                    if let Some(test) = self.chosen.get(r) {
                        text = self.where_asked(*test, &text, wide, copy);
                    }
                    let text = format!("let {} = {text};", self.name(*r, copy));
                    self.line(&text);
                }
            }
            Stmt::Local(r) => {
                mark(&mut self.wide, *r, self.lanes.is_some());
                mark(&mut self.jammed, *r, self.jam.is_some());
                let zero = self.lanes.map_or("0.0_f64".to_owned(), |lanes| format!("all::<{}>(0.0)", lanes.width()));
                for copy in self.copies(true, true) {
                    self.line(&format!("let mut {} = {zero};", self.name(*r, copy)));
                }
            }
            Stmt::Assign(..) | Stmt::Accumulate(..) | Stmt::MulAdd(..) if self.conversion.is_inside() => {
                if let Some(holds) = self.where_it_counts() {
                    self.change_where(&holds, stmt);
                }
            }
            Stmt::Assign(r, a) => {
                let wide = self.wide.contains(r);
                for copy in self.copies(wide, self.jammed.contains(r)) {
                    self.line(&format!("{} = {};", self.name(*r, copy), self.read(*a, wide, copy)));
                }
            }
            Stmt::Accumulate(r, a) => self.accumulate(*r, &[*a], None),
            Stmt::MulAdd(r, a, b) => self.accumulate(*r, &[*a, *b], None),
            Stmt::Extend(view, r, a) => self.accumulate(*r, &[*a], Some(best(*view))),
            Stmt::Store(place, a) => self.store(place, *a)?,
            Stmt::Length { index, place, most } => {
                let number = self.real(&Real::Load(place.clone()), false, single)?;
                let most = self.affine(most, single)?;
                self.line(&format!("let {index} = ({number} as i64).max(0).min({most});"));
            }
            Stmt::End(r) => {
                self.open(&format!("if {r} == 0.0 {{"));
                self.line("break;");
                self.close();
            }
            Stmt::Call { function, takes, gives } => self.call(*function, takes.iter().chain(gives))?,
            // Done before the nest runs, since parts of it may run at once.
            Stmt::Fill(_) => {}
            Stmt::Tuple(..) => return Err(Error::bug(PASS, "a pattern is found out by the interpreter")),
        }
        Ok(())
    }

    /// What is computed where a number is not 0, in some lane, else 0.
    fn where_asked(&self, test: RealId, text: &str, wide: bool, copy: Copy) -> String {
        let read = self.read(test, false, copy);
        let asked = if self.wide.contains(&test) { format!("some({read})") } else { format!("{read} != 0.0") };
        let zero =
            self.lanes.filter(|_| wide).map_or("0.0".to_owned(), |lanes| format!("all::<{}>(0.0)", lanes.width()));
        format!("if {asked} {{ {text} }} else {{ {zero} }}")
    }

    /// Notes what is known of an index if it is a place in bins.
    fn know_ahead(&mut self, index: IndexId, array: ArrayId, at: &Affine) {
        let part = self.program.arrays.get(array).map(|array| array.part);
        if let Some(Part::Binned(Binned::Entries | Binned::Places)) = part {
            self.ahead.insert(index, (array.index(), at.clone()));
        }
    }

    /// Asks for what is loaded soon through the same array of places.
    fn ask(&mut self, real: &Real, wide: bool, copy: Copy) -> Result<()> {
        let Real::Load(place) = real else { return Ok(()) };
        let Some((array, at)) = place.at.first().and_then(|a| self.ahead.get(&a.as_index()?)) else { return Ok(()) };
        let width = self.lanes.filter(|_| wide).map_or(1, Lanes::width);
        let (buffer, from) = (self.buffer(place), self.affine(at, copy)?);
        self.line(&format!("soon({buffer}, s{array}, {{ let l = 0; {from} }}, {width});"));
        Ok(())
    }

    fn lane_ints(&self, array: usize, at: &Affine, copy: Copy) -> Result<String> {
        let Some(lanes) = self.lanes else { return Ok("[0]".to_owned()) };
        let (width, at_lane) = (lanes.width(), self.affine(at, copy)?);
        let next = at.terms().iter().all(|(v, k)| match v {
            crate::index::Var::Index(i) if Some(*i) == self.lane_index => *k == 1,
            crate::index::Var::Index(i) => !self.lane_indices.contains(i),
            _ => true,
        });
        Ok(match lanes.count(copy, false) {
            None => format!("core::array::from_fn::<i64, {width}, _>(|l| int(s{array}, {at_lane}))"),
            Some(count) if next => {
                format!("some_ints::<{width}>(s{array}, {{ let l = 0; {at_lane} }}, {count})")
            }
            Some(count) => format!(
                "core::array::from_fn::<i64, {width}, _>(|l| if (l as i64) < {count} {{ int(s{array}, {at_lane}) }} else {{ 0 }})"
            ),
        })
    }

    /// `r += a`, or `r += a * b`, or `r max= a`.
    fn accumulate(&mut self, r: RealId, args: &[RealId], best: Option<&str>) {
        let partial = self.sums.contains(&r) && self.lanes.is_some();
        let wide = partial || self.wide.contains(&r);
        // What is outside takes the numbers of all iterations, in order.
        let jammed = self.jammed.contains(&r) || args.iter().any(|a| self.jammed.contains(a));
        for copy in self.copies(wide, jammed) {
            let name = match partial {
                true => self.partial(r, copy),
                false => self.name(r, copy),
            };
            let args: Vec<String> = args.iter().map(|a| self.read(*a, wide, copy)).collect();
            let sum = match (args.as_slice(), best) {
                ([a], Some(best)) if wide => format!("{name}.zip({a}, {best})"),
                ([a], Some(best)) => format!("{best}({name}, {a})"),
                ([a, b], _) if wide => format!("fused({a}, {b}, {name})"),
                ([a, b], _) => format!("mul_add({a}, {b}, {name})"),
                (args, _) if wide => format!("plus({name}, {})", args.concat()),
                (args, _) => format!("{name} + {}", args.concat()),
            };
            // Lanes that are not in use keep what they have.
            match self.lanes.and_then(|lanes| lanes.count(copy, false)).filter(|_| partial) {
                Some(count) => self.line(&format!("{name} = keep({count}, {sum}, {name});")),
                None => self.line(&format!("{name} = {sum};")),
            }
        }
    }

    /// The partial sums in a vector of lanes.
    fn partial(&self, r: RealId, copy: Copy) -> String {
        let jam = if self.jammed.contains(&r) { format!("_{}", copy.jam) } else { String::new() };
        format!("{r}{jam}_lanes{}", copy.chunk)
    }

    fn store(&mut self, place: &Place, a: RealId) -> Result<()> {
        let wide = place.at.iter().any(|a| self.varies(a));
        let jammed = place.at.iter().any(|a| self.differs(a)) || self.jammed.contains(&a);
        let (buffer, ending) = (self.buffer(place), self.ending(place));
        for copy in self.copies(wide, jammed) {
            let value = self.read(a, wide, copy);
            let Some(lanes) = self.lanes.filter(|_| wide) else {
                let text = format!("put{ending}({buffer}, {}, {value});", self.offset(place, copy)?);
                self.line(&text);
                continue;
            };
            let count = lanes.count(copy, jammed);
            if self.is_contiguous(place) {
                let offset = self.first_offset(place, copy)?;
                self.line(&match count {
                    None => format!("store{ending}({buffer}, {offset}, {value});"),
                    Some(count) => format!("store_some{ending}({buffer}, {offset}, {value}, {count});"),
                });
                continue;
            }
            let offset = self.offset(place, copy)?;
            self.line(&format!("let value = {value};"));
            let width = lanes.width();
            self.open(&match count {
                None => format!("for l in 0..{width} {{"),
                Some(count) => format!("for l in 0..({count}).clamp(0, {width}) as usize {{"),
            });
            self.line(&format!("put{ending}({buffer}, {offset}, value.0[l]);"));
            self.close();
        }
        Ok(())
    }

    fn for_loop(
        &mut self,
        index: IndexId,
        domain: &Domain,
        [lanes, jam]: [u32; 2],
        parallel: bool,
        body: &[Stmt],
    ) -> Result<()> {
        let each = self.lanes.is_some_and(|lanes| lanes.in_use == InUse::RestOfEach);
        if let Some((outer, count)) = self.jam.filter(|_| !each && stands_alone(body, &self.jammed)) {
            // One iteration after the other: nothing would be gained by text for each.
            self.jam = None;
            self.open(&format!("for jam in 0..{count} {{"));
            self.line(&format!("let {outer} = {outer} + jam;"));
            self.for_loop(index, domain, [lanes, jam], parallel, body)?;
            self.close();
            self.jam = Some((outer, count));
            return Ok(());
        }
        let mut apart = false;
        domain.visit_affine(&mut |a| apart |= self.differs(a));
        if apart {
            let lanes = self.registers.lanes(lanes, true, body);
            return self.ends_apart(index, domain, lanes, body);
        }
        let jam = match jam {
            1 => 1,
            jam => self.registers.iterations(jam, domain, self.lanes.map_or(1, |lanes| lanes.of), body),
        };
        self.open("{");
        self.line(&format!("let (from, to): (i64, i64) = {};", self.domain(domain, Copy::default())?));
        if parallel && self.parts && self.lanes.is_none() && self.jam.is_none() {
            self.line(&format!("let (from, to) = cut(from, to, part, parts, {});", lanes.max(jam)));
        }
        let is_alone = (lanes, jam) == (1, 1) && self.lanes.is_none() && self.jam.is_none();
        let flat = flat::inside(self.program, index, body).filter(|_| is_alone);
        let (index, lanes, body) =
            flat.as_ref().map_or((index, lanes, body), |flat| (flat.index, flat.lanes, flat.body));
        if let Some(flat) = &flat {
            self.line(&format!("let (from, to) = below(s{}, from, to);", flat.pointers));
        }
        self.line(&format!("let mut {index} = from;"));
        // Many parts of a short loop are empty.
        let part = matches!(domain, Domain::Part { .. });
        if part {
            self.open("if from <= to {");
        }
        let stepped = if jam == 1 && self.jam.is_none() { self.open_steps(index, body) } else { Vec::new() };
        match (lanes, jam) {
            (1, 1) => {
                let searches = self.open_searches(body)?;
                self.open(&format!("while {index} <= to {{"));
                self.body(body)?;
                self.line(&format!("{index} += 1;"));
                self.close();
                searches.iter().for_each(|search| {
                    self.onwards.remove(search);
                });
            }
            (1, jam) => self.jam(index, jam, body)?,
            (lanes, _) => self.in_lanes(index, lanes, body)?,
        }
        stepped.iter().for_each(|index| {
            self.stepped.remove(index);
        });
        if part {
            self.close();
        }
        self.close();
        Ok(())
    }

    /// Variables for what arrays give in steps over a loop: from where, and the first value, which is all that is loaded.
    fn open_steps(&mut self, loop_index: IndexId, body: &[Stmt]) -> Vec<IndexId> {
        let mut found = Vec::new();
        for stmt in outside_loops(body) {
            if let Stmt::Let { index, array, at, step: Some(step) } = stmt
                && at.as_index() == Some(loop_index)
            {
                self.stepped.insert(*index, *step);
                let first = format!("if from <= to {{ int(s{}, from) }} else {{ 0 }}", array.index());
                self.line(&format!("let ({index}_from, {index}_first) = (from, {first});"));
                found.push(*index);
            }
        }
        found
    }

    /// Variables for the searches of a loop that go on where the last one ended: from where, and to where.
    fn open_searches(&mut self, body: &[Stmt]) -> Result<Vec<IndexId>> {
        let mut found = Vec::new();
        for stmt in outside_loops(body) {
            if let Stmt::Find { index, segment, how: Search::Onwards, .. } = stmt {
                let text = format!("let (mut {index}_from, {index}_to) = {};", self.segment(segment)?);
                self.line(&text);
                self.onwards.insert(*index);
                found.push(*index);
            }
        }
        Ok(found)
    }

    /// The loop whose iterations are interleaved, and how many at a time.
    fn interleaved(&self) -> Result<(IndexId, u32)> {
        self.jam.ok_or_else(|| Error::bug(PASS, "bounds differ where no iterations are interleaved"))
    }

    /// A loop in interleaved iterations whose bounds differ: where it has no lanes, the values before those that all iterations have, these,
    /// and those after them, so that each iteration takes its own in order.
    fn ends_apart(&mut self, index: IndexId, domain: &Domain, lanes: u32, body: &[Stmt]) -> Result<()> {
        let (outer, count) = self.interleaved()?;
        let Domain::Range { lower, upper } = domain else {
            return Err(Error::bug(PASS, "entries differ among interleaved iterations"));
        };
        let differ = [lower, upper].map(|bounds| bounds.iter().any(|bound| bound.numerator.mentions(outer)));
        self.open("{");
        for jam in 0..count {
            let bounds = self.domain(domain, Copy { jam, chunk: 0 })?;
            self.line(&format!("let (from_{jam}, to_{jam}): (i64, i64) = {bounds};"));
        }
        let best = |name: &str, best: &str| -> String {
            (1..count).fold(format!("{name}_0"), |text, q| format!("{text}.{best}({name}_{q})"))
        };
        self.line(&format!("let (from, to) = ({}, {});", best("from", "max"), best("to", "min")));
        if lanes > 1 {
            let longest = best("to", "max");
            self.line(&format!("let mut {index} = from;"));
            self.in_lanes_apart(index, lanes, &longest, body)?;
            self.close();
            return Ok(());
        }
        if differ[0] {
            self.own_iterations(index, |q| (format!("from_{q}"), format!("to_{q}.min(from - 1)")), body)?;
        }
        self.line(&format!("let mut {index} = from;"));
        self.open(&format!("while {index} <= to {{"));
        self.body(body)?;
        self.line(&format!("{index} += 1;"));
        self.close();
        if differ[1] {
            self.own_iterations(index, |q| ("from.max(to + 1)".to_owned(), format!("to_{q}")), body)?;
        }
        self.close();
        Ok(())
    }

    /// The values that not all of the interleaved iterations have: those of one after the other.
    fn own_iterations(&mut self, index: IndexId, ends: impl Fn(u32) -> (String, String), body: &[Stmt]) -> Result<()> {
        let (_, count) = self.interleaved()?;
        for q in 0..count {
            self.alone = Some(q);
            let (first, last) = ends(q);
            self.line(&format!("let (mut {index}, last) = ({first}, {last});"));
            self.open(&format!("while {index} <= last {{"));
            self.body(body)?;
            self.line(&format!("{index} += 1;"));
            self.close();
        }
        self.alone = None;
        Ok(())
    }

    /// Independent lanes whose last value differs among interleaved iterations: groups that are full in all of them, then groups of which
    /// each iteration has some lanes in use.
    fn in_lanes_apart(&mut self, index: IndexId, lanes: u32, longest: &str, body: &[Stmt]) -> Result<()> {
        let (_, count) = self.interleaved()?;
        self.lane_index = Some(index);
        self.group(index, Lanes { of: lanes, in_use: InUse::All }, false, body)?;
        self.line(&format!("let to = {longest};"));
        self.open(&format!("while {index} <= to {{"));
        for q in 0..count {
            self.line(&format!("let rest_{q} = to_{q} - {index} + 1;"));
        }
        let of = lanes.min(WIDTH);
        self.group(index, Lanes { of, in_use: InUse::RestOfEach }, false, body)?;
        self.line(&format!("{index} += {of};"));
        self.close();
        (self.lanes, self.lane_index) = (None, None);
        Ok(())
    }

    /// Several iterations at a time, then a quarter as many, and so on: each size is text to compile. The last of the largest size may be moved
    /// back where half of it is left.
    fn jam(&mut self, index: IndexId, count: u32, body: &[Stmt]) -> Result<()> {
        let mut count = count;
        let mut back = self.registers == Registers::Narrow && may_repeat(body);
        while count > 0 {
            self.jam = Some((index, count)).filter(|_| count > 1);
            let least = if back { count.div_ceil(2) } else { count };
            self.open_portions(index, count, least);
            back = false;
            self.body(body)?;
            self.line(&format!("{index} += {count};"));
            self.close();
            self.jam = None;
            self.jammed.clear();
            count = smaller(count);
        }
        Ok(())
    }

    /// A loop over portions, of which the last one is moved back until it is full if it has at least so many values.
    fn open_portions(&mut self, index: IndexId, count: u32, least: u32) {
        self.open(&format!("while {index} + {} <= to {{", least - 1));
        if least < count {
            let last = count - 1;
            self.open(&format!("if {index} + {last} > to {{"));
            self.open(&format!("if from + {last} > to {{"));
            self.line("break;");
            self.close();
            self.line(&format!("{index} = to - {last};"));
            self.close();
        }
    }

    /// Lane `l` takes lane `l + h` for `h` = half of the lanes, a quarter, .., 1.
    fn fold(&mut self, r: RealId, copies: &[Copy], lanes: u32, best: Option<&str>) {
        let chunks = lanes.div_ceil(WIDTH);
        for first in copies.iter().filter(|copy| copy.chunk == 0) {
            let partial = |chunk| self.partial(r, Copy { chunk, ..*first });
            let mut lines = Vec::new();
            let mut half = chunks / 2;
            while half > 0 {
                for chunk in 0..half {
                    let (one, other) = (partial(chunk), partial(chunk + half));
                    lines.push(match best {
                        None => format!("{one} = plus({one}, {other});"),
                        Some(best) => format!("{one} = {one}.zip({other}, {best});"),
                    });
                }
                half /= 2;
            }
            let name = self.name(r, *first);
            lines.push(match best {
                None => format!("{name} = {name} + total({});", partial(0)),
                Some(best) => format!("{name} = {best}({name}, folded({}, {best}));", partial(0)),
            });
            lines.iter().for_each(|line| self.line(line));
        }
    }
}

/// A value that grows in steps over a loop, at a place of the loop.
fn in_steps(index: IndexId, at: &str, step: i64) -> String {
    format!("{index}_first + {step} * ({at} - {index}_from)")
}

fn mark(registers: &mut BTreeSet<RealId>, r: RealId, member: bool) {
    if member {
        registers.insert(r);
    } else {
        registers.remove(&r);
    }
}

/// Whether a nest can be cut into independent parts: it stores inside of parallel loops only.
pub fn parallel_parts(nest: &Nest) -> bool {
    fn inside(body: &[Stmt]) -> bool {
        body.iter().all(|stmt| match stmt {
            Stmt::For { parallel: true, .. } => true,
            Stmt::Store(..) => false,
            stmt => inside(stmt.body()),
        })
    }
    let has_loop = nest.body.iter().any(|stmt| matches!(stmt, Stmt::For { parallel: true, .. } | Stmt::If { .. }));
    has_loop && inside(&nest.body)
}
