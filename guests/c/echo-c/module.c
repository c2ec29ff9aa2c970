// Returns every info of the event, pushes the names of earlier handlers, and counts its calls.
#include <peal.h>

static uint32_t calls;

static int32_t echo(const peal_event *event) {
  peal_infos infos = peal_all_infos();
  for (size_t at = 0; at < infos.len; at++) peal_push_info(infos.ptr[at]);

  const char *before = "";
  if (event->previous_count > 0) {
    peal_chain_results previous = peal_previous_results();
    for (size_t at = 0; at < previous.len; at++) before = peal_format(at == 0 ? "%s%s" : "%s %s", before, previous.ptr[at].name);
  }
  peal_push("echo.before", peal_text(before));
  peal_push("echo.calls", peal_u32(++calls));
  return PMIX_EVENT_NO_ACTION_TAKEN;
}

PEAL_EVENT_HANDLER(echo)
