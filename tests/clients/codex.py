"""Codex, headless: `codex exec`, resumed by the id that its first line told."""

import json
import re
from collections.abc import Mapping, Sequence

from clients.driver import Driver
from clients.scripted_model import Call

__all__ = ["Codex"]

_THREAD = re.compile(r'"thread_id":\s*"([^"]+)"')


class Codex(Driver):
    """Codex with MCP servers and a provider of its own in `config.toml`."""

    name = installed_as = "codex"

    def own_environment(self) -> Mapping[str, str]:
        return {"CODEX_HOME": str(self.home / ".codex"), "SCRIPTED_KEY": "dummy"}

    def configure(self, servers: Mapping[str, Sequence[str]]) -> None:
        super().configure(servers)
        lines = [
            'model = "scripted"',
            'model_provider = "scripted"',
            "[model_providers.scripted]",
            'name = "scripted"',
            f'base_url = "{self.model.url}/v1"',
            'wire_api = "responses"',
            'env_key = "SCRIPTED_KEY"',
            "request_max_retries = 0",
            "stream_max_retries = 0",
        ]
        for name, words in servers.items():
            # A JSON string of printable characters is a TOML one.
            lines += [
                f"[mcp_servers.{name}]",
                f"command = {json.dumps(words[0])}",
                f"args = {json.dumps(words[1:])}",
                "startup_timeout_sec = 60",
                "required = true",
            ]
        folder = self.home / ".codex"
        folder.mkdir(exist_ok=True)
        (folder / "config.toml").write_text("\n".join(lines) + "\n")

    def shell(self, command: str) -> Call:
        return Call("exec_command", {"cmd": command})

    def words(self, prompt: str, *, resumes: bool) -> Sequence[str]:
        again = ["resume", _THREAD.findall(self.log.read_text())[-1]] if resumes else []
        return [
            *(*self.program, "exec", *again),
            *("--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
            # Without a terminal nobody can be asked whether the hooks may run.
            "--dangerously-bypass-hook-trust",
            prompt,
        ]
