"""What goes wrong, by who is to blame."""

from __future__ import annotations

from typing import NamedTuple, Optional


class Problem(NamedTuple):
    """A problem in the text of a program; lines and columns count from 1."""

    code: str
    message: str
    help: Optional[str]
    line: int
    column: int
    length: int


class Error(Exception):
    """Why a program, its data or a request could not be processed. `str` has the drawing of each problem in its text."""

    def __init__(self, message, problems=()):
        super().__init__(message)
        self.problems = [Problem(*problem) for problem in problems]

    @property
    def line(self):
        """The line of the first problem, if there is a text with problems."""
        return self.problems[0].line if self.problems else None

    @property
    def column(self):
        """The column of the first problem, if there is a text with problems."""
        return self.problems[0].column if self.problems else None

    def __str__(self):
        message = self.args[0]
        return "\n" + message if self.problems else message

    def __reduce__(self):
        return type(self), (self.args[0], [tuple(problem) for problem in self.problems])


class ProgramError(Error):
    """The text of a program is wrong."""


class DataError(Error, ValueError):
    """An input does not fit: its shape, its format, its entries, its type."""


class RequestError(Error, ValueError):
    """What is asked for does not fit the program: a name that it has not, the gradient of a tensor."""


class LimitError(Error):
    """A limit was exceeded, or there is no memory."""


class LimitationError(Error):
    """The program is right, and this version or this machine cannot do what it asks."""


class ReadingWarning(UserWarning):
    """A program that is right and easily misread."""
