//! Output of procs that the program pulls, and input that it pushes.
use super::{
    library::Library,
    operations::{ProgramData, begin, refusal, wait, wait_or_begin},
    progress::call_program,
    stdin,
};
use crate::{
    abi::{
        CByteObject, CInfo, CIofCallback, CIofChannel, COpCallback, CProc, CRegistrationCallback,
        CStatus,
    },
    border,
    convert::{ToC, read_array, read_one},
    heap_array::HeapArray,
};
use peal_client::{Client, ClientError, IofOutput};
use peal_model::{Bytes, Info, Infos, IofChannel, Proc, Status, code, key, number};
use std::{ffi::c_void, slice};

/// Channels of input, which is pushed and not pulled.
const INPUT: CIofChannel = number::PMIX_FWD_STDIN_CHANNEL as CIofChannel;

/// Channels of errors, which are written to the standard error.
const ERRORS: CIofChannel =
    (number::PMIX_FWD_STDERR_CHANNEL | number::PMIX_FWD_STDDIAG_CHANNEL) as CIofChannel;

/// Arguments of a pull.
struct Pull {
    sources: Vec<Proc>,
    directives: Vec<Info>,
    channels: IofChannel,
    callback: CIofCallback,
}

impl Pull {
    async fn run(self, client: Client) -> Result<u64, ClientError> {
        let Pull {
            sources,
            directives,
            channels,
            callback,
        } = self;
        let receive = move |output: &IofOutput| pass(callback, output);
        client
            .pull_output(&sources, channels, &directives, receive)
            .await
    }
}

/// Passes output to the function of the program. Without one it is written to the standard output or
/// error.
fn pass(callback: CIofCallback, output: &IofOutput) {
    let Some(callback) = callback else {
        write_output(output);
        return;
    };
    let id = usize::try_from(output.local_id).unwrap_or(usize::MAX);
    let arrays = (
        array(slice::from_ref(&output.source)),
        array(slice::from_ref(&output.data)),
        array(&output.infos),
    );
    let (mut source, mut data, mut infos) = arrays;
    let (first, len) = infos.as_raw_parts();
    let (source, data) = (source.as_mut_ptr(), data.as_mut_ptr());
    // SAFETY: the program passed the function for this call; what is passed lives until then.
    call_program(|| unsafe { callback(id, output.channels.0, source, data, first, len) });
}

/// Converts a part of output; an empty array if it has no C form.
fn array<M: ToC>(models: &[M]) -> HeapArray<M::Target> {
    HeapArray::from_models(models).unwrap_or_else(|error| {
        tracing::warn!(%error, "part of an output not converted");
        HeapArray::default()
    })
}

/// Writes output to the standard output or error of the process.
pub(crate) fn write_output(output: &IofOutput) {
    let is_error = output.channels.0 & ERRORS != 0;
    let descriptor = if is_error {
        libc::STDERR_FILENO
    } else {
        libc::STDOUT_FILENO
    };
    let mut left = output.data.as_slice();
    while !left.is_empty() {
        // SAFETY: the slice has as many bytes.
        let written = unsafe { libc::write(descriptor, left.as_ptr().cast(), left.len()) };
        match usize::try_from(written) {
            Ok(written) => left = left.get(written..).unwrap_or_default(),
            Err(_) => {
                let error = std::io::Error::last_os_error();
                if error.kind() != std::io::ErrorKind::Interrupted {
                    tracing::debug!(%error, "output of a proc not written");
                    return;
                }
            }
        }
    }
}

/// `PMIx_IOF_pull`: receives the output of procs. Without `regcbfunc` it waits, and returns the id of
/// the pull, or a negative status.
///
/// # Safety
///
/// `procs` is null or begins an array of `nprocs` procs, `directives` of `ndirs` infos. `cbfunc`, and
/// `regcbfunc` with `regcbdata`, may be called from another thread.
#[unsafe(export_name = "PMIx_IOF_pull")]
pub unsafe extern "C" fn iof_pull(
    procs: *const CProc,
    nprocs: usize,
    directives: *const CInfo,
    ndirs: usize,
    channel: CIofChannel,
    cbfunc: CIofCallback,
    regcbfunc: CRegistrationCallback,
    regcbdata: *mut c_void,
) -> CStatus {
    const FUNCTION: &str = "PMIx_IOF_pull";
    let pull = || {
        Library::running()?;
        if channel & INPUT != 0 {
            return Err(code::PMIX_ERR_NOT_SUPPORTED);
        }
        // SAFETY: the caller guarantees the arrays.
        let pull = unsafe {
            Pull {
                sources: read_array(procs, nprocs, "procs")?,
                directives: read_array(directives, ndirs, "directives")?,
                channels: IofChannel(channel),
                callback: cbfunc,
            }
        };
        let Some(callback) = regcbfunc else {
            let id = wait(FUNCTION, |client| pull.run(client))?;
            let id = id.map_err(|error| refusal(FUNCTION, &error))?;
            return CStatus::try_from(id).map_err(|_| code::PMIX_ERR_OUT_OF_RESOURCE);
        };
        let data = ProgramData::new(regcbdata);
        begin(
            |client| pull.run(client),
            move |pulled| {
                let (status, id) = match pulled {
                    Ok(id) => (code::PMIX_SUCCESS, id),
                    Err(error) => (refusal(FUNCTION, &error), u64::MAX),
                };
                let id = usize::try_from(id).unwrap_or(usize::MAX);
                // SAFETY: the program passed the function for this call.
                call_program(|| unsafe { callback(status.0, id, data.get()) });
            },
        )?;
        Ok(code::PMIX_SUCCESS.0)
    };
    border::value(FUNCTION, code::PMIX_ERROR.0, || {
        pull().unwrap_or_else(|status: Status| status.0)
    })
}

/// `PMIx_IOF_deregister`: ends a pull.
///
/// # Safety
///
/// `directives` is null or begins an array of `ndirs` infos. `cbfunc` may be called with `cbdata` from
/// another thread.
#[unsafe(export_name = "PMIx_IOF_deregister")]
pub unsafe extern "C" fn iof_deregister(
    iofhdlr: usize,
    directives: *const CInfo,
    ndirs: usize,
    cbfunc: COpCallback,
    cbdata: *mut c_void,
) -> CStatus {
    const FUNCTION: &str = "PMIx_IOF_deregister";
    border::status(FUNCTION, || {
        Library::running()?;
        // SAFETY: the caller guarantees the array.
        let directives: Vec<Info> = unsafe { read_array(directives, ndirs, "directives") }?;
        let end =
            move |client: Client| async move { client.end_pull(iofhdlr as u64, &directives).await };
        wait_or_begin(FUNCTION, cbfunc, cbdata, end)
    })
}

/// `PMIx_IOF_push`: sends input to procs. Without data, and with `PMIX_IOF_PUSH_STDIN`, it is the
/// standard input of the process from now on.
///
/// # Safety
///
/// `targets` is null or begins an array of `ntargets` procs, `directives` of `ndirs` infos, `bo` is null
/// or points to a byte object. `cbfunc` may be called with `cbdata` from another thread.
#[unsafe(export_name = "PMIx_IOF_push")]
pub unsafe extern "C" fn iof_push(
    targets: *const CProc,
    ntargets: usize,
    bo: *mut CByteObject,
    directives: *const CInfo,
    ndirs: usize,
    cbfunc: COpCallback,
    cbdata: *mut c_void,
) -> CStatus {
    const FUNCTION: &str = "PMIx_IOF_push";
    border::status(FUNCTION, || {
        let running = Library::running()?;
        // SAFETY: the caller guarantees the arrays.
        let (targets, directives): (Vec<Proc>, Vec<Info>) = unsafe {
            (
                read_array(targets, ntargets, "targets")?,
                read_array(directives, ndirs, "directives")?,
            )
        };
        if bo.is_null() {
            if directives.is_true(key::PMIX_IOF_PUSH_STDIN) {
                stdin::push(running, targets, directives)?;
            }
            // The callback is not called: the call has ended with this status.
            return Err(code::PMIX_OPERATION_SUCCEEDED);
        }
        // SAFETY: the caller guarantees a byte object.
        let data: Bytes = unsafe { read_one(bo, "data") }?;
        let data = (!data.as_slice().is_empty()).then_some(data);
        let push =
            |client: Client| async move { client.push_input(&targets, &directives, data).await };
        wait_or_begin(FUNCTION, cbfunc, cbdata, push)
    })
}
