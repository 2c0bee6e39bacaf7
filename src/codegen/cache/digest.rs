//! Digests of 256 bits (SHA-256): two of them are equal where what they are made of is, and by no accident.

use std::fmt;

/// A digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Digest([u8; Digest::LEN]);

impl Digest {
    /// How many bytes it has.
    pub const LEN: usize = 32;

    /// The digest of some parts. Each goes in with its length, so that no part can take over bytes of the next.
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Digest {
        let mut hash = hmac_sha256::Hash::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Digest(hash.finalize())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_keep_their_borders() {
        let of = |parts: &[&str]| Digest::of(parts.iter().map(|part| part.as_bytes()));
        assert_eq!(of(&["ab", "c"]), of(&["ab", "c"]));
        let others = [&["a", "bc"][..], &["abc"], &["ab", "c", ""], &["", "ab", "c"], &["ab", "d"], &[]];
        assert!(others.iter().all(|other| of(other) != of(&["ab", "c"])));
        // SHA-256 of eight zeros, the length of an empty part.
        assert_eq!(of(&[""]).to_string(), "af5570f5a1810b7af78caf4bc70a660f0df51e42baf91d4de5b2328de0e83dfc");
    }
}
