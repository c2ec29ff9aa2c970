//! Defaults of settings that take more than a number to say, and the units of those that are amounts.
use peal_model::key;

/// Bytes.
pub(crate) const KIB: usize = 1 << 10;
pub(crate) const MIB: usize = 1 << 20;
pub(crate) const GIB: usize = 1 << 30;

/// Credentials, and keys of encryption and of networks.
pub(crate) fn audit_secrets() -> Vec<String> {
    [
        key::PMIX_CREDENTIAL,
        key::PMIX_CRYPTO_KEY,
        key::PMIX_ALLOC_NETWORK_SEC_KEY,
    ]
    .map(|key| key.0.to_owned())
    .to_vec()
}

/// The grants that tell a tenant's module nothing that is not its own, and let it write nowhere but to what is kept for it.
pub(crate) fn tenant_grants() -> Vec<String> {
    [
        "logging",
        "clock",
        "notify",
        "registration",
        "state",
        "random",
        "wasi",
    ]
    .map(str::to_owned)
    .to_vec()
}
