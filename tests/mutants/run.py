#!/usr/bin/env python3
"""Changes the source by one token at many places, and asks of each change whether a test fails.

All changes are in one build, each behind a switch: `a < b` becomes `if mutants::is(7) { a <= b } else { a < b }`. Tests run once to say which of
the changed places they meet; then those that meet a place run with its change, quick ones first, until one fails.
"""

import argparse
import json
import os
from pathlib import Path
import random
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import sites

ROOT = Path(__file__).resolve().parent.parent.parent
COPIED = ["Cargo.toml", "Cargo.lock", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "clippy.toml", "deny.toml", "rustfmt.toml", "LICENSE-MIT", "LICENSE-APACHE",
          ".ci", "src", "rules", "tests", "examples", "bench"]
SWITCH = '''
/// Which change of the source is on, and which were met.
#[doc(hidden)]
pub mod mutants {
    use std::io::Write as _;
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicBool, Ordering};

    static ON: LazyLock<usize> = LazyLock::new(|| std::env::var("MUTANT").ok().and_then(|n| n.parse().ok()).unwrap_or(0));
    static SEEN: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("MUTANTS_SEEN").ok());
    static MET: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];

    /// Whether a change is on.
    pub fn is(n: usize) -> bool {
        if let Some(file) = &*SEEN && !MET[n].swap(true, Ordering::Relaxed) {
            let file = std::fs::OpenOptions::new().append(true).create(true).open(file);
            let _ = file.and_then(|mut file| file.write_all(format!("{n}\\n").as_bytes()));
        }
        *ON == n
    }
}
'''


@dataclass
class Mutant:
    number: int
    path: str
    site: sites.Site
    line: int
    shown: str
    # The lines of the changed text that it is in.
    lines: range = range(0)
    tests: list = field(default_factory=list)
    killed_by: str | None = None


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--mutants", type=int, default=400)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--paths", nargs="*", default=[], help="parts of the source, as src/diff; all where nothing is said")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--folder", default=str(ROOT / "target/mutants"), help="where the changed copy is and is built")
    p.add_argument("--filter", default="", help="run tests alone whose names have this part")
    return p.parse_args()


def sources() -> dict[str, str]:
    """The texts of all files that are no tests."""
    files = sorted((ROOT / "src").rglob("*.rs"))
    is_test = lambda path: "/tests/" in path or path.endswith("tests.rs")
    return {path: f.read_text() for f in files if not is_test(path := str(f.relative_to(ROOT)))}


def draw(options: argparse.Namespace, texts: dict[str, str]) -> list[Mutant]:
    """Changes at random, as many in each part of the source as it has places, none within another one."""
    places = []
    for path, text in texts.items():
        if not options.paths or any(path.startswith(part) for part in options.paths):
            places += [(path, text, site) for site in sites.sites(text)]
    random.Random(options.seed).shuffle(places)
    taken, found = {}, []
    for path, text, site in places:
        if any(site.start < end and start < site.end for start, end in taken.get(path, [])):
            continue
        taken.setdefault(path, []).append((site.start, site.end))
        line_start = text.rfind("\n", 0, site.token[0]) + 1
        line_end = text.find("\n", site.token[0])
        old = text[site.token[0] : site.token[1]]
        shown = f"{text[line_start : site.token[0]].lstrip()}«{old}|{site.becomes}»{text[site.token[1] : line_end]}"
        found.append(Mutant(len(found) + 1, path, site, text.count("\n", 0, site.token[0]) + 1, shown))
        if len(found) == options.mutants:
            break
    return found


def write(copy: Path, texts: dict[str, str], mutants: list[Mutant]) -> None:
    """The copy with these changes."""
    by_path: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        by_path.setdefault(mutant.path, []).append(mutant)
    for path, text in texts.items():
        changed, at = "", 0
        for mutant in sorted(by_path.get(path, []), key=lambda m: m.site.start):
            site = mutant.site
            expression = text[site.start : site.end]
            (a, b) = (site.token[0] - site.start, site.token[1] - site.start)
            other = expression[:a] + site.becomes + expression[b:]
            changed += text[at : site.start]
            first = changed.count("\n") + 1
            changed += f"(if crate::mutants::is({mutant.number}) {{ {other} }} else {{ {expression} }})"
            mutant.lines = range(first, changed.count("\n") + 2)
            at = site.end
        changed += text[at:]
        if path == "src/lib.rs":
            changed += SWITCH.replace("COUNT", str(max((m.number for m in mutants), default=0) + 1))
        elif path == "src/main.rs" or path.startswith("src/cli"):
            changed = changed.replace("crate::mutants", "iverson::mutants")
        target = copy / path
        if not target.exists() or target.read_text() != changed:
            target.write_text(changed)


def cargo(copy: Path, *command: str) -> list[dict]:
    """The messages of the compiler."""
    run = subprocess.run(["cargo", *command, "--message-format=json"], cwd=copy, env=environment(copy), capture_output=True, text=True)
    return [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]


def environment(copy: Path, **more: str) -> dict[str, str]:
    own = {"CARGO_TARGET_DIR": str(copy.parent / "build"), "XDG_CACHE_HOME": str(copy.parent / "cache"), "INSTA_UPDATE": "no",
           "RUST_BACKTRACE": "0", "CARGO_PROFILE_DEV_DEBUG": "0"}
    return {**os.environ, **own, **more}


def compile_all(copy: Path, texts: dict[str, str], mutants: list[Mutant]) -> list[Mutant]:
    """The changes that are programs; the others go."""
    while True:
        write(copy, texts, mutants)
        wrong = set()
        for message in cargo(copy, "check", "--bins"):
            if message["reason"] != "compiler-message" or message["message"]["level"] != "error":
                continue
            for span in message["message"]["spans"]:
                lines = range(span["line_start"], span["line_end"] + 1)
                for mutant in mutants:
                    if mutant.path == span["file_name"] and lines.start < mutant.lines.stop and mutant.lines.start < lines.stop:
                        wrong.add(mutant.number)
        if not wrong:
            return mutants
        mutants = [m for m in mutants if m.number not in wrong]
        print(f"{len(wrong)} changes are no programs, {len(mutants)} are left", flush=True)


def binaries(copy: Path) -> list[tuple[str, str]]:
    """What runs the tests of the library and of `tests/it`."""
    found = []
    for message in cargo(copy, "test", "--lib", "--test", "it", "--no-run"):
        if message["reason"] == "compiler-artifact" and message.get("executable") and message["profile"]["test"]:
            found.append((message["target"]["name"], message["executable"]))
    if len(found) != 2:
        sys.exit("the changed copy does not compile")
    return found


def run(copy: Path, binary: str, tests: list[str], limit: float, **more: str) -> bool:
    """Whether all of them pass, in this time."""
    command = [binary, "--exact", "-q", "--test-threads=1", *tests]
    try:
        done = subprocess.run(command, cwd=copy, env=environment(copy, **more), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=limit)
        return done.returncode == 0
    except subprocess.TimeoutExpired:
        return False


def meet(copy: Path, options: argparse.Namespace, all_binaries: list[tuple[str, str]], mutants: list[Mutant]) -> None:
    """Which tests meet which places, and how long they take."""
    tests = []
    for name, binary in all_binaries:
        listed = subprocess.run([binary, "--list"], cwd=copy, capture_output=True, text=True).stdout
        ignored = subprocess.run([binary, "--list", "--ignored"], cwd=copy, capture_output=True, text=True).stdout.splitlines()
        names = (line.removesuffix(": test") for line in listed.splitlines() if line.endswith(": test") and line not in ignored)
        tests += [(name, binary, test) for test in names if options.filter in test]
    by_number = {m.number: m for m in mutants}
    seen_folder = copy.parent / "seen"
    shutil.rmtree(seen_folder, ignore_errors=True)
    seen_folder.mkdir()

    def one(number_and_test):
        number, (name, binary, test) = number_and_test
        file = seen_folder / str(number)
        began = time.monotonic()
        passes = run(copy, binary, [test], 600.0, MUTANTS_SEEN=str(file))
        took = time.monotonic() - began
        met = {int(line) for line in file.read_text().split()} if file.exists() else set()
        return name, binary, test, passes, took, met

    with ThreadPoolExecutor(options.jobs) as pool:
        for name, binary, test, passes, took, met in pool.map(one, enumerate(tests)):
            if not passes:
                print(f"{name} {test} fails without any change, and is left out", flush=True)
                continue
            for number in met & by_number.keys():
                by_number[number].tests.append((took, binary, f"{name} {test}"))


def judge(copy: Path, mutant: Mutant) -> None:
    """Runs the tests that meet it, quick ones first, some at a time."""
    mutant.tests.sort()
    at, size = 0, 4
    while at < len(mutant.tests) and mutant.killed_by is None:
        batch = mutant.tests[at : at + size]
        for binary in sorted({binary for _, binary, _ in batch}):
            some = [(took, test) for took, own, test in batch if own == binary]
            limit = 10.0 + 5.0 * sum(took for took, _ in some)
            if not run(copy, binary, [test.split(" ", 1)[1] for _, test in some], limit, MUTANT=str(mutant.number)):
                mutant.killed_by = some[0][1] if len(some) == 1 else f"{some[0][1]} .. {some[-1][1]}"
                break
        at, size = at + size, min(2 * size, 32)


def equivalents() -> dict[str, str]:
    """Changes that change nothing, with the reason."""
    file = Path(__file__).parent / "equivalent.txt"
    lines = (line for line in file.read_text().splitlines() if line and not line.startswith("#")) if file.exists() else []
    return dict(re.split(r"  +# ", line, maxsplit=1) for line in lines)


def main() -> None:
    options = arguments()
    folder = Path(options.folder)
    copy = folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir(parents=True)
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("target", "__pycache__"))
        elif source.exists():
            shutil.copy2(source, copy / name)
    texts = sources()
    mutants = compile_all(copy, texts, draw(options, texts))
    print(f"{len(mutants)} changes in one build", flush=True)
    meet(copy, options, binaries(copy), mutants)
    known = equivalents()
    unknown = [m for m in mutants if f"{m.path}: {m.shown}" not in known]
    with ThreadPoolExecutor(options.jobs) as pool:
        for number, mutant in enumerate(pool.map(lambda m: (judge(copy, m), m)[1], unknown), 1):
            verdict = f"killed by {mutant.killed_by}" if mutant.killed_by else "SURVIVES" if mutant.tests else "MET BY NO TEST"
            print(f"{number}/{len(unknown)} {mutant.path}:{mutant.line}: {mutant.shown}\n    {verdict}", flush=True)
    report(folder, mutants, unknown)


def report(folder: Path, mutants: list[Mutant], unknown: list[Mutant]) -> None:
    parts: dict[str, list[Mutant]] = {}
    for mutant in unknown:
        parts.setdefault(mutant.path.split("/")[1].removesuffix(".rs"), []).append(mutant)
    print(f"\n{'part':<14}{'changes':>8}{'killed':>8}")
    for part, own in sorted(parts.items()):
        print(f"{part:<14}{len(own):>8}{sum(m.killed_by is not None for m in own):>8}")
    killed = sum(m.killed_by is not None for m in unknown)
    print(f"{len(mutants)} changes: {killed} killed, {len(mutants) - len(unknown)} known to change nothing, {len(unknown) - killed} survive")
    rows = [{"path": m.path, "line": m.line, "change": m.shown, "killed by": m.killed_by, "tests": len(m.tests)} for m in unknown]
    (folder / "report.json").write_text(json.dumps(rows, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
