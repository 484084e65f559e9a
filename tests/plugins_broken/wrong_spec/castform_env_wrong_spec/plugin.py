from castform.plugins import EnvironmentSpec, hookimpl


@hookimpl
def register_environments():
    return [
        EnvironmentSpec(name="good", summary="Fine", factory="castform_env_wrong_spec.env:make"),
        EnvironmentSpec(name="bad", summary="Not fine", factory="castform_env_wrong_spec/env.py"),
    ]
