"""The guide: how to work with the journal, for a person or a model that wants more than the tools' words."""

__all__ = ["GUIDE"]

GUIDE = """\
# Counterfoil: the guide

A counterfoil is the stub that stays in the book when a cheque is torn off: written before the payment,
matched with the receipt after it. This server is that book for agents. An agent writes the stub before an
external effect and the receipt after it; whoever resumes the work reads what is done, what is in doubt and
what may be done now.

## One effect, from beginning to end

1. `begin_operation` with run, key, action, target, args. Act only on `next: perform`, once, before
   `send_before`, with its `idempotency_key` where the performing system takes one.
2. Perform the effect. Where there is room for it (a header, a commit trailer, a reference field), put the
   operation id into it: then a lookup finds this one and no other.
3. `record_receipt` with the reference that the performing system returned. Did it not succeed, or can you
   not tell: `record_failure`.

## Names

A run is one execution of a workflow, an operation one intended effect in it, under a key. Choose both as
any later session that remembers nothing would choose them again: run `weekly-report/2026-W48`, key
`email:alice:invoice-42`. Never a random id, a session id, the present time or a count of attempts.

## The words of `next`

| next | what to do |
|---|---|
| perform | Do it now, once. Only `begin_operation` says this. |
| begin | In plans and checks: call `begin_operation`; it decides. |
| skip | It is settled: do not do it. |
| wait | Someone or something goes first: ask again at `retry_at`. |
| reconcile | It may have happened: look it up, then `reconcile_operation`. |
| ask | A person must decide. |
| stop | The call does not fit as made: see `conflict`, `duplicates`, `unmet`. |
| continue | Taken: carry on. |

## When it is in doubt

Look in the performing system as `lookup` says. What is older than `since` is not this effect. Then call
`reconcile_operation` with what you saw and the `as_of` of the answer that sent you to look. Having found
nothing counts only after `settle_until`: a request that was sent may still arrive.

## Receipts

Evidence from the system that performed the effect: a message id, a commit hash, a transaction id. That it
was done is a claim, not a receipt. Receipts are welcome at any time, also late ones.

A receipt says that it succeeded. A check that came out red (tests, a review) did not: `record_failure` with
`effect: none` and the report as evidence, so that nothing that depends on it goes on. What a person denied
was never sent: the same, with `retryable: false`.

## Beginning well

Say `repeat`: unsafe (doing it twice does harm; the default), keyed (the performing system drops a second
request with the same idempotency key, for `key_ttl_seconds`), safe (twice is harmless). Give `lookup`: how
a later session finds out whether it happened. Without one, a crash ends with a question to a person.

This is not exactly-once. For an unsafe effect that nobody can look up, the honest end after a crash is a
question for a person.
"""
