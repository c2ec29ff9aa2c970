//! Sizes of the C structures, in bytes. They are the same in 4.2.2, 6.1.0 and 7.0 development, so
//! one library serves programs built for any of these. A difference fails the build.
use super::{
    CApp, CByteObject, CCoord, CCpuset, CDataArray, CDataBuffer, CDevice, CDeviceDistance,
    CDiskStats, CEndpoint, CEnvar, CFabric, CGeometry, CInfo, CNetStats, CNodePid, CNodeStats,
    CPdata, CProc, CProcInfo, CProcStats, CQuery, CRegattr, CRegex2, CResourceUnit, CServerModule,
    CServerModule61, CTopology, CValue,
};

const _: () = {
    assert!(size_of::<CValue>() == 32);
    assert!(size_of::<CInfo>() == 552);
    assert!(size_of::<CProc>() == 260);
    assert!(size_of::<CPdata>() == 808);
    assert!(size_of::<CApp>() == 56);
    assert!(size_of::<CQuery>() == 24);
    assert!(size_of::<CRegattr>() == 536);
    assert!(size_of::<CByteObject>() == 16);
    assert!(size_of::<CDataArray>() == 24);
    assert!(size_of::<CProcInfo>() == 296);
    assert!(size_of::<CEnvar>() == 24);
    assert!(size_of::<CCoord>() == 24);
    assert!(size_of::<CTopology>() == 16);
    assert!(size_of::<CCpuset>() == 16);
    assert!(size_of::<CGeometry>() == 40);
    assert!(size_of::<CDeviceDistance>() == 32);
    assert!(size_of::<CEndpoint>() == 32);
    assert!(size_of::<CDataBuffer>() == 40);
    assert!(size_of::<CFabric>() == 40);
    assert!(size_of::<CProcStats>() == 352);
    assert!(size_of::<CNodeStats>() == 104);
    assert!(size_of::<CDiskStats>() == 96);
    assert!(size_of::<CNetStats>() == 56);
    assert!(size_of::<CDevice>() == 24);
    assert!(size_of::<CResourceUnit>() == 16);
    assert!(size_of::<CNodePid>() == 16);
    assert!(size_of::<CRegex2>() == 24);
    assert!(size_of::<CServerModule>() == 224);
    assert!(size_of::<CServerModule61>() == 256);
};
