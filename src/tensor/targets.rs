//! Maps that are given by their targets alone: how many targets there may be follows from the sizes of a program.

use std::sync::{Arc, OnceLock};

use super::Relation;
use crate::error::{Error, Result};

/// The targets of a map, of which nobody has said how many there may be.
#[derive(Debug)]
pub(super) struct Targets {
    sources: Vec<usize>,
    targets: Vec<usize>,
    /// The relation for as many as there were when it was asked for first.
    made: OnceLock<(usize, Arc<Relation>)>,
}

impl Targets {
    pub fn new(sources: &[usize], targets: Vec<usize>) -> Targets {
        Targets { sources: sources.to_vec(), targets, made: OnceLock::new() }
    }

    /// The lengths of the axes of the sources.
    pub fn sources(&self) -> &[usize] {
        &self.sources
    }

    pub fn targets(&self) -> &[usize] {
        &self.targets
    }

    /// The relation of the map into so many targets.
    pub fn relation(&self, name: &str, codomain: usize) -> Result<Arc<Relation>> {
        if let Some((_, relation)) = self.made.get().filter(|(known, _)| *known == codomain) {
            return Ok(relation.clone());
        }
        if let Some((position, target)) = self.targets.iter().enumerate().find(|(_, target)| **target >= codomain) {
            let message =
                format!("the target {position} of this map is {target}, and its targets are below {codomain}");
            return Err(Error::data(name, message));
        }
        let relation = Relation::from_map(&self.sources, self.targets.clone(), codomain);
        let relation = Arc::new(relation.map_err(|malformed| malformed.of(name))?);
        let (known, kept) = self.made.get_or_init(|| (codomain, relation.clone()));
        Ok(if *known == codomain { kept.clone() } else { relation })
    }
}
