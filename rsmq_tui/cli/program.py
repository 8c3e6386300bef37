"""Runs a program, from its arguments to its exit status, whatever goes wrong."""

import atexit
import errno
import gc
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from io import StringIO
from threading import RLock
from types import ModuleType
from typing import Any, TextIO

from rsmq_tui import __version__
from rsmq_tui.cli.errors import EXIT_DEFECT, EXIT_INTERRUPTED, EXIT_PIPE_CLOSED, EXIT_USAGE, UsageError

# The packages of redis-py import all of it, of which a poll needs a third. The last one parses mail, to find out the
# version of redis-py.
_DEFERRED = ("redis", "redis.asyncio", "importlib.metadata")
# Errors of a disk: the output cannot be written.
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def run_program(name: str, module: str, arguments: Sequence[str] | None, exit_unwritable: int) -> int:
    """Run one command of the program in a module and return its exit status; errors are printed on stderr.

    ``exit_unwritable`` is the status for output that cannot be written.
    """
    if sys.stderr is None:
        # Otherwise errors would be printed on stdout, and the first file that is opened would be stderr of C libraries.
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - it stays open
    if sys.stdout is None:
        # What is done must be told: a message that is received or popped would be lost.
        print(f"{name}: standard output is closed: nothing was done", file=sys.stderr)
        return exit_unwritable
    if arguments is not None:
        return _run(name, module, list(arguments), exit_unwritable)
    statuses: list[int] = []
    # The handler that is registered first is called last.
    atexit.register(_end_beside_threads, statuses)
    statuses.append(_run(name, module, sys.argv[1:], exit_unwritable))
    try:
        sys.stderr.flush()
    except OSError:
        # The terminal was closed: trying once more would make the exit status 120.
        _silence(sys.stderr)
    return statuses[0]


def _end_beside_threads(statuses: list[int]) -> None:
    """End the process at once if it has daemon threads, such as a search that was given up.

    Python ends each by unwinding its stack when it next wants the interpreter; through the C++ of a regex, that is an
    abort of the process.
    """
    # If there is such a thread, the module was imported; --version runs without it.
    threading = sys.modules.get("threading")
    if threading and statuses and any(thread.daemon for thread in threading.enumerate()):
        os._exit(statuses[0])


def _run(name: str, module: str, given: list[str], exit_unwritable: int) -> int:
    try:
        if given == ["--version"]:
            # Printed before anything is imported.
            print(f"{name} {__version__}")
            status = 0
        else:
            status = _invoked(name, module, given)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # The reader of the output has closed the pipe.
        _silence(sys.stdout)
        return EXIT_PIPE_CLOSED
    except UsageError as error:
        # It may quote names from the server, and have several lines.
        print(_printable_lines(f"{name}: {error}"), file=sys.stderr)
        return EXIT_USAGE
    except OSError as error:
        if error.errno not in UNWRITABLE:
            return _report_defect(name, error)
        _silence(sys.stdout)
        print(f"{name}: the output cannot be written: {error.strerror}", file=sys.stderr)
        return exit_unwritable
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:  # the last chance to report it: Python would print what the error quotes
        return _report_defect(name, error)


def _invoked(name: str, module: str, arguments: list[str]) -> int:
    defer(*_DEFERRED)
    program = load(module).command
    import click  # noqa: PLC0415 - it takes longer than all that --version needs

    if instruction := os.environ.get(completion_variable(name)):
        # Only a shell asks for it.
        return int(load("rsmq_tui.cli.commands.completion").complete(program, name, instruction))
    try:
        with program.make_context(name, arguments) as ctx:
            return int(program.invoke(ctx) or 0)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        # The help itself, which quotes nothing.
        print(error.format_message(), file=sys.stderr)
        return EXIT_USAGE
    except click.UsageError as error:
        text = StringIO()
        error.show(text)
        print(error_words(text.getvalue()), file=sys.stderr)
        return EXIT_USAGE


def load(module: str) -> Any:
    """Import a module of a command."""
    # Imports create no garbage: collecting it would cost a seventh of the start-up time.
    gc.disable()
    try:
        return import_module(module)
    finally:
        gc.freeze()
        gc.enable()


def completion_variable(name: str) -> str:
    """Return the environment variable by which a shell requests completions from a program."""
    return f"_{name.replace('-', '_').upper()}_COMPLETE"


def error_words(text: str) -> str:
    """Return click's message for an error, printable, and without a URL, which may contain a password."""
    shown = re.sub(r"[^\s'(]*(?:://|@)[^\s')]*", "(a URL)", text).rstrip()
    if re.search(r"(command '|argument \()\(a URL\)", shown):
        shown += "\nThe URL of a server is the value of an option: -r URL"
    return _printable_lines(shown.expandtabs(2))


def _printable_lines(text: str) -> str:
    # Imported here, because only errors need it.
    from rsmq_tui.monitor.text import printable  # noqa: PLC0415

    return "\n".join(map(printable, text.splitlines()))


def _silence(stream: TextIO) -> None:
    # Python would try once more to write the rest when it ends.
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _report_defect(program: str, error: Exception) -> int:
    """Print on stderr where the program itself failed, without what the error quotes; return the exit status."""
    # Imported only now: a usage error needs neither.
    import traceback  # noqa: PLC0415

    from rsmq_tui.protocol.errors import defect_of  # noqa: PLC0415

    print("".join(traceback.format_tb(error.__traceback__)), end="", file=sys.stderr)
    print(f"{program}: {defect_of(error).sentence}: please report it, with the lines above", file=sys.stderr)
    return EXIT_DEFECT


_executing = RLock()


class _Deferred(ModuleType):
    """A module that was not executed yet, although its submodules can be imported."""

    def __getattr__(self, name: str) -> Any:
        """Return a submodule; for any other name, execute the module."""
        qualified = f"{self.__name__}.{name}"
        if "__path__" in vars(self) and not name.startswith("__") and find_spec(qualified) is not None:
            return import_module(qualified)
        with _executing:
            if type(self) is _Deferred:
                self._execute(name)
        return getattr(self, name)

    def _execute(self, name: str) -> None:
        spec = self.__spec__
        if spec is None or spec.loader is None or "_is_begun" in vars(self):
            # It asks for a name that it does not have yet. Only the thread that executes it gets here: others wait.
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self)
        vars(self)["_is_begun"] = True
        try:
            spec.loader.exec_module(self)
        finally:
            del vars(self)["_is_begun"]
        self.__class__ = ModuleType  # type: ignore[assignment] # an ordinary one from now on


def defer(*names: str) -> None:
    """Let modules be executed on first use, each after the package that it is in; one that is imported stays as it is.

    ``import a.b`` does not execute ``a`` then, and ``from a import c`` only if ``c`` is no module of ``a``.
    """
    for name in names:
        spec = None if name in sys.modules else find_spec(name)
        if spec is None:
            continue
        module = sys.modules[name] = module_from_spec(spec)
        module.__class__ = _Deferred
        package, _, own = name.rpartition(".")
        if package:
            setattr(sys.modules[package], own, module)
