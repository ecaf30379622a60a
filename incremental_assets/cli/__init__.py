"""The command line: `incremental-assets …`. Each module holds the commands of one thing."""

from incremental_assets.cli.demo import demo
from incremental_assets.cli.gate import gate
from incremental_assets.cli.group import main
from incremental_assets.cli.ledger import batches, ledger, stale
from incremental_assets.cli.maintain import maintain
from incremental_assets.cli.plan import plan
from incremental_assets.cli.quarantine import quarantine
from incremental_assets.cli.restate import restate
from incremental_assets.cli.run import run, setup
from incremental_assets.cli.verify import verify
from incremental_assets.cli.watermarks import watermarks

_COMMANDS = (
    plan,
    run,
    setup,
    restate,
    stale,
    batches,
    watermarks,
    verify,
    gate,
    quarantine,
    ledger,
    maintain,
    demo,
)
for command in _COMMANDS:
    main.add_command(command)

__all__ = ["main"]
