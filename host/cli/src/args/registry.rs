//! Command lines of `peal module push` and `pull`.
use super::{ConfigArgs, DryRunArgs};
use clap::Args as ClapArgs;
use peal_config::ArtifactReference;
use std::path::PathBuf;

pub const PUSH_HELP: &str = "\
The signature is taken from FILE.wasm.minisig, so sign first. Registries are asked by HTTPS.
registry.ca names the certificates of a registry of the site. User names and passwords come from
registry.credentials or, without it, from config.json in $DOCKER_CONFIG or ~/.docker, where
`docker login` and `wkg` have them.

With --dry-run the artefact is made and the registry is asked for the tag; nothing is uploaded.

Examples:
  peal module sign --key site.key --module quota --version 1.2.0 quota.wasm
  peal module push quota.wasm oci://registry.example/site/quota:1.2.0
  peal module push --set registry.ca=ca.pem quota.wasm oci://localhost:5000/quota:1.2.0

Then, in the configuration of a server, with the printed name:
  [[module]]
  name = \"quota\"
  path = \"oci://registry.example/site/quota:1.2.0@sha256:9f86d08...\"";

pub const PULL_HELP: &str = "\
Without a digest, the registry chooses what a tag names. The command prints the name with its
digest, by which a [[module]] pins it. With --dry-run the artefact is fetched and verified, also by
modules.trusted_keys, and nothing is written.

Examples:
  peal module pull oci://registry.example/site/quota:1.2.0   # writes quota.wasm, quota.wasm.minisig
  peal module pull --file new.wasm oci://registry.example/site/quota:1.2.0@sha256:9f86d08...
  peal module verify quota.wasm && peal module inspect quota.wasm
  sudo -u peal peal module pull --store oci://registry.example/site/quota:1.2.0@sha256:9f86d08...";

fn reference(text: &str) -> Result<ArtifactReference, peal_config::ReferenceError> {
    text.parse()
}

/// `peal module push`.
#[derive(ClapArgs)]
pub struct Push {
    /// Component
    #[arg(value_name = "FILE.wasm", value_hint = clap::ValueHint::FilePath)]
    pub file: PathBuf,
    /// Name of the artefact: oci://REGISTRY/NAME:TAG
    #[arg(value_name = "REFERENCE", value_parser = reference)]
    pub reference: ArtifactReference,
    /// Say that the component was built from the source at URL
    #[arg(long, value_name = "URL")]
    pub source: Option<String>,
    /// Say that the component was built from REVISION of that source
    #[arg(long, value_name = "REVISION")]
    pub revision: Option<String>,
    /// Configuration with the settings of registries.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Dry run.
    #[command(flatten)]
    pub dry_run: DryRunArgs,
}

/// `peal module pull`.
#[derive(ClapArgs)]
pub struct Pull {
    /// Name of the artefact: oci://REGISTRY/NAME:TAG, or oci://REGISTRY/NAME:TAG@sha256:DIGEST
    #[arg(value_name = "REFERENCE", value_parser = reference)]
    pub reference: ArtifactReference,
    /// Write the component to FILE.wasm, which must not exist; default: the last part of the name
    #[arg(long, value_name = "FILE.wasm", value_hint = clap::ValueHint::FilePath, conflicts_with = "store")]
    pub file: Option<PathBuf>,
    /// Put the artefact into the store of this site's server, which then fetches nothing. Run the
    /// command as the user of the server
    #[arg(long)]
    pub store: bool,
    /// Configuration with the settings of registries.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Dry run.
    #[command(flatten)]
    pub dry_run: DryRunArgs,
}
