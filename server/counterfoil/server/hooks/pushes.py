"""Compares the pushes of a call with those on record: what was lost since, and what git leaves alone."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from counterfoil.server.hooks.call import LONGEST_TARGET, SEVERAL, Call, again_after
from counterfoil.server.hooks.effect import Effect
from counterfoil.store.attending_calls import HeldAttempt
from counterfoil.store.domain.model import State

if TYPE_CHECKING:
    from counterfoil.server.hooks.git_push import Pushed

__all__ = ["Remotes", "may_be"]


def may_be(step: Mapping[str, Any], part: Call) -> bool:
    """Tell whether a step that is not settled may be what a part of a call does, or a piece of it."""
    is_composed = step.get("action") == SEVERAL
    if step.get("action") != part.action and not is_composed:
        return False
    if part.target is None:
        return not is_composed and (not step.get("target") or not part.is_readable)
    if part.effects[0].is_vague:
        return True
    target = str(step.get("target") or "")
    targets = target.split("; ")
    pushed = part.effects[0].pushed
    told = {part.target, part.effects[0].written_target} - {None}
    if pushed is None or target in told:
        return not told.isdisjoint(targets)
    own = {ref for ref, _ in pushed.refs}
    pushes = (
        one.removeprefix(remote).split()
        for remote in dict.fromkeys((f"{pushed.remote} ", f"{pushed.written} "))
        for one in targets
        if one.startswith(remote)
    )
    # What is not told one by one, or was cut off, may be any.
    return any(
        part.is_wide or len(target) >= LONGEST_TARGET or any(ref in own or "*" in ref for ref in refs)
        for refs in pushes
    )


class Remotes:
    """The remotes of a call as they stand now; each is asked once, and only where something is on record."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str | None, Pushed | None], Mapping[str, str] | None] = {}

    def lost_since(
        self, call: Call, on_file: Sequence[HeldAttempt], parts: Sequence[tuple[HeldAttempt, Call]]
    ) -> Call | None:
        """Give a call in which what was done and is lost is another effect; None where nothing is lost."""
        if call.own_key is not None:
            # Whoever names the effect says by another name that it is another one.
            return None
        again = call
        for push in _known_pushes(call):
            done = _done_of(push, parts)
            if len(call.effects) == 1:
                whole = [known for known in on_file if known.state is State.SUCCEEDED]
                done += [(known, piece) for known in whole for piece in push.pieces or (push,)]
            there = self._standing(push) if done else None
            if there is None:
                continue
            from counterfoil.server.hooks.remote import is_lost

            for known, piece in done:
                if is_lost(piece, there):
                    again = again_after(again, piece, operation=known.operation)
        return None if again is call else again

    def without_absorbed(
        self, call: Call, parts: list[tuple[HeldAttempt, Call]]
    ) -> list[tuple[HeldAttempt, Call]]:
        """Leave out of what stands in the way the refs that are done, and that git will leave alone.

        Of a push that has others as well: one of which all is done is done, however it is composed.
        """
        for push in _known_pushes(call):
            done = _done_of(push, parts)
            if not done or len({id(piece) for _, piece in done}) == len(push.pieces or (push,)):
                continue
            there = self._standing(push)
            if there is None:
                continue
            from counterfoil.server.hooks.remote import is_there

            absorbed = [piece for _, piece in done if is_there(piece, there)]
            parts = [
                (known, part)
                for known, part in parts
                if known.state is not State.SUCCEEDED
                or all(part.effects[0] is not piece for piece in absorbed)
            ]
        return parts

    def _standing(self, push: Effect) -> Mapping[str, str] | None:
        """Give what stands at the remote of a push; it is asked once."""
        from counterfoil.server.hooks.remote import standing_at_remote

        place = (None if push.invocation is None else push.invocation.folder, push.pushed)
        if place not in self._asked:
            self._asked[place] = standing_at_remote(push)
        return self._asked[place]


def _known_pushes(call: Call) -> list[Effect]:
    return [effect for effect in call.effects if effect.pushed is not None and effect.is_known]


def _done_of(push: Effect, parts: Sequence[tuple[HeldAttempt, Call]]) -> list[tuple[HeldAttempt, Effect]]:
    """Give the pieces of a push that are on record as done, each by what it is on record at."""
    return [
        (known, piece)
        for known, part in parts
        for piece in push.pieces or (push,)
        if known.state is State.SUCCEEDED and part.effects[0] is piece
    ]
