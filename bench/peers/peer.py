"""Each peer has a process of its own, which loads a workload, checks its results against ours, and takes turns."""

import importlib
import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

from workload import Runs, Workload, check

# The modules of the peers; what a module imports may not be installed.
MODULES = {"JAX": "jax_peer", "PyTorch": "torch_peer", "SciPy": "scipy_peer", "CasADi": "casadi_peer"}

# As in bench/kernels/peers.rs: a turn takes as many calls as fit into so many seconds.
TURN = 0.02


def turn(run: Callable[[], object]) -> float:
    """The processor time of a call, as a mean of many, after one that warms up, in seconds.

    It is that of all threads of this process; what else runs on the machine is not counted.
    """
    run()
    start, calls = time.process_time(), 0
    while True:
        run()
        calls += 1
        spent = time.process_time() - start
        if spent >= TURN:
            return spent / calls


def serve(connection: Connection, module: str) -> None:
    """Answers a path with the largest error of the results of that workload, and the number of a run with its time, until told to stop."""
    try:
        peer = importlib.import_module(module)
    except ImportError as error:
        connection.send(error)
        return
    connection.send(peer.VERSION)
    runs: Runs | None = None
    while (request := connection.recv()) is not None:
        try:
            if isinstance(request, str):
                runs = None
                workload = Workload.read(request)
                runs = getattr(peer, workload.program)(workload)
                connection.send(check(workload, runs))
            else:
                connection.send(turn(runs[request]))
        except Exception as error:
            connection.send(RuntimeError(f"{type(error).__name__}: {error}"))


class Peer:
    """The other end of the process."""

    def __init__(self, name: str, patience: float) -> None:
        self.name = name
        self.patience = patience
        self.start()

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, end = context.Pipe()
        self.process = context.Process(target=serve, args=(end, MODULES[self.name]), daemon=True)
        self.process.start()
        end.close()
        # Raises if the peer is not installed.
        self.version = self.answer()

    def ask(self, request: str | int):
        """A peer that takes too long, or dies, is started anew for the next workload."""
        self.connection.send(request)
        try:
            return self.answer()
        except (TimeoutError, EOFError) as error:
            self.process.kill()
            self.process.join()
            self.start()
            raise RuntimeError(str(error) or "its process died") from error

    def answer(self):
        if not self.connection.poll(self.patience):
            raise TimeoutError(f"no answer in {self.patience:.0f} s")
        answer = self.connection.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stop(self) -> None:
        self.connection.send(None)
        self.process.join()
