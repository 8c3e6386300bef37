"""What ends a run of the pipeline before its time, in a sentence that says what to do next."""


class PipelineError(Exception):
    """A run that cannot begin, or cannot go on; its text is one sentence."""


class NotInstalledError(PipelineError):
    """Something that has to be installed first."""


class StoppedError(Exception):
    """A run that was asked to end; the tables are those of the previous run."""
