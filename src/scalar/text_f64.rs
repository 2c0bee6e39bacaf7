//! Floats in serialised programs: a number where JSON can hold it, else its bits as text.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Text {
    Number(f64),
    Bits(String),
}

/// Writes a float.
pub fn serialize<S: Serializer>(x: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if x.is_finite() { Text::Number(*x) } else { Text::Bits(format!("{:#x}", x.to_bits())) }.serialize(serializer)
}

/// Reads a float.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    match Text::deserialize(deserializer)? {
        Text::Number(x) => Ok(x),
        Text::Bits(text) => {
            let bits = text.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
            bits.map(f64::from_bits).ok_or_else(|| serde::de::Error::custom(format!("`{text}` is no float")))
        }
    }
}
