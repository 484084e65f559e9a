from castform.plugins import EnvironmentSpec, hookimpl

print("hello from the import")


@hookimpl
def register_environments():
    print("hello from the hook")
    return EnvironmentSpec(name="noisy", summary="Noisy", factory="castform_env_sound.env:EchoEnv")
