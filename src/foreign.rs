//! What NumPy, JAX, PyTorch, Julia, MATLAB and LaTeX have and this language has not, with what to write instead. Tables of names and sentences: what is
//! quoted in a sentence is accepted as it stands, unless it leaves something out by `..`; a test reads it.
//!
//! In sentences `x` and `y` are vectors, `A` and `B` matrices, `s` is a number and `idx` a map.

mod latex;
mod words;

pub(crate) use self::latex::translate;
pub(crate) use self::words::{between_words, type_name, word};

/// The longest text of a program that is repeated in a sentence, in bytes.
pub(crate) const MAX_SHOWN: usize = 40;

/// Names, and what to write instead of them.
type Sentences = &'static [(&'static [&'static str], &'static str)];

fn find(table: Sentences, name: &str) -> Option<&'static str> {
    table.iter().find(|(names, _)| names.contains(&name)).map(|(_, sentence)| *sentence)
}

/// What stands for loops.
pub(crate) const LOOPS: &str = "loops are expressions: a tensor is `gen i < n. e`, a total is `sum i < n. e`, and what goes from step to step is `fold t < n, s = 0. s + x[t]`";
/// What stands for functions that go from step to step.
pub(crate) const STEPS: &str = "what goes from step to step is `fold t < n, s = 0. s + x[t]`, and all states of it are `scan t < n, s = 0. s + x[t]`";
/// What stands for a condition behind a range or a body.
pub(crate) const CONDITION: &str =
    "a condition stands in a bracket in front of the body: `sum i < n. [x[i] > 0] * x[i]`";
/// What stands for a condition on the indices of a binder, by its word. The ranges and the condition are shown where they are known.
pub(crate) fn condition(word: &str, written: Option<(&str, &str)>) -> String {
    let (ranges, condition) = written.unwrap_or(("i < n", "p"));
    let sum = format!("a condition stands in a bracket in front of the body: `sum {ranges}. [{condition}] * e`");
    let choice = |other: &str| {
        format!("a condition is a choice in the body: `{word} {ranges}. if {condition} then e else {other}`")
    };
    match word {
        "sum" if written.is_none() => CONDITION.to_owned(),
        "mean" => format!("{sum}; the mean of those terms is that divided by `sum {ranges}. [{condition}]`"),
        "max" | "argmax" => choice("-inf"),
        "min" | "argmin" => choice("inf"),
        "prod" => choice("1"),
        "exists" => format!("conditions are joined by `and`: `exists {ranges}. {condition} and p`"),
        "gen" => choice("0"),
        _ => sum,
    }
}

/// What stands for a condition behind a value, by both.
pub(crate) fn condition_behind(condition: &str, value: &str) -> String {
    format!(
        "where the value is 0 elsewhere, the condition stands in a bracket in front of it, `[{condition}] * {value}`; a choice is `if {condition} then {value} else b`"
    )
}

/// What stands for places in steps, of an index by its name, its range and the step.
pub(crate) fn in_steps(index: &str, extent: &str, step: i64) -> String {
    let last = step - 1;
    format!("each place in steps has a factor: `{index} < ({extent} + {last}) // {step}`, and read at `{step}*{index}`")
}

/// What stands for a binder by the name of a function of a vector that there is under another name, or is none.
pub(crate) fn binder(name: &str, range: &str, body: &str) -> Option<String> {
    Some(match name {
        "any" => format!("whether one is is asked in a bracket: `[exists {range}. {body}]`"),
        "all" => format!("whether all are is asked in a bracket: `[not (exists {range}. not ({body}))]`"),
        "count" => format!("a count is a sum of brackets: `sum {range}. [{body}]`"),
        "std" | "stdev" | "sd" => {
            format!("the standard deviation is `sqrt(variance {range}. {body})`, divided by `n` and not by one less")
        }
        "var" => format!("the variance is `variance {range}. {body}`, divided by `n` and not by one less"),
        "average" | "avg" => format!("the mean is `mean {range}. {body}`"),
        "product" => format!("a product is `prod {range}. {body}`"),
        "maximum" => format!("the largest is `max {range}. {body}`"),
        "minimum" => format!("the least is `min {range}. {body}`"),
        _ => return None,
    })
}

/// What stands for several results, as they are written.
pub(crate) fn results(written: &str) -> String {
    format!("several results are a pair, the last expression: `({written})`")
}

/// What stands for a choice by `?` or by an `if` behind.
pub(crate) const CHOICE: &str = "a choice is `if c then a else b`";
/// What stands for a range of places.
pub(crate) const SLICE: &str = "a whole axis is `A[i, :]`, and a part of one `x[1:n]`";
/// What stands for a point between two tensors.
pub(crate) const DOT: &str = "the product of two vectors is `x @ y`, and that of each element `x * y`";
/// What stands for several tensors of places.
pub(crate) const TOGETHER: &str = "places that go together have one index: `gen i < m. A[i, idx(i)]`";
/// What stands for a mask in the place of an index.
pub(crate) const MASK: &str =
    "what a condition leaves stays in its place: `[x > 0] * x`, and a sum of it is `sum([x > 0] * x)`";

/// What stands for functions without names.
pub(crate) const FUNCTION: &str = "a function is `fn x. e`, as in `let f = fn x. x^2`, or declared in front of the expression: `def f(x : real) = ..`";

/// What stands for a function that is applied to each element.
pub(crate) const EACH: &str =
    "a function of numbers goes through the elements of tensors: `f(x)`; of rows it is `gen i < m. f(A[i, :])`";

const SIZES: &str = "sizes have names of their own: they are those of the types, `[n, m] real`";
const PRODUCT: &str = "a product over an index is `prod i < n. x[i]`";

const FUNCTIONS: Sentences = &[
    (
        &["where", "cond", "ifelse", "iif"],
        "`where` is written `if c then a else b`, of tensors too: `if x > 0 then x else 0`",
    ),
    (
        &["std", "stdev", "nanstd", "sd"],
        "the standard deviation is `sqrt(variance(x))`, divided by `n` and not by one less",
    ),
    (&["var", "nanvar"], "the variance is `variance(x)`, divided by `n` and not by one less"),
    (&["cov"], "the covariance of two vectors is `covariance(x, y)`"),
    (&["corr", "cor", "corrcoef", "pearsonr"], "the correlation of two vectors is `correlation(x, y)`"),
    (&["average", "nanmean"], "the mean is `mean(x)`, with weights `sum(x * y) / sum(y)`"),
    (&["product"], PRODUCT),
    (&["maximum", "fmax", "amax"], "the larger of two is `max(a, b)`, the largest element `max(x)`"),
    (&["minimum", "fmin", "amin"], "the smaller of two is `min(a, b)`, the least element `min(x)`"),
    (&["clamp", "saturate"], "a value within limits is `clip(x, a, b)`"),
    (&["mix", "lerp"], "between two values it is `(1 - s) * a + s * b`"),
    (&["smoothstep"], "it is `s^2 * (3 - 2 * s)` of a number s, which is `clip((x - a) / (b - a), 0, 1)`"),
    (&["square", "abs2"], "a square is `x^2`"),
    (&["power"], "a power is `x^y`"),
    (&["add"], "a sum is `x + y`"),
    (&["subtract"], "a difference is `x - y`"),
    (&["multiply", "mul", "hadamard"], "a product of elements is `x * y`"),
    (&["divide", "true_divide"], "a quotient is `x / y`"),
    (&["reciprocal"], "it is `1 / x`"),
    (&["rsqrt"], "it is `1 / sqrt(x)`"),
    (&["hypot"], "it is `sqrt(x^2 + y^2)`"),
    (&["tr"], "it is called `trace`"),
    (&["mish"], "it is `x * tanh(softplus(x))`"),
    (&["normal_cdf", "norm_cdf", "ndtr", "normcdf", "gaussian_cdf"], "it is `(1 + erf(x / sqrt(2))) / 2`"),
    (
        &["fft", "rfft", "ifft", "dft"],
        "numbers are real: the two parts of the transform are `gen k < n. sum j < n. x[j] * cos(2 * pi * k * j / n)` and, of the sine, `gen k < n. -sum j < n. x[j] * sin(2 * pi * k * j / n)`",
    ),
    (&["print", "println", "display"], "the last expression is the value, which is printed where the program runs"),
    (&["inner", "vdot"], "the product of two vectors is `x @ y`, or `dot(x, y)`"),
    (&["mm", "mv", "bmm", "multi_dot"], "products of matrices and vectors are `A @ x` and `A @ B`"),
    (&["tensordot"], "write the sum: `gen i < m, j < n. sum k < l. a[i, k] * b[k, j]`"),
    (&["full", "full_like", "fill"], "a tensor of one number is `gen i < n. s`"),
    (&["tril"], "the lower triangle of a matrix is `gen i < n, j < n. [j <= i] * A[i, j]`"),
    (&["triu"], "the upper triangle of a matrix is `gen i < n, j < n. [i <= j] * A[i, j]`"),
    (
        &["masked_fill", "masked_select"],
        "a choice of each element is `gen i < n, j < n. if i < j then -inf else A[i, j]`",
    ),
    (
        &["apply", "sapply", "lapply"],
        "what is done with each row is `gen i < m. sum(A[i, :])`, with each column `gen j < n. sum(A[:, j])`",
    ),
    (&["diagonal"], "the diagonal of a matrix is `gen i < n. A[i, i]`"),
    (&["range"], "the numbers from 0 on are `arange(n)`, and an index is a number: `sum i < n. i * x[i]`"),
    (&["linspace"], "numbers at equal distances are `gen i < n. a + (b - a) * i / (n - 1)`"),
    (&["len", "shape", "size", "numel", "ndims"], SIZES),
    (
        &["length"],
        "how long an axis is says its size, the `n` of `[n] real`; the length of a vector in space is `norm(x)`",
    ),
    (
        &["concatenate", "concat", "append", "cat", "hstack", "vstack", "stack", "vcat", "hcat"],
        "tensors are joined by a choice: `gen i < n + m. if i < n then x[i] else z[i - n]`",
    ),
    (
        &["reshape", "flatten", "ravel", "view"],
        "a tensor keeps its axes, and what goes over all elements takes it as it is, as in `sum(A^2)`; rows of two numbers `param P : [n, 2] real` one after the other are `gen k < 2 * n. P[k // 2, k % 2]`",
    ),
    (&["squeeze"], "an axis of one place is left out by this place: `A[:, 0]`"),
    (&["expand_dims", "unsqueeze"], "one more axis, of length 1, is added by `x[:, None]`"),
    (
        &["tile", "repeat", "broadcast_to", "expand"],
        "what repeats has an index that is not used: `gen i < m, j < n. x[j]`",
    ),
    (
        &["permute", "swapaxes", "moveaxis", "permutedims"],
        "axes are in the order of a `gen`: `gen j < n, i < n. A[i, j]`",
    ),
    (&["flip", "reverse", "flipud", "fliplr"], "in reverse it is `gen i < n. x[n - 1 - i]`"),
    (
        &["roll", "circshift"],
        "shifted around by one it is `gen i < n. if i >= 1 then x[i - 1] else x[n - 1]`, and by one back `gen i < n. if i + 1 < n then x[i + 1] else x[0]`",
    ),
    (&["pad", "padarray"], "zeros around a vector are `gen i < n + 2. [1 <= i and i <= n] * x[i - 1]`"),
    (&["diff"], "differences are `x[1:] - x[:-1]`"),
    (
        &["take", "gather", "index_select", "embedding"],
        "elements at places are `gen i < m. x[idx(i)]`, with a `map idx : [m] -> [n]`",
    ),
    (
        &["scatter", "scatter_add", "segment_sum", "index_add", "bincount"],
        "sums by places are `gen k < n. sum i < m. [idx(i) = k] * z[i]`, with a `map idx : [m] -> [n]`",
    ),
    (&["one_hot", "onehot"], "the 1 at a place is `gen i < m, k < n. [idx(i) = k]`, with a `map idx : [m] -> [n]`"),
    (
        &["sort", "argsort", "topk", "unique", "median", "quantile", "percentile", "searchsorted"],
        "nothing is sorted here: an order comes in by a `map idx : [m] -> [n]`, and is read as `x[idx(i)]`",
    ),
    (&["any"], "whether one is is asked in a bracket: `[exists i < n. x[i] > 0]`"),
    (&["all"], "whether all are is asked in a bracket: `[not (exists i < n. x[i] <= 0)]`"),
    (&["count_nonzero", "count"], "a count is a sum of brackets: `sum i < n. [x[i] > 0]`"),
    (
        &["inv", "solve", "det", "cholesky", "qr", "svd", "eigh", "eig", "lstsq", "pinv", "slogdet", "logdet"],
        "there is no linear algebra: what a solver computes comes in as a parameter, see `Function::with_implicit`",
    ),
    (&["arcsin"], "it is called `asin`"),
    (&["arccos"], "it is called `acos`"),
    (&["arctan"], "it is called `atan`"),
    (&["arctan2"], "it is called `atan2`"),
    (&["log10"], "write `log(x) / log(10)`"),
    (&["log2"], "write `log(x) / log(2)`"),
    (&["exp2"], "write `exp(x * log(2))`"),
    (&["logaddexp"], "write `max(a, b) + log1p(exp(-abs(a - b)))`"),
    (&["fabs"], "it is called `abs`"),
    (&["sgn", "signum"], "it is called `sign`"),
    (&["heaviside", "step"], "it is a bracket: `[x > 0]`"),
    (&["expit", "logistic"], "it is called `sigmoid`"),
    (&["swish"], "it is called `silu`"),
    (&["log_sigmoid", "logsigmoid"], "write `-softplus(-x)`"),
    (&["logit"], "write `log(s) - log1p(-s)`"),
    (
        &["gammaln", "loggamma", "logabsgamma", "logfactorial"],
        "it is called `lgamma`; `lgamma(s + 1)` is the logarithm of a factorial",
    ),
    (&["gamma", "factorial"], "write `exp(lgamma(s))`; a factorial is `exp(lgamma(s + 1))`"),
    (&["betaln", "logbeta"], "write `lgamma(a) + lgamma(b) - lgamma(a + b)`"),
    (&["psi", "polygamma"], "the derivative of `lgamma` is `digamma`"),
    (&["erfc"], "write `1 - erf(x)`"),
    (&["mse", "mse_loss", "mean_squared_error"], "the mean of squares is `mean((x - y)^2)`"),
    (&["rmse"], "it is `sqrt(mean((x - y)^2))`"),
    (&["mae", "l1_loss", "mean_absolute_error"], "the mean distance is `mean(abs(x - y))`"),
    (&["huber_loss", "smooth_l1", "smooth_l1_loss"], "of differences it is `mean(huber(x - y, 1))`"),
    (
        &["bce", "bce_loss", "binary_cross_entropy", "bce_with_logits"],
        "of labels y, 0 or 1, it is `mean(logistic_loss(x, y))`, where `sigmoid(x)` is the probability of 1",
    ),
    (
        &["nll_loss", "softmax_cross_entropy", "crossentropy", "sparse_categorical_crossentropy"],
        "of a row of scores it is `cross_entropy(x, y)`, or with a `map idx : [m] -> [n]` `mean i < m. logsumexp(A[i, :]) - A[i, idx(i)]`",
    ),
    (&["kl_div", "kl_divergence"], "of two distributions it is `kl(x, y)`"),
    (&["entropy"], "it is `-sum(xlogy(x, x))`"),
    (&["normalize", "l2_normalize"], "of length 1 it is `x / norm(x)`"),
    (&["cosine_similarity", "cos_sim"], "it is called `cosine`"),
    (
        &["cdist", "pdist", "pairwise_distances", "euclidean_distances"],
        "distances of rows are `gen i < m, j < n. norm(A[i, :] - B[j, :])`",
    ),
    (
        &["convolve", "conv1d"],
        "it is called `conv`, reverses the filter, and is where this lies within the signal; not reversed it is `gen i < n. sum j < m. x[i + j] * w[j]`; with zeros beyond the ends `conv_same(x, y)` or `conv_full(x, y)`, and in steps `conv_same(x, y)[::2]`",
    ),
    (
        &["correlate"],
        "with the filter not reversed it is `gen i < n. sum j < m. x[i + j] * w[j]`, where x has the length `n + m - 1`",
    ),
    (
        &["avg_pool", "average_pool", "avg_pool1d", "max_pool1d"],
        "the mean of every two is `mean_pool(x)`, the larger `max_pool(x)`; of other widths it is `gen i < n. mean j < k. x[3*i + j]`",
    ),
    (&["avg_pool2d", "average_pool2d"], "it is called `mean_pool2d`, of squares of 2 by 2"),
    (
        &["grad", "gradient", "value_and_grad", "jacobian", "jacfwd", "jacrev", "hessian", "jvp", "vjp", "derivative"],
        "derivatives are those of whole programs, and are asked for outside: `--derivative gradient --wrt x`, in Rust `Function::gradient`",
    ),
    (&["vmap", "pmap", "apply_along_axis"], "what is done with each row is `gen i < m. logsumexp(A[i, :])`"),
    (&["reduce", "foldl", "foldr", "accumulate", "fori_loop", "while_loop", "mapreduce", "associative_scan"], STEPS),
    (
        &["rand", "randn", "random", "normal", "dropout", "randint"],
        "there are no random numbers: they come in as a parameter",
    ),
    (&["mod", "rem", "fmod", "remainder", "floor_divide", "divmod"], REMAINDER),
    (&["float", "Float64", "float64", "float32"], "an index is a number where a number is expected, or `real(i)`"),
    (
        &["int", "trunc"],
        "reals cannot be rounded to indices: these come in by a `map`; indices divide, as in `gen i < n. x[i // 2]`",
    ),
    (&["detach", "lax_stop_gradient"], "it is `gen i < n. stop_gradient(x[i])`"),
    (&["softmin"], "it is `softmax(-x)`"),
    (&["softsign"], "it is `x / (1 + abs(x))`"),
    (&["sinc"], "it is `if s = 0 then 1 else sin(pi * s) / (pi * s)`"),
    (&["beta"], "write `exp(lgamma(a) + lgamma(b) - lgamma(a + b))`"),
    (&["comb", "choose", "binom", "binomial"], "write `exp(lgamma(a + 1) - lgamma(b + 1) - lgamma(a - b + 1))`"),
    (&["log_cosh", "logcosh"], "it is `abs(x) + log1p(exp(-2 * abs(x))) - log(2)`"),
    (&["norm_pdf", "normal_pdf", "normpdf"], "it is `exp(-x^2 / 2) / sqrt(2 * pi)`"),
    (&["norm2", "l2norm", "l2_norm"], "the norm is `norm(x)`, and its square, the sum of squares, `squared_norm(x)`"),
    (&["distance2", "dist2"], "the distance is `distance(x, y)`, and its square `squared_distance(x, y)`"),
    (&["dist", "euclidean"], "it is called `distance`"),
    (&["frobenius", "frobenius_norm"], "of all elements it is `sqrt(sum(A^2))`"),
    (&["hardtanh", "relu6"], "a value within limits is `clip(x, a, b)`"),
    (
        &["histogram"],
        "counts are sums of brackets: `gen k < n. sum i < m. [idx(i) = k]`, with a `map idx : [m] -> [n]`",
    ),
];

const REMAINDER: &str = "of numbers the remainder is `x - 2 * floor(x / 2)`; those of indices and sizes are `gen i < n. x[i // 2]`, `sum i < n. [i % 2 = 0] * x[i]`";

/// A sentence for a place beside an operator: what is more than a name or a call stands in parentheses.
pub(crate) fn as_operand(sentence: &str) -> String {
    let quoted = |(k, part): (usize, &str)| {
        let is_code =
            k % 2 == 1 && part.contains(' ') && ![" : ", " real", "--", "::"].iter().any(|sign| part.contains(sign));
        if is_code && operand(part) != part { format!("({part})") } else { part.to_owned() }
    };
    sentence.split('`').enumerate().map(quoted).collect::<Vec<_>>().join("`")
}

/// What to write instead of a call of a function that there is not.
pub(crate) fn function(name: &str) -> Option<&'static str> {
    find(FUNCTIONS, name)
}

/// Names of modules that stand in front of functions.
const MODULES: &[&str] = &[
    "np",
    "jnp",
    "torch",
    "numpy",
    "math",
    "Math",
    "F",
    "nn",
    "jax",
    "lax",
    "tf",
    "scipy",
    "special",
    "linalg",
    "LinearAlgebra",
    "Statistics",
];

/// The functions that go along an axis.
const ALONG: &[&str] = &[
    "sum",
    "mean",
    "max",
    "min",
    "softmax",
    "log_softmax",
    "logsumexp",
    "norm",
    "norm1",
    "squared_norm",
    "variance",
    "cumsum",
];

/// The functions of the library that take a vector alone, and stand for a binder, `logsumexp i < n. e`.
pub(crate) const OF_VECTOR: &[&str] = &[
    "logsumexp",
    "softmax",
    "log_softmax",
    "norm",
    "norm1",
    "squared_norm",
    "variance",
    "cumsum",
    "cummax",
    "cumprod",
];

/// Those of which that over several axes is that over one of them, and then over the next.
const NESTED: &[&str] = &["sum", "mean", "max", "min", "logsumexp", "norm", "norm1"];

/// Functions along an axis under other names: what is written around them, and the name here.
const ALIASES: &[(&[&str], &str, &str)] = &[
    (&["amax", "nanmax"], "", "max"),
    (&["amin", "nanmin"], "", "min"),
    (&["nansum"], "", "sum"),
    (&["average", "nanmean"], "", "mean"),
    (&["var", "nanvar"], "", "variance"),
    (&["std", "stdev", "nanstd", "sd"], "sqrt", "variance"),
];

/// What to write instead of an argument that names an axis, or several.
pub(crate) fn over_axis(function: &str, tensor: &str, axes: &[i64]) -> String {
    let mut axes = axes.to_vec();
    // Those behind an axis that is gone have other numbers, counted from the same end.
    axes.sort_by_key(|axis| if *axis < 0 { *axis } else { -*axis });
    axes.dedup();
    let alias = ALIASES.iter().find(|(names, ..)| names.contains(&function));
    let (around, name) = alias.map_or(("", function), |(_, around, name)| (*around, *name));
    let several = axes.len() > 1;
    if !ALONG.contains(&name) || several && !NESTED.contains(&name) {
        let (rows, columns) = (format!("{function}({tensor}[i, :])"), format!("{function}({tensor}[:, j])"));
        return match find(FUNCTIONS, function) {
            Some(sentence) => format!("{sentence}; of each row it is that of `{tensor}[i, :]`, below a `gen i < m`"),
            None => format!(
                "over one axis of two it is `gen i < m. {rows}`, of each row, or `gen j < n. {columns}`, of each column"
            ),
        };
    }
    if axes.is_empty() {
        axes.push(0);
    }
    let along = axes.iter().fold(tensor.to_owned(), |inner, axis| format!("{name}({inner}, axis = {axis})"));
    let along = if around.is_empty() { along } else { format!("{around}({along})") };
    let divided = if name == "variance" { ", divided by `n` and not by one less" } else { "" };
    match several {
        true => format!("along several axes it goes over one after the other: `{along}`"),
        false => format!("along an axis, counted from 0, it is `{along}`{divided}"),
    }
}

/// The arguments in a text, which commas set apart.
fn split_arguments(text: &str) -> Vec<&str> {
    let mut depth = 0usize;
    let comma = |c: char| {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && c == ','
    };
    text.split(comma).collect()
}

/// The integers in a text such as `axis=(1, 2)`.
pub(crate) fn integers(text: &str) -> Vec<i64> {
    text.split([',', '(', ')', '[', ']', '=', ' ']).filter_map(|word| word.parse().ok()).collect()
}

/// What to write instead of a number behind a tensor, which is that of an axis elsewhere.
pub(crate) fn along(function: &str, tensor: &str, axis: i64) -> String {
    format!(
        "`{function}({tensor})` is over all axes; over one, counted from 0, it is `{function}({tensor}, axis = {axis})`"
    )
}

/// What to write instead of a function as first argument of a total.
pub(crate) fn each_of(total: &str, function: &str) -> String {
    let each = format!("functions of numbers go through the elements of tensors: `{total}({function}(x))`");
    match find(FUNCTIONS, function) {
        Some(sentence) => format!("{each}, where {sentence}"),
        None => each,
    }
}

/// What to write instead of a second argument of a norm.
pub(crate) fn with_order(function: &str) -> Option<&'static str> {
    (function == "norm").then(|| find(ARGUMENTS, "ord")).flatten()
}

/// Arguments with names.
const ARGUMENTS: Sentences = &[
    (&["dtype"], "all numbers are `real`; single precision is asked for when a program runs"),
    (&["ord", "p"], "norms have names: `norm(x)`, `norm1(x)`, and `max(abs(x))`"),
    (
        &["ddof", "correction", "unbiased"],
        "a variance is divided by `n`; by one less it is `variance(x) * n / (n - 1)`",
    ),
    (
        &["keepdims", "keepdim"],
        "an axis is kept by totals, last of all: `mean(A, axis = 1, keepdims = True)`; elsewhere one of length 1 is added by `x[:, None]`",
    ),
    (&["where"], CONDITION),
];

/// What to write instead of an argument with a name.
pub(crate) fn argument(name: &str, function: &str, tensor: &str, axes: &[i64]) -> Option<String> {
    match name {
        // Julia counts from 1.
        "dims" => Some(over_axis(function, tensor, &axes.iter().map(|axis| axis - 1).collect::<Vec<_>>())),
        "axis" | "dim" | "axes" => Some(over_axis(function, tensor, axes)),
        _ => find(ARGUMENTS, name).map(str::to_owned),
    }
}

/// A member behind a point, `x.name` or `x.name(..)`, as it is written.
pub(crate) struct Member<'t> {
    /// What stands in front of the point.
    pub(crate) of: &'t str,
    pub(crate) name: &'t str,
    /// What stands between parentheses behind it.
    pub(crate) arguments: Option<&'t str>,
    /// Whether there is a function of this name.
    pub(crate) known: bool,
}

/// What a point stands behind, of an expression in front of it: a name or a number, calls and places, primes, or parentheses.
fn operand(text: &str) -> &str {
    let text = text.trim();
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    let mut rest = text.trim_end_matches('\'');
    while rest.ends_with([')', ']']) {
        let mut depth = 0usize;
        let opens = rest.char_indices().rev().find(|(_, c)| {
            match c {
                ')' | ']' => depth += 1,
                '(' | '[' => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0
        });
        let Some((at, _)) = opens else { return text };
        rest = &rest[..at];
    }
    &text[rest.trim_end_matches(is_word).len()..]
}

/// What to write instead of a member.
pub(crate) fn member(member: &Member<'_>) -> Option<String> {
    let Member { of, name, arguments, known } = *member;
    // Something long stands in the sentence as `A`.
    let of = Some(operand(of)).filter(|of| of.len() <= MAX_SHOWN).unwrap_or("A");
    let named = |text: &str| {
        let names = split_arguments(text).into_iter().filter_map(|part| part.split_once('='));
        names.into_iter().any(|(name, _)| matches!(name.trim(), "axis" | "dim"))
    };
    let module = MODULES.contains(&of);
    if matches!(name, "scan" | "fold") {
        return Some(STEPS.to_owned());
    }
    let tensor = match (module, arguments) {
        (true, Some(text)) => split_arguments(text).first().map_or(text, |first| first.trim()),
        _ => of,
    };
    // A name can be indexed; something longer stands in the sentence as `A`.
    let is_name = !tensor.is_empty() && tensor.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '\''));
    let shown = if is_name { tensor } else { "A" };
    // `x.mean(0)`, `np.sum(x, axis=(0, 1))`
    let goes_along = ALONG.contains(&name) || ALIASES.iter().any(|(names, ..)| names.contains(&name));
    if let Some(text) = arguments.filter(|text| goes_along || named(text)) {
        // The second argument of a norm is its order.
        let axes_in = |part: &&str| match part.split_once('=') {
            Some((name, axes)) if matches!(name.trim(), "axis" | "dim") => integers(axes),
            None if name != "norm" => integers(part),
            _ => Vec::new(),
        };
        let parts = split_arguments(text);
        let axes: Vec<i64> = parts.iter().skip(usize::from(module)).flat_map(axes_in).collect();
        if !axes.is_empty() || named(text) {
            return Some(over_axis(name, shown, &axes));
        }
    }
    let has_order = arguments.is_some_and(|text| split_arguments(text).len() > usize::from(module) && !text.is_empty());
    if let Some(sentence) = find(FUNCTIONS, name).or_else(|| with_order(name).filter(|_| has_order)) {
        return Some(sentence.to_owned());
    }
    let inside = of.strip_prefix('(').and_then(|of| of.strip_suffix(')')).filter(|of| !of.contains('(')).unwrap_or(of);
    match (module, name, arguments) {
        (true, _, Some(_)) if !known => Some(format!("there is no `{name}`; functions stand alone, as in `exp(x)`")),
        (true, _, Some(_)) => Some(format!("functions stand alone: `{name}(..)`")),
        (true, "pi", None) => Some("it stands alone: `pi`".to_owned()),
        (true, ..) => Some(format!("names stand alone: `{name}`")),
        (false, "T" | "mT" | "H", None) => Some(format!("the transpose of a matrix is `{of}'`")),
        (false, "t" | "transpose", Some(_)) => Some(format!("the transpose of a matrix is `{of}'`")),
        (false, "dot" | "matmul", Some(other)) => {
            Some(format!("a product of matrices and vectors is `{of} @ {other}`"))
        }
        (false, "pow", Some(exponent)) => Some(format!("a power is `{of}^{exponent}`")),
        (false, "item" | "copy" | "clone" | "numpy" | "astype" | "to" | "double", Some(_)) => {
            Some(format!("it stands alone: `{inside}`"))
        }
        (false, _, Some(_)) if !known => {
            Some(format!("there is no `{name}`; functions stand in front, as in `exp(x)`"))
        }
        (false, _, Some("")) => Some(format!("functions stand in front: `{name}({inside})`")),
        (false, _, Some(others)) => Some(format!("functions stand in front: `{name}({inside}, {others})`")),
        (false, _, None) => None,
    }
}

const OF_MATRIX: Sentences = &[
    (&["diag"], "the diagonal of a matrix is `gen i < n. A[i, i]`"),
    (&["norm"], "of all elements it is `sqrt(sum(A^2))`, of each row `norm(A, axis = 1)`"),
    (&["squared_norm"], "of all elements it is `sum(A^2)`, of each row `squared_norm(A, axis = 1)`"),
    (&["norm1"], "of all elements it is `sum(abs(A))`, of each row `norm1(A, axis = 1)`"),
    (&["dot"], "of all elements it is `sum(A * B)`; the product of matrices is `A @ B`"),
    (&["distance"], "of all elements it is `sqrt(sum((A - B)^2))`, of two rows `distance(A[i, :], B[j, :])`"),
    (&["squared_distance"], "of all elements it is `sum((A - B)^2)`, of two rows `squared_distance(A[i, :], B[j, :])`"),
    (&["variance"], "of all elements it is `mean((A - mean(A))^2)`, of each column `variance(A, axis = 0)`"),
    (&["max_pool"], "of squares of 2 by 2 it is `max_pool2d(A)`"),
    (&["mean_pool"], "of squares of 2 by 2 it is `mean_pool2d(A)`"),
    (&["conv"], "of pictures it is `conv2d(A, B)`"),
];

/// What to write instead of a definition of vectors, of a matrix.
pub(crate) fn of_matrix(name: &str) -> Option<&'static str> {
    find(OF_MATRIX, name)
}

/// What to write instead of a sign for a fraction.
pub(crate) fn fraction(sign: char) -> Option<String> {
    let fractions = [('½', "1/2"), ('⅓', "1/3"), ('⅔', "2/3"), ('¼', "1/4"), ('¾', "3/4"), ('⅙', "1/6"), ('⅛', "1/8")];
    let (_, fraction) = fractions.iter().find(|(c, _)| *c == sign)?;
    Some(format!("it is a quotient, and a product has its sign: `{fraction} * x`"))
}

/// What to write instead of `‖x‖`, `|s|` and `⟨x, y⟩`, by the first sign and what is between both.
pub(crate) fn between(sign: &str, inside: &str) -> String {
    let inside = inside.trim();
    match sign {
        "|" => {
            return format!(
                "the absolute value of a number is `abs({inside})`, the length of a vector `norm({inside})`"
            );
        }
        "‖" | "∥" | "||" | "\\|" => return format!("the norm of a vector is `norm({inside})`"),
        _ => {}
    }
    let side = |text: &str| {
        let text = text.trim();
        let is_one = !text.contains([' ', '+', '-', '*', '/', '−', '·']);
        if is_one { text.to_owned() } else { format!("({text})") }
    };
    let sides = if inside.contains('|') { inside.split('|').collect() } else { split_arguments(inside) };
    match sides.as_slice() {
        [left, right] => format!("the product of two vectors is `{} @ {}`", side(left), side(right)),
        _ => "the product of two vectors is `x @ y`".to_owned(),
    }
}

/// Commands of LaTeX that stand between operands.
const BETWEEN: Sentences = &[
    (&["cdot", "times", "ast", "odot"], "a product is `a * b`"),
    (&["div"], "a quotient is `a / b`"),
    (
        &["le", "leq", "leqslant", "ge", "geq", "geqslant", "ne", "neq", "lt", "gt"],
        "comparisons are `<`, `<=`, `>`, `>=`, `=` and `!=`",
    ),
    (&["land", "wedge"], "`and` joins predicates"),
    (&["lor", "vee"], "`or` joins predicates"),
    (&["in"], "the range of an index is `i < n`, a relation is asked as in `[E(i, j)]`"),
    (&["to", "rightarrow"], "it is written `->`"),
    (&["quad", "qquad"], "blanks stand for themselves"),
];

const COMMANDS: Sentences = &[
    (&["sum", "Sigma"], "a sum is `sum i < n. x[i]`"),
    (&["prod"], PRODUCT),
    (&["frac", "dfrac", "tfrac"], "a quotient is `a / b`"),
    (&["sqrt"], "a root is `sqrt(s)`"),
    (&["left", "right", "big", "Big", "bigl", "bigr"], "brackets stand alone: `(a + b) * s`"),
    (&["lVert", "rVert", "Vert", "lvert", "rvert", "vert"], "an absolute value is `abs(s)`, a norm `norm(x)`"),
    (&["top", "intercal"], "the transpose of a matrix is `A'`"),
    (&["exp", "log", "ln", "sin", "cos", "tan", "tanh", "max", "min"], "functions stand without `\\`: `exp(s)`"),
];

/// What to write instead of a command of LaTeX, and whether it stands between operands.
pub(crate) fn command(name: &str) -> (&'static str, bool) {
    match (find(BETWEEN, name), find(COMMANDS, name)) {
        (Some(sentence), _) => (sentence, true),
        (None, Some(sentence)) => (sentence, false),
        (None, None) => ("names are letters, Greek ones too, without `\\`", false),
    }
}

/// What to write instead of `A_{i,j}` and `sum_{i<n}`.
pub(crate) fn subscript(name: &str, inside: &str) -> String {
    let binders = ["sum", "mean", "max", "min", "argmax", "argmin", "gen", "exists"];
    let symbol = match name {
        "Σ" | "∑" => "sum",
        "∃" => "exists",
        "⊞" => "gen",
        word => word,
    };
    if binders.contains(&symbol) {
        return format!("an index and its range are written `{symbol} i < n. e`");
    }
    let letters = inside.chars().all(char::is_alphabetic) && inside.chars().count() <= 4;
    let places = match letters {
        // `A_{ij}`
        true => inside.chars().map(String::from).collect::<Vec<_>>().join(", "),
        false => inside.split(',').map(str::trim).collect::<Vec<_>>().join(", "),
    };
    format!("an element is written `{name}[{places}]`")
}

#[cfg(test)]
mod tests {
    use super::words::{BETWEEN_WORDS, TYPES, WORDS};
    use super::*;
    use crate::surface;

    /// What the sentences speak of.
    const CONTEXT: &str = "param x : [n] real\nparam y : [n] real\nparam z : [m] real\nparam A : [n, n] real\nparam B : [n, n] real\nparam P : [n, 2] real\n\
                           param a : real\nparam b : real\nparam s : real\nparam c : real\nmap idx : [m] -> [n]\n\
                           rel E : [n, n]\nassume n >= 1\nassume m = n\n";

    fn all() -> impl Iterator<Item = &'static str> {
        [FUNCTIONS, ARGUMENTS, WORDS, BETWEEN_WORDS, TYPES, OF_MATRIX, BETWEEN, COMMANDS]
            .into_iter()
            .flatten()
            .map(|(_, help)| *help)
    }

    #[test]
    fn a_name_has_one_sentence() {
        for table in [FUNCTIONS, ARGUMENTS, WORDS, BETWEEN_WORDS, TYPES, OF_MATRIX] {
            let mut names: Vec<&str> = table.iter().flat_map(|(names, _)| names.iter().copied()).collect();
            names.sort_unstable();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        }
        for (names, _) in FUNCTIONS {
            for name in *names {
                let defined = surface::read(&format!("param x : real\n{name}(x)"), &[]);
                let Err(crate::Error::Program(problems)) = defined else { panic!("`{name}` is a function") };
                assert_eq!(problems[0].code, "unknown-name", "`{name}` is a function: {problems:?}");
            }
        }
    }

    /// An advice that is refused in its turn is worse than none.
    #[test]
    fn what_is_advised_is_accepted() {
        let mut read = 0;
        let axes = ["softmax", "sum", "std", "amax"].map(|function| over_axis(function, "A", &[-1]));
        let several =
            NESTED.iter().flat_map(|function| [&[1, 0], &[-1, -2]].map(|axes| over_axis(function, "A", axes)));
        let sentences = all()
            .map(str::to_owned)
            .chain(axes)
            .chain(several)
            .chain(["gen", "sum", "mean", "max", "min", "prod"].map(|word| {
                condition(word, Some(("i < n", "x[i] > 0"))).replace("then e", "then y[i]").replace("* e", "* y[i]")
            }))
            .chain([CONDITION, CHOICE, MASK, SLICE, TOGETHER, DOT].map(str::to_owned));
        for sentence in sentences {
            for quoted in sentence.split('`').skip(1).step_by(2) {
                let is_program = quoted.contains(['(', '[', '+', '-', '*', '/', '^', '@', ' '])
                    && !["..", "::", "--", " : ", " real", "\\"].iter().any(|part| quoted.contains(part));
                // What leaves indices open, or speaks of tensors of its own.
                let open = [
                    "gen i < n. e",
                    "if c then a else b",
                    "i < n",
                    "sum i < n. e",
                    "let y = e",
                    "fn x. e",
                    "let f = fn x. x^2",
                    "x[idx(i)]",
                    "[E(i, j)]",
                    "real(i)",
                    "x[2*i + 1]",
                    "gen i < b - a. x[i + a]",
                    "A[i, :]",
                    "distance(A[i, :], B[j, :])",
                    "squared_distance(A[i, :], B[j, :])",
                    "import \"lib.iv\"",
                    "let (a, b) = p",
                    "assume n >= 1",
                    "size k",
                    "i // 2",
                    "(p and not q) or (q and not p)",
                    "if c then a else if d then b else s",
                    "gen i < m, j < n. sum k < l. a[i, k] * b[k, j]",
                    "gen i < n. sum j < m. x[i + j] * w[j]",
                    "gen i < n. mean j < k. x[3*i + j]",
                    "n + m - 1",
                    "conv2d(A, B)",
                    "->",
                    "<",
                    "<=",
                    ">",
                    ">=",
                    "=",
                    "!=",
                    "(real, real)",
                ];
                if !is_program || open.contains(&quoted) {
                    continue;
                }
                let text = format!("{CONTEXT}{quoted}");
                surface::read(&text, &[]).unwrap_or_else(|error| panic!("`{quoted}`: {error}"));
                read += 1;
            }
        }
        assert!(read > 70, "{read}");
    }

    #[test]
    fn what_goes_along_an_axis() {
        for function in ALONG {
            let text = format!("{CONTEXT}{function}(A, axis = 0)");
            surface::read(&text, &[]).unwrap_or_else(|error| panic!("`{function}`: {error}"));
        }
    }
}
