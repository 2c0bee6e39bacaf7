#![doc = include_str!("losses.md")]
