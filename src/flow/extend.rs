//! Flows that take more from outside: the seeds and tangents of derivatives.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::build::Builder;
use super::data::{Leaf, Loops, Program, Scan, Stmt, free_name};
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
    let body = block(&flow, &program.body, &mut Vec::new())?;
    Ok((Program { body, ..program }, added))
}

// Scans nest to a bounded depth.
fn block(flow: &Builder, body: &[Stmt], loops: &mut Loops) -> Result<Vec<Stmt>> {
    let mut out = Vec::with_capacity(body.len());
    for stmt in body {
        out.push(match stmt {
            Stmt::Leaf(leaf) => {
                let mut joined = Joined::new(flow);
                joined.leaf(&Leaf { program: expand_partials(&leaf.program)?, ..leaf.clone() }, &BTreeMap::new())?;
                Stmt::Leaf(joined.finish(flow, loops, leaf.gives.clone())?)
            }
            Stmt::Call(call) => Stmt::Call(call.clone()),
            Stmt::Scan(scan) => {
                loops.push((scan.index, scan.steps.clone()));
                let body = block(flow, &scan.body, loops)?;
                loops.pop();
                Stmt::Scan(Scan { body, ..scan.clone() })
            }
        });
    }
    Ok(out)
}
