"""Calls of samples/stepc.py that have to be refused."""
import stepc


def refused(what, text, call):
    """`call` raises an exception of the type `what`, or a StepError of that status, with `text` in its message."""
    kind, status = (stepc.StepError, what) if isinstance(what, int) else (what, None)
    try:
        call()
    except kind as e:
        assert status in (None, getattr(e, "status", None)) and text in str(e), (what, text, str(e))
        return
    raise AssertionError("not refused: " + text)
