"""Gemini CLI, headless: `gemini -p`, resumed as its latest session."""

from collections.abc import Mapping, Sequence

from clients.driver import Driver, json_file
from clients.scripted_model import Call

__all__ = ["GeminiCLI"]


class GeminiCLI(Driver):
    """Gemini CLI with MCP servers in its user's settings."""

    name = "gemini-cli"
    installed_as = "gemini"

    def own_environment(self) -> Mapping[str, str]:
        return {
            "GEMINI_API_KEY": "dummy",
            "GOOGLE_GEMINI_BASE_URL": self.model.url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        }

    def configure(self, servers: Mapping[str, Sequence[str]]) -> None:
        super().configure(servers)
        entries = {name: {"command": words[0], "args": words[1:]} for name, words in servers.items()}
        settings = {
            "mcpServers": entries,
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"disableAutoUpdate": True},
        }
        json_file(self.home / ".gemini" / "settings.json", settings)

    def shell(self, command: str) -> Call:
        return Call("run_shell_command", {"command": command, "description": "work"})

    def words(self, prompt: str, *, resumes: bool) -> Sequence[str]:
        again = ["--resume", "latest"] if resumes else []
        return [
            *self.program,
            *again,
            *("-m", "gemini-2.5-flash", "--approval-mode", "yolo", "-o", "stream-json", "-p", prompt),
        ]
