"""Returns every info of the event, pushes the names of earlier handlers, and counts its calls."""
import peal

calls = 0


@peal.event_handler
def echo(event):
    global calls
    calls += 1
    outcome = peal.no_action()
    outcome.infos.extend(event.infos)
    before = " ".join(result.name for result in event.previous_results)
    return outcome.add("echo.before", before).add("echo.calls", peal.Uint32(calls))
