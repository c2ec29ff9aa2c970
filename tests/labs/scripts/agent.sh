#!/bin/bash
# Takes the place of ssh for mpirun, which runs on `ctl`, from where the processes of all nodes are visible:
# agent.sh [OPTIONS] NODE COMMAND.. runs a command on a node. Like with ssh, the environment is not passed on, and a shell on the
# node reads the command. Programs of the launcher find the server library in /run/server, if the lab has one.
set -eu
while [ "${1#-}" != "$1" ]; do shift; done
node=$1
shift
read -r _ pid _ <"/run/lab/nodes/$node/pids"
exec env -i PATH="$PATH" HOME=/root nsenter --target "$pid" --mount --uts --ipc --net --pid -- \
    setpriv --pdeathsig KILL -- \
    sh -c "cd; [ ! -e /run/server ] || export LD_LIBRARY_PATH=/run/server; $*"
