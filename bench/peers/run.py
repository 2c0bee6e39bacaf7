"""Measures JAX, PyTorch, SciPy and CasADi beside our kernels, on the same inputs: `python3 bench/peers/run.py [WORKLOAD]`.

It runs `cargo bench --bench kernels`, which writes the inputs of each workload with the results of our kernel, and every peer that is
installed, in a process of its own. Results of peers must be ours up to 1e-9. Then, in rounds, each takes a turn in which it computes the
value some times, and the value with the gradient: all see the same load of the machine. All processes are bound to one core, and libraries
are told to use one thread. Times are processor times, which leave out other work on the machine, and medians over rounds; ratios are
medians of the ratios of each round. The file has the times of all turns.

The name of a workload says which parameters our kernels, and those by hand, hold `constant`; they take the others anew with each call. Peers hold
what they like.

NumPy, SciPy and Linux are needed; of the rest, what is not installed is left out.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

# Before any numeric library starts its threads; processes inherit this.
CORE = max(os.sched_getaffinity(0))
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NPROC": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}
os.environ |= ENVIRONMENT

from peer import MODULES, Peer

ROOT = Path(__file__).resolve().parents[2]
OURS = ("native", "by hand")
PARTS = ("value", "value and gradient")

# Milliseconds of our native kernel from which on a row counts for the headline.
LONG = 1.0


class Kernels:
    """The process of the kernel benchmark. Its cores are its own until it is built."""

    def __init__(self, directory: Path, workload: str | None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        flags = {"RUSTFLAGS": "-C target-cpu=native -C target-feature=-prefer-256-bit"} | os.environ
        cargo = ["cargo", "bench", "--quiet", "--bench", "kernels"]
        subprocess.run([*cargo, "--no-run"], cwd=ROOT, env=flags, check=True)
        os.sched_setaffinity(0, {CORE})
        command = [*cargo, "--", "--peers", str(directory), *([workload] if workload else [])]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, cwd=ROOT, env=flags, stdin=pipe, stdout=pipe, text=True)

    def workloads(self):
        """Names and archives, one after the other."""
        while line := self.process.stdout.readline():
            yield json.loads(line)
            self.send("")
        if self.process.wait() != 0:
            sys.exit("the kernel benchmark failed")

    def send(self, line: str) -> None:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def turn(self, part: int) -> dict[str, float]:
        self.send(str(part))
        return json.loads(self.process.stdout.readline())


def start_peers(names: list[str], patience: float) -> list[Peer]:
    peers = []
    for name in names:
        try:
            peers.append(Peer(name, patience))
            print(peers[-1].version)
        except ImportError as error:
            print(f"{name} is not installed: {error}")
    return peers


def measure(kernels: Kernels, peers: list[Peer], rounds: int) -> list[dict[str, list[float]]]:
    """Seconds of everyone in every round, for the value, and for the value with the gradient."""
    times: list[dict[str, list[float]]] = [{} for _ in PARTS]
    for _ in range(rounds):
        for part, found in enumerate(times):
            turns = kernels.turn(part) | {peer.name: peer.ask(part) for peer in peers}
            for name, seconds in turns.items():
                found.setdefault(name, []).append(seconds)
    return times


def summary(workload: str, part: str, turns: dict[str, list[float]]) -> dict:
    def over(base: str) -> dict[str, float]:
        return {name: statistics.median(a / b for a, b in zip(times, turns[base])) for name, times in turns.items()}

    ms = {name: 1e3 * statistics.median(times) for name, times in turns.items()}
    ratios = {f"over {base}": over(base) for base in OURS}
    return {"workload": workload, "part": part, "ms": ms} | ratios | {"turns": turns}


def medians(lines: list[dict]) -> str:
    """Medians of the ratios to our native kernels: of rows that take us a millisecond or more, and of the others, where calling is most of it."""
    text = []
    for what, long in ((f"of rows above {LONG:g} ms", True), ("of the others", False)):
        for part in PARTS:
            found = [line["over native"] for line in lines if line["part"] == part and (line["ms"]["native"] >= LONG) == long]
            names = dict.fromkeys(name for ratios in found for name in ratios if name != "native")
            cells = (f"{name} {statistics.median(r[name] for r in found if name in r):.2g}" for name in names)
            text.append(f"medians {what}, {part}, {len(found)} rows: {', '.join(cells)}")
    return "\n".join(text)


def heading(peers: list[Peer]) -> str:
    """Below each peer: milliseconds, and how many times those of our native kernel and of the one written by hand."""
    names = "".join(f"{peer.name:>26}" for peer in peers)
    units = "".join(f"{'ms':>10}{'native':>8}{'hand':>8}" for _ in peers)
    return f"{'':<70}{'native':>10}{'by hand':>18}{names}\n{'':<70}{'ms':>10}{'ms':>10}{'native':>8}{units}"


def row(line: dict, peers: list[Peer]) -> str:
    ms, native, hand = line["ms"], line["over native"], line["over by hand"]
    name = line["workload"] + (", with gradient" if line["part"] == PARTS[1] else "")
    cells = [
        f"{ms[peer.name]:>10.3f}{native[peer.name]:>8.2f}{hand[peer.name]:>8.2f}" if peer.name in ms else f"{'-':>26}" for peer in peers
    ]
    return f"{name:<70}{ms['native']:>10.3f}{ms['by hand']:>10.3f}{native['by hand']:>8.2f}" + "".join(cells)


def loaded(peers: list[Peer], file: str, failures: list[str]) -> list[Peer]:
    """The peers whose results are ours."""
    right = []
    for peer in peers:
        try:
            peer.ask(file)
            right.append(peer)
        except RuntimeError as error:
            failures.append(f"{Path(file).stem}, {peer.name}: {error}")
            print(failures[-1], file=sys.stderr)
    return right


def processor() -> str:
    """The model that Linux names."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("workload", nargs="?", help="a part of its name; all without")
    parser.add_argument("--peers", nargs="+", choices=MODULES, default=list(MODULES))
    parser.add_argument("--rounds", type=int, default=7, help="0 only checks results")
    parser.add_argument("--patience", type=float, default=120, help="seconds until a peer is given up")
    parser.add_argument("--inputs", type=Path, default=ROOT / "target/peers", help="where inputs go")
    parser.add_argument("--json", type=Path, default=ROOT / "target/peers.json", help="where results go")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    kernels = Kernels(args.inputs.resolve(), args.workload)
    peers = start_peers(args.peers, args.patience)
    print(heading(peers) if args.rounds else "results are compared")
    lines, failures = [], []
    for workload in kernels.workloads():
        right = loaded(peers, workload["file"], failures)
        if args.rounds == 0:
            print(f"{workload['workload']}: {', '.join(peer.name for peer in right)}")
            continue
        for part, times in zip(PARTS, measure(kernels, right, args.rounds)):
            lines.append(summary(workload["workload"], part, times))
            print(row(lines[-1], peers), flush=True)
    for peer in peers:
        peer.stop()
    if lines:
        print(medians(lines))
        versions = [peer.version for peer in peers]
        machine = {"processor": processor(), "cores": os.cpu_count(), "load": os.getloadavg()}
        results = {"machine": machine, "versions": versions, "rounds": args.rounds, "lines": lines, "failures": failures}
        args.json.write_text(json.dumps(results, indent=1) + "\n")
        print(args.json)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
