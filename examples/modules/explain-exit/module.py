"""Adds a sentence to abnormal ends that users often ask about, for later handlers and for `peal event watch`."""
import peal
from peal import key, status

EXPLANATIONS = {
    134: "abort() was called: look for a failed assertion in the output",
    137: "killed by SIGKILL: often the memory limit of the job",
    139: "segmentation fault: run the program under a debugger",
}


@peal.event_handler
def handle(event):
    if event.code not in (status.PMIX_ERR_PROC_ABORTED_BY_SIG, status.PMIX_ERR_EXIT_NONZERO_TERM):
        return peal.no_action()
    code = event.get(key.PMIX_EXIT_CODE)
    text = None if code is None else EXPLANATIONS.get(int(code))
    if text is None:
        return peal.no_action()
    return peal.no_action().add("site.explanation", text)
