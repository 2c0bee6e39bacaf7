#![doc = include_str!("language.md")]
#![doc = "```text"]
#![doc = include_str!("surface/prelude.iv")]
#![doc = "```"]

pub mod losses;
