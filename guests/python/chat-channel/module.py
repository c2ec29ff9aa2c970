"""Log channel of a site, `site.log.chat`: writes each request as one line of JSON, `{"channel", "who", "text"}`, the format of chat
services. A webhook sink of the format "json" posts it to one; the reader of another sink passes it on. `peal-module.toml` declares
the settings.

Requests with values other than texts, and requests for formats that a chat does not have, are refused."""
import json

import peal
from peal import key, sink, status

# Directives that a chat does not support.
CANNOT = [key.PMIX_LOG_XML_OUTPUT, key.PMIX_LOG_TAG_OUTPUT, key.PMIX_LOG_TIMESTAMP_OUTPUT, key.PMIX_LOG_GENERATE_TIMESTAMP]

settings = {"sink": "chat"}


@peal.init
def init(config):
    settings.update(config)
    if settings.keys() != {"sink", "room"} or not all(isinstance(value, str) for value in settings.values()):
        raise ValueError('the settings are "room", as in "#jobs", and "sink", both texts')
    if settings["sink"] not in sink.names():
        raise ValueError(f'the sink "{settings["sink"]}" is not open to this module: name it in its "sinks"')


@peal.log_channel
def log(request):
    if any(request.get(asked) for asked in CANNOT):
        return peal.Outcome(status.PMIX_ERR_NOT_SUPPORTED)
    # Keys with this prefix are formatting directives; the rest is payload.
    said = [info for info in request.infos if info.key == request.channel or not info.key.startswith("pmix.log.")]
    if not said or not all(isinstance(info.value, str) for info in said):
        return peal.Outcome(status.PMIX_ERR_BAD_PARAM)
    # JSON in ASCII: no text can end the line, or control a terminal.
    who = str(request.source or "the resource manager")
    text = "\n".join(info.value if info.key == request.channel else f"{info.key}: {info.value}" for info in said)
    try:
        sink.write(settings["sink"], json.dumps({"channel": settings["room"], "who": who, "text": text}) + "\n")
    except peal.Refused as refused:
        return peal.Outcome(refused.status)
