// Constructors and readers of values.
#include <stdarg.h>
#include <string.h>

#include "peal.h"

peal_value peal_boolean(bool truth) { return (peal_value){.type = PEAL_BOOLEAN, .boolean = truth}; }

peal_value peal_text(const char *text) {
  if (text == NULL) return (peal_value){.type = PEAL_UNDEF};
  return (peal_value){.type = PEAL_TEXT, .text = {text, strlen(text)}};
}

peal_value peal_i32(int32_t number) { return (peal_value){.type = PEAL_INT32, .int32 = number}; }
peal_value peal_i64(int64_t number) { return (peal_value){.type = PEAL_INT64, .int64 = number}; }
peal_value peal_u32(uint32_t number) { return (peal_value){.type = PEAL_UINT32, .uint32 = number}; }
peal_value peal_u64(uint64_t number) { return (peal_value){.type = PEAL_UINT64, .uint64 = number}; }
peal_value peal_f64(double number) { return (peal_value){.type = PEAL_FLOAT64, .float64 = number}; }
peal_value peal_status(int32_t status) { return (peal_value){.type = PEAL_STATUS, .status = status}; }

peal_value peal_blob(const void *ptr, size_t len) {
  return (peal_value){.type = PEAL_BYTES, .bytes = {(const uint8_t *)ptr, len}};
}

peal_value peal_proc_value(const char *nspace, uint32_t rank) {
  return (peal_value){.type = PEAL_PROC, .proc = {nspace, rank}};
}

peal_value peal_info_array(const peal_info *infos, size_t len) {
  return (peal_value){.type = PEAL_ARRAY, .array = {.element = PEAL_INFO, .len = len, .infos = infos}};
}

peal_value peal_proc_array(const peal_proc *procs, size_t len) {
  return (peal_value){.type = PEAL_ARRAY, .array = {.element = PEAL_PROC, .len = len, .procs = procs}};
}

peal_value peal_array_of(uint16_t element, const peal_value *values, size_t len) {
  return (peal_value){.type = PEAL_ARRAY, .array = {.element = element, .len = len, .values = values}};
}

// Reads sign and absolute value. False if the value is no integer.
static bool integer(const peal_value *value, bool *is_negative, uint64_t *size) {
  if (value == NULL || value->is_opaque) return false;
  int64_t number = 0;
  *is_negative = false;
  switch (value->type) {
    case PEAL_BYTE: *size = value->byte; return true;
    case PEAL_UINT8: *size = value->uint8; return true;
    case PEAL_UINT16: *size = value->uint16; return true;
    case PEAL_PID: *size = value->pid; return true;
    case PEAL_UINT: *size = value->uint; return true;
    case PEAL_UINT32: *size = value->uint32; return true;
    case PEAL_RANK: *size = value->rank; return true;
    case PEAL_SIZE: *size = value->size; return true;
    case PEAL_UINT64: *size = value->uint64; return true;
    case PEAL_TIME: *size = value->time; return true;
    case PEAL_INT8: number = value->int8; break;
    case PEAL_INT16: number = value->int16; break;
    case PEAL_INT: number = value->int_; break;
    case PEAL_INT32: number = value->int32; break;
    case PEAL_STATUS: number = value->status; break;
    case PEAL_INT64: number = value->int64; break;
    default: return false;
  }
  *is_negative = number < 0;
  *size = *is_negative ? 0 - (uint64_t)number : (uint64_t)number;
  return true;
}

bool peal_as_u64(const peal_value *value, uint64_t *number) {
  bool is_negative;
  uint64_t size;
  if (!integer(value, &is_negative, &size) || is_negative) return false;
  *number = size;
  return true;
}

bool peal_as_i64(const peal_value *value, int64_t *number) {
  bool is_negative;
  uint64_t size;
  if (!integer(value, &is_negative, &size) || size > (uint64_t)INT64_MAX + is_negative) return false;
  *number = (int64_t)(is_negative ? 0 - size : size);
  return true;
}

const char *peal_as_text(const peal_value *value) {
  if (value == NULL || value->is_opaque) return NULL;
  return value->type == PEAL_TEXT || value->type == PEAL_NSPACE ? value->text.ptr : NULL;
}

// ---- peal_format

typedef struct {
  char *ptr;
  size_t len;
} buffer;

// Only counts if there is no buffer.
static void put(buffer *out, const char *text, size_t len) {
  if (out->ptr != NULL) memcpy(out->ptr + out->len, text, len);
  out->len += len;
}

static void put_number(buffer *out, uint64_t number, bool is_negative, unsigned base) {
  char digits[21];
  size_t at = sizeof digits;
  do {
    digits[--at] = "0123456789abcdef"[number % base];
    number /= base;
  } while (number > 0);
  if (is_negative) digits[--at] = '-';
  put(out, digits + at, sizeof digits - at);
}

static void put_all(buffer *out, const char *format, va_list given) {
  for (const char *at = format; *at != 0; at++) {
    if (*at != '%') {
      put(out, at, 1);
      continue;
    }
    bool is_long = strncmp(at + 1, "ll", 2) == 0;
    at += is_long ? 3 : 1;
    switch (*at) {
      case 's': {
        const char *text = va_arg(given, const char *);
        if (text == NULL) text = "(none)";
        put(out, text, strlen(text));
        break;
      }
      case 'c': {
        char one = (char)va_arg(given, int);
        put(out, &one, 1);
        break;
      }
      case 'd': {
        int64_t number = is_long ? va_arg(given, long long) : va_arg(given, int);
        put_number(out, number < 0 ? 0 - (uint64_t)number : (uint64_t)number, number < 0, 10);
        break;
      }
      case 'u':
      case 'x':
        put_number(out, is_long ? va_arg(given, unsigned long long) : va_arg(given, unsigned), false, *at == 'x' ? 16 : 10);
        break;
      case '%': put(out, "%", 1); break;
      default: __builtin_trap();
    }
  }
}

const char *peal_format(const char *format, ...) {
  buffer out = {NULL, 0};
  va_list given;
  va_start(given, format);
  put_all(&out, format, given);
  va_end(given);
  out = (buffer){peal_alloc(out.len + 1), 0};
  va_start(given, format);
  put_all(&out, format, given);
  va_end(given);
  out.ptr[out.len] = 0;
  return out.ptr;
}
