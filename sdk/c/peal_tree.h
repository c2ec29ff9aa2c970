// Conversion between the tree of values that authors use and the flat form of the contract; not for authors.
#ifndef PEAL_TREE_H
#define PEAL_TREE_H

#include "peal.h"
#include "peal_raw.h"

typedef peal_pmix_types_list_info_t raw_infos;
typedef peal_pmix_types_list_array_t raw_arrays;

// Arrays of the values being lowered: each is added after those that it refers to.
typedef struct {
  peal_pmix_types_array_t *ptr;
  size_t len, capacity;
} raw_array_list;

peal_proc peal_lift_proc(const peal_pmix_types_proc_t *raw);
peal_array *peal_lift_arrays(const raw_arrays *raw);
peal_infos peal_lift_infos(const raw_infos *raw, const peal_array *arrays, size_t array_count);
peal_value peal_lift_value(const peal_pmix_types_value_t *raw, const peal_array *arrays, size_t array_count);
peal_infos peal_lift_flat_infos(const raw_infos *infos, const raw_arrays *arrays);

peal_raw_string_t peal_lower_string(const char *text);
peal_pmix_types_info_t peal_lower_info(const peal_info *info, raw_array_list *arrays);
peal_pmix_types_flat_infos_t peal_lower_flat_infos(peal_infos infos);
const char *peal_text_of(const uint8_t *ptr, size_t len);

#endif
