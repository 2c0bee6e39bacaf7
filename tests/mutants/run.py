#!/usr/bin/env python3
"""Changes the source by one token at many places, and asks of each change whether a test fails.

All changes are in one build, each behind a switch. Each test runs once to say which of the changed places it meets, and where the change makes
another value; then those that can see a change run with it, quick ones first, until one fails. What is found is written down at once, and what
is written down is not asked again.
"""

import argparse
import hashlib
import json
import os
from pathlib import Path
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import sites

ROOT = Path(__file__).resolve().parent.parent.parent
COPIED = ["Cargo.toml", "Cargo.lock", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "clippy.toml", "deny.toml", "rustfmt.toml", "LICENSE-MIT", "LICENSE-APACHE",
          ".ci", "src", "rules", "tests", "examples", "bench"]
SWITCH = (Path(__file__).parent / "switch.rs").read_text()
MODULE_OF_TESTS = re.compile(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?mod (\w+);")
INCLUDED = re.compile(r'include_str!\("([^"]*\.rs)"\)')
# Tests of a batch together take so long, by the time that each took alone; those that take longer come when no quick one has failed.
BATCH, QUICK = 1.0, 4.0


@dataclass
class Mutant:
    number: int
    path: str
    site: sites.Site
    line: int
    shown: str
    # The path and what is shown, and the how manyth of those that look alike.
    name: str
    # Whether both values are computed while tests say what they meet.
    compared: bool = True
    # The bytes of the changed text that it is.
    bytes: range = range(0)
    met: int = 0
    # By name: how long each test takes that can see it.
    tests: dict = field(default_factory=dict)
    passed: set = field(default_factory=set)
    killed_by: str | None = None


@dataclass(frozen=True)
class Test:
    name: str
    binary: str


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--mutants", type=int, default=400)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--paths", nargs="*", default=[], help="parts of the source, as src/diff; all where nothing is said")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--folder", default=str(ROOT / "target/mutants"), help="where the changed copy is and is built, and what was found")
    p.add_argument("--filter", default="", help="run tests alone whose names have this part")
    p.add_argument("--optimise", default="1", help="the opt-level of the build")
    p.add_argument("--fresh", action="store_true", help="ask again what was found before")
    p.add_argument("--again", nargs="*", default=[], help="parts of names of tests that are others now, and are asked again")
    return p.parse_args()


def sources() -> dict[str, str]:
    """The texts of all files that are no tests."""
    texts = {str(f.relative_to(ROOT)): f.read_text() for f in sorted((ROOT / "src").rglob("*.rs"))}
    tests = []
    for path, text in texts.items():
        folder = path.rsplit("/", 1)[0] if path.endswith(("/mod.rs", "/lib.rs", "/main.rs")) else path.removesuffix(".rs")
        tests += [f"{folder}/{module}" for module in MODULE_OF_TESTS.findall(text)]
    is_test = lambda path: any(path == f"{test}.rs" or path.startswith(f"{test}/") for test in tests)
    return {path: text for path, text in texts.items() if not is_test(path)}


def draw(options: argparse.Namespace, texts: dict[str, str]) -> list[Mutant]:
    """Changes at random, as many in each part of the source as it has places, none within another one. A change elsewhere draws the same ones."""
    places, alike = [], {}
    for path, text in texts.items():
        if options.paths and not any(path.startswith(part) for part in options.paths):
            continue
        for site in sites.sites(text):
            line_start = text.rfind("\n", 0, site.token[0]) + 1
            line_end = text.find("\n", site.token[0])
            old = text[site.token[0] : site.token[1]]
            shown = f"{text[line_start : site.token[0]].lstrip()}«{old}|{site.becomes}»{text[site.token[1] : line_end]}"
            name = f"{path}: {shown}"
            alike[name] = alike.get(name, 0) + 1
            places.append((path, site, text.count("\n", 0, site.token[0]) + 1, shown, f"{name} #{alike[name]}"))
    places.sort(key=lambda place: hashlib.sha256(f"{options.seed} {place[4]}".encode()).digest())
    taken, found = {}, []
    for path, site, line, shown, name in places:
        if any(site.start < end and start < site.end for start, end in taken.get(path, [])):
            continue
        taken.setdefault(path, []).append((site.start, site.end))
        found.append(Mutant(len(found) + 1, path, site, line, shown, name))
        # Some are no programs.
        if len(found) == options.mutants + options.mutants // 8:
            break
    return found


def included(path: str, text: str) -> list[str]:
    """The sources whose text is in this one, as that of what kernels hold."""
    return [os.path.normpath(f"{path}/../{name}") for name in INCLUDED.findall(text)]


def emitted(texts: dict[str, str], mutants: list[Mutant]) -> str:
    """What changes in the text of kernels: the lines around a place, as many as tell it from others."""
    held = {name for path, text in texts.items() for name in included(path, text)}
    rows = []
    for mutant in (m for m in mutants if m.path in held):
        text, site = texts[mutant.path], mutant.site
        start, end = text.rfind("\n", 0, site.start) + 1, text.find("\n", site.end)
        while text.count(text[start:end]) > 1 and start > 0:
            start = text.rfind("\n", 0, start - 1) + 1
        after = text[start : site.token[0]] + site.becomes + text[site.token[1] : end]
        rows.append(f"({mutant.number}, {json.dumps(text[start:end], ensure_ascii=False)}, {json.dumps(after, ensure_ascii=False)})")
    return ", ".join(rows)


def write(copy: Path, texts: dict[str, str], mutants: list[Mutant]) -> None:
    """The copy with these changes. Of sources that kernels hold there is a second copy, without any."""
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
            first = len(changed.encode())
            if mutant.compared:
                changed += f"crate::mutants::either({mutant.number}, || {{ {expression} }}, || {{ {other} }})"
            else:
                changed += f"(if crate::mutants::is({mutant.number}) {{ {other} }} else {{ {expression} }})"
            mutant.bytes = range(first, len(changed.encode()))
            at = site.end
        changed += text[at:]
        for name in included(path, text):
            (copy / "whole" / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / "whole" / name).write_text((ROOT / name).read_text())
        folder = os.path.dirname(path)
        changed = INCLUDED.sub(lambda m: f'include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/whole/{os.path.normpath(f"{folder}/{m[1]}")}"))', changed)
        if path == "src/codegen/source.rs":
            changed = changed.replace("Source { text,", "Source { text: crate::mutants::emitted(text),")
        if path == "src/lib.rs":
            changed += SWITCH.replace("COUNT", str(max((m.number for m in mutants), default=0) + 1)).replace("/* EMITTED */", emitted(texts, mutants))
        elif path == "src/main.rs" or path.startswith("src/cli"):
            changed = changed.replace("crate::mutants", "iverson::mutants")
        target = copy / path
        if not target.exists() or target.read_text() != changed:
            target.write_text(changed)


def refresh(copy: Path) -> None:
    """What is no source, as it is now; what is alike keeps its time, so nothing is built again for it."""
    copy.mkdir(parents=True, exist_ok=True)
    wanted = set()
    for name in COPIED:
        top = ROOT / name
        for file in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if not file.is_file() or {"target", "__pycache__"} & set(file.relative_to(ROOT).parts):
                continue
            target = copy / file.relative_to(ROOT)
            wanted.add(target)
            content = file.read_bytes()
            if not target.exists() or target.suffix != ".rs" and target.read_bytes() != content:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
    for file in [f for f in copy.rglob("*") if f.is_file() and f not in wanted and not {"target", "whole"} & set(f.relative_to(copy).parts)]:
        file.unlink()


def cargo(copy: Path, optimise: str, *command: str) -> list[dict]:
    """The messages of the compiler."""
    own = {"CARGO_PROFILE_DEV_OPT_LEVEL": optimise, "CARGO_PROFILE_TEST_OPT_LEVEL": optimise}
    run = subprocess.run(["cargo", *command, "--message-format=json"], cwd=copy, env=environment(copy, **own), capture_output=True, text=True)
    messages = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    if not messages:
        sys.exit(run.stderr)
    return messages


def environment(copy: Path, **more: str) -> dict[str, str]:
    own = {"CARGO_TARGET_DIR": str(copy.parent / "build"), "XDG_CACHE_HOME": str(copy.parent / "cache"), "INSTA_UPDATE": "no",
           "RUST_BACKTRACE": "0", "CARGO_PROFILE_DEV_DEBUG": "0"}
    return {**os.environ, **own, **more}


def compile_all(copy: Path, options: argparse.Namespace, texts: dict[str, str], mutants: list[Mutant]) -> list[Mutant]:
    """The changes that are programs; the others go. Where not both values can be computed, one is."""
    while True:
        write(copy, texts, mutants)
        wrong, messages = set(), []
        for message in cargo(copy, options.optimise, "check", "--bins"):
            if message["reason"] == "compiler-message" and message["message"]["level"] == "error":
                messages.append(message["message"])
        for message in messages:
            touched = lambda span: {m.number for m in mutants if m.path == span["file_name"] and m.bytes.start < span["byte_end"] and span["byte_start"] < m.bytes.stop}
            primary = [number for span in message["spans"] if span["is_primary"] for number in touched(span)]
            wrong |= set(primary or [number for span in message["spans"] for number in touched(span)])
        if messages and not wrong:
            sys.exit("the changed copy does not compile:\n" + "\n".join(message["rendered"] for message in messages[:5]))
        if not wrong:
            return mutants
        gone = {m.number for m in mutants if m.number in wrong and not m.compared}
        mutants = [m for m in mutants if m.number not in gone]
        for mutant in mutants:
            mutant.compared &= mutant.number not in wrong
        print(f"{len(gone)} changes are no programs, {len(mutants)} are left; {sum(m.compared for m in mutants)} are compared", flush=True)


def binaries(copy: Path, options: argparse.Namespace) -> dict[str, str]:
    """What runs the tests of the library and of `tests/it`."""
    found = {}
    for message in cargo(copy, options.optimise, "test", "--lib", "--test", "it", "--no-run"):
        if message["reason"] == "compiler-artifact" and message.get("executable") and message["profile"]["test"]:
            found[message["target"]["name"]] = message["executable"]
        elif message["reason"] == "compiler-message" and message["message"]["level"] == "error":
            print(message["message"]["rendered"], file=sys.stderr)
    if len(found) != 2:
        sys.exit("the changed copy does not compile")
    return found


def run(copy: Path, binary: str, tests: list[str], seconds: float, **more: str) -> tuple[bool, str, float]:
    """Whether all of them pass in this time of a processor, what they say, and the time they took."""
    limits = f"ulimit -t {int(seconds) + 1} -v 16000000; exec \"$@\""
    command = ["sh", "-c", limits, "sh", binary, "--exact", "-q", "--test-threads=1", *tests]
    process = subprocess.Popen(command, cwd=copy, env=environment(copy, **more), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True, errors="replace", start_new_session=True)
    # What waits for ever takes no time of a processor.
    timer = threading.Timer(60.0 + 10.0 * seconds, lambda: os.killpg(process.pid, signal.SIGKILL))
    timer.start()
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode == 0, output, usage.ru_utime + usage.ru_stime


class Journal:
    """Lines of what was found, written as soon as it is."""

    def __init__(self, file: Path, fresh: bool):
        self.file, self.lock = file, threading.Lock()
        if fresh:
            file.unlink(missing_ok=True)
        self.before = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def write(self, **row) -> None:
        with self.lock, self.file.open("a") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def is_other(options: argparse.Namespace, test: str) -> bool:
    return any(part in test for part in options.again)


def meet(copy: Path, options: argparse.Namespace, journal: Journal, key: str, found: dict[str, str], mutants: list[Mutant]) -> dict[str, Test]:
    """Which tests can see which of these changes, and how long they take."""
    tests = {}
    for name, binary in found.items():
        listed = subprocess.run([binary, "--list"], cwd=copy, capture_output=True, text=True).stdout
        ignored = subprocess.run([binary, "--list", "--ignored"], cwd=copy, capture_output=True, text=True).stdout.splitlines()
        for line in listed.splitlines():
            if line.endswith(": test") and line not in ignored and options.filter in line:
                test = line.removesuffix(": test")
                tests[f"{name} {test}"] = Test(test, binary)
    seen = copy.parent / "seen"
    shutil.rmtree(seen, ignore_errors=True)
    seen.mkdir()
    rows = {row["test"]: row for row in journal.before if row["key"] == key and not is_other(options, row["test"])}

    def one(name: str) -> dict:
        # Where two values at each place are too much for a test, as for one that counts work, it runs with one.
        for alone in ("", "1"):
            file = seen / re.sub(r"\W", "-", name + alone)
            passes, _, took = run(copy, tests[name].binary, [tests[name].name], 900.0, MUTANTS_SEEN=str(file), MUTANTS_ALONE=alone)
            if passes:
                break
        numbers = {int(line) for line in file.read_text().split()} if file.exists() else set()
        file.unlink(missing_ok=True)
        row = {"key": key, "test": name, "passes": passes, "took": round(took, 3), "met": sorted(n for n in numbers if n > 0),
               "other": sorted(-n for n in numbers if n < 0)}
        journal.write(**row)
        return row

    missing = [name for name in tests if name not in rows]
    with ThreadPoolExecutor(options.jobs) as pool:
        for count, row in enumerate(pool.map(one, missing), 1):
            rows[row["test"]] = row
            if count % 100 == 0:
                print(f"{count} of {len(missing)} tests have said what they meet", flush=True)
    by_number = {m.number: m for m in mutants}
    for name in tests:
        row = rows[name]
        if not row["passes"]:
            print(f"{name} fails without any change, and is left out", flush=True)
            continue
        for number in by_number.keys() & set(row["met"]):
            by_number[number].met += 1
        for number in by_number.keys() & set(row["other"]):
            by_number[number].tests[name] = row["took"]
    return tests


def judge(copy: Path, journal: Journal, key: str, tests: dict[str, Test], mutant: Mutant, quick: bool) -> None:
    """Runs the tests that can see it and have not yet, quick ones first, as many at a time as take a second."""
    left = sorted((took, name) for name, took in mutant.tests.items() if name not in mutant.passed and (took <= QUICK or not quick))
    while left and mutant.killed_by is None:
        batch, sum_of_times = [], 0.0
        while left and (not batch or sum_of_times + left[0][0] <= BATCH) and len(batch) < 40:
            sum_of_times += left[0][0]
            batch.append(left.pop(0)[1])
        for binary in sorted({tests[name].binary for name in batch}):
            own = [name for name in batch if tests[name].binary == binary]
            passes, output, _ = run(copy, binary, [tests[name].name for name in own], 10.0 + 5.0 * sum_of_times, MUTANT=str(mutant.number))
            if passes:
                mutant.passed.update(own)
                continue
            failed = set(output.rsplit("\nfailures:\n", 1)[-1].split())
            named = [name for name in own if tests[name].name in failed] if "\nfailures:\n" in output else []
            mutant.killed_by = (named or own)[0] if named or len(own) == 1 else f"{own[0]} .. {own[-1]}"
            journal.write(key=key, change=mutant.name, killed_by=mutant.killed_by)
            return
    if mutant.passed:
        journal.write(key=key, change=mutant.name, passed=sorted(mutant.passed))


def equivalents() -> dict[str, str]:
    """Changes that change nothing, with the reason."""
    file = Path(__file__).parent / "equivalent.txt"
    lines = (line for line in file.read_text().splitlines() if line and not line.startswith("#")) if file.exists() else []
    return dict(re.split(r"  +# ", line, maxsplit=1) for line in lines)


def digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def drawn(copy: Path, options: argparse.Namespace, texts: dict[str, str], folder: Path) -> tuple[str, list[Mutant]]:
    """The changes that are programs, and a name for the build with them."""
    key = digest(texts, SWITCH, options.mutants, options.seed, options.paths)
    file, mutants = folder / "programs.json", draw(options, texts)
    known = json.loads(file.read_text()) if file.exists() and not options.fresh else {}
    if known.get("key") == key:
        compared = dict(known["compared"])
        mutants = [m for m in mutants if m.name in compared][: options.mutants]
        for mutant in mutants:
            mutant.compared = compared[mutant.name]
    else:
        # What was no program before, or could not be compared, is not tried again.
        mutants = [m for m in mutants if m.name not in known.get("gone", [])]
        for mutant in mutants:
            mutant.compared = known.get("compared", {}).get(mutant.name, True)
        programs = compile_all(copy, options, texts, mutants)
        kept = {m.name for m in programs}
        gone = sorted({m.name for m in mutants} - kept | set(known.get("gone", [])))
        mutants = programs[: options.mutants]
        rows = {"key": key, "compared": {m.name: m.compared for m in programs}, "gone": gone}
        file.write_text(json.dumps(rows, ensure_ascii=False))
    write(copy, texts, mutants)
    return key, mutants


def main() -> None:
    options = arguments()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    folder = Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder / "copy"
    refresh(copy)
    texts = sources()
    tests_of_the_library = {str(f.relative_to(ROOT)): f for f in [*(ROOT / "src").rglob("*.rs"), *(ROOT / "tests").rglob("*.rs"),
                            *(ROOT / "examples").rglob("*.rs"), *(ROOT / "bench").rglob("*.rs")]}
    for path, file in tests_of_the_library.items():
        if path not in texts and (copy / path).read_bytes() != file.read_bytes():
            (copy / path).write_bytes(file.read_bytes())
    key, mutants = drawn(copy, options, texts, folder)
    print(f"{len(mutants)} changes in one build; of {sum(m.compared for m in mutants)} both values are compared", flush=True)
    found = binaries(copy, options)
    journal, verdicts = Journal(folder / "met.jsonl", options.fresh), Journal(folder / "verdicts.jsonl", options.fresh)
    for row in verdicts.before:
        for mutant in (m for m in mutants if m.name == row["change"]):
            mutant.killed_by = row.get("killed_by", mutant.killed_by)
            if row["key"] == key:
                mutant.passed.update(test for test in row.get("passed", []) if not is_other(options, test))
    known = equivalents()
    unknown = [m for m in mutants if f"{m.path}: {m.shown}" not in known]
    # Tests beside the code are quicker, and most changes meet their end there.
    tests = {}
    for own, quick in (("iverson", True), ("it", True), ("", False)):
        if own:
            tests |= meet(copy, options, journal, key, {own: found[own]}, mutants)
        open_ones = [m for m in unknown if m.killed_by is None]
        with ThreadPoolExecutor(options.jobs) as pool:
            for number, mutant in enumerate(pool.map(lambda m: (judge(copy, verdicts, key, tests, m, quick), m)[1], open_ones), 1):
                print(f"{number}/{len(open_ones)} {mutant.path}:{mutant.line}: {mutant.shown}\n    {verdict(mutant)}", flush=True)
        report(folder, mutants, unknown)


def verdict(mutant: Mutant) -> str:
    if mutant.killed_by:
        return f"killed by {mutant.killed_by}"
    if mutant.tests:
        return f"SURVIVES {len(mutant.passed)} of {len(mutant.tests)} tests that could see it"
    return f"NO OTHER VALUE in {mutant.met} tests that meet it" if mutant.met else "MET BY NO TEST"


def report(folder: Path, mutants: list[Mutant], unknown: list[Mutant]) -> None:
    parts: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        parts.setdefault(mutant.path.split("/")[1].removesuffix(".rs"), []).append(mutant)
    judged = {m.number for m in unknown}
    print(f"\n{'part':<14}{'changes':>8}{'killed':>8}{'alike':>8}")
    for part, own in sorted(parts.items()):
        print(f"{part:<14}{len(own):>8}{sum(m.killed_by is not None for m in own):>8}{sum(m.number not in judged for m in own):>8}")
    killed = sum(m.killed_by is not None for m in unknown)
    print(f"{len(mutants)} changes: {killed} killed, {len(mutants) - len(unknown)} known to change nothing, {len(unknown) - killed} survive", flush=True)
    rows = [{"change": m.name, "line": m.line, "verdict": verdict(m), "tests": sorted(m.tests, key=m.tests.get)[:10]} for m in unknown if not m.killed_by]
    (folder / "report.json").write_text(json.dumps(rows, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
