"""Which programs a command runs, which of them are effects, and what tells one effect from the next."""

import json
import time
from itertools import product
from pathlib import Path

import pytest
from msgspec.structs import fields

from counterfoil.server.hooks import first_look
from counterfoil.server.hooks.call import Call, call_of
from counterfoil.server.hooks.effects import TooMuch
from counterfoil.server.hooks.event import SHELLS, HookEvent
from counterfoil.server.hooks.first_look import configured_words, is_candidate
from counterfoil.server.hooks.identities import identity_of
from counterfoil.server.hooks.rules.defaults import DEFAULT_RULES, merged
from counterfoil.server.hooks.rules.reading import RuleProblem, read_rules
from counterfoil.server.hooks.rules.results import find_reference
from counterfoil.server.hooks.rules.rule import NO_RULES, EffectRule
from counterfoil.server.hooks.rules.tools import effect_of_tool
from counterfoil.server.hooks.shell import walking
from counterfoil.server.hooks.shell.secret_words import told_words
from counterfoil.server.hooks.shell.walking import read_script
from counterfoil.server.hooks.shell.words import Word
from counterfoil.server.rules.reading import read_tool_rule
from hooks.client import Client, client, git

__all__ = ["client"]

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
        "if false; then true; else git push; fi",
        "case x in x) git push;; esac",
        "bash <<'E'\ngit push\nE",
        "bash -es -- a <<E\ncd x\ngit push\nE",
        "bash <<<'git push'",
        "echo 'git push' | bash",
        "echo 'git push' | cat | sudo sh",
        "printf 'git %s\\n' push | sh",
        "cat <<'E' | bash\ngit push\nE",
        "(echo cd x; echo git push) | sh -e",
        "echo 'git push origin '$B | bash",
        "sudo -i <<E\ngit push\nE",
        "env -S 'git push'",
        "env -iS 'A=1 git' push",
        "env --split-string='git push' -q",
        "find . -name x -exec git push {} +",
        "find . -exec true {} \\; -execdir sh -c 'git push' \\;",
        "su -c 'git push'",
        "su - me -c 'git push'",
        "sudo -iu me git push",
        "runuser -lc 'git push' me",
        "ssh host 'cd x && git push'",
        "ssh -p 22 me@host git push",
        "ssh host bash <<'E'\ngit push\nE",
        "docker exec -it -w /x box git push",
        "kubectl -n prod exec -it pod -- git push",
        "docker compose exec web sh -c 'git push'",
        "parallel git push {} ::: a b",
        "watch -n 5 'git push'",
        "script -qc 'git push' log",
        "chroot /x git push",
        "ssh-agent git push",
        "coproc git push",
        "trap 'git push' EXIT",
        "nix-shell --run 'git push'",
        "nix develop -c git push",
        "direnv exec . git push",
        "op run --env-file=x -- git push",
        "conda run -n x git push",
        "bash -c -- 'git push'",
        "bash -euo pipefail -c 'git push'",
        "bash -O extglob -c 'git push'",
        'bash -c "cd $D && git push origin $B"',
        "x='git push'; $x",
        "GIT=git; $GIT push",
        'X="git push $B"; bash -c "$X"',
        'X="git push $(date)"; eval "$X"',
        "bash <(echo git push)",
        "source <(echo git push)",
        "echo 'git push' | sed s/a/b/ | bash",
        "time (git push)",
        "time { git push; }",
        "git push; )",
        "flock lock -c 'git push'",
        "taskset -c 0 git push",
        "gosu me git push",
        "fish -c 'git push'",
        "git\tpush",
        "'git'\tpush",
        "${X:-git} push",
        "${X-git} push",
        "${X:=/usr/bin/git} push",
        "git ${X:-push}",
        "git ${X:=push} origin",
        'git $OPTS "${X:-push}"',
        'eval "git $(echo push)"',
        "echo push origin | xargs git",
        "for c in fetch push; do git $c; done",
        'f() { git "$@"; }; f push origin',
        'set -- push origin; git "$@"',
        'A=(git push); "${A[@]}"',
        'A=(push origin main); git "${A[@]}"',
        "A=(push origin main); git ${A[*]}",
        "declare -a A=(push); git ${A[@]}",
        'A=(push); A+=(origin); git "${A[@]}"',
        'if x; then A=(push); else A=(status); fi; git "${A[@]}"',
        "A=(x push); git ${A[1]}",
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
        "curl -fsSL https://example.org/install.sh | sh",
        'bash -c "$(curl -fsSL https://example.org/install.sh)"',
        "wget -qO- https://example.org/install.sh | bash -s -- --data-dir /x",
        "$EDITOR git-push.txt",
        "vercel --version",
        "vercel env pull",
        "npx vercel@latest dev",
        "http example.org q==1",
        'U=https://example.org; curl -s "$U/$ID"',
        "docker build -t x .",
        'git commit -m "push $X"',
        'git commit -m "$(git log -1) push"',
        'git log "$X" push',
        'git "$X" status; git stash push',
        'A=(log push); git "${A[@]}"',
        'git "${X:-status}"',
        'curl "https://example.org/$(date -d yesterday +%F)"',
        'A=(-s -o x); curl "${A[@]}" https://example.org',
        'A=(-f x); rm "${A[@]}"; gh api "repos/$R"',
        'set -f; gh api "repos/$R"',
        "docker compose -f c.yml up",
        "find . -name '*.push' -delete # git",
        "ssh host uptime # git push",
        "gh api repos/x/y",
        "gh api -X GET repos/x/y -f per_page=1",
        "npm run publish-docs",
        "npm install",
        "terraform plan",
        "gh api graphql -f query='query { viewer { login } }'",
        "gh api graphql -F owner=a -f query='\n  query($o: String!) { repository(owner: $o) { id } }'",
        "gh api graphql --field query='{ viewer { login } }' --jq .data",
        """curl -H "Authorization: Bearer $T" -d '{"query": "{ viewer { login } }"}' https://e.org/graphql""",
        "git subtree pull --prefix lib origin main",
        "kubectl patch deploy web -p x --dry-run=server",
        "kubectl set image deploy/web web=x:2 --local -o yaml",
        "kubectl rollout status deploy/web",
        "kubectl scale --replicas 3 deploy/web",
        "k3s kubectl get pods",
        "gcloud compute ssh vm --command 'git status' # git push",
        "gcloud compute ssh vm # git push",
        "glab api projects/1/issues",
        "rsync -a src/ dst/",
        "rsync -avz e.org:/www .",
        "rsync -a /a:b ./c:d",
        "rsync -avzn dist/ e.org:/www",
        "rsync -av --dry-run dist/ e.org:/www",
        "rsync -avz --exclude 'a:b' -e 'ssh -p 22' dist/ /mnt",
        "scp e.org:file .",
        "scp -o User=me:x a b",
        "aws s3 ls s3://b",
        "aws s3 cp s3://b/x .",
        "aws s3 sync dist s3://b --dryrun",
        "aws sns list-topics",
        "aws ec2 run-instances --dry-run --image-id i",
        "aws sqs send-message --generate-cli-skeleton",
        "aws cloudformation deploy --stack-name s --no-execute-changeset",
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
        ("gh pr new --fill", "github.pr.create"),
        ("gh issue new --title x", "github.issue.create"),
        ("gh release new v1", "github.release.create"),
        ("glab mr new", "gitlab.mr.create"),
        ("glab mr accept 3", "gitlab.mr.merge"),
        ("npm publish --access public", "npm.publish"),
        ("npm pub", "npm.publish"),
        ("yarn npm publish", "npm.publish"),
        ("bun publish", "npm.publish"),
        ("docker image push x/y", "docker.push"),
        ("docker compose -f c.yml push web", "docker.push"),
        ("docker-compose -f c.yml push", "docker.push"),
        ("docker build --push -t x/y .", "docker.push"),
        ("docker buildx build --push -t x/y .", "docker.push"),
        ("podman image push x/y", "docker.push"),
        ("vercel", "vercel.deploy"),
        ("vercel --prod", "vercel.deploy"),
        ("vercel deploy", "vercel.deploy"),
        ("npx vercel@latest --prod", "vercel.deploy"),
        ("npm exec -c 'vercel deploy'", "vercel.deploy"),
        ("pnpm vercel deploy", "vercel.deploy"),
        ("wrangler pages deploy dist", "wrangler.deploy"),
        ("tofu destroy", "terraform.destroy"),
        ("pulumi update", "pulumi.up"),
        ("gcloud beta run deploy site", "gcloud.deploy"),
        ("aws-vault exec prod -- terraform apply", "terraform.apply"),
        ("https POST example.org a=1", "http.send"),
        ("https example.org a=1", "http.send"),
        ("xh example.org a=1", "http.send"),
        ("echo '{}' | http example.org", "http.send"),
        ("uv tool run twine upload dist/x", "pypi.upload"),
        ("python3.12 -X dev -m twine upload dist/x", "pypi.upload"),
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
        ("gh api graphql -f query='mutation { x }'", "github.api"),
        ("gh api graphql -f query='query { a } mutation { b }'", "github.api"),
        ('gh api graphql -f query="$Q"', "github.api"),
        ("gh api graphql -F query=@q.graphql", "github.api"),
        ("gh api graphql --input q.json", "github.api"),
        ("""curl -d '{"query": "mutation { x }"}' https://e.org/graphql""", "http.send"),
        ("""curl -d '{"query": "{ x }"}' https://e.org/search""", "http.send"),
        ("curl -d @q.json https://e.org/graphql", "http.send"),
        ("msmtp -a work bob@e.org < mail", "email.send"),
        ("mailx -s hi bob@e.org", "email.send"),
        ("git subtree push --prefix dist origin gh-pages", "git.subtree.push"),
        ("terraform apply -destroy", "terraform.destroy"),
        ("sudo k3s kubectl apply -f d.yaml", "kubectl.apply"),
        ("minikube kubectl -- -n p rollout restart deploy/web", "kubectl.rollout.restart"),
        ("oc -n p apply -f d.yaml", "kubectl.apply"),
        ("gcloud compute ssh vm --zone z --command 'npm publish'", "npm.publish"),
        ("glab issue new -t x", "gitlab.issue.create"),
        ("glab api projects/1/issues -f title=x", "gitlab.api"),
        ("hatch publish -r test", "pypi.upload"),
        ("pulumi down -y", "pulumi.destroy"),
        ("helm un web", "helm.uninstall"),
        ("helm rollback web 2 -n prod", "helm.rollback"),
        ("gh gist create x.py", "github.gist.create"),
        ("gh run rerun 12 --failed", "github.run.rerun"),
        ("gh repo new me/x --private", "github.repo.create"),
        ("npx cdk deploy --all --require-approval never", "cdk.deploy"),
        ("npx serverless deploy --stage p", "serverless.deploy"),
        ("sls deploy", "serverless.deploy"),
        ("sam deploy --stack-name s", "sam.deploy"),
        ("kubectl patch svc web --patch-file p.yaml", "kubectl.patch"),
        ("kubectl replace -f d.yaml", "kubectl.replace"),
        ("kubectl rollout undo deploy/web", "kubectl.rollout.undo"),
        ("kubectl set image deploy/web web=x:2", "kubectl.set.image"),
        ("rsync -avz --delete dist/ me@e.org:/www", "rsync.send"),
        ("rsync -az dist/ rsync://e.org/www", "rsync.send"),
        ("rsync -az dist/ e.org::www", "rsync.send"),
        ("rsync -az dist/ $HOST:/www", "rsync.send"),
        ("sshpass -p x scp -P 22 -r dist me@e.org:", "scp.send"),
        ("aws s3 sync dist s3://b --delete", "aws.s3.copy"),
        ("aws --profile p s3 cp a s3://b/a", "aws.s3.copy"),
        ("aws sns publish --topic-arn arn:x --message hi", "aws.sns.publish"),
        ("aws ses send-email --to a@e.org --text hi", "aws.ses.send-email"),
        ("aws lambda update-function-code --function-name f", "aws.lambda.update-function-code"),
        ("aws cloudformation deploy --stack-name s --template-file t", "aws.cloudformation.deploy"),
        ("aws --region r ecs run-task --cluster c", "aws.ecs.run-task"),
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


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('B=1; curl -d "$B" U', 'B=2; curl -d "$B" U'),
        ('B=1 && curl -d "x${B}y" U', 'B=2 && curl -d "x${B}y" U'),
        ("export B=1; curl -d $B U", "export B=2; curl -d $B U"),
        ('B=1; bash -c "curl -d $B U"', 'B=2; bash -c "curl -d $B U"'),
        ("export B=1; bash -c 'curl -d $B U'", "export B=2; bash -c 'curl -d $B U'"),
        ("B=1; curl -d @- U <<E\n$B\nE", "B=2; curl -d @- U <<E\n$B\nE"),
        ('B=1; curl -d @- U <<<"$B"', 'B=2; curl -d @- U <<<"$B"'),
        ('B=1; echo "$B" | curl -d @- U', 'B=2; echo "$B" | curl -d @- U'),
        ("export AWS_PROFILE=dev; terraform apply", "export AWS_PROFILE=prod; terraform apply"),
        ("export AWS_PROFILE=dev; terraform apply", "terraform apply"),
        ("AWS_PROFILE=dev terraform apply", "AWS_PROFILE=prod terraform apply"),
        ("declare -x KUBECONFIG=a; kubectl apply -f k", "declare -x KUBECONFIG=b; kubectl apply -f k"),
        ("env KUBECONFIG=a kubectl apply -f k", "env KUBECONFIG=b kubectl apply -f k"),
        (
            "kubectl config use-context dev && kubectl apply -f k",
            "kubectl config use-context prod && kubectl apply -f k",
        ),
        ("aws-vault exec dev -- terraform apply", "aws-vault exec prod -- terraform apply"),
        ("npm_config_registry=https://a npm publish", "npm_config_registry=https://b npm publish"),
        ("ssh a 'curl -d x=1 localhost'", "ssh b 'curl -d x=1 localhost'"),
        ("ssh a 'curl -d x=1 localhost'", "curl -d x=1 localhost"),
        ("docker exec a npm publish", "docker exec b npm publish"),
        ('X="$(cat <<E\n1\nE\n)"; curl -d "$X" U', 'X="$(cat <<E\n2\nE\n)"; curl -d "$X" U'),
        ("for i in 1; do B=3; curl -d $B U; done", "for i in 1; do B=4; curl -d $B U; done"),
    ],
)
def test_what_a_variable_says_is_part_of_what_an_effect_is(one: str, other: str, tmp_path: Path):
    first, second = call(one, tmp_path), call(other, tmp_path)
    assert first is not None
    assert second is not None
    assert first.is_readable == second.is_readable
    assert key(one, tmp_path) != key(other, tmp_path)
    assert key(one, tmp_path) == key(one, tmp_path)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('B=1; curl -d "$B" U', "curl -d 1 U"),
        ("BRANCH=x; gh pr create --title $BRANCH", "gh pr create --title x"),
        ("gh pr create --body \"$(cat <<'E'\nhello $x\nE\n)\"", "gh pr create --body 'hello $x'"),
        ("CI=1 npm publish", "npm publish"),
        ("export PATH=$HOME/bin:$PATH; npm publish", "npm publish"),
        ('V="a b"; npm publish $V', "npm publish a b"),
    ],
)
def test_a_variable_whose_value_is_known_stands_for_it(one: str, other: str):
    assert key(one) == key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("gh pr comment --body ok", "npm test && gh pr comment --body ok"),
        ("gh pr create --title x", "gh auth status && gh pr create --title x"),
        ("kubectl apply -f k", "kubectl config current-context && kubectl apply -f k"),
        ("git push", "git remote -v && git config --get user.name && git push"),
        ("git push", 'GIT_SSH_COMMAND="ssh -i $KEY" git push'),
        ("git push", "export X=$Y; git push"),
    ],
)
def test_what_only_shows_or_tests_something_in_front_makes_no_other_effect(
    client: Client, one: str, other: str
):
    git(client, "config", "branch.main.remote", "origin")
    git(client, "config", "branch.main.merge", "refs/heads/main")
    assert key(one, client.folder) == key(other, client.folder)


@pytest.mark.parametrize(
    "command",
    [
        "git remote set-url origin $X && git push",
        "git config remote.origin.url x && git push",
        "git switch -c b && gh pr create --title x",
        "GIT_DIR=$D git push",
        "kubectl config use-context prod && kubectl apply -f k",
        "gh repo set-default o/r && gh pr create --title x",
    ],
)
def test_what_chooses_another_place_in_front_leaves_it_unknown(client: Client, command: str):
    found = call(command, client.folder)
    assert found is not None
    assert not found.is_known


@pytest.mark.parametrize(
    "command",
    [
        'curl -d "$B" U',
        'curl -d "$(date)" U',
        "curl -d `date` U",
        "curl -d a=$((N+1)) U",
        "curl -d 1 $U",
        "curl -X $M U",
        'ARGS=(-X POST -d "$B"); curl "${ARGS[@]}" U',
        "find . -exec curl -d @{} U \\;",
        'curl -d 1 -H "X-Tenant: $T" U',
        "curl -d @- U <<E\n$B\nE",
        'curl -d @- U <<<"$B"',
        'echo "$B" | curl -d @- U',
        "curl -d @- U < $F",
        'B=1; read B; curl -d "$B" U',
        'B=1; source .env; curl -d "$B" U',
        'B=1; test x && B=2; curl -d "$B" U',
        'B=1; test x || B=2; curl -d "$B" U',
        'B=1; if test x; then B=2; fi; curl -d "$B" U',
        'if test x; then B=1; else curl -d "$B" U; fi',
        'B=0; for i in 1 2; do curl -d "$B" U; B=$i; done',
        'B=1; (B=2); unset B; curl -d "$B" U',
        'B=1; B+=$X; curl -d "$B" U',
        "B=1; bash -c 'curl -d $B U'",
        'f() { curl -d "$B" U; }; B=1; f',
        'gh pr create --body "$BODY"',
        'gh issue comment 3 --body "$(git log -1)"',
        "npm publish $DIR",
        "KUBECONFIG=$K kubectl apply -f k",
        "export AWS_PROFILE=$P; terraform apply",
        "find . -name '*.tgz' -exec npm publish {} \\;",
        "cat l | xargs -I{} sh -c 'curl -d 1 U/{}'",
        "xargs -a l -P 4 -I % curl -d 1 U/%",
        "cat l | xargs -i curl -d {} U",
        "cat l | xargs --replace=@ bash -c 'cd @ && npm publish'",
        "cat l | xargs -n1 npm publish",
        "find . -name a -exec sh -c 'curl -d @{} U' \\;",
        "parallel curl -d {} U ::: a b",
        "cd $D && curl -d @body U",
        "ssh host 'curl -d @body U'",
        "docker exec a npm publish",
        'echo "curl -d x U; $MORE" | sed s/x/y/ | bash',
    ],
)
def test_what_only_the_running_shell_fills_in_makes_a_call_that_is_never_done(command: str, tmp_path: Path):
    found = call(command, tmp_path)
    assert found is not None
    assert not found.is_readable
    assert found.may_be_another


@pytest.mark.parametrize(
    "command",
    [
        'curl -H "Authorization: Bearer $TOKEN" -d a=1 U',
        'curl -u "$USER:$PASS" -d a=1 U',
        'curl -H "X-Api-Key: $K" -d a=1 U',
        'curl -H "Idempotency-Key: $(uuidgen)" -d a=1 U',
        'curl -d "amount=5&token=$T" U',
        "GH_TOKEN=$(gh auth token) gh issue comment 3 --body x",
        "export NPM_TOKEN=$T; npm publish",
        "twine upload -p $T body.json",
        'http POST U Authorization:"Bearer $T" a=1',
        "curl -d a=$((1+2)) U",
        'B=1; (B=2); curl -d "$B" U',
        'B=1; B=2 true; curl -d "$B" U',
        'test x && B=2 && curl -d "$B" U',
        'curl -d "$(cat body.json)" U',
        'B="$(< body.json)"; curl -d "$B" U',
        'gh pr create --body "$(cat body.json)"',
        "curl -d @$HOME/body U",
    ],
)
def test_secrets_and_the_content_of_files_leave_a_call_known(command: str, tmp_path: Path):
    (tmp_path / "body.json").write_text("{}")
    found = call(command, tmp_path)
    assert found is not None
    assert found.is_readable


@pytest.mark.parametrize(
    "command",
    [
        'curl -d "$(cat body.json)" U',
        'B="$(< body.json)"; curl -d "$B" U',
        'gh pr create --body "$(cat body.json)"',
        "cat body.json | curl -d @- U",
        "jq . body.json | curl -d @- U",
        "curl -d @- U < body.json",
        "curl -d @body.json U",
        "curl --data-urlencode x@body.json U",
        "curl -F a=@body.json U",
        "curl -F 'a=@body.json;type=text/plain' U",
        "curl -F 'a=<body.json' U",
        "curl -T body.json U",
        "curl -d 1 -K body.json U",
        "wget --post-file=body.json U",
        "http POST U a=@body.json",
        "http POST U < body.json",
        "mail -s x bob < body.json",
        "twine upload *.json",
        "npm publish ./body.json",
        "helm upgrade r chart -f body.json",
        "terraform apply body.json",
        "gh release create v1 body.json",
        "gh release create v1 --notes-file body.json",
        "python gen.py --in body.json > k.yaml && kubectl apply -f k.yaml",
    ],
)
def test_the_content_of_a_file_that_is_sent_is_part_of_what_an_effect_is(command: str, tmp_path: Path):
    (tmp_path / "body.json").write_text("1")
    first = key(command, tmp_path)
    (tmp_path / "body.json").write_text("2")
    assert key(command, tmp_path) != first


@pytest.mark.parametrize(
    "command",
    [
        "cat > body <<'E'\none\nE\ncurl -d @body https://example.org",
        "echo one > body; curl -d @body https://example.org",
        "printf 'one\\n' >body && curl -d @body https://example.org",
        'echo one > body; curl -d "$(cat body)" https://example.org',
    ],
)
def test_a_file_that_the_command_itself_writes_counts_by_what_is_written(command: str, tmp_path: Path):
    first = call(command, tmp_path)
    assert first is not None
    assert first.is_known
    before = key(command, tmp_path)
    (tmp_path / "body").write_text("one\n")
    assert key(command, tmp_path) == before
    (tmp_path / "body").write_text("else\n")
    assert key(command, tmp_path) == before
    assert key(command.replace("one", "two"), tmp_path) != before
    (tmp_path / "body").write_text("one\n")
    if "$(" not in command:
        assert key("curl -d @body https://example.org", tmp_path) == before


@pytest.mark.parametrize(
    "command",
    [
        "echo one >> body; curl -d @body https://example.org",
        "date > body; curl -d @body https://example.org",
        'echo "$X" > body; curl -d @body https://example.org',
        "echo one > $F; curl -d @body https://example.org",
        "echo one > body; echo two > body; curl -d @body https://example.org",
        "curl -d 1 https://example.org > body; curl -d @body https://example.org",
        "echo one | tee body; curl -d @body https://example.org",
        "sed -i s/1/2/ k.yaml && kubectl apply -f k.yaml",
        "date > dir/k.yaml; kubectl apply -f dir",
        "date > src; fly deploy",
    ],
)
def test_an_effect_that_sends_what_the_call_makes_waits_for_its_like(command: str, tmp_path: Path):
    found = call(command, tmp_path)
    assert found is not None
    assert not found.effects[-1].is_known


@pytest.mark.parametrize(
    "command",
    ["date > log; curl -d @body U", "git push > log 2>&1; gh pr create --title x", "date > log; git push"],
)
def test_a_file_that_is_made_and_not_sent_makes_no_other_effect(command: str, client: Client):
    git(client, "config", "branch.main.remote", "origin")
    git(client, "config", "branch.main.merge", "refs/heads/main")
    found = call(command, client.folder)
    assert found is not None
    assert found.is_known


def test_a_secret_that_a_variable_holds_stands_in_no_word(tmp_path: Path):
    command = 'API_TOKEN=hunter2x; curl -d "{\\"auth\\": \\"$API_TOKEN\\"}" https://example.org'
    found = call(command, tmp_path)
    assert found is not None
    assert "hunter2x" not in str(found.args)
    assert found.is_readable


def test_the_content_of_a_file_is_of_where_it_was_read(tmp_path: Path):
    (tmp_path / "sub").mkdir()
    command = 'B="$(cat body)"; cd sub; curl -d "$B" https://example.org'
    (tmp_path / "body").write_text("one")
    first = key(command, tmp_path)
    (tmp_path / "body").write_text("two")
    assert key(command, tmp_path) != first


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
        "git push " + "a" * 200_000,
        "\0git push",
        "git push \ud800",
    ):
        call(command)
    for command in (
        'export X=\'eval "$X";eval "$X";eval "$X"\'; eval "$X" # git push',
        'export X=\'echo "$X" | bash; echo "$X" | sh\'; eval "$X" # git push',
        "A=aaaaaaaaaa; " + "A=$A$A$A$A; " * 60 + "git push $A",
        f"A={'a' * 150_000}; git push " + "$A " * 20_000,
        "A='b c'; git push " + '"$A" ' * 20_000,
    ):
        began = time.process_time()
        call(command)
        assert time.process_time() - began < 3, command[:80]
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
        if not rule.effect:
            continue
        places = [one.split("|") for one in (rule.program, *(word for word in rule.words if word != "*"))]
        needs = [need.partition("=")[0] for need in rule.needs[:1]]
        for words in product(*places):
            command = " ".join((*words, *needs, "-s --post-data x"))
            assert is_candidate(command.encode(), ()), command


def test_the_first_look_and_the_closer_one_know_the_same_shells():
    assert {shell.encode() for shell in SHELLS} == set(first_look._SHELLS)


def test_a_request_is_an_effect_where_what_is_filled_in_may_write():
    for command in (
        "${X:-curl} -d a=1 https://example.org",
        "curl ${X:--d a=1} https://example.org",
        'A=(-d a=1); curl "${A[@]}" https://example.org',
        "D='-d a=1'; curl $D https://example.org",
        "if x; then A=(-d a=1); fi; curl ${A[@]} https://example.org",
        "echo -d a=1 https://example.org | xargs curl",
        "gh ${X:-api} -f a=1 repos/x/y",
    ):
        found = call(command)
        assert found is not None, command
        assert found.action in ("http.send", "github.api")


def test_an_array_that_the_command_fills_stands_for_its_words():
    for spelling in (
        'A=(push origin "my branch"); git "${A[@]}"',
        'A=(push); A+=(origin "my branch"); git "${A[@]}"',
        'b="my branch"; A=(origin "$b"); git push "${A[@]}"',
        'A=("my branch" x); git push origin "$A"',
    ):
        found = call(spelling)
        assert found is not None
        words = [word.text for word in found.effects[0].invocation.words]
        assert words == ["git", "push", "origin", "my branch"], spelling
    joined = call('A=(a=1 b=2); curl -d "${A[*]}" https://example.org')
    assert joined.effects[0].sent["data"] == [["--data", "a=1 b=2"]]
    for unknown in (
        'A=(push $X); git "${A[@]}"',
        'A=(push); read -a A; git "${A[@]}"',
        'A=(push); A[1]=x; git "${A[@]}"',
        'A=(push); for A in x; do :; done; git "${A[@]}"',
    ):
        found = call(unknown)
        assert found is not None, unknown
        assert not found.is_readable, unknown


def test_a_command_that_does_too_much_is_not_looked_at_for_ever(monkeypatch: pytest.MonkeyPatch):
    assert len(call("\n".join(f"curl -d a={one} https://example.org" for one in range(100))).parts) == 100
    for command, why in (
        ("\n".join(f"curl -d a={one} https://example.org" for one in range(101)), "100 effects"),
        ("git push; " * 1_200, "1000 programs"),
        ("git push; " * 200, "100 effects"),
    ):
        with pytest.raises(TooMuch, match=why):
            call(command)

    def parsed() -> None:
        raise AssertionError("it was parsed")

    monkeypatch.setattr(walking, "shell_parser", parsed)
    for command in ("git push " + "x" * 300_000, ["git", "push", *["x" * 100] * 3_000]):
        with pytest.raises(TooMuch, match="262144 characters"):
            call(command)


def test_a_secret_is_found_by_the_name_in_front_of_it_in_any_length_of_text():
    long = "x" * 500_000
    assert told_words("curl", (Word(f"{long} api_token=abc"),)) == [f"{long} api_token=", {"password": "abc"}]
    assert told_words("curl", (Word(long),)) == [long]
    assert told_words("curl", (Word("a=1&password=b"),)) == ["a=1&password=", {"password": "b"}]
    assert told_words("curl", (Word("password="), Word("=x"))) == ["password=", "=x"]


def test_the_first_look_leaves_the_everyday_alone():
    for command in ("git status", "ls -la", "npm test", "kubectl get pods", "gh pr view 3", "uv run pytest"):
        assert not is_candidate(f'{{"tool_name":"Bash","tool_input":{{"command":"{command}"}}}}'.encode(), ())
    assert is_candidate(b'{"tool_name":"Bash","tool_input":{"command":"\'gh\'\\tpr create"}}', ())
    assert not is_candidate(b'{"tool_name": "mcp__github__get_issue"}', ())
    assert not is_candidate(b'{"tool_name":"Write","tool_input":{"content":"git push"}}', ())
    assert is_candidate(b'{"tool_name":"Bash","tool_input":{"command":"git push","tool_name":"Write"}}', ())
    assert is_candidate(b'{"tool_input":{"tool_name":"Write","x":"git push"},"tool_name" : "Bash"}', ())
    assert is_candidate(b'{"tool_name": "mcp__github__create_issue"}', ())


@pytest.mark.parametrize(
    "command",
    [
        "g\\it push",
        "gi''t push",
        'gi"t" push',
        "git 'pu'sh",
        'git pu"sh"',
        "\\git\tpush",
        "git \\\n  push",
        "$'git' pu$'sh'",
        'gi$"t" push',
        'c"ur"l -d a=1 https://example.org',
        'ku"bectl" apply -f k.yaml',
        '"http" POST example.org a=1',
        "ht'tp'\tPOST example.org a=1",
        "mail\t-s hello bob",
        ["git", "push"],
        ["http", "POST", "example.org", "a=1"],
    ],
)
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_the_first_look_sees_whatever_the_closer_one_takes_for_an_effect(command, separators):
    assert call(command) is not None
    sent = json.dumps({"tool_name": "Bash", "tool_input": {"command": command}}, separators=separators)
    assert is_candidate(sent.encode(), ())


def test_the_first_look_finds_the_words_of_the_operators_rules_or_looks_closer():
    assert configured_words(b'journal = "x"\n') == ()
    assert configured_words(b'[[effects.commands]]\nprogram = "deploy.sh"\nwords = ["up"]\n') == (
        b"deploy.sh",
    )
    assert configured_words(b'[[effects.tools]]\ntool = "mcp__crm__*"\n') == (b"mcp__crm__",)
    assert configured_words(b'[[effects.commands]]\nprogram = "up|deploy*"\n') == (b"up", b"deploy")
    assert configured_words(b"[[effects.commands]]\nprogram = 'deploy.sh'\n") is None
    assert configured_words(b'[effects]\ncommands = [{ program = "x" }]\n') is None
    assert configured_words(b'[[effects.tools]]\ntool = "*"\n') is None
    assert is_candidate(b'{"tool_name":"Bash","tool_input":{"command":"depl\'oy.sh\' up"}}', (b"deploy.sh",))


@pytest.mark.parametrize(
    ("command", "words", "stdin"),
    [
        ("npm publish - <<'E'\nx\nE", ["npm", "publish", "-"], "x\n"),
        ("npm publish -f -<<E\nx\nE", ["npm", "publish", "-f", "-"], "x\n"),
        ("npm publish - <<-E\n\tx\n\tE", ["npm", "publish", "-"], "x\n"),
        ("npm publish <<E -f - -n p\nx\nE", ["npm", "publish", "-f", "-", "-n", "p"], "x\n"),
        ("npm publish <<E -f - >out 2>&1\nx\nE", ["npm", "publish", "-f", "-"], "x\n"),
        ("true && npm publish - <<E\nx\nE", ["npm", "publish", "-"], "x\n"),
        ("echo a | npm publish - <<E | tee b\nx\nE", ["npm", "publish", "-"], "x\n"),
        ("npm publish 2>&1 origin main", ["npm", "publish", "origin", "main"], None),
        ("npm publish >out a 2>err -b", ["npm", "publish", "a", "-b"], None),
        ("npm publish - 2>&1 | tail -3", ["npm", "publish", "-"], None),
        ("npm publish && cat - <<E\nx\nE", ["npm", "publish"], None),
        ("npm publish; (cat) <<E\nx\nE", ["npm", "publish"], None),
        ("(cd . && npm publish -) <<E\nx\nE", ["npm", "publish", "-"], "x\n"),
    ],
)
def test_words_among_redirections_are_the_programs_and_what_it_reads_its_own(command, words, stdin):
    [publish] = [one for one in read_script(command, folder="/w").invocations if one.program == "npm"]
    assert [word.text for word in publish.words] == words
    assert (None if publish.stdin is None else publish.stdin.text) == stdin


def test_what_find_runs_where_a_file_lies_is_of_no_folder_that_is_known(tmp_path: Path):
    (tmp_path / "package.json").write_text('{"name": "p", "version": "1.0.0"}')
    here, there = (
        call(f"find . -name package.json {how} npm publish \\;", folder=str(tmp_path))
        for how in ("-exec", "-execdir")
    )
    assert here is not None
    assert there is not None
    assert (here.target, here.is_readable) == ("p@1.0.0", True)
    assert (there.target, there.is_readable) == (None, False)


@pytest.mark.parametrize(
    ("command", "target"),
    [
        ("xargs -a l -I % curl -X POST https://e.org/%", "https://e.org/$_"),
        ("xargs -I{} helm upgrade {} ./c < l", "$_"),
        ("xargs -a l curl -d 1 https://e.org", "https://e.org/ http://…/"),
    ],
)
def test_what_xargs_adds_stands_behind_or_in_the_place_of_its_mark(command: str, target: str):
    found = call(command)
    assert found is not None
    assert found.target == target
