"""Jobs of one step over the lake, which are launched by hand, with config."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import dagster as dg

from incremental_assets.errors import IncrementalAssetsError
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.orchestration.failures import failure_of
from incremental_assets.orchestration.naming import Naming
from incremental_assets.orchestration.resources import opened


@dataclass(frozen=True)
class JobStep:
    """The step of a run: its context, its config, and the lakehouse whose assets are so named."""

    context: dg.OpExecutionContext
    config: Any
    lakehouse: Lakehouse
    naming: Naming

    @property
    def run_id(self) -> str:
        return self.context.run_id


@dataclass(frozen=True)
class ManualJob:
    """What the job `name` does: `run` yields the events of its one step, which is named `op`.

    What the project raises on purpose in `run` fails the step with the same message.
    """

    name: str
    op: str
    description: str
    op_description: str
    config: type[dg.Config]
    run: Callable[[JobStep], Iterator[Any]]

    def definition(self, naming: Naming, executor: dg.ExecutorDefinition) -> dg.JobDefinition:
        """The job over the tables of that naming, with an executor of its own."""

        @dg.op(
            name=naming.own(self.op),
            description=self.op_description,
            required_resource_keys=naming.resources,
            config_schema=self.config.to_fields_dict(),
        )
        def step(context: dg.OpExecutionContext) -> Iterator[Any]:
            config = self.config(**context.op_config)
            with _as_failures():
                yield from self.run(JobStep(context, config, opened(context, naming), naming))
            yield dg.Output(None)

        @dg.job(name=naming.own(self.name), description=self.description, executor_def=executor)
        def made() -> None:
            step()

        return made


@contextmanager
def _as_failures() -> Iterator[None]:
    try:
        yield
    except IncrementalAssetsError as error:
        raise failure_of(error) from error
