"""Looks into the journal: `runs`, `plan`, `show`, `find`."""

import shlex
from collections.abc import Iterable
from typing import Any

import anyio
import click
from rich.text import Text

from counterfoil.server.people import rendering as show_
from counterfoil.server.people.advice import advice
from counterfoil.server.people.gaps import Gap, gap_of, gap_words
from counterfoil.server.people.gathering import owners_of, whole_operation, whole_plan, whole_runs
from counterfoil.server.people.operation_page import differences, operation_page
from counterfoil.server.people.output import write, write_json
from counterfoil.server.people.request import Request, operation_ref
from counterfoil.server.people.teaching import teaching_command
from counterfoil.store.domain.model import State

__all__ = ["find", "plan", "runs", "show"]


@teaching_command(
    short="the runs, most recently touched first",
    examples=["counterfoil runs", "counterfoil runs --all --json"],
)
@click.option("--all", "every", is_flag=True, help="Finished runs as well.")
@click.option("-n", "--limit", type=click.IntRange(1), default=50, show_default=True, help="At most so many.")
def runs(request: Request, *, every: bool, limit: int) -> int:
    """List the runs, the most recently touched first.

    Without --all: those that are not finished, and any with an operation in progress, in doubt or disputed.
    """

    async def work() -> dict[str, Any]:
        async with request.journal() as journal:
            include = "all" if every else "open"
            return await whole_runs(journal, request.caller("runs"), include=include, limit=limit)

    answer = anyio.run(work)
    if request.as_json:
        write_json(answer)
        return 0
    rows = [
        (
            show_.plain(run["run"]),
            show_.counts(run["counts"]),
            show_.lines(f"{run.get('finished_as') or 'open'},", show_.moment(run["touched_at"])),
        )
        for run in answer["runs"]
    ]
    if not rows:
        write("No runs on record." if every else "No open runs. `counterfoil runs --all` lists the others.")
        return 0
    write(show_.rendered(show_.table("run", "operations", "run is, touched", rows=rows, whole=["run"])))
    if answer["cut"]:
        write(f"More than {limit}: give a larger --limit.")
    if answer.get("changed_meanwhile"):
        write("Some changed while they were read, and may be missing: ask again.")
    return 0


@teaching_command(
    short="what is in doubt, to do, waiting or settled in a run",
    examples=[
        "counterfoil plan weekly-report/2026-W48",
        "counterfoil plan weekly-report/2026-W48 --all --json",
    ],
)
@click.argument("run")
@click.option("--all", "every", is_flag=True, help="Settled steps as well.")
def plan(request: Request, run: str, *, every: bool) -> int:
    """Show the resume plan of RUN: what is in doubt, to be done, waiting or settled.

    Below the steps stands what you can do about each kind. With --json it is what an agent gets when it takes
    the run up again. Exit code 1: there are operations in it that cannot be read.
    """

    async def work() -> tuple[dict[str, Any], Gap | None]:
        async with request.journal() as journal:
            include = "all" if every else "open"
            answer = await whole_plan(journal, request.caller("plan"), run=run, include=include)
            return answer, await gap_of(journal, answer["run"]["run"])

    answer, gap = anyio.run(work)
    code = 1 if answer.get("damaged") or answer.get("warnings") else 0
    if request.as_json:
        write_json(answer)
        return code
    head = Text.assemble(
        "run ",
        show_.plain(answer["run"]["run"], "bold"),
        f" as of {show_.moment(answer['as_of'])}: ",
        show_.counts(answer["counts"]),
    )
    parts: list[Any] = [head, *_standing(answer)]
    if gap is not None:
        parts.append(show_.plain(f"history: {gap_words(gap)}", "bold yellow"))
    parts.append(Text(""))
    if answer.get("damaged"):
        parts.append(
            Text(f"{answer['damaged']} of them cannot be read: `counterfoil verify` says why.", "bold red")
        )
    parts += [show_.plain(f"warning: {warning}", "bold red") for warning in answer.get("warnings", ())]
    if answer["steps"]:
        parts += [_steps(answer["steps"]), Text("")]
        verbs = dict.fromkeys((step["next"], step["reason"]) for step in answer["steps"])
        for next_, reason in verbs:
            parts.append(
                Text.assemble(show_.plain(f"{next_}, {reason}: ", "bold"), show_.plain(advice(next_, reason)))
            )
            parts += _changes(step for step in answer["steps"] if step["reason"] == reason)
    elif code == 0:
        parts.append(Text("Nothing is open. `--all` lists what is settled."))
    write(show_.rendered(*parts))
    return code


def _standing(answer: dict[str, Any]) -> list[Any]:
    """Say who is at the run, how it ended, and which criteria are not met."""
    run, criteria = answer["run"], answer.get("criteria")
    lines: list[Any] = []
    if "held_by" in run:
        lines.append(
            show_.plain(f"held by {run['held_by']} until {show_.moment(run['held_until'])}", "bright_black")
        )
    if "finished_as" in run:
        lines.append(show_.plain(f"finished as {run['finished_as']}", "bright_black"))
    if criteria:
        counted = ", ".join(f"{criteria[state]} {state}" for state in ("met", "stale", "unmet"))
        lines.append(show_.plain(f"criteria: {counted}"))
        lines += [
            show_.plain(
                f"  {one['id']} is {one['state']}{'' if one['required'] else ' (not required)'}: "
                f"{one.get('text', '')}"
            )
            for one in criteria["open"]
        ]
        if criteria["cut"]:
            lines.append(show_.plain("  and more"))
    return lines


def _changes(steps: Iterable[dict[str, Any]]) -> list[Any]:
    """Say of each step what differs from the context on record, where it is named."""
    return [
        show_.indented(Text.assemble(show_.plain(step["key"]), ": ", told))
        for step in steps
        if (told := differences(step)) is not None
    ]


def _warnings(steps: list[dict[str, Any]]) -> list[Any]:
    """Give what the steps warn of, each warning once."""
    told = dict.fromkeys(warning for step in steps for warning in step.get("warnings", ()))
    return [show_.plain(f"warning: {warning}", "bold red") for warning in told]


def _steps(steps: list[dict[str, Any]]) -> Any:
    return show_.table(
        "next",
        "state, age",
        show_.OPERATION,
        "action, target",
        rows=[
            (
                Text.assemble(show_.verb(step["next"]), "\n", show_.plain(step["reason"], "bright_black")),
                Text.assemble(
                    show_.state(step["state"]),
                    "\n",
                    show_.plain(show_.age(step["age_seconds"]), "bright_black"),
                ),
                show_.name_and_id(step["key"], step["operation"]),
                _what(step),
            )
            for step in steps
        ],
        narrow=["next", "state, age"],
        whole=[show_.OPERATION],
    )


def _day_and_time(rfc3339: str | None) -> list[Text]:
    """Give a time as two lines, which a narrow column holds; none where it is not known."""
    shown = show_.moment(rfc3339)
    return [] if shown is None else [show_.plain(part, "bright_black") for part in shown.split(" ")]


def _what(step: dict[str, Any]) -> Text:
    target = step.get("target")
    return Text.assemble(
        show_.plain(step["action"]), *(() if target is None else ("\n", show_.plain(target, "bright_black")))
    )


@teaching_command(
    short="all that is on file of one operation",
    examples=[
        "counterfoil show op_4cmf3jvlp3ym4lxh7y2q",
        "counterfoil show weekly-report/2026-W48 email:alice",
        "counterfoil show weekly-report/2026-W48 email:alice --json",
    ],
)
@click.argument("operation", nargs=-1, required=True, metavar="OPERATION | RUN KEY")
def show(request: Request, operation: tuple[str, ...]) -> int:
    """Show all that is on file of one operation, named by its id or by its run and its key.

    State, attempts, receipts, findings, what it is and what was sent, and its history.
    """

    async def work() -> dict[str, Any]:
        async with request.journal() as journal:
            ref = operation_ref(operation)
            return await whole_operation(journal, request.caller("show"), ref=ref)

    answer = anyio.run(work)
    if request.as_json:
        write_json(answer)
    else:
        write(show_.rendered(*operation_page(answer)))
    return 0


@teaching_command(
    short="operations by state, text, action or reference",
    examples=[
        "counterfoil find --state in_doubt",
        "counterfoil find --text alice --action mail.send",
        "counterfoil find --workflow nightly --since 2026-11-29T00:00:00Z",
        "counterfoil find --external-id '<m-1@example.org>'",
    ],
)
@click.option("--run", help="Of this run.")
@click.option("--workflow", help="Of runs of this workflow.")
@click.option("--action", help="With exactly this action.")
@click.option("--state", type=click.Choice([state.value for state in State]), help="In this state now.")
@click.option("--text", help="With this text in key, action, target or run.")
@click.option("--since", metavar="TIME", help="Changed at this time or later, such as 2026-11-29T12:00:00Z.")
@click.option("--until", metavar="TIME", help="Changed before this time.")
@click.option("--external-id", help="With a receipt that has this reference: who did this?")
@click.option("--system", help="With --external-id: a reference of this system.")
@click.option("-n", "--limit", type=click.IntRange(1), default=50, show_default=True, help="At most so many.")
def find(
    request: Request,
    *,
    run: str | None,
    workflow: str | None,
    action: str | None,
    state: str | None,
    text: str | None,
    since: str | None,
    until: str | None,
    external_id: str | None,
    system: str | None,
    limit: int,
) -> int:
    """Find operations, the most recently changed first.

    Finding none is no error, and no proof that nothing was done.
    """
    wanted = {
        "run": run,
        "workflow": workflow,
        "action": action,
        "state": state,
        "text": text,
        "since": since,
        "until": until,
    }
    words = click.get_current_context().args
    if words:
        raise click.UsageError(
            f"find looks for words with --text: counterfoil find --text {shlex.quote(' '.join(words))}"
        )
    if external_id is not None and any(value is not None for value in wanted.values()):
        raise click.UsageError("--external-id stands alone, or with --system.")
    if system is not None and external_id is None:
        raise click.UsageError("--system says whose --external-id it is.")

    async def work() -> list[dict[str, Any]]:
        async with request.journal() as journal:
            if external_id is not None:
                caller = request.caller("find")
                return await owners_of(journal, caller, external_id=external_id, system=system)
            return await journal.reader.find(**wanted, limit=limit + 1)

    found = anyio.run(work)
    is_cut = len(found) > limit
    if request.as_json:
        write_json({"operations": found[:limit], "cut": is_cut})
        return 0
    if not found:
        write("Nothing on file fits. That does not prove that nothing was done.")
        return 0
    rows = [
        (
            Text("\n").join([show_.state(step["state"]), *_day_and_time(step.get("changed_at"))]),
            show_.name_and_id(step["key"], step["operation"], run=step["run"]),
            _what(step),
        )
        for step in found[:limit]
    ]
    names = f"run, {show_.OPERATION}"
    write(
        show_.rendered(
            show_.table(
                "state, when", names, "action, target", rows=rows, narrow=["state, when"], whole=[names]
            ),
            *_warnings(found[:limit]),
        )
    )
    if is_cut:
        write(f"More than {limit}: give a larger --limit, or say more.")
    return 0


find.allow_extra_args = True
