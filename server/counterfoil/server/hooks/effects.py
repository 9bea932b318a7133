"""Tells which programs of a command are effects, and what makes each the one that it is."""

from collections.abc import Collection, Sequence
from typing import Any

from msgspec import Struct

from counterfoil.server.hooks.files import digests_of
from counterfoil.server.hooks.git_push import read_push
from counterfoil.server.hooks.http_request import read_request
from counterfoil.server.hooks.rules.rule import CommandRule, EffectRule, EffectRules
from counterfoil.server.hooks.shell.options import has_option, one_of, plain_words, values_before
from counterfoil.server.hooks.shell.secret_words import told_words
from counterfoil.server.hooks.shell.walking import Invocation, Script
from counterfoil.server.hooks.shell.words import Word
from counterfoil.store.domain.patterns import matches_glob

__all__ = ["Effect", "effects_of", "only_reads", "rule_for"]

_LEAVES_ALONE = one_of(
    "cd pushd popd echo printf true false : test [ [[ ls pwd export set cat head tail date which type hash",
    "command sleep grep rg wc sort jq tee sed awk tr cut basename dirname env uname whoami id read wait",
)
_SENDS_STATE = ("deployment", "release")
"""Kinds of effects that the same words mean otherwise each time."""

_AROUND = ("env", "stdin", "fed_by")
_GIT_LEAVES_ALONE = one_of(
    "add status log diff show remote fetch rev-parse ls-remote ls-files describe config push blame shortlog",
    "for-each-ref merge-base cat-file show-ref",
)


class Effect(Struct, frozen=True, kw_only=True):
    """One effect of a call. `sent` says what it is, `state` what goes with it, as far as known beforehand.

    `decides`: the end of the whole call tells whether it succeeded. `names` are all words by which an agent
    may have named the target, `words` those that tell what is done. `reference` is what the performing system
    calls what is sent as it stands now, `invocation` the program of the shell that performs it.
    `is_known` off: the call makes what it sends. `is_readable` off: what it sends cannot be found at all.
    `own` is what its own words say, whatever stands around it and whatever state goes with it.
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


def effects_of(script: Script, rules: EffectRules) -> tuple[Effect, ...]:
    """Give the effects of a command, in the order in which they stand."""
    found: list[Effect] = []
    is_known = script.is_whole
    for invocation in script.invocations:
        rule = rule_for(invocation, rules)
        effect = None if rule is None else _effect(invocation, rule, script, is_known=is_known)
        if effect is not None:
            found.append(effect)
        is_known = is_known and (effect is not None or _leaves_alone(invocation))
    return tuple(found)


def rule_for(invocation: Invocation, rules: EffectRules) -> CommandRule | None:
    """Give the rule by which a program is an effect; None where it is left alone."""
    program = invocation.program
    if not program:
        return None
    for rule in rules.commands:
        if matches_glob(program, rule.program) and _fits(invocation, rule):
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
    if not all(matches_glob(word.text, wanted) for word, wanted in zip(plain, rule.words, strict=False)):
        return False
    if any(has_option(words, option) for option in rule.unless):
        return False
    return not rule.needs or any(has_option(words, option) for option in rule.needs)


def _effect(invocation: Invocation, rule: CommandRule, script: Script, *, is_known: bool) -> Effect | None:
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
        files: dict[str, str] | None = _files((*request.bodies, *_input(invocation)), rule, invocation)
        sent: dict[str, Any] = {**request.sent, **{name: call[name] for name in _AROUND if name in call}}
        told |= {"target": request.url or None, "sent": sent, "state": files, "names": (request.url,)}
    elif rule.form == "git-push":
        pushed = read_push(invocation)
        if pushed is None:
            told |= {"target": None, "sent": call, "is_known": False, "is_readable": False}
        else:
            refs = [{"ref": ref, "commit": commit} for ref, commit in pushed.refs]
            told |= {
                "target": pushed.target,
                "sent": {"remote": pushed.remote, "refs": [ref for ref, _ in pushed.refs]},
                "state": refs,
                "names": pushed.names,
                "reference": pushed.commit,
                "lookup": f"git ls-remote {pushed.remote} {' '.join(ref for ref, _ in pushed.refs)}: it "
                f"happened "
                f"when what was pushed stands there "
                f"({pushed.commit if is_known else 'the commit of this call'})",
            }
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
            "state": _files(words, rule, invocation),
            "is_readable": rule.kind not in _SENDS_STATE or _is_readable(invocation),
            "names": names,
        }
    told["own"] = told["sent"]
    told["is_known"] = told["is_known"] or _is_self_contained(invocation, rule, told)
    if not told["is_known"]:
        # What is sent is made by this very call: it is told apart by all that the call does.
        told["sent"] = {"of": told["sent"], "in": [_canonical(part) for part in script.invocations]}
    return Effect(**told)


def _names(words: Sequence[str], *, takes: Collection[str]) -> tuple[str, ...]:
    """Give the words that may name the target: neither options nor the values of `takes`."""
    before = ("", *words)
    return tuple(
        text
        for text, option in zip(words, before, strict=False)
        if not text.startswith("-") and option not in takes
    )


def _is_self_contained(invocation: Invocation, rule: CommandRule, told: dict[str, Any]) -> bool:
    """Tell whether an effect's words say all of it, so that no program in front makes it another one."""
    if (
        rule.form == "git-push"
        or rule.kind in _SENDS_STATE
        or rule.files
        or told["state"]
        or not told["names"]
    ):
        return False
    if invocation.fed_by or invocation.stdin is not None or invocation.reads is not None:
        return False
    if not all(word.is_static for word in (*invocation.words, *(value for _, value in invocation.env))):
        return False
    if rule.form == "http":
        return not any("@" in text or "<" in text or "file" in name for name, text in _pairs(told["sent"]))
    # What looks like a file may be made by what stands in front.
    return not any(mark in word.text for word in invocation.words[1:] for mark in "/.@")


def _pairs(sent: dict[str, Any]) -> list[tuple[str, str]]:
    """Give what a request sends, by the option that says so."""
    parts = [part if isinstance(part, list) else ["", part] for part in sent.get("data", ())]
    return [(str(name), str(text)) for name, text in parts]


def _files(words: Sequence[Word], rule: CommandRule, invocation: Invocation) -> dict[str, str] | None:
    return digests_of(words, folder=invocation.folder, patterns=rule.files) or None


def _is_readable(invocation: Invocation) -> bool:
    """Tell whether what a command sends can be found before it runs."""
    return invocation.folder is not None and all(word.is_static for word in invocation.words)


def _input(invocation: Invocation) -> tuple[Word, ...]:
    return () if invocation.reads is None else (invocation.reads,)


def _canonical(invocation: Invocation) -> dict[str, Any]:
    """Give a program's call in the form that is compared: without quotes and white space, secrets marked."""
    first = invocation.program or invocation.words[0].text
    call: dict[str, Any] = {"words": [first, *told_words(invocation.program, invocation.words[1:])]}
    env = {name: word.text for name, word in invocation.env if not name.startswith("COUNTERFOIL_")}
    if env:
        call["env"] = env
    if invocation.folder is not None:
        call["folder"] = invocation.folder
    if invocation.stdin is not None:
        call["stdin"] = invocation.stdin
    if invocation.reads is not None:
        call["reads"] = invocation.reads.text
    if invocation.fed_by:
        call["fed_by"] = [_canonical(part) for part in invocation.fed_by if not part.fed_by] or [
            part.program for part in invocation.fed_by
        ]
    return call


def _leaves_alone(invocation: Invocation) -> bool:
    """Tell whether a program surely does not change what a later one sends."""
    if invocation.program in _LEAVES_ALONE:
        return True
    if invocation.program in ("git", "gh", "kubectl"):
        plain = plain_words(invocation.words[1:], takes=values_before(invocation.program))
        word = plain[0].text if plain else ""
        return invocation.program != "git" or word in _GIT_LEAVES_ALONE
    return False
