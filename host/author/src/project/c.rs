//! A new project in C.
use peal_sandbox::Role;
use std::collections::BTreeSet;

fn part(role: Role) -> &'static str {
    match role {
        Role::EventHandler => {
            "\
// Says who raised the event, and leaves the rest to others.
static int32_t handle(const peal_event *event) {
  (void)event;
  peal_proc source;
  const char *who = peal_source(&source) ? peal_format(\"%s:%u\", source.nspace, source.rank) : \"the resource manager\";
  peal_push(\"MODULE.greeting\", peal_text(peal_format(\"well done, %s\", who)));
  return PMIX_EVENT_NO_ACTION_TAKEN;
}

PEAL_EVENT_HANDLER(handle)
"
        }
        Role::ConnectionPolicy => {
            "\
// Turns tools away, and leaves procs of jobs to others.
static peal_outcome may_connect(const peal_request *request) {
  if (request->is_tool) return peal_deny(PMIX_ERR_NO_PERMISSIONS, \"no tools today\");
  return peal_pass();
}

PEAL_CONNECTION_POLICY(may_connect)
"
        }
        Role::EventPolicy => {
            "\
// Lets no event out of its job, and leaves the rest to others.
static peal_outcome may_raise(const peal_request *request) {
  if (request->matter == PEAL_EVENT && request->range == PEAL_RANGE_GLOBAL)
    return peal_deny(PMIX_ERR_NO_PERMISSIONS, \"not so loud\");
  return peal_pass();
}

PEAL_EVENT_POLICY(may_raise)
"
        }
        Role::JobControlPolicy => {
            "\
// Lets nobody kill procs, and leaves the rest to others.
static peal_outcome may_control(const peal_request *request) {
  (void)request;
  if (peal_get(PMIX_JOB_CTRL_KILL) != NULL) return peal_deny(PMIX_ERR_NO_PERMISSIONS, \"terminate it instead\");
  return peal_pass();
}

PEAL_JOB_CONTROL_POLICY(may_control)
"
        }
        Role::LogChannel => {
            "\
// Writes the text under the channel's key to the first sink that the admin opened, as a line.
static int32_t write_line(const peal_log_request *request) {
  const char *text = peal_as_text(peal_get(request->channel));
  const char *sink = peal_first_sink();
  if (text == NULL) return PMIX_ERR_BAD_PARAM;
  if (sink == NULL) return PMIX_ERR_NOT_FOUND;
  const char *line = peal_format(\"%s\\n\", text);
  return peal_sink_write(sink, line, strlen(line));
}

PEAL_LOG_CHANNEL(write_line)
"
        }
        Role::Lifecycle => {
            "\
// Refuses to start with a setting that is wrong.
static const char *init(peal_infos config) {
  for (size_t at = 0; at < config.len; at++)
    if (strcmp(config.ptr[at].key, \"greeting\") == 0 && peal_as_text(&config.ptr[at].value) == NULL)
      return \"the setting \\\"greeting\\\" must be a string\";
  return NULL;
}

static void stop(void) {}

PEAL_LIFECYCLE(init, stop)
"
        }
    }
}

pub fn files(roles: &BTreeSet<Role>) -> Vec<(&'static str, String)> {
    let needs_strings = roles.contains(&Role::LogChannel) || roles.contains(&Role::Lifecycle);
    let strings = if needs_strings { "#include <string.h>\n" } else { "" };
    let parts: Vec<&str> = roles.iter().map(|role| part(*role)).collect();
    vec![("module.c", format!("// The module MODULE.\n#include <peal.h>\n{strings}\n{}", parts.join("\n")))]
}
