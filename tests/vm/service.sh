# The service under systemd, on a system of its own. Each step prints a line; the last one says that all
# were done. Files of the test are in /test.
set -eu -o pipefail
trap 'echo "FAILED in line $LINENO"; systemctl --no-pager status peal; journalctl -u peal --no-pager | tail -30' ERR

GROUP=/sys/fs/cgroup/system.slice/peal.service

step() { echo "== $*"; }

# Waits until a command succeeds. The machine is emulated, and others may use the processors.
until_ok() {
    local deadline=$((SECONDS + 300))
    until "$@" > /dev/null 2>&1; do
        if ((SECONDS > deadline)); then
            echo "did not succeed within five minutes: $*"
            return 1
        fi
        sleep 0.2
    done
}

as_alice() { setpriv --reuid=alice --regid=alice --init-groups "$@"; }

raise() { as_alice peal event notify -- -3997; }

serves() { peal status -o json | grep -q '"phase": *"serving"'; }

main_process() { systemctl show peal --property MainPID --value; }

step "install"
install -m 755 /test/peal /usr/bin/peal
install -m 644 /test/peal.service /etc/systemd/system/peal.service
install -D -m 644 /test/peal.sysusers /usr/lib/sysusers.d/peal.conf
install -D -m 644 /test/same-user.wasm /usr/share/peal/same-user.wasm
# The same for systemd's own limits.
install -d /etc/systemd/system/peal.service.d
printf '[Service]\nTimeoutStartSec=300\nWatchdogSec=300\nEnvironment=PEAL_LOG=info\n' > /etc/systemd/system/peal.service.d/emulated.conf
systemd-sysusers
systemctl daemon-reload
useradd alice
install -d /srv/users
install -d -o alice -g alice /srv/users/alice
install -o alice -g alice -m 644 /test/limit-breaker.wasm /srv/users/alice/breaker.wasm
cat > /srv/users/alice/breaker.toml << 'END'
name = "breaker"
path = "breaker.wasm"
codes = [-3997]
event_classes = "both"
END
chown alice:alice /srv/users/alice/breaker.toml
mkdir /etc/peal
cat > /etc/peal/peal.toml << 'END'
[audit]
path = "/var/lib/peal/audit.db"
on_failure = "deny"
[store]
path = "/var/lib/peal/peal.db"
[deploy]
user_modules_dir = "/srv/users"
[[module]]
name = "same-user"
path = "/usr/share/peal/same-user.wasm"
END
peal config check

step "start"
# Time limits of the server may pass in a machine that is emulated beside other work. Systemd starts it again then.
systemctl start peal || echo "started again"
until_ok serves
[ "$(cat $GROUP/cgroup.subtree_control)" = "cpu memory" ]
[ -z "$(cat $GROUP/cgroup.procs)" ]

step "fields in the journal"
has_fields() { journalctl -u peal -o json --no-pager | grep '"TARGET":"peal' | grep -q '"CODE_FILE"'; }
until_ok has_fields

step "upgrade"
FIRST=$(main_process)
peal upgrade
is_upgraded() { [ "$(main_process)" != "$FIRST" ] && serves; }
until_ok is_upgraded
[ "$(systemctl show peal --property NRestarts --value)" = 0 ]

step "limits of a user's process"
peal job register ja -n 1 --uid "$(id -u alice)" --gid "$(id -g alice)" > /dev/null
ALICE=$GROUP/tenant-$(id -u alice)
in_group() { raise && [ -n "$(cat "$ALICE/cgroup.procs")" ]; }
until_ok in_group
LIMIT=$(cat "$ALICE/memory.max")
[ "$LIMIT" != max ]
[ "$(cat "$ALICE/cpu.weight")" = 20 ]
FIRST=$(cat "$ALICE/cgroup.procs")
[ "$(ps -o user= -p "$FIRST")" = alice ]

step "a user's process without memory ends alone"
MAIN=$(main_process)
echo 4M > "$ALICE/memory.max"
is_killed() { ! kill -0 "$FIRST"; }
until_ok is_killed
grep -q '^oom_kill [1-9]' "$ALICE/memory.events"
until_ok in_group
[ "$(cat "$ALICE/cgroup.procs")" != "$FIRST" ]
[ "$(cat "$ALICE/memory.max")" = "$LIMIT" ]
[ "$(main_process)" = "$MAIN" ]
serves

step "a killed server is started again"
pkill -KILL -f -- ' --supervised '
is_new() { [ "$(main_process)" != "$MAIN" ] && serves; }
until_ok is_new
peal audit verify

step "reload, restart"
MAIN=$(main_process)
systemctl reload peal
[ "$(main_process)" = "$MAIN" ]
systemctl restart peal
[ "$(main_process)" != "$MAIN" ]
serves

step "a wrong configuration is tried once"
cp /etc/peal/peal.toml /tmp/right.toml
# Of a wrong module the server would take the version that ran last.
sed -i '1i nonsense = 1' /etc/peal/peal.toml
if systemctl restart peal; then
    echo "FAILED: started with a wrong configuration"
    exit 1
fi
is_failed() { [ "$(systemctl show peal --property ActiveState --value)" = failed ]; }
until_ok is_failed
[ "$(systemctl show peal --property ExecMainStatus --value)" = 78 ]
[ "$(systemctl show peal --property NRestarts --value)" = 0 ]
cp /tmp/right.toml /etc/peal/peal.toml
systemctl start peal
serves

step "stop"
systemctl stop peal
[ ! -e $GROUP ]
[ "$(systemctl show peal --property Result --value)" = success ]

step "all is well"
