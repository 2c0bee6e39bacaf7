//! The source of a program: what it is given, its nests, vectors, and a list of what is passed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::items;
use super::rust::{Emitter, fills, plain};
use super::tile::Registers;
use crate::base::Id;
use crate::error::{Error, Result};
use crate::loops::{Buffer, BufferKind, Program, Rounded};
use crate::scalar::Function;

/// The text of what a kernel is given.
const TYPES: &str = include_str!("abi.rs");

/// The text of lanes.
const LANES: &str = include_str!("lanes.rs");

/// The text of loads and stores in single precision.
const SINGLE: &str = include_str!("single.rs");

/// The text of what is done where a test holds, without a branch.
const WHERE: &str = include_str!("where.rs");

/// The text of products that are added.
const MUL_ADD: &str = include_str!("mul_add.rs");

/// A source and the functions that it calls back, by number.
#[derive(Clone, Debug)]
pub struct Source {
    /// The text.
    pub text: String,
    /// The functions that are called back.
    pub functions: Vec<Function>,
}

/// What the source is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A module of somebody's crate, as a file of its own.
    Module,
    /// The same for `include!` within a module, which takes no attributes of the whole.
    Included,
    /// A library that is loaded at run time: a crate of its own whose functions have names.
    Library,
}

impl Target {
    /// The registers that the source is for: a library is for this processor, a module for any.
    fn registers(self) -> Registers {
        match self {
            Target::Library => Registers::of_processor(),
            Target::Module | Target::Included => Registers::Wide,
        }
    }
}

const ABI: &str = "\
//! Everything is passed in a [`Call`]: the sizes, the arrays that describe relations, and the buffers, all in the order listed at the end
//! of this text. [`run`] fills the buffers of the outputs and the workspaces. Each function `nest_k` computes some buffers, or one of
//! `parts` independent parts of it; they must run in order.
//!
//! # Safety
//! Arrays and buffers must have the lengths that the list says, for the sizes given. Outputs and workspaces must not overlap anything.
";

const SINGLE_ABI: &str = "\
//!
//! # Single precision
//! Buffers that the list says are in single precision hold `f32`: the pointer to them is cast to `*mut f64`, and the length counts numbers.
//! They are widened when they are read and rounded when they are written; everything is computed in `f64`.
";

/// The source of a program.
///
/// # Errors
/// [`Error::Request`] for text that others compile of a loop that nobody bounds and whose states are kept, or of calls of functions of tensors;
/// [`Error::Overflow`], and [`Error::Bug`] for nests that are not well formed.
pub fn source(program: &Program, target: Target) -> Result<Source> {
    if target != Target::Library && !program.limits.is_empty() {
        let message = "nobody looks at how many steps an emitted kernel makes: say how many there are at most, as in `while c, at most 100`";
        return Err(Error::Request(message.to_owned()));
    }
    if target != Target::Library && program.calls_outside() {
        let message = "an emitted kernel is text of its own, and cannot call functions of tensors from outside";
        return Err(Error::Request(message.to_owned()));
    }
    let mut functions = Vec::new();
    let mut text = String::new();
    let outputs: Vec<String> = program.outputs.iter().map(|(name, _)| plain(name)).collect();
    let _ = writeln!(text, "//! A kernel that computes {}.\n//!", outputs.join(", "));
    text.push_str(ABI);
    if has_single(program) {
        text.push_str(SINGLE_ABI);
    }
    if target == Target::Included {
        text = text.replace("//!", "//");
    }
    let allowed = "clippy::all, dead_code, unused_mut, unused_unsafe, unused_variables, unused_parens, non_snake_case";
    if target == Target::Library {
        text.push_str("#![no_std]\n");
    }
    if target != Target::Included {
        let _ = writeln!(text, "#![allow({allowed}, unused_assignments)]\n");
    }
    text.push_str(TYPES);
    text.push('\n');
    text.push_str(LANES);
    text.push('\n');
    if has_single(program) {
        text.push_str(SINGLE);
        text.push('\n');
    }
    let mut nests = String::new();
    // Whoever runs the parts of a module at the same time gives them the same buffers.
    let private = match target {
        Target::Library => program.private_axes(),
        Target::Module | Target::Included => BTreeMap::new(),
    };
    for (k, nest) in program.nests.iter().enumerate() {
        let mut emitter = Emitter::new(program, &private, &mut functions, target.registers());
        emitter.nest(k, nest, target)?;
        nests.push_str(&emitter.text);
    }
    if nests.contains("let where_") {
        text.push_str(WHERE);
        text.push('\n');
    }
    text.push_str(&nests);
    run(program, &mut text);
    let names = buffer_names(program);
    lengths(program, &names, &mut text);
    text.push_str(MUL_ADD);
    let used = items::used(&text);
    text.push_str("\n// Vectors.\n\n");
    text.push_str(&used);
    if target == Target::Library {
        text.push_str("\n#[panic_handler]\nfn panic(_: &core::panic::PanicInfo) -> ! {\n    loop {}\n}\n");
        // The precompiled `core` may ask for it, though nothing unwinds.
        text.push_str("\n#[unsafe(no_mangle)]\npub extern \"C\" fn rust_eh_personality() {}\n");
    }
    legend(program, &names, &functions, &mut text);
    Ok(Source { text, functions })
}

fn has_single(program: &Program) -> bool {
    program.buffers.values().any(|buffer| !buffer.precision.is_double())
}

/// The function that runs all nests.
fn run(program: &Program, text: &mut String) {
    text.push_str("/// Computes everything.\npub unsafe fn run(call: &Call) {\n    unsafe {\n");
    for (k, nest) in program.nests.iter().enumerate() {
        for buffer in fills(nest) {
            let single = program.buffers.get(buffer).is_some_and(|buffer| !buffer.precision.is_double());
            let ending = if single { "_single" } else { "" };
            let _ = writeln!(text, "        call.fill{ending}({});", buffer.index());
        }
        let _ = writeln!(text, "        nest_{k}(call, 0, 1);");
    }
    for Rounded { from, to } in &program.rounded {
        let _ = writeln!(text, "        call.round_single({}, {});", from.index(), to.index());
    }
    text.push_str("    }\n}\n");
}

/// The names and lengths of what is passed.
fn lengths(program: &Program, buffers: &[String], text: &mut String) {
    let list = |names: &[String]| names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    let sizes: Vec<String> = program.signature.sizes.values().map(|name| plain(name)).collect();
    let relations: Vec<String> = program.signature.relations.values().map(|r| plain(&r.name)).collect();
    let (s, r, b) = (sizes.len(), relations.len(), buffers.len());
    let _ =
        writeln!(text, "\n/// The names of the sizes, in order.\npub const SIZES: [&str; {s}] = [{}];", list(&sizes));
    let _ = writeln!(text, "\n/// The names of the relations, in order.");
    for (own, relation) in program.signature.relations.values().enumerate() {
        if let Some((of, axes)) = relation.kind.projection() {
            let axes: Vec<String> = axes.map(|axis| axis.to_string()).collect();
            let (of, axes) = (of.index(), axes.join(", "));
            let _ = writeln!(
                text,
                "/// Relation {own} has what the tuples of relation {of} have on the axes {axes}, each once."
            );
        }
    }
    let _ = writeln!(text, "pub const RELATIONS: [&str; {r}] = [{}];", list(&relations));
    let _ = writeln!(
        text,
        "\n/// The names of the buffers, in order.\npub const BUFFERS: [&str; {b}] = [{}];",
        list(buffers)
    );
    let _ = writeln!(text, "\n/// The lengths of the buffers, where relations have so many entries.");
    let _ = writeln!(text, "pub fn lengths(sizes: &[i64; {s}], entries: &[usize; {r}]) -> [usize; {b}] {{\n    [");
    for buffer in program.buffers.values() {
        let entries = buffer.entries.map(|r| format!("entries[{}]", r.index()));
        let dims = buffer.dims.iter().map(|n| {
            let terms = n.terms().iter().map(|(v, k)| match v {
                crate::index::Var::Size(n) => format!("({k}) * sizes[{}]", n.index()),
                // Extents are made of sizes.
                _ => "0".to_owned(),
            });
            let sum: Vec<String> = terms.chain([format!("{}_i64", n.offset())]).collect();
            format!("({}).max(0) as usize", sum.join(" + "))
        });
        let factors: Vec<String> = entries.into_iter().chain(dims).collect();
        let product = if factors.is_empty() { "1".to_owned() } else { factors.join(" * ") };
        let _ = writeln!(text, "        {product},");
    }
    text.push_str("    ]\n}\n");
}

/// Distinct names for the buffers, by which callers find them. Parameters have theirs, results theirs where no parameter has it, and workspaces
/// what is left; the others get a number.
fn buffer_names(program: &Program) -> Vec<String> {
    let rank = |buffer: &Buffer| match buffer.kind {
        BufferKind::Param(..) => 0,
        BufferKind::Output(..) => 1,
        BufferKind::Workspace | BufferKind::Held(_) => 2,
    };
    let mut buffers: Vec<(usize, &Buffer)> = program.buffers.values().enumerate().collect();
    // A name that is written as it is comes before one that only becomes the same.
    buffers.sort_by_key(|(_, buffer)| (rank(buffer), plain(&buffer.name) != buffer.name));
    let mut taken = BTreeSet::new();
    let mut names = vec![String::new(); buffers.len()];
    for (at, buffer) in buffers {
        let name = plain(&buffer.name);
        let numbered = (2..).map(|k: usize| format!("{name}_{k}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains(name)).unwrap_or(name);
        taken.insert(free.clone());
        names[at] = free;
    }
    names
}

/// What is passed, in order.
fn legend(program: &Program, names: &[String], functions: &[Function], text: &mut String) {
    text.push_str("\n// sizes:\n");
    for (k, name) in program.signature.sizes.values().enumerate() {
        let _ = writeln!(text, "//   {k}: {}", plain(name));
    }
    text.push_str("// arrays:\n");
    for (k, array) in program.arrays.values().enumerate() {
        let relation = program.signature.relations.get(array.relation).map_or(String::new(), |r| plain(&r.name));
        let axes: Vec<String> = array.axes.iter().map(usize::to_string).collect();
        let _ = writeln!(text, "//   {k}: {:?} of {relation}, sorted by axes {}", array.part, axes.join(", "));
    }
    text.push_str("// buffers:\n");
    for (k, (buffer, name)) in program.buffers.values().zip(names).enumerate() {
        let entries = buffer.entries.and_then(|r| program.signature.relations.get(r));
        let entries = entries.map(|r| format!("entries of {}", plain(&r.name)));
        let dims = buffer.dims.iter().map(|n| program.affine_text(n));
        let axes: Vec<String> = entries.into_iter().chain(dims).collect();
        let single = if buffer.precision.is_double() { "" } else { " in single precision" };
        let _ = writeln!(text, "//   {k}: {:?} {name}[{}]{single}", buffer.kind, axes.join(", "));
    }
    if !functions.is_empty() {
        text.push_str("// functions called back:\n");
    }
    for (k, function) in functions.iter().enumerate() {
        let _ = writeln!(text, "//   {k}: {}", plain(&program.function_text(*function)));
    }
}
