//! TLS, and certificates of clients.
use crate::{
    http::{Answer, connect, exchange, get, post},
    site::{ADMIN, VIEWER, console_address, settings, write_secret},
};
use peal_needs::needs;
use peal_tests::daemon::{Daemon, Place};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName},
};
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
};

/// Authority with its key.
type Authority = CertifiedIssuer<'static, KeyPair>;

/// Certificate with its key, both in DER.
type Identity = (CertificateDer<'static>, PrivateKeyDer<'static>);

fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn signed(authority: &Authority) -> (rcgen::Certificate, KeyPair) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    (params.signed_by(&key, authority).unwrap(), key)
}

fn identity(authority: &Authority) -> Identity {
    let (certificate, key) = signed(authority);
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    (certificate.der().clone(), key)
}

/// Server whose console has TLS.
struct TlsSite {
    _place: Place,
    _daemon: Daemon,
    address: SocketAddr,
    authority: Authority,
    clients: Authority,
}

impl TlsSite {
    fn start() -> TlsSite {
        let place = Place::new();
        let (authority, clients) = (authority(), authority());
        let (certificate, key) = signed(&authority);
        fs::write(place.path("console.pem"), certificate.pem()).unwrap();
        write_secret(&place, "console-key.pem", &key.serialize_pem());
        fs::write(place.path("clients.pem"), clients.pem()).unwrap();
        let files = ["console.pem", "console-key.pem", "clients.pem"].map(|name| place.path(name));
        place.configure(&format!(
            "{}certificate = {:?}\nprivate_key = {:?}\nclient_ca = {:?}\n",
            settings(&place),
            files[0],
            files[1],
            files[2]
        ));
        let mut daemon = place.start();
        let address = console_address(&mut daemon);
        TlsSite {
            _place: place,
            _daemon: daemon,
            address,
            authority,
            clients,
        }
    }

    fn connect(&self, identity: Option<Identity>) -> StreamOwned<ClientConnection, TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.der().clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match identity {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => config
                .with_client_auth_cert(vec![certificate], key)
                .unwrap(),
        };
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        StreamOwned::new(connection, connect(self.address))
    }

    #[track_caller]
    fn get(&self, path: &str, identity: Option<Identity>) -> Answer {
        let request = get(path).with("host", "localhost");
        exchange(self.connect(identity), request, self.address)
    }
}

#[needs(prepared)]
#[test]
fn certificate_or_token_opens_pages_and_wrong_ones_do_not() {
    let site = TlsSite::start();
    site.get("/modules", None).expect(401);
    let page = site
        .get("/modules", Some(identity(&site.clients)))
        .expect(200);
    assert!(page.body.contains("viewer"), "{page:?}");
    // The console's own authority signs no clients.
    for wrong in [identity(&site.authority), identity(&authority())] {
        let mut stream = site.connect(Some(wrong));
        let request = get("/").with("host", "localhost").bytes(site.address);
        let sent = stream.write_all(&request);
        let mut answer = Vec::new();
        let read = sent.and_then(|()| stream.read_to_end(&mut answer));
        assert!(read.is_err() && answer.is_empty(), "{read:?} {answer:?}");
    }
    let form = post("/login", &format!("token={VIEWER}")).with("host", "localhost");
    let answer = exchange(site.connect(None), form, site.address).expect(303);
    let field = answer.field("set-cookie").unwrap();
    assert!(
        field.starts_with("__Host-peal-console=") && field.contains("; Secure"),
        "{field}"
    );
}

#[needs(prepared)]
#[test]
fn certificate_alone_changes_nothing() {
    let site = TlsSite::start();
    let change = post("/modules/change", "verb=deploy").with("host", "localhost");
    let viewer = site.connect(Some(identity(&site.clients)));
    exchange(viewer, change.clone(), site.address).expect(403);
    let change = change.with("authorization", format!("Bearer {ADMIN}"));
    let admin = site.connect(Some(identity(&site.clients)));
    exchange(admin, change, site.address).expect(200);
}
