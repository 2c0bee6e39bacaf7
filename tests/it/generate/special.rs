//! Programs with functions that overflow, poles, and data that are infinite or no numbers, most of it where brackets, patterns and empty
//! sums mask it.
//!
//! Of the range of each size some indices are *wild*: the first, the last, one between, or any. Tensors have their special numbers at places
//! with a wild index, and relations and patterns have no tuples there, most of them. Brackets that say so stand around bodies of sums and
//! of tensors, and functions are not finite at what they keep out. So a program that is finite where it is read as it stands has infinities
//! behind its brackets, which show as soon as something moves out of one.

use std::collections::BTreeSet;

use super::{Extent, Generator, ParamKind, Ty};

/// Which indices of the range of a size are wild, and the predicates over an index `#` that keep them out.
#[derive(Clone, Debug)]
pub struct Wild {
    pub size: String,
    pub places: BTreeSet<usize>,
    pub(super) masks: Vec<String>,
}

impl Generator {
    /// Sizes, the wild indices of each, and a relation that holds at the others.
    pub(super) fn wild_sizes(&mut self, text: &mut String) {
        for (name, value) in self.sizes.clone() {
            let n = usize::try_from(value).unwrap_or(0);
            let middle = n / 2;
            let (places, mask) = match self.rng.u8(0..5) {
                _ if n == 0 => (BTreeSet::new(), None),
                0 => (BTreeSet::from([0]), Some("1 <= #".to_owned())),
                1 => (BTreeSet::from([n - 1]), Some(format!("# + 1 < {name}"))),
                2 => (BTreeSet::from([middle]), Some(format!("# != {middle}"))),
                3 => (BTreeSet::from([0, n - 1]), Some(format!("(0 < # and # < {name} - 1)"))),
                _ => ((0..n).filter(|_| self.rng.bool()).collect(), None),
            };
            let relation = format!("ok{name}");
            let masks = mask.into_iter().chain([format!("{relation}(#)")]).collect();
            self.declare(text, relation, ParamKind::Mask(Extent { text: name.clone(), value }));
            self.wild.push(Wild { size: name, places, masks });
        }
    }

    /// A body under the index that was bound last, which is not wild, most of the time.
    pub(super) fn masked(&mut self, body: String) -> String {
        let Some((i, n)) = self.indices.last().cloned() else { return body };
        let Some(wild) = self.wild.iter().find(|wild| wild.size == n.text).cloned() else { return body };
        if !self.chance(70) {
            return body;
        }
        self.mark("masked body");
        let mask = self.pick(&wild.masks).unwrap_or_default().replace('#', &i);
        format!("[{mask}] * {body}")
    }

    /// A number that may be infinite, or none.
    pub(super) fn special_real(&mut self, d: u8) -> String {
        let real = Ty::Real;
        match self.rng.u8(0..13) {
            0..=3 => {
                let e = self.expr(&real, d);
                self.overflowing(&e)
            }
            4 => {
                self.mark("quotient");
                format!("({} / {})", self.expr(&real, d), self.leaf())
            }
            5..=6 => {
                self.mark("comparison that masks");
                let x = self.leaf();
                let f = self.overflowing(&x);
                let p = match self.rng.u8(0..5) {
                    0 => format!("{x} < 10.0"),
                    1 => format!("{x} > 0.0"),
                    2 => format!("{x} = {x} + 0.0"),
                    3 => format!("{x} != 0.0"),
                    _ => format!("{x} * {x} < 100.0"),
                };
                format!("([{p}] * {f})")
            }
            7..=8 => {
                self.mark("invariant beside a sum");
                let x = self.leaf();
                let f = self.overflowing(&x);
                let n = self.extent();
                let (j, body) = self.under_new(&n, |g| {
                    let guard = g.pred(1);
                    let body = g.expr(&Ty::Real, d);
                    let body = match g.rng.u8(0..3) {
                        0 => format!("({body} * {f})"),
                        1 => format!("({body} * {x} - {f})"),
                        _ => f.clone(),
                    };
                    let body = format!("[{guard}] * {body}");
                    g.masked(body)
                });
                format!("(sum {j} < {}. {body})", n.text)
            }
            9..=11 => match self.row_sum(d) {
                Some(text) => text,
                None => self.leaf(),
            },
            _ => {
                let (p, x, e) = (self.pred_without_exists(1), self.leaf(), self.expr(&real, d));
                format!("select({p}, {}, {e})", self.overflowing(&x))
            }
        }
    }

    /// A sum over the entries of a row, times what is the same for all of them; of each row, where none is known.
    fn row_sum(&mut self, d: u8) -> Option<String> {
        let matrix = |(name, kind): &(String, ParamKind)| match kind {
            ParamKind::Csr(dims) | ParamKind::Csc(dims) | ParamKind::Coo(dims) if dims.len() == 2 => {
                Some((name.clone(), dims.clone(), true))
            }
            ParamKind::Relation(dims) if dims.len() == 2 => Some((name.clone(), dims.clone(), false)),
            _ => None,
        };
        let matrices: Vec<_> = self.params.iter().filter_map(matrix).collect();
        let (name, dims, sparse) = self.pick(&matrices)?;
        self.mark("row of entries");
        match self.index_over(&dims[0]) {
            Some(i) => Some(self.entries(&name, &i, &dims[1], sparse, d)),
            None => {
                let (i, body) = self.under_new(&dims[0], |g| {
                    let i = g.indices.last().map(|(i, _)| i.clone()).unwrap_or_default();
                    g.entries(&name, &i, &dims[1], sparse, d)
                });
                Some(format!("(sum {i} < {}. {body})", dims[0].text))
            }
        }
    }

    fn entries(&mut self, name: &str, i: &str, extent: &Extent, sparse: bool, d: u8) -> String {
        // An element of the row, or anything else that does not depend on the column.
        let own: Vec<String> = self
            .vars
            .iter()
            .filter_map(|(x, ty)| match ty {
                Ty::Tensor(n, element) if **element == Ty::Real => {
                    let known = self.indices.iter().any(|(j, m)| j == i && m == n);
                    known.then(|| format!("{x}[{i}]"))
                }
                _ => None,
            })
            .collect();
        let x = match self.pick(&own) {
            Some(x) if self.chance(70) => x,
            _ => self.leaf(),
        };
        let f = self.overflowing(&x);
        let (j, body) = self.under_new(extent, |g| {
            let j = g.indices.last().map(|(j, _)| j.clone()).unwrap_or_default();
            let e = g.expr(&Ty::Real, d);
            match (sparse, g.rng.u8(0..3)) {
                (true, 0) => format!("{name}[{i}, {j}] * {f}"),
                (true, 1) => format!("[{name}?({i}, {j})] * ({name}[{i}, {j}] * {e} - {f})"),
                (true, _) => format!("[{name}?({i}, {j})] * {e} * {f}"),
                (false, _) => format!("[{name}({i}, {j})] * {e} * {f}"),
            }
        });
        format!("(sum {j} < {}. {body})", extent.text)
    }

    /// A function that is not finite somewhere.
    fn overflowing(&mut self, e: &str) -> String {
        self.mark("function that is not finite everywhere");
        match self.rng.u8(0..18) {
            0..=2 => format!("exp({e})"),
            3 => format!("({e})^2"),
            4 => format!("({e})^3"),
            5 => format!("(1 / {e})"),
            6 => format!("ln({e})"),
            7 => format!("sqrt({e})"),
            8 => format!("({e} * {e})"),
            9 => format!("exp(-{e})"),
            10 => format!("(1 / ({e})^2)"),
            11 => format!("cos({e})"),
            12 => format!("sinh({e})"),
            13 => format!("cosh({e})"),
            14 => format!("asin({e})"),
            15 => format!("acos({e})"),
            16 => format!("(1 / cbrt({e}))"),
            _ => format!("pow({e}, {})", self.leaf()),
        }
    }
}
