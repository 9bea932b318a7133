"""Claude Code, headless: `claude -p`, resumed by its session id."""

from collections.abc import Mapping, Sequence
from uuid import uuid4

from clients.driver import Driver, json_file

__all__ = ["ClaudeCode"]


_PLUGGED = "mcp__plugin_counterfoil_counterfoil"
"""What the server of the plugin is called."""


class ClaudeCode(Driver):
    """Claude Code with MCP servers from a file, and with whatever stands in its configuration folder."""

    name = installed_as = "claude-code"
    session: str = ""
    plugin: str | None = None
    mode: str | None = None
    """The mode in which it decides by itself what may run; None where the tests allow it all."""

    def own_environment(self) -> Mapping[str, str]:
        return {
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": "sk-ant-dummy",
            "CLAUDE_CONFIG_DIR": str(self.home / ".claude"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "0",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
        }

    def is_on_file(self) -> bool:
        files = (self.home / ".claude" / "projects").glob(f"*/{self.session}.jsonl")
        return any('"type":"assistant"' in file.read_text() for file in files)

    def words(self, prompt: str, *, resumes: bool) -> Sequence[str]:
        if not resumes:
            self.session = str(uuid4())
        servers = {name: {"command": words[0], "args": words[1:]} for name, words in self.servers.items()}
        file = json_file(self.home / "mcp.json", {"mcpServers": servers})
        return [
            *self.program,
            *("-p", prompt),
            *("--resume" if resumes else "--session-id", self.session),
            *(() if self.plugin else ("--mcp-config", str(file), "--strict-mcp-config")),
            *(("--permission-mode", self.mode) if self.mode else ("--allowedTools", self._allowed())),
            *("--output-format", "stream-json", "--verbose"),
            *(("--plugin-dir", self.plugin) if self.plugin else ()),
        ]

    def _allowed(self) -> str:
        return ",".join(["Bash", _PLUGGED, *(f"mcp__{name}" for name in self.servers)])
