"""Records what the queue screen asks of the app, instead of doing it."""

from dataclasses import dataclass, field

import pytest

from rsmq_tui.triage.scope import Scope
from rsmq_tui.tui.changes.controller import ChangeController
from rsmq_tui.tui.servers import WatchedServer


@dataclass
class Asked:
    """The requests, the last at the end."""

    changes: list[tuple[str, str, Scope | None, bytes | None]] = field(default_factory=list)
    undone: list[str | None] = field(default_factory=list)
    exported: list[tuple[str, Scope | None]] = field(default_factory=list)

    @property
    def scope(self) -> Scope | None:
        """The scope of the last requested change."""
        return self.changes[-1][2]


def keep_what_is_asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Accept requests for changes, and record them."""
    asked = Asked()

    def ask(
        changes: ChangeController,
        server: WatchedServer,
        name: str,
        queue: str,
        scope: Scope | None = None,
        *,
        body: bytes | None = None,
        about: str = "",
    ) -> bool:
        asked.changes.append((name, queue, scope, body))
        return True

    monkeypatch.setattr(WatchedServer, "can_change", property(lambda server: True))
    monkeypatch.setattr(ChangeController, "ask", ask)
    monkeypatch.setattr(ChangeController, "undo", lambda changes, server, queue: asked.undone.append(queue))
    monkeypatch.setattr(
        ChangeController, "export", lambda changes, server, queue, scope: asked.exported.append((queue, scope))
    )
    return asked
