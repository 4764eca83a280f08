"""What would keep a run from working on this machine, from this environment: checks, each with findings and remedies.

Nothing is changed: no lock is taken, nothing is fetched, and what is written to see whether it can be is gone at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mlxbatch.doctor import device, disk, limits, models, profile, schedule, state, versions
from mlxbatch.doctor.finding import Case as Case
from mlxbatch.doctor.finding import Check
from mlxbatch.doctor.finding import Finding as Finding
from mlxbatch.errors import Interrupted, MlxBatchError, show


def checks() -> dict[str, Check]:
    """All checks by topic, in the order in which their findings are read."""
    return {
        "versions": versions.check,
        "profile": profile.check,
        "device": device.check,
        "limits": limits.check,
        "models": models.check,
        "disk": disk.check_space,
        "permissions": disk.check_permissions,
        "lock": state.check_lock,
        "ledger": state.check_ledger,
        "cron": schedule.check,
    }


def examine(case: Case, wanted: Mapping[str, Check] | None = None) -> Iterator[Finding]:
    """The findings of every check; one that fails is a finding too, and the others go on."""
    for topic, check in (checks() if wanted is None else wanted).items():
        try:
            yield from check(case)
        except Interrupted:
            raise
        except MlxBatchError as error:
            yield Finding("problem", topic, str(error))
        except OSError as error:
            where = f"{show(error.filename)}: " if error.filename else ""
            yield Finding("problem", topic, f"{where}{error.strerror or error}", "make it readable for this user")
        except Exception as error:
            what = f"this check itself failed: {type(error).__name__}: {show(str(error))}"
            yield Finding("problem", topic, what, "send this line to the project, it is a bug of ours")
