from castform.plugins import EnvironmentSpec, RewardSpec, hookimpl


@hookimpl
def register_environments():
    return [
        EnvironmentSpec(
            name="echo",
            summary="Say a word back",
            factory="castform_env_sound.env:make_environment",
            config="castform_env_sound.env:EchoConfig",
            tags=("text",),
        ),
        EnvironmentSpec(
            name="needy",
            summary="Needs an extra that nobody has",
            factory="castform_env_sound.env:EchoEnv",
            requires=("web",),
        ),
    ]


@hookimpl
def register_rewards():
    return RewardSpec(name="same", summary="Same word", factory="castform_env_sound.env:same_word")


@hookimpl
def register_commands(group):
    group.add("shout", "Say a word loudly", run="castform_env_sound.env:shout", add_arguments=_shout_arguments)


def _shout_arguments(parser):
    parser.add_argument("word")


@hookimpl
def explain_error(error):
    return "the echo is broken" if "echo" in str(error) else None
