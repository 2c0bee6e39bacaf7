//! Flows as text, for looking at: statements of leaves in the names of the flow.
//!
//! ```text
//! leaf (h0) = F()
//!   %0 = gen i < n. 0
//! scan t < T, h = h0 -> path h_2
//!   leaf (h_3) = F(h)
//!     ..
//!   next h_3
//! return value = h_2
//! ```

use std::fmt;

use super::data::{Call, Leaf, Program, Scan, Stmt, ValueId};
use crate::index::Var;

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for stmt in &self.body {
            self.stmt(f, stmt, 0)?;
        }
        for output in &self.outputs {
            writeln!(f, "return {} = {}", output.name, self.names(output.values.clone()))?;
        }
        Ok(())
    }
}

impl Program {
    fn name(&self, x: ValueId) -> String {
        self.values.get(x).map_or_else(|| x.to_string(), |value| format!("{}.{}", value.name, x.0))
    }

    fn names(&self, values: impl IntoIterator<Item = ValueId>) -> String {
        values.into_iter().map(|x| self.name(x)).collect::<Vec<_>>().join(", ")
    }

    // Scans nest to a bounded depth.
    fn stmt(&self, f: &mut fmt::Formatter<'_>, stmt: &Stmt, depth: usize) -> fmt::Result {
        let indent = 2 * depth;
        match stmt {
            Stmt::Leaf(Leaf { program, takes, gives }) => {
                writeln!(f, "{:indent$}leaf ({}) = F({})", "", self.names(gives.clone()), self.names(takes.clone()))?;
                for line in program.to_string().lines() {
                    writeln!(f, "{:indent$}  {line}", "")?;
                }
                Ok(())
            }
            Stmt::Call(Call { function, sizes: _, axes: _, when, takes, gives }) => {
                let function = self.signature.functions.get(*function).map_or("", |f| f.name());
                let (takes, gives) = (self.names(takes.clone()), self.names(gives.clone()));
                write!(f, "{:indent$}call ({gives}) = {function}({takes})", "")?;
                match when {
                    Some(when) => writeln!(f, " where {} != 0", self.names([*when])),
                    None => writeln!(f),
                }
            }
            Stmt::Scan(Scan { index, steps, down, states, early, body }) => {
                let sizes = &self.frame.sizes;
                let index = sizes.get(*index).map_or("", String::as_str);
                let mut text = String::new();
                steps.write(&mut text, &mut |v| match v {
                    Var::Size(n) => sizes.get(*n).cloned().unwrap_or_default(),
                    Var::Index(_) | Var::Apply(_) => String::new(),
                })?;
                let before = self.names(states.iter().map(|s| s.before));
                let init = self.names(states.iter().map(|s| s.init));
                let path = self.names(states.iter().map(|s| s.path));
                let down = if *down { " down" } else { "" };
                write!(f, "{:indent$}scan {index} < {text}{down}, ({before}) = ({init}) -> ({path})", "")?;
                match early {
                    Some(early) => writeln!(f, " while {} != 0", self.names([early.changes]))?,
                    None => writeln!(f)?,
                }
                body.iter().try_for_each(|stmt| self.stmt(f, stmt, depth + 1))?;
                writeln!(f, "{:indent$}  next ({})", "", self.names(states.iter().map(|s| s.after)))
            }
        }
    }
}
