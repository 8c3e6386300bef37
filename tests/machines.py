"""State machines of Hypothesis that a function makes."""

from collections.abc import Callable
from typing import cast

import hypothesis
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test


def run_machine(make: Callable[[], RuleBasedStateMachine], settings: hypothesis.settings) -> None:
    """Run what ``make`` returns, which Hypothesis takes as it takes a class, and does not declare."""
    run_state_machine_as_test(cast("type[RuleBasedStateMachine]", make), settings=settings)
