"""Names the platform of the wheel: the program is linked with the C library of the machine that built it."""

import os
import platform

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PlatformHook(BuildHookInterface):
    def initialize(self, version, build_data):
        _, release = os.confstr("CS_GNU_LIBC_VERSION").split()
        system = "manylinux_{}_{}_{}".format(*release.split(".")[:2], platform.machine())
        build_data["tag"] = f"py3-none-{system}"
        build_data["pure_python"] = False
