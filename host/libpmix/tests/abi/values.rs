//! The macros of the headers of 4.2, on this library and on the C library.
use crate::program::CProgram;
use peal_needs::needs;

/// Loads, copies, prints and frees structures by the macros. Before the initialization, so that the
/// C library can do it, too.
const PROGRAM: &str = r#"
#include <pmix.h>
#include <stdio.h>

static void print(const pmix_info_t *info) {
  char *text = PMIx_Info_string(info);
  printf("%s\n", text);
  free(text);
}

int main(void) {
  pmix_info_t *infos;
  pmix_value_t *value, copy;
  pmix_data_array_t array;
  pmix_proc_t proc;
  uint32_t number = 7;
  void *list;

  PMIX_INFO_CREATE(infos, 3);
  PMIX_INFO_LOAD(&infos[0], PMIX_HOST, "node01", PMIX_STRING);
  PMIX_INFO_LOAD(&infos[1], PMIX_JOB_SIZE, &number, PMIX_UINT32);
  PMIX_PROC_LOAD(&proc, "job", 3);
  PMIX_INFO_LOAD(&infos[2], PMIX_PROCID, &proc, PMIX_PROC);
  PMIX_INFO_REQUIRED(&infos[1]);
  for (size_t n = 0; n < 3; n++) print(&infos[n]);

  PMIX_VALUE_CREATE(value, 1);
  PMIX_VALUE_LOAD(value, "text", PMIX_STRING);
  printf("%d\n", PMIx_Value_xfer(&copy, value));
  printf("%s\n", copy.data.string);
  printf("%s\n", PMIx_Value_comparison_string(PMIx_Value_compare(value, &copy)));
  PMIX_VALUE_DESTRUCT(&copy);
  PMIX_VALUE_RELEASE(value);

  list = PMIx_Info_list_start();
  for (size_t n = 0; n < 3; n++) printf("%d\n", PMIx_Info_list_xfer(list, &infos[n]));
  printf("%d\n", PMIx_Info_list_add(list, PMIX_COLLECT_DATA, NULL, PMIX_BOOL));
  printf("%d\n", PMIx_Info_list_convert(list, &array));
  printf("%zu\n", array.size);
  for (size_t n = 0; n < array.size; n++) print(&((pmix_info_t *) array.array)[n]);
  PMIX_DATA_ARRAY_DESTRUCT(&array);
  PMIx_Info_list_release(list);
  PMIX_INFO_FREE(infos, 3);

  printf("%s %s\n", PMIx_Error_string(PMIX_ERR_TIMEOUT), PMIx_Data_type_string(PMIX_INFO));
  return 0;
}
"#;

#[needs(libpmix)]
#[test]
fn macros_of_4_2_do_the_same_on_both_libraries() {
    let program = CProgram::compile(PROGRAM);
    let ours = program.run();
    assert_eq!(ours, program.run_on_stock());
    assert!(
        ours.contains("KEY: PMIX_HOST")
            && ours.contains("PROC: job:3")
            && ours.contains("\ntext\n")
            && ours.contains("\n4\n"),
        "{ours}"
    );
}
