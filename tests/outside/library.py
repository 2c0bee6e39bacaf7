"""The library that programs may call, after its definitions, and scalar functions for programs to declare."""

from language import Definition, name_ix

I, J, L = name_ix("i_"), name_ix("j_"), name_ix("l_")
M, N, K = name_ix("m_"), name_ix("n_"), name_ix("k_")
a, b, x = ("var", "a_"), ("var", "b_"), ("var", "x_")


def at(t, *places):
    return ("get", t, places)


def call(name, *args):
    return ("call", name, args)


def add(p, q):
    return ("add", p, q)


def definition(name, params, body):
    return Definition(name, params, body, library=True)


TOP = ("max", "i_", N, at(a, I))
WEIGHT = ("gen", "i_", N, call("exp", ("sub", at(a, I), ("var", "top_"))))

LIBRARY = {
    d.name: d
    for d in (
        definition("dot", (("a_", (N,)), ("b_", (N,))), ("sum", "i_", N, ("mul", at(a, I), at(b, I)))),
        definition("squared_norm", (("a_", (N,)),), ("sum", "i_", N, ("powi", at(a, I), 2))),
        definition("mean", (("a_", (N,)),), ("div", ("sum", "i_", N, at(a, I)), ("ixv", N))),
        definition("outer", (("a_", (M,)), ("b_", (N,))), ("gen", "i_", M, ("gen", "j_", N, ("mul", at(a, I), at(b, J))))),
        definition("diag", (("a_", (N,)),), ("gen", "i_", N, ("gen", "j_", N, ("iv", ("eq", I, J), at(a, I))))),
        definition("trace", (("a_", (N, N)),), ("sum", "i_", N, at(a, I, I))),
        definition("transpose", (("a_", (M, N)),), ("gen", "j_", N, ("gen", "i_", M, at(a, I, J)))),
        definition("matvec", (("a_", (M, N)), ("x_", (N,))), ("gen", "i_", M, ("sum", "j_", N, ("mul", at(a, I, J), at(x, J))))),
        definition(
            "matmul",
            (("a_", (M, K)), ("b_", (K, N))),
            ("gen", "i_", M, ("gen", "j_", N, ("sum", "l_", K, ("mul", at(a, I, L), at(b, L, J))))),
        ),
        definition(
            "logsumexp",
            (("a_", (N,)),),
            (
                "let",
                "top_",
                TOP,
                add(("var", "top_"), call("ln", ("sum", "i_", N, call("exp", ("sub", at(a, I), ("var", "top_")))))),
            ),
        ),
        definition(
            "softmax",
            (("a_", (N,)),),
            (
                "let",
                "top_",
                TOP,
                (
                    "let",
                    "weight_",
                    WEIGHT,
                    (
                        "let",
                        "total_",
                        ("sum", "i_", N, at(("var", "weight_"), I)),
                        ("gen", "i_", N, ("div", at(("var", "weight_"), I), ("var", "total_"))),
                    ),
                ),
            ),
        ),
    )
}

# What each gives: the dimensions of its result, by the names of its sizes.
RESULTS = {
    "dot": (),
    "squared_norm": (),
    "mean": (),
    "trace": (),
    "logsumexp": (),
    "outer": (M, N),
    "diag": (N, N),
    "transpose": (N, M),
    "matvec": (M,),
    "matmul": (M, N),
    "softmax": (N,),
}

# Scalar functions with their derivatives: text with the name left open, how many arguments, and what they mean.


def soft(ops, apply, args):
    (p,) = args
    return apply("sqrt", [ops.add(ops.constant(1), ops.powi(p, 2))])


def wave(ops, apply, args):
    p, q = args
    return ops.mul(p, apply("sin", [q]))


def bump(ops, apply, args):
    (p,) = args
    return apply("exp", [ops.neg(ops.powi(p, 2))])


FUNS = {
    "soft": ("fun {}(a) = sqrt(1 + a^2) with (a / result)", 1, soft),
    "wave": ("fun {}(a, b) = a * sin(b) with (sin(b), a * cos(b))", 2, wave),
    "bump": ("fun {}(a) = exp(-a^2) with (-2 * a * result)", 1, bump),
}
