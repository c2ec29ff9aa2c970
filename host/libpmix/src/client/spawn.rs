//! Spawn of jobs (`PMIx_Spawn`).
use super::{
    library::Library,
    operations::{ProgramData, begin, refusal, wait},
    progress::call_program,
};
use crate::{
    abi::{CApp, CInfo, CNspace, CSpawnCallback, CStatus},
    border,
    convert::{nspace_array, read_array},
};
use peal_client::{Client, ClientError};
use peal_model::{App, Info, Nspace, Status, code};
use std::ffi::{c_char, c_void};

/// Arguments of a spawn.
struct Spawn {
    infos: Vec<Info>,
    apps: Vec<App>,
}

impl Spawn {
    /// Reads the arguments, of which at least one application must be there.
    ///
    /// # Safety
    ///
    /// `job_info` is null or begins an array of `ninfo` infos, `apps` of `napps` applications.
    unsafe fn read(
        job_info: *const CInfo,
        ninfo: usize,
        apps: *const CApp,
        napps: usize,
    ) -> Result<Spawn, Status> {
        // SAFETY: the caller guarantees the arrays.
        let (infos, apps): (_, Vec<App>) = unsafe {
            (
                read_array(job_info, ninfo, "infos")?,
                read_array(apps, napps, "applications")?,
            )
        };
        if apps.is_empty() {
            return Err(code::PMIX_ERR_BAD_PARAM);
        }
        Ok(Spawn { infos, apps })
    }

    async fn run(self, client: Client) -> Result<Nspace, ClientError> {
        client.spawn(&self.infos, &self.apps).await
    }
}

/// `PMIx_Spawn`: starts a job of these applications, and returns its namespace.
///
/// # Safety
///
/// `job_info` is null or begins an array of `ninfo` infos, `apps` of `napps` applications. `nspace` is
/// null or points to an array of `PMIX_MAX_NSLEN` + 1 characters.
#[unsafe(export_name = "PMIx_Spawn")]
pub unsafe extern "C" fn spawn(
    job_info: *const CInfo,
    ninfo: usize,
    apps: *const CApp,
    napps: usize,
    nspace: *mut c_char,
) -> CStatus {
    border::status("PMIx_Spawn", || {
        Library::running()?;
        // SAFETY: the caller guarantees the arrays.
        let spawn = unsafe { Spawn::read(job_info, ninfo, apps, napps) }?;
        let place = nspace.cast::<CNspace>();
        if !place.is_null() {
            // SAFETY: the caller guarantees an array of this size.
            unsafe { place.write(nspace_array(&Nspace::default())) };
        }
        let spawned = wait("PMIx_Spawn", |client| spawn.run(client))?;
        let spawned = spawned.map_err(|error| refusal("PMIx_Spawn", &error))?;
        if !place.is_null() {
            // SAFETY: as above.
            unsafe { place.write(nspace_array(&spawned)) };
        }
        Ok(())
    })
}

/// `PMIx_Spawn_nb`: starts a job, and calls back with its namespace.
///
/// # Safety
///
/// As for [`spawn`]; `cbfunc` may be called with `cbdata` from another thread.
#[unsafe(export_name = "PMIx_Spawn_nb")]
pub unsafe extern "C" fn spawn_nb(
    job_info: *const CInfo,
    ninfo: usize,
    apps: *const CApp,
    napps: usize,
    cbfunc: CSpawnCallback,
    cbdata: *mut c_void,
) -> CStatus {
    border::status("PMIx_Spawn_nb", || {
        Library::running()?;
        let callback = cbfunc.ok_or(code::PMIX_ERR_BAD_PARAM)?;
        // SAFETY: the caller guarantees the arrays.
        let spawn = unsafe { Spawn::read(job_info, ninfo, apps, napps) }?;
        let data = ProgramData::new(cbdata);
        begin(
            |client| spawn.run(client),
            move |spawned| {
                let (status, spawned) = match spawned {
                    Ok(nspace) => (code::PMIX_SUCCESS, nspace),
                    Err(error) => (refusal("PMIx_Spawn_nb", &error), Nspace::default()),
                };
                let mut nspace = nspace_array(&spawned);
                // SAFETY: the program passed the function for this call; the namespace lives until
                // then.
                call_program(|| unsafe { callback(status.0, nspace.as_mut_ptr(), data.get()) });
            },
        )
    })
}
