"""A mail server for tests: writes each mail that it accepts as a file of JSON, and refuses what it is asked to refuse.

Recipients that begin with "refused" are refused for good, with "later" for the first time. Subjects with [never] are refused
for good, with [later] for the first time, and with [lost] accepted without an answer for the first time.
"""
import argparse
import asyncio
import email
import email.policy
import json
import os
import ssl

from aiosmtpd.smtp import SMTP, AuthResult


class Handler:
    def __init__(self, out):
        self.out = out
        self.count = 0
        self.seen = set()

    def first(self, what):
        if what in self.seen:
            return False
        self.seen.add(what)
        return True

    async def handle_RCPT(self, server, session, envelope, address, rcpt_options):
        if address.startswith("refused"):
            return "550 5.1.1 nobody of this name"
        if address.startswith("later") and self.first(address):
            return "451 4.2.1 not now"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        mail = email.message_from_bytes(envelope.original_content, policy=email.policy.default)
        subject, name = mail["Subject"] or "", mail["Message-ID"]
        if "[never]" in subject:
            return "554 5.7.1 not wanted"
        if "[later]" in subject and self.first(name):
            return "451 4.3.0 not now"
        self.write(server, session, envelope, mail)
        if "[lost]" in subject and self.first(name):
            server.transport.abort()
        return "250 OK"

    def write(self, server, session, envelope, mail):
        self.count += 1
        told = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "tls": session.ssl is not None or server.transport.get_extra_info("ssl_object") is not None,
            "user": session.auth_data,
            "headers": [[key, str(value)] for key, value in mail.items()],
            "subject": mail["Subject"],
            # Ends of lines are CR LF on the way, and are so still where the text was encoded.
            "text": mail.get_content().replace("\r\n", "\n"),
            "raw": envelope.original_content.decode("ascii"),
        }
        path = os.path.join(self.out, f"{os.getpid()}-{self.count:04}.json")
        with open(path + ".new", "w") as file:
            json.dump(told, file)
        os.rename(path + ".new", path)


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--certificate")
    parser.add_argument("--key")
    parser.add_argument("--tls", choices=["none", "starttls", "wrapped"], default="none")
    parser.add_argument("--user")
    parser.add_argument("--password")
    args = parser.parse_args()
    context = None
    if args.certificate:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(args.certificate, args.key)

    def authenticate(server, session, envelope, mechanism, data):
        right = data.login == args.user.encode() and data.password == args.password.encode()
        return AuthResult(success=right, handled=False, auth_data=args.user if right else None)

    handler = Handler(args.out)
    options = {"enable_SMTPUTF8": False, "hostname": "smtp.test"}
    if args.tls == "starttls":
        options |= {"tls_context": context, "require_starttls": True}
    if args.user:
        options |= {"authenticator": authenticate, "auth_required": True, "auth_require_tls": args.tls == "starttls"}
    loop = asyncio.get_running_loop()
    wrap = context if args.tls == "wrapped" else None
    server = await loop.create_server(lambda: SMTP(handler, **options), "127.0.0.1", args.port, ssl=wrap)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
