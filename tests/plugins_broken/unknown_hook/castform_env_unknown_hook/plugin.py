from castform.plugins import hookimpl


@hookimpl
def register_enviroments():
    return []
