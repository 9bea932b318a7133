"""Options of a command: whether one is there, with which value, and which words are none."""

from collections.abc import Collection, Sequence

from counterfoil.server.hooks.shell.words import Word
from counterfoil.store.domain.patterns import lazy_pattern

__all__ = ["has_option", "one_of", "option_values", "plain_words", "values_before"]

_CLUSTER = lazy_pattern(r"-[A-Za-z]{2,3}")

_TAKES = {
    "git": "-C -c --git-dir --work-tree --namespace --exec-path --config-env",
    "gh": "-R --repo --hostname",
    "glab": "-R --repo",
    "kubectl": "-n --namespace --context --cluster --kubeconfig -s --server --user --token --as",
    "helm": "-n --namespace --kube-context --kubeconfig --registry-config",
    "docker": "-H --host --context -c --config -l --log-level",
    "podman": "-H --url --connection -c --log-level",
    "npm": "-w --workspace --registry --prefix -C --userconfig",
    "pnpm": "-C --dir --filter -F --registry",
    "yarn": "--cwd --registry",
    "cargo": "--config -Z --color -C --manifest-path",
    "uv": "--directory --project --config-file --cache-dir",
    "poetry": "-C --directory -P --project",
    "fly": "-a --app -c --config -t --access-token",
    "flyctl": "-a --app -c --config -t --access-token",
    "gcloud": "--project --account --configuration --region --zone",
    "firebase": "-P --project --token",
    "vercel": "-t --token -S --scope --cwd -A --local-config",
    "netlify": "--auth --site -s",
    "wrangler": "-c --config -e --env --cwd",
    "pulumi": "-C --cwd -s --stack --color",
    "mail": "-s --subject -a --append -A --attach -b --bcc -c --cc -r --return-address -S -u --user",
    "sendmail": "-f -F -r -B -C -L -N -O -R -V -X",
    "stripe": "--api-key --project-name --color",
}


def one_of(*lines: str) -> frozenset[str]:
    """Give the words that stand in some lines."""
    return frozenset(word for line in lines for word in line.split())


def values_before(program: str) -> frozenset[str]:
    """Give a program's options that stand before its subcommand and take the next word as their value."""
    return frozenset(_TAKES.get(program, "").split())


def plain_words(words: Sequence[Word], *, takes: Collection[str]) -> list[Word]:
    """Give the words that are neither options nor the values of `takes`; all are none behind `--`."""
    plain: list[Word] = []
    at = 0
    while at < len(words):
        text = words[at].text
        if text == "--":
            return [*plain, *words[at + 1 :]]
        if text in takes:
            at += 2
            continue
        if not (text.startswith("-") and len(text) > 1):
            plain.append(words[at])
        at += 1
    return plain


def has_option(words: Sequence[Word], spec: str) -> bool:
    """Tell whether an option is there: `--name`, or `--name=ONE|OTHER` for those values alone.

    `--name=none` and `--name=false` say that it is not.
    """
    name, has_values, accepted = spec.partition("=")
    values = option_values(words, name, is_flag=not has_values)
    if has_values:
        wanted = {value.lower() for value in accepted.split("|")}
        return any(value.text.lower() in wanted for value in values)
    return any(value.text not in ("none", "false") for value in values)


def option_values(words: Sequence[Word], name: str, *, is_flag: bool = False) -> list[Word]:
    """Give the values that an option is given: as the next word, behind `=`, or behind its letter."""
    found: list[Word] = []
    for at, word in enumerate(words):
        text = word.text
        if text == "--":
            break
        if text == name:
            found.append(Word("") if is_flag or at + 1 >= len(words) else words[at + 1])
        elif text.startswith(f"{name}="):
            found.append(Word(text[len(name) + 1 :], word.is_static))
        elif len(name) == 2 and name[0] == "-" and name[1] != "-":
            if is_flag and _CLUSTER.fullmatch(text) and name[1] in text[1:]:
                found.append(Word(""))
            elif not is_flag and text.startswith(name) and len(text) > 2:
                found.append(Word(text[2:], word.is_static))
    return found
