//! Init, registrations and the other requests of a host environment.
use crate::{
    host::{Statuses, module, report},
    server::{TestServer, array, proc},
};
use peal_libpmix::{
    abi::{CByteObject, CInfo, CProc, CStatus},
    client::init::initialized,
    convert::read_array,
    server::{
        applications::{
            register_attributes, server_collect_inventory, server_deliver_inventory,
            server_dmodex_request, server_iof_deliver, server_setup_application,
            server_setup_local_support,
        },
        fork::server_setup_fork,
        init::{server_finalize, server_init},
        registrations::{
            server_define_process_set, server_delete_process_set, server_deregister_client,
            server_deregister_nspace, server_deregister_resources, server_register_client,
            server_register_nspace, server_register_resources,
        },
    },
};
use peal_model::{Bytes, Envar, Info, Nspace, Proc, Rank, Value, code, key};
use peal_stub::{HostReply, HostRequest, PROTOCOL};
use std::{
    ffi::{c_char, c_void},
    ptr::{null, null_mut},
    slice, thread,
};

const SUCCEEDED: CStatus = code::PMIX_OPERATION_SUCCEEDED.0;

fn info(text: &str) -> Info {
    Info::new(key::PMIX_JOBID, Value::string(text))
}

#[test]
fn hello_has_the_infos_the_name_and_the_offered_upcalls() {
    let name = Info::new(key::PMIX_SERVER_NSPACE, Value::string("slurm"));
    let rank = Info::new(key::PMIX_SERVER_RANK, Value::Rank(Rank(4)));
    let infos = [name, rank, info("x")];
    let server = TestServer::start(&module(), &infos);
    assert_eq!(server.hello.protocol, PROTOCOL);
    assert_eq!(server.hello.name, Some(proc("slurm", 4)));
    let (given, added) = server.hello.infos.split_at(infos.len());
    assert_eq!(given, infos);
    // The directories of temporary files, which this host left out.
    let added: Vec<_> = added.iter().map(|info| info.key.clone()).collect();
    assert_eq!(added, [key::PMIX_SERVER_TMPDIR, key::PMIX_SYSTEM_TMPDIR]);
    assert_eq!(server.hello.offered, []);
    server.finish();
}

#[test]
fn inits_are_counted_and_functions_need_one() {
    let server = TestServer::start(&module(), &[]);
    assert_eq!(unsafe { server_init(null_mut(), null_mut(), 0) }, 0);
    assert_eq!(server_finalize(), 0);
    assert_eq!(initialized(), 1);
    let _turn = server.finish();
    let not = code::PMIX_ERR_INIT.0;
    assert_eq!(initialized(), 0);
    assert_eq!(server_finalize(), not);
    let statuses = Statuses::new();
    let mut env = null_mut();
    unsafe {
        let name = c"job".as_ptr();
        let data = statuses.data();
        assert_eq!(
            server_register_nspace(name, 1, null_mut(), 0, Some(report), data),
            not
        );
        let one = array(&[proc("job", 0)]);
        let one = one.as_slice().as_ptr();
        assert_eq!(
            server_register_client(one, 0, 0, null_mut(), Some(report), data),
            not
        );
        assert_eq!(server_setup_fork(one, &mut env), not);
        assert!(!statuses.has_more(), "a refused call has no callback");
        server_deregister_nspace(name, Some(report), data);
        server_deregister_client(one, Some(report), data);
    }
    assert_eq!((statuses.next(), statuses.next()), (not, not));
}

#[test]
fn registrations_return_at_once_and_call_back_with_the_reply() {
    let mut server = TestServer::start(&module(), &[]);
    let statuses = Statuses::new();
    let infos = [info("1.0")];
    let mut passed = array(&infos);
    let nspace = Nspace::new("slurm.pmix.1.0").unwrap();
    unsafe {
        let registered = server_register_nspace(
            c"slurm.pmix.1.0".as_ptr(),
            2,
            passed.as_mut_ptr(),
            1,
            Some(report),
            statuses.data(),
        );
        assert_eq!(registered, 0);
    }
    let received = server.request();
    assert_eq!(
        received.request,
        HostRequest::RegisterNamespace {
            nspace: nspace.clone(),
            local: 2,
            infos: infos.to_vec(),
        }
    );
    assert!(!statuses.has_more(), "no callback before the reply");
    server.reply(received, Ok(HostReply::Done));
    assert_eq!(statuses.next(), 0);
    let one = array(&[proc("slurm.pmix.1.0", 1)]);
    let one = one.as_slice().as_ptr();
    let object = null_mut();
    unsafe {
        let data = statuses.data();
        assert_eq!(
            server_register_client(one, 7, 8, object, Some(report), data),
            0
        );
        let received = server.request();
        let expected = HostRequest::RegisterClient {
            proc: proc("slurm.pmix.1.0", 1),
            uid: 7,
            gid: 8,
        };
        assert_eq!(received.request, expected);
        server.reply(received, Err(code::PMIX_ERR_NO_PERMISSIONS));
        assert_eq!(statuses.next(), code::PMIX_ERR_NO_PERMISSIONS.0);
        server_deregister_client(one, Some(report), data);
        server_deregister_nspace(c"slurm.pmix.1.0".as_ptr(), Some(report), data);
    }
    let proc = proc("slurm.pmix.1.0", 1);
    assert_eq!(server.carry_out(), HostRequest::DeregisterClient { proc });
    assert_eq!(
        server.carry_out(),
        HostRequest::DeregisterNamespace { nspace }
    );
    assert_eq!((statuses.next(), statuses.next()), (0, 0));
    server.finish();
}

/// Calls a blocking function on a thread while the server replies. Returns its status and request.
fn blocking(
    server: &mut TestServer,
    call: impl FnOnce() -> CStatus + Send,
) -> (CStatus, HostRequest) {
    thread::scope(|scope| {
        let called = scope.spawn(call);
        let request = server.carry_out();
        (called.join().unwrap(), request)
    })
}

#[test]
fn functions_without_a_callback_wait_for_the_reply() {
    let mut server = TestServer::start(&module(), &[]);
    let (status, _) = blocking(&mut server, || unsafe {
        server_register_nspace(c"job".as_ptr(), 1, null_mut(), 0, None, null_mut())
    });
    assert_eq!(status, SUCCEEDED);
    let (status, _) = blocking(&mut server, || unsafe {
        let one = array(&[proc("job", 0)]);
        server_register_client(one.as_slice().as_ptr(), 0, 0, null_mut(), None, null_mut())
    });
    assert_eq!(status, SUCCEEDED);
    let (status, request) = blocking(&mut server, || unsafe {
        let members = array(&[proc("job", 0), proc("job", 1)]);
        let first = members.as_slice().as_ptr();
        server_define_process_set(first, 2, c"set".as_ptr())
    });
    assert_eq!(status, SUCCEEDED);
    let members = vec![proc("job", 0), proc("job", 1)];
    let name = "set".into();
    assert_eq!(request, HostRequest::DefineProcessSet { name, members });
    let (status, request) = blocking(&mut server, || unsafe {
        server_delete_process_set(c"set".as_ptr().cast_mut())
    });
    let name = "set".into();
    assert_eq!(
        (status, request),
        (SUCCEEDED, HostRequest::DeleteProcessSet { name })
    );
    let (status, _) = blocking(&mut server, || unsafe {
        let mut infos = array(&[info("a")]);
        server_register_resources(infos.as_mut_ptr(), 1, None, null_mut())
    });
    assert_eq!(status, SUCCEEDED);
    let (status, _) = blocking(&mut server, || unsafe {
        let mut infos = array(&[info("a")]);
        server_deregister_resources(infos.as_mut_ptr(), 1, None, null_mut())
    });
    assert_eq!(status, SUCCEEDED);
    let (status, request) = blocking(&mut server, || unsafe {
        let mut attributes = [c"pmix.a".as_ptr().cast_mut(), null_mut()];
        register_attributes(c"PMIx_Get".as_ptr().cast_mut(), attributes.as_mut_ptr())
    });
    let expected = HostRequest::RegisterAttributes {
        function: "PMIx_Get".into(),
        attributes: vec!["pmix.a".into()],
    };
    assert_eq!((status, request), (0, expected));
    // These need no server.
    let statuses = unsafe {
        [
            server_setup_local_support(c"job".as_ptr(), null_mut(), 0, None, null_mut()),
            server_deliver_inventory(null_mut(), 0, null_mut(), 0, None, null_mut()),
        ]
    };
    assert_eq!(statuses, [SUCCEEDED; 2]);
    server.finish();
}

#[test]
fn output_goes_to_the_server() {
    let mut server = TestServer::start(&module(), &[]);
    let (status, request) = blocking(&mut server, || unsafe {
        let source = array(&[proc("job", 0)]);
        let bytes = array(&[Bytes::from(&b"line\n"[..])]);
        let bytes: *const CByteObject = bytes.as_slice().as_ptr();
        let source = source.as_slice().as_ptr();
        server_iof_deliver(source, 2, bytes, null(), 0, None, null_mut())
    });
    assert_eq!(status, SUCCEEDED);
    let HostRequest::ForwardOutput { source, data, .. } = request else {
        panic!("{request:?}");
    };
    assert_eq!((source, data.as_slice()), (proc("job", 0), &b"line\n"[..]));
    server.finish();
}

unsafe extern "C" fn report_data(
    status: CStatus,
    data: *mut c_char,
    len: usize,
    statuses: *mut c_void,
) {
    // SAFETY: the library passes `len` bytes.
    let bytes: &[u8] = if len == 0 {
        &[]
    } else {
        unsafe { slice::from_raw_parts(data.cast(), len) }
    };
    assert_eq!(bytes, if status == 0 { &b"a\0b"[..] } else { &[] });
    unsafe { report(status, statuses) };
}

#[test]
fn modex_request_calls_back_with_the_data() {
    let mut server = TestServer::start(&module(), &[]);
    let statuses = Statuses::new();
    let one = array(&[proc("job", 2)]);
    let one: *const CProc = one.as_slice().as_ptr();
    let found = Ok(HostReply::Data(Bytes::from(&b"a\0b"[..])));
    for reply in [found, Err(code::PMIX_ERR_NOT_FOUND)] {
        unsafe {
            let asked = server_dmodex_request(one, Some(report_data), statuses.data());
            assert_eq!(asked, 0);
            let bad = code::PMIX_ERR_BAD_PARAM.0;
            assert_eq!(server_dmodex_request(one, None, null_mut()), bad);
        }
        let received = server.request();
        let proc: Proc = proc("job", 2);
        assert_eq!(received.request, HostRequest::Modex { proc });
        let status = reply.as_ref().map_or_else(|status| status.0, |_| 0);
        server.reply(received, reply);
        assert_eq!(statuses.next(), status);
    }
    server.finish();
}

unsafe extern "C" fn report_setup(
    status: CStatus,
    info: *mut CInfo,
    ninfo: usize,
    statuses: *mut c_void,
    release: Option<unsafe extern "C" fn(CStatus, *mut c_void)>,
    data: *mut c_void,
) {
    let infos: Vec<Info> = unsafe { read_array(info, ninfo, "infos") }.unwrap();
    let variable = Envar {
        name: Some("PMIX_MCA_test".into()),
        value: Some("set up".into()),
        separator: b':',
    };
    let variable = Info::new(key::PMIX_SET_ENVAR, Value::Envar(Box::new(variable)));
    assert!(infos.contains(&variable), "{infos:?}");
    unsafe {
        release.unwrap()(0, data);
        // A second call does nothing.
        release.unwrap()(0, data);
        report(status, statuses);
    }
}

unsafe extern "C" fn report_inventory(
    status: CStatus,
    info: *mut CInfo,
    ninfo: usize,
    statuses: *mut c_void,
    release: Option<unsafe extern "C" fn(*mut c_void)>,
    data: *mut c_void,
) {
    let infos: Vec<Info> = unsafe { read_array(info, ninfo, "infos") }.unwrap();
    assert_eq!(infos, []);
    unsafe {
        release.unwrap()(data);
        report(status, statuses);
    }
}

#[test]
fn setup_and_inventory_call_back_with_infos() {
    let server = TestServer::start(&module(), &[]);
    let statuses = Statuses::new();
    unsafe {
        // SAFETY: only the thread that has the turn reads or changes the environment.
        std::env::set_var("PMIX_MCA_test", "set up");
        let data = statuses.data();
        let asked =
            server_setup_application(c"job".as_ptr(), null_mut(), 0, Some(report_setup), data);
        assert_eq!(asked, 0);
        assert_eq!(statuses.next(), 0);
        let asked = server_collect_inventory(null_mut(), 0, Some(report_inventory), data);
        assert_eq!(asked, 0);
        assert_eq!(statuses.next(), 0);
        std::env::remove_var("PMIX_MCA_test");
    }
    server.finish();
}

/// Blocks in a callback, which is refused.
unsafe extern "C" fn block_in_callback(_status: CStatus, statuses: *mut c_void) {
    unsafe {
        let status = server_delete_process_set(c"set".as_ptr().cast_mut());
        report(status, statuses);
    }
}

#[test]
fn blocking_function_in_a_callback_is_an_error() {
    let mut server = TestServer::start(&module(), &[]);
    let statuses = Statuses::new();
    let data = statuses.data();
    unsafe {
        server_register_nspace(
            c"job".as_ptr(),
            1,
            null_mut(),
            0,
            Some(block_in_callback),
            data,
        );
    }
    server.carry_out();
    assert_eq!(statuses.next(), code::PMIX_ERR_WOULD_BLOCK.0);
    server.finish();
}

#[test]
fn end_of_the_server_fails_open_requests_and_later_ones() {
    let mut server = TestServer::start(&module(), &[]);
    let statuses = Statuses::new();
    let register = |name: &std::ffi::CStr| unsafe {
        let data = statuses.data();
        server_register_nspace(name.as_ptr(), 1, null_mut(), 0, Some(report), data)
    };
    assert_eq!(register(c"a"), 0);
    server.request();
    server.die();
    assert_eq!(statuses.next(), code::PMIX_ERR_LOST_CONNECTION.0);
    assert_eq!(register(c"b"), code::PMIX_ERR_UNREACH.0);
    unsafe { server_deregister_nspace(c"a".as_ptr(), Some(report), statuses.data()) };
    assert_eq!(statuses.next(), code::PMIX_ERR_UNREACH.0);
    server.finish();
}
