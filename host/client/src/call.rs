//! Calls of the API, identified by their request on the wire.
use peal_model::CommandCode;
use std::fmt;

/// Call of the API, as errors name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call(pub CommandCode);

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            CommandCode::JobData => "PMIx_Init",
            CommandCode::Commit => "PMIx_Commit",
            CommandCode::Fence => "PMIx_Fence",
            CommandCode::Get => "PMIx_Get",
            CommandCode::Publish => "PMIx_Publish",
            CommandCode::Lookup => "PMIx_Lookup",
            CommandCode::Unpublish => "PMIx_Unpublish",
            CommandCode::Connect => "PMIx_Connect",
            CommandCode::Disconnect => "PMIx_Disconnect",
            CommandCode::Finalize => "PMIx_Finalize",
            CommandCode::Notify => "PMIx_Notify_event",
            CommandCode::RegisterEvents => "PMIx_Register_event_handler",
            CommandCode::DeregisterEvents => "PMIx_Deregister_event_handler",
            CommandCode::Spawn => "PMIx_Spawn",
            CommandCode::Query => "PMIx_Query_info",
            CommandCode::Log => "PMIx_Log",
            CommandCode::JobControl => "PMIx_Job_control",
            CommandCode::Monitor => "PMIx_Process_monitor",
            CommandCode::Abort => "PMIx_Abort",
            CommandCode::Allocate => "PMIx_Allocation_request",
            CommandCode::GetCredential => "PMIx_Get_credential",
            CommandCode::ValidateCredential => "PMIx_Validate_credential",
            CommandCode::IofPull => "PMIx_IOF_pull",
            CommandCode::IofPush => "PMIx_IOF_push",
            CommandCode::IofDeregister => "PMIx_IOF_deregister",
            CommandCode::GroupConstruct => "PMIx_Group_construct",
            CommandCode::GroupDestruct => "PMIx_Group_destruct",
            CommandCode::GroupLeave => "PMIx_Group_leave",
            CommandCode::ResolvePeers => "PMIx_Resolve_peers",
            CommandCode::ResolveNode => "PMIx_Resolve_nodes",
            // This client does not make the other calls.
            other => return write!(f, "{other:?}"),
        })
    }
}
