#![doc = include_str!("reliability.md")]
