"""Says what an effect acts on, in the program's own terms: a package, a pull request, a file in a namespace.

A rule says it by `target`, each part of which is one of

    --name|-n   the values of an option
    1, 2        an operand: a word that is neither option nor value, behind the words of the rule
    *           all of them
    {package}   what a reader finds where the program runs (`package_readers` and the like)

and several joined by `|` are tried one after the other. `at` names options that say where. A rule that says
nothing means all operands.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from counterfoil.server.hooks.files import digest_of_text
from counterfoil.server.hooks.fitting import subcommands
from counterfoil.server.hooks.rules.rule import CommandRule
from counterfoil.server.hooks.scene import Scene
from counterfoil.server.hooks.shell.options import Parsed, folders_of, one_of
from counterfoil.server.hooks.shell.script import Invocation
from counterfoil.server.hooks.shell.walking import within
from counterfoil.server.hooks.shell.words import Word
from counterfoil.store.domain.patterns import lazy_pattern

__all__ = ["ActedOn", "acted_on", "filled", "sent_told"]

_LONGEST = 300
_PLAIN = lazy_pattern(r"[A-Za-z0-9@._/:+~#!=-]{1,250}")
"""What may go into a lookup that a model is told: nothing that a shell takes for anything else."""

_ELSEWHERE = ("ssh", "in")
"""Names under which the wrappers of a shell say that something runs on another machine or in a container."""

_PLACES = one_of(
    "AWS_PROFILE AWS_REGION AWS_DEFAULT_REGION AWS_ACCOUNT_ID CLOUDSDK_CORE_PROJECT CLOUDSDK_COMPUTE_REGION",
    "KUBECONFIG KUBECTL_CONTEXT HELM_NAMESPACE HELM_KUBECONTEXT TF_WORKSPACE TF_DATA_DIR PULUMI_BACKEND_URL",
    "GH_HOST GITLAB_HOST DOCKER_HOST DOCKER_CONTEXT CONTAINER_HOST npm_config_registry NPM_CONFIG_REGISTRY",
    "TWINE_REPOSITORY TWINE_REPOSITORY_URL UV_PUBLISH_URL UV_PUBLISH_INDEX CARGO_REGISTRY_DEFAULT",
    "RUBYGEMS_HOST VERCEL_PROJECT_ID VERCEL_ORG_ID NETLIFY_SITE_ID CLOUDFLARE_ACCOUNT_ID FLY_APP",
)
"""Variables set in front of a program that say where it acts."""

_UNKNOWN = {
    "package": "NAME@VERSION",
    "name": "NAME",
    "version": "VERSION",
    "number": "NUMBER",
    "repository": "OWNER/NAME",
    "branch": "BRANCH",
    "tag": "TAG",
    "image": "IMAGE",
    "file": "FILE",
    "resource": "KIND/NAME",
    "1": "NAME",
    "workflow": "WORKFLOW",
    "where": "",
    "sent": "",
}
_OWN_WORDS = ("where", "sent")
"""Gaps that are filled with words of this program's, in which names have a plain form already."""

_OF_PACKAGES = one_of("package crate project archives built")
_OF_FORGES = one_of("repository pull-request merge-request new-pull-request issue release workflow endpoint")
"""The readers that are not found in `place_readers`."""

_GAP = lazy_pattern(r"\{(" + "|".join(_UNKNOWN) + r")\}")


class ActedOn(Struct, frozen=True, kw_only=True):
    """What an effect acts on. `names` are words by which somebody may have named it, `facts` what is known.

    `folder` is where the program works. `is_named`: a word of the command says it. `exact` is the target
    where nothing else has the same; `is_version`: a version that its registry takes once, whatever is in it.
    `is_vague`: it may be the target of another effect of its action, under whatever name. `lasting` is what
    holds of it although a program in front may change what was read (`npm version patch && npm publish`), as
    do the `lasting_facts`. `written` and `lasting_written` are both in the case of the words, where what is
    told stands in one case. `said` are the options, and `operand` the word, which the target tells wholly:
    where it is the same, so is what they mean.
    """

    target: str | None = None
    written: str | None = None
    names: tuple[str, ...] = ()
    facts: Mapping[str, str] = {}
    lasting: str | None = None
    lasting_written: str | None = None
    lasting_facts: Mapping[str, str] = {}
    folder: str | None = None
    is_named: bool = False
    exact: str | None = None
    is_version: bool = False
    is_vague: bool = False
    said: frozenset[str] = frozenset()
    operand: Word | None = None


def acted_on(
    invocation: Invocation, rule: CommandRule, options: Parsed, *, state: Mapping[str, str]
) -> ActedOn:
    """Tell what an effect of a rule acts on, by its words as `parsed_by` took them apart.

    `state` is what was read of where it runs.
    """
    folder = invocation.folder
    for word in options.values(*folders_of(invocation.program)):
        folder = within(folder, word)
    scene = Scene(
        program=invocation.program,
        verbs=[word.text for word in subcommands(invocation)[: len(rule.words)]],
        operands=options.operands,
        options=options,
        folder=None if invocation.is_elsewhere else folder,
        env={name: word.text for name, word in invocation.env if word.is_static},
        state=state,
    )
    specs = rule.target or ("*",)
    things = [thing for spec in specs for thing in _things(spec, scene)]
    is_named = scene.is_named
    places = [*_places(rule, scene)]
    where = [f"{label} {value}".rstrip() for label, value in places]
    shown = _shown(things, where)
    is_exact = bool(things) and scene.is_exact and len(shown) <= _LONGEST
    lasts = [left for thing in things if (left := scene.passing.get(thing, thing))]
    lasting = _shown(lasts, where)
    scene.facts.setdefault("where", _where(rule, scene))
    first = scene.operand()
    if first is not None:
        scene.facts.setdefault("1", first)
    return ActedOn(
        target=shown[:_LONGEST] or None,
        written=_written(things, where, scene),
        lasting_written=_written(lasts, where, scene),
        names=tuple(dict.fromkeys(_names(things, [value for _, value in places if value], scene.names))),
        facts=scene.facts,
        lasting=lasting[:_LONGEST] or None,
        lasting_facts={name: fact for name, fact in scene.facts.items() if name not in scene.passing_facts},
        folder=folder,
        is_named=is_named,
        exact=shown if is_exact else None,
        is_version=is_exact and scene.is_version,
        is_vague=scene.is_vague,
        said=frozenset(scene.said) if len(shown) <= _LONGEST else frozenset(),
        operand=scene.operands[0] if scene.says_operand and len(shown) <= _LONGEST else None,
    )


def _written(things: Sequence[str], where: Sequence[str], scene: Scene) -> str | None:
    """Give a target in the case in which its words have it; None where that is the one it is told in."""
    written = [scene.written.get(thing, thing) for thing in things]
    return None if written == list(things) else _shown(written, where)[:_LONGEST]


def _shown(things: Sequence[str], where: Sequence[str]) -> str:
    told = " ".join(things)
    if not where:
        return told
    return f"{told} ({', '.join(where)})" if told else ", ".join(where)


def _things(spec: str, scene: Scene) -> list[str]:
    """Give what one part of a target stands for; options beside each other are names of one."""
    names: list[str] = []
    for one in spec.split("|"):
        if one.startswith("-"):
            names.append(one)
            continue
        found = _of_options(names, scene) or _of_part(one, scene)
        if found:
            return found
        names = []
    return _of_options(names, scene)


def _of_options(names: Sequence[str], scene: Scene) -> list[str]:
    found = scene.values(*names) if names else []
    scene.names += found
    return found


def _of_part(part: str, scene: Scene) -> list[str]:
    if part == "*" or part.isdigit():
        chosen = scene.operands if part == "*" else scene.operands[int(part) - 1 : int(part)]
        found = [text for word in chosen if (text := scene.shown(word))]
        scene.names += found
        scene.is_exact = scene.is_exact and all(word.is_static for word in chosen)
        return found
    reader = _reader(part.strip("{}"))
    return [part] if reader is None else reader(scene)


def _reader(name: str) -> Callable[[Scene], list[str]] | None:
    """Give the reader of that name, loaded with those of its kind: a hook mostly needs one."""
    if name in _OF_PACKAGES:
        from counterfoil.server.hooks.package_readers import PACKAGE_READERS

        return PACKAGE_READERS[name]
    if name in _OF_FORGES:
        from counterfoil.server.hooks.forge_readers import FORGE_READERS

        return FORGE_READERS[name]
    from counterfoil.server.hooks.place_readers import PLACE_READERS

    return PLACE_READERS.get(name)


def _places(rule: CommandRule, scene: Scene) -> Iterator[tuple[str, str]]:
    """Give where an effect happens, each with what it is called."""
    for spec in rule.at:
        names = spec.split("|")
        label = max(names, key=len).lstrip("-").removeprefix("kube-")
        if scene.options.has(*names) and not scene.options.values(*names):
            yield label, ""
        values = scene.values(*names) or [text for text in (scene.state.get(f"current-{label}"),) if text]
        for value in values:
            yield label, value
    for name in sorted(_PLACES.intersection(scene.env)):
        yield name, scene.env[name]
    for name in _ELSEWHERE:
        if name in scene.env:
            yield "at", scene.env[name]


def _where(rule: CommandRule, scene: Scene) -> str:
    """Give the options that say where, as a lookup has to give them too."""
    told = []
    for spec in rule.at:
        names = spec.split("|")
        name = max(names, key=len)
        for value in scene.values(*names):
            told.append(f" {name} {value if _PLAIN.fullmatch(value) else name.lstrip('-').upper()}")
    return "".join(told)


def _names(things: Sequence[str], places: Sequence[str], more: Sequence[str]) -> Iterator[str]:
    yield from more
    yield from things
    if len(things) > 1:
        yield " ".join(things)
    for thing in dict.fromkeys((*more, *things)):
        for place in places:
            for mark in ("/", " ", ":"):
                yield f"{place}{mark}{thing}"
            yield f"{thing} {place}"
    yield from places


def sent_told(files: Mapping[str, str]) -> str:
    """Say of which content of the files that are sent a look holds, and what to do where it is another."""
    if len(files) == 1:
        ((name, digest),) = files.items()
        digest, what = digest.removeprefix("sha256:"), name if _PLAIN.fullmatch(name) else "the file"
    else:
        text = "".join(f"{name}\0{digest}\n" for name, digest in sorted(files.items()))
        digest, what = digest_of_text(text).removeprefix("sha256:"), f"{len(files)} files"
    known = f" ({what[-60:]}, sha256 {digest[:16]})" if files else ""
    return (
        f". This holds only while what was sent is unchanged{known}; if not, look from a copy as it was then"
    )


def filled(lookup: str | None, facts: Mapping[str, str]) -> str | None:
    """Put into a lookup what is known of the target; a word stands for what is not, or has no plain form."""

    def one(gap: re.Match[str]) -> str:
        value = facts.get(gap[1])
        if value is None or not (gap[1] in _OWN_WORDS or _PLAIN.fullmatch(value)):
            return _UNKNOWN[gap[1]]
        return value

    return None if lookup is None else _GAP.sub(one, lookup)
