"""State that is sent though no word of a command names a file: branches, folders, images, clusters."""

import os
from pathlib import Path

import pytest

from counterfoil.server.hooks.call import Call, call_of
from counterfoil.server.hooks.event import HookEvent
from counterfoil.server.hooks.identities import identity_of
from counterfoil.server.hooks.rules.defaults import merged
from counterfoil.server.hooks.rules.rule import NO_RULES
from hooks.client import Client, client, commit, git

__all__ = ["client"]

RULES = merged(NO_RULES)


def call(command: str, folder: Path) -> Call:
    found = call_of(
        HookEvent(name="PreToolUse", folder=str(folder), tool="Bash", input={"command": command}), RULES
    )
    assert found is not None
    return found


def key(command: str, folder: Path) -> str:
    return identity_of(call(command, folder), redact=lambda value: value)[0]


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that goes before all others."""
    made = tmp_path / "bin"
    made.mkdir()
    monkeypatch.setenv("PATH", f"{made}:{os.environ['PATH']}")
    return made


@pytest.mark.parametrize(
    "command", ["gh pr create --fill", "gh workflow run deploy.yml", "glab mr create --fill"]
)
def test_a_pull_request_is_of_its_branch_and_its_commit(client: Client, command: str):
    keys = {key(command, client.folder)}
    commit(client, "two")
    keys.add(key(command, client.folder))
    git(client, "switch", "-q", "-c", "other")
    keys.add(key(command, client.folder))
    assert len(keys) == 3
    assert key(command, client.folder) in keys


def test_a_pull_request_without_a_number_is_the_one_of_the_branch(client: Client):
    unnamed, named = "gh pr merge --squash", "gh pr merge --squash 12"
    before = key(unnamed, client.folder), key(named, client.folder)
    commit(client, "two")
    assert (key(unnamed, client.folder), key(named, client.folder)) == before
    git(client, "switch", "-q", "-c", "other")
    assert key(unnamed, client.folder) != before[0]
    assert key(named, client.folder) == before[1]


@pytest.mark.parametrize(
    "command", ["vercel --prod", "fly deploy", "netlify deploy", "pulumi up", "docker build --push -t a/b ."]
)
def test_a_deployment_is_of_all_that_its_folder_holds(client: Client, command: str):
    source = client.folder / "src/app.ts"
    source.parent.mkdir()
    keys = {key(command, client.folder)}
    for text in ("one", "two"):
        source.write_text(text)
        keys.add(key(command, client.folder))
    assert len(keys) == 3
    commit(client, "tracked")
    (client.folder / "file").write_text("one")
    assert key(command, client.folder) in keys
    (client.folder / ".gitignore").write_text("out\n")
    git(client, "add", ".")
    keys = {key(command, client.folder)}
    (client.folder / "out").mkdir()
    (client.folder / "out/made").write_text("by the deployment")
    (client.folder / ".vercel").mkdir()
    (client.folder / ".vercel/project.json").write_text("by the deployment")
    assert key(command, client.folder) in keys


def test_outside_a_repository_a_deployment_is_of_its_folder_as_well(tmp_path: Path):
    (tmp_path / "app.ts").write_text("one")
    first = key("fly deploy", tmp_path)
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache/made").write_text("by the deployment")
    assert key("fly deploy", tmp_path) == first
    (tmp_path / "app.ts").write_text("two")
    assert key("fly deploy", tmp_path) != first


@pytest.mark.parametrize(
    "command", ["docker push a/b:1", "docker image push a/b:1", "cd . && podman push a/b:1"]
)
def test_a_push_of_an_image_is_of_the_image_and_not_of_its_tag(
    tmp_path: Path, bin_folder: Path, command: str
):
    (tmp_path / "id").write_text("sha256:one")
    for name in ("docker", "podman"):
        program = bin_folder / name
        program.write_text(f"#!/bin/sh\ncat {tmp_path}/id\n")
        program.chmod(0o700)
    first = key(command, tmp_path)
    assert key(command, tmp_path) == first
    (tmp_path / "id").write_text("sha256:two")
    assert key(command, tmp_path) != first
    assert call(command, tmp_path).is_readable


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        ("docker push a/b:1", ""),
        ("docker -c far push a/b:1", "-c=far "),
        ("DOCKER_CONTEXT=far docker push a/b:1", "--context=far "),
        ("docker -H tcp://e.org:1 image push a/b:1", "-H=tcp://e.org:1 "),
        ("podman --connection far push a/b:1", "--connection=far "),
    ],
)
def test_an_image_is_asked_for_where_it_is_pushed_from(
    tmp_path: Path, bin_folder: Path, command: str, asked: str
):
    for name in ("docker", "podman"):
        program = bin_folder / name
        program.write_text('#!/bin/sh\necho "$*"\n')
        program.chmod(0o700)
    assert call(command, tmp_path).effects[0].state == {"a/b:1": f"{asked}image inspect -f {{{{.Id}}}} a/b:1"}


@pytest.mark.parametrize("command", ["docker push a/b:1", "docker compose push", "./docker push a/b"])
def test_an_image_that_nobody_can_be_asked_about_is_not_known(tmp_path: Path, bin_folder: Path, command: str):
    for program in (bin_folder / "docker", tmp_path / "docker"):
        program.write_text(f"#!/bin/sh\necho called >> {tmp_path}/{program.parent.name}-calls\nexit 1\n")
        program.chmod(0o700)
    assert not call(command, tmp_path).is_readable
    assert not (tmp_path / f"{tmp_path.name}-calls").exists()


def test_what_is_applied_goes_to_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    config = tmp_path / "config"
    monkeypatch.setenv("KUBECONFIG", str(config))
    commands = ["kubectl apply -f k.yaml", "helm upgrade r c", "kubectl rollout restart deploy/x"]
    named = ["kubectl --context prod apply -f k.yaml", "helm upgrade --kube-context=prod r c"]
    keys = set()
    for context in ("dev", "prod"):
        config.write_text(f"apiVersion: v1\ncurrent-context: {context}\n")
        keys |= {key(command, tmp_path) for command in (*commands, *named)}
    assert len(keys) == 2 * len(commands) + len(named)


def test_an_overlay_is_of_what_it_is_laid_over(tmp_path: Path):
    for name in ("base", "overlays/prod"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "overlays/prod/kustomization.yaml").write_text("resources:\n- ../../base\n- ns.yaml\n")
    (tmp_path / "base/kustomization.yaml").write_text("resources:\n- app.yaml\n- ../shared.yaml\n")
    keys = set()
    for place in ("base/app.yaml", "shared.yaml", "overlays/prod/ns.yaml"):
        for text in ("one", "two"):
            (tmp_path / place).write_text(text)
            keys.add(key("kubectl apply -k overlays/prod", tmp_path))
    assert len(keys) == 6
    assert not call("kubectl apply -f https://example.org/x.yaml", tmp_path).is_readable


def test_each_of_several_files_behind_one_option_counts(tmp_path: Path):
    keys = set()
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text("one")
        keys.add(key("kubectl apply -f a.yaml,b.yaml", tmp_path))
    assert len(keys) == 2


def test_what_terraform_keeps_of_its_own_work_is_no_part_of_what_is_applied(tmp_path: Path):
    (tmp_path / "infra/modules/net").mkdir(parents=True)
    (tmp_path / "infra/main.tf").write_text("one")
    command = "terraform -chdir=infra apply"
    first = key(command, tmp_path)
    (tmp_path / "infra/terraform.tfstate").write_text("{}")
    assert key(command, tmp_path) == first
    (tmp_path / "infra/modules/net/main.tf").write_text("two")
    assert key(command, tmp_path) != first
    (tmp_path / "infra/.terraform").mkdir()
    inside = key("terraform apply", tmp_path / "infra")
    (tmp_path / "infra/.terraform/environment").write_text("prod")
    assert key("terraform apply", tmp_path / "infra") != inside
