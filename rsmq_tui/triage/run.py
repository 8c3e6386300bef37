"""One change being made, as whoever asked for it sees it: its progress, a way to end it, its report."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from typing import Any

from rsmq_tui.triage.preparing import Prepared
from rsmq_tui.triage.previews import Preview
from rsmq_tui.triage.reports import Report, Tally
from rsmq_tui.triage.running import Runner
from rsmq_tui.triage.words import EXPECTED, TriageError, told

_Steps = Callable[[Preview], Coroutine[Any, Any, tuple[Runner, AsyncGenerator[Prepared, None]]]]
_Finished = Callable[[Runner], Coroutine[Any, Any, None]]


class Run:
    """One change being made: iterate for the tally after each group of batches; afterwards there is a ``report``.

    ``cancel`` ends it soon, with everything told and undoable that was done by then.
    """

    def __init__(self, preview: Preview, steps: _Steps, finished: _Finished) -> None:
        self.preview = preview
        self.report: Report | None = None
        self._steps, self._finished = steps, finished
        self._runner: Runner | None = None
        self._cancelled = False

    def cancel(self) -> None:
        """Ask to end soon."""
        self._cancelled = True
        if self._runner is not None:
            self._runner.stop()

    async def __aiter__(self) -> AsyncIterator[Tally]:
        preview = self.preview
        try:
            self._runner, steps = await self._steps(preview)
        except EXPECTED as error:
            preview.close()
            raise TriageError(told(error)) from error
        except BaseException:
            preview.close()
            raise
        runner = self._runner
        if self._cancelled:
            runner.stop()
        try:
            async for tally in runner.run(steps):
                yield tally
            await self._finished(runner)
        except EXPECTED as error:
            runner.fail(error)
        finally:
            preview.close()
            runner.leave()
        action = preview.action
        change = runner.change if runner.is_kept else None
        self.report = Report(action.name, action.past, action.queue, runner.tally, change, runner.stopped)

    async def to_end(self) -> Report:
        """Run without looking at the progress."""
        async for _ in self:
            pass
        if self.report is None:
            raise RuntimeError("a run without an end")
        return self.report
