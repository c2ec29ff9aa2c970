//! A real rsyslog, with a configuration and files of its own in a temporary directory.
use super::{Certificates, Process, free_port, test_server_file, until};
use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
};

/// Addresses and output files of an rsyslog server, which may be stopped and started.
pub struct Rsyslog {
    dir: tempfile::TempDir,
    pub certificates: Certificates,
    pub udp: u16,
    pub tcp: u16,
    pub tls: u16,
    running: Option<Process>,
}

impl Rsyslog {
    /// One that does not run yet.
    pub fn new() -> Rsyslog {
        let certificates = Certificates::new();
        let dir = tempfile::tempdir().unwrap();
        let udp = free_port();
        let tcp = free_port();
        let tls = free_port();
        let all = Rsyslog {
            dir,
            certificates,
            udp,
            tcp,
            tls,
            running: None,
        };
        fs::write(all.file("rsyslog.conf"), all.configuration()).unwrap();
        all
    }

    pub fn started() -> Rsyslog {
        let mut all = Rsyslog::new();
        all.start();
        all
    }

    /// A file of its directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn configuration(&self) -> String {
        let dir = self.dir.path().display();
        let pem = |name: &str| self.certificates.file(name).display().to_string();
        let Rsyslog { udp, tcp, tls, .. } = self;
        let mut text = format!(
            r#"global(workDirectory="{dir}" maxMessageSize="64k" parser.escapeControlCharactersOnReceive="on"
    defaultNetstreamDriverCAFile="{}" defaultNetstreamDriverCertFile="{}" defaultNetstreamDriverKeyFile="{}")
template(name="parts" type="string" string="%pri%|%timereported:::date-rfc3339%|%hostname%|%app-name%|%procid%|%msgid%|%structured-data%|%msg%\n")
module(load="imuxsock" SysSock.Use="off")
module(load="imudp")
module(load="imtcp")
input(type="imuxsock" Socket="{dir}/log" UseSpecialParser="off" ParseHostname="on" RateLimit.Interval="0"
    IgnoreTimestamp="off" UseSysTimeStamp="off" ruleset="unix")
input(type="imudp" address="127.0.0.1" port="{udp}" ruleset="udp")
input(type="imtcp" address="127.0.0.1" port="{tcp}" ruleset="tcp")
input(type="imtcp" address="127.0.0.1" port="{tls}" ruleset="tls" StreamDriver.Name="gtls" StreamDriver.Mode="1"
    StreamDriver.AuthMode="x509/name" PermittedPeer=["client.test"])
"#,
            pem("ca.pem"),
            pem("server.pem"),
            pem("server.key")
        );
        for way in ["unix", "udp", "tcp", "tls"] {
            text += &format!(
                "ruleset(name=\"{way}\") {{ action(type=\"omfile\" file=\"{dir}/{way}.out\" template=\"parts\") }}\n"
            );
        }
        text
    }

    /// Starts it and waits until it listens everywhere.
    pub fn start(&mut self) {
        let unpacked = test_server_file("rsyslog");
        let libraries: Vec<PathBuf> = directories(&unpacked.join("usr/lib"));
        let libraries = libraries
            .iter()
            .find(|dir| dir.join("rsyslog").is_dir())
            .expect("rsyslog has no modules");
        let mut command = Command::new(unpacked.join("usr/sbin/rsyslogd"));
        command
            .arg("-n")
            .arg("-f")
            .arg(self.file("rsyslog.conf"))
            .arg("-i")
            .arg(self.file("pid"));
        command
            .arg("-M")
            .arg(libraries.join("rsyslog"))
            .env("LD_LIBRARY_PATH", libraries);
        self.running = Some(Process::start(&mut command));
        until("rsyslog listens", || {
            let listens = |port: u16| TcpStream::connect(("127.0.0.1", port)).is_ok();
            self.file("log").exists()
                && listens(self.tcp)
                && listens(self.tls)
                && self.takes_datagrams()
        });
    }

    fn takes_datagrams(&self) -> bool {
        let table = fs::read_to_string("/proc/net/udp").unwrap();
        table.contains(&format!("0100007F:{:04X} ", self.udp))
    }

    pub fn stop(&mut self) {
        self.running = None;
        // What a killed one leaves behind nobody listens to.
        let _ = fs::remove_file(self.file("log"));
    }

    /// Returns the messages received over one transport: `unix`, `udp`, `tcp` or `tls`.
    pub fn lines(&self, way: &str) -> Vec<String> {
        let text = fs::read_to_string(self.file(&format!("{way}.out"))).unwrap_or_default();
        // What has no end yet is still being written.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(str::to_owned).collect()
    }
}

fn directories(parent: &Path) -> Vec<PathBuf> {
    fs::read_dir(parent)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect()
}
