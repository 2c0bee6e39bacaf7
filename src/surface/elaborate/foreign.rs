//! Names that functions have in NumPy, JAX, PyTorch, Julia and LaTeX, and what to write here.

/// What to write instead of a call of a function that there is not.
pub(super) fn function(name: &str) -> Option<&'static str> {
    Some(match name {
        "where" | "cond" | "ifelse" => {
            "`where` is written `if c then a else b`, of tensors too: `if x > 0 then x else 0`"
        }
        "std" | "stdev" | "nanstd" => "the standard deviation is `sqrt(mean((x - mean(x))^2))`",
        "var" => "the variance is `mean((x - mean(x))^2)`, of a vector `variance(x)`",
        "cov" => "the covariance of two vectors is `covariance(x, y)`",
        "prod" | "product" | "cumprod" => {
            "there is no product over an index: of positive factors it is `exp(sum i < n. log(x[i]))`"
        }
        "cumsum" => "a cumulative sum is `gen i < n. sum j <= i. x[j]`",
        "maximum" | "fmax" => "the larger of two is `max(a, b)`",
        "minimum" | "fmin" => "the smaller of two is `min(a, b)`",
        "clamp" => "a value within limits is `clip(x, a, b)`",
        "square" | "abs2" => "a square is `x^2`",
        "power" => "a power is `x^y`",
        "inner" | "vdot" => "the product of two vectors is `x @ y`, or `dot(x, y)`",
        "einsum" | "tensordot" => "write the sum: `gen i < m, j < n. sum k < l. a[i, k] * b[k, j]`",
        "zeros" | "zeros_like" => "a tensor of zeros is `gen i < n. 0`",
        "ones" | "ones_like" => "a tensor of ones is `gen i < n. 1`",
        "eye" | "identity" => "the identity is `gen i < n, j < n. [i = j]`",
        "kron" => {
            "the Kronecker product, with an axis for each axis: `gen i < m, k < p, j < n, l < q. a[i, j] * b[k, l]`"
        }
        "arange" | "range" | "linspace" => "an index is a number where a number is expected: `gen i < n. i`",
        "len" | "shape" | "size" | "length" => {
            "sizes have names of their own: they are those of the types, `[n, m] real`"
        }
        "concatenate" | "cat" | "hstack" | "vstack" | "stack" => {
            "tensors are joined by brackets: `gen i < n + m. if i < n then x[i] else y[i - n]`"
        }
        "reshape" | "flatten" | "ravel" | "squeeze" | "expand_dims" => {
            "axes have no other shape: write the tensor that is meant, as in `gen i < n. x[i, 0]`"
        }
        "inv" | "solve" | "det" | "cholesky" | "qr" | "svd" | "eigh" => {
            "there is no linear algebra: what a solver computes comes in as a parameter, see `Function::with_implicit`"
        }
        "arcsin" => "it is called `asin`",
        "arccos" => "it is called `acos`",
        "arctan" => "it is called `atan`",
        "arctan2" => "it is called `atan2`",
        "log10" => "write `log(x) / log(10)`",
        "log2" => "write `log(x) / log(2)`",
        "float" | "Float64" => "an index is a number where a number is expected, or `real(i)`",
        "int" | "floor" | "round" | "ceil" => "reals cannot be rounded to indices: these come in by a `map`",
        _ => return None,
    })
}
