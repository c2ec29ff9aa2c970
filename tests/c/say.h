/* Output of the programs in this directory: one observation a line. Each line begins with `rank R:
 * ` and is written with one write(), so that the lines of several procs never mix. The output does
 * not depend on the run: it has no pid, no namespace text, no host name, no address.
 *
 * Included by job.c and heard.h; not a program. */
#ifndef SAY_H
#define SAY_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pmix.h>

/* Texts and byte objects above this are shown as length and checksum. */
#define SHOWN_IN_FULL 64

static pmix_proc_t me;

/* True if something expected did not happen; determines the exit status. */
static bool failed;

static void write_all(const char *text, size_t left)
{
    while (left > 0) {
        ssize_t done = write(STDOUT_FILENO, text, left);
        if (done <= 0) {
            _exit(1);
        }
        text += done;
        left -= (size_t) done;
    }
}

static void say_prefixed(const char *prefix, const char *format, va_list arguments)
{
    char *line = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&line, &length);
    fprintf(out, "rank %u: %s", me.rank, prefix);
    vfprintf(out, format, arguments);
    fputc('\n', out);
    fclose(out);
    write_all(line, length);
    free(line);
}

/* Prints one observation. */
static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say_prefixed("", format, arguments);
    va_end(arguments);
}

/* Prints what should have happened and did not; the program will exit with 1. */
static void __attribute__((format(printf, 1, 2))) miss(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say_prefixed("missing: ", format, arguments);
    va_end(arguments);
    failed = true;
}

/* Prints the status of a call, and reports an error if another one was expected. */
static inline void say_status(const char *what, pmix_status_t status, pmix_status_t expected)
{
    say("%s: %s (%d)", what, PMIx_Error_string(status), status);
    if (status != expected) {
        miss("%s should have been %s (%d)", what, PMIx_Error_string(expected), expected);
    }
}

/* A checksum (FNV-1a), so that a short word shows whether a long value arrived completely. */
static uint32_t checksum(const void *bytes, size_t size)
{
    const unsigned char *byte = bytes;
    uint32_t sum = 2166136261u;
    for (size_t i = 0; i < size; i++) {
        sum = (sum ^ byte[i]) * 16777619u;
    }
    return sum;
}

static void write_proc(FILE *out, const pmix_proc_t *proc)
{
    bool own = 0 == strncmp(proc->nspace, me.nspace, PMIX_MAX_NSLEN);
    fprintf(out, "%s:", own ? "own" : "other");
    if (PMIX_RANK_WILDCARD == proc->rank) {
        fputc('*', out);
    } else {
        fprintf(out, "%u", proc->rank);
    }
}

static void write_string(FILE *out, const char *text)
{
    size_t length = strlen(text);
    if (length > SHOWN_IN_FULL) {
        fprintf(out, "%zu characters %08" PRIx32, length, checksum(text, length));
    } else {
        fprintf(out, "\"%s\"", text);
    }
}

static void write_bytes(FILE *out, const pmix_byte_object_t *object)
{
    if (object->size > SHOWN_IN_FULL) {
        fprintf(out, "%zu bytes %08" PRIx32, object->size, checksum(object->bytes, object->size));
        return;
    }
    fputs("bytes ", out);
    for (size_t i = 0; i < object->size; i++) {
        fprintf(out, "%02x", (unsigned char) object->bytes[i]);
    }
}

static void write_info(FILE *out, const pmix_info_t *info);

static void write_array(FILE *out, const pmix_data_array_t *array)
{
    fputc('[', out);
    for (size_t i = 0; i < array->size; i++) {
        fputs(0 == i ? "" : ", ", out);
        switch (array->type) {
        case PMIX_PROC: write_proc(out, (const pmix_proc_t *) array->array + i); break;
        case PMIX_INFO: write_info(out, (const pmix_info_t *) array->array + i); break;
        case PMIX_UINT32: fprintf(out, "%" PRIu32, ((const uint32_t *) array->array)[i]); break;
        default: fprintf(out, "type %u", array->type);
        }
    }
    fputc(']', out);
}

static void write_value(FILE *out, const pmix_value_t *value)
{
    switch (value->type) {
    case PMIX_STRING: write_string(out, value->data.string); break;
    case PMIX_BOOL: fputs(value->data.flag ? "true" : "false", out); break;
    case PMIX_INT: fprintf(out, "int %d", value->data.integer); break;
    case PMIX_UINT16: fprintf(out, "uint16 %" PRIu16, value->data.uint16); break;
    case PMIX_UINT32: fprintf(out, "uint32 %" PRIu32, value->data.uint32); break;
    case PMIX_UINT64: fprintf(out, "uint64 %" PRIu64, value->data.uint64); break;
    case PMIX_DOUBLE: fprintf(out, "double %.17g", value->data.dval); break;
    case PMIX_STATUS: fprintf(out, "status %d", value->data.status); break;
    case PMIX_PROC_RANK: fprintf(out, "rank %u", value->data.rank); break;
    case PMIX_PROC: write_proc(out, value->data.proc); break;
    case PMIX_BYTE_OBJECT: write_bytes(out, &value->data.bo); break;
    case PMIX_DATA_ARRAY: write_array(out, value->data.darray); break;
    default: fprintf(out, "type %u", value->type);
    }
}

static void write_info(FILE *out, const pmix_info_t *info)
{
    fprintf(out, "%s=", info->key);
    write_value(out, &info->value);
}

/* Returns the text of one value; the caller frees it. */
static inline char *value_text(const pmix_value_t *value)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    write_value(out, value);
    fclose(out);
    return text;
}

#endif
