"""Tells which programs of a command are effects, and what makes each the one that it is."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from counterfoil.server.hooks.files import digest_of_text, digests_of
from counterfoil.server.hooks.fitting import only_reads, rule_for, subcommands
from counterfoil.server.hooks.git_push import Answers, Pushed, read_push
from counterfoil.server.hooks.http_request import read_request
from counterfoil.server.hooks.making import leaves_alone, note_made, sends_made
from counterfoil.server.hooks.rules.rule import CommandRule, EffectRule, EffectRules
from counterfoil.server.hooks.shell.options import values_before
from counterfoil.server.hooks.shell.secret_words import told_words
from counterfoil.server.hooks.shell.walking import Invocation, Script
from counterfoil.server.hooks.shell.words import Word
from counterfoil.server.hooks.told import (
    SENDS_STATE,
    is_around_told,
    is_place_told,
    is_readable,
    is_request_told,
    pairs_of,
    told_env,
)
from counterfoil.server.hooks.unread import open_rule, rule_around, rule_in, sends_openly
from counterfoil.store.domain.patterns import lazy_pattern

if TYPE_CHECKING:
    from counterfoil.server.hooks.acted_on import ActedOn

__all__ = ["Effect", "TooMuch", "effects_of", "unread_rule"]

_MOST_EFFECTS = 100
"""Each is looked up and noted on its own: for more, a call would wait for its hook, not for its work."""
_MOST_PROGRAMS = 1_000

_OF_BRANCHES = frozenset(("branch", "commit"))
"""State that only git changes."""

_AROUND = ("env", "stdin", "fed_by")


class Effect(Struct, frozen=True, kw_only=True):
    """One effect of a call. `sent` says what it is, `state` what goes with it, as far as known beforehand.

    `decides`: the end of the whole call tells whether it succeeded. `names` are all words by which an agent
    may have named the target, `words` those that tell what is done. `reference` is what the performing system
    calls what is sent as it stands now, `invocation` the program of the shell that performs it.
    `is_known` off: the call makes what it sends. `is_readable` off: what it sends cannot be found at all.
    `is_named`: a word of the command says the target. `once` is a target that can be acted on once: no two
    effects have it; `is_version` where it is a version of a package, which no other content takes either.
    `is_vague`: its target may be that of any effect of its action.
    `own` is what its own words say, whatever stands around it and whatever state goes with
    it. `former_target` is the target that keys were made of before rules told it, where there is such a one;
    `former_sent` is what was sent in the words as they were written, where its one spelling is another.
    `pushed` is what a push sends, `pieces` are the pushes of its refs, each as it would be alone, where it
    has several.
    """

    rule: EffectRule
    action: str
    target: str | None
    sent: Any
    state: Any = None
    decides: bool = True
    names: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    reference: str | None = None
    lookup: str | None = None
    invocation: Invocation | None = None
    is_known: bool = True
    is_readable: bool = True
    is_named: bool = False
    once: str | None = None
    is_version: bool = False
    is_vague: bool = False
    former_target: str | None = None
    has_former_target: bool = False
    former_sent: Any = None
    own: Any = None
    pushed: Pushed | None = None
    pieces: "tuple[Effect, ...]" = ()

    @property
    def is_wide(self) -> bool:
        """Tell whether it reaches more of its target than can be told one by one."""
        return self.pushed is not None and self.pushed.is_wide


class TooMuch(Exception):
    """More stands in a call than is read before it runs: it says what, in words for the model."""


class _Whole(Struct, kw_only=True):
    """What is found out about a whole command once, however many effects it has."""

    script: Script
    made: dict[str, str | None] = field(default_factory=dict)
    answers: Answers = field(default_factory=dict)
    canonical: list[dict[str, Any]] | None = None
    made_from: dict[int, dict[str, str]] = field(default_factory=dict)

    @property
    def programs(self) -> list[dict[str, Any]]:
        """All programs in the form that is compared."""
        if self.canonical is None:
            self.canonical = [_canonical(part) for part in self.script.invocations]
        return self.canonical

    def from_files(self, invocation: Invocation) -> dict[str, str]:
        """Give the digests of the files that the programs in front of an effect name."""
        found: dict[str, str] = {}
        for at, part in enumerate(self.script.invocations):
            if part.words == invocation.words and part.folder == invocation.folder:
                break
            if at not in self.made_from:
                words = () if leaves_alone(part) else (*part.words[1:], *_input(part))
                self.made_from[at] = digests_of(words, folder=part.folder)
            found |= self.made_from[at]
        return found


def effects_of(script: Script, rules: EffectRules) -> tuple[Effect, ...]:
    """Give the effects of a command, in the order in which they stand.

    Raises:
        TooMuch: it runs more programs than are looked at, or has more effects than are put on record at once.
    """
    if len(script.invocations) > _MOST_PROGRAMS:
        raise TooMuch(f"a command of more than {_MOST_PROGRAMS} programs")
    found: list[Effect] = []
    whole = _Whole(script=script)
    made, counted = whole.made, 0
    is_known = script.is_whole
    for invocation in script.invocations:
        rule = rule_for(invocation, rules)
        unread = unread_rule(invocation, rule, script, rules)
        effect: Effect | None = None
        if unread is not None:
            effect = _unread_effect(invocation, unread, whole)
        elif rule is not None and not _is_unread(invocation):
            effect = _effect(invocation, rule, whole, is_known=is_known)
        if effect is not None:
            found.append(effect)
            counted += len(effect.pieces) or 1
        if counted > _MOST_EFFECTS:
            raise TooMuch(f"a command of more than {_MOST_EFFECTS} effects")
        is_known = is_known and (effect is not None or leaves_alone(invocation))
        note_made(invocation, made)
    return tuple(found) or _of_errors(whole, rules)


def _of_errors(whole: _Whole, rules: EffectRules) -> tuple[Effect, ...]:
    """Give the effect that may be in what is no shell script: all words of a rule stand on one line of it.

    Mostly a shell refuses such a command, and says so; the grammar here may also be behind a shell's.
    """
    for text in whole.script.unread:
        for line in _BETWEEN_COMMANDS.split(text):
            rule = rule_in(line, rules)
            if rule is not None:
                call = {"unread": digest_of_text(text)}
                return (_unknown(rule, {"of": call, "in": whole.programs}, call),)
    return ()


_BETWEEN_COMMANDS = lazy_pattern(r"[\n;|&]+")


def _effect(
    invocation: Invocation,
    rule: CommandRule,
    whole: _Whole,
    *,
    is_known: bool,
) -> Effect | None:
    script, made = whole.script, whole.made
    call = _canonical(invocation)
    told: dict[str, Any] = {
        "rule": rule,
        "action": rule.action or ".".join((invocation.program, *rule.words)),
        "decides": invocation.decides,
        "invocation": invocation,
        "words": tuple(
            word.text for word in (invocation.words[0], *subcommands(invocation)[: len(rule.words)])
        ),
        "is_known": is_known,
    }
    acted: ActedOn | None = None
    if rule.form == "http":
        request = read_request(invocation)
        if request is None:
            return None
        around = tuple(word for part in invocation.fed_by for word in (*part.words[1:], *_input(part)))
        words = (*request.bodies, *_input(invocation), *around)
        sent: dict[str, Any] = {**request.sent, **{name: call[name] for name in _AROUND if name in call}}
        told |= {
            "lookup": rule.lookup,
            "target": request.url or None,
            "sent": sent,
            "state": _files(words, rule, invocation, made),
            "is_known": is_known and not sends_made(invocation, rule, words, made),
            "names": (request.url,),
            "is_named": True,
            "is_readable": is_request_told(invocation) and is_around_told(invocation),
        }
    elif rule.form == "git-push":
        pushed = read_push(invocation, whole.answers)
        told["pushed"] = pushed
        if pushed is None or not is_place_told(invocation):
            told |= {
                "lookup": rule.lookup,
                "target": None,
                "sent": call,
                "is_known": False,
                "is_readable": False,
            }
        else:
            told |= _of_push(pushed, is_known=is_known) | {"is_readable": True}
    else:
        from counterfoil.server.hooks.acted_on import acted_on, filled, parsed_by, sent_told
        from counterfoil.server.hooks.one_wording import in_one_wording
        from counterfoil.server.hooks.spelling import spelled

        worded = in_one_wording(invocation, rule)
        spelling = spelled(worded, rule)
        others = tuple(word for part in invocation.fed_by for word in (*part.words[1:], *_input(part)))
        words = (*spelling.may_name_files, *_input(invocation), *others)
        options = parsed_by(worded, rule)
        states: dict[str, str] | None = {}
        if rule.state:
            from counterfoil.server.hooks.sent_state import read_states

            states = read_states(rule.state, worded, operands=options.operands)
        acted = acted_on(worded, rule, options, state=states or {})
        files = _files(words, rule, invocation, made, folder=acted.folder)
        takes = frozenset() if rule.words else values_before(invocation.program)
        given = (text for text in call["words"][1 + len(rule.words) :] if isinstance(text, str))
        loose = " ".join(_loose(tuple(given), takes=takes))
        told |= {
            "target": acted.target,
            "sent": _canonical(worded) | spelling.told(said=acted.said, operand=acted.operand),
            "former_sent": call,
            "state": {**(files or {}), **(states or {})} or None,
            "is_known": is_known and not sends_made(invocation, rule, words, made),
            "is_readable": is_readable(invocation, rule)
            and is_around_told(invocation)
            and states is not None,
            "names": acted.names if worded is invocation else (*acted.names, *_as_written(invocation, rule)),
            "is_named": acted.is_named,
            "once": acted.exact if rule.once else None,
            "is_version": acted.is_version,
            "is_vague": acted.is_vague,
            "lookup": filled(rule.lookup, {**acted.facts, "sent": sent_told(files or {})}),
            "former_target": loose[:300] or None,
            "has_former_target": True,
        }
    told["is_known"] = told["is_known"] or _is_self_contained(
        invocation, rule, told, script, is_passing=acted is not None and acted.lasting != acted.target
    )
    if acted is not None and acted.is_vague:
        told["is_known"] = False
    beside: dict[str, Any] = {}
    if not told["is_known"]:
        if acted is not None:
            told |= {
                "target": acted.lasting,
                "lookup": filled(rule.lookup, {**acted.lasting_facts, "sent": sent_told({})}),
            }
        # What is sent is made by this very call: it is told apart by all that the call does, and out of what.
        beside = {"in": whole.programs}
        made_from = whole.from_files(invocation)
        if made_from:
            beside["from"] = made_from
    pushed = told.get("pushed")
    by_ref = pushed.by_ref if pushed is not None and told["is_readable"] and len(pushed.refs) > 1 else ()
    pieces = tuple(
        _made(told | {"pushed": one} | _of_push(one, is_known=told["is_known"]), beside) for one in by_ref
    )
    return _made(told | {"pieces": pieces}, beside)


def _as_written(invocation: Invocation, rule: CommandRule) -> Iterator[str]:
    """Give what an agent may call the target by its words as they stand: `deploy/web` and `deploy web`."""
    from counterfoil.server.hooks.acted_on import parsed_by

    operands = [word.text for word in parsed_by(invocation, rule).operands if word.is_static]
    yield from operands
    if len(operands) > 1:
        yield from (" ".join(operands), "/".join(operands))


def _made(told: dict[str, Any], beside: dict[str, Any]) -> Effect:
    """Give an effect by what its words say; `beside` is what the call does with it, where that counts."""
    own, former = told["sent"], told.get("former_sent")
    return Effect(
        **told
        | {
            "own": own,
            "sent": {"of": own, **beside} if beside else own,
            "former_sent": None if former == own else {"of": former, **beside} if beside else former,
        }
    )


def _of_push(pushed: Pushed, *, is_known: bool) -> dict[str, Any]:
    """Give what makes a push the one that it is."""
    refs = [ref for ref, _ in pushed.refs]
    return {
        "target": pushed.target,
        "sent": {"remote": pushed.remote, "refs": refs},
        "state": [{"ref": ref, "commit": commit} for ref, commit in pushed.refs],
        "names": pushed.names,
        "is_named": True,
        "reference": pushed.commit,
        "lookup": f"git ls-remote {pushed.remote} {' '.join(refs)}: it happened when what was pushed stands "
        f"there ({pushed.commit if is_known else 'the commit of this call'})",
    }


def _lookup(rule: CommandRule) -> str | None:
    """Give a rule's lookup where nothing is known of the target."""
    if rule.lookup is None or "{" not in rule.lookup:
        return rule.lookup
    from counterfoil.server.hooks.acted_on import filled

    return filled(rule.lookup, {})


def _loose(words: Sequence[str], *, takes: Collection[str]) -> tuple[str, ...]:
    """Give the words that are neither options nor the values of `takes`, the values of others among them."""
    before = ("", *words)
    return tuple(
        text
        for text, option in zip(words, before, strict=False)
        if not text.startswith("-") and option not in takes
    )


def _is_self_contained(
    invocation: Invocation, rule: CommandRule, told: dict[str, Any], script: Script, *, is_passing: bool
) -> bool:
    """Tell whether an effect's words say all of it, so that no program in front makes it another one.

    `is_passing`: a part of its target is what the repository now has it to be.
    """
    if rule.form == "git-push" or rule.kind in SENDS_STATE or rule.files:
        return False
    if not told["names"] and not told.get("former_target"):
        return False
    if set(told["state"] or ()) - _OF_BRANCHES:
        return False
    if (told["state"] or is_passing) and any(
        part.program in ("git", "gh") and not leaves_alone(part) for part in script.invocations
    ):
        return False
    if invocation.fed_by or invocation.stdin is not None or invocation.reads is not None:
        return False
    if not all(word.is_static for word in (*invocation.words, *(value for _, value in told_env(invocation)))):
        return False
    if rule.form == "http":
        return not any("@" in text or "<" in text or "file" in name for name, text in pairs_of(told["sent"]))
    # What looks like a file may be made by what stands in front.
    return not any(mark in word.text for word in invocation.words[1:] for mark in "/.@")


def _files(
    words: Sequence[Word],
    rule: CommandRule,
    invocation: Invocation,
    made: Mapping[str, str | None],
    *,
    folder: str | None = None,
) -> dict[str, str] | None:
    """Give the digests of what a program names, and of what a rule names in the folder where it works."""
    found = digests_of(words, folder=invocation.folder, made=made)
    if rule.files:
        found |= digests_of((), folder=folder or invocation.folder, patterns=rule.files)
    return dict(sorted(found.items())) or None


def _input(invocation: Invocation) -> tuple[Word, ...]:
    return tuple(word for word in (invocation.reads, _reading(invocation.stdin)) if word is not None)


def _reading(word: Word | None) -> Word | None:
    """Give the files that a text holds, and not what stands in it."""
    return None if word is None or not word.reads else Word("", is_static=False, reads=word.reads)


def _is_unread(invocation: Invocation) -> bool:
    """Tell whether only the running shell knows which program it is, or what a shell is fed with."""
    return invocation.is_fed or not invocation.words[0].is_static


def unread_rule(
    invocation: Invocation, rule: CommandRule | None, script: Script, rules: EffectRules
) -> CommandRule | None:
    """Give the rule by which a program may be an effect that only the running shell can tell; None: by none.

    `rule` is the one by which it is an effect as it is written.
    """
    if _is_unread(invocation):
        return rule_around(invocation, script, rules)
    if rule is None:
        return open_rule(invocation, script, rules)
    return rule if sends_openly(invocation, script) and only_reads(invocation, rule) else None


def _unread_effect(invocation: Invocation, rule: CommandRule, whole: _Whole) -> Effect:
    """Give the effect that may be in what cannot be read.

    Its end tells nothing, and nothing is known of what it would send.
    """
    call = _canonical(invocation)
    return _unknown(rule, {"of": call, "in": whole.programs}, call)


def _unknown(rule: CommandRule, sent: Any, own: Any) -> Effect:
    """Give an effect of a rule of which nothing is known but the words that stand around it."""
    return Effect(
        rule=rule,
        action=rule.action or ".".join((rule.program, *rule.words)),
        target=None,
        sent=sent,
        decides=False,
        lookup=_lookup(rule),
        words=(rule.program, *rule.words),
        is_known=False,
        is_readable=False,
        own=own,
    )


def _canonical(invocation: Invocation) -> dict[str, Any]:
    """Give a program's call in the form that is compared: without quotes and white space, secrets marked."""
    first = invocation.program or invocation.words[0].text
    call: dict[str, Any] = {"words": [first, *told_words(invocation.program, invocation.words[1:])]}
    env = {name: word.text for name, word in told_env(invocation)}
    if env:
        call["env"] = env
    if invocation.folder is not None:
        call["folder"] = invocation.folder
    if invocation.stdin is not None:
        call["stdin"] = invocation.stdin.text
    if invocation.reads is not None:
        call["reads"] = invocation.reads.text
    if invocation.fed_by:
        call["fed_by"] = [_canonical(part) for part in invocation.fed_by if not part.fed_by] or [
            part.program for part in invocation.fed_by
        ]
    return call
