"""Options of a command: whether one is there, with which value, and which words are none."""

from collections.abc import Collection, Sequence

from msgspec import Struct

from counterfoil.server.hooks.shell.words import Word
from counterfoil.store.domain.patterns import lazy_pattern

__all__ = [
    "ALWAYS_FLAGS",
    "Parsed",
    "aliases_before",
    "folders_of",
    "has_option",
    "is_any_long",
    "one_of",
    "option_values",
    "options_in",
    "parsed",
    "plain_words",
    "values_before",
    "without_values",
]

_CLUSTER = lazy_pattern(r"-[A-Za-z]{2,3}")

_TAKES = {
    "git": "-C -c --git-dir --work-tree --namespace --exec-path --config-env --super-prefix --attr-source",
    "gh": "-R|--repo --hostname",
    "glab": "-R|--repo -g|--group",
    "kubectl": "-n|--namespace --context --cluster --kubeconfig -s|--server --user --token --as --as-group"
    " --as-uid --cache-dir --certificate-authority --client-certificate --client-key --log-flush-frequency"
    " --password --profile --profile-output --request-timeout --tls-server-name --username -v --v --vmodule",
    "oc": "-n|--namespace --context --cluster --kubeconfig -s|--server --user --token --as --as-group"
    " --as-uid --cache-dir --certificate-authority --client-certificate --client-key --log-flush-frequency"
    " --password --profile --profile-output --request-timeout --tls-server-name --username -v --v --vmodule",
    "helm": "-n|--namespace --kube-context --kubeconfig --kube-apiserver --kube-as-group --kube-as-user"
    " --kube-ca-file --kube-tls-server-name --kube-token --burst-limit --qps --registry-config"
    " --repository-cache --repository-config --content-cache --color",
    "docker": "-H|--host --context|-c --config -l|--log-level -f|--file -p|--project-name --profile"
    " --env-file --tlscacert --tlscert --tlskey --project-directory --ansi --progress --parallel --builder",
    "docker-compose": "-H|--host -f|--file -p|--project-name --profile --env-file --project-directory"
    " --ansi --progress --parallel -c --context",
    "podman": "-H|--url --connection -c --log-level --identity --root --runroot --storage-driver"
    " --storage-opt --tmpdir --cgroup-manager --conmon --events-backend --hooks-dir --network-cmd-path"
    " --runtime --runtime-flag --volumepath --module --imagestore --out --ssh",
    "npm": "-w|--workspace --registry -C|--prefix --userconfig --globalconfig --cache --loglevel --tag --otp"
    " --access --before --omit --include",
    "pnpm": "-C|--dir -F|--filter --registry --filter-prod --loglevel --reporter --workspace-concurrency",
    "yarn": "--cwd --registry --modules-folder --cache-folder --use-yarnrc --mutex",
    "bun": "--cwd -c --config --registry --cache-dir",
    "cargo": "--config -Z --color -C --manifest-path --target-dir --explain",
    "uv": "--directory --project --config-file --cache-dir --color --python-preference --allow-insecure-host",
    "poetry": "-C|--directory -P|--project",
    "gem": "--config-file",
    "fly": "-a|--app -c|--config -t|--access-token",
    "flyctl": "-a|--app -c|--config -t|--access-token",
    "gcloud": "--project --account --configuration --region --zone --billing-project --verbosity --format"
    " --flags-file --flatten --impersonate-service-account --access-token-file --trace-token --log-http",
    "firebase": "-P|--project --token --account -c --config",
    "vercel": "-t|--token -S|--scope --cwd -A|--local-config -Q|--global-config -T|--team",
    "vc": "-t|--token -S|--scope --cwd -A|--local-config -Q|--global-config -T|--team",
    "netlify": "--auth --site|-s --filter --http-proxy --http-proxy-certificate-filename",
    "wrangler": "-c|--config -e|--env --cwd --env-file",
    "pulumi": "-C|--cwd -s|--stack --color --logtostderr --profiling --tracing -v|--verbose",
    "terraform": "-chdir|--chdir",
    "tofu": "-chdir|--chdir",
    "aws": "--profile --region --endpoint-url --output --query --ca-bundle --color --cli-read-timeout"
    " --cli-connect-timeout --cli-binary-format",
    "mail": "-s|--subject -a --append -A --attach -b|--bcc -c|--cc -r|--return-address -S -u --user",
    "mailx": "-s|--subject -a --append -A --attach -b|--bcc -c|--cc -r|--return-address -S -u --user",
    "msmtp": "-a|--account -f|--from -C|--file --host --port --user -X|--logfile --timeout",
    "sendmail": "-f -F -r -B -C -L -N -O -R -V -X",
    "stripe": "--api-key --project-name --color --config --device-name --log-level",
}
"""Options that stand before a program's subcommand and take the next word as their value. Most programs take
them behind it as well; what a subcommand takes itself stands in its rule. `-n|--name` are names of one."""

_FOLDERS = {
    "npm": "--prefix -C",
    "pnpm": "-C --dir",
    "yarn": "--cwd",
    "bun": "--cwd",
    "cargo": "-C",
    "uv": "--directory --project",
    "poetry": "-C --directory -P --project",
    "terraform": "-chdir --chdir",
    "tofu": "-chdir --chdir",
    "vercel": "--cwd",
    "vc": "--cwd",
    "wrangler": "--cwd",
    "pulumi": "-C --cwd",
    "docker": "--project-directory",
    "docker-compose": "--project-directory",
}
"""Options that say in which folder a program does its work, by program."""


class Parsed(Struct, frozen=True, kw_only=True):
    """The words behind a program: operands, options with their values, and words that may be either.

    `doubtful` stand behind an option of which nobody said whether it takes a value.
    """

    operands: tuple[Word, ...] = ()
    options: tuple[tuple[str, Word | None], ...] = ()
    doubtful: tuple[Word, ...] = ()

    def values(self, *names: str) -> list[Word]:
        """Give the values of an option, whichever of its names was used."""
        return [value for name, value in self.options if name in names and value is not None]

    def has(self, *names: str) -> bool:
        """Tell whether an option is there, under any of its names."""
        return any(name in names for name, _ in self.options)


def parsed(
    words: Sequence[Word], *, takes: Collection[str], flags: Collection[str] = (), verbs: int = 0
) -> Parsed:
    """Take words apart. `takes` are options with a value, `flags` those without one.

    Where `flags` are given, an option that stands in neither leaves it open what the word behind it is, once
    the first `verbs` operands are past; elsewhere it takes none. `--opt value`, `--opt=value`, `-ovalue`, and
    letters in one word of which the last may take a value, are understood.
    """
    operands: list[Word] = []
    options: list[tuple[str, Word | None]] = []
    doubtful: list[Word] = []
    at = 0
    while at < len(words):
        word = words[at]
        text = word.text
        at += 1
        if text == "--":
            operands += words[at:]
            break
        if not (text.startswith("-") and len(text) > 1):
            operands.append(word)
            continue
        found, waits = options_in(word, takes=takes, flags=flags)
        options += found
        has_next = at < len(words)
        if waits and has_next:
            options[-1] = (options[-1][0], words[at])
            at += 1
        elif has_next and flags and len(operands) >= verbs and options[-1][1] is None:
            name, following = options[-1][0], words[at].text
            is_known = name in flags or name in ALWAYS_FLAGS
            if not is_known and not following.startswith("-"):
                doubtful.append(words[at])
                at += 1
    return Parsed(operands=tuple(operands), options=tuple(options), doubtful=tuple(doubtful))


ALWAYS_FLAGS = frozenset(
    ("-h", "--help", "--version", "--verbose", "--quiet", "-q", "--debug", "--yes", "-y")
)


def options_in(
    word: Word, *, takes: Collection[str], flags: Collection[str]
) -> tuple[list[tuple[str, Word | None]], bool]:
    """Give the options in one word, and whether the last of them waits for the next word as its value."""
    text = word.text
    name, is_set, value = text.partition("=")
    if text in takes or (not is_set and is_any_long(text, takes=takes, flags=flags)):
        return [(text, None)], True
    if is_set and (text.startswith("--") or name in takes or name in flags):
        return [(name, Word(value, word.is_static))], False
    if text.startswith("--") or text in flags:
        return [(text, None)], False
    letters: list[tuple[str, Word | None]] = []
    for at, letter in enumerate(text[1:], start=2):
        if f"-{letter}" in takes:
            rest = text[at:].removeprefix("=")
            letters.append((f"-{letter}", Word(rest, word.is_static) if rest else None))
            return letters, not rest
        if not letter.isalnum():
            break
        letters.append((f"-{letter}", None))
    # Letters of which none takes a value; or else a long name behind one dash.
    is_letters = len(text) == 2 or all(name in flags for name, _ in letters)
    return (letters if letters and is_letters else [(text, None)]), False


def is_any_long(name: str, *, takes: Collection[str], flags: Collection[str]) -> bool:
    """Tell whether an option has a value because each long one that is no flag has: `takes` holds `--*`."""
    return "--*" in takes and name.startswith("--") and name not in flags and name not in ALWAYS_FLAGS


def folders_of(program: str) -> tuple[str, ...]:
    """Give the options by which a program is told in which folder to work."""
    return tuple(_FOLDERS.get(program, "").split())


def one_of(*lines: str) -> frozenset[str]:
    """Give the words that stand in some lines."""
    return frozenset(word for line in lines for word in line.split())


def values_before(program: str) -> frozenset[str]:
    """Give a program's options that stand before its subcommand and take the next word as their value."""
    return frozenset(_TAKES.get(program, "").replace("|", " ").split())


def aliases_before(program: str) -> dict[str, str]:
    """Give the one name, the longest, of each of those options that has several."""
    found: dict[str, str] = {}
    for names in _TAKES.get(program, "").split():
        if "|" in names:
            several = names.split("|")
            found |= dict.fromkeys(several, max(several, key=len))
    return found


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


def without_values(words: Sequence[Word], *, takes: Collection[str]) -> list[Word]:
    """Give the words without those that are the value of an option of `takes`."""
    kept: list[Word] = []
    rest = iter(words)
    for word in rest:
        kept.append(word)
        if word.text == "--":
            return [*kept, *rest]
        if word.text in takes:
            next(rest, None)
    return kept


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
