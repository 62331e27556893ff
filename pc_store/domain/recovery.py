"""What follows a failed window: another try, a smaller window, or one source set aside.

A failure that says nothing of the input (network, rate limit, wrong key, lost race) is only
ever retried. One that may lie in the input leads, after some attempts, to a window half the
size, and at one source to quarantine, so that nothing blocks and nothing is lost. A model that
is silent for everybody must not empty a log into quarantine: a source is set aside for silence
only when the same model has answered another window since.
"""

from typing import Literal

Step = Literal["retry", "split", "quarantine"]


def next_step(
    *,
    counted_failures: int,
    max_attempts: int,
    size: int,
    answered: bool,
    others_answered_since: bool,
) -> Step:
    """Decide what follows the latest failure.

    Args:
        counted_failures: failures of this window that may lie in the input, this one included
            if it does; 0 when this one does not.
        max_attempts: how many of them are allowed.
        size: positions in the window.
        answered: the model did answer, badly, so it is alive.
        others_answered_since: it answered another window after this one first failed.
    """
    if counted_failures < max_attempts:
        return "retry"
    if size > 1:
        return "split"
    return "quarantine" if answered or others_answered_since else "retry"
