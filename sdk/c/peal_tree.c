// Conversion between the tree of values that authors use and the flat form of the contract, where arrays lie beside the infos and
// values refer to them.
#include "peal_tree.h"

#include <string.h>

#define RAW(NAME) PEAL_PMIX_TYPES_VALUE_##NAME

// Types whose value is a number, with the member of both unions that holds it.
#define SCALARS(X)                                                                                        \
  X(BOOLEAN, boolean) X(BYTE, byte) X(SIZE, size) X(PID, pid) X(INT, int_) X(INT8, int8) X(INT16, int16)  \
  X(INT32, int32) X(INT64, int64) X(UINT, uint) X(UINT8, uint8) X(UINT16, uint16) X(UINT32, uint32)       \
  X(UINT64, uint64) X(FLOAT32, float32) X(FLOAT64, float64) X(TIME, time) X(STATUS, status) X(RANK, rank)

// Copies a string and adds the zero byte, which strings of the host lack.
const char *peal_text_of(const uint8_t *ptr, size_t len) {
  char *text = peal_alloc(len + 1);
  if (len > 0) memcpy(text, ptr, len);
  text[len] = 0;
  return text;
}

peal_proc peal_lift_proc(const peal_pmix_types_proc_t *raw) {
  return (peal_proc){peal_text_of(raw->nspace.ptr, raw->nspace.len), raw->rank};
}

peal_value peal_lift_value(const peal_pmix_types_value_t *raw, const peal_array *arrays, size_t array_count) {
#define LIFT(NAME, member) \
  case RAW(NAME):          \
    return (peal_value){.type = PEAL_##NAME, .member = raw->val.member};
  switch (raw->tag) {
    SCALARS(LIFT)
#undef LIFT
    case RAW(TEXT):
    case RAW(NSPACE): {
      peal_string text = {peal_text_of(raw->val.text.ptr, raw->val.text.len), raw->val.text.len};
      return (peal_value){.type = raw->tag == RAW(TEXT) ? PEAL_TEXT : PEAL_NSPACE, .text = text};
    }
    case RAW(TIMEVAL):
      return (peal_value){.type = PEAL_TIMEVAL, .timeval = {raw->val.timeval.f0, raw->val.timeval.f1}};
    case RAW(PROC):
      return (peal_value){.type = PEAL_PROC, .proc = peal_lift_proc(&raw->val.proc)};
    case RAW(RANGE):
      return (peal_value){.type = PEAL_RANGE, .range = (peal_range)raw->val.range};
    case RAW(BYTES):
      return (peal_value){.type = PEAL_BYTES, .bytes = {raw->val.bytes.ptr, raw->val.bytes.len}};
    case RAW(ARRAY):
      if (raw->val.array >= array_count) return (peal_value){.type = PEAL_UNDEF};
      return (peal_value){.type = PEAL_ARRAY, .array = arrays[raw->val.array]};
    case RAW(OTHER):
      return (peal_value){.type = raw->val.other.data_type, .is_opaque = true, .opaque = raw->val.other.handle};
    default:
      return (peal_value){.type = PEAL_UNDEF};
  }
}

peal_infos peal_lift_infos(const raw_infos *raw, const peal_array *arrays, size_t array_count) {
  peal_info *infos = peal_alloc(raw->len * sizeof *infos);
  for (size_t at = 0; at < raw->len; at++) {
    const peal_pmix_types_info_t *info = &raw->ptr[at];
    infos[at] = (peal_info){peal_text_of(info->key.ptr, info->key.len), info->flags,
                            peal_lift_value(&info->value, arrays, array_count)};
  }
  return (peal_infos){infos, raw->len};
}

// In order: an array refers only to earlier ones.
peal_array *peal_lift_arrays(const raw_arrays *raw) {
  peal_array *arrays = peal_alloc(raw->len * sizeof *arrays);
  for (size_t at = 0; at < raw->len; at++) {
    const peal_pmix_types_array_t *array = &raw->ptr[at];
    peal_array *lifted = &arrays[at];
    lifted->element = array->element;
    switch (array->items.tag) {
      case PEAL_PMIX_TYPES_ARRAY_ITEMS_INFOS:
        lifted->element = PEAL_INFO;
        lifted->len = array->items.val.infos.len;
        lifted->infos = peal_lift_infos(&array->items.val.infos, arrays, at).ptr;
        break;
      case PEAL_PMIX_TYPES_ARRAY_ITEMS_PROCS: {
        const peal_pmix_types_list_proc_t *from = &array->items.val.procs;
        peal_proc *procs = peal_alloc(from->len * sizeof *procs);
        for (size_t item = 0; item < from->len; item++) procs[item] = peal_lift_proc(&from->ptr[item]);
        lifted->element = PEAL_PROC;
        lifted->len = from->len;
        lifted->procs = procs;
        break;
      }
      default: {
        const peal_pmix_types_list_value_t *from = &array->items.val.values;
        peal_value *values = peal_alloc(from->len * sizeof *values);
        for (size_t item = 0; item < from->len; item++) values[item] = peal_lift_value(&from->ptr[item], arrays, at);
        lifted->len = from->len;
        lifted->values = values;
      }
    }
  }
  return arrays;
}

peal_infos peal_lift_flat_infos(const raw_infos *infos, const raw_arrays *arrays) {
  return peal_lift_infos(infos, peal_lift_arrays(arrays), arrays->len);
}

peal_raw_string_t peal_lower_string(const char *text) {
  return (peal_raw_string_t){(uint8_t *)text, text == NULL ? 0 : strlen(text)};
}

static peal_pmix_types_proc_t lower_proc(const peal_proc *proc) {
  return (peal_pmix_types_proc_t){peal_lower_string(proc->nspace), proc->rank};
}

static uint32_t added(raw_array_list *arrays, peal_pmix_types_array_t array) {
  if (arrays->len == arrays->capacity) {
    size_t capacity = arrays->capacity == 0 ? 8 : 2 * arrays->capacity;
    peal_pmix_types_array_t *more = peal_alloc(capacity * sizeof *more);
    if (arrays->len > 0) memcpy(more, arrays->ptr, arrays->len * sizeof *more);
    arrays->ptr = more;
    arrays->capacity = capacity;
  }
  arrays->ptr[arrays->len] = array;
  return (uint32_t)arrays->len++;
}

static peal_pmix_types_value_t lower_value(const peal_value *value, raw_array_list *arrays);

static uint32_t lower_array(const peal_array *array, raw_array_list *arrays) {
  peal_pmix_types_array_t raw = {.element = array->element};
  if (array->element == PEAL_INFO) {
    peal_pmix_types_info_t *infos = peal_alloc(array->len * sizeof *infos);
    for (size_t at = 0; at < array->len; at++) infos[at] = peal_lower_info(&array->infos[at], arrays);
    raw.items.tag = PEAL_PMIX_TYPES_ARRAY_ITEMS_INFOS;
    raw.items.val.infos = (raw_infos){infos, array->len};
  } else if (array->element == PEAL_PROC) {
    peal_pmix_types_proc_t *procs = peal_alloc(array->len * sizeof *procs);
    for (size_t at = 0; at < array->len; at++) procs[at] = lower_proc(&array->procs[at]);
    raw.items.tag = PEAL_PMIX_TYPES_ARRAY_ITEMS_PROCS;
    raw.items.val.procs = (peal_pmix_types_list_proc_t){procs, array->len};
  } else {
    peal_pmix_types_value_t *values = peal_alloc(array->len * sizeof *values);
    for (size_t at = 0; at < array->len; at++) values[at] = lower_value(&array->values[at], arrays);
    raw.items.tag = PEAL_PMIX_TYPES_ARRAY_ITEMS_VALUES;
    raw.items.val.values = (peal_pmix_types_list_value_t){values, array->len};
  }
  return added(arrays, raw);
}

static peal_pmix_types_value_t lower_value(const peal_value *value, raw_array_list *arrays) {
  peal_pmix_types_value_t raw = {.tag = RAW(UNDEF)};
  if (value->is_opaque) {
    raw.tag = RAW(OTHER);
    raw.val.other = (peal_pmix_types_opaque_t){value->type, value->opaque};
    return raw;
  }
#define LOWER(NAME, member)         \
  case PEAL_##NAME:                 \
    raw.tag = RAW(NAME);            \
    raw.val.member = value->member; \
    break;
  switch (value->type) {
    SCALARS(LOWER)
#undef LOWER
    case PEAL_TEXT:
    case PEAL_NSPACE:
      raw.tag = value->type == PEAL_TEXT ? RAW(TEXT) : RAW(NSPACE);
      raw.val.text = (peal_raw_string_t){(uint8_t *)value->text.ptr, value->text.len};
      break;
    case PEAL_TIMEVAL:
      raw.tag = RAW(TIMEVAL);
      raw.val.timeval = (peal_raw_tuple2_s64_s64_t){value->timeval.seconds, value->timeval.microseconds};
      break;
    case PEAL_PROC:
      raw.tag = RAW(PROC);
      raw.val.proc = lower_proc(&value->proc);
      break;
    case PEAL_RANGE:
      raw.tag = RAW(RANGE);
      raw.val.range = (peal_pmix_types_range_t)value->range;
      break;
    case PEAL_BYTES:
      raw.tag = RAW(BYTES);
      raw.val.bytes = (peal_raw_list_u8_t){(uint8_t *)value->bytes.ptr, value->bytes.len};
      break;
    case PEAL_ARRAY:
      raw.tag = RAW(ARRAY);
      raw.val.array = lower_array(&value->array, arrays);
      break;
  }
  return raw;
}

peal_pmix_types_info_t peal_lower_info(const peal_info *info, raw_array_list *arrays) {
  return (peal_pmix_types_info_t){peal_lower_string(info->key), info->flags, lower_value(&info->value, arrays)};
}

peal_pmix_types_flat_infos_t peal_lower_flat_infos(peal_infos infos) {
  raw_array_list arrays = {0};
  peal_pmix_types_info_t *raw = peal_alloc(infos.len * sizeof *raw);
  for (size_t at = 0; at < infos.len; at++) raw[at] = peal_lower_info(&infos.ptr[at], &arrays);
  return (peal_pmix_types_flat_infos_t){{raw, infos.len}, {arrays.ptr, arrays.len}};
}
