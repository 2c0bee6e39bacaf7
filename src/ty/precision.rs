//! How numbers are stored.

/// How numbers are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// As `f32`.
    Single,
    /// As `f64`.
    #[default]
    Double,
}

impl Precision {
    /// Whether it is that of `f64`.
    pub fn is_double(&self) -> bool {
        *self == Precision::Double
    }

    /// How many bytes a number has.
    pub fn bytes(self) -> usize {
        match self {
            Precision::Single => size_of::<f32>(),
            Precision::Double => size_of::<f64>(),
        }
    }

    /// The type of its numbers.
    pub fn type_name(self) -> &'static str {
        match self {
            Precision::Single => "f32",
            Precision::Double => "f64",
        }
    }
}

impl std::fmt::Display for Precision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Precision::Single => "single precision",
            Precision::Double => "double precision",
        })
    }
}
