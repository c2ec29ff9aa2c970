//! `PMIx_server_setup_fork` in a forked child and in the parent.
use crate::{
    host::module,
    server::{TestServer, array, proc, receive},
};
use peal_libpmix::{destruct::free_argv, server::fork::server_setup_fork};
use std::{
    ffi::{CStr, c_char},
    os::fd::AsRawFd,
    ptr::null_mut,
};

fn strings(list: *mut *mut c_char) -> Vec<String> {
    (0..)
        .map(|at| unsafe { *list.add(at) })
        .take_while(|text| !text.is_null())
        .map(|text| unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned())
        .collect()
}

const EXPECTED: [&str; 4] = [
    "PMIX_NAMESPACE=slurm.pmix.1.0",
    "PMIX_RANK=3",
    "PMIX_SERVER_URI41=peal.0;tcp4://127.0.0.1:1",
    "PMIX_HOSTNAME=n1",
];

#[test]
fn forked_child_is_attested_and_its_environment_is_set() {
    let server = TestServer::start(&module(), &[]);
    let one = array(&[proc("slurm.pmix.1.0", 3)]);
    let one = one.as_slice().as_ptr();
    // SAFETY: the child does what Slurm's does, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let mut env = null_mut();
        unsafe {
            let is_set = server_setup_fork(one, &mut env) == 0 && !env.is_null();
            let last = is_set && !(*env.add(3)).is_null() && (*env.add(4)).is_null();
            libc::_exit(if last { 0 } else { 1 });
        }
    }
    let mut status = 0;
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    let mut datagram = [0; 300];
    let received = receive(server.children.as_raw_fd(), &mut datagram);
    let sender = received.sender.expect("the kernel names the sender");
    assert_eq!((sender.pid, sender.uid), (child, unsafe { libc::getuid() }));
    let named = peal_stub::fork::read(&datagram[..received.len]).unwrap();
    assert_eq!(named, proc("slurm.pmix.1.0", 3));
    server.finish();
}

#[test]
fn process_that_has_initialized_sends_no_message() {
    let server = TestServer::start(&module(), &[]);
    let one = array(&[proc("slurm.pmix.1.0", 3)]);
    let mut env = null_mut();
    unsafe {
        assert_eq!(server_setup_fork(one.as_slice().as_ptr(), &mut env), 0);
        assert_eq!(strings(env), EXPECTED);
        free_argv(env);
        let socket = server.children.as_raw_fd();
        let mut byte = 0_u8;
        let place = (&raw mut byte).cast();
        assert_eq!(libc::recv(socket, place, 1, libc::MSG_DONTWAIT), -1);
    }
    server.finish();
}
