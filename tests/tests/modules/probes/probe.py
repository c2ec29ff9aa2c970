from peal import files, random


def probe(peer):
    """Says who connects, and what became of a file."""
    files.write("spool", "a", "hel")
    files.append("spool", "a", b"lo")
    words = [peer.pid, peer.release, len(random.data(70000)), random.number() < 2**64]
    words += files.directories() + files.entries("spool") + [files.read("spool", "a").decode()]
    files.remove("spool", "a")
    try:
        files.read("spool", "a")
    except peal.Refused as refused:
        words.append(refused.status)
    return peal.deny(peal.status.PMIX_ERR_NO_PERMISSIONS, " ".join(str(word).lower() for word in words))


