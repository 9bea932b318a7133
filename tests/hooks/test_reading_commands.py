"""Which programs a command runs, which of them are effects, and what tells one effect from the next."""

from pathlib import Path

import pytest
from msgspec.structs import fields

from counterfoil.server.hooks import first_look
from counterfoil.server.hooks.call import Call, call_of, identity_of
from counterfoil.server.hooks.event import SHELLS, HookEvent
from counterfoil.server.hooks.first_look import configured_words, is_candidate
from counterfoil.server.hooks.rules.defaults import DEFAULT_RULES, merged
from counterfoil.server.hooks.rules.reading import RuleProblem, read_rules
from counterfoil.server.hooks.rules.results import find_reference
from counterfoil.server.hooks.rules.rule import NO_RULES, EffectRule
from counterfoil.server.hooks.rules.tools import effect_of_tool
from counterfoil.server.rules.reading import read_tool_rule

RULES = merged(NO_RULES)


def call(command, folder: Path | str = "/nowhere", *, rules=RULES, tool: str = "Bash") -> Call | None:
    return call_of(
        HookEvent(name="PreToolUse", folder=str(folder), tool=tool, input={"command": command}), rules
    )


def key(command, folder: Path | str = "/nowhere") -> str:
    found = call(command, folder)
    assert found is not None, command
    return identity_of(found, redact=lambda value: value)[0]


@pytest.mark.parametrize(
    "command",
    [
        "git push",
        "/usr/bin/git push",
        "git -C dir -c a.b=c push",
        "cd x && git push",
        "(git push)",
        "{ git push; }",
        "true; git push & wait",
        "FOO=1 git push",
        "sudo -u me git push",
        "env -u A B=1 git push",
        "timeout -k 5 60 git push",
        "nohup nice -n 5 git push",
        "bash -lc 'cd x && git push'",
        "sh -c \"bash -c 'git push'\"",
        "eval 'git push'",
        "echo main | xargs -n 1 git push origin",
        "if true; then git push; fi",
        "for b in a b; do git push origin $b; done",
        "echo $(git push)",
        "x=`git push`",
        "push() { git push; }; push",
        "git pu\\sh",
        "'git' \"push\"",
        "git push | tee log",
        "cat <<'EOF'\nhello\nEOF\ngit push",
        ["git", "push"],
        ["bash", "-lc", "git push"],
    ],
)
def test_a_push_is_found_wherever_it_stands(command):
    found = call(command)
    assert found is not None
    assert found.action == "git.push"


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git push --dry-run",
        "git push -n",
        "git commit -m push",
        "git stash push",
        "echo git push",
        "echo 'git push'",
        "grep -r 'git push' .",
        "git log --grep 'git push'",
        "cat <<'EOF'\ngit push\nEOF",
        "# git push",
        "command -v git push",
        "man git-push",
        "kubectl apply --dry-run=client -f x.yaml",
        "kubectl get pods",
        "curl https://example.org",
        "curl -G -d q=1 https://example.org",
        "curl -X GET https://example.org",
        "curl -sX GET https://example.org",
        "curl --head https://example.org",
        "curl -so data https://example.org",
        "curl -sH 'X-Note: d' https://example.org",
        "gh pr create --dry-run",
        "gh api repos/x/y",
        "gh api -X GET repos/x/y -f per_page=1",
        "npm run publish-docs",
        "npm install",
        "terraform plan",
        "",
        "   ",
    ],
)
def test_what_is_no_effect_is_left_alone(command):
    assert call(command) is None


@pytest.mark.parametrize(
    ("command", "action"),
    [
        ("gh -R a/b pr create --title x --body y", "github.pr.create"),
        ("gh issue comment 3 --body y", "github.comment.create"),
        ("gh api -XPOST repos/x/y", "github.api"),
        ("gh api repos/x/y --method=DELETE", "github.api"),
        ("npm publish --access public", "npm.publish"),
        ("npx -y vercel deploy --prod", "vercel.deploy"),
        ("python3 -m twine upload dist/*", "pypi.upload"),
        ("uv publish", "pypi.upload"),
        ("kubectl -n prod apply -f x.yaml", "kubectl.apply"),
        ("terraform apply -auto-approve", "terraform.apply"),
        ("gcloud run deploy site", "gcloud.deploy"),
        ("curl -X POST https://example.org", "http.send"),
        ("curl -XDELETE https://example.org/1", "http.send"),
        ("curl -d a=1 https://example.org", "http.send"),
        ("curl --json '{}' https://example.org", "http.send"),
        ("curl -sX POST https://example.org", "http.send"),
        ("curl -sXDELETE https://example.org/1", "http.send"),
        ("curl -sSfd a=1 https://example.org", "http.send"),
        ("curl -sF a=@b https://example.org", "http.send"),
        ("curl -sT file https://example.org", "http.send"),
        ("curl --dat a=1 https://example.org", "http.send"),
        ("curl --req POST https://example.org", "http.send"),
        ("curl -X PURGE https://example.org/1", "http.send"),
        ("curl -X MKCOL https://example.org/1", "http.send"),
        ("curl -d a=1 'http://[$IP]/x'", "http.send"),
        ("sshpass -p pw npm publish", "npm.publish"),
        ("wget --post-data=a=1 https://example.org", "http.send"),
        ("http POST example.org a=1", "http.send"),
        ("http example.org a=1", "http.send"),
        ("git push && gh pr create --fill", "shell.several"),
    ],
)
def test_each_default_rule_names_its_action(command, action):
    found = call(command)
    assert found is not None
    assert found.action == action


@pytest.mark.parametrize(
    ("command", "decides"),
    [
        ("npm publish", True),
        ("npm test && npm publish", True),
        ("npm publish && echo done", True),
        ("npm publish; echo done", False),
        ("npm publish || true", False),
        ("npm publish | tee log", False),
        ("set -o pipefail; npm publish | tee log", True),
        ("set -e; npm publish; echo done", True),
        ("npm publish &", False),
        ("! npm publish", False),
        ("if true; then npm publish; fi", False),
        ("bash -c 'npm publish'", True),
        ("echo $(npm publish)", False),
        ("timeout 60 npm publish", True),
    ],
)
def test_the_end_of_a_command_tells_of_an_effect_only_where_nothing_stands_between(command, decides):
    found = call(command)
    assert found is not None
    assert [effect.decides for effect in found.effects] == [decides]


def test_white_space_and_quotes_make_no_other_effect():
    spellings = ["gh pr create --title x --body 'a b'", 'gh   pr create "--title=x" --body "a b"']
    assert len({key(spelling) for spelling in spellings}) == 1


def test_other_words_make_another_effect():
    commands = ["gh pr create --title x", "gh pr create --title y", "gh pr create --title 'x '"]
    assert len({key(command) for command in commands}) == 3


@pytest.mark.parametrize(
    ("command", "target"),
    [
        ("mail -s hi bob", "bob"),
        ("mail -s 'two words' -c carol@example.org bob@example.org dave", "bob@example.org dave"),
        ("mail --subject=hi -a file.pdf bob", "bob"),
        ("mail -s hi", None),
        ("sendmail -f me@example.org -t bob@example.org", "bob@example.org"),
    ],
)
def test_a_mail_is_for_whom_it_is_addressed_to(command: str, target: str | None):
    found = call(command)
    assert found is not None
    assert found.target == target


def test_mails_with_other_subjects_are_other_effects():
    assert key("mail -s hi bob") != key("mail -s ho bob")


def test_the_content_of_what_is_applied_is_part_of_what_it_is(tmp_path):
    file = tmp_path / "app.yaml"
    file.write_text("replicas: 1")
    first = key("kubectl apply -f app.yaml", tmp_path)
    assert key("kubectl  apply -f 'app.yaml'", tmp_path) == first
    file.write_text("replicas: 2")
    assert key("kubectl apply -f app.yaml", tmp_path) != first
    file.write_text("replicas: 1")
    assert key("kubectl apply -f app.yaml", tmp_path) == first


def test_what_cannot_be_read_is_told_apart_by_the_call_alone(tmp_path):
    def known_by(command: str, call_id: str) -> str:
        found = call(command, tmp_path)
        assert found is not None
        return identity_of(found, redact=lambda value: value, call_id=call_id)[0]

    for command in (
        'cd "$SOMEWHERE" && git push',
        "kubectl apply -f $FILE",
        "ls *.yaml | xargs kubectl apply -f",
    ):
        assert known_by(command, "call-1") != known_by(command, "call-2")
        assert known_by(command, "call-1") == known_by(command, "call-1")
    for command in ("kubectl apply -f app.yaml", 'gh pr create --body "$(cat body.md)"'):
        assert known_by(command, "call-1") == known_by(command, "call-2")


def test_files_that_no_word_names_count_where_the_rule_says_so(tmp_path):
    (tmp_path / "main.tf").write_text("a")
    first = key("terraform apply", tmp_path)
    (tmp_path / "main.tf").write_text("b")
    assert key("terraform apply", tmp_path) != first


def test_what_comes_through_a_pipe_or_a_here_document_counts(tmp_path):
    (tmp_path / "a.yaml").write_text("a")
    commands = [
        "cat a.yaml | kubectl apply -f -",
        "kubectl apply -f - <<'EOF'\na\nEOF",
        "kubectl apply -f - <<'EOF'\nb\nEOF",
        "kubectl apply -f - < a.yaml",
    ]
    keys = {key(command, tmp_path) for command in commands}
    assert len(keys) == 4
    (tmp_path / "a.yaml").write_text("b")
    assert key(commands[0], tmp_path) not in keys


def test_a_request_is_known_by_what_is_sent_and_not_by_how_it_is_shown():
    same = [
        "curl -X POST https://example.org/a -d '{\"n\": 1}'",
        "curl -s -o /dev/null -d '{\"n\": 1}' -XPOST https://example.org/a -w '%{http_code}'",
        "curl -H 'Authorization: Bearer one' -X POST -d '{\"n\": 1}' https://example.org/a",
    ]
    assert len({key(command) for command in same}) == 1
    assert key("curl -X POST https://example.org/a -d '{\"n\": 2}'") != key(same[0])


@pytest.mark.parametrize(
    "spellings",
    [
        ["-d a=1 -d b=2", "--data 'a=1&b=2'", "--data-raw a=1 --data-binary b=2", "-sda=1 --data=b=2"],
        ["-d a=1 -H 'Accept: x'", "-d a=1 -H 'accept:  x'", "-sHaccept:x -da=1"],
        ["-d @body", "--data @body", "--data-ascii @body"],
        ["-X POST", "-sX POST", "-sXPOST", "--request=POST", "-so /dev/null -X POST"],
    ],
)
def test_one_request_is_one_effect_however_its_options_are_spelled(spellings: list[str]):
    commands = [f"curl {spelling} https://example.org/a" for spelling in spellings]
    commands.append(f"curl {spellings[0]} HTTPS://Example.ORG/a")
    assert len({key(command) for command in commands}) == 1
    targets = {found.target for command in commands if (found := call(command)) is not None}
    assert targets == {"https://example.org/a"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("-d a=1 -d b=2", "-d b=2 -d a=1"),
        ("-d @body", "--data-binary @body"),
        ("-d @body", "--data-raw @body"),
        ("-d a=1", "-F a=1"),
    ],
)
def test_requests_that_send_something_else_stay_apart(one: str, other: str):
    assert key(f"curl {one} https://example.org/a") != key(f"curl {other} https://example.org/a")


def test_no_command_however_strange_breaks_the_reading():
    for command in (
        "git push $(",
        "git push '",
        "((((git push",
        "git push " + "a" * 300_000,
        "\0git push",
        "git push \ud800",
    ):
        call(command)
    deep = "echo " + "$(" * 400 + "git push" + ")" * 400
    call(deep)
    call("bash -c 'bash -c \"bash -c git\\ push\"'; " * 200)


@pytest.mark.parametrize(
    ("tool", "is_effect"),
    [
        ("mcp__gmail__send_email", True),
        ("mcp__github__create_issue", True),
        ("mcp__github__createPullRequest", True),
        ("mcp__slack__slack_post_message", True),
        ("mcp__bank__transfer", True),
        ("mcp__shop__find_and_refund", True),
        ("mcp__shop__check_out", True),
        ("mcp__mail__fetchAndReply", True),
        ("mcp__github__find_and_list", False),
        ("mcp__shop__list_orders_and_payments", False),
        ("mcp__github__get_issue", False),
        ("mcp__github__list_pull_requests", False),
        ("mcp__gmail__search_sent", False),
        ("mcp__filesystem__write_file", False),
        ("mcp__memory__create_entities", False),
        ("mcp__playwright__browser_click", False),
        ("mcp__counterfoil__begin_operation", False),
        ("mcp__counterfoil__record_receipt", False),
        ("Read", False),
        ("mcp__", False),
    ],
)
def test_a_tool_is_an_effect_by_its_name(tool, is_effect):
    assert (effect_of_tool(tool, RULES) is not None) is is_effect


def test_the_operators_rules_go_before_the_defaults():
    own = read_rules(
        {
            "commands": [
                {"program": "git", "words": ["push"], "effect": False},
                {"program": "deploy.sh", "action": "site.deploy"},
            ],
            "tools": [
                {"tool": "mcp__gmail__*", "effect": False},
                {"tool": "mcp__crm__touch", "action": "crm.touch"},
            ],
        }
    )
    rules = merged(own)
    assert call("git push", rules=rules) is None
    found = call("./deploy.sh production", rules=rules)
    assert found is not None
    assert (found.action, found.target) == ("site.deploy", "production")
    assert effect_of_tool("mcp__gmail__send_email", rules) is None
    assert effect_of_tool("mcp__crm__touch", rules) is not None


def test_the_journals_own_tools_are_left_alone_whatever_a_rule_says():
    rules = merged(read_rules({"tools": [{"tool": "mcp__*"}]}))
    assert effect_of_tool("mcp__crm__get", rules) is not None
    assert effect_of_tool("mcp__counterfoil__begin_operation", rules) is None


def test_the_rules_that_a_gateway_heeds_are_heeded_here_too():
    shared = read_tool_rule(
        "tools[0]",
        {
            "server": "mail",
            "tool": "deliver",
            "effect": True,
            "action": "email.send",
            "payload": ["body"],
            "receipt": {"external_id": "$.id", "kind": "message"},
        },
    )
    rules = merged(NO_RULES, (shared,))
    sent = [
        call_of(
            HookEvent(name="PreToolUse", tool="mcp__mail__deliver", input={"to": "a", "body": body}), rules
        )
        for body in ("one", "another")
    ]
    first, second = sent
    assert first is not None
    assert second is not None
    assert (first.action, first.payload) == ("email.send", {"body": "one"})
    assert identity_of(first, redact=lambda value: value) == identity_of(second, redact=lambda value: value)
    found = find_reference(first.effects[0].rule, text="", document={"id": "m-1"})
    assert found is not None
    assert found.external_id == "m-1"


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({"commands": [{"word": ["a"]}]}, "effects.commands[0].word"),
        ({"commands": [{"words": ["a"]}]}, "effects.commands[0].program"),
        ({"commands": [{"program": "a", "found": ["("]}]}, "effects.commands[0].found[0]"),
        ({"commands": [{"program": "a", "found": ["no group"]}]}, "effects.commands[0].found[0]"),
        ({"commands": [{"program": "a", "kind": "letter"}]}, "effects.commands[0].kind"),
        ({"commands": [{"program": "a", "effect": "no"}]}, "effects.commands[0].effect"),
        ({"tools": [{"tool": "a", "external_id": "id"}]}, "effects.tools[0].external_id"),
        ({"commands": {"program": "a"}}, "effects.commands"),
        ({"fail_closed": 1}, "effects.fail_closed"),
    ],
)
def test_a_rule_that_cannot_be_used_is_named(table, named):
    with pytest.raises(RuleProblem) as problem:
        read_rules(table)
    assert problem.value.name == named


def test_the_default_rules_are_such_as_an_operator_may_write():
    def written(rule: EffectRule) -> dict[str, object]:
        told = {field.name: getattr(rule, field.name) for field in fields(rule)}
        said = {field.name for field in fields(rule) if told[field.name] != field.default}
        return {name: list(told[name]) if isinstance(told[name], tuple) else told[name] for name in said}

    tables = {
        "commands": [written(rule) for rule in DEFAULT_RULES.commands],
        "tools": [written(rule) for rule in DEFAULT_RULES.tools],
    }
    assert read_rules(tables) == DEFAULT_RULES


def test_the_first_look_knows_the_words_of_every_default_rule():
    for rule in DEFAULT_RULES.commands:
        words = " ".join((rule.program, *(word for word in rule.words if word != "*"), "-s --post-data x"))
        assert is_candidate(words.encode(), ()), rule.program


def test_the_first_look_and_the_closer_one_know_the_same_shells():
    assert {shell.encode() for shell in SHELLS} == set(first_look._SHELLS)


def test_the_first_look_leaves_the_everyday_alone():
    for command in ("git status", "ls -la", "npm test", "kubectl get pods", "gh pr view 3", "uv run pytest"):
        assert not is_candidate(f'{{"tool_name":"Bash","tool_input":{{"command":"{command}"}}}}'.encode(), ())
    assert is_candidate(b'{"tool_name":"Bash","tool_input":{"command":"\'gh\'\\tpr create"}}', ())
    assert not is_candidate(b'{"tool_name": "mcp__github__get_issue"}', ())
    assert not is_candidate(b'{"tool_name":"Write","tool_input":{"content":"git push"}}', ())
    assert is_candidate(b'{"tool_name":"Bash","tool_input":{"command":"git push","tool_name":"Write"}}', ())
    assert is_candidate(b'{"tool_input":{"tool_name":"Write","x":"git push"},"tool_name" : "Bash"}', ())
    assert is_candidate(b'{"tool_name": "mcp__github__create_issue"}', ())


def test_the_first_look_finds_the_words_of_the_operators_rules_or_looks_closer():
    assert configured_words(b'journal = "x"\n') == ()
    assert configured_words(b'[[effects.commands]]\nprogram = "deploy.sh"\nwords = ["up"]\n') == (
        b"deploy.sh",
    )
    assert configured_words(b'[[effects.tools]]\ntool = "mcp__crm__*"\n') == (b"mcp__crm__",)
    assert configured_words(b"[[effects.commands]]\nprogram = 'deploy.sh'\n") is None
    assert configured_words(b'[effects]\ncommands = [{ program = "x" }]\n') is None
    assert configured_words(b'[[effects.tools]]\ntool = "*"\n') is None
