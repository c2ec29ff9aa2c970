//! A new project in Python.
use peal_sandbox::Role;
use std::collections::BTreeSet;

/// The code for a role, and its test.
fn part(role: Role) -> (&'static str, &'static str) {
    match role {
        Role::EventHandler => (
            "\
@peal.event_handler
def handle(event):
    \"\"\"Says who raised the event, and leaves the rest to others.\"\"\"
    who = event.source or \"the resource manager\"
    return peal.no_action().add(\"MODULE.greeting\", f\"well done, {who}\")
",
            "\
    def test_whoever_raised_it_is_greeted(self):
        event = peal.Event(peal.status.PMIX_ERR_PROC_ABORTED, source=peal.Proc(\"job\", 3))
        self.assertEqual(module.handle(event).infos, [peal.Info(\"MODULE.greeting\", \"well done, job:3\")])
",
        ),
        Role::ConnectionPolicy => (
            "\
@peal.connection_policy
def may_connect(request):
    \"\"\"Turns tools away, and leaves procs of jobs to others.\"\"\"
    if request.kind == \"tool\":
        return peal.deny(peal.status.PMIX_ERR_NO_PERMISSIONS, \"no tools today\")
    return peal.pass_()
",
            "\
    def test_tools_are_turned_away(self):
        self.assertEqual(module.may_connect(peal.Request(\"connection\", kind=\"tool\")).says, \"deny\")
        self.assertEqual(module.may_connect(peal.Request(\"connection\", kind=\"client\")).says, \"pass\")
",
        ),
        Role::EventPolicy => (
            "\
@peal.event_policy
def may_raise(request):
    \"\"\"Lets no event out of its job, and leaves the rest to others.\"\"\"
    if request.matter == \"event\" and request.range == peal.Range.GLOBAL:
        return peal.deny(peal.status.PMIX_ERR_NO_PERMISSIONS, \"not so loud\")
    return peal.pass_()
",
            "\
    def test_an_event_for_everybody_is_denied(self):
        for range, says in ((peal.Range.GLOBAL, \"deny\"), (peal.Range.NAMESPACE, \"pass\")):
            self.assertEqual(module.may_raise(peal.Request(\"event\", code=-3001, range=range)).says, says)
",
        ),
        Role::JobControlPolicy => (
            "\
@peal.job_control_policy
def may_control(request):
    \"\"\"Lets nobody kill procs, and leaves the rest to others.\"\"\"
    if request.get(peal.key.PMIX_JOB_CTRL_KILL) is not None:
        return peal.deny(peal.status.PMIX_ERR_NO_PERMISSIONS, \"terminate it instead\")
    return peal.pass_()
",
            "\
    def test_killing_is_denied(self):
        kill = peal.Info(peal.key.PMIX_JOB_CTRL_KILL, True)
        self.assertEqual(module.may_control(peal.Request(\"job-control\", directives=[kill])).says, \"deny\")
        self.assertEqual(module.may_control(peal.Request(\"job-control\")).says, \"pass\")
",
        ),
        Role::LogChannel => (
            "\
def line(request):
    \"\"\"The text under the channel's key, as a line.\"\"\"
    return f\"{request.get(request.channel)}\\n\"


@peal.log_channel
def log(request):
    \"\"\"Writes it to the first sink that the admin opened.\"\"\"
    names = sink.names()
    if not names:
        return peal.Outcome(peal.status.PMIX_ERR_NOT_FOUND)
    sink.write(names[0], line(request))
",
            "\
    def test_a_line_is_the_text_under_the_channels_key(self):
        text = peal.Info(peal.key.PMIX_LOG_STDERR, \"hello\")
        self.assertEqual(module.line(peal.LogRequest(peal.key.PMIX_LOG_STDERR, infos=[text])), \"hello\\n\")
",
        ),
        Role::Lifecycle => (
            "\
@peal.init
def init(config):
    \"\"\"Refuses to start with a setting that is wrong.\"\"\"
    if not isinstance(config.get(\"greeting\", \"\"), str):
        raise ValueError('the setting \"greeting\" must be a string')
",
            "\
    def test_a_wrong_setting_is_refused(self):
        self.assertRaises(ValueError, module.init, {\"greeting\": 7})
        self.assertIsNone(module.init({}))
",
        ),
    }
}

pub fn files(roles: &BTreeSet<Role>) -> Vec<(&'static str, String)> {
    let sink = if roles.contains(&Role::LogChannel) { "from peal import sink\n" } else { "" };
    let code: Vec<&str> = roles.iter().map(|role| part(*role).0).collect();
    let tests: Vec<&str> = roles.iter().map(|role| part(*role).1).collect();
    vec![
        ("module.py", format!("\"\"\"The module MODULE.\"\"\"\nimport peal\n{sink}\n\n{}", code.join("\n\n"))),
        (
            "test_module.py",
            format!(
                "\"\"\"Any Python runs these: PYTHONPATH=sdk/python python3 -m unittest\"\"\"\nimport unittest\n\nimport module\nimport \
                 peal\n\n\nclass Tests(unittest.TestCase):\n{}",
                tests.join("\n")
            ),
        ),
    ]
}
