//! Programs as JSON: the tables as they are, terms as a list in which operands come before users.
//!
//! What is read is verified before anyone uses it; spans are not kept.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::data::{NormalForm, Program, Term, TermId, Variable};
use crate::base::{Arena, IndexId, SideTable, Span, VarId};
use crate::error::{Error, Result};
use crate::ty::{Signature, TypeId, Types};

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Read {
    signature: Signature,
    types: Types,
    variables: Arena<VarId, Variable>,
    indices: Arena<IndexId, String>,
    terms: Arena<TermId, Term>,
    term_types: Arena<TermId, TypeId>,
    root: TermId,
    form: NormalForm,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Written<'a> {
    signature: &'a Signature,
    types: &'a Types,
    variables: &'a Arena<VarId, Variable>,
    indices: &'a Arena<IndexId, String>,
    terms: &'a Arena<TermId, Term>,
    term_types: &'a Arena<TermId, TypeId>,
    root: TermId,
    form: NormalForm,
}

impl Program {
    /// The program as JSON.
    ///
    /// # Errors
    /// [`Error::Data`] if the writer fails, which it does for no program.
    pub fn to_json(&self) -> Result<String> {
        let Program { signature, types, variables, indices, terms, term_types, spans: _, root, form } = self;
        let written = Written { signature, types, variables, indices, terms, term_types, root: *root, form: *form };
        serde_json::to_string(&written).map_err(|error| Error::data("program", error.to_string()))
    }

    /// Reads what [`Program::to_json`] wrote.
    ///
    /// # Errors
    /// [`Error::Data`] if the text is no such JSON, or if the program in it is not well formed.
    pub fn from_json(text: &str) -> Result<Program> {
        let read: Read = serde_json::from_str(text).map_err(|error| Error::data("program", error.to_string()))?;
        let Read { signature, types, variables, indices, terms, term_types, root, form } = read;
        let program = Program {
            signature: Arc::new(signature),
            types,
            variables,
            indices,
            terms,
            term_types,
            spans: SideTable::new(0, Span::default()),
            root,
            form,
        };
        program.verify().map_err(|violations| Error::data("program", violations.to_string()))?;
        Ok(program)
    }
}
