//! Kernels within a budget of memory: derivatives of loops that keep fewer states.
//!
//! A derivative remembers what it is the derivative of. For a budget that it does not fit it is derived again, of the program with its long loops in
//! [tiles](flow::tile_time): in one level, which only takes sums into loops, in two, and so on until what the kernel keeps fits. What a kernel keeps is
//! counted from its nests, before memory is asked for or anything is compiled. The choice follows from sizes and budget alone.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Function, Request};
use crate::error::{Error, Result};
use crate::flow;
use crate::kernel::Footprint;
use crate::tensor::{self, Inputs};

/// What a derivative is the derivative of.
#[derive(Clone, Debug)]
pub(super) struct Primal {
    function: Function,
    request: Request,
}

/// A function for a budget, with what there is to say of its loops.
pub(super) struct Fitting<'f> {
    pub function: Cow<'f, Function>,
    pub notes: Vec<String>,
}

/// A function with tiles.
struct Tiled {
    function: Function,
    tiled: Vec<flow::Tiled>,
    kept: Vec<flow::Kept>,
}

impl Function {
    /// This derivative, with what it is the derivative of.
    pub(super) fn derivative_of(self, function: &Function, request: &Request) -> Function {
        let primal = Primal { function: function.clone(), request: request.clone() };
        Function { primal: Some(Arc::new(primal)), ..self }
    }

    /// The function in the fewest levels of tiles with which a kernel keeps no more bytes than these.
    pub(super) fn within<'f>(
        &'f self,
        bytes: u64,
        inputs: &Inputs,
        footprint: &dyn Fn(&Function) -> Result<Footprint>,
    ) -> Result<Fitting<'f>> {
        let whole = footprint(self)?;
        if whole.bytes <= bytes {
            let notes = vec![said(&whole, bytes)];
            return Ok(Fitting { function: Cow::Borrowed(self), notes });
        }
        let (mut least, mut kept) = (whole, Vec::new());
        // With more levels there would be loops in each other as no program has them.
        for levels in 1..=flow::MAX_DEPTH as u32 {
            let Some(tiled) = self.tiled(inputs, levels)? else { continue };
            let other = footprint(&tiled.function)?;
            if other.bytes <= bytes {
                let mut notes = vec![said(&other, bytes)];
                notes.extend(tiled.tiled.iter().map(ToString::to_string));
                notes.extend(tiled.kept.iter().map(ToString::to_string));
                return Ok(Fitting { function: Cow::Owned(tiled.function), notes });
            }
            let no_more = levels > 1 && other.bytes >= least.bytes;
            if other.bytes < least.bytes {
                (least, kept) = (other, tiled.kept);
            }
            if no_more {
                break;
            }
        }
        Err(too_small(bytes, &least, &kept, self))
    }

    /// The function with its loops, or those of what it is a derivative of, in so many levels of tiles; nothing where it is the same.
    fn tiled(&self, inputs: &Inputs, levels: u32) -> Result<Option<Tiled>> {
        let mut requests = Vec::new();
        let mut root = self;
        while let Some(primal) = root.primal.as_deref() {
            requests.push(&primal.request);
            root = &primal.function;
        }
        let Some(flow) = &root.flow else { return Ok(None) };
        if levels > 1 && (requests.is_empty() || flow.depth() * levels as usize > flow::MAX_DEPTH) {
            return Ok(None);
        }
        let sizes = tensor::sizes(&self.tssa.signature, inputs)?;
        let names = &self.tssa.signature.sizes;
        let length = |n| {
            let name = flow.signature.sizes.get(n)?;
            names.iter().find(|(_, known)| *known == name).and_then(|(own, _)| sizes.get(own).copied())
        };
        let Some(flow::Tiling { program, tiled, kept }) = flow::tile_time(flow, &length, levels)? else {
            return Ok(None);
        };
        let mut function = Function { sparse: root.sparse.clone(), ..Function::from_flow(program) };
        for request in requests.into_iter().rev() {
            function = function.derive(request)?.function;
        }
        function.sparse.clone_from(&self.sparse);
        Ok(Some(Tiled { function, tiled, kept }))
    }
}

fn said(footprint: &Footprint, budget: u64) -> String {
    format!("it keeps {} bytes beside inputs and results, of {budget} that it may", footprint.bytes)
}

fn too_small(budget: u64, least: &Footprint, kept: &[flow::Kept], function: &Function) -> Error {
    let mut message = format!(
        "a kernel keeps at least {} bytes beside inputs and results, and may keep {budget}: allow that much. What it keeps: {}",
        least.bytes,
        least.largest.iter().map(|(name, bytes)| format!("{bytes} for {name}")).collect::<Vec<_>>().join(", ")
    );
    for kept in kept {
        message += &format!("; {kept}");
    }
    if function.primal.is_none() && function.flow.is_some() {
        message += "; only of a derivative that was derived here, and not read from a text or a file, are states computed again";
    }
    Error::Request(message)
}
