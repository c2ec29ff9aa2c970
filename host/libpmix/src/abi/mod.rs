//! C types of the PMIx Standard, as OpenPMIx 4.2 to 7.0 lay them out on x86-64.
//!
//! **Names.** A type is `C` and the noun of its C name: `pmix_value_t` is [`CValue`],
//! `pmix_op_cbfunc_t` is [`COpCallback`], `pmix_server_publish_fn_t` is [`CServerPublish`]. Fields
//! have their C names, except where these are keywords. Numbers and key strings of the Standard are
//! those of `peal_model`.
//!
//! **Null.** Function pointers are `Option`s. Data pointers are raw and may be null.
//!
//! **Booleans** are bytes: a C program may store any number where Rust allows only 0 and 1.

mod callbacks;
mod compound;
mod devices;
mod scalars;
mod server;
mod sizes;
mod stats;
mod value;

pub use callbacks::{
    CCredentialCallback, CDeviceDistanceCallback, CDmodexCallback, CEventCompletion, CEventHandler,
    CInfoCallback, CIofCallback, CLookupCallback, CModexCallback, COpCallback,
    CRegistrationCallback, CReleaseCallback, CSetupApplicationCallback, CSpawnCallback,
    CValidationCallback, CValueCallback,
};
pub use compound::{
    CApp, CByteObject, CDataArray, CDataBuffer, CEnvar, CFabric, CInfo, CPdata, CProc, CProcInfo,
    CQuery, CRegattr, CRegex2,
};
pub use devices::{
    CCoord, CCpuset, CDevice, CDeviceDistance, CEndpoint, CGeometry, CNodePid, CResourceUnit,
    CTopology,
};
pub use scalars::{
    CAllocDirective, CBindEnvelope, CBool, CDataRange, CDataType, CDeviceType, CFabricOperation,
    CGroupOperation, CGroupOption, CInfoDirectives, CIofChannel, CJobState, CKey, CLinkState,
    CLocality, CNspace, CPersistence, CProcState, CRank, CResourceBlockDirective, CScope, CStatus,
    CTimeval, CValueComparison, KEY_SIZE, NSPACE_SIZE,
};
pub use server::{
    CConnectionCallback, CServerAbort, CServerAllocate, CServerClientConnected,
    CServerClientConnected2, CServerClientFinalized, CServerConnect, CServerDeregisterEvents,
    CServerDirectModex, CServerDisconnect, CServerFabric, CServerFence, CServerGetCredential,
    CServerGroup, CServerIofPull, CServerJobControl, CServerListener, CServerLog, CServerLog2,
    CServerLookup, CServerModule, CServerModule61, CServerMonitor, CServerNotifyEvent,
    CServerPublish, CServerPushStdin, CServerQuery, CServerRegisterEvents, CServerResourceBlock,
    CServerSessionControl, CServerSpawn, CServerToolConnected, CServerToolConnected2,
    CServerUnpublish, CServerValidateCredential, CToolConnectionCallback,
};
pub use stats::{CDiskStats, CNetStats, CNodeStats, CProcStats};
pub use value::{CValue, CValueData};
