"""Where a Rust source can be changed by one token, and the expression around it that is then written twice."""

from dataclasses import dataclass
import re

TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<comment>//[^\n]*)
    |(?P<raw>b?r(?P<hashes>\#*)".*?"(?P=hashes))
    |(?P<string>b?"(?:\\.|[^"\\])*")
    |(?P<char>b?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[0-9a-fA-F_]+\}|.)|[^\\'])')
    |(?P<lifetime>'[A-Za-z_]\w*)
    |(?P<number>\d[\w]*(?:\.\d[\w]*)?(?:[eE][+-]?\d+)?\w*)
    |(?P<name>(?:r\#)?[A-Za-z_]\w*)
    |(?P<punct>\.\.=|\.\.\.|<<=|>>=|::|->|=>|==|!=|<=|>=|&&|\|\||\+=|-=|\*=|/=|%=|\^=|&=|\|=|\.\.|<<|>>|.)
    """,
    re.X | re.S,
)

# Binary operators, as `rustfmt` writes them between blanks, by what stands in their place.
OPERATORS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&",
    "+": "-", "-": "+", "+=": "-=", "-=": "+=", "|=": "&=", "&=": "|=",
}
NAMES = {
    "true": "false", "false": "true", "any": "all", "all": "any", "min": "max", "max": "min", "is_some": "is_none",
    "is_none": "is_some", "is_some_and": "is_none_or", "is_none_or": "is_some_and", "first": "last", "last": "first",
    "saturating_add": "saturating_sub", "saturating_sub": "saturating_add", "skip": "take", "take": "skip",
}
NUMBERS = {"0": "1", "1": "0", "2": "1"}
OPEN, CLOSE = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}

# What a statement that is no expression begins with.
STATEMENTS = {
    "if", "while", "for", "match", "loop", "use", "fn", "pub", "const", "static", "impl", "struct", "enum", "type", "mod", "break",
    "continue", "unsafe", "trait", "macro_rules", "async", "extern", "where", "else", "#",
}


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Site:
    """The characters of an expression, those of the token in it that changes, and what it becomes."""

    start: int
    end: int
    token: tuple[int, int]
    becomes: str


def tokens(text: str) -> list[Token]:
    found, at = [], 0
    while at < len(text):
        if text.startswith("/*", at):
            depth, end = 1, at + 2
            while depth and end < len(text):
                step = {"/*": 1, "*/": -1}.get(text[end : end + 2], 0)
                depth, end = depth + step, end + (2 if step else 1)
            at = end
            continue
        match = TOKEN.match(text, at)
        kind = match.lastgroup if match.lastgroup != "hashes" else "raw"
        if kind not in ("space", "comment"):
            found.append(Token(kind, match.group(), at, match.end()))
        at = match.end()
    return found


def sites(text: str) -> list[Site]:
    """All places outside of tests, macros and constants."""
    found, all_tokens = [], tokens(text)
    partner = partners(all_tokens)
    skipped = skips(all_tokens, partner)
    enclosing: list[int] = []
    for k, token in enumerate(all_tokens):
        if token.text in OPEN and token.kind == "punct":
            enclosing.append(k)
        elif token.text in CLOSE and token.kind == "punct":
            enclosing.pop()
        elif not skipped[k] and enclosing:
            becomes = change(text, all_tokens, k)
            region = becomes is not None and expression(all_tokens, partner, enclosing[-1], k)
            if region:
                first, last = region
                found.append(Site(all_tokens[first].start, all_tokens[last].end, (token.start, token.end), becomes))
    return found


def change(text: str, all_tokens: list[Token], k: int) -> str | None:
    token = all_tokens[k]
    if token.kind == "punct" and token.text in OPERATORS:
        return OPERATORS[token.text] if text[token.start - 1] in " \n" and text[token.end] in " \n" else None
    if token.kind == "punct" and token.text == "!":
        # A negation, and no macro.
        return "" if all_tokens[k - 1].kind == "punct" and all_tokens[k - 1].text not in ("#", "]", ")") else None
    if token.kind == "name" and token.text in NAMES:
        called = all_tokens[k - 1].text == "." and all_tokens[k + 1].text == "("
        return NAMES[token.text] if called or token.text in ("true", "false") else None
    if token.kind == "number" and token.text in NUMBERS:
        return NUMBERS[token.text] if all_tokens[k - 1].text != "." else None
    return None


def partners(all_tokens: list[Token]) -> dict[int, int]:
    """Of each bracket the other one."""
    found, stack = {}, []
    for k, token in enumerate(all_tokens):
        if token.kind == "punct" and token.text in OPEN:
            stack.append(k)
        elif token.kind == "punct" and token.text in CLOSE:
            found[k] = stack.pop()
            found[found[k]] = k
    return found


def skips(all_tokens: list[Token], partner: dict[int, int]) -> list[bool]:
    """What is in tests, in arguments of macros, in attributes, and in constants."""
    skipped = [False] * len(all_tokens)

    def skip(first: int, last: int) -> None:
        for k in range(first, last + 1):
            skipped[k] = True

    for k, token in enumerate(all_tokens):
        texts = [t.text for t in all_tokens[k : k + 4]]
        if token.text == "#" and texts[1:2] and texts[1] in ("[", "!"):
            group = k + 1 if texts[1] == "[" else k + 2
            end = partner.get(group, group)
            skip(k, end)
            if "test" in {t.text for t in all_tokens[group:end]}:
                # The item behind it ends with its first braces, or before.
                at = end + 1
                while at < len(all_tokens) and all_tokens[at].text not in ("{", ";"):
                    at = partner[at] + 1 if all_tokens[at].text in ("(", "[") else at + 1
                skip(end, partner.get(at, min(at, len(all_tokens) - 1)))
        elif token.kind == "name" and texts[1:2] == ["!"] and len(texts) > 2:
            group = k + 2 if texts[2] in OPEN else k + 3
            if group < len(all_tokens) and all_tokens[group].text in OPEN:
                skip(k, partner[group])
        elif token.text in ("const", "static") and token.kind == "name":
            at = k
            while at < len(all_tokens) and all_tokens[at].text not in (";", "{"):
                at = partner[at] + 1 if all_tokens[at].text in ("(", "[") else at + 1
            skip(k, partner.get(at, min(at, len(all_tokens) - 1)))
    return skipped


def expression(all_tokens: list[Token], partner: dict[int, int], group: int, k: int) -> tuple[int, int] | None:
    """The first and the last token of the expression around a token that is right in a group."""
    text = lambda at: all_tokens[at].text if all_tokens[at].kind == "punct" or all_tokens[at].kind == "name" else ""
    last_of_group = partner[group]
    first = k
    while first - 1 > group and text(first - 1) not in (";", ",", "=>"):
        if text(first - 1) == "}" and text(group) == "{":
            break
        first = partner[first - 1] if text(first - 1) in CLOSE else first - 1
    last, braces = k, None
    while last + 1 < last_of_group and text(last + 1) not in (";", ",", "=>"):
        if text(last + 1) in OPEN:
            braces = braces or (last + 1 if text(last + 1) == "{" else None)
            last = partner[last + 1]
        else:
            last += 1
    names = {text(at) for at in range(first, last + 1)}
    ends = text(last + 1)
    if text(group) in ("(", "["):
        return behind_closure(text, first, last, k)
    if ends == "=>":
        guards = [at for at in range(first, k) if text(at) == "if"]
        return (guards[-1] + 1, last) if guards and "let" not in names else None
    if text(first - 1) == "=>":
        return behind_closure(text, first, last, k) if text(first) not in STATEMENTS else condition(text, first, braces, names, k)
    if text(first) == "let":
        equal = next((at for at in range(first, k) if text(at) == "="), None)
        if equal is None or ends != ";" or any(text(at) == "else" and text(at - 1) != "}" for at in range(equal, last)):
            return None
        return behind_closure(text, equal + 1, last, k)
    if text(first) == "return":
        return (first + 1, last) if first < k else None
    if text(first) in STATEMENTS:
        return condition(text, first, braces, names, k)
    if text(first + 1) == ":" and all_tokens[first].kind == "name":
        return behind_closure(text, first + 2, last, k) if k > first + 1 else None
    return (first, last) if ends in (";", "}") and braces is None else None


def condition(text, first: int, braces: int | None, names: set[str], k: int) -> tuple[int, int] | None:
    """That of an `if` or a `while`."""
    while text(first) == "else":
        first += 1
    if text(first) not in ("if", "while") or braces is None or not first < k < braces:
        return None
    return None if any(text(at) == "let" for at in range(first, braces)) else (first + 1, braces - 1)


def behind_closure(text, first: int, last: int, k: int) -> tuple[int, int] | None:
    """What a closure computes, where the expression is one."""
    at = first + 1 if text(first) == "move" else first
    if text(at) == "||":
        return (at + 1, last) if k > at else None
    if text(at) == "|":
        end = next((e for e in range(at + 1, last) if text(e) == "|"), None)
        return (end + 1, last) if end is not None and k > end and text(end + 1) != "->" else None
    return (first, last)
