//! Checks of what the kernel of this machine supports.
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, Scope,
};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Returns true if the kernel supports the whole confinement of a server (`host/confinement`):
/// Landlock and seccomp.
pub fn confines() -> bool {
    // Otherwise the crate drops the rules that the kernel does not support, without an error.
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let rules = rules.handle_access(AccessFs::from_all(ABI::V6));
    let rules = rules
        .and_then(|rules| rules.handle_access(AccessNet::ConnectTcp))
        .and_then(|rules| rules.scope(Scope::from_all(ABI::V6)))
        .and_then(Ruleset::create);
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    rules.is_ok() && status.contains("\nSeccomp:")
}

/// Returns true if the kernel reports TCP sockets by netlink. The query is for the listening ones,
/// and may answer with an error.
pub fn tells_of_sockets() -> bool {
    /// Message type `SOCK_DIAG_BY_FAMILY`.
    const KIND: u16 = 20;
    /// Flags `NLM_F_REQUEST | NLM_F_DUMP`.
    const FLAGS: u16 = 0x301;
    /// Beginning of `struct inet_diag_req_v2`: `AF_INET`, `IPPROTO_TCP`.
    const FAMILY: [u8; 4] = [2, 6, 0, 0];
    const LISTEN: u32 = 1 << 10;
    const ERROR: u16 = 2;
    let header = [
        &72_u32.to_ne_bytes()[..],
        &KIND.to_ne_bytes(),
        &FLAGS.to_ne_bytes(),
        &[0; 8],
    ];
    let request = [
        &header.concat()[..],
        &FAMILY,
        &LISTEN.to_ne_bytes(),
        &[0; 48],
    ]
    .concat();
    let mut answer = [0_u8; 4096];
    let netlink = Some(netlink::SOCK_DIAG);
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        netlink,
    );
    let answered = socket.and_then(|socket| {
        send(&socket, &request, SendFlags::empty())?;
        recv(&socket, &mut answer, RecvFlags::empty())
    });
    // The type of the answer follows the length.
    answered.is_ok()
        && answer
            .get(4..6)
            .is_some_and(|kind| kind != ERROR.to_ne_bytes())
}

/// Returns true if there are control groups of version 2, and this process may create one below its
/// own.
pub fn has_control_groups() -> bool {
    let made = control_group().map(|own| own.join(format!("peal-needs-{}", std::process::id())));
    made.is_some_and(|made| {
        let can_be_frozen = fs::create_dir(&made).is_ok() && made.join("cgroup.freeze").exists();
        // The group is empty, so it can be removed.
        can_be_frozen && fs::remove_dir(&made).is_ok()
    })
}

/// Returns the directory of this process's control group.
fn control_group() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mut mounts = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let at = mounts.find_map(|fields| match fields[..] {
        [_, at, "cgroup2", ..] => Some(Path::new(at).to_owned()),
        _ => None,
    })?;
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let name = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(at.join(name))
}
