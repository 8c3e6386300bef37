"""The command line that does the same as a dialog."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rsmq_tui.monitor.filters.language import is_pattern
from rsmq_tui.monitor.text import printable
from rsmq_tui.protocol.keys import DEFAULT_NS
from rsmq_tui.protocol.kinds import kind_of
from rsmq_tui.triage import actions
from rsmq_tui.triage.actions import reference, target_reference
from rsmq_tui.triage.scope import Marked, Matching, Named, Preview, Scope
from rsmq_tui.triage.several import previews_in
from rsmq_tui.tui.widgets.base_screen import BaseScreen
from rsmq_tui.tui.widgets.controls import copy_text

# With more ids than this, or a longer body, a command is too long to be pasted.
_IDS_MAX = 50
_BODY_BYTES_MAX = 2_000
# An id that a filter can name as it is.
_ID_FORM = re.compile(r"[0-9A-Za-z:]+")


class NoCommandError(ValueError):
    """There is no command for this change; its text says why, or what to do instead."""


def copy_command(screen: BaseScreen[Any], make: Callable[[], str], what: str = "the command") -> None:
    """Copy a command and show it, or why there is none."""
    try:
        command = make()
    except NoCommandError as error:
        screen.warn(str(error))
    else:
        copy_text(screen.app, command, what, shown=True)


def command_of(preview: Preview) -> str:
    """Return the command, quoted for a POSIX shell, without ``--yes``; raises ``NoCommandError``.

    For several queues there is a line for each. A marked message is named by its id: the command previews it in its
    state at that time.
    """
    return "\n".join(map(_line_of, previews_in(preview)))


def _line_of(preview: Preview) -> str:
    action = preview.action
    options = _options_of(action, preview.ns)
    if action.is_scoped or (isinstance(action, actions.Undo) and action.part is not None):
        options += _scope_words(preview.scope)
    options += _server_words(preview.server, preview.ns, preview.profile)
    line = _joined(["rsmq-tui", *action.command.split()], _arguments_of(action, preview.ns), options)
    if action.is_scoped:
        _refuse_pattern(action.queue)
    return line


def export_command(path: Path, queue: str, scope: Scope | None, *, server: str, ns: str, profile: str) -> str:
    """Return the command that exports the same messages of a queue; raises ``NoCommandError``."""
    options = ["--output", str(path), *_server_words(server, ns, profile)]
    match scope:
        case Marked(messages=messages):
            ids = [message.id for message in messages]
            if len(ids) > _IDS_MAX or not all(map(_ID_FORM.fullmatch, ids)):
                raise NoCommandError("a command cannot name these messages: it exports what matches a filter, or all")
            options = ["--filter", f"id~^({'|'.join(ids)})$" if len(ids) > 1 else f"id={ids[0]}", *options]
        case Matching(filter=wanted) if not wanted.is_empty:
            options = ["--filter", wanted.text.strip(), *options]
    line = _joined(["rsmq-tui", "messages", "export"], [reference(queue, ns)], options)
    _refuse_pattern(queue)
    return line


def save_command(queue: str, id: str, *, server: str, ns: str, profile: str) -> str:
    """Return the command that saves the body of a message; raises ``NoCommandError``."""
    named = [reference(queue, ns), id]
    line = _joined(["rsmq-tui", "messages", "get", "--raw"], named, _server_words(server, ns, profile))
    _refuse_pattern(queue)
    return f"{line} > body.bin"


def known_command(queue: str, note: str, until: str | None, *, server: str, ns: str, profile: str) -> str:
    """Return the command that acknowledges a queue's trouble, or without ``until`` the one that ends this.

    Raises ``NoCommandError``.
    """
    options = [] if until is None else ["--note", note, "--until", until]
    verb = "remove" if until is None else "add"
    return _joined(["rsmq-tui", "known", verb], [reference(queue, ns)], [*options, *_server_words(server, ns, profile)])


def _joined(words: list[str], named: list[str], options: list[str]) -> str:
    # After --, a name may begin with a dash.
    is_option = any(word.startswith("-") for word in named)
    words = [*words, *options, "--", *named] if is_option else [*words, *named, *options]
    if any(printable(word) != word for word in words):
        raise NoCommandError("a name or text here has characters that cannot be typed")
    return shlex.join(words)


def _refuse_pattern(queue: str) -> None:
    if is_pattern(queue):
        raise NoCommandError("a command would read the name of the queue as a pattern of several queues")


def _options_of(action: actions.Action, ns: str) -> list[str]:
    if isinstance(action, actions.Fix):
        kinds = (words for kind in sorted(action.kinds) for words in ("--kind", kind.value))
        return ["--queue", reference(action.queue, ns), *kinds]
    return [word for field, option in action.options for word in _option(field, option, getattr(action, field), ns)]


def _option(field: str, option: str, value: object, ns: str) -> list[str]:
    if isinstance(value, bool):
        return [option] if value else []
    if field == "target" and isinstance(value, str):
        value = target_reference(value, ns)
    return _given(option, f"{value}s" if field == "seconds" else value)


def _arguments_of(action: actions.Action, ns: str) -> list[str]:
    named = reference(action.queue, ns)
    match action:
        case actions.Undo(change=change):
            return [str(change)]
        case actions.Fix():
            return []
        case actions.Send(bodies=bodies):
            if sum(map(len, bodies)) > _BODY_BYTES_MAX:
                raise NoCommandError("the body is too long for a command: rsmq-tui messages send --file sends a file")
            return [named, *(body.decode("utf-8", "surrogateescape") for body in bodies)]
        case actions.Import(path=path):
            return [named, str(path)]
    return [named]


def _scope_words(scope: Scope | None) -> list[str]:
    match scope:
        case Marked(messages=messages, even_if_received=is_any):
            return _ids([message.id for message in messages], is_any=is_any)
        case Named(ids=ids, even_if_received=is_any):
            return _ids(list(ids), is_any=is_any)
        case Matching(filter=wanted, limit=limit, even_if_received=is_any) if not wanted.is_empty:
            also = ["--even-if-received"] if is_any else []
            return ["--filter", wanted.text.strip(), *_given("--limit", limit), *also]
        case Matching(limit=limit):
            return ["--all", *_given("--limit", limit)]
    return ["--all"]


def _ids(ids: list[str], *, is_any: bool) -> list[str]:
    if len(ids) > _IDS_MAX:
        raise NoCommandError(f"more than {_IDS_MAX} messages are marked: a filter can be copied as a command")
    if any(id.startswith("-") for id in ids):
        raise NoCommandError("a command would read the id of a message as an option")
    return ["--id", *ids, *(["--even-if-received"] if is_any else [])]


def _server_words(server: str, ns: str, profile: str) -> list[str]:
    """Return the options that name the server; its password is not among them."""
    words = ["--profile", profile] if profile else ["-r", server]
    is_usual = not kind_of(ns).has_namespaces or (ns == DEFAULT_NS and not profile)
    return words if is_usual else [*words, "--ns", ns]


def _given(name: str, value: object) -> list[str]:
    return [] if value is None else [name, str(value)]
