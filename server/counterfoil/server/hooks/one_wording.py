"""Puts a command into one of its wordings: where a variable or a short name says what others say too.

`GH_REPO=me/w gh pr create` is `gh pr create --repo=me/w`, and `kubectl delete deploy web` is `kubectl delete
deployment/web`. What says where an effect acts is then read, shown and compared in one way.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from counterfoil.server.hooks.fitting import parsed_by
from counterfoil.server.hooks.rules.rule import CommandRule
from counterfoil.server.hooks.shell.options import option_values, values_before
from counterfoil.server.hooks.shell.script import Invocation
from counterfoil.server.hooks.shell.words import Word

__all__ = ["in_one_wording"]


def _table(*lines: str) -> dict[str, tuple[str, ...]]:
    return {name: tuple(options.split("|")) for line in lines for name, options in _pairs(line)}


def _pairs(line: str) -> Iterator[tuple[str, str]]:
    for entry in line.split():
        name, _, options = entry.partition("=")
        yield name, options


_NPM = _table(
    "npm_config_registry=--registry NPM_CONFIG_REGISTRY=--registry",
    "npm_config_tag=--tag NPM_CONFIG_TAG=--tag npm_config_access=--access NPM_CONFIG_ACCESS=--access",
)
_FLY = _table("FLY_APP=--app|-a")
_COMPOSE = _table("COMPOSE_PROJECT_NAME=--project-name|-p COMPOSE_FILE=--file|-f")
_KUBECONFIG = _table("KUBECONFIG=--kubeconfig")
_DOCKER = _table("DOCKER_HOST=--host|-H DOCKER_CONTEXT=--context|-c")

_STANDS_FOR: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "gh": _table("GH_REPO=--repo|-R"),
    "glab": _table("GITLAB_REPO=--repo|-R"),
    "npm": _NPM,
    "pnpm": _NPM,
    "yarn": _table("npm_config_registry=--registry NPM_CONFIG_REGISTRY=--registry"),
    "bun": _table("npm_config_registry=--registry NPM_CONFIG_REGISTRY=--registry"),
    "cargo": _table("CARGO_REGISTRY_DEFAULT=--registry"),
    "twine": _table("TWINE_REPOSITORY=--repository|-r TWINE_REPOSITORY_URL=--repository-url"),
    "uv": _table("UV_PUBLISH_URL=--publish-url UV_PUBLISH_INDEX=--index"),
    "gem": _table("RUBYGEMS_HOST=--host"),
    "docker": _DOCKER | _COMPOSE,
    "docker-compose": _DOCKER | _COMPOSE,
    "podman": _table("CONTAINER_HOST=--url CONTAINER_CONNECTION=--connection"),
    "kubectl": _KUBECONFIG,
    "oc": _KUBECONFIG,
    "helm": _table(
        "KUBECONFIG=--kubeconfig HELM_NAMESPACE=--namespace|-n HELM_KUBECONTEXT=--kube-context",
    ),
    "gcloud": _table("CLOUDSDK_CORE_PROJECT=--project CLOUDSDK_CORE_ACCOUNT=--account"),
    "aws": _table("AWS_PROFILE=--profile AWS_REGION=--region AWS_ENDPOINT_URL=--endpoint-url"),
    "netlify": _table("NETLIFY_SITE_ID=--site|-s"),
    "fly": _FLY,
    "flyctl": _FLY,
    "wrangler": _table("CLOUDFLARE_ENV=--env|-e"),
    "ansible-playbook": _table("ANSIBLE_INVENTORY=--inventory|-i|--inventory-file"),
}
"""Variables that a program takes for an option of its own where that is not there, by program."""

_KINDS = {
    short: kind
    for kind, *shorts in (
        (line.split()[0], *line.split())
        for line in (
            "pod po pods",
            "service svc services",
            "deployment deploy deployments deployment.apps deployments.apps deployments.v1.apps",
            "replicaset rs replicasets replicaset.apps replicasets.apps",
            "statefulset sts statefulsets statefulset.apps statefulsets.apps",
            "daemonset ds daemonsets daemonset.apps daemonsets.apps",
            "job jobs job.batch jobs.batch",
            "cronjob cj cronjobs cronjob.batch cronjobs.batch",
            "replicationcontroller rc replicationcontrollers",
            "configmap cm configmaps",
            "secret secrets",
            "namespace ns namespaces",
            "node no nodes",
            "persistentvolume pv persistentvolumes",
            "persistentvolumeclaim pvc persistentvolumeclaims",
            "serviceaccount sa serviceaccounts",
            "ingress ing ingresses",
            "networkpolicy netpol networkpolicies",
            "horizontalpodautoscaler hpa horizontalpodautoscalers",
            "poddisruptionbudget pdb poddisruptionbudgets",
            "resourcequota quota resourcequotas",
            "limitrange limits limitranges",
            "storageclass sc storageclasses",
            "customresourcedefinition crd crds customresourcedefinitions",
            "priorityclass pc priorityclasses",
            "role roles",
            "rolebinding rolebindings",
            "clusterrole clusterroles",
            "clusterrolebinding clusterrolebindings",
        )
    )
    for short in shorts
}
"""All names of the kinds that every cluster knows; one that is a cluster's own stands as it is."""


def in_one_wording(invocation: Invocation, rule: CommandRule) -> Invocation:
    """Give a program that runs in the wording that stands for all that mean the same.

    An option outdoes the variable that stands for it, and an empty variable stands for nothing. A list of
    several files (`KUBECONFIG=a:b`) is no option, and stays.
    """
    words, env = invocation.words, invocation.env
    table = _STANDS_FOR.get(invocation.program, {})
    set_in_front = {name: word for name, word in env if name in table and not _is_list(name, word)}
    if set_in_front:
        added = tuple(
            Word(f"{table[name][0]}={word.text}", word.is_static)
            for name, word in set_in_front.items()
            if word.text and not any(option_values(words[1:], option) for option in table[name])
        )
        at = _behind_verbs(invocation, len(rule.words))
        words = (*words[:at], *added, *words[at:])
        env = tuple((name, word) for name, word in env if name not in set_in_front)
        invocation = replace(invocation, words=words, env=env)
    return _with_kinds(invocation, rule) if invocation.program in ("kubectl", "oc") else invocation


def _is_list(name: str, word: Word) -> bool:
    return name in ("KUBECONFIG", "COMPOSE_FILE") and ":" in word.text


def _behind_verbs(invocation: Invocation, verbs: int) -> int:
    """Give the place behind the words that a rule names, where each option of the program's is known."""
    words, takes = invocation.words, values_before(invocation.program)
    at = 1
    while verbs and at < len(words):
        text = words[at].text
        is_option = text.startswith(("-", "+")) and len(text) > 1
        verbs -= not is_option
        at += 2 if text in takes else 1
    return at


def _with_kinds(invocation: Invocation, rule: CommandRule) -> Invocation:
    """Give each resource that kubectl is to change as `KIND/NAME`, the kind by its own name.

    What `create` makes stands behind its kind as it did.
    """
    # `set image deployment web NAME=IMAGE`
    operands = [word for word in parsed_by(invocation, rule).operands if "=" not in word.text]
    if not operands or not all(word.is_static for word in operands):
        return invocation
    written = [word.text.partition("/")[0].lower() for word in operands]
    kinds = [_KINDS.get(kind, kind) for kind in written]
    is_pair = "/" not in operands[0].text
    joins = is_pair and len(operands) > 1 and "create" not in rule.words
    changed: dict[int, str | None] = {}
    for at, word in enumerate(operands):
        if not is_pair:
            changed[id(word)] = "/".join((kinds[at], *word.text.partition("/")[2:]))
        elif at == 0:
            changed[id(word)] = None if joins else kinds[0]
        elif joins:
            changed[id(word)] = f"{kinds[0]}/{word.text}"
    words = tuple(_renamed(invocation.words, changed))
    return invocation if words == invocation.words else replace(invocation, words=words)


def _renamed(words: Sequence[Word], changed: Mapping[int, str | None]) -> Iterator[Word]:
    for word in words:
        text = changed.get(id(word), word.text)
        if text is not None:
            yield word if text == word.text else Word(text)
