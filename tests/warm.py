"""Python processes that start with everything imported.

A fresh process needs several seconds to import torch and its companions before a test begins. Here one process imports
them once and waits; whoever needs a process of its own asks for a copy of it, by `fork`. A copy has its own number,
folder, environment and streams, takes signals, and ends as every process does; it only skips the imports. Tests about
starting itself (what is imported, the installed command, `python -m`) use `subprocess`. So does everything outside of
Linux, where libraries do not always survive a fork.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path

_NUMBER = struct.Struct("!q")


class Popen(subprocess.Popen):
    """`subprocess.Popen` of Python with arguments such as `["-m", "firstlight", "doctor"]`."""

    def __init__(self, arguments, **options):
        super().__init__([sys.executable, *map(str, arguments)], **options)

    if sys.platform == "linux":

        def _execute_child(self, args, *rest):
            names = subprocess.Popen._execute_child.__code__.co_varnames[2:]
            given = dict(zip(names, rest, strict=False))
            order = {
                "arguments": args[1:],
                "cwd": os.path.abspath(given["cwd"] or os.getcwd()),
                "env": dict(os.environ if given["env"] is None else given["env"]),
                "new_session": given["start_new_session"],
            }
            ours = {"p2cread": 0, "c2pwrite": 1, "errwrite": 2}
            streams = [given[name] if given[name] != -1 else number for name, number in ours.items()]
            self._answers = socket.socket(socket.AF_UNIX)
            self._answers.connect(_waiting())
            body = json.dumps(order).encode()
            socket.send_fds(self._answers, [_NUMBER.pack(len(body))], streams)
            self._answers.sendall(body)
            (self.pid,) = _NUMBER.unpack(_received(self._answers, _NUMBER.size))
            self._child_created = True
            pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
            self._close_pipe_fds(*(given[name] for name in pipes))

        def _try_wait(self, wait_flags):
            if wait_flags & os.WNOHANG and not select.select([self._answers], [], [], 0)[0]:
                return 0, 0
            (status,) = _NUMBER.unpack(_received(self._answers, _NUMBER.size))
            self._answers.close()
            return self.pid, status

        def _internal_poll(self, _deadstate=None, **_):
            if self.returncode is None:
                with self._waitpid_lock:
                    if self.returncode is None:
                        pid, status = self._try_wait(os.WNOHANG)
                        if pid:
                            self._handle_exitstatus(status)
            return self.returncode


def run(arguments, *, input=None, timeout=None, **options):
    """`subprocess.run` of Python, with its output as text."""
    pipe = subprocess.PIPE
    stdin = None if input is None else pipe
    with Popen(arguments, stdin=stdin, stdout=pipe, stderr=pipe, text=True, **options) as process:
        try:
            out, err = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@cache
def _waiting() -> str:
    """Start the process that waits, once, and return where it listens; it ends when its standard input does."""
    place = f"{tempfile.mkdtemp(prefix='warm-')}/socket"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # threads do not survive a fork
    # its path is that of a script in tests, with src before it as the tests have it
    source = str(Path(importlib.import_module("firstlight").__file__).parents[1])
    environment["PYTHONPATH"] = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        [sys.executable, __file__, place],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout.readline() == "ready\n"

    def end():
        process.stdin.close()
        process.wait()

    atexit.register(end)
    return place


def _received(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        assert part, "the waiting process is gone"
        parts += part
    return bytes(parts)


# ---------------------------------------------------------------- the process that waits


def _serve(place: str) -> dict:
    """Fork for everyone who asks; returns in the copies only, with what they are to do."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(place)
    listener.listen()
    os.write(1, b"ready\n")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    while True:
        asked = listener in select.select([listener, sys.stdin], [], [])[0]
        with suppress(ChildProcessError):  # the time they took is then counted as that of the tests
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not asked:
            Path(place).unlink()
            Path(place).parent.rmdir()
            os._exit(0)
        connection, _ = listener.accept()
        if os.fork():
            connection.close()
            continue
        listener.close()
        head, streams, _, _ = socket.recv_fds(connection, _NUMBER.size, 3)
        order = json.loads(_received(connection, *_NUMBER.unpack(head)))
        copy = os.fork()
        if not copy:
            connection.close()
            return order | {"streams": streams}
        for stream in streams:
            os.close(stream)
        for stream in range(3):  # else whoever reads what the copy says would wait for this process too
            os.dup2(os.open(os.devnull, os.O_RDWR), stream)
        with suppress(BrokenPipeError):
            connection.sendall(_NUMBER.pack(copy))
            connection.sendall(_NUMBER.pack(os.waitpid(copy, 0)[1]))
        os._exit(0)


def _become(order: dict) -> None:
    """Look like a fresh process, and run what it would run."""
    if order["new_session"]:
        os.setsid()
    for number, stream in enumerate(order["streams"]):
        os.dup2(stream, number)
        os.close(stream)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    tempfile.tempdir = None
    _look_in([place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place])
    kind, *words = order["arguments"]
    if kind == "-c":
        code, *words = words
        sys.argv, sys.path[0] = ["-c", *words], ""
        main = sys.modules["__main__"] = type(sys)("__main__")
        exec(compile(code, "<string>", "exec"), main.__dict__)
    elif kind == "-m":
        name, *words = words
        sys.argv, sys.path[0] = [name, *words], order["cwd"]
        if not hasattr(sys.modules.get(name), "__path__"):
            sys.modules.pop(name, None)  # a module that is run is not one that was imported
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = [kind, *words], str(Path(kind).parent)
        runpy.run_path(kind, run_name="__main__")


def _look_in(places: list[str]) -> None:
    """Put folders on the path, and forget what was imported of firstlight if they hold another one."""
    sys.path[1:1] = places
    found = PathFinder.find_spec("firstlight", places)
    if found and not Path(found.origin).samefile(sys.modules["firstlight"].__file__):
        for name in [name for name in sys.modules if name.split(".")[0] == "firstlight"]:
            del sys.modules[name]


def import_all() -> None:
    for package in ("firstlight.cli", "firstlight.pages", "firstlight.questions.tour"):
        module = importlib.import_module(package)
        for part in pkgutil.iter_modules(module.__path__):
            importlib.import_module(f"{package}.{part.name}")
    for name in ("numba", "pandas", "PIL.Image", "sklearn.linear_model", "scipy.stats"):
        importlib.import_module(name)
    sys.modules["firstlight.data"].load("photos", n=1)  # cut out once, in two seconds
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    import_all()
    _become(_serve(sys.argv[1]))
