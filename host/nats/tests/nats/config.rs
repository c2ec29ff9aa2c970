//! Configurations of NATS servers, as the real NATS server reads them.
use crate::support::{nats_server, prepared};
use peal_needs::needs;
use std::process::Command;

#[needs(nats)]
#[test]
fn nats_server_accepts_written_configurations() {
    let directory = tempfile::tempdir().unwrap();
    let alone = directory.path().join("one");
    let three = directory.path().join("three");
    let sites = [
        prepared(&alone, vec!["tls://[::1]:4222".parse().unwrap()]),
        prepared(
            &three,
            ["tls://nats1.example.org", "tls://10.0.0.2:4333", "tls://n3"]
                .map(|server| server.parse().unwrap())
                .to_vec(),
        ),
    ];
    for site in sites {
        for server in &site.servers {
            let mut check = Command::new(nats_server());
            check
                .args(["-t", "-c", "nats-server.conf"])
                .current_dir(site.server_directory(server));
            let checked = check.output().unwrap();
            let told = String::from_utf8_lossy(&checked.stderr);
            assert!(checked.status.success(), "{server}: {told}");
            // The check tells of keys and values that the server does not know.
            assert!(
                told.contains("is valid") && !told.contains("unknown"),
                "{told}"
            );
        }
    }
}
