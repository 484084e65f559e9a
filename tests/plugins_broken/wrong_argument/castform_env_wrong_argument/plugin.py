from castform.plugins import hookimpl


@hookimpl
def on_step_end(run, step_number):
    pass
