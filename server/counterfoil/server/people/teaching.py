"""Commands whose help teaches: grouped, with examples, and with the settings that each of them takes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from counterfoil.server.people.output import write
from counterfoil.server.people.request import Request

__all__ = ["TeachingCommand", "TeachingGroup", "teaching_command", "with_settings"]

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])


class SettingOption(click.Option):
    """An option that every command takes, before the command's name or after it."""


class _Helped(click.Command):
    """A command whose help is written like every other answer."""

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Give the option that shows the help."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.callback = _show_help
        return option


class TeachingCommand(_Helped):
    """A command whose help ends in examples."""

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **rest: Any) -> None:
        super().__init__(*arguments, **rest)
        self.examples = tuple(examples)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options first, then the settings."""
        _write_options(self, ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples as they are to be typed."""
        _write_examples(self.examples, formatter)


class TeachingGroup(_Helped, click.Group):
    """The whole command line; `sections` are its commands under headings, each with one example."""

    command_class = TeachingCommand

    def __init__(
        self,
        *arguments: Any,
        sections: Mapping[str, Sequence[str]] | None = None,
        examples: Sequence[str] = (),
        **rest: Any,
    ) -> None:
        super().__init__(*arguments, **rest)
        self.sections = dict(sections or {})
        self.examples = tuple(examples)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands before the options: they are what one looks for."""
        for heading, names in self.sections.items():
            commands = [(name, self.commands[name]) for name in names if name in self.commands]
            with formatter.section(heading):
                formatter.write_dl([(name, command.get_short_help_str(60)) for name, command in commands])
        _write_options(self, ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write an example each, and the exit codes."""
        _write_examples(self.examples, formatter)
        with formatter.section("Exit codes"):
            formatter.write_text("0 done · 1 refused or found wanting · 2 usage · 3 journal unavailable")


def _show_help(context: click.Context, _: click.Parameter, is_wanted: bool) -> None:
    if is_wanted and not context.resilient_parsing:
        write(context.get_help())
        context.exit()


def _write_options(command: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    own: list[tuple[str, str]] = []
    settings: list[tuple[str, str]] = []
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None and isinstance(parameter, click.Option):
            (settings if isinstance(parameter, SettingOption) else own).append(record)
    for heading, records in (("Options", own), ("For every command, before or after its name", settings)):
        if records:
            with formatter.section(heading):
                formatter.write_dl(records)


def _write_examples(examples: Sequence[str], formatter: click.HelpFormatter) -> None:
    if examples:
        with formatter.section("Examples"):
            for example in examples:
                formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


def _kept(name: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
    def keep(context: click.Context, _: click.Parameter, value: str | None) -> None:
        request = context.find_object(Request)
        if value is not None and request is not None:
            request.flags[name] = value

    return keep


def _keep_json(context: click.Context, _: click.Parameter, value: bool) -> None:
    request = context.find_object(Request)
    if value and request is not None:
        request.as_json = True


def with_settings(function: _Decorated) -> _Decorated:
    """Add the options that every command takes; the one nearest to the end of the line counts."""
    texts = {
        "journal": (
            "URL",
            "The journal: an absolute PATH, ~/PATH, sqlite:////ABSOLUTE/PATH or postgresql://…; "
            "COUNTERFOIL_JOURNAL and the configuration file take the same.",
        ),
        "namespace": ("NAME", "The tenant inside the journal; default unless set."),
        "config": (
            "FILE",
            "The configuration file; counterfoil.toml in your configuration folder unless set.",
        ),
        "log": ("LEVEL", "debug, info, warning or error, on stderr."),
    }
    for name, (metavar, text) in reversed(texts.items()):
        function = click.option(
            f"--{name}",
            cls=SettingOption,
            metavar=metavar,
            help=text,
            expose_value=False,
            callback=_kept(name),
        )(function)
    return function


def with_json(function: _Decorated) -> _Decorated:
    """Add `--json`."""
    return click.option(
        "--json",
        cls=SettingOption,
        is_flag=True,
        help="Answer with one JSON document on stdout.",
        expose_value=False,
        callback=_keep_json,
    )(function)


def teaching_command(
    *, short: str, examples: Sequence[str]
) -> Callable[[Callable[..., int]], TeachingCommand]:
    """Make a function a command: it gets the Request first, and gives the exit code.

    `short` is its line in the list of commands.
    """

    def make(function: Callable[..., int]) -> TeachingCommand:
        passed = click.pass_obj(function)
        return click.command(cls=TeachingCommand, short_help=short, examples=examples)(
            with_settings(with_json(passed))
        )

    return make
