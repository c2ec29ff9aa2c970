"""A client in Python on the C library's own binding (Debian: python3-pmix). Two ranks exchange
values, published data and an event. Each prints what it got."""
import os
import queue

import pmix

CUSTOM = -3100
heard = queue.Queue()


def say(*words):
    print(f"rank {rank}:", *words, flush=True)


def handler(ident, status, source, infos, results):
    """Runs on the progress thread. Infos of the server depend on its release."""
    told = [(info["key"], info["value"]) for info in infos if info["key"] == "peal.word"]
    heard.put((status, source["rank"], told))
    return pmix.PMIX_EVENT_ACTION_COMPLETE, []


def fence(directives=None):
    peers = [{"nspace": me["nspace"], "rank": pmix.PMIX_RANK_WILDCARD}]
    say("fence", client.fence(peers, directives))


client = pmix.PMIxClient()
rank = int(os.environ["PMIX_RANK"])
say("initialized", client.initialized())
status, me = client.init([])
say("init", status, me["rank"], "initialized", client.initialized())
other = {"nspace": me["nspace"], "rank": 1 - rank}

# Values that procs put.
put = {
    "peal.number": {"value": 40 + rank, "val_type": pmix.PMIX_INT32},
    "peal.text": {"value": f"text of {rank}", "val_type": pmix.PMIX_STRING},
    "peal.double": {"value": 0.5 + rank, "val_type": pmix.PMIX_DOUBLE},
    "peal.bytes": {"value": {"bytes": bytes([1, 0, 2 + rank]), "size": 3}, "val_type": pmix.PMIX_BYTE_OBJECT},
}
for key, value in put.items():
    say("put", key, client.put(pmix.PMIX_GLOBAL, key, value))
say("commit", client.commit())
fence([{"key": pmix.PMIX_COLLECT_DATA, "flags": 0, "value": True, "val_type": pmix.PMIX_BOOL}])
for key in put:
    say("get", key, client.get(other, key, []))
whole = {"nspace": me["nspace"], "rank": pmix.PMIX_RANK_WILDCARD}
say("size", client.get(whole, pmix.PMIX_JOB_SIZE, []))
immediately = [{"key": pmix.PMIX_IMMEDIATE, "flags": 0, "value": True, "val_type": pmix.PMIX_BOOL}]
say("get of nothing", client.get(other, "peal.nothing", immediately))

# Published data.
if rank == 0:
    data = [{"key": "peal.port", "flags": 0, "value": "here", "val_type": pmix.PMIX_STRING}]
    say("publish", client.publish(data))
fence()
status, found = client.lookup([{"key": "peal.port"}], [])
say("lookup", status, [(one["key"], one["value"], one["proc"]["rank"]) for one in found])

# An event.
status, ident = client.register_event_handler([CUSTOM], None, handler)
say("register", status)
fence()
word = [{"key": "peal.word", "flags": 0, "value": "hi", "val_type": pmix.PMIX_STRING}]
if rank == 0:
    say("notify", client.notify_event(CUSTOM, me, pmix.PMIX_RANGE_NAMESPACE, word))
# Other than the calls of the binding, this one releases the interpreter's lock.
say("heard", heard.get(timeout=30))
fence()
say("deregister", client.deregister_event_handler(ident))

# What needs no server.
say(client.error_string(-46), client.scope_string(pmix.PMIX_GLOBAL), client.data_type_string(pmix.PMIX_INT32))
say("finalize", client.finalize([]))
