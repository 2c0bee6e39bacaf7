//! Tensor-SSA as JSON: the tables as they are. What is read is verified before anyone uses it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::data::{Output, Program, Stmt};
use crate::base::{Arena, VarId};
use crate::error::{Error, Result};
use crate::ty::Signature;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Read {
    signature: Signature,
    stmts: Arena<VarId, Stmt>,
    names: Arena<VarId, String>,
    outputs: Vec<Output>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Written<'a> {
    signature: &'a Signature,
    stmts: &'a Arena<VarId, Stmt>,
    names: &'a Arena<VarId, String>,
    outputs: &'a [Output],
}

impl Program {
    /// The program as JSON.
    ///
    /// # Errors
    /// [`Error::Data`] if the writer fails, which it does for no program.
    pub fn to_json(&self) -> Result<String> {
        let Program { signature, stmts, names, outputs } = self;
        let written = Written { signature, stmts, names, outputs };
        serde_json::to_string(&written).map_err(|error| Error::data("program", error.to_string()))
    }

    /// Reads what [`Program::to_json`] wrote.
    ///
    /// # Errors
    /// [`Error::Data`] if the text is no such JSON, or if the program in it is not well formed.
    pub fn from_json(text: &str) -> Result<Program> {
        let read: Read = serde_json::from_str(text).map_err(|error| Error::data("program", error.to_string()))?;
        let Read { signature, stmts, names, outputs } = read;
        let program = Program { signature: Arc::new(signature), stmts, names, outputs };
        program.verify().map_err(|violations| Error::data("program", violations.join("\n")))?;
        Ok(program)
    }
}
