from castform.plugins import hookimpl

SEEN = []


@hookimpl
def on_step_end(event):
    SEEN.append(event.step)
    raise OSError("the dashboard does not answer")
