//! Requests of a host environment to its server: the functions `PMIx_server_*`.
use peal_model::{Bytes, Event, Info, IofChannel, Nspace, Proc, Text};
use serde::{Deserialize, Serialize};

/// Request of a host environment.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum HostRequest {
    /// Registers a job, or adds to its data (`PMIx_server_register_nspace`).
    RegisterNamespace {
        /// The job.
        nspace: Nspace,
        /// Number of its procs on this node; negative if the procs are not known yet.
        local: i32,
        /// Data of the job.
        infos: Vec<Info>,
    },
    /// Removes a job (`PMIx_server_deregister_nspace`).
    DeregisterNamespace {
        /// The job.
        nspace: Nspace,
    },
    /// Registers a proc of this node (`PMIx_server_register_client`).
    RegisterClient {
        /// The proc.
        proc: Proc,
        /// User that the proc runs as.
        uid: u32,
        /// Unix group that the proc runs as.
        gid: u32,
    },
    /// Removes a proc of this node (`PMIx_server_deregister_client`).
    DeregisterClient {
        /// The proc.
        proc: Proc,
    },
    /// Requests the values that a proc of this node has put, for another node
    /// (`PMIx_server_dmodex_request`). The reply is [`HostReply::Data`].
    Modex {
        /// The proc.
        proc: Proc,
    },
    /// Passes output of a proc to those that pull it (`PMIx_server_IOF_deliver`).
    ForwardOutput {
        /// The proc.
        source: Proc,
        /// Channel of the output.
        channel: IofChannel,
        /// The output; empty at its end.
        data: Bytes,
        /// Directives.
        infos: Vec<Info>,
    },
    /// Raises an event of the host environment for the procs of this node (`PMIx_Notify_event`).
    Notify {
        /// The event.
        event: Event,
    },
    /// Defines a process set (`PMIx_server_define_process_set`).
    DefineProcessSet {
        /// Name of the set.
        name: Text,
        /// Members of the set.
        members: Vec<Proc>,
    },
    /// Deletes a process set (`PMIx_server_delete_process_set`).
    DeleteProcessSet {
        /// Name of the set.
        name: Text,
    },
    /// Registers resources that belong to no job (`PMIx_server_register_resources`).
    RegisterResources {
        /// The resources.
        infos: Vec<Info>,
    },
    /// Removes resources that belong to no job (`PMIx_server_deregister_resources`).
    DeregisterResources {
        /// The resources.
        infos: Vec<Info>,
    },
    /// Names the attributes that the host environment supports in a function
    /// (`PMIx_Register_attributes`).
    RegisterAttributes {
        /// The function.
        function: Text,
        /// The attributes.
        attributes: Vec<Text>,
    },
}

/// Reply to a request of a host environment.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum HostReply {
    /// The request was carried out.
    Done,
    /// Bytes that only servers read.
    Data(Bytes),
}
