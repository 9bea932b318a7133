"""Tells which programs of a command are effects, and what makes each the one that it is."""

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from counterfoil.server.hooks.files import digest_of_text, digests_of, names_any
from counterfoil.server.hooks.git_push import Answers, Pushed, read_push
from counterfoil.server.hooks.http_request import read_request
from counterfoil.server.hooks.rules.rule import CommandRule, EffectRule, EffectRules
from counterfoil.server.hooks.shell.options import has_option, one_of, plain_words, values_before
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
from counterfoil.server.hooks.unread import is_word, open_rule, rule_around, sends_openly

__all__ = ["Effect", "TooMuch", "effects_of", "only_reads", "rule_for", "unread_rule"]

_MOST_EFFECTS = 100
"""Each is looked up and noted on its own: for more, a call would wait for its hook, not for its work."""
_MOST_PROGRAMS = 1_000

_LEAVES_ALONE = one_of(
    "cd pushd popd echo printf true false : test [ [[ ls pwd export set cat head tail date which type hash",
    "command sleep grep rg wc sort jq tee sed awk tr cut basename dirname env uname whoami id read wait",
)
_OF_BRANCHES = frozenset(("branch", "commit"))
"""State that only git changes."""

_AROUND = ("env", "stdin", "fed_by")
_LEAVE_ALONE = {
    "git": one_of(
        "add status log diff show fetch rev-parse ls-remote ls-files describe push blame shortlog",
        "for-each-ref merge-base cat-file show-ref",
    ),
    "gh": one_of("pr issue release run workflow api search status label browse version"),
    "kubectl": one_of(
        "get describe logs wait diff top version explain api-resources cluster-info",
        "apply create delete rollout",
    ),
}
"""Subcommands that do not change what a later program sends, to whom, or where."""

_ONLY_SHOW = {
    ("git", "remote"): one_of("show get-url"),
    ("git", "config"): one_of("get list"),
    ("gh", "auth"): one_of("status token"),
    ("gh", "repo"): one_of("view list"),
    ("kubectl", "config"): one_of("current-context get-contexts get-clusters view"),
}
"""Subcommands that may choose another place; these words of them only show it."""


class Effect(Struct, frozen=True, kw_only=True):
    """One effect of a call. `sent` says what it is, `state` what goes with it, as far as known beforehand.

    `decides`: the end of the whole call tells whether it succeeded. `names` are all words by which an agent
    may have named the target, `words` those that tell what is done. `reference` is what the performing system
    calls what is sent as it stands now, `invocation` the program of the shell that performs it.
    `is_known` off: the call makes what it sends. `is_readable` off: what it sends cannot be found at all.
    `own` is what its own words say, whatever stands around it and whatever state goes with it. `pushed` is
    what a push sends, `pieces` are the pushes of its refs, each as it would be alone, where it has several.
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
                words = () if _leaves_alone(part) else (*part.words[1:], *_input(part))
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
        is_known = is_known and (effect is not None or _leaves_alone(invocation))
        _note_made(invocation, made)
    return tuple(found)


_SOMEWHERE = "*"
"""Stands for a file of which nobody knows where it is made."""


def _note_made(invocation: Invocation, made: dict[str, str | None]) -> None:
    """Note the files that a program's output goes to, each with its digest where that is known."""
    for word in invocation.writes:
        if invocation.is_elsewhere:
            continue
        if invocation.folder is None or not word.is_static:
            made[_SOMEWHERE] = None
            continue
        from counterfoil.server.hooks.shell.feeding import printed_text

        path = os.path.normpath(os.path.join(invocation.folder, os.path.expanduser(word.text)))
        text = None if len(invocation.writes) > 1 or path in made else printed_text(invocation)
        made[path] = None if text is None or invocation.appends else digest_of_text(text)


def _sends_made(
    invocation: Invocation, rule: CommandRule, words: Sequence[Word], made: Mapping[str, str | None]
) -> bool:
    """Tell whether an effect may send a file that the same call makes, and whose content nobody knows."""
    if not made or invocation.folder is None:
        return bool(made) and not invocation.is_elsewhere
    if rule.files or rule.state:
        inside = f"{invocation.folder.rstrip('/')}/"
        if any(path.startswith(inside) or path == _SOMEWHERE for path in made):
            return bool(set(rule.state) - {"head", "branch", "kube-context"}) or bool(rule.files)
    unknown = [path for path, digest in made.items() if digest is None]
    return _SOMEWHERE in unknown or names_any(words, unknown, folder=invocation.folder)


def rule_for(invocation: Invocation, rules: EffectRules) -> CommandRule | None:
    """Give the rule by which a program is an effect; None where it is left alone."""
    program = invocation.program
    if not program:
        return None
    for rule in rules.commands:
        if is_word(program, rule.program) and _fits(invocation, rule):
            return rule if rule.effect else None
    return None


def only_reads(invocation: Invocation, rule: CommandRule) -> bool:
    """Tell whether a request that a rule names changes nothing, and so is no effect."""
    return rule.form == "http" and read_request(invocation) is None


def _fits(invocation: Invocation, rule: CommandRule) -> bool:
    words = invocation.words[1:]
    plain = plain_words(words, takes=values_before(invocation.program))
    plain = [word for word in plain if not word.text.startswith("+")]
    if len(plain) < len(rule.words):
        return False
    if not all(is_word(word.text, wanted) for word, wanted in zip(plain, rule.words, strict=False)):
        return False
    if any(has_option(words, option) for option in rule.unless):
        return False
    return not rule.needs or any(has_option(words, option) for option in rule.needs)


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
        "lookup": rule.lookup,
        "words": tuple(
            word.text for word in (*invocation.words[:1], *invocation.words[1 : 1 + len(rule.words)])
        ),
        "is_known": is_known,
    }
    if rule.form == "http":
        request = read_request(invocation)
        if request is None:
            return None
        around = tuple(word for part in invocation.fed_by for word in (*part.words[1:], *_input(part)))
        words = (*request.bodies, *_input(invocation), *around)
        sent: dict[str, Any] = {**request.sent, **{name: call[name] for name in _AROUND if name in call}}
        told |= {
            "target": request.url or None,
            "sent": sent,
            "state": _files(words, rule, invocation, made),
            "is_known": is_known and not _sends_made(invocation, rule, words, made),
            "names": (request.url,),
            "is_readable": is_request_told(invocation) and is_around_told(invocation),
        }
    elif rule.form == "git-push":
        pushed = read_push(invocation, whole.answers)
        told["pushed"] = pushed
        if pushed is None or not is_place_told(invocation):
            told |= {"target": None, "sent": call, "is_known": False, "is_readable": False}
        else:
            told |= _of_push(pushed, is_known=is_known)
    else:
        words = tuple(
            word for part in (invocation, *invocation.fed_by) for word in (*part.words[1:], *_input(part))
        )
        takes = frozenset() if rule.words else values_before(invocation.program)
        given = (text for text in call["words"][1 + len(rule.words) :] if isinstance(text, str))
        names = _names(tuple(given), takes=takes)
        told |= {
            "target": " ".join(names)[:300] or None,
            "sent": call,
            "state": _files(words, rule, invocation, made),
            "is_known": is_known and not _sends_made(invocation, rule, words, made),
            "is_readable": is_readable(invocation, rule) and is_around_told(invocation),
            "names": names,
        }
        if rule.state:
            from counterfoil.server.hooks.sent_state import read_states

            read = read_states(rule.state, invocation)
            told["state"] = {**(told["state"] or {}), **(read or {})} or None
            told["is_readable"] = told["is_readable"] and read is not None
    told.setdefault("is_readable", True)
    told["is_known"] = told["is_known"] or _is_self_contained(invocation, rule, told, script)
    beside: dict[str, Any] = {}
    if not told["is_known"]:
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


def _made(told: dict[str, Any], beside: dict[str, Any]) -> Effect:
    """Give an effect by what its words say; `beside` is what the call does with it, where that counts."""
    own = told["sent"]
    return Effect(**told | {"own": own, "sent": {"of": own, **beside} if beside else own})


def _of_push(pushed: Pushed, *, is_known: bool) -> dict[str, Any]:
    """Give what makes a push the one that it is."""
    refs = [ref for ref, _ in pushed.refs]
    return {
        "target": pushed.target,
        "sent": {"remote": pushed.remote, "refs": refs},
        "state": [{"ref": ref, "commit": commit} for ref, commit in pushed.refs],
        "names": pushed.names,
        "reference": pushed.commit,
        "lookup": f"git ls-remote {pushed.remote} {' '.join(refs)}: it happened when what was pushed stands "
        f"there ({pushed.commit if is_known else 'the commit of this call'})",
    }


def _names(words: Sequence[str], *, takes: Collection[str]) -> tuple[str, ...]:
    """Give the words that may name the target: neither options nor the values of `takes`."""
    before = ("", *words)
    return tuple(
        text
        for text, option in zip(words, before, strict=False)
        if not text.startswith("-") and option not in takes
    )


def _is_self_contained(
    invocation: Invocation, rule: CommandRule, told: dict[str, Any], script: Script
) -> bool:
    """Tell whether an effect's words say all of it, so that no program in front makes it another one."""
    if rule.form == "git-push" or rule.kind in SENDS_STATE or rule.files or not told["names"]:
        return False
    if set(told["state"] or ()) - _OF_BRANCHES:
        return False
    if told["state"] and any(
        part.program in ("git", "gh") and not _leaves_alone(part) for part in script.invocations
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
    words: Sequence[Word], rule: CommandRule, invocation: Invocation, made: Mapping[str, str | None]
) -> dict[str, str] | None:
    return digests_of(words, folder=invocation.folder, patterns=rule.files, made=made) or None


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
    return Effect(
        rule=rule,
        action=rule.action or ".".join((rule.program, *rule.words)),
        target=None,
        sent={"of": call, "in": whole.programs},
        decides=False,
        lookup=rule.lookup,
        words=(rule.program, *rule.words),
        is_known=False,
        is_readable=False,
        own=call,
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


def _writes_itself(invocation: Invocation) -> bool:
    words = invocation.words[1:]
    match invocation.program:
        case "sed" | "awk":
            return any(word.text.startswith(("-i", "--in-place")) for word in words)
        case "sort":
            return has_option(words, "-o") or has_option(words, "--output")
        case "tee":
            return any(not word.text.startswith(("-", "/dev/")) for word in words)
        case _:
            return False


def _leaves_alone(invocation: Invocation) -> bool:
    """Tell whether a program surely does not change what a later one sends, but for where its output goes."""
    if invocation.program in _LEAVES_ALONE:
        return not _writes_itself(invocation)
    reading = _LEAVE_ALONE.get(invocation.program)
    if reading is None:
        return False
    plain = plain_words(invocation.words[1:], takes=values_before(invocation.program))
    words = [word.text for word in plain[:2]]
    showing = _ONLY_SHOW.get((invocation.program, words[0] if words else ""))
    if showing is not None:
        only_lists = any(has_option(invocation.words[1:], name) for name in ("--get", "--list", "-l"))
        return only_lists or len(words) == 1 or words[1] in showing
    return not words or words[0] in reading
