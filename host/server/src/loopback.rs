//! Whose the other end of a loopback TCP connection is, as the kernel says it. What a client claims is worth nothing without.
use std::{
    fs, io,
    net::{IpAddr, SocketAddr},
};

/// The kernel's table of TCP sockets of this network namespace.
const TABLE: &str = "/proc/net/tcp";

/// The user who owns the socket at `far`, connected to ours at `near`; nothing if the kernel knows of none.
pub(crate) fn owner(far: SocketAddr, near: SocketAddr) -> io::Result<Option<u32>> {
    Ok(find(&fs::read_to_string(TABLE)?, far, near))
}

fn find(table: &str, far: SocketAddr, near: SocketAddr) -> Option<u32> {
    let (far, near) = (printed(far)?, printed(near)?);
    table.lines().find_map(|line| {
        // sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid ...
        let mut words = line.split_whitespace().skip(1);
        let ours = words.next() == Some(far.as_str()) && words.next() == Some(near.as_str());
        if ours { words.nth(4)?.parse().ok() } else { None }
    })
}

/// An address as the table has it: the bytes of the address as a number in host order, and the port, in hexadecimal.
fn printed(address: SocketAddr) -> Option<String> {
    match address.ip() {
        IpAddr::V4(ip) => Some(format!("{:08X}:{:04X}", u32::from_ne_bytes(ip.octets()), address.port())),
        IpAddr::V6(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_kernel_knows_whose_a_connection_is() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, far) = listener.accept().unwrap();
        let me = rustix::process::geteuid().as_raw();
        assert_eq!(owner(far, accepted.local_addr().unwrap()).unwrap(), Some(me));
        drop(stream);
        assert_eq!(owner("127.0.0.1:1".parse().unwrap(), far).unwrap(), None);
    }

    #[test]
    fn a_line_counts_only_if_both_ends_fit() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000     0        0 11 1 0 20 4 0 10 -1\n\
             1: 0100007F:C001 0100007F:1F90 01 00000000:00000000 00:00000000 00000000 65534        0 12 1 0 20 4 0 10 -1\n";
        let (server, client) = ("127.0.0.1:8080".parse().unwrap(), "127.0.0.1:49153".parse().unwrap());
        assert_eq!(find(table, client, server), Some(65534));
        assert_eq!(find(table, server, client), Some(0));
        assert_eq!(find(table, client, client), None);
    }
}
