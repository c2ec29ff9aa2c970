//! Names: what the library exports, compared with the list of all names of the C library.
use crate::program::library;
use peal_needs::needs;
use std::{collections::BTreeSet, process::Command};

/// All names, by release and group.
const NAMES: &str = include_str!("../../names.toml");

/// Names that are not implemented yet. This list only shrinks.
const PENDING: &[&str] = &[
    "PMIx_Abort",
    "PMIx_Allocation_request",
    "PMIx_Allocation_request_nb",
    "PMIx_Commit",
    "PMIx_Compute_distances",
    "PMIx_Compute_distances_nb",
    "PMIx_Connect",
    "PMIx_Connect_nb",
    "PMIx_Deregister_event_handler",
    "PMIx_Disconnect",
    "PMIx_Disconnect_nb",
    "PMIx_Fabric_deregister",
    "PMIx_Fabric_deregister_nb",
    "PMIx_Fabric_register",
    "PMIx_Fabric_register_nb",
    "PMIx_Fabric_update",
    "PMIx_Fabric_update_nb",
    "PMIx_Fence",
    "PMIx_Fence_nb",
    "PMIx_Finalize",
    "PMIx_Get",
    "PMIx_Get_cpuset",
    "PMIx_Get_credential",
    "PMIx_Get_credential_nb",
    "PMIx_Get_nb",
    "PMIx_Group_construct",
    "PMIx_Group_construct_nb",
    "PMIx_Group_destruct",
    "PMIx_Group_destruct_nb",
    "PMIx_Group_invite",
    "PMIx_Group_invite_nb",
    "PMIx_Group_join",
    "PMIx_Group_join_nb",
    "PMIx_Group_leave",
    "PMIx_Group_leave_nb",
    "PMIx_Heartbeat",
    "PMIx_IOF_deregister",
    "PMIx_IOF_pull",
    "PMIx_IOF_push",
    "PMIx_Init",
    "PMIx_Initialized",
    "PMIx_Job_control",
    "PMIx_Job_control_nb",
    "PMIx_Load_topology",
    "PMIx_Log",
    "PMIx_Log_nb",
    "PMIx_Lookup",
    "PMIx_Lookup_nb",
    "PMIx_Notify_event",
    "PMIx_Process_monitor",
    "PMIx_Process_monitor_nb",
    "PMIx_Progress",
    "PMIx_Progress_thread_stop",
    "PMIx_Publish",
    "PMIx_Publish_nb",
    "PMIx_Put",
    "PMIx_Query_info",
    "PMIx_Query_info_nb",
    "PMIx_Register_attributes",
    "PMIx_Register_event_handler",
    "PMIx_Resolve_nodes",
    "PMIx_Resolve_peers",
    "PMIx_Resource_block",
    "PMIx_Resource_block_nb",
    "PMIx_Session_control",
    "PMIx_Spawn",
    "PMIx_Spawn_nb",
    "PMIx_Store_internal",
    "PMIx_Unpublish",
    "PMIx_Unpublish_nb",
    "PMIx_Validate_credential",
    "PMIx_Validate_credential_nb",
    "PMIx_server_IOF_deliver",
    "PMIx_server_IOF_flow_control",
    "PMIx_server_collect_inventory",
    "PMIx_server_collect_job_info",
    "PMIx_server_define_process_set",
    "PMIx_server_delete_process_set",
    "PMIx_server_deliver_inventory",
    "PMIx_server_deregister_client",
    "PMIx_server_deregister_nspace",
    "PMIx_server_deregister_resources",
    "PMIx_server_dmodex_request",
    "PMIx_server_finalize",
    "PMIx_server_generate_cpuset",
    "PMIx_server_generate_cpuset_string",
    "PMIx_server_generate_locality_string",
    "PMIx_server_init",
    "PMIx_server_register_client",
    "PMIx_server_register_nspace",
    "PMIx_server_register_resources",
    "PMIx_server_setup_application",
    "PMIx_server_setup_fork",
    "PMIx_server_setup_local_support",
    "PMIx_tool_attach_to_server",
    "PMIx_tool_connect_to_server",
    "PMIx_tool_disconnect",
    "PMIx_tool_finalize",
    "PMIx_tool_get_servers",
    "PMIx_tool_init",
    "PMIx_tool_is_connected",
    "PMIx_tool_set_server",
    "PMIx_tool_set_server_module",
];

/// Names of functions and data that the library exports and that the C library has, too.
fn exported() -> BTreeSet<String> {
    let output = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let names = text
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2));
    names
        .filter(|name| name.starts_with("PMIx_") || name.starts_with("pmix_"))
        .map(str::to_owned)
        .collect()
}

/// Returns a text of an entry of the list.
fn text<'a>(entry: &'a toml::Value, member: &str) -> &'a str {
    entry.get(member).and_then(toml::Value::as_str).unwrap()
}

/// Returns the list: names with their release and group.
fn list() -> toml::Table {
    let mut file: toml::Table = NAMES.parse().unwrap();
    let Some(toml::Value::Table(names)) = file.remove("names") else {
        unreachable!("names.toml has a table of names");
    };
    for (name, entry) in &names {
        let group = text(entry, "group");
        let groups = [
            "values",
            "client",
            "tool",
            "server",
            "data",
            "not-supported",
        ];
        assert!(groups.contains(&group), "{name}: {group}");
        let releases = ["4.2.2", "5.0.11", "6.1.0", "7.0"];
        assert!(releases.contains(&text(entry, "since")), "{name}");
    }
    names
}

#[needs(libpmix)]
#[test]
fn every_name_of_the_c_library_is_exported_or_pending() {
    let exported = exported();
    let listed: BTreeSet<String> = list().keys().cloned().collect();
    assert_eq!(listed.len(), 325);
    let unknown: Vec<&String> = exported.difference(&listed).collect();
    assert!(unknown.is_empty(), "not in names.toml: {unknown:#?}");
    let pending: BTreeSet<String> = PENDING.iter().map(|name| (*name).to_owned()).collect();
    let missing: BTreeSet<String> = listed.difference(&exported).cloned().collect();
    let lost: Vec<&String> = missing.difference(&pending).collect();
    assert!(lost.is_empty(), "not exported: {lost:#?}");
    let done: Vec<&String> = pending.difference(&missing).collect();
    assert!(
        done.is_empty(),
        "exported, so remove from PENDING: {done:#?}"
    );
}

#[needs(libpmix)]
#[test]
fn functions_without_server_are_all_exported() {
    let exported = exported();
    let mut names = list();
    names.retain(|name, entry| text(entry, "group") == "values" && !exported.contains(name));
    assert!(names.is_empty(), "{names:#?}");
}
