//! The functions of host environments, by the prototypes of the headers of 4.2.
use crate::program::CProgram;
use peal_needs::needs;

/// Calls every function with null pointers and wrong counts, and those that return nothing also with
/// a callback.
const PROGRAM: &str = r#"
#include <pmix.h>
#include <pmix_server.h>
#include <stdio.h>

static void done(pmix_status_t status, void *data) { *(int *) data += status; }

int main(void) {
  pmix_nspace_t nspace = "job";
  int sum = 0;
  pmix_status_t statuses[] = {
    PMIx_server_init(NULL, NULL, 9), /* the infos are missing */
    PMIx_server_finalize(),
    PMIx_server_register_nspace(NULL, -1, NULL, 9, NULL, NULL),
    PMIx_server_register_client(NULL, 0, 0, NULL, NULL, NULL),
    PMIx_server_setup_fork(NULL, NULL),
    PMIx_server_dmodex_request(NULL, NULL, NULL),
    PMIx_server_setup_application(NULL, NULL, 9, NULL, NULL),
    PMIx_server_setup_local_support(NULL, NULL, 9, NULL, NULL),
    PMIx_server_IOF_deliver(NULL, PMIX_FWD_ALL_CHANNELS, NULL, NULL, 9, NULL, NULL),
    PMIx_server_collect_inventory(NULL, 9, NULL, NULL),
    PMIx_server_deliver_inventory(NULL, 9, NULL, 9, NULL, NULL),
    PMIx_Register_attributes(NULL, NULL),
    PMIx_server_generate_locality_string(NULL, NULL),
    PMIx_server_generate_cpuset_string(NULL, NULL),
    PMIx_server_define_process_set(NULL, 9, NULL),
    PMIx_server_delete_process_set(NULL),
    PMIx_server_register_resources(NULL, 9, NULL, NULL),
    PMIx_server_deregister_resources(NULL, 9, NULL, NULL),
  };
  for (size_t n = 0; n < sizeof(statuses) / sizeof(*statuses); n++)
    printf("%s\n", PMIx_Error_string(statuses[n]));
  PMIx_server_deregister_nspace(NULL, NULL, NULL);
  PMIx_server_deregister_client(NULL, NULL, NULL);
  PMIx_server_deregister_nspace(nspace, done, &sum);
  PMIx_server_deregister_client(NULL, done, &sum);
  printf("%d\n", sum == 2 * PMIX_ERR_INIT);
  return 0;
}
"#;

#[needs(libpmix)]
#[test]
fn server_functions_refuse_and_survive_null_pointers() {
    let expected = format!("BAD-PARAM\n{}1\n", "INIT\n".repeat(17));
    assert_eq!(CProgram::compile(PROGRAM).run(), expected);
}
