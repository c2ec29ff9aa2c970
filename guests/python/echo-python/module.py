"""Returns every info that the event carries, says who ran before it, and counts its calls."""
import peal

calls = 0


@peal.event_handler
def echo(event):
    global calls
    calls += 1
    outcome = peal.no_action()
    outcome.infos.extend(event.infos)
    before = " ".join(step.name for step in event.steps)
    return outcome.add("echo.before", before).add("echo.calls", peal.Uint32(calls))
