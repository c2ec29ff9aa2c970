//! A new project in JavaScript.
use peal_sandbox::Role;
use std::collections::BTreeSet;

fn part(role: Role) -> &'static str {
    match role {
        Role::EventHandler => {
            "\
/** Says who raised the event, and leaves the rest to others. */
export const eventHandler = peal.eventHandler((event) => {
  const { source } = event;
  const who = source ? `${source.nspace}:${source.rank}` : \"the resource manager\";
  return peal.Outcome.noAction().with(\"MODULE.greeting\", `well done, ${who}`);
});
"
        }
        Role::ConnectionPolicy => {
            "\
/** Turns tools away, and leaves procs of jobs to others. */
export const connectionPolicy = peal.connectionPolicy((request) =>
  request.kind === \"tool\"
    ? peal.PolicyOutcome.deny(peal.status.PMIX_ERR_NO_PERMISSIONS, \"no tools today\")
    : peal.PolicyOutcome.pass(),
);
"
        }
        Role::EventPolicy => {
            "\
/** Lets no event out of its job, and leaves the rest to others. */
export const eventPolicy = peal.eventPolicy((request) =>
  request.matter === \"event\" && request.range === \"global\"
    ? peal.PolicyOutcome.deny(peal.status.PMIX_ERR_NO_PERMISSIONS, \"not so loud\")
    : peal.PolicyOutcome.pass(),
);
"
        }
        Role::JobControlPolicy => {
            "\
/** Lets nobody kill procs, and leaves the rest to others. */
export const jobControlPolicy = peal.jobControlPolicy((request) =>
  request.get(peal.key.PMIX_JOB_CTRL_KILL) !== undefined
    ? peal.PolicyOutcome.deny(peal.status.PMIX_ERR_NO_PERMISSIONS, \"terminate it instead\")
    : peal.PolicyOutcome.pass(),
);
"
        }
        Role::LogChannel => {
            "\
/** Writes the text under the channel's key to the first sink that the admin opened, as a line. */
export const logChannel = peal.logChannel((request) => {
  const [first] = sink.names();
  if (first === undefined) return new peal.Outcome(peal.status.PMIX_ERR_NOT_FOUND);
  sink.write(first, `${request.get(request.channel)}\\n`);
});
"
        }
        Role::Lifecycle => {
            "\
/** Refuses to start with a setting that is wrong. */
export const lifecycle = peal.lifecycle((config) => {
  const greeting = config.get(\"greeting\");
  if (greeting !== undefined && typeof greeting !== \"string\") {
    throw new Error('the setting \"greeting\" must be a string');
  }
});
"
        }
    }
}

pub fn files(roles: &BTreeSet<Role>) -> Vec<(&'static str, String)> {
    let sink = if roles.contains(&Role::LogChannel) { "import * as sink from \"./sdk/js/sink.js\";\n" } else { "" };
    let parts: Vec<&str> = roles.iter().map(|role| part(*role)).collect();
    vec![(
        "module.js",
        format!(
            "// The module MODULE. Integers are exact to 2^53.\n// @ts-check\nimport * as peal from \"./sdk/js/peal.js\";\n{sink}\n{}",
            parts.join("\n")
        ),
    )]
}
