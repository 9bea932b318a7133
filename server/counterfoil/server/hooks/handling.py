"""Handles one event that may be about an effect, or is about a session; the client is never broken by it."""

import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from counterfoil.server.hooks.call import Call, call_of
from counterfoil.server.hooks.effects import TooMuch
from counterfoil.server.hooks.event import HookEvent, NotAnEvent, read_event
from counterfoil.server.hooks.rules.defaults import DEFAULT_RULES, merged
from counterfoil.server.hooks.rules.rule import NO_RULES, EffectRules
from counterfoil.server.hooks.saying import (
    another_journal,
    context_output,
    deny_output,
    gone,
    not_begun,
    not_stored,
    unavailable,
    unknown_plan,
    unread,
)
from counterfoil.server.hooks.used_journal import UsedJournal
from counterfoil.store.domain.instants import rfc3339
from counterfoil.store.errors import Fault, JournalUnavailable

if TYPE_CHECKING:
    from logging import Logger

    from counterfoil.server.hooks.dialects import Dialect
    from counterfoil.server.hooks.journaling import HookJournal
    from counterfoil.server.settings import Settings
    from counterfoil.store.journal import Journal

__all__ = ["handle"]

_MOST_SECONDS = 25
"""Clients wait half a minute and more for a hook; a call must not hang on a journal that does not answer."""
_RECEIPT_TRIES = 3


class _Log:
    """What a hook says of itself on stderr; most say nothing, and what writes it is loaded only then."""

    level = "warning"

    def get(self) -> "Logger":
        """Give the log, set up for the level that the settings name, as soon as they are known."""
        from counterfoil.server.logs import configure_logs, logger

        configure_logs(self.level)
        return logger


_log = _Log()


def handle(name: str, raw: bytes, flags: Mapping[str, str | None], dialect: "Dialect | None" = None) -> int:
    """Handle the event `name` that came as `raw`; give the exit code.

    It is 0, and a deny is in the output, except where a client's `dialect` says otherwise.
    """
    try:
        said = _handled(name, raw, flags)
    except Exception as error:
        _log.get().error("the hook failed (%s); the call goes on", _code(error), exc_info=_details(error))
        said = _unguarded(name, _code(error), is_strict=_may_fail_closed(flags))
    if not said:
        return 0
    out, err, code = (said, "", 0) if dialect is None else dialect.say(said)
    for stream, text in ((sys.stdout, out), (sys.stderr, err)):
        if text:
            stream.write(f"{text}\n")
            stream.flush()
    return code


def _code(error: Exception) -> str:
    return error.code if isinstance(error, Fault) else type(error).__name__


def _details(error: Exception) -> Exception | None:
    """Give what to log of an error beside its line: nothing of one that is foreseen, except for debugging.

    A journal that cannot be used fails at each effect, and a client shows what a hook prints.
    """
    is_foreseen = isinstance(error, Fault | TimeoutError)
    return None if is_foreseen and _log.level != "debug" else error


def _handled(name: str, raw: bytes, flags: Mapping[str, str | None]) -> str | None:
    try:
        event = read_event(name, raw)
    except NotAnEvent as problem:
        _log.get().warning("what the client sent is no event (%s); the call goes on", problem)
        _, rules, is_strict = _settings(flags)
        return _unguarded(name, "not_an_event", is_strict=is_strict or _may_be_strict(rules))
    settings, rules, is_strict = _settings(flags)
    if name in ("SessionStart", "PreCompact", "Stop"):
        return None if settings is None else _told_of_session(event, settings)
    try:
        call = call_of(event, rules)
    except TooMuch as problem:
        _log.get().warning("the call is not on record (%s); it goes on", problem)
        return _unguarded(name, str(problem), is_strict=is_strict or _may_be_strict(rules))
    except Exception as error:
        # What it would have been is not known: whichever rule holds calls back may be its rule.
        _log.get().warning("the call could not be read", exc_info=error)
        return _unguarded(name, type(error).__name__, is_strict=is_strict or _may_be_strict(rules))
    if call is None:
        return None
    fails_closed = is_strict or rules.fail_closed or call.fails_closed
    if settings is None:
        return deny_output(unavailable("configuration")) if fails_closed and name == "PreToolUse" else None
    if name == "PreToolUse":
        return _before(call, event, settings, fails_closed=fails_closed)
    if name == "PermissionDenied":
        _denied(event, settings)
        return None
    return _after(call, event, settings)


def _unguarded(name: str, code: str, *, is_strict: bool) -> str | None:
    """Say of a call of which nobody knows what it is that nothing of it is on record, or hold it back."""
    if name == "PreToolUse":
        return deny_output(unread(code)) if is_strict else context_output(name, not_begun(code))
    return context_output(name, not_stored(code)) if name.startswith("PostToolUse") else None


def _may_be_strict(rules: EffectRules) -> bool:
    """Tell whether a call that cannot be read may be one that a rule holds back then."""
    return rules.fail_closed or any(rule.fail_closed for rule in (*rules.commands, *rules.tools))


def _settings(flags: Mapping[str, str | None]) -> "tuple[Settings | None, EffectRules, bool]":
    """Give the settings and the rules; the defaults, and how strict, where there is none that can be read."""
    from counterfoil.server.settings import SettingsError, load_settings

    try:
        settings = load_settings(flags=flags)
    except SettingsError as error:
        _log.get().warning("the configuration cannot be used (%s); the call goes on", error.name)
        return None, DEFAULT_RULES, _may_fail_closed(flags)
    _log.level = settings.log_level
    return settings, merged(settings.effects or NO_RULES, settings.tool_rules), False


def _may_fail_closed(flags: Mapping[str, str | None]) -> bool:
    """Tell whether a configuration that cannot be read asks, for something, not to go on then."""
    from counterfoil.server.places import configuration_folder

    path = flags.get("config") or os.environ.get("COUNTERFOIL_CONFIG")
    try:
        text = Path(path or f"{configuration_folder(os.environ)}/counterfoil.toml").expanduser().read_bytes()
    except OSError:
        return False
    return b"fail_closed" in text and b"true" in text


def _before(call: Call, event: HookEvent, settings: "Settings", *, fails_closed: bool) -> str | None:
    async def work(hooks: "HookJournal") -> str | None:
        from counterfoil.server.hooks.permitting import before_call

        return await before_call(hooks, call)

    used = UsedJournal(settings)
    if used.is_gone:
        # Any effect may have been on record there: letting them all run again takes a person's word.
        return deny_output(gone(settings.journal, mark=used.mark))
    told: list[str] = []
    try:
        reason = _asked(event, settings, work, told=told)
    except Exception as error:
        code = _code(error)
        _log.get().warning("the journal could not be asked (%s)", code, exc_info=_details(error))
        if fails_closed:
            return deny_output(unavailable(code))
        return context_output(event.name, not_begun(code))
    if reason is not None:
        return deny_output(" ".join((reason, *told)))
    return context_output(event.name, " ".join(told)) if told else None


def _after(call: Call, event: HookEvent, settings: "Settings") -> str | None:
    async def work(hooks: "HookJournal") -> str | None:
        from counterfoil.server.hooks.ending import after_call

        return await after_call(hooks, call)

    used = UsedJournal(settings)
    if used.is_gone:
        return context_output(event.name, f"{not_stored('gone')} {gone(settings.journal, mark=used.mark)}")
    for attempt in range(1, _RECEIPT_TRIES + 1):
        try:
            told = _asked(event, settings, work)
        except Exception as error:
            code = _code(error)
            is_hopeless = not (isinstance(error, JournalUnavailable) and error.retryable)
            if attempt < _RECEIPT_TRIES and not is_hopeless:
                continue
            _log.get().warning("the result could not be recorded (%s)", code, exc_info=_details(error))
            return context_output(event.name, not_stored(code))
        return None if told is None else context_output(event.name, told)
    return None


def _denied(event: HookEvent, settings: "Settings") -> None:
    """Note that a call never ran; where that fails it is in doubt when its lease ends."""

    async def work(hooks: "HookJournal") -> str | None:
        from counterfoil.server.hooks.ending import denied_call

        await denied_call(hooks)
        return None

    if UsedJournal(settings).is_gone:
        return
    try:
        _asked(event, settings, work)
    except Exception as error:
        _log.get().warning("the denial could not be recorded (%s)", _code(error), exc_info=_details(error))


def _told_of_session(event: HookEvent, settings: "Settings") -> str | None:
    """Give what a session is told; where the journal cannot be read, that."""
    try:
        return _of_session(event, settings)
    except Exception as error:
        code = _code(error)
        _log.get().error("the hook failed (%s); the session goes on", code, exc_info=_details(error))
        if event.name == "SessionStart":
            return context_output(event.name, unknown_plan(code))
        if event.name == "Stop":
            return None if event.is_reminding else _stop_output(unknown_plan(code))
        return unknown_plan(code)


def _of_session(event: HookEvent, settings: "Settings") -> str | None:
    from counterfoil.server.hooks.session import at_compaction, at_start, at_stop

    if settings.journal_path is not None and not settings.journal_path.exists():
        used = UsedJournal(settings)
        if event.name == "SessionStart" and used.is_gone:
            return context_output(event.name, gone(settings.journal, mark=used.mark))
        return None
    _log.get()
    beside: list[str] = []
    told = _asked(
        event,
        settings,
        {"SessionStart": at_start, "PreCompact": at_compaction, "Stop": at_stop}[event.name],
        told=beside if event.name == "SessionStart" else None,
    )
    if event.name == "SessionStart" and beside:
        told = " ".join((*beside, told or "")).rstrip()
    if told is None:
        return None
    if event.name == "SessionStart":
        return context_output(event.name, told)
    if event.name == "PreCompact":
        # What a hook prints there is added to what the summary is asked for.
        return told
    return _stop_output(told)


def _stop_output(reason: str) -> str:
    """Give the JSON by which a client does not stop before the model has heard something."""
    import json

    return json.dumps({"decision": "block", "reason": reason})


def _asked(
    event: HookEvent,
    settings: "Settings",
    work: "Callable[[HookJournal], Awaitable[str | None]]",
    *,
    told: list[str] | None = None,
) -> str | None:
    """Open the journal, do the work, and close it again, all within bounds.

    Where another journal was used here before, that is noted, and said once: in `told`, where it is given.
    """
    from counterfoil.server.configuration import DuplicateRule
    from counterfoil.server.hooks.journaling import HookJournal

    # A hook knows the state that is sent, and compares by nothing less.
    wanted = replace(settings, probes={}, duplicates=(DuplicateRule(action="*", compare="fingerprint"),))

    if wanted.journal_path is not None:
        from counterfoil.server.opener import open_directly_from
        from counterfoil.store.sqlite.transaction import drive

        with open_directly_from(wanted) as journal:
            _note_used(settings, journal, told)
            return drive(work(HookJournal(journal, event=event, settings=settings)))
    import asyncio

    from counterfoil.server.opener import open_from

    _log.get()  # The driver of PostgreSQL logs too.

    async def asked() -> str | None:
        async with asyncio.timeout(_MOST_SECONDS), open_from(wanted) as journal:
            _note_used(settings, journal, told)
            return await work(HookJournal(journal, event=event, settings=settings))

    return asyncio.run(asked())


def _note_used(settings: "Settings", journal: "Journal", told: list[str] | None) -> None:
    """Note which journal is used. Who cannot say that it is another one leaves it to the next that can."""
    used = UsedJournal(settings)
    identity = journal.identity
    if told is None:
        if used.id is None:
            used.note(identity.id)
    elif used.note(identity.id):
        _log.get().warning("another journal was used here before: what that one holds is not in this one")
        told.append(another_journal(settings.journal, made_at=rfc3339(identity.created_at)))
