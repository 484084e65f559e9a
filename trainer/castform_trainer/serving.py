"""A model on this machine behind a recording endpoint, opened and closed as one thing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from castform.config import RunConfig
from castform_trainer.engines.select import make_engine
from castform_trainer.gateway import Gateway, GatewayEndpoint
from castform_trainer.models import load_tokenizer, open_model


@asynccontextmanager
async def open_endpoint(
    config: RunConfig, *, log_path: Path | None, adapter: Path | None = None
) -> AsyncIterator[GatewayEndpoint]:
    """Serve `config.model` with `config.engine` on a free loopback port; calls are recorded in `log_path`.

    `adapter` is a PEFT LoRA folder, loaded as version 1.
    Raises what opening the model and starting the engine raise; nothing is left running then.
    """
    folder = await asyncio.to_thread(open_model, config.model)
    tokenizer = await asyncio.to_thread(load_tokenizer, folder)
    engine = await asyncio.to_thread(make_engine, config, folder)
    try:
        if adapter is not None:
            await engine.load_adapter(adapter, 1)
        gateway = Gateway(engine, tokenizer, log_path=log_path, model_name=folder.name)
        await asyncio.to_thread(gateway.start)
        endpoint = GatewayEndpoint(gateway)
        try:
            yield endpoint
        finally:
            await endpoint.aclose()
    finally:
        await engine.close()
