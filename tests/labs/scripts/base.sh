# Process 1 of a lab's PID namespace. The lab exists as long as this process: the kernel ends all processes of the
# namespace with it, and mounts and networks with their last process.
#
# Arguments: `attached` ends the lab when standard input ends, `detached` never does.
set -eu
mount -t tmpfs -o mode=755 lab /run
mkdir /run/lab /run/lab/nodes /run/lab/own
mkdir -m 1777 /run/lab/shared
# The first of these numbers is the one outside of the lab, since /proc is still the machine's.
while read -r key outside _; do
    if [ "$key" = NSpid: ]; then echo "ready $outside"; fi
done </proc/self/status
exec >/dev/null 2>&1
if [ "$1" = detached ]; then
    # A pipe that is open for writing, too, never ends.
    mkfifo -m 600 /run/lab/wait
    exec 0<>/run/lab/wait
fi
read -r _ || :
