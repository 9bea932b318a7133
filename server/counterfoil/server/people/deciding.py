"""What a person decides: `reconcile` and `close`. Without proof of a person both are an agent's claim."""

from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from counterfoil.server.people.decision import decide
from counterfoil.server.people.person import SECRET_FILE_VARIABLE
from counterfoil.server.people.request import Request, operation_ref
from counterfoil.server.people.teaching import teaching_command
from counterfoil.store.domain.commands import (
    RECEIPT_KINDS,
    Caller,
    CloseOperation,
    OperationRef,
    ReceiptGiven,
    ReconcileOperation,
)
from counterfoil.store.errors import TooLarge

if TYPE_CHECKING:
    from counterfoil.store.journal import Journal

__all__ = ["close", "reconcile"]


_secret_option = click.option(
    "--operator-secret-file",
    metavar="FILE",
    help=f"The operator's secret, in place of a terminal; also {SECRET_FILE_VARIABLE}.",
)


@teaching_command(
    short="settle what is in doubt, by what you found",
    examples=[
        "counterfoil reconcile RUN KEY --finding performed --checked-with 'the Sent folder' \\",
        "    --external-id '<m-1@example.org>' --kind message --system smtp",
        "counterfoil reconcile OPERATION --finding not_performed --checked-with 'the bank, by telephone'",
        "counterfoil reconcile RUN KEY --finding performed --checked-with 'the review' --satisfies FR-002 \\",
        "    --external-id review-17 --kind approval --system legal",
    ],
)
@click.argument("operation", nargs=-1, required=True, metavar="OPERATION | RUN KEY")
@click.option(
    "--finding",
    required=True,
    type=click.Choice(["performed", "not_performed", "inconclusive", "compensated"]),
    help="What looking showed.",
)
@click.option("--checked-with", required=True, metavar="TEXT", help="Where and how you looked.")
@click.option("--external-id", metavar="ID", help="The performing system's own reference, the evidence.")
@click.option(
    "--kind",
    type=click.Choice(RECEIPT_KINDS),
    metavar="KIND",
    default="other",
    show_default=True,
    help=f"What the reference is of: {', '.join(RECEIPT_KINDS)}.",
)
@click.option("--system", metavar="NAME", help="Of which system; the operation's action if not said.")
@click.option("--url", metavar="URL", help="Where it can be seen.")
@click.option("--performed-at", metavar="TIME", help="When, by that system's clock: 2026-11-29T17:04:45Z.")
@click.option("--evidence", metavar="JSON", help="An object with what else that system says.")
@click.option(
    "--satisfies",
    multiple=True,
    metavar="CRITERION",
    help="A criterion of the run that this reference is evidence for. May be repeated.",
)
@click.option("--action", metavar="ACTION", help="Of an effect that nobody began, with RUN KEY: what it is.")
@click.option("--target", metavar="TEXT", help="With --action: on what it was performed.")
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="Which attempt; the newest if not said.")
@click.option("--end-lease", is_flag=True, help="A person's word that the live attempt is over.")
@click.option("--as-of", metavar="TIME", help="When you looked, if not after being asked just now.")
@_secret_option
def reconcile(
    request: Request,
    operation: tuple[str, ...],
    *,
    finding: str,
    checked_with: str,
    satisfies: tuple[str, ...],
    end_lease: bool,
    as_of: str | None,
    operator_secret_file: str | None,
    **receipt: Any,
) -> int:
    """Settle an operation that is in doubt or disputed, by what you found.

    \b
    performed      it happened; without --external-id that is only a claim
    not_performed  it did not, and nothing can still arrive: it may be begun
    inconclusive   it could not be found out
    compensated    it happened and was undone; --external-id is that of the undoing

    With --satisfies the reference is evidence for a criterion of the run as well. Beside an effect that is on
    file already, give the evidence's own --external-id, under another --kind or --system than the effect's:
    the same reference again adds nothing, and another of the same kind would be a second effect. Exit code 1
    also where a criterion named is not met afterwards.

    A person's finding counts at once. You are a person here if you answer a question at a terminal, or
    bring the operator's secret; otherwise the finding is kept as an agent's claim. Over stdio this guards
    against mistakes: it is no security boundary against somebody with the same user's shell.
    """
    ref = operation_ref(operation)
    if receipt["target"] is not None and receipt["action"] is None:
        raise click.UsageError("--target goes with --action.")
    if satisfies and (finding != "performed" or receipt["external_id"] is None):
        raise click.UsageError("--satisfies goes with --finding performed and --external-id, the evidence.")
    arguments = _checked_arguments(
        request,
        ref,
        finding=finding,
        checked_with=checked_with,
        as_of=as_of,
        satisfies=list(satisfies),
        **receipt,
    )

    async def work(journal: "Journal", caller: Caller, seen_at: str | None) -> dict[str, Any]:
        command = ReconcileOperation(
            ref=ref,
            finding=finding,
            checked_with=checked_with,
            as_of=as_of or seen_at,
            by="human",
            receipt=arguments if caller.is_person else replace(arguments, source="lookup"),
            end_lease=end_lease,
        )
        return await journal.reconcile_operation(command, caller)

    asked = f"finding {finding}" + (", and the live attempt is over" if end_lease else "")
    if satisfies:
        asked += f", as evidence for {', '.join(satisfies)}"
    return decide(
        request,
        ref,
        work,
        name="reconcile",
        asked=asked,
        wanted=finding,
        secret=operator_secret_file,
        satisfies=satisfies,
        may_be_new=receipt["action"] is not None and finding == "performed",
    )


@teaching_command(
    short="stop waiting for an operation, or give it up",
    examples=[
        "counterfoil close OPERATION --outcome timed_out --reason 'the provider cannot tell any more'",
        "counterfoil close RUN KEY --outcome cancelled --reason 'the customer withdrew'",
    ],
)
@click.argument("operation", nargs=-1, required=True, metavar="OPERATION | RUN KEY")
@click.option(
    "--outcome", required=True, type=click.Choice(["timed_out", "cancelled"]), help="How it is to end."
)
@click.option("--reason", required=True, metavar="TEXT", help="Why; it is kept.")
@_secret_option
def close(
    request: Request,
    operation: tuple[str, ...],
    *,
    outcome: str,
    reason: str,
    operator_secret_file: str | None,
) -> int:
    """Stop waiting for an operation (timed_out), or give it up (cancelled). No agent performs it afterwards.

    timed_out is for what was attempted and may have happened; it counts as failed, without evidence. What
    has succeeded is not closed: it is undone, by another operation. Should it turn out otherwise,
    `counterfoil reconcile` records that.

    You are a person here if you answer a question at a terminal, or bring the operator's secret; otherwise
    the decision is an agent's, which counts for less. Over stdio this guards against mistakes: it is no
    security boundary against somebody with the same user's shell.
    """
    ref = operation_ref(operation)
    _check_length(request, "reason", reason)

    async def work(journal: "Journal", caller: Caller, seen_at: str | None) -> dict[str, Any]:
        return await journal.close_operation(CloseOperation(ref=ref, outcome=outcome, reason=reason), caller)

    asked = f"close as {outcome}"
    return decide(request, ref, work, name="close", asked=asked, wanted=outcome, secret=operator_secret_file)


def _checked_arguments(request: Request, ref: OperationRef, **given: Any) -> ReceiptGiven:
    """Hold what was given to the same limits and forms as a tool call.

    Raises:
        InvalidArgument, TooLarge: naming the field.
    """
    from counterfoil.tools.arguments import take_arguments
    from counterfoil.tools.reconcile_operation import ReconcileInput

    named = {"operation": ref.operation, "run": ref.run, "key": ref.key}
    arguments = take_arguments(
        ReconcileInput, {**named, **given, "by": "human"}, limits=request.settings.limits
    )
    return arguments.receipt(source="human")


def _check_length(request: Request, name: str, text: str) -> None:
    limit = request.settings.limits.text_characters
    if len(text) > limit:
        raise TooLarge(name, size=len(text), limit=limit, unit="characters")
