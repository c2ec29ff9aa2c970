//! Layouts: sizes and offsets of all members in C and in Rust.
use crate::program::CProgram;
use peal_libpmix::abi::{
    CApp, CByteObject, CCoord, CCpuset, CDataArray, CDataBuffer, CDeviceDistance, CDiskStats,
    CEndpoint, CEnvar, CFabric, CGeometry, CInfo, CNetStats, CNodeStats, CPdata, CProc, CProcInfo,
    CProcStats, CQuery, CRegattr, CServerModule, CTopology, CValue, CValueData,
};
use peal_needs::needs;
use std::{
    fmt::Write,
    mem::{offset_of, zeroed},
};

/// Structure or union with its members, as Rust lays it out.
struct Layout {
    c_name: &'static str,
    size: usize,
    members: Vec<Member>,
}

struct Member {
    name: &'static str,
    offset: usize,
    size: usize,
}

/// Lists the layouts of types by the C name and the members of each.
macro_rules! layouts {
    ($($type:ident $c_name:ident { $($member:ident)+ })+) => {
        vec![$(Layout {
            c_name: stringify!($c_name),
            size: size_of::<$type>(),
            members: vec![$(Member {
                name: stringify!($member).trim_start_matches("r#"),
                offset: offset_of!($type, $member),
                // SAFETY: zero is a valid value of each member.
                size: unsafe { size_of_val(&zeroed::<$type>().$member) },
            }),+],
        }),+]
    };
}

fn structures() -> Vec<Layout> {
    layouts! {
        CValue pmix_value_t { r#type data }
        CInfo pmix_info_t { key flags value }
        CProc pmix_proc_t { nspace rank }
        CPdata pmix_pdata_t { proc key value }
        CApp pmix_app_t { cmd argv env cwd maxprocs info ninfo }
        CQuery pmix_query_t { keys qualifiers nqual }
        CRegattr pmix_regattr_t { name string r#type description }
        CByteObject pmix_byte_object_t { bytes size }
        CDataArray pmix_data_array_t { r#type size array }
        CProcInfo pmix_proc_info_t { proc hostname executable_name pid exit_code state }
        CEnvar pmix_envar_t { envar value separator }
        CCoord pmix_coord_t { view coord dims }
        CTopology pmix_topology_t { source topology }
        CCpuset pmix_cpuset_t { source bitmap }
        CGeometry pmix_geometry_t { fabric uuid osname coordinates ncoords }
        CDeviceDistance pmix_device_distance_t { uuid osname r#type mindist maxdist }
        CEndpoint pmix_endpoint_t { uuid osname endpt }
        CDataBuffer pmix_data_buffer_t { base_ptr pack_ptr unpack_ptr bytes_allocated bytes_used }
        CFabric pmix_fabric_t { name index info ninfo module }
        CProcStats pmix_proc_stats_t {
            node proc pid cmd state time percent_cpu priority num_threads pss vsize rss
            peak_vsize processor sample_time
        }
        CDiskStats pmix_disk_stats_t {
            disk num_reads_completed num_reads_merged num_sectors_read
            milliseconds_reading num_writes_completed num_writes_merged
            num_sectors_written milliseconds_writing num_ios_in_progress milliseconds_io
            weighted_milliseconds_io
        }
        CNetStats pmix_net_stats_t {
            net_interface num_bytes_recvd num_packets_recvd num_recv_errs num_bytes_sent
            num_packets_sent num_send_errs
        }
        CNodeStats pmix_node_stats_t {
            node la la5 la15 total_mem free_mem buffers cached swap_cached swap_total
            swap_free mapped sample_time diskstats ndiskstats netstats nnetstats
        }
        CServerModule pmix_server_module_t {
            client_connected client_finalized abort fence_nb direct_modex publish lookup
            unpublish spawn connect disconnect register_events deregister_events
            listener notify_event query tool_connected log allocate job_control monitor
            get_credential validate_credential iof_pull push_stdin group fabric
            client_connected2
        }
    }
}

/// Members of the union of a value, of which each begins at its beginning.
fn union_members() -> Vec<Layout> {
    layouts! {
        CValueData union_of_value {
            flag byte string size pid integer int8 int16 int32 int64 uint uint8 uint16
            uint32 uint64 fval dval tv time status rank nspace proc bo persist scope
            range state pinfo darray ptr adir envar coord linkstate jstate topo cpuset
            locality geometry devtype devdist endpoint dbuf pstats dkstats netstats
            ndstats
        }
    }
}

/// Prints a layout as the C program prints it.
fn print(layout: &Layout, text: &mut String) {
    writeln!(text, "{} {}", layout.c_name, layout.size).unwrap();
    for Member { name, offset, size } in &layout.members {
        writeln!(text, "{}.{name} {offset} {size}", layout.c_name).unwrap();
    }
}

/// Returns the statements that print a layout in C.
fn c_statements(layout: &Layout, c_type: &str, text: &mut String) {
    let name = layout.c_name;
    writeln!(text, "  printf(\"{name} %zu\\n\", sizeof({c_type}));").unwrap();
    for Member { name: member, .. } in &layout.members {
        writeln!(
            text,
            "  printf(\"{name}.{member} %zu %zu\\n\", offsetof({c_type}, {member}), \
             sizeof((({c_type} *) 0)->{member}));"
        )
        .unwrap();
    }
}

#[needs(libpmix)]
#[test]
fn layouts_equal_those_of_the_c_headers() {
    let (mut statements, mut expected) = (String::new(), String::new());
    for layout in structures() {
        c_statements(&layout, layout.c_name, &mut statements);
        print(&layout, &mut expected);
    }
    for layout in union_members() {
        c_statements(
            &layout,
            "__typeof__(((pmix_value_t *) 0)->data)",
            &mut statements,
        );
        print(&layout, &mut expected);
    }
    let program = CProgram::compile(&format!(
        "#include <stddef.h>\n#include <pmix_tool.h>\n#include <pmix_server.h>\n\
         int main(void) {{\n{statements}  return 0;\n}}\n"
    ));
    assert!(expected.lines().count() > 200, "{expected}");
    assert_eq!(program.run(), expected);
}
