//! The tool for GradBench answers a session, with values that formulas in plain Rust and finite differences confirm.

use std::f64::consts::PI;

use iverson::kernel::Engine;
use serde_json::{Value, json};

#[path = "../../examples/gradbench/main.rs"]
#[allow(dead_code)]
mod example;

/// The responses to messages.
fn session(messages: &str) -> Vec<Value> {
    let mut out = Vec::new();
    example::serve(&mut messages.as_bytes(), &mut out, Engine::Interpreter).expect("the tool reads and writes");
    let text = String::from_utf8(out).expect("responses are text");
    text.lines().map(|line| serde_json::from_str(line).expect("responses are JSON")).collect()
}

/// The outputs of functions of an evaluation.
fn outputs<const N: usize>(module: &str, functions: [&str; N], input: &Value) -> [Value; N] {
    let mut messages = vec![
        json!({ "id": 0, "kind": "start", "eval": module }),
        json!({ "id": 1, "kind": "define", "module": module }),
    ];
    messages.extend(functions.iter().map(
        |function| json!({ "id": 2, "kind": "evaluate", "module": module, "function": function, "input": input }),
    ));
    messages.push(json!({ "id": 3, "kind": "analysis", "of": 2, "valid": true }));
    let lines: Vec<String> = messages.iter().map(Value::to_string).collect();
    let responses = session(&lines.join("\n"));
    assert_eq!(responses.len(), messages.len());
    assert_eq!(responses[0], json!({ "id": 0, "tool": "iverson" }));
    assert_eq!(responses[1]["success"], true, "{}", responses[1]);
    assert_eq!(responses[N + 2], json!({ "id": 3 }));
    std::array::from_fn(|k| {
        let response = &responses[k + 2];
        assert_eq!((&response["id"], &response["success"]), (&json!(2), &json!(true)), "{response}");
        let timings = response["timings"].as_array().expect("there are timings");
        let runs = timings.iter().filter(|timing| timing["name"] == "evaluate").count() as u64;
        assert_eq!(runs, input["min_runs"].as_u64().unwrap_or(1));
        assert!(timings.iter().all(|timing| timing["nanoseconds"].is_u64()));
        response["output"].clone()
    })
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The numbers of a vector or of the rows of a matrix.
fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(all) => all.iter().flat_map(numbers).collect(),
        value => vec![number(value)],
    }
}

fn close(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (k, (x, y)) in found.iter().zip(expected).enumerate() {
        assert!((x - y).abs() <= tolerance * (1.0 + y.abs()), "number {k} is {x}, and {y} is expected");
    }
}

/// The derivatives of functions by all arguments, column by column, by central differences.
fn differences(f: &dyn Fn(&[f64]) -> Vec<f64>, x: &[f64]) -> Vec<Vec<f64>> {
    let h = 1e-5;
    let moved = |k: usize, h: f64| {
        let mut x = x.to_vec();
        x[k] += h;
        f(&x)
    };
    let column = |k: usize| {
        let (ahead, behind) = (moved(k, h), moved(k, -h));
        ahead.iter().zip(&behind).map(|(a, b)| (a - b) / (2.0 * h)).collect()
    };
    (0..x.len()).map(column).collect()
}

/// Numbers between -1 and 1.
fn some(count: usize, seed: u64) -> Vec<f64> {
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..count).map(|_| 2.0 * rng.f64() - 1.0).collect()
}

fn matrix(rows: usize, columns: usize, seed: u64) -> Vec<Vec<f64>> {
    some(rows * columns, seed).chunks(columns.max(1)).map(<[f64]>::to_vec).collect()
}

#[test]
fn hello() {
    assert_eq!(outputs("hello", ["square", "double"], &json!(1.5)), [json!(2.25), json!(3.0)]);
    assert_eq!(outputs("hello", ["double"], &json!(16384)), [json!(32768.0)]);
}

#[test]
fn log_sum_exp() {
    // Without its largest element taken out, the sum would overflow.
    let x = [1.0, 3.0, 800.0, 799.5];
    let input = json!({ "x": x, "min_runs": 3, "min_seconds": 0 });
    let weights = x.map(|x| f64::exp(x - 800.0));
    let total: f64 = weights.iter().sum();
    let [primal, gradient] = outputs("lse", ["primal", "gradient"], &input);
    close(&numbers(&primal), &[800.0 + total.ln()], 1e-14);
    close(&numbers(&gradient), &weights.map(|w| w / total), 1e-14);
}

#[test]
fn linear_least_squares() {
    let (n, x) = (9, some(37, 1));
    let input = json!({ "x": x, "n": n, "min_runs": 1, "min_seconds": 0 });
    let points: Vec<f64> = (0..n).map(|i| -1.0 + 2.0 * f64::from(i) / f64::from(n - 1)).collect();
    // The sign of 0 is 0.
    let sign = |t: f64| if t == 0.0 { 0.0 } else { t.signum() };
    let residual = |t: f64| sign(t) - x.iter().rev().fold(0.0, |sum, x| sum * t + x);
    let value = 0.5 * points.iter().map(|t| residual(*t).powi(2)).sum::<f64>();
    let [primal, gradient] = outputs("llsq", ["primal", "gradient"], &input);
    close(&numbers(&primal), &[value], 1e-12);
    let slope = |j: i32| -points.iter().map(|t| residual(*t) * t.powi(j)).sum::<f64>();
    close(&numbers(&gradient), &(0..37).map(slope).collect::<Vec<_>>(), 1e-12);
}

/// The logarithm of the product of densities, as the definition has it: mixtures of normal distributions, and Wishart distributions.
struct Mixture {
    d: usize,
    k: usize,
    x: Vec<Vec<f64>>,
    gamma: f64,
    m: f64,
}

impl Mixture {
    /// The parameters are alpha, mu, q and l one behind the other.
    fn density(&self, parameters: &[f64]) -> f64 {
        let Mixture { d, k, gamma, m, .. } = *self;
        let packed = d * (d - 1) / 2;
        let (alpha, rest) = parameters.split_at(k);
        let (mu, rest) = rest.split_at(k * d);
        let (q, l) = rest.split_at(k * d);
        // The factor of the inverse covariance, of which columns below the diagonal follow one another.
        let factor = |c: usize| {
            let mut factor = vec![vec![0.0; d]; d];
            let mut below = l[c * packed..].iter();
            for column in 0..d {
                factor[column][column] = q[c * d + column].exp();
                for row in &mut factor[column + 1..] {
                    row[column] = *below.next().expect("a packed triangle");
                }
            }
            factor
        };
        let factors: Vec<_> = (0..k).map(factor).collect();
        let root = |c: usize| (0..d).map(|i| factors[c][i][i]).product::<f64>();
        let total: f64 = alpha.iter().map(|a| a.exp()).sum();
        let mut sum = 0.0;
        for x in &self.x {
            let component = |c: usize| {
                let centred: Vec<f64> = (0..d).map(|i| x[i] - mu[c * d + i]).collect();
                let image = factors[c].iter().map(|row| row.iter().zip(&centred).map(|(a, b)| a * b).sum::<f64>());
                let square: f64 = image.map(|y| y * y).sum();
                alpha[c].exp() / total * root(c) * (-0.5 * square).exp() / (2.0 * PI).powf(0.5 * d as f64)
            };
            sum += (0..k).map(component).sum::<f64>().ln();
        }
        let (df, freedom) = (d as f64, d as f64 + m + 1.0);
        let gammas: f64 = (0..d).map(|j| libm::lgamma(0.5 * (freedom - j as f64))).sum();
        let multivariate = 0.25 * df * (df - 1.0) * PI.ln() + gammas;
        for (c, factor) in factors.iter().enumerate() {
            let trace: f64 = factor.iter().flatten().map(|a| a * a).sum();
            sum += m * root(c).ln() - 0.5 * gamma * gamma * trace + freedom * df * gamma.ln()
                - 0.5 * freedom * df * 2.0_f64.ln()
                - multivariate;
        }
        sum
    }
}

#[test]
fn gaussian_mixture() {
    for (d, k, n) in [(3, 2, 7), (1, 3, 4)] {
        let packed = d * (d - 1) / 2;
        let (alpha, mu, q) = (some(k, 1), matrix(k, d, 2), matrix(k, d, 3));
        let l = if packed == 0 { vec![Vec::new(); k] } else { matrix(k, packed, 4) };
        let model = Mixture { d, k, x: matrix(n, d, 5), gamma: 1.25, m: 2.0 };
        let input = json!({
            "d": d, "k": k, "n": n, "alpha": alpha, "mu": mu, "q": q, "l": l, "x": model.x, "gamma": model.gamma, "m": 2,
            "min_runs": 2, "min_seconds": 0,
        });
        let parameters = [alpha, mu.concat(), q.concat(), l.concat()].concat();
        let value = model.density(&parameters);
        let [objective, jacobian] = outputs("gmm", ["objective", "jacobian"], &input);
        close(&[number(&objective)], &[value], 1e-12);
        assert_eq!(jacobian["l"].as_array().map(Vec::len), Some(k));
        let found: Vec<f64> = ["alpha", "mu", "q", "l"].iter().flat_map(|name| numbers(&jacobian[*name])).collect();
        let expected = differences(&|x| vec![model.density(x)], &parameters).concat();
        close(&found, &expected, 1e-7);
    }
}

#[test]
fn k_means() {
    let (points, k, d) = (matrix(20, 3, 6), 4, 3);
    let centroids = points[16..].to_vec();
    let input = json!({ "points": points, "centroids": centroids, "min_runs": 1, "min_seconds": 0 });
    let distance = |p: &[f64], c: &[f64]| p.iter().zip(c).map(|(p, c)| (p - c).powi(2)).sum::<f64>();
    let nearest = |p: &[f64]| {
        let by = |a: &usize, b: &usize| distance(p, &centroids[*a]).total_cmp(&distance(p, &centroids[*b]));
        (0..k).min_by(by).expect("there are centroids")
    };
    let cost: f64 = points.iter().map(|p| distance(p, &centroids[nearest(p)])).sum();
    let [found, direction] = outputs("kmeans", ["cost", "dir"], &input);
    close(&[number(&found)], &[cost], 1e-12);
    // A Newton step takes a centroid to the mean of its points.
    let mut step = Vec::new();
    for (c, centroid) in centroids.iter().enumerate() {
        let own: Vec<_> = points.iter().filter(|p| nearest(p) == c).collect();
        let mean = |a: usize| own.iter().map(|p| p[a]).sum::<f64>() / own.len() as f64;
        step.extend((0..d).map(|a| centroid[a] - mean(a)));
    }
    close(&numbers(&direction), &step, 1e-12);
}

/// The error of a projection, of a camera, a point and a weight one behind the other.
fn projection(parameters: &[f64], feature: [f64; 2]) -> Vec<f64> {
    let [r, s, t, cx, cy, cz, focal, u0, v0, k1, k2, x, y, z, w] = *parameters else { panic!("15 parameters") };
    let angle = (r * r + s * s + t * t).sqrt();
    let (r, s, t) = (r / angle, s / angle, t / angle);
    let (x, y, z) = (x - cx, y - cy, z - cz);
    let (sin, cos) = angle.sin_cos();
    let along = (r * x + s * y + t * z) * (1.0 - cos);
    let seen = [
        x * cos + (s * z - t * y) * sin + r * along,
        y * cos + (t * x - r * z) * sin + s * along,
        z * cos + (r * y - s * x) * sin + t * along,
    ];
    let (u, v) = (seen[0] / seen[2], seen[1] / seen[2]);
    let square = u * u + v * v;
    let bend = 1.0 + k1 * square + k2 * square * square;
    vec![w * (focal * bend * u + u0 - feature[0]), w * (focal * bend * v + v0 - feature[1])]
}

#[test]
fn bundle_adjustment() {
    let (n, m, p) = (3, 5, 12);
    let (cam, x) = ([0.3, -0.2, 0.5, 0.1, 0.4, -3.0, 1.5, 0.2, -0.3, 0.05, -0.02], [0.6, -0.7, 0.9]);
    let (w, feat) = (0.8, [0.25, -0.5]);
    let input = json!({
        "n": n, "m": m, "p": p, "cam": cam, "x": x, "w": w, "feat": feat, "min_runs": 2, "min_seconds": 0,
    });
    let parameters = [&cam[..], &x, &[w]].concat();
    let [objective, jacobian] = outputs("ba", ["objective", "jacobian"], &input);
    close(&numbers(&objective["reproj_error"]["elements"]), &projection(&parameters, feat), 1e-13);
    assert_eq!(objective["reproj_error"]["repeated"], p);
    close(&[number(&objective["w_err"]["element"])], &[1.0 - w * w], 1e-15);
    assert_eq!(objective["w_err"]["repeated"], p);

    // 24 rows of 15 entries, then 12 of one; columns are 33 parameters of cameras, 15 of points and 12 weights.
    let mut starts: Vec<usize> = (0..25).map(|row| 15 * row).chain(361..).take(30).collect();
    starts.push(372);
    assert_eq!(jacobian["rows"], json!(starts));
    let columns: Vec<usize> = (0..11).chain([33, 34, 35, 48]).collect();
    assert_eq!(jacobian["cols"], json!([&columns[..], &columns, &[59]].concat()));
    let by = differences(&|x| projection(x, feat), &parameters);
    let row = |e: usize| by.iter().map(move |column| column[e]);
    let expected: Vec<f64> = row(0).chain(row(1)).chain([-2.0 * w]).collect();
    close(&numbers(&jacobian["vals"]), &expected, 1e-8);
}

/// The loss of the definition, of `main_params` and then `extra_params`.
fn cross_entropy(parameters: &[f64], layers: usize, state: &[Vec<f64>], sequence: &[Vec<f64>]) -> f64 {
    let b = sequence[0].len();
    let (main, extra) = parameters.split_at(8 * layers * b);
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let mut state = state.to_vec();
    let mut total = 0.0;
    for pair in sequence.windows(2) {
        let mut x: Vec<f64> = (0..b).map(|i| pair[0][i] * extra[i]).collect();
        for k in 0..layers {
            for i in 0..b {
                let gate = |g: usize, x: f64| x * main[8 * k * b + g * b + i] + main[(8 * k + 4) * b + g * b + i];
                let (hidden, cell) = (state[2 * k][i], state[2 * k + 1][i]);
                let cell = cell * sigmoid(gate(0, x[i])) + sigmoid(gate(1, hidden)) * gate(3, hidden).tanh();
                x[i] = sigmoid(gate(2, x[i])) * cell.tanh();
                (state[2 * k][i], state[2 * k + 1][i]) = (x[i], cell);
            }
        }
        let scores: Vec<f64> = (0..b).map(|i| x[i] * extra[b + i] + extra[2 * b + i]).collect();
        let norm = (2.0 + scores.iter().map(|score| score.exp()).sum::<f64>()).ln();
        total -= scores.iter().zip(&pair[1]).map(|(score, bit)| bit * (score - norm)).sum::<f64>();
    }
    total / ((sequence.len() - 1) * b) as f64
}

#[test]
fn long_short_term_memory() {
    for (layers, characters, bits) in [(2, 7, 5), (1, 2, 3), (3, 4, 1)] {
        let (main, extra) = (matrix(2 * layers, 4 * bits, 1), matrix(3, bits, 2));
        let state = matrix(2 * layers, bits, 3);
        let sequence: Vec<Vec<f64>> =
            matrix(characters, bits, 4).iter().map(|row| row.iter().map(|x| f64::from(*x > 0.0)).collect()).collect();
        let input = json!({
            "main_params": main, "extra_params": extra, "state": state, "sequence": sequence, "min_runs": 2, "min_seconds": 0,
        });
        let parameters = [main.concat(), extra.concat()].concat();
        let loss = |x: &[f64]| cross_entropy(x, layers, &state, &sequence);
        let [objective, jacobian] = outputs("lstm", ["objective", "jacobian"], &input);
        close(&[number(&objective)], &[loss(&parameters)], 1e-13);
        close(&numbers(&jacobian), &differences(&|x| vec![loss(x)], &parameters).concat(), 1e-9);
    }
}

#[test]
fn ordinary_differential_equation() {
    // The solutions are polynomials of the time, of which four steps' method has those up to the fourth power without error.
    let x = [0.75, -0.5, 1.25, 0.3];
    for (n, s) in [(1, 1), (4, 1), (4, 3)] {
        let x = &x[..n];
        let input = json!({ "x": x, "s": s, "min_runs": 2, "min_seconds": 0 });
        let [primal, gradient] = outputs("ode", ["primal", "gradient"], &input);
        let mut y = Vec::new();
        for (i, x) in x.iter().enumerate() {
            y.push(y.last().unwrap_or(&1.0) * x * 2.0 / (i + 1) as f64);
        }
        close(&numbers(&primal), &y, 1e-14);
        close(&numbers(&gradient), &x.iter().map(|x| y[n - 1] / x).collect::<Vec<_>>(), 1e-14);
    }
    // As in the evaluation, the last element of many is 0 after few steps.
    let input = json!({ "x": some(20, 1), "s": 3, "min_runs": 1, "min_seconds": 0 });
    let [primal, gradient] = outputs("ode", ["primal", "gradient"], &input);
    assert_eq!((numbers(&primal)[19], numbers(&gradient)), (0.0, vec![0.0; 20]));
}

#[test]
fn bad_messages() {
    let evaluate = |module: &str, function: &str, input: Value| {
        json!({ "id": 7, "kind": "evaluate", "module": module, "function": function, "input": input }).to_string()
    };
    let mixture = |l: Value| {
        json!({
            "d": 2, "k": 1, "n": 1, "alpha": [0], "mu": [[0, 0]], "q": [[0, 0]], "l": l, "x": [[0, 0]], "gamma": 1, "m": 0,
        })
    };
    let bundle = |n: u64, p: u64, cam: usize| json!({ "n": n, "m": 1, "p": p, "cam": vec![0.5; cam], "x": [1, 2, 3], "w": 1, "feat": [0, 0] });
    // Sound are two rows of parameters, two characters and three rows more.
    let memory = |rows: usize, characters: usize, more: usize| {
        let (main, bits) = (vec![[0.5; 4]; rows], vec![[1]; characters]);
        json!({ "main_params": main, "extra_params": vec![[0.5]; more], "state": vec![[0.5]; rows], "sequence": bits })
    };
    let mut lines: Vec<String> = ["hello", "lse", "llsq", "gmm", "kmeans", "ba", "lstm", "ode"]
        .iter()
        .map(|module| json!({ "id": 6, "kind": "define", "module": module }).to_string())
        .collect();
    let modules = lines.len();
    lines.extend([
        "{".to_owned(),
        "[1, 2".to_owned(),
        "\u{fffd}".to_owned(),
        json!({ "kind": "start" }).to_string(),
        json!({ "id": 7, "kind": 8 }).to_string(),
        json!({ "id": 7, "kind": "define" }).to_string(),
        json!({ "id": 7, "kind": "define", "module": "particle" }).to_string(),
        json!({ "id": 7, "kind": "evaluate" }).to_string(),
        evaluate("ht", "objective", json!({})),
        evaluate("hello", "triple", json!(1)),
        evaluate("hello", "square", json!("one")),
        evaluate("lse", "primal", json!({})),
        evaluate("lse", "primal", json!({ "x": [1, null] })),
        evaluate("lse", "primal", json!({ "x": [1], "min_runs": -1 })),
        evaluate("llsq", "gradient", json!({ "x": [1], "n": -4 })),
        evaluate("llsq", "gradient", json!({ "x": [1], "n": 1 })),
        evaluate("gmm", "objective", mixture(json!([[0, 0]]))),
        evaluate("gmm", "objective", mixture(json!([[0], [0]]))),
        evaluate("gmm", "jacobian", mixture(json!([0]))),
        evaluate("kmeans", "cost", json!({ "points": [[1, 2], [3]], "centroids": [[1, 2]] })),
        evaluate("kmeans", "dir", json!({ "points": [[1, 2]], "centroids": [[1]] })),
        evaluate("lstm", "objective", memory(2, 1, 3)),
        evaluate("lstm", "jacobian", memory(2, 2, 2)),
        evaluate("lstm", "jacobian", memory(1, 2, 3)),
        evaluate("lstm", "jacobian", memory(0, 2, 3)),
        evaluate("ode", "primal", json!({ "x": [1], "s": -1 })),
        evaluate("ode", "primal", json!({ "x": [1], "s": 0.5 })),
        evaluate("ode", "gradient", json!({ "x": [], "s": 1 })),
        evaluate("ba", "jacobian", bundle(0, 4, 11)),
        evaluate("ba", "objective", bundle(1, u64::MAX, 11)),
        evaluate("ba", "objective", bundle(1, 4, 10)),
    ]);
    let count = lines.len();
    // What comes behind is answered as ever.
    lines.push(json!({ "id": "last", "kind": "what" }).to_string());
    let responses = session(&lines.join("\n"));
    assert_eq!(responses.len(), lines.len());
    for (line, response) in lines.iter().zip(&responses).take(count).skip(modules) {
        assert_eq!(response["success"], false, "{line} is answered by {response}");
        assert!(response["error"].is_string(), "{line} is answered by {response}");
        let id = serde_json::from_str::<Value>(line).map_or(Value::Null, |message| message["id"].clone());
        assert_eq!(response["id"], id);
    }
    assert_eq!(responses[count], json!({ "id": "last" }));
}
