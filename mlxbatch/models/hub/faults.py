"""What goes wrong with the hub: which faults may pass and are waited for, and what the user is told of the others."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from mlxbatch.errors import MlxBatchError, NotHere, SetupError, show
from mlxbatch.models.hub.wanted import Wanted
from mlxbatch.models.one_fetch import Say as Say  # for who waits with `patiently`

Done = TypeVar("Done")

# Seconds before another attempt, after one that failed for a cause that may pass.
WAITS = (1.0, 2.0, 4.0)
PASSING = frozenset({408, 429, 500, 502, 503, 504})
AGAIN = "fetch it again with `mlxbatch models pull`"
_LOG_IN = "log in with `hf auth login`, or set HF_TOKEN"


def patiently(action: Callable[[], Done], what: object, say: Say) -> Done:
    """Do it; after a failure that may pass, wait and do it again, at most `len(WAITS)` times."""
    for wait in WAITS:
        try:
            return action()
        except Exception as error:
            if not may_pass(error):
                raise
            say(f"{what}: {first_line(error)}; trying again in {wait:g} s")
        time.sleep(wait)
    return action()


def may_pass(error: Exception) -> bool:
    """Whether it is the network's or the server's fault; not what the hub decides, and nothing on this machine.

    Nor a stop: signals arrive as errors of ours.
    """
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    if isinstance(error, HfHubHTTPError):
        return _status(error) in PASSING
    if isinstance(error, LocalEntryNotFoundError):  # how the library says that the server did not answer
        return True
    # The errors of its HTTP library, which it has changed before, come through as they are: they are what is left.
    return not of_the_disk(error) and not isinstance(error, MlxBatchError | ValueError | TypeError | AttributeError)


def of_the_disk(error: Exception) -> bool:
    """Whether reading or writing here failed: an OSError of the system's that no connection made."""
    return isinstance(error, OSError) and error.errno is not None and not isinstance(error, ConnectionError)


def refusal(wanted: Wanted, error: Exception) -> Exception:
    """The error to raise where the hub does not give a model: why, and what to do, in one line.

    A stop, and what the disk says, stay what they are.
    """
    return error if of_the_disk(error) or isinstance(error, MlxBatchError) else SetupError(_why_not(wanted, error))


def _why_not(wanted: Wanted, error: Exception) -> str:
    from huggingface_hub import constants, errors

    if isinstance(error, errors.GatedRepoError):
        page = f"{constants.ENDPOINT}/{wanted.repo}"
        return f"{wanted}: the hub gives it only to those who accept its terms: do so at {page}, then {_LOG_IN}"
    if isinstance(error, errors.RevisionNotFoundError):
        return f"{wanted}: the model is on the hub, but has no revision '{show(wanted.revision or 'main')}'"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"{wanted}: no such model on the hub; if it is a private one, {_LOG_IN}"
    if isinstance(error, errors.HfHubHTTPError) and _status(error) in (401, 403):
        return f"{wanted}: the hub does not give it to this account (HTTP {_status(error)}): {_LOG_IN}"
    if may_pass(error):
        return f"{wanted}: the model hub does not come through ({first_line(error)}): try again later"
    return f"{wanted}: {first_line(error)}"


def not_here(wanted: Wanted) -> NotHere:
    what = f"{wanted} is not in the hub's cache on this machine"
    remedy = f"run `mlxbatch models pull {show(wanted.name)}` once"
    return NotHere(f"{what}, and this run is offline: {remedy}", what)


def not_reached(wanted: Wanted, error: Exception) -> SetupError:
    from huggingface_hub import constants

    remedy = f"run `mlxbatch models pull {show(wanted.name)}` with a network, or name a model's directory"
    return SetupError(
        f"{wanted}: the model hub cannot be reached, and the model is not in its cache on this machine "
        f"({constants.ENDPOINT}: {first_line(error)}): {remedy}"
    )


def first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # Hub errors begin with a status line and say what is wrong in the line after it.
    wordy = [line for line in lines if "Request ID" not in line]
    return (wordy or lines or [type(error).__name__])[0].rstrip(".")


def _status(error: Any) -> int | None:
    return getattr(error.response, "status_code", None)
