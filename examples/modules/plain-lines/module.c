// Writes each logged text as a line with its requester to the first sink: "solver:3 text".
#include <peal.h>
#include <string.h>

static int32_t log_line(const peal_log_request *request) {
  const char *text = peal_as_text(peal_get(request->channel));
  const char *sink = peal_first_sink();
  if (text == NULL) return PMIX_ERR_BAD_PARAM;
  if (sink == NULL) return PMIX_ERR_NOT_FOUND;
  // A line end in the text could be taken for a second message.
  if (strpbrk(text, "\r\n") != NULL) return PMIX_ERR_BAD_PARAM;
  peal_proc source;
  const char *requester = peal_source(&source) ? peal_format("%s:%u", source.nspace, source.rank) : "-";
  const char *line = peal_format("%s %s\n", requester, text);
  return peal_sink_write(sink, line, strlen(line));
}

PEAL_LOG_CHANNEL(log_line)
