//! Headless Chromium, by its DevTools protocol over a pipe: JSON messages that end with a zero byte.
use peal_tests::{browser, until};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

/// Watches every page for violations of its policy and errors of its script.
const WATCH: &str = "window.problems = [];
addEventListener('securitypolicyviolation', (of) => problems.push(`${of.violatedDirective} ${of.blockedURI}`));
addEventListener('error', (of) => problems.push(String(of.message)));";

/// Browser with one page.
pub struct Browser {
    child: Child,
    commands: ChildStdin,
    messages: BufReader<ChildStdout>,
    session: Option<String>,
    last: u64,
    address: SocketAddr,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts a browser for the console at an address.
    pub fn start(address: SocketAddr) -> Browser {
        let profile = tempfile::tempdir().unwrap();
        // The browser takes commands from descriptor 3 and answers on descriptor 4.
        let mut command = Command::new("sh");
        command.args([
            "-c",
            r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#,
        ]);
        command.arg(browser());
        command.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--remote-debugging-pipe",
        ]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut started = Browser {
            commands: child.stdin.take().unwrap(),
            messages: BufReader::new(child.stdout.take().unwrap()),
            child,
            session: None,
            last: 0,
            address,
            _profile: profile,
        };
        let page = started.call("Target.createTarget", json!({ "url": "about:blank" }));
        let target = &page["targetId"];
        let attach = json!({ "targetId": target, "flatten": true });
        let attached = started.call("Target.attachToTarget", attach);
        started.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        started.call("Page.enable", json!({}));
        // A page has the focus although no window shows it.
        started.call(
            "Emulation.setFocusEmulationEnabled",
            json!({ "enabled": true }),
        );
        let watch = json!({ "source": WATCH });
        started.call("Page.addScriptToEvaluateOnNewDocument", watch);
        started
    }

    /// Carries out a command of the protocol, and returns its result.
    #[track_caller]
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.try_call(method, params)
            .unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    fn try_call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = serde_json::to_vec(&message).unwrap();
        bytes.push(0);
        self.commands.write_all(&bytes).unwrap();
        loop {
            let mut bytes = Vec::new();
            self.messages.read_until(0, &mut bytes).unwrap();
            assert_eq!(bytes.pop(), Some(0), "the browser ended");
            let mut message: Value = serde_json::from_slice(&bytes).unwrap();
            // Others are events of the page.
            if message["id"] == self.last {
                return match message.get("error") {
                    Some(error) => Err(error.clone()),
                    None => Ok(message["result"].take()),
                };
            }
        }
    }

    /// Evaluates an expression in the page. A promise is waited for.
    #[track_caller]
    pub fn evaluate(&mut self, expression: &str) -> Value {
        self.try_evaluate(expression)
            .unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    fn try_evaluate(&mut self, expression: &str) -> Result<Value, Value> {
        let params =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut result = self.try_call("Runtime.evaluate", params)?;
        match result.get("exceptionDetails") {
            Some(thrown) => Err(thrown.clone()),
            None => Ok(result["result"]["value"].take()),
        }
    }

    /// Waits until an expression is true in the page, which may be another one by then.
    #[track_caller]
    pub fn wait_until(&mut self, expression: &str) {
        until(expression, || {
            self.try_evaluate(expression) == Ok(Value::Bool(true))
        });
    }

    /// Opens a page of the console.
    #[track_caller]
    pub fn open(&mut self, path: &str) {
        // The page before it may have the same address.
        self.evaluate("window.isLeft = true");
        let url = format!("http://{}{path}", self.address);
        self.call("Page.navigate", json!({ "url": url }));
        self.wait_until("!window.isLeft && document.readyState === 'complete'");
    }

    /// Logs in by the form.
    #[track_caller]
    pub fn log_in(&mut self, token: &str) {
        self.open("/login");
        // The browser may give the focus to the field only after the page was loaded.
        self.evaluate(&format!(
            "{{ const field = document.getElementById('token'); field.focus(); field.value = {token:?} }}"
        ));
        self.press("Enter", 13);
        self.wait_until("location.pathname === '/' && document.readyState === 'complete'");
    }

    /// Presses a key.
    pub fn press(&mut self, key: &str, code: u32) {
        let mut event =
            json!({ "type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code });
        if key == "Enter" {
            event["text"] = json!("\r");
        }
        self.call("Input.dispatchKeyEvent", event.clone());
        event["type"] = json!("keyUp");
        self.call("Input.dispatchKeyEvent", event);
    }

    /// Returns the texts of the rows of the table with a caption.
    #[track_caller]
    pub fn rows(&mut self, caption: &str) -> Vec<Vec<String>> {
        let rows = self.evaluate(&format!(
            "[...document.querySelectorAll('table')]
                .filter((table) => table.caption.textContent === {caption:?})
                .flatMap((table) => [...table.tBodies[0].rows])
                .map((row) => [...row.cells].map((cell) => cell.textContent))"
        ));
        serde_json::from_value(rows).unwrap()
    }

    /// Waits until the table with a caption has rows of which one begins like this.
    #[track_caller]
    pub fn wait_for_row(&mut self, caption: &str, first: &[&str]) {
        let what = format!("{caption} has {first:?}");
        until(&what, || {
            let rows = self.rows(caption);
            rows.iter().any(|row| {
                row.starts_with(&first.iter().map(ToString::to_string).collect::<Vec<_>>())
            })
        });
    }

    /// Returns what the page did wrong.
    pub fn problems(&mut self) -> Value {
        self.evaluate("problems")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
