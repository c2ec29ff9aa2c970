//! Name of this node.

/// Returns the node's name, as the kernel reports it.
pub fn hostname() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}
