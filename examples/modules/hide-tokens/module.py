"""Replaces values of keys that end in ".token" or ".password" in what is to be logged. Other policies decide who may log."""
import peal

SECRET_ENDINGS = (".token", ".password")


@peal.log_policy
def decide(request):
    if not any(info.key.endswith(SECRET_ENDINGS) for info in request.infos):
        return peal.pass_()
    data = [peal.Info(info.key, "(hidden)") if info.key.endswith(SECRET_ENDINGS) else info for info in request.infos]
    return peal.pass_().rewrite(data)
