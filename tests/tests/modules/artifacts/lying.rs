//! Registry that sends what a test tells it to, whatever the digests say. A real registry cannot be
//! made to do so.
use super::registry::Authority;
use peal_sandbox::Digest;
use peal_tests::{Done, daemon::Place, peal, run};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
};

/// Body of an answer.
#[derive(Clone)]
pub struct Answer {
    bytes: Vec<u8>,
    /// Length that its header says.
    said: usize,
}

impl Answer {
    /// Returns an answer with these bytes.
    pub fn whole(bytes: &[u8]) -> Answer {
        Answer {
            bytes: bytes.to_vec(),
            said: bytes.len(),
        }
    }

    /// Returns an answer that ends after `sent` of these bytes.
    pub fn cut(bytes: &[u8], sent: usize) -> Answer {
        Answer {
            bytes: bytes[..sent].to_vec(),
            said: bytes.len(),
        }
    }
}

/// Registry with one manifest and one blob.
pub struct LyingRegistry {
    place: Place,
    authority: Authority,
    port: u16,
}

impl LyingRegistry {
    /// Starts a registry that answers every request for a manifest with this one, and every request
    /// for a blob with this answer.
    pub fn start(manifest: &[u8], blob: Answer) -> LyingRegistry {
        let manifest = Answer::whole(manifest);
        LyingRegistry::serving(move |path| {
            Some(if path.contains("/manifests/") {
                manifest.clone()
            } else if path.contains("/blobs/") {
                blob.clone()
            } else {
                Answer::whole(b"{}")
            })
        })
    }

    /// Starts a registry that accepts connections and answers nothing.
    pub fn silent() -> LyingRegistry {
        LyingRegistry::serving(|_| None)
    }

    fn serving(answer: impl Fn(&str) -> Option<Answer> + Send + Sync + 'static) -> LyingRegistry {
        let authority = Authority::new();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let chain = vec![CertificateDer::from_pem_file(authority.file("server.pem")).unwrap()];
        let key = PrivateKeyDer::from_pem_file(authority.file("server.key")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let config = Arc::new(config);
        // They end with the process of the test.
        let answer = Arc::new(answer);
        thread::spawn(move || {
            for connection in listener.incoming() {
                let (config, answer) = (config.clone(), answer.clone());
                thread::spawn(move || serve(connection.unwrap(), config, &*answer));
            }
        });
        LyingRegistry {
            place: Place::new(),
            authority,
            port,
        }
    }

    /// Has `peal module pull` fetch the artefact, with this digest.
    pub fn pull(&self, pin: Option<Digest>) -> Done {
        let pin = pin.map(|pin| format!("@sha256:{pin}")).unwrap_or_default();
        self.pull_by(&pin, &[])
    }

    /// Has `peal module pull --dry-run` fetch the artefact, with this digest.
    pub fn pull_dry(&self, pin: Option<Digest>) -> Done {
        let pin = pin.map(|pin| format!("@sha256:{pin}")).unwrap_or_default();
        self.pull_by(&pin, &["--dry-run"])
    }

    /// Has `peal module pull` fetch the artefact, with this setting.
    pub fn pull_with(&self, setting: &str) -> Done {
        self.pull_by("", &["--set", setting])
    }

    fn pull_by(&self, pin: &str, options: &[&str]) -> Done {
        let ca = format!("registry.ca={}", self.authority.file("ca.pem").display());
        let mut pull = peal(["module", "pull", "--set", &ca]);
        pull.args(options)
            .arg("--file")
            .arg(self.place.path("pulled.wasm"));
        pull.arg(format!("oci://127.0.0.1:{}/report:1{pin}", self.port));
        run(&mut pull)
    }

    /// Returns true if the command has written the component.
    pub fn has_written(&self) -> bool {
        self.place.path("pulled.wasm").exists()
    }
}

/// Answers requests of one connection, which the client may end at any time.
fn serve(
    connection: TcpStream,
    config: Arc<ServerConfig>,
    answer: &dyn Fn(&str) -> Option<Answer>,
) -> Option<()> {
    let session = ServerConnection::new(config).ok()?;
    let mut stream = BufReader::new(StreamOwned::new(session, connection));
    loop {
        let mut request = String::new();
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            if stream.read_line(&mut line).ok()? == 0 {
                return None;
            }
            request.push_str(&line);
        }
        let path = request.split_whitespace().nth(1).unwrap_or_default();
        let Some(Answer { bytes, said }) = answer(path) else {
            continue;
        };
        let out = stream.get_mut();
        write!(out, "HTTP/1.1 200 OK\r\nContent-Length: {said}\r\n\r\n").ok()?;
        out.write_all(&bytes).ok()?;
        out.flush().ok()?;
        if bytes.len() < said {
            return None;
        }
    }
}
