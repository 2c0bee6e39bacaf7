//! Reading a program with the texts that it imports.
//!
//! `import "lib.iv"` takes the definitions of another text: its `def`s, `fun`s and imports, and nothing else may be in it. Whoever reads
//! a program says where such texts come from, by a [`Loader`]; without one an import is refused, so reading a text opens no file.
//!
//! Texts are read once each, those that a text imports before it. A definition of the program takes the place of an imported one of the same
//! name; a problem inside an imported text is reported at the import, with its line there, one in an expansion at the call.

use rustc_hash::FxHashSet;

use super::ast::{Ast, Decl, Name};
use super::elaborate::elaborate_with;
use super::parser::parse;
use crate::base::locate;
use crate::error::{Diagnostic, Error};
use crate::scalar::UserFunction;
use crate::term::Program;

/// How many texts a program may import, directly or not.
const MAX_IMPORTS: usize = 1000;

/// A text that is imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// What it is called: two imports of one name are one text, and its own imports are resolved against it.
    pub name: String,
    /// The text.
    pub text: String,
}

/// Finds the text of an import from the name of the text that imports it, empty for the program itself, and the path as written. An error is a
/// sentence that says why there is none.
pub type Loader<'l> = dyn FnMut(&str, &str) -> Result<Import, String> + 'l;

/// A program that was read, with what is right in it and easily misread.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The program.
    pub program: Program,
    /// The warnings, in the order of the text.
    pub warnings: Vec<Diagnostic>,
}

/// Reads a program text: [`parse`] and [`elaborate`](super::elaborate()). A text with imports is refused.
///
/// # Errors
/// [`Error::Program`] with every problem found, in the order of the text.
pub fn read(text: &str, functions: &[UserFunction]) -> crate::error::Result<Program> {
    let mut nothing = |_: &str, _: &str| {
        Err("only whoever reads a program can read other files: the command line does, and in Rust `Function::parse_with`"
            .to_owned())
    };
    Ok(read_with(text, functions, &mut nothing)?.program)
}

/// Reads a program text and the texts that it imports.
///
/// # Errors
/// As [`read`].
pub fn read_with(text: &str, functions: &[UserFunction], loader: &mut Loader<'_>) -> crate::error::Result<Reading> {
    let (mut ast, mut diagnostics) = parse(text);
    let imported = imported(&ast, loader, &mut diagnostics);
    // Without an expression there is nothing to elaborate, and the parser has said so.
    let program = match ast.body {
        Some(_) => elaborate_with(&ast, &imported, functions),
        None => Err(Vec::new()),
    };
    match program {
        Ok((program, found)) if diagnostics.is_empty() => {
            let mut warnings = std::mem::take(&mut ast.warnings);
            warnings.extend(found);
            warnings.sort_by_key(|warning| warning.span.start);
            locate(text, &mut warnings);
            Ok(Reading { program, warnings })
        }
        Ok(_) => Err(Error::Program(diagnostics).in_text(text)),
        Err(found) => {
            // What the parser has said of a place need not be said again.
            let new = |d: &Diagnostic| !diagnostics.iter().any(|old| (old.code, old.span) == (d.code, d.span));
            let found: Vec<Diagnostic> = found.into_iter().filter(new).collect();
            diagnostics.extend(found);
            diagnostics.sort_by_key(|d| d.span.start);
            Err(Error::Program(diagnostics).in_text(text))
        }
    }
}

/// A text whose imports are being read.
struct Open {
    name: String,
    ast: Ast,
    next: usize,
}

/// The imported texts, each behind those that it imports.
fn imported(ast: &Ast, loader: &mut Loader<'_>, diagnostics: &mut Vec<Diagnostic>) -> Vec<Ast> {
    let mut done = Vec::new();
    let mut seen: FxHashSet<String> = FxHashSet::default();
    for import in &ast.imports {
        let problem = |message: String| Diagnostic::new("import", import.span, message);
        let mut open: Vec<Open> = Vec::new();
        let mut wanted: Option<(String, Name)> = Some((String::new(), import.clone()));
        loop {
            if let Some((from, Name { text: path, .. })) = wanted.take() {
                match loader(&from, &path) {
                    Err(reason) => diagnostics.push(problem(format!("`{path}` cannot be imported: {reason}"))),
                    Ok(Import { name, text }) if seen.insert(name.clone()) => {
                        let (ast, problems) = parse(&text);
                        match complaint(&name, &text, &ast, &problems) {
                            Some(message) => diagnostics.push(problem(message)),
                            None if seen.len() > MAX_IMPORTS => {
                                let message = format!("a program imports at most {MAX_IMPORTS} files");
                                diagnostics.push(problem(message));
                                return done;
                            }
                            None => open.push(Open { name, ast, next: 0 }),
                        }
                    }
                    Ok(_) => {}
                }
            }
            let Some(innermost) = open.last_mut() else { break };
            match innermost.ast.imports.get(innermost.next) {
                Some(import) => {
                    wanted = Some((innermost.name.clone(), import.clone()));
                    innermost.next += 1;
                }
                None => done.extend(open.pop().map(|open| open.ast)),
            }
        }
    }
    done
}

/// What is wrong with an imported text.
fn complaint(name: &str, text: &str, ast: &Ast, problems: &[Diagnostic]) -> Option<String> {
    let line = |at: u32| text.as_bytes().iter().take(at as usize).filter(|b| **b == b'\n').count() + 1;
    if let Some(problem) = problems.iter().find(|problem| problem.code != "missing-body" || ast.decls.is_empty()) {
        return Some(format!("`{name}`, line {}: {}", line(problem.span.start), problem.message));
    }
    let declares = |decl: &&Decl| !matches!(decl, Decl::Def { .. } | Decl::Fun { .. });
    if ast.decls.iter().any(|decl| declares(&decl)) || ast.body.is_some() {
        return Some(format!("`{name}` holds more than definitions: only `def`, `fun` and `import` may be imported"));
    }
    None
}
