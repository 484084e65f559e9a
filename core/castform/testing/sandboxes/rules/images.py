"""Images that are built."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from castform.sandbox.contract import Capabilities, ImageBuild
from castform.sandbox.errors import SandboxBuildError, SandboxStartError
from castform.testing.sandboxes.rule import (
    BrokenRuleError,
    NotCheckedError,
    SandboxRule,
    check_equal,
    check_that,
)
from castform.testing.sandboxes.subject import Examined, make_token, run_shell


async def check_build(examined: Examined) -> None:
    token = make_token()
    build = _make_build(
        examined, "good", f"COPY word /word\nRUN echo ran >> /ran\nENV BUILT={token}\nWORKDIR /place\n"
    )
    (build.context / "word").write_text(token, encoding="utf-8")
    request = replace(examined.make_request(), image=build)
    first, second = await asyncio.gather(examined.provider.start(request), examined.provider.start(request))
    try:
        for box in (first, second):
            said = await run_shell(box, 'cat /word /ran; echo "$BUILT"; pwd')
            check_equal("what is inside a built image", said.split(), [f"{token}ran", token, "/place"])
    finally:
        await asyncio.gather(first.close(), second.close())


async def check_failing_build(examined: Examined) -> None:
    token = make_token()
    build = _make_build(examined, "bad", f"RUN echo said-{token} && exit 7\n")
    began = time.monotonic()
    try:
        box = await examined.provider.start(replace(examined.make_request(), image=build))
    except SandboxBuildError as error:
        check_that(f"said-{token}" in str(error), f"the build's output is not in the error: {error}")
        check_that(time.monotonic() - began < 120, "a build that fails took more than 120 s")
        return
    await box.close()
    raise BrokenRuleError("a box was started from an image that does not build")


async def check_missing_image(examined: Examined) -> None:
    request = replace(examined.make_request(), image=f"{make_token()}:none")
    try:
        box = await examined.provider.start(request)
    except (SandboxStartError, SandboxBuildError):
        return
    await box.close()
    raise BrokenRuleError("a box was started from an image that is not there")


def _make_build(examined: Examined, name: str, rest: str) -> ImageBuild:
    if examined.subject.image is None:
        raise NotCheckedError("no image was named to build from")
    context = examined.folder / name
    context.mkdir(parents=True)
    (context / "Dockerfile").write_text(f"FROM {examined.subject.image}\n{rest}", encoding="utf-8")
    return ImageBuild(context=context)


def _claim_images(has: Capabilities) -> str | None:
    return None if has.images else "the provider has no images"


RULES = (
    SandboxRule(
        name="image-build",
        promise="A folder with a Dockerfile becomes an image, once for those who ask at the same time.",
        check=check_build,
        find_disclaimer=_claim_images,
    ),
    SandboxRule(
        name="image-build-fails",
        promise="A build that fails is a SandboxBuildError with the end of its output.",
        check=check_failing_build,
        find_disclaimer=_claim_images,
    ),
    SandboxRule(
        name="image-missing",
        promise="An image that is not there is an error of starting, not a box.",
        check=check_missing_image,
        find_disclaimer=_claim_images,
    ),
)
