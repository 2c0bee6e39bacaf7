//! Programs over ranges that are longer than the lanes of any loop, with brackets that walk relations, follow maps, and cut ranges.

use super::{Extent, Generator, ParamKind, Ty};

/// Sizes around the numbers of lanes.
pub(super) const SIZES: [i64; 10] = [0, 1, 2, 7, 8, 9, 17, 33, 40, 67];

/// A relation or a pattern of two axes, or a map: how its atom is written, and its ranges.
#[derive(Clone)]
struct Pairs {
    name: String,
    first: Extent,
    second: Extent,
    /// Whether numbers are stored at its tuples.
    sparse: bool,
    map: bool,
}

impl Pairs {
    fn atom(&self, i: &str, j: &str) -> String {
        match (self.sparse, self.map) {
            (true, _) => format!("{}?({i}, {j})", self.name),
            (false, true) => format!("{}({i}) = {j}", self.name),
            (false, false) => format!("{}({i}, {j})", self.name),
        }
    }
}

impl Generator {
    fn pairs(&self) -> Vec<Pairs> {
        let pairs = |(name, kind): &(String, ParamKind)| {
            let (dims, sparse, map) = match kind {
                ParamKind::Csr(dims) | ParamKind::Csc(dims) | ParamKind::Coo(dims) => (dims.clone(), true, false),
                ParamKind::Relation(dims) => (dims.clone(), false, false),
                ParamKind::Map(source, target) => (vec![source.clone(), target.clone()], false, true),
                ParamKind::Dense(_) | ParamKind::Mask(_) => return None,
            };
            let [first, second] = <[Extent; 2]>::try_from(dims).ok()?;
            Some(Pairs { name: name.clone(), first, second, sparse, map })
        };
        self.params.iter().filter_map(pairs).collect()
    }

    /// An index in scope over a range.
    pub(super) fn index_over(&mut self, n: &Extent) -> Option<String> {
        let own: Vec<String> = self.indices.iter().filter(|(_, m)| m == n).map(|(i, _)| i.clone()).collect();
        self.pick(&own)
    }

    /// A sum under a bracket that fixes its index, or walks to it, or bounds it.
    pub(super) fn wide_real(&mut self, d: u8) -> String {
        let pairs = self.pairs();
        match self.rng.u8(0..13) {
            12 => self.at_targets(&pairs, d),
            10..=11 => self.entries_of_pairs(&pairs, d),
            0..=3 => match self.pick(&pairs) {
                Some(pairs) => self.walk(&pairs, d),
                None => self.band(d),
            },
            4 => match self.pick(&pairs) {
                Some(pairs) => self.in_use(&pairs, d),
                None => self.band(d),
            },
            5 => match self.pick(&pairs) {
                Some(pairs) => self.united(&pairs, d),
                None => self.band(d),
            },
            _ => self.band(d),
        }
    }

    /// A sum over the tuples of a relation, of which no index is known, or one.
    fn walk(&mut self, pairs: &Pairs, d: u8) -> String {
        self.mark("walk over a relation");
        let element = |pairs: &Pairs, i: &str, j: &str, e: String| match pairs.sparse {
            true => format!("{}[{i}, {j}] * {e}", pairs.name),
            false => format!("[{}] * {e}", pairs.atom(i, j)),
        };
        let (known_first, known_second) = (self.index_over(&pairs.first), self.index_over(&pairs.second));
        match (self.rng.u8(0..3), known_first, known_second) {
            (0, Some(i), _) => {
                let (j, e) = self.under_new(&pairs.second, |g| g.expr(&Ty::Real, d));
                format!("(sum {j} < {}. {})", pairs.second.text, element(pairs, &i, &j, e))
            }
            (0 | 1, _, Some(j)) => {
                let (i, e) = self.under_new(&pairs.first, |g| g.expr(&Ty::Real, d));
                format!("(sum {i} < {}. {})", pairs.first.text, element(pairs, &i, &j, e))
            }
            _ => {
                let second = pairs.second.clone();
                let (i, (j, e)) = self.under_new(&pairs.first, |g| g.under_new(&second, |g| g.expr(&Ty::Real, d)));
                let (n, m) = (&pairs.first.text, &pairs.second.text);
                format!("(sum {i} < {n}, {j} < {m}. {})", element(pairs, &i, &j, e))
            }
        }
    }

    /// Terms that each have entries of their own at the places of two indices: stored numbers, tuples, products of matrices, a diagonal.
    fn entries_of_pairs(&mut self, pairs: &[Pairs], d: u8) -> String {
        let [.., (i, n), (j, m)] = self.indices.as_slice() else { return self.band(d) };
        let (i, n, j, m) = (i.clone(), n.clone(), j.clone(), m.clone());
        self.mark("sum of sparse terms");
        let mut terms = Vec::new();
        for _ in 0..self.rng.usize(2..=3) {
            let e = self.leaf();
            let here: Vec<Pairs> = pairs.iter().filter(|p| p.first == n && p.second == m).cloned().collect();
            let left: Vec<Pairs> = pairs.iter().filter(|p| p.first == n).cloned().collect();
            terms.push(match (self.rng.u8(0..4), self.pick(&here), self.pick(&left)) {
                (0 | 1, Some(own), _) if own.sparse => format!("{}[{i}, {j}] * {e}", own.name),
                (0 | 1, Some(own), _) => format!("[{}] * {e}", own.atom(&i, &j)),
                (0..=2, _, Some(left)) => {
                    let right: Vec<Pairs> =
                        pairs.iter().filter(|p| p.first == left.second && p.second == m).cloned().collect();
                    let k = self.name("k");
                    match self.pick(&right) {
                        Some(right) => format!(
                            "(sum {k} < {}. [{} and {}] * {e})",
                            left.second.text,
                            left.atom(&i, &k),
                            right.atom(&k, &j)
                        ),
                        None => format!("[exists {k} < {}. {}] * {e}", left.second.text, left.atom(&i, &k)),
                    }
                }
                _ => format!("[{i} = {j} + 1] * {e}"),
            });
        }
        format!("({})", terms.join(" + "))
    }

    /// A sum over sources that two maps, or one, put at the places of two indices, where something holds of targets as well.
    fn at_targets(&mut self, pairs: &[Pairs], d: u8) -> String {
        let [.., (i, n), (j, m)] = self.indices.as_slice() else { return self.band(d) };
        let (i, n, j, m) = (i.clone(), n.clone(), j.clone(), m.clone());
        let to = |extent: &Extent| -> Vec<Pairs> {
            pairs.iter().filter(|p| p.map && p.second == *extent).cloned().collect()
        };
        let Some(first) = self.pick(&to(&n)) else { return self.band(d) };
        let others: Vec<Pairs> = to(&m).into_iter().filter(|other| other.first == first.first).collect();
        let Some(second) = self.pick(&others) else { return self.band(d) };
        self.mark("places that maps tell");
        let (k, e) = self.under_new(&first.first, |g| g.expr(&Ty::Real, d));
        let shift = if self.rng.bool() { " + 1" } else { "" };
        let (at_first, at_second) = (format!("{}({k})", first.name), format!("{}({k})", second.name));
        let atoms: Vec<String> = pairs
            .iter()
            .filter(|p| !p.map)
            .flat_map(|p| {
                let side = |extent: &Extent| {
                    let all = [(&n, &at_first), (&m, &at_second), (&first.first, &k)];
                    all.into_iter().filter(|(own, _)| *own == extent).map(|(_, at)| at.clone()).collect::<Vec<_>>()
                };
                let second = side(&p.second);
                side(&p.first)
                    .into_iter()
                    .flat_map(move |a| second.clone().into_iter().map(move |b| (a.clone(), b)))
                    .map(|(a, b)| p.atom(&a, &b))
                    .collect::<Vec<_>>()
            })
            .collect();
        let also = self.pick(&atoms).map_or_else(String::new, |atom| format!(" and {atom}"));
        format!("(sum {k} < {}. [{at_first}{shift} = {i} and {at_second} = {j}{also}] * {e})", first.first.text)
    }

    /// What some tuple has, or none.
    fn in_use(&mut self, pairs: &Pairs, d: u8) -> String {
        self.mark("row in use");
        let e = self.expr(&Ty::Real, d);
        let k = self.name("k");
        if let Some(i) = self.index_over(&pairs.first) {
            return format!("([exists {k} < {}. {}] * {e})", pairs.second.text, pairs.atom(&i, &k));
        }
        match self.index_over(&pairs.second) {
            Some(j) => format!("([exists {k} < {}. {}] * {e})", pairs.first.text, pairs.atom(&k, &j)),
            None => e,
        }
    }

    /// The tuples of a relation and other places, which may be the same ones.
    fn united(&mut self, pairs: &Pairs, d: u8) -> String {
        self.mark("union with a relation");
        let Some(i) = self.index_over(&pairs.first) else { return self.band(d) };
        let (j, e) = self.under_new(&pairs.second, |g| g.expr(&Ty::Real, d));
        let atom = pairs.atom(&i, &j);
        let other = match self.rng.u8(0..4) {
            0 => format!("{j} = {i}"),
            1 => format!("{j} = 2*{i} - 1"),
            2 => format!("{j} < {i}"),
            _ => format!("{j} = {i} + 1"),
        };
        let guard = match self.rng.u8(0..3) {
            0 => format!("({atom} or {other})"),
            1 => format!("({atom} and {other})"),
            _ => format!("((not {atom}) and {other})"),
        };
        format!("(sum {j} < {}. [{guard}] * {e})", pairs.second.text)
    }

    /// A sum over a part of a range.
    fn band(&mut self, d: u8) -> String {
        self.mark("band");
        let n = self.size();
        let outer = self.indices.clone();
        let outer = self.pick(&outer).map_or_else(|| "1".to_owned(), |(i, _)| i);
        let (j, e) = self.under_new(&n, |g| g.expr(&Ty::Real, d));
        let i = outer;
        let guard = match self.rng.u8(0..12) {
            0 => format!("{j} < {i}"),
            1 => format!("{j} <= {i}"),
            2 => format!("{i} < {j}"),
            3 => format!("2*{j} <= {i} + 3"),
            4 => format!("3*{j} >= {i} - 1"),
            5 => format!("2*{j} = {i}"),
            6 => format!("{j} = {i} - 1"),
            7 => format!("{j} != {i}"),
            8 => format!("{i} - 2 <= {j} and {j} <= {i} + 2"),
            9 => format!("({j} < {i} or {j} > {i} + 2)"),
            10 => format!("({j} = {i} or {j} = 2*{i})"),
            _ => format!("{j} + {i} < {}", self.size().text),
        };
        // Over an empty range an extremum would be infinite.
        let kind = match self.rng.u8(0..10) {
            0 if n.value > 0 => "max",
            1 if n.value > 0 => "min",
            _ => "sum",
        };
        format!("({kind} {j} < {}. [{guard}] * {e})", n.text)
    }

    /// As [`under`](Generator::under), with a name that hides no other.
    pub(super) fn under_new<T>(&mut self, n: &Extent, draw: impl FnOnce(&mut Self) -> T) -> (String, T) {
        let i = self.name("i");
        self.indices.push((i.clone(), n.clone()));
        let drawn = draw(self);
        self.indices.pop();
        (i, drawn)
    }
}
