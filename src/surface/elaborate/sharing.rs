//! Expressions with several users.
//!
//! Terms are trees: what is used twice is bound by a `let`. An expression that the Rust builder uses twice is bound where its
//! uses meet, at its immediate dominator, so a chain of `e = e + e` takes one `let` for each link.
//!
//! ```text
//! value(d)  ==  let x = value(s) in value(d) with x for s        d the immediate dominator of s
//! ```
//!
//! A value that is used under brackets only would lose them on the way. So it is bound only if one of its uses stands under no
//! bracket below `d` (then `d` needs it in bounds anyway), or if it is large, where elaborating it for each use could take
//! exponential time. Otherwise, and where it is no value or `d` is none, it is elaborated for each use.

use rustc_hash::{FxHashMap, FxHashSet};

use super::super::ast::{Ast, BinaryOp, BinderKind, Decl, Expr, ExprId, UnaryOp};
use super::names::Global;
use super::{Elaborator, Task};
use crate::base::{Id, VarId};
use crate::term::Term;

/// How many users are followed to find a use that is under no bracket.
const MAX_SEARCH: usize = 256;
/// How large an expression may be, as a tree, to be elaborated for each use.
const MAX_REPEATED: u64 = 1000;

/// Calls `visit` on the operands, and whether a bracket guards them.
fn operands(expr: &Expr, mut visit: impl FnMut(ExprId, bool)) {
    match expr {
        Expr::Number { .. } | Expr::Name(_) | Expr::All | Expr::Error => {}
        Expr::Unary(_, a) | Expr::Fst(a) | Expr::Snd(a) => visit(*a, false),
        Expr::Binary(_, a, b) | Expr::Pair(a, b) => {
            visit(*a, false);
            visit(*b, false);
        }
        Expr::Part { from, to, step } => [from, to, step].into_iter().flatten().for_each(|e| visit(*e, false)),
        Expr::Iverson { guard, body } => {
            visit(*guard, false);
            visit(*body, true);
        }
        Expr::Call { callee, args } => {
            let select = callee.text == "select";
            args.iter().enumerate().for_each(|(at, e)| visit(*e, select && at > 0));
        }
        Expr::Access { array, indices } => {
            visit(*array, false);
            indices.iter().for_each(|e| visit(*e, false));
        }
        Expr::Binder { extent, body, .. } => {
            visit(*extent, false);
            visit(*body, false);
        }
        Expr::Let { value, body, .. } => {
            visit(*value, false);
            visit(*body, false);
        }
        Expr::Scan { steps, init, body, .. } => {
            visit(*steps, false);
            visit(*init, false);
            visit(*body, false);
        }
        Expr::Function { body, .. } => visit(*body, false),
        Expr::Typed { value, .. } => visit(*value, false),
        Expr::Case { value, arms } => {
            visit(*value, false);
            arms.iter().for_each(|arm| visit(arm.body, true));
        }
        Expr::Apply { function, args } => {
            visit(*function, false);
            args.iter().for_each(|e| visit(*e, false));
        }
    }
}

/// The dominator tree of the users above each expression, with jump pointers: a common ancestor is found in logarithmic time.
struct Dominators {
    parent: Vec<u32>,
    jump: Vec<u32>,
    depth: Vec<u32>,
}

impl Dominators {
    /// Hangs a node below another that is in the tree.
    fn hang(&mut self, node: usize, parent: u32) {
        let depth = |at: u32| self.depth[at as usize];
        let up = self.jump[parent as usize];
        let far = self.jump[up as usize];
        let jump = if depth(parent) - depth(up) == depth(up) - depth(far) { far } else { parent };
        self.depth[node] = self.depth[parent as usize] + 1;
        self.parent[node] = parent;
        self.jump[node] = jump;
    }

    fn common(&self, mut a: u32, mut b: u32) -> u32 {
        let depth = |at: u32| self.depth[at as usize];
        if depth(a) < depth(b) {
            std::mem::swap(&mut a, &mut b);
        }
        while depth(a) > depth(b) {
            let far = self.jump[a as usize];
            a = if depth(far) >= depth(b) { far } else { self.parent[a as usize] };
        }
        while a != b {
            let (far_a, far_b) = (self.jump[a as usize], self.jump[b as usize]);
            (a, b) = match far_a == far_b {
                true => (self.parent[a as usize], self.parent[b as usize]),
                false => (far_a, far_b),
            };
        }
        a
    }
}

/// The expressions with several users, and by expression what is bound there, operands first.
pub(super) fn shared(ast: &Ast) -> (FxHashSet<ExprId>, FxHashMap<ExprId, Vec<ExprId>>) {
    let mut result: FxHashMap<ExprId, Vec<ExprId>> = FxHashMap::default();
    let n = ast.exprs.len();
    let mut uses = vec![0u32; n];
    let mut size = vec![1u64; n];
    for (id, expr) in ast.exprs.iter() {
        operands(expr, |e, _| {
            uses[e.index()] = uses[e.index()].saturating_add(1);
            size[id.index()] = size[id.index()].saturating_add(size[e.index()]);
        });
    }
    let compound = |e: ExprId| !matches!(ast.exprs[e], Expr::Number { .. } | Expr::Name(_) | Expr::All | Expr::Error);
    let repeated: FxHashSet<ExprId> = ast.exprs.ids().filter(|e| uses[e.index()] > 1 && compound(*e)).collect();
    if repeated.is_empty() {
        return (repeated, result);
    }
    // Node `n` stands above all roots.
    let root = n as u32;
    let mut dominators = Dominators { parent: vec![root; n + 1], jump: vec![root; n + 1], depth: vec![0; n + 1] };
    let mut above: Vec<Option<u32>> = vec![None; n];
    let bodies = ast.decls.iter().filter_map(|decl| match decl {
        Decl::Def { body, .. } => Some(*body),
        _ => None,
    });
    for e in ast.body.into_iter().chain(bodies) {
        above[e.index()] = Some(root);
    }
    let mut users: Vec<Vec<(u32, bool)>> = vec![Vec::new(); n];
    for id in ast.exprs.ids().rev() {
        let Some(parent) = above[id.index()] else { continue };
        dominators.hang(id.index(), parent);
        operands(&ast.exprs[id], |e, guarded| {
            above[e.index()] = Some(match above[e.index()] {
                Some(other) => dominators.common(other, id.0),
                None => id.0,
            });
            users[e.index()].push((id.0, guarded));
        });
    }
    for e in ast.exprs.ids() {
        let Some(meet) = above[e.index()].filter(|meet| *meet != root) else { continue };
        if !repeated.contains(&e) {
            continue;
        }
        if size[e.index()] > MAX_REPEATED || is_needed(&users, e, meet) {
            result.entry(ExprId(meet)).or_default().push(e);
        }
    }
    (repeated, result)
}

/// Whether a path from `meet` to the expression passes no bracket.
fn is_needed(users: &[Vec<(u32, bool)>], e: ExprId, meet: u32) -> bool {
    let mut stack = vec![e.0];
    let mut steps = 0;
    while let Some(at) = stack.pop() {
        for (user, guarded) in &users[at as usize] {
            steps += 1;
            match (*guarded, *user == meet) {
                (true, _) => {}
                (false, true) => return true,
                (false, false) if steps < MAX_SEARCH => stack.push(*user),
                (false, false) => return false,
            }
        }
    }
    false
}

impl<'a> Elaborator<'a> {
    /// The variable that a shared expression is bound to.
    pub(super) fn bound_share(&self, e: ExprId) -> Option<Option<VarId>> {
        self.shares.get(&(self.frame.place, e)).copied()
    }

    /// Puts the expressions that are bound at `at` before its value.
    pub(super) fn open_shares(&mut self, at: ExprId) -> bool {
        let source = self.frame.source;
        let Some(shared) = source.shared.get(&at) else { return false };
        let shared: Vec<ExprId> = shared.iter().copied().filter(|e| self.is_value(*e)).collect();
        if shared.is_empty() {
            return false;
        }
        self.tasks.push(Task::CloseShares { at, shared: shared.clone() });
        self.tasks.push(Task::Unshared(at));
        for e in shared.iter().rev() {
            self.tasks.push(Task::Share(*e));
            self.tasks.push(Task::Value(*e));
        }
        true
    }

    /// Whether an expression is a value for sure.
    fn is_value(&mut self, e: ExprId) -> bool {
        match self.expr(e) {
            Expr::Unary(UnaryOp::Not, _)
            | Expr::Binary(
                BinaryOp::And
                | BinaryOp::Or
                | BinaryOp::Less
                | BinaryOp::LessEqual
                | BinaryOp::Greater
                | BinaryOp::GreaterEqual
                | BinaryOp::Equal
                | BinaryOp::NotEqual,
                ..,
            )
            | Expr::Binder { kind: BinderKind::Exists, .. }
            | Expr::Error => false,
            Expr::Call { callee, .. } => {
                let name = callee.text.as_str();
                match self.globals.get(name) {
                    Some(Global::Function(_) | Global::Definition(_)) => true,
                    None if name == "sum" => true,
                    Some(_) => false,
                    None => self.is_callable(name) || name.ends_with(".value"),
                }
            }
            _ => !self.is_index_expression(e),
        }
    }

    /// The value on top of the stack is shared.
    pub(super) fn share(&mut self, e: ExprId) {
        let value = self.values.last_term();
        let var = value.map(|value| self.program.fresh_var("e", self.program.ty(value)));
        self.shares.insert((self.frame.place, e), var);
    }

    /// `let x0 = s0 in .. in d`
    pub(super) fn close_shares(&mut self, at: ExprId, shared: &[ExprId]) {
        let span = self.span(at);
        let body = self.pop_value();
        let values = self.pop_values(shared.len());
        let place = self.frame.place;
        let mut lets = Vec::with_capacity(shared.len());
        for (e, value) in shared.iter().zip(values) {
            let var = self.shares.remove(&(place, *e)).flatten();
            lets.extend(var.zip(value));
        }
        let complete = lets.len() == shared.len();
        let value = self.wrap_lets(lets, body.filter(|_| complete), span);
        self.values.push(value);
    }

    /// A shared expression where it is used.
    pub(super) fn use_share(&mut self, e: ExprId, var: Option<VarId>) {
        let span = self.span(e);
        let value = var.and_then(|var| self.push(Term::Var(var), span));
        self.values.push(value);
    }
}
