"""A command is the same one however its options are written, and no other command becomes it."""

from pathlib import Path

import pytest

from counterfoil.server.hooks.identities import former_identities_of, identity_of
from counterfoil.server.hooks.rules.defaults import merged
from counterfoil.server.hooks.rules.reading import read_rules
from counterfoil.store.domain.commands import BeginOperation
from hooks.client import Client, claude_result, client, git
from hooks.commands import RULES, call, lay
from hooks.test_calls import agent

__all__ = ["client"]


def key(command: str, folder: Path | str, *, rules=RULES) -> str:
    return identity_of(call(command, folder, rules=rules), redact=lambda value: value)[0]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone of a repository at a forge, with a manifest, a chart, and a file with the name of a value."""
    return lay(
        tmp_path_factory.mktemp("project"),
        {
            "d.yaml": "a: 1",
            "c/Chart.yaml": "name: c",
            "x": "text",
            "a.tfvars": "a = 1",
            ".git/HEAD": "ref: refs/heads/fix\n",
            ".git/config": '[remote "origin"]\n\turl = git@github.com:me/w.git\n',
        },
    )


SAME = [
    (
        "stripe charges create --amount 5 --customer c",
        "stripe charges create --customer c --amount 5",
        "stripe charges create --amount=5 --customer=c",
        "stripe charges create --customer=c --amount 5",
    ),
    ("stripe charges create -d a=b -d c=d", "stripe charges create --data=a=b --data c=d"),
    (
        "gh pr comment 12 --body 'x'",
        "gh pr comment 12 -b 'x'",
        "gh pr comment 12 -bx",
        "gh pr comment -b=x 12",
        "gh pr comment --body=x -- 12",
        "gh pr comment '#12' --body=x",
        "gh pr comment 12 -R me/w -b x",
        "gh -R me/w pr comment 12 -b x",
        "gh pr comment 12 --repo=https://github.com/me/w -b x",
        "gh pr comment https://github.com/me/w/pull/12 -b x",
    ),
    (
        "gh issue create -t x -b y",
        "gh issue create --title x --body y",
        "gh issue create -by --title=x -R me/w",
    ),
    ("gh pr review 12 --approve", "gh pr review 12 -a", "gh pr review --approve 12"),
    ("gh pr review 12 -ab fine", "gh pr review 12 --body fine --approve"),
    (
        "gh workflow run d.yml -f a=1",
        "gh workflow run d.yml --raw-field a=1",
        "gh workflow run d.yml --field a=1",
        "gh workflow run -F a=1 d.yml",
    ),
    (
        "gh api repos/me/w/issues -f title=x",
        "gh api repos/me/w/issues --raw-field title=x",
        "gh api -X POST repos/me/w/issues -f title=x",
        "gh api /repos/{owner}/{repo}/issues --method=POST -f title=x",
        "gh api repos/me/w/issues -f title=x --jq .number --silent",
    ),
    (
        "kubectl apply -f d.yaml -n p",
        "kubectl -n p apply -f d.yaml",
        "kubectl apply -f ./d.yaml -n p",
        "kubectl apply --filename d.yaml --namespace p",
        "kubectl apply -fd.yaml --namespace=p",
    ),
    (
        "helm upgrade r ./c -n p",
        "helm upgrade r ./c --namespace p",
        "helm -np upgrade r c",
        "helm upgrade -n=p r c/",
    ),
    ("mail -s hi bob", "mail --subject hi bob", "mail --subject=hi bob", "mail bob -s hi"),
    ("terraform apply -auto-approve -var a=1", "terraform apply --var=a=1 --auto-approve"),
    ("docker push -a x/y", "docker push x/y --all-tags"),
    ("npm publish", "npm publish --verbose", "npm publish --yes -q"),
    ("helm upgrade r c", "helm upgrade r c --debug", "helm --debug upgrade r c"),
    ("npm publish --tag next --access public", "npm publish --access=public --tag=next"),
    # One subcommand under several names.
    ("gh pr create -t x", "gh pr new -t x", "gh pr new --title=x -R me/w", "gh -R me/w pr new -t x"),
    ("gh issue create -t x", "gh issue new -t x"),
    ("gh release create v1 -n x", "gh release new v1 --notes x"),
    ("glab mr create -t x", "glab mr new -t x"),
    ("glab mr merge 3", "glab mr accept 3", "glab mr accept '!3'"),
    ("npm publish --tag next", "npm pub --tag next"),
    ("yarn publish --tag next", "yarn npm publish --tag next"),
    ("docker push x/y", "docker image push x/y"),
    ("podman push x/y", "podman image push x/y"),
    (
        "docker build --push -t x/y .",
        "docker buildx build -t x/y . --push",
        "docker buildx b --push -t x/y .",
        "docker image build --push --tag x/y .",
    ),
    ("docker compose push web", "docker-compose push web"),
    ("pulumi up -y", "pulumi update -y"),
    ("pulumi destroy -y", "pulumi down --yes", "pulumi dn -y"),
    ("helm uninstall web -n p", "helm delete web -n p", "helm -n p un web"),
    ("gh repo create me/x --private", "gh repo new me/x --private"),
    ("serverless deploy -s p", "sls deploy --stage p"),
    ("vercel --prod", "vc --prod", "vercel deploy --prod", "vc deploy --prod"),
    ("wrangler deploy -e p", "wrangler publish --env p"),
    ("wrangler pages deploy out", "wrangler pages publish out"),
    ("fly deploy -a shop", "flyctl deploy --app shop"),
    ("terraform destroy", "terraform apply -destroy", "terraform apply --destroy=true"),
    ("tofu destroy -auto-approve", "tofu apply -destroy -auto-approve"),
    ("gh pr create --draft -t x", "gh pr create -d=true -t x", "gh pr new --draft=true -t x"),
    # What a variable in front says, an option says.
    (
        "gh pr create -R me/x -t x",
        "GH_REPO=me/x gh pr create -t x",
        "export GH_REPO=me/x; gh pr new -t x",
        "env GH_REPO=https://github.com/me/x gh pr create -t x",
        "GH_REPO=me/other gh -R me/x pr create -t x",
    ),
    ("gh issue create -t x", "GH_REPO= gh issue create -t x", "GH_REPO=me/w gh issue create -t x"),
    ("glab mr create -t x -R a/b", "GITLAB_REPO=a/b glab mr create -t x"),
    ("npm publish --registry https://r.e", "npm_config_registry=https://r.e npm publish"),
    ("npm publish --tag next", "npm_config_tag=next npm publish"),
    ("cargo publish --registry r", "CARGO_REGISTRY_DEFAULT=r cargo publish"),
    ("twine upload -r test a-1.tar.gz", "TWINE_REPOSITORY=test twine upload a-1.tar.gz"),
    ("uv publish --publish-url https://r.e", "UV_PUBLISH_URL=https://r.e uv publish"),
    ("gem push a-1.gem --host https://r.e", "RUBYGEMS_HOST=https://r.e gem push a-1.gem"),
    ("docker -c far push x/y", "DOCKER_CONTEXT=far docker push x/y", "docker --context far image push x/y"),
    ("docker compose -p shop push", "COMPOSE_PROJECT_NAME=shop docker-compose push"),
    ("kubectl --kubeconfig k apply -f d.yaml", "KUBECONFIG=k kubectl apply -f d.yaml"),
    (
        "helm upgrade r c -n p --kubeconfig k",
        "HELM_NAMESPACE=p KUBECONFIG=k helm upgrade r c",
        "HELM_NAMESPACE=other KUBECONFIG=k helm -n p upgrade r c",
    ),
    ("gcloud run deploy web --project p", "CLOUDSDK_CORE_PROJECT=p gcloud run deploy web"),
    ("netlify deploy -s site", "NETLIFY_SITE_ID=site netlify deploy"),
    ("fly deploy -a shop", "FLY_APP=shop flyctl deploy"),
    ("ansible-playbook -i inv s.yml", "ANSIBLE_INVENTORY=inv ansible-playbook s.yml"),
    (
        "aws sns publish --topic-arn t --message hi --region r",
        "aws --region r sns publish --message=hi --topic-arn t",
        "AWS_REGION=r aws sns publish --message hi --topic-arn t",
        "aws sns publish --topic-arn t --message hi --region r --output text --query MessageId --debug",
    ),
    ("rsync -avz dist e.org:/w", "rsync -a -z dist e.org:/w", "rsync --compress --archive -q dist e.org:/w"),
    ("scp -r -P 22 dist e.org:", "scp -P22 -rq dist e.org:"),
    ("git subtree push --prefix dist origin pages", "git subtree push -P dist origin pages"),
    ("git subtree push --prefix=dist origin pages", "git subtree push -q -P dist origin pages"),
    # One resource under several names.
    (
        "kubectl delete deployment web -n p",
        "kubectl delete deploy web -n p",
        "kubectl -n p delete deploy/web",
        "kubectl delete deployments.apps/web -n p",
        "kubectl delete Deployment web --namespace p",
    ),
    ("kubectl rollout restart deploy/a deploy/b", "kubectl rollout restart deployment a b"),
    ("kubectl delete pods -l app=x", "kubectl delete po --selector app=x"),
    ("kubectl create ns x", "kubectl create namespace x"),
    ("kubectl delete certificate x", "kubectl delete certificate/x"),
]


@pytest.mark.parametrize("spellings", SAME, ids=lambda spellings: spellings[0])
def test_one_command_has_one_identity_however_it_is_spelled(
    project: Path, monkeypatch: pytest.MonkeyPatch, spellings: tuple[str, ...]
):
    monkeypatch.setenv("HOME", "/nowhere")
    wanted = key(spellings[0], project)
    assert {one: key(one, project) for one in spellings} == dict.fromkeys(spellings, wanted)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("stripe charges create --amount 5", "stripe charges create --amount 6"),
        ("stripe charges create -d a=b -d a=c", "stripe charges create -d a=c -d a=b"),
        ("stripe charges create --confirm 5", "stripe charges create --confirm=5"),
        ("gh pr comment 12 -b x", "gh pr comment 12 -b ./x"),
        ("gh pr comment 12 -b x", "gh pr comment 12 -F x"),
        ("gh pr comment 12 -b x", "gh pr comment 13 -b x"),
        ("gh pr comment 12 -b x", "gh pr comment 12 -b x -R me/other"),
        ("gh pr comment 12 -b x", "gh pr comment https://github.com/me/other/pull/12 -b x"),
        ("gh pr comment 12 -b x -b y", "gh pr comment 12 -b y -b x"),
        ("gh pr review 12 -a", "gh pr review 12 -r"),
        ("gh workflow run d.yml -f a=@x", "gh workflow run d.yml -F a=@x"),
        ("gh api a -f x=1 -F x=2", "gh api a -F x=2 -f x=1"),
        ("gh api a -f x=1", "gh api -X PATCH a -f x=1"),
        ("gh api a?b=1 -f x=1", "gh api a?b=2 -f x=1"),
        ("kubectl apply -f a -f b", "kubectl apply -f b -f a"),
        ("kubectl apply -f a -n p", "kubectl apply -f a"),
        ("npm publish --provenance --no-provenance", "npm publish --no-provenance --provenance"),
        ("kubectl delete deploy a", "kubectl delete a deploy"),
        ("terraform apply -var-file=a.tfvars -var a=1", "terraform apply -var a=1 -var-file=a.tfvars"),
        ("mail -s hi bob", "mail -s bob hi"),
        ("gh pr comment 12 --new -b x", "gh pr comment 12 -b x --new"),
        ("gh pr comment 12 --new y -b x", "gh pr comment --new 12 y -b x"),
        ("gh pr comment -- -b x", "gh pr comment -b x"),
        ("docker -c a buildx build --push .", "docker buildx build --push -c a ."),
        ("docker push x/y", "podman push x/y"),
        ("docker image push x/y", "docker manifest push x/y"),
        ("docker buildx bake --push", "docker buildx build --push"),
        ("vercel out", "vercel deploy"),
        ("wrangler deploy", "wrangler pages deploy"),
        ("terraform apply", "terraform destroy"),
        ("terraform apply -destroy=false", "terraform destroy"),
        ("terraform destroy", "tofu destroy"),
        ("gh pr new -t x", "gh pr new -t y"),
        ("gh --new pr create -t x", "gh pr create -t x"),
        ("GH_REPO=me/x gh pr create -t x", "gh pr create -t x"),
        ("GH_REPO=me/x gh pr create -t x", "GH_REPO=me/y gh pr create -t x"),
        ("KUBECONFIG=a:b kubectl apply -f d.yaml", "kubectl apply -f d.yaml --kubeconfig=a:b"),
        ("gh --new pr new -t x", "gh --new pr create -t x"),
        ("GH_HOST=e.org gh pr create -t x", "gh pr create -t x"),
        ("TF_WORKSPACE=a terraform apply", "terraform apply"),
        ("AWS_PROFILE=a terraform apply", "AWS_PROFILE=b terraform apply"),
        ("kubectl delete deploy web", "kubectl delete svc web"),
        ("kubectl set image deploy web web=x:2", "kubectl set image deploy web web=x:3"),
        ("rsync -a dist e.org:/w", "rsync -a --delete dist e.org:/w"),
        ("rsync -a dist e.org:/w", "rsync -a dist e.org:/v"),
        ("aws sns publish --topic-arn t --message a", "aws sns publish --topic-arn t --message b"),
        ("aws s3 sync x s3://b", "AWS_PROFILE=p aws s3 sync x s3://b"),
        ("git subtree push -P dist origin pages", "git subtree push -P dist origin main"),
        ("kubectl delete deploy a b", "kubectl delete deploy a"),
        ("kubectl create deploy web --image i", "kubectl create job web --image i"),
    ],
)
def test_no_two_commands_have_one_identity(
    project: Path, monkeypatch: pytest.MonkeyPatch, one: str, other: str
):
    monkeypatch.setenv("HOME", "/nowhere")
    assert key(one, project) != key(other, project)


def test_an_option_of_which_nobody_said_what_it_is_stays_where_it_stands(project: Path):
    """The word behind it goes with it, and what is declared is moved past both."""
    wanted = key("gh pr comment 12 --new y -b x", project)
    assert key("gh pr comment -b x 12 --new y", project) == wanted
    assert key("gh pr comment 12 --body=x --new=y", project) == wanted


def test_an_operator_says_which_names_are_of_one_option(project: Path):
    table = {
        "program": "ship",
        "takes": ["--stage|-s", "-m|--text"],
        "flags": ["-y|--yes"],
        "texts": ["-m"],
        "implied": ["-s=test"],
    }
    rules = merged(read_rules({"commands": [table]}))
    wanted = key("ship a --stage prod --text hi -y", project, rules=rules)
    assert key("ship -ys prod -mhi a", project, rules=rules) == wanted
    assert key("ship a", project, rules=rules) == key("ship -s test a", project, rules=rules)
    assert key("ship a", project, rules=rules) != key("ship -s prod a", project, rules=rules)
    assert call("ship a --text x", project, rules=rules).effects[0].state is None
    assert call("ship a --stage x", project, rules=rules).effects[0].state is not None


@pytest.mark.parametrize(
    ("command", "target", "files"),
    [
        ("stripe charges create --amount 5 --customer c", "charges", []),
        ("stripe charges create --amount 5 -d customer=x", "charges", []),
        ("stripe refunds create --charge x --stripe-account acct_1", "refunds (stripe-account acct_1)", []),
        ("stripe files create --purpose p --file x", "files", ["x"]),
        ("gh issue create --title x --body c", "me/w", []),
        ("gh issue create --title x --body @x", "me/w", ["x"]),
        ('gh issue create --title x --body "$(cat x)"', "me/w", ["x"]),
        ("gh issue create --title x -Fx", "me/w", ["x"]),
        ("kubectl -n c apply -f d.yaml", "FOLDER/d.yaml (namespace c)", ["d.yaml"]),
        ("mail -s x bob", "bob", []),
        ("stripe charges create --new-parameter c x", "charges x", ["x"]),
    ],
)
def test_what_an_option_says_is_a_file_only_where_it_may_be_one(
    project: Path, monkeypatch: pytest.MonkeyPatch, command: str, target: str, files: list[str]
):
    monkeypatch.setenv("HOME", "/nowhere")
    (effect,) = call(command, project).effects
    assert effect.target == target.replace("FOLDER", str(project))
    assert sorted(effect.state or {}) == files


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize(
    ("first", "twin"),
    [(spellings[0], spellings[-1]) for spellings in SAME if spellings[0].split()[0] in ("stripe", "gh")][:3],
)
def test_a_reworded_twin_is_held_back(client: Client, first: str, twin: str, is_done: bool):
    git(client, "remote", "set-url", "origin", "https://github.com/me/w")
    begun = client.new_call()
    assert client.before(first, call=begun).reason is None
    if is_done:
        client.after(first, {**claude_result("ok"), "exit_code": 0}, call=begun)
    else:
        client.failed(first, "Exit code 1\ntimeout", call=begun)
    (found,) = client.operations()
    assert found["state"] == ("succeeded" if is_done else "in_doubt")
    assert found["operation"] in str(client.before(twin).reason)
    assert len(client.operations()) == 1


def test_what_was_begun_in_the_words_as_they_were_written_is_found_again(client: Client):
    """A journal that an earlier version kept has the effect under the key that it derived then."""
    git(client, "remote", "set-url", "origin", "https://github.com/me/w")
    command = "gh pr comment 12 -b x"
    found = call(command, client.folder)
    as_written, _ = former_identities_of(found, redact=lambda value: value)
    assert as_written[0].startswith("github.comment.create:me/w-12:")
    assert as_written[0] != identity_of(found, redact=lambda value: value)[0]
    run = f"conversation/{client.session}"
    agent(client, BeginOperation(run=run, key=as_written[0], action="github.comment.create", target="x"))
    (old,) = client.operations()
    assert old["operation"] in str(client.before(command).reason)


def test_no_secret_is_told_by_another_spelling(project: Path):
    for spelled in (
        "helm upgrade r c --password hunter2x",
        "helm upgrade r c --password=hunter2x",
        "twine upload -p hunter2x d",
        "twine upload d --password -hunter2x",
        "twine upload d -phunter2x",
        "stripe charges create --api-key=hunter2x --amount 5",
        "npm publish --registry https://me:hunter2x@r.example",
    ):
        args = dict(call(spelled, project).args)
        assert "hunter2x'}" in str(args["effects"][0]["sent"]), spelled
        assert str(args).count("hunter2x") == 1, spelled
