"""The cheap first look at what a client sends: whether it can be about an effect at all.

Every call of every tool comes through here, so nothing is loaded and nothing parsed. What is found is only
that the words of a rule stand somewhere; what they mean there is found out by whoever looks closer.
"""

__all__ = ["TRIGGERS", "configured_words", "is_candidate"]

TRIGGERS = (
    (b"git", b"push"),
    (b"gh", b"pr", b"create"),
    (b"gh", b"pr", b"new"),
    (b"gh", b"pr", b"merge"),
    (b"gh", b"pr", b"comment"),
    (b"gh", b"pr", b"review"),
    (b"gh", b"issue", b"create"),
    (b"gh", b"issue", b"new"),
    (b"gh", b"issue", b"comment"),
    (b"gh", b"release", b"create"),
    (b"gh", b"release", b"new"),
    (b"gh", b"workflow", b"run"),
    (b"gh", b"repo", b"create"),
    (b"gh", b"repo", b"new"),
    (b"gh", b"gist", b"create"),
    (b"gh", b"gist", b"new"),
    (b"gh", b"run", b"rerun"),
    (b"gh", b"api"),
    (b"glab", b"mr", b"create"),
    (b"glab", b"mr", b"new"),
    (b"glab", b"issue", b"create"),
    (b"glab", b"issue", b"new"),
    (b"glab", b"api"),
    (b"glab", b"mr", b"merge"),
    (b"glab", b"mr", b"accept"),
    (b"npm", b"publish"),
    (b"npm pub",),
    (b"yarn", b"publish"),
    (b"bun", b"publish"),
    (b"cargo", b"publish"),
    (b"twine", b"upload"),
    (b"uv", b"publish"),
    (b"poetry", b"publish"),
    (b"hatch", b"publish"),
    (b"flit", b"publish"),
    (b"pdm", b"publish"),
    (b"maturin", b"publish"),
    (b"gem", b"push"),
    (b"docker", b"push"),
    (b"podman", b"push"),
    (b"kubectl", b"apply"),
    *((b"oc ", word) for word in (b"apply", b"create", b"delete", b"patch", b"replace")),
    (b"oc ", b"set", b"image"),
    (b"oc ", b"rollout", b"restart"),
    (b"oc ", b"rollout", b"undo"),
    (b"kubectl", b"create"),
    (b"kubectl", b"delete"),
    (b"kubectl", b"rollout", b"restart"),
    (b"kubectl", b"rollout", b"undo"),
    (b"kubectl", b"patch"),
    (b"kubectl", b"replace"),
    (b"kubectl", b"set", b"image"),
    (b"helm", b"install"),
    (b"helm", b"upgrade"),
    (b"helm ", b" un"),
    (b"helm ", b" del"),
    (b"helm", b"rollback"),
    (b"terraform", b"apply"),
    (b"terraform", b"destroy"),
    (b"tofu", b"apply"),
    (b"tofu", b"destroy"),
    (b"pulumi", b"up"),
    (b"pulumi", b"destroy"),
    (b"pulumi", b"down"),
    (b"pulumi", b" dn"),
    (b"cdk", b"deploy"),
    (b"serverless", b"deploy"),
    (b"sls ", b"deploy"),
    (b"sam ", b"deploy"),
    (b"vercel",),
    (b"vc ",),
    (b"netlify", b"deploy"),
    (b"wrangler", b"deploy"),
    (b"wrangler", b"publish"),
    (b"fly", b"deploy"),
    (b"firebase", b"deploy"),
    (b"gcloud", b"deploy"),
    (b"ansible-playbook",),
    (b"curl",),
    (b"wget", b"--"),
    (b"http ",),
    (b"https ",),
    (b"xh ",),
    (b"xhs ",),
    (b"sendmail",),
    (b"mail ", b"-s"),
    (b"mailx", b"-s"),
    (b"msmtp",),
    (b"stripe", b"create"),
    (b"aws ", b"publish"),
    (b"aws ", b"send-"),
    (b"aws ", b"put-events"),
    (b"aws ", b"update-"),
    (b"aws ", b"run-"),
    (b"aws ", b"terminate-"),
    (b"aws ", b"-stack"),
    (b"aws ", b"start-"),
    (b"aws ", b"deploy"),
    (b"aws ", b"s3", b"cp "),
    (b"aws ", b"s3", b"sync"),
    (b"rsync ",),
    (b"scp ",),
)
"""The words of the default rules: of one line all stand in whatever that rule fits."""

_TOOL = b'"tool_name"'
_MOST_TOOLS = 20
_READING = (b"get_", b"list_", b"read_", b"search_", b"find_", b"fetch_", b"query_")
_SHELLS = (
    b"Bash",
    b"shell",
    b"local_shell",
    b"exec_command",
    b"shell_command",
    b"unified_exec",
    b"container.exec",
)
"""What `event` takes for the shell."""

_WORD_KEYS = (b"program", b"tool")
_GLOBS = b"*?["

_AS_THE_SHELL = (
    (b'", "', b" "),  # From word to word, of a command that is a list of them.
    (b'","', b" "),
    (b"\\\\\\n", b""),  # A line that goes on in the next.
    (b"\\\\", b""),
    (b"\\n", b" "),
    (b"\\r", b" "),
    (b"\\t", b" "),
    (b"$'", b""),
    (b'$\\"', b""),
)
"""What JSON writes for what the shell takes out of a word, or parts words by, in the order of looking."""
_QUOTES = b"\"'\\"
_DROPPED = b"\"'\\$"


def is_candidate(raw: bytes, words: tuple[bytes, ...] | None) -> bool:
    """Tell whether what came may be about an effect. `words` are the configured ones, None where unknown."""
    if words is None or b"\\u00" in raw or any(word in raw for word in words):
        return True
    loose = raw.translate(None, _DROPPED)
    if any(word.translate(None, _DROPPED) in loose for word in words):
        return True
    tools = _tools(raw)
    if any(tool.startswith(b"mcp__") and not _reads(tool) for tool in tools):
        return True
    if tools and not any(tool in _SHELLS for tool in tools):
        return False
    # Most calls are known by the first to be none; the second costs ten times as much.
    return _has_words(loose, is_loose=True) and _has_words(_unquoted(raw))


def _has_words(text: bytes, *, is_loose: bool = False) -> bool:
    """Tell whether all words of one trigger stand in a text; `is_loose`: whatever stands behind them."""
    for trigger in TRIGGERS:
        for word in trigger:
            if (word.rstrip() if is_loose else word) not in text:
                break
        else:
            return True
    return False


def _unquoted(raw: bytes) -> bytes:
    """Give what came without quotes and escapes: for the shell, `g\\it` and `gi''t` are one word with `git`.

    A superset is enough, and what stands in no quotes stays together.
    """
    for written, meant in _AS_THE_SHELL:
        raw = raw.replace(written, meant)
    return raw.translate(None, _QUOTES)


def _tools(raw: bytes) -> list[bytes]:
    """Give what may be the tool's name: the first texts behind that key, wherever it stands."""
    found: list[bytes] = []
    at = raw.find(_TOOL)
    while at >= 0 and len(found) < _MOST_TOOLS:
        value = raw[at + len(_TOOL) : at + len(_TOOL) + 300].lstrip(b" \t\r\n:")
        if value.startswith(b'"'):
            found.append(value[1:].split(b'"', 1)[0])
        at = raw.find(_TOOL, at + 1)
    return found if at < 0 else [*found, *_SHELLS]


def _reads(tool: bytes) -> bool:
    """Tell whether the tool's own name begins with a mere reading verb."""
    return tool.rsplit(b"__", 1)[-1].startswith(_READING)


def configured_words(text: bytes) -> tuple[bytes, ...] | None:
    """Give the words by which the operator's own rules may be met; None where that needs a closer look.

    A superset is enough: a value that is not written on one line, between double quotes, counts as unknown.
    """
    if b"effects" not in text and b"tools" not in text:
        return ()
    found: list[bytes] = []
    for line in text.splitlines():
        key, is_set, value = line.strip().partition(b"=")
        key, value = key.strip().strip(b'"'), value.strip()
        if not is_set or key not in _WORD_KEYS:
            if b"{" in line:
                return None
            continue
        if value[:1] != b'"' or value.count(b'"') != 2 or b"\\" in value:
            return None
        found += [_longest_part(one) for one in value[1:].split(b'"', 1)[0].split(b"|")]
    return None if b"" in found else tuple(found)


def _longest_part(glob: bytes) -> bytes:
    for mark in _GLOBS:
        glob = glob.replace(bytes((mark,)), b"\n")
    return max(glob.split(b"\n"), key=len)
