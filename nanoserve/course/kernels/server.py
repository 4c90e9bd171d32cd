"""A process that has imported what a child needs and forks one for each job: a fresh process in milliseconds.

python -m nanoserve.course.kernels.server FD MODULE
"""

import io
import os
import resource
import signal
import socket
import sys
from importlib import import_module
from multiprocessing.connection import Connection

import torch

_CPU_SECONDS = 120  # of a child that its parent can no longer stop


def main(fd: int, module: str) -> None:
    """Fork a child for each connection that comes over the socket `fd`, until that is closed at its other end.

    Args:
        fd: a Unix socket.
        module: has `answer(job)`, which a child calls, and `canary()`, whose sentence goes back first.
    """
    torch.set_num_threads(1)  # a fork takes one thread along, and no other
    work = import_module(module)
    control = socket.socket(fileno=fd)
    control.sendall((work.canary() or "ready").encode())
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, [*connections], _, _ = socket.recv_fds(control, 1, 1)
        if not message:
            return
        if os.fork() == 0:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
            _serve(Connection(connections[0]), work.answer)
            os._exit(0)
        os.close(connections[0])


def _serve(connection: Connection, answer: object) -> None:
    connection.send_bytes(str(os.getpid()).encode())
    job = torch.load(io.BytesIO(connection.recv_bytes()), weights_only=False)
    reply = io.BytesIO()
    torch.save(answer(job), reply)  # tensors that share their memory still do so on the other side
    connection.send_bytes(reply.getbuffer())


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
