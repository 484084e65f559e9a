from castform.plugins import EnvironmentSpec, hookimpl


@hookimpl
def register_environments():
    yield EnvironmentSpec(name="first", summary="Registered before it breaks", factory="castform_env_raising.env:make")
    raise RuntimeError("the licence server is down")
