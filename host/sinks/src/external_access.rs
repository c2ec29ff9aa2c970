//! Files and connections that sinks and other parts of a server need, as input for the confinement.
use crate::{
    Address, Encryption, MailSettings, SinkKind, SinkSettings, SyslogSettings, WebServiceSettings,
    WebhookSettings, WebhookUrl,
};
use std::{
    collections::BTreeSet,
    net::IpAddr,
    path::{Path, PathBuf},
};

/// Directories for the certificates of authorities; a system has only some of these.
pub const AUTHORITIES: [&str; 4] = [
    "/etc/ssl",
    "/etc/pki",
    "/etc/ca-certificates",
    "/usr/share/ca-certificates",
];

/// Directory of devices.
const DEVICES: &str = "/dev";

/// Port of name servers for replies that exceed a datagram.
const NAMES: u16 = 53;

/// Files and connections that parts of a server need.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExternalAccess {
    /// Files and directories to read.
    pub read: BTreeSet<PathBuf>,
    /// Directories in which files are created and changed.
    pub write: BTreeSet<PathBuf>,
    /// TCP ports to connect to.
    pub connect: BTreeSet<u16>,
}

impl ExternalAccess {
    /// Collects the access that these sinks need.
    pub fn of<'a>(sinks: impl IntoIterator<Item = &'a SinkSettings>) -> ExternalAccess {
        let mut reach = ExternalAccess::default();
        for sink in sinks {
            match &sink.kind {
                SinkKind::Syslog(syslog) => reach.add_syslog(syslog),
                SinkKind::Mail(mail) => reach.add_mail(mail),
                SinkKind::Webhook(webhook) => reach.add_webhook(webhook),
                SinkKind::File(file) => {
                    let dir = file.path.parent().filter(|dir| !dir.as_os_str().is_empty());
                    let dir = dir.unwrap_or(Path::new("."));
                    // Rotation renames files, so the directory is needed and not only the file. A
                    // device is not rotated, and raw disks are beside it.
                    let is_device = dir == Path::new(DEVICES);
                    let place = if is_device { &file.path } else { dir };
                    reach.write.insert(place.to_owned());
                }
            }
        }
        reach
    }

    /// Adds a server that is reached by TLS. Its certificate is verified by the authorities in a file, or
    /// by those of the system.
    pub fn add_tls_server(&mut self, host: &str, port: u16, ca: Option<&PathBuf>) {
        self.peer(host, port);
        self.authorities(ca);
    }

    fn add_syslog(&mut self, SyslogSettings { address, tls, .. }: &SyslogSettings) {
        match address {
            // The confinement restricts neither Unix sockets nor, below, UDP.
            Address::Unix(_) => {}
            Address::Udp(peer) => self.name(&peer.host),
            Address::Tcp(peer) => self.peer(&peer.host, peer.port),
            Address::Tls(peer) => {
                self.add_tls_server(&peer.host, peer.port, tls.ca.as_ref());
                self.read
                    .extend(tls.identity.iter().flat_map(|credentials| {
                        [credentials.certificate.clone(), credentials.key.clone()]
                    }));
            }
        }
    }

    fn add_mail(&mut self, mail: &MailSettings) {
        for server in mail.allowed_servers.iter().chain([&mail.server]) {
            self.peer(&server.host, server.port);
        }
        if mail.encryption != Encryption::None {
            self.authorities(mail.ca.as_ref());
        }
        self.read.extend(
            mail.credentials
                .iter()
                .map(|credentials| credentials.password_file.clone()),
        );
    }

    /// Adds a web service.
    pub fn add_web_service(&mut self, service: &WebServiceSettings) {
        self.add_url(&service.url, service.ca.as_ref());
        self.read.extend(service.headers_file.clone());
    }

    fn add_url(&mut self, url: &WebhookUrl, ca: Option<&PathBuf>) {
        let (host, port) = (url.host(), url.port());
        if url.is_https() {
            self.add_tls_server(host, port, ca);
        } else {
            self.peer(host, port);
        }
    }

    fn add_webhook(&mut self, webhook: &WebhookSettings) {
        self.add_url(&webhook.url, webhook.ca.as_ref());
        let secrets = webhook.token_file.iter().chain(&webhook.path_file);
        self.read.extend(secrets.cloned());
    }

    fn peer(&mut self, host: &str, port: u16) {
        self.connect.insert(port);
        self.name(host);
    }

    /// Adds the port of name servers if the host is not an IP address.
    fn name(&mut self, host: &str) {
        if host.parse::<IpAddr>().is_err() {
            self.connect.insert(NAMES);
        }
    }

    fn authorities(&mut self, ca: Option<&PathBuf>) {
        match ca {
            Some(file) => self.read.extend([file.clone()]),
            None => self.read.extend(AUTHORITIES.map(PathBuf::from)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Credentials, FileSettings, TlsIdentity};
    use std::time::Duration;

    #[test]
    fn files_and_ports_of_each_sink_kind_are_known_before_opening() {
        let syslog = |address: &str| {
            let mut settings = SyslogSettings::new(address.parse().unwrap());
            let identity = TlsIdentity {
                certificate: "/c".into(),
                key: "/k".into(),
            };
            settings.tls.identity = Some(identity);
            settings.tls.ca = Some("/ca".into());
            SinkSettings::new("s", SinkKind::Syslog(settings))
        };
        let mut mail = MailSettings::new("[::1]:587".parse().unwrap(), "a@b.example");
        mail.allowed_servers.push("other:25".parse().unwrap());
        mail.credentials = Some(Credentials {
            user: "u".to_owned(),
            password_file: "/p".into(),
        });
        let mail = SinkSettings::new("m", SinkKind::Mail(Box::new(mail)));
        let webhook = |url: &str| {
            let mut settings = WebhookSettings::new(url.parse().unwrap());
            settings.token_file = Some("/t".into());
            settings.path_file = Some("/u".into());
            settings.ca = Some("/ca".into());
            SinkSettings::new("w", SinkKind::Webhook(Box::new(settings)))
        };
        let file = SinkSettings::new("f", SinkKind::File(FileSettings::new("/var/log/x.log")));
        let reach = |sink: &SinkSettings| {
            let ExternalAccess {
                read,
                write,
                connect,
            } = ExternalAccess::of([sink]);
            let texts = |paths: BTreeSet<PathBuf>| {
                paths
                    .iter()
                    .map(|path| path.display().to_string())
                    .collect::<Vec<_>>()
            };
            (
                texts(read).join(" "),
                texts(write).join(" "),
                connect.into_iter().collect::<Vec<_>>(),
            )
        };
        let none = String::new;
        assert_eq!(reach(&syslog("unix:/dev/log")), (none(), none(), vec![]));
        assert_eq!(
            reach(&syslog("udp://10.0.0.1:514")),
            (none(), none(), vec![])
        );
        assert_eq!(
            reach(&syslog("udp://loghost:514")),
            (none(), none(), vec![53])
        );
        assert_eq!(
            reach(&syslog("tcp://10.0.0.1:601")),
            (none(), none(), vec![601])
        );
        assert_eq!(
            reach(&syslog("tls://loghost:6514")),
            ("/c /ca /k".to_owned(), none(), vec![53, 6514])
        );
        let authorities = "/etc/ca-certificates /etc/pki /etc/ssl /p /usr/share/ca-certificates";
        assert_eq!(
            reach(&mail),
            (authorities.to_owned(), none(), vec![25, 53, 587])
        );
        for (url, read, ports) in [
            ("https://chat.example.org", "/ca /t /u", vec![53, 443]),
            ("https://[::1]:8443", "/ca /t /u", vec![8443]),
            ("http://127.0.0.1:8065", "/t /u", vec![8065]),
        ] {
            assert_eq!(reach(&webhook(url)), (read.to_owned(), none(), ports));
        }
        assert_eq!(reach(&file), (none(), "/var/log".to_owned(), vec![]));
        let mut collector = ExternalAccess::default();
        collector.add_web_service(&WebServiceSettings {
            url: "https://collector.example.org:4318".parse().unwrap(),
            headers_file: Some("/h".into()),
            ca: Some("/ca".into()),
            timeout: Duration::from_secs(1),
        });
        assert_eq!(collector.connect, [53, 4318].into());
        assert_eq!(collector.read, ["/ca", "/h"].map(PathBuf::from).into());
    }
}
