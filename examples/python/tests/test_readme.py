"""The programs of README.md run, one after the other, and print what stands there."""

import contextlib
import io
import pathlib
import re
import warnings

import pytest

README = pathlib.Path(__file__).parent.parent / "README.md"


def blocks():
    """Each program with what it prints."""
    found = re.findall(r"```(python|text)\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    for (language, code), (after, printed) in zip(found, found[1:] + [("", "")]):
        if language == "python":
            yield code, printed if after == "text" else ""


def test_programs_print_what_stands_there():
    pytest.importorskip("scipy")
    names, ran = {}, 0
    for code, expected in blocks():
        if any(re.search(rf"^import {name}", code) and not has(name) for name in ("jax", "torch")):
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("error", category=UserWarning)
            exec(code, names)
        lines = [[line.rstrip() for line in text.rstrip().splitlines()] for text in (printed.getvalue(), expected)]
        assert lines[0] == lines[1], code
        ran += 1
    assert ran >= 4


def has(name):
    try:
        __import__(name)
    except ImportError:
        return False
    return True
