# The packages of `cargo xtask dist` on a Debian system without anything else: from the installation to the first
# denied request, the C library beside that of the distribution, upgrade and removal. Files of the test are in /test.
set -eu -o pipefail
trap 'echo "FAILED in line $LINENO"; systemctl --no-pager status peal; journalctl -u peal --no-pager | tail -30' ERR

step() { echo "== $*"; }

# Shows a command and its output, as a reader of the book would see them.
show() {
    echo "\$ $*"
    "$@"
}

as() {
    local user=$1
    shift
    setpriv --reuid="$user" --regid="$user" --init-groups "$@"
}

loaded_library() { ldconfig -p | awk '$1 == "libpmix.so.2" { print $NF; exit }'; }

# The machine is emulated; systemd's own limits are for real ones.
install -d /etc/systemd/system/peal.service.d
printf '[Service]\nTimeoutStartSec=300\nWatchdogSec=300\n' > /etc/systemd/system/peal.service.d/emulated.conf
useradd alice
useradd bob

step "from the package to the first denied request"
BEGIN=$SECONDS
show dpkg --install /test/peal_*.deb
show systemctl is-active peal
show peal status
show peal job register demo -n 1 --uid "$(id -u alice)" --gid "$(id -g alice)" > /dev/null
echo '$ sudo -u bob peal ctl pause demo'
if as bob peal ctl pause demo; then
    echo "bob paused a job of alice"
    exit 1
fi
show peal audit list --outcome denied | tee /tmp/denied
grep -q 'same-user' /tmp/denied
echo "took $((SECONDS - BEGIN)) s"

step "what is installed"
show peal doctor
for file in /usr/share/man/man1/peal-serve.1.gz /usr/share/bash-completion/completions/peal \
    /usr/share/zsh/vendor-completions/_peal /usr/share/fish/vendor_completions.d/peal.fish \
    /usr/share/peal/modules/quota.wasm /usr/share/doc/peal/peal.cdx.json* /usr/lib/tmpfiles.d/peal.conf; do
    [ -s "$file" ]
done
[ "$(stat -c %U:%a /var/lib/peal)" = peal:700 ]
systemctl is-enabled peal

step "the library beside that of the distribution"
DISTRIBUTION=$(loaded_library)
case $DISTRIBUTION in */libpmix.so.2) ;; *) exit 1 ;; esac
show dpkg --install /test/libpmix-peal_*.deb
[ "$(loaded_library)" = "$DISTRIBUTION" ]
show update-alternatives --set libpmix /usr/share/libpmix-peal/peal.conf
show ldconfig
case $(loaded_library) in */peal/libpmix.so.2) ;; *) exit 1 ;; esac
peal doctor | grep 'libpmix.*Peal'
show update-alternatives --set libpmix /usr/share/libpmix-peal/distribution.conf
ldconfig
[ "$(loaded_library)" = "$DISTRIBUTION" ]
update-alternatives --set libpmix /usr/share/libpmix-peal/peal.conf
dpkg --remove libpmix-peal
[ "$(loaded_library)" = "$DISTRIBUTION" ]
[ ! -e /etc/ld.so.conf.d/00-libpmix.conf ]

step "an upgrade leaves the server and changed settings alone"
MAIN=$(systemctl show peal --property MainPID --value)
printf '\n[server]\nmax_fences = 99\n' >> /etc/peal/peal.toml
show dpkg --install --force-confold /test/peal_*.deb
[ "$(systemctl show peal --property MainPID --value)" = "$MAIN" ]
grep -q 'max_fences = 99' /etc/peal/peal.toml

step "removal"
dpkg --remove peal
[ "$(systemctl is-active peal || true)" = inactive ]
[ -e /etc/peal/peal.toml ]
[ -e /var/lib/peal/audit.db ]
dpkg --purge peal
[ ! -e /etc/peal/peal.toml ]
# The audit trail is the administrator's.
[ -e /var/lib/peal/audit.db ]

step "all is well"
