//! Words that begin something in another language or stand between operands there, and names of types.

use super::{CHOICE, FUNCTION, LOOPS, PRODUCT, REMAINDER, STEPS, Sentences, find};

/// Words that begin something in another language.
pub(super) const WORDS: Sentences = &[
    (&["for", "while"], LOOPS),
    (&["loop", "repeat", "rec"], STEPS),
    (&["return"], "the last expression is the value, without `return`"),
    (&["lambda", "function", "func"], FUNCTION),
    (
        &["input", "variable", "given", "data", "parameter", "parameters"],
        "a parameter is declared as in `param x : [n] real`",
    ),
    (
        &["out", "output", "outputs", "result", "results"],
        "a variable is bound by `let y = ..`, and the last expression is the value; several results are a pair: `(a, b)`",
    ),
    (&["forall"], "whether all are is asked in a bracket: `[not (exists i < n. x[i] <= 0)]`"),
    (&["assert", "require", "requires", "ensure", "constraint"], "a fact about sizes is declared: `assume n >= 1`"),
    (
        &["import", "from", "include", "using", "use"],
        "the definitions of another file come by its name in quotes: `import \"lib.iv\"`",
    ),
    (&["match", "switch"], "a choice by constructors is `case e of circle(r) -> .. | nothing -> ..`"),
    (&["prod", "product"], PRODUCT),
    (
        &["var", "const", "auto", "local", "float", "double", "int", "vec2", "vec3", "vec4"],
        "variables are bound by `let y = e`",
    ),
];

/// Words that stand between operands in another language.
pub(super) const BETWEEN_WORDS: Sentences = &[
    (&["rem"], REMAINDER),
    (&["div"], "the quotient of indices and sizes is `i // 2`, that of numbers `a / b`"),
    (
        &["elseif", "elsif", "elsewhere"],
        "another condition is an `if` behind the `else`: `if c then a else if d then b else s`",
    ),
    (&["dot", "cross", "matmul"], "a function stands in front of its arguments: `dot(x, y)`"),
    (&["xor"], "one of two and not both is `(p and not q) or (q and not p)`"),
    (&["is", "eq"], "numbers are compared by `=`: `[a = b]`"),
    (&["otherwise"], CHOICE),
];

/// What to write instead of a word behind an operand.
pub(crate) fn between_words(word: &str) -> Option<&'static str> {
    find(BETWEEN_WORDS, word)
}

/// What to write instead of a word with something behind it.
pub(crate) fn word(word: &str) -> Option<&'static str> {
    find(WORDS, word)
}

pub(super) const TYPES: Sentences = &[
    (
        &["int", "integer", "index", "i32", "i64", "Int"],
        "indices come in by a map, as in `map idx : [m] -> [n]`, which is read as `x[idx(i)]`; an integer that sizes and places are made of is declared as in `size k`",
    ),
    (
        &["bool", "Bool"],
        "a truth value is a number, 1 or 0, which is compared: `sum i < n. [x[i] != 0] * y[i]`; what holds of indices comes in by a relation, as in `rel E : [n, n]`",
    ),
    (&["R", "Real", "number", "ℝ"], "numbers are `real`, vectors of them `[n] real`"),
    (
        &["float", "double", "f64", "f32", "Float64", "float64", "float32"],
        "numbers are `real`; single precision is asked for when a program runs",
    ),
    (
        &["sparse", "bsr", "dia", "lil", "csr_matrix"],
        "a sparse tensor is `csr`, `csc` or `coo`, as in `param A : csr [m, n] real`",
    ),
    (&["dense"], "a tensor is dense where no format is named: `param A : [m, n] real`"),
    (
        &["vector", "matrix", "tensor", "array", "Vector", "Matrix", "Tensor", "Array", "ndarray", "list", "vec"],
        "a vector is `[n] real`, a matrix `[m, n] real`",
    ),
    (&["complex", "Complex", "complex128"], "numbers are `real`: a complex one is a pair, `(real, real)`"),
];

/// What to write instead of a name of a type.
pub(crate) fn type_name(name: &str) -> Option<&'static str> {
    find(TYPES, name)
}
