import time

from castform.plugins import EnvironmentSpec, hookimpl

time.sleep(2)


@hookimpl
def register_environments():
    return EnvironmentSpec(name="slow", summary="Slow to import", factory="castform_env_slow.env:make")
