"""How states look: a sign and a word, then a colour token. Signs have an ASCII form for poor terminals."""

from rsmq_tui.monitor import MessageState, Verdict

_VERDICTS = {
    Verdict.BROKEN: ("✗", "X"),
    Verdict.STALLED: ("■", "#"),
    Verdict.LEAKING: ("▼", "v"),
    Verdict.GROWING: ("▲", "^"),
    Verdict.POISONED: ("☣", "!"),
    Verdict.AGED: ("◷", "@"),
    Verdict.WATCHING: ("○", "."),
    Verdict.OK: ("●", "o"),
}
MEANINGS = {
    Verdict.BROKEN: "its keys disagree or hold wrong types, or messages have no body",
    Verdict.STALLED: "messages are ready and nobody receives them",
    Verdict.LEAKING: "leases of a list expired and nobody returns the items",
    Verdict.GROWING: "arrivals exceed deletes",
    Verdict.POISONED: "messages are received again and again",
    Verdict.AGED: "the first ready message has been due for too long",
    Verdict.WATCHING: "too early to tell whether something is wrong",
    Verdict.OK: "nothing is wrong",
}
MESSAGE_TOKENS = {
    MessageState.READY: "ready",
    MessageState.IN_FLIGHT: "hidden",
    MessageState.DELAYED: "muted",
    MessageState.EXPIRED: "alarm",
    MessageState.UNLEASED: "verdict-aged",
}


def sign(verdict: Verdict, ascii_only: bool) -> str:
    """Return a verdict's sign."""
    return _VERDICTS[verdict][ascii_only]


def verdict_words(verdict: Verdict, ascii_only: bool) -> str:
    """Return a verdict's sign and word."""
    return f"{sign(verdict, ascii_only)} {verdict.value}"
