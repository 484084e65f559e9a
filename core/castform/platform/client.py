"""TrainerClient: launch runs and look at them."""

from __future__ import annotations

import warnings
from types import TracebackType

from castform.platform.assets import UploadedSftAssets
from castform.platform.request import Answer, Scalars, TrainerTransport, make_sft_launch
from castform.platform.training_config import SftTrainingConfig


class TrainerClient:
    """Runs on this machine, unless a transport takes the requests elsewhere.

    Use it as a context manager or call `close()`; one that is not closed is only untidy. A run
    goes on without its client. Every method raises TrainerError.
    """

    def __init__(
        self,
        api_key: str | None = None,
        base_url: str | None = None,
        *,
        transport: TrainerTransport | None = None,
    ) -> None:
        """`api_key` is taken and not used: nobody asks for one here.

        ValueError for a `base_url`: runs of this client start on this machine, and it would be
        wrong to say that they went elsewhere.
        """
        if base_url is not None:
            raise ValueError(
                f"base_url is {base_url!r}, but this client trains on this machine; leave it out, or give the "
                "transport that reaches the server"
            )
        if transport is None:
            from castform.platform.local import LocalTransport

            transport = LocalTransport()
        self._transport = transport

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> TrainerClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def launch_sft_run(
        self, *, assets: UploadedSftAssets, name: str, config: SftTrainingConfig | None = None
    ) -> str:
        """Start a finetuning run and return its id; what the platform warns of becomes a warning.

        TypeError and ValueError for arguments that no platform takes, before anything is asked;
        JobLaunchError when the run cannot be started, or the same one is going on already.
        """
        if not isinstance(assets, UploadedSftAssets):
            raise TypeError(f"assets must be what upload_sft_assets returned, not {type(assets).__name__}")
        config = SftTrainingConfig() if config is None else config
        if not isinstance(config, SftTrainingConfig):
            raise TypeError(f"config must be an SftTrainingConfig, not {type(config).__name__}")
        answer = self._transport.launch_sft_run(make_sft_launch(assets, name, config))
        for text in answer.get("warnings") or ():
            warnings.warn(text, stacklevel=2)
        return str(answer["runId"])

    def list_runs(self, *, include_config: bool = False) -> list[Answer]:
        """Return runs, newest first, as `get_run` does."""
        return self._transport.list_runs(include_config=include_config)

    def get_run(self, run_id: str, *, include_config: bool = False) -> Answer:
        """Return id, name, kind, status, createdAt, updatedAt, totalSteps, latestActivityMessage, error.

        Times are ISO 8601 in UTC. `include_config` adds launcherArgs, all settings of the run.
        """
        return self._transport.get_run(run_id, include_config=include_config)

    def get_run_details(self, run_id: str) -> Answer:
        """Return id, status, latestStep, totalSteps, modes, errorCount, error, runDir, logPath, resultPath, verdict.

        Paths are None where the files are not there (yet).
        """
        return self._transport.get_run_details(run_id)

    def get_run_events(self, run_id: str) -> list[Answer]:
        """Return what happened, oldest first: id, createdAt, kind, step, data."""
        return self._transport.get_run_events(run_id)

    def get_run_scalars(self, run_id: str, mode: str | None = None) -> Scalars:
        """Return {name: [{"step", "value"}, …]} in step order; without a mode, of all modes together.

        A value that was not finite is None.
        """
        return self._transport.get_run_scalars(run_id, mode)

    def cancel_run(self, run_id: str) -> Answer:
        """Ask a run to stop; it keeps a checkpoint of its last whole step. Returns status and message."""
        return self._transport.cancel_run(run_id)
