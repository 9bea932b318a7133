"""Explains the hooks to people: `hook`, of which the events themselves take a shorter way."""

import json
import os
from collections.abc import Iterator
from typing import Any

import anyio
import click
from msgspec.structs import replace

from counterfoil.server.people import rendering as show
from counterfoil.server.people.output import write, write_json
from counterfoil.server.people.request import Request
from counterfoil.server.people.teaching import TeachingGroup, teaching_command

__all__ = ["hook"]

_EXAMPLES = (
    "counterfoil hook explain 'git push origin main'",
    "counterfoil hook explain 'make && kubectl apply -f app.yaml' --json",
    "counterfoil hook PreToolUse < event.json           as a client runs it",
)


@click.group(
    cls=TeachingGroup,
    sections={"Look": ("explain",)},
    examples=_EXAMPLES,
    short_help="keep the journal from a client's hooks",
)
def hook() -> None:
    """Keep the journal from outside the model: a client runs `counterfoil hook EVENT` with its JSON on stdin.

    EVENT is PreToolUse, PostToolUse, PostToolUseFailure, PermissionDenied, SessionStart, PreCompact or Stop.
    A call that is an effect is begun before it runs and its result recorded after it; one that is done or in
    doubt is blocked, with a reason that tells the model what to do. Every other call is left alone.
    """


@teaching_command(
    short="what would happen to a command, and why",
    examples=[
        "counterfoil hook explain 'git push origin main'",
        "counterfoil hook explain 'npm publish' --folder ~/package --run release/1",
        'counterfoil hook explain --tool mcp__mail__send_message --input \'{"to": "a@example.org"}\'',
    ],
)
@click.argument("command", metavar="[COMMAND]", required=False)
@click.option("--folder", metavar="DIR", help="Where it would run; the working directory unless given.")
@click.option("--tool", metavar="NAME", help="A tool as the client calls it: mcp__SERVER__TOOL.")
@click.option("--input", "given", metavar="JSON", help="The tool's arguments.")
@click.option("--run", metavar="NAME", help="The run to judge it in; else the session's.")
@click.option("--session", metavar="ID", help="The client's session whose call it would be.")
def explain(
    request: Request,
    command: str | None,
    *,
    folder: str | None,
    tool: str | None,
    given: str | None,
    run: str | None,
    session: str | None,
) -> int:
    """Tell which programs of a command are effects, by which rule, and whether it would run or be blocked.

    What is blocked depends on the run: a hook knows its client's session, this command only by --session or
    --run. The same effect on record in another run is named.

    Nothing is run and nothing is recorded.
    """
    if (command is None) == (tool is None):
        raise click.UsageError("Give a command, or --tool.")
    told = _explained(request, command, folder=folder, tool=tool, given=given, run=run, session=session)
    if request.as_json:
        write_json(told)
    else:
        write(show.rendered(*_lines(told)))
    return 0


hook.add_command(explain)


def _explained(
    request: Request,
    command: str | None,
    *,
    folder: str | None,
    tool: str | None,
    given: str | None,
    run: str | None,
    session: str | None,
) -> dict[str, Any]:
    # Loaded here: the parser of commands is needed by nothing else that people ask for.
    from counterfoil.server.hooks.call import call_of
    from counterfoil.server.hooks.effects import TooMuch
    from counterfoil.server.hooks.entry import looks_like_effect
    from counterfoil.server.hooks.event import HookEvent
    from counterfoil.server.hooks.explaining import explained, foreseen
    from counterfoil.server.hooks.journaling import HookJournal
    from counterfoil.server.hooks.rules.defaults import merged
    from counterfoil.server.hooks.rules.rule import NO_RULES

    try:
        arguments = json.loads(given or "{}")
    except ValueError:
        raise click.BadParameter("it is no JSON", param_hint="--input") from None
    event = HookEvent(
        name="PreToolUse",
        folder=os.path.abspath(os.path.expanduser(folder or ".")),
        tool=tool or "Bash",
        input={"command": command} if tool is None else arguments,
    )
    own = request.settings.effects or NO_RULES
    rules = merged(own, request.settings.tool_rules)
    sent = json.dumps({"tool_name": event.tool, "tool_input": event.input}).encode()
    is_seen = looks_like_effect(sent, request.flags)
    try:
        told = explained(event, rules, own=own, is_seen=is_seen)
        call = call_of(event, rules) if is_seen else None
    except TooMuch as problem:
        why = f"it is {problem}: the model is told so, and where fail_closed holds it does not run"
        return {"is_effect": False, "why": why}
    path = request.settings.journal_path
    if call is None:
        return told
    if path is not None and not path.exists():
        from counterfoil.server.hooks.used_journal import UsedJournal

        if UsedJournal(request.settings).is_gone:
            return {**told, "now": {"would": "block", "why": "the journal that was used here is gone"}}
        return {**told, "now": {"would": "begin", "why": "there is no journal yet"}}
    settings = request.settings if run is None else replace(request.settings, run=run)

    async def work() -> dict[str, Any]:
        async with request.journal() as journal:
            hooks = HookJournal(journal, event=event, settings=settings, conversation=session)
            return await foreseen(hooks, call)

    return {**told, "now": anyio.run(work)}


def _lines(told: dict[str, Any]) -> list[Any]:
    lines: list[Any] = []
    programs = told.get("programs", ())
    if programs:
        rows = [(show.plain(one["program"]), show.plain(one["rule"])) for one in programs]
        lines.append(show.table("program", "what it is", rows=rows))
    verdict = "an effect: it is begun, and its result recorded" if told["is_effect"] else "left alone"
    now = told.get("now", {})
    pairs = [
        ("the call is", show.plain(verdict)),
        ("because", show.plain(told["why"]) if "why" in told else None),
        ("action", show.plain(told["action"]) if "action" in told else None),
        ("target", show.plain(told["target"]) if "target" in told else None),
        ("known by", show.plain(_known_by(told)) if told["is_effect"] else None),
        ("look up with", show.plain(told["lookup"]) if "lookup" in told else None),
        ("without journal", show.plain("blocked" if told.get("fail_closed") else "goes on")),
        ("judged in run", show.plain(_run_told(now)) if "run" in now else None),
        ("key", show.plain(now["key"]) if "key" in now else None),
        ("now", show.plain(_verdict_now(now)) if now else None),
        ("operation", show.plain(now["operation"]) if "operation" in now else None),
        *(
            ("in another run", show.plain(f"{one['run']}: {one['operation']} is {one['state']}"))
            for one in now.get("elsewhere", ())
        ),
    ]
    if not told.get("understood", True) and told["is_effect"]:
        pairs.insert(1, ("understood", show.plain("not wholly: parts of it are no command of the shell")))
    lines.append(show.facts(pairs if told["is_effect"] else pairs[:2]))
    return lines


def _verdict_now(now: dict[str, Any]) -> str:
    """Say what the hook would do, which is never to permit a call."""
    if now["would"] == "block":
        return f"the hook would hold it back: {now['why']}"
    return (
        f"the hook would not hold it back, but put it on record before it runs: {now['why']}. That is no "
        "permission; whether it runs is left to the client"
    )


def _run_told(now: dict[str, Any]) -> str:
    if now["run_is_known"]:
        return str(now["run"])
    return f"{now['run']}, made up: no session is known here; say --run or --session"


def _known_by(told: dict[str, Any]) -> str:
    if not told.get("identity_is_readable", True):
        return "the client's own id of each call, since what it sends cannot be found before it runs"
    if not told.get("identity_is_known", True):
        return "the whole command, since what it sends cannot be told wholly before it runs"
    states = [
        text for effect in told["effects"] if effect.get("state") for text in _states_told(effect["state"])
    ]
    if not states:
        return "its words"
    shown: list[str] = []
    for text in states:
        if shown and sum(map(len, shown)) + len(text) > _MOST_SHOWN:
            break
        shown.append(text)
    left = len(states) - len(shown)
    return f"its words, and what it sends: {', '.join(shown)}{f' … and {left} more' if left else ''}"


_MOST_SHOWN = 300


def _states_told(state: Any) -> Iterator[str]:
    """Give what goes with an effect, each by its name: a file with its digest, a ref with its commit."""
    for part in state if isinstance(state, list) else [state]:
        told = {part["ref"]: part["commit"]} if {"ref", "commit"} == set(part) else part
        yield from (f"{name} {value}" for name, value in told.items())
