//! Floats in serialised tensors: numbers where JSON can hold them, else their bits as text.

use serde::{Deserialize, Serialize};

/// A list of floats, all values preserved.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Floats(Vec<Float>);

#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Float(#[serde(with = "crate::scalar::text_f64")] f64);

impl From<Vec<f64>> for Floats {
    fn from(data: Vec<f64>) -> Self {
        Floats(data.into_iter().map(Float).collect())
    }
}

impl From<Floats> for Vec<f64> {
    fn from(floats: Floats) -> Self {
        floats.0.into_iter().map(|x| x.0).collect()
    }
}
