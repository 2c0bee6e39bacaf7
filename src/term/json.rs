//! Programs as JSON: the tables as they are, terms as a list in which operands come before users.
//!
//! Guards are lists of nodes too, operands first and each used once, so nesting meets no limit of the JSON reader and is checked
//! before anything recurses.
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

/// Guards as lists of nodes.
pub(super) mod guard {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::base::IndexId;
    use crate::index::{Affine, Pred, RelationRef, Size};

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Node {
        True,
        False,
        NonNegative(Affine),
        Zero(Affine),
        NonZero(Affine),
        Relation { relation: RelationRef, args: Vec<Affine>, holds: bool },
        All(Vec<usize>),
        Any(Vec<usize>),
        Exists { index: IndexId, extent: Size, body: usize },
    }

    pub(in crate::ir::term) fn serialize<S: Serializer>(p: &Pred, serializer: S) -> Result<S::Ok, S::Error> {
        let mut nodes = Vec::new();
        write(p, &mut nodes);
        nodes.serialize(serializer)
    }

    fn write(p: &Pred, nodes: &mut Vec<Node>) -> usize {
        let node = match p {
            Pred::True => Node::True,
            Pred::False => Node::False,
            Pred::NonNegative(a) => Node::NonNegative(a.clone()),
            Pred::Zero(a) => Node::Zero(a.clone()),
            Pred::NonZero(a) => Node::NonZero(a.clone()),
            Pred::Relation { relation, args, holds } => {
                Node::Relation { relation: *relation, args: args.clone(), holds: *holds }
            }
            Pred::All(ps) => Node::All(ps.iter().map(|p| write(p, nodes)).collect()),
            Pred::Any(ps) => Node::Any(ps.iter().map(|p| write(p, nodes)).collect()),
            Pred::Exists { index, extent, body } => {
                Node::Exists { index: *index, extent: extent.clone(), body: write(body, nodes) }
            }
        };
        nodes.push(node);
        nodes.len() - 1
    }

    pub(in crate::ir::term) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Pred, D::Error> {
        let nodes = Vec::<Node>::deserialize(deserializer)?;
        let broken = || D::Error::custom("the nodes of a guard are not in order");
        // What was read and not used yet, with its nesting.
        let mut done: Vec<Option<(Pred, usize)>> = Vec::with_capacity(nodes.len());
        for node in nodes {
            let mut nesting = 0;
            let mut take = |at: usize| {
                let (p, depth) = done.get_mut(at).and_then(Option::take).ok_or_else(broken)?;
                nesting = nesting.max(depth + 1);
                Ok(p)
            };
            let p = match node {
                Node::True => Pred::True,
                Node::False => Pred::False,
                Node::NonNegative(a) => Pred::NonNegative(a),
                Node::Zero(a) => Pred::Zero(a),
                Node::NonZero(a) => Pred::NonZero(a),
                Node::Relation { relation, args, holds } => Pred::Relation { relation, args, holds },
                Node::All(ps) => Pred::All(ps.into_iter().map(take).collect::<Result<_, D::Error>>()?),
                Node::Any(ps) => Pred::Any(ps.into_iter().map(take).collect::<Result<_, D::Error>>()?),
                Node::Exists { index, extent, body } => Pred::Exists { index, extent, body: take(body)?.into() },
            };
            if nesting > Pred::MAX_NESTING {
                return Err(D::Error::custom("a guard is nested too deep"));
            }
            done.push(Some((p, nesting)));
        }
        let last = done.pop().flatten();
        match (last, done.iter().all(Option::is_none)) {
            (Some((p, _)), true) => Ok(p),
            _ => Err(broken()),
        }
    }
}
