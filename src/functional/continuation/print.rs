//! Programs as text, in the notation of the paper.
//!
//! ```text
//! map2 * A B    map (x -> 2 * x) A    map2 (a, b. a * z * b) A B    reduce + 0 A    scanr * 1 (shift1L A)
//! let w, Y1 = <x1 * x2, fun (y1, y2, z) -> Y(y1 + x2 * z, y2 + x1 * z)> in ..
//! ```
//!
//! A value that is read once, in the block that computes it, stands where it is read, unless it is long. A body that is one operation of its variables is
//! that operation. Names are made different where a scope needs it.

use std::collections::{HashMap, HashSet};
use std::fmt::{self, Write};

use super::data::{Answer, Atom, Block, Cont, End, Fun, Program, Rhs, Stmt, Sweep, Tail, Type, Var};
use crate::base::Id;
use crate::scalar::{Function, Op, Primitive};

/// The length from which on a value has a line of its own.
const LONG: usize = 100;

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Real => f.write_str("real"),
            Type::Tuple(of) => {
                f.write_char('(')?;
                for (k, ty) in of.iter().enumerate() {
                    write!(f, "{}{ty}", if k == 0 { "" } else { ", " })?;
                }
                f.write_char(')')
            }
            Type::Array(element) => write!(f, "[{element}]"),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printer = Printer::new(self);
        printer.params();
        let (lets, result) = printer.block(&self.body);
        lets.iter().try_for_each(|line| writeln!(f, "{line} in"))?;
        f.write_str(&result)
    }
}

/// The component of the result of a gradient that belongs to a parameter, with what it needs; the whole result where there is none.
pub fn print_component(program: &Program, path: &[usize]) -> String {
    let mut program = program.clone();
    for k in path {
        let Tail::Value(Atom::Var(x)) = program.body.tail else { break };
        let of = program.body.stmts.iter().rev().find(|stmt| stmt.var == x);
        let Some(Stmt { rhs: Rhs::Tuple(of), .. }) = of else { break };
        let Some(component) = of.get(*k) else { break };
        program.body.tail = Tail::Value(*component);
    }
    super::partial::remove_dead(&mut program.body);
    program.to_string()
}

/// How tightly a text binds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Sum,
    Product,
    Application,
    Atom,
}

#[derive(Clone)]
struct Text(String, Level);

impl Text {
    /// The text where at least this level is needed.
    fn at(self, level: Level) -> String {
        if self.1 < level { format!("({})", self.0) } else { self.0 }
    }
}

struct Printer<'a> {
    program: &'a Program,
    names: Vec<Option<String>>,
    in_use: HashSet<String>,
    /// Of each name, the smallest number that may be free; 0 stands for none.
    free: HashMap<String, u64>,
    /// The name that a variable was to have, and its number.
    numbered: Vec<Option<(String, u64)>>,
    /// Of each variable, how often it is read, and whether that is in the block that binds it.
    reads: Vec<(u32, bool)>,
    inlined: Vec<Option<Text>>,
}

impl<'a> Printer<'a> {
    fn new(program: &'a Program) -> Self {
        let n = program.vars.len();
        let mut reads = Reads { of: vec![(0, false); n], home: vec![0; n], blocks: 0 };
        reads.block(&program.body);
        Printer {
            program,
            names: vec![None; n],
            in_use: HashSet::new(),
            free: HashMap::new(),
            numbered: vec![None; n],
            reads: reads.of,
            inlined: vec![None; n],
        }
    }

    fn params(&mut self) {
        for x in &self.program.params {
            let name = self.program.vars[*x].name.to_string();
            self.bind(*x, &name);
        }
    }

    /// Gives a variable a name that no variable in scope has.
    fn bind(&mut self, x: Var, wanted: &str) -> String {
        let numbered = |k: u64| if k == 0 { wanted.to_string() } else { format!("{wanted}{k}") };
        let mut k = self.free.get(wanted).copied().unwrap_or(0);
        let mut name = numbered(k);
        while self.in_use.contains(&name) {
            k += 1;
            name = numbered(k);
        }
        self.free.insert(wanted.to_string(), k + 1);
        self.in_use.insert(name.clone());
        self.names[x.index()] = Some(name.clone());
        self.numbered[x.index()] = Some((wanted.to_string(), k));
        name
    }

    fn release(&mut self, of: impl IntoIterator<Item = Var>) {
        for x in of {
            if let (Some(name), Some((wanted, k))) = (&self.names[x.index()], self.numbered[x.index()].take()) {
                self.in_use.remove(name);
                self.free.entry(wanted).and_modify(|free| *free = k.min(*free));
            }
        }
    }

    fn name(&self, x: Var) -> String {
        self.names.get(x.index()).and_then(|name| name.clone()).unwrap_or_else(|| x.to_string())
    }

    fn atom(&mut self, a: Atom) -> Text {
        match a {
            Atom::Var(x) => match self.inlined[x.index()].take() {
                Some(text) => text,
                None => Text(self.name(x), Level::Atom),
            },
            Atom::Number(r) if r.is_sign_negative() => Text(format!("({r})"), Level::Atom),
            Atom::Number(r) => Text(r.to_string(), Level::Atom),
            Atom::Zero(_) => Text("0".to_string(), Level::Atom),
        }
    }

    fn list(&mut self, of: &[Atom]) -> String {
        let of: Vec<String> = of.iter().map(|a| self.atom(*a).0).collect();
        of.join(", ")
    }

    fn function(&self, function: Function) -> String {
        let name = |primitive: Primitive| match primitive {
            Primitive::Op(Op::Powi(k)) => format!("pow[{k}]"),
            Primitive::Op(op) => match op.infix() {
                Some(infix) if op != Op::Pow => format!("({infix})"),
                _ => op.name().to_string(),
            },
            Primitive::User(id) => self.program.users.get(id).map_or(id.to_string(), |user| user.name().to_string()),
        };
        match function {
            Function::Value(primitive) => name(primitive),
            Function::Partial(primitive, k) => format!("d{k}[{}]", name(primitive)),
        }
    }

    fn rhs(&mut self, rhs: &Rhs) -> Text {
        match rhs {
            Rhs::Add(a, b) => {
                let (a, b) = (self.atom(*a).at(Level::Sum), self.atom(*b).at(Level::Product));
                Text(format!("{a} + {b}"), Level::Sum)
            }
            Rhs::Mul(a, b) => {
                let (a, b) = (self.atom(*a).at(Level::Product), self.atom(*b).at(Level::Application));
                Text(format!("{a} * {b}"), Level::Product)
            }
            Rhs::Call(function, args) => {
                let name = self.function(*function);
                Text(format!("{name}({})", self.list(args)), Level::Atom)
            }
            Rhs::Tuple(of) => Text(format!("({})", self.list(of)), Level::Atom),
            Rhs::Part(a, k) => Text(format!("{}.{k}", self.atom(*a).at(Level::Atom)), Level::Atom),
            Rhs::Drop(end, a) => {
                let name = if *end == End::First { "shift1L" } else { "shift1R" };
                Text(format!("{name} {}", self.atom(*a).at(Level::Atom)), Level::Application)
            }
            Rhs::Map { params, body, arrays } => {
                let arrays: Vec<String> = arrays.iter().map(|a| self.atom(*a).at(Level::Atom)).collect();
                let body = self.body(params, body);
                let n = if params.len() == 1 { String::new() } else { params.len().to_string() };
                Text(format!("map{n} {body} {}", arrays.join(" ")), Level::Application)
            }
            Rhs::Reduce(sweep) => self.sweep("reduce", [sweep.state, sweep.element], sweep),
            Rhs::Scan(End::First, sweep) => self.sweep("scanl", [sweep.state, sweep.element], sweep),
            Rhs::Scan(End::Last, sweep) => self.sweep("scanr", [sweep.element, sweep.state], sweep),
        }
    }

    fn sweep(&mut self, name: &str, params: [Var; 2], sweep: &Sweep) -> Text {
        let (init, array) = (self.atom(sweep.init).at(Level::Atom), self.atom(sweep.array).at(Level::Atom));
        let body = self.body(&params, &sweep.body);
        Text(format!("{name} {body} {init} {array}"), Level::Application)
    }

    /// A body: the operation where it is one of its variables in order, else a function.
    fn body(&mut self, params: &[Var], body: &Block) -> String {
        if let Some(operation) = self.operation(params, body) {
            return operation;
        }
        let wanted = if params.len() == 1 { vec!["x"] } else { vec!["a", "b", "c", "d"] };
        let names: Vec<String> =
            params.iter().enumerate().map(|(k, x)| self.bind(*x, wanted.get(k).copied().unwrap_or("e"))).collect();
        let (lets, result) = self.block(body);
        let lets: String = lets.iter().map(|line| format!("{line} in ")).collect();
        self.release(params.iter().copied().chain(body.stmts.iter().map(|stmt| stmt.var)));
        match &names[..] {
            [x] => format!("({x} -> {lets}{result})"),
            _ => format!("({}. {lets}{result})", names.join(", ")),
        }
    }

    fn operation(&self, params: &[Var], body: &Block) -> Option<String> {
        let [stmt] = &body.stmts[..] else { return None };
        let in_order = stmt.rhs.operands().into_iter().eq(params.iter().map(|x| Atom::Var(*x)));
        if !in_order || body.start.is_some() || body.tail != Tail::Value(Atom::Var(stmt.var)) {
            return None;
        }
        match stmt.rhs {
            Rhs::Add(..) => Some("+".to_string()),
            Rhs::Mul(..) => Some("*".to_string()),
            Rhs::Call(function, _) => Some(self.function(function)),
            _ => None,
        }
    }

    fn cont(&self, cont: Cont) -> String {
        if cont.0 == 0 { "Y".to_string() } else { format!("Y{}", cont.0) }
    }

    /// The lines of a block, and its result.
    fn block(&mut self, block: &Block) -> (Vec<String>, String) {
        let mut lines = Vec::new();
        if let Some((cont, fun)) = &block.start {
            let fun = self.fun(fun, false);
            lines.push(format!("let {} = {fun}", self.cont(*cont)));
        }
        self.stmts(&block.stmts, &mut lines);
        let result = match &block.tail {
            Tail::Value(a) => self.atom(*a).0,
            Tail::Pair(a, fun) => {
                let value = self.atom(*a).0;
                format!("<{value}, {}>", self.fun(fun, true))
            }
            Tail::Apply(fun, args) => {
                let args = self.list(args);
                format!("({})({args})", self.fun(fun, true))
            }
        };
        (lines, result)
    }

    fn stmts(&mut self, stmts: &[Stmt], lines: &mut Vec<String>) {
        for stmt in stmts {
            let rhs = self.rhs(&stmt.rhs);
            let (reads, at_home) = self.reads[stmt.var.index()];
            if let Some((cont, fun)) = &stmt.back {
                let fun = self.fun(fun, true);
                let name = self.program.vars[stmt.var].name.to_string();
                let name = self.bind(stmt.var, &name);
                lines.push(format!("let {name}, {} = <{}, {fun}>", self.cont(*cont), rhs.0));
            } else if reads == 1 && at_home && rhs.0.len() <= LONG {
                self.inlined[stmt.var.index()] = Some(rhs);
            } else {
                let name = self.program.vars[stmt.var].name.to_string();
                let name = self.bind(stmt.var, &name);
                lines.push(format!("let {name} = {}", rhs.0));
            }
        }
    }

    fn fun(&mut self, fun: &Fun, with_seed: bool) -> String {
        let n = fun.params.len();
        let names: Vec<String> = fun
            .params
            .iter()
            .enumerate()
            .map(|(k, y)| {
                let wanted = if with_seed && k + 1 == n { "z".to_string() } else { format!("y{}", k + 1) };
                self.bind(*y, &wanted)
            })
            .collect();
        let mut lines = Vec::new();
        self.stmts(&fun.lets, &mut lines);
        let lets: String = lines.iter().map(|line| format!("{line} in ")).collect();
        let answer = match &fun.answer {
            Answer::Value(a) => self.atom(*a).0,
            Answer::Call(cont, args) => format!("{}({})", self.cont(*cont), self.list(args)),
        };
        self.release(fun.params.iter().copied().chain(fun.lets.iter().map(|stmt| stmt.var)).collect::<Vec<_>>());
        format!("fun ({}) -> {lets}{answer}", names.join(", "))
    }
}

/// How often variables are read.
struct Reads {
    of: Vec<(u32, bool)>,
    /// The block that binds a variable, by number from 1.
    home: Vec<u32>,
    blocks: u32,
}

impl Reads {
    fn read(&mut self, a: Atom, here: u32) {
        if let Atom::Var(x) = a
            && let (Some((n, at_home)), Some(home)) = (self.of.get_mut(x.index()), self.home.get(x.index()))
        {
            *n = n.saturating_add(1);
            *at_home = *home == here;
        }
    }

    fn enter(&mut self) -> u32 {
        self.blocks += 1;
        self.blocks
    }

    fn stmts(&mut self, stmts: &[Stmt], here: u32) {
        for stmt in stmts {
            stmt.rhs.operands().into_iter().for_each(|a| self.read(a, here));
            if let Some((_, body)) = stmt.rhs.body() {
                self.block(body);
            }
            if let Some(home) = self.home.get_mut(stmt.var.index()) {
                *home = here;
            }
            if let Some((_, fun)) = &stmt.back {
                self.fun(fun);
            }
        }
    }

    fn fun(&mut self, fun: &Fun) {
        let here = self.enter();
        self.stmts(&fun.lets, here);
        match &fun.answer {
            Answer::Value(a) => self.read(*a, here),
            Answer::Call(_, args) => args.iter().for_each(|a| self.read(*a, here)),
        }
    }

    fn block(&mut self, block: &Block) {
        let here = self.enter();
        if let Some((_, fun)) = &block.start {
            self.fun(fun);
        }
        self.stmts(&block.stmts, here);
        match &block.tail {
            Tail::Value(a) => self.read(*a, here),
            Tail::Pair(a, fun) => {
                self.read(*a, here);
                self.fun(fun);
            }
            Tail::Apply(fun, args) => {
                args.iter().for_each(|a| self.read(*a, here));
                self.fun(fun);
            }
        }
    }
}
