"""What each action says of itself: names, words, and its command, which has the options of its fields."""

from collections.abc import Iterator
from dataclasses import fields

import pytest

from rsmq_tui.cli.commands import messages, queues
from rsmq_tui.protocol.kinds import KINDS
from rsmq_tui.triage import actions
from rsmq_tui.triage.actions import Action, UnknownAction, action_named
from rsmq_tui.triage.scope import Preview

GROUPS = {"messages": messages.command, "queues": queues.command}


def actions_below(base: type[Action]) -> Iterator[type[Action]]:
    """Yield the actions that are made, with their forms for list queues."""
    for action in base.__subclasses__():
        if hasattr(action, "name"):
            yield action
        yield from actions_below(action)


ALL = list(actions_below(Action))


@pytest.mark.parametrize("action", ALL)
def test_an_action_has_its_words(action: type[Action]) -> None:
    assert all((action.verb, action.does, action.doing, action.command))
    # What an undo does depends on the change that it undoes.
    assert issubclass(action, actions.Undo) or action.done_word
    assert issubclass(action, action_named(action.name))


@pytest.mark.parametrize("action", ALL)
def test_the_command_of_an_action_has_the_options_of_its_fields(action: type[Action]) -> None:
    assert {field for field, _ in action.options} <= {field.name for field in fields(action)}
    group, _, name = action.command.partition(" ")
    if group in GROUPS:
        known = {option for param in GROUPS[group].commands[name].params for option in param.opts}
        assert {option for _, option in action.options} <= known
        assert ("--filter" in known) is action.is_scoped


@pytest.mark.parametrize(
    ("action", "label"),
    [
        (actions.Hide(queue="a", seconds=5), "in"), (actions.Release(queue="a"), "in"),
        (actions.Send(queue="a", bodies=(b"x",)), "in"), (actions.Delete(queue="a"), "from"),
        (actions.Purge(queue="a"), "from"), (actions.Move(queue="a", target="b"), "from"),
        (actions.Copy(queue="a", target="b"), "from"), (actions.Redrive(queue="a"), "from"),
    ],
)  # fmt: skip
def test_a_preview_says_in_which_queue_messages_stay_and_from_which_they_go(action: Action, label: str) -> None:
    assert Preview(action, "all", "redis://a", "rsmq", "", 0, 1).rows[0][0] == label


def test_what_screens_offer_has_a_name() -> None:
    # A retry is the last action again.
    offered = {name for kind in KINDS.values() for name in kind.actions} - {"retry"}
    assert all(action_named(name) is not UnknownAction for name in offered)
    assert action_named("extend") is actions.ExtendLease
    assert action_named("hide") is actions.Hide
    assert action_named("snooze") is UnknownAction
