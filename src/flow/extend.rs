//! Flows that take more from outside: the seeds and tangents of derivatives.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::build::Builder;
use super::data::{Leaf, Loops, Program, free_name, with_leaves};
use super::leaf::Joined;
use crate::base::ParamId;
use crate::diff::expand_partials;
use crate::error::Result;
use crate::ty::{Param, Storage, TypeId};

/// A flow with more parameters, and their numbers; partial derivatives in its leaves are expanded.
pub(super) fn extended(program: &Program, params: &[(String, TypeId, Storage)]) -> Result<(Program, Vec<ParamId>)> {
    let mut signature = (*program.signature).clone();
    let mut frame = (*program.frame).clone();
    // The types of parameters are those of the frame, which begin with those of the signature.
    signature.types = frame.types.clone();
    let mut added = Vec::with_capacity(params.len());
    for (wish, ty, storage) in params {
        let name = free_name(&frame, wish);
        let param = Param { name, ty: *ty, storage: *storage };
        added.push(signature.params.push(param.clone()));
        frame.params.push(param);
    }
    let program = Program { signature: Arc::new(signature), frame: Arc::new(frame), ..program.clone() };
    let flow = Builder::resume(&program);
    let body = with_leaves(&program.body, &mut Loops::new(), &mut |leaf, loops| {
        let mut joined = Joined::new(&flow);
        joined.leaf(&Leaf { program: expand_partials(&leaf.program)?, ..leaf.clone() }, &BTreeMap::new())?;
        joined.finish(&flow, loops, leaf.gives.clone())
    })?;
    Ok((Program { body, ..program }, added))
}
