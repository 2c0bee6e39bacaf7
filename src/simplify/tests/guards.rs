//! Guards that go, in random programs where several are reasons for each other: values stay.

use fastrand::Rng;

use super::{NO_HINTS, environment, values};
use crate::driver::Function;
use crate::reference::{Leaf, Limits, eval_term};
use crate::simplify::Options;
use crate::simplify::cost::Model;
use crate::simplify::needless::without_needless_guards;

const DECLARED: &str = "param x : [n] real\nparam y : [n] real\nparam A : [n, n] real\nparam S : csr [n, n] real\n";

const PROGRAMS: u64 = 2000;

/// What guards say of an index `#`, and another one `$`.
const ATOMS: [&str; 9] = [
    "n >= 2",
    "n >= 3",
    "1 <= #",
    "# + 1 < n",
    "# != 0",
    "exists q < n. S?(#, q)",
    "exists q < n. S?(q, #)",
    "S?(#, $)",
    "# <= $",
];

/// What is said of places and sizes alone, so that what is 0 for the sizes may be 0 at this place only.
const COMPARISONS: [&str; 10] = [
    "n >= 2",
    "n >= 3",
    "n >= 4",
    "1 <= #",
    "# = 1",
    "# + 1 < n",
    "# + 2 < n",
    "n = 3 or 1 <= #",
    "n != 2 or # = 1",
    "# <= $",
];

/// What is said of numbers, `@` among them, which may be zero because of guards of their own.
const NUMBERS: [&str; 8] = [
    "@ != 0",
    "@ != 0 or # <= $",
    "@ > 0 or @ < 0",
    "x[#] > 0",
    "exists q < n. S?(#, q) and y[q] > 0",
    "(exists q < n. S?(#, q)) or (exists q < n. # = 2*q)",
    "exists q < n. # = 2*q and y[q] != 0",
    "# <= $",
];

/// Tensors over one index or two, each of which is read by those after it.
struct Guards {
    rng: Rng,
    atoms: &'static [&'static str],
    usual: &'static str,
    tensors: Vec<(String, usize)>,
}

impl Guards {
    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.rng.usize(0..from.len())]
    }

    /// About sizes, at the border of a range, and that some entry exists; most often one that the program has elsewhere too.
    fn guard(&mut self, indices: &[&str]) -> String {
        let atoms: Vec<String> = (0..self.rng.usize(0..3))
            .map(|_| {
                let atom = if self.rng.u8(0..3) > 0 { self.usual } else { self.pick(self.atoms) };
                let (a, b) = (self.pick(indices), self.pick(indices));
                let number = self.factor(indices);
                format!("({})", atom.replace('#', a).replace('$', b).replace('@', &number))
            })
            .collect();
        if atoms.is_empty() { String::new() } else { format!("[{}] * ", atoms.join(" and ")) }
    }

    fn factor(&mut self, indices: &[&str]) -> String {
        let (a, b) = (self.pick(indices), self.pick(indices));
        if !self.tensors.is_empty() && self.rng.u8(0..4) > 0 {
            let (name, rank) = self.tensors[self.rng.usize(0..self.tensors.len())].clone();
            return if rank == 1 { format!("{name}[{a}]") } else { format!("{name}[{a}, {b}]") };
        }
        match self.rng.u8(0..6) {
            0 | 1 => format!("x[{a}]"),
            2 => format!("y[{a}]"),
            3 => format!("A[{a}, {b}]"),
            4 => format!("S[{a}, {b}]"),
            _ => "2".to_owned(),
        }
    }

    fn body(&mut self, indices: &[&str]) -> String {
        let summed = [indices, &["s"]].concat();
        match self.rng.u8(0..8) {
            0 => {
                let (g, f) = (self.guard(indices), self.factor(indices));
                format!("{g}{}({f})", self.pick(&["exp", "sin", "1 + "]))
            }
            1 => format!(
                "({}{} + {}{})",
                self.guard(indices),
                self.factor(indices),
                self.guard(indices),
                self.factor(indices)
            ),
            2..=4 => format!("(sum s < n. {}{} * {})", self.guard(&summed), self.factor(&summed), self.factor(&summed)),
            5 => {
                let f = self.factor(indices);
                format!("{}{f} * {f}", self.guard(indices))
            }
            _ => format!("{}{} * {}", self.guard(indices), self.factor(indices), self.factor(indices)),
        }
    }

    fn program(&mut self) -> String {
        let mut text = DECLARED.to_owned();
        for k in 0..self.rng.usize(1..5) {
            let rank = self.rng.usize(1..3);
            let indices = &["i", "j"][..rank];
            let ranges = ["i < n", "i < n, j < n"][rank - 1];
            text += &format!("let t{k} = gen {ranges}. {} in\n", self.body(indices));
            self.tensors.push((format!("t{k}"), rank));
        }
        text + &format!("gen i < n, j < n. {}", self.body(&["i", "j"]))
    }
}

/// Judges random programs whose guards say some of `atoms` against what they mean as they are written, on numbers, or where the elements of `x`
/// are none: how many statements have fewer guards.
fn judge(atoms: &'static [&'static str], lost: bool) -> usize {
    let mut gone = 0;
    for seed in 0..PROGRAMS {
        let mut rng = Rng::with_seed(seed);
        let usual = atoms[rng.usize(0..atoms.len())];
        let text = Guards { rng, atoms, usual, tensors: Vec::new() }.program();
        let function = Function::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let (term, before) = (function.term().expect("it has a source"), function.tensor_ssa().clone());
        let model = Model::new(&before.signature, &NO_HINTS);
        let options = Options { finite_data: seed % 2 == 0, ..Options::default() };
        let (after, dropped) = without_needless_guards(before.clone(), &model, &options, None).unwrap();
        gone += dropped.len();
        if dropped.is_empty() {
            continue;
        }
        let trusts_data = dropped.iter().any(|guard| guard.trusts_data);
        assert!(options.finite_data || !trusts_data);
        for n in 0..5 {
            let mut environment = environment(&before, n, 3);
            for (param, leaves) in before.signature.params.values().zip(&mut environment.params) {
                if lost && param.name == "x" {
                    *leaves = vec![Leaf::dense(vec![n], vec![f64::NAN; n as usize]).unwrap()];
                }
            }
            let written = eval_term::evaluate(&term, &environment, Limits::default()).unwrap();
            let left: Vec<f64> = written.iter().flat_map(|leaf| leaf.values().to_vec()).collect();
            let [given, right] = [&before, &after].map(|program| values(program, &environment));
            let agree = |a: f64, b: f64| !a.is_finite() || (a - b).abs() <= 1e-9 * (1.0 + a.abs());
            // A missing entry of `S` masks what it is multiplied by, which a guard then reads as 0, and not as no number.
            let same = left.len() == right.len()
                && left.iter().zip(&given).zip(&right).all(|((a, given), b)| agree(*a, *b) || given == b);
            // What relies on data that are finite says by NaN that they are not.
            let told = trusts_data && lost && right.iter().any(|x| x.is_nan());
            assert!(same || told, "{seed}, n = {n}: {left:?} became {right:?}\n{text}\n{before}\n{after}");
        }
    }
    gone
}

#[test]
fn values_stay_where_guards_go() {
    let gone = judge(&ATOMS, false);
    assert!(gone > 200, "{gone}");
}

/// What other conjuncts imply of numbers goes, and of the numbers behind it nothing is seen.
#[test]
fn values_stay_where_guards_imply_each_other() {
    for lost in [false, true] {
        let gone = judge(&NUMBERS, lost);
        assert!(gone > 200, "{gone}");
    }
}

/// What is no number stays behind the guards that are left.
#[test]
fn nothing_gets_through_where_guards_go() {
    let gone = judge(&COMPARISONS, true);
    assert!(gone > 200, "{gone}");
}
