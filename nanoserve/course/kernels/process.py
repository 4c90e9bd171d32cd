"""Jobs for another process: each is done in a fork of a server that stands ready, and can be stopped at any time."""

import atexit
import io
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import torch

_START = 60  # seconds that a server may take to come up on a busy machine
_GRACE = 3  # seconds that a child has left to end by itself when its time is up


class ProcessDied(Exception):
    """A job's process ended without an answer."""


class Server:
    """A process that forks a child for each job.

    Args:
        module: what its children run; see `server.main`.
        environment: variables that must be set before that module is imported.
    """

    def __init__(self, module: str, environment: dict[str, str]) -> None:
        self._control, theirs = socket.socketpair()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "nanoserve.course.kernels.server", str(theirs.fileno()), module],
            env=os.environ | environment | {"PYTHONPATH": paths, "CUDA_VISIBLE_DEVICES": ""},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,  # the notebook's interrupt is not for it
        )
        theirs.close()
        self._owner, self._greeting = os.getpid(), ""
        atexit.register(self.close)

    def greeting(self) -> str:
        """What the canary said, once the server is up; "" when all is well.

        Raises:
            RuntimeError: it did not come up; the message ends with the last thing that it printed.
        """
        if not self._greeting:
            self._control.settimeout(_START)
            self._greeting = self._control.recv(4096).decode()
            self._control.settimeout(None)
            if not self._greeting:
                self._log.seek(0)
                last = self._log.read().decode(errors="replace").strip().splitlines()[-1:]
                raise RuntimeError(f"the process for kernels did not start: {' '.join(last)}")
        return "" if self._greeting == "ready" else self._greeting

    def do(self, job: Any, seconds: float) -> Any:
        """The answer to a job, from a new process.

        Raises:
            TimeoutError: there was none after so many seconds; its process has been ended.
            ProcessDied: its process ended before that.
            RuntimeError: see `greeting`.
        """
        if sentence := self.greeting():
            raise RuntimeError(sentence)
        if self._process.poll() is not None:
            raise RuntimeError("the process for kernels has ended; restart the notebook's kernel to have a new one")
        request = io.BytesIO()
        torch.save(job, request)
        ours, theirs = socket.socketpair()
        socket.send_fds(self._control, [b"."], [theirs.fileno()])
        theirs.close()
        with Connection(ours.detach()) as connection:
            child = 0
            try:
                child = int(connection.recv_bytes())
                connection.send_bytes(request.getbuffer())
                end = time.monotonic() + seconds + _GRACE
                while not connection.poll(0.1):  # in small steps, so that whoever waits can be interrupted
                    if time.monotonic() > end:
                        raise TimeoutError
                return torch.load(io.BytesIO(connection.recv_bytes()), weights_only=False)
            except (EOFError, ConnectionError):
                raise ProcessDied from None
            except BaseException:  # an interrupt, or the end of a check's time: nobody waits for the answer any more
                if child:
                    with suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)
                raise

    def close(self) -> None:
        """End the server; children that still work end with their jobs."""
        self._control.close()
        if os.getpid() == self._owner:
            self._process.wait()
