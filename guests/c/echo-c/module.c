// Returns every info that the event carries, says who ran before it, and counts its calls.
#include <peal.h>

static uint32_t calls;

static int32_t echo(const peal_event *event) {
  peal_infos infos = peal_all_infos();
  for (size_t at = 0; at < infos.len; at++) peal_push_info(infos.ptr[at]);

  const char *before = "";
  if (event->step_count > 0) {
    peal_steps steps = peal_all_steps();
    for (size_t at = 0; at < steps.len; at++) before = peal_format(at == 0 ? "%s%s" : "%s %s", before, steps.ptr[at].name);
  }
  peal_push("echo.before", peal_text(before));
  peal_push("echo.calls", peal_u32(++calls));
  return PMIX_EVENT_NO_ACTION_TAKEN;
}

PEAL_EVENT_HANDLER(echo)
