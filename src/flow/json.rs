//! Flows as JSON: the tables as they are, leaves as programs in Tensor-SSA. What is read is verified before anyone uses it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::data::{Output, Program, Stmt, Value, ValueId};
use crate::base::Arena;
use crate::error::{Error, Result};
use crate::ty::Signature;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Read {
    signature: Signature,
    frame: Signature,
    values: Arena<ValueId, Value>,
    body: Vec<Stmt>,
    outputs: Vec<Output>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Written<'a> {
    signature: &'a Signature,
    frame: &'a Signature,
    values: &'a Arena<ValueId, Value>,
    body: &'a [Stmt],
    outputs: &'a [Output],
}

impl Program {
    /// The program as JSON.
    ///
    /// # Errors
    /// [`Error::Data`] if the writer fails, which it does for no program.
    pub fn to_json(&self) -> Result<String> {
        let Program { signature, frame, values, body, outputs } = self;
        let written = Written { signature, frame, values, body, outputs };
        serde_json::to_string(&written).map_err(|error| Error::data("program", error.to_string()))
    }

    /// Reads what [`Program::to_json`] wrote.
    ///
    /// # Errors
    /// [`Error::Data`] if the text is no such JSON, or if the program in it is not well formed.
    pub fn from_json(text: &str) -> Result<Program> {
        let read: Read = serde_json::from_str(text).map_err(|error| Error::data("program", error.to_string()))?;
        let Read { signature, frame, values, body, outputs } = read;
        // Its types are those of the frame, of which some have a length that a loop finds out.
        let with_lengths = Signature { sizes: frame.sizes.clone(), ..signature.clone() };
        with_lengths.verify().map_err(|message| Error::data("program", message))?;
        frame.verify().map_err(|message| Error::data("program", message))?;
        let program = Program { signature: Arc::new(signature), frame: Arc::new(frame), values, body, outputs };
        program.verify().map_err(|violations| Error::data("program", violations.join("\n")))?;
        Ok(program)
    }
}

/// The program of a leaf.
pub(super) mod leaf {
    use serde::de::Error as _;
    use serde::ser::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::Value;

    use crate::tssa::Program;

    pub fn serialize<S: Serializer>(program: &Program, serializer: S) -> Result<S::Ok, S::Error> {
        let text = program.to_json().map_err(S::Error::custom)?;
        serde_json::from_str::<Value>(&text).map_err(S::Error::custom)?.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Program, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Program::from_json(&value.to_string()).map_err(D::Error::custom)
    }
}
