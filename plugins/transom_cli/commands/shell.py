"""`transom completion`: the shell's Tab key."""

import click

from transom_cli.clicks import Command

_PROGRAM = "transom"


@click.command(
    cls=Command,
    examples=(
        'eval "$(transom completion bash)"                                    # in ~/.bashrc',
        'eval "$(transom completion zsh)"                                     # in ~/.zshrc',
        "transom completion fish > ~/.config/fish/completions/transom.fish",
    ),
)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(ctx: click.Context, *, shell: str) -> None:
    """Print a shell's completion script.

    It makes the Tab key complete the commands and options of transom.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "click has all three"
    click.echo(kind(ctx.find_root().command, {}, _PROGRAM, f"_{_PROGRAM.upper()}_COMPLETE").source())
