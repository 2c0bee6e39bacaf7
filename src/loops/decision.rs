//! Decisions: why a nest is as it is, with figures.
//!
//! Lowering and the passes over loops add to the nests that they change what they decided. A row of the table below is a kind of decision: who
//! decides, its name in Rust, its figures, and its sentence, by which it is printed and read back.

use std::fmt;
use std::str::FromStr;

/// How a tensor is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredAs {
    /// With all its elements.
    Dense,
    /// On the entries of a relation.
    Entries(String),
}

impl fmt::Display for StoredAs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoredAs::Dense => f.write_str("dense"),
            StoredAs::Entries(relation) => write!(f, "on the entries of {relation}"),
        }
    }
}

impl FromStr for StoredAs {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match (text, text.strip_prefix("on the entries of ")) {
            ("dense", _) => Ok(StoredAs::Dense),
            (_, Some(relation)) => Ok(StoredAs::Entries(relation.to_owned())),
            _ => Err(()),
        }
    }
}

/// Some axes, or some names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T>(pub Vec<T>);

impl<T: fmt::Display> fmt::Display for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, x) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{x}")?;
        }
        Ok(())
    }
}

impl<T: FromStr> FromStr for List<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        text.split(", ").map(str::parse).collect::<Result<_, _>>().map(List)
    }
}

macro_rules! decisions {
    ($($who:literal { $( $name:ident { $($field:ident: $kind:ty),* } $sentence:literal )* })*) => {
        /// What was decided about a nest.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Decision {
            $($(
                #[doc = concat!("Of `", $who, "`: ", $sentence, ".")]
                $name { $( #[doc = concat!("The `", stringify!($field), "` of the sentence.")] $field: $kind, )* },
            )*)*
        }

        impl Decision {
            /// Who decided: `lower`, a pass over loops, or one that works on bound programs.
            pub fn by(&self) -> &'static str {
                match self { $($( Decision::$name { .. } => $who, )*)* }
            }

            /// The sentences, with the names of figures in braces.
            #[cfg(test)]
            pub(crate) const SENTENCES: &[&'static str] = &[$($( $sentence, )*)*];
        }

        impl fmt::Display for Decision {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $($( Decision::$name { $($field),* } => write!(f, $sentence), )*)* }
            }
        }

        impl FromStr for Decision {
            type Err = ();

            fn from_str(text: &str) -> Result<Self, ()> {
                $($(
                    #[allow(unused_variables, reason = "some have no figures")]
                    if let Some(figures) = figures($sentence, text) {
                        let figure = |name: &str| figures.iter().find(|(other, _)| *other == name).map(|(_, text)| *text);
                        let read = || Some(Decision::$name { $( $field: figure(stringify!($field))?.parse().ok()?, )* });
                        if let Some(decision) = read() {
                            return Ok(decision);
                        }
                    }
                )*)*
                Err(())
            }
        }
    };
}

decisions! {
    "lower" {
        Result { stored: StoredAs } "stored {stored}: it is a result"
        Nested { stored: StoredAs, statements: usize, levels: usize } "stored {stored}: too much would be nested (statements {statements}, levels {levels})"
        ReadAgain { stored: StoredAs, operations: u64, loops: u64 } "stored {stored}: its elements are read more than once (operations {operations}, loops {loops})"
        Again { stored: StoredAs, operations: u64, loops: u64 } "stored {stored}: a loop around would compute its elements again (operations {operations}, loops {loops})"
        Shared { stored: StoredAs, readers: usize } "stored {stored}: it has several readers ({readers})"
        OtherSums { stored: StoredAs } "stored {stored}: what it is added to waits for another sum"
        OtherRows { stored: StoredAs } "stored {stored}: what it is added to is a sum over the rows of another index"
        Argument { stored: StoredAs } "stored {stored}: a function of its elements is computed in lanes"
        Row { stored: StoredAs } "stored {stored}: with it, what is made of it and of a matrix that is stored anyway is computed where it is read"
        Copied { stored: StoredAs } "copied {stored}: it is a result that is stored elsewhere"
        View { tensor: String } "{tensor} is computed in place: it is a view and costs nothing"
        Cheap { tensor: String, operations: u64 } "{tensor} is computed in place: it is cheaper to compute again than to store (operations {operations})"
        ReadOnce { tensor: String } "{tensor} is computed in place: each of its elements is read once"
        OfOne { tensor: String, operations: u64, readers: usize } "{tensor} is computed in place: it is made of what is stored anyway in less time than it takes to store it (operations {operations}, readers {readers})"
        Large { tensor: String, operations: u64, readers: usize } "{tensor} is computed in place: stored it would be larger than parameters and results (operations {operations}, readers {readers})"
        Alone { tensor: String, operations: u64, readers: usize } "{tensor} is computed in place: nothing larger than parameters and results is stored then (operations {operations}, readers {readers})"
        RowByRow {} "its entries are written row by row, in the order in which they are known to be"
        Solved {} "an index that an equation determines has no loop"
        Bounds {} "guards are bounds of loops"
        Extremum {} "the place of an extremum is found once for each row"
        Told {} "a number that is loaded tells the place: no other is asked"
        Tells { stored: StoredAs } "stored {stored}: its numbers tell places"
        Target { map: String } "{map} is a map: its target is loaded"
        Targets { map: String } "the targets of {map} that are in use are visited, each once"
        Entries { relation: String } "the entries of {relation} are visited, and no other places"
        Walk { relation: String, along: List<usize>, known: List<usize> } "{relation} is walked along axes {along}, with axes {known} known"
        SearchInColumn { relation: String } "{relation} is tested by a search in its column"
        SearchInRow { relation: String } "{relation} is tested by a search in its row"
        Search { relation: String, axes: List<usize> } "{relation} is tested by a search with its axes in the order {axes}"
        Starts { relation: String } "whether {relation} has entries is seen from where its nodes start"
    }
    "collapse" {
        Collapsed { loops: usize } "loops over all of two axes that lie together are one (loops {loops})"
    }
    "histograms" {
        Histogram { sums: usize } "terms are added where their places are, in the order of their sources (sums {sums})"
    }
    "workspaces" {
        InRows { sums: usize } "terms are added to a row where their places are (sums {sums})"
    }
    "fold-extrema" {
        Folded {} "the best of numbers is kept, and its place is not looked for"
        FoldedInRows {} "the best of a row is kept, and compared once with the number that all other places have"
    }
    "fold-places" {
        PlacesFolded {} "the place of the best number is kept as a number, for many columns side by side"
        PlacesFoldedInRows {} "the place of the best of a row is kept as a number, and compared once with the first place that is missing"
    }
    "unroll-outer" {
        UnrolledOuter { loops: usize } "a loop over a few values around sums is unrolled, so that they share what they load (loops {loops})"
    }
    "unroll-and-jam" {
        UnrolledAndJammed {} "the loop over a few values is inside of the long one, as statements"
    }
    "row-sums" {
        RowSums {} "sums of each row, for a sum over all rows, as the rows are written"
    }
    "interchange" {
        Interchanged {} "its loops begin with rows of what it reads"
        RowsOfRoots {} "the tuples of a relation come by rows, as another nest has them"
    }
    "windows" {
        Windows {} "loops over the offsets of windows come outside of the one over places, which has lanes"
    }
    "unswitch" {
        Unswitched {} "a loop that tests what was known before it is two loops"
    }
    "split" {
        Split {} "loops are cut where a test of their index begins or ceases to hold"
        Borders {} "rows at the borders are told from those in which the same tests all hold"
        Decided {} "innermost loops are cut, and their bounds decide what they tested"
        Taps {} "loops around sums over a few places are cut where these places become others"
    }
    "unroll-extrema" {
        Compared {} "of a few numbers each is compared with the best, whose place is not looked for"
    }
    "if-conversion" {
        Converted { tests: usize } "what is done under tests of numbers is chosen (tests {tests})"
    }
    "pack" {
        Packed { tensor: String } "a copy with its axes in another order: {tensor} is read in lanes, more than once"
    }
    "layout" {
        LastAxis { axis: usize } "its axes are in the order in which its readers have neighbours in lanes (axis {axis} comes last)"
    }
    "fuse" {
        Fused { tensor: String } "{tensor} is computed in the same loop, which has its operands at hand"
    }
    "unroll" {
        UnrolledInside { loops: usize } "loops over a few values inside of others are straight-line code (loops {loops})"
        Unrolled { statements: usize } "rows are straight-line code, which runs in lanes (statements {statements})"
    }
    "merge" {
        Merged { loops: usize } "loops over the same values beside each other are one (times {loops})"
    }
    "reuse" {
        Forwarded { tensor: String } "{tensor} is not stored: its readers are in the same loops"
    }
    "reciprocals" {
        Reciprocals { divisors: usize } "what is divided by one number is multiplied with its reciprocal (divisors {divisors})"
    }
    "powers" {
        Powers { powers: usize } "powers with literal exponents are products (powers {powers})"
    }
    "quotients" {
        Quotients { quotients: usize } "quotients by powers of a number are products with powers of its reciprocal (quotients {quotients})"
    }
    "divisions" {
        Divisions { quotients: usize } "quotients by numbers that a loop does not change are products with their reciprocals (quotients {quotients})"
    }
    "fills" {
        NotFilled { tensor: String } "{tensor} is not made zero before: nothing is read but what was stored"
    }
    "strip-mine" {
        Strips { columns: u64, sums: usize } "sums along columns run in strips of {columns} columns, as far as these have the same bounds (sums {sums})"
    }
    "hoist" {
        Hoisted { factors: usize } "a factor that a loop does not change is taken out of its sum (times {factors})"
    }
    "peel" {
        Peeled {} "the ends, where bounds of sums depend on the place, have loops of their own"
        Ends {} "loops are cut where what they test of their index changes"
    }
    "distribute" {
        Once {} "it is for all rows, whose nest would compute it in each of its parts"
    }
    "vectorise" {
        Jammed { iterations: u32 } "iterations that load a factor alike are interleaved, so it is loaded once (iterations {iterations})"
    }
    "copy-propagation" {
        Uncopied { tensor: String } "lanes have no neighbours in a copy of {tensor}, which is read itself"
    }
    "panels" {
        Panels { tensor: String, columns: i64 } "{tensor} is read in panels of {columns} columns that lie together, where it is large"
        Blocks { terms: i64 } "sums of more terms than a panel has are added {terms} at a time"
    }
    "tiles" {
        Tiled { columns: i64 } "products are computed for {columns} columns at a time, which stay in the cache"
    }
    "partial-sums" {
        PartialSums { parts: u32 } "its sums are those of {parts} parts, which may run at the same time"
        PartsAdded { parts: u32 } "the sums of the {parts} parts are added in order"
    }
    "growing-sums" {
        Running {} "sums that grow with an index are read from a tensor of them"
    }
    "prefix-sums" {
        RunningSums {} "each sum is the one before and what comes to it"
    }
    "privatise" {
        OneRow {} "iterations of inner loops have their rows at the same place, one after the other"
        Privatised { parts: u32 } "rows that only their own iteration reads are kept for each of {parts} parts"
    }
    "row-blocks" {
        RowBlocks { rows: i64 } "its columns are summed up for blocks of {rows} rows, in parts"
    }
    "searches" {
        Neighbours { relation: String, walked: String } "places in {relation} that entries of {walked} tell are found when relations are bound"
    }
    "link" {
        Steps { path: String } "the steps of {path} come one after the other, in one nest"
        Checkpoints { path: String, states: i64 } "of {path}, {states} states are kept, and the steps between two of them run once more"
        RowsOfSteps { rows: i64 } "{rows} rows at a time go through all steps, which mix none"
        CopiedResult {} "a result that is stored elsewhere is copied"
    }
    "scatter" {
        Scattered { parts: u32 } "terms are added to the sums of their targets in the order of their sources, in {parts} parts"
    }
    "fuse-blocks" {
        RowsOfNests { rows: i64, nests: i64 } "{rows} rows at a time go through {nests} nests"
    }
    "flatten" {
        Flattened { loops: usize } "functions of the entries of short rows are computed before, for all entries (loops {loops})"
        BeforeEntries {} "rows are gone through once for what functions of their entries need, and once for the rest"
        AtEntries {} "what functions of entries take of their rows"
        OfEntries {} "functions of entries, whatever rows they are in"
    }
    "bins" {
        InBins {} "where its terms are too many for the caches, they are computed before, in bins"
        Terms {} "terms of a sum along another view, in runs of entries whose numbers lie near together"
    }
    "specialise" {
        Held { tensors: List<String> } "{tensors}: computed once, since no call changes it"
    }
}

/// The figures of a sentence with their names, where a text is that sentence. A figure ends where what follows it comes first.
fn figures<'s, 't>(sentence: &'s str, text: &'t str) -> Option<Vec<(&'s str, &'t str)>> {
    let mut parts = sentence.split('{');
    let mut left = text.strip_prefix(parts.next()?)?;
    let mut found = Vec::new();
    for part in parts {
        let (name, after) = part.split_once('}')?;
        let end = if after.is_empty() { left.len() } else { left.find(after)? };
        found.push((name, left.get(..end)?));
        left = left.get(end + after.len()..)?;
    }
    left.is_empty().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is printed is read as what it was, not as another one.
    #[test]
    fn sentences_are_read_back() {
        for sentence in Decision::SENTENCES {
            let mut text = sentence.replace("{stored}", "on the entries of A").replace("{along}", "1, 2");
            for name in ["tensor", "tensors", "map", "relation", "walked", "path"] {
                text = text.replace(&format!("{{{name}}}"), "t3");
            }
            while let (Some(from), Some(to)) = (text.find('{'), text.find('}')) {
                text.replace_range(from..=to, "17");
            }
            let decision: Decision = text.parse().unwrap_or_else(|()| panic!("{text}"));
            assert_eq!(decision.to_string(), text);
            let of = Decision::SENTENCES.iter().filter(|other| figures(other, &text).is_some());
            assert_eq!(of.collect::<Vec<_>>(), [sentence], "{text}");
        }
        let dense = Decision::Result { stored: StoredAs::Dense };
        assert_eq!(dense.to_string().parse(), Ok(dense));
    }

    #[test]
    fn others_are_none() {
        for text in [
            "",
            "stored dense",
            "stored somewhere: it is a result",
            "it has several readers (x)",
            "guards are bounds of loops ",
        ] {
            assert_eq!(text.parse::<Decision>(), Err(()), "{text}");
        }
    }
}
