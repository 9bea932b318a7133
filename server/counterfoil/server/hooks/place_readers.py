"""Reads a target in a folder, in files that are applied, or under the name of an image or a release of helm.

Each reader gives the parts of a target. What it looks at is a few small files; nothing is run.
"""

from collections.abc import Callable, Mapping

from counterfoil.server.hooks.scene import Scene

__all__ = ["PLACE_READERS"]

_SHAPES = ("@sha256:", "$", "`")


def _folder(scene: Scene) -> list[str]:
    """The folder that the program works in."""
    return [] if scene.folder is None else [scene.folder]


def _service(scene: Scene) -> list[str]:
    """What of its services a program is asked for: the words in front of what is done."""
    return list(scene.verbs[:-1])


def _path(scene: Scene) -> list[str]:
    """The file or folder that the first operand names; without one, the folder itself."""
    given = scene.operand()
    return _folder(scene) if given is None else [scene.resolved(given)]


def _manifests(scene: Scene) -> list[str]:
    """The files that are applied, or what the operands name."""
    files = [
        one
        for value in scene.values("-f", "--filename", "-k", "--kustomize")
        for one in value.split(",")
        if one
    ]
    if files:
        scene.facts["file"] = files[0] if len(files) == 1 else "FILE"
        return ["standard input" if one == "-" else scene.resolved(one) for one in files]
    found = [text for word in scene.operands if (text := scene.shown(word))]
    scene.names += found
    # What is made may be of a kind of its kind: `create secret generic NAME`.
    named = [found[0], found[-1]] if "create" in scene.verbs and len(found) == 3 else found
    if len(named) == 2 or (len(named) == 1 and "/" in named[0]):
        scene.facts["resource"] = "/".join(named)
        scene.names.append("/".join(named))
    chosen = scene.values("-l", "--selector")
    return [*found, *(f"all with {value}" for value in chosen)]


def _release_name(scene: Scene) -> list[str]:
    """A release of helm; where its name is made by helm, the chart."""
    given = scene.operand()
    if given is not None:
        scene.names.append(given)
    if given is None or not scene.options.has("-g", "--generate-name"):
        return [] if given is None else [given]
    scene.is_exact = False
    scene.facts["1"] = "NAME"
    return [f"chart {given}"]


def _image(scene: Scene) -> list[str]:
    """The image that is pushed, in its one spelling; podman may give it another name there."""
    named = scene.operand(2) if scene.program == "podman" and len(scene.operands) > 1 else scene.operand()
    return (
        [] if named is None else [_spelled(scene, named, is_whole=not scene.options.has("-a", "--all-tags"))]
    )


def _destination(scene: Scene) -> list[str]:
    """The last operand, where files are copied to."""
    given = scene.operand(len(scene.operands)) if scene.operands else None
    if given is None:
        return []
    scene.names += [given, given.partition(":")[0]]
    return [given]


def _images(scene: Scene) -> list[str]:
    """The names under which a build pushes its image; without one, the folder that is built."""
    tags = sorted(_spelled(scene, tag, is_whole=True) for tag in scene.values("-t", "--tag"))
    return tags or _path(scene)


def _spelled(scene: Scene, name: str, *, is_whole: bool) -> str:
    scene.names.append(name)
    for prefix in ("docker://", "docker.io/", "index.docker.io/", "library/"):
        name = name.removeprefix(prefix)
    scene.facts["image"] = name
    has_tag = ":" in name.rpartition("/")[2] or any(mark in name for mark in _SHAPES)
    return name if has_tag or not is_whole else f"{name}:latest"


PLACE_READERS: Mapping[str, Callable[[Scene], list[str]]] = {
    "folder": _folder,
    "service": _service,
    "path": _path,
    "manifests": _manifests,
    "release-name": _release_name,
    "image": _image,
    "images": _images,
    "destination": _destination,
}
