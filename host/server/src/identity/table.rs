//! Kernel's table of TCP sockets, for kernels without socket diagnosis.
use super::socket::{Socket, SocketState};
use std::{
    fs, io,
    net::{IpAddr, SocketAddr},
};

/// Table of IPv4 sockets of this network namespace.
const TABLE: &str = "/proc/net/tcp";

/// Returns the socket at `far` that is connected to the server's end at `near`.
pub(super) fn find(far: SocketAddr, near: SocketAddr) -> io::Result<Option<Socket>> {
    Ok(find_in(&fs::read_to_string(TABLE)?, far, near))
}

fn find_in(table: &str, far: SocketAddr, near: SocketAddr) -> Option<Socket> {
    let far = printed(far)?;
    let near = printed(near)?;
    table.lines().find_map(|line| {
        // Columns: sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid
        // timeout inode and others.
        let mut words = line.split_whitespace().skip(1);
        let ours = words.next() == Some(far.as_str()) && words.next() == Some(near.as_str());
        if !ours {
            return None;
        }
        let state = SocketState::from_number(u8::from_str_radix(words.next()?, 16).ok()?);
        let uid = words.nth(3)?.parse().ok()?;
        Some(Socket {
            uid,
            inode: words.nth(1)?.parse().ok()?,
            state,
        })
    })
}

/// Formats an address as in the table: the bytes of the address as a number in host byte order, and
/// the port, in hexadecimal.
fn printed(address: SocketAddr) -> Option<String> {
    match address.ip() {
        IpAddr::V4(ip) => Some(format!(
            "{:08X}:{:04X}",
            u32::from_ne_bytes(ip.octets()),
            address.port()
        )),
        IpAddr::V6(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn connection_is_found_from_both_ends() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000     0        0 11 1 0 20 4 0 10 -1\n\
             1: 0100007F:C001 0100007F:1F90 01 00000000:00000000 00:00000000 00000000 65534        0 12 1 0 20 4 0 10 -1\n\
             2: 0100007F:C002 0100007F:1F90 05 00000000:00000000 03:0000176F 00000000     0        0 0 3 00000000b4b0be17\n";
        let server = "127.0.0.1:8080".parse().unwrap();
        let client = "127.0.0.1:49153".parse().unwrap();
        assert_eq!(
            find_in(table, client, server),
            Some(Socket {
                uid: 65534,
                inode: 12,
                state: SocketState::Established
            })
        );
        assert_eq!(
            find_in(table, server, client),
            Some(Socket {
                uid: 0,
                inode: 11,
                state: SocketState::Established
            })
        );
        assert_eq!(find_in(table, client, client), None);
        let closed = find_in(table, "127.0.0.1:49154".parse().unwrap(), server);
        let unowned = Socket {
            uid: 0,
            inode: 0,
            state: SocketState::Other,
        };
        assert_eq!(
            closed,
            Some(unowned),
            "no process holds it, but the table shows user 0"
        );
    }
}
