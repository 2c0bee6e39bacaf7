//! Steps that update few elements of a state: values and derivatives by independent programs, and what they cost.

use iverson::Function;
use iverson::kernel::Engine;

use super::{close, inputs, judge, usual};
use crate::growth::iterations_of;

const PARAMS: &str = "param h : [n] real\nparam g : [n] real\nparam w : [T] real\n\
                      param k : [T] index n\nparam l : [T] index n\nassume n >= 2\nassume T >= 1\n";

/// Programs with the value and the derivative along the direction at `n = 4` and `T = 6`, by loops with assignments in another language.
const PROGRAMS: [(&str, &str, f64, f64); 12] = [
    (
        "two elements, that may be one",
        "let s = fold t < T, s = h. gen i < n. s[i] + [i = k[t]] * w[t] * s[i]^2 + [i = l[t]] * sin(w[t])
         in sum(s^2)",
        1.7209000053849883,
        -3.365876903623821,
    ),
    (
        "one element from another one, and the other way round",
        "let s = fold t < T, s = h. gen i < n. if i = k[t] then s[l[t]] else if i = l[t] then s[k[t]] * w[t] else s[i]
         in sum(s^2)",
        0.19881884390402313,
        0.8759694415942071,
    ),
    (
        "a rotation of two elements",
        "let s = fold t < T, s = h. let a = s[k[t]], b = s[l[t]]
           in gen i < n. if i = k[t] then cos(w[t]) * a - sin(w[t]) * b
                         else if i = l[t] then sin(w[t]) * a + cos(w[t]) * b else s[i]
         in sum(s^3)",
        0.21061941812874357,
        1.7391719746334102,
    ),
    (
        "one after the other",
        "let s = fold t < T, s = h. let r = gen i < n. if i = k[t] then sin(s[i]) else s[i]
           in gen i < n. if i = l[t] then r[i] * w[t] * r[k[t]] else r[i]
         in sum(s^2)",
        0.00278461403405586,
        0.016368988539237544,
    ),
    (
        "two states, each from the other one",
        "let (s, r) = fold t < T, (s, r) = (h, g).
           (gen i < n. if i = k[t] then s[i] * r[l[t]] else s[i], gen i < n. r[i] + [i = l[t]] * sin(s[k[t]]) * w[t])
         in sum(s) + sum(r)",
        -1.5540859718515958,
        -0.3422072348975891,
    ),
    (
        "a number beside",
        "let (s, r) = fold t < T, (s, r) = (h, 0). let e = s[k[t]] * w[t]
           in (gen i < n. if i = k[t] then sin(e) else s[i], r + e^2)
         in r + sum(s)",
        0.10974017725469967,
        -0.9115384001126052,
    ),
    (
        "a place that is a state",
        "let (s, j) = fold t < T, (s, j : index n) = (h, 0). let m : index n = l[t]
           in (gen i < n. if i = j then w[t] * sin(s[i]) * s[k[t]] else s[i], m)
         in sum(s)",
        0.006886024202473649,
        0.20541258447542046,
    ),
    (
        "from the next element",
        "let s = fold t < T, s = h.
           gen i < n. if i = k[t] then (if i + 1 < n then s[i + 1]^2 else 0) * w[t] + s[i] else s[i]
         in sum(s^2)",
        0.678633885427659,
        2.867656146669267,
    ),
    (
        "in an arm",
        "let s = fold t < T, s = h. if w[t] > 0 then gen i < n. s[i] + [i = k[t]] * g[i] * w[t] * s[i]^2 else s
         in sum(s^2)",
        0.451669288105098,
        2.0979387730112693,
    ),
    (
        "a loop in a step",
        "let s = fold t < T, s = h. fold u < 3, s = s. gen i < n. if i = k[t] then sin(s[i]) * w[t] + s[i] else s[i]
         in sum(s^2)",
        5.779328659603235,
        -5.668186445374271,
    ),
    (
        "the place of the step, from the one before",
        "let s = fold t < T, s = w.
           gen i < T. if i = t then sin(s[i]) * w[t] + (if t >= 1 then s[t - 1] else 0) else s[i]
         in sum(s^2)",
        1.6038828709998736,
        -7.133019734307999,
    ),
    (
        "a place that depends on the state",
        "let (s, j) = fold t < T, (s, j : index n) = (h, 1).
           let m : index n = (if s[j] + w[t] * s[j]^2 > 0.3 then k[t] else l[t])
           in (gen i < n. if i = j then s[i] + w[t] * s[j]^2 else s[i], m)
         in sum(s^2)",
        0.801775342096432,
        3.175213241517465,
    ),
];

#[test]
fn values_and_derivatives() {
    let maps: [(&str, &[usize]); 2] = [("k", &[1, 3, 1, 0, 2, 3]), ("l", &[2, 3, 0, 0, 1, 1])];
    for (name, text, value, derivative) in PROGRAMS {
        let function = Function::parse(&format!("{PARAMS}{text}")).unwrap_or_else(|error| panic!("{name}: {error}"));
        let given = inputs(&function, &[("n", 4), ("T", 6)], &usual, &maps);
        let (found, along) = judge(name, &function, &given);
        close(name, found, value, 1e-13);
        close(&format!("{name}, its derivative"), along, derivative, 1e-12);
        let gradient = function.value_and_gradient(["h", "g", "w"]).expect("one real result");
        let bits = |engine| {
            let kernel = gradient.kernel(&given).engine(engine).build().expect("it is bound");
            let results: Vec<_> = kernel.call(&given).expect("it runs").into_iter().collect();
            crate::judge::numbers(&results).into_iter().map(f64::to_bits).collect::<Vec<_>>()
        };
        assert_eq!(bits(Engine::Interpreter), bits(Engine::Native), "{name}");
    }
}

/// Programs whose gradients take the whole state in a step: a loop that starts from it, places that another loop has told, and elements that are read
/// beside those that the step stores.
const WHOLE: [&str; 5] = [
    "one after the other",
    "a place that is a state",
    "from the next element",
    "a loop in a step",
    "a place that depends on the state",
];

/// A step takes as many iterations as it updates elements, and so does one of the gradient, which keeps no more than that.
#[test]
fn steps_take_as_long_as_what_they_update() {
    for (name, text, ..) in PROGRAMS {
        let function = Function::parse(&format!("{PARAMS}{text}")).unwrap_or_else(|error| panic!("{name}: {error}"));
        let gradient = function.value_and_gradient(["h", "g", "w"]).expect("one real result");
        let at = |function: &Function, size: i64| {
            let given = inputs(function, &[("n", size), ("T", size)], &usual, &[]);
            let kernel = function.kernel(&given).engine(Engine::Interpreter).build().expect("it is bound");
            [iterations_of(function, &given), kernel.memory() as f64]
        };
        let power = |function: &Function| {
            let [[few, small], [many, large]] = [128, 512].map(|size| at(function, size));
            [(many / few).log(4.0), (large / small.max(1.0)).log(4.0)]
        };
        let [iterations, _] = power(&function);
        assert!(iterations < 1.05, "{name}: loops grow by the power {iterations}");
        if !WHOLE.contains(&name) {
            let [iterations, bytes] = power(&gradient);
            assert!(iterations < 1.05, "{name}: loops of the gradient grow by the power {iterations}");
            assert!(bytes < 1.05, "{name}: the gradient keeps as many bytes as the power {bytes}");
        }
    }
}
