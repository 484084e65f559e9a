"""The SDK: upload data, launch finetuning, look at runs.

    from benchmax.sft import SftDataset
    from castform.platform import SftTrainingConfig, TrainerClient, upload_sft_assets

    assets = upload_sft_assets(dataset=SftDataset.from_jsonl("train.jsonl"), run_name="support-sft")
    run_id = TrainerClient().launch_sft_run(assets=assets, name="support-sft", config=SftTrainingConfig())

Everything happens on this machine, and no account is needed. docs/sft-sdk.md says more.
"""

from __future__ import annotations

from castform.platform.assets import UploadedSftAssets, sft_assets_digest, upload_sft_assets
from castform.platform.client import TrainerClient
from castform.platform.errors import AuthenticationError, JobLaunchError, TrainerError
from castform.platform.request import SftLaunch, TrainerTransport
from castform.platform.sessions import ensure_session, platform_bearer
from castform.platform.storage import AssetStorage
from castform.platform.training_config import SftTrainingConfig

__all__ = [
    "AssetStorage",
    "AuthenticationError",
    "JobLaunchError",
    "SftLaunch",
    "SftTrainingConfig",
    "TrainerClient",
    "TrainerError",
    "TrainerTransport",
    "UploadedSftAssets",
    "ensure_session",
    "platform_bearer",
    "sft_assets_digest",
    "upload_sft_assets",
]
