# First process of a node, in new mount, UTS, IPC, network and, except for `ctl`, PID namespaces. The node has its own
# /etc, /usr and /var (overlays over the machine's, whose writes are lost), /tmp, /run, /dev and host name. All else is the
# machine's, as if on a shared disk. /run/lab is the same on all nodes of the lab.
#
# Arguments: name, and a directory with a `usr` that is laid over the machine's, or nothing.
# Files in /run/lab/nodes/NAME: `mounts`, read, with lines of a source and a target, separated by a tab;
# `pids`, written, the pids of this process from the machine's namespace to the innermost.
set -eu
name=$1
packages=${2:-}
own=/run/lab/own

while read -r key numbers; do
    if [ "$key" = NSpid: ]; then echo "$numbers" >"/run/lab/nodes/$name/pids"; fi
done </proc/self/status

mount -t tmpfs -o mode=755 node "$own"
mkdir -m 1777 "$own/tmp"
mkdir -p "$own/run/lab" "$own/upper" "$own/work" "$own/dev/pts" "$own/dev/shm"
# Paths in options of an overlay must have no comma or colon, so that the packages get another name.
if [ -n "$packages" ]; then ln -s "$packages" "$own/packages"; fi
for part in etc usr var; do
    mkdir "$own/upper/$part" "$own/work/$part"
    lower=/$part
    if [ -d "$own/packages/$part" ]; then lower=$own/packages/$part:/$part; fi
    mount -t overlay node -o "lowerdir=$lower,upperdir=$own/upper/$part,workdir=$own/work/$part" "/$part"
done

# Sources are looked up here, while the machine's /tmp and /dev are still visible.
while IFS=$'\t' read -r source target; do
    case $target in
    /tmp/* | /run/* | /dev/*) place=$own$target ;;
    *) place=$target ;;
    esac
    # A link would lead the mount to its target. Only an overlay belongs to the node.
    if [ -L "$place" ] && [ "$(stat -f -c %T "${place%/*}")" = overlayfs ]; then rm "$place"; fi
    if [ -d "$source" ]; then
        mkdir -p "$place"
    else
        mkdir -p "${place%/*}"
        [ -e "$place" ] || : >"$place"
    fi
    mount --rbind "$source" "$place"
done <"/run/lab/nodes/$name/mounts"

for device in null zero full random urandom tty; do
    : >"$own/dev/$device"
    mount --bind "/dev/$device" "$own/dev/$device"
done
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$own/dev/pts"
ln -s pts/ptmx "$own/dev/ptmx"
mount -t tmpfs -o mode=1777 shm "$own/dev/shm"
ln -s /proc/self/fd "$own/dev/fd"
ln -s fd/0 "$own/dev/stdin"
ln -s fd/1 "$own/dev/stdout"
ln -s fd/2 "$own/dev/stderr"

mount --rbind /run/lab "$own/run/lab"
mount --rbind "$own/tmp" /tmp
mount --rbind "$own/dev" /dev
mount --rbind "$own/run" /run
mount -t proc proc /proc
echo "$name" >/proc/sys/kernel/hostname
cp /run/lab/hosts /etc/hosts

echo ready
exec >/dev/null 2>&1
# A pipe that is open for writing, too, never ends. Meanwhile bash reaps the processes that the node's daemons leave behind.
mkfifo -m 600 "$own/wait"
exec 0<>"$own/wait"
trap : CHLD
while :; do read -r _ || :; done
