//! The machine: all that passes assume of processors and caches, in numbers.
//!
//! They are those of x86-64 servers since 2017, of which registers of 512 bits hold eight numbers; with 256 bits a vector is two of them. The
//! numbers of lanes and parts also fix the order of sums, so results are the same on all machines.

/// Numbers in a vector register.
pub const VECTOR: u32 = 8;
/// Lanes of a loop that adds to a register: enough partial sums to hide the latency of an addition, four rounds of two units with vectors of
/// half the length.
pub const LANES_OF_SUMS: u32 = 2 * VECTOR;
/// Lanes of a loop over elements, with loops inside or not: what is loaded inside is loaded once for four vectors.
pub const LANES_OF_ELEMENTS: u32 = 4 * VECTOR;
/// Lanes of a loop over elements around loops over entries: indices are loaded once for eight vectors.
pub const LANES_AROUND_ENTRIES: u32 = 8 * VECTOR;
/// Lanes of a loop around loops with calls of functions, which need registers themselves.
pub const LANES_AROUND_CALLS: u32 = 2 * VECTOR;

/// How many iterations are interleaved, before vectors are exchanged for iterations.
pub const JAM: u32 = 4;
/// How many partial sums interleaved iterations may have in vectors: half of the registers of a processor that has 32.
pub const PARTIAL_SUMS: u32 = 16;

/// Innermost loops of fewer values, as a literal, have no lanes: they are unrolled.
pub const SHORT: i64 = 8;

/// Up to how many values an axis has a literal length when a program is bound: a few vectors.
pub const ROW: i64 = 32;

/// From how many values on an axis is long, beside which short ones are known to be short when a program is bound: so many fill lanes.
pub const MANY: i64 = 2 * LANES_OF_ELEMENTS as i64;

/// How many loops over axes that could have lanes are inside of the outermost one of a nest, if it is for parts alone: a batch of signals or pictures,
/// often a short one, and another part for each.
pub const AXES_BESIDE_PARTS: usize = 2;

/// Loops of up to so many values, as a literal, around sums become statements: the coordinates of a point, the channels of a picture.
pub const FEW: i64 = 4;
/// The largest exponent of a power that becomes a product.
pub const POWER: f64 = 64.0;
/// The largest exponent of a power that becomes a product with a square root.
pub const HALF_POWER: f64 = 16.0;
/// Loops of up to so many values, as a literal, become statements where their index is an exponent: the powers of a polynomial are products then.
pub const FEW_POWERS: i64 = 16;
/// The most statements of what a loop of fewer than [`SHORT`] values becomes around long sums.
pub const SHORT_STATEMENTS: usize = 72;
/// The most statements of a body in which loops over a few values became statements.
pub const FEW_STATEMENTS: usize = 256;
/// From how many sums on an innermost loop has a vector of each: with more, the registers of a processor that has 16 of half the length are full.
/// Lanes around rows have two of each of so many sums, and one of more.
pub const MANY_SUMS: usize = 3;

/// Up to how many values at an end of an innermost loop, which tests tell, are cut off together.
pub const FEW_VALUES: i64 = 8;
/// Into how many pieces an innermost loop is cut at its tests: a stencil has three, two factors with two brackets each have five.
pub const MAX_PIECES: usize = 6;
/// How many statements these pieces have together at most.
pub const PIECES_STATEMENTS: usize = 256;
/// The most statements of a body that is copied for both answers of a test.
pub const COPIED_STATEMENTS: usize = 64;

/// How many rows at an end of a loop are a border at most, which have loops of their own.
pub const BORDER_ROWS: i64 = 8;

/// Into how many parts a nest is cut that may run at the same time: more than there are threads, as parts take different times, and few enough
/// that to add them up is nothing.
pub const PARTS: u32 = 64;
/// Rows of a block that goes through all steps of a loop: a whole number of vectors, of whose rows a few hundred numbers are in the first cache.
pub const STEP_ROWS: i64 = 64;
/// How many rows are read front to back at a time where sums are along their columns: as many as are followed ahead of being read.
pub const ROW_BLOCK: i64 = 8;
/// How many rows such a block has at most, where each is also a number: these fill the lanes of functions.
pub const NUMBERS_BLOCK: i64 = 16;
/// How many numbers a row may have that each part keeps for itself: 8 KiB, a quarter of the nearest cache.
pub const PRIVATE_ROW: i64 = 1024;

/// Up to how many entries rows have in the mean whose functions are computed for all entries: a vector, of which a third is not in use then.
pub const SHORT_ROW: u64 = VECTOR as u64;
/// How many numbers are kept for each entry then, at most: two functions, and a number of the row.
pub const MOST_KEPT: usize = 3;

/// The columns of a panel of a matrix product: those of two blocks of registers.
pub const PANEL_COLUMNS: i64 = 32;
/// Lanes of a block of registers in a panel.
pub const PANEL_LANES: u32 = 16;
/// Into how many parts panels are cut, each with room for one.
pub const PANEL_PARTS: u32 = 16;
/// How many rows a panel has at least: fewer are in the nearest cache anyway.
pub const PANEL_LEAST_ROWS: i64 = 64;
/// How many rows a panel has at most: 256 KiB, a quarter of the second cache.
pub const PANEL_MOST_ROWS: i64 = 1024;
/// How many columns the factor has at least, so that there are panels for several threads.
pub const PANEL_LEAST_COLUMNS: i64 = 256;
/// How many rows the result has at least, which read a panel again.
pub const PANEL_LEAST_RESULTS: i64 = 32;
/// How many terms of a long sum of products are added at a time: as many lines of a factor are half of the nearest cache.
pub const BLOCK_TERMS: i64 = 256;
/// How many rows of such a product a part has at least, which read a block of the other factor again.
pub const BLOCK_ROWS: u32 = 48;
/// How many columns of a product inside of other loops are computed at a time: what is read of a factor for eight rows is in the second cache
/// for the next eight.
pub const TILE_COLUMNS: i64 = 256;

/// The least operations of a row that becomes straight-line code.
pub const ROW_WORK: usize = 48;
/// The least operations of such a row for each place far apart, which takes as long as that many.
pub const ROW_DENSITY: usize = 3;
/// The most statements of such a row: 64 KiB of code.
pub const ROW_STATEMENTS: usize = 4096;

/// How many numbers fit the larger cache of a core beside others: 512 KiB.
pub const CACHED: u64 = 1 << 16;

/// What it costs to load a number that is a few places from the one before.
pub const NEAR: u64 = 1;
/// What it costs to load one from a place far apart.
pub const FAR: u64 = 2;

/// How many times more often an innermost loop runs than what is around it, at least.
pub const INNERMOST: u64 = 4;
