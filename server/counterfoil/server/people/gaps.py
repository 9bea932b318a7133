"""Says that a journal lacks history: since when, what that means, and what lifts it."""

import shlex
from typing import TYPE_CHECKING

from msgspec import Struct

from counterfoil.server.people import rendering as show
from counterfoil.store.domain.instants import rfc3339

if TYPE_CHECKING:
    from counterfoil.store.journal import Journal
    from counterfoil.store.lost_history import Lack

__all__ = ["Gap", "gap_of", "gap_words"]


class Gap(Struct, frozen=True, kw_only=True):
    """What a journal lacks, and whether a person has accepted it; for all its runs where `run` is None."""

    lack: "Lack"
    is_accepted: bool
    run: str | None = None


async def gap_of(journal: "Journal", run: str | None = None) -> Gap | None:
    """Look whether the journal lacks history; None where it lacks nothing."""
    lack, is_accepted = await journal.keeper.gap(run)
    return None if lack is None else Gap(lack=lack, is_accepted=is_accepted, run=run)


def gap_words(gap: Gap) -> str:
    """Say what is missing, what that does to operations, and how a person lifts it."""
    lack = gap.lack
    if lack.copy_of is not None:
        what = (
            "a copy"
            if lack.exported_at is None
            else f"an import of the export of {_moment(lack.exported_at)}"
        )
        said = (
            f"{what} of journal {lack.copy_of} into this one began at {_moment(lack.restored_at)} and has "
            "not ended: what has not come yet is missing. "
            f"The same `counterfoil {lack.command}` again ends it."
        )
    else:
        said = (
            f"put back at {_moment(lack.restored_at)} as it was at {_moment(lack.backed_up_at)}: what was "
            "done in between is missing here."
        )
    name = "all runs" if gap.run is None else "this run"
    if gap.is_accepted:
        return f"{said} A person has accepted that for {name}."
    accept = "RUN" if gap.run is None else shlex.quote(gap.run)
    return (
        f"{said} What had no outcome then, and what is new, is not performed (ask: history_gap) until "
        "somebody has looked and a person says so: for one operation by `counterfoil reconcile` or "
        f"`counterfoil grant`, for a run by `counterfoil restore --accept-gap {accept}`, for all by "
        "`counterfoil restore --accept-gap --all`."
    )


def _moment(instant: int) -> str | None:
    return show.moment(rfc3339(instant))
